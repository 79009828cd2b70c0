# SPDX-License-Identifier: MIT
"""The profilers that are compared: how each is found, started and how its samples are counted.

find() returns those that start here, and for the others one sentence that says why not.
"""
import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys

import mojo

WORK = "mix_of_work"
SETTLE = 0.7


class Profiler:
    """name; command(pid, hz, out) -> argv; count(out, log) -> (samples in the work, all);
    about(log) -> what else it said of itself."""

    def __init__(self, name, version, command, count, about=lambda log: {}, settle=SETTLE):
        self.name, self.version, self.settle = name, version, settle
        self.command, self.count, self.about = command, count, about


class Absent(Exception):
    """Why a profiler can't be measured here, as a sentence."""


def output_of(argv, timeout=60):
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired) as reason:
        return None, str(reason)
    return done.returncode, done.stdout.decode("utf-8", "replace").strip()


def version_of(argv):
    """The version that a program prints; Absent with what it said instead."""
    status, text = output_of(argv)
    lines = [line for line in text.splitlines() if line.strip()]
    if status != 0:
        raise Absent("does not start: " + (lines[-1] if lines else "status %s" % status))
    return lines[0] if lines else "?"


def count_folded(out, _log):
    """Folded stacks, one a line, the count last: py-spy's, Tachyon's."""
    work = whole = 0
    with open(out, errors="replace") as file:
        for line in file:
            stack, _, weight = line.rpartition(" ")
            if stack and weight.strip().isdigit():
                whole += int(weight)
                work += int(weight) if WORK in stack else 0
    return work, whole


def number_after(text, pattern):
    found = re.findall(pattern, text)
    if not found:
        raise Absent("printed no number of samples")
    return int(found[-1])


# ---------------------------------------------------------------- pysampled and bare event
def summary_of(log):
    """The key=value line that ends a recording of pysampled."""
    lines = [line for line in log.splitlines() if line.startswith("samples=")]
    return dict(pair.split("=", 1) for pair in lines[-1].split()) if lines else {}


def pysampled(binary, extra=(), name="pysampled"):
    if not os.access(binary, os.X_OK):
        raise Absent("%s is not built" % os.path.relpath(binary))
    version = version_of([binary, "--version"])

    def command(pid, hz, out):
        return [binary, "record", "-p", str(pid), "-e", "cycles", "-F", str(hz),
                "-o", out + ".data", *extra]

    def count(_out, log):
        samples = number_after(log, r"\bsamples=(\d+)")
        return samples, samples

    return Profiler(name, version, command, count, summary_of)


def bare_event(source, folder, sample_type):
    """The sampling event alone; built from its source when that is newer."""
    binary = os.path.join(folder, "bareevent")
    if not os.path.exists(binary) or os.path.getmtime(binary) < os.path.getmtime(source):
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            raise Absent("needs a C compiler")
        status, text = output_of([compiler, "-O2", "-o", binary, source])
        if status != 0:
            raise Absent("does not compile: " + text.splitlines()[0])

    def command(pid, hz, _out):
        return [binary, str(pid), str(hz), hex(sample_type)]

    def count(_out, log):
        samples = number_after(log, r"\bsamples=(\d+)")
        return samples, samples

    return Profiler("bare event", "cpu-clock, sample_type %#x" % sample_type, command, count,
                    settle=0.2)


# ---------------------------------------------------------------- perf
def perf_runs():
    """Ubuntu's is a script, which wants a program of this kernel."""
    return output_of(["perf", "version"])[0] == 0


def perf():
    if not shutil.which("perf"):
        raise Absent("perf is not installed")

    def command(pid, hz, out):
        return ["perf", "record", "-g", "-e", "cpu-clock", "-F", str(hz), "-p", str(pid),
                "-o", out]

    def count(_out, log):
        samples = number_after(log, r"\((\d+) samples\)")
        return samples, samples

    return Profiler("perf -g", version_of(["perf", "--version"]), command, count)


# ---------------------------------------------------------------- py-spy and austin, by pip
def in_venv(folder, program):
    """A program from PATH, PYSAMPLED_BENCH_VENV, or a venv of our own (made at first use)."""
    own = os.environ.get("PYSAMPLED_BENCH_VENV") or os.path.join(folder, "venv")
    path = os.path.join(own, "bin", program)
    if os.path.exists(path):
        return path
    if shutil.which(program):
        return shutil.which(program)
    if "PYSAMPLED_BENCH_VENV" in os.environ:
        raise Absent("not in the venv %s" % own)
    said = fill_venv(own)
    if not os.path.exists(path):
        raise Absent("pip could not install it: " + said)
    return path


@functools.cache
def fill_venv(own):
    """Once a run, also into one that an earlier run could not fill; the last line that pip said."""
    print("bench: installing py-spy and austin-dist into %s" % os.path.relpath(own),
          file=sys.stderr)
    output_of([sys.executable, "-m", "venv", own], 120)
    _, text = output_of([os.path.join(own, "bin", "pip"), "install", "-q",
                         "py-spy", "austin-dist"], 300)
    return (text.splitlines() or ["?"])[-1]


