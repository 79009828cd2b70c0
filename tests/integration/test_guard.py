"""Nothing that pysampled runs can write into another process: each way that the kernel has is tried from inside each part."""
import contextlib
import ctypes
import errno
import os
import re
import shutil
import signal
import struct
import subprocess

import harness
import test_files
import test_lines
from harness import NOBODY, Recorder, Target, check, each, enough, equal, one_python

BESIDE = True

WAYS_SIGNAL, WAYS_SIZE = 50, 1 << 20  # as in ways.c
REFUSED = {errno.EPERM, errno.ENOSYS, errno.EACCES}
# What a process may open and load until it records: ways.c tries that before each thread it creates.
AT_FIRST = {"mem_rdwr", "mem_wronly", "clear_refs", "oom_score_adj", "bpf_load"}


class Ways:
    """pysampled's environment with ways.c in it, and what it wrote down."""

    def __init__(self, where, mode=0o755):
        harness.need_command("cc")
        library = os.path.join(where, "ways.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror",
                        os.path.join(harness.TARGETS, "ways.c"), "-o", library], check=True)
        self.log = os.path.join(where, "ways.log")
        with open(self.log, "w") as file:
            os.chmod(self.log, 0o666)
            file.truncate(WAYS_SIZE)
        self.memory = ctypes.create_string_buffer(b"untouched")
        self.set("LD_PRELOAD", library)
        self.set("WAYS_LOG", self.log)
        self.victim(os.getpid())
        self.set("WAYS_AT", str(ctypes.addressof(self.memory)))

    def victim(self, pid):
        self.set("WAYS_PID", str(pid))
        return self

    def set(self, key, value):
        os.environ[key] = value
        harness.cleanup(os.environ.pop, key, None)

    def tried(self, where=None):
        """[(where, tid, {way: errno}, {right: value})]"""
        found = []
        with open(self.log, "rb") as file:
            n, = struct.unpack("=Q", file.read(8))
            text = file.read(n).decode()
        for line in text.splitlines():
            whole = re.fullmatch(r"(\w+) (-?\d+): (.*)", line)
            if not whole:  # being written
                continue
            place, tid, rest = whole.groups()
            words = dict(word.split("=") for word in rest.split())
            ways = {k: int(v) for k, v in words.items() if k.islower()}
            if where in (None, place):
                found.append((place, int(tid), ways, {k: v for k, v in words.items() if k not in ways}))
        return found


def open_ways(ways):
    return {name for name, number in ways.items() if number not in REFUSED}


def in_each_thread(recorder, ways):
    """Has each of its threads try; they are all that it has."""
    libc = ctypes.CDLL(None, use_errno=True)
    tids = set(harness.tasks(recorder.pid))
    for tid in tids:
        libc.tgkill(recorder.pid, tid, WAYS_SIGNAL)
    harness.until(lambda: {tid for _, tid, _, _ in ways.tried("thread")} >= tids & set(harness.tasks(recorder.pid)),
                  "all threads have tried")
    return [(tid, open_ways(found)) for _, tid, found, _ in ways.tried("thread")]


def test_the_ways_are_open_without_a_filter():
    """So that each could be found open."""
    harness.need_root()
    ways = Ways(harness.folder())
    harness.pysampled("-V").ok()
    (_, _, found, _), = ways.tried("end")
    refused = {name: number for name, number in found.items() if number in REFUSED}
    equal({name for name in refused if name not in ("io_uring", "userfaultfd", "process_mrelease")}, set(), "ways refused")
    check(ways.memory.value != b"untouched", "nothing was written: %s", ways.memory.value)


