"""What every target does: bound its life, say READY with its facts, and count its progress in a shared file.

Facts that judges know: truth {native leaf: [[qualname, line], ...]}, leaf first; roots: what can stand below a truth, up to
the root of the program or of a thread: each a list of [qualname, lines that it can be at], innermost first; or {leaf: roots}.
"""
import dis
import json
import mmap
import signal
import struct
import sys
import threading

LIFE = 300  # seconds; nothing is left behind even when a test is killed


def live():
    signal.alarm(LIFE)


def ready(**info):
    print("READY " + json.dumps(info), flush=True)


def name_of(code):
    """Up to 3.10 a code object has no qualified name."""
    return getattr(code, "co_qualname", code.co_name)


def lines_of(code):
    """Up to 3.9 it has no co_lines()."""
    lines = (line for _, _, line in code.co_lines()) if hasattr(code, "co_lines") else \
        (line for _, line in dis.findlinestarts(code))
    return {line for line in lines if line}


def place(function):
    """A function, or a frame, at any of its lines."""
    code = getattr(function, "__code__", None) or function.f_code
    return [name_of(code), sorted(lines_of(code))]


def root(*functions):
    """These functions, innermost first, called by the program's main module."""
    frame = sys._getframe()
    while frame.f_back:
        frame = frame.f_back
    return [place(function) for function in functions] + [place(frame)]


def root_of_thread(*functions):
    """These functions, innermost first, called by a thread of the module threading."""
    thread = threading.Thread
    return [place(function) for function in functions + (thread.run, thread._bootstrap_inner, thread._bootstrap)]


class Progress:
    """A counter that others read from a file, without a word to us."""

    def __init__(self, path):
        with open(path, "w+b") as file:
            file.truncate(8)
            self.map = mmap.mmap(file.fileno(), 8)

    def step(self):
        struct.pack_into("=Q", self.map, 0, struct.unpack_from("=Q", self.map)[0] + 1)


def generated(text, name, namespace):
    """Compiles source as if it lay in a file of its own beside the targets."""
    import os
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    exec(compile(text, path, "exec"), namespace)
    return path


def spins(prefix="spin_"):
    import gtspin
    return {name: getattr(gtspin, name) for name in dir(gtspin) if name.startswith(prefix)}


def forever(body, seconds, progress=None):
    """Calls body again and again for a time, 20 times between looks at the clock."""
    import time
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(20):
            body()
        if progress:
            progress.step()
