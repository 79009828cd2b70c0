"""A target whose memory hangs its readers costs nobody else anything."""
import os
import re
import signal
import subprocess
import time

import harness
import machine
import test_files
import tolerances
from harness import Recorder, Target, check, each, each_python, enough, equal, judge, need_fifo, need_root, not_quick

SECONDS = 10  # the one moment until a stuck reader is replaced is less than 1 % of it


def trapped(py, cpus, *args):
    return Target(py, "hostile.py", *args, extensions=("frametrap", "gtspin"), cpus=cpus)


def spring(target):
    target.say("go")
    said = target.line("TRAPPED")
    if said == "EPERM":
        raise harness.Skip("userfaultfd is not permitted here")
    harness.equal(said, "", "the trap")


def innocent_is_exact(run, stacks, innocent):
    ours = harness.of_pid(stacks, innocent.pid)
    unsure = sum(harness.total(harness.marked(ours, marker)) for marker in ("late", "torn"))
    verdict = judge(harness.sure(ours), innocent.info["truth"])
    check(verdict.right == verdict.judged, "wrong stacks: %s", verdict)
    enough(harness.total(ours) >= 0.1 * 999 * SECONDS, "only %d samples: %s", harness.total(ours), run)
    enough(unsure <= tolerances.UNSURE_BESIDE_HOSTILE * harness.total(ours), "%d of %d are late or torn: %s", unsure, harness.total(ours), run)
    enough(verdict.judged > 0, "none could be judged: %s", run)


@each(when=["before", "during"])
@harness.one_python
@not_quick
def test_unreadable_frames_delay_nobody_else(py, when):
    delays_nobody(py, "same-cpu", when)


@each(py=[harness.debian_python()])
@not_quick
def test_unreadable_frames_of_a_static_python_delay_nobody_on_another_cpu(py):
    delays_nobody(py, "other-cpu", "during")


def delays_nobody(py, place, when):
    need_root()
    need_fifo()
    cpus = sorted(os.sched_getaffinity(0))
    hostile = trapped(py, {cpus[0]})
    innocent = Target(py, "groundtruth.py", "--us", 20, cpus={cpus[0 if place == "same-cpu" else -1]})
    if when == "before":
        spring(hostile)
    out = os.path.join(harness.folder(), "out.folded")
    begin = time.monotonic()
    recorder = Recorder("-p", "%d,%d" % (hostile.pid, innocent.pid), "-F", 999, "-d", SECONDS, "-o", out)
    if when == "during":
        recorder.attached()
        spring(hostile)
    run = recorder.wait(SECONDS + 15).ok()
    took = time.monotonic() - begin
    enough(took < SECONDS + 8, "the record took %.1f s for %d", took, SECONDS)
    check(hostile.alive() and innocent.alive(), "a target ended")
    innocent_is_exact(run, harness.read_folded(out), innocent)
    harness.runs_on(hostile.pid)


@each_python
def test_reads_go_on_once_they_no_longer_hang(py):
    """What fork() does to its parent for a moment a trap does for as long as we like: reads of it wait."""
    need_root()
    need_fifo()
    hostile = trapped(py, None, "fork")
    out = os.path.join(harness.folder(), "out.folded")
    recorder = Recorder("-p", hostile.pid, "-F", 999, "-o", out).attached()
    spring(hostile)
    harness.until(lambda: "hangs" in recorder.text(1), "the hanging read is seen")
    hostile.say("fork")
    child = int(hostile.line("CHILD"))
    harness.works(child, 0.5)
    hostile.say("mend")
    harness.works(hostile.pid, 0.5)
    run = recorder.signal(signal.SIGINT).wait(15).ok()
    for pid in (child, hostile.pid):
        stacks = harness.of_pid(harness.read_folded(out), pid)
        verdict = judge(harness.sure(stacks), hostile.info["truth"])
        check(verdict.right == verdict.judged, "wrong stacks: %s", verdict)
        enough(verdict.judged > 200, "only %d sure samples of %d: %s", verdict.judged, pid, run)


