"""--capture stop: exact without SCHED_FIFO, and everything that ptrace could do to a target is not done."""
import ctypes
import json
import os
import re
import signal
import subprocess
import time

import harness
import machine
import tolerances
from harness import Recorder, Target, all_right, check, each, each_python, enough, equal, exact, not_quick, one_python, \
    readable, works

BESIDE = True

STOP = ("--capture", "stop")
SI_QUEUE = -1  # asm-generic/siginfo.h


def recorder(target, *args, rate=999):
    return Recorder("-p", target.pid, "-F", rate, *STOP, "-o", "a.data", "-o", "a.folded", *args).attached()


def is_exact(run, share=tolerances.EXACT):
    equal(run.summary["capture"], "stop", "capture")
    enough(run.n("exact") >= share * run.n("samples"), "too few are exact: %s", run)


@harness.dealt
@each(us=[2, 100])
@each(rate=[999, 9999])
@each_python
@not_quick
def test_stop_is_always_right(py, rate, us):
    target = Target(py, "groundtruth.py", "--us", us)
    run, verdict, _ = exact(target, "-F", rate, *STOP, seconds=1)
    all_right(verdict, run)
    is_exact(run)


@harness.dealt
@each(script=["groundtruth.py --us 100 --threads 8", "mixed.py --us 20", "churn.py", "execreuse.py --us 100"])
@each_python
def test_stop_is_right_for(py, script):
    target = Target(py, *script.split())
    run, verdict, _ = exact(target, "-F", 999, *STOP, seconds=1)
    check("unattached=" not in run.err, "threads without events: %s", run)
    equal(harness.left(target.pid), "", "what is left of pysampled")
    all_right(verdict, run)
    is_exact(run, tolerances.EXACT_STOP)


@one_python
def test_events_are_told_apart_in_threads_that_come_later(py):
    target = Target(py, "churn.py")
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "-e", "page-faults,cpu-clock", "-c", 1000000, "-d", 2, *STOP, "-o",
                            "a.data", home=home).ok()
    out, _ = harness.perf("script", "-i", os.path.join(home, "a.data"), "-F", "event", home=home)
    seen = {event: out.count(event) for event in ("page-faults", "cpu-clock")}
    check(seen["page-faults"] == 0 and seen["cpu-clock"] == run.n("samples"), "events: %s of %s", seen, run)
    enough(run.n("samples") > 30, "too few samples: %s", run)


@harness.dealt
@each(follow=["--follow", "--no-follow"])
@each_python
def test_children_are_followed_unless_told_otherwise(py, follow):
    target = Target(py, "family.py", "fork")
    record = recorder(target, follow)
    works(target.pid)
    target.say("go")
    children = [int(pid) for pid in target.line("CHILDREN").split()]
    harness.all_work(children)
    for pid in children:
        equal(harness.status(pid)["TracerPid"] != "0", follow == "--follow", "child %d is traced" % pid)
    run = record.signal(signal.SIGINT).wait(15).ok()
    stacks = readable(run, record.home)
    for pid in children:
        equal(harness.status(pid)["TracerPid"], "0", "TracerPid of child %d afterwards" % pid)
        theirs = harness.of_pid(stacks, pid)
        check(follow == "--follow" or not theirs, "samples of child %d: %s", pid, run)
        enough(follow == "--no-follow" or harness.total(theirs) > 50, "too few samples of child %d: %s", pid, run)


CLONES = """
import ctypes, os, sys
print("READY {}", flush=True)
sys.stdin.readline()
parent = os.getpid()
pid = ctypes.CDLL(None).syscall({"x86_64": 56, "aarch64": 220}[os.uname().machine], 0, 0, 0, 0, 0)
if pid:
    print("CHILD", pid, flush=True)
while pid or os.getppid() == parent:
    pass
"""


