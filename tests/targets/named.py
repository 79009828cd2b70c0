"""named.py: threads that the kernel knows by names and the module threading does not know wait; a line on stdin lets each work for 0.2 s of CPU time and end."""
import _thread
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
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        gtspin.spin_00()
    named.release()


target.live()
named = threading.Semaphore(0)
for name in NAMES:
    _thread.start_new_thread(work, (name,))
    named.acquire()
target.ready()
sys.stdin.readline()
go.set()
for name in NAMES:
    named.acquire()
