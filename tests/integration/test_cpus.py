"""Where the readers run: only on the CPUs of the target, also those that come later; and what is late is said to be."""
import os
import re
import resource
import signal
import time

import harness
import tolerances
from harness import NOBODY, Recorder, Target, all_right, check, each, enough, equal, judge, need_fifo, need_root, one_python
from machine import be_urgent, cgroup, few_descriptors, need_few, need_rt_cgroups, need_two_cpus, one_cpu_less, ours

RLIMIT_RTTIME = 15  # linux/resource.h
CAP_SYS_RESOURCE = 24  # linux/capability.h


def pin(target, cpus):
    harness.of_tasks(target.pid, lambda tid: os.sched_setaffinity(tid, cpus))


def rings_and_readers(recorder):
    """CPUs that have a ring mapped, and the pinned threads."""
    with open("/proc/%d/maps" % recorder.pid) as file:
        rings = sum("perf_event" in line for line in file)
    return rings, harness.of_tasks(recorder.pid, lambda tid: len(os.sched_getaffinity(tid))).count(1)


def finish(recorder, target, out):
    """The run, and the verdict on what is neither late nor torn."""
    run = recorder.wait().ok()
    stacks = harness.read_folded(out)
    harness.same_counts(run, stacks)
    verdict = judge(harness.sure(stacks), target.info["truth"])
    check(verdict.right == verdict.judged, "wrong stacks among those marked exact: %s", verdict)
    return run, verdict


def begin(target, *args, **options):
    out = os.path.join(harness.folder(), "out.folded")
    return Recorder("-p", target.pid, "-F", 999, "-v", "-o", out, "-o", out + ".data", *args, **options), out


def sure_on(cpu, after, recorder, out):
    """How many samples of a CPU that are later than a moment are neither late nor torn."""
    script, _ = harness.perf("script", "-i", out + ".data", "-F", "cpu,time,ip,sym", home=recorder.home)
    found = [(re.match(r"\s*\[(\d+)\]\s+([\d.]+):", sample), sample) for sample in script.split("\n\n")]
    return sum(int(match[1]) == cpu and float(match[2]) > after for match, sample in found
               if match and "[late]" not in sample and "[torn]" not in sample)


def record(target, **options):
    recorder, out = begin(target, "-d", 2, "--hold-budget", 100, **options)
    return finish(recorder, target, out)


def exact_share(run, least=tolerances.EXACT):
    enough(run.n("samples") > 100, "too few samples: %s", run)
    enough(run.n("exact") >= least * (run.n("samples") - 2), "less than %g exact: %s", least, run)


@one_python
def test_a_pinned_target_needs_one_reader(py):
    need_two_cpus()
    need_fifo()
    target = Target(py, "groundtruth.py", "--us", 10, cpus={ours()[0]})
    recorder, out = begin(target)
    recorder.attached()
    harness.until(lambda: rings_and_readers(recorder) == (1, 1), "one ring, one reader")
    alone = recorder.events()
    # A CPU that it may run on later is watched from then on, and the time before is owned up to.
    pin(target, {ours()[1]})
    harness.until(lambda: rings_and_readers(recorder) == (2, 2), "a second ring and reader")
    harness.until(lambda: recorder.events() == 2 * alone, "events on the second CPU")
    harness.until(lambda: "what ran there in the" in recorder.text(1), "a word of it, after the events are there")
    moved = time.monotonic()
    harness.works(target.pid, 1)
    recorder.signal(signal.SIGINT)
    run, verdict = finish(recorder, target, out)
    enough(sure_on(ours()[1], moved, recorder, out) > 500, "too few on the second CPU: %s", run)
    all_right(verdict, run)


@one_python
def test_threads_are_followed_onto_a_cpu_that_comes_later(py):
    need_two_cpus()
    need_fifo()
    target = Target(py, "churn.py", cpus={ours()[0]})
    recorder, out = begin(target, "--hold-budget", 100)
    recorder.attached()
    pin(target, set(ours()[:2]))
    harness.until(lambda: "watched from here on" in recorder.text(1), "a second CPU is watched")
    moved = time.monotonic()
    harness.works(target.pid, 1)
    recorder.signal(signal.SIGINT)
    run, verdict = finish(recorder, target, out)
    enough(sure_on(ours()[1], moved, recorder, out) > 100, "too few on the second CPU: %s", run)
    all_right(verdict, run)


