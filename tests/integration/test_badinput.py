"""Bad input ends with the exit code of the contract and one clear sentence."""
import os
import re
import resource
import signal
import subprocess

import harness
from harness import NOBODY, Recorder, Target, check, each, each_python, enough, equal, need_root, one_python

BESIDE = True


def spinning(py):
    return Target(py, "groundtruth.py", "--us", 50)


def unused_pid():
    process = harness.start(["true"])
    process.wait()
    return process.pid


def test_no_such_process():
    pid = unused_pid()
    harness.refused(3, "-p", pid, "-d", 1, about=[pid])


@one_python
def test_a_thread_of_another_process(py):
    target, other = spinning(py), spinning(py)
    harness.refused(3, "-p", target.pid, "-t", other.pid, "-d", 1, about=[target.pid, other.pid])
    gone = unused_pid()
    harness.refused(3, "-p", target.pid, "-t", "%d,%d" % (target.pid, gone), "-d", 1, about=[gone])


@each(pid=["-5", "12x", ""])
def test_a_pid_that_is_no_number_is_wrong_usage(pid):
    harness.refused(2, "-p", pid, "-d", 1)


def test_not_a_python_process():
    sleeper = harness.start(["sleep", "60"])
    harness.refused(3, "-p", sleeper.pid, "-d", 1, about=[sleeper.pid])


def test_a_kernel_thread_is_no_python_process():
    check(harness.readlink("/proc/2/exe") == "", "pid 2 is no kernel thread here")
    harness.refused(3, "-p", 2, "-d", 1)


@one_python
def test_a_process_of_another_user_is_not_permitted(py):
    need_root()
    target = spinning(py)
    binary, home = harness.for_nobody()
    harness.refused(4, "-p", target.pid, "-d", 1, about=[target.pid], user=NOBODY, binary=binary, home=home)


@one_python
def test_a_wrong_pid_among_right_ones_is_named(py):
    target, pid = spinning(py), unused_pid()
    harness.refused(3, "-p", "%d,%d" % (target.pid, pid), "-d", 1, about=[pid])


@each(event=["nosuchevent", "cpu-clock,nosuchevent"])
@one_python
def test_an_unknown_event(py, event):
    harness.refused(5, "-p", spinning(py).pid, "-e", event, "-d", 1, about=["nosuchevent"])


@one_python
def test_a_hardware_event_without_a_pmu(py):
    if harness.has_pmu():
        raise harness.Skip("this machine has a PMU")
    harness.refused(5, "-p", spinning(py).pid, "-e", "cache-misses", "-d", 1, about=["cache-misses"])


@each(options=["-F 0", "-F -1", "-F abc", "-F 99 -c 100", "-c 0", "-c -3", "--no-native --native=full", "-d abc",
               "--capture nonsense", "--provenance maybe", "--max-frames 0", "--max-frames 9000", "--hold-budget 101",
               "--memory 0", "--memory 5X", "--memory M", "--memory -3K", "--nosuchoption", "-o x.data --format nonsense", "-e", "-- true", "--mode wall --weight samples -o a.folded"])
@one_python
def test_wrong_usage(py, options):
    harness.refused(2, "-p", spinning(py).pid, *options.split())


@each(options={"--rate 100": "-F HZ", "-r 100": "-F HZ", "-f speedscope": "--format", "--subprocesses": "--follow", "--idle": "--mode wall",
               "--call-graph=dwarf": "--native", "-x 3": "-d SEC", "--function": "--folded-lines=no",
               "--nonblocking": "--capture async", "-C 0": "--follow, the default, for child processes", "--per-thread": "--events-on threads",
               "-m app": "--memory SIZE; a module is -- python3 -m MODULE", "-i 100us": "-F HZ: -i 100us is -F 10000", "--gil": "--mode gil",
               "--no-inherit": "--no-follow", "--off-cpu": "--mode wall", "--uid x": "-u USER", "--all-user": "-e EVENT:u", "-w": "pysampled dump PID",
               "--mmap-pages 9": "--memory SIZE", "--group": "-e '{A,B}'", "--hideprogress": "-q", "--pipe": "-o -", "--children": "--follow"}.items())
def test_what_peers_call_otherwise_is_named(options):
    words, here = options
    harness.refused(2, "-p", 1, *words.split(), about=["here it is " + here])


@each(options={"-b": "its whole stack", "-j any": "its whole stack", "-D 500": "attach with -p PID", "-T": "leave it out, each sample",
               "-k mono": "CLOCK_MONOTONIC", "--switch-output=1m": "end each with -d SEC", "--overwrite": "folded adds up", "--filter x": "-p and -t",
               "--realtime 5": "SCHED_FIFO", "--gc": "[gc]", "-z 5": "behind its option: -z5", "--compress 5": "behind its option: --compress=5",
               "--native full": "--native=full", "-- sleep 5": "what limits the time is -d SEC", "sleep 5": "what limits the time is -d SEC",
               "-e cycles/period=9/": "a period is -c N", "-e cpu-clock/freq=9/": "a frequency -F HZ"}.items())