@harness.one_python
def test_a_name_that_hangs_takes_no_other_names_away(py):
    need_root()
    need_fifo()
    hostile = trapped(py, None, "name")
    other = Target(py, "threadnames.py")
    spring(hostile)
    out = os.path.join(harness.folder(), "out.folded")
    recorder = Recorder("-p", "%d,%d" % (hostile.pid, other.pid), "-F", 999, "--threads", "-v", "-o", out).attached()
    harness.until(lambda: "names of its threads" in recorder.text(1), "the hanging read is seen")
    check(str(hostile.pid) in recorder.text(1), "the process is not named: %s", recorder.text(1))
    other.say("rename")
    other.line("RENAMED")
    harness.works(other.pid, 2)
    run = recorder.signal(signal.SIGINT).wait(15).ok()
    equal(run.err.count("a read of process %d hangs: the names" % hostile.pid), 1, "reads of its names: %s" % run)
    check(run.counter("stuck_reads") >= 1, "it is not counted: %s", run)
    stacks = harness.read_folded(out)
    names = {frames[0].partition("/")[2].rpartition("-")[0] for frames, _ in stacks}
    enough(harness.total(harness.of_pid(stacks, hostile.pid)) > 100, "too few samples of the process: %s", run)
    check(any(name.startswith("renamed-") for name in names), "no new name of the other process: %s", names)


@harness.seconds(240)
@not_quick
@harness.one_python
def test_many_reads_that_hang_leave_threads_for_another_user(py):
    """Each keeps a thread of the recorder's, until there are too many of one user's; that user's are not read then, until some mend."""
    need_root()
    need_fifo()
    most = 32
    hostile = [trapped(py, None, "fork") for _ in range(most + 6)]
    innocent = Target(harness.debian_python(), "groundtruth.py", "--us", 20, user=harness.NOBODY)
    out = os.path.join(harness.folder(0o777), "out.folded")
    pids = ",".join(str(one.pid) for one in [*hostile, innocent])
    recorder = Recorder("-p", pids, "-F", 999, "-v", "-o", out).attached()
    for one in hostile:
        spring(one)
    harness.until(lambda: "no process of that user is read" in recorder.text(1), "they are too many", 120)
    harness.works(innocent.pid, 0.3)  # beside all the others
    threads = len(os.listdir("/proc/%d/task" % recorder.pid))
    check(threads < most + 24, "%d threads: %s", threads, recorder.text(1))
    for one in hostile:
        one.say("mend")
    harness.works(hostile[-1].pid, 0.2)
    run = recorder.signal(signal.SIGINT).wait(15).ok()
    check(run.counter("stuck_reads") >= most, "reads that hang: %s", run)
    stacks = harness.read_folded(out)
    verdict = judge(harness.sure(harness.of_pid(stacks, innocent.pid)), innocent.info["truth"])
    check(verdict.right == verdict.judged, "wrong stacks: %s", verdict)
    enough(verdict.judged > 50, "only %d of another user's could be judged: %s", verdict.judged, run)
    last = judge(harness.sure(harness.of_pid(stacks, hostile[-1].pid)), hostile[-1].info["truth"])
    check(last.right == last.judged, "wrong stacks: %s", last)
    enough(run.counter("stuck_reads") <= most + 6, "others hang too, for a thread of theirs has no CPU: %s", run)


@harness.one_python
def test_a_process_that_hangs_at_attach_is_looked_at_once_it_does_not(py):
    need_root()
    need_fifo()
    hostile = trapped(py, None)
    spring(hostile)
    out = os.path.join(harness.folder(), "out.folded")
    recorder = Recorder("-p", hostile.pid, "-F", 999, "-o", out).attached()
    harness.until(lambda: "hangs" in recorder.text(1), "the hanging read is seen")
    hostile.say("mend")
    harness.works(hostile.pid, 1)
    run = recorder.signal(signal.SIGINT).wait(15).ok()
    verdict = judge(harness.read_folded(out), hostile.info["truth"])
    enough(verdict.right > 200, "only %d samples have a stack: %s", verdict.right, run)


@harness.one_python
def test_many_that_hang_at_attach_leave_time_for_others(py):
    """More than there are threads that look. The others run another file, for what is proven of one needs no such look."""
    need_root()
    need_fifo()
    where = harness.folder()
    for name in ("hostile.py", "groundtruth.py"):
        os.symlink(os.path.join(harness.TARGETS, name), os.path.join(where, name))
    hostile = [Target(py, os.path.join(where, "hostile.py"), extensions=("frametrap", "gtspin")) for _ in range(6)]
    for one in hostile:
        spring(one)
    others = [Target(harness.debian_python(), os.path.join(where, "groundtruth.py")) for _ in range(2)]
    recorder = Recorder("--match", where, "-e", "cpu-clock:u", "-v", "-o", "a.folded").attached()
    slow = int((re.search(r"left out: (\d+) processes that take too long", recorder.text(1)) or "00")[1])
    check(slow >= len(hostile), "%d of %d are left out: %s", slow, len(hostile), recorder.text(1))
    for one in others:
        harness.works(one.pid)
    run = recorder.signal(signal.SIGINT).wait(15).ok()
    stacks = harness.read_folded(os.path.join(recorder.home, "a.folded"))
    for one in others:
        verdict = judge(harness.sure(harness.of_pid(stacks, one.pid)), one.info["truth"])
        check(verdict.right == verdict.judged, "wrong stacks: %s", verdict)
        enough(verdict.right > 0, "none could be judged: %s", run)
    enough(slow == len(hostile), "%d are left out: others took too long, too: %s", slow, run)


