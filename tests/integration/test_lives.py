"""The profile as a whole: each thread and process counts by its CPU time, however short it lives, and what no sample
stands for is told."""
import json
import math
import os
import re
import signal
import subprocess

import harness
import tolerances
from harness import Recorder, Target, check, each, enough, is_root, rare

TURNS = [("thread", 0.2, 999), ("thread", 3, 499), ("thread", 8, 99), ("thread", 15, 999), ("fork", 8, 499)]
SECONDS = 4  # of CPU time
NO_SYSCALLS = """
import json, resource, time
end = time.monotonic() + 12
while time.monotonic() < end:
    sum(range(20000))
used = resource.getrusage(resource.RUSAGE_SELF)
print("SPENT", json.dumps({"user": used.ru_utime, "kernel": used.ru_stime}))
"""
SCRIPT = os.path.join(harness.TARGETS, "lives.py")
MAIN_ENDS = """
import ctypes, sys, threading
def leaf():
    return sum(range(3000))
def work():
    while True:
        leaf()
threading.Thread(target=work, name="worker").start()
print(flush=True)
sys.stdin.readline()
ctypes.CDLL(None).pthread_exit(None)
"""


def pythons(n):
    """n of those there are, each as often as any other."""
    there = [py for py in harness.wanted_pythons() if py.path]
    return [there[i % len(there)] for i in range(n)]


def counts_of(stacks):
    """How many samples lie in burn_main() and in burn_fresh()."""
    inside = {"burn_main": 0, "burn_fresh": 0}
    for frames, count in stacks:
        for name in {name for name, _, _ in harness.python_frames(frames)} & set(inside):
            inside[name] += count
    return inside["burn_main"], inside["burn_fresh"]


def judge_share(fresh, main, spent, run):
    """The samples' share of the fresh ones against the time's: six sigma of independent draws are wrong at once, four if they are
    so twice (one of 15,000 tests each)."""
    n, truth = main + fresh, spent["fresh"] / (spent["fresh"] + spent["main"])
    said = "%.1f %% of %d samples are the fresh ones', %.1f %% of the time" % (100 * fresh / max(n, 1), n, 100 * truth)
    sigmas = abs(fresh / max(n, 1) - truth) / math.sqrt(truth * (1 - truth) / max(n, 1))
    check(n == 0 or sigmas <= 6, "%s: %s", said, run)
    enough(n > 50, "only %d samples: %s", n, run)
    enough(sigmas <= 4, "%s: %s", said, run)
    return said


@harness.seconds(120)
@each(turn=TURNS)
def test_shares_do_not_depend_on_how_long_threads_live(turn):
    if not is_root():
        raise harness.Skip("events on CPUs need rights")
    kind, ms, rate = turn
    target = Target(pythons(len(TURNS))[TURNS.index(turn)], "lives.py", kind, ms, extensions=())
    record = Recorder("-p", target.pid, "-F", rate, "-o", "a.folded", "-v").attached()
    harness.works_for_a_while(target.pid, SECONDS / 2 if kind == "fork" else SECONDS, 20)  # the children's is not in it
    run = record.signal(signal.SIGINT).wait().ok()
    target.say("enough")
    spent = json.loads(target.line("SPENT"))
    main, fresh = counts_of(harness.read_folded(os.path.join(record.home, "a.folded")))
    check("events on CPUs" in run.err or "events on threads at first" in run.err, "nothing tells where: %s", run)
    return judge_share(fresh, main, spent, run)


def own_cgroup():
    """A cgroup of the test's, of cgroup v2."""
    harness.need_root()
    with open("/proc/self/mounts") as mounts:
        found = [line.split()[1] for line in mounts if line.split()[2] == "cgroup2"]
    path = os.path.join(found[0], "pysampled-test.%d" % os.getpid()) if found else ""
    try:
        os.mkdir(path)
    except OSError as error:
        raise harness.Skip("no cgroup can be made here: %s" % error.strerror)
    harness.cleanup(os.rmdir, path)
    return path


@harness.one_python
def test_events_count_in_the_targets_own_cgroup(py):
    """At a rate at which others would have to pay too much for events on CPUs."""
    cgroup = own_cgroup()
    target = Target(py, "lives.py", "thread", 2, extensions=())
    harness.write(os.path.join(cgroup, "cgroup.procs"), str(target.pid))
    record = Recorder("-p", target.pid, "-F", 1999, "-d", 2, "-o", "a.folded", "-v", "--hold-budget", 100)
    run = record.wait().ok()
    target.say("enough")
    spent = json.loads(target.line("SPENT"))
    target.process.wait(10)
    check("own cgroup" in run.err, "not by the cgroup: %s", run)
    main, fresh = counts_of(harness.read_folded(os.path.join(record.home, "a.folded")))
    return judge_share(fresh, main, spent, run)