@each(user=["root", "nobody"])
@each(capture=["auto", "stop", "async"])
@one_python
def test_no_thread_of_a_recording_can_write(py, capture, user):
    home = harness.folder(0o777)
    options = {}
    if user == "nobody":
        harness.need_root()
        harness.need_events_for_all()
        binary, home = harness.for_nobody()
        options = dict(user=NOBODY, binary=binary)
        py = harness.debian_python()
    target = Target(py, "groundtruth.py", "--us", 50, "--threads", 2, user=options.get("user"))
    ways = Ways(home)
    if user == "nobody":
        ways.victim(target.pid).set("WAYS_AT", "4096")
    recorder = Recorder("-p", target.pid, "-F", 199, "--capture", capture, "-o", "a.data", "-o", "a.folded", home=home,
                        **options).attached()
    harness.works(target.pid, 0.2)
    found = in_each_thread(recorder, ways)
    recorder.signal(signal.SIGINT).wait().ok()
    for tid, is_open in found:
        equal(is_open, set(), "ways that thread %d has, of %d threads" % (tid, len(found)))
    enough(len(found) >= 4, "only %d threads", len(found))
    for _, tid, tried, _ in ways.tried("create"):
        check(open_ways(tried) <= AT_FIRST, "at first thread %d has %s", tid, open_ways(tried) - AT_FIRST)
    for _, _, tried, _ in ways.tried("end"):
        equal(open_ways(tried), set(), "ways at the end")
    equal(ways.memory.value, b"untouched" if user == "nobody" else ways.memory.value, "what was written to")


@each(command=["dump", "doctor", "events"])
@one_python
def test_no_command_can_write(py, command):
    target = Target(py, "groundtruth.py", "--us", 50)
    ways = Ways(harness.folder())
    harness.pysampled(command, *([] if command == "events" else ["-p", target.pid])).ok()
    for place, tid, tried, _ in ways.tried():
        check(open_ways(tried) <= {"bpf_load"}, "%s of thread %d: %s", place, tid, open_ways(tried))
    enough(ways.tried("end"), "nothing was tried")
    equal(ways.memory.value, b"untouched", "what was written to")


@each(user=["root", "nobody"])
@each(command=["report", "diff", "page", "convert", "perf", "unpack"])
@one_python
def test_no_reader_of_recordings_can_write(py, command, user):
    """Who reads a recording of somebody else's has no right but that to files, and no way into a process."""
    harness.need_root()
    home = harness.folder(0o777)
    target = Target(py, "groundtruth.py", "--us", 50)
    harness.pysampled("-p", target.pid, "-d", 0.3, "-F", 199, "-o", "a.data", "-o", "a.tape", home=home).ok()
    options = {}
    if user == "nobody":
        options = dict(user=NOBODY, binary=harness.for_nobody()[0])
        for name in "a.data", "a.tape":
            os.chmod(os.path.join(home, name), 0o644)
        for folder in "a.data.pyframes", ".debug":
            shutil.rmtree(os.path.join(home, folder))
    words = {"report": ["report", "a.data"], "diff": ["diff", "a.data", "a.data"], "unpack": ["unpack", "a.data"],
             "page": ["diff", "a.data", "a.data", "-o", "b.html"], "convert": ["convert", "a.data", "-o", "b.folded"],
             "perf": ["convert", "a.tape", "-o", "b.data"]}[command]
    ways = Ways(home)
    harness.pysampled(*words, home=home, **options).ok()
    for place, tid, tried, rights in ways.tried():
        check(not open_ways(tried), "%s of thread %d: %s", place, tid, open_ways(tried))
        left = int(rights["CapPrm"], 16) | int(rights["CapInh"], 16) | int(rights["CapAmb"], 16)
        reads, writes = 1 << 2 | 1 << 34, 1 << 1 | 1 << 3  # CAP_DAC_READ_SEARCH, CAP_SYSLOG; CAP_DAC_OVERRIDE, CAP_FOWNER
        may = 0 if user == "nobody" else reads if command in ("report", "diff") else reads | writes
        check(not left & ~may, "rights that are left: %x", left)
        equal(rights["NoNewPrivs"], "1", "NoNewPrivs")
    enough(ways.tried("end"), "nothing was tried")
    equal(ways.memory.value, b"untouched", "what was written to")


