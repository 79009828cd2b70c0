"""At a line on stdin: forks two children that work (fork), or becomes another program (exec, exec-sh).

Usage: family.py fork|exec|exec-sh|after
"""
import os
import select
import sys
import time

import gtspin
import target


def asked():
    return select.select([sys.stdin], [], [], 0)[0]


def before_exec():
    while not asked():
        gtspin.spin_00()


def after_exec():
    print("EXECED", flush=True)
    end = time.monotonic() + target.LIFE
    while time.monotonic() < end:
        gtspin.spin_01()


def in_child(parent):
    while os.getppid() == parent:
        gtspin.spin_02()
    os._exit(0)


def fork():
    parent = os.getpid()
    children = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            in_child(parent)
        children.append(pid)
    print("CHILDREN " + " ".join(map(str, children)), flush=True)
    time.sleep(target.LIFE)


def main(what):
    target.live()
    gtspin.calibrate(50)
    if what == "after":
        return after_exec()
    if what == "fork":
        memory = b"x" * (64 << 20)  # its copying makes a fork last
    target.ready()
    before_exec()
    if what == "fork":
        fork()
    elif what == "exec":
        os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "after"])
    else:
        os.execv("/bin/sh", ["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done"])


main(sys.argv[1])
