"""Threads that rest in nested calls, of each kind that a layout tells of; also for 2.7."""
from __future__ import print_function

import sys
import threading


def rest(depth):
    if depth:
        return rest(depth - 1)
    sys.stdin.read()


def generate():
    yield rest(3)


def wait(event):
    event.wait()


def main():
    event = threading.Event()
    for _ in range(3):
        thread = threading.Thread(target=wait, args=(event,))
        thread.daemon = True
        thread.start()
    print("READY")
    sys.stdout.flush()
    list(generate())


main()
