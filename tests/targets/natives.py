"""Spins in native code for ever: natives.py lib FILE, in its function enter(); natives.py jit, in code it made;
natives.py perf, in Python with -X perf."""
import ctypes
import mmap
import os
import platform
import sys


page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)


def made():
    """A jump to itself in memory of our own, with a name as JITs give it."""
    page.write(b"\xeb\xfe" if platform.machine() == "x86_64" else b"\0\0\0\x14")
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    with open("/tmp/perf-%d.map" % os.getpid(), "w") as file:
        file.write("%x %x made; here\n" % (at, mmap.PAGESIZE))
    return ctypes.CFUNCTYPE(None)(at)


def spin():
    while True:
        pass


if sys.argv[1] == "perf" and not sys.is_stack_trampoline_active():
    os.execv(sys.executable, [sys.executable, "-X", "perf"] + sys.argv)
enter = {"jit": made, "perf": lambda: spin}.get(sys.argv[1], lambda: ctypes.CDLL(sys.argv[2]).enter)()
print("READY", flush=True)
enter()
