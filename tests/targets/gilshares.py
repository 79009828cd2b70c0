"""Two threads use a CPU, one with the GIL and one that has let go of it; both take part in each other's."""
import hashlib
import json
import signal
import sys
import threading

DATA = b"x" * (1 << 24)  # A digest takes longer than the 5 ms that the thread waits for the GIL after each.


def without_gil():
    while True:
        hashlib.sha256(DATA).digest()  # of so much the GIL is let go


def with_gil():
    while True:
        sum(range(20000))


signal.alarm(300)
for body in (without_gil, with_gil):
    thread = threading.Thread(target=body, name=body.__name__)
    thread.daemon = True
    thread.start()
print("READY " + json.dumps({}))
sys.stdout.flush()
sys.stdin.readline()
