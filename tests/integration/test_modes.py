"""--mode: what of a thread's time is recorded."""
import gzip
import json
import os
import signal
import struct
import time

import harness
import test_gil
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
    run = harness.pysampled("-p", target.pid, "--mode", "gil", "-F", 499, "-d", 1, "-v", "-o", "a.folded", home=home).ok()
    found = stacks(os.path.join(home, "a.folded"))
    equal(sum(n for _, n in found), run.n("samples"), "samples in folded")
    with_gil, without = count(found, "with_gil"), count(found, "without_gil")
    enough(with_gil >= 20 and run.counter("gil_none") >= 10, "too few samples: %s", run)
    # It takes the GIL for an instant between two digests.
    check(without * 20 <= with_gil, "%d samples of the holder, %d of who has let go", with_gil, without)


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
    # A reader a CPU, and the thread that reads who sleeps: else most waits are over before it comes, where CPUs are busy.
    want = os.cpu_count() + 1 if capture == "preempt" else 0
    harness.until(lambda: sum(policy & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO
                              for policy in harness.of_tasks(recorder.pid, os.sched_getscheduler)) == want,
                  "%d threads with SCHED_FIFO" % want)
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
    cut = [frames for frames, _ in found if "[cut]" in frames and not {"[late]", "[torn]"} & set(frames)]
    check(not cut, "an exact wait without all its native frames: %s", cut[:1])
    # What was read late says so, and may be what the thread did next.
    late = sum(n for frames, n in found if {"[late]", "[torn]"} & set(frames)) / 1e6 / rest
    for got, want in shares.values():
        check(abs(got - want) < 0.15 + late, "shares of waits (got, true): %s", said)
        enough(abs(got - want) < 0.06 + late, "shares of waits (got, true): %s", said)
    return "(got, true): " + ", ".join("%s %.2f %.2f" % (name, *pair) for name, pair in shares.items())


ENDS = """
import os, subprocess, sys, threading, time
def parked():
    time.sleep(1000)
if len(sys.argv) > 1:
    for _ in range(4):
        threading.Thread(target=parked, daemon=True).start()
    time.sleep(0.05)
    os._exit(0)
print("READY", flush=True)
sys.stdin.readline()
lived = 0
for _ in range(20):
    begin = time.monotonic()
    subprocess.run([sys.executable, __file__, "child"])
    lived += time.monotonic() - begin
print("LIVED", lived, flush=True)
sys.stdin.readline()
"""


def begin_wall(py, text, *scope):
    """(folder, target, recorder, seconds lived) of a program that tells how long those that it started lived in all."""
    harness.need_root()
    home = harness.folder(0o777)
    harness.write(os.path.join(home, "starts.py"), text)
    target = Target(py, os.path.join(home, "starts.py"))
    recorder = harness.Recorder(*(scope or ("--match", home)), "--mode", "wall", "-o", "a.folded", home=home).attached()
    target.say("begin")
    return home, target, recorder, float(target.line("LIVED"))


@one_python
def test_waits_end_with_their_process(py):
    """Of a scope: other threads than the main one end with it, and it is no target any more before their ends are read."""
    home, _, recorder, lived = begin_wall(py, ENDS)
    time.sleep(4 * lived)
    run = recorder.signal(signal.SIGINT).wait().ok()
    found = waited(stacks(os.path.join(home, "a.folded")), "parked")
    enough(found, "nobody was seen parked: %s", run)
    check(found < 4 * 1.1 * lived, "%g s of four threads each of processes that lived for %g s: %s", found, lived, run)


STARTS = """
import subprocess, sys, time
print("READY", flush=True)
sys.stdin.readline()
begin, strangers = time.monotonic(), [subprocess.Popen(["sleep", "1000"]) for _ in range(6)]
time.sleep(3)
for one in strangers:
    one.kill()
print("LIVED", 6 * (time.monotonic() - begin), flush=True)
sys.stdin.readline()
"""


