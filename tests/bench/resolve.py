# SPDX-License-Identifier: MIT
"""How many samples a second one core resolves: what the resolver of a real recording of eight busy processes was given,
played as if it came from 1 to 128 CPUs with as many times as many processes (tests/bench/resolver).

CPU time is that of the resolver's and the inbox's threads, kernel included, after a first round that reads the files. It
depends on the machine and on who else is busy; instructions, which callgrind counts, do not.
"""
import os
import re
import shutil
import subprocess

import runs

PROCESSES, HZ, SECONDS = 8, 999, 3
CPUS = 1, 8, 32, 128
COUNTED_CPUS = 8
BUSY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "busy.py")
THREADS = "--toggle-collect=resolver_main", "--toggle-collect=inbox_main"


def output(argv, **environ):
    done = subprocess.run(argv, env={**os.environ, **environ}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise runs.Failure("%s: %s" % (os.path.basename(argv[0]), done.stdout.strip()))
    return done.stdout.strip()


def record(tools, python, folder):
    """A recording of busy processes, saved to be played."""
    saved = os.path.join(folder, "saved")
    busy = [runs.start([python, BUSY, str(i)], stdout=subprocess.PIPE) for i in range(PROCESSES)]
    for process in busy:
        process.stdout.readline()
    argv = [os.path.join(tools, "pysampled_save"), "record", "-q", "-F", str(HZ), "-d", str(SECONDS),
            "-o", os.path.join(folder, "live.folded"), "-p", ",".join(str(process.pid) for process in busy)]
    summary = output(argv, PYSAMPLED_SAVE=saved)
    runs.end_all()
    return saved, summary


def instructions(replay, saved, folder, *options):
    """Of a sample, beyond what reading the files takes: the second round's alone."""
    totals = []
    for rounds in 1, 2:
        text = output(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + os.path.join(folder, "callgrind"), *THREADS,
                       replay, saved, "-c", str(COUNTED_CPUS), "-r", str(rounds), *options])
        totals.append(int(re.search(r"Collected : (\d+)", text).group(1)))
    return (totals[1] - totals[0]) / int(re.search(r"played=(\d+)", text).group(1))


PLAN = "native and Python, folded", "native and Python, perf.data", "Python only, folded"


def measure(tools, python, folder, say):
    """{name of PLAN: {CPUs: us a sample, "instructions": of a sample}}"""
    saved, summary = record(tools, python, folder)
    replay = os.path.join(tools, "resolver_replay")
    say("recorded: " + summary.splitlines()[-1])
    out = {name: os.path.join(folder, "out." + name) for name in ("folded", "data")}
    seen = {}
    for name, options in zip(PLAN, (("-o", out["folded"]), ("-o", out["data"]), ("-p", "-o", out["folded"]))):
        say("\n" + name)
        row = seen[name] = {}
        for cpus in CPUS:
            text = output([replay, saved, "-c", str(cpus), *options])
            say("  " + text)
            row[cpus] = float(re.search(r"([\d.]+) us", text)[1])
        if shutil.which("valgrind"):
            row["instructions"] = instructions(replay, saved, folder, *options)
            say("  %d CPUs: %.0f instructions a sample" % (COUNTED_CPUS, row["instructions"]))
    return seen
