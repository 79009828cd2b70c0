"""Programs that begin, and become others: from the first moment on each stack is one of the program that runs."""
import glob
import os
import re
import subprocess
import time

import harness
import tolerances
from harness import Recorder, check, each, each_python, enough, need_fifo, one_python

BESIDE = True

SCRIPT = """
import time
def in_python():
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
in_python()
"""


def python_names(stacks):
    """{name of the function that calls burn: samples}"""
    found = {}
    for frames, n in stacks:
        for frame in frames:
            name = frame.partition(" ")[0]
            if name in ("even", "odd"):
                found[name] = found.get(name, 0) + n
    return found


@one_python
def test_execs(py):
    """After an exec nothing of the old program is believed, by no reader, and the new one is found at once: before, 10 to
    18 % were torn. What is left are samples inside exec(2)."""
    need_fifo()
    home = harness.folder()
    script = os.path.join(harness.TARGETS, "execs.py")
    run = harness.pysampled("-v", "-e", "cpu-clock", "-F", 499, "-o", "a.data", "-o", "a.folded", "--", *py.command(),
                            script, 15, 0.15, home=home).ok()
    names = python_names(harness.readable(run, home))
    check(set(names) == {"even", "odd"}, "%s: %s", names, run)
    enough(sum(names.values()) >= tolerances.EXACT_CHILDREN * run.n("samples"), "%s: %s", names, run)
    enough(run.n("torn") <= tolerances.TORN_AT_EXEC * run.n("samples"), "torn after execs: %s", run)
    return "%d torn of %d" % (run.n("torn"), run.n("samples"))


OTHER_EXECS = """
import os, sys, threading, time
def even():
    while time.process_time() < until:
        sum(range(500))
if len(sys.argv) > 1:
    until = time.process_time() + 1
    even()
    os._exit(0)
print("READY", flush=True)
sys.stdin.readline()
# Its stack and what lies behind it are elsewhere, also where addresses are not random.
threading.Thread(target=os.execv, args=(sys.executable, [sys.executable, __file__, "again" * 9999])).start()
time.sleep(1000)
"""


@each(how=["--events-on cpus", "--events-on threads", "--mode wall", "-e cpu-clock,uprobe:LIBC:getppid"])
@one_python
def test_an_exec_by_another_thread_than_the_main_one(py, how):
    """That one ends, the other gets its number, and the process goes on."""
    need_fifo()
    home = harness.folder()
    harness.write(os.path.join(home, "execs.py"), OTHER_EXECS)
    target = harness.Target(py, os.path.join(home, "execs.py"))
    with open("/proc/%d/maps" % target.pid) as file:
        libc = re.search(r"/.*/libc[-.].*", file.read())[0]
    recorder = harness.Recorder("-p", target.pid, *how.replace("LIBC", libc).split(), "-F", 249, "-o", "a.folded", home=home).attached()
    target.say("go")
    run = recorder.wait().ok()
    with open(os.path.join(home, "a.folded")) as file:
        found = sum(int(line.rpartition(" ")[2]) for line in file if ";even (" in line)
    late = re.search("had run for ([0-9.]+) ms", run.err)
    least = 0.8e6 if "wall" in how else 0.8 * 249 * (1 - float(late[1]) / 1000 if late else 1)
    check("wall" in how or found < 1.5 * 249, "%d of what it did behind its exec, twice: %s", found, run)
    enough(found >= least, "%d of what it did behind its exec: %s", found, run)


def latepython(py):
    libs = glob.glob(os.path.join(os.path.dirname(os.path.dirname(py.need())), "lib", "libpython3.*.so.1.0"))
    if not libs:
        raise harness.Skip("no shared libpython of %s" % py)
    out = os.path.join(harness.folder(), "latepython")
    subprocess.run(["cc", "-O2", "-g", os.path.join(harness.TARGETS, "latepython.c"), "-o", out, "-ldl"], check=True)
    return [out, libs[0], SCRIPT]


def has_both(run, home):
    stacks = harness.readable(run, home)
    with_python = sum(n for frames, n in stacks if any("in_python" in frame for frame in frames))
    native = sum(n for frames, n in stacks if any("without_python" in frame for frame in frames))
    enough(with_python >= 100, "%d samples in Python: %s", with_python, run)
    enough(native >= 20, "%d samples before: %s", native, run)
    enough(run.n("torn") <= tolerances.TORN_AT_EXEC * run.n("samples"), "torn: %s", run)
    return "%d without Python, %d with, %d torn" % (native, with_python, run.n("torn"))


@each_python
def test_late_interpreter_of_attached(py):
    """CPython is found whenever it is mapped: before, a process that had none was never looked at again."""
    need_fifo()
    home = harness.folder()
    command = latepython(py)
    process = harness.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
    check(process.stdout.readline(), "no READY")
    record = Recorder("-v", "--any", "-p", process.pid, "-e", "cpu-clock", "-F", 499, "-o", "a.data", "-o", "a.folded",
                      home=home).recording()
    harness.works(process.pid, 0.3)
    process.stdin.write(b"go\n")
    process.stdin.flush()
    return has_both(record.wait(30).ok(), home)


