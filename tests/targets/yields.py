"""Generators that iterate over generators, argv[1] deep: most of the time goes into beginning and yielding."""
import sys


def walk(depth):
    if depth:
        for value in walk(depth - 1):
            yield value
    else:
        for value in range(100):
            yield value


print("READY", flush=True)
while True:
    for _ in walk(int(sys.argv[1])):
        pass
