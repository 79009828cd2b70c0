"""The moving parts of CPython: whatever it does meanwhile, a stack that is marked exact is the true one."""
import os
import signal

import harness
import tolerances
from harness import Recorder, Skip, Target, all_right, check, each, each_python, enough, exact, judge, need_fifo, sure

BESIDE = True


@each(where=["thread", "os"])
@each_python
def test_both_sides_of_a_fork_have_their_stacks(py, where):
    """Also where the child does not know that it is one, as each before PyOS_AfterFork_Child()."""
    need_fifo()
    target = Target(py, "forks.py", where)
    out = os.path.join(harness.folder(), "out.folded")
    record = Recorder("-p", target.pid, "-F", 999, "-o", out).recording()
    target.say("go")
    child = int(target.line("CHILD"))
    harness.all_work([child, target.pid])
    run = record.signal(signal.SIGINT).wait(15).ok()
    for pid in (child, target.pid):
        stacks = harness.of_pid(harness.read_folded(out), pid)
        verdict = judge(sure(stacks), target.info["truth"])
        check(verdict.right == verdict.judged, "wrong stacks: %s", verdict)
        enough(verdict.judged > 0.8 * harness.total(stacks) > 100, "few judged of %d: %s of %s", pid, verdict, run)


def impossible(stacks, info):
    """Stacks below cycle() that CPython itself never saw: a call, or the newest frame's line."""
    calls, lines = ({tuple(row) for row in info[key]} for key in ("calls", "lines"))
    judged, wrong = 0, []
    for frames, count in stacks:
        python = harness.python_frames(frames)
        ours = [path in info["files"] and q not in ("<module>", "main") for q, path, _ in python]
        if not any(ours):
            continue
        judged += count
        edges = {(a[0], a[2], b[0]) for a, b, here, there in zip(python, python[1:], ours, ours[1:]) if here and there}
        q, _, line = python[-1]
        leaf = not ours[-1] or (q, line) in lines
        if python[ours.index(True)][0] != "cycle" or not leaf or not edges <= calls:
            wrong.append((count, [(q, line) for q, _, line in python]))
    return judged, wrong


@each_python
def test_no_stack_is_impossible_between_calls(py):
    """At any instruction of a call or return; nothing but what CPython's own tracing saw."""
    need_fifo()
    target = Target(py, "calls.py")
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-p", target.pid, "-d", 2, "-F", 9999, "--hold-budget", 100, "--full-paths", "-o", out).ok()
    judged, wrong = impossible(sure(harness.read_folded(out)), target.info)
    check(not wrong, "wrong stacks: %d of %d: %s", len(wrong), judged, wrong[:5])
    enough(judged > 1000, "only %d could be judged: %s", judged, run)
    check(run.n("nopython") == 0, "a thread that is never without a frame: %s", run)
    enough(run.n("torn") < tolerances.TORN_MOVING * run.n("samples"), "too many torn: %s", run)


@each_python
def test_no_stack_is_impossible_whatever_moves(py):
    """Data-stack chunks, generators, coroutines, classes, callbacks, finalizers: each part's stacks are what tracing saw."""
    need_fifo()
    target = Target(py, "moving.py")
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-p", target.pid, "-d", 2, "-F", 9999, "--hold-budget", 100, "--full-paths", "-o", out).ok()
    stacks = sure(harness.read_folded(out))
    judged, wrong = impossible(stacks, target.info)
    check(not wrong, "wrong stacks: %d of %d: %s", len(wrong), judged, wrong[:5])
    enough(judged > 1000, "only %d could be judged: %s", judged, run)
    seen = {q for frames, _ in stacks for q, _, _ in harness.python_frames(frames)}
    enough(seen >= set(target.info["parts"]), "never seen: %s", set(target.info["parts"]) - seen)
    enough(run.n("torn") < tolerances.TORN_MOVING * run.n("samples"), "too many torn: %s", run)


