"""Threads that each run an interpreter of their own, 3.12 on. READY's truth: {spin: [[function, line], ...]}. Each is about to work by then."""
import os
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
import gtspin, os
def work_%(n)d(): gtspin.spin_%(n)02d()
def inner_%(n)d(): work_%(n)d()
os.write(%(begun)d, b".")
os.read(%(gate)d, 1)
while True: inner_%(n)d()
"""


def outer(n, begun, gate):
    interpreters.run_string(interpreters.create(), "\n" * 10 * n + SOURCE % {"n": n, "begun": begun, "gate": gate})


def main():
    target.live()
    gtspin.calibrate(20)
    truth = {"spin_%02d" % n: [["work_%d" % n, 10 * n + 3], ["inner_%d" % n, 10 * n + 4], ["<module>", 10 * n + 7]]
             for n in range(COUNT)}
    (wait, begun), (gate, go) = os.pipe(), os.pipe()
    for n in range(COUNT if interpreters else 0):
        threading.Thread(target=outer, args=(n, begun, gate), daemon=True).start()
        os.read(wait, 1)
    target.ready(truth=truth, roots=[target.root_of_thread(outer)], can=bool(interpreters))
    os.write(go, b"." * COUNT)
    time.sleep(target.LIFE)


main()
