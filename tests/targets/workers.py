"""workers.py KIDS: works; forked children of it wait."""
import ctypes
import os
import signal
import sys

import gtspin
import target

target.live()
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG
        while True:
            signal.pause()
target.ready()
while True:
    gtspin.spin_00()