@one_python
@harness.beside
def test_waits_of_what_is_no_python_are_nobodys(py):
    """A Python's child is one as well until its exec, of which is heard when it sleeps already."""
    home, target, recorder, lived = begin_wall(py, STARTS, "-a")
    run = recorder.signal(signal.SIGINT).wait().ok()
    found = [(frames, n) for frames, n in stacks(os.path.join(home, "a.folded")) if MARKERS & set(frames)]
    enough(any(frames[0].endswith("-%d" % target.pid) for frames, n in found), "the Python did not sleep: %s", run)
    strange = sum(n for frames, n in found if frames[0].startswith("sleep-")) / 1e6
    enough(strange < lived / 20, "%g s of strangers that lived for %g s in all: %s", strange, lived, run)


@one_python
def test_waits_are_known_however_often_samples_come(py):
    """There are not as many ticks: they would keep a CPU busy, and never come to where the threads are."""
    target = Target(py, "gil.py", "hold", extensions=())
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "--mode", "wall", "-c", 1, "-d", 2, "-o", "a.folded", home=home).ok()
    found = waited(stacks(os.path.join(home, "a.folded")), "main")
    enough(found > 1.8, "%g s of who slept for 2 s: %s", found, run)


SWITCHES = """
import os, threading, time
def passes_on(take, give):
    while True:
        os.write(give, os.read(take, 1))
(a, b), (c, d) = os.pipe(), os.pipe()
for ends in (a, d), (c, b):
    threading.Thread(target=passes_on, args=ends, daemon=True).start()
os.write(b, b"x")
print("READY", flush=True)
time.sleep(1000)
"""


@one_python
def test_waits_are_known_however_rare_samples_are(py):
    """What readers tell of switches has room for less than a second of them."""
    harness.need_root()
    home = harness.folder()
    harness.write(os.path.join(home, "switches.py"), SWITCHES)
    target = Target(py, os.path.join(home, "switches.py"))
    run = harness.pysampled("-p", target.pid, "--mode", "wall", "-F", 1, "-d", 5, "-v", "-o", "a.folded", home=home).ok()
    equal(run.counter("side_lost"), 0, "messages lost: %s" % run)
    switches = sum(int(harness.status(tid)["voluntary_ctxt_switches"]) for tid in harness.tasks(target.pid))
    enough(switches > 50000, "only %d switches", switches)


SHELLS = """
import subprocess, sys, time
print("READY", flush=True)
sys.stdin.readline()
shells = [subprocess.Popen(["sh", "-c", sys.executable + " " + sys.argv[1] + "; :"]) for _ in range(6)]
sys.stdin.readline()
"""


@one_python
def test_waits_of_a_program_that_is_not_known_yet(py):
    """A wait is read once; where that was before the program's interpreter was found, it is read again."""
    harness.need_root()
    home = harness.folder(0o777)
    harness.write(os.path.join(home, "parked.py"), "import time\ndef parked():\n    time.sleep(20)\nparked()\n")
    harness.write(os.path.join(home, "shells.py"), SHELLS)
    target = Target(py, os.path.join(home, "shells.py"), os.path.join(home, "parked.py"))
    recorder = harness.Recorder("-p", target.pid, "--mode", "wall", "-F", 2, "--events-on", "threads", "-v", "-o", "a.folded", home=home).attached()
    target.say("begin")
    time.sleep(4)
    run = recorder.signal(signal.SIGINT).wait().ok()
    found = {frames[0] for frames, n in stacks(os.path.join(home, "a.folded")) if any(f.startswith("parked (") for f in frames)}
    equal(len(found), 6, "processes that were seen parked: %s" % run)


@one_python
@harness.beside
def test_a_stopped_process_is_called_stopped(py):
    """Nothing runs in it, so each stack is exact."""
    harness.need_root()
    target = Target(py, "threadnames.py", extensions=())
    home = harness.folder()
    os.kill(target.pid, signal.SIGSTOP)
    harness.until(lambda: harness.status(target.pid)["State"].startswith("T"), "it is stopped")
    try:
        run = harness.pysampled("-p", target.pid, "--mode", "wall", "-d", 0.3, "-o", "a.folded", home=home).ok()
    finally:
        os.kill(target.pid, signal.SIGCONT)
    equal({frames[-1] for frames, _ in stacks(os.path.join(home, "a.folded"))}, {"[stopped]"}, "why it waits")
    check(run.n("exact") == run.n("samples") > 0, "not all are exact: %s", run)


