"""dump prints what faulthandler in the target prints."""
import json
import os
import re
import signal

import harness
from harness import Target, check, each, each_python, enough, equal
from machine import cgroup

BESIDE = True

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
        state = re.match(r"Thread \d+ \((\w+)", line)
        if state:
            found.setdefault(state[1], []).append([])
            last = found[state[1]][-1]
        elif line.startswith("    "):
            last.append(line.strip())
    return found


def sleeps(pid):
    """In a call that does, of time.sleep() from 3.11 on, or before; State S is who waits for the GIL, too."""
    with open("/proc/%d/syscall" % pid) as file:
        return file.read().split()[0] in {"x86_64": ("230", "270", "23")}.get(os.uname().machine, ("115", "72"))


@harness.one_python
def test_dump_shows_native_frames_of_who_waits_and_who_runs(py):
    path = os.path.join(harness.folder(), "waiting.py")
    with open(path, "w") as file:
        file.write(WAITING)
    target = Target(py, path)
    harness.until(lambda: sleeps(target.pid), "the main thread sleeps")
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


INTERPRETER = """
import time
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    interpreters = None
print("READY {}", flush=True)
if interpreters:
    interpreters.run_string(interpreters.create(), "import time; time.sleep(1000)")
time.sleep(1000)
"""


@each(py=harness.wanted_pythons() + harness.older_pythons())
def test_dump_shows_native_frames_of_who_waits_where_nothing_tells_the_python_ones(py):
    """Of two interpreters' states up to 3.10, while neither runs (docs/PYTHONS.md)."""
    path = os.path.join(harness.folder(), "interpreter.py")
    with open(path, "w") as file:
        file.write(INTERPRETER)
    target = Target(py, path)
    harness.until(lambda: harness.status(target.pid)["State"][0] == "S", "the main thread sleeps")
    out = harness.pysampled("dump", "-p", target.pid).ok().out
    frames, = threads_of(out)["idle"]
    check(not any(line.startswith("[native") for line in frames), "it waits: %s", out)
    check(frames[1].lstrip("_").startswith(("select", "clock_nanosleep", "libc")), "where it waits: %s", out)


KEYS = {"pid", "python", "exe", "threads", "tasks", "greenlets"}
THREAD_KEYS = {"tid", "name", "os_name", "state", "gil", "waits_in", "frames"}
FRAME_KEYS = {"kind", "name", "file", "line", "module", "offset", "locals"}


def as_text(frame):
    """A frame as dump prints it."""
    if frame["line"]:
        return "%s (%s:%d)" % (frame["name"], frame["file"], frame["line"])
    return frame["name"]


@each_python
def test_json_says_what_the_text_says(py):
    target = Target(py, "threads.py", os.path.join(harness.folder(), "stacks.txt"))
    settle(target, len(target.info["names"]))
    text = harness.pysampled("dump", target.pid).ok().out
    process, = json.loads(harness.pysampled("dump", "--json", "-p", target.pid).ok().out)
    equal(set(process), KEYS, "keys")
    equal((process["pid"], process["exe"]), (target.pid, os.readlink("/proc/%d/exe" % target.pid)), "process")
    check(("CPython %s (" % process["python"]) in text, "%s in %s", process["python"], text)
    stacks = [s[1:] for s in re.split(r"^Thread ", text, flags=re.M) if s]
    equal(len(process["threads"]), len(stacks) - 1, "threads")
    for thread, printed in zip(process["threads"], stacks[1:]):
        equal(set(thread), THREAD_KEYS, "keys of a thread")
        check(all(set(frame) == FRAME_KEYS for frame in thread["frames"]), "keys of frames: %s", thread["frames"])
        lines = [line.strip() for line in printed.splitlines()[1:]]
        waits = [line for line in lines if line.startswith("[waits in ")]
        equal([thread["waits_in"]], [line[10:-1].partition(",")[0] for line in waits], "waits in")
        equal([as_text(frame) for frame in thread["frames"]], [line for line in lines if line not in waits], "frames")
    equal(sorted(thread["tid"] for thread in process["threads"]), harness.tasks(target.pid), "tids")


def true_file(pid, address):
    """(file, offset there) of an address of a process."""
    with open("/proc/%d/maps" % pid) as maps:
        for line in maps:
            lo, hi = (int(x, 16) for x in line.split()[0].split("-"))
            if lo <= address < hi:
                return line.split()[5], address - lo + int(line.split()[2], 16)
    raise AssertionError("nothing is mapped at %x" % address)


@harness.one_python
def test_native_frames_tell_their_module_and_offset(py):
    target = Target(py, "parked.py", extensions=())
    settle(target, 4)
    process, = json.loads(harness.pysampled("dump", "--json", target.pid).ok().out)
    for thread in process["threads"]:
        with open("/proc/%d/task/%d/syscall" % (target.pid, thread["tid"])) as file:
            pc = int(file.read().split()[-1], 16)
        leaf = thread["frames"][0]
        equal(leaf["kind"], "native", "the innermost frame")
        equal((leaf["module"], leaf["offset"]), true_file(target.pid, pc), "where the innermost frame is")


