"""What the tapes were recorded from: stacks of many kinds, no file but this one."""
import _thread
import sys


def spin(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def recurse(n):
    return spin(300) if n == 0 else recurse(n - 1)


def generate(n):
    for i in range(n):
        yield spin(200) + i


def delegate(n):
    yield from generate(n)


async def coroutine(n):
    return spin(300) + n


async def chain():
    return await coroutine(1)


class Thing:
    def __init__(self):
        self.value = spin(200)

    def __lt__(self, other):
        return spin(50) < 0


def run_coroutine():
    c = chain()
    try:
        c.send(None)
    except StopIteration:
        pass


def closure(n):
    def inner():
        return spin(200) + n
    return inner


def once():
    recurse(30)
    sum(delegate(3))
    run_coroutine()
    sorted([Thing(), Thing(), Thing()])
    list(map(lambda n: spin(100), range(3)))
    closure(2)()
    exec("spin(300)", {"spin": spin})


def forever(name):
    while True:
        once()


def naïve():
    forever("main")


_thread.start_new_thread(forever, ("second",))
print("ready", flush=True)
naïve()
