# SPDX-License-Identifier: MIT
"""Do profiles depend on how long threads live? tests/targets/lives.py takes turns: its main thread, and a fresh thread
or child, each burning the same CPU time. Half of the samples belong to each, whatever the length of a turn, and
there are as many as CPU time and rate say."""
import os
import re
import shutil
import subprocess
import time

import peers  # finds the others
import mojo
import profilers
import report
from grammar import short
from peers import harness

TURNS = [("thread", 0.2), ("thread", 0.5), ("thread", 3), ("thread", 8), ("thread", 15), ("thread", 100), ("fork", 8)]
RATES = 99, 499, 999
SETTLE = 0.3  # of a profiler, before what it should see is counted
USER = "pysampled, ordinary user"


class Seen:
    """Samples in burn_main() and in burn_fresh(), of all there are, and what the profiler itself says is missing."""

    def __init__(self, main=0, fresh=0, samples=0, uncounted=None):
        self.main, self.fresh, self.samples, self.uncounted = main, fresh, samples, uncounted

    def add(self, names, count):
        self.samples += count
        self.main += count * ("burn_main" in names)
        self.fresh += count * ("burn_fresh" in names and "burn_main" not in names)
        return self

    def share(self):
        return self.fresh / max(1, self.main + self.fresh)


def pysampled(target, rate, seconds, **how):
    record = harness.Recorder("-p", target.pid, "-F", rate, "-d", seconds, "-o", "a.folded", **how)
    run = record.wait().ok()
    seen = Seen(uncounted=run.n("uncounted"))
    for frames, count in harness.read_folded(os.path.join(record.home, "a.folded")):
        seen.add({name for name, _, _ in harness.python_frames(frames)}, count)
    return seen


def perf(target, rate, seconds):
    """It knows no Python: a sample of the main thread is burn_main()'s."""
    out = os.path.join(harness.folder(), "perf.data")
    subprocess.run([harness.need_command("perf"), "record", "-q", "-e", "cpu-clock", "-F", str(rate), "-p", str(target.pid),
                    "-o", out, "--", "sleep", str(seconds)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    text = subprocess.run(["perf", "script", "-i", out, "-F", "tid"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout
    tids = [int(word) for word in text.split()]
    main = tids.count(target.pid)
    return Seen(main, len(tids) - main, len(tids))


def py_spy(target, rate, seconds):
    out = os.path.join(harness.folder(0o777), "out.raw")
    argv = peers.bench(profilers.py_spy, "--subprocesses").command(target.pid, rate, out)
    peers.run_for(argv, seconds, out)
    seen = Seen()
    for frames, count in harness.read_folded(out):
        seen.add({name for name, _, _ in harness.python_frames(frames)}, count)
    return seen


def austin(target, rate, seconds):
    out = os.path.join(harness.folder(0o777), "out.mojo")
    argv = peers.bench(profilers.austin, profilers.sid_folder(peers.ROOT)).command(target.pid, rate, out)
    peers.run_for([*argv, "-C"], seconds, out)
    seen = Seen()
    try:
        for stack in mojo.stacks_of(out):
            seen.add({short(name) for name, _ in stack}, 1)
    except ValueError as reason:
        raise harness.Skip("austin: %s" % reason) from None
    return seen


def as_user(py, kind, ms, rate, seconds):
    """Target and profiler of a user without rights."""
    if not harness.is_root():
        raise harness.Skip("needs root, to become somebody else")
    binary, home = harness.for_nobody()
    script = shutil.copy(os.path.join(harness.TARGETS, "lives.py"), home)
    target = harness.Target(harness.debian_python(), script, kind, ms, extensions=(), user=harness.NOBODY)
    return target, lambda: pysampled(target, rate, seconds, binary=binary, home=home, user=harness.NOBODY)


def used(pid):
    """CPU seconds of a process and of the children that it has waited for."""
    with open("/proc/%d/stat" % pid) as file:
        ticks = file.read().rpartition(")")[2].split()[11:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


PROFILERS = {"pysampled": pysampled, USER: None, "perf record": perf, "py-spy": py_spy, "austin": austin}


def measure(name, py, kind, ms, rate, seconds):
    """(Seen, expected samples) of one recording."""
    if name == USER:
        target, profile = as_user(py, kind, ms, rate, seconds)
    else:
        target = harness.Target(py, "lives.py", kind, ms, extensions=())
        def profile():
            return PROFILERS[name](target, rate, seconds)
    time.sleep(SETTLE)
    cpu, begin = used(target.pid), time.monotonic()
    time.sleep(1)
    pace = (used(target.pid) - cpu) / (time.monotonic() - begin)
    seen = profile()
    return seen, pace * seconds * rate


def cell(seen, expected):
    text = "%.0f : %.0f (%s of %.0f" % (100 * seen.share(), 100 - 100 * seen.share(), report.many(seen.samples), expected)
    return text + (")" if seen.uncounted is None else "; uncounted %s)" % report.many(seen.uncounted))


def table(say, py, seconds, turns=TURNS, rates=RATES):
    """Measures all; a Markdown table."""
    rows, missing = [], {}
    for kind, ms in turns:
        for rate in rates:
            row = ["%s, %g ms" % (kind, ms), "%d Hz" % rate]
            for name in PROFILERS:
                try:
                    row.append(cell(*measure(name, py, kind, ms, rate, seconds)) if name not in missing else "-")
                except (harness.Skip, AssertionError, subprocess.CalledProcessError) as reason:
                    missing[name] = str(reason).splitlines()[0].replace(harness.ROOT + os.sep, "") if isinstance(reason, harness.Skip) else None
                    row.append("-" if missing[name] else "failed")
                    if not missing[name]:
                        del missing[name]
                finally:
                    harness.clean_up()
            say(" | ".join(row))
            rows.append(row)
    text = report.table(("turns", "rate", *PROFILERS), rows)
    return text + "".join("\n%s was not measured: %s.\n" % pair for pair in missing.items())
