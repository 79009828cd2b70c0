"""Stacks deeper than the usual limit: --max-frames reads them whole while their thread is held."""
import os
import re

import harness
from harness import Target, check, each, each_python, enough, equal, need_fifo, not_quick, one_python, rare

BESIDE = True

SIDE, COMMON, DEEPEST = 2501, 1500, 7900


def record(target, *args, frames=8000, seconds=2):
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-p", target.pid, "-d", seconds, "-F", 499, "-o", out, "--max-frames", frames, "-v", *args).ok()
    equal(sum(run.n(word) for word in ("exact", "late", "torn", "nopython")), run.n("samples"), "exact + late + ...")
    return run, harness.read_folded(out)


def names(frames):
    """Of Python functions, innermost first."""
    return [p[0] for p in reversed(harness.python_frames(frames))]


def in_spins(stacks, truth):
    """(names, names that a whole stack has, frames, count) of exact stacks in a spin_NN."""
    for frames, count in stacks:
        want = truth.get(harness.user_frames(frames)[-1])
        if want and "[torn]" not in frames and "[late]" not in frames:
            yield names(frames), want, frames, count


def twosided(py, *args, side=SIDE, common=COMMON):
    return Target(py, "twosided.py", "--side", side, "--common", common, *args)


@harness.dealt
@each(capture=["preempt", "stop"])
@each_python
def test_a_deep_stack_is_whole_and_exact(py, capture):
    if capture == "preempt":
        need_fifo()
    target = twosided(py, "--stay")
    event = ("-e", "cpu-clock:u") if capture == "stop" else ()
    run, stacks = record(target, "--hold-budget", 100, "--capture", capture, *event)
    wrong = [(got[:3], len(got)) for got, want, _, _ in in_spins(stacks, target.info["truth"]) if got != want]
    check(not wrong, "wrong: not the whole stack: %s", wrong[:3])
    whole = sum(n for *_, n in in_spins(stacks, target.info["truth"]))
    enough(whole >= max(30, 0.9 * run.n("samples")), "only %d are exact: %s", whole, run)
    equal(run.n("truncated"), 0, "stacks that were cut")


@harness.dealt
@each(size=["1500 100", "100 1100"])
@each_python
@not_quick
def test_a_deep_stack_that_changes_is_never_mixed(py, size):
    """Where the newest 1024 frames are the same functions on both sides, older ones tell them apart."""
    need_fifo()
    side, common = map(int, size.split())
    target = twosided(py, "--us", 100, side=side, common=common)
    run, stacks = record(target, "--hold-budget", 100, seconds=3)
    wrong = sum(n for got, want, _, n in in_spins(stacks, target.info["truth"]) if got != want)
    whole = sum(n for got, want, _, n in in_spins(stacks, target.info["truth"]) if got == want)
    equal(wrong, 0, "wrong stacks, beside %d right ones" % whole)
    enough(whole >= 30, "only %d stacks are whole: %s", whole, run)


@harness.dealt
@each(depth=[100, 1000])
@each_python
def test_generators_that_run_in_each_other(py, depth):
    """The self-check follows all of them, and refused a process with more than 64."""
    target = Target(py, "generators.py", depth)
    run, stacks = record(target, "--hold-budget", 100, "--capture", "async", seconds=1)
    equal([stack for stack, _ in stacks if names(stack) != depth * ["nest"] + ["<module>"]], [], "other stacks")
    enough(stacks, "no sample: %s", run)


@harness.dealt
@each_python
def test_generators_that_yield_through_each_other(py):
    """3.12 links each by several stores, and unlinks it: who runs it is proven all the same."""
    need_fifo()
    target = Target(py, "yields.py", 30)
    run, stacks = record(target, "--hold-budget", 100, "-F", 4999, "--provenance", "exact", seconds=3)
    right = re.compile(r"<module>( walk){0,31}")
    equal([stack for stack, _ in stacks if not right.fullmatch(" ".join(reversed(names(stack))))][:3], [], "other stacks")
    torn = run.n("torn")
    enough(run.n("exact") >= 300, "too few samples: %s", run)
    rare(torn, 0.04 * run.n("samples"), "%d are torn: %s", torn, run)
    return "%d torn of %d" % (torn, run.n("samples"))


