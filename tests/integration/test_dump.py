"""dump prints what faulthandler in the target prints."""
import os
import re
import signal

import harness
from harness import Target, check, each_python, enough, equal

HEADER = re.compile(r"(Current thread|Thread) 0x[0-9a-f]+.*:")
FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')


def faulthandler_stacks(path, threads):
    """[[(function, file, line), …]] innermost first, once all the threads stand in the file."""
    def read():
        with open(path) as file:
            text = file.read()
        return text if len(HEADER.findall(text)) == threads and text.endswith("\n") else None
    stacks = []
    for line in harness.until(read, "faulthandler has written %d threads" % threads).splitlines():
        if HEADER.match(line):
            stacks.append([])
        match = FRAME.match(line)
        if match:
            stacks[-1].append((match[3], match[1], int(match[2])))
    return stacks


def settle(target, threads):
    """Waits until all threads of the target sleep."""
    def asleep():
        tids = harness.tasks(target.pid)
        return len(tids) == threads and all(harness.status(target.pid, t)["State"][0] == "S" for t in tids)
    harness.until(asleep, "%d sleeping threads" % threads)


def dumped_stacks(text):
    """The same from dump's text: a thread's line starts at the margin, its frames are indented."""
    stacks = []
    for line in text.splitlines():
        if line and not line[0].isspace():
            stacks.append([])
        frame = harness.python_frame(line.strip())
        if frame and line[0].isspace():
            stacks[-1].append(frame)
    return [s for s in stacks if s]


def bare(stacks):
    """faulthandler knows functions by name only, and prints no more than 100 frames."""
    return sorted([(q.rpartition(".")[2], f, n) for q, f, n in stack][:100] for stack in stacks)


@each_python
def test_dump_equals_faulthandler(py):
    path = os.path.join(harness.folder(), "stacks.txt")
    target = Target(py, "threads.py", path)
    threads = len(target.info["names"])
    settle(target, threads)
    run = harness.pysampled("dump", "-p", target.pid).ok()
    os.kill(target.pid, signal.SIGUSR1)
    want = bare(faulthandler_stacks(path, threads))
    got = bare(dumped_stacks(run.out))
    check(got, "no stack in the dump: %s", run.out)
    for mine, true in zip(got, want):
        equal(mine, true, "a thread's stack")
    equal(len(got), len(want), "threads with a Python stack")
    check(run.out.count("deep") >= 31, "the deep thread is cut short: %s", run.out)


@each_python
def test_dump_names_every_thread(py):
    target = Target(py, "threads.py", os.path.join(harness.folder(), "stacks.txt"))
    settle(target, len(target.info["names"]))
    run = harness.pysampled("dump", "-p", target.pid).ok()
    for tid in harness.tasks(target.pid):
        check("Thread %d (" % tid in run.out, "thread %d is not there: %s", tid, run.out)


@harness.one_python
def test_dump_of_a_busy_target_ends_well(py):
    target = Target(py, "groundtruth.py", "--us", 10, "--threads", 3)
    for _ in range(20):
        run = harness.pysampled("dump", "-p", target.pid).ok()
    check("cycle" in run.out or "forever" in run.out, "no stack: %s", run.out)
    harness.runs_on(target.pid)


@harness.one_python
def test_dump_of_what_is_no_python(py):
    sleeper = harness.start(["sleep", "60"])
    harness.pysampled("dump", "-p", sleeper.pid).ok(3)


WAITING = """
import threading, time
def nap(_):
    time.sleep(1000)
def spin():
    while True:
        pass
threading.Thread(target=spin, daemon=True).start()
print("READY {}", flush=True)
sorted([0], key=nap)
"""


def threads_of(text):
    """{state: [[frame or mark, …]]} of a dump."""
    found = {}
    for line in text.splitlines():
        state = re.match(r"Thread \d+ \((\w+)\)", line)
        if state:
            found.setdefault(state[1], []).append([])
            last = found[state[1]][-1]
        elif line.startswith("    "):
            last.append(line.strip())
    return found


@harness.one_python
def test_dump_shows_native_frames_of_who_waits_and_who_runs(py):
    path = os.path.join(harness.folder(), "waiting.py")
    with open(path, "w") as file:
        file.write(WAITING)
    target = Target(py, path)
    harness.until(lambda: harness.status(target.pid)["State"][0] == "S", "the main thread sleeps")
    out = harness.pysampled("dump", "-p", target.pid).ok().out
    threads = threads_of(out)
    idle, = threads["idle"]
    inside = [] if "stripped" in out.splitlines()[0] else ["list_sort"]
    want = ["[waits in clock_nanosleep", "clock_nanosleep", "nap ("] + inside + ["<module> (", "Py_RunMain", "_start"]
    places = [next((i for i, line in enumerate(idle) if line.startswith(word)), -1) for word in want]
    check(places == sorted(places) and -1 not in places, "%s in %s", places, idle)
    running, = threads["running"]
    check(any(line.startswith("spin (") for line in running), "the running thread: %s", running)
    if harness.can_fifo():
        enough("[native frames unknown: it ran, and was not sampled]" not in running, "it got no CPU for 0.3 s: %s", running)
        check(running[-1] in ("clone3", "__clone3", "clone", "__clone") or running[-1].startswith("libc.so"),
              "no root: %s", running)
    without = harness.pysampled("dump", "-p", target.pid, "--no-native").ok().out
    check("Py_RunMain" not in without and "nap (" in without, "--no-native: %s", without)
