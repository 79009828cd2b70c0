"""Processes in namespaces of their own: made with unshare, sampled from outside."""
import os
import re
import subprocess

import harness
import tolerances
from harness import check, each_python, need_root, one_python

BESIDE = True

PROGRAM = """
import sys, threading, time
def spin():
    while True:
        sum(range(3000))
threading.Thread(target=spin, name="in the box", daemon=True).start()
print("READY", flush=True)
time.sleep(300)
"""
# One thread a request: it has a few ms of CPU time, and ends.
SERVER = """
import threading, time
def spin(end):
    while time.thread_time() < end:
        sum(range(300))
def request():
    spin(.004)
threading.Thread(target=spin, args=(1e9,), daemon=True).start()
print("READY", flush=True)
while True:
    thread = threading.Thread(target=request)
    thread.start()
    thread.join()
    time.sleep(.02)
"""
WAYS = {"pid": ["--pid", "--fork", "--mount", "--mount-proc"], "user": ["--user", "--map-root-user", "--pid", "--fork", "--mount"]}


def inside(py, way, program=PROGRAM):
    """A Python in such namespaces: its number here."""
    harness.need_command("unshare")
    outer = harness.start(["unshare", "--kill-child"] + WAYS[way] + py.command() + ["-c", program], stdout=-1)
    line = outer.stdout.readline()
    if line != b"READY\n":
        raise harness.Skip("no such namespaces here")
    with open("/proc/%d/task/%d/children" % (outer.pid, outer.pid)) as file:
        return int(file.read().split()[0])


@one_python
def test_the_clock_of_a_time_namespace_is_refused(py):
    """Events tell their times by the kernel's own: no sample would lie in the recording."""
    need_root()
    harness.need_command("nsenter")
    ahead, alike = (("unshare", "--fork", "--kill-child", "--time", clock, "1000") for clock in ("--monotonic", "--boottime"))
    if subprocess.run([*ahead, "true"], stderr=subprocess.DEVNULL).returncode:
        raise harness.Skip("no time namespaces here")
    target = harness.Target(py, "groundtruth.py", "--us", 10)
    args = "-p", target.pid, "-e", "cpu-clock", "-d", 1, "-o", os.path.join(harness.folder(), "out.folded")
    harness.refused(1, *args, about=("time namespace is 1000 s ahead", "nsenter --time="), wrapper=ahead)
    for wrapper in alike, ahead + ("nsenter", "--time=/proc/%d/ns/time" % os.getpid()):
        run = harness.pysampled(*args, wrapper=wrapper).ok()
        harness.enough(run.n("samples"), "no samples: %s", run)


@harness.each(way=list(WAYS))
@each_python
def test_threads_in_other_namespaces_are_found_and_named(py, way):
    """Threads know themselves by numbers of their own namespace."""
    need_root()
    pid = inside(py, way)
    check(len(harness.status(pid)["NSpid"].split()) == 2, "no PID namespace: %s", harness.status(pid))
    run = harness.pysampled("dump", "-p", pid).ok()
    tid = re.search(r'^Thread (\d+) \(.*\): "in the box"$', run.out, re.M)
    check(tid and int(tid[1]) in harness.tasks(pid), "its name is not there: %s", run.out)
    check("spin (<string>" in run.out, "no stack: %s", run.out)
    home = harness.folder()
    out, page = os.path.join(home, "out.folded"), os.path.join(home, "out.html")
    run = harness.pysampled("-p", pid, "-e", "cpu-clock", "-F", 499, "-d", 1, "--threads", "-o", out, "-o", page,
                            "-o", os.path.join(home, "out.data")).ok()
    check("have mounts of their own" in run.err, "not told what perf can't open: %s", run.err)
    with open(page) as file:
        check('"parts"' not in file.read(), "source of files that are not the process's")
    stacks = harness.read_folded(out)
    named = [frames for frames, _ in stacks if frames[0].endswith("/in the box-" + tid[1])]
    harness.enough(named, "no sample of the thread: %s", stacks)
    check(any("spin (<string>:5)" in frames for frames in named), "no Python frame: %s", named[:3])


def outside(py, program):
    """The same in ours."""
    server = harness.start(py.command() + ["-c", program], stdout=-1)
    harness.equal(server.stdout.readline(), b"READY\n", "said")
    return server.pid


def tid_of(frames):
    return int(frames[0].rpartition("-")[2])


def exact_shares(pid):
    """Of a SERVER: the shares of the samples that are exact, of the thread that stays and of those that come and go."""
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-p", pid, "-e", "cpu-clock", "-F", 1999, "-d", 3, "--threads", "--hold-budget", 100, "-v", "-o", out).ok()
    # What is known of a thread has nothing to do with how busy the machine is.
    check(run.counter("torn_notready") <= tolerances.TORN_SERVER * run.n("samples"), "threads were not known: %s", run)
    stacks = harness.read_folded(out)
    stays = {tid_of(frames) for frames, _ in stacks if "request" not in ";".join(frames) and "spin (" in ";".join(frames)}
    harness.equal(len(stays), 1, "threads that stay, of %s" % stacks)
    shares = []
    for own in ([s for s in stacks if tid_of(s[0]) in stays], [s for s in stacks if tid_of(s[0]) not in stays | {pid}]):
        harness.enough(harness.total(own) >= 100, "%d samples: %s", harness.total(own), run)
        shares.append(harness.total(harness.sure(own)) / harness.total(own))
    return shares


@harness.alone
@harness.some_python(2)
def test_threads_that_live_for_milliseconds_are_exact(py):
    """The number of a new thread in its own namespace is known at its first sample, and nobody else's is forgotten."""
    need_root()
    ours = exact_shares(outside(py, SERVER))
    theirs = exact_shares(inside(py, "pid", SERVER))
    for what, i in ("thread that stays", 0), ("threads of some ms", 1):
        harness.enough(theirs[i] >= ours[i] - .03, "of the %s %.3f are exact, %.3f without a namespace", what, theirs[i], ours[i])
