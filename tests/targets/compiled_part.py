"""compiled.py's second module."""


def inner(k):
    return sum(range(k))


def outer():
    return sorted([3, 2, 1] * 100, key=lambda k: inner(k * 50))
