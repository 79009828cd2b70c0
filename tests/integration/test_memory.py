"""What a recorder holds does not grow with what its targets do for ever: counted in bytes, with bounds many times what is needed."""
import os
import signal
import time

import harness
from harness import Recorder, Target, beside, check, each, enough, equal, need_root, not_quick, one_python, seconds

KB = 1024
READER = 2 << 20  # of one that was replaced (a fork that waits for a CPU holds its process's memory): it fills its tables anew
WARM_S, LONG_S, STEP_S = 10, 15, 0.5
SOAK_S = int(os.environ.get("PYSAMPLED_SOAK_S", "0"))  # set by tools/test --soak


def held(pid):
    """Bytes of memory that are its own alone."""
    status = harness.status(pid)
    return sum(int(status[what].split()[0]) for what in ("RssAnon", "RssShmem")) * KB  # files' tables are handed over as such


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def slope(points):
    """Of (time, value), by least squares: value a second."""
    n = len(points)
    mean_t, mean_v = sum(t for t, _ in points) / n, sum(v for _, v in points) / n
    return sum((t - mean_t) * (v - mean_v) for t, v in points) / sum((t - mean_t) ** 2 for t, _ in points)


def watch(recorder, warm, long):
    """[(time, bytes)] and [descriptors] of a recorder that is attached, after it has been at it for so long."""
    harness.need_no_asan("memory has a shadow")
    begin = time.monotonic()
    points, fds = [], []
    while time.monotonic() < begin + warm + long:
        time.sleep(STEP_S)
        check(recorder.process.poll() is None, "pysampled ended early: %s", recorder.text(1))
        now = time.monotonic()
        if now > begin + warm:
            points.append((now, held(recorder.pid)))
            fds.append(descriptors(recorder.pid))
    return points, fds


def record(target, *args, warm=WARM_S, long=LONG_S, home=None):
    recorder = Recorder("-p", target.pid, *args, home=home).attached()
    points, fds = watch(recorder, warm, long)
    run = recorder.signal(signal.SIGINT).wait(30).ok()
    return run, points, fds


