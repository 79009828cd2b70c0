"""Programs with a grammar: each spin_NN is called from one stack only, and all stacks that can be are known.

Usage: grammars.py CASE [--us US] [--threads N]; the cases are at the end. A case is a text of its own; its entry
functions are called in random order for ever, so that no sampling period can fall into step with them.
READY's facts come from CPython: one call of each entry under sys.setprofile tells
  truth  {spin: [[qualname, line], …]}, leaf first, up to the entry
  counts {spin: calls in one call of each entry}, its share of the time
  calls  [[[qualname, line], …, [qualname, null]], …], entry first: every call of a Python function that can be
  lines  {qualname: its lines}, where it can be sampled: of a function with a line that alone causes the event, that line
"""
import argparse
import asyncio
import ctypes
import functools
import marshal
import mmap
import random
import re
import sys
import threading
import types

import gtspin
import target

HERE = "  # the event is here"
PR_SET_THP_DISABLE = 41  # linux/prctl.h
DEPTHS, STEP = 32, 15  # of the recursion
LOCALS = 2500  # words; a chunk of the data stack holds 2048


def tree():
    """Three levels, each call on a line of its own."""
    for k in range(16):
        yield "def tree_%02d():\n    f_%02d()" % (k, k)
        yield "def f_%02d():\n    g_%02d()" % (k, k)
        yield "def g_%02d():\n" % k + "\n".join("    spin_%02d()" % n for n in range(4 * k, 4 * k + 4))


def pairs():
    """a calls b, c calls d, in quick turns; their frames are alike and lie at the same place."""
    for k in range(4):
        yield "def pairs_%02d():\n    a_%02d()\n    c_%02d()" % (k, k, k)
        for caller, callee, n in ("a", "b", 2 * k), ("c", "d", 2 * k + 1):
            yield "def %s_%02d():\n    %s_%02d()" % (caller, k, callee, k)
            yield "def %s_%02d():\n    spin_%02d()" % (callee, k, n)


def leaf():
    """One leaf for all callers."""
    yield "def shared(spin):\n    spin()"
    for k in range(16):
        yield "def leaf_%02d():\n    shared(spin_%02d)\n    shared(spin_%02d)" % (k, 2 * k, 2 * k + 1)


def deep():
    """Recursion whose depth changes all the time, over several chunks of the data stack."""
    yield "def descend(n, spin):\n    if n:\n        descend(n - 1, spin)\n    else:\n        spin()"
    for k in range(DEPTHS):
        yield "def deep_%02d():\n    descend(%d, spin_%02d)" % (k, k * STEP, k)


def reuse():
    """Code objects made, run and freed again and again, at the same addresses."""
    yield "def made(code):\n    return types.FunctionType(marshal.loads(code), globals())"
    for k in range(64):
        yield "def fn_%02d():\n    spin_%02d()" % (k, k)
        yield "code_%02d = marshal.dumps(fn_%02d.__code__)" % (k, k)
        yield "def reuse_%02d():\n    made(code_%02d)()" % (k, k)


def chunk():
    """A frame larger than a chunk of the data stack: each call makes a chunk, each return frees it."""
    names = " = ".join("v%d" % n for n in range(LOCALS))
    for k in range(8):
        yield "def chunk_%02d():\n    big_%02d()\n    spin_%02d()" % (k, k, 4 * k)
        for name, callee, n in ("big", "small", 1), ("small", "last", 2):
            yield "def %s_%02d():\n    spin_%02d()\n    %s_%02d()" % (name, k, 4 * k + n, callee, k)
            if name == "big":
                yield "    return\n    %s = None" % names
        yield "def last_%02d():\n    spin_%02d()\n    return\n    %s = None" % (k, 4 * k + 3, names)


def gen():
    """A generator that delegates to another one."""
    for k in range(16):
        spins = tuple(range(4 * k, 4 * k + 4))
        yield "def gen_%02d():\n    for _ in outer_%02d():\n        spin_%02d()" % (k, k, spins[0])
        yield "def outer_%02d():\n    yield from inner_%02d()\n    spin_%02d()" % (k, k, spins[1])
        yield "def inner_%02d():\n    spin_%02d()\n    yield 1\n    spin_%02d()" % (k, *spins[2:])


