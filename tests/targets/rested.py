"""Its children have used CPU time and sleep; at a line on stdin they end.

Usage: rested.py CHILDREN SECONDS [thread]: so many, each of which has used so much, in a thread that has not ended.
"""
import os
import sys
import threading
import time

import target


def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def main(children, seconds, threaded=False):
    target.live()
    gate, told = os.pipe()
    done, says = os.pipe()
    pids = []
    for _ in range(children):
        pids.append(os.fork())
        if pids[-1] == 0:
            target.live()
            os.close(told)
            if threaded:
                threading.Thread(target=lambda: (work(seconds), os.write(says, b"."), time.sleep(1000)), daemon=True).start()
            else:
                work(seconds)
                os.write(says, b".")
            os._exit(len(os.read(gate, 1)))
    for _ in pids:
        os.read(done, 1)
    target.ready()
    sys.stdin.readline()
    os.close(told)
    for pid in pids:
        os.waitpid(pid, 0)
    print("ENDED", flush=True)
    sys.stdin.readline()


main(int(sys.argv[1]), float(sys.argv[2]), len(sys.argv) > 3)