def py_spy(folder, *extra):
    binary = in_venv(folder, "py-spy")

    def command(pid, hz, out):
        return [binary, "record", "-p", str(pid), "-r", str(hz), "-d", "3600",
                "-f", "raw", "-o", out, *extra]

    return Profiler(" ".join(["py-spy", *extra]), version_of([binary, "--version"]), command, count_folded)


def loader(sid):
    """The dynamic loader of the unpacked Debian sid, for programs that want its glibc."""
    return [os.path.join(sid, "usr/lib64/ld-linux-x86-64.so.2"), "--library-path",
            os.path.join(sid, "usr/lib/x86_64-linux-gnu")]


def quiet_console(argv):
    """austin logs each failed read by syslog(), which writes to the console where there is no
    /dev/log; a serial console then takes 0.6 ms a line from everybody. Give it none."""
    if os.path.exists("/dev/log") or os.geteuid() != 0 or not os.path.exists("/dev/console"):
        return argv
    return ["unshare", "-m", "--propagation", "private", "sh", "-c",
            'mount --bind /dev/null /dev/console; exec "$@"', "sh", *argv]


def austin(folder, sid, *extra):
    argv = [in_venv(folder, "austin")]
    try:
        version = version_of([*argv, "--version"])
    except Absent as reason:
        if not sid:
            raise Absent("%s (a Debian sid in PYSAMPLED_SID would help)" % reason) from None
        argv = loader(sid) + argv
        version = version_of([*argv, "--version"]) + " by sid's loader"

    def command(pid, hz, out):
        return quiet_console([*argv, "-i", str(1_000_000 // hz), "-p", str(pid), "-o", out, *extra])

    def count(out, _log):
        return mojo.count(out, WORK)

    return Profiler(" ".join(["austin", *extra]), version, command, count)


# ---------------------------------------------------------------- Tachyon, from Debian sid
def sid_folder(root):
    sid = os.environ.get("PYSAMPLED_SID") or os.path.join(root, "build", "sid")
    return sid if os.path.exists(loader(sid)[0]) else None


def sid_target(sid, folder, target):
    """argv that runs the target under sid's 3.15 in a mount namespace of its own; `folder` is
    /tmp there, and the process keeps its id."""
    shutil.copy(target, folder)
    script = ('mount -t proc proc "$1/proc" && mount --bind "$2" "$1/tmp" && shift 2 && '
              'exec chroot "$@"')
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", sid, folder,
            sid, "/usr/bin/python3.15", "/tmp/" + os.path.basename(target)]


def tachyon(sid):
    if not sid:
        raise Absent("no Debian sid folder (PYSAMPLED_SID or build/sid)")
    if not os.path.exists(os.path.join(sid, "usr/bin/python3.15")):
        raise Absent("no python3.15 in the sid folder")
    if os.geteuid() != 0:
        raise Absent("needs root to run in the sid folder")
    version = version_of(["chroot", sid, "/usr/bin/python3.15", "-c",
                          "import profiling.sampling, platform; "
                          "print(platform.python_version())"])

    def command(pid, hz, out):
        inside = "/tmp/" + os.path.basename(out)
        return ["nsenter", "-t", str(pid), "-m", "-r", "--", "/usr/bin/python3.15", "-m",
                "profiling.sampling", "attach", "-a", "-r", str(hz), "--collapsed",
                "-o", inside, str(pid)]

    return Profiler("Tachyon", version, command, count_folded, settle=1.2)


# ---------------------------------------------------------------- which Python to profile
def pythons():
    """Interpreters to try, best first."""
    yield from re.split(r"[\s:,]+", os.environ.get("PYSAMPLED_TEST_PYTHONS", ""))
    status, root = output_of(["pyenv", "root"])
    if status == 0:
        versions = os.path.join(root, "versions")
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(versions), key=lambda n: (n != "3.12.1", n)):
                if name.startswith("3.12."):
                    yield os.path.join(versions, name, "bin/python3.12")
    yield shutil.which("python3.12")


def python_3_12():
    """A CPython 3.12, or else the system's; by its real path, past any shim."""
    for path in pythons():
        if path and os.access(path, os.X_OK):
            status, text = output_of([path, "-c", "import os, sys; assert sys.version_info[:2] "
                                      "== (3, 12); print(os.path.realpath(sys.executable))"])
            if status == 0:
                return text
    return os.path.realpath(sys.executable)


def python_with_numpy(folder, python):
    """The same in a venv with numpy, made at first use."""
    own = os.path.join(folder, "numpy")
    path = os.path.join(own, "bin", "python")
    if not os.path.exists(path):
        print("bench: installing numpy into %s" % os.path.relpath(own), file=sys.stderr)
        output_of([python, "-m", "venv", own], 120)
    if output_of([path, "-c", "import numpy"])[0] != 0:
        _, text = output_of([path, "-m", "pip", "install", "-q", "numpy"], 300)
        if output_of([path, "-c", "import numpy"])[0] != 0:
            raise Absent("pip could not install numpy: " + (text.splitlines() or ["?"])[-1])
    return path
