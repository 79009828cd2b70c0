"""Many threads: their number, their coming and going and their idleness change nothing; events on CPUs are as exact."""
import os
import signal
import time

import harness
import tolerances
from harness import Recorder, Target, all_right, check, each, each_python, enough, equal, exact, judge, need_fifo, \
    not_quick, one_python
from machine import FEW, few_descriptors, need_few


def mostly_exact(run, share=tolerances.EXACT):
    """Of the samples that can be: a thread that begins or ends has no Python frames. Fewer if the machine took the readers' CPUs."""
    able = run.n("samples") - run.n("nopython")
    share = min(share, tolerances.READER_WITHOUT_CPU if "a reader got no CPU" in run.err else share)
    enough(run.n("exact") >= share * able > 0, "too few are exact: %s", run)


def events_of(pid):
    folder = "/proc/%d/fd" % pid
    return len([fd for fd in os.listdir(folder) if "perf_event" in harness.readlink(os.path.join(folder, fd))])


def settled_events_of(pid):
    """Those that stay: on its way from threads to CPUs a recording has some of both."""
    def same():
        before = events_of(pid)
        time.sleep(0.1)
        return before == events_of(pid)
    harness.until(same, "no event is opened or closed")
    return events_of(pid)


@harness.some_python(1)
@not_quick
def test_200_busy_threads_are_exact_at_9999_hz(py):
    need_fifo()
    harness.keep_busy()
    run, verdict, _ = exact(Target(py, "groundtruth.py", "--us", 10, "--threads", 200), "-F", 9999)
    all_right(verdict, run, share=0, least=50)  # most of the time goes into the fight for the GIL
    mostly_exact(run)
    equal(run.n("lost"), 0, "lost samples")


@one_python
@not_quick
def test_1000_threads(py):
    target = Target(py, "groundtruth.py", "--us", 10, "--threads", 1000)
    run, verdict, stacks = exact(target, "-F", 999, "--threads", seconds=3)
    equal(run.n("lost"), 0, "lost samples")
    tids = {int(frames[0].rpartition("-")[2]) for frames, _ in stacks}
    check(tids <= set(harness.tasks(target.pid)), "threads that are not there: %s", tids)
    if harness.can_fifo():
        all_right(verdict, run, share=0.02)
        mostly_exact(run)


@each_python
def test_2000_threads_that_live_for_milliseconds(py):
    path = os.path.join(harness.folder(), "progress")
    target = Target(py, "churn.py", "--ms", 2, "--progress", path)
    home = harness.folder(0o777)
    recorder = Recorder("-p", target.pid, "-F", 999, "-o", "out.folded", "--provenance", "exact", "--hold-budget", 100,
                        home=home).attached()
    readers = len(os.sched_getaffinity(0))
    harness.until(lambda: len(harness.tasks(recorder.pid)) >= 2 + readers, "all is open and the readers run")
    events = settled_events_of(recorder.pid)
    begin = harness.progress(path)
    harness.until(lambda: harness.progress(path) >= begin + 500, "2000 threads", limit=40)
    # Events that go over to CPUs become fewer; none is opened for a new thread.
    check(events_of(recorder.pid) <= events, "%d events were open, now %d", events, events_of(recorder.pid))
    run = recorder.signal(signal.SIGINT).wait(15).ok()
    equal(run.n("lost"), 0, "lost samples")
    if harness.can_fifo():
        all_right(judge(harness.read_folded(os.path.join(home, "out.folded")), target.info["truth"]), run, share=0.2)
        mostly_exact(run, tolerances.EXACT_STOP)


def wakes(pid):
    return sum(harness.of_tasks(pid, lambda tid: int(harness.status(pid, tid)["voluntary_ctxt_switches"])))


def wakes_per_sample(py, idle):
    target = Target(py, "groundtruth.py", "--us", 10, "--idle", idle)
    recorder = Recorder("-p", target.pid, "-F", 999, "-o", "out.folded", "--hold-budget", 100).attached()
    harness.works(target.pid, 2)
    count = wakes(recorder.pid)
    run = recorder.signal(signal.SIGINT).wait().ok()
    enough(run.n("samples") > 1000, "too few samples: %s", run)
    return count / run.n("samples")


@one_python
@not_quick
def test_idle_threads_wake_nobody(py):
    alone, beside = wakes_per_sample(py, 0), wakes_per_sample(py, 200)
    enough(beside < 1.5 * alone < 5, "%.2f wakes a sample with 200 idle threads, %.2f without", beside, alone)


def pinned_wakes(pid):
    """Of the readers: how often each has slept so far."""
    return {tid: harness.status(pid, tid)["voluntary_ctxt_switches"] for tid in harness.tasks(pid)
            if len(os.sched_getaffinity(tid)) == 1}


@one_python
def test_readers_of_idle_cpus_sleep_for_good(py):
    need_fifo()
    target = Target(py, "groundtruth.py")
    os.kill(target.pid, signal.SIGSTOP)
    # Of threads that are named: events on CPUs would also see what other processes do here.
    recorder = Recorder("-p", target.pid, "-t", target.pid, "-o", "out.folded").recording()

    def nobody_woke():
        before = pinned_wakes(recorder.pid)
        time.sleep(2.5)
        return before and before == pinned_wakes(recorder.pid)

    harness.until(nobody_woke, "readers that sleep on")
    os.kill(target.pid, signal.SIGCONT)
    harness.works(target.pid, 0.5)
    run = recorder.signal(signal.SIGINT).wait(15).ok()
    enough(run.n("samples") > 10, "too few samples after the sleep: %s", run)