@harness.one_python
def test_one_of_several_that_ends_before_it_is_attached_to_is_named(py):
    need_root()
    hostile, ends, stays = trapped(py, None), Target(py, "groundtruth.py"), Target(py, "groundtruth.py")
    spring(hostile)
    # The first one, for what is proven of its interpreter then is not looked at in the others.
    recorder = Recorder("-p", "%d,%d,%d" % (hostile.pid, ends.pid, stays.pid), "-F", 999, "-d", 1, "-o", "a.folded")
    harness.until(lambda: "hangs" in recorder.text(1), "all were looked at, and for the last one's answer it waits")
    harness.end(ends.process)
    run = recorder.wait().ok()
    check(re.search(r"without process %d: (process %d( \(\w+\))? (is gone|has ended)|there is no process)" % (ends.pid, ends.pid), run.err),
          "not a word of it: %s", run)
    pids = {frames[0].rpartition("-")[2] for frames, _ in harness.read_folded(os.path.join(recorder.home, "a.folded"))}
    harness.equal(pids, {str(hostile.pid), str(stays.pid)}, "processes")


@harness.one_python
def test_a_cpu_without_a_reader_gets_one_when_there_can_be_one(py):
    """In place of one that hangs, while a cgroup allows no thread more."""
    need_root()
    need_fifo()
    cpu = min(os.sched_getaffinity(0))
    hostile, innocent = trapped(py, {cpu}), Target(py, "groundtruth.py", "--us", 20, cpus={cpu})
    group, _ = machine.cgroup("pids")
    both = "%d,%d" % (hostile.pid, innocent.pid)
    recorder = Recorder("-p", both, "-F", 499, "-o", "a.folded").attached()
    harness.write(os.path.join(group, "cgroup.procs"), str(recorder.pid))
    harness.write(os.path.join(group, "pids.max"), "1")
    spring(hostile)
    harness.until(lambda: "CPU %d is not sampled until" % cpu in recorder.text(1), "there is no reader")
    check("no thread can be made" in recorder.text(1), "the reason: %s", recorder.text(1))
    harness.write(os.path.join(group, "pids.max"), "max")
    harness.until(lambda: "CPU %d is sampled again" % cpu in recorder.text(1), "there is a reader")
    harness.works_for_a_while(innocent.pid, 0.5, 15)
    run = recorder.signal(signal.SIGINT).wait(15).ok()
    verdict = judge(harness.sure(harness.of_pid(harness.read_folded(os.path.join(recorder.home, "a.folded")), innocent.pid)),
                    innocent.info["truth"])
    check(verdict.right == verdict.judged, "wrong stacks: %s", verdict)
    enough(verdict.right > 20, "only %d samples: %s", verdict.right, run)


@harness.one_python
def test_a_dump_of_unreadable_frames_ends(py):
    need_root()
    hostile = trapped(py, None)
    spring(hostile)
    harness.pysampled("dump", "-p", hostile.pid, limit=15)
    check(hostile.alive(), "the target ended")


# Maps a file that it has written to over, or lets execve(2) unmap it: the kernel writes it back meanwhile, under a lock.
LOCKED = """
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static char **args, *at;

static void *lock(void *unused)
{
	getchar();
	if (*args[2] == 'e')
		execl("/bin/sleep", "sleep", "300", NULL);
	return mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

int main(int argc, char **argv)
{
	pthread_t t;

	args = argv;
	at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(argv[1], O_RDWR), 0);
	*at = 1;
	pthread_create(&t, 0, lock, 0);
	puts("READY");
	fflush(stdout);
	for (volatile unsigned long n = 0;; n++)
		;
}
"""


