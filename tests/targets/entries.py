"""C that calls Python back as often as it can: map, sort with __lt__, key=, reduce, sum of a generator; on stacks of
several depths, so that what an activation leaves on the C stack is not what the next one there needs."""
import functools
import inspect

from target import live, ready


class Ordered:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return self.value < other.value


def same(value):
    return value


def first(a, b):
    return a


def numbers():
    for n in NUMBERS:
        yield n


def by_map():
    list(map(same, NUMBERS))


def by_sort():
    ORDERED.sort()


def by_key():
    NUMBERS.sort(key=same)


def by_reduce():
    functools.reduce(first, NUMBERS)


def by_sum():
    sum(numbers())


def by_class():
    list(map(Ordered, NUMBERS))


def inner(call):
    call()


def outer(call):
    any(map(inner, (call,)))


# What C is called from each line, and the Python function that it calls.
CALLS = {"by_map": "same", "by_sort": "Ordered.__lt__", "by_key": "same", "by_reduce": "first", "by_sum": "numbers",
         "by_class": "Ordered.__init__", "outer": "inner"}
C_FUNCTIONS = {"by_sort": ["list_sort_impl"], "by_key": ["list_sort_impl"], "by_reduce": ["functools_reduce"],
               "by_sum": ["builtin_sum", "builtin_sum_impl"], "outer": ["builtin_any"]}
NUMBERS = list(range(300))
ORDERED = [Ordered(n * 7 % 300) for n in NUMBERS]
CASES = [by_map, by_sort, by_key, by_reduce, by_sum, by_class]

lines = {name: inspect.getsourcelines(globals()[name])[1] + 1 for name in CALLS}
live()
ready(calls=CALLS, c=C_FUNCTIONS, lines=lines)
while True:
    for case in CASES:
        case()
        outer(case)
        inner(case)
