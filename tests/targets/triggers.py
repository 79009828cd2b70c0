"""t_KK does four things, each on a line of its own: touch_KK writes one byte, doze_KK sleeps, collect() collects garbage,
ask() asks the kernel something.

READY's lines: {touch_KK: [[t_KK, line], ["cycle", line]], doze_KK: ..., collect_KK: ..., ask_KK: ...}; bytes: {touch_KK: address};
file: that of the native functions. Runs so many cycles for each number on stdin, then says DONE; ends at an empty line.
Usage: triggers.py [--threads N] [--fork]: the cycles run in N new threads, one after the other; then in a new child too
"""
import argparse
import ctypes
import gc
import os
import sys
import threading

import gtspin
import target

FUNCTIONS = 4


def source():
    lines, truth = [], {}

    def add(text):
        lines.append(text)
        return len(lines)

    inner = {}
    for k in range(FUNCTIONS):
        add("def t_%02d():" % k)
        add("    spin_%02d()" % k)
        for name, text in (("touch", "touch_%02d(byte_%02d)" % (k, k)), ("doze", "doze_%02d()" % k), ("collect", "collect(0)"),
                           ("ask", "ask()")):
            inner[name, k] = add("    " + text)
            add("    spin_%02d()" % k)
    add("def cycle():")
    for k in range(FUNCTIONS):
        line = add("    t_%02d()" % k)
        for name in ("touch", "doze", "collect", "ask"):
            truth["%s_%02d" % (name, k)] = [["t_%02d" % k, inner[name, k]], ["cycle", line]]
    return "\n".join(lines) + "\n", truth


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--fork", action="store_true")
    args = parser.parse_args()
    target.live()
    gtspin.calibrate(50)
    gc.disable()
    text, truth = source()
    buffer = (ctypes.c_char * (64 * FUNCTIONS))()
    addresses = {"touch_%02d" % k: ctypes.addressof(buffer) + 64 * k for k in range(FUNCTIONS)}
    namespace = dict(target.spins(), **target.spins("touch_"))
    namespace.update(target.spins("doze_"), collect=gc.collect, ask=os.getppid)
    namespace.update(("byte" + name[5:], address) for name, address in addresses.items())
    target.generated(text, "triggers_generated.py", namespace)

    def run(cycles):
        for _ in range(cycles):
            namespace["cycle"]()

    target.ready(lines=truth, bytes=addresses, file=gtspin.__file__)
    for line in iter(sys.stdin.readline, "\n"):
        threads = [threading.Thread(target=run, args=(int(line),)) for _ in range(args.threads)]
        for thread in threads:
            thread.start()
            thread.join()
        if not threads:
            run(int(line))
        if args.fork and os.fork() == 0:
            run(int(line))
            os._exit(0)
        if args.fork:
            os.wait()
        print("DONE", flush=True)


main()