def balance(run, want, ceiling=0):
    """All that happened is a sample, or one of the losses. More than was used they may be: clocks count what a hypervisor
    takes, too, up to the ceiling."""
    told = sum(run.n(key) for key in ("samples", "lost", "shed", "uncounted"))
    noise = 4 * math.sqrt(want) + 3
    least, most = tolerances.BALANCE
    check(least * want - noise <= told <= max(most * want, ceiling) + noise, "%d samples and losses of %.0f: %s", told, want, run)
    return "%d samples, %d uncounted, of %.0f" % (run.n("samples"), run.n("uncounted"), want)


def spent_in(run):
    return json.loads(re.search("SPENT (.*)", run.out).group(1))


BOOKS = [("preempt", "thread", 0.5, 99), ("preempt", "fork", 5, 999), ("async", "thread", 0.5, 999), ("stop", "thread", 3, 499),
         ("preempt", "thread", 0.5, 9999)]
if harness.every_pair():
    BOOKS += [(capture, kind, ms, rate) for capture in ("preempt", "async", "stop")
              for kind, ms in (("thread", 0.2), ("thread", 8), ("thread", 1000), ("fork", 5), ("fork", 1000))
              for rate in (99, 999, 9999)]


@harness.seconds(120)
@each(how=BOOKS)
def test_the_books_balance(how):
    capture, kind, ms, rate = how
    if capture == "preempt":
        harness.need_fifo()
    py = harness.newest_python().need()
    run = Recorder("-e", "cpu-clock", "-F", rate, "--capture", capture, "-o", "a.folded", "-v", "--", py, SCRIPT, kind, ms,
                   2).wait().ok()
    spent = spent_in(run)
    most = float(run.summary["duration"].rstrip("s")) * rate  # one thread runs at a time; a third of that was once stolen
    return balance(run, (spent["user"] + spent["kernel"] * (capture != "stop")) * rate, most)


@harness.seconds(120)
def test_who_shares_a_cpu_has_as_many_samples_as_its_time_asks_for():
    """A hold takes the thread off its CPU, and then others run there: of events on CPUs it had a quarter of its samples too many."""
    harness.need_fifo()
    harness.need_events_for_all()
    py = harness.newest_python().need()
    harness.keep_busy()
    run = Recorder("-e", "cpu-clock", "-F", 499, "--events-on", "cpus", "-o", "a.folded", "-v", "--", py, "-c", NO_SYSCALLS).wait().ok()
    spent = spent_in(run)
    want = (spent["user"] + spent["kernel"]) * 499
    enough(want > 500, "only %.0f samples' worth of CPU time: %s", want, run)
    enough(run.n("samples") + run.n("shed") <= 1.06 * want + 4 * math.sqrt(want / 12), "more than its %.0f: %s", want, run)
    return balance(run, want)


@harness.seconds(120)
def test_a_command_has_no_hole_at_its_start():
    """A sample between its fork and its exec is no sample of it, and no reason to drop those that follow."""
    harness.need_fifo()
    harness.need_events_for_all()
    py, runs = harness.newest_python().need(), 6
    for _ in range(runs):
        run = Recorder("-e", "cpu-clock", "-F", 999, "--events-on", "cpus", "--hold-budget", 100, "-o", "a.folded", "-v", "--", py,
                       SCRIPT, "thread", 200, 0.4).wait().ok()
        spent = spent_in(run)
        balance(run, (spent["user"] + spent["kernel"]) * 999, float(run.summary["duration"].rstrip("s")) * 999)


@harness.seconds(120)
@each(event=[("page-faults", "faults", 1), ("page-faults", "faults", 7), ("context-switches", "switches", 1)])
def test_the_books_of_what_happens_balance(event):
    """Events of which each one is a sample, or each seventh."""
    if not is_root():
        raise harness.Skip("the kernel's part is not counted for ordinary users")
    name, key, period = event
    py = harness.newest_python().need()
    run = Recorder("-e", name, "-c", period, "--hold-budget", 100, "-o", "a.folded", "-v", "--", py, SCRIPT, "thread", 3,
                   1).wait().ok()
    return balance(run, spent_in(run)[key] / period)


@harness.seconds(120)
def test_an_ordinary_user_is_told_what_is_missing():
    """Events on threads lose what is left of a period when a thread ends."""
    harness.need_root()
    harness.need_events_for_all()
    py = harness.debian_python().need()
    binary, home = harness.for_nobody()
    script = os.path.join(home, "lives.py")
    with open(SCRIPT) as source:
        harness.write(script, source.read())
    run = Recorder("-e", "cpu-clock", "-F", 499, "-o", "a.folded", "--", py, script, "thread", 0.5, 2, home=home, binary=binary, user=harness.NOBODY).wait().ok()
    enough(run.n("uncounted") > 0.1 * run.n("samples"), "threads of half a millisecond lose nothing: %s", run)
    check("uncounted" in run.err and "CAP_PERFMON" in run.err or "as root" in run.err, "no advice: %s", run)
    check("ticks" in run.err, "how user time is told: %s", run)
    return balance(run, spent_in(run)["user"] * 499)


