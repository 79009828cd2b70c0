"""Threads that each run an interpreter of their own, 3.12 on. READY's truth: {spin: [[function, line], ...]}."""
import threading
import time

import gtspin
import target

try:
    import _xxsubinterpreters as interpreters
except ImportError:
    try:
        import _interpreters as interpreters
    except ImportError:
        interpreters = None

COUNT = 4
SOURCE = """
import gtspin
def work_%(n)d(): gtspin.spin_%(n)02d()
def inner_%(n)d(): work_%(n)d()
while True: inner_%(n)d()
"""


def outer(n):
    interpreters.run_string(interpreters.create(), "\n" * 10 * n + SOURCE % {"n": n})


def main():
    target.live()
    gtspin.calibrate(20)
    truth = {"spin_%02d" % n: [["work_%d" % n, 10 * n + 3], ["inner_%d" % n, 10 * n + 4], ["<module>", 10 * n + 5]]
             for n in range(COUNT)}
    target.ready(truth=truth, roots=[target.root_of_thread(outer)], can=bool(interpreters))
    for n in range(COUNT):
        threading.Thread(target=outer, args=(n,), daemon=True).start()
    time.sleep(target.LIFE)


main()
