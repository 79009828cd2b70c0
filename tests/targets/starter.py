"""Works; for each line on stdin starts that program and says what it printed."""
import select
import subprocess
import sys

import gtspin
import target


def main():
    target.live()
    gtspin.calibrate(50)
    target.ready()
    while True:
        gtspin.spin_00()
        if select.select([sys.stdin], [], [], 0)[0]:
            done = subprocess.run(sys.stdin.readline().split(), stdout=subprocess.PIPE, text=True)
            print("PRINTED", done.returncode, done.stdout.strip(), flush=True)


main()
