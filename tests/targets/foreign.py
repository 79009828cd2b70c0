"""Computes for ever in code of a file that it maps, at byte 4096 of it. Usage: foreign.py FILE [ROOT]. READY once it runs there.

With ROOT that becomes its root."""
import ctypes
import mmap
import os
import sys

import target

target.live()
with open(sys.argv[1], "rb") as file:
    code = mmap.mmap(file.fileno(), 8192, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
spin = ctypes.CFUNCTYPE(None, ctypes.c_ulong)(ctypes.addressof(ctypes.c_char.from_buffer(code)) + 4096)
spin(10)
if sys.argv[2:]:
    os.chroot(sys.argv[2])
target.ready()
while True:
    spin(1000000)
