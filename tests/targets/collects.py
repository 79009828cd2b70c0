"""Collects garbage all the time, and works between without. READY, then for ever collecting() and working(): only below the
first one does a collection run; finalizers that it calls are Python functions."""
import gc

import target


class Cycle(object):
    def __init__(self):
        self.me = self

    def __del__(self):
        for _ in range(200):
            pass


def working():
    return sum(i * i for i in range(20000))


def collecting():
    for _ in range(20):
        Cycle()
    gc.collect()


def main():
    gc.disable()
    keep = [[i] for i in range(30000)]
    target.live()
    target.ready()
    while keep:
        collecting()
        working()


main()
