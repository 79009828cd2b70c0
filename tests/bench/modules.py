# SPDX-License-Identifier: MIT
"""A large process to attach to: work in one thread beside N that sleep, with N libraries mapped and N MiB held.

modules.py THREADS LIBRARIES MIB FOLDER: each library is a copy of one of Python's own, made in the folder once.
"""
import ctypes
import os
import shutil
import sys
import sysconfig
import threading
import time


def library():
    """A small one that can be loaded by itself."""
    folder = sysconfig.get_path("platstdlib") + "/lib-dynload"
    found = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".so")]
    return min(found, key=os.path.getsize)


def main():
    threads, libraries, mib = map(int, sys.argv[1:4])
    folder, source = sys.argv[4], library()
    keep = []
    for i in range(libraries):
        path = os.path.join(folder, "library%d.so" % i)
        if not os.path.exists(path):
            shutil.copy(source, path)
        keep.append(ctypes.PyDLL(path))
    keep.append([b"x" * (1 << 20) for _ in range(mib)])
    for _ in range(threads - 1):
        threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
    print("READY", flush=True)
    while True:
        sum(i * i for i in range(1000))


main()
