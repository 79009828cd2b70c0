"""Interpreters made by the first thread and run by others, each by one, 3.11 and 3.12 (later ones make a state for each
thread that runs code in one). READY's truth: {spin: [[function, line], ...]}."""
import threading
import time

import gtspin
import target

try:
    import _xxsubinterpreters as interpreters
except ImportError:
    interpreters = None

COUNT = 3
SOURCE = """
import gtspin
def work_%(n)d(): gtspin.spin_%(n)02d()
def inner_%(n)d():
    for _ in range(100): work_%(n)d()
while True: inner_%(n)d()
"""


def outer(n, interpreter):
    interpreters.run_string(interpreter, SOURCE % {"n": n})


def main():
    target.live()
    gtspin.calibrate(20)
    line = outer.__code__.co_firstlineno + 1
    truth = {"spin_%02d" % n: [["work_%d" % n, 3], ["inner_%d" % n, 5], ["<module>", 6], ["outer", line]]
             for n in range(COUNT)}
    target.ready(truth=truth, roots=[target.root_of_thread()], can=bool(interpreters))
    if interpreters:
        made = [interpreters.create() for _ in range(COUNT)]
        for n in range(COUNT):
            threading.Thread(target=outer, args=(n, made[n]), daemon=True).start()
    time.sleep(target.LIFE)


main()
