"""sleepers.py fork|spawn KIDS: a parent and KIDS children of it that sleep; each line on stdin tells all to work for a second.

Prints its own PID and those of its children, then "done" when all have worked."""
import ctypes
import multiprocessing
import sys
import time


def work():
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass


def wait(pipe):
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG
    pipe.send("ready")
    while True:
        pipe.recv()
        work()
        pipe.send("done")


def main():
    context = multiprocessing.get_context(sys.argv[1])
    pipes, pids = [], []
    for _ in range(int(sys.argv[2])):
        ours, its = context.Pipe()
        child = context.Process(target=wait, args=(its,), daemon=True)
        child.start()
        its.close()
        pipes.append(ours)
        pids.append(child.pid)
    for pipe in pipes:
        pipe.recv()
    print(multiprocessing.current_process().pid, *pids, flush=True)
    for _ in sys.stdin:
        for pipe in pipes:
            pipe.send("work")
        for pipe in pipes:
            pipe.recv()
        print("done", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