@each(follow=["--follow", "--no-follow"])
@one_python
def test_a_child_that_tells_its_parent_nothing_is_no_thread(py, follow):
    """clone(2) without SIGCHLD."""
    path = os.path.join(harness.folder(), "clones.py")
    with open(path, "w") as file:
        file.write(CLONES)
    target = Target(py, path)
    record = recorder(target, follow)
    target.say("go")
    pid = int(target.line("CHILD"))
    works(pid)
    equal(harness.status(pid)["TracerPid"] != "0", follow == "--follow", "the child is traced")
    record.signal(signal.SIGINT).wait(15).ok()


THREADS_LATER = """
import sys, threading
print("READY {}", flush=True)
sys.stdin.readline()
def work():
    while True: pass
for i in range(50): threading.Thread(target=work, daemon=True).start()
print("STARTED", flush=True)
work()
"""


@one_python
def test_new_threads_for_which_descriptors_run_out_are_told(py):
    """It was silent: all that they did was missing. What could not be had, events or a look at the thread, is a matter of time."""
    path, few = os.path.join(harness.folder(), "later.py"), 64 + 8 * os.cpu_count()
    harness.write(path, THREADS_LATER)
    target = Target(py, path)
    record = Recorder("-p", target.pid, "-F", 999, *STOP, "-o", "a.folded", preexec_fn=lambda: machine.few_descriptors(few)).attached()
    target.say("go")
    target.line("STARTED")
    works(target.pid)
    run = record.signal(signal.SIGINT).wait(15).ok()
    told = [line for line in run.err.splitlines() if "some new threads or processes are not sampled: " in line]
    check(len(told) == 1 and "ulimit -n" in told[0], "told in: %s", run)


CANT_EXEC = """
import subprocess
for i in range(5):
    try: subprocess.run(["/nonexistent"])
    except OSError: pass
"""


@one_python
def test_a_program_that_can_not_be_started_is_none(py):
    home = harness.folder()
    harness.pysampled(*STOP, "-o", "a.data", "--", *py.command(), "-c", CANT_EXEC, home=home).ok()
    out, _ = harness.perf("script", "-i", os.path.join(home, "a.data"), "--show-task-events", home=home)
    equal(out.count("PERF_RECORD_COMM exec"), 1, "programs that began in:\n%s" % out)


STARTS = """
import subprocess, sys
work = 'def in_program():\\n for i in range(9000000): pass\\nin_program()'
for i in range(2): subprocess.run([sys.executable, '-c', work])
"""


@each_python
def test_programs_that_it_starts_are_followed(py):
    home = harness.folder()
    run = harness.pysampled(*STOP, "-F", 999, "-o", "a.data", "-o", "a.folded", "--", *py.command(), "-c", STARTS,
                            home=home).ok()
    pids = {frames[0] for frames, _ in readable(run, home) if "in_program (<string>:2)" in frames}
    equal(len(pids), 2, "programs with Python stacks: %s" % run)


@each_python
def test_an_exec_is_followed(py):
    target = Target(py, "family.py", "exec")
    record = recorder(target)
    works(target.pid)
    target.say("go")
    target.line("EXECED")
    works(target.pid, 1)
    run = record.signal(signal.SIGINT).wait(15).ok()
    names = {q for frames, _ in readable(run, record.home) for q, _, _ in harness.python_frames(frames)}
    enough({"before_exec", "after_exec"} <= names, "functions before and after the exec: %s", names)


EXEC_IN_THREAD = """
import os, sys, threading
work = 'x = 0\\nfor i in range(9000000): x += i\\nraise SystemExit(9)'
threading.Thread(target=lambda: os.execv(sys.executable, [sys.executable, '-c', work])).start()
threading.Event().wait()
"""


@one_python
def test_a_command_whose_other_thread_execs_keeps_its_status(py):
    home = harness.folder()
    run = harness.pysampled(*STOP, "-F", 999, "-o", "a.data", "-o", "a.folded", "--", *py.command(), "-c",
                            EXEC_IN_THREAD, home=home).ok(9)
    readable(run, home)
    enough(run.n("exact") > 100, "too few after the exec: %s", run)


@each(command=["exit 7", "kill -9 $$", "true & wait; exit 3"])
def test_a_command_ends_as_it_does_alone(command):
    want = {"exit 7": 7, "kill -9 $$": 137}.get(command, 3)
    harness.pysampled(*STOP, "-o", "a.data", "--", "sh", "-c", command).ok(want)


