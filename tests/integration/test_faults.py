"""Each call that can fail for want of something (memory, room, descriptors, threads, events) fails in turn, once or with all
that follow: tests/faults.

Whatever fails, pysampled ends in time with a status of the contract, what it wrote can be read, and what is missing there is told.
"""
import gzip
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess

import harness
from harness import Target, check, each, enough, equal, need_command, need_root, not_quick, one_python, seconds

KINDS = ("alloc", "map", "open", "write", "thread", "descriptor", "event")
LIBRARY = os.path.join(harness.BUILD, "libfaults.so")
WHOLE = os.environ.get("PYSAMPLED_FAULTS") == "all"  # set by tools/test --faults
TRIES = 4  # of each kind, unless all are tried
EVER = 1 << 40
FEW = 20  # samples, of which one may have no such names
BRIEF_S, LONG_S = 0.25, 8  # of a recording, on an idle machine and on a very busy one
FORM = struct.Struct("=8Q24Q")
TREES = ("a.pb.gz", "a.speedscope.json", "a.gecko.json", "a.html")  # whole files, written from one tree
HERE = ("-F", 1999, "--hold-budget", 100)
COMMANDS = {"data": ("-o", "a.data"), "folded": ("-o", "a.folded"), "stop": ("--capture", "stop", "-o", "a.folded"),
            "lines": ("--native-lines", "-o", "a.data", "-o", "a.folded"), "dump": ("dump",),
            "zstd": ("-z", "-o", "a.data"), "trees": sum((("-o", name) for name in ("a.folded",) + TREES), ())}


class Fault:
    """Has call number first of a kind fail in a pysampled that is run meanwhile; 0: only counts them."""

    def __init__(self, kind, first=0, n=1):
        self.kind, self.first = kind, first
        self.path = os.path.join(harness.folder(), "faults")
        with open(self.path, "wb") as file:
            file.write(FORM.pack(1 << KINDS.index(kind), first, n, *[0] * 29))

    def seen(self):
        """(calls, how many failed, where the first was: offsets in the program)."""
        with open(self.path, "rb") as file:
            _, _, _, _, calls, failed, base, n, *at = FORM.unpack(file.read(FORM.size))
        return calls, failed, [a - base for a in at[:n] if 0 <= a - base < 1 << 24]

    def __str__(self):
        calls, failed, at = self.seen()
        names = subprocess.run(["addr2line", "-s", "-e", harness.PYSAMPLED] + [hex(a - 1) for a in at], stdout=subprocess.PIPE,
                               text=True).stdout.split("\n")
        return "%s call %d of %d, %d failed, at %s" % (self.kind, self.first, calls, failed, " < ".join(filter(None, names)))


def run(fault, target, command, home, took=BRIEF_S):
    wrapper = ["env", "FAULTS=" + fault.path, "LD_PRELOAD=" + LIBRARY]
    args = COMMANDS[command]
    args = ["dump", "-p", target.pid] if command == "dump" else ["-p", target.pid, "-d", took, *HERE, *args]
    return harness.pysampled(*args, home=home, wrapper=wrapper, limit=40)


def plain(err):
    """The sentences that were said, without numbers."""
    return {re.sub(r"\d+(\.\d+)?", "N", line) for line in err.splitlines() if not line.startswith("samples=")}


def stacks_of(command, home):
    """The text of a recording's stacks, or of a dump; all of it can be read."""
    if command in ("folded", "stop", "trees"):
        return harness.read_folded(os.path.join(home, "a.folded"))
    text, _ = harness.perf("script", "-i", os.path.join(home, "a.data"), "-F", "comm,tid,ip,sym", home=home)
    return [(block.splitlines(), 1) for block in text.split("\n\n") if block.strip()]


def whole(name, home):
    """What such a file says in plain text, once it can be read to its end."""
    with open(os.path.join(home, name), "rb") as file:
        data = file.read()
    if name.endswith(".gz"):
        return gzip.decompress(data).decode(errors="replace")
    if name.endswith(".json"):
        json.loads(data)
    elif name.endswith(".html"):
        check(data.rstrip().endswith(b"</html>"), "%s ends with %s", name, data[-40:])
    return data.decode(errors="replace")


