"""--mode: what of a thread's time is recorded."""
import json
import os
import signal
import time

import harness
from harness import Target, check, each, enough, equal, one_python

# Their layouts do not tell who has the GIL: 2.7's lock is another thing, 3.6 has it in variables without an exported name.
UNTOLD = ("2.7.", "3.6.")


def stacks(path):
    with open(path) as file:
        return [(line.rpartition(" ")[0].split(";"), int(line.rpartition(" ")[2])) for line in file]


def count(found, name):
    return sum(n for frames, n in found if any(frame.startswith(name + " (") for frame in frames))


@each(py=harness.wanted_pythons() + harness.older_pythons())
@harness.dealt
def test_gil_keeps_samples_of_its_holder(py):
    target = Target(py, "gilshares.py", extensions=())
    home = harness.folder()
    if py.tag.startswith(UNTOLD) or py.is_free_threaded():
        why = "free-threaded" if py.is_free_threaded() else py.tag[:3]
        harness.refused(3, "-p", target.pid, "--mode", "gil", "-d", 1, about=["--mode gil", why], home=home)
        return
    run = harness.pysampled("-p", target.pid, "--mode", "gil", "-d", 2, "-v", "-o", "a.folded", home=home).ok()
    found = stacks(os.path.join(home, "a.folded"))
    equal(sum(n for _, n in found), run.n("samples"), "samples in folded")
    # It takes the GIL for an instant between two digests.
    with_gil, without = count(found, "with_gil"), count(found, "without_gil")
    check(without * 20 <= with_gil, "%d samples of the holder, %d of who has let go", with_gil, without)
    enough(with_gil >= 10 and run.counter("gil_none") >= 10, "too few samples: %s", run)


WAITS = ("short_sleep", "long_sleep", "wait_for_lock", "hold_lock")
MARKERS = {"[sleep]", "[disk]", "[runnable]", "[gil]"}


def waited(found, name):
    """Seconds of a folded file's stacks that have the function, off a CPU."""
    return sum(n for frames, n in found if MARKERS & set(frames) and any(f.startswith(name + " (") for f in frames)) / 1e6


@harness.seconds(120)
@each(capture=["preempt", "async"], py=[py for py in harness.wanted_pythons() if py.path] or harness.wanted_pythons())
@harness.dealt
def test_wall_tells_where_time_went(py, capture):
    """Shares of all threads' time against those that the target measured itself; all of it is accounted for."""
    harness.need_root()
    parked = 20
    target = Target(py, "walltimes.py", parked, extensions=())
    home = harness.folder()
    recorder = harness.Recorder("-p", target.pid, "--mode", "wall", "--capture", capture, "-v", "-o", "a.folded", home=home).attached()
    target.say("begin")
    target.line("BEGUN")
    time.sleep(5)
    target.say("end")
    truth = json.loads(target.line("TRUTH"))
    run = recorder.signal(signal.SIGINT).wait().ok()
    found = stacks(os.path.join(home, "a.folded"))
    threads, total = 6 + parked, sum(n for _, n in found) / 1e6
    duration = float(run.summary["duration"].rstrip("s"))
    check(threads * truth["wall"] * 0.9 < total < threads * duration * 1.05, "%g s of %d threads that ran for %g to %g s", total,
          threads, truth["wall"], duration)
    rest = total / threads  # of one thread
    check(abs(waited(found, "parked") - parked * rest) < 0.05 * parked * rest, "parked: %g s of %g", waited(found, "parked"), rest * parked)
    shares = {name: (waited(found, name) / rest, truth["spent"][name] / truth["wall"]) for name in WAITS}
    said = "%s of %s\n%s" % (shares, truth, run)
    # What was read late says so, and may be what the thread did next.
    late = sum(n for frames, n in found if {"[late]", "[torn]"} & set(frames)) / 1e6 / rest
    for got, want in shares.values():
        check(abs(got - want) < 0.15 + late, "shares of waits (got, true): %s", said)
        enough(abs(got - want) < 0.06 + late, "shares of waits (got, true): %s", said)
    return "(got, true): " + ", ".join("%s %.2f %.2f" % (name, *pair) for name, pair in shares.items())


@each(py=harness.wanted_pythons() + harness.older_pythons())
@harness.dealt
def test_wall_tells_who_waits_for_the_gil(py):
    """One thread sleeps in C and keeps the GIL, one wants it for all that time, one polls without it."""
    harness.need_root()
    if py.tag == harness.FREE_THREADED:
        raise harness.Skip("without a GIL nobody waits for one")
    target = Target(py, "gil.py", "hold", extensions=())
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "--mode", "wall", "-d", 2, "-o", "a.folded", home=home).ok()
    found = stacks(os.path.join(home, "a.folded"))
    # What was read late may be what the thread did next: every 5 ms it looks whether it may have the GIL.
    waits = {name: {frames[-1] for frames, _ in found if frames[-1] in ("[sleep]", "[gil]") and not {"[late]", "[torn]"} & set(frames)
                    and any(frame.startswith(name + " (") for frame in frames)} for name in ("main", "waiter", "poller")}
    enough(all(waits.values()), "a thread was not seen: %s of %s", waits, run)
    wants = "[sleep]" if py.tag.startswith(UNTOLD) else "[gil]"
    equal(waits, {"main": {"[sleep]"}, "waiter": {wants}, "poller": {"[sleep]"}}, "what they wait for")


@one_python
def test_wall_is_time_in_each_output(py):
    """Waits are few and stand for much: report and convert must not count them as samples."""
    target = Target(py, "gil.py", "hold", extensions=())
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "--mode", "wall", "-d", 2, "-o", "a.data", "-o", "a.folded", home=home).ok()
    harness.pysampled("convert", "a.data", "-o", "b.folded", home=home).ok()
    direct, converted = ({tuple(frames): n for frames, n in stacks(os.path.join(home, name))} for name in ("a.folded", "b.folded"))
    equal(converted, direct, "microseconds of each stack")
    total = sum(direct.values())
    check(total > 3 * 1.9e6, "less than 1.9 s of three threads: %d us of %s", total, run)
    said = harness.pysampled("report", "a.data", home=home).ok().out.splitlines()
    equal(said[0], "# %.1f s of all threads, by function" % (total / 1e6), "what report says")
    rows = json.loads(harness.pysampled("report", "--json", "a.data", home=home).ok().out)["rows"]
    check(abs(sum(row["self"] for row in rows) - total) < run.n("samples"), "%s is not %d us", rows, total)
    equal(harness.pysampled("diff", "a.data", "a.data", home=home).ok().out.splitlines()[0],
          "# A: %.1f s of all threads of a.data" % (total / 1e6), "what diff says")


def test_what_a_mode_does_not_go_with_is_refused():
    for words, about in (("--mode wall -e page-faults", "--mode wall"), ("--mode wall -o a.tape", "tape"),
                         ("--mode wall --capture stop -d 1", "--capture stop"), ("--mode x", "--mode"), ("--mode gil --any", "--any"), ("--mode gil -o a.tape", "tape")):
        harness.refused(2, "-p", os.getpid(), *words.split(), about=[about])


@one_python
def test_cpu_is_the_default(py):
    target = Target(py, "gilshares.py", extensions=())
    home = harness.folder()
    harness.pysampled("-p", target.pid, "--mode", "cpu", "-d", 2, "-o", "a.folded", home=home).ok()
    found = stacks(os.path.join(home, "a.folded"))
    enough(count(found, "with_gil") and count(found, "without_gil"), "both use a CPU: %s", found)
