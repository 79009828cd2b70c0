"""Processes in namespaces of their own: made with unshare, sampled from outside."""
import os
import re
import subprocess

import harness
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
WAYS = {"pid": ["--pid", "--fork", "--mount", "--mount-proc"], "user": ["--user", "--map-root-user", "--pid", "--fork", "--mount"]}


def inside(py, way):
    """A Python in such namespaces: its number here."""
    harness.need_command("unshare")
    outer = harness.start(["unshare", "--kill-child"] + WAYS[way] + py.command() + ["-c", PROGRAM], stdout=-1)
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