@each(hook=["settrace", "setprofile", "monitoring"])
@each_python
def test_lines_are_right_while_code_is_instrumented(py, hook):
    need_fifo()
    if hook == "monitoring" and "3.11" in py.tag:
        raise Skip("sys.monitoring came with 3.12")
    run, verdict, _ = exact(Target(py, "groundtruth.py", "--us", 20, "--hook", hook), "-F", 1999, seconds=1)
    all_right(verdict, run, share=0.1)


@each(py=[py for py in harness.older_pythons() + harness.wanted_pythons() if py.minor() not in ("3.6", "3.7")])
def test_lines_are_of_the_code_that_runs(py):
    """Not of one that lay there before, of the same name; as a caller, far from the leaf."""
    target = Target(py, "relined.py")
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-p", target.pid, "-F", 499, "-d", 2, "--no-native", "-o", out).ok()
    stacks = [dict((name, line) for name, _, line in harness.python_frames(frames))
              for frames, _ in sure(harness.read_folded(out))]
    pairs = [(stack["middle"], 100 + int(name[len("via_"):])) for stack in stacks for name in stack
             if name.startswith("via_") and "middle" in stack]
    wrong = [pair for pair in pairs if pair[0] != pair[1]]
    check(not wrong, "lines of other code: %s, of %d stacks", wrong[:3], len(pairs))
    enough(len({line for line, _ in pairs}) > 4, "too few kinds of stacks: %s", run)


@each_python
def test_the_stacks_of_interpreters_are_their_threads(py):
    need_fifo()
    target = Target(py, "subinterpreters.py")
    if not target.info["can"]:
        raise Skip("no module for subinterpreters")
    run, verdict, stacks = exact(target, "-F", 1999, seconds=1)
    all_right(verdict, run)
    seen = {f for frames, _ in stacks for f, _, _ in harness.python_frames(frames) if f.startswith("inner_")}
    # 3.11's share one lock, and the one that has it does not see that others want it.
    enough(len(seen) == 4 or "3.11" in py.tag and seen, "interpreters seen: %s", seen)


@each_python
def test_the_end_of_an_interpreter_is_recorded_honestly(py):
    """Handlers of atexit, finalizers late in its end, daemon threads that it stops: right or marked, and no crash."""
    need_fifo()
    target = Target(py, "finalize.py", "wait")
    out = os.path.join(harness.folder(), "out.folded")
    record = Recorder("-p", target.pid, "-F", 1999, "--hold-budget", 100, "-o", out).attached()
    harness.works(target.pid, 0.3)
    target.say("end")
    record.wait(30).ok()
    harness.equal(target.process.wait(), 0, "status of the target")
    stacks = harness.read_folded(out)
    verdict = judge(sure(stacks), target.info["truth"])
    check(verdict.right == verdict.judged, "wrong stacks: %s", verdict)
    enough(verdict.judged > 100, "too few could be judged: %s", verdict)
    leaves = {harness.user_frames(frames)[-1] for frames, _ in sure(stacks) if harness.user_frames(frames)}
    enough({"spin_01", "spin_02", "spin_03"} <= leaves, "never seen in %s", leaves)


@harness.dealt
@each(capture=["preempt", "async"])
@each_python
def test_a_program_that_starts_python_again_and_again(py, capture):
    """Nor is it said to be without Python because it is when a late reader comes."""
    need_fifo()
    command = harness.embedding(py, "embed")
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-F", 1999, "--capture", capture, "--hold-budget", 100, "-o", out, "--", *command, 3).ok()
    stacks = sure(harness.read_folded(out))
    verdict = judge(stacks, {"spin_01": [["work", 3], ["many", 5], ["<module>", 7]]})
    if capture == "preempt":
        all_right(verdict, run, share=0.1)
    check(verdict.right == verdict.judged, "wrong stacks: %s", verdict)
    outside = [frames for frames, _ in stacks if frames[-1] == "outside"]
    check((outside or capture == "async") and not any(map(harness.python_frames, outside)), "without Python: %s", outside[:3])
