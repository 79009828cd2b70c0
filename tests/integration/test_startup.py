"""What a start costs, counted in system calls, and that who is looked at late has lost nothing by that."""
import os
import re
import subprocess

import harness
import tolerances
from harness import Recorder, check, each, enough, equal, need_fifo, one_python

MANY = 60


def family(py, how, kids):
    """The process, and the PIDs: the parent's first."""
    command = py.command() + [os.path.join(harness.TARGETS, "sleepers.py"), how, str(kids)]
    process = harness.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in process.stdout.readline().split()]
    equal(len(pids), kids + 1, "PIDs")
    return process, pids


def calls_about(trace, pids):
    """How often a file of one of them was opened, and its memory read."""
    opened = read = 0
    with open(trace, errors="replace") as file:
        for line in file:
            about = re.search(r'openat\(.*?"/proc/(\d+)/', line)
            opened += bool(about and int(about[1]) in pids)
            about = re.search(r"process_vm_readv\((\d+)", line)
            read += bool(about and int(about[1]) in pids)
    return opened, read


@each(how=["fork", "spawn"])
@one_python
def test_children_that_sleep_are_hardly_looked_at(py, how):
    """Before, each was searched as if its program had never been seen: 30 files opened, 13 reads. Now memory
    tells where it is, for one more read a child and no file opened."""
    strace = harness.need_command("strace")
    home = harness.folder()
    _, pids = family(py, how, MANY)
    trace = os.path.join(home, "calls")
    harness.pysampled("-p", pids[0], "-d", 0.5, "-o", "a.folded", home=home,
                      wrapper=[strace, "-f", "-o", trace, "-e", "trace=openat,process_vm_readv"]).ok()
    opened, read = calls_about(trace, set(pids[1:]))
    check(opened <= 6 * MANY, "%d files of %d children opened", opened, MANY)
    check(read <= 4 * MANY, "%d reads of %d children's memory", read, MANY)
    return "%.1f files, %.1f reads a child" % (opened / MANY, read / MANY)


@each(how=["fork", "spawn"])
@one_python
def test_who_slept_at_the_start_is_sampled_from_its_first_moment_on(py, how):
    need_fifo()
    home = harness.folder()
    process, pids = family(py, how, 24)
    recorder = Recorder("-v", "-p", pids[0], "-e", "cpu-clock", "-F", 199, "-o", "a.data", "-o", "a.folded",
                        home=home).recording()
    process.stdin.write("\n")
    process.stdin.flush()
    equal(process.stdout.readline(), "done\n", "what the family says")
    run = recorder.signal(2).wait().ok()
    stacks = harness.readable(run, home)
    for pid in pids[1:]:
        own = harness.of_pid(stacks, pid)
        check(not any(frames[0].startswith("?") for frames, _ in own), "%d has no name", pid)
        enough(any("work (" in frame for frames, _ in own for frame in frames), "no sample of %d in work: %s", pid, run)
    enough(run.n("torn") <= tolerances.TORN_MOVING * run.n("samples"), "torn: %s", run)
    return "%d samples, %d exact, %d torn" % (run.n("samples"), run.n("exact"), run.n("torn"))


THREADS = "import threading, time\nfor i in range(150): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n" \
    "print('READY', flush=True)\ntime.sleep(600)"


def interrupted(target, call, nth, *args):
    """A recording that gets SIGINT at the nth such call of its main thread; and its later calls."""
    strace = harness.need_command("strace")
    home = harness.folder()
    run = harness.pysampled("-p", target, *args, "-o", "a.folded", "-o", "a.data", home=home,
                            wrapper=[strace, "-f", "-o", os.path.join(home, "calls"), "-e", "signal=SIGINT",
                                     "-e", "trace=perf_event_open,%s" % call,
                                     "-e", "inject=%s:signal=INT:when=%d" % (call, nth)])
    with open(os.path.join(home, "calls"), errors="replace") as file:
        calls = harness.strace_calls(file.read())
    after = [i for i, line in enumerate(calls) if call in line][nth - 1:]
    check(after, "%s was not called %d times: %s", call, nth, run)
    return run, home, calls[after[0] + 1:]


@each(call=["signalfd4", "pidfd_open", "perf_event_open"])
@one_python
def test_an_interrupt_before_the_first_sample_ends_the_recording_well(py, call):
    target = harness.Target(py, "groundtruth.py", "--us", 50)
    run, home, _ = interrupted(target.pid, call, 1, "-F", 99)
    run.ok()
    harness.readable(run, home)
    check(target.alive(), "the target ended")


@one_python
def test_an_interrupt_while_it_attaches_ends_the_attaching(py):
    """It attached to all before it looked."""
    harness.need_root()
    target = harness.start(py.command() + ["-c", THREADS], stdout=subprocess.PIPE, text=True)
    equal(target.stdout.readline(), "READY\n", "what the target says")
    run, home, after = interrupted(target.pid, "perf_event_open", 60, "-F", 99, "--events-on", "threads")
    run.ok()
    harness.readable(run, home)
    opened = sum("perf_event_open(" in line for line in after)
    check(opened < 60, "%d events were opened after the signal: %s", opened, run)
    equal(harness.left(target.pid), "", "what is left in the target")


@each(work=["idle", "busy"])
@one_python
@harness.seconds(120)
@harness.not_quick
def test_children_with_many_maps_hold_up_nothing(py, work):
    """It was not started after 30 s, for all that was read and told of their maps before the first sample."""
    harness.need_root()
    home = harness.folder()
    maps = 60000 if os.environ.get("PYSAMPLED_FAULTS") == "all" else 20000  # tools/test --faults
    target = harness.Target(py, "mapped.py", 100, maps, *["idle"][:work == "idle"])
    recorder = Recorder("-p", target.pid, "-e", "cpu-clock", "-F", 99, "-o", "a.folded", home=home)
    harness.until(lambda: os.path.exists(os.path.join(home, "a.folded")), "it is about to attach", limit=30)
    run = recorder.signal(2).wait(15).ok()
    check(float(run.summary["rss"].rstrip("MiB")) < 100, "much memory: %s", run)
    return "%(duration)s, %(rss)s" % run.summary


@one_python
def test_who_slept_all_the_time_has_names(py):
    """With --mode wall. They are introduced with their first sample, which for some comes when the recording ends."""
    home = harness.folder()
    _, pids = family(py, "fork", MANY)
    most = 0
    for seconds in (0.01, 0.02, 0.03, 0.05, 0.1):
        run = harness.pysampled("-p", pids[0], "--mode", "wall", "-d", seconds, "-o", "a.folded", home=home).ok()
        with open(os.path.join(home, "a.folded")) as file:
            stacks = file.read().splitlines()
        most = max(most, len(stacks))
        nameless = [stack for stack in stacks if stack.startswith("?-") or "[unknown]" in stack]
        check(not nameless, "%d of %d stacks without names, as %s: %s", len(nameless), len(stacks), nameless[:1], run)
    enough(most >= MANY, "%d stacks at most: %s", most, run)
