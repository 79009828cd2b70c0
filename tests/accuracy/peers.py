# SPDX-License-Identifier: MIT
"""The profilers whose stacks are judged. Each takes a target (tests/integration/harness.py), a rate in Hz and
seconds, and returns a Recording."""
import os
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

BUILT = os.path.join(ROOT, "build-bench")  # tools/bench's: py-spy and austin are installed there


class Recording:
    """stacks: [([(function, line)], count)], root first, of what the profiler calls right; samples: how many
    it wrote in all; leaf: harness.judge()'s verdict where the native leaf is known."""

    def __init__(self, stacks, samples=None, leaf=None):
        self.stacks, self.leaf = list(stacks), leaf
        self.sure = sum(count for _, count in self.stacks)
        self.samples = self.sure if samples is None else samples


def python_part(frames):
    """Of `function (file:line)` frames; what is no Python frame is left out."""
    return [(p[0].rpartition(".")[2], p[2]) for p in map(harness.python_frame, frames) if p]


def pysampled(capture, build=None):
    def record(target, rate, seconds):
        out = os.path.join(harness.folder(0o777), "out.folded")
        run = harness.pysampled("-p", target.pid, "-F", rate, "-d", seconds, "--capture", capture, "-o", out,
                                "--hold-budget", 100, "--provenance", "exact", build=build, limit=seconds + 60).ok()
        stacks = harness.read_folded(out)
        return Recording(((python_part(frames), n) for frames, n in stacks), run.n("samples"),
                         harness.judge(stacks, target.info["truth"]))
    return record


def bench(find, *args):
    """A profiler as tools/bench finds it."""
    try:
        return find(BUILT, *args)
    except profilers.Absent as reason:
        raise harness.Skip(str(reason)) from None


def run_for(argv, seconds, out):
    """A profiler that runs until SIGINT; Skip with its last words if it wrote nothing."""
    log = out + ".log"
    with open(log, "wb") as said:
        process = harness.start(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    if not os.path.exists(out):
        with open(log, errors="replace") as said:
            raise harness.Skip((said.read().strip().splitlines() or ["wrote nothing"])[-1])


def py_spy(*options):
    def record(target, rate, seconds):
        out = os.path.join(harness.folder(0o777), "out.raw")
        run_for([*bench(profilers.py_spy).command(target.pid, rate, out), *options], seconds, out)
        return Recording((python_part(frames), n) for frames, n in harness.read_folded(out))
    return record


def austin(target, rate, seconds):
    out = os.path.join(harness.folder(0o777), "out.mojo")
    run_for(bench(profilers.austin, profilers.sid_folder(ROOT)).command(target.pid, rate, out), seconds, out)
    try:
        return Recording((stack, 1) for stack in mojo.stacks_of(out))
    except ValueError as reason:
        raise harness.Skip("austin: %s" % reason) from None
