# SPDX-License-Identifier: MIT
"""The profilers whose stacks are judged. Each takes a target (tests/integration/harness.py), a rate in Hz and
seconds, and returns a Recording."""
import math
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
for folder in "integration", "bench":
    sys.path.insert(0, os.path.join(ROOT, "tests", folder))

import harness  # noqa: E402
import mojo  # noqa: E402
import profilers  # noqa: E402
from grammar import short  # noqa: E402

BUILT = os.path.join(ROOT, "build-bench")  # tools/bench's: py-spy and austin are installed there


class Recording:
    """stacks: [([(function, line)], count)], root first, of what the profiler calls right; samples: how many
    it wrote in all; failed: how many more it says it could not take; leaves: harness.judge()'s verdict where the
    native leaf is known; working: the stacks whose leaf is a function of known time, not one that waits for the GIL,
    which costs CPU time too, on whatever line it happens."""

    def __init__(self, stacks, samples=None, failed=0, leaves=None, working=None):
        self.stacks, self.leaves, self.failed = list(stacks), leaves or harness.Verdict(), failed
        self.working = self.stacks if working is None else list(working)
        self.sure = sum(count for _, count in self.stacks)
        self.samples = self.sure if samples is None else samples


def python_part(frames):
    """Of `function (file:line)` frames; what is no Python frame is left out."""
    return [(short(p[0]), p[2]) for p in map(harness.python_frame, frames) if p]


def with_hidden_lines(stacks, truth):
    """A frame that a JIT runs tells no line (docs/NATIVE_STACKS.md): its function is judged, the line is given. The
    JIT's code itself is native."""
    for frames, count in stacks:
        frames = [frame for frame in frames if frame != "[anon]"]
        want = truth.get((harness.user_frames(frames) or [None])[-1])
        hidden = [i for i, frame in enumerate(frames) if want and re.fullmatch(re.escape(want[0][0]) + r" \(.+\.py\)", frame)]
        if hidden:
            i = hidden[-1]
            frames = frames[:i] + ["%s:%d)" % (frames[i][:-1], want[0][1])] + frames[i + 1:]
        yield frames, count


# ---- pysampled -------------------------------------------------------------------------------------------------------

def captures():
    """{name: None, or why it can't be judged here}: whatever `pysampled doctor` speaks of."""
    said = harness.pysampled("doctor").out
    found = re.findall(r"^(\S+) +--capture (\w+): (.*)", said, re.MULTILINE)
    harness.clean_up()
    return {name: None if word == "ok" else reason for word, name, reason in found}


def pysampled(capture, binary=None, event=None):
    """At a rate, or each time that the event happens."""
    def record(target, rate, seconds):
        out = os.path.join(harness.folder(0o777), "out.folded")
        when = ("-e", event, "-c", 1) if event else ("-F", rate)
        run = harness.pysampled("-v", "-p", target.pid, *when, "-d", seconds, "--capture", capture, "-o", out,
                                "--hold-budget", 100, "--provenance", "exact", binary=binary, limit=seconds + 60).ok()
        truth = target.info["truth"]
        stacks = list(with_hidden_lines(harness.read_folded(out), truth)) if target.jitted else harness.read_folded(out)
        recording = Recording(((python_part(frames), n) for frames, n in stacks), run.n("samples"),
                              leaves=harness.judge(stacks, truth),
                              working=((python_part(f), n) for f, n in stacks if harness.user_frames(f)[-1:] and
                                       harness.user_frames(f)[-1] in truth))
        recording.evidence = "%s\n%s\n" % (run, open(out).read())
        return recording
    return record


# ---- others, from outside at their own instants ----------------------------------------------------------------------

def bench(find, *args):
    """A profiler as tools/bench finds it."""
    try:
        return find(BUILT, *args)
    except profilers.Absent as reason:
        raise harness.Skip(str(reason)) from None


def run_for(argv, seconds, out):
    """A profiler that runs until SIGINT, or to its end if seconds is None: what it said. Skip with its last words
    if it wrote nothing."""
    log = out + ".log"
    with open(log, "wb") as file:
        process = harness.start(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    if seconds is not None:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise harness.Skip("does not end within a minute of SIGINT") from None
    with open(log, errors="replace") as file:
        said = re.sub(r"\x1b\[[\d;]*m", "", file.read())
    if not os.path.exists(out):
        raise harness.Skip((said.strip().splitlines() or ["wrote nothing"])[-1])
    return said


def found(pattern, said):
    match = re.search(pattern, said)
    return float(match[1]) if match else 0


def without_empty(text):
    """(stacks, samples): py-spy --nonblocking writes some stacks without a frame, and counts them among no errors."""
    lines = text.splitlines()
    return harness.parse_folded("\n".join(line for line in lines if line[0] != " ")), sum(int(line) for line in lines if line[0] == " ")


def py_spy(*options):
    def record(target, rate, seconds):
        out = os.path.join(harness.folder(0o777), "out.raw")
        said = run_for([*bench(profilers.py_spy).command(target.pid, rate, out), *options], seconds, out)
        with open(out) as file:
            stacks, empty = without_empty(file.read())
        return Recording(((python_part(frames), n) for frames, n in stacks), failed=found(r"Errors: (\d+)", said) + empty)
    return record


def austin(target, rate, seconds):
    out = os.path.join(harness.folder(0o777), "out.mojo")
    said = run_for(bench(profilers.austin, profilers.sid_folder(ROOT)).command(target.pid, rate, out), seconds, out)
    try:
        stacks = [([(short(name), line) for name, line in stack], 1) for stack in mojo.stacks_of(out)]
    except ValueError as reason:
        raise harness.Skip("austin: %s" % reason) from None
    return Recording(stacks, failed=found(r"Error rate[ .]*(\d+)/", said))


def tachyon(*options):
    """CPython 3.15's own; it runs where the target runs, and can read that Python only."""
    def record(target, rate, seconds):
        python = os.readlink("/proc/%d/exe" % target.pid)
        if not python.endswith("python3.15"):
            raise harness.Skip("Tachyon reads its own version only, 3.15")
        out = os.path.join(harness.folder(0o777), "out.collapsed")
        said = run_for(["nsenter", "-t", str(target.pid), "-m", "-r", "--", "python3.15", "-m", "profiling.sampling",
                        "attach", "-a", "--mode", "gil", "-r", str(rate), "-d", str(math.ceil(seconds)),
                        "--collapsed", "-o", out, *options, str(target.pid)], None, out)
        samples = found(r"Captured (\d+)", said)
        stacks = [([(short(function), int(line)) for function, line in re.findall(r":([^;]+):(\d+)", ";".join(frames))],
                   n) for frames, n in harness.read_folded(out)]
        return Recording(stacks, failed=round(samples * found(r"Error rate: ([\d.]+)", said) / 100))
    return record


PEERS = {
    "py-spy": py_spy(),
    "py-spy --nonblocking": py_spy("--nonblocking"),
    "austin": austin,
    "Tachyon": tachyon(),
    "Tachyon --blocking": tachyon("--blocking"),
    "async, unchecked": pysampled("async", harness.UNCHECKED),
}
