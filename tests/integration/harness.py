"""What the integration tests share: Pythons, targets, pysampled runs, and readers of its outputs.

A test is a function named test_* in a test_*.py beside this file. It fails by an exception and skips by Skip; what it
returns is printed.
each(name=values, ...) runs it once for each combination; each_python once for each CPython.
"""
import contextlib
import ctypes
import fcntl
import functools
import glob
import itertools
import json
import math
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time

import tolerances

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("PYSAMPLED_BUILD", os.path.join(ROOT, "build")))
PYSAMPLED = os.environ.get("PYSAMPLED", os.path.join(BUILD, "pysampled"))
UNCHECKED = os.path.join(BUILD, "pysampled-unchecked")  # takes each plain read of --capture async for exact
PYTHONS = os.path.join(BUILD, "pythons")  # those that matrix.provide() unpacked
TARGETS = os.path.join(ROOT, "tests", "targets")
WANTED_PYTHONS = ("3.11", "3.12", "3.13")
OLDER_PYTHONS = ("3.6.", "3.7.", "3.8.", "3.9.", "3.10.")
MATRIX_DEBIANS = ("3.14", "3.15")
FREE_THREADED = ("3.13t", "3.14t", "3.15t")
MATRIX_PYTHONS = MATRIX_DEBIANS + FREE_THREADED
DEBIAN_PYTHON = "/usr/bin/python3.11"
NOBODY = 65534
NO_SIGNALS = "0000000000000000"


class Skip(Exception):
    """The test can't be run here; the text says why."""


class Spoilt(AssertionError):
    """Too little happened to judge by, as on a busy machine."""


def check(condition, text, *values):
    """What must hold however busy the machine is: truth, harm, crashes, hangs, counters. It is never tried again."""
    if not condition:
        raise AssertionError(text % values if values else text)


def enough(condition, text, *values):
    """What a busy machine can spoil: how many samples there are, how many of them are marked. The test is tried once
    more, so what must hold is checked before."""
    if not condition:
        raise Spoilt(text % values if values else text)


def rare(n, most, text, *values):
    """So many at the most, of what has no certain number: six sigma more is too many at once, anything more if it is so twice."""
    check(n <= most + 6 * math.sqrt(max(most, 1)), text, *values)
    enough(n <= most, text, *values)


def equal(got, want, what):
    check(got == want, "%s: got %r, want %r", what, got, want)


# ---- which tests, and how often --------------------------------------------------------------------------------------

def each(**axes):
    """Runs the test once for each combination of the named values."""
    def mark(function):
        function.axes = dict(getattr(function, "axes", {}), **axes)
        return function
    return mark


def each_python(function):
    """Runs the test for each CPython, passed as py."""
    return each(py=wanted_pythons())(function)


def some_python(turn):
    """Runs the test for one CPython, another for each turn; with --matrix for each. Passed as py."""
    def mark(function):
        there = [py for py in wanted_pythons() if py.path] or wanted_pythons()
        return each(py=wanted_pythons() if every_pair() else [there[turn % len(there)]])(function)
    return mark


def one_python(function):
    """Runs the test for the newest CPython that needs no chroot, passed as py."""
    return each(py=[newest_python()])(function)


BEGINS = 90  # seconds until a target is ready: without a GIL its main thread begins others while the first ones compute
SECONDS = 120  # a test that takes longer hangs; no shorter, for machines do other things, too


def seconds(limit):
    """Ends the test after this long; without it after SECONDS."""
    def mark(function):
        function.limit = limit
        return function
    return mark


def beside(function):
    """Waits for most of its time and judges nothing that others' CPU time changes: runs beside others of its kind. BESIDE = True
    in a test_*.py says so of all its tests."""
    function.beside = True
    return function


def alone(function):
    """In a test_*.py of which BESIDE = True: this one is not."""
    function.beside = False
    return function


def not_quick(function):
    """Leaves the test out of a --quick run."""
    function.not_quick = True
    return function


def dealt(function):
    """Deals what is below it out: each Python and each other value has its turn, not each pair; with --matrix each pair."""
    function.dealt = True
    return function


def every_pair():
    return "PYSAMPLED_MATRIX" in os.environ


def rows(function, axes):
    if not getattr(function, "dealt", False) or every_pair():
        return itertools.product(*axes.values())
    turns = max(len(values) for values in axes.values())
    return [[values[i % len(values)] for values in axes.values()] for i in range(turns)]


def cases(function):
    """(arguments, suffix of the name) of each run of a test."""
    axes = getattr(function, "axes", {})
    for values in rows(function, axes):
        named = ["%s" % v if k == "py" else "%s=%s" % (k, v) for k, v in zip(axes, values)]
        yield dict(zip(axes, values)), "[%s]" % ",".join(named) if named else ""