def task():
    """Two tasks of one loop, which take turns in the middle of their chains of awaits."""
    for k in range(16):
        spins = tuple(range(4 * k, 4 * k + 4))
        yield "async def task_%02d():\n    await middle_%02d()\n    spin_%02d()" % (k, k, spins[0])
        yield "async def middle_%02d():\n    spin_%02d()\n    await inmost_%02d()" % (k, spins[1], k)
        yield "async def inmost_%02d():\n    spin_%02d()\n    await asyncio.sleep(0)\n    spin_%02d()" % (k, *spins[2:])


def init():
    """Classes: the body, __init__ and its super, a method, a property."""
    for k in range(8):
        at = 5 * k
        yield "def init_%02d():\n    Thing_%02d().method()" % (k, k)
        yield "def body_%02d():\n    class Made_%02d:\n        spin_%02d()" % (k, k, at)
        yield "class Base_%02d:\n    def __init__(self):\n        spin_%02d()" % (k, at + 1)
        yield "class Thing_%02d(Base_%02d):" % (k, k)
        yield "    def __init__(self):\n        super().__init__()\n        spin_%02d()" % (at + 2)
        yield "    def method(self):\n        spin_%02d()\n        self.value" % (at + 3)
        yield "    @property\n    def value(self):\n        spin_%02d()" % (at + 4)


def fault():
    """Fresh pages touched, on one line of a function each, by C and by Python."""
    for k in range(16):
        for n, name, store in (2 * k, "c", "touch_%02d(address_%02d)"), (2 * k + 1, "py", "area_%02d[0] = 1"):
            yield "area_%02d = fresh()\naddress_%02d = address_of(area_%02d)" % (n, n, n)
            yield "def fault_%s_%02d():\n    area_%02d.madvise(DROP)\n    spin_%02d()" % (name, k, n, n)
            yield "    " + store % ((n,) * store.count("%")) + HERE
            yield "    spin_%02d()" % (n + 32)


def nap():
    """Sleeps, on one line of a function each."""
    for k in range(16):
        yield "def nap_%02d_a():\n    nap_%02d_b()\n    spin_%02d()" % (k, k, 2 * k)
        yield "def nap_%02d_b():\n    spin_%02d()\n    doze_%02d()" % (k, 2 * k + 1, k)


def callback():
    """C that calls back: sorted, map, re.sub, functools.reduce."""
    callers = "sorted((1,), key=%s)", "list(map(%s, (1,)))", "PATTERN.sub(%s, 'x')", "functools.reduce(%s, (1, 2))"
    for n in range(64):
        yield "def callback_%02d():\n    %s" % (n, callers[n % 4] % ("back_%02d" % n))
        yield "def back_%02d(*args):\n    spin_%02d()\n    return ''" % (n, n)


CASES = {case.__name__: case for case in (tree, pairs, leaf, deep, reuse, chunk, gen, task, init, callback, fault,
                                         nap)}
ENTRIES = {"init": r"(init|body)_\d\d", "fault": r"fault_(c|py)_\d\d", "nap": r"nap_\d\d_a"}
LEAVES = {"fault": "touch_", "nap": "doze_"}  # whose calls are the events, not those of spin_NN


