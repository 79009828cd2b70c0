"""Who holds the GIL, who waits for it, who sleeps, a thread each; also for 2.7.

gil.py hold: the main thread sleeps in C with the GIL; busy: it runs in C with it; free: nobody has it.
"""
from __future__ import print_function

import ctypes
import json
import os
import select
import signal
import sys
import threading
import time

HOLD = {
    "hold": lambda: ctypes.PyDLL(None).sleep(300),  # a PyDLL's functions keep the GIL
    "busy": lambda: 3 ** (10 ** 9 + len(sys.argv)),
    "free": sys.stdin.read,
}


begun = []  # a thread has its name from its first line on
POLL = ("7", "73", "271")  # the system call's number: poll or, from CPython 3.15 on, ppoll on x86-64; ppoll elsewhere


def polls():
    """Does a thread sleep in poll()? Before, it may still want the GIL."""
    for tid in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/syscall" % tid) as file:
            if file.read().split()[0] in POLL:
                return True
    return False


def poller():
    begun.append("poller")
    poll = select.poll()
    poll.register(os.pipe()[0], select.POLLIN)
    poll.poll()


def waiter():
    begun.append("waiter")
    while True:
        time.sleep(0.001)


def main():
    signal.alarm(300)
    bodies = (poller,) if sys.argv[1] == "free" else (poller, waiter)
    for body in bodies:
        thread = threading.Thread(target=body, name=body.__name__)
        thread.daemon = True
        thread.start()
    while len(begun) < len(bodies) or not polls():
        time.sleep(0.01)
    print("READY " + json.dumps({}))
    sys.stdout.flush()
    HOLD[sys.argv[1]]()


main()
