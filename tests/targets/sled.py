"""Native code by the megabyte without a file, each few bytes of it with a name of its own in /tmp/perf-PID.map.
Usage: sled.py --names N --long N. The map is the test's to remove."""
import argparse
import ctypes
import mmap
import os
import platform

import target

STEP = 64  # bytes of code that have one name
NOP, RET = {"x86_64": (b"\x90", b"\xc3"), "aarch64": (b"\x1f\x20\x03\xd5", b"\xc0\x03\x5f\xd6"),
            "riscv64": (b"\x13\x00\x00\x00", b"\x67\x80\x00\x00")}[platform.machine()]

parser = argparse.ArgumentParser()
parser.add_argument("--names", type=int)
parser.add_argument("--long", type=int)
args = parser.parse_args()
size = args.names * STEP
code = mmap.mmap(-1, size, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(NOP * ((size - len(RET)) // len(NOP)) + RET)
begin = ctypes.addressof(ctypes.c_char.from_buffer(code))
with open("/tmp/perf-%d.map" % os.getpid(), "w") as file:
    for i in range(args.names):
        file.write("%x %x sled_%s%d\n" % (begin + i * STEP, STEP, args.long * "x", i))
run = ctypes.CFUNCTYPE(None)(begin)
target.live()
target.ready()
while True:
    run()
