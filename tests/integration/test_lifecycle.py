"""Targets that end, exec, fork and start late: the record goes on or ends, and stays readable."""
import os
import signal

import harness
from harness import Recorder, Target, check, each, each_python, equal, one_python, readable


def recorder(target, *args):
    return Recorder("-p", target.pid, "-F", 999, "-o", "a.data", "-o", "a.folded", *args).attached()


@each_python
def test_the_end_of_the_target_ends_the_record(py):
    target = Target(py, "groundtruth.py", "--us", 50, "--seconds", 2)
    record = recorder(target)
    run = record.wait(15).ok()
    check(run.n("samples") > 30, "too few samples: %s", run)
    readable(run, record.home)


@each(number=["SIGKILL", "SIGSEGV"])
@each_python
def test_a_target_that_is_killed_leaves_a_whole_record(py, number):
    target = Target(py, "groundtruth.py", "--us", 50, "--threads", 3)
    record = recorder(target)
    harness.works(target.pid, 0.5)
    target.process.send_signal(getattr(signal, number))
    run = record.wait(15).ok()
    stacks = readable(run, record.home)
    check(harness.total(stacks) > 200, "too few samples: %s", run)
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
        check(harness.total(harness.of_pid(stacks, target.pid)) > 100, "too few samples of %d: %s", target.pid, run)


@each(follow=["--no-follow", ""])
@each_python
def test_forked_children_are_followed_unless_told_otherwise(py, follow):
    target = Target(py, "family.py", "fork")
    record = recorder(target, *follow.split())
    harness.works(target.pid)
    target.say("go")
    children = [int(pid) for pid in target.line("CHILDREN").split()]
    for pid in children:
        harness.works(pid)
    run = record.signal(signal.SIGINT).wait(15).ok()
    stacks = readable(run, record.home)
    for pid in children:
        theirs = harness.of_pid(stacks, pid)
        if follow == "--no-follow":
            equal(harness.total(theirs), 0, "samples of child %d" % pid)
            continue
        check(harness.total(theirs) > 50, "too few samples of child %d: %s", pid, run)
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
        for pid in children:
            harness.works(pid, 0.15)
        run = record.signal(signal.SIGINT).wait(15).ok()
        most = {pid: 1.1 * 999 * harness.cpu_seconds([pid]) + 30 for pid in children}
        stacks = readable(run, record.home)
        for pid in children:
            n = harness.total(harness.of_pid(stacks, pid))
            check(30 < n < most[pid], "%d samples of child %d, at most %d: %s", n, pid, most[pid], run)
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
    check({"before_exec", "after_exec"} <= names, "functions before and after the exec: %s", names)


@each_python
def test_an_exec_into_something_else_ends_well(py):
    target = Target(py, "family.py", "exec-sh")
    record = recorder(target)
    harness.works(target.pid)
    target.say("go")
    run = record.wait(20).ok()
    names = {q for frames, _ in readable(run, record.home) for q, _, _ in harness.python_frames(frames)}
    check("before_exec" in names, "functions before the exec: %s", names)


@one_python
def test_many_threads_that_begin_and_end_are_survived(py):
    path = os.path.join(harness.folder(), "progress")
    target = Target(py, "churn.py", "--progress", path)
    record = recorder(target)
    harness.works(target.pid, 3)
    run = record.signal(signal.SIGINT).wait(15).ok()
    readable(run, record.home)
    check(run.n("samples") > 500, "too few samples: %s", run)


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
