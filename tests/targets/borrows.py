"""At a line on stdin forks a child that maps the file named there, says MAPPED, and ends at the next line: ENDED."""
import ctypes
import os
import select
import sys

import target


def work(until):
    while not select.select([until], [], [], 0)[0]:
        sum(range(1000))


def main():
    target.live()
    target.ready()
    path = sys.stdin.readline().rstrip("\n")
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(write)
        ctypes.CDLL(path)
        print("MAPPED", flush=True)
        work(read)
        os._exit(0)
    sys.stdin.readline()
    os.close(write)
    os.wait()
    print("ENDED", flush=True)
    work(sys.stdin)


main()
