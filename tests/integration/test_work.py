"""What a recording itself does, in counts: they are the same on every machine, and bounds of them hold on a busy one too."""
import os
import re
import subprocess

import harness
from harness import Target, check, each, enough, equal, need_fifo, one_python
from machine import cgroup

NAMES = {"us", "cpu_us", "opens", "reads", "ranges", "records", "rings", "foreign", "wakeups", "samples"}
TRACEPOINT = "raw_syscalls/sys_enter/id"


def parts(run):
    """{part: {name: number}}"""
    found = {}
    for line in run.err.splitlines():
        if line.startswith("work: "):
            words = dict(word.split("=") for word in line.split()[1:])
            part = words.pop("part")
            found[part] = {name: int(value) for name, value in words.items()}
    return found


def record(target, *args, seconds=2, **options):
    run = harness.pysampled("-p", target.pid, "-e", "cpu-clock", "-d", seconds, "-o", "out.folded", *args, **options).ok()
    return run, parts(run)


def births():
    """Processes and threads that this machine has ever begun."""
    with open("/proc/stat") as file:
        return int(re.search(r"^processes (\d+)", file.read(), re.M)[1])


def counts_syscalls():
    return any(os.access(os.path.join(place, "events", TRACEPOINT), os.R_OK)
               for place in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing"))


@one_python
def test_work_is_told_with_v_and_work_only(py):
    target = Target(py, "groundtruth.py", "--us", 10)
    equal(record(target, seconds=1)[1], {}, "work lines that nobody asked for")
    run, work = record(target, "-v")
    equal(set(work), {"first", "run", "half", "all", "bytes"}, "parts")
    for part in ("first", "run", "half", "all"):
        equal(set(work[part]), NAMES, "counts of part %s" % part)
    equal(work["first"]["samples"], 0, "samples before the first")
    equal(work["all"]["samples"], run.n("samples"), "samples queued")
    for name in NAMES:
        check(work["first"][name] + work["run"][name] <= work["all"][name], "%s: more in parts than in all: %s", name, work)
        check(work["half"][name] <= work["run"][name], "%s: more in the second half than in the whole: %s", name, work)


@each(options=[(), ("--native-lines",)])
@one_python
def test_the_processes_that_read_files_are_in_cpu(py, options):
    """A cgroup says what pysampled and its processes have used; to end takes them some, after it was said."""
    path, inside = cgroup("cpuacct")
    target = Target(py, "manylibs.py")
    run, _ = record(target, *options, wrapper=inside)
    with open(path + "/cpuacct.usage") as file:
        used, said = int(file.read()) / 1e9, float(run.summary["cpu"].rstrip("s"))
    check(0.75 * used < said < used + 0.02, "%.3f s were used: %s", used, run)
    return "%.3f of %.3f s" % (said, used)


@one_python
def test_a_proof_takes_the_same_on_any_number_of_cpus(py):
    """One ring, the own one, and some words of a table; but each sample of a stranger's, or process born, may be a look into every ring."""
    need_fifo()
    if os.geteuid() != 0:
        raise harness.Skip("not root: no events on CPUs")
    target = Target(py, "groundtruth.py", "--us", 10, "--idle", 50)
    before = births()
    run, work = record(target, "-F", 499, "--events-on", "cpus", "--hold-budget", 100, "-v")
    all_of, cpus = work["run"], work["bytes"]["cpus"]
    samples, strangers = all_of["samples"], run.counter("foreign") + births() - before + 10
    enough(samples >= 100, "too few samples: %s", run)
    equal(all_of["opens"], 0, "events opened while it ran")
    check(work["first"]["opens"] <= 12 + 4 * cpus, "events opened: %s", work["first"])
    check(all_of["rings"] <= 1.05 * samples + cpus * strangers, "rings: %s", run)
    check(all_of["foreign"] <= 14 * samples + 5 * cpus * strangers, "words of other CPUs: %s", run)


@each(options=[(), ("--no-kernel", "--no-native")])
@one_python
def test_what_a_sample_takes_is_bounded(py, options):
    """Some remote reads; each ring once, and others' rings for a sample of a process that is not known yet."""
    need_fifo()
    target = Target(py, "groundtruth.py", "--us", 10, "--idle", 50)
    run, work = record(target, "-F", 999, "--hold-budget", 100, "-v", *options)
    half, cpus = work["half"], work["bytes"]["cpus"]
    enough(half["samples"] >= 100, "too few samples: %s", run)
    for name, most in (("opens", 0), ("reads", 4), ("rings", 1.4 * cpus), ("foreign", 8 * cpus + 8), ("records", 16 * cpus),
                       ("wakeups", 2)):
        check(half[name] <= most * half["samples"], "%s: %.2f a sample, want %g at most: %s", name, half[name] / half["samples"],
              most, run)


@one_python
def test_threads_that_wait_cost_nothing_once_they_are_known(py):
    """Their names too are read once, not twice a second: 1,000 of them took 80 system calls a sample."""
    if not counts_syscalls():
        raise harness.Skip("no tracefs, or not readable: system calls are not counted")
    target = Target(py, "groundtruth.py", "--us", 10, "--idle", 1000)
    run, work = record(target, "--work", "--no-kernel", "--no-native", seconds=6)
    half = work["half"]
    enough(half["samples"] >= 50, "too few samples: %s", run)
    check(half["syscalls"] <= 12 * half["samples"], "system calls a sample, beside 1,000 threads that wait: %.1f: %s",
          half["syscalls"] / half["samples"], run)


@each(where=["cpus", "threads"])
@one_python
def test_a_start_opens_what_threads_and_cpus_need(py, where):
    """Some for each CPU, and for each thread one for each CPU and event it carries, no watch where it sleeps; none where CPUs carry all."""
    harness.need_root()
    few, many = (record(Target(py, "groundtruth.py", "--us", 10, "--idle", idle), "-v", "--events-on", where, seconds=1)[1]
                 for idle in (0, 40))
    cpus = few["bytes"]["cpus"]
    if where == "cpus":
        equal(many["first"]["opens"], few["first"]["opens"], "events opened")
        return
    more = many["bytes"]["threads"] - few["bytes"]["threads"]
    equal(more, 40, "threads more")
    opens = many["first"]["opens"] - few["first"]["opens"]
    check(cpus * more <= opens <= 2 * cpus * more + 8, "%d threads more took %d more opens on %d CPUs", more, opens, cpus)


@one_python
def test_system_calls_are_counted_or_said_not_to_be(py):
    run, work = record(Target(py, "groundtruth.py", "--us", 10), "--work")
    if "system calls are not counted" in run.err:
        check(not counts_syscalls() or not harness.is_root(), "there is %s: %s", TRACEPOINT, run)
        check("syscalls" not in work["all"], "a number for what is not counted: %s", run)
        return
    # Each of these is one, of whatever thread, and there are others.
    for part, names in (("first", ("opens", "reads")), ("run", ("reads", "wakeups"))):
        known = sum(work[part][name] for name in names)
        check(work[part]["syscalls"] > known - work["bytes"]["cpus"] > 0, "fewer system calls than %s: %s", names, run)


@one_python
def test_what_a_resolver_was_given_is_played_from_full_queues(py):
    """tools/bench --resolver: more than a CPU's queue holds, so the inbox has to come while it is filled."""
    target, saved = Target(py, "groundtruth.py", "--us", 10), os.path.join(harness.folder(), "saved")
    build = os.path.dirname(harness.PYSAMPLED)
    run = harness.pysampled("-p", target.pid, "-F", 4999, "-d", 2, "-o", "out.folded", wrapper=["env", "PYSAMPLED_SAVE=" + saved],
                            binary=os.path.join(build, "pysampled_save")).ok()
    enough(os.path.getsize(saved) > 2 << 20, "only %d bytes: %s", os.path.getsize(saved), run)
    played = subprocess.run([os.path.join(build, "resolver_replay"), saved, "-c", "1", "-r", "2"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    equal(re.findall(r" (played|lost)=(\d+)", played), [("played", str(run.n("samples"))), ("lost", "0")], "what was played")


def test_an_ordinary_user_is_told_what_lacks():
    harness.need_root()
    binary, home = harness.for_nobody()
    target = Target(harness.debian_python(), "groundtruth.py", "--us", 10, user=harness.NOBODY)
    run = harness.pysampled("--work", "-p", target.pid, "-e", "cpu-clock:u", "-d", 1, "-o", "out.folded", binary=binary, home=home,
                            user=harness.NOBODY).ok()
    check("system calls are not counted: tracepoints have their numbers in" in run.err, "no reason: %s", run)
    check("syscalls" not in parts(run)["all"], "a number for what is not counted: %s", run)


def counted(_, work):
    if "syscalls" not in work["first"]:
        raise harness.Skip("system calls are not counted here")
    return work["first"]["syscalls"]


def started(py, idle, least=3):
    """System calls until the first sample, the least of some recordings: on a busy machine processes are born meanwhile and a
    start waits more often. And the threads of the target."""
    target = Target(py, "groundtruth.py", "--us", 10, "--idle", idle)
    calls = min(counted(*record(target, "--work", "--no-kernel", "--no-native", seconds=1)) for _ in range(least))
    threads = len(os.listdir("/proc/%d/task" % target.pid))
    harness.end(target.process)
    return calls, threads


def asks_files(py):
    """Where its interpreter is, and where that counts code, not all tell by what they export."""
    return py.tag.replace("debian", "").split(".")[:2] in (["2", "7"], ["3", "6"], ["3", "12"])


@one_python
def test_a_start_takes_few_system_calls(py):
    """Of 2 CPUs some 310 were counted, of which 25 a CPU, and 1.2 a thread: who it is that may run how urgently. Names are told
    at samples, children by whatever there is less of, threads or processes."""
    need_fifo()
    harness.need_root()
    if not counts_syscalls():
        raise harness.Skip("system calls are not counted here")
    run, work = record(Target(py, "groundtruth.py", "--us", 10), "-v", seconds=1)
    if "events on CPUs" not in run.err or work["bytes"]["threads"]:
        raise harness.Skip("events on threads here")
    (few, n_few), (many, n_many) = started(py, 0), started(py, 1500)
    cpus, processes = work["bytes"]["cpus"], sum(name.isdigit() for name in os.listdir("/proc"))
    check(n_many - n_few == 1500, "threads: %d and %d", n_few, n_many)
    check(few <= 337 + 100 * asks_files(py) + 27 * cpus, "%d system calls until the first sample on %d CPUs", few, cpus)
    more = many - few - 4 * processes  # of each the parent is asked
    check(more <= 2 * 1500, "%d system calls more for 1500 threads beside %d processes", more, processes)


@one_python
def test_a_process_takes_few_system_calls(py):
    need_fifo()
    harness.need_root()
    if not counts_syscalls():
        raise harness.Skip("system calls are not counted here")
    calls = []
    for workers in (12, 112):  # of the first some are looked at before they run
        target = Target(py, "workers.py", workers)
        calls.append(min(counted(*record(target, "--work", "--no-kernel", "--no-native", seconds=1)) for _ in range(3)))
        harness.end(target.process)
    check(calls[1] - calls[0] <= 12 * 100, "%d system calls more for 100 processes", calls[1] - calls[0])


# Waits, and what other programs cause: readers note who else runs on their CPU.
OTHERS = re.compile(r"\d+ +(poll|futex|epoll_wait|clock_nanosleep|brk|exit)\(|.*BPF_MAP_UPDATE_ELEM")


def calls_until_attached(lines, pid):
    """The names of the calls that strace saw from main() on, without OTHERS and without the looks at who was born meanwhile."""
    begun, births, names = False, 0, []
    for line in lines:
        call = re.match(r"\d+ +(\w+)\(", line)  # else the second half of one that was interrupted
        begun = begun or "SIGPIPE" in line
        if '"pysampled: attached' in line:
            break
        if call and begun and not OTHERS.match(line):
            names.append(call[1])
            born = re.search(r'"/proc/(\d+)/task/\1/status"', line)
            births += (1 if "ENOENT" in line else 3) if born and int(born[1]) != pid else 0
    return names, len(names) - births


@one_python
def test_a_start_takes_these_system_calls_and_no_more(py):
    """Those until readers wait. Other programs don't count, so the limit is near."""
    need_fifo()
    harness.need_root()
    target, home = Target(py, "groundtruth.py", "--us", 10), harness.folder(0o777)
    wrapper = [harness.need_command("strace"), "-f", "-e", "signal=none", "-o", os.path.join(home, "calls")]
    counted = []
    for _ in range(3):  # what a running target changes meanwhile is read again
        run = harness.pysampled("-p", target.pid, "-e", "cpu-clock", "-d", 1, "--no-kernel", "--no-native", "-o", "out.folded", "-v",
                                wrapper=wrapper, home=home).ok()
        if "events on CPUs" not in run.err:
            raise harness.Skip("events on threads here")
        with open(os.path.join(home, "calls")) as file:
            lines = list(file)
        threads = next(i for i, line in enumerate(lines) if "CLONE_THREAD" in line)
        grown = [line for line in lines[threads:] if int((re.search(r"F_DUPFD_CLOEXEC, (\d+)", line) or "00")[1]) > 64]
        equal(grown, [], "the table of descriptors grows when threads share it, for which the kernel waits 10 ms")
        opened = [line.split()[0] for line in lines if "perf_event_open(" in line]
        main = lines[0].split()[0]
        first = next(i for i, line in enumerate(lines) if line.startswith(main + " ") and "perf_event_open(" in line)
        check(threads < first and any(tid != main and opened.count(tid) == 1 for tid in opened),
              "the first event, for which the kernel waits 10 ms, is opened by a thread that goes on with the start: %s", opened)
        names, n = calls_until_attached(lines, target.pid)
        counted.append((n, names))
    n, names = min(counted)
    cpus = parts(run)["bytes"]["cpus"]
    # 18 are of the thread that looks where a look may hang, and of a timer for an open that does; 6 ask whether the target has
    # become another program by the time that its events are open, and 1 whether we are in a time namespace. 13 are of the thread
    # that has the kernel wait for the first event. 6 ask whose the target is, before it may end: for its reads, and for the look.
    # Where memory does not tell where the interpreter is, some 140 are of the processes that read files: one is loaded, and gives
    # up its rights, each of 41 capabilities by itself; two more begin, and the last one finds it.
    check(n <= 272 + 144 * asks_files(py) + 23 * cpus, "%d system calls on %d CPUs: %s", n, cpus,
          sorted(((names.count(name), name) for name in set(names)), reverse=True))


@one_python
def test_files_that_are_on_no_stack_are_not_read(py):
    """What is read of a file comes in a file of memory: of 150 libraries some ten are needed."""
    harness.need_root()
    target, home = Target(py, "manylibs.py"), harness.folder(0o777)
    wrapper = [harness.need_command("strace"), "-f", "-e", "trace=memfd_create", "-e", "signal=none", "-o", os.path.join(home, "calls")]
    run = harness.pysampled("-p", target.pid, "-e", "cpu-clock", "-d", 1, "-o", "out.folded", wrapper=wrapper, home=home).ok()
    with open(os.path.join(home, "calls")) as file:
        read = sum("memfd_create(" in line for line in file)
    check(0 < read < 50, "%d files were read: %s", read, run)


@one_python
def test_what_was_proven_of_a_file_is_not_proven_in_each_process(py):
    """Of the 19 remote reads that a copy of the named process took, 7 proved once more what was proven of its file."""
    harness.need_root()
    reads = []
    for workers in (0, 8):  # so many are looked at before they run
        target = Target(py, "workers.py", workers)
        reads.append(min(record(target, "-v", seconds=1)[1]["first"]["reads"] for _ in range(3)))
        harness.end(target.process)
    check(reads[1] - reads[0] <= 14 * 8, "%d remote reads more for 8 processes", reads[1] - reads[0])