@one_python
@not_quick
def test_the_deepest_stack(py):
    """Nearly 8000 frames go through the queue, with 64 KiB of stack bytes."""
    need_fifo()
    target = twosided(py, "--stay", side=DEEPEST, common=50)
    run, stacks = record(target, "--hold-budget", 100, "--stack-size", 65528, seconds=1)
    whole = sum(got == want for got, want, _, _ in in_spins(stacks, target.info["truth"]))
    enough(whole > 0, "no stack is whole: %s", run)
    equal((run.n("lost"), run.n("truncated")), (0, 0), "lost and cut samples")


@one_python
def test_what_a_deep_hold_costs_falls_under_the_budget(py):
    need_fifo()
    target = twosided(py, "--stay")
    run, _ = record(target, "--hold-budget", 1, "-F", 1999)
    enough(run.n("shed") > 0, "nothing was shed: %s", run)
    check("lower -F or --max-frames (each hold reads the whole stack)" in run.err, "not said: %s", run.err)


@each(frames=[5, 1024, 2000])
@one_python
def test_a_cut_stack_begins_with_its_mark(py, frames):
    need_fifo()
    target = twosided(py, "--stay")
    run, stacks = record(target, "--hold-budget", 100, frames=frames, seconds=1)
    equal(run.n("truncated"), run.n("exact") + run.n("late"), "stacks that were cut")
    for got, want, stack, _ in in_spins(stacks, target.info["truth"]):
        equal((got, harness.user_frames(stack)[0]), (want[:frames], "[truncated]"), "a stack")
        equal(stack.count("[truncated]"), 1, "marks")


@one_python
def test_a_cut_stack_begins_with_its_mark_in_perf_data(py):
    need_fifo()
    target = twosided(py, "--stay", side=20, common=20)
    home = harness.folder()
    data = os.path.join(home, "a.data")
    harness.pysampled("-p", target.pid, "-d", 1, "-F", 99, "--max-frames", 5, "-o", data).ok()
    script, _ = harness.perf("script", "-i", data, "-F", "ip,sym", home=home)
    chains = [chain.split("\n") for chain in script.strip().split("\n\n") if "spin_" in chain]
    check(chains and all("[truncated]" in chain[-1] for chain in chains), "of %d chains: %s", len(chains), chains[:1])
    report, _ = harness.perf("report", "-i", data, "--stdio", "-g", "caller", home=home)
    check("[truncated]" in report, "perf report: %s", report[:2000])


@one_python
def test_perf_shows_the_root_of_a_deep_stack(py):
    """Both ends, and what is between them where it was asked for."""
    target = twosided(py, "--stay", side=200, common=200)
    home = harness.folder()
    data = os.path.join(home, "a.data")
    for options, whole in ([], False), (["--max-frames", 1024], True):
        run = harness.pysampled("-p", target.pid, "-d", 1, "-F", 99, "-o", data, *options).ok()
        script, _ = harness.perf("script", "-i", data, "-F", "ip,sym", "--max-stack", "2000", home=home)
        chains = [re.findall(r"^\s+[0-9a-f]+ \S.*", chain, re.M) for chain in script.split("\n\n") if "spin_" in chain]
        enough(chains, "no stack: %s", run)
        for chain in chains:
            equal([sum("[elided]" in line for line in chain), len(chain) > 400, len(chain) == 127],
                  [not whole, whole, not whole], "marks, and frames: %d" % len(chain))
        shown, _ = harness.perf("script", "-i", data, "-F", "ip,sym", home=home)
        roots = ["py::<module>" in chain for chain in shown.split("\n\n") if "spin_" in chain]
        check(whole or all(roots), "the root is shown in %d of %d", sum(roots), len(roots))
        check(("their middle is [elided]" in run.err) != whole, "%s", run)


@one_python
def test_a_dump_of_a_cut_stack_ends_with_the_mark(py):
    target = twosided(py, "--stay")
    run = harness.pysampled("dump", "-p", target.pid).ok()
    check("[truncated]" in run.out, "the dump: %s", run.out[-500:])
