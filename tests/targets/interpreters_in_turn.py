"""Interpreters one after the other, each in the memory of the one before: function called_N of the main one runs one that runs work_N."""
import sys
import time

import target

SOURCE = """
import time
def work_%(n)s():
    return sum(range(1000))
end = time.time() + 0.05
while time.time() < end:
    work_%(n)s()
"""
CALLER = """
def called_%(n)s(interpreters, source):
    one = interpreters.create(%(args)s)
    interpreters.run_string(one, source)
    interpreters.destroy(one)
"""


def main():
    target.live()
    try:
        import _interpreters as interpreters
        args = "'legacy'"
    except ImportError:
        import _xxsubinterpreters as interpreters
        args = "isolated=False" if sys.version_info >= (3, 9) else ""
    target.ready()
    end = time.time() + target.LIFE
    while time.time() < end:
        for n in "abcdefghijklmnopqrstuvwxyz":
            functions = {}
            exec(CALLER % {"n": n, "args": args}, functions)
            functions["called_" + n](interpreters, SOURCE % {"n": n})


main()
