"""Threads that sleep, wait for a lock and work, for times that they measure: told once a line comes on stdin.

Each function is one kind of wait; what the threads' time was spent on is {function: seconds} by the monotonic clock, and for
work by the CPU time of the thread.
"""
import json
import signal
import sys
import threading
import time

PERIODS = int(sys.argv[1]) if len(sys.argv) > 1 else 0
lock = threading.Lock()
spent = {}
stop = []


def note(name, seconds):
    spent[name] = spent.get(name, 0) + seconds


def short_sleep():
    time.sleep(0.002)


def long_sleep():
    time.sleep(0.3)


def wait_for_lock():
    with lock:
        pass


def hold_lock():
    with lock:
        time.sleep(0.05)


def work():
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass


def do(body, clock=time.monotonic):
    began, wall = clock(), time.monotonic()
    body()
    note(body.__name__, clock() - began)
    return time.monotonic() - wall


def sleeper():
    while not stop:
        do(short_sleep)


def dozer():
    while not stop:
        do(long_sleep)


def holder():
    while not stop:
        do(hold_lock)
        time.sleep(0.001)


def waiter():
    while not stop:
        do(wait_for_lock)


def worker():
    while not stop:
        do(work, time.thread_time)


def parked():
    event.wait()


signal.alarm(300)
event = threading.Event()
bodies = (sleeper, dozer, holder, waiter, worker)
for body in bodies + (parked,) * PERIODS:
    thread = threading.Thread(target=body, name=body.__name__)
    thread.daemon = True
    thread.start()
print("READY " + json.dumps({}))
sys.stdout.flush()
sys.stdin.readline()
before, began = dict(spent), time.monotonic()
print("BEGUN")
sys.stdout.flush()
sys.stdin.readline()
print("TRUTH " + json.dumps({"wall": time.monotonic() - began, "spent": {k: spent[k] - before.get(k, 0) for k in spent}}))
sys.stdout.flush()
sys.stdin.readline()
