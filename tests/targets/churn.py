"""Threads that live for milliseconds, 4 at a time, each with work of its own; READY's truth as in groundtruth.py.

Usage: churn.py [--ms LIFE] [--progress FILE]: a step for each 4 threads.
"""
import argparse
import threading
import time

import gtspin
import target

WIDTH = 16


def source():
    lines, truth = [], {}
    for k in range(WIDTH):
        lines += ["def w_%02d(end):" % k, "    while clock() < end:", "        spin_%02d()" % k]
        truth["spin_%02d" % k] = [["w_%02d" % k, len(lines)]]
    return "\n".join(lines) + "\n", truth


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ms", type=float, default=20)
    parser.add_argument("--progress")
    args = parser.parse_args()
    target.live()
    gtspin.calibrate(20)
    text, truth = source()
    namespace = dict(target.spins(), clock=time.monotonic)
    target.generated(text, "churn_generated.py", namespace)
    progress = target.Progress(args.progress) if args.progress else None
    target.ready(truth=truth, roots=[target.root_of_thread()])
    count = 0
    while True:
        batch = []
        for _ in range(4):
            body = namespace["w_%02d" % (count % WIDTH)]
            batch.append(threading.Thread(target=body, args=(time.monotonic() + args.ms / 1000,)))
            count += 1
        for thread in batch:
            thread.start()
        for thread in batch:
            thread.join()
        if progress:
            progress.step()


main()
