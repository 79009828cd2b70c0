"""doctor names what stands in the way, and what to change; for what can't be shown here see tests/unit/facts_test.c."""
import os

import harness
from harness import NOBODY, Target, check, each, equal, need_root, one_python
from machine import FEW, be_urgent, cgroup, few_descriptors, need_rt_cgroups, need_two_cpus, ours

PARANOID = "/proc/sys/kernel/perf_event_paranoid"


def doctor(*args, rc=0, **options):
    run = harness.pysampled("doctor", *args, **options).ok(rc)
    for line in run.out.splitlines():
        check(line[:4] in ("ok  ", "no  ", "--  "), "no mark: %r", line)
    return run


def says(run, mark, *words):
    """One line with this mark has all the words."""
    check(any(line.startswith(mark) and all(str(w) in line for w in words) for line in run.out.splitlines()),
          "no line '%s … %s' in\n%s", mark, words, run.out)


@each(value=[2, 3])
def test_paranoid(value):
    need_root()
    harness.change(PARANOID, str(value))
    says(doctor(), "ok", "perf_event_paranoid = %d" % value)
    binary, home = harness.for_nobody()
    run = doctor(binary=binary, home=home, user=NOBODY)
    # A kernel without the distributions' patch takes 3 and means 2.
    events = harness.pysampled("events", binary=binary, home=home, user=NOBODY).ok().out
    possible = any(line.split()[0] == "cpu-clock" and line.endswith("yes") for line in events.splitlines() if line)
    says(run, "ok" if possible else "no", "perf_event_paranoid = %d" % value)


def test_an_ordinary_user_is_told_what_is_missing():
    need_root()
    binary, home = harness.for_nobody()
    run = doctor(binary=binary, home=home, user=NOBODY)
    for name in ("CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_SYS_NICE"):
        says(run, "no", name, "not granted")
    says(run, "no", "--capture preempt", "ulimit -r 1")


@one_python
def test_the_last_line_names_the_capture(py):
    target = Target(py, "groundtruth.py", "--us", 50)
    last = doctor("-p", target.pid).out.splitlines()[-1]
    run = harness.pysampled("-p", target.pid, "-d", 1, "-o", "a.data").ok()
    check("--capture " + run.summary["capture"] in last, "doctor says %r, record does %s", last, run)


REFUSING = """#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 99;
	execv(argv[1], argv + 1);
	return 99;
}
"""


@one_python
def test_where_no_event_can_be_opened_no_capture_is_promised(py):
    """As in a container whose filter refuses the call, or at kernel.perf_event_paranoid 3 and 4."""
    refusing = [harness.c_program("refusing", REFUSING)]
    target = Target(py, "groundtruth.py", "--us", 50)
    run = doctor("-p", target.pid, wrapper=refusing)
    says(run, "no", "perf_event_open() is refused", "by a seccomp filter")
    says(run, "no", "--capture async", "no event can be opened")
    check("ok  --capture" not in run.out, "a capture is promised: %s", run.out)
    equal(run.out.splitlines()[-1], "no  record can't sample: no event can be opened (above)", "the last line")
    harness.pysampled("-p", target.pid, "-d", 0.2, wrapper=refusing).ok(4)


@one_python
def test_a_cgroup_without_real_time(py):
    need_rt_cgroups()
    path, inside = cgroup("cpu", rt_runtime_us="0")
    target = Target(py, "groundtruth.py", "--us", 50)
    run = doctor("-p", target.pid, wrapper=inside)
    says(run, "no", "no real-time budget", path + "/cpu.rt_runtime_us")
    says(run, "no", "--capture preempt", path)
    says(run, "--", "record would use", path)


@one_python
def test_a_cpuset_that_is_smaller(py):
    need_two_cpus()
    _, inside = cgroup("cpuset", mems="0", cpus=str(ours()[0]))
    target = Target(py, "groundtruth.py", "--us", 50)
    says(doctor("-p", target.pid, wrapper=inside), "--", "may run on CPU %d and this one not" % ours()[1])


@one_python
def test_a_real_time_thread_that_is_not_the_main_one(py):
    target = Target(py, "threads.py", os.devnull)
    tid = harness.tasks(target.pid)[-1]
    check(tid != target.pid, "one thread only")
    be_urgent(target, 10, tid)
    says(doctor("-p", target.pid), "--", "thread %d of process %d has real-time priority 10" % (tid, target.pid))


@one_python
def test_a_deadline_thread(py):
    need_root()
    chrt = harness.need_command("chrt")
    target = Target(py, "threads.py", os.devnull)
    tid = harness.tasks(target.pid)[-1]
    made = harness.subprocess.run([chrt, "-d", "-T", "1000000", "-P", "10000000", "-D", "10000000", "-p", "0",
                                   str(tid)])
    if made.returncode:
        raise harness.Skip("no SCHED_DEADLINE here")
    says(doctor("-p", target.pid), "no", "thread %d" % tid, "SCHED_DEADLINE")


@one_python
def test_a_traced_process(py):
    strace = harness.need_command("strace")
    target = Target(py, "threads.py", os.devnull)
    harness.start([strace, "-qq", "-o", os.devnull, "-p", str(target.pid)])
    tracer = harness.until(lambda: int(harness.status(target.pid)["TracerPid"]), "strace has attached")
    says(doctor("-p", target.pid), "--", "traced by %d" % tracer)


def test_a_process_of_another_user():
    need_root()
    target = Target(harness.debian_python(), "threads.py", os.devnull)
    binary, home = harness.for_nobody()
    run = doctor("-p", target.pid, rc=4, binary=binary, home=home, user=NOBODY)
    says(run, "no", "process %d belongs to another user" % target.pid, "CAP_SYS_PTRACE")


def test_a_process_whose_name_looks_like_a_fact():
    name = os.path.join(harness.folder(), "Uid:4711")
    os.symlink(harness.need_command("sleep"), name)
    process = harness.start([name, "60"])
    harness.until(lambda: harness.status(process.pid)["Name"] == "Uid:4711", "its name")
    check("another user" not in doctor("-p", process.pid, rc=3).out, "whose is it?")


def test_a_process_that_is_not_dumpable():
    need_root()
    python = harness.debian_python().need()
    code = ("import ctypes, sys; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print('READY', flush=True); sys.stdin.read()")
    process = harness.start([python, "-c", code], stdin=harness.subprocess.PIPE, stdout=harness.subprocess.PIPE,
                            preexec_fn=harness.as_nobody)
    equal(process.stdout.readline(), b"READY\n", "what it says")
    says(doctor("-p", process.pid), "ok", "process %d is not dumpable" % process.pid)
    binary, home = harness.for_nobody()
    run = doctor("-p", process.pid, rc=4, binary=binary, home=home, user=NOBODY)
    says(run, "no", "process %d is not dumpable" % process.pid, "CAP_SYS_PTRACE")
    for command in ("record", "dump"):
        run = harness.pysampled(command, "-p", process.pid, home=home, binary=binary, user=NOBODY)
        equal(run.rc, 4, command)
        check("not dumpable" in run.err and "CAP_SYS_PTRACE" in run.err and "its user" not in run.err, "%s", run.err)


def test_too_few_descriptors():
    target = Target(harness.newest_python(), "groundtruth.py", "--us", 50, "--threads", 50)
    run = doctor("-p", target.pid, preexec_fn=few_descriptors)
    says(run, "--" if os.geteuid() == 0 else "no", "50 threads", "up to", "'ulimit -n' allows %d" % FEW)