@one_python
def test_other_signals_arrive_in_order_and_once(py):
    target = Target(py, "signals.py")
    record = recorder(target, rate=4999)
    told = target.info["told"]
    for turn in range(300):
        target.process.send_signal(told[turn % len(told)])
        equal(int(target.line("GOT")), told[turn % len(told)], "signal %d" % turn)
    run = record.signal(signal.SIGINT).wait(15).ok()
    is_exact(run, tolerances.EXACT_SIGNALLED)


@one_python
def test_queued_signals_keep_their_order_their_number_and_what_they_say(py):
    """Of each real-time signal all come, in the order in which they were sent, with the values sent with them; beside
    standard ones, of which at least one comes, and while the target is stopped by somebody else, so that all are queued."""
    target = Target(py, "signals.py", "queue")
    record = recorder(target, rate=4999)
    works(target.pid, 0.2)
    send, sent = ctypes.CDLL(None, use_errno=True).sigqueue, {number: [] for number in target.info["told"]}
    for turn in range(60):
        if turn % 2:
            target.process.send_signal(signal.SIGSTOP)
            harness.until(lambda: harness.status(target.pid)["State"][0] in "tT", "the target has stopped")
        for value in range(20):
            number = target.info["told"][(turn + value) % len(sent)]
            equal(send(target.pid, number, ctypes.c_void_p(100 * turn + value)), 0, "sigqueue")
            sent[number].append([number, SI_QUEUE, 100 * turn + value])
        if turn % 2:
            target.process.send_signal(signal.SIGCONT)
        works(target.pid, 0.02)
    target.say("say")
    seen = json.loads(target.line("SEEN"))
    for number, all_sent in sent.items():
        came = [one for one in seen if one[0] == number]
        if number >= signal.SIGRTMIN:
            equal(came, all_sent, "real-time signals %d" % number)
        else:
            check(came and all(one in all_sent for one in came), "signals %d: %s of %s", number, came, all_sent)
            equal(came, sorted(came), "order of signals %d" % number)
    run = record.signal(signal.SIGINT).wait(15).ok()
    is_exact(run, tolerances.EXACT_SIGNALLED)
    enough(run.n("exact") > 1000, "few stops while the signals came: %s", run)


@one_python
def test_the_second_signal_where_the_first_is_taken(py):
    for how in ("handled SIGURG", "blocked SIGURG", "deaf SIGURG"):
        target = Target(py, "signals.py", *how.split())
        record = recorder(target)
        works(target.pid)
        run = record.signal(signal.SIGINT).wait(15).ok()
        is_exact(run)
        check("SIGWINCH stops a thread" in run.err, "what it does, and by which signal: %s", run)
        harness.end(target.process)


HANDLES_IN_CHILD = """
import os, signal
parent, pid = os.getpid(), os.fork()
if not pid:
    signal.signal(signal.SIGURG, lambda *_: None)
    print("READY {}", flush=True)
while pid or os.getppid() == parent:
    pass
"""


@each(follow=["--follow", "--no-follow"])
@one_python
def test_the_signal_is_one_that_children_leave_too(py, follow):
    path = os.path.join(harness.folder(), "handles.py")
    with open(path, "w") as file:
        file.write(HANDLES_IN_CHILD)
    target = Target(py, path)
    run = recorder(target, follow).signal(signal.SIGINT).wait(15).ok()
    want = "SIGWINCH" if follow == "--follow" else "SIGURG"
    check(want + " stops a thread" in run.err, "not %s: %s", want, run)
    check("set-user-ID" not in run.err, "root's tracees get their rights: %s", run)


@each(how=["handled", "blocked"])
@one_python
def test_refused_where_both_signals_are_taken(py, how):
    target = Target(py, "signals.py", how, "SIGURG", "SIGWINCH")
    run = harness.pysampled("-p", target.pid, "-d", 1, *STOP).ok(1)
    check("SIGURG and SIGWINCH" in run.err, "the reason: %s", run)
    harness.runs_on(target.pid)


