# SPDX-License-Identifier: MIT
"""What many processes and threads cost each profiler: its own CPU time, attaching and detaching included, in one run beside peers.

One window a round on each target, of scale.py's programs, in random order.
"""
import random
import time
import types

import runs
import scale

TARGETS = (1, 1, 1), (1, 200, 1), (1, 2000, 1), (64, 4, 1), (64, 4, 64)  # processes, threads of each, busy processes


def window(profiler, pid, rate, seconds, folder):
    """Also of a profiler that did not get far, as a runs.Failure."""
    attached = runs.Attached(profiler, types.SimpleNamespace(pid=pid), rate, folder)
    time.sleep(seconds - profiler.settle)
    before, begin = attached.cpu_ns(), time.monotonic()
    time.sleep(seconds)
    steady, took = attached.cpu_ns() - before, time.monotonic() - begin
    done = attached.stop()
    return {"steady": steady / took / 1e7, "before": before / 1e6, "samples": done["samples"]}


def measure(profilers, python, rate, seconds, rounds, folder, say):
    """{(processes, threads, busy): {profiler: windows}}"""
    seen = {numbers: {profiler.name: [] for profiler in profilers} for numbers in TARGETS}
    for _ in range(rounds):
        for numbers in TARGETS:
            with scale.target(python, *numbers) as pid:
                for profiler in random.sample(profilers, len(profilers)):
                    try:
                        seen[numbers][profiler.name].append(window(profiler, pid, rate, seconds, folder))
                        say("%s, %s: %s" % (numbers, profiler.name, seen[numbers][profiler.name][-1]))
                    except runs.Failure as reason:
                        say("%s, %s: %s" % (numbers, profiler.name, reason))
    return seen
