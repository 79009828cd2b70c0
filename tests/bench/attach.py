# SPDX-License-Identifier: MIT
"""How long it takes to have the first stack of a large process, beside what takes one of it and ends.

pysampled tells it itself (record --work: from main() to the first sample, at 999 Hz); of `py-spy dump` and `austin -w` it is
the time of the whole command. One of each a round, in random order.
"""
import contextlib
import random
import re
import subprocess
import sys
import tempfile
import time

import profilers
import runs

TARGETS = (1, 0, 0), (50, 200, 0), (50, 2500, 1024)  # threads, libraries, MiB
PROGRAM = __file__.replace("attach.py", "modules.py")
FIRST = re.compile(r"^work: part=first us=(\d+)", re.M)


@contextlib.contextmanager
def target(python, *numbers):
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([python, PROGRAM, *map(str, numbers), folder], stdout=subprocess.PIPE)
        try:
            if process.stdout.readline() != b"READY\n":
                raise runs.Failure("no target with %d threads, %d libraries, %d MiB" % numbers)
            yield process.pid
        finally:
            process.kill()
            process.wait()


def ours(binary):
    def first_ms(pid, folder):
        run = subprocess.run([binary, "record", "-p", str(pid), "-e", "cpu-clock", "-F", "999", "-d", "0.3", "--work", "-o",
                              folder + "/out.folded"], capture_output=True, text=True, timeout=60)
        found = FIRST.search(run.stderr)
        if run.returncode or not found:
            raise runs.Failure("no first sample: " + run.stderr)
        return int(found[1]) / 1e3
    return first_ms


def whole(*argv):
    def first_ms(pid, _):
        begin = time.monotonic()
        run = subprocess.run([*argv, str(pid)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        if run.returncode:
            raise runs.Failure(run.stdout.decode("utf-8", "replace"))
        return (time.monotonic() - begin) * 1e3
    return first_ms


def find(binary, built, sid, say):
    """{name: how long it takes}"""
    found = {"pysampled": ours(binary)}
    for name, argv in (("py-spy dump", lambda: [profilers.in_venv(built, "py-spy"), "dump", "-p"]),
                       ("austin -w", lambda: [*(profilers.loader(sid) if sid else ()), profilers.in_venv(built, "austin"), "-w"])):
        try:
            found[name] = whole(*argv())
        except profilers.Absent as reason:
            say("not measured: %s" % reason)
    return found


def measure(found, python, rounds, folder, say):
    """{(threads, libraries, MiB): {name: ms of each round}}"""
    seen = {numbers: {name: [] for name in found} for numbers in TARGETS}
    for numbers in TARGETS:
        with target(python, *numbers) as pid:
            for _ in range(rounds):
                for name in random.sample(sorted(found), len(found)):
                    try:
                        seen[numbers][name].append(found[name](pid, folder))
                    except (runs.Failure, subprocess.TimeoutExpired) as reason:
                        say("%s: %s" % (name, reason))
    return seen


if __name__ == "__main__":
    sys.exit("tools/bench --attach")
