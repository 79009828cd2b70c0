"""cycle -> f_KK -> g_KK -> spin_NN, each spin called from one line only; with --depth below that many more frames.

READY's truth: {spin: [[g, line], [f, line], ["cycle", line]]}, and roots; so a sample in spin_NN tells its whole stack.
Usage: groundtruth.py --us US [--depth N] [--threads N] [--idle N] [--seconds S] [--progress FILE] [--hook HOOK]
                      [--processes N]

With --processes so many are forked before they work; work begins when stdin ends, and they end without finalization.
HOOK: what instruments the code all the time, or by turns: settrace, setprofile, monitoring.
"""
import argparse
import functools
import os
import sys
import threading

import gtspin
import target

GROUPS, SPINS = 16, 4  # f_KK and g_KK; spins called by each g_KK


def source():
    """The program, and the truth about it."""
    lines, call_line, f_line, cycle_line = [], {}, {}, {}

    def add(text):
        lines.append(text)
        return len(lines)

    for k in range(GROUPS):
        add("def f_%02d():" % k)
        f_line[k] = add("    g_%02d()" % k)
        add("def g_%02d():" % k)
        for n in range(SPINS * k, SPINS * k + SPINS):
            call_line[n] = add("    spin_%02d()" % n)
    add("def cycle():")
    for i in range(GROUPS):
        k = i * 7 % GROUPS
        cycle_line[k] = add("    f_%02d()" % k)
    truth = {}
    for n, line in call_line.items():
        k = n // SPINS
        truth["spin_%02d" % n] = [["g_%02d" % k, line], ["f_%02d" % k, f_line[k]], ["cycle", cycle_line[k]]]
    return "\n".join(lines) + "\n", truth


def deep(depth, body):
    if depth > 0:
        return deep(depth - 1, body)
    return body()


def watched(hook, body, n=[0]):
    """Calls body; every 50 calls with other instrumentation."""
    n[0] += 1
    if n[0] % 50 == 1:
        HOOKS[hook](n[0] % 100 == 1)
    body()


def hook_trace(on):
    sys.settrace(trace if on else None)


def trace(*_):
    return trace


def hook_profile(on):
    sys.setprofile((lambda *_: None) if on else None)


def hook_monitoring(on):
    """With instructions in place of those that ran, on lines, jumps and calls."""
    monitoring = sys.monitoring
    if not monitoring.get_tool(3):
        monitoring.use_tool_id(3, "test")
    events = monitoring.events
    for event in (events.LINE, events.CALL, events.PY_START, events.PY_RETURN, events.INSTRUCTION):
        monitoring.register_callback(3, event, (lambda *_: None) if on else None)
    monitoring.set_events(3, events.LINE | events.CALL | events.PY_START | events.INSTRUCTION if on else 0)


HOOKS = {"settrace": hook_trace, "setprofile": hook_profile, "monitoring": hook_monitoring}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--us", type=float, default=10)
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--idle", type=int, default=0)  # threads that only wait
    parser.add_argument("--seconds", type=float, default=target.LIFE)
    parser.add_argument("--progress")
    parser.add_argument("--hook", choices=HOOKS)
    parser.add_argument("--processes", type=int)
    args = parser.parse_args()
    sys.setrecursionlimit(args.depth + 1000)
    gtspin.calibrate(args.us)
    text, truth = source()
    namespace = target.spins()
    path = target.generated(text, "groundtruth_generated.py", namespace)
    progress = target.Progress(args.progress) if args.progress else None
    body = functools.partial(watched, args.hook, namespace["cycle"]) if args.hook else namespace["cycle"]

    child = any(os.fork() == 0 for _ in range(1, args.processes or 1))
    target.live()
    begin = threading.Event()  # 200 threads that fight for the GIL would take minutes to start

    def work():
        begin.wait()
        deep(args.depth, functools.partial(target.forever, body, args.seconds, progress))

    others = [threading.Thread(target=work, name="spin-%d" % i, daemon=True) for i in range(1, args.threads)]
    for thread in others:
        thread.start()
    for _ in range(args.idle):
        threading.Thread(target=threading.Event().wait, name="idle", daemon=True).start()
    below = ([watched] if args.hook else []) + [target.forever] + [deep] * (args.depth + 1) + [work]
    if not child:
        target.ready(truth=truth, file=path, roots=[target.root(*below, main), target.root_of_thread(*below)])
    if args.processes:
        sys.stdin.read()
    begin.set()
    work()
    if args.processes:
        os._exit(0)


main()
