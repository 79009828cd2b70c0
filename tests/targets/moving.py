"""What moves while stacks are read: each part of cycle() uses CPython another way, and spins a little in between.

What CPython itself saw in some rounds, by sys.settrace(), is the truth. READY's calls: [[caller, line, callee]], lines:
[[function, line]], parts: the functions that cycle() calls.
"""
import functools
import gc
import os
import sys
import weakref

import calls
import target

WORK = target.spins()["spin_00"]


def deep(depth, body):
    return deep(depth - 1, body) if depth else body()


def step():
    WORK()


exec("def wide(x=1, %s):\n    step()" % ", ".join("a%d=0" % i for i in range(200)))
exec("def wider(x=1, %s):\n    step()" % ", ".join("b%d=0" % i for i in range(4000)))


def edge():
    for _ in range(4):
        wide()


def chunks():
    """200 locals are a tenth of the first chunk of the data stack: at some depth each call begins a new one."""
    for depth in range(0, 120, 3):
        deep(depth, edge)


def oversized():
    for _ in range(4):
        wider()


def inner():
    try:
        while True:
            step()
            yield 1
    except KeyError:
        step()
        yield 2
    finally:
        step()


def outer():
    yield from inner()


def generators():
    g = outer()
    next(g)
    g.send(1)
    g.throw(KeyError())
    g.close()
    g = inner()
    next(g)
    del g
    sum(1 for _ in zip(outer(), (1, 2)))


class Wait:
    def __await__(self):
        step()
        yield
        step()


async def third():
    await Wait()


async def second():
    await third()
    step()


async def ticks():
    try:
        for i in range(2):
            await third()
            yield i
    finally:
        step()


async def first():
    await second()
    async for _ in ticks():
        step()
    [x async for x in ticks()]


def coroutines():
    c = first()
    try:
        while True:
            c.send(None)
    except StopIteration:
        pass


def body():
    class Made:
        step()
        x = [step() for _ in (1, 2)]

        def __init__(self):
            step()
    return Made


def classes():
    made = body()
    made()
    type("Other", (made,), {})()


def comprehensions():
    [step() for _ in (1, 2)]
    {step() for _ in (1, 2)}
    {x: step() for x in (1, 2)}
    list(step() for _ in (1, 2))


def key(x):
    step()
    return -x


def callbacks():
    sorted((1, 2, 3), key=key)
    list(map(key, (1, 2)))
    functools.reduce(lambda a, b: step() or a, (1, 2, 3))


class Node:
    def __del__(self):
        step()


def gone(reference):
    step()


def freed():
    node = Node()
    other = Node()
    reference = weakref.ref(other, gone)
    many = list(range(3000))


def collected():
    node = Node()
    node.me = node
    reference = weakref.ref(node, gone)
    node = None
    gc.collect(0)


def keywords(a=1, *args, b=2, **more):
    step()


def arguments():
    keywords(*(1, 2), **{"b": 3, "c": Node()})
    try:
        step(1)
    except TypeError:
        step()


def imports():
    sys.modules.pop("moving_part", None)
    import moving_part


PARTS = (chunks, oversized, generators, coroutines, classes, comprehensions, callbacks, freed, collected, arguments,
         imports)
FILES = [__file__, "<string>", os.path.join(os.path.dirname(os.path.abspath(__file__)), "moving_part.py")]


def cycle():
    for part in PARTS:
        part()


def main():
    import gtspin
    target.live()
    gtspin.calibrate(1)
    gc.disable()  # it would come anywhere; collected() calls it
    seen, lines = set(), set()
    for _ in range(3):
        more = calls.traced(cycle, FILES)
        seen.update(more[0])
        lines.update(more[1])
    target.ready(calls=sorted(seen), lines=sorted(lines), files=FILES,
                 parts=[part.__name__ for part in PARTS])
    target.forever(cycle, target.LIFE)


if __name__ == "__main__":
    main()