def to_be_locked(py, *program):
    """(a process, after which call nobody can look at it, or at its maps, what ends that)."""
    plain = os.path.join(harness.folder(), "plain")
    harness.write(plain, "\0" * 4096)
    folder, dies, end = test_files.dead_file_system(py, "takes", serves=plain)
    trap = harness.start([*program[:-1], os.path.join(folder, "prog"), program[-1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    harness.cleanup(end)  # before the trap is waited for
    equal(trap.stdout.readline(), b"READY\n", "the trap")

    def lock():
        dies()
        trap.stdin.write(b"\n")
        trap.stdin.flush()
        harness.until(lambda: "D" in {seen["State"][0] for seen in harness.of_tasks(trap.pid, lambda tid: harness.status(trap.pid, tid))},
                      "it hangs")
    return trap, lock, end


def locked(py, how):
    trap, lock, end = to_be_locked(py, harness.c_program("trap", LOCKED, "-lpthread"), how)
    lock()
    return trap, end


@harness.one_python
def test_a_list_of_maps_without_end_is_not_read(py):
    """It was up to 256 MB, for each who looked at it: as many maps as the kernel allows of a file with a long path."""
    path = harness.folder()
    while len(path) < 3800:
        path = os.path.join(path, "x" * 200)
        os.mkdir(path)
    path = os.path.join(path, "file")
    harness.write(path, "\0" * 4096)
    target = harness.start(py.command() + [os.path.join(harness.TARGETS, "manymaps.py"), "18000", path], stdout=subprocess.PIPE)
    equal(target.stdout.readline(), b"READY\n", "what it says")
    run = harness.pysampled("-p", target.pid, "-d", 1, home=harness.folder())  # refused, or where a look takes long: without it
    check("too many maps" in run.err, "not a word of it: %s", run)


@each(how=["maps", "exec"])
@harness.one_python
@harness.seconds(90)
def test_who_locks_its_memory_holds_up_nobody(py, how):
    """Whoever looks at it in /proc hangs, and can't be interrupted: record, dump and doctor, all at once."""
    need_root()
    need_fifo()
    trap, end = locked(py, how)
    where = harness.folder()
    script = os.path.join(where, "groundtruth.py")
    os.symlink(os.path.join(harness.TARGETS, "groundtruth.py"), script)
    target = Target(py, script, "--us", 50)
    both = "%d,%d" % (trap.pid, target.pid)
    scopes = {"record": ["-p", both, "--any"], "stop": ["-p", both, "--any", "--capture", "stop"],
              "match": ["--match", "%s|%s" % (where, trap.args[0])]}
    commands = {name: [*scope, "-F", "499", "-d", "1", "-v", "-o", name + ".folded"] for name, scope in scopes.items()}
    commands.update(dump=["dump", "-p", both], doctor=["doctor", "-p", str(trap.pid)])
    ours = {name: harness.start([harness.PYSAMPLED, *args], cwd=where, stdin=subprocess.DEVNULL,
                                stdout=open(os.path.join(where, name + ".said"), "w"), stderr=subprocess.PIPE)
            for name, args in commands.items()}
    told = {name: process.stderr.read().decode() for name, process in ours.items()}  # until it is closed
    for name, err in told.items():
        check(re.search(r"process %d (can't be looked at|hangs)" % trap.pid, err), "what %s tells: %s", name, err)
    for name in scopes:
        stacks = harness.of_pid(harness.read_folded(os.path.join(where, name + ".folded")), target.pid)
        verdict = judge(harness.sure(stacks), target.info["truth"])
        check(verdict.right == verdict.judged, "wrong stacks: %s", verdict)
        enough(verdict.judged > 50, "only %d samples of the other: %s", verdict.judged, told[name])
    with open(os.path.join(where, "dump.said")) as file:
        said = file.read()
    check("forever" in said, "the other's stack: %s%s", said, told["dump"])
    end()
    for name, process in ours.items():
        equal(process.wait(10), name not in scopes, "the exit code of %s: %s" % (name, told[name]))


LOCKED_PYTHON = """
import mmap, os, sys
shared = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)
shared[0] = 1
print("READY", flush=True)
sys.stdin.readline()
os.execl("/bin/sleep", "sleep", sys.argv[2])
"""


@harness.one_python
@harness.seconds(90)
def test_a_wait_of_who_does_not_come_out_of_an_execve_holds_up_nobody(py):
    """What it waits for is told by files of /proc, which hang."""
    need_root()
    need_fifo()
    trap, lock, end = to_be_locked(py, py.path, "-c", LOCKED_PYTHON, "300")
    other = Target(py, "groundtruth.py", "--us", 50)
    recorder = Recorder("-p", "%d,%d" % (trap.pid, other.pid), "--mode", "wall", "-F", 499, "-v", "-o", "a.folded").attached()
    lock()
    harness.until(lambda: "a read of process %d hangs" % trap.pid in recorder.text(1), "it is named")
    harness.works(other.pid)
    recorder.signal(signal.SIGINT)
    harness.until(lambda: "samples=" in recorder.text(1), "it ends")  # a read of memory may keep the process until the server ends
    end()
    run = recorder.wait(10)
    stacks = harness.of_pid(harness.read_folded(os.path.join(recorder.home, "a.folded")), other.pid)
    worked = sum(count for frames, count in stacks if any(frame.startswith("g_") for frame in frames))
    enough(worked > 50, "only %d samples of the other: %s", worked, run)


@harness.one_python
@harness.seconds(90)
def test_waits_without_a_reader_get_one_when_there_can_be_one(py):
    """In place of one that hangs, while a cgroup allows no thread more."""
    need_root()
    need_fifo()
    trap, lock, end = to_be_locked(py, py.path, "-c", LOCKED_PYTHON, "300")
    group, _ = machine.cgroup("pids")
    recorder = Recorder("-p", trap.pid, "--mode", "wall", "-o", "a.folded").attached()
    harness.write(os.path.join(group, "cgroup.procs"), str(recorder.pid))
    harness.write(os.path.join(group, "pids.max"), "1")
    lock()
    harness.until(lambda: "waits are not read until" in recorder.text(1), "nobody reads waits")
    harness.write(os.path.join(group, "pids.max"), "max")
    harness.until(lambda: "waits are read again" in recorder.text(1), "they are read")
    recorder.signal(signal.SIGINT)
    harness.until(lambda: "samples=" in recorder.text(1), "it ends")
    end()
    recorder.wait(10)


STACK_TRAP = """
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static ucontext_t back, there;
static int uffd;

static void spin(void)
{
	for (volatile unsigned long n = 0;; n++)
		;
}

static void *later(void *arg)
{
	getchar();
	close(uffd);
	return 0;
}

int main(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	enum { HALF = 32 << 10 };
	char *at = mmap(0, 2 * HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t t;

	uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	reg.range.start = (unsigned long)at + HALF, reg.range.len = HALF;
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &reg))
		return 1;
	pthread_create(&t, 0, later, 0);
	getcontext(&there);
	there.uc_stack.ss_sp = at;
	there.uc_stack.ss_size = HALF;
	makecontext(&there, spin, 0);
	swapcontext(&back, &there);
	return 0;
}
"""


def test_a_stack_without_python_that_hangs_reads_is_left_alone():
    need_root()
    need_fifo()
    trap = harness.start([harness.c_program("trap", STACK_TRAP, "-lpthread")], stdin=subprocess.PIPE)
    out = os.path.join(harness.folder(), "out.folded")
    recorder = Recorder("-p", trap.pid, "--any", "-F", 499, "-e", "cpu-clock:u", "-o", out).attached()
    harness.until(lambda: "hangs" in recorder.text(1), "the hanging read is seen")
    harness.works(trap.pid, 0.5)
    trap.stdin.write(b"\n")
    trap.stdin.flush()
    harness.works(trap.pid, 0.5)
    run = recorder.signal(signal.SIGINT).wait(15).ok()
    stacks = harness.read_folded(out)
    spun = sum(n for frames, n in stacks if frames[-1] == "spin")
    equal(spun, harness.total(stacks), "samples that tell where it is, of all")
    check(not harness.marked(stacks, "torn"), "no Python of it can be torn: %s", stacks[:3])
    enough(spun > 200, "only %d samples: %s", spun, run)


@each(what=["huge", "fifo", "escapes"])
def test_a_file_that_is_no_source_is_not_annotated(what):
    """The path is a target's choice. A file without end was read to its end, as one line."""
    home = harness.folder()
    path = os.path.join(home, "made.py")
    with open(os.path.join(home, "a.folded"), "w") as file:
        file.write("python3-1;spin (%s:2) 5\n" % path)
    if what == "fifo":
        os.mkfifo(path)
    else:
        with open(path, "wb") as file:
            file.write(b"" if what == "huge" else b"\n# \x1b]0;mine\x07 \x9b\n")
            file.truncate(20 << 30 if what == "huge" else file.tell())
    run = harness.pysampled("report", "--annotate", "spin", "a.folded", home=home, limit=20).ok()
    check("\x1b" not in run.out and "\x9b" not in run.out, "raw: %s", run.out)
    check(("(no source)" in run.out) == (what != "escapes"), "what is printed: %s", run.out)
