"""A recording is a value: several run in one process at once, and what one sees and counts is its own."""
import os
import subprocess

import harness
from harness import check, each, equal, one_python

SPINS = """
import sys
def %s(n):
    if n:
        return %s(n - 1)
    while True:
        for i in range(1000):
            pass
print("READY", flush=True)
%s(%d)
"""
FAULTS = """
import mmap
def %s(n):
    if n:
        return %s(n - 1)
    while True:
        area = mmap.mmap(-1, 64 * mmap.PAGESIZE)
        for at in range(0, len(area), mmap.PAGESIZE):
            area[at] = 1
        area.close()
print("READY", flush=True)
%s(%d)
"""


def program(py, text, name, depth):
    process = harness.start(py.command() + ["-c", text % (name, name, name, depth)], stdout=subprocess.PIPE,
                            env=harness.plain_env())
    equal(process.stdout.readline(), b"READY\n", "the first line of %s" % name)
    return process


def record(*recordings, seconds=2):
    """What `two` prints for each (process, event, capture, frames, output)."""
    path = os.path.join(harness.BUILD, "two")
    check(os.access(path, os.X_OK), "no %s", path)
    args = [str(a) for process, *rest in recordings for a in [process.pid] + rest]
    done = subprocess.run([path, str(seconds)] + args, capture_output=True, text=True, timeout=50,
                          env=harness.plain_env())
    equal(done.returncode, 0, "the exit status: %s" % done.stderr)
    lines = [dict(word.split("=") for word in line.split()) for line in done.stdout.splitlines()]
    return [{key: value if key == "capture" else int(value) for key, value in line.items()} for line in lines]


def functions(path):
    named = {name for frames, _ in harness.read_folded(path) for name, _, _ in harness.python_frames(frames)}
    return named & {"alpha", "beta"}


# Together they would need more than one SIGIO, one plan of priorities, one set of counters, one tracer.
@each(captures=[("preempt", "preempt"), ("preempt", "stop"), ("stop", "stop"), ("async", "preempt")])
@one_python
@harness.seconds(120)
def test_two_at_once_keep_apart(py, captures):
    if "preempt" in captures:
        harness.need_fifo()
    home = harness.folder()
    a, b = os.path.join(home, "a.folded"), os.path.join(home, "b.folded")
    # Only the second's stacks are cut; only the second's event is of page faults.
    one, two = record((program(py, SPINS, "alpha", 3), "cpu-clock:u", captures[0], 1024, a),
                      (program(py, FAULTS, "beta", 30), "page-faults:u", captures[1], 8, b))
    check(min(one["end"], two["end"]) - max(one["begin"], two["begin"]) > 1e9, "not at once: %s %s", one, two)
    equal((one["capture"], two["capture"]), captures, "the captures")
    for each_one in (one, two):
        check(each_one["written"] > 5, "few samples: %s", each_one)
        equal(each_one["written"], each_one["queued"] - each_one["queue_full"], "samples written and queued")
        check(each_one["opens"] > 0, "no event was opened: %s", each_one)
    equal(functions(a), {"alpha"}, "functions of the first")
    equal(functions(b), {"beta"}, "functions of the second")
    equal(one["truncated"], 0, "stacks of the first that were cut")
    check(two["truncated"] > two["written"] / 2, "stacks of the second that were cut: %s", two)
    late = {side["capture"]: side["late_capture"] for side in (one, two)}
    check(all(n == 0 for capture, n in late.items() if capture != "async"), "held, and not: %s", late)


# It took 277 s of 10,000 times and 30 runs, on two CPUs, beside others.
LEAK_SECONDS = 1200 if harness.every_pair() else 300


@harness.beside
@one_python
@harness.seconds(LEAK_SECONDS)
def test_nothing_is_left_of_a_recorder(py):
    """Made and destroyed 10,000 times, also where that fails, for each reason and at each call that can; some are run."""
    process = program(py, SPINS, "alpha", 3)
    times, runs = ("10000", "30") if harness.every_pair() else ("200", "3")
    path = os.path.join(harness.BUILD, "leak")
    check(os.access(path, os.X_OK), "no %s", path)
    done = subprocess.run([path, str(process.pid), times, runs], capture_output=True, text=True, timeout=LEAK_SECONDS - 10,
                          env=harness.plain_env())
    equal(done.returncode, 0, "the exit status: %s%s" % (done.stdout, done.stderr))
    return done.stdout.splitlines()[-1]
