# SPDX-License-Identifier: MIT
"""Which threads of a recording take how much CPU time, and the system calls that each makes a sample.

The times are those of /proc/PID/task/TID/schedstat, in windows without a tracer; medians of the rounds. Calls are counted by
`perf trace -s` in a window of its own: rather many where that makes the recording slow. A reader that met few samples is left out.
"""
import collections
import glob
import os
import re
import signal
import subprocess
import time
from typing import NamedTuple

import profilers
import runs
from stats import median

OPTIONS = "default", "--no-native"
NAMES = "main", "inbox", "resolver", "readers"  # in the order in which they are started
ATTACHED_S = 1
CALLS_AT_LEAST = 0.02


class Part(NamedTuple):
    start_ms: float
    us: float
    calls: str


def cpu_ns(pid):
    """By thread, the first first."""
    found = {}
    for path in glob.glob("/proc/%d/task/*/schedstat" % pid):
        with open(path) as file:
            found[int(path.split("/")[-2])] = int(file.read().split()[0])
    return dict(sorted(found.items()))


def window(binary, target, rate, seconds, folder, options, trace=False):
    """CPU time of each thread before and during the work; the samples; system calls by thread and name."""
    argv = [binary, "record", "-p", str(target.pid), "-e", "cycles", "-F", str(rate), "-o", os.path.join(folder, "parts.data"), *options]
    calls = collections.Counter()
    with open(os.path.join(folder, "parts.log"), "w+") as log:
        process = runs.start(argv, stdout=subprocess.DEVNULL, stderr=log)
        time.sleep(ATTACHED_S)
        tracer = runs.start(["perf", "trace", "-s", "-p", str(process.pid)], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE) if trace else None
        time.sleep(ATTACHED_S if trace else 0)
        before = cpu_ns(process.pid)
        target.run(target.units_in(seconds))
        after = cpu_ns(process.pid)
        if tracer:
            tracer.send_signal(signal.SIGINT)
            for text in re.split(r"\n\n (?=\S+ \()", tracer.communicate()[1].decode()):
                thread = re.match(r"\s*\S+ \((\d+)\)", text)
                for name, n in re.findall(r"^   (\w+) +(\d+) ", text, re.M) if thread else []:
                    calls[int(thread[1]), name] += int(n)
        runs.reap(process)
        log.seek(0)
        samples = int(profilers.summary_of(log.read())["samples"])
    return before, after, max(1, samples), calls


def named(threads):
    """{name: threads}: readers, one a CPU, are those behind the others."""
    return {name: threads[i:] if name == NAMES[-1] else threads[i:i + 1] for i, name in enumerate(NAMES)}


def measure(binary, python, rate, seconds, rounds, folder):
    """{options: {name of a thread: Part}}"""
    target = runs.Target([python, runs.TARGET], 7, 5)
    found = {}
    seen = {options: [] for options in OPTIONS}
    for _ in range(rounds):
        for options in OPTIONS:
            seen[options].append(window(binary, target, rate, seconds, folder, options.replace("default", "").split()))
    for options in OPTIONS:
        before, _, samples, calls = window(binary, target, rate, seconds, folder, options.replace("default", "").split(),
                                           True) if profilers.perf_runs() else ({}, {}, 1, {})
        rows = found[options] = {}
        for name, traced in named(list(before)).items():
            starts, times = [], []
            for first, last, n, _ in seen[options]:
                mine = named(list(first))[name]
                starts.append(sum(first[tid] for tid in mine) / 1e6)
                times.append(sum(last.get(tid, 0) - first[tid] for tid in mine) / 1e3 / n)
            by_name = collections.Counter()
            for (tid, call), n in calls.items():
                by_name[call] += n / samples if tid in traced else 0
            rows[name] = Part(median(starts), median(times), ", ".join(
                "%s %.2f" % (call, n) for call, n in by_name.most_common() if n >= CALLS_AT_LEAST))
    target.close()
    return found
