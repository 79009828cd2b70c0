# SPDX-License-Identifier: MIT
"""What a recording takes as machines and targets grow, in counts that are the same on every machine.

One recording a row: some processes forked by one, each with some threads, of which the first threads of some processes are
busy. `pysampled --work` tells what it did until the first sample, and in the second half of its time; the latter is divided
by the samples. In an emulated machine that counts instructions all CPUs share one clock: with N busy ones everything takes N
times as long by it (a fixed piece of work beside 16 took 18.7 times as long). There the rate is divided by N and the duration
multiplied, so that between two samples a CPU executes as much as on a real machine, and times of the start are divided. A
sample's work is short: as much of it as lies within one turn of a CPU takes no longer, so its time lies in between. What a
reader executes for a sample is known better: the median of the times that it ran while no other CPU did, by the scheduler's
trace, in instructions.
"""
import contextlib
import os
import re
import signal
import subprocess
import time

import runs
from schedtrace import Trace, stints
from stats import median

PLAIN = ["--no-kernel", "--no-native"]
INSTRUCTION_NS = 8  # in guests of tests/envs/run.py --scale
ONCE_S = 12  # in an emulated machine what is done once is done after half of it
TARGET = """
import os, signal, sys, threading
processes, threads, busy = map(int, sys.argv[1:])
def mix_of_work():
    while True:
        sum(range(1000))
ready, told = os.pipe()
signal.alarm(3600)
number = 0
for other in range(1, processes):
    if os.fork() == 0:
        number = other
        break
threading.stack_size(256 << 10)
for _ in range(threads - 1):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
if number == 0:
    left = processes - 1
    while left:
        left -= len(os.read(ready, left))
    print("READY", flush=True)
else:
    os.write(told, b".")
if number < busy:
    mix_of_work()
signal.pause()
"""


class Row(dict):
    """One recording: numbers by name, those of the work lines as PART.NAME."""

    def a_sample(self, name):
        """In the second half, when what is done once is done."""
        return self.get("half." + name, 0) / max(1, self["half.samples"])

    def exact(self):
        return 100 * self["exact"] / max(1, self["samples"])


MANY = [(1, 2000, 1, PLAIN), (1000, 1, 1, PLAIN), (2000, 1, 1, PLAIN)]


def sets(cpus, quick):
    """(processes, threads, busy processes, options), each once."""
    rows = [(1, 1, 1, PLAIN), (cpus, 1, 1, PLAIN), (cpus, 1, cpus, PLAIN), (1, 16, 1, PLAIN)]
    if not quick:
        rows += [(1, 1, 1, []), (16, 1, 1, PLAIN), (64, 4, 64, PLAIN), (64, 4, 1, PLAIN), (64, 4, 64, [])]
    if not quick or cpus == 2:
        rows += MANY
    return [row for i, row in enumerate(rows) if row not in rows[:i]]


@contextlib.contextmanager
def target(python, *numbers):
    process = runs.start([python, "-c", TARGET, *map(str, numbers)], stdout=subprocess.PIPE)
    try:
        if process.stdout.readline() != b"READY\n":
            raise runs.Failure("the target does not start")
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        runs.started.pop(process.pid, None)


def is_emulated():
    with open("/proc/cpuinfo") as file:
        return "QEMU TCG" in file.read()


def words(line):
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def parse(said):
    """What the lines of a recording tell, as a Row."""
    row = Row()
    for line in said.splitlines():
        if line.startswith("work: "):
            part = words(line)
            row.update({"%s.%s" % (part["part"], name): int(value) for name, value in part.items() if name != "part"})
        elif line.startswith("samples="):
            row.update({name: int(value) for name, value in words(line).items() if value.isdigit()})
        elif re.match(r"pysampled: \w+=\d+ ", line):  # why samples are late, and the like
            row.update({name: int(value) for name, value in words(line.partition(" (")[0]).items()})
        elif "system calls are not counted" in line:
            row["no syscalls"] = line.partition(": ")[2]
    return row