class Facts:
    """What CPython says of the program while each entry runs once."""

    def __init__(self, path, leaves):
        self.path, self.leaves, self.calls, self.truth, self.counts = path, leaves, set(), {}, {}
        self.inmost = False  # nothing was called yet by what was called last

    def stack(self, frame):
        """Entry first."""
        frames = []
        while frame:
            frames.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        ours = [code.co_filename == self.path for code, _ in frames]
        outermost = len(ours) - ours[::-1].index(True) if True in ours else 0
        return [(target.name_of(code), line) for code, line in reversed(frames[:outermost])]

    def hook(self, frame, event, what):
        if event == "return" and self.inmost:
            stack = self.stack(frame)
            if stack:
                self.calls.add((*stack[:-1], (stack[-1][0], None)))
        elif event == "c_call" and what.__module__ == "gtspin":
            stack = self.stack(frame)
            same = self.truth.setdefault(what.__name__, stack[::-1])
            assert same == stack[::-1], "%s is called from two stacks" % what.__name__
            if what.__name__.startswith(self.leaves):
                self.counts[what.__name__] = self.counts.get(what.__name__, 0) + 1
        if event in ("call", "return"):
            self.inmost = event == "call"

    def longest(self):
        """Without the calls that are the beginning of others."""
        begun = {(*call[:-2], (call[-2][0], None)) for call in self.calls if len(call) > 1}
        return sorted(self.calls - begun)


def lines_of(code, marked, found):
    """{qualname: lines} of all functions and classes in a module's code."""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            lines = target.lines_of(inner) | {inner.co_firstlineno}
            found.setdefault(target.name_of(inner), set()).update(lines & marked or lines)
            lines_of(inner, marked, found)
    return {name: sorted(lines) for name, lines in found.items()}


def learn(case, path, entries):
    facts = Facts(path, LEAVES.get(case, "spin_"))
    sys.setprofile(facts.hook)
    for entry in entries:
        asyncio.run(entry()) if case == "task" else entry()
    sys.setprofile(None)
    return dict(truth=facts.truth, counts=facts.counts, calls=facts.longest())


def fresh():
    """A page that has no memory until it is touched."""
    return mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def address_of(area):
    return ctypes.addressof(ctypes.c_char.from_buffer(area))


async def wander(entries, picks):
    while True:
        await picks.choice(entries)()


async def two_tasks(entries, picks):
    await asyncio.gather(wander(entries, picks), wander(entries, picks))


async def called_by_loop():
    """What stands between a task's entry and run(), by a task of the same depth."""
    async def look():
        frame, places = sys._getframe(), [target.place(wander)]
        while frame.f_back.f_code is not main.__code__:
            frame = frame.f_back
            places.append(target.place(frame))
        return places
    return (await asyncio.gather(look()))[0]


def run(case, entries, picks):
    if case == "task":
        asyncio.run(two_tasks(entries, picks))
    while True:
        for entry in picks.choices(entries, k=100):
            entry()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--us", type=float, default=10)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    target.live()
    gtspin.calibrate(args.us)
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)  # or khugepaged causes faults on any line
    namespace = dict(target.spins(), **target.spins("touch_"), **target.spins("doze_"), asyncio=asyncio,
                     functools=functools, marshal=marshal, types=types, PATTERN=re.compile("x"), fresh=fresh,
                     address_of=address_of, DROP=getattr(mmap, "MADV_DONTNEED", 4))
    text = "\n".join(CASES[args.case]()) + "\n"
    path = target.generated(text, "%s_generated.py" % args.case, namespace)
    wanted = re.compile(ENTRIES.get(args.case, args.case + r"_\d\d"))
    entries = [value for name, value in sorted(namespace.items()) if wanted.fullmatch(name)]
    facts = learn(args.case, path, entries)

    begin = threading.Event()  # 200 threads that fight for the GIL would take minutes to start
    picks = [random.Random(number) for number in range(args.threads)]  # its __init__ is not ours

    def work(number):
        if args.case == "fault":
            for entry in entries:  # the first time memory of the thread's own is touched, on any line
                entry()
        begin.wait()
        run(args.case, entries, picks[number])

    for number in range(1, args.threads):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    marked = {number for number, line in enumerate(text.split("\n"), 1) if line.endswith(HERE)}
    below = asyncio.run(called_by_loop()) if args.case == "task" else []
    roots = [below + rest for rest in (target.root(run, work, main), target.root_of_thread(run, work))]
    if args.case == "fault":  # the first touches
        roots += target.root(work, main), target.root_of_thread(work)
    target.ready(lines=lines_of(compile(text, path, "exec"), marked, {}), roots=roots, **facts)
    begin.set()
    work(0)


main()