# ---- Pythons ---------------------------------------------------------------------------------------------------------

class Python:
    """A CPython to be profiled; path is None where there is none."""

    def __init__(self, tag, path, reason=None):
        self.tag, self.path, self.reason = tag, path, reason
        self.jitted = False  # its JIT is switched on

    def __str__(self):
        return self.tag

    def need(self):
        if self.path is None:
            raise Skip(self.reason)
        return self.path

    def is_free_threaded(self):
        return self.tag.endswith("t")

    def minor(self):
        """ "3.12", "3.13t"."""
        return ".".join(self.tag.replace("debian", "").rstrip("t").split(".")[:2]) + "t" * self.is_free_threaded()

    def lists_tasks(self):
        """3.14 on: C's asyncio tasks are in lists."""
        return self.minor().rstrip("t") in MATRIX_DEBIANS

    def command(self):
        return ["env", "PYTHON_JIT=1"] * self.jitted + [self.need()]

    def include(self):
        code = "import sysconfig; print(sysconfig.get_path('include'))"
        return subprocess.check_output([self.need(), "-c", code], text=True, env=plain_env()).strip()


def plain_env(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYENV_VERSION", "VIRTUAL_ENV"))}
    env.update(more)
    return env


def pyenv_versions():
    try:
        root = subprocess.run(["pyenv", "root"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    except OSError:
        return []
    folder = os.path.join(root.strip(), "versions")
    names = os.listdir(folder) if root.strip() and os.path.isdir(folder) else []
    return [(name, os.path.join(folder, name, "bin", "python3")) for name in sorted(names)]


def find_pythons():
    given = [p for p in os.environ.get("PYSAMPLED_TEST_PYTHONS", "").split(os.pathsep) if p]
    if given:
        return [Python(tag_of(path), path) for path in given]
    found = []
    installed = pyenv_versions()
    debian = DEBIAN_PYTHON if os.access(DEBIAN_PYTHON, os.X_OK) else None
    # One of each version, the harder one to read, is enough without --matrix.
    for wanted in WANTED_PYTHONS if matrix_pythons() or not debian else WANTED_PYTHONS[1:]:
        there = [(n, p) for n, p in installed if n.startswith(wanted + ".") and os.access(p, os.X_OK)]
        found += [Python(name, path) for name, path in there]
        path = os.path.join(PYTHONS, wanted)
        if not there:
            found.append(Python(wanted, path) if os.access(path, os.X_OK) else
                         Python(wanted, None, "no CPython %s with a shared libpython here" % wanted))
    found.append(Python("debian3.11", debian, "no %s here" % DEBIAN_PYTHON))
    return found + matrix_pythons()


def older_pythons():
    """Those of before 3.11, whose frames are objects; without any, one that is not here."""
    found = [Python(name, path) for name, path in pyenv_versions()
             if name.startswith(OLDER_PYTHONS) and os.access(path, os.X_OK)]
    return found or [Python("3.10", None, "no CPython of before 3.11 here")]


def python_2_7():
    there = [(name, os.path.join(os.path.dirname(path), "python2.7")) for name, path in pyenv_versions()]
    found = [Python(name, path) for name, path in there if name.startswith("2.7.") and os.access(path, os.X_OK)]
    return found[0] if found else Python("2.7", None, "no CPython 2.7 here")


@functools.cache
def tag_of(path):
    code = "import platform, sys; print(platform.python_version() + 't' * ('t' in getattr(sys, 'abiflags', '')))"
    try:
        return subprocess.check_output([path, "-c", code], text=True, env=plain_env()).strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit("PYSAMPLED_TEST_PYTHONS: %s: %s" % (path, error))


def matrix_pythons():
    """CPythons that tools/test --matrix unpacked (matrix.py)."""
    folder = os.environ.get("PYSAMPLED_MATRIX")
    found = [matrix_python(version, os.path.join(folder, version)) for version in MATRIX_PYTHONS] if folder else []
    return [py for py in found if py.reason or os.path.exists(py.path)]


def matrix_python(version, path):
    try:
        with open(path + ".absent") as file:
            return Python(version, None, file.read())
    except FileNotFoundError:
        return Python(version, path)


def free_threaded():
    """Those without the GIL: of the matrix, or that are there already; without any, one that is not here."""
    there = [py for py in wanted_pythons() if py.is_free_threaded()]
    made = [(version, os.path.join(BUILD, "matrix", version)) for version in FREE_THREADED]
    return (there or given_free_threaded() or [Python(version, path) for version, path in made if os.access(path, os.X_OK)] or
            [Python(FREE_THREADED[0], None, "CPython 3.13t is only compiled with --matrix")])


def given_free_threaded():
    """Those of PYSAMPLED_FREE_THREADED, called as their rows are."""
    given = [Python(tag_of(path), path) for path in os.environ.get("PYSAMPLED_FREE_THREADED", "").split(os.pathsep) if path]
    return [Python(py.minor(), py.path) for py in given]


def absent():
    """Versions that a default run wants and that are not here."""
    return [py.tag for py in find_pythons() if not py.path and py.tag in WANTED_PYTHONS]


_pythons = []


def wanted_pythons():
    if not _pythons:
        _pythons.extend(find_pythons())
    return list(_pythons)


def newest_python():
    ours = [py for py in wanted_pythons() if not py.tag.startswith("debian") and py.tag not in MATRIX_PYTHONS + ("3.13",)]
    there = [py for py in ours if py.path]
    return there[-1] if there else wanted_pythons()[-1]


def debian_python():
    """One that lies where any user may read it."""
    return next((py for py in wanted_pythons() if py.tag == "debian3.11" or (py.path or "").startswith("/usr/bin/")),
                Python("debian3.11", None, "not asked for"))


# ---- what this machine allows ----------------------------------------------------------------------------------------

def is_root():
    return os.geteuid() == 0


def install(packages):
    """Debian's packages, where that may be; what they bring tells whether it was."""
    if packages and is_root() and shutil.which("apt-get"):
        subprocess.run(["bash", "-c", '. "$0" && install_packages "$@"', os.path.join(ROOT, "tools", "packages.sh"), *packages],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def need_root():
    if not is_root():
        raise Skip("needs root")


def need_no_asan(why):
    if "ASAN_OPTIONS" in os.environ:
        raise Skip("under ASan " + why)


def has_tracepoints():
    return is_root() and os.path.isdir("/sys/kernel/tracing/events/sched")


def need_tracepoints():
    need_root()
    if not has_tracepoints():
        raise Skip("no tracefs at /sys/kernel/tracing")


def need_command(name):
    path = shutil.which(name)
    if not path:
        raise Skip("no %s here" % name)
    return path


@functools.lru_cache(None)
def perf_runs(path):
    """Ubuntu's is a script, which wants a program of the kernel that runs."""
    return subprocess.run([path, "version"], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def need_perf():
    path = need_command("perf")
    if not perf_runs(path):
        raise Skip("no perf of this kernel here")
    return path


def can_fifo():
    """True if SCHED_FIFO is granted, so that capture=preempt is expected."""
    pid = os.fork()
    if pid == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def need_fifo():
    if not can_fifo():
        raise Skip("SCHED_FIFO is not granted, so nothing is held")


def need_events_for_all():
    """For tests of ordinary users."""
    with open("/proc/sys/kernel/perf_event_paranoid") as file:
        value = int(file.read())
    if value > 2:
        raise Skip("perf_event_paranoid is %d: no events for ordinary users" % value)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def c_program(name, text, *flags):
    """The path of a program that is compiled from C text, in a folder of its own."""
    need_command("cc")
    path = os.path.join(folder(), name)
    write(path + ".c", text)
    subprocess.run(["cc", "-O1", "-o", path, path + ".c", *flags], check=True)
    return path


def change(path, text):
    """Writes a setting of the system, which is as before after the test, or before the next run if we are killed."""
    undo = os.path.join(BUILD, "undo.%d" % os.getpid())
    try:
        with open(path) as file:
            before = file.read()
        if not os.path.exists(undo):
            cleanup(os.unlink, undo)
        with open(undo, "a") as file:
            file.write(json.dumps([path, before]) + "\n")
        write(path, text)
    except OSError as error:
        raise Skip("%s can't be changed here: %s" % (path, error.strerror))
    cleanup(write, path, before)


def undo_of_the_killed():
    """Changes back what runs left that could not; the paths."""
    changed = []
    for undo in glob.glob(os.path.join(BUILD, "undo.*")):
        if os.path.exists("/proc/" + undo.rpartition(".")[2]):
            continue
        with open(undo) as file:
            changed += map(json.loads, reversed(file.readlines()))
        os.unlink(undo)
    for path, before in changed:
        write(path, before)
    return [path for path, _ in changed]


def keep_busy(loops=None):
    """So many endless loops, or as many that, with the target, each CPU has two threads to run."""
    for _ in range(2 * len(os.sched_getaffinity(0)) - 1 if loops is None else loops):
        start(["sh", "-c", "ulimit -t 300; while :; do :; done"], stdin=subprocess.DEVNULL)


def has_pmu():
    types = "/sys/bus/event_source/devices"
    return any(name == "cpu" or name.startswith(("cpu_", "armv", "arm_")) for name in os.listdir(types))


# ---- folders and processes -------------------------------------------------------------------------------------------

_cleanups = []


def cleanup(function, *args):
    _cleanups.append((function, args))


def clean_up():
    """Does all of them, whatever becomes of one; what went wrong."""
    errors = []
    while _cleanups:
        function, args = _cleanups.pop()
        try:
            function(*args)
        except Exception as error:
            errors.append("%s: %s" % (type(error).__name__, error))
    return errors


def folder(mode=0o755):
    """A folder of the test's own, gone after the test."""
    path = tempfile.mkdtemp(prefix="pysampled-test-%d-" % os.getpid())
    os.chmod(path, mode)
    cleanup(shutil.rmtree, path, True)
    return path


def small_disk(kb):
    """A folder with room for so many KB."""
    disk = folder()
    subprocess.check_call(["mount", "-t", "tmpfs", "-o", "size=%dk" % kb, "none", disk])
    cleanup(subprocess.call, ["umount", disk])
    return disk


def mounts():
    """Where something is mounted."""
    with open("/proc/self/mountinfo") as file:
        return [re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4]) for line in file]


def owner(path):
    """The PID of the run in whose folder a path lies; 0 if it is in none's."""
    found = re.match(re.escape(os.path.join(tempfile.gettempdir(), "pysampled-test-")) + r"(\d+)-", path)
    return int(found[1]) if found else 0


def unmount_of_the_killed(ours=False):
    """Takes away what is mounted in the folders of runs that could not, and with ours in this one's; where. No file system is
    asked: one that does not answer keeps nobody waiting."""
    libc, detach, no_follow, found = ctypes.CDLL(None), 2, 8, []
    for point in reversed(mounts()):
        pid = owner(point)
        if pid and (pid == os.getpid() if ours else not os.path.exists("/proc/%d" % pid)):
            if libc.umount2(point.encode(), detach | no_follow) == 0:
                found.append(point)
    return found


def remove_folders_of_the_killed():
    """But those in which something is mounted: what lies there is not ours."""
    points = mounts()
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), "pysampled-test-*")):
        pid, real = owner(path), os.path.realpath(path)
        if pid and not os.path.exists("/proc/%d" % pid) and not any((point + "/").startswith(real + "/") for point in points):
            shutil.rmtree(path, ignore_errors=True)