def measure(binary, python, numbers, options, rate, seconds, folder):
    """A Row; raises runs.Failure."""
    slower = min(numbers[2], os.cpu_count()) if is_emulated() else 1
    rate, seconds = max(1, round(rate / slower)), max(seconds * slower, ONCE_S if is_emulated() else 0)
    with target(python, *numbers) as pid, Trace() if is_emulated() else contextlib.nullcontext() as trace:
        process = runs.start([binary, "--work", "-v", "-p", str(pid), "-e", "cpu-clock", "-F", str(rate), "-d", "%.1f" % seconds,
                              *options, "-o", os.path.join(folder, "scale.folded")],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = process.communicate()[1].decode(errors="replace")
        runs.started.pop(process.pid, None)
        alone = stints(trace.read()) if trace else []
    row = Row(parse(said), slower=slower, reader_instructions=(median(alone) if alone else 0) * 1000 / INSTRUCTION_NS)
    row.update(zip(("processes", "threads", "busy"), numbers))
    row.update(cpus=os.cpu_count(), options=" ".join(options))
    if "half.samples" not in row or "samples" not in row:
        raise runs.Failure("%s: %s" % (" ".join(map(str, numbers)), said.strip().splitlines()[-1:] or "without a word"))
    return row


HEAD = ("CPUs", "processes × threads, busy", "system calls", "opens", "remote reads", "ms", "own CPU, ms",
        "records", "rings", "foreign loads", "wake-ups", "system calls", "remote reads", "own CPU, µs",
        "reader, 1000 instructions", "exact", "RSS, MB")


def between(most, slower):
    return "%.0f" % most if slower == 1 else "%.0f to %.0f" % (most / slower, most)


def cells(row):
    """A line of the table. What a start takes is divided by how much longer that takes in an emulated machine."""
    slower = row["slower"]

    def calls(value, form):
        return form % value if "first.syscalls" in row else "-"
    return ("%d" % row["cpus"],
            "%d × %d, %d%s" % (row["processes"], row["threads"], row["busy"], "" if row["options"] else " (default)"),
            calls(row.get("first.syscalls", 0), "%d"), "%d" % row["first.opens"], "%d" % row["first.reads"],
            "%.0f" % (row["first.us"] / 1e3 / slower), "%.0f" % (row["first.cpu_us"] / 1e3 / slower),
            "%.1f" % row.a_sample("records"), "%.1f" % row.a_sample("rings"), "%.1f" % row.a_sample("foreign"),
            "%.2f" % row.a_sample("wakeups"), calls(row.a_sample("syscalls"), "%.1f"), "%.1f" % row.a_sample("reads"),
            between(row.a_sample("cpu_us"), slower),
            "%.1f" % (row["reader_instructions"] / 1e3) if row["reader_instructions"] else "-",
            "%.1f %%" % row.exact(), "%.0f" % (row["bytes.rss"] / 2**20))


def table(rows):
    lines = ["| | | until the first sample | | | | | for each sample | | | | | | | | | |",
             "|" + " --- |" * len(HEAD), "| " + " | ".join(HEAD) + " |"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


# --- what larger machines would take ---

STARTS = (("1", lambda r: 1), ("CPU", lambda r: r["cpus"]), ("process", lambda r: r["processes"]),
          ("thread", lambda r: r["processes"] * r["threads"]),
          ("thread × CPU", lambda r: r["processes"] * r["threads"] * r["cpus"]))
SAMPLES = (("1", lambda r: 1), ("CPU", lambda r: r["cpus"]), ("busy CPU", lambda r: min(r["busy"], r["cpus"])))
GUESSED = ((64, 64), (128, 128), (256, 256))


def solve(matrix, right):
    """Gauss-Jordan; a column without a pivot gets 0."""
    n = len(right)
    rows = [list(map(float, line)) + [float(value)] for line, value in zip(matrix, right)]
    pivots, at = {}, 0
    for column in range(n):
        best = max(range(at, n), key=lambda i: abs(rows[i][column]), default=None)
        if best is None or abs(rows[best][column]) < 1e-9:
            continue
        rows[at], rows[best] = rows[best], rows[at]
        rows[at] = [value / rows[at][column] for value in rows[at]]
        for i in range(n):
            if i != at:
                rows[i] = [a - rows[i][column] * b for a, b in zip(rows[i], rows[at])]
        pivots[column] = at
        at += 1
    return [rows[pivots[column]][n] if column in pivots else 0.0 for column in range(n)]


def fit(rows, terms, value):
    """Factors of the terms, none below 0, by least squares of the relative error; a small value's is that of the median."""
    floor = max(1, median([value(row) for row in rows]))
    lines = [([term(row) / max(floor, value(row)) for _, term in terms], value(row) / max(floor, value(row))) for row in rows]
    used = list(range(len(terms)))
    while True:
        matrix = [[sum(line[i] * line[k] for line, _ in lines) for k in used] for i in used]
        factors = solve(matrix, [sum(line[i] * right for line, right in lines) for i in used])
        least = min(factors, default=0)
        if least >= 0:
            return [factors[used.index(i)] if i in used else 0.0 for i in range(len(terms))]
        del used[factors.index(least)]


def formula(factors, terms):
    return " + ".join("%.3g%s" % (factor, "" if name == "1" else " a " + name)
                      for factor, (name, _) in zip(factors, terms) if factor >= 0.005) or "0"


def larger(rows):
    """Markdown: the slopes, and what they come to on larger machines; of recordings without kernel and native frames."""
    rows = [row for row in rows if row["options"]]
    out, guesses = [], []
    for what, terms, value in (
            ("system calls until the first sample", STARTS, lambda r: r.get("first.syscalls", 0)),
            ("opens until the first sample", STARTS, lambda r: r["first.opens"]),
            ("remote reads until the first sample", STARTS, lambda r: r["first.reads"]),
            ("RSS, KB", STARTS, lambda r: r["bytes.rss"] / 1024),
            ("1000 instructions of a reader a sample", SAMPLES, lambda r: r.get("reader_instructions", 0) / 1e3),
            ("records a sample", SAMPLES, lambda r: r.a_sample("records")),
            ("rings a sample", SAMPLES, lambda r: r.a_sample("rings")),
            ("foreign loads a sample", SAMPLES, lambda r: r.a_sample("foreign")),
            ("wake-ups a sample", SAMPLES, lambda r: r.a_sample("wakeups"))):
        if not any(value(row) for row in rows):
            continue
        factors = fit(rows, terms, value)
        out.append((what, formula(factors, terms)))
        guesses.append((what, *("%.0f" % sum(factor * term(Row(cpus=cpus, processes=busy, threads=1, busy=busy))
                                             for factor, (_, term) in zip(factors, terms)) for cpus, busy in GUESSED)))
    lines = ["| | slopes | " + " | ".join("%d CPUs, %d busy" % size for size in GUESSED) + " |",
             "|" + " --- |" * (2 + len(GUESSED))]
    lines += ["| %s | %s | %s |" % (what, counted, " | ".join(guess[1:])) for (what, counted), guess in zip(out, guesses)]
    return "\n".join(lines) + "\n"


def run(binary, python, quick, rate, seconds, folder, each):
    """Calls each() with the Row of each set of this machine, or a Failure."""
    for processes, threads, busy, options in sets(os.cpu_count(), quick):
        try:
            each(measure(binary, python, (processes, threads, busy), options, rate, seconds, folder))
        except runs.Failure as reason:
            each(reason)