@one_python
def test_a_cpu_that_goes_and_comes_back(py):
    need_two_cpus()
    need_fifo()
    target = Target(py, "groundtruth.py", "--us", 10, "--threads", 2)
    recorder, out = begin(target, "--hold-budget", 100)
    recorder.attached()
    time.sleep(0.5)
    with one_cpu_less():
        time.sleep(1.2)  # its reader wakes up once a second: elsewhere
    # Its events count again, and its reader goes back to it.
    pin(target, {1})
    harness.until(lambda: rings_and_readers(recorder) == (2, 2), "both readers are pinned")
    back = time.monotonic()
    harness.works(target.pid, 1)
    recorder.signal(signal.SIGINT)
    run, verdict = finish(recorder, target, out)
    enough(sure_on(1, back, recorder, out) > 500, "too few on the CPU that came back: %s", run)
    exact_share(run, tolerances.EXACT_BESIDE)
    all_right(verdict, run)


def samples_on(cpu, home):
    out, _ = harness.perf("script", "-i", os.path.join(home, "a.data"), "-F", "cpu", home=home)
    return sum(line.strip(" []\n") == "%03d" % cpu for line in out.splitlines())


@one_python
def test_events_on_a_cpu_that_goes_are_opened_again(py):
    """Those that see all of a CPU end with it, however short it is away."""
    need_two_cpus()
    need_few()
    need_fifo()
    target = Target(py, "groundtruth.py", "--us", 10, "--idle", 50)
    os.sched_setaffinity(target.pid, {0})
    recorder, out = begin(target, "-o", "a.data", "--hold-budget", 100, preexec_fn=few_descriptors)
    recorder.attached()
    with one_cpu_less():
        pass
    os.sched_setaffinity(target.pid, {1})
    harness.until(lambda: "may run on CPU 1 now: watched" in recorder.text(1), "CPU 1 is watched again")
    harness.works(target.pid)
    recorder.signal(signal.SIGINT)
    run, verdict = finish(recorder, target, out)
    check("are opened on CPUs instead" in run.err, "events on threads: %s", run)
    enough(samples_on(1, recorder.home) > 100, "no samples on CPU 1: %s", run)
    all_right(verdict, run)


