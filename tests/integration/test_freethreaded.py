"""A CPython without the GIL: its threads run at the same time, and each stack is its own."""
import json
import os

import harness
import tolerances
from harness import Target, all_right, check, each, enough, equal, exact, need_fifo, rare

BESIDE = True

# A program that each thread of runs the same code objects, and changes what they hold.
SHARED = """
import json, sys, threading, time
sys.setswitchinterval(10)
def leaf(numbers):
    total = 0
    for number in numbers:
        total += number * number
    return total
def middle(numbers):
    return [leaf(numbers)]
def outer():
    while True:
        middle(list(range(200)))
for i in range(4):
    threading.Thread(target=outer, name="parallel-%d" % i, daemon=True).start()
print("READY " + json.dumps({"gil": sys._is_gil_enabled()}), flush=True)
sys.stdin.read()
"""


def shared(py):
    home = harness.folder()
    path = os.path.join(home, "shared.py")
    harness.write(path, SHARED)
    target = Target(py, path, extensions=())
    equal(target.info["gil"], False, "the GIL of the target")
    return target


@each(py=harness.free_threaded())
@each(capture=["preempt", "stop"])
def test_threads_without_the_gil_are_right(py, capture):
    need_fifo()
    target = Target(py, "groundtruth.py", "--us", 10, "--threads", 4)
    run, verdict, _ = exact(target, "-F", 1999, "--capture", capture, seconds=1)
    all_right(verdict, run)
    enough(run.n("exact") >= tolerances.EXACT_STOP * run.n("samples") - 1, "too few are exact: %s", run)


def threads_of(target, *options):
    process, = json.loads(harness.pysampled("dump", "--json", target.pid, *options).ok().out)
    return {thread["name"]: thread for thread in process["threads"]}


@each(py=harness.free_threaded())
def test_dump_shows_threads_that_run_at_once_and_no_gil(py):
    target = shared(py)
    names = ["parallel-%d" % i for i in range(4)]
    running = 0

    def look():
        nonlocal running
        threads = threads_of(target)
        check(set(names) <= set(threads), "threads: %s", sorted(threads))
        check(all(thread["gil"] is None for thread in threads.values()), "somebody has a GIL: %s", threads)
        check(all(threads[name]["state"] in ("running", "waiting") for name in names), "states: %s", threads)
        for name in names:
            frames = [f["name"] for f in threads[name]["frames"] if f["kind"] == "python"]
            check(frames[-4:] in (["outer", "Thread.run", "Thread._bootstrap_inner", "Thread._bootstrap"], []) and
                  frames[:-4] in ([], ["middle"], ["leaf", "middle"]), "stack of %s: %s", name, frames)
        running = sum(threads[name]["state"] == "running" for name in names)
        return running >= 3

    harness.until(look, "three threads that run at once")


@each(py=harness.free_threaded())
def test_code_that_all_threads_run_is_named_alike(py):
    """Each sample of each thread is one of the three stacks that there are."""
    need_fifo()
    target = shared(py)
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "-F", 1999, "-d", 1, "-o", "a.folded", "--threads", "--provenance", "exact",
                            home=home).ok()
    threads = set()
    for frames, _ in harness.read_folded(os.path.join(home, "a.folded")):
        python = [(name, line) for name, _, line in harness.python_frames(frames)]
        python = python[[name for name, _ in python].index("outer"):]
        threads.add(frames[0].partition("/")[2] or frames[0])
        check([name for name, _ in python] in (["outer"], ["outer", "middle"], ["outer", "middle", "leaf"]), "%s", frames)
        lines = {"outer": {11, 12, 13}, "middle": {9, 10}, "leaf": {4, 5, 6, 7, 8}}
        check(all(line in lines[name] for name, line in python), "lines: %s", frames)
        check(len(python) < 2 or python[0][1] == 13, "line of a caller: %s", frames)
    rare(run.n("torn"), 0, "stacks that could not be read: %s", run)
    # A read waits for who changes the process's maps, here another of its threads, which may wait for a CPU.
    enough(run.n("late") <= (1 - tolerances.EXACT) * run.n("samples"), "late: %s", run)
    enough(len(threads) == 4, "threads: %s of %s", threads, run)


@each(py=harness.free_threaded())
def test_doctor_tells_it_from_the_build_with_a_gil(py):
    target = Target(py, "parked.py", extensions=())
    out = harness.pysampled("doctor", "-p", target.pid).ok().out
    check("free-threaded)" in out, "doctor says: %s", out)