def test_what_peers_have_and_we_lack_is_answered(options):
    words, instead = options
    harness.refused(2, "-p", 1, *words.split(), about=[instead])


@each(words=["-a sleep 5", "-a -- sleep 5"])
def test_all_processes_for_a_time(words):
    """As perf is asked for it."""
    harness.refused(2, *words.split(), about=["what limits the time is -d SEC"])


@each(event=["off-cpu", "offcpu"])
def test_time_off_cpu_is_a_mode(event):
    harness.refused(5, "-p", 1, "-e", event, about=["here it is --mode wall"])


@each(words={"top --pid 1": "pysampled -p PID", "annotate f": "report FILE --annotate", "script": "convert FILE", "list": "events", "attach 1": "pysampled -p PID",
              "bt": "pysampled dump PID", "py-bt": "pysampled dump PID", "info threads": "pysampled dump PID", "thread apply all bt": "pysampled dump PID",
              "stat -e cs sleep 1": "report --by event", "run x.py": "pysampled -- CMD"}.items())
def test_what_peers_have_other_commands_for_is_named(words):
    theirs, here = words
    harness.refused(2, *theirs.split(), about=["here it is ", here])


def test_what_perf_report_calls_otherwise_is_named():
    harness.refused(2, "report", "--percent-limit", 1, about=["here it is -n ROWS"])


@one_python
def test_a_process_that_is_named_twice_is_one(py):
    target = spinning(py)
    run = harness.pysampled("-p", target.pid, "-p", "%d,%d" % (target.pid, target.pid), "-t", target.pid, "-d", 0.3, "-o", "a.folded",
                            cwd=harness.folder()).ok()
    check("sampling 1 thread of 1 process " in run.err, "how many it is: %s", run)


@each(options=["-e cpu-clock -c 5000000", "-e page-faults -c 22", "-e page-faults -c 1", "-F 49"])
@one_python
def test_what_is_sampled_how_often_is_said(py, options):
    """Of one process, and of two."""
    targets, home = [spinning(py), spinning(py)], harness.folder()
    said = {"5000000": "every 5 ms", "22": "every 22 events", "1": "every event", "49": "at 49 Hz"}[options.split()[-1]]
    for some, who in (targets[:1], ""), (targets, " and 1 more"):
        pids = ",".join(str(target.pid) for target in some)
        run = harness.pysampled("-p", pids, *options.split(), "-d", 0.3, "-o", "a.folded", cwd=home).ok()
        line = r"attached to %d%s: sampling %d threads? of %d process(es)? %s" % (some[0].pid, who, len(some), len(some), said)
        check(re.search(line + "\n", run.err), "%s is not said: %s", line, run)


@one_python
def test_memory_that_is_too_little(py):
    target = spinning(py)
    harness.refused(1, "-p", target.pid, "-e", "cpu-clock", "-d", 1, "--memory", "256K", about=["--memory 256K", "need"])
    need = re.search(r"need (\d+M)", harness.pysampled("-p", target.pid, "--memory", "256K").err).group(1)
    run = harness.pysampled("-p", target.pid, "-d", 0.5, "--memory", need, "-o", "a.folded",
                            cwd=harness.folder()).ok()
    check("queues of 512 KiB" in run.err, "not a word of what is smaller: %s", run)
    harness.enough(run.n("samples") > 0, "no samples: %s", run)


def test_no_arguments_at_all_are_wrong_usage():
    run = harness.pysampled(limit=20).ok(2)
    check("Usage" in run.err and run.out == "", "usage belongs on stderr: %s", run)


@each(options=["-F 99", "nosuchcommand", "record extra", "dump", "dump -p", "record -o a.data"])
def test_wrong_usage_without_a_target(options):
    harness.refused(2, *options.split())


@each(output=["/nonexistent/folder/a.data", "/proc/a.data", "/"])
@one_python
def test_an_unwritable_output(py, output):
    harness.refused(1, "-p", spinning(py).pid, "-e", "cpu-clock", "-d", 1, "--format", "perf", "-o", output, about=[output])


@one_python
def test_an_output_folder_that_nobody_may_write(py):
    need_root()
    target = Target(harness.debian_python(), "groundtruth.py", "--us", 50, user=NOBODY)
    binary, home = harness.for_nobody()
    out = os.path.join(harness.folder(0o755), "a.data")
    quiet = ["-e", "cpu-clock", "--no-kernel", "--capture", "async"]  # nothing to say but why it fails
    harness.refused(1, "-p", target.pid, *quiet, "-d", 1, "-o", out, about=[out, "denied"], user=NOBODY, binary=binary,
                    home=home)


