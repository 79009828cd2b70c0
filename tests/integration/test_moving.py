"""The moving parts of CPython: whatever it does meanwhile, a stack that is marked exact is the true one."""
import os
import signal

import harness
from harness import Recorder, Target, all_right, check, each, each_python, judge, need_fifo


def sure(stacks):
    return [(frames, n) for frames, n in stacks if "[late]" not in frames and "[torn]" not in frames]


@each(where=["main", "thread"])
@each_python
def test_a_child_that_does_not_know_that_it_is_one_has_its_stack(py, where):
    """As every child between fork() and PyOS_AfterFork_Child(), and those of subprocess until their exec."""
    need_fifo()
    target = Target(py, "rawfork.py", where)
    out = os.path.join(harness.folder(), "out.folded")
    record = Recorder("-p", target.pid, "-F", 999, "-o", out).attached()
    target.say("go")
    child = int(target.line("CHILD"))
    harness.works(child)
    run = record.signal(signal.SIGINT).wait(15).ok()
    stacks = harness.of_pid(harness.read_folded(out), child)
    verdict = judge(sure(stacks), target.info["truth"])
    check(verdict.judged > 0.8 * harness.total(stacks) > 100, "few judged: %s of %s", verdict, run)
    check(verdict.right == verdict.judged, "wrong stacks: %s", verdict)
