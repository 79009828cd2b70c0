"""Works; at a word on stdin: exec (itself), fork (a child that works for a moment), thread (one more), exit."""
import os
import select
import sys
import threading
import time

import target


def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(200))


def forked():
    if os.fork() == 0:
        work(0.1)
        os._exit(0)


def main():
    target.live()
    target.ready()
    while True:
        work(0.002)
        if not select.select([0], [], [], 0)[0]:
            continue
        word = os.read(0, 64).decode().strip()
        if word == "exec":
            os.execv(sys.executable, [sys.executable, "-S", os.path.abspath(__file__)])
        elif word == "fork":
            forked()
        elif word == "thread":
            threading.Thread(target=work, args=(0.2,)).start()
        elif word == "exit":
            sys.exit(0)


main()