@one_python
@beside
@seconds(120)
def test_forks_beside_many_idle_children_leave_nothing(py):
    """It was 1,200 KB a second: a copy of the table of all targets at each fork and each end, and all targets. The
    newest 1,024 that ended stay, with what is kept of each, 4 MB: what comes after them is measured."""
    need_root()
    target = Target(py, "restless.py", "--idle", 200, "--forks", 100, "--say-after", 1500)
    recorder = Recorder("-p", target.pid, "-F", 99, "-v", "-o", "out.data").attached()
    target.line("FORKED", limit=80)
    points, _ = watch(recorder, 0, LONG_S)
    run = recorder.signal(signal.SIGINT).wait(30).ok()
    grown = slope(points) * LONG_S
    replaced = min(run.counter("stuck_reads"), os.cpu_count())
    check(grown < (3 << 20) + replaced * READER, "%d KB in %d s: %s", grown // KB, LONG_S, run)
    check(points[-1][1] < 40 << 20, "%d KB: %s", points[-1][1] // KB, run)
    return "%d KB in %d s, %d readers were replaced" % (grown // KB, LONG_S, run.counter("stuck_reads"))


@one_python
@beside
@seconds(120)
def test_who_compiles_the_same_all_the_time_takes_no_more(py):
    need_root()
    target = Target(py, "restless.py", "--compiles", 1000, "--names", 50, "--lines", 2000)
    recorder = Recorder("-p", target.pid, "-F", 999, "--hold-budget", 100, "-v", "-o", "out.data").attached()
    used = harness.cpu_seconds([target.pid])
    harness.works_for_a_while(target.pid, 17, 60)  # tables double with each time as many different stacks, up to all that it has
    warm = harness.cpu_seconds([target.pid]) >= used + 17
    points, _ = watch(recorder, 0, LONG_S)
    run = recorder.signal(signal.SIGINT).wait(30).ok()
    (check if warm else enough)(slope(points) < 60 * KB, "%.0f KB a second, KB %s: %s", slope(points) / KB, [size // KB for _, size in points], run)
    enough(run.n("samples") > 2000, "too few samples: %s", run)


@one_python
@beside
@seconds(120)
def test_many_lines_take_no_memory_and_the_end_does_not_wait_for_them(py):
    """It was 1.1 GB for 82 samples, as the symbol file was written."""
    need_root()
    target = Target(py, "restless.py", "--compiles", 20, "--lines", 2000000)
    run, _, _ = record(target, "-F", 99, "-v", "-o", "out.data", warm=0, long=12)
    check(float(run.summary["rss"].rstrip("MiB")) < 100, "much memory at the end: %s", run)
    enough(run.n("samples") > 150, "too few samples: %s", run)
    check("have no lines from here on" in run.err, "not a word of it: %s", run)
    check(run.counter("unlined") > 0, "not counted: %s", run)


@one_python
@beside
@seconds(120)
def test_new_functions_are_unnamed_when_memory_is_used_up(py):
    need_root()
    target = Target(py, "restless.py", "--compiles", 1000, "--long", 900)
    home = harness.folder()
    run, points, _ = record(target, "-F", 999, "--hold-budget", 100, "-v", "--memory", "4M", "-o", "out.folded", warm=0,
                            long=15, home=home)
    check(max(n for _, n in points) < 20 << 20, "%d KB: %s", max(n for _, n in points) // KB, run)
    enough(run.n("samples") > 2000, "too few samples: %s", run)
    check("[unnamed] from here on" in run.err, "not a word of it: %s", run)
    check(run.counter("unnamed") > 0, "not counted: %s", run)
    equal(harness.total(harness.read_folded(os.path.join(home, "out.folded"))), run.n("samples"), "samples in the output")


@one_python
@beside
def test_little_memory_is_little(py):
    """It was 24 MB under --memory 8M: tables of mapped files had 16 anyway."""
    need_root()
    home, target = harness.folder(), Target(py, "manylibs.py")
    run, points, _ = record(target, "-F", 999, "--hold-budget", 100, "-v", "--memory", "8M", "-o", "out.folded", warm=0, long=4, home=home)
    check(max(n for _, n in points) < 16 << 20, "%d KB: %s", max(n for _, n in points) // KB, run)
    stacks = harness.read_folded(os.path.join(home, "out.folded"))
    named = sum(n for frames, n in stacks if any("function_with" in frame or "json" in frame for frame in frames))
    enough(target.info["libraries"] > 50 and run.n("samples") > 100 and named > 20, "too little to see: %s", run)


@each(out=("out.data", "out.folded"))
@one_python
@beside
@seconds(120)
def test_native_names_by_the_megabyte_stay_below_memory(py, out):
    """It was 55 MB of a perf map's names under --memory 16M, and up to 128 MB of native names under any."""
    need_root()
    target = Target(py, "sled.py", "--names", 100000, "--long", 400)
    harness.cleanup(os.unlink, "/tmp/perf-%d.map" % target.pid)
    run, points, _ = record(target, "-F", 999, "--hold-budget", 100, "-v", "--memory", "20M", "-o", out, warm=0, long=12)
    check(max(n for _, n in points) < 20 << 20, "%d KB: %s", max(n for _, n in points) // KB, run)
    enough(run.n("samples") > 100 and run.counter("nameless") > 0, "too few samples: %s", run)
    check("[unknown] or [anon] from here on" in run.err, "not a word of it: %s", run)


@one_python
@beside
def test_maps_are_not_kept_when_memory_is_used_up(py):
    need_root()
    target = harness.start(py.command() + [os.path.join(harness.TARGETS, "manymaps.py"), "20000"], stdout=-1)
    equal(target.stdout.readline(), b"READY\n", "what it says")
    home = harness.folder()
    run = harness.Recorder("-p", target.pid, "-F", 199, "-d", 2, "-v", "--memory", "4M", "-o", "out.folded", home=home).wait().ok()
    check("in further ones has no native names" in run.err, "not a word of it: %s", run)
    check(run.counter("unmapped") > 0, "not counted: %s", run)
    stacks = harness.read_folded(os.path.join(home, "out.folded"))
    enough(harness.total(stacks) > 50, "too few samples: %s", run)
    check(any("manymaps.py" in str(s) for s in stacks), "no Python names: %s", stacks)


@one_python
@each(out=("out.data", "out.folded"))
@not_quick
@seconds(4000)
def test_soak(py, out):
    """Code, threads and processes come and go; --soak: for an hour."""
    need_root()
    if not SOAK_S:
        raise harness.Skip("tools/test --soak runs it")
    target = Target(py, "restless.py", "--idle", 20, "--forks", 100, "--compiles", 200, "--names", 500, "--threads", 50,
                    "--life", SOAK_S + 300)
    run, points, fds = record(target, "-F", 999, "--hold-budget", 100, "-v", "-o", out, warm=60, long=SOAK_S - 60)
    # To folded some 50 bytes of each process and its stack are kept to the end, or until --memory says stop.
    check(60 * slope(points) < 1 << 20, "%.0f KB a minute: %s", 60 * slope(points) / KB, run)
    check(max(fds[-20:]) <= max(fds[:20]) + 20, "descriptors: %s at first, %s at last; %.0f KB a minute", fds[:20], fds[-20:],
          60 * slope(points) / KB)
    return "%.0f KB a minute, %d KB at last, %d descriptors, side_lost=%d" % (
        60 * slope(points) / KB, points[-1][1] // KB, max(fds), run.counter("side_lost"))