NAPS = """
import threading, time
def nap():
    while True:
        time.sleep(0.05)
for _ in range(8):
    threading.Thread(target=nap, daemon=True).start()
print("READY", flush=True)
while True:
    pass
"""


def times(path):
    """Of the samples in a perf.data, in the order in which they are written."""
    with open(path, "rb") as file:
        data = file.read()
    attr, (at, size) = struct.unpack_from("<Q", data, 24)[0], struct.unpack_from("<QQ", data, 40)
    kind = struct.unpack_from("<Q", data, attr + 24)[0]
    # PERF_SAMPLE_IDENTIFIER, IP and TID come before TIME, each of 8 bytes.
    before, end, found = 8 * sum(kind >> bit & 1 for bit in (16, 0, 1)), at + size, []
    while at < end:
        record, _, n = struct.unpack_from("<IHH", data, at)
        if record == 9:  # PERF_RECORD_SAMPLE
            found.append(struct.unpack_from("<Q", data, at + 8 + before)[0])
        at += n
    return found


@one_python
def test_waits_have_their_place_in_time(py):
    """Ticks may be far apart: waits that were over before are told of then, after other samples were."""
    harness.need_root()
    home = harness.folder()
    harness.write(os.path.join(home, "naps.py"), NAPS)
    target = Target(py, os.path.join(home, "naps.py"))
    run = harness.pysampled("-p", target.pid, "--mode", "wall", "-F", 2, "-d", 8, "-o", "a.data", home=home).ok()
    found = times(os.path.join(home, "a.data"))
    enough(len(found) > 60, "only %d samples", len(found))
    wrong = [b - a for a, b in zip(found, found[1:]) if b < a]
    equal(wrong, [], "samples that are older than those before, by so many ns: %s" % run)


@each(py=harness.wanted_pythons() + (harness.older_pythons() if harness.every_pair() else []))
@harness.beside
def test_wall_tells_who_waits_for_the_gil(py):
    """One thread sleeps in C and keeps the GIL, one wants it for all that time, one polls without it."""
    harness.need_root()
    if py.is_free_threaded():
        raise harness.Skip("without a GIL nobody waits for one")
    target = test_gil.target_that(py, "hold")
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
    outs = [word for name in ("a.data", "a.folded", "a.pb.gz") for word in ("-o", name)]
    run = harness.pysampled("-p", target.pid, "--mode", "wall", "-d", 2, *outs, home=home).ok()
    harness.pysampled("convert", "a.data", "-o", "b.folded", home=home).ok()
    harness.pysampled("convert", "a.data", "-o", "b.pb.gz", home=home).ok()
    direct, converted = ({tuple(frames): n for frames, n in stacks(os.path.join(home, name))} for name in ("a.folded", "b.folded"))
    total = sum(direct.values())
    check(total > 3 * 1.9e6, "less than 1.9 s of three threads: %d us of %s", total, run)
    # On a busy machine a file may be read for more than 2 s: one of the two has its names, which is told.
    enough("does not answer" not in run.err, "names came too late: %s", run)
    enough(not any(" (unread)" in frame for frames in converted for frame in frames), "convert read a file too late")
    equal(converted, direct, "microseconds of each stack")
    said = harness.pysampled("report", "a.data", home=home).ok().out.splitlines()
    equal(said[0], "# %.1f s of all threads, by function" % (total / 1e6), "what report says")
    rows = json.loads(harness.pysampled("report", "--json", "a.data", home=home).ok().out)["rows"]
    check(abs(sum(row["self"] for row in rows) - total) < run.n("samples"), "%s is not %d us", rows, total)
    harness.pysampled("convert", "a.data", "-o", "a.speedscope.json", home=home).ok()
    with open(os.path.join(home, "a.speedscope.json")) as file:
        profiles = json.load(file)["profiles"]
    equal({profile["unit"] for profile in profiles}, {"nanoseconds"}, "speedscope's unit")
    ns = sum(sum(profile["weights"]) for profile in profiles)
    check(abs(ns / 1000 - total) < run.n("samples"), "speedscope has %d ns, not %d us", ns, total)
    for name in ("a.html", "a.svg"):
        harness.pysampled("convert", "a.data", "-o", name, home=home).ok()
        with open(os.path.join(home, name)) as file:
            check(" ms of all threads" in file.read(), "%s does not say what its times are of", name)
    equal(harness.pysampled("diff", "a.data", "a.data", home=home).ok().out.splitlines()[0],
          "# A: %.1f s of all threads of a.data" % (total / 1e6), "what diff says")
    for name in "a.pb.gz", "b.pb.gz":
        (samples, n), (event, ns) = pprof_sums(os.path.join(home, name))
        equal([samples, n], ["samples/count", run.n("samples")], "what pprof counts in " + name)
        check(event.endswith("/nanoseconds") and abs(ns / 1000 - total) < n, "%s of %s, not %d us", ns, event, total)


