"""A program that works in code which few programs have: strange.py HOW.

init: in the innermost of nested constructors, each of which the interpreter enters without C (3.13 on); nofile: in source without a
file; before: in a tree of lines before the first one; nul, unnamed: in code with such names; unresumed: in code that no tracer would
see (3.11 on), and that is in no traceback; interpreters: beside 65 others, in which nothing runs (3.13 on).
READY {"names": [the functions that stand on the main module, innermost first]}
"""
import ast
import dis
import sys
import types

import target

SOURCE = """
def call():
    work()


def work():
    while True:
        pass


call()
"""
REPLACED = {"nul": {"co_name": "w\0rk", "co_qualname": "w\0rk", "co_filename": "a\0file"},
            "unnamed": {"co_name": "", "co_qualname": ""}}


class Nested:
    def __init__(self, depth, last):
        if depth:
            Nested(depth - 1, last)
        elif last:
            target.ready(names=[target.name_of(Nested.__init__.__code__)] * 6)
        while not depth and last:
            pass


def work():
    while True:
        pass


def replaced(function, **values):
    code = function.__code__
    if not hasattr(code, "co_qualname"):
        values.pop("co_qualname", None)
    return types.FunctionType(code.replace(**values), globals(), "work")


def work_as(**values):
    made = replaced(work, **values)
    target.ready(names=[target.name_of(made.__code__), "work_as"])
    made()


def main(how):
    if how == "init":
        for i in range(50):
            Nested(5, i == 49)
    elif how == "nofile":
        target.ready(names=["work", "call", "<module>"])
        exec(compile(SOURCE, "", "exec"), {})
    elif how == "before":
        tree = ast.increment_lineno(ast.parse("def work(): return any(iter(int, 1))"), -20)
        exec(compile(tree, __file__, "exec"), globals())
        target.ready(names=["work"])
        work()
    elif how == "unresumed":
        made = replaced(work, co_code=work.__code__.co_code[list(dis.get_instructions(work))[1].offset:])
        target.ready(names=[])
        made()
    elif how == "interpreters":
        import _interpreters
        kept = [_interpreters.create() for _ in range(65)]
        target.ready(names=["work"], n=len(kept))
        work()
    else:
        work_as(**REPLACED[how])


target.live()
main(sys.argv[1])