def end(process):
    """Kills a process we started, and waits for it."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            try:
                stream.close()
            except OSError:
                pass


def start(command, **options):
    process = subprocess.Popen(command, **options)
    cleanup(end, process)
    return process


def until(condition, what, limit=20, pause=0.005):
    """Waits for a condition; its value when it is true."""
    deadline = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < deadline, "not within %g s: %s", limit, what)
        time.sleep(pause)


def as_nobody():
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def for_nobody():
    """A copy of pysampled and a HOME that uid 65534 can use."""
    home = folder(0o777)
    return shutil.copy(PYSAMPLED, home), home


# ---- targets ---------------------------------------------------------------------------------------------------------

def module_file(py, name):
    """Without the GIL no module of the limited API is found."""
    return name + (".so" if py.is_free_threaded() else ".abi3.so")


def extension(py, name, where=None, flags=()):
    """Builds tests/targets/NAME.c for a Python, or with more flags; the folder it lies in. Once for all tests that run beside
    each other: a second file of the name would not be the one that a target has mapped."""
    source = os.path.join(TARGETS, name + ".c")
    out = where or os.path.join(BUILD, "targets", py.tag + "".join(flags))
    # Without the GIL there is no limited API.
    flags = list(flags) + (["-DNO_LIMITED_API"] if py.is_free_threaded() else [])
    module = os.path.join(out, module_file(py, name))
    os.makedirs(out, exist_ok=True)
    with open(module + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(module) or os.path.getmtime(module) < os.path.getmtime(source):
            compile_extension(py, source, module, flags)
    return out


def compile_extension(py, source, module, flags):
    include = py.include()
    if not os.path.exists(os.path.join(include, "Python.h")):
        include = sysconfig.get_path("include")
    scratch = "%s.%d" % (module, os.getpid())
    subprocess.run(["cc", "-O2", "-g", "-fPIC", "-shared", "-fno-ipa-icf", "-Wall", "-Wextra", "-Werror",
                    "-Wno-cast-function-type", "-I", include, source, "-o", scratch] + flags, check=True)
    os.rename(scratch, module)


def embedding(py, name):
    """tests/targets/NAME.c with this Python's library, as a command."""
    code = "import sysconfig as s; print(s.get_config_var('LIBDIR'), s.get_config_var('LDVERSION'))"
    where, version = subprocess.check_output(py.command() + ["-c", code], text=True, env=plain_env()).split()
    if not os.path.exists(os.path.join(where, "libpython%s.so" % version)):
        raise Skip("no shared libpython%s to build with" % version)
    out = os.path.join(folder(), name)
    subprocess.run(["cc", "-O2", "-g", "-pthread", "-I", py.include(), os.path.join(TARGETS, name + ".c"), "-o", out,
                    "-L", where, "-lpython" + version, "-Wl,-rpath," + where], check=True)
    return ["env", "PYTHONPATH=" + extension(py, "gtspin"), out]


