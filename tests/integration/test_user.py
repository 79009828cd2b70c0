"""An ordinary user on a process of one's own: it works, and says of every sample what it is worth."""
import os
import re
import shutil
import signal

import harness
import tolerances
from harness import NOBODY, Target, check, each, enough, equal, need_root

BESIDE = True


def own_target(*args):
    """A target of uid 65534. Only Debian's Python is sure to lie where that user may read it."""
    return Target(harness.debian_python(), "groundtruth.py", *args, user=NOBODY)


@each(capture=["auto", "stop", "async"])
def test_an_ordinary_user_can_record_a_process_of_ones_own(capture):
    need_root()
    harness.need_events_for_all()
    target = own_target("--us", 50)
    binary, home = harness.for_nobody()
    run = harness.pysampled("-p", target.pid, "-F", 499, "-d", 2, "--capture", capture, "--hold-budget", 100, "-o", "a.data", "-o",
                            "a.folded", binary=binary, home=home, user=NOBODY).ok()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    harness.same_counts(run, stacks)
    equal(run.n("shed"), 0, "samples shed, though the budget allows all")
    for marker in ("late", "torn"):
        equal(harness.total(harness.marked(stacks, marker)), run.n(marker), "stacks marked " + marker)
    verdict = harness.judge(harness.sure(stacks), target.info["truth"])
    check(verdict.right == verdict.judged, "unmarked but wrong: %s", verdict)
    names = {q for frames, _ in stacks for q, _, _ in harness.python_frames(frames)}
    enough(run.n("samples") > 100, "too few samples: %s", run)
    enough("cycle" in names, "no Python function: %s", names)
    if capture != "async":
        equal(run.summary["capture"], "stop", "capture")
        enough(run.n("exact") >= tolerances.EXACT_STOP * run.n("samples"), "too few are exact: %s", run)
        out, _ = harness.perf("report", "--header-only", "-i", os.path.join(home, "a.data"), "-f", home=home)
        check(re.search("perf version : .*capture stop" + (": SCHED_FIFO" if capture == "auto" else ""), out),
              "the capture in the header: %s", out)


@each(capture=["stop", "async"])
def test_a_program_keeps_the_rights_of_its_file(capture):
    """Of a traced process's exec a set-user-ID program would not."""
    need_root()
    harness.need_events_for_all()
    home = harness.folder(0o755)
    program = shutil.copy(harness.need_command("id"), os.path.join(home, "id"))
    os.chmod(program, 0o4755)
    target = Target(harness.debian_python(), "starter.py", user=NOBODY)
    target.say(program + " -u")
    if target.line("PRINTED") != "0 0":
        raise harness.Skip("set-user-ID means nothing in %s" % home)
    binary, home = harness.for_nobody()
    record = harness.Recorder("-p", target.pid, "--capture", capture, "-o", "a.folded", binary=binary, home=home,
                              user=NOBODY).attached()
    for _ in range(20):
        target.say(program + " -u")
        equal(target.line("PRINTED"), "0 0", "status and user of a set-user-ID program")
    run = record.signal(signal.SIGINT).wait(15).ok()
    equal("set-user-ID" in run.err, capture == "stop", "a word about what a traced process can't: %s" % run)


def test_an_ordinary_user_may_not_preempt():
    need_root()
    harness.need_events_for_all()
    target = own_target("--us", 50)
    binary, home = harness.for_nobody()
    run = harness.pysampled("-p", target.pid, "-d", 1, "--capture", "preempt", binary=binary, home=home,
                            user=NOBODY).ok(4)
    equal(len(run.err.splitlines()), 1, "lines on stderr: %s" % run)


def test_an_ordinary_user_can_dump_a_process_of_ones_own():
    need_root()
    target = own_target("--us", 50)
    binary, home = harness.for_nobody()
    run = harness.pysampled("dump", "-p", target.pid, binary=binary, home=home, user=NOBODY).ok()
    check("forever" in run.out, "no stack: %s\n%s", run, run.out)


@each(command=["doctor", "events"])
def test_doctor_and_events_answer_everyone(command):
    need_root()
    binary, home = harness.for_nobody()
    run = harness.pysampled(command, binary=binary, home=home, user=NOBODY).ok()
    check(len(run.out.splitlines()) >= 3, "too little: %r", run.out)
