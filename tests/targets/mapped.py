"""mapped.py KIDS MAPS [idle]: KIDS children with MAPS maps each, all made of one file; they work, or with idle they sleep.

Prints READY {"pids"} when all have them."""
import ctypes
import json
import mmap
import os
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]

PAGE = mmap.PAGESIZE
READ, EXEC, PRIVATE = 1, 4, 2


def make_maps(count):
    """Of one file, every other page executable: no two of them are one."""
    fd = os.open(os.__file__, os.O_RDONLY)
    at = libc.mmap(None, count * PAGE, READ, PRIVATE, fd, 0)
    for i in range(0, count, 2):
        if libc.mprotect(at + i * PAGE, PAGE, READ | EXEC) < 0:
            sys.exit("mprotect failed after %d: %s" % (i, os.strerror(ctypes.get_errno())))


def child(idle, go):
    libc.prctl(1, 9)  # PR_SET_PDEATHSIG
    os.read(go, 1)  # until all are there
    while idle:
        time.sleep(600)
    while True:
        sum(range(1000))


def main():
    kids, maps, idle = int(sys.argv[1]), int(sys.argv[2]), len(sys.argv) > 3
    make_maps(maps)
    pids = []
    go, begin = os.pipe()
    for _ in range(kids):
        pids.append(os.fork())
        if not pids[-1]:
            os.close(begin)
            child(idle, go)
    print("READY " + json.dumps({"pids": pids}), flush=True)
    os.close(begin)
    child(idle, go)


if __name__ == "__main__":
    main()
