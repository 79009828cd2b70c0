"""Several interpreters: threads that each run one, in which another thread works too. READY's stacks: {thread's name: [functions,
outermost first]}.

Up to 3.11 they share a lock, and so they do later with the argument "legacy".
"""
import sys
import threading
import time

import target

COUNT = 3
MODULES = "_interpreters", "_xxsubinterpreters", "_testcapi"
SOURCE = """
import threading

def leaf_%(n)d():
    while True:
        sum(range(1000))

def middle_%(n)d():
    leaf_%(n)d()

def here_%(n)d():
    while True:
        sum(range(1000))

threading.Thread(target=middle_%(n)d, name="inner-%(n)d").start()
here_%(n)d()
"""
THREAD = ["Thread._bootstrap", "Thread._bootstrap_inner", "Thread.run"]


def find():
    """A function that runs source text in a new interpreter."""
    for name in MODULES:
        try:
            module = __import__(name)
        except ImportError:
            continue
        if name == "_testcapi":
            return module.run_in_subinterp
        shared = sys.argv[1:] == ["legacy"]
        if name == "_interpreters":
            return lambda text: module.run_string(module.create("legacy" if shared else "isolated"), text)
        options = {"isolated": not shared} if sys.version_info >= (3, 12) else {"isolated": False} if sys.version_info >= (3, 9) else {}
        return lambda text: module.run_string(module.create(**options), text)


def called(name):
    return name if sys.version_info >= (3, 11) else name.rpartition(".")[2]


def main():
    target.live()
    run = find()

    def outer(n):
        run(SOURCE % {"n": n})

    stacks = {}
    for n in range(COUNT):
        functions = [outer, run] if hasattr(run, "__code__") else [outer]
        stacks["outer-%d" % n] = [called(name) for name in THREAD + [f.__qualname__ for f in functions]] + ["<module>", "here_%d" % n]
        stacks["inner-%d" % n] = [called(name) for name in THREAD] + ["middle_%d" % n, "leaf_%d" % n]
        threading.Thread(target=outer, args=(n,), name="outer-%d" % n).start()
    target.ready(stacks=stacks)
    time.sleep(target.LIFE)


main()
