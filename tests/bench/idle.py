#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What idle threads cost: a profiler's own CPU time on a target with one busy thread, alone and beside idle ones.

In each round every profiler gets one window on each of the two targets, in random order; the ratio is taken within
the round. steady: while sampling; whole: with attaching and detaching.
"""
import argparse
import os
import random
import sys
import tempfile
import time

import profilers
import runs
from stats import median

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ATTACH_S = 2  # on a busy machine
TARGET = """
import signal, sys, threading
def mix_of_work():
    while True:
        sum(range(1000))
signal.alarm(600)
for _ in range(int(sys.argv[1])):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("READY", flush=True)
mix_of_work()
"""


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--idle", type=int, default=200, help="idle threads (%(default)s)")
    add("--rate", type=int, default=100, help="in Hz (%(default)s)")
    add("--rounds", type=int, default=6)
    add("--seconds", type=float, default=4, help="of a window (%(default)s)")
    add("--python", default=sys.executable, help="interpreter of the target")
    add("--pysampled", default=os.path.join(ROOT, "build", "pysampled"), help="the binary")
    add("--built", default=os.path.join(ROOT, "build-bench"), help="where tools/bench keeps py-spy")
    return parser.parse_args()


def start(python, idle):
    process = runs.start([python, "-c", TARGET, str(idle)], stdout=runs.subprocess.PIPE)
    if process.stdout.readline() != b"READY\n":
        raise runs.Failure("the target does not start")
    return process


def window(profiler, target, given, folder):
    attached = runs.Attached(profiler, target, given.rate, folder)
    time.sleep(ATTACH_S)
    before, begin = attached.cpu_ns(), time.monotonic()
    time.sleep(given.seconds)
    steady, seconds = attached.cpu_ns() - before, time.monotonic() - begin
    done = attached.stop()
    return {"steady": steady / seconds / 1e7, "whole": done["total_ns"] / 1e6, "samples": done["samples"]}


def main():
    given = options()
    found = []
    for make in (lambda: profilers.pysampled(given.pysampled, []), lambda: profilers.py_spy(given.built)):
        try:
            found.append(make())
        except profilers.Absent as reason:
            print("one profiler is missing: %s" % reason)
    targets = {idle: start(given.python, idle) for idle in (0, given.idle)}
    seen = {(p.name, idle): [] for p in found for idle in targets}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(given.rounds):
            plan = [(p, idle) for p in found for idle in targets]
            random.shuffle(plan)
            for profiler, idle in plan:
                seen[profiler.name, idle].append(window(profiler, targets[idle], given, folder))
    print("%-10s %5s %9s %18s %14s %14s" % ("profiler", "idle", "samples", "steady, % of a CPU", "whole, CPU ms",
                                           "ratio (steady)"))
    for (name, idle), windows in seen.items():
        ratios = [w["steady"] / alone["steady"] for w, alone in zip(windows, seen[name, 0])]
        print("%-10s %5d %9d %18.2f %14.0f %14.2f" % (
            name, idle, median([w["samples"] for w in windows]), median([w["steady"] for w in windows]),
            median([w["whole"] for w in windows]), median(ratios)))


if __name__ == "__main__":
    try:
        main()
    finally:
        runs.end_all()