class Target:
    """A program under tests/targets that says READY {json} when it is where the test wants it."""

    def __init__(self, py, script, *args, extensions=("gtspin",), user=None, cpus=None, follow_output=False):
        paths = {extension(py, name) for name in extensions}
        options = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
                       env=plain_env(PYTHONPATH=os.pathsep.join(sorted(paths)), PYTHONDONTWRITEBYTECODE="1"))
        if user is not None:
            options["preexec_fn"] = as_nobody
        self.script = script if os.path.isabs(script) else os.path.join(TARGETS, script)
        self.process = start(py.command() + [self.script] + [str(a) for a in args], **options)
        self.pid = self.process.pid
        self.jitted = py.jitted
        self._rest = b""
        self.info = json.loads(self.line("READY", BEGINS) or "{}")
        if "truth" in self.info:
            self.info["truth"] = Truth(self.info["truth"], self.info.get("roots", [[]]))
        if cpus is not None:
            of_tasks(self.pid, lambda tid: os.sched_setaffinity(tid, cpus))

    def line(self, word, limit=30):
        """Waits for the line that starts with word; what stands behind it."""
        deadline = time.monotonic() + limit
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                text = line.decode()
                if text.startswith(word):
                    return text[len(word):].strip()
                continue
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self.process.stdout], [], [], left)[0]
            chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            check(chunk, "the target never said %s (status %s)", word, self.process.poll())
            self._rest += chunk

    def say(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def alive(self):
        return self.process.poll() is None


def progress(path):
    """How far a target with --progress has come."""
    with open(path, "rb") as file:
        return struct.unpack("=Q", file.read(8))[0]


def write_totals(path, counts, failures, notes=()):
    """What tools/test adds up: "passed failed skipped", and below it a line for each failure, and those that begin with
    "again" or "absent" for its last lines."""
    lines = [failure.rstrip("\n").replace("\n", " | ")[:2000] + "\n" for failure in failures]
    with open(path, "w") as out:
        out.write("%(ok)d %(FAIL)d %(SKIP)d\n" % counts + "".join(lines) + "".join(notes))


def tasks(pid):
    return sorted(int(tid) for tid in os.listdir("/proc/%d/task" % pid))


def of_tasks(pid, ask):
    """What ask(tid) answers for each thread that does not end meanwhile, as some of the recorder's do."""
    answers = []
    for tid in tasks(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            answers.append(ask(tid))
    return answers


def status(pid, tid=None):
    """/proc/PID/status as a dict."""
    path = "/proc/%d/status" % pid if tid is None else "/proc/%d/task/%d/status" % (pid, tid)
    with open(path) as file:
        return dict((key, value.strip()) for key, _, value in (line.partition(":") for line in file))


def left(pid):
    """What of ours could be left in a process: a tracer, a stop, a pending signal; "" if nothing is."""
    for seen in of_tasks(pid, lambda tid: status(pid, tid)):
        for key, good in ("TracerPid", "0"), ("SigPnd", NO_SIGNALS), ("ShdPnd", NO_SIGNALS):
            if seen[key] != good:
                return "thread %s has %s %s (pending signals, TracerPid)" % (seen["Pid"], key, seen[key])
        if seen["State"][0] in "tT":
            return "thread %s is stopped: %s" % (seen["Pid"], seen["State"])
    return ""


def cpu_seconds(pids):
    """User and system time of processes, with that of their ended threads."""
    total = 0
    for pid in pids:
        with open("/proc/%d/stat" % pid) as file:
            fields = file.read().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def children(pid):
    """PID and all its descendants, but those that end meanwhile."""
    def of_one(tid):
        with open("/proc/%d/task/%d/children" % (pid, tid)) as file:
            return [int(child) for child in file.read().split()]

    found = [pid]
    for child in sum(of_tasks(pid, of_one), []):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += children(child)
    return found


def strace_calls(text):
    """The lines of strace -f, one a call: it writes a call in two halves when others have an event meanwhile."""
    calls, begun = [], {}
    for line in text.splitlines():
        pid, _, rest = line.partition(" ")
        end = re.match(r" *<\.\.\. \w+ resumed>", rest)
        if end and pid in begun:
            calls[begun.pop(pid)] += rest[end.end():]
            continue
        if line.endswith("<unfinished ...>"):
            begun[pid] = len(calls)
            line = line.removesuffix("<unfinished ...>").rstrip()
        calls.append(line)
    return calls


def runs_on(pid, limit=20):
    """Waits until a process has used more CPU time than it had."""
    before = cpu_seconds([pid])
    until(lambda: cpu_seconds([pid]) > before, "process %d goes on" % pid, limit)


def works(pid, seconds=0.3):
    """Waits until a process has used so much more CPU time."""
    all_work([pid], seconds)


def all_work(pids, seconds=0.3):
    """The same of each of some, all at once."""
    used = {pid: cpu_seconds([pid]) for pid in pids}
    until(lambda: all(cpu_seconds([pid]) >= used[pid] + seconds for pid in pids), "work of %s" % pids, 20 + 15 * seconds)


def works_for_a_while(pid, seconds, limit):
    """Until a process has used so much more CPU time, or so long at the most: whether it was enough is the test's to judge."""
    used, begin = cpu_seconds([pid]), time.monotonic()
    until(lambda: cpu_seconds([pid]) >= used + seconds or time.monotonic() > begin + limit, "work of %d" % pid, 2 * limit)


def venv(py, *packages):
    """The Python of a virtual environment with packages from PyPI, made once and kept in the build folder."""
    path = os.path.join(BUILD, "venv-%s-%s" % (py.tag, packages[0]))
    with open(path + ".lock", "w") as lock:
        left = signal.alarm(0)  # what is installed may be compiled: that is not the test's time
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests that run beside one another may want the same
        python = made_venv(py, path, packages)
        signal.alarm(left)
        return python


def wheels(py, path, packages):
    """A CPython in a chroot has no pip: ours fetches what was compiled for it, and a script has it find that. What is to be run."""
    version, arch, site = py.minor(), os.uname().machine, os.path.join(path, "site")
    platforms = ["--platform=manylinux%s_%s" % (libc, arch) for libc in ("2014", "_2_17", "_2_24", "_2_28")]
    os.makedirs(os.path.join(path, "bin"))
    write(os.path.join(path, "bin", "python3"), '#!/bin/sh\nPYTHONPATH="%s:$PYTHONPATH" exec "%s" "$@"\n' % (site, py.need()))
    os.chmod(os.path.join(path, "bin", "python3"), 0o755)
    return [[sys.executable, "-m", "pip", "install", "-q", "--target", site, "--python-version", version, "--implementation=cp",
             "--abi=cp" + version.replace(".", ""), "--only-binary=:all:", *platforms, *packages]]


def made_venv(py, path, packages):
    python = os.path.join(path, "bin", "python3")
    done = os.path.join(path, "complete")
    if not os.path.exists(done):
        shutil.rmtree(path, ignore_errors=True)
        steps = [py.command() + ["-m", "venv", path], [python, "-m", "pip", "install", "-q", "--prefer-binary"] + list(packages)]
        for step in wheels(py, path, packages) if py.tag in MATRIX_DEBIANS else steps:
            try:
                made = subprocess.run(step, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True, timeout=1200, env=plain_env(PIP_DISABLE_PIP_VERSION_CHECK="1"))
            except subprocess.TimeoutExpired:
                raise Skip("no environment with %s within 1200 s" % " ".join(packages))
            if made.returncode != 0:
                raise Skip("no environment with %s: %s" % (" ".join(packages), " ".join(made.stdout.split())[-300:]))
        open(done, "w").close()
    return python


# ---- pysampled -------------------------------------------------------------------------------------------------------

class Run:
    """A finished pysampled: its status, its outputs, and the summary line as a dict."""

    def __init__(self, command, rc, out, err):
        self.command, self.rc, self.out, self.err = command, rc, out, err
        self.summary = parse_summary(err)

    def __str__(self):
        return "%s: exit %s\n%s" % (" ".join(self.command), self.rc, self.err[-2000:])

    def ok(self, rc=0):
        check(self.rc == rc, "exit status %s, want %s: %s", self.rc, rc, self)
        return self

    def n(self, key):
        check(key in self.summary, "no %s= in the summary: %s", key, self)
        return int(self.summary[key])

    def counter(self, name):
        """One of those that -v prints."""
        found = re.search(r"^pysampled: %s=(\d+) " % name, self.err, re.M)
        return int(found[1]) if found else 0


def parse_summary(err):
    lines = [line for line in err.splitlines() if re.match(r"samples=\d+ ", line)]
    return dict(word.partition("=")[::2] for word in lines[-1].split()) if lines else {}


class Recorder:
    """A pysampled that runs in the background. home is where it keeps its ~/.debug."""

    def __init__(self, *args, home=None, wrapper=(), binary=None, user=None, **options):
        self.home = home or folder(0o777)
        path = binary or PYSAMPLED
        if not os.access(path, os.X_OK):
            raise Skip("%s is not built" % os.path.relpath(path, ROOT)) if path == UNCHECKED else AssertionError("no " + path)
        self.command = list(wrapper) + [path] + [str(a) for a in args]
        if user is not None:
            options["preexec_fn"] = as_nobody
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("cwd", self.home)
        self.outs = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
        env = plain_env(HOME=self.home)
        self.process = start(self.command, stdout=self.outs[0], stderr=self.outs[1], env=env, **options)
        self.pid = self.process.pid

    def text(self, index):
        """What it said so far. Its position in the file is ours, too: left alone."""
        file = self.outs[index].fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def attached(self):
        """Waits until its seccomp filter stands and its events are open and on, which it says. The kernel takes 0.1 s to put
        a uprobe in and 0.2 s to take it out, those of all recordings one after the other."""
        def ready():
            check(self.process.poll() is None, "pysampled ended early: %s", self.text(1))
            if "attached to " not in self.text(1):
                return False
            return self.events() and status(self.pid)["Seccomp"] == "2"
        until(ready, "pysampled has attached", limit=60)
        return self

    def events(self):
        """How many it has open."""
        fds = "/proc/%d/fd" % self.pid
        return sum("perf_event" in readlink(os.path.join(fds, fd)) for fd in os.listdir(fds))

    def recording(self):
        """Waits until its control thread has nothing to do but wait. Only root sees its stack; Linux before 5.16 tells nobody
        wchan."""
        def waits():
            with open("/proc/%d/%s" % (self.pid, "stack" if is_root() else "wchan")) as file:
                return "poll" in file.read()

        self.attached()
        until(waits, "the recording begins")
        return self

    def signal(self, number):
        self.process.send_signal(number)
        return self

    def stuck(self):
        """Where each of its threads is."""
        def of_one(tid):
            facts = status(self.pid, tid)
            with open("/proc/%d/task/%d/wchan" % (self.pid, tid)) as wchan:
                return "  %s: %s, in %s" % (facts["Name"], facts["State"], wchan.read())

        return "\n".join(of_tasks(self.pid, of_one))

    def wait(self, limit=60):
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError("pysampled did not end within %g s: %s%s" % (limit, self.text(1)[-2000:], self.stuck()))
        return Run(self.command, self.process.returncode, self.text(0), self.text(1))


def readlink(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def pysampled(*args, limit=60, **options):
    return Recorder(*args, **options).wait(limit)


def same_counts(run, *folded_files):
    """The summary adds up, and so do the files."""
    parts = sum(run.n(key) for key in ("exact", "late", "torn", "nopython"))
    equal(parts, run.n("samples"), "exact + late + torn + nopython against samples")
    for stacks in folded_files:
        equal(sum(n for _, n in stacks), run.n("samples"), "samples in folded")


def refused(rc, *args, about=(), **options):
    """pysampled refuses with an exit status and one line that names each word of about."""
    run = pysampled(*args, limit=20, **options).ok(rc)
    lines = [line for line in run.err.splitlines() if line.strip()]
    equal(len(lines), 1, "lines on stderr of %s" % run)
    check(20 <= len(lines[0]) <= 400 and " " in lines[0], "no sentence: %r", lines[0])
    for word in about:
        check(str(word) in lines[0], "%r is not named in %r", word, lines[0])
    equal(run.out, "", "stdout")
    return run


def readable(run, home):
    """The stacks of home/a.folded, once all three counts agree with those of home/a.data."""
    stacks = read_folded(os.path.join(home, "a.folded"))
    same_counts(run, stacks)
    equal(perf_samples(os.path.join(home, "a.data"), home), run.n("samples"), "samples in perf script")
    return stacks


# ---- folded stacks ---------------------------------------------------------------------------------------------------

def read_folded(path):
    """[(frames, count)], frames[0] is COMM-PID."""
    with open(path, errors="surrogateescape") as file:
        return parse_folded(file.read())


def parse_folded(text):
    stacks = []
    for number, line in enumerate(text.splitlines(), 1):
        stack, _, count = line.rpartition(" ")
        check(stack and count.isdigit(), "line %d is no folded stack: %r", number, line)
        stacks.append((stack.split(";"), int(count)))
    return stacks


def total(stacks):
    return sum(n for _, n in stacks)


def of_pid(stacks, pid):
    return [(frames, n) for frames, n in stacks if frames[0].rpartition("-")[2] == str(pid)]


def marked(stacks, marker):
    return [(frames, n) for frames, n in stacks if "[%s]" % marker in frames]


def sure(stacks):
    """Those that are marked neither late nor torn."""
    return [(frames, n) for frames, n in stacks if "[late]" not in frames and "[torn]" not in frames]


def user_frames(frames):
    """Without the process and without the kernel's frames."""
    return [f for f in frames[1:] if not f.endswith("_[k]")]


def python_frame(frame):
    """(qualname, file, line) of a Python frame, None for a native one."""
    match = re.fullmatch(r"(.+) \((.+):(\d+)\)", frame)
    return (match[1], match[2], int(match[3])) if match else None


def python_frames(frames):
    return [p for p in map(python_frame, user_frames(frames)) if p]


# ---- the judge: what ran is known from the native leaf ---------------------------------------------------------------

class Verdict:
    def __init__(self):
        self.judged = self.right = 0
        self.wrong = []

    def __str__(self):
        shown = "".join("\n  %s: %s" % (leaf, got if len(got) < 20 else got[:9] + ["..."] + got[-9:])
                        for leaf, got in self.wrong[:5])
        return "%d of %d right%s" % (self.right, self.judged, shown)


# Why native frames end: of the Python frames they tell nothing.
NATIVE_ENDS = {"[no CFI]", "[no map]", "[no register]", "[cut]", "[limit]", "[bad stack]", "[guessed]", "[unplaced]"}


class Truth(dict):
    """{native leaf: [[function, line], caller, …]}; roots: what can stand below, up to the root: [[function, lines], …] each
    (tests/targets/target.py), of all leaves or {leaf: roots}."""

    def __init__(self, truth, roots=([],)):
        super().__init__(truth)
        self.roots = roots

    def holds(self, leaf, got, cut):
        """Is this the whole stack of a leaf, leaf first, or one that is cut somewhere?"""
        want = [tuple(pair) for pair in self[leaf]]
        below = got[len(want):]
        roots = self.roots[leaf] if isinstance(self.roots, dict) else self.roots
        return (cut or len(got) >= len(want)) and got[:len(want)] == want[:len(got)] and any(
            (len(below) == len(root) or cut) and len(below) <= len(root)
            and all(frame[0] == name and frame[1] in lines for frame, (name, lines) in zip(below, root))
            for root in roots)


def judge(stacks, truth):
    """Compares stacks whose native leaf is in a truth with it, up to the root, or to the mark that it was cut."""
    truth = truth if isinstance(truth, Truth) else Truth(truth)
    verdict = Verdict()
    for frames, count in stacks:
        frames = user_frames(frames)
        if not frames or frames[-1] not in truth:
            continue
        cut = frames[0] == "[truncated]"
        # Native frames may lie between; another mark in between is no frame.
        got = [(p[0], p[2]) if p else f for f, p in ((f, python_frame(f)) for f in reversed(frames[cut:-1]))
               if p or f.startswith("[") and f not in NATIVE_ENDS]
        verdict.judged += count
        if truth.holds(frames[-1], got, cut):
            verdict.right += count
        else:
            verdict.wrong.append((frames[-1], got))
    return verdict


def all_right(verdict, run, share=tolerances.JUDGED, least=30):
    """All are right, and enough could be judged: a share of what the run calls exact, however slow the machine."""
    check(verdict.right == verdict.judged, "wrong stacks among those marked exact: %s", verdict)
    want = max(least, share * run.n("exact"))
    enough(verdict.judged >= want, "only %d samples could be judged, want %d: %s", verdict.judged, want, run)


def exact(target, *args, seconds=2, most=None, **options):
    """A recording of what is exact: the run, the verdict on it, the stacks."""
    out = os.path.join(folder(0o777), "out.folded")
    run = pysampled("-p", target.pid, "-d", seconds, "-o", out, "--provenance", "exact", "--hold-budget", 100, *args,
                    *(("--max-frames", most) if most else ()), **options).ok()
    stacks = read_folded(out)
    return run, judge(stacks, target.info["truth"]), stacks


# ---- perf ------------------------------------------------------------------------------------------------------------

def perf(*args, home, limit=120, cwd=None):
    """Runs perf with our HOME; (stdout, stderr)."""
    done = subprocess.run([need_perf()] + list(args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace", timeout=limit, cwd=cwd,
                          env=plain_env(HOME=home, PERF_PAGER="cat"))
    check(done.returncode == 0, "perf %s: exit %d: %s", " ".join(args), done.returncode, done.stderr)
    return done.stdout, done.stderr


def perf_samples(data, home):
    out, _ = perf("script", "-i", data, "-F", "comm,tid,time,event", home=home)
    return len([line for line in out.splitlines() if line.strip()])
