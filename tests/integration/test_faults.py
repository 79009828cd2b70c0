"""Each call that can fail for want of something (memory, room, descriptors, threads, events) fails in turn, once or with all
that follow: tests/faults. PYSAMPLED_FAULTS=all has each call fail; =sites up to three calls of each site, which is a chain of
callers.

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
import time

import harness
from harness import Target, beside, check, each, enough, equal, need_perf, need_root, not_quick, one_python, seconds

KINDS = ("alloc", "map", "open", "write", "thread", "descriptor", "event", "process")
LIBRARY = os.path.join(harness.BUILD, "libfaults.so")
MODE = os.environ.get("PYSAMPLED_FAULTS")  # set by tools/test --faults
WHOLE = MODE in ("all", "sites")
TRIES = 4  # of each kind, unless all are tried
COUNTED = 3 if MODE == "sites" else 1  # runs without a fault, for not each has each site
FEW = 20  # samples, of which one may have no such names
TARGET_S = 150  # then another: they live for 300
BRIEF_S, LONG_S = 0.25, 8  # of a recording, on an idle machine and on a very busy one
CALLERS, SITES = 64, 4096
FORM = struct.Struct("=9Q%dQ%dQ" % (CALLERS, 2 * SITES))
TREES = ("a.pb.gz", "a.speedscope.json", "a.gecko.json", "a.html")  # whole files, written from one tree
HERE = ("-F", 1999, "--hold-budget", 100)
COMMANDS = {"data": ("-o", "a.data"), "folded": ("-o", "a.folded"), "stop": ("--capture", "stop", "-o", "a.folded"),
            "lines": ("--native-lines", "-o", "a.data", "-o", "a.folded"), "dump": ("dump",),
            "zstd": ("-z", "-o", "a.data"), "trees": sum((("-o", name) for name in ("a.folded",) + TREES), ())}


class Fault:
    """Has a call of a kind fail in a pysampled that is run meanwhile, or it and all later ones: the first of a site, or of
    all calls if the site is None. 0: only counts them."""

    def __init__(self, kind, first=0, all_after=False, site=None, by_site=False):
        self.kind, self.first, self.all_after, self.site = kind, first, all_after, site
        self.path = os.path.join(harness.folder(), "faults")
        with open(self.path, "wb") as file:
            head = 1 << KINDS.index(kind), site or 0, first, all_after, by_site or site is not None
            file.write(FORM.pack(*head, *[0] * (4 + CALLERS + 2 * SITES)))

    def seen(self):
        with open(self.path, "rb") as file:
            _, _, _, _, _, self.calls, self.failed, lost, n, *rest = FORM.unpack(file.read(FORM.size))
        equal(lost, 0, "calls of sites that there was no room for")
        self.at = [a for a in rest[:n] if a < 1 << 63]
        sites = rest[CALLERS:]
        self.sites = {site: calls for site, calls in zip(sites[::2], sites[1::2]) if site}
        return self

    def __str__(self):
        self.seen()
        names = subprocess.run(["addr2line", "-s", "-f", "-e", harness.PYSAMPLED] + [hex(a - 1) for a in self.at],
                               stdout=subprocess.PIPE, text=True).stdout.split("\n")
        which = "call %d of %d" % (self.first, self.calls)
        if self.site is not None:
            which = "call %d of %d of a site" % (self.first, self.sites.get(self.site, 0))
        return "%s %s%s, %d failed, at %s" % (self.kind, which, " and all after" * self.all_after, self.failed,
                                              " < ".join("%s %s" % pair for pair in zip(names[::2], names[1::2])))


def run(fault, target, command, home, took=BRIEF_S):
    harness.need_no_asan("calls fail by a malloc() of its own")
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
    failed = fault.seen().failed
    check(ended.rc in (0, 1, 5), "%s", ended)
    said = plain(ended.err) - usual
    told = any(" " in line for line in said)
    check("rss=0.0MiB" not in ended.err, "it had no memory at all: %s", ended)
    if fault.kind not in ("alloc", "map"):
        check("Cannot allocate memory" not in ended.err, "memory is blamed: %s", ended)
    check(not re.search("^pysampled: *$", ended.err, re.M), "an empty sentence: %s", ended)
    check(ended.rc or ended.summary or command == "dump", "nothing was recorded, and all is well: %s", ended)
    check("Bad file descriptor" not in ended.err, "another call's error is told: %s", ended)
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


def some_of(calls):
    """The first, the second and one of the last calls of a site. Not the last: not each run has as many."""
    return sorted({1, min(2, calls), calls - calls // 8})


def chosen(kind, counts, chance):
    """The faults that are tried: of each call, of each site, or of some sites."""
    if MODE == "all":
        return [Fault(kind, first, first % 2 == 0) for first in range(1, counts[0].calls + 1)]
    sites = {}
    for count in counts:
        for site, calls in count.sites.items():
            sites[site] = min(calls, sites.get(site, calls))
    if MODE == "sites":
        calls = [(site, first) for site in sorted(sites) for first in some_of(sites[site])]
    else:
        some = sorted(sites) if len(sites) <= TRIES else chance.sample(sorted(sites), TRIES)
        calls = [(site, chance.choice(some_of(sites[site]))) for site in some]
    return [Fault(kind, first, i % 2, site) for i, (site, first) in enumerate(calls)]


@dealt
@each(command=list(COMMANDS))
@each(kind=KINDS)
@one_python
@beside
@not_quick
@seconds(40000 if WHOLE else 240)
def test_a_call_that_fails(py, kind, command):
    need_root()
    need_perf()
    target = spinning(py)
    home = harness.folder(0o777)
    counts = [Fault(kind, by_site=True) for _ in range(COUNTED)]
    usual, took = set(), BRIEF_S
    for count in counts:
        empty(home)
        usual |= plain(run(count, target, command, home).ok().err)
        check(count.seen().calls, "no call was counted: is %s there?", os.path.relpath(LIBRARY, harness.ROOT))
    empty(home)
    ended = run(Fault(kind), target, command, home, took).ok()
    while command != "dump" and ended.n("samples") < 2 * FEW and took < LONG_S:
        took *= 4
        empty(home)
        ended = run(Fault(kind), target, command, home, took).ok()
    usual |= plain(ended.err)
    enough(command == "dump" or ended.n("samples") >= FEW, "too few samples: %s", ended)
    equal(missing(command, ended, home), [], "what is missing without a fault")
    statuses, wrong, idle, begin = [], [], 0, time.monotonic()
    for fault in chosen(kind, counts, random.Random(command + kind)):
        if time.monotonic() > begin + TARGET_S:
            harness.end(target.process)
            target, begin = spinning(py), time.monotonic()
        try:
            statuses.append(judge(fault, target, command, home, usual, took))
            idle += not fault.failed
        except AssertionError as error:
            wrong.append("%s: %s" % (fault, error))
    check(not wrong, "%d of %d: %s", len(wrong), len(wrong) + len(statuses), "\n".join(wrong))
    return "%d calls of %d sites, %d faults, %d of them not met, %d ended it" % (
        counts[0].calls, len(set().union(*(count.sites for count in counts))), len(statuses), idle, sum(map(bool, statuses)))


@one_python
def test_without_the_thread_that_reads_waits_it_failed(py):
    """Exit status 1, not that of a process that is not there."""
    harness.need_no_asan("calls fail by a malloc() of its own")
    target, home = Target(py, "groundtruth.py"), harness.folder()

    def ran(fault):
        return harness.pysampled("-p", target.pid, "-d", BRIEF_S, "--mode", "wall", "-o", "a.folded", home=home, limit=40,
                                 wrapper=["env", "FAULTS=" + fault.path, "LD_PRELOAD=" + LIBRARY])
    count = Fault("thread")
    ran(count).ok()
    ended = [ran(Fault("thread", 1 + i)) for i in range(count.seen().calls)]
    met = [one.ok(1) for one in ended if "can't start the thread that reads waits" in one.err]
    check(met and all("ulimit -u" in one.err for one in met), "%d of %d runs were without it", len(met), len(ended))


@each(command=["folded", "dump"])
@one_python
def test_no_thread_that_looks_is_told_as_such(py, command):
    """Not as a lack of memory."""
    target = Target(py, "groundtruth.py")
    ran = run(Fault("thread", 1, True), target, command, harness.folder())
    check("no thread can be made" in ran.err and "ulimit -u" in ran.err, "the reason: %s", ran)


@each(command=[("-a", "-d", BRIEF_S, "-o", "a.folded"), ("dump", "-a")])
def test_no_thread_that_looks_at_all_is_told_as_such(command):
    """Not as if no process were there."""
    harness.need_no_asan("calls fail by a malloc() of its own")
    wrapper = ["env", "FAULTS=" + Fault("thread", 1, True).path, "LD_PRELOAD=" + LIBRARY]
    ran = harness.pysampled(*command, home=harness.folder(), wrapper=wrapper, limit=40).ok(1)
    check("no thread can be made" in ran.err and "ulimit -u" in ran.err, "the reason: %s", ran)
