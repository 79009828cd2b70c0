"""Forks without os.fork(), by libc's: nobody tells the child's Python that it is one. Usage: rawfork.py main|thread

At a line on stdin; says CHILD pid. READY's truth: {spin: [[function, line], ...]}.
"""
import ctypes
import os
import sys
import threading

import gtspin
import target


def work():
    gtspin.spin_03()


def in_child(parent):
    while os.getppid() == parent:
        work()
    os._exit(0)


def fork():
    parent = os.getpid()
    pid = ctypes.PyDLL(None).fork()
    if pid == 0:
        in_child(parent)
    print("CHILD %d" % pid, flush=True)


def first_line(function, more):
    return function.__code__.co_firstlineno + more


def main(where):
    target.live()
    gtspin.calibrate(50)
    target.ready(truth={"spin_03": [["work", first_line(work, 1)], ["in_child", first_line(in_child, 2)],
                                    ["fork", first_line(fork, 4)]]})
    sys.stdin.readline()
    if where == "thread":
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
    else:
        fork()
    while True:
        gtspin.spin_04()


main(sys.argv[1])