def missing(command, ended, home):
    """What a whole recording has, and this one has not."""
    if command == "dump":
        text = ended.out
        wanted = {"names of Python functions": r"\bThread\.run\b", "names of native functions": r"\bPyThread_acquire_lock"}
    else:
        stacks = stacks_of(command, home)
        equal(harness.total(stacks), ended.n("samples"), "samples in the output")
        parts = sum(ended.n(key) for key in ("exact", "late", "torn", "nopython"))
        equal(parts, ended.n("samples"), "exact + late + torn + nopython against samples")
        text = "\n".join(str(frames) for frames, _ in stacks)
        if command == "trees":
            named = {name: bool(re.search(r"\bg_\d\d", whole(name, home))) for name in TREES}
            named.pop("a.html")  # its stacks are packed
            equal(set(named.values()), {bool(re.search(r"\bg_\d\d\b", text))}, "which have names: %s" % named)
        wanted = {"names of Python functions": r"\bg_\d\d\b", "names of native functions": r"\bspin_\d\d\b"}
    return [what for what, pattern in wanted.items() if not re.search(pattern, text)]


def judge(fault, target, command, home, usual, took):
    empty(home)
    ended = run(fault, target, command, home, took)
    calls, failed, _ = fault.seen()
    check(ended.rc in (0, 1, 5), "%s", ended)
    said = plain(ended.err) - usual
    told = any(" " in line for line in said)
    if ended.rc:
        check(told, "not a word of why: %s", ended)
    elif failed and not told:
        gone = missing(command, ended, home)
        few = command != "dump" and ended.n("samples") < FEW
        check(not gone or few, "%s missing, and no word of it: %s", gone, ended)
    elif command != "dump" and ended.summary:
        missing(command, ended, home)
    equal(harness.left(target.pid), "", "what is left of pysampled")
    left = set(os.listdir(home)) - {".debug", "a.data", "a.data.pyframes", "a.folded", *TREES}
    equal(left, set(), "files left: %s" % ended)
    return ended.rc


def empty(home):
    for name in set(os.listdir(home)) - {".debug"}:
        path = os.path.join(home, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def spinning(py):
    return Target(py, "groundtruth.py", "--us", 50, "--idle", 1)


def dealt(function):
    """Each kind of call in one command, unless all are tried."""
    return function if WHOLE else harness.dealt(function)


def numbers(calls, chance):
    """Which calls are failed: all, or one of each of so many parts."""
    if WHOLE or calls <= TRIES:
        return range(1, calls + 1)
    return [chance.randint(calls * i // TRIES + 1, calls * (i + 1) // TRIES) for i in range(TRIES)]


@dealt
@each(command=list(COMMANDS))
@each(kind=KINDS)
@one_python
@not_quick
@seconds(40000 if WHOLE else 240)
def test_a_call_that_fails(py, kind, command):
    need_root()
    need_command("perf")
    target = spinning(py)
    home = harness.folder(0o777)
    count = Fault(kind)
    usual, took = plain(run(count, target, command, home).ok().err), BRIEF_S
    calls, chance = count.seen()[0], random.Random(command + kind)
    check(calls, "no call was counted: is %s there?", os.path.relpath(LIBRARY, harness.ROOT))
    empty(home)
    ended = run(Fault(kind), target, command, home, took).ok()
    while command != "dump" and ended.n("samples") < 2 * FEW and took < LONG_S:
        took *= 4
        empty(home)
        ended = run(Fault(kind), target, command, home, took).ok()
    usual |= plain(ended.err)
    enough(command == "dump" or ended.n("samples") >= FEW, "too few samples: %s", ended)
    equal(missing(command, ended, home), [], "what is missing without a fault")
    statuses, wrong = [], []
    for first in numbers(calls, chance):
        if len(statuses) % 100 == 99:
            harness.end(target.process)
            target = spinning(py)  # they don't live for ever
        fault = Fault(kind, first, 1 if first % 2 else EVER)
        try:
            statuses.append(judge(fault, target, command, home, usual, took))
        except AssertionError as error:
            wrong.append("%s: %s" % (fault, error))
    check(not wrong, "%d of %d: %s", len(wrong), len(wrong) + len(statuses), "\n".join(wrong))
    return "%d calls, %d failed in turn, %d of them ended it" % (calls, len(statuses), sum(1 for s in statuses if s))


@each(command=["folded", "dump"])
@one_python
def test_no_thread_that_looks_is_told_as_such(py, command):
    """Not as a lack of memory."""
    target = Target(py, "groundtruth.py")
    ran = run(Fault("thread", 1, EVER), target, command, harness.folder())
    check("no thread can be made" in ran.err and "ulimit -u" in ran.err, "the reason: %s", ran)
