"""Compiled to C by Nuitka, it runs compiled functions, interpreted ones of json called by them, and compiled ones called by those, in
two threads.
"""
import json
import threading

import compiled_part


def leaf(n):
    s = 0
    for i in range(n):
        s += i * i
    return s


def middle(n):
    return leaf(n)


def convert(thing):
    return [leaf(300)]


def main():
    while True:
        middle(2000)
        compiled_part.outer()
        json.dumps([1, object(), 2], indent=1, default=convert)


print("READY", flush=True)
threading.Thread(target=main, daemon=True).start()
main()
