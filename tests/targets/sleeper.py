"""Sleeps 200 times between bursts of work, in system calls that Python does not restart, and says how many ended early.

Usage: sleeper.py handled|ignored: what becomes of SIGURG, the signal that profilers like to borrow.
"""
import ctypes
import signal
import sys
import time

import gtspin
import target

SLEEPS = 200
PAUSE_S = 0.003


class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


def main():
    target.live()
    handled = []
    signal.signal(signal.SIGURG, signal.SIG_IGN if sys.argv[1] == "ignored" else lambda *args: handled.append(1))
    libc = ctypes.CDLL(None, use_errno=True)
    gtspin.calibrate(1000)
    pause = Timespec(0, int(PAUSE_S * 1e9))
    target.ready()
    early = interrupted = 0
    sys.stdin.readline()
    for _ in range(SLEEPS):
        gtspin.spin_00()
        begin = time.monotonic()
        if libc.nanosleep(ctypes.byref(pause), None) != 0:
            interrupted += 1
        early += time.monotonic() - begin < PAUSE_S
    print("SLEPT %d early=%d interrupted=%d handled=%d" % (SLEEPS, early, interrupted, len(handled)), flush=True)
    sys.stdin.readline()


main()
