"""Calls each function of probed.c, so many times for each number on stdin, then says DONE; ends at an empty line.

READY's names: the functions; file: where they are.
"""
import ctypes
import glob
import os
import sys

import target


def run(functions, cycles):
    for _ in range(cycles):
        for function in functions:
            function()


def main():
    target.live()
    file, = [found for path in sys.path for found in glob.glob(os.path.join(path, "probed*.so"))]
    lib = ctypes.CDLL(file)
    names = ["first_" + name for name in ctypes.c_char_p.in_dll(lib, "probed_names").value.decode().split()]
    functions = [getattr(lib, name) for name in names]
    target.ready(names=names, file=file)
    for line in iter(sys.stdin.readline, "\n"):
        run(functions, int(line))
        print("DONE", flush=True)


main()
