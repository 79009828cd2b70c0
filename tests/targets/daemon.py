"""Processes that outlive who made them. Does at a line on stdin, or at once if it is named as an argument:

daemon: forks twice with setsid() between; the daemon prints "LEFT PID" and works; all others end with status 7.
leave:  forks a child that prints "LEFT PID" and works, and ends at once with status 7.
idle:   the same, but the child does nothing.

What is left ends at the next line, or when stdin ends.

Usage: daemon.py [daemon|leave|idle] [--threads N]; as many more threads sleep meanwhile
"""
import argparse
import os
import select
import signal
import sys
import threading
import time
import warnings

import gtspin
import target


def asked(wait=0):
    return select.select([0], [], [], wait)[0]


def in_left(idle):
    signal.alarm(target.LIFE)  # fork() does not pass it on
    print("LEFT %d" % os.getpid(), flush=True)
    while not asked(target.LIFE if idle else 0):
        gtspin.spin_02()
    os._exit(0)


def leave(idle=False):
    if os.fork() == 0:
        in_left(idle)
    os._exit(7)


def daemon():
    if os.fork() == 0:
        os.setsid()
        leave()
    os._exit(7)


def main(what, threads):
    target.live()
    gtspin.calibrate(50)
    warnings.simplefilter("ignore")  # of fork() with threads
    for _ in range(threads):
        threading.Thread(target=time.sleep, args=(target.LIFE,), daemon=True).start()
    if not what:
        target.ready()
        while not asked():
            gtspin.spin_00()
        what = sys.stdin.readline().strip()
    {"daemon": daemon, "leave": leave, "idle": lambda: leave(True)}[what]()


parser = argparse.ArgumentParser()
parser.add_argument("what", nargs="?")
parser.add_argument("--threads", type=int, default=0)
main(**vars(parser.parse_args()))
