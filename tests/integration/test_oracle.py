"""tools/accuracy judges others: here is what judges it."""
import os
import random
import sys

import harness
from harness import Target, check, each, equal, one_python

sys.path.insert(0, os.path.join(harness.ROOT, "tests", "accuracy"))
import grammar  # noqa: E402
import report  # noqa: E402

CASES = ("tree", "pairs", "leaf", "deep", "reuse", "chunk", "gen", "task", "init", "callback")
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