@each(name=["a.folded", "a.data"])
@one_python
def test_a_full_disk_ends_the_record_and_leaves_what_fits(py, name):
    need_root()
    target = spinning(py)
    small, home = harness.small_disk(256 if name.endswith(".data") else 4), harness.folder()
    out = os.path.join(small, name)
    run = harness.pysampled("-p", target.pid, "-F", 4999, "-d", 10, "-o", out, home=home).ok(1)
    said = [line for line in run.err.splitlines() if "space" in line.lower() or "full" in line.lower()]
    equal(len(said), 1, "lines that say so: %s" % run)
    check(os.path.getsize(out) > 0, "nothing was kept")
    if name.endswith(".folded"):
        check(harness.total(harness.read_folded(out)) > 0, "no stack was kept")
    else:
        enough(harness.perf_samples(out, home) > 100, "perf reads no samples")
    harness.runs_on(target.pid)


@one_python
def test_a_full_device(py):
    run = harness.pysampled("-p", spinning(py).pid, "-F", 999, "-d", 1, "-o", "/dev/full", "--format", "folded").ok(1)
    check("space" in run.err, "it does not say why: %s", run)


@one_python
def test_an_output_that_fails_ends_alone(py):
    home = harness.folder()
    data = os.path.join(home, "a.data")
    harness.need_root()
    small = os.path.join(harness.small_disk(16), "small.data")
    target = spinning(py)
    for outputs, said in (("-o", small, "-o", data), small), (("-o", data, "-o", "-", "--format", "folded"), "standard output"):
        command = ["sh", "-c", 'exec "$@" >/dev/full', "sh"] if said != small else []
        run = harness.pysampled("-p", target.pid, "-F", 4999, "-d", 3, *outputs, home=home, wrapper=command).ok(1)
        check(float(run.summary["duration"].rstrip("s")) > 2.9, "it ended with its first output: %s", run)
        equal(harness.perf_samples(data, home), run.n("samples"), "samples in the other")
        told = [line for line in run.err.splitlines() if said in line and "No space" in line]
        check(told and (said != small or len(told) == 2 and "ends here" in told[0]), "it is not told when it happens: %s", run)
        check(said != small or 0 < run.n("unwritten") < run.n("samples"), "what the one lacks: %s", run)


@harness.dealt
@each(number=["SIGINT", "SIGTERM"])
@each_python
def test_a_recording_cut_short_is_whole_up_to_there(py, number):
    target = spinning(py)
    recorder = Recorder("-p", target.pid, "-F", 999, "-o", "a.data", "-o", "a.folded").attached()
    harness.works(target.pid, 0.5)
    run = recorder.signal(getattr(signal, number)).wait(15).ok()
    data, stacks = (os.path.join(recorder.home, name) for name in ("a.data", "a.folded"))
    enough(run.n("samples") >= 250, "too few samples: %s", run)
    equal(harness.perf_samples(data, recorder.home), run.n("samples"), "samples in perf script")
    harness.same_counts(run, harness.read_folded(stacks))
    out, err = harness.perf("report", "--stdio", "-i", data, home=recorder.home)
    equal(err.strip(), "", "what perf report warns")
    check("py::g_00" in out, "no Python function: %s", out[:2000])


@each(most=[4, 5, 6, 7, 8])
@each(command=["record", "dump", "doctor"])
@one_python
def test_too_few_descriptors_to_look_at_a_process_are_told(py, command, most):
    """It said that no such process was there, or no Python, and exit 3."""
    target = harness.Target(py, "groundtruth.py")

    wrapper = ["sh", "-c", "ulimit -n %d; exec \"$0\" \"$@\"" % most]
    run = harness.pysampled(command, "-p", target.pid, *["-d", "0.1", "-o", "a.folded"][:4 * (command == "record")],
                            wrapper=wrapper)
    if run.rc != 0 or command == "record":
        equal(run.rc, 1, "exit status of %s" % run)
        check("ulimit -n" in run.err + run.out, "it does not say what to do: %s", run)


@one_python
def test_a_limit_that_is_lowered_meanwhile(py):
    """A recording that can't open anything any more goes on with what it has, and ends when it is told to."""
    need_root()
    target = spinning(py)
    recorder = Recorder("-p", target.pid, "-F", 999, "-o", "a.folded").recording()
    resource.prlimit(recorder.pid, resource.RLIMIT_NOFILE, (2, 2))
    harness.works(target.pid, 1)
    run = recorder.signal(signal.SIGINT).wait(20).ok()
    enough(run.n("samples") > 200, "too few samples: %s", run)


@harness.each(command=["record", "dump", "report", "doctor"])
def test_too_small_a_stack_is_told(command):
    """It would be a segmentation fault."""
    words = {"record": ["-o", "-", "--format", "folded", "--", "true"], "dump": ["dump", str(os.getpid())], "report": ["report", "x"],
             "doctor": ["doctor"]}[command]
    run = harness.pysampled(*words, wrapper=("sh", "-c", 'ulimit -s 100; exec "$@"', "sh"))
    equal(run.rc, 125 if command == "record" else 1, "the exit code: %s" % run)
    check("ulimit -s" in run.err, "it does not say what to do: %s", run)
