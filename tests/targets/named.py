"""named.py: threads of its own names wait; a line on stdin lets each work for 0.2 s and end."""
import ctypes
import sys
import threading
import time

import gtspin
import target

NAMES = ("at first", "to the last")
go = threading.Event()


def work(name):
    ctypes.CDLL(None).prctl(15, name.encode())  # PR_SET_NAME
    named.release()
    go.wait()
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        gtspin.spin_00()


target.live()
named = threading.Semaphore(0)
for name in NAMES:
    threading.Thread(target=work, args=(name,)).start()
    named.acquire()
target.ready()
sys.stdin.readline()
go.set()
