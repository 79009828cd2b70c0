"""A hardware counter of the calling thread, by perf_event_open(2)."""
import ctypes
import os
import platform
import struct

NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
EVENTS = {"cycles": 0, "instructions": 1, "cache-references": 2, "cache-misses": 3, "branches": 4, "branch-misses": 5,
          "bus-cycles": 6, "stalled-cycles-frontend": 7, "stalled-cycles-backend": 8, "ref-cycles": 9}

libc = ctypes.CDLL(None, use_errno=True)


class Counter:
    """Counts from now on, in user mode and the kernel. OSError where it can't be had."""

    def __init__(self, event):
        attr = struct.pack("=IIQQQQQ", 0, 128, EVENTS[event], 0, 0, 0, 0).ljust(128, b"\0")
        self.fd = libc.syscall(NUMBERS[platform.machine()], attr, 0, -1, -1, 0)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def read(self):
        return struct.unpack("=Q", os.read(self.fd, 8))[0]
