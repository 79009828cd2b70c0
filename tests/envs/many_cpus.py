# SPDX-License-Identifier: MIT
"""Truth on many CPUs, and what makes samples late there: many_cpus.py [--rates 99,999] [--samples N] [--cases busy,...]
[--json FILE]

Meant for an emulated machine of 8 or 16 CPUs (tests/envs/run.py), root; it runs on a real one, too. The CPUs of an emulated
machine that counts instructions take turns and share one clock: beside N busy ones everything takes N times as long, so
99 Hz there are 99 / N Hz by that clock.

    busy            each CPU has a process of two threads
    alone           one process of one thread, all other CPUs are idle
    moving-cpus     two processes of two threads, which are moved to another CPU all the time, a thousand times a second where
    moving-threads  the machine can; events on CPUs, or on threads

Wrong stacks among the exact ones fail in each case. In `busy` and `alone` 99 % must be exact but for those that the scheduler took away, by
its own trace: while the reader worked, and did not leave its CPU, another CPU pulled away the thread that was held. By the
shared clock that work takes as many times longer as there are CPUs, and so is met by as many more of their ticks.
"""
import argparse
import contextlib
import json
import os
import re
import sys
import threading
import time
from typing import NamedTuple

for name in "integration", "bench":
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name))
import harness  # noqa: E402
import scale  # noqa: E402
from schedtrace import Trace, story, ways  # noqa: E402
from stats import median  # noqa: E402
from harness import check  # noqa: E402

MANY = 8, 16  # CPUs of the guests in which it runs
RATES = 99, 999
CASES = {"busy": "cpus", "moving-cpus": "cpus", "moving-threads": "threads"}
NAMED = {"alone": "cpus"}  # measured when they are named
MOVE_S = 0.001
EXACT = 0.99
JUDGED = 0.3  # of the exact ones, at least: those whose native leaf tells the stack


# --- samples ---

class Sample(NamedTuple):
    us: float
    cpu: int
    tid: int
    mark: str  # late, torn, or nothing


def samples_of(data, home):
    """Of a perf.data, in the order of time."""
    out, _ = harness.perf("script", "-i", data, "-F", "tid,cpu,time,ip,sym", "--ns", home=home, limit=600)
    found = []
    for text in out.split("\n\n"):
        head = re.match(r"\s*(\d+)\s+\[(\d+)\]\s+([\d.]+):", text)
        mark = re.search(r"\[(late|torn)\]", text[head.end():]) if head else None
        if head:
            found.append(Sample(float(head[3]) * 1e6, int(head[2]), int(head[1]), mark[1] if mark else ""))
    return sorted(found)


class Row(NamedTuple):
    """Of one recording. us: from an exact sample until its reader is woken, runs, and is done (medians)."""
    case: str
    cpus: int
    hz: int
    samples: int
    exact: int
    judged: int
    wrong: int
    us: list
    late: int
    pulled: int  # of the late ones, and the reader did not leave its CPU meanwhile
    left: int  # the others, whose reader did

    def exact_but_pulled(self):
        return self.exact / max(1, self.samples - self.pulled)


HEAD = ("CPUs", "case", "Hz", "samples", "exact, or without Python", "wrong", "reader woken, µs", "runs", "done", "late or torn",
        "of them pulled away", "the reader left its CPU", "exact but for those pulled away")

ORACLE_HEAD = "CPUs", "program", "", "samples", "called right", "wrong"  # what tools/accuracy says there


def cells(row):
    return ("%d" % row.cpus, row.case, "%d" % row.hz, "%d" % row.samples, "%d" % row.exact, "%d of %d" % (row.wrong, row.judged),
            *("%.0f" % us for us in row.us), "%d" % row.late, "%d" % row.pulled, "%d" % row.left,
            "%.1f %%" % (100 * row.exact_but_pulled()))


# --- recordings ---

@contextlib.contextmanager
def moving(pids, cpus):
    """Moves their threads from CPU to CPU; yields a list that grows by one for each."""
    moves, ends = [], threading.Event()

    def move():
        while not ends.is_set():
            time.sleep(MOVE_S)
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # some ends
                for tid in [tid for pid in pids for tid in harness.tasks(pid)]:
                    os.sched_setaffinity(tid, {cpus[len(moves) % len(cpus)]})
                    moves.append(tid)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield moves
    finally:
        ends.set()
        thread.join()