BIRTHS_LATER = """
import sys, threading, time
def work():
    end = time.thread_time() + 0.0005
    while time.thread_time() < end:
        pass
print("READY", flush=True)
sys.stdin.readline()
while True:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""


@one_python
def test_events_go_over_to_cpus_while_one_is_offline(py):
    """Those of the CPU that is away are opened as it comes back."""
    need_two_cpus()
    need_fifo()
    script = os.path.join(harness.folder(), "births.py")
    harness.write(script, BIRTHS_LATER)
    target = Target(py, script)
    if "events on threads at first" not in begin(target, "-d", 0.1)[0].wait().ok().err:
        raise harness.Skip("events on threads do not go over here")
    recorder, out = begin(target, "--hold-budget", 100)
    recorder.recording()
    with one_cpu_less():
        target.say("go")
        harness.until(lambda: re.search("events (stay on threads|count on CPUs)", recorder.text(1)), "events go over")
    check("from now on events count on CPUs" in recorder.text(1), "they do not: %s", recorder.text(1))
    pin(target, {1})
    harness.until(lambda: "may run on CPU 1 now: watched" in recorder.text(1), "CPU 1 is watched again")
    back = time.monotonic()
    harness.works(target.pid, 0.5)
    recorder.signal(signal.SIGINT)
    run = recorder.wait().ok()
    enough(sure_on(1, back, recorder, out) > 50, "too few on the CPU that came back: %s", run)


@each(mode=["cpu", "wall"])
@one_python
def test_a_module_takes_no_cpu_away(py, mode):
    """It wants to be told of CPUs that go: their hotplug threads run. A table tells what those do; of waits there is none."""
    need_fifo()
    harness.need_command("modprobe")
    if any(os.system("modprobe %s msr 2>/dev/null" % flag) for flag in ("", "-r", "")):
        raise harness.Skip("no module 'msr' can be loaded and unloaded here")
    target = Target(py, "groundtruth.py", "--us", 10)
    recorder = Recorder("-a", "--mode", mode, "-d", 4, "-v", "-o", "a.folded", home=harness.folder()).recording()
    time.sleep(0.5)
    check(not os.system("modprobe -r msr && modprobe msr"), "msr can't be loaded any more")
    run = recorder.wait().ok()
    check("watched from here on" not in run.err, "events were opened anew: %s", run)
    if mode == "cpu":
        equal(run.counter("late_unwatched"), 0, "samples that are late for it: %s" % run)
    harness.end(target.process)


@one_python
def test_a_cpu_that_comes_online(py):
    need_two_cpus()
    need_fifo()
    target = Target(py, "groundtruth.py", "--us", 10, "--threads", 2)
    with one_cpu_less():
        recorder, out = begin(target)
        recorder.attached()
        harness.until(lambda: rings_and_readers(recorder)[0] == 1, "one ring")
    harness.until(lambda: rings_and_readers(recorder) == (2, 2), "a second ring and reader")
    came = time.monotonic()
    pin(target, {1})
    harness.works(target.pid, 1)
    recorder.signal(signal.SIGINT)
    run, verdict = finish(recorder, target, out)
    enough(sure_on(1, came, recorder, out) > 500, "too few on the CPU that came: %s", run)
    all_right(verdict, run)


@each(how=["taskset", "offline"])
@one_python
def test_one_cpu_for_all(py, how):
    need_fifo()
    target = Target(py, "groundtruth.py", "--us", 10)
    cpu = str(ours()[0])
    if how == "taskset":
        pin(target, {int(cpu)})
        run, verdict = record(target, wrapper=["taskset", "-c", cpu])
    else:
        need_two_cpus()
        with one_cpu_less():
            run, verdict = record(target)
    exact_share(run)
    all_right(verdict, run)


@one_python
def test_a_cpuset_of_ours_that_is_smaller(py):
    need_two_cpus()
    need_fifo()
    _, inside = cgroup("cpuset", mems="0", cpus=str(ours()[0]))
    target = Target(py, "groundtruth.py", "--us", 10)
    run, _ = record(target, wrapper=inside)
    equal(run.summary["capture"], "preempt", "capture")
    check("samples on CPU %d are late" % ours()[1] in run.err, "no word about the other CPU: %s", run)
    pin(target, {ours()[1]})
    run, _ = record(target, wrapper=inside)
    equal(run.summary["capture"], "async", "capture, where no CPU of the target's is ours")
    check("may not run on CPU %d" % ours()[1] in run.err, "no reason: %s", run)


def urgent(recorder):
    return harness.of_tasks(recorder.pid, lambda tid: os.sched_getscheduler(tid) & 0xff).count(os.SCHED_FIFO)


@one_python
def test_a_cpuset_of_ours_that_shrinks_and_grows(py):
    """The kernel takes a reader off its CPU and back, which makes it no more urgent: it has to do that itself."""
    need_two_cpus()
    need_fifo()
    path, inside = cgroup("cpuset", mems="0", cpus="0-1")
    target = Target(py, "groundtruth.py", "--us", 10, "--threads", 2)
    recorder, out = begin(target, "--hold-budget", 100, wrapper=inside)
    recorder.attached()
    harness.until(lambda: urgent(recorder) == 2, "two readers")
    harness.write(os.path.join(path, "cpuset.cpus"), "0")
    harness.until(lambda: urgent(recorder) == 1, "a reader that has noticed")
    harness.write(os.path.join(path, "cpuset.cpus"), "0-1")
    harness.until(lambda: urgent(recorder) == 2, "a reader that is back")
    pin(target, {1})
    back = time.monotonic()
    harness.works(target.pid, 1)
    recorder.signal(signal.SIGINT)
    run, verdict = finish(recorder, target, out)
    enough(sure_on(1, back, recorder, out) > 500, "too few on the CPU that is back: %s", run)
    all_right(verdict, run)


@one_python
def test_a_taskset_of_ours_that_is_smaller(py):
    need_fifo()
    target = Target(py, "groundtruth.py", "--us", 10)
    run, verdict = record(target, wrapper=["taskset", "-c", str(ours()[0])])
    exact_share(run)
    all_right(verdict, run)


@one_python
def test_a_real_time_thread_is_named_where_it_makes_samples_late(py):
    """Held on one CPU it goes on on the other one; where it may not, or is stopped, nothing is late or said."""
    need_two_cpus()
    need_fifo()
    target = Target(py, "groundtruth.py", "--us", 10)
    harness.of_tasks(target.pid, lambda tid: os.sched_setscheduler(tid, os.SCHED_RR, os.sched_param(1)))
    said = "thread %d has real-time priority" % target.pid
    recorder, out = begin(target, "-d", 2, "--hold-budget", 100)
    run, _ = finish(recorder, target, out)
    enough(run.n("late") > max(20, run.n("samples") * 0.02), "few samples were late: %s", run)
    check(said in run.err, "the thread is not named: %s", run)
    pin(target, {ours()[1]})
    for options in (), ("--capture", "stop"):
        recorder, out = begin(target, "-d", 2, "--hold-budget", 100, *options)
        run, _ = finish(recorder, target, out)
        exact_share(run)
        check(said not in run.err, "said of a recording that is exact: %s", run)


@one_python
def test_a_cgroup_without_real_time_is_named(py):
    need_rt_cgroups()
    path, inside = cgroup("cpu", rt_runtime_us="0")
    target = Target(py, "groundtruth.py", "--us", 10)
    run, _ = record(target, wrapper=inside)
    check(run.summary["capture"] != "preempt", "SCHED_FIFO without a budget? %s", run)
    check(path + "/cpu.rt_runtime_us" in run.err, "the file is not named: %s", run)
    refused = harness.pysampled("-p", target.pid, "-d", 1, "--capture", "preempt", wrapper=inside).ok(4)
    check(path + "/cpu.rt_runtime_us" in refused.err, "the file is not named: %s", refused)


@one_python
def test_a_used_up_budget_makes_samples_late_and_is_named(py):
    """Readers get 1 ms of a second: what waits for them is late, nothing that is exact is wrong, nobody is given up."""
    need_rt_cgroups()
    path, inside = cgroup("cpu", rt_runtime_us="1000")
    target = Target(py, "groundtruth.py", "--us", 10)
    for _ in range(2):
        run, _ = record(target, wrapper=inside)
        check(run.n("late") > 0, "nothing is late: %s", run)
        check("stuck_reads" not in run.err, "a reader without a CPU was taken for a hanging one: %s", run)
        check(path + "/cpu.rt_runtime_us is 1000" in run.err, "the budget is not named: %s", run)
        most = run.n("late") > max(100, run.n("samples") // 2)
        said = "%(late)s of %(samples)s samples are late, most because " % run.summary in run.err
        check(said == most, "why they are late: %s", run)
    return "%(late)s of %(samples)s late" % run.summary


@one_python
def test_a_real_time_target_is_preempted(py):
    need_two_cpus()  # the other one is for us
    target = Target(py, "groundtruth.py", "--us", 10, cpus={ours()[-1]})
    be_urgent(target, 10)
    run, verdict = record(target)
    exact_share(run)
    all_right(verdict, run)


@one_python
def test_nothing_is_above_priority_99(py):
    """A target that sleeps: a busy one of this priority would hold up the whole machine."""
    target = Target(py, "threads.py", os.devnull)
    be_urgent(target, 99)
    run = harness.pysampled("-p", target.pid, "-d", 1, "-o", "a.data").ok()
    check(run.summary["capture"] != "preempt", "a reader that waits for the target holds nobody: %s", run)
    check("real-time priority 99" in run.err, "not a word: %s", run)


@one_python
def test_a_deadline_target(py):
    need_root()
    need_fifo()
    chrt = harness.need_command("chrt")
    target = Target(py, "groundtruth.py", "--us", 10)
    made = harness.subprocess.run([chrt, "-d", "-T", "2000000", "-P", "10000000", "-D", "10000000", "-p", "0",
                                   str(target.pid)])
    if made.returncode:
        raise harness.Skip("no SCHED_DEADLINE here")
    run, _ = record(target)
    check("SCHED_DEADLINE" in run.err, "not a word: %s", run)


def with_rtprio():
    """'ulimit -r 1'; and a soft RLIMIT_RTTIME, which would mean SIGXCPU, is no hindrance."""
    resource.setrlimit(resource.RLIMIT_RTPRIO, (1, 1))
    resource.setrlimit(RLIMIT_RTTIME, (1, resource.getrlimit(RLIMIT_RTTIME)[1]))
    harness.as_nobody()


@each(right=["rtprio", "sys_nice"])
def test_an_ordinary_user_may_be_let_preempt(right):
    need_root()
    harness.need_events_for_all()
    need_fifo()
    options = {"preexec_fn": with_rtprio}
    if right == "sys_nice":
        setpriv = harness.need_command("setpriv")
        options = {"wrapper": [setpriv, "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, "--clear-groups",
                               "--inh-caps=+sys_nice", "--ambient-caps=+sys_nice"]}
    elif not int(harness.status(os.getpid())["CapEff"], 16) >> CAP_SYS_RESOURCE & 1:
        raise harness.Skip("RLIMIT_RTPRIO can't be raised without CAP_SYS_RESOURCE")
    target = Target(harness.debian_python(), "groundtruth.py", "--us", 50, user=NOBODY)
    binary, home = harness.for_nobody()
    run = harness.pysampled("-p", target.pid, "-F", 499, "-d", 2, "-o", "a.folded", binary=binary, home=home,
                            **options).ok()
    equal(run.summary["capture"], "preempt", "capture")
    # Nothing is counted in the kernel for such a user: exact is only who was held within 40 us, and on a busy virtual machine
    # that are not many.
    exact_share(run, tolerances.EXACT_BUDGET)
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    all_right(judge(harness.sure(stacks), target.info["truth"]), run)


# ---- hybrid CPUs ------------------------------------------------------------------------------------------------------

RENAMES = """
import ctypes, os, sys, time
prctl = ctypes.CDLL(None).prctl
print("READY", flush=True)
sys.stdin.readline()
os.sched_setaffinity(0, {1})
prctl(15, b"elsewhere")
os.sched_setaffinity(0, {0})
prctl(15, b"here")
print("DONE", flush=True)
while True:
    time.sleep(1)