def late_of(stacks, leaf):
    """How many samples of this leaf are late, and how many there are."""
    of = [(frames, n) for frames, n in stacks if any(leaf in frame for frame in frames)]
    return sum(n for frames, n in of if "[late]" in frames), harness.total(of)


@each(begins=["deaf", "later"])
@one_python
def test_a_thread_that_blocks_both_signals_keeps_no_other_from_being_stopped(py, begins):
    """As those do that jemalloc, libuv and others make for themselves. No signal pends in it, which sigwait(3) would tell;
    and once it blocks them no more, it is stopped as others are."""
    target = Target(py, "signals.py", begins, "SIGURG", "SIGWINCH")
    record = recorder(target)
    if begins == "later":
        target.say("begin")
        harness.until(lambda: len(os.listdir("/proc/%d/task" % target.pid)) == 2, "it has begun")
        # Who begins it blocks them meanwhile, and one that was sent just before pends until then.
        harness.until(lambda: harness.status(target.pid)["SigBlk"] == harness.NO_SIGNALS, "the main thread blocks none")
    works(target.pid, 0.6)
    for tid in map(int, os.listdir("/proc/%d/task" % target.pid)):
        status = harness.status(target.pid, tid)
        # One that is on its way to a thread that waits for a CPU pends, too, but is not blocked.
        equal(int(status["SigPnd"], 16) & int(status["SigBlk"], 16), 0, "signals that pend in thread %d" % tid)
    target.say("block them no more")
    works(target.pid, 3)
    run = record.signal(signal.SIGINT).wait(15).ok()
    told = "1 thread blocks SIGURG and can't be stopped" if begins == "deaf" else "1 thread that began later"
    check(told in run.err, "no line that tells of it: %s", run)
    late, all_of = late_of(readable(run, record.home), "spin_00")
    enough(all_of > 300 and late < 0.05 * all_of, "%d of %d samples are late in the other thread: %s", late, all_of, run)
    late, all_of = late_of(readable(run, record.home), "spin_01")
    enough(0 < late < 0.9 * all_of, "%d of %d samples are late in the thread that blocked them: %s", late, all_of, run)


@each(event=["context-switches", "cpu-migrations", "cpu-clock:k"])
@one_python
def test_refused_for_events_of(py, event):
    target = Target(py, "groundtruth.py")
    run = harness.pysampled("-p", target.pid, "-d", 1, "-e", event, *STOP).ok(5)
    equal(len(run.err.splitlines()), 1, "lines on stderr: %s" % run)


@one_python
def test_refused_for_a_traced_process_and_auto_goes_on_without(py):
    target = Target(py, "groundtruth.py", "--us", 50)
    tracer = harness.start([harness.need_command("strace"), "-qq", "-e", "trace=none", "-p", str(target.pid)])
    harness.until(lambda: harness.status(target.pid)["TracerPid"] != "0", "strace has attached")
    run = harness.pysampled("-p", target.pid, "-d", 1, *STOP).ok(4)
    check("traced by process %d" % tracer.pid in run.err, "the tracer's name: %s", run)
    run = harness.pysampled("-p", target.pid, "-d", 1, "-e", "cpu-clock:u", "-o", "a.data").ok()
    check(run.summary["capture"] != "stop", "another capture: %s", run)
    harness.end(tracer)
    harness.runs_on(target.pid)


@one_python
def test_a_stopped_process_stays_stopped_and_goes_on_when_told(py):
    target = Target(py, "groundtruth.py", "--us", 50, "--threads", 3)
    record = recorder(target)
    for _ in range(5):
        works(target.pid, 0.2)
        target.process.send_signal(signal.SIGSTOP)
        harness.until(lambda: set(harness.of_tasks(target.pid, lambda tid: harness.status(target.pid, tid)["State"][0]))
                      <= set("tT"), "all threads have stopped")
        used = harness.cpu_seconds([target.pid])
        harness.time.sleep(0.2)
        rests = harness.cpu_seconds([target.pid])
        # A thread that we had stopped runs into its group stop, by which the process may reach its next tick of 10 ms.
        check(rests - used < 0.015, "CPU time of a process that stops")
        harness.time.sleep(0.2)
        equal(harness.cpu_seconds([target.pid]), rests, "CPU time of a stopped process")
        target.process.send_signal(signal.SIGCONT)
    works(target.pid, 0.2)
    target.process.send_signal(signal.SIGSTOP)
    run = record.signal(signal.SIGINT).wait(15).ok()
    harness.until(lambda: harness.status(target.pid)["State"][0] == "T", "it is stopped by its SIGSTOP alone")
    target.process.send_signal(signal.SIGCONT)
    harness.runs_on(target.pid)
    is_exact(run, tolerances.EXACT_STOP)


