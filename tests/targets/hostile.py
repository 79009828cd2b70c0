"""A target whose frames can't be read for a time: every remote read of them hangs, while it spins on.

Usage: hostile.py [fork | name]. With "name" it is not frames but the name of a thread that can't be read. Lines on stdin: any springs the trap (says TRAPPED); fork makes another thread fork a child
that works (says CHILD pid); mend ends it: freed() works. READY's truth: {spin: [[function, line]]}.
"""
import os
import sys
import threading
import time

import frametrap
import gtspin
import target


def snare(trap):
    trap(sys._getframe())


def freed():
    while True:
        gtspin.spin_01()


def in_child(parent):
    while os.getppid() == parent:
        gtspin.spin_02()
    os._exit(0)


def forks():
    while not frametrap.fork_asked():
        time.sleep(0.01)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        in_child(parent)
    print("CHILD %d" % pid, flush=True)


def lose_name():
    """A str so long has its pages for itself."""
    name = "n" * (1 << 20)
    threading.Thread(target=threading.Event().wait, name=name, daemon=True).start()
    frametrap.trap_object(name)
    freed()


def line_in(function):
    """The line below the one with the loop."""
    return function.__code__.co_firstlineno + 2


target.live()
gtspin.calibrate(50)
forking = "fork" in sys.argv
if forking:
    threading.Thread(target=forks, daemon=True).start()
target.ready(truth={"spin_01": [["freed", line_in(freed)]], "spin_02": [["in_child", line_in(in_child)]]},
             roots=[target.root(), target.root_of_thread(forks)])
if "name" in sys.argv:
    lose_name()
snare(frametrap.trap_unlocked if forking else frametrap.trap)
freed()
