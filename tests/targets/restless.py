"""What makes a recorder that forgets nothing grow: any of these, for ever. Usage: restless.py [--idle N] [--forks HZ]
[--compiles HZ] [--names N] [--lines N] [--long N]
[--threads HZ] [--life S] [--say-after N]

--idle children that sleep; so many forks, compilations of a function and new threads a second. Functions have one of --names
names (0: each its own) of --long more letters, and --lines lines each, one of
them at another place each time. READY when the children are there, FORKED when --say-after more came and went.
"""
import argparse
import itertools
import os
import threading
import time

import target


def sleep_with(parent):
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def fork(then):
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        then(parent)
        os._exit(0)
    return pid


def source(number, args):
    gap = number % args.lines if args.lines else 0  # the same lines in all, elsewhere
    number = number % args.names if args.names else number
    return "def made_%s%d(end):\n%s    while clock() < end:\n        pass\n%s    return end\n" % (
        args.long * "x", number, "\n" * gap, "\n" * (args.lines - gap))


def compile_one(number, args):
    made = {"clock": time.monotonic}
    exec(compile(source(number, args), "made.py", "exec"), made)
    made.popitem()[1](time.monotonic() + 0.5 / args.compiles)


def thread_one():
    thread = threading.Thread(target=sum, args=(range(2000),))
    thread.start()
    thread.join()


def main():
    parser = argparse.ArgumentParser()
    for name in ("--idle", "--forks", "--compiles", "--names", "--lines", "--long", "--threads"):
        parser.add_argument(name, type=int, default=0)
    parser.add_argument("--life", type=int, default=target.LIFE)
    parser.add_argument("--say-after", type=int)
    args = parser.parse_args()
    target.LIFE = args.life
    target.live()
    for _ in range(args.idle):
        fork(sleep_with)
    target.ready()
    begin = time.monotonic()
    done = [0, 0, 0]
    work = [(args.forks, lambda number: os.waitpid(fork(lambda parent: None), 0)),
            (args.compiles, lambda number: compile_one(number, args)), (args.threads, lambda number: thread_one())]
    for _ in itertools.count():
        for i, (rate, function) in enumerate(work):
            if done[i] < rate * (time.monotonic() - begin):
                function(done[i])
                done[i] += 1
                if i == 0 and done[i] == args.say_after:
                    print("FORKED", flush=True)


main()
