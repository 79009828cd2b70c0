# SPDX-License-Identifier: MIT
"""What stacks of tests/targets/groundtruth.py are possible, and how its time is shared.

A stack is a list of (function, line), root first: the form that every profiler's output is brought
into. cycle calls f_KK, f_KK calls g_KK, g_KK calls four spins, each call on a line of its own, so most
pairs of a caller's line and a callee are impossible.
"""
import math

LINES_OF_A_SPIN = 3  # (g, line), (f, line), ("cycle", line), innermost first


class Grammar:
    def __init__(self, truth):
        self.calls = {}  # (caller, line) -> callee, None below the last one
        self.lines = {}  # function -> its lines
        for path in truth.values():
            assert len(path) == LINES_OF_A_SPIN
            callee = None
            for function, line in path:
                self.calls[function, line] = callee
                self.lines.setdefault(function, set()).add(line)
                callee = function
        for lines in self.lines.values():
            lines.add(min(lines) - 1)  # the def line: where a function begins
        self.leaves = {tuple(path[0]) for path in truth.values()}

    def of_it(self, stack):
        """The part of a stack that the grammar speaks about, or []."""
        names = [function for function, _ in stack]
        return stack[names.index("cycle"):] if "cycle" in names else []

    def possible(self, part):
        callers = part[:-1]
        return (all(line in self.lines.get(function, ()) for function, line in part)
                and all(self.calls.get(frame) == callee for frame, (callee, _) in zip(callers, part[1:])))


class Tally:
    """Counts of one recording."""

    def __init__(self, grammar):
        self.grammar = grammar
        self.judged = self.impossible = 0
        self.leaves = dict.fromkeys(grammar.leaves, 0)
        self.shown = []

    def add(self, stack, count):
        part = self.grammar.of_it(stack)
        if not part:
            return
        self.judged += count
        if not self.grammar.possible(part):
            self.impossible += count
            self.shown.append(part)
        elif part[-1] in self.leaves:
            self.leaves[part[-1]] += count

    def distance(self):
        """Total variation distance of the leaves' shares to the true ones, which are all equal, and the
        distance that chance alone stays below in 999 of 1000 recordings of as many samples."""
        n, k = sum(self.leaves.values()), len(self.leaves)
        if not n:
            return 0.0, 1.0
        share = 1 / k
        distance = sum(abs(count / n - share) for count in self.leaves.values()) / 2
        spread = math.sqrt(share * (1 - share) / n)
        mean = k * spread * math.sqrt(2 / math.pi) / 2
        deviation = math.sqrt(k * (1 - 2 / math.pi)) * spread / 2
        return distance, mean + 3.09 * deviation
