"""One loop whose lines are told by what they call: READY's truth is the line that concatenates, in a loop that a JIT
compiles, where the calls of the other lines and of this one do not store where they are.
Usage: jitted.py
"""
import target

LEFT, RIGHT = "a" * 30000, "b" * 30000


def add(a):
    return a + 0.5


def hot(n):
    x = 1.5
    k = 0
    for _ in range(n):
        x = x * 1.0000001
        s = LEFT + RIGHT
        k = k + 3
        x = add(x) - 0.5
        if k > 100:
            k = 0
    return s


target.live()
first = hot.__code__.co_firstlineno
target.ready(truth={}, line=first + 5)
while True:
    hot(3000)
