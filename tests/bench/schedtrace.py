# SPDX-License-Identifier: MIT
"""The scheduler's own trace of pysampled's threads, and what it tells of them; root."""
import bisect
import contextlib
import itertools
import os
import re
from typing import NamedTuple


class Happened(NamedTuple):
    us: int
    cpu: int
    name: str
    text: str


class Trace:
    """An instance of ftrace of our own, by the clock of samples: the threads of pysampled are woken, come and go; who is moved
    to another CPU; and each CPU's ticks, which show that the CPU executes at all."""
    EVENTS = {"sched/sched_waking": 'comm == "pysampled"',
              "sched/sched_switch": 'prev_comm == "pysampled" || next_comm == "pysampled"',
              "sched/sched_migrate_task": "0",  # no filter
              "irq_vectors/local_timer_entry": "0"}  # x86's
    LINE = re.compile(r"\s*.+-\d+\s+\[(\d+)\]\s+\S+\s+([\d.]+): (\w+): (.*)")

    def __enter__(self):
        self.folder = "/sys/kernel/tracing/instances/pysampled_%d" % os.getpid()
        os.mkdir(self.folder)
        self.write("trace_clock", "mono")
        self.write("buffer_size_kb", "8192")
        for name, wanted in self.EVENTS.items():
            with contextlib.suppress(FileNotFoundError):
                self.write("events/%s/filter" % name, wanted)
                self.write("events/%s/enable" % name, "1")
        return self

    def __exit__(self, *_):
        os.rmdir(self.folder)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def read(self):
        """Ends the trace; each Happened, in the order of time."""
        self.write("tracing_on", "0")
        with open(os.path.join(self.folder, "trace")) as file:
            found = map(self.LINE.match, file)
            return sorted(Happened(round(float(m[2]) * 1e6), int(m[1]), m[3], m[4]) for m in found if m)


class Way(NamedTuple):
    """From a sample to the moments that its reader is woken, runs, and waits for the next one. pulled: meanwhile the
    scheduler moved the sampled thread to another CPU. left: the reader left the CPU before that."""
    woken_us: float
    run_us: float
    done_us: float
    pulled: bool
    left: bool


def names_reader(text, prefix=""):
    """Is who is woken, or comes, a reader that holds threads: one of pysampled's real-time threads?"""
    found = re.search(r"%scomm=pysampled %spid=\d+ %sprio=(\d+)" % (3 * (prefix,)), text)
    return bool(found) and int(found[1]) < 100


def ways(samples, happened):
    """A Way for each sample (which has us, cpu and tid), None where the trace does not tell."""
    times = [h.us for h in happened]
    for sample in samples:
        yield way(sample, happened[bisect.bisect_left(times, int(sample.us)):])


def way(sample, happened):
    woken = run = None
    pulled = left = False
    for h in happened:
        if h.name == "sched_migrate_task":
            pulled |= " pid=%d " % sample.tid in h.text
        elif h.cpu != sample.cpu:
            continue
        elif h.name == "sched_waking" and names_reader(h.text):
            woken = woken or h.us
        elif h.name == "sched_switch" and names_reader(h.text, "prev_") and run:
            if "prev_state=S" in h.text:
                return Way((woken or run) - sample.us, run - sample.us, h.us - sample.us, pulled, left)
            left = True
        elif h.name == "sched_switch" and names_reader(h.text, "next_"):
            run = run or h.us


def story(sample, happened, most=30):
    """What the trace tells of a sample's CPU and thread from then on, a line each."""
    begin = bisect.bisect_left([h.us for h in happened], int(sample.us))
    near = (h for h in happened[begin:] if h.cpu == sample.cpu or "pid=%d " % sample.tid in h.text)
    for h in itertools.islice(near, most):
        yield "%+.0f us [%d] %s: %s" % (h.us - sample.us, h.cpu, h.name, h.text)


def stints(happened):
    """Microseconds of each time that a reader ran while no other CPU did anything."""
    began, found = None, []
    for h in happened:
        if began and h.cpu != began.cpu:
            began = None
        if h.name != "sched_switch":
            continue
        if began:
            found.append(h.us - began.us)
        began = h if names_reader(h.text, "next_") else None
    return found
