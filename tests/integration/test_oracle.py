"""tools/accuracy judges others: here is what judges it."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import random
import sys

import harness
from harness import Target, check, each, equal, one_python

sys.path.insert(0, os.path.join(harness.ROOT, "tests", "accuracy"))
import grammar  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402

CASES = ("tree", "pairs", "leaf", "deep", "reuse", "chunk", "gen", "task", "init", "callback", "nap")
EVEN = {k: (1 / k,) * k for k in (2, 8, 64)}


def rules(py, case):
    return grammar.Grammar(Target(py, "grammars.py", case, "--us", 1).info)


def verdict(given, *stack):
    return given.verdict(given.part([("main", 1), *stack]))


@each(case=CASES)
@one_python
def test_true_stacks_are_possible_and_mixed_ones_are_not(py, case):
    given = rules(py, case)
    paths = list(given.shares)
    check(len(paths) >= 8 and abs(sum(given.shares.values()) - 1) < 1e-9, "%d paths", len(paths))
    for path in paths:
        equal(verdict(given, *path), "possible", "the verdict on %s" % (path,))
        equal(verdict(given, *path[1:]) if len(path) > 1 else "impossible", "impossible", "without its entry")
        name, line = path[0]
        equal(verdict(given, (name, line + 1000), *path[1:]), "line", "a line that %s hasn't" % name)
    for path, other in zip(paths, paths[len(paths) // 2:]):
        if path[0] != other[0] and path[1:] != other[1:] and case != "leaf":
            check(verdict(given, path[0], *other[1:]) != "possible", "%s under %s", other[1:], path[0])


@one_python
def test_the_stacks_of_a_pair_do_not_mix(py):
    given = rules(py, "pairs")
    a, c = sorted(path for path in given.shares if path[0][0] == "pairs_00")
    equal(verdict(given, *a[:2], c[2]), "impossible", "a calls d")
    equal(verdict(given, a[0], *c[1:]), "line", "the line of a calls c")
    equal(verdict(given, *a[:2]), "possible", "a calls nobody yet")
    equal(given.part([("elsewhere", 1)]), (), "a stack of something else")


@each(n=[50, 400, 4000])
@each(paths=sorted(EVEN))
def test_the_bound_of_chance_is_what_draws_stay_below(paths, n):
    """1 of 1000 multinomial draws is above it; never much more, and not none unless there are few samples a path."""
    shares, pick, rounds = EVEN[paths], random.Random(5), 4_000_000 // n
    bound, above = grammar.chance(n, shares), 0
    for _ in range(rounds):
        counts = [0] * paths
        for k in pick.choices(range(paths), k=n):
            counts[k] += 1
        above += sum(abs(count / n - 1 / paths) for count in counts) / 2 > bound
    check(above <= 0.001 * rounds + 4 * (0.001 * rounds) ** 0.5, "%d of %d draws are above %g", above, rounds, bound)
    check(bound < 3 * (paths / n) ** 0.5, "a bound of %g for %d samples", bound, n)


def test_a_wrong_share_is_seen():
    tally, shares = grammar.Tally(), {("x", k): 1 / 8 for k in range(8)}
    tally.paths = {path: 2000 for path in shares}
    equal(tally.distance(shares), (0, grammar.chance(16000, EVEN[8])), "the distance of true shares")
    tally.paths["x", 0], tally.paths["x", 1] = 2400, 1600
    distance, limit = tally.distance(shares)
    check(abs(distance - 0.025) < 1e-9 and distance > limit, "%g is not above %g", distance, limit)


def test_tables_go_between_the_marker_lines():
    path = os.path.join(harness.folder(), "x.md")
    with open(path, "w") as file:
        file.write("a\n%sold\n%sb\n" % (report.BEGIN, report.END))
    report.write(path, "new\n")
    with open(path) as file:
        equal(file.read(), "a\n%snew\n%sb\n" % (report.BEGIN, report.END), "the file")


def oracle(*argv):
    """tools/accuracy as a module, and its judge before it measures."""
    loader = importlib.machinery.SourceFileLoader("accuracy", os.path.join(harness.ROOT, "tools", "accuracy"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("accuracy", loader))
    loader.exec_module(module)
    module.EVIDENCE = harness.folder()
    judge = module.Oracle(module.options(argv))
    judge.captures = ["preempt"]
    return module, judge


def failures(judge, method, *args):
    with contextlib.redirect_stdout(io.StringIO()):
        method(*args)
    return judge.counts["FAIL"]


def recorded(py, case, change):
    """The failures of a recording that saw each path as often as it must, but for a change."""
    module, judge = oracle()
    rules = grammar.Grammar(Target(py, "grammars.py", case, "--us", 1).info)
    recording = peers.Recording(change([(list(path), 100) for path in rules.shares]))
    recording.evidence = ""
    harness.cleanup(setattr, peers, "pysampled", peers.pysampled)
    peers.pysampled = lambda *args, **options: lambda *args: recording
    judge.shares[case] = {(case, path): share for path, share in rules.shares.items()}
    return failures(judge, judge.ours, (py, case, 1, 1), rules, None, 999, "preempt")


@each(case=["tree", "fault", "nap"])
@one_python
def test_a_recording_fails_by_one_wrong_line_or_a_share_that_is_off(py, case):
    def wrong(stacks):
        (*callers, (name, line)), _ = stacks[0]
        return [*stacks, ([*callers, (name, line + (1000 if case == "tree" else 1))], 1)]
    equal(recorded(py, case, lambda stacks: stacks), 0, "failures of a true recording")
    equal(recorded(py, case, wrong), 1, "failures by one line")
    equal(recorded(py, case, lambda stacks: [*stacks[:-1], (stacks[-1][0], 1000)]), 1, "failures by a share")


@each(case=["tree", "fault", "nap"])
@one_python
def test_a_recording_of_nothing_fails(py, case):
    equal(recorded(py, case, lambda stacks: []), 1, "failures without a sample")


@each(argv=["--captures prempt", "--pythons 3.12.x", "--cases treee"])
def test_what_is_named_and_not_there_fails(argv):
    """Beside what is there."""
    option, name = argv.split()
    harness.cleanup(setattr, peers, "captures", peers.captures)
    peers.captures = lambda: {"preempt": None, "stop": "it is refused"}
    there = {"--captures": "stop", "--pythons": harness.newest_python().tag, "--cases": "tree"}[option]
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            _, judge = oracle(option, there + "," + name)
    except SystemExit as end:
        equal(end.code, 2, "its status")
        return
    failures(judge, judge.find_captures)
    equal(failures(judge, lambda: list(judge.pythons())), 1, "failures of " + argv)


def test_a_run_that_judged_nothing_fails():
    for argv, want in ((), 1), (("--at-least", "0"), 0), (("--peers", "only"), 0):
        _, judge = oracle(*argv)
        judge.captures = []
        equal(failures(judge, judge.whole), want, "failures of %s" % (argv,))


def test_recordings_of_lives_are_long():
    for argv, want in (("--lives",), 4), (("--lives", "--seconds", "1.5"), 1.5), (("--quick",), 0.3), ((), 0.5):
        equal(oracle(*argv)[1].given.seconds, want, "seconds of %s" % (argv,))


def test_empty_stacks_of_others_are_their_failures():
    equal(peers.without_empty("a (b:1);c (d:2) 3\n 1\n 2\n"), ([(["a (b:1)", "c (d:2)"], 3)], 3), "stacks and failures")


def test_too_few_exact_fail():
    for sure, argv, want in (98_000, (), 1), (99_500, (), 0), (98_000, ("--quick",), 0):
        _, judge = oracle(*argv)
        tally = grammar.Tally()
        tally.samples, tally.sure, tally.leaves = 100_000, sure, 1
        judge.pool(tally, "preempt", ("preempt", "rates"))
        equal(failures(judge, judge.shares_of_exact), want, "failures of %s, %d" % (argv, sure))


def test_only_threads_without_a_gil_that_map_memory_may_be_late():
    module, _ = oracle()
    for tag, case, threads, want in (("3.13t", "deep", 8, True), ("3.13t", "chunk", 200, True), ("3.13.0", "deep", 8, False),
                                     ("3.13t", "tree", 8, False), ("3.13t", "chunk", 1, False)):
        equal(module.is_delayed((harness.Python(tag, None), case, threads, 2)), want, "%s %s %d" % (tag, case, threads))


@each(capture=["preempt", "async"])
def test_a_whole_run_that_would_miss_a_rate_that_was_met_fails(capture):
    for more, argv, want in (0, (), 0), (-1, (), 1), (-1, ("--quick",), 0):
        module, judge = oracle(*argv)
        need = module.needed(module.MET[capture])
        check((1 - module.MET[capture]) ** need <= 0.05 < (1 - module.MET[capture]) ** (0.99 * need), "%d are not 95 %%", need)
        judge.captures = [capture]
        tally = grammar.Tally()
        tally.leaves = need + more
        judge.pool(tally, capture)
        equal(failures(judge, judge.visible), want, "failures of %s with %d" % (argv, tally.leaves))
    for argv, want in ((), 1), (("--quick",), 0), (("--peers", "only"), 0):
        _, judge = oracle(*argv)
        judge.captures = [capture]
        equal(failures(judge, judge.visible), want, "failures of %s with none" % (argv,))


def test_a_run_goes_on_until_it_sees_the_rates():
    module, judge = oracle()
    judge.captures, tally = ["preempt", "stop", "async"], grammar.Tally()
    tally.leaves = module.needed(module.MET["preempt"]) // 3
    asked = []

    def measure(subject, rates, with_others):
        asked.append((list(judge.captures), rates))
        judge.pool(tally, *judge.captures)
    judge.measure = measure
    judge.see_what_was_met([(None, "tree", 1, 2), (None, "tree", 1, 10)])
    equal(asked, [(["preempt", "async"], [9999]), (["preempt"], [4999]), (["preempt"], [9999]), (["preempt"], [4999])],
          "recordings")
    equal(judge.captures, ["preempt", "stop", "async"], "captures")


def test_a_capture_of_which_nothing_is_judged_fails():
    _, judge = oracle()
    equal(failures(judge, judge.shares_of_exact), 1, "failures")


@one_python
def test_a_build_without_proof_must_be_caught(py):
    """Were it as good as ours, as here, the oracle would fail."""
    module, judge = oracle()
    module.TRIES = 1
    harness.cleanup(peers.PEERS.update, {module.UNCHECKED: peers.PEERS[module.UNCHECKED]})
    peers.PEERS[module.UNCHECKED] = peers.pysampled("async")
    equal(failures(judge, judge.unchecked, py), 1, "failures")
