"""Exceptions are thrown into generators that delegate to others: the innermost one catches each, and works."""
import time

import target


def works():
    end = time.time() + 0.01
    while time.time() < end:
        sorted(range(1000))


def inner():
    while True:
        try:
            yield
        except ValueError:
            works()


def middle(depth):
    if depth > 1:
        yield from middle(depth - 1)
    yield from inner()


def outer():
    yield from middle(10)


def throws():
    one = outer()
    next(one)
    end = time.time() + target.LIFE
    while time.time() < end:
        one.throw(ValueError())


def main():
    target.live()
    target.ready()
    throws()


main()
