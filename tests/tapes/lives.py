"""What the tapes of readers were recorded from: lives.py MODE, no file but this one and
target.py. threads: several take turns. moving: they go from CPU to CPU. chased: another process
sends it there, also while it is held. forks: short children. execs: children that become a new
Python. native: in functions of /opt/native.so (native.S)."""
import _thread
import os
import sys

MODE = sys.argv[1]


def spin(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def outer(n):
    return inner(n) + spin(50)


def inner(n):
    return spin(n)


def forever(n):
    while True:
        outer(n)


def move(n):
    cpus = sorted(os.sched_getaffinity(0))
    while True:
        for cpu in cpus:
            os.sched_setaffinity(0, [cpu])
            outer(n)


def child():
    for i in range(10):
        outer(2000)
    os._exit(0)


def become():
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", """
def young(n):
    total = 0
    for i in range(n):
        total += i * i
    return total
young(200000)
"""])


def breed(what):
    while True:
        pid = os.fork()
        if not pid:
            what()
        outer(3000)
        os.waitpid(pid, 0)


def deep(n):
    return outer(100) if n == 0 else deep(n - 1)


def chase(pid, cpus):
    while os.getppid() == pid:
        for cpu in cpus:
            os.sched_setaffinity(pid, [cpu])


def chased():
    me = os.getpid()
    if not os.fork():
        chase(me, sorted(os.sched_getaffinity(0)))
        os._exit(0)
    while True:
        deep(300)


def native():
    import ctypes
    call = ctypes.CDLL("/opt/native.so").native_outer
    call.argtypes = [ctypes.c_long]
    while True:
        call_native(call, 30000)


def call_native(call, n):
    return call(n) and spin(100)


for n in (100, 1000, 10000):
    if MODE == "threads":
        _thread.start_new_thread(forever, (n,))
    elif MODE == "moving":
        _thread.start_new_thread(move, (n,))
print("ready", flush=True)
{"threads": lambda: forever(300), "moving": lambda: move(300), "forks": lambda: breed(child),
 "execs": lambda: breed(become), "chased": chased,
 "native": native}[MODE]()
