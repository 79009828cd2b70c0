# SPDX-License-Identifier: MIT
"""What other processes pay while a recording runs, on a machine that they keep busy.

One stranger on each CPU reads its own CPU clock without a pause and adds up the jumps: what interrupts took from it.
Windows with a recording of a target and windows without alternate; the loss is the median, over pairs of neighbours, of
how much more of a CPU second was taken. (How much work is done in a CPU second would tell too, but on a virtual machine
that changes more by itself.)

Two other strangers do nothing but hand a byte back and forth on one CPU: what a context switch costs them more.
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
SWITCHER = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
(a, b), (c, d) = os.pipe(), os.pipe()
child = os.fork()
get, put = (a, d) if child else (c, b)
for end in (b, c) if child else (a, d):
    os.close(end)
n = 0
if child:
    os.write(put, b"x")
while True:
    for _ in range(1000):
        os.read(get, 1)
        os.write(put, b"x")
    n += 1000
    os.pwrite(1, b"%20d %20d" % (n, time.process_time_ns()), 64 if child else 0)
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


def switches(path):
    """So many, and the CPU time of both who made them."""
    with open(path) as file:
        words = file.read().replace("\0", " ").split()
    return (int(words[0]) + int(words[2]), int(words[1]) + int(words[3])) if len(words) == 4 else (0, 0)


def a_switch(path, seconds):
    """Nanoseconds of CPU time for each."""
    before = switches(path)
    time.sleep(seconds)
    after = switches(path)
    return (after[1] - before[1]) / max(after[0] - before[0], 1)


def loss_of_a_switch(binary, python, where, pairs, seconds, folder):
    """Nanoseconds that a context switch of others costs more beside a recording, what it costs there, and without."""
    path = os.path.join(folder, "switches")
    cpu = sorted(os.sched_getaffinity(0))[-1]
    with open(path, "wb") as out:
        switcher = runs.start([python, "-c", SWITCHER, str(cpu)], stdout=out)
    process = runs.start([python, LIVES, "thread", "1000000"], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    process.stdout.readline()
    os.sched_setaffinity(process.pid, {sorted(os.sched_getaffinity(0))[0]})
    while switches(path) == (0, 0):
        time.sleep(0.1)
    beside, bare = [], []
    for _ in range(pairs):
        bare.append(a_switch(path, seconds))
        record = subprocess.Popen([binary, "-p", str(process.pid), "-F", "99", "--events-on", where, "-d", str(seconds + 1), "-o",
                                   os.path.join(folder, "switches.folded")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(0.5)
        beside.append(a_switch(path, seconds))
        record.communicate()
    for started in (process, switcher):
        started.kill()
        started.wait()
    return median(beside) - median(bare), beside, median(bare)


def measure(binary, python, rates, pairs, seconds, folder, say):
    for name, target in (("threads of 8 ms", [LIVES, "thread", "8"]), ("one thread", [LIVES, "thread", "1000000"])):
        for rate in rates:
            middle, losses, place = loss(binary, python, target, rate, pairs, seconds, folder)
            say("%-16s %5d Hz: others lose %5.2f %% (%.2f to %.2f); %s"
                % (name, rate, middle, min(losses), max(losses), place))
    for where in ("cpus", "threads"):
        more, beside, bare = loss_of_a_switch(binary, python, where, 2 * pairs, seconds, folder)
        say("a context switch of others, events on %-7s: %4.0f ns more than %.0f (beside a recording %.0f to %.0f)"
            % (where, more, bare, min(beside), max(beside)))
