"""Generators, each in another, that all run at once: the innermost one never yields. argv[1]: how many."""
import sys


def nest(depth):
    if depth > 1:
        yield from nest(depth - 1)
    print("READY", flush=True)
    while True:
        pass


sys.setrecursionlimit(2 * int(sys.argv[1]) + 100)
for _ in nest(int(sys.argv[1])):
    pass
