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


def impossible(stacks, info):
    """Stacks below cycle() that CPython itself never saw: a call, or the newest frame's line."""
    calls, lines = ({tuple(row) for row in info[key]} for key in ("calls", "lines"))
    judged, wrong = 0, []
    for frames, count in stacks:
        python = harness.python_frames(frames)
        ours = [(q, line) for q, path, line in python if path in info["files"] and q not in ("<module>", "main")]
        if not ours:
            continue
        judged += count
        edges = {(q, line, callee) for (q, line), (callee, _) in zip(ours, ours[1:])}
        whole = ours == [(q, line) for q, _, line in python[-len(ours):]]
        if not whole or ours[0][0] != "cycle" or ours[-1] not in lines or not edges <= calls:
            wrong.append((count, ours))
    return judged, wrong


@each_python
def test_no_stack_is_impossible_between_calls(py):
    """At any instruction of a call or return; nothing but what CPython's own tracing saw."""
    need_fifo()
    target = Target(py, "calls.py")
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-p", target.pid, "-d", 4, "-F", 9999, "--hold-budget", 100, "-o", out).ok()
    judged, wrong = impossible(sure(harness.read_folded(out)), target.info)
    check(judged > 2000, "only %d could be judged: %s", judged, run)
    check(not wrong, "wrong stacks: %d of %d: %s", len(wrong), judged, wrong[:5])
    check(run.n("torn") < 0.02 * run.n("samples"), "too many torn: %s", run)
    check(run.n("nopython") == 0, "a thread that is never without a frame: %s", run)


@each_python
def test_no_stack_is_impossible_whatever_moves(py):
    """Data-stack chunks, generators, coroutines, classes, callbacks, finalizers: each part's stacks are what tracing saw."""
    need_fifo()
    target = Target(py, "moving.py")
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-p", target.pid, "-d", 4, "-F", 9999, "--hold-budget", 100, "-o", out).ok()
    stacks = sure(harness.read_folded(out))
    judged, wrong = impossible(stacks, target.info)
    check(judged > 2000, "only %d could be judged: %s", judged, run)
    check(not wrong, "wrong stacks: %d of %d: %s", len(wrong), judged, wrong[:5])
    seen = {q for frames, _ in stacks for q, _, _ in harness.python_frames(frames)}
    check(seen >= set(target.info["parts"]), "never seen: %s", set(target.info["parts"]) - seen)
    check(run.n("torn") < 0.02 * run.n("samples"), "too many torn: %s", run)
