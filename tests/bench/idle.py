# SPDX-License-Identifier: MIT
"""What idle threads cost: a profiler's own CPU time on a target with one busy thread, alone and beside idle ones.

In each round every profiler gets one window on each of the two targets, in random order; the ratio is taken within
the round. steady: while sampling; whole: with attaching and detaching.
"""
import random
import time

import runs
from stats import median

ATTACH_S = 2  # on a busy machine
TARGET = """
import signal, sys, threading
def mix_of_work():
    while True:
        sum(range(1000))
signal.alarm(900)
for _ in range(int(sys.argv[1])):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("READY", flush=True)
mix_of_work()
"""


def start(python, idle):
    process = runs.start([python, "-c", TARGET, str(idle)], stdout=runs.subprocess.PIPE)
    if process.stdout.readline() != b"READY\n":
        raise runs.Failure("the target does not start")
    return process


def window(profiler, target, rate, seconds, folder):
    attached = runs.Attached(profiler, target, rate, folder)
    time.sleep(ATTACH_S)
    before, begin = attached.cpu_ns(), time.monotonic()
    time.sleep(seconds)
    steady, took = attached.cpu_ns() - before, time.monotonic() - begin
    done = attached.stop()
    return {"steady": steady / took / 1e7, "whole": done["total_ns"] / 1e6, "samples": done["samples"]}


def measure(profilers, python, idle, rate, seconds, rounds, folder):
    """{(profiler, idle threads): windows}, in the order of the rounds."""
    targets = {count: start(python, count) for count in (0, idle)}
    plan = [(profiler, count) for profiler in profilers for count in targets]
    seen = {(profiler.name, count): [] for profiler, count in plan}
    for _ in range(rounds):
        random.shuffle(plan)
        for profiler, count in plan:
            seen[profiler.name, count].append(window(profiler, targets[count], rate, seconds, folder))
    return seen


def ratios(seen, name, idle):
    return [beside["steady"] / alone["steady"] for beside, alone in zip(seen[name, idle], seen[name, 0])]


def table(seen):
    """Lines of text."""
    yield "%-10s %5s %9s %18s %14s %14s" % ("profiler", "idle", "samples", "steady, % of a CPU", "whole, CPU ms",
                                            "ratio (steady)")
    for (name, idle), windows in seen.items():
        yield "%-10s %5d %9d %18.2f %14.0f %14.2f" % (
            name, idle, *(median([w[key] for w in windows]) for key in ("samples", "steady", "whole")),
            median(ratios(seen, name, idle)))
