"""Events of a hardware PMU: as many samples as the counter says, where the work is. tools/test --pmu has a guest with one."""
import collections
import os
import re
import statistics
import sys

import harness
import test_native
import tolerances
from harness import Recorder, Target, all_right, check, each, enough, exact, need_fifo, one_python, seconds

sys.path.insert(0, harness.TARGETS)
import counter  # noqa: E402

CYCLES = 100000
INTERRUPT = 40000  # what one costs on QEMU's riscv64, where the firmware has a part in it
INSTRUCTIONS = 10000000  # QEMU looks whether this counter has overflowed every 4 ms of its time
TICK = 0.004


def has(event):
    try:
        os.close(counter.Counter(event).fd)
        return True
    except OSError:
        return False


def need(event):
    if not has(event):
        raise harness.Skip("no %s counter here" % event)


def shares(py, event, period, turns):
    """A run over all the work of shares.py, its stacks, and a word: as many as the target counted events."""
    need(event)
    for again in range(5):
        run, home, want, most = sampled_and_counted(py, event, period, turns)
        if not is_late_to_see(home, run, want):
            break
    slack = max(2, (0.01 if most == want else 0.02) * want)
    check(run.n("samples") <= most + slack, "more samples than counted, %g: %s", most, run)
    # One that is not noticed before its thread leaves the CPU is lost (armpmu_start()).
    enough(run.n("samples") >= want - slack, "fewer samples than counted, %g: %s", want, run)
    word = "%d samples, %.1f by the target's counter" % (run.n("samples"), want)
    return run, harness.read_folded(os.path.join(home, "a.folded")), word + "; QEMU was late %d times" % again * bool(again)


def is_late_to_see(home, run, want):
    """Of two events of cycles, now and then the target's has the only counter whose overflows QEMU notices at once:
    those of the other it does every 4 ms, 40 periods. Nobody else is late by that: not if samples are missing."""
    if run.n("samples") > 0.1 * want:
        return False
    said, _ = harness.perf("script", "-i", os.path.join(home, "a.data"), "-F", "time", home=home)
    times = [float(word.rstrip(":")) for word in said.split()]
    apart = statistics.median(b - a for a, b in zip(times, times[1:]))
    check(abs(apart - TICK) < 0.1 * TICK, "a wrong number of samples, and they are %g s apart: %s", apart, run)
    harness.equal(run.n("lost"), 0, "lost samples")
    return True


def sampled_and_counted(py, event, period, turns):
    target = Target(py, "shares.py", event, turns, extensions=())
    home = harness.folder(0o777)
    recorder = Recorder("-p", target.pid, "-e", event, "-c", period, "--hold-budget", 100, "-o", "a.folded", "-o", "a.data",
                        home=home).attached()
    target.say("go")
    counted = int(target.line("DONE", limit=120))
    recorder.signal(2)
    run = recorder.wait().ok()
    target.say("end")
    most = counted
    if counted == 0:
        counted = counted_alone(py, event, turns)
        most = counted * (1 + INTERRUPT / period)
    harness.equal(run.summary["event"], event, "the event")
    return run, home, counted / period, most / period


def counted_alone(py, event, turns):
    """QEMU's riscv64 has one counter for each event: a second one stands still. Nothing interrupts the target now."""
    target = Target(py, "shares.py", event, turns, extensions=())
    target.say("go")
    counted = int(target.line("DONE", limit=120))
    target.say("end")
    return counted


def in_function(stacks, name):
    return sum(n for frames, n in stacks if any(q == name for q, _, _ in harness.python_frames(frames)))


@one_python
@seconds(240)
def test_cycles_are_where_the_work_is(py):
    run, stacks, word = shares(py, "cycles", CYCLES, 2000)
    heavy, light = in_function(stacks, "heavy"), in_function(stacks, "light")
    enough(heavy + light >= 0.95 * run.n("samples") > 1000, "too few samples in the work: %s", run)
    share = heavy / (heavy + light)
    check(0.73 <= share <= 0.77, "the share of heavy() is %.4f: %s", share, run)
    return "%.2f %% of 75 %% in heavy(); %s" % (100 * share, word)


@one_python
@seconds(240)
def test_instructions_are_counted(py):
    run, stacks, word = shares(py, "instructions", INSTRUCTIONS, 4000)
    work = in_function(stacks, "work")
    enough(work >= 0.95 * run.n("samples") > 20, "too few samples in the work: %s", run)
    return word


@one_python
@seconds(240)
def test_cycles_are_exact_and_right(py):
    need("cycles")
    need_fifo()
    target = Target(py, "groundtruth.py", "--us", 100)
    run, verdict, _ = exact(target, "-e", "cycles", "-c", CYCLES, seconds=1)
    harness.equal(run.summary["event"], "cycles", "the event")
    all_right(verdict, run)
    enough(run.n("exact") >= tolerances.EXACT * run.n("samples") - 1, "too few are exact: %s", run)
    return "%s; %d of %d samples are exact" % (verdict, run.n("exact"), run.n("samples"))


