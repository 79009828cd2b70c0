"""Works. Its child, told by a line, calls execve(2) beside another thread. Says CHILD and the child's and that thread's ids."""
import os
import sys
import threading
import time

import gtspin
import target


def child(pipe):
    target.live()
    thread = threading.Thread(target=time.sleep, args=(target.LIFE,), daemon=True)
    thread.start()
    os.write(pipe, b"%d" % thread.native_id)
    sys.stdin.readline()
    os.execv("/bin/sleep", ["sleep", str(target.LIFE)])


def main():
    target.live()
    gtspin.calibrate(50)
    ours, its = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(its)
    tid = int(os.read(ours, 20))
    target.ready()
    print("CHILD", pid, tid, flush=True)
    while True:
        gtspin.spin_00()


main()
