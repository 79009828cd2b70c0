"""walk() reads memory at random, add() computes; equally long, by turns, for ever."""
import target

SIZE = 1 << 27
data = bytearray(SIZE)


def walk():
    at = total = 1
    for _ in range(2000):
        at = (at * 1664525 + 1013904223) & (SIZE - 1)
        total += data[at]
    return total


def add():
    at = total = 1
    for _ in range(2000):
        at = (at * 1664525 + 1013904223) & 127
        total += at
    return total


def both():
    walk()
    add()


target.live()
for page in range(0, SIZE, 4096):
    data[page] = 1
target.ready()
target.forever(both, target.LIFE)
