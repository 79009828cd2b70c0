"""A process's number may be another's by now: what is read and sampled is never that one's."""
import os
import resource
import subprocess

import harness
from harness import Recorder, Target, check, each, enough, equal, one_python

STRANGER = "def stranger():\n while True: pass\nstranger()"


def build(name, *options):
    harness.need_command("cc")
    out = os.path.join(harness.folder(), name)
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", os.path.join(harness.TARGETS, name + ".c"), "-o", out, *options],
                   check=True)
    return out


def take_over(target):
    """Ends the target, and has a stranger get its number."""
    command = [build("takepid"), str(target.pid), harness.debian_python().path, "-c", STRANGER]
    target.process.kill()
    target.process.wait()
    taken = harness.start(command, stdout=subprocess.PIPE).stdout.readline()
    if int(taken) != target.pid:
        raise harness.Skip("the kernel gives no number that is asked for, or somebody was faster")
    harness.works(target.pid, 0.1)


def recorder_that_waits(*args, begin=Recorder):
    """It has looked at its targets, and goes on when the second of what is returned is closed."""
    said, say = os.pipe()
    go, end = os.pipe()
    ours = {"LD_PRELOAD": build("waits", "-shared", "-fPIC"), "WAITS_SAY": str(say), "WAITS_GO": str(go)}
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    for key, value in ours.items():
        os.environ[key] = value
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))  # it raises its limit only where that is lower
        record = begin(*args, pass_fds=(say, go))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for key in ours:
            del os.environ[key]
    os.close(say)
    os.close(go)
    equal(os.read(said, 1), b"", "what it says")
    os.close(said)
    return record, end


@each(capture=["auto", "stop", "async"])
@one_python
def test_a_number_that_is_taken_over_before_it_is_attached_to(py, capture):
    harness.need_root()
    target, other = Target(py, "groundtruth.py", "--us", 50), Target(py, "groundtruth.py", "--us", 50)
    both = "%d,%d" % (target.pid, other.pid)
    record, begin = recorder_that_waits("-p", both, "-F", 999, "-d", 1, "--capture", capture, "-o", "a.folded")
    take_over(target)
    os.close(begin)
    run = record.wait().ok()
    stacks = harness.read_folded(os.path.join(record.home, "a.folded"))
    equal(harness.of_pid(stacks, target.pid), [], "stacks of the stranger")
    enough(harness.total(harness.of_pid(stacks, other.pid)) > 10, "too few samples of the other: %s", run)


@one_python
def test_the_only_number_that_is_taken_over(py):
    harness.need_root()
    target = Target(py, "groundtruth.py", "--us", 50)
    record, begin = recorder_that_waits("-p", target.pid, "-F", 199, "-d", 1, "--capture", "async", "-o", "a.folded")
    take_over(target)
    os.close(begin)
    run = record.wait()
    equal(run.rc, 3, "exit status of %s" % run)
    check("process %d has ended" % target.pid in run.err, "it does not say why: %s", run)


def begin_dump(*args, pass_fds):
    return harness.start([harness.PYSAMPLED, "dump", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=pass_fds)


@one_python
def test_dump_of_a_number_that_is_taken_over(py):
    """Before it samples what runs it waits."""
    harness.need_root()
    target = Target(py, "groundtruth.py", "--us", 50)
    dump, begin = recorder_that_waits("-p", str(target.pid), begin=begin_dump)
    take_over(target)
    os.close(begin)
    out, err = dump.communicate(timeout=30)
    equal((dump.returncode, out.count(b"Thread"), out.count(b"stranger")), (3, 0, 0), "exit status and threads of %r" % out)
    check(b"process %d has ended" % target.pid in err, "it does not say why: %r", err)
