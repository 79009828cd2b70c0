# SPDX-License-Identifier: MIT
"""The program that is profiled: idle until told, then a fixed amount of work, again and again.

    target.py DEPTH UNIT_MS [native]

On standard input it takes `RUN N` (do N units of work), `WATCH MS` (look at its own CPU clock
without a pause and report the jumps) and `EXIT`; on standard output it answers with one line
of JSON. A unit is the same sequence of calls every time, so the CPU time of a unit is the
price of that work, and what a profiler adds to it shows.

The mix is short functions in random order: two plain loops, one loop of calls, one small
recursion. While it works, its leaf functions are DEPTH frames deep:
<module>, main, serve, down..., mix_of_work, leaf. With `native` the leaves are json, zlib, numpy
and a sort that calls back instead, called from Python.
"""
import json
import os
import random
import sys
import time
import zlib

# Two readings of the clock are nearer than JUMP_NS unless something came between, and nearer
# than STOLEN_NS unless the host took the CPU away.
JUMP_NS, STOLEN_NS = 5_000, 300_000
ENOUGH = 1000  # distances, to know the usual one
FRAMES_BESIDE_DOWN = 5
SHARES_US = (("plain", 40), ("other", 20), ("calls", 10), ("recursion", 5), ("recursion", 5))


def plain(n):
    x = 0
    for i in range(n):
        x += i & 7
    return x


def other(n):
    x = 1
    while n:
        n -= 1
        x ^= n
    return x


def add(a, b):
    return a + b


def calls(n):
    x = 0
    for i in range(n):
        x = add(x, i)
    return x


def fib_like(n):
    return 1 + fib_like(n - 1) if n > 0 else 0


def recursion(n):
    for _ in range(n):
        fib_like(8)


def in_json(n):
    for _ in range(n):
        json.loads(json.dumps(RECORDS))


def in_zlib(n):
    for _ in range(n):
        zlib.compress(TEXT, 1)


def in_numpy(n):
    import numpy
    matrix = numpy.ones((24, 24))
    for _ in range(n):
        numpy.sort((matrix @ matrix).ravel())


def in_sort(n):
    for _ in range(n):
        sorted(RECORDS, key=lambda record: -record["n"])


RECORDS = [{"n": n, "name": "n%d" % n, "parts": [n, n / 7]} for n in range(12)]
TEXT = json.dumps(RECORDS).encode()
NATIVE_SHARES_US = (("in_json", 100), ("in_zlib", 100), ("in_numpy", 100), ("in_sort", 50))


def count_for(function, us):
    """The argument that makes one call last about `us` microseconds here."""
    n = 1
    while True:
        best = min(timed(function, n) for _ in range(9))
        if best > 300_000:
            return max(1, round(n * us * 1000 / best))
        n *= 2


def timed(function, n):
    start = time.perf_counter_ns()
    function(n)
    return time.perf_counter_ns() - start


def sequence_of_one_unit(unit_ms, shares):
    counts = {}
    for name, us in shares:
        if name not in counts:
            counts[name] = (globals()[name], count_for(globals()[name], us))
    one_pass_us = sum(us for _, us in shares)
    names = [name for name, _ in shares] * max(1, round(unit_ms * 1000 / one_pass_us))
    random.Random(7).shuffle(names)
    return [counts[name] for name in names]


def mix_of_work(units, sequence, wall, cpu):
    for _ in range(units):
        for function, n in sequence:
            function(n)
        wall.append(time.monotonic_ns())
        cpu.append(time.thread_time_ns())


def watch_own_clock(milliseconds):
    """Everything that our CPU clock ran on between two readings beyond the usual distance."""
    clock, jumps, distances = time.thread_time_ns, [], []
    begin = last = clock()
    end = begin + milliseconds * 1_000_000
    while last < end:
        now = clock()
        distance = now - last
        if distance > JUMP_NS:
            jumps.append(distance)
        elif len(distances) < ENOUGH:
            distances.append(distance)
        last = now
    usual = sorted(distances)[len(distances) // 2]
    return {"cpu": last - begin, "jumps": [jump - usual for jump in jumps if jump < STOLEN_NS]}


def down(frames, *work):
    if frames > 1:
        return down(frames - 1, *work)
    return mix_of_work(*work)


def differences(times):
    return [b - a for a, b in zip(times, times[1:])]


def say(answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def serve(depth, sequence):
    while True:
        order = sys.stdin.readline().split()
        if not order or order[0] == "EXIT":
            return
        if order[0] == "WATCH":
            say(watch_own_clock(int(order[1])))
            continue
        wall = [time.monotonic_ns()]
        cpu = [time.thread_time_ns()]
        down(depth - FRAMES_BESIDE_DOWN, int(order[1]), sequence, wall, cpu)
        say({"wall": differences(wall), "cpu": differences(cpu)})


def main():
    depth, unit_ms = int(sys.argv[1]), float(sys.argv[2])
    if depth <= FRAMES_BESIDE_DOWN:
        sys.exit("target.py: depth must be at least %d" % (FRAMES_BESIDE_DOWN + 1))
    shares = NATIVE_SHARES_US if sys.argv[3:] == ["native"] else SHARES_US
    sequence = sequence_of_one_unit(unit_ms, shares)
    say({"pid": os.getpid(), "python": "%d.%d.%d" % sys.version_info[:3]})
    serve(depth, sequence)


if __name__ == "__main__":
    main()
