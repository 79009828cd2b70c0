"""Threads with names of all kinds work until the end of stdin and tell what they are called.

READY's names: {thread id: name}. A line "rename" renames them; a line "short NAME" makes a thread of that name work for 50 ms
of its CPU time, and says ENDED when it has. "fork": one of the first threads forks a process that does so.
"""
import os
import sys
import threading
import time

import target

numbers = {}  # of threads, as the kernel has them
forks = []  # to be done, by any thread
NAMES = ["plain", "söme-名前-🐍", "four KB " + "x" * 4096, "semi;colon", "new\nline", "escape\x1b[31m", "nul\0byte", "lone\ud800",
         "c1\x9b31m", "  spaces  ", None]


class Own(threading.Thread):
    """A subclass with more attributes and a dict of its own."""

    def __init__(self, **options):
        self.before = 1
        super().__init__(**options)
        self.__dict__["after"] = 2


def takes_a_fork():
    try:
        return forks.pop()
    except IndexError:  # none is to be done, or another thread does it
        return False


def work(end):
    numbers[threading.current_thread()] = os.readlink("/proc/thread-self").rpartition("/")[2]
    while not end.is_set():
        sum(range(2000))
        if forks and takes_a_fork():
            work_in_a_child()
            print("ENDED", flush=True)


def work_shortly():
    end = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) + 0.05
    while time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) < end:
        sum(range(200))


def work_in_a_child():
    """Of multiprocessing's Pool, workers are forked by a thread."""
    child = os.fork()
    if child == 0:
        work_shortly()
        os._exit(0)
    os.waitpid(child, 0)


def named(threads):
    while len(numbers) < len(threads):
        time.sleep(0.01)
    return {numbers[thread]: thread.name.encode(errors="replace").decode() for thread in threads}


def main():
    target.live()
    end = threading.Event()
    threads = [Own(target=work, args=(end,), name=name, daemon=True) if i % 2 else
               threading.Thread(target=work, args=(end,), name=name, daemon=True) for i, name in enumerate(NAMES)]
    for thread in threads:
        thread.start()
    target.ready(names=named(threads), main=threading.current_thread().name)
    for line in sys.stdin:
        word, _, name = line.strip().partition(" ")
        if word == "rename":
            for i, thread in enumerate(threads):
                thread.name = "renamed-%d" % i
            print("RENAMED", flush=True)
        elif word == "fork":
            forks.append(True)
        else:
            thread = threading.Thread(target=work_shortly, name=name)
            thread.start()
            thread.join()
            print("ENDED", flush=True)
    end.set()


main()
