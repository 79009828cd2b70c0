"""Stacks deeper than what is read while their thread is held: the old end is read after it was released."""
import os
import signal

import harness
from harness import Recorder, Target, check, each, each_python, enough, equal, judge, need_fifo, need_root, not_quick, \
    one_python

HELD = 1024  # READER_FRAMES
DEEP = ("--max-frames", 8000, "--hold-budget", 100, "-v")


def record(target, *args, seconds=2):
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-p", target.pid, "-d", seconds, "-F", 499, "-o", out, *DEEP, *args).ok()
    equal(sum(run.n(word) for word in ("exact", "late", "torn", "nopython")), run.n("samples"), "exact + late + ...")
    return run, harness.read_folded(out)


def names(frames):
    """Of Python functions, innermost first."""
    return [p[0] for p in reversed(harness.python_frames(frames))]


def in_spins(stacks, truth):
    """(names, names that a whole stack has, marked as late, count) of stacks in a spin_NN."""
    for frames, count in stacks:
        want = truth.get(harness.user_frames(frames)[-1])
        if want and "[torn]" not in frames:
            yield names(frames), want, "[late]" in frames, count


@each_python
def test_a_deep_stack_is_whole_and_late(py):
    target = Target(py, "oldend.py", "--side", 2501, "--common", 1500, "--stay")
    run, stacks = record(target)
    wrong = [got[-9:] for got, want, late, _ in in_spins(stacks, target.info["truth"])
             if got != want[:len(got)] or len(got) > HELD and (len(got) < len(want) or not late)]
    check(not wrong, "wrong: neither whole and late nor cut where the hold ended: %s", wrong[:3])
    whole = sum(n for got, want, _, n in in_spins(stacks, target.info["truth"]) if len(got) == len(want))
    equal(run.counter("old_end_gone"), run.n("truncated"), "stacks that were cut")
    enough(whole >= max(30, 0.5 * run.n("samples")), "only %d are whole: %s", whole, run)
    if harness.can_fifo():
        enough(run.counter("late_deep") >= 0.9 * run.n("late"), "late_deep is %d: %s", run.counter("late_deep"), run)


@each_python
def test_who_wants_exact_stacks_has_them_cut(py):
    need_fifo()
    target = Target(py, "oldend.py", "--side", 2501, "--common", 1500, "--stay")
    run, stacks = record(target, "--provenance", "exact", seconds=1)
    equal(run.counter("late_deep"), 0, "late_deep")
    check(run.n("truncated") >= run.n("exact"), "not cut: %s", run)
    for got, want, late, _ in in_spins(stacks, target.info["truth"]):
        equal((got, late), (want[:HELD], False), "a stack")
    enough(run.n("exact") >= 0.9 * run.n("samples") > 0, "too few are exact: %s", run)


def possible(got, side, common):
    """Is a whole stack one that the program can have?"""
    sides = [name for name in got if name.startswith(("left_", "right_"))]
    n = got.count("common")
    return (got == ["common"] * n + sides + ["begin", "<module>"] and n <= common and len(sides) <= side
            and len({name.partition("_")[0] for name in sides}) <= 1 and (len(sides) == side or not n))


@harness.dealt
@each(size=["1500 100", "100 1100"])
@each_python
@not_quick
def test_an_old_end_that_changes_is_never_joined(py, size):
    """Where the newest 1024 frames are the same functions on both sides, the cut stack looks the same, too."""
    side, common = map(int, size.split())
    target = Target(py, "oldend.py", "--side", side, "--common", common, "--us", 100)
    run, stacks = record(target, "-F", 999, seconds=3)
    truth = target.info["truth"]
    wrong = sum(n for got, want, _, n in in_spins(stacks, truth) if got != want[:len(got)])
    whole = sum(n for got, want, late, n in in_spins(stacks, truth) if late and len(got) == len(want))
    equal(wrong, 0, "wrong stacks, beside %d right ones that are whole and late" % whole)
    odd = [got for got in (names(frames) for frames, _ in stacks if "[torn]" not in frames)
           if got[-1:] == ["<module>"] and got[-2:-1] == ["begin"] and not possible(got, side, common)]
    check(not odd, "wrong: %d whole stacks are impossible", len(odd))
    equal(run.counter("old_end_gone"), run.n("truncated"), "stacks that were cut")
    enough(whole >= 5, "only %d stacks are whole: %s", whole, run)  # 13 to 271 here, as the machine goes
    enough(run.counter("old_end_gone") > 0, "no old end ever changed: %s", run)


@one_python
@not_quick
def test_an_old_end_whose_reads_hang_costs_nobody_else(py):
    need_root()
    need_fifo()
    hostile = Target(py, "hostile.py", "deep", extensions=("frametrap", "gtspin"))
    innocent = Target(py, "oldend.py", "--side", 2501, "--common", 1500, "--stay")
    out = os.path.join(harness.folder(), "out.folded")
    pids = "%d,%d" % (hostile.pid, innocent.pid)
    recorder = Recorder("-p", pids, "-F", 499, "-o", out, *DEEP).attached()
    hostile.say("go")
    said = hostile.line("TRAPPED")
    if said == "EPERM":
        raise harness.Skip("userfaultfd is not permitted here")
    equal(said, "", "the trap")
    harness.until(lambda: "hangs" in recorder.text(1), "the hanging read is seen")
    harness.works(innocent.pid, 1)
    hostile.say("mend")
    harness.works(hostile.pid)
    run = recorder.signal(signal.SIGINT).wait(15).ok()
    check(run.counter("stuck_reads") >= 1 and run.counter("torn_quarantined") > 0, "nothing hung: %s", run.err)
    stacks = harness.read_folded(out)
    # A sample between the trap's end and the quarantine's is torn.
    freed = judge([x for x in harness.of_pid(stacks, hostile.pid) if "[torn]" not in x[0]], hostile.info["truth"])
    check(freed.right == freed.judged, "wrong stacks after the trap: %s", freed)
    ours = list(in_spins(harness.of_pid(stacks, innocent.pid), innocent.info["truth"]))
    check(all(got == want[:len(got)] for got, want, _, _ in ours), "wrong stacks")
    whole = sum(n for got, want, _, n in ours if len(got) == len(want))
    enough(freed.judged > 0, "none was judged after the trap: %s", run)
    enough(whole >= 0.5 * sum(n for *_, n in ours) > 100, "only %d stacks are whole: %s", whole, run)
