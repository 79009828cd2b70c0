"""Work with as many executable maps as the first argument says, more than are told of at once; of the file in the second, if any."""
import ctypes
import os
import sys

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
fd = os.open([*sys.argv, os.__file__][2], os.O_RDONLY)
for i in range(int(sys.argv[1])):
    if libc.mmap(None, 4096, 5, 2, fd, 0) == ctypes.c_void_p(-1).value:
        sys.exit("mmap failed")
print("READY", flush=True)
while True:
    sum(range(1000))