def of_rested(py, how, *options):
    """The recording of a process whose children had worked, and sleep until they end meanwhile."""
    harness.need_events_for_all()
    target = Target(py, "rested.py", 24, 0.1, *how.split(), extensions=())
    record = Recorder("-p", target.pid, *options, "-F", 499, "--events-on", "cpus", "-d", 2, "-o", "a.folded", "-v")
    record.attached()
    target.say("end")
    target.line("ENDED")
    run = record.wait().ok()
    harness.end(target.process)
    before = 24 * 0.1 * 499
    check(run.n("uncounted") < before / 4, "uncounted, of %.0f from before: %s", before, run)
    return "%d uncounted, %d samples" % (run.n("uncounted"), run.n("samples"))


@harness.one_python
@harness.each(how=["", "thread"])
def test_who_slept_brings_no_time_from_before(py, how):
    """Their parent's books hold all that they ever used."""
    return of_rested(py, how)


@harness.one_python
def test_who_is_not_followed_brings_no_time(py):
    return of_rested(py, "", "--no-follow", "-e", "cpu-clock")


@harness.one_python
def test_what_rings_lose_while_readers_rest_is_lost(py):
    """And not uncounted, whichever of a ring's events tells of it."""
    harness.need_fifo()
    run = Recorder("-e", "page-faults", "-c", 1, "--hold-budget", 1, "-o", "a.folded", "--", *py.command(), SCRIPT, "fork", 3, 2).wait().ok()
    enough(run.n("shed") > 0 and run.n("lost") > 1000, "nothing is missing: %s", run)
    check(run.n("uncounted") < 0.02 * run.n("lost"), "uncounted: %s", run)
    check("(uncounted)" not in run.err, "%s", run)
    return "%d uncounted beside %d lost" % (run.n("uncounted"), run.n("lost"))


def without_its_main_thread(py):
    """A process that works on after its main thread, which ends when its input is closed."""
    target = harness.start([py.need(), "-c", MAIN_ENDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    target.stdout.readline()
    return target


def main_ends(target):
    target.stdin.close()
    harness.until(lambda: harness.status(target.pid)["State"].startswith("Z"), "the main thread's end")


@each(capture=["preempt", "stop"], when=["before", "meanwhile"])
@harness.one_python
def test_the_main_thread_may_end(py, capture, when):
    """By its number the memory of the others can't be read from then on, nor what /proc says of it."""
    if capture == "preempt":
        harness.need_fifo()
    target = without_its_main_thread(py)
    if when == "before":
        main_ends(target)
    recorder = Recorder("-p", target.pid, "-F", 499, "--capture", capture, "-o", "a.folded").attached()
    if when == "meanwhile":
        main_ends(target)
    harness.works_for_a_while(target.pid, 1, 20)
    run = recorder.signal(signal.SIGINT).wait().ok()
    native = sum(n for stack, n in harness.read_folded(os.path.join(recorder.home, "a.folded")) if "builtin_sum" in stack)
    enough(run.n("samples") > 100, "too few samples to judge: %s", run)
    check(native > 0.5 * run.n("samples"), "%d have native frames with names: %s", native, run)
    rare(run.n("torn"), 0, "torn: %s", run)
    enough(run.n("exact") >= tolerances.EXACT * run.n("samples"), "too few are exact: %s", run)


@harness.one_python
def test_what_is_left_of_a_process_is_told(py):
    """dump and doctor, once its main thread has ended; and it is found by its command line."""
    target = without_its_main_thread(py)
    main_ends(target)
    run = harness.pysampled("dump", "-p", target.pid).ok()
    check('(zombie): "MainThread"\n    [this thread has ended]' in run.out, "not told of the main one: %s", run)
    check('"worker"\n' in run.out and "work (<string>:" in run.out, "not told of the other: %s", run)
    enough("[native frames unknown: it ran, and was not sampled]" not in run.out, "it got no CPU for 0.3 s: %s", run)
    check("native" not in run.out and not run.err, "native frames are missing: %s", run)
    check(" is CPython " in harness.pysampled("doctor", "-p", target.pid).ok().out, "doctor does not know it")
    run = harness.pysampled("dump", "--match", "ctypes.CDLL.None..pthread_exit", "--json").ok()
    check(target.pid in [p["pid"] for p in json.loads(run.out)], "not found by its command line: %s", run)