CROWD = """
import sys, threading, time, zlib
def work():
    data = bytes(1 << 22)
    while True:
        zlib.crc32(data)
for _ in range(30):
    threading.Thread(target=work, daemon=True).start()
print("READY {}")
sys.stdout.flush()
time.sleep(300)
"""


@one_python
def test_wall_knows_the_maps_of_who_wants_a_cpu_from_the_start(py):
    """Some of the threads leave their CPU while events are opened: that was before what is told of the process."""
    home = harness.folder()
    harness.write(os.path.join(home, "crowd.py"), CROWD)
    target = Target(py, os.path.join(home, "crowd.py"))
    found = []
    for _ in range(4):
        harness.pysampled("-p", target.pid, "--mode", "wall", "-d", 0.4, "-o", "a.folded", home=home).ok()
        found += [frames for frames, _ in stacks(os.path.join(home, "a.folded"))]
    enough(any(frames[-1] == "[runnable]" for frames in found), "nobody wanted a CPU: %s", found)
    nowhere = [frames for frames in found if frames[-3:] == ["[no map]", "[unknown]", "[runnable]"]]
    equal(nowhere, [], "stacks of who stands where nothing is mapped")


def pprof_sums(path):
    """[sample type and its unit, the sum of its values] for each of a pprof profile."""
    with gzip.open(path) as file:
        profile = list(protobuf(file.read()))
    texts = [value.decode() for field, value in profile if field == 6]
    types = ["%s/%s" % tuple(texts[n] for _, n in protobuf(value)) for field, value in profile if field == 1]
    samples = [[number for _, number in varints(dict(protobuf(value))[2])] for field, value in profile if field == 2]
    return list(zip(types, map(sum, zip(*samples))))


def varints(data):
    at = 0
    while at < len(data):
        number, shift = 0, 0
        while True:
            number |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                break
        yield at, number


def protobuf(data):
    """(field, number or bytes) for each field of a message."""
    while data:
        at, tag = next(varints(data))
        end, value = next(varints(data[at:]))
        data = data[at + end:]
        if tag & 7:
            value, data = data[:value], data[value:]
        yield tag >> 3, value


def test_what_a_mode_does_not_go_with_is_refused():
    for words, about in (("--mode wall -e page-faults", "--mode wall"), ("--mode wall -o a.tape", "tape"),
                         ("--mode wall --capture stop -d 1", "--capture stop"), ("--mode x", "--mode"), ("--mode gil --any", "--any"), ("--mode gil -o a.tape", "tape"),
                         ("--mode gil --no-follow -e {cpu-clock,page-faults}:S", ":S")):
        harness.refused(2, "-p", os.getpid(), *words.split(), about=[about])


@one_python
@harness.beside
def test_cpu_is_the_default(py):
    target = Target(py, "gilshares.py", extensions=())
    home = harness.folder()
    harness.pysampled("-p", target.pid, "--mode", "cpu", "-d", 2, "-o", "a.folded", home=home).ok()
    found = stacks(os.path.join(home, "a.folded"))
    enough(count(found, "with_gil") and count(found, "without_gil"), "both use a CPU: %s", found)