@each(kind=["plain", "deep", "vdso", "crypto"])
@one_python
@seconds(240)
def test_stacks_of_cycles_reach_the_root(py, kind):
    """By rules, or by a guess where code has none, which says so. Of torn ones there is no Python part to be merged."""
    need("cycles")
    need_fifo()
    target = test_native.load(py, kind)
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-p", target.pid, "-e", "cycles", "-c", 10 * CYCLES, "-d", 2, "--hold-budget", 100, "-o", out).ok()
    ends, left, lost = collections.Counter(), collections.Counter(), []
    for frames, n in harness.read_folded(out):
        bare = [frame for frame in frames if frame not in ("[guessed]", "[late]")]
        if "[torn]" in frames:
            ends["torn"] += n
        elif not test_native.is_whole(bare):
            ends["no root"] += n
            lost.append(";".join(frames))
        elif "[guessed]" in frames:
            ends["guessed"] += n
            left[frames[frames.index("[guessed]") + 1].partition("+0x")[0]] += n
        else:
            ends["by rules"] += n
    enough(run.n("samples") > 300, "too few samples: %s", run)
    merged = run.n("samples") - ends["torn"]
    enough(ends["torn"] <= tolerances.TORN_AT_EXEC * run.n("samples"), "too many are torn: %s", run)
    check(ends["by rules"] + ends["guessed"] >= 0.99 * merged, "too few reach the root: %s: %s", dict(ends), lost[:3])
    check(kind not in ("plain", "deep") or ends["by rules"] >= 0.99 * merged, "too many guesses: %s", dict(left))
    return "%s%s" % (dict(ends), ", no rules in %s" % dict(left) if left else "")


def counted(target, *args):
    """A recording whose samples hold a count of user instructions."""
    need("instructions")
    need_fifo()
    run = harness.pysampled("-p", target.pid, "-e", "cycles", "-c", CYCLES, "-d", 1, "-v", "--hold-budget", 100,
                            "-o", os.path.join(harness.folder(), "out.folded"), *args).ok()
    if "counted user instructions" not in run.err:
        check("-t" not in args, "the instructions of one thread can't be counted: %s", run.err)
        raise harness.Skip("this kernel can't count what new threads do in samples (Linux 6.12)")
    return run


def all_stand_still(run):
    enough(run.n("exact") >= tolerances.EXACT * run.n("samples") > 100, "too few are exact: %s", run)
    harness.equal(run.counter("late_loop"), 0, "exact samples by the registers alone")


@one_python
@seconds(240)
def test_a_thread_is_proven_to_stand_still(py):
    target = Target(py, "groundtruth.py", "--us", 100)
    all_stand_still(counted(target, "-t", target.pid))


@one_python
@seconds(240)
def test_new_threads_are_proven_to_stand_still(py):
    all_stand_still(counted(Target(py, "groundtruth.py", "--us", 100)))


@one_python
@seconds(240)
def test_a_loop_without_a_change_is_no_standstill(py):
    run = counted(Target(py, "spinlock.py", extensions=()), "--capture", "async")
    enough(run.counter("late_loop") > 0, "the registers were never the same in a loop: %s", run.err)


@one_python
@seconds(240)
def test_events_that_take_turns_are_told(py):
    need("instructions")
    target = Target(py, "groundtruth.py", "--us", 100)

    def turns(n):
        run = harness.pysampled("-p", target.pid, "-e", ",".join(n * ["{instructions}"]), "-c", INSTRUCTIONS, "-d", 0.5,
                                "-o", os.path.join(harness.folder(), "out.folded")).ok()
        return [float(share) for share in re.findall(r"instructions ([\d.]+) % of the time", run.err)]

    harness.equal(turns(2), [], "shares of two events")
    shares = turns(16)
    harness.equal(len(shares), 16, "events that took turns")
    check(0 < sum(shares) / 100 < 15, "no PMU has that many counters: %s", shares)


@one_python
def test_a_counter_that_is_not_there_is_refused(py):
    need("cycles")
    missing = [event for event in counter.EVENTS if not has(event)]
    if not missing:
        raise harness.Skip("this PMU has every generic event")
    target = Target(py, "shares.py", "cycles", 1, extensions=())
    harness.refused(5, "-p", target.pid, "-e", missing[0], about=(missing[0], "cycles"))


@one_python
@seconds(240)
def test_tlb_misses_are_where_memory_is_read_at_random(py):
    target = Target(py, "memory.py", extensions=())
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-p", target.pid, "-e", "dTLB-load-misses", "-c", 1000, "-d", 5, "--hold-budget", 100, "-o", out)
    if run.rc == 5:
        raise harness.Skip("no dTLB-load-misses counter here")
    harness.equal(run.ok().summary["event"], "dTLB-load-misses", "the event")
    stacks = harness.read_folded(out)
    walk, add = in_function(stacks, "walk"), in_function(stacks, "add")
    enough(run.n("samples") >= 50, "too few samples: %s", run)
    check(walk >= 0.9 * (run.n("samples") - run.n("nopython")), "%d in walk(), %d in add(): %s", walk, add, run)
