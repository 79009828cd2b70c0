"""Forks by libc's fork(), so that nobody tells the child's Python that it is one; or by os.fork(). Usage: forks.py
main|thread|os

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


def fork(by):
    parent = os.getpid()
    pid = by()
    if pid == 0:
        in_child(parent)
    print("CHILD %d" % pid, flush=True)


def go_on():
    while True:
        gtspin.spin_04()


def first_line(function, more):
    return function.__code__.co_firstlineno + more


def main(where):
    target.live()
    gtspin.calibrate(50)
    target.ready(truth={"spin_03": [["work", first_line(work, 1)], ["in_child", first_line(in_child, 2)],
                                    ["fork", first_line(fork, 4)]],
                        "spin_04": [["go_on", first_line(go_on, 2)]]},
                 roots=[target.root(main), target.root_of_thread()])
    libc = ctypes.PyDLL(None).fork
    sys.stdin.readline()
    if where == "thread":
        thread = threading.Thread(target=fork, args=(libc,))
        thread.start()
        thread.join()
    else:
        fork(libc if where == "main" else os.fork)
    go_on()


main(sys.argv[1])
