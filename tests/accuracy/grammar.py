# SPDX-License-Identifier: MIT
"""Which stacks of tests/targets/grammars.py are possible, and how its time is shared.

A stack is a list of (function, line), entry first: the form that every profiler's output is brought into.
"""
import functools
import math
import random

LIKELY = 0.999  # what chance alone stays below
ROUNDS = 10_000  # of simulation
ANY = {None}  # lines of a function that isn't the program's own
ENOUGH = 0.01  # a distance that is good, however many samples there are


def short(qualname):
    """What all profilers know of a function's name."""
    return qualname.rpartition(".")[2]


class Grammar:
    """From the facts that the target says of itself."""

    def __init__(self, facts):
        self.truth = facts["truth"]
        self.known = set(map(short, facts["lines"]))
        self.names, self.frames = {}, {}  # tries: {name: {…}}, {(name, line): {…}, name: lines it can be at}
        for call in facts["calls"]:
            names, frames = self.names, self.frames
            for name, line in call:
                names = names.setdefault(short(name), {})
                frames.setdefault(short(name), set()).update(facts["lines"].get(name, ANY))
                frames = frames.setdefault((short(name), line), {})
        total = sum(facts["counts"].values())
        self.shares = {tuple((short(name), line) for name, line in reversed(self.truth[leaf])): count / total
                       for leaf, count in facts["counts"].items()}

    def part(self, stack):
        """What the grammar speaks about of a stack: from the first function that it knows, or ()."""
        known = [name in self.known for name, _ in stack]
        return tuple(stack[known.index(True):]) if True in known else ()

    def verdict(self, part):
        """"impossible" if no such functions can be below each other, "line" if one of their lines is wrong."""
        if follow(self.names, [name for name, _ in part]) is None:
            return "impossible"
        frames = follow(self.frames, part[:-1])
        name, line = part[-1]
        lines = frames.get(name, ()) if frames is not None else ()
        return "possible" if line in lines or None in lines else "line"


def follow(trie, keys):
    for key in keys:
        trie = trie.get(key)
        if trie is None:
            return None
    return trie


class Tally:
    """Counts of one recording, or of several added up."""

    def __init__(self):
        self.samples = self.sure = 0  # written; those the profiler calls right
        self.failed = 0  # by the profiler's own account
        self.leaves = self.wrong = 0  # stacks whose native leaf tells them; those that are not what it tells
        self.judged = self.impossible = self.line = 0  # stacks of the grammar; those that can't be
        self.paths = {}  # {(case, path): samples}
        self.bad = []  # examples

    def judge(self, grammar, case, stacks):
        self.paths.update(((case, path), 0) for path in grammar.shares)
        for stack, count in stacks:
            part = grammar.part(stack)
            if not part:
                continue
            self.judged += count
            verdict = grammar.verdict(part)
            if verdict != "possible":
                setattr(self, verdict, getattr(self, verdict) + count)
                self.bad.append("%s: %s" % (verdict, " ".join("%s:%s" % frame for frame in part)))

    def count(self, grammar, case, stacks):
        """The paths, of stacks whose time is known."""
        for stack, count in stacks:
            part = grammar.part(stack)
            if (case, part) in self.paths:
                self.paths[case, part] += count

    def add(self, other):
        for name in "samples", "sure", "failed", "leaves", "wrong", "judged", "impossible", "line":
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for path, count in other.paths.items():
            self.paths[path] = self.paths.get(path, 0) + count

    def mistakes(self):
        return self.wrong + self.impossible + self.line

    def distance(self, shares):
        """Total variation distance of the paths of one case to their true shares, and how far it may be."""
        counts = [self.paths[path] for path in shares]
        n = sum(counts)
        if not n:
            return 0.0, 1.0
        return (sum(abs(count / n - share) for count, share in zip(counts, shares.values())) / 2,
                max(ENOUGH, chance(n, tuple(shares.values()))))


def chance(n, shares):
    """The distance that 999 of 1000 multinomial draws of n samples stay below, by their normal limit: simulated,
    since many paths are not independent and two are each other's mirror. With less than three samples a path it is
    up to a tenth too wide (test_oracle.py draws single samples and counts)."""
    return normal(shares) / math.sqrt(n)


@functools.lru_cache(None)
def normal(shares):
    pick = random.Random(1)
    roots = [math.sqrt(share) for share in shares]

    def distance():
        draws = [root * pick.gauss(0, 1) for root in roots]
        off = sum(draws)
        return sum(abs(draw - share * off) for draw, share in zip(draws, shares)) / 2
    return sorted(distance() for _ in range(ROUNDS))[math.ceil(LIKELY * ROUNDS) - 1]
