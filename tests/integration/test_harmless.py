"""Whatever happens to pysampled, the target runs on, and nothing was ever written into it."""
import os
import random
import re
import shutil
import signal
import struct

import harness
import tolerances
from harness import Recorder, Target, check, each, each_python, enough, equal, one_python


ALL_FAULTS = os.environ.get("PYSAMPLED_FAULTS") == "all"  # set by tools/test --faults


def untouched(target, path):
    """The target goes on, is traced by nobody, and has no signal pending in any thread."""
    before = harness.progress(path)
    harness.until(lambda: harness.progress(path) > before, "the target goes on")
    equal(harness.left(target.pid), "", "what is left of pysampled")


@harness.beside
@each(capture=["preempt", "async"])
@one_python
def test_a_handler_is_never_called_for_us(py, capture):
    """Whatever ends pysampled: the target's own signal is the first that its handler sees."""
    if capture == "preempt":
        harness.need_fifo()
    target = Target(py, "signals.py", "handled", "SIGURG", "SIGWINCH", "SIGIO")
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        recorder = Recorder("-p", target.pid, "-F", 5000, "--capture", capture, "-o", "a.data").attached()
        harness.works(target.pid, 0.3)
        recorder.signal(number).process.wait()
    target.process.send_signal(signal.SIGUSR1)
    equal(int(target.line("GOT")), signal.SIGUSR1, "the first signal handled")


DATA_SIZE_AT = 48  # in the header of perf.data


def records(path):
    """Bytes of records that a perf.data says it has; 0: none yet, as in the first 70 ms."""
    if not os.path.exists(path) or os.path.getsize(path) < DATA_SIZE_AT + 8:
        return 0
    with open(path, "rb") as file:
        return struct.unpack_from("=Q", file.read(DATA_SIZE_AT + 8), DATA_SIZE_AT)[0]


@harness.beside
@harness.dealt
@each(capture=["preempt", "stop", "async"])
@each_python
@harness.seconds(600 if ALL_FAULTS else 120)
def test_sigkill_of_pysampled_leaves_the_target_running(py, capture):
    if capture == "preempt":
        harness.need_fifo()
    home = harness.folder()
    path = os.path.join(home, "progress")
    target = Target(py, "groundtruth.py", "--us", 10, "--threads", 3, "--progress", path)
    policies = harness.of_tasks(target.pid, os.sched_getscheduler)
    chance, samples = random.Random(3), 0
    if ALL_FAULTS:
        harness.keep_busy()
    data = os.path.join(home, "a.data")
    for i in range(30 if ALL_FAULTS else 13):
        rate = chance.choice([1000, 5000])
        if os.path.exists(data):
            os.unlink(data)
        recorder = Recorder("-p", target.pid, "-F", rate, "--capture", capture, "-o", "a.data", home=home)
        if i % 3 == 0:
            first = harness.until(lambda: records(data), "it has written what is mapped")
            harness.until(lambda: records(data) > first, "it has written samples")
        try:
            recorder.process.wait(chance.uniform(0.01, 0.3))
            raise AssertionError("pysampled ended by itself: %s" % recorder.wait())
        except harness.subprocess.TimeoutExpired:
            pass
        recorder.signal(signal.SIGKILL)
        recorder.process.wait()
        untouched(target, path)
        equal(harness.of_tasks(target.pid, os.sched_getscheduler), policies, "how its threads are scheduled")
        samples += harness.perf_samples(data, home) if records(data) else 0
    left = [name for name in os.listdir(home) if not name.startswith(("a.data", "progress", ".debug"))]
    equal(left, [], "files left behind")
    enough(samples > 0, "no killed recording had come to a sample")
    return "%d samples left" % samples


@one_python
def test_an_ordinary_end_leaves_no_file_but_the_outputs(py):
    home = harness.folder(0o777)
    target = Target(py, "groundtruth.py", "--us", 10)
    before = set(os.listdir("/tmp"))
    harness.pysampled("-p", target.pid, "-d", 1, "-o", "a.data", home=home).ok()
    names = {n for n in os.listdir(home) if not n.startswith("a.data")}
    check(names <= {".debug"}, "files left behind: %s", names)
    new = {n for n in set(os.listdir("/tmp")) - before if "pysampled" in n and not n.startswith("pysampled-test-")}
    equal(new, set(), "files in /tmp")


def traced(py, *args, script="groundtruth.py"):
    """The system calls of a whole record, as strace saw them."""
    strace = harness.need_command("strace")
    target = Target(py, script, "--us", 50)
    home = harness.folder()
    calls = "ptrace,process_vm_writev,open,openat,openat2,creat,kill,tkill,tgkill,rt_sigqueueinfo,pidfd_send_signal"
    wrapper = [strace, "-f", "-y", "-o", os.path.join(home, "calls"), "-e", "trace=" + calls]
    run = harness.pysampled("-p", target.pid, "-d", 2, "-F", 499, "-o", "a.data", "-o", "a.folded", *args,
                            home=home, wrapper=wrapper).ok()
    enough(run.n("samples") > 100, "too few samples to judge: %s", run)
    with open(os.path.join(home, "calls")) as file:
        return target, file.read().splitlines()


