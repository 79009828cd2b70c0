"""Calls of every shape at the highest rate, each function called from one line only, so that a stack tells if it can be.

What CPython itself saw in one round, by sys.settrace(), is the truth. READY's calls: [[caller, line, callee]], lines:
[[function, line]]. Usage: calls.py [SEED]
"""
import functools
import random
import sys

import target

SHAPES = {
    "plain": ["def {0}({pad}):", "    x = 1", "    return {1}()", "def {1}():", "    return 1"],
    "deep": ["def {0}({pad}):", "    {1}()", "    return 2", "def {1}({pad}):", "    return {2}()", "def {2}({pad}):",
             "    x = 1", "    return x"],
    "map": ["def {0}({pad}):", "    return list(map({1}, TWO))", "def {1}(x, {pad}):", "    return x"],
    "key": ["def {0}({pad}):", "    return sorted(TWO, key={1})", "def {1}(x, {pad}):", "    y = {2}(x)",
            "    return y", "def {2}(x):", "    return -x"],
    "reduce": ["def {0}({pad}):", "    return {1}()", "def {1}({pad}):", "    return functools.reduce({2}, TWO)",
               "def {2}(x, y):", "    return x"],
    "generator": ["def {0}({pad}):", "    for x in {1}():", "        y = x", "def {1}({pad}):", "    yield 1",
                  "    yield {2}()", "def {2}({pad}):", "    return 1"],
    "from": ["def {0}({pad}):", "    return sum({1}())", "def {1}({pad}):", "    yield from {2}()", "def {2}({pad}):",
             "    yield 1", "    yield 2"],
    "class": ["def {0}({pad}):", "    return K{0}()", "class K{0}:", "    def __init__(self, {pad}):",
              "        self.x = {1}()", "def {1}():", "    return 1"],
    "del": ["def {0}({pad}):", "    {1}()", "def {1}({pad}):", "    x = K{0}()", "class K{0}:", "    def __del__(self):",
            "        {2}()", "def {2}({pad}):", "    return 1"],
    "kwargs": ["def {0}({pad}):", "    return {1}(**PAIR)", "def {1}(a=1, b=2, **k):", "    return {2}(*TWO)",
               "def {2}(*a, {pad}):", "    return a"],
    "cell": ["def {0}({pad}):", "    x = 1", "    def {1}():", "        y = x", "        return y", "    return {1}()"],
    "send": ["def {0}({pad}):", "    g = {1}()", "    g.send(None)", "    g.send(1)", "    g.close()", "def {1}({pad}):",
             "    try:", "        while True:", "            yield 1", "    finally:", "        {2}()", "def {2}():",
             "    return 1"],
    "await": ["def {0}({pad}):", "    try:", "        {1}().send(None)", "    except StopIteration:", "        pass",
              "async def {1}({pad}):", "    return await {2}()", "async def {2}({pad}):", "    return 1"],
}
COUNT = 60


def name(frame):
    return getattr(frame.f_code, "co_qualname", frame.f_code.co_name)


def traced(body, files):
    """The calls and the lines of one round, in files of ours."""
    calls, lines = set(), set()

    def trace(frame, *_):
        if frame.f_code.co_filename not in files:
            return None
        lines.add((name(frame), frame.f_lineno))
        while frame.f_back:  # the whole stack: a throw() through a generator is no event of its
            calls.add((name(frame.f_back), frame.f_back.f_lineno, name(frame)))
            frame = frame.f_back
        return trace

    sys.settrace(trace)
    body()
    sys.settrace(None)
    return sorted(calls), sorted(lines)


def main():
    target.live()
    pick = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    lines = []
    for i in range(COUNT):  # functions of different sizes, so that what is stale rarely fits
        shape = SHAPES[list(SHAPES)[i % len(SHAPES)]]
        names = ["s%02d_%d" % (i, k) for k in range(3)]
        for line in shape:
            pad = ", ".join("p%d=1" % k for k in range(pick.choice((0, 1, 2, 5, 9, 20))))
            lines.append(line.format(*names, pad=pad))
    order = list(range(COUNT)) * 3
    pick.shuffle(order)
    lines += ["def cycle():"] + ["    s%02d_0()" % i for i in order]
    namespace = {"functools": functools, "TWO": (1, 2), "PAIR": {"a": 1, "c": 3}}
    path = target.generated("\n".join(lines) + "\n", "calls_generated.py", namespace)
    calls, seen = traced(namespace["cycle"], {path})
    target.ready(calls=calls, lines=seen, files=[path])
    target.forever(namespace["cycle"], target.LIFE)


if __name__ == "__main__":
    main()