"""


def test_what_happens_on_the_other_kind_of_core_is_told():
    """A machine that says it has a kind of core, CPU 0; and a user who may not have the kernel's switches counted, which would tell."""
    need_root()
    need_two_cpus()
    harness.need_events_for_all()
    harness.change("/proc/sys/kernel/perf_event_paranoid", "2")
    setpriv, devices = harness.need_command("setpriv"), harness.folder()
    harness.need_command("unshare")
    os.makedirs(os.path.join(devices, "cpu_core", "events"))
    for name, text in ("type", "1"), ("cpus", "0"), ("events/clock", "config=0"):
        harness.write(os.path.join(devices, "cpu_core", name), text + "\n")
    script = os.path.join(harness.folder(), "renames.py")
    harness.write(script, RENAMES)
    target = Target(harness.debian_python(), script, user=NOBODY)
    binary, home = harness.for_nobody()
    command = 'mount --bind "$0" /sys/bus/event_source/devices && exec %s --reuid=%d --regid=%d --clear-groups "$@"'
    recorder = Recorder("-p", target.pid, "-e", "cpu_core/clock/", "--capture", "async", "-o", "a.data", binary=binary, home=home,
                        wrapper=("unshare", "-m", "sh", "-c", command % (setpriv, NOBODY, NOBODY), devices)).attached()
    target.say("go")
    target.line("DONE")
    recorder.signal(signal.SIGINT).wait().ok()
    out, _ = harness.perf("script", "-i", os.path.join(home, "a.data"), "-f", "--show-task-events", home=home)
    names = re.findall(r"PERF_RECORD_COMM[^:]*: (\w+):%d/" % target.pid, out)
    check({"elsewhere", "here"} <= set(names), "the thread had one name on CPU 1, and another one on CPU 0:\n%s", out)


