"""What threadnames.py does, for CPython 2.7: threads with names work until the end of stdin, and a line "rename" renames them."""
import json
import os
import signal
import sys
import threading
import time

NAMES = ["plain", u"s\u00f6me".encode("utf-8"), "no utf-8 \xff", "new\nline", "nul\0byte", "four KB " + "x" * 4096, None]
numbers = {}  # of threads, as the kernel has them


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def work(end):
    numbers[threading.current_thread()] = os.readlink("/proc/thread-self").rpartition("/")[2]
    while not end.is_set():
        sum(range(2000))


def main():
    signal.alarm(300)
    end = threading.Event()
    threads = [threading.Thread(target=work, args=(end,), name=name) for name in NAMES]
    for thread in threads:
        thread.daemon = True
        thread.start()
    while len(numbers) < len(threads):
        time.sleep(0.01)
    say("READY " + json.dumps({"main": threading.current_thread().name,
                               "names": {numbers[t]: t.name.decode("utf-8", "replace").replace(u"\ufffd", u"?") for t in threads}}))
    while sys.stdin.readline():
        for i, thread in enumerate(threads):
            thread.name = "renamed-%d" % i
        say("RENAMED")
    end.set()


main()
