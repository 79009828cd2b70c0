# SPDX-License-Identifier: MIT
"""The profilers whose stacks are judged. Each takes a target (tests/integration/harness.py), a rate in Hz and
seconds, and returns a Recording."""
import os
import shutil
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

VENV = os.path.join(ROOT, "build-bench", "venv", "bin")  # tools/bench installs py-spy and austin there


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


def program(name):
    path = os.path.join(VENV, name)
    path = path if os.access(path, os.X_OK) else shutil.which(name)
    if not path:
        raise harness.Skip("no %s: tools/bench installs one" % name)
    return path


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
        run_for([program("py-spy"), "record", "-p", str(target.pid), "-r", str(rate), "-d", "3600", "-f", "raw",
                 "-o", out, *options], seconds, out)
        return Recording((python_part(frames), n) for frames, n in harness.read_folded(out))
    return record


def austin(target, rate, seconds):
    out = os.path.join(harness.folder(0o777), "out.mojo")
    argv, sid = [program("austin")], os.environ.get("PYSAMPLED_SID", "")
    loader = os.path.join(sid, "usr/lib64/ld-linux-x86-64.so.2")
    if os.path.exists(loader):  # the wheel's binary wants a newer glibc than Debian 12's
        argv = [loader, "--library-path", os.path.join(sid, "usr/lib/x86_64-linux-gnu")] + argv
    run_for([*argv, "-i", str(1000000 // rate), "-p", str(target.pid), "-o", out], seconds, out)
    try:
        return Recording((stack, 1) for stack in mojo.stacks_of(out))
    except ValueError as reason:
        raise harness.Skip("austin: %s" % reason) from None
