# SPDX-License-Identifier: MIT
"""What other processes pay while a recording runs, on a machine that they keep busy.

One stranger on each CPU reads its own CPU clock without a pause and adds up the jumps: what interrupts took from it.
Windows with a recording of a target and windows without alternate; the loss is the median, over pairs of neighbours, of
how much more of a CPU second was taken. (How much work is done in a CPU second would tell too, but on a virtual machine
that changes more by itself.)
"""
import os
import subprocess
import time

import runs
from stats import median

STRANGER = """
import os, sys
from time import thread_time_ns as now
os.sched_setaffinity(0, {int(sys.argv[1])})
taken, last, begin = 0, now(), now()
while True:
    for _ in range(20000):
        t = now()
        if t - last > 3000:
            taken += t - last
        last = t
    os.pwrite(1, b"%20d %20d" % (taken, last - begin), 0)
    last = now()
"""
LIVES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "targets", "lives.py")


class Stranger:
    def __init__(self, python, cpu, folder):
        self.path = os.path.join(folder, "stranger.%d" % cpu)
        with open(self.path, "wb") as out:
            self.process = runs.start([python, "-c", STRANGER, str(cpu)], stdout=out)

    def now(self):
        with open(self.path) as file:
            words = file.read().split()
        return [int(word) for word in words] if len(words) == 2 else [0, 1]


def taken(strangers, seconds):
    """The part of their CPU time that interrupts took, of all together."""
    before = [stranger.now() for stranger in strangers]
    time.sleep(seconds)
    after = [stranger.now() for stranger in strangers]
    lost, cpu = (sum(b[i] - a[i] for a, b in zip(before, after)) for i in (0, 1))
    return lost / max(cpu, 1)


def loss(binary, python, target, rate, pairs, seconds, folder):
    """Percent of their CPU time that strangers lose beside a recording of @target, argv behind python; and where its events
    counted."""
    strangers = [Stranger(python, cpu, folder) for cpu in sorted(os.sched_getaffinity(0))]
    process = runs.start([python, *target], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    process.stdout.readline()
    losses, place = [], "?"
    for _ in range(pairs):
        without = taken(strangers, seconds)
        out = os.path.join(folder, "strangers.folded")
        record = subprocess.Popen([binary, "-p", str(process.pid), "-F", str(rate), "-d", str(seconds + 1), "-v", "-o", out],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        beside = taken(strangers, seconds)
        said = record.communicate()[1]
        place = next((line for line in said.splitlines() if "events on" in line), place).partition(": ")[2]
        losses.append(100 * (beside - without))
    for started in [process, *(stranger.process for stranger in strangers)]:
        started.kill()
        started.wait()
    return median(losses), losses, place


def measure(binary, python, rates, pairs, seconds, folder, say):
    for name, target in (("threads of 8 ms", [LIVES, "thread", "8"]), ("one thread", [LIVES, "thread", "1000000"])):
        for rate in rates:
            middle, losses, place = loss(binary, python, target, rate, pairs, seconds, folder)
            say("%-16s %5d Hz: others lose %5.2f %% (%.2f to %.2f); %s"
                % (name, rate, middle, min(losses), max(losses), place))
