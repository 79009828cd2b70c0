"""Targets that end, exec, fork and start late: the record goes on or ends, and stays readable."""
import ctypes
import os
import re
import signal
import subprocess

import harness
from harness import Recorder, Target, check, each, each_python, enough, equal, one_python, readable
from machine import few_descriptors, need_few

BESIDE = True


def recorder(target, *args):
    return Recorder("-p", target.pid, "-F", 999, "-o", "a.data", "-o", "a.folded", *args).attached()


UNTIL_TOLD = """
import select, sys
sys.stdout.write("READY\\n")
sys.stdout.flush()
while not select.select([sys.stdin], [], [], 0)[0]:
    sum(range(1000))
"""


@each_python
def test_the_end_of_the_target_ends_the_record(py):
    path = os.path.join(harness.folder(), "until_told.py")
    harness.write(path, UNTIL_TOLD)
    target = Target(py, path)
    record = recorder(target)
    harness.works(target.pid, 1)
    target.say("end")
    run = record.wait(15).ok()
    enough(run.n("samples") > 30, "too few samples: %s", run)
    readable(run, record.home)


@harness.dealt
@each(number=["SIGKILL", "SIGSEGV"])
@each_python
def test_a_target_that_is_killed_leaves_a_whole_record(py, number):
    target = Target(py, "groundtruth.py", "--us", 50, "--threads", 3)
    record = recorder(target)
    harness.works(target.pid, 0.5)
    target.process.send_signal(getattr(signal, number))
    run = record.wait(15).ok()
    stacks = readable(run, record.home)
    enough(harness.total(stacks) > 200, "too few samples: %s", run)
    verdict = harness.judge(harness.sure(stacks), target.info["truth"])
    check(verdict.right == verdict.judged, "wrong stacks: %s", verdict)


@one_python
def test_one_of_two_targets_ends_and_the_other_goes_on(py):
    first, second = (Target(py, "groundtruth.py", "--us", 50) for _ in range(2))
    home = harness.folder()
    record = Recorder("-p", "%d,%d" % (first.pid, second.pid), "-F", 999, "-o", "a.data", "-o", "a.folded",
                      home=home).attached()
    harness.works(first.pid)
    first.process.kill()
    first.process.wait()
    harness.works(second.pid, 1)
    run = record.signal(signal.SIGINT).wait(15).ok()
    stacks = readable(run, home)
    for target in (first, second):
        enough(harness.total(harness.of_pid(stacks, target.pid)) > 100, "too few samples of %d: %s", target.pid, run)