@one_python
def test_beyond_the_hold_budget_nobody_is_stopped(py):
    target = Target(py, "groundtruth.py", "--us", 10, "--threads", 2)
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "-F", 9999, "-d", 4, "--hold-budget", 1, *STOP, "-o", "a.data", "-o",
                            "a.folded", "--provenance", "exact", home=home).ok()
    equal(run.n("lost"), 0, "lost")
    harness.runs_on(target.pid)
    all_right(harness.judge(harness.read_folded(os.path.join(home, "a.folded")), target.info["truth"]), run)
    is_exact(run, tolerances.EXACT_SIGNALLED)
    out, _ = harness.perf("script", "-i", os.path.join(home, "a.data"), "-F", "time", home=home)
    times = [float(word.rstrip(":")) for word in out.split()]
    enough(max(times) - min(times) > 2.5, "samples in %.1f s of 4 only", max(times) - min(times))
    enough(run.n("shed") > 0.1 * run.n("samples"), "few are shed: %s", run)


@one_python
def test_frames_that_hang_leave_no_thread_stopped(py):
    harness.need_root()
    target = Target(py, "hostile.py", extensions=("frametrap", "gtspin"))
    record = recorder(target)
    target.say("go")
    if target.line("TRAPPED") == "EPERM":
        raise harness.Skip("userfaultfd is not permitted here")
    works(target.pid, 2)
    run = record.signal(signal.SIGINT).wait(15).ok()
    check("hangs" in run.err and run.n("torn") > 0, "no word of the hanging read: %s", run)
    harness.runs_on(target.pid)