WEIRD = """
import sys, threading
def body():
    sys.stdin.read()
code = body.__code__.replace(co_name=NAME, co_qualname=NAME, co_filename=NAME)
thread = threading.Thread(target=type(body)(code, globals()), name=NAME)
thread.start()
print("READY {}", flush=True)
"""


NAMES = {
    "quotes": 'quote " and \\ back',
    "surrogates": "\udcff\ud800 surrogates",
    "controls": "tab\t bell\x07 esc\x1b[31m",
    "wide": "\u20ac\U0001f40d\u2028",
    "long": "n" * 1000,
}


@each(what=sorted(NAMES))
def test_json_holds_any_name(what):
    py, name = harness.newest_python(), NAMES[what]
    path = os.path.join(harness.folder(), "weird.py")
    with open(path, "w") as file:
        file.write("NAME = %a\n%s" % (name, WEIRD))
    target = Target(py, path, extensions=())
    harness.until(lambda: len(harness.tasks(target.pid)) == 2, "two threads")
    settle(target, 2)
    process, = json.loads(harness.pysampled("dump", "--json", target.pid).ok().out)
    frames = [f for t in process["threads"] for f in t["frames"] if f["kind"] == "python"]
    found = [f["name"] for f in frames if f["file"] != path and "threading.py" not in f["file"]]
    equal(len(found), 1, "functions of that name in %s" % frames)
    equal([c for c in found[0] if c.isalnum() and c.isascii()], [c for c in name if c.isalnum() and c.isascii()], "letters of the name")
    found[0].encode()  # no lone surrogate


@harness.one_python
def test_dump_of_several_processes(py):
    targets = [Target(py, "parked.py", extensions=()) for _ in range(3)]
    pids = [target.pid for target in targets]
    for target in targets:
        settle(target, 4)
    for args in (["-p", "%d,%d" % (pids[0], pids[1]), "-p", pids[2]], pids, ["-p", "%d,%d,%d," % tuple(pids)],
                 ["%d," % pid for pid in pids], [pids[0], "-p", "%d,%d,%d" % (pids[1], pids[2], pids[0])]):
        found = [p["pid"] for p in json.loads(harness.pysampled("dump", "--json", *args).ok().out)]
        equal(sorted(found), sorted(pids), "processes, once each, of %s" % args)
        text = harness.pysampled("dump", *args).ok().out
        equal(sorted(int(n) for n in re.findall(r"^Process (\d+):", text, re.M)), sorted(pids), "processes of %s" % args)


@harness.one_python
def test_one_that_is_gone_spoils_no_other(py):
    target = Target(py, "parked.py", extensions=())
    settle(target, 4)
    gone = harness.start(["true"])
    gone.wait()
    run = harness.pysampled("dump", "--json", gone.pid, target.pid).ok(3)
    equal([p["pid"] for p in json.loads(run.out)], [target.pid], "processes")
    check(str(gone.pid) in run.err, "not named: %s", run.err)
    equal(harness.pysampled("dump", "--json", gone.pid).ok(3).out, "", "of none")


@each(options=["--locals", "--async", "--core x", "-p 1,,2", "-p ,", "-p 1,,", "-p ,1", "-p x,1", "1,x", "--json=x",
               "-p 1 --native --no-native", "-p 1 --no-native --native=full"])
def test_dump_refuses_what_it_can_not_do(options):
    harness.refused(2, "dump", *options.split())


@each(controller=["freezer", "v2"])
def test_a_frozen_process_is_called_frozen(controller):
    """As docker pause freezes it: dump says so, and doctor, and record, which has no samples of it."""
    path, _ = cgroup(controller)
    target = Target(harness.newest_python(), "threadnames.py", extensions=())
    harness.write(os.path.join(path, "cgroup.procs"), str(target.pid))
    file, frozen, thawed = ("cgroup.freeze", "1", "0") if controller == "v2" else ("freezer.state", "FROZEN", "THAWED")
    told = re.compile(r"^Thread \d+ \(([a-z ]*)[,)]", re.M)
    check("frozen" not in told.findall(harness.pysampled("dump", "-p", target.pid).ok().out), "before it is frozen")
    harness.write(os.path.join(path, file), frozen)
    try:
        harness.until(lambda: harness.status(target.pid)["State"][0] in "SD", "it sleeps")
        if controller == "v2":
            harness.until(lambda: "frozen 1" in open(os.path.join(path, "cgroup.events")).read(), "it is frozen")
        text = harness.pysampled("dump", "-p", target.pid).ok().out
        threads = json.loads(harness.pysampled("dump", "--json", "-p", target.pid).ok().out)[0]["threads"]
        run = harness.pysampled("-p", target.pid, "-d", 0.3, home=harness.folder()).ok()
        doctor = harness.pysampled("doctor", "-p", target.pid).ok()
    finally:
        harness.write(os.path.join(path, file), thawed)
    equal(set(told.findall(text)), {"frozen"}, "states of threads: %s" % text)
    equal({thread["state"] for thread in threads}, {"stopped"}, "states in JSON")
    check("process %d is frozen by its cgroup" % target.pid in run.err, "%s", run)
    check("process %d is frozen by its cgroup" % target.pid in doctor.out, "what doctor says: %s", doctor.out)
