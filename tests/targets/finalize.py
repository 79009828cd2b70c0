"""Ends at once, or after a line on stdin: with threads that never end and handlers that still run. Usage: finalize.py [wait]

READY's truth: {spin: [[function, line], ...]}.
"""
import atexit
import sys
import threading
import time

import gtspin
import target


def work():
    gtspin.spin_01()


def daemon():
    while True:
        work()


def at_exit():
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        gtspin.spin_02()


class Last:
    def __del__(self, clock=time.monotonic, spin=gtspin.spin_03):  # the module's names are gone by then
        end = clock() + 0.1
        while clock() < end:
            spin()


def line(function, more):
    return function.__code__.co_firstlineno + more


target.live()
gtspin.calibrate(20)
atexit.register(at_exit)
sys.last = Last()  # freed with the module sys, late in the interpreter's end
for _ in range(3):
    threading.Thread(target=daemon, daemon=True).start()
target.ready(roots={"spin_01": [target.root_of_thread()], "spin_02": [[]], "spin_03": [[]]},
             truth={"spin_01": [["work", line(work, 1)], ["daemon", line(daemon, 2)]],
                    "spin_02": [["at_exit", line(at_exit, 3)]], "spin_03": [["Last.__del__", line(Last.__del__, 3)]]})
if "wait" in sys.argv:
    sys.stdin.readline()
