"""Stacks of many kinds, each ending in a spin of its own that tells the stack. Usage: mixed.py [--us US]

Generators, yield from, coroutines, async generators, classes, closures, C callbacks, exceptions and decorators.
READY's truth: {spin: [[qualname, line], …]} leaf first.
"""
import argparse
import asyncio
import functools
import sys

import gtspin
import target

target.live()
SPINS = target.spins()
TRUTH, BELOW = {}, []
LEARNED = 3  # cycles


def here(number, depth=3):
    """Notes the caller's stack as what spin_NUMBER means, in the first cycles, and what stands below; the spin itself."""
    name = "spin_%02d" % number
    if LEARNED:
        frame, stack = sys._getframe(1), []
        while frame.f_code.co_name != "main":  # which calls from two lines
            stack.append([frame.f_code.co_qualname, frame.f_lineno])
            frame = frame.f_back
        TRUTH[name] = stack[:depth]
        below = [[function, [line]] for function, line in stack[depth:]]
        if below not in BELOW:
            BELOW.append(below)
    return SPINS[name]


def numbers():
    here(0)(); yield 1
    here(1)(); yield 2


def outer_numbers():
    yield from numbers()
    here(2)(); yield 3


def generators():
    for _ in outer_numbers():
        here(3)()
    sum(here(4)() or 1 for _ in range(2))


class Thing:
    def __init__(self):
        here(5, 1)()

    def __enter__(self):
        here(6)(); return self

    def __exit__(self, *exc):
        here(7)()

    def __lt__(self, other):
        here(8)(); return False

    @property
    def value(self):
        here(9)(); return 1

    @classmethod
    def made(cls):
        here(10)(); return cls()


def classes():
    with Thing() as thing:
        thing.value
    sorted([Thing.made(), thing])


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        here(11)()
        return function(*args)
    return wrapper


@decorated
def closures(base):
    def inner(value):
        here(12)(); return value + base
    list(map(inner, [1, 2]))
    functools.reduce(lambda a, b: here(13)() or a, [1, 2])


def exceptions():
    try:
        raising()
    except ValueError:
        here(15)()
    finally:
        here(16)()


def raising():
    here(14)(); raise ValueError


async def ticks():
    for _ in range(2):
        here(17)(); yield 1


async def awaited():
    here(18, 1)(); await asyncio.sleep(0)  # a task of its own has another caller each time
    here(19, 1)()


async def coroutines():
    await awaited()
    async for _ in ticks():
        here(20)()
    await asyncio.gather(awaited(), awaited())


def cycle(loop):
    generators()
    classes()
    closures(1)
    exceptions()
    loop.run_until_complete(coroutines())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--us", type=float, default=10)
    gtspin.calibrate(parser.parse_args().us)
    loop = asyncio.new_event_loop()
    global LEARNED
    while LEARNED:
        cycle(loop)
        LEARNED -= 1
    target.ready(truth=TRUTH, roots=[below + target.root(main) for below in BELOW])
    while True:
        cycle(loop)


main()
