"""One thread through interpreters in one another, 3.12 on: READY, then for ever work at each depth, in Python and in C
that holds no GIL. What stands on the stack of at_N and free_N: the functions outer_0, at_0; outer_0, outer_1, at_1 ...
"""
import sys

MODULES = "_interpreters", "_xxsubinterpreters"
SOURCE = r"""
import hashlib, time

def at_%(n)d():
    end = time.monotonic() + 0.02
    while time.monotonic() < end:
        for _ in range(1000):
            pass

def free_%(n)d():
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 30000)

def outer_%(n)d(run):
    at_%(n)d()
    free_%(n)d()
    run()
"""
LAST = "\nouter_%(n)d(lambda: None)\n"
NEXT = r"""
import %(module)s as interpreters

def run():
    other = interpreters.create()
    interpreters.%(run)s(other, %(next)r)
    interpreters.destroy(other)

outer_%(n)d(run)
"""


def find():
    """The module and its function, of any version."""
    for name in MODULES:
        try:
            module = __import__(name)
        except ImportError:
            continue
        return {"module": name, "run": "exec" if hasattr(module, "exec") else "run_string"}
    return None


def source(n, names):
    """What the interpreter at depth @n runs."""
    values = dict(names, n=n)
    if n == 2:
        return (SOURCE + LAST) % values
    return (SOURCE + NEXT) % dict(values, next=source(n + 1, names))


found = find()
if not found:
    print("NONE", flush=True)
    sys.exit()
print("READY", flush=True)
code = compile(source(0, found), "outermost", "exec")
while True:
    exec(code, {})
