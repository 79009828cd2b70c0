"""Random ways through Python and C, each told as it was taken and then spent some time in.

Usage: interleave.py LIBRARY SECONDS SEED. A line a path: the functions p_NN and x_* that stand on the stack, root first.
"""
import ctypes
import functools
import importlib.machinery
import json
import random
import re
import sys
import time

lib = ctypes.PyDLL(sys.argv[1])
libc = ctypes.CDLL(None)
for call in (lib.x_call, lib.x_hole):
    call.argtypes, call.restype = [ctypes.py_object], ctypes.py_object
lib.x_spin.argtypes = [ctypes.c_double]
dice = random.Random(int(sys.argv[3]))
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def direct(f):
    f()


def from_c(f):
    lib.x_call(f)


def from_c_with_a_hole(f):
    lib.x_hole(f)


def sort_key(f):
    sorted([0], key=lambda _: f() or 0)


def mapping(f):
    list(map(lambda _: f(), [0]))


def substitute(f):
    re.sub("a", lambda _: f() or "", "a")


def quicksort(f):
    left = [f]

    def compare(a, b):
        if left:
            left.pop()()
        return 0

    libc.qsort((ctypes.c_int * 2)(), ctypes.c_size_t(2), ctypes.c_size_t(4), COMPARE(compare))


def finalizer(f):
    class Dying:
        def __del__(self):
            f()

    Dying()


def generator(f):
    def items():
        yield f()

    sum(1 for _ in items())


def reduction(f):
    functools.reduce(lambda a, b: f(), [0, 1])


def operator(f):
    class Adding:
        def __add__(self, other):
            f()
            return 0

    Adding() + 1


def constructor(f):
    class Made:
        def __init__(self):
            f()

    Made()


def executed(f):
    exec(compile("f()", "executed", "exec"), {"f": f})


def encoder(f):
    json.dumps({0: f}, default=lambda o: o())


class Importer:
    """Of a module that calls f."""
    def __init__(self, f):
        self.f = f

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "interleaved" else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self.f()


def importing(f):
    sys.meta_path.insert(0, Importer(f))
    sys.modules.pop("interleaved", None)
    import interleaved
    del sys.meta_path[0]


def coroutine(f):
    async def run():
        f()

    try:
        run().send(None)
    except StopIteration:
        pass


WAYS = (direct, from_c, from_c_with_a_hole, sort_key, mapping, substitute, quicksort, finalizer, generator, reduction,
        operator, constructor, executed, encoder, importing, coroutine)


def p_spin(seconds):
    lib.x_push(20)
    lib.x_tell()
    if dice.random() < 0.5:
        lib.x_signal(1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(2000):
            pass
    lib.x_pop()


def make(index):
    name = "p_%02d" % index
    text = "def %s(rest):\n    lib.x_push(%d)\n    step(rest)\n    lib.x_pop()\n" % (name, index)
    exec(compile(text, "functions", "exec"), globals())
    return globals()[name]


FUNCTIONS = [make(i) for i in range(20)]


def step(rest):
    if not rest:
        leaf = dice.choice((lambda: lib.x_spin(0.03), lambda: p_spin(0.03), lambda: lib.x_signal(0)))
        leaf()
        return
    way, function = rest[0]
    way(lambda: function(rest[1:]))


end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    step([(dice.choice(WAYS), dice.choice(FUNCTIONS)) for _ in range(dice.randint(1, 7))])