def ignoring_hang_ups():
    """As nohup does."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@each(ignored=[True, False])
@one_python
def test_a_hang_up_ends_the_recording_unless_it_is_ignored(py, ignored):
    target = Target(py, "groundtruth.py", "--us", 50)
    record = Recorder("-p", target.pid, "-o", "a.folded", preexec_fn=ignoring_hang_ups if ignored else None).recording()
    record.signal(signal.SIGHUP)
    if ignored:
        harness.works(target.pid, 0.5)
        check(record.process.poll() is None, "it has ended: %s", record.text(1))
        record.signal(signal.SIGINT)
    run = record.wait(15).ok()
    if ignored:
        check(float(run.summary["duration"].rstrip("s")) > 0.5, "it was ending: %s", run)


GOES_ON = "import signal, time; signal.signal(signal.SIGHUP, signal.SIG_DFL); print('READY', flush=True); time.sleep(600)"


@one_python
def test_a_hang_up_that_is_ignored_is_not_passed_on(py):
    """To a CMD that goes on when the recording is over."""
    record = Recorder("-d", 1, "-o", "a.folded", "--", *py.command(), "-c", GOES_ON, preexec_fn=ignoring_hang_ups)
    harness.until(lambda: "the recording is over; waiting for" in record.text(1) and "READY" in record.text(0), "CMD goes on")
    record.signal(signal.SIGHUP)
    harness.until(lambda: harness.status(record.pid)["ShdPnd"] == harness.NO_SIGNALS, "it has come, or is dropped")
    record.signal(signal.SIGTERM).wait(15).ok(128 + signal.SIGTERM)


@harness.dealt
@each(follow=["--no-follow", ""])
@each_python
def test_forked_children_are_followed_unless_told_otherwise(py, follow):
    target = Target(py, "family.py", "fork")
    record = recorder(target, *follow.split())
    harness.works(target.pid)
    target.say("go")
    children = [int(pid) for pid in target.line("CHILDREN").split()]
    harness.all_work(children)
    run = record.signal(signal.SIGINT).wait(15).ok()
    stacks = readable(run, record.home)
    for pid in children:
        theirs = harness.of_pid(stacks, pid)
        if follow == "--no-follow":
            equal(harness.total(theirs), 0, "samples of child %d" % pid)
            continue
        enough(harness.total(theirs) > 50, "too few samples of child %d: %s", pid, run)
        names = {q for frames, _ in theirs for q, _, _ in harness.python_frames(frames)}
        check("in_child" in names, "no Python stack of child %d: %s", pid, names)


@one_python
@harness.seconds(120)
def test_children_forked_while_we_attach_are_followed(py):
    for pause in range(6, 30, 2):
        target = Target(py, "family.py", "fork")
        record = Recorder("-p", target.pid, "-F", 999, "-o", "a.data", "-o", "a.folded")
        opened = "/proc/%d/fd" % record.pid
        harness.until(lambda: len(os.listdir(opened)) > pause or record.attached(), "it opens files")
        target.say("go")
        children = [int(pid) for pid in target.line("CHILDREN").split()]
        record.attached()
        harness.all_work(children, 0.15)
        run = record.signal(signal.SIGINT).wait(15).ok()
        most = {pid: 1.5 * 999 * harness.cpu_seconds([pid]) + 30 for pid in children}
        stacks = readable(run, record.home)
        for pid in children:
            n = harness.total(harness.of_pid(stacks, pid))
            check(n < most[pid], "%d samples of child %d, at most %d: %s", n, pid, most[pid], run)
            enough(n > 30, "only %d samples of child %d: %s", n, pid, run)
        harness.end(target.process)


@each_python
def test_an_exec_into_another_python_is_followed(py):
    target = Target(py, "family.py", "exec")
    record = recorder(target)
    harness.works(target.pid)
    target.say("go")
    target.line("EXECED")
    harness.works(target.pid, 1)
    run = record.signal(signal.SIGINT).wait(15).ok()
    names = {q for frames, _ in readable(run, record.home) for q, _, _ in harness.python_frames(frames)}
    enough({"before_exec", "after_exec"} <= names, "functions before and after the exec: %s", names)


@each_python
def test_an_exec_into_something_else_ends_well(py):
    target = Target(py, "family.py", "exec-sh")
    record = recorder(target)
    harness.works(target.pid)
    target.say("go")
    run = record.wait(20).ok()
    names = {q for frames, _ in readable(run, record.home) for q, _, _ in harness.python_frames(frames)}
    enough("before_exec" in names, "functions before the exec: %s", names)


@one_python
def test_many_threads_that_begin_and_end_are_survived(py):
    path = os.path.join(harness.folder(), "progress")
    target = Target(py, "churn.py", "--progress", path)
    record = recorder(target)
    harness.works(target.pid, 3)
    run = record.signal(signal.SIGINT).wait(15).ok()
    readable(run, record.home)
    enough(run.n("samples") > 500, "too few samples: %s", run)


@one_python
def test_a_target_that_is_stopped_all_the_time_gives_an_empty_readable_record(py):
    target = Target(py, "groundtruth.py", "--us", 50)
    target.process.send_signal(signal.SIGSTOP)
    harness.until(lambda: harness.status(target.pid)["State"][0] == "T", "the target has stopped")
    record = Recorder("-p", target.pid, "-F", 999, "-d", 1, "-o", "a.data", "-o", "a.folded")
    run = record.wait(15).ok()
    readable(run, record.home)
    target.process.send_signal(signal.SIGCONT)
    harness.runs_on(target.pid)


def ends_in(target, what):
    """Has a target of daemon.py end and leave a process behind: its PID."""
    target.say(what)
    left = int(target.line("LEFT"))
    target.process.wait()
    return left


def goes_on(run, *words):
    """One line says it."""
    said = [line for line in run.err.splitlines() if "the recording goes on" in line]
    check(len(said) == 1 and all(str(word) in said[0] for word in words), "lines that name %s: %s", words, run)


def work_of_left(run, home, left):
    theirs = harness.of_pid(readable(run, home), left)
    enough(harness.total(theirs) > 50, "too few samples of %d: %s", left, run)
    names = {q for frames, _ in theirs for q, _, _ in harness.python_frames(frames)}
    check("in_left" in names, "no Python stack of %d: %s", left, names)


@each(way=["daemon", "leave --capture async", "daemon --capture stop -e cpu-clock:u", "daemon, by events on CPUs"])
@one_python
def test_a_daemon_is_recorded_until_it_ends(py, way):
    what, *args = way.split()
    more, wide = {}, what.endswith(",")
    if wide:
        need_few()
        args, more = [], {"preexec_fn": few_descriptors}
    target = Target(py, "daemon.py", "--threads", 50 if wide else 0)
    record = Recorder("-p", target.pid, "-F", 999, "-o", "a.data", "-o", "a.folded", *args, **more).recording()
    left = ends_in(target, what.strip(","))
    harness.works(left)
    check(record.process.poll() is None, "the record has ended: %s", record.text(1))
    target.process.stdin.close()
    run = record.wait(15).ok()
    goes_on(run, target.pid)
    work_of_left(run, record.home, left)


@each_python
def test_an_idle_child_forked_at_the_very_end_is_waited_for(py):
    for _ in range(3):
        target = Target(py, "daemon.py")
        record = Recorder("-p", target.pid, "-F", 99, "-o", "a.folded").recording()
        left = ends_in(target, "idle")
        harness.until(lambda: "goes on" in record.text(1) or record.process.poll() is not None, "a line, or the end")
        target.process.stdin.close()
        goes_on(record.wait(15).ok(), target.pid, left)


@each(end=["SIGINT", "-d 8"])
@one_python
def test_what_ends_a_recording_ends_one_of_a_daemon(py, end):
    target = Target(py, "daemon.py")
    args = end.split() if end.startswith("-") else []
    record = Recorder("-p", target.pid, "-F", 999, "-o", "a.data", "-o", "a.folded", *args).recording()
    left = ends_in(target, "daemon")
    harness.works(left)
    if not args:
        record.signal(signal.SIGINT)
    run = record.wait(15).ok()
    goes_on(run, target.pid)
    harness.runs_on(left)
    work_of_left(run, record.home, left)


@one_python
def test_without_follow_a_daemon_ends_the_recording(py):
    target = Target(py, "daemon.py")
    record = Recorder("-p", target.pid, "-F", 999, "-o", "a.data", "-o", "a.folded", "--no-follow").recording()
    left = ends_in(target, "daemon")
    run = record.wait(15).ok()
    check("goes on" not in run.err, "it says that it goes on: %s", run)
    equal(harness.total(harness.of_pid(readable(run, record.home), left)), 0, "samples of the daemon")


@one_python
def test_of_several_all_and_what_they_left_are_waited_for(py):
    targets = [Target(py, "daemon.py") for _ in range(2)]
    pids = ",".join(str(target.pid) for target in targets)
    record = Recorder("-p", pids, "-F", 999, "-o", "a.data", "-o", "a.folded").recording()
    left = [ends_in(target, what) for target, what in zip(targets, ("daemon", "leave"))]
    harness.all_work(left)
    for target in targets:
        check(record.process.poll() is None, "the record has ended: %s", record.text(1))
        target.process.stdin.close()
    run = record.wait(15).ok()
    goes_on(run, "the processes named have ended")
    for pid in left:
        work_of_left(run, record.home, pid)


@one_python
def test_a_zombie_is_not_waited_for(py):
    PR_SET_CHILD_SUBREAPER = 36
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    check(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0, "no subreaper")
    harness.cleanup(prctl, PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    target = Target(py, "daemon.py")
    record = Recorder("-p", target.pid, "-F", 999, "-o", "a.data", "-o", "a.folded").recording()
    left = ends_in(target, "leave")
    harness.works(left)
    os.kill(left, signal.SIGKILL)
    run = record.wait(15).ok()
    equal(harness.status(left)["State"][0], "Z", "state of what nobody has waited for")
    os.waitpid(left, 0)
    goes_on(run, target.pid, left)
    work_of_left(run, record.home, left)


@each(capture=["auto", "stop -e cpu-clock:u"])
@one_python
def test_a_command_that_becomes_a_daemon_has_its_own_status(py, capture):
    home = harness.folder(0o777)
    path = ["PYTHONPATH=" + harness.extension(py, "gtspin"), "PYTHONDONTWRITEBYTECODE=1"]
    record = Recorder("-F", 999, "-o", "a.data", "-o", "a.folded", "--capture", *capture.split(), "--", "env", *path,
                      *py.command(), os.path.join(harness.TARGETS, "daemon.py"), "daemon", home=home,
                      stdin=subprocess.PIPE)
    said = harness.until(lambda: re.search(r"^LEFT (\d+)$", record.text(0), re.M), "the daemon runs")
    left = int(said[1])
    harness.works(left)
    harness.until(lambda: "goes on" in record.text(1) or record.process.poll() is not None, "a line, or the end")
    record.process.stdin.close()
    run = record.wait(15).ok(7)
    goes_on(run, "the command has ended")
    work_of_left(run, home, left)