# ---- events on CPUs instead of threads -------------------------------------------------------------------------------

@each_python
def test_events_on_cpus_are_exact_too(py):
    need_few()
    target = Target(py, "groundtruth.py", "--us", 10, "--threads", 50)
    harness.keep_busy()
    run, verdict, stacks = exact(target, "-F", 1999, preexec_fn=few_descriptors)
    check("are opened on CPUs instead" in run.err, "nothing said about events on CPUs: %s", run)
    equal({frames[0].rpartition("-")[2] for frames, _ in stacks}, {str(target.pid)}, "processes")
    if harness.can_fifo():
        all_right(verdict, run, share=0.2)
        mostly_exact(run)


@each(capture=["preempt", "async"])
@one_python
@not_quick
def test_events_on_cpus_keep_to_the_named_threads(py, capture):
    need_few()
    if capture == "preempt":
        need_fifo()
    target = Target(py, "groundtruth.py", "--us", 10, "--threads", 60)
    tids = harness.tasks(target.pid)[5:55]
    run, verdict, stacks = exact(target, "-F", 1999, "--capture", capture, "--threads", "-t", ",".join(map(str, tids)),
                                  seconds=3, preexec_fn=few_descriptors)
    check("are opened on CPUs instead" in run.err, "nothing said about events on CPUs: %s", run)
    seen = {int(frames[0].rpartition("-")[2]) for frames, _ in stacks}
    check(seen <= set(tids), "threads %s, wanted %s", seen, tids)
    check(verdict.right == verdict.judged, "wrong stacks among those marked exact: %s", verdict)
    enough(len(seen) > 25, "only %d of 50 threads were seen: %s", len(seen), run)
    enough(verdict.judged >= 30, "only %d could be judged: %s", verdict.judged, run)
    if capture == "preempt":
        all_right(verdict, run, share=0.02)
        mostly_exact(run)


@each(follow=["--follow", "--no-follow"])
@one_python
def test_events_on_cpus_follow_children(py, follow):
    need_few()
    many = Target(py, "groundtruth.py", "--us", 10, "--threads", 50)
    parent = Target(py, "family.py", "fork")
    home = harness.folder(0o777)
    recorder = Recorder("-p", "%d,%d" % (parent.pid, many.pid), "-F", 999, follow, "-o", "a.folded", "-o", "a.data",
                        home=home, preexec_fn=few_descriptors).attached()
    harness.works(parent.pid, 0.3)
    parent.say("go")
    children = [int(pid) for pid in parent.line("CHILDREN").split()]
    harness.all_work(children)
    run = recorder.signal(signal.SIGINT).wait(15).ok()
    check("are opened on CPUs instead" in run.err, "nothing said about events on CPUs: %s", run)
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    harness.same_counts(run, stacks)
    equal(harness.perf_samples(os.path.join(home, "a.data"), home), run.n("samples"), "samples in perf script")
    ours = {str(pid) for pid in [parent.pid, many.pid] + (children if follow == "--follow" else [])}
    equal({frames[0].rpartition("-")[2] for frames, _ in stacks}, ours, "processes")
    script, _ = harness.perf("script", "-i", os.path.join(home, "a.data"), "--show-task-events", "-F", "pid", home=home)
    equal([str(pid) in script for pid in children], [follow == "--follow"] * 2, "children in the task events")
    for pid in children if follow == "--follow" else []:
        names = {q for frames, _ in harness.of_pid(stacks, pid) for q, _, _ in harness.python_frames(frames)}
        check("in_child" in names, "no Python stack of child %d: %s", pid, names)


def test_too_few_descriptors_are_refused_with_the_numbers():
    harness.need_root()  # to become somebody else
    harness.need_events_for_all()
    target = Target(harness.debian_python(), "groundtruth.py", "--us", 10, "--threads", 50, user=harness.NOBODY)

    def nobody():
        few_descriptors()
        harness.as_nobody()

    run = harness.pysampled("-p", target.pid, "-d", 1, "-o", "x.folded", preexec_fn=nobody)
    equal(run.rc, 1, "exit status of %s" % run)
    for word in ("50 threads x", "'ulimit -n' allows %d" % FEW, "CAP_PERFMON"):
        check(word in run.err, "no %r in: %s", word, run.err)


@each(where=["cpus", "threads"])
@one_python
def test_threads_keep_the_names_they_had(py, where):
    """They slept when the recording began, and have ended when it ends."""
    need_fifo()
    harness.need_root()
    target = Target(py, "named.py")
    home = harness.folder()
    recorder = Recorder("-p", target.pid, "-e", "cpu-clock", "-F", 999, "--events-on", where, "--threads", "-o", "out.folded",
                        home=home).recording()
    target.say("go")
    run = recorder.wait(15).ok()
    stacks = harness.read_folded(os.path.join(home, "out.folded"))
    roots = {frames[0].rpartition("/")[2].rpartition("-")[0] for frames, _ in stacks}
    check({"at first", "to the last"} <= roots, "threads are called %s: %s", roots, run)