# ---- isolated CPUs ----------------------------------------------------------------------------------------------------

def isolated(recorder_args, target, cpus):
    """A recording on a machine that says it keeps CPUs free, to this process alone."""
    harness.need_command("unshare")
    says = os.path.join(harness.folder(), "isolated")
    harness.write(says, cpus + "\n")
    command = 'mount --bind "$0" /sys/devices/system/cpu/isolated && exec "$@"'
    recorder = Recorder("-p", target.pid, "-F", 999, "-d", 1, "-o", "out.folded", *recorder_args,
                        wrapper=("unshare", "-m", "sh", "-c", command, says)).recording()
    fifo = harness.of_tasks(recorder.pid, os.sched_getscheduler).count(os.SCHED_FIFO | os.SCHED_RESET_ON_FORK)
    return fifo, recorder.wait().ok()


@one_python
def test_no_fifo_reader_goes_to_an_isolated_cpu_unasked(py):
    need_root()
    need_fifo()
    need_two_cpus()
    cpus = sorted(os.sched_getaffinity(0))[:2]
    target = Target(py, "groundtruth.py", cpus=set(cpus))
    pin(target, cpus)
    fifo, run = isolated((), target, str(cpus[1]))
    equal(fifo, 1, "readers that are SCHED_FIFO")
    check("samples on CPU %d are late, for it is isolated" % cpus[1] in run.err, "not a word of it: %s", run)
    fifo, run = isolated(("--hold-isolated",), target, str(cpus[1]))
    equal(fifo, 2, "readers that are SCHED_FIFO where that is asked for")
    check("isolated" not in run.err, "held, but: %s", run)
    fifo, run = isolated((), target, "%d-%d" % tuple(cpus))
    equal(fifo, 0, "readers that are SCHED_FIFO with isolated CPUs only")
    check("--hold-isolated" in run.err and "capture=preempt" not in run.err, "held all the same: %s", run)
    harness.pysampled("-p", target.pid, "-d", 1, "-o", "b.folded").ok()