def seize(tid):
    """This thread traces @tid, and will not notice its end."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(0x4206, tid, None, None) < 0:  # PTRACE_SEIZE
        raise harness.Skip("can't trace: " + os.strerror(ctypes.get_errno()))


def stuck_in_exec(py):
    """A target and a child of it whose execve(2) waits for a thread of its own that we trace and do not bury: (target, child,
    thread)."""
    target = Target(py, "stuckexec.py")
    child, other = map(int, target.line("CHILD").split())
    harness.cleanup(os.kill, child, signal.SIGKILL)
    seize(other)
    target.say("exec")
    harness.until(lambda: harness.status(child, other)["State"].startswith("Z"), "the exec hangs")
    return target, child, other


@one_python
def test_an_exec_that_does_not_return_is_not_waited_for(py):
    """Though all wait who would trace that process."""
    target, child, _ = stuck_in_exec(py)
    record = recorder(target)
    works(target.pid)
    run = record.signal(signal.SIGINT).wait(15).ok()
    enough(run.n("exact") > 10, "too few samples: %s", run)
    equal(harness.status(child)["TracerPid"], "0", "TracerPid of the child")


@one_python
def test_a_program_whose_exec_returned_late_is_traced(py):
    target, child, other = stuck_in_exec(py)
    record = recorder(target)
    works(target.pid)
    equal(os.waitpid(other, 0x40000000)[0], other, "who is buried")  # __WALL
    harness.until(lambda: harness.status(child)["TracerPid"] != "0", "the child is traced", 5)
    record.signal(signal.SIGINT).wait(15).ok()


MAPS = """
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);

	alarm(60);
	for (int n = 0; n < 20000; n++) {
		printf("%p\\n", mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0));
		fflush(stdout);
		for (volatile int i = 0; i < 100000; i++)
			;
	}
	pause();
}
"""


def test_what_is_mapped_while_it_attaches_is_known():
    """Of a program that maps code all the time none is missing between the first that is known and the last, however long
    the attaching takes."""
    others = [harness.start(["sleep", "100"]) for _ in range(60)]
    home = harness.folder()
    with open(os.path.join(home, "order"), "w") as order:
        program = harness.start([harness.c_program("maps", MAPS)], stdout=order)
    works(program.pid, 0.05)
    pids = ",".join(str(process.pid) for process in [program] + others)
    run = harness.pysampled("-p", pids, "--any", "-F", 99, "-d", 1, *STOP, "-o", "a.data", home=home).ok()
    harness.end(program)
    text = subprocess.run(["perf", "script", "-i", "a.data", "--show-mmap-events"], cwd=home, capture_output=True, text=True,
                          check=True, env=harness.plain_env()).stdout
    known = {int(at, 16) for at in re.findall(r"MMAP2 %d/.*\[(0x[0-9a-f]+)\(" % program.pid, text)}
    with open(os.path.join(home, "order")) as order:
        is_known = [int(line, 16) in known for line in order.read().split("\n")[:-1]]
    first, last = is_known.index(True), len(is_known) - is_known[::-1].index(True)
    check(all(is_known[first:last]), "%d of %d are missing: %s", is_known[first:last].count(False), last - first, run)
    enough(last - first > 100, "only %d are known: %s", last - first, run)
    return "%d are known" % (last - first)


@each(sig=["SIGTSTP", "SIGTTOU", "SIGTTIN"])
@one_python
def test_a_terminal_stops_no_target(py, sig):
    """Ctrl-Z, or a message from the background under 'stty tostop': threads that we trace would stop with us."""
    target = Target(py, "groundtruth.py")
    run = Recorder("-p", target.pid, "-F", 999, *STOP, "-o", "a.data", preexec_fn=os.setpgrp).attached()
    os.killpg(run.pid, getattr(signal, sig))
    time.sleep(0.5)
    before = harness.cpu_seconds([target.pid])
    time.sleep(1)
    used = harness.cpu_seconds([target.pid]) - before
    os.kill(run.pid, signal.SIGCONT)
    check(used > 0.02, "the target used %.2f s of CPU in a second", used)
    is_exact(run.signal(signal.SIGINT).wait())


TRACES_A_CHILD = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None)
print("READY", flush=True)
sys.stdin.readline()
pid = os.fork()
if pid == 0:
    libc.prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    libc.ptrace(0, 0, 0, 0)  # PTRACE_TRACEME
    os.kill(os.getpid(), signal.SIGSTOP)
os.waitpid(pid, 0)
print("TRACED", flush=True)
sys.stdin.readline()
"""


@each(capture=["stop", "async"])
@one_python
def test_who_waits_in_vain_to_trace_a_child_is_told(py, capture):
    path = os.path.join(harness.folder(), "traces.py")
    harness.write(path, TRACES_A_CHILD)
    target = Target(py, path)
    record = Recorder("-p", target.pid, "--capture", capture, "-o", "a.folded").attached()
    target.say("begin")
    said = "a parent that waits to trace it can't"
    if capture == "stop":
        harness.until(lambda: said in record.text(1), "it is told")
    else:
        target.line("TRACED")
    run = record.signal(signal.SIGINT).wait(15)
    equal(said in run.err, capture == "stop", "it is told: %s" % run)


@one_python
def test_who_traces_pysampled_is_not_stopped(py):
    """strace is a child of the target, which is followed: each of the two would wait for the other."""
    strace = harness.need_command("strace")
    code = "import os, subprocess, sys; print(subprocess.run(sys.argv[1:] + ['-p', str(os.getpid())]).returncode)"
    record = [harness.PYSAMPLED, "record", *STOP, "-d", "0.5", "-o", os.path.join(harness.folder(), "a.folded")]
    target = harness.start([py.need(), "-c", code, strace, "-f", "-o", "/dev/null", *record], start_new_session=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = target.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(target.pid, signal.SIGKILL)
        raise
    equal(out, "0\n", "what it printed beside %s" % err)
