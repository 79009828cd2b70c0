"""Works and handles signals: writes a line for each one, in the order in which their handlers ran.

Usage: signals.py [handled SIGNAL…|blocked SIGNAL…|deaf SIGNAL…|later SIGNAL…|queue]: what else is handled, or blocked in
all threads, or in a thread beside, which works until a line comes on stdin, and then on without blocking them. later: it
begins at another line before that.

queue: says nothing at once, but SEEN [[number, si_code, value], …] at a line on stdin, none put together with another.
"""
import json
import os
import select
import signal
import sys
import threading
import time

import gtspin
import target

TOLD = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGRTMIN + 3, signal.SIGRTMIN + 7)


def tell(number, frame):
    os.write(1, b"GOT %d\n" % number)


def deaf(numbers):
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    while not select.select([0], [], [], 0)[0]:
        for _ in range(20):
            gtspin.spin_01()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    target.forever(gtspin.spin_01, target.LIFE)


def queue():
    for number in TOLD:
        gtspin.take_signal(number)
    gtspin.calibrate(50)
    target.ready(told=TOLD)
    while True:
        for _ in range(20):
            gtspin.spin_00()
        if select.select([0], [], [], 0)[0]:
            sys.stdin.readline()
            print("SEEN " + json.dumps(gtspin.taken_signals()), flush=True)


def main(what=None, *names):
    target.live()
    if what == "queue":
        queue()
    for number in TOLD:
        signal.signal(number, tell)
    numbers = [getattr(signal, name) for name in names]
    if what == "handled":
        for number in numbers:
            signal.signal(number, tell)
    elif what == "blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    gtspin.calibrate(50)
    thread = threading.Thread(target=deaf, args=(numbers,), daemon=True)
    if what == "deaf":
        thread.start()
        time.sleep(0.2)
    target.ready(told=TOLD)
    while what == "later" and not select.select([0], [], [], 0)[0]:
        for _ in range(20):
            gtspin.spin_00()
    if what == "later":
        sys.stdin.readline()
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        thread.start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    target.forever(gtspin.spin_00, target.LIFE)


main(*sys.argv[1:])