@harness.beside
@each(capture=["auto", "async"])
@one_python
def test_a_whole_record_under_strace_only_reads(py, capture):
    target, calls = traced(py, "--capture", capture)
    check(any("/proc/%d/" % target.pid in c for c in calls), "strace saw no open of /proc/PID")
    for call in calls:
        check(not re.search(r"\b(ptrace|process_vm_writev)\(", call), "it calls %s", call)
        if "/proc/%d" % target.pid in call and re.search(r"\b(open|openat|openat2|creat)\(", call):
            check(not re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|creat\(", call), "it opens for writing: %s", call)
        if re.search(r"\b(kill|tkill|tgkill|rt_sigqueueinfo|pidfd_send_signal)\(", call):
            check(not re.search(r"\b(%s)\b" % "|".join(map(str, [target.pid] + harness.tasks(target.pid))), call)
                  or re.search(r", 0\)", call), "it signals the target: %s", call)


@harness.beside
@one_python
def test_seccomp_stands_in_every_thread(py):
    target = Target(py, "groundtruth.py", "--us", 50)
    recorder = Recorder("-p", target.pid, "-F", 499, "-o", "a.data").attached()
    for seen in harness.of_tasks(recorder.pid, lambda tid: harness.status(recorder.pid, tid)):
        equal(seen["Seccomp"], "2", "Seccomp of thread %s" % seen["Pid"])
    recorder.signal(signal.SIGINT).wait().ok()


@each(sigurg=["handled", "ignored"])
@one_python
def test_sleeps_of_the_target_are_whole(py, sigurg):
    """Sleeps of a target under a 1 kHz recording end neither early nor by EINTR."""
    target = Target(py, "sleeper.py", sigurg)
    recorder = Recorder("-p", target.pid, "-F", 1000, "-o", "a.data").attached()
    target.say("go")
    said = target.line("SLEPT")
    recorder.signal(signal.SIGINT).wait().ok()
    equal(said, "200 early=0 interrupted=0 handled=0", "sleeps")


@one_python
def test_a_switch_sends_no_signal(py):
    """An event that sends signals sends one for each half of the ring that fills, whatever record of its own fills it."""
    times = 20000
    target = Target(py, "blocking.py", "ignored", "sigtimedwait", times, 300000)
    recorder = Recorder("-p", target.pid, "-F", 99, "--capture", "stop", "--no-native", "--memory", "3M",
                        "-o", "a.folded").attached()
    target.say("go")
    said = target.line("BLOCKED", 60)
    run = recorder.signal(signal.SIGINT).wait().ok()
    equal(said, "1 calls of %d times: interrupted {}, handled 0" % times, "calls")
    enough(run.n("samples") > 5, "too few samples to judge: %s", run)


@harness.dealt
@each(capture=["preempt", "stop", "async"])
@each(sigurg=["handled", "ignored"])
@one_python
@harness.not_quick
@harness.seconds(90)
def test_no_blocking_call_is_interrupted(py, capture, sigurg):
    if capture == "preempt":
        harness.need_fifo()
    target = Target(py, "blocking.py", sigurg)
    recorder = Recorder("-p", target.pid, "-F", 10000, "--capture", capture, "--hold-budget", 100, "-o",
                        "a.folded").attached()
    target.say("go")
    said = target.line("BLOCKED", 60)
    run = recorder.signal(signal.SIGINT).wait().ok()
    # Held or stopped it was, and not only at work: just before the calls, in them and just after.
    stacks = harness.of_pid(harness.read_folded(os.path.join(recorder.home, "a.folded")), target.pid)
    if capture != "async":
        stacks = harness.sure(stacks)
    in_calls = [(f, n) for f, n in stacks if not harness.user_frames(f)[-1].startswith("spin_")]
    equal(said, "13 calls of 300 times: interrupted {}, handled 0", "calls")
    enough(run.n("samples") > 1000 and (capture == "async" or run.n("exact") > tolerances.EXACT_CHILDREN * run.n("samples")),
           "too few samples to judge: %s", run)
    enough(harness.total(in_calls) > 100, "only %d samples outside the work: %s", harness.total(in_calls), run)


def has_open(recorder, path):
    def of_one(pid):
        for fd in os.listdir("/proc/%d/fd" % pid):
            try:
                if os.readlink("/proc/%d/fd/%s" % (pid, fd)) == path:
                    return True
            except FileNotFoundError:
                pass
        return False
    return any(of_one(pid) for pid in harness.children(recorder.pid))


@harness.beside
@one_python
def test_files_of_who_has_ended_are_closed(py):
    """Their file system could not be unmounted else, and what no stack asks for stays open until one does."""
    harness.need_root()
    library = os.path.join(harness.folder(), "library.so")
    shutil.copy(os.path.join(harness.extension(py, "gtspin"), harness.module_file(py, "gtspin")), library)
    target = Target(py, "borrows.py")
    recorder = Recorder("-p", target.pid, "-F", 99, "-o", "a.folded").attached()
    target.say(library)
    target.line("MAPPED")
    harness.until(lambda: has_open(recorder, library), "its file is open")
    target.say("end")
    target.line("ENDED")
    harness.until(lambda: not has_open(recorder, library), "its file is closed")
    recorder.signal(signal.SIGINT).wait().ok()