@one_python
def test_late_interpreter_of_started(py):
    """After the 2 s for which one is looked for without being told by a record."""
    need_fifo()
    home = harness.folder()
    record = Recorder("-v", "-e", "cpu-clock", "-F", 499, "-o", "a.data", "-o", "a.folded", "--", *latepython(py), home=home,
                      stdin=subprocess.PIPE).attached()
    time.sleep(3.5)
    record.process.stdin.write(b"go\n")
    record.process.stdin.flush()
    return has_both(record.wait(30).ok(), home)


@one_python
def test_spawned(py):
    """multiprocessing's spawn: a fork and an exec for each process. 7 to 9 % were torn."""
    need_fifo()
    home = harness.folder()
    code = ("import multiprocessing as m, time\n"
            "def burn():\n"
            "    end = time.process_time() + 0.15\n"
            "    while time.process_time() < end: pass\n"
            "if __name__ == '__main__':\n"
            "    m.set_start_method('spawn')\n"
            "    for _ in range(8):\n"
            "        p = m.Process(target=burn); p.start(); p.join()\n")
    script = os.path.join(home, "spawn.py")
    harness.write(script, code)
    run = harness.pysampled("-v", "-e", "cpu-clock", "-F", 499, "-o", "a.data", "-o", "a.folded", "--", *py.command(),
                            script, home=home).ok()
    harness.readable(run, home)
    enough(run.n("torn") <= tolerances.TORN_AT_EXEC * run.n("samples"), "torn after execs: %s", run)
    return "%d torn of %d" % (run.n("torn"), run.n("samples"))


@one_python
def test_programs_that_end_at_once(py):
    """What they mapped tells that they have no Python: nobody can look at one that lives for a millisecond. 72 % of their
    samples were torn."""
    need_fifo()
    home = harness.folder()
    code = ("import os\n"
            "for _ in range(600):\n"
            "    os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)\n")
    run = harness.pysampled("-v", "-e", "cpu-clock", "-F", 1999, "-o", "a.data", "-o", "a.folded", "--", *py.command(),
                            "-c", code, home=home).ok()
    children = harness.total([(f, n) for f, n in harness.readable(run, home) if f[0].startswith("true-")])
    unknown = sum(int(n) for n in re.findall(r"torn_notready=(\d+)", run.err))
    enough(children > 100, "%d samples of children: %s", children, run)
    # Until their files are read for the first time they may hold anything.
    enough(unknown <= 0.1 * children, "%d of %d torn: %s", unknown, children, run)
    return "%d torn of %d" % (unknown, children)


@one_python
def test_as_many_threads_as_processes_at_least(py):
    """Of those that are there when events are opened: births before, ends and execs count as none."""
    busy = harness.start(py.command() + ["-c", "import subprocess\nprint('READY', flush=True)\nwhile True:\n"
                                         "    for one in [subprocess.Popen(['sh', '-c', ':']) for _ in range(4)]:\n        one.wait()\n"],
                         stdout=harness.subprocess.PIPE)
    busy.stdout.readline()
    for _ in range(5):
        run = harness.pysampled("-p", busy.pid, "-d", 0.1, "-o", "a.folded", home=harness.folder()).ok()
        threads, processes = map(int, re.search(r"sampling (\d+) threads? of (\d+) process", run.err).groups())
        check(1 <= processes <= threads, "%d threads of %d processes: %s", threads, processes, run)
    harness.end(busy)


@one_python
def test_pythons_that_live_shortly_at_the_default_rate(py):
    """Each has one sample or two: the first one already is read. Up to 47 % were torn."""
    need_fifo()
    home = harness.folder()
    harness.write(os.path.join(home, "short.py"), "def leaf():\n    for i in range(500000): pass\nleaf()\n")
    code = ("import subprocess, sys\n"
            "for _ in range(100):\n"
            "    subprocess.run([sys.executable, '-S', '-E', %r])\n" % os.path.join(home, "short.py"))
    run = harness.pysampled("-v", "-e", "cpu-clock", "-o", "a.data", "-o", "a.folded", "--", *py.command(), "-c", code,
                            home=home).ok()
    in_leaf = harness.total([(f, n) for f, n in harness.readable(run, home) if any(frame.startswith("leaf ") for frame in f)])
    enough(run.n("samples") > 100 and in_leaf >= 0.3 * run.n("samples"), "%d in leaf: %s", in_leaf, run)
    enough(run.n("torn") <= tolerances.TORN_AT_EXEC * run.n("samples"), "torn after execs: %s", run)
    return "%d torn of %d" % (run.n("torn"), run.n("samples"))