def family(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [pid, *map(int, file.read().split())]


def processes(case, cpus):
    return {"busy": len(cpus), "alone": 1}.get(case, 2)


def record(case, rate, seconds, cpus):
    """(pysampled's run, what the judge says, samples, what happened, moves)"""
    target = harness.Target(harness.newest_python(), "groundtruth.py", "--us", 10, "--threads", 1 if case == "alone" else 2,
                            "--seconds", seconds, "--processes", processes(case, cpus))
    folder = harness.folder(0o777)
    outs = [os.path.join(folder, "out." + ending) for ending in ("folded", "data")]
    with Trace() as trace, contextlib.ExitStack() as stack:
        recorder = harness.Recorder("-p", target.pid, "-v", "-e", "cpu-clock", "-F", rate, "--no-kernel",
                                    "--events-on", (CASES | NAMED)[case], "--hold-budget", 100, "-o", outs[0], "-o", outs[1],
                                    home=folder)
        recorder.recording()
        target.process.stdin.close()
        moves = stack.enter_context(moving(family(target.pid), cpus)) if case.startswith("moving") else []
        run = recorder.wait(3600).ok()
        happened = trace.read()
    verdict = harness.judge(harness.sure(harness.read_folded(outs[0])), target.info["truth"])
    return run, verdict, samples_of(outs[1], folder), happened, len(moves)


def measure(case, rate, slower, seconds, cpus):
    """(Row, pysampled's run, moves)"""
    run, verdict, samples, happened, moves = record(case, max(1, round(rate / slower)), seconds, cpus)
    found = list(zip(samples, ways(samples, happened)))
    sure, late = ([way for sample, way in found if way and bool(sample.mark) == marked] for marked in (False, True))
    for sample, way in found:
        if sample.mark and not (way and way.pulled and not way.left):
            print("   not pulled away: %s\n      %s" % (sample, "\n      ".join(story(sample, happened))), flush=True)
    row = Row(case, len(cpus), rate, run.n("samples"), run.n("exact") + run.n("nopython"), verdict.judged,
              verdict.judged - verdict.right, [median([way[i] for way in sure]) if sure else 0 for i in range(3)],
              run.n("late") + run.n("torn"), sum(way.pulled and not way.left for way in late), sum(way.left for way in late))
    return row, run, moves


def judge(row, run, moves, seconds):
    """A sentence; raises AssertionError."""
    print("   %s" % "\n   ".join(run.err.strip().splitlines()), flush=True)
    check(not row.wrong, "wrong stacks among those marked exact: %s", row)
    check(row.judged >= JUDGED * run.n("exact") > 0, "only %d samples could be judged", row.judged)
    if not row.case.startswith("moving"):
        check(row.exact_but_pulled() >= EXACT, "too few are exact: %s", row)
    else:
        check(moves > 100 * seconds, "moved only %d times", moves)
    return ", ".join("%s %s" % pair for pair in zip(HEAD[3:], cells(row)[3:])) + ("; moved %d times" % moves if moves else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default=",".join(map(str, RATES)), help="in Hz of a real machine (%(default)s)")
    parser.add_argument("--samples", type=int, default=400, help="of each recording, about (%(default)s)")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--json", metavar="FILE", help="write the rows into FILE")
    given = parser.parse_args()
    cpus, failed, rows = sorted(os.sched_getaffinity(0)), False, []
    for case in given.cases.split(","):
        for rate in map(int, given.rates.split(",")):
            busy = processes(case, cpus)
            slower = busy if scale.is_emulated() else 1
            seconds = max(1, given.samples / (rate / slower * busy))
            name = "many_cpus.%s[%d CPUs,%d Hz as %.1f]" % (case, len(cpus), rate, rate / slower)
            try:
                row, run, moves = measure(case, rate, slower, seconds, cpus)
                rows.append(row)
                print("ok %s: %s" % (name, judge(row, run, moves, seconds)), flush=True)
            except AssertionError as error:
                print("FAIL %s: %s" % (name, error), flush=True)
                failed = True
            harness.clean_up()
    if given.json:
        with open(given.json, "w") as out:
            json.dump(rows, out)
    return failed


if __name__ == "__main__":
    sys.exit(main())
