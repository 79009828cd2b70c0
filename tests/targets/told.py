"""told.py KIDS: works; of forked children of it the last one changes what its interpreter's memory tells of its layout: which
version it is of. It works from "go" on, the others wait. Its number is info["liar"]."""
import ctypes
import os
import signal
import sys

import target


def change():
    """struct _Py_DebugOffsets, from 3.13 on: char cookie[8]; uint64_t version."""
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    if ctypes.string_at(runtime, 8) != b"xdebugpy":
        sys.exit("this interpreter does not tell its layout")
    ctypes.c_uint64.from_address(runtime + 8).value = 0x030c00f0


def work_of_the_liar():
    while True:
        sum(range(1000))


def work_of_the_parent():
    while True:
        sum(range(1000))


target.live()
kids = int(sys.argv[1])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
done, told = os.pipe()
for number in range(kids):
    liar = os.fork()
    if liar == 0:
        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG
        if number == kids - 1:
            change()
            os.write(told, b".")
        signal.sigwait([signal.SIGUSR1])
        work_of_the_liar()
os.read(done, 1)
target.ready(liar=liar)
sys.stdin.readline()
os.kill(liar, signal.SIGUSR1)
print("GONE", flush=True)
work_of_the_parent()
