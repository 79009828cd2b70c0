"""A process that is no Python but has Python children, one that has none, and what is no process of a user's."""
import contextlib
import os
import re
import signal
import subprocess

import harness
from harness import Python, Recorder, Target, check, each, each_python, enough, equal, one_python, readable

BESIDE = True

# Then some: the shell does not become Python, but waits for it.
SHELL, LATER = '"$0" "$@"; exit 3', 'read x; "$0" "$@"; exit 3'


def within(py, *shells):
    """The same Python, started by shells."""
    wrapped = Python(py.tag, py.path)
    wrapped.command = lambda: [word for text in shells for word in ("sh", "-c", text)] + py.command()
    return wrapped


def wrapper(py, depth=1):
    """A target in a shell, and the PID of its Python."""
    target = Target(within(py, *[SHELL] * depth), "groundtruth.py", "--us", 50)
    return target, bounded(target.process)


def bounded(shell):
    """Those in a shell do not outlive the test, as they do the shell; the last of them."""
    inner = harness.children(shell.pid)[1:]

    def kill(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    for pid in reversed(inner):
        harness.cleanup(kill, pid)
    harness.cleanup(harness.end, shell)
    return inner[-1]


def old_sleeper():
    """A process that does not run Python, older than the second in which it might still."""
    sleeper = harness.start(["sleep", "60"])
    harness.until(lambda: age(sleeper.pid) > 1.1, "it is older than a second", pause=0.1)
    return sleeper.pid


def age(pid):
    with open("/proc/%d/stat" % pid) as file:
        begun = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    with open("/proc/uptime") as file:
        return float(file.read().split()[0]) - begun


def follows(run, wrapped, *pids):
    """One line says so, on stderr."""
    said = [line for line in run.err.splitlines() if "no Python" in line]
    check(len(said) == 1 and all(str(pid) in said[0] for pid in (wrapped,) + pids), "lines about %d: %s", wrapped, run)


@harness.dealt
@each(depth=[1, 2])
@each_python
def test_the_python_child_of_a_shell_is_followed(py, depth):
    target, pid = wrapper(py, depth)
    run, verdict, stacks = harness.exact(target, "-F", 999, seconds=1)
    follows(run, target.pid, pid)
    harness.all_right(verdict, run)
    equal({frames[0].rpartition("-")[2] for frames, _ in stacks}, {str(pid)}, "processes with samples")


@one_python
def test_of_several_one_may_be_a_wrapper(py):
    target, pid = wrapper(py)
    other = Target(py, "groundtruth.py", "--us", 50)
    record = Recorder("-p", "%d,%d" % (other.pid, target.pid), "-F", 999, "-o", "a.data", "-o", "a.folded").recording()
    for busy in (pid, other.pid):
        harness.works(busy, 0.5)
    run = record.signal(signal.SIGINT).wait(15).ok()
    stacks = readable(run, record.home)
    follows(run, target.pid, pid)
    for busy, truth in (pid, target.info["truth"]), (other.pid, other.info["truth"]):
        verdict = harness.judge(harness.sure(harness.of_pid(stacks, busy)), truth)
        check(verdict.right == verdict.judged, "wrong stacks of %d: %s: %s", busy, verdict, run)
        enough(verdict.judged > 100, "too few could be judged of %d: %s: %s", busy, verdict, run)


@one_python
def test_what_a_wrapper_leaves_is_recorded_on(py):
    target, pid = wrapper(py)
    record = Recorder("-p", target.pid, "-F", 999, "-o", "a.data", "-o", "a.folded").recording()
    target.process.kill()
    target.process.wait()
    harness.works(pid)
    os.kill(pid, signal.SIGKILL)
    run = record.wait(15).ok()
    enough(harness.total(harness.of_pid(readable(run, record.home), pid)) > 100, "too few samples: %s", run)


@one_python
def test_samples_of_a_daemon_in_a_shell_bear_its_name(py):
    for _ in range(4):
        target = Target(within(py, '"$0" "$@"; read x'), "daemon.py")
        record = Recorder("-p", target.pid, "-F", 999, "-o", "a.folded").recording()
        target.say("daemon")
        left = int(target.line("LEFT"))
        harness.works(left)
        record.signal(signal.SIGINT).wait(15).ok()
        stacks = harness.read_folded(os.path.join(record.home, "a.folded"))
        names = {frames[0].rpartition("-")[0] for frames, _ in harness.of_pid(stacks, left)}
        equal(len(names - {"?"}), len(names), "known names of %d, which are %s" % (left, names))
        target.process.stdin.close()


@one_python
def test_threads_of_a_wrapped_python_can_be_named(py):
    target, pid = wrapper(py)
    run, verdict, _ = harness.exact(target, "-t", pid, "-F", 999, seconds=1)
    harness.all_right(verdict, run)


@one_python
def test_we_are_no_child_of_a_wrapper(py):
    home, us = harness.folder(0o777), "trap 'kill $!' 0; \"$0\" \"$@\" & read x; %s -p $$ -d 1 -F 999 -o %s/a.folded 2> %s/err"
    target = Target(within(py, us % (harness.PYSAMPLED, home, home)), "groundtruth.py", "--us", 50)
    target.say("go")
    equal(target.process.wait(30), 0, "exit status")
    names = {frames[0].rpartition("-")[0] for frames, _ in harness.read_folded(os.path.join(home, "a.folded"))}
    check("python3" in "".join(names) and "pysampled" not in names, "processes with samples: %s", names)


@one_python
def test_a_command_in_a_shell(py):
    home = harness.folder(0o777)
    script = "import time\ndef f():\n    while time.process_time() < 0.7: pass\nf()"
    run = harness.pysampled("-F", 999, "-o", "a.data", "-o", "a.folded", "--", "sh", "-c", SHELL, py.path, "-c", script,
                            home=home).ok(3)
    names = [q for frames, n in readable(run, home) for q, _, _ in harness.python_frames(frames) for _ in range(n)]
    enough(names.count("f") > 300, "too few samples in f(): %s", run)


@one_python
def test_with_any_a_child_that_comes_later_has_python_frames(py):
    process = harness.start(["sh", "-c", LATER] + py.command() + ["-c", "def f():\n    while True: pass\nf()"],
                            stdin=subprocess.PIPE)
    harness.until(lambda: age(process.pid) > 1.1, "it is older than a second", pause=0.1)
    harness.refused(3, "-p", process.pid, "-d", 1, about=[process.pid, "--any"])
    record = Recorder("-p", process.pid, "--any", "-F", 999, "-o", "a.data", "-o", "a.folded").recording()
    process.stdin.close()
    harness.until(lambda: harness.children(process.pid)[1:], "the shell starts Python")
    pid = bounded(process)
    harness.works(pid, 0.7)
    run = record.signal(signal.SIGINT).wait(15).ok()
    names = [q for frames, n in readable(run, record.home) for q, _, _ in harness.python_frames(frames) for _ in range(n)]
    enough(names.count("f") > 300, "too few samples in f(): %s", run)


PYPY = """
#include <stdio.h>
int pypy_main_startup(void)
{
	volatile unsigned long n = 0;
	for (;;)
		n++;
}
int main(void)
{
	puts("READY");
	fflush(stdout);
	return pypy_main_startup();
}
"""


def test_pypy_is_no_cpython_that_may_still_be_found():
    """A program that exports what PyPy's library does: refused by its name, and with --any a program without Python."""
    program = harness.start([harness.c_program("a.out", PYPY, "-rdynamic")], stdout=subprocess.PIPE)
    program.stdout.readline()
    harness.refused(3, "-p", program.pid, "-d", 1, about=[program.pid, "PyPy", "--any"])
    run = harness.pysampled("-p", program.pid, "--any", "-F", 499, "-d", 1, "-v", "-o", "a.folded").ok()
    check("runs PyPy" not in str(run), "it is told as refused: %s", run)
    enough(int(run.summary["samples"]) > 50, "samples: %s", run)
    check(run.summary["torn"] == run.summary["late"] == "0", "no program without Python: %s", run)


@each_python
def test_dump_of_a_wrapper_is_that_of_its_children(py):
    target, pid = wrapper(py)
    run = harness.pysampled("dump", "-p", target.pid).ok()
    follows(run, target.pid, pid)
    check("Process %d: CPython" % pid in run.out and "forever (" in run.out, "no stack of %d: %s%s", pid, run.out, run)


@one_python
def test_dump_of_a_master_names_its_workers(py):
    target = Target(py, "workers.py", 2)
    run = harness.pysampled("dump", "-p", target.pid).ok()
    told = re.search(r"process %d has 2 children that run the same program: dump -p ([0-9,]+)$" % target.pid, run.err, re.M)
    check(told, "not told of its workers: %s", run)
    run = harness.pysampled("dump", "-p", told[1]).ok()
    equal(len(re.findall(r"^Process \d+: CPython", run.out, re.M)), 3, "processes")
    check("same program" not in run.err, "told of whom is printed: %s", run)


@each_python
def test_a_wrapper_whose_own_python_never_begins(py):
    """As uWSGI's emperor, which is linked with it."""
    code = "import sysconfig; v = sysconfig.get_config_var; print(v('LIBDIR') + '/' + v('INSTSONAME'))"
    library = subprocess.check_output(py.command() + ["-c", code], text=True).strip()
    if not os.path.exists(library) or ".so" not in library:
        raise harness.Skip("this Python has no libpython")
    wrapped = within(py, 'unset LD_PRELOAD; ' + SHELL)
    inner = wrapped.command()
    wrapped.command = lambda: ["env", "LD_PRELOAD=" + library] + inner
    target = Target(wrapped, "groundtruth.py", "--us", 50)
    pid = bounded(target.process)
    follows(harness.pysampled("dump", "-p", target.pid).ok(), target.pid, pid)
    run, verdict, _ = harness.exact(target, "-F", 999, seconds=1)
    follows(run, target.pid, pid)
    harness.all_right(verdict, run)


@one_python
def test_what_signals_a_wrapper_handles_is_no_reason_against_stopping_its_python(py):
    """PyInstaller's bootloader handles all, to pass them on."""
    target = Target(within(py, "trap : URG WINCH; " + SHELL), "groundtruth.py", "--us", 50)
    bounded(target.process)
    run = harness.pysampled("doctor", "-p", target.pid).ok()
    check(re.search("^ok  --capture stop", run.out, re.M), "stop is not to be had: %s", run)
    run, verdict, _ = harness.exact(target, "--capture", "stop", "-F", 999, seconds=1)
    harness.all_right(verdict, run)


@one_python
def test_doctor_tells_of_a_wrapper(py):
    target, pid = wrapper(py)
    run = harness.pysampled("doctor", "-p", target.pid).ok()
    for words in (r"--  process %d \(sh\) runs no Python itself; .*%d" % (target.pid, pid), "ok  process %d is CPython" % pid):
        check(re.search("^" + words, run.out, re.M), "no line %r: %s", words, run.out)


def refusals(command, pid):
    """What the command says when it refuses a process."""
    if command == "doctor":
        run = harness.pysampled("doctor", "-p", pid).ok(3)
        return run.out + run.err
    return harness.refused(3, command, "-p", pid, about=[pid]).err


@each(command=["record", "dump", "doctor"])
def test_a_process_without_python_children_is_told_of_any(command):
    text = refusals(command, old_sleeper())
    check("(sleep)" in text and "--any" in text, "not named: %s", text)


@each(command=["record", "dump", "doctor"])
def test_a_zombie_has_ended(command):
    process = harness.start(["true"])
    harness.until(lambda: harness.status(process.pid)["State"][0] == "Z", "it is a zombie")
    check("has ended" in refusals(command, process.pid), "it does not say that it has ended")


def killed(py, program):
    """A process that was killed once it was ready, and is ending."""
    process = harness.start([py.path, "-c", program], stdout=subprocess.PIPE)
    process.stdout.readline()
    process.kill()
    return process


SLOW_END = """
import mmap, time
much = mmap.mmap(-1, 1 << 29)
much.madvise(mmap.MADV_NOHUGEPAGE)
much.write(bytes(1 << 29))
print("READY", flush=True)
time.sleep(60)
"""


@each(command=["record", "dump", "doctor"])
@harness.one_python
def test_one_whose_memory_is_being_freed_has_ended(py, command):
    """Between its memory's end and its own a process has no maps, and is no zombie."""
    process = killed(py, SLOW_END)
    harness.until(lambda: "VmSize" not in harness.status(process.pid), "its memory ends")
    check("has ended" in refusals(command, process.pid), "it does not say that it has ended")


MANY_THREADS = """
import threading, time
threading.stack_size(65536)
for _ in range(2000):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("READY", flush=True)
time.sleep(60)
"""


@each(command=["record", "dump", "doctor"])
@harness.one_python
def test_one_whose_threads_are_ending_has_ended(py, command):
    """They end one after the other, and the main one is a zombie meanwhile."""
    process = killed(py, MANY_THREADS)
    harness.until(lambda: harness.status(process.pid)["State"][0] == "Z", "its main thread is a zombie")
    text = refusals(command, process.pid)
    check("has ended" in text and "main thread" not in text, "it does not say that it has ended: %s", text)


@each(command=["record", "dump", "doctor"])
def test_a_kernel_thread_is_called_one(command):
    check(harness.readlink("/proc/2/exe") == "", "pid 2 is no kernel thread here")
    text = refusals(command, 2)
    check("kernel thread" in text and "--any" in text, "not called one: %s", text)


def test_with_any_a_kernel_thread_is_sampled():
    harness.need_root()
    harness.pysampled("-p", 2, "--any", "--no-follow", "-d", 0.3, "-o", "a.folded").ok()
