"""Work in short lives: the main thread and a fresh thread, or a forked child, take turns, each burning the same CPU time.

lives.py KIND MS [SECONDS]: KIND is thread or fork. Says READY, works for SECONDS, or until a line comes on stdin, then
SPENT {"main": s, "fresh": s, "lives": n, "user": s, "kernel": s, "faults": n, "switches": n}: CPU time inside burn_main()
and burn_fresh(), by the threads' own clocks, and what this process and its children used from their start on.
"""
import json
import os
import resource
import select
import sys
import threading
import time

kind, length = sys.argv[1], float(sys.argv[2]) / 1000
limit = float(sys.argv[3]) if len(sys.argv) > 3 else None
spent = {"main": 0.0, "fresh": 0.0, "lives": 0}


def burn_main(until):
    x = 0
    while time.thread_time() < until:
        for i in range(20):
            x += i


def burn_fresh(until):
    x = 0
    while time.thread_time() < until:
        for i in range(20):
            x += i


def turn(burn, who):
    begin = time.thread_time()
    burn(begin + length)
    spent[who] += time.thread_time() - begin


def child(pipe):
    turn(burn_fresh, "fresh")
    os.write(pipe, ("%.9f\n" % spent["fresh"]).encode())
    os._exit(0)


def fresh_process():
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        spent["fresh"] = 0.0
        child(there)
    os.close(there)
    spent["fresh"] += float(os.read(here, 64) or 0)
    os.close(here)
    os.waitpid(pid, 0)


def fresh_thread():
    thread = threading.Thread(target=turn, args=(burn_fresh, "fresh"))
    thread.start()
    thread.join()


def main():
    fresh = fresh_process if kind == "fork" else fresh_thread
    print("READY {}", flush=True)
    begin = time.monotonic()
    while time.monotonic() - begin < limit if limit else not select.select([0], [], [], 0)[0]:
        turn(burn_main, "main")
        fresh()
        spent["lives"] += 1
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    spent["user"], spent["kernel"] = sum(u.ru_utime for u in used), sum(u.ru_stime for u in used)
    spent["faults"] = sum(u.ru_minflt + u.ru_majflt for u in used)
    spent["switches"] = sum(u.ru_nvcsw + u.ru_nivcsw for u in used)
    print("SPENT " + json.dumps(spent), flush=True)


main()