def no_rights(rights, user):
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        equal(int(rights[name], 16), 0, name)
    equal(rights["NoNewPrivs"], "1", "NoNewPrivs")
    if user == "root":
        equal((int(rights["CapBnd"], 16), rights["Uid"]), (0, str(NOBODY)), "what root's helper is bounded by, and who it is")


OPENS = sum(1 << cap for cap in (1, 2, 19, 21, 40))  # CAP_DAC_OVERRIDE, DAC_READ_SEARCH, SYS_PTRACE, SYS_ADMIN, CHECKPOINT_RESTORE


def readers_and_openers(pid):
    """([those that read], [those that open]), and the ones of them that start others, once they rest and none of them has ended."""
    kinds = test_files.kinds(pid)
    both = sum(kinds, [])
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        starters = {int(harness.status(child)["PPid"]) for child in both}
        return all(len(kind) >= 3 for kind in kinds) and test_files.rests(both) and (kinds, starters)
    return False


@each(user=["root", "ambient"])
@one_python
def test_who_opens_or_reads_files_can_write_nothing(py, user):
    """Those that start others can fork, and an opener has no right but those that opening takes."""
    harness.need_root()
    ways, wrapper = Ways(harness.folder()), []
    if user == "ambient":
        rights = "+sys_ptrace,+perfmon,+dac_override,+sys_nice"
        wrapper = [harness.need_command("setpriv"), "--reuid", str(NOBODY), "--inh-caps", rights, "--ambient-caps", rights]
    _, recorder = test_files.recording(py, home=harness.folder(0o777), wrapper=wrapper)
    children, starters = harness.until(lambda: readers_and_openers(recorder.pid), "they have read and opened")
    for pids, may in zip(children, (0, OPENS)):
        for pid in pids:
            before = len(ways.tried("thread"))
            os.kill(pid, WAYS_SIGNAL)
            harness.until(lambda: len(ways.tried("thread")) > before, "it has tried")
            _, tid, tried, _ = ways.tried("thread")[-1]
            equal(open_ways(tried), {"fork"} if pid in starters else set(), "ways of process %d" % pid)
            check(tid < 0 or tid == pid, "another one tried: %d", tid)  # it may not ask
            status = harness.status(pid)
            check(not int(status["CapPrm"], 16) & ~may, "rights that are left: %s", status["CapPrm"])
            equal([int(status[name], 16) for name in ("CapInh", "CapAmb")], [0, 0], "rights that it hands down")
            equal((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), "NoNewPrivs, Seccomp")
            if user == "root":
                equal(int(status["CapBnd"], 16), 0, "what bounds it")
                check(not may or int(status["CapPrm"], 16) == may, "an opener can't open: %s", status["CapPrm"])
    recorder.signal(signal.SIGINT).wait().ok()


@each(user=["root", "ambient"])
@each(kind=["whole", "server"])
def test_who_reads_debug_information_has_no_rights(kind, user):
    harness.need_root()
    target, lines, options = test_lines.start(kind)
    home = harness.folder(0o777)
    ways = Ways(home)
    wrapper = []
    if user == "ambient":
        rights = "+sys_ptrace,+perfmon,+dac_override,+sys_nice"
        wrapper = [harness.need_command("setpriv"), "--reuid", str(NOBODY), "--inh-caps", rights, "--ambient-caps", rights]
        os.chmod(os.path.dirname(os.environ.get("DEBUGINFOD_CACHE_PATH", home + "/x")), 0o777)
    run = harness.pysampled("dump", "-p", target.pid, *options, home=home, wrapper=wrapper).ok()
    for place, _, found, rights in ways.tried("lines") + ways.tried("fetch"):
        no_rights(rights, user)
        equal(open_ways(found), {"socket"} if place == "fetch" else set(), "ways of " + place)
    # It is in the library most of the time.
    enough(any(line in run.out for line in lines.values()), "no line was found: %s", run.out)
    enough(len(ways.tried("fetch")) >= (kind == "server") and ways.tried("lines"), "no debug information was read")
