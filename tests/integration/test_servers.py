"""Servers that fork in C, and states that bear another thread's number: who runs Python has Python frames."""
import os
import re

import harness
from harness import Skip, Target, all_right, check, each, each_python, need_fifo

EVAL = "_PyEval_EvalFrameDefault"


class Embedded(Target):
    """tests/targets/embedfork.c with the library of a Python; child: the process to look at."""

    def __init__(self, py, how):
        command = harness.embedding(py, "embedfork")
        self.py = harness.Python(py.tag, command[0])
        self.py.command = lambda: command[:-1]
        super().__init__(self.py, command[-1], how)
        self.child = int(self.line("CHILD"))


def seen_by_nobody(stacks):
    """Samples without a Python frame and without a mark that have an evaluation loop."""
    return [frames for frames, _ in harness.sure(stacks)
            if any(f.startswith(EVAL) for f in frames) and not harness.python_frames(frames)]


@each(how=["chain", "thread"])
@each_python
def test_the_child_of_a_fork_in_c_has_its_stacks(py, how):
    """Its state bears the number of a thread that is no more, or is another process's."""
    need_fifo()
    target = Embedded(py, how)
    target.pid = target.child
    run, verdict, _ = harness.exact(target, "-F", 1999, seconds=1)
    all_right(verdict, run)
    run, verdict, stacks = harness.exact(target, "-F", 1999, "--no-native", seconds=1)
    named = sum(n for frames, n in stacks if [q for q, _, _ in harness.python_frames(frames)][-2:] == ["serve", "work"])
    check(named >= 0.99 * harness.total(stacks) > 100, "%d with frames: %s", named, run)
    text = harness.pysampled("dump", "-p", target.child).ok().out
    check("    serve (<string>:5)\n" in text and "[no Python]" not in text, "dump: %s", text)


@each(how=["handed", "stale"])
@each_python
def test_no_thread_gets_the_frames_of_another(py, how):
    """A state's frames are those of the thread on whose stack they lie."""
    need_fifo()
    target = Embedded(py, how)
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-p", target.child, "-d", 1, "-F", 1999, "--native=full", "--hold-budget", 100, "-o", out).ok()
    stacks = harness.read_folded(out)
    if how == "handed":
        all_right(harness.judge(harness.sure(stacks), target.info["truth"]), run, share=0.1)
    alone = [frames for frames, _ in stacks if frames[-1] == "outside"]
    check(alone and not any(map(harness.python_frames, alone)), "frames of others: %s: %s", alone[:3], run)
    check(not seen_by_nobody(stacks), "not seen: %s", seen_by_nobody(stacks)[:3])
    check(run.n("torn") <= 0.01 * run.n("samples"), "torn: %s", run)


@each_python
def test_states_that_another_thread_made(py):
    need_fifo()
    target = Target(py, "handed.py")
    if not target.info["can"]:
        raise Skip("no _xxsubinterpreters")
    run, verdict, stacks = harness.exact(target, "-F", 1999, "--threads", seconds=1)
    all_right(verdict, run)
    text = harness.pysampled("dump", "-p", target.pid, "--no-native").ok().out
    for thread in re.split(r"^Thread ", text, flags=re.M)[1:]:
        modules = thread.count("<module>")
        check(modules == 1 or thread.count("outer") >= modules - 1, "frames of several threads: %s", thread)
        check(thread.startswith("%d " % target.pid) or modules <= 1, "more than one interpreter's frames: %s", thread)
