"""Threads that stand still in many kinds of places; SIGUSR1 makes faulthandler print their true stacks into a file.

Usage: threads.py FILE. READY's names: the names of the threads.
"""
import faulthandler
import queue
import select
import signal
import sys
import threading
import time

import target

FOREVER = 3600


class Worker:
    def method(self, lock):
        def inner():
            lock.acquire()
        inner()


def generator(event):
    yield event.wait(FOREVER)


def in_generator():
    for _ in generator(threading.Event()):
        pass


def in_comprehension():
    return [time.sleep(FOREVER) for _ in range(1)]


def in_lambda():
    (lambda: queue.Queue().get())()


def in_sort():
    sorted([3, 2], key=lambda value: time.sleep(FOREVER))


def in_init():
    class Slow:
        def __init__(self):
            select.select([], [], [], FOREVER)
    Slow()


def deep(depth):
    if depth:
        return deep(depth - 1)
    return time.sleep(FOREVER)


def main():
    target.live()
    out = open(sys.argv[1], "w")
    faulthandler.register(signal.SIGUSR1, file=out, all_threads=True)
    lock = threading.Lock()
    lock.acquire()
    bodies = {"method": lambda: Worker().method(lock), "generator": in_generator, "sort": in_sort, "init": in_init,
              "comprehension": in_comprehension, "lambda": in_lambda, "deep": lambda: deep(30)}
    for name, body in bodies.items():
        threading.Thread(target=body, name=name, daemon=True).start()
    target.ready(names=["MainThread"] + list(bodies))
    while True:
        time.sleep(FOREVER)


main()
