"""Events that are no counters: the one Python line that causes them gets them, in each capture that can have them."""
import collections
import json
import os
import platform
import shutil
import subprocess

import harness
import tolerances
from harness import Recorder, Target, check, each, each_python, enough, equal, not_quick, one_python, refused
from machine import need_two_cpus

BESIDE = True

CYCLES = 300
MAX_EVENTS = 16  # SESSION_MAX_EVENTS, lib/sample/sample.h
PMUS = "/sys/bus/event_source/devices"


def need_pmu(name):
    harness.need_root()
    if not os.path.isdir(os.path.join(PMUS, name)):
        raise harness.Skip("this kernel has no %s PMU" % name)


def breakpoint_here(address):
    """Virtual machines may have no debug registers that work."""
    run = harness.pysampled("-p", os.getpid(), "--any", "-d", 0.1, "-e", "mem:%#x/1:w" % address, "-o", "-")
    if run.rc == 5:
        raise harness.Skip("no breakpoints here: %s" % run.err.strip())


def record(target, event, *args, cycles=CYCLES):
    """A recording of so many cycles, each of which is to cause one event: the run and its stacks."""
    out = os.path.join(harness.folder(0o777), "out.folded")
    recorder = Recorder("-p", target.pid, "-e", event, "--hold-budget", 100, "-o", out, *args).attached()
    recorder.recording()
    target.say("%d" % cycles)
    target.line("DONE")
    recorder.signal(2)
    run = recorder.wait().ok()
    equal(run.n("lost"), 0, "lost samples of %s" % run)
    return run, harness.read_folded(out)


def on_the_line(run, stacks, want, cycles, share=tolerances.EXACT, sure=True):
    """At least so many of the samples are on the line, none of the sure ones is elsewhere, and none is missing."""
    if sure:
        stacks = harness.sure(stacks)
    want = [tuple(pair) for pair in want]
    right = 0
    for frames, count in stacks:
        got = [(name, line) for name, _, line in reversed(harness.python_frames(frames))]
        check(not sure or got[:2] == want, "%s at %s, want %s: %s", count, got[:2], want, run)
        right += count * (got[:2] == want)
    equal(run.n("samples"), cycles, "samples of %s" % run)
    enough(right >= share * run.n("samples"), "%d are on the line: %s", right, run)
    return "%d of %d samples are on the line" % (right, run.n("samples"))


@harness.dealt
@each(capture=["preempt", "stop"])
@each_python
def test_a_uprobe_lies_on_the_calling_line(py, capture):
    need_pmu("uprobe")
    if capture == "preempt":
        harness.need_fifo()
    target = Target(py, "triggers.py")
    run, stacks = record(target, "uprobe:%s:touch_02" % target.info["file"], "--capture", capture)
    word = on_the_line(run, stacks, target.info["lines"]["touch_02"], CYCLES)
    leaves = {frames[-1] for frames, _ in stacks}
    equal(leaves, {"touch_02"}, "native leaves")
    check("breakpoint" in run.err, "that code is changed must be said: %s", run)
    return word


@each(capture=["preempt", "stop"])
@one_python
def test_a_uprobe_on_any_instruction_is_exact(py, capture):
    """The kernel gets past a breakpoint in several ways; after none of them does the thread seem to have moved."""
    need_pmu("uprobe")
    if capture == "preempt":
        harness.need_fifo()
    target = Target(py, "probed.py", extensions=("probed",))
    names, sure, runs = target.info["names"], collections.Counter(), []
    for first in range(0, len(names), MAX_EVENTS):
        events = ["uprobe:%s:%s" % (target.info["file"], name) for name in names[first:first + MAX_EVENTS]]
        run, stacks = record(target, ",".join(events), "--capture", capture)
        equal(run.n("samples"), CYCLES * len(events), "samples of %s" % run)
        runs.append(str(run))
        sure += sum((collections.Counter({frames[-1]: n}) for frames, n in harness.sure(stacks)), collections.Counter())
    check(all(n <= CYCLES for n in sure.values()), "more than the %d that happened: %s", CYCLES, sure)
    few = [name for name in names if sure[name] < tolerances.EXACT_CHILDREN * CYCLES]  # a busy host makes some of each late
    enough(not few, "want %d each: %s, %s", CYCLES, {name: sure[name] for name in few}, "\n".join(runs))
    return "%d functions" % len(names)


LOCKED = r'''__asm__(".globl locked\n.type locked, %function\nlocked: lock incq 1f(%rip)\nret\n.size locked, . - locked\n"
".data\n1: .quad 0\n.text\n");'''


@one_python
def test_an_instruction_that_can_not_be_probed_is_said(py):
    need_pmu("uprobe")
    harness.need_command("cc")
    if platform.machine() != "x86_64":
        raise harness.Skip("one of x86-64")
    lib = os.path.join(harness.folder(), "lib.so")
    subprocess.run(["cc", "-shared", "-x", "c", "-o", lib, "-"], input=LOCKED, text=True, check=True)
    code = "import ctypes, time; ctypes.CDLL(%r); print(1, flush=True); time.sleep(60)" % lib
    target = harness.start(py.command() + ["-c", code], stdout=-1)
    target.stdout.readline()
    refused(5, "-p", target.pid, "-e", "uprobe:%s:locked" % lib, "-o", "a.folded", about=["breakpoint", "instruction"])


FUNCTIONS = """int f_old(void) { return 1; }
int f_new(void) { return 2; }
__asm__(".symver f_old, f@V1\\n.symver f_new, f@@V2");
int chosen(void) { return 3; }
static int (*choose(void))(void) { return chosen; }
int g(void) __attribute__((ifunc("choose")));
"""
TWICE = "static __attribute__((noinline, noclone)) int twice(int n) { return n %s 3; }\nint %s(int n) { return twice(n); }\n"


@one_python
def test_of_several_functions_of_a_name(py):
    """The version that programs get is the one; which of several static functions is meant must be said."""
    need_pmu("uprobe")
    harness.need_command("cc")
    where = harness.folder()
    files = {"f.c": FUNCTIONS, "a.c": TWICE % ("*", "a"), "b.c": TWICE % ("/", "b"), "map": "V1 {}; V2 {} V1;\n"}
    for name, text in files.items():
        with open(os.path.join(where, name), "w") as file:
            file.write(text)
    for kind in ("", "-s"):
        subprocess.run("cc -O2 %s -shared -fPIC -Wl,--version-script=map f.c a.c b.c -o lib.so" % kind, shell=True, check=True, cwd=where)
        lib = os.path.join(where, "lib.so")
        code = "import ctypes; f = ctypes.CDLL(%r).f; print(sum(f() for _ in range(200)))" % lib
        run = harness.pysampled("-e", "uprobe:%s:f" % lib, "--hold-budget", 100, "-o", "a.folded", "--", py.path, "-c", code).ok()
        equal(run.out, "400\n", "what the new version said")
        equal(run.n("samples"), 200, "samples of %s" % run)
        refused(5, "-e", "uprobe:%s:g" % lib, "-o", "a.folded", "--", py.path, "-c", "0", about=["'g'", "chosen"])
        if not kind:
            refused(2, "-e", "uprobe:%s:twice" % lib, "-o", "a.folded", "--", py.path, "-c", "0", about=["several", "address"])


@one_python
def test_a_return_lies_on_the_calling_line(py):
    need_pmu("uprobe")
    harness.need_fifo()
    target = Target(py, "triggers.py")
    run, stacks = record(target, "uretprobe:%s:touch_01" % target.info["file"])
    return on_the_line(run, stacks, target.info["lines"]["touch_01"], CYCLES)


@harness.dealt
@each(capture=["preempt", "stop"])
@each_python
def test_a_breakpoint_lies_on_the_writing_line(py, capture):
    if capture == "preempt":
        harness.need_fifo()
    target = Target(py, "triggers.py")
    address = target.info["bytes"]["touch_03"]
    breakpoint_here(address)
    if capture == "stop" and platform.machine() == "aarch64":
        refused(5, "-p", target.pid, "-e", "mem:%#x/1:w" % address, "--capture", "stop", "-d", 1, about=["--capture stop"])
        return "refused"
    run, stacks = record(target, "mem:%#x/1:w" % address, "--capture", capture)
    return on_the_line(run, stacks, target.info["lines"]["touch_03"], CYCLES)


@harness.dealt
@each(event=["syscalls:sys_enter_nanosleep", "syscalls:sys_exit_nanosleep", "syscalls:sys_enter_getppid"])
@each_python
def test_a_tracepoint_lies_on_the_calling_line(py, event):
    """The call that does not wait is back in user mode at once."""
    harness.need_tracepoints()
    harness.need_fifo()
    target = Target(py, "triggers.py")
    run, stacks = record(target, event, "-v")
    return on_a_line_each(run, stacks, target, "ask" if event.endswith("getppid") else "doze")


def on_a_line_each(run, stacks, target, what):
    """All four lines have their share, and nothing else has any. On a busy machine some samples are late."""
    wants = {tuple(map(tuple, lines)): 0 for name, lines in target.info["lines"].items() if name.startswith(what)}
    for frames, count in harness.sure(stacks):
        got = tuple((name, line) for name, _, line in reversed(harness.python_frames(frames)))[:2]
        check(got in wants, "%d at %s: %s", count, got, run)
        wants[got] += count
    equal(sum(wants.values()), run.n("exact"), "samples on the lines, of those that are exact")
    equal(run.n("samples"), 4 * CYCLES, "samples of %s" % run)
    check(max(wants.values()) <= CYCLES, "more than the %d that happened: %s", CYCLES, wants)
    # Where the kernel hides threads, who wakes up elsewhere right behind the read is late, too.
    unseen = run.counter("late_unseen")
    enough(min(wants.values()) + unseen >= tolerances.EXACT_SIGNALLED * CYCLES, "want %d each: %s", CYCLES, wants)
    return "%d of %d samples are on the lines" % (sum(wants.values()), run.n("samples"))


@one_python
def test_sched_switch_lies_on_the_sleeping_line(py):
    """A thread may also be switched out elsewhere, for others; where the kernel puts it to sleep it is on the line."""
    harness.need_tracepoints()
    harness.need_fifo()
    target = Target(py, "triggers.py")
    run, stacks = record(target, "sched:sched_switch", "-v")
    asleep = [(f, n) for f, n in harness.sure(stacks) if any(frame.startswith("doze_") for frame in f)]
    want = {name: tuple(map(tuple, lines)) for name, lines in target.info["lines"].items()}
    for frames, count in asleep:
        got = tuple((name, line) for name, _, line in reversed(harness.python_frames(frames)))[:2]
        native = next(frame for frame in frames if frame.startswith("doze_"))
        equal(got, want[native], "the line of %s" % native)
    unseen = run.counter("late_unseen")  # see on_a_line_each()
    enough(harness.total(asleep) + unseen >= 4 * tolerances.EXACT_CHILDREN * CYCLES, "only %d samples of sleeps: %s",
           harness.total(asleep), run)


@each_python
def test_a_usdt_probe_lies_on_the_calling_line(py):
    need_pmu("uprobe")
    harness.need_fifo()
    target = Target(py, "triggers.py")
    if not has_probes(target.pid):
        refused(5, "-p", target.pid, "-e", "usdt:python:gc__start", "-d", 1, about=["usdt:python:gc__start", "--with-dtrace"])
        raise harness.Skip("this Python is built without USDT probes")
    run, stacks = record(target, "usdt:python:gc__start")
    return on_a_line_each(run, stacks, target, "collect")


@each(py=[harness.debian_python()])
def test_a_usdt_probe_of_a_replaced_program(py):
    """As after an upgrade: what is at its path is another file."""
    need_pmu("uprobe")
    program = os.path.join(harness.folder(), "python")
    shutil.copy(py.path, program)
    code = "import gc, time\nprint('READY', flush=True)\nwhile True:\n    gc.collect()\n    time.sleep(0.01)"
    target = harness.start([program, "-c", code], stdout=subprocess.PIPE, env=dict(os.environ, PYTHONHOME="/usr"))
    target.stdout.readline()
    if not has_probes(target.pid):
        raise harness.Skip("this Python is built without USDT probes")
    os.unlink(program)
    shutil.copy(py.path, program)
    run = harness.pysampled("-p", target.pid, "-e", "usdt:python:gc__start", "-d", 0.5, "-o", "a.folded").ok()
    enough(run.n("samples") > 5, "no samples: %s", run)


def has_probes(pid):
    with open("/proc/%d/maps" % pid) as maps:
        files = {line.split()[-1] for line in maps if "r-xp" in line and "python" in line}
    for path in files:
        with open("/proc/%d/root%s" % (pid, path), "rb") as file:
            if b"stapsdt" in file.read():
                return True
    return False


@one_python
def test_async_never_calls_a_wrong_line_exact(py):
    need_pmu("uprobe")
    target = Target(py, "triggers.py")
    run, stacks = record(target, "uprobe:%s:touch_02" % target.info["file"], "--capture", "async")
    on_the_line(run, stacks, target.info["lines"]["touch_02"], CYCLES, share=0)


@one_python
def test_the_code_is_as_before(py):
    """Also when we are killed: the breakpoint is the kernel's, and goes with our descriptor. Others never have it."""
    need_pmu("uprobe")
    target = Target(py, "triggers.py")
    other = Target(py, "triggers.py")
    before = code_of(target)
    recorder = Recorder("-p", target.pid, "-e", "uprobe:%s:touch_02" % target.info["file"], "-o", "a.folded").attached()
    harness.until(lambda: code_of(target) != before, "the breakpoint is there")
    check(code_of(other) == before, "another process has the breakpoint too")
    recorder.signal(9)
    recorder.process.wait()
    harness.until(lambda: code_of(target) == before, "the code is as before")
    target.say("10")
    target.line("DONE")


def code_of(target):
    """The executable part of the native functions' file, as the target has it."""
    return code_in(target.pid, target.info["file"])[0]


def code_in(pid, file):
    """The executable part of a file as a process has it, and where in the file that is."""
    with open("/proc/%d/maps" % pid) as maps:
        fields = next(line.split() for line in maps if file in line and "r-xp" in line)
    first, last = (int(text, 16) for text in fields[0].split("-"))
    with open("/proc/%d/mem" % pid, "rb") as memory:
        memory.seek(first)
        return memory.read(last - first), int(fields[2], 16)


HAS_CHILD = """
import ctypes, os, subprocess, sys
ctypes.CDLL(sys.argv[1])
print(os.getpid(), flush=True)
sys.stdin.readline()
for code in sys.argv[2:]:
    subprocess.run([sys.executable, "-c", code, sys.argv[1]])
"""


@one_python
def test_a_file_that_is_replaced_has_no_probe(py):
    """As after a rebuild: where the function was other code is now, and a breakpoint could be amidst an instruction."""
    need_pmu("uprobe")
    harness.need_command("cc")
    lib, new = (os.path.join(harness.folder(), name) for name in ("lib.so", "new.so"))
    for path, first in ((lib, ""), (new, "int g(int n) { return n / 1234567 * 7654321; }\n")):
        subprocess.run(["cc", "-shared", "-x", "c", "-o", path, "-"], input=first + "int f(void) { return 1; }\n", text=True, check=True)
    target = harness.start(py.command() + ["-c", HAS_CHILD, lib, HAS_CHILD], stdin=-1, stdout=-1)
    target.stdout.readline()
    recorder = Recorder("-p", target.pid, "-e", "uprobe:%s:f" % lib, "-o", "a.folded").recording()
    before = recorder.events()
    os.rename(new, lib)
    target.stdin.write(b"\n")
    target.stdin.flush()
    child = int(target.stdout.readline())
    harness.until(lambda: recorder.events() > before, "the child has events")
    recorder.recording()
    code, at = code_in(child, lib)
    with open(lib, "rb") as file:
        check(code == file.read()[at:at + len(code)], "the code of the new file is changed")
    recorder.signal(2).wait().ok()


@harness.alone
@each(py=[harness.debian_python()])
def test_threads_and_children_of_a_probed_process(py):
    """A uprobe that children inherited would be opened anew by their parent, which has no right to: its fork would fail."""
    need_pmu("uprobe")
    harness.need_fifo()
    target = Target(py, "triggers.py", "--threads", 2, "--fork", user=harness.NOBODY)
    run, stacks = record(target, "uprobe:%s:touch_02" % target.info["file"], "--threads", cycles=400)
    want = [tuple(pair) for pair in target.info["lines"]["touch_02"]]
    for frames, count in harness.sure(stacks):
        got = [(name, line) for name, _, line in reversed(harness.python_frames(frames))]
        equal(got[:2], want, "the line")
    tasks = {}
    for frames, count in stacks:
        tasks[frames[0]] = tasks.get(frames[0], 0) + count
    check(len(tasks) <= 3, "threads and children with samples: %s", tasks)
    enough(len(tasks) == 3 and min(tasks.values()) > 200, "some are not followed from soon on: %s", tasks)


@one_python
def test_what_an_older_kernel_lacks_is_said(py):
    if linux() >= (5, 13):
        raise harness.Skip("this kernel is none of the old ones")
    target = Target(py, "triggers.py")
    refused(5, "-p", target.pid, "-e", "cgroup-switches", about=("this kernel", "cgroup-switches", "5.13"))
    refused(5, "-p", target.pid, "-e", "{cpu-clock,page-faults}:S", about=(":S", "6.12", "-t"))
    run = harness.pysampled("-p", target.pid, "--no-follow", "-d", 0.1, "-o", "-").ok()
    check("this kernel gives the events to children" in run.err, "that must be said: %s", run)


def linux():
    return tuple(map(int, os.uname().release.split(".")[:2]))


@one_python
def test_a_probe_in_another_copy_of_the_file(py):
    need_pmu("uprobe")
    target = Target(py, "triggers.py")
    copy = os.path.join(harness.folder(), "copy.so")
    shutil.copy(target.info["file"], copy)
    for file, strange in ((copy, True), (target.info["file"], False), ("/proc/%d/root%s" % (target.pid, target.info["file"]), False)):
        run = harness.pysampled("-p", target.pid, "-e", "uprobe:%s:touch_02" % file, "-d", 0.1, "-o", "a.folded").ok()
        equal("no target seems to have mapped" in run.err, strange, "a line about it: %s" % run)


@harness.alone
@each(rate=[("-c", 1000, "cpu-clock"), ("-F", 99999, "cpu-clock"), ("-F", 99999, "cycles")])
@one_python
def test_no_timer_stops_its_cpu(py, rate):
    """The kernel would let one come every 10 us, which is all that a virtual machine can do then."""
    if rate[2] == "cycles" and harness.has_pmu():
        raise harness.Skip("a PMU counts cycles here")
    with open("/proc/sys/kernel/perf_event_max_sample_rate") as file:
        if rate[0] == "-F" and int(file.read()) < rate[1]:
            raise harness.Skip("kernel.perf_event_max_sample_rate is below %d" % rate[1])
    target = Target(py, "groundtruth.py", "--us", 50)
    run = harness.pysampled("-p", target.pid, *rate[:2], "-e", rate[2], "-d", 0.5, "-o", "a.folded").ok()
    check("every 20 us" in run.err, "nothing is said: %s", run)
    equal(run.summary["count" if rate[0] == "-c" else "freq"], "20000" if rate[0] == "-c" else "50000", "the rate")
    enough(run.n("samples") > 100, "too few: %s", run)


STARTS_THREADS = """
import ctypes, gtspin, threading, time
byte = ctypes.create_string_buffer(1)

def start():
    while True:
        thread = threading.Thread(target=time.sleep, args=(0.001,))
        thread.start()
        thread.join()

print(gtspin.__file__, flush=True)
for _ in range(3):
    threading.Thread(target=start).start()
while True:
    time.sleep(0.001)
    gtspin.touch_02(ctypes.addressof(byte))
"""


@harness.alone
@one_python
def test_probes_of_new_threads_make_no_other_thread_late(py):
    """To put a probe into one takes milliseconds, and only of that thread something may be missed meanwhile."""
    need_pmu("uprobe")
    harness.need_fifo()
    env = harness.plain_env(PYTHONPATH=harness.extension(py, "gtspin"))
    target = harness.start(py.command() + ["-c", STARTS_THREADS], stdout=-1, env=env)
    file = target.stdout.readline().decode().strip()
    run = harness.pysampled("-p", target.pid, "-e", "uprobe:%s:touch_02" % file, "-d", 1, "--hold-budget", 100,
                            "-o", "a.folded").ok()
    enough(run.n("samples") > 100, "too few: %s", run)
    enough(run.n("exact") >= tolerances.READER_WITHOUT_CPU * run.n("samples"), "too many are late: %s", run)


@one_python
def test_probes_on_a_cpu_that_comes_later(py):
    """Threads that are born meanwhile, as some always are, get theirs behind that."""
    need_pmu("uprobe")
    need_two_cpus()
    env = harness.plain_env(PYTHONPATH=harness.extension(py, "gtspin"))
    target = harness.start(["taskset", "-c", "0"] + py.command() + ["-c", STARTS_THREADS], stdout=-1, env=env)
    file = target.stdout.readline().decode().strip()
    recorder = Recorder("-p", target.pid, "-e", "uprobe:%s:touch_02" % file, "-o", "a.folded").attached()
    os.sched_setaffinity(target.pid, {0, 1})
    harness.until(lambda: "may run on CPU 1 now" in recorder.text(1), "the second CPU is found", limit=60)
    run = recorder.signal(2).wait().ok()
    check("watched from here on" in run.err, "no probes on the second CPU: %s", run)


@one_python
def test_threads_too_short_for_a_probe_are_counted(py):
    need_pmu("uprobe")
    target = Target(py, "triggers.py", "--threads", 50)
    home = harness.folder(0o777)
    recorder = Recorder("-p", target.pid, "-e", "uprobe:%s:touch_02" % target.info["file"], "-o", "a.folded", home=home).attached()
    recorder.recording()
    for _ in range(20): # the first ones are looked for while the last ones come
        target.say("0")
        target.line("DONE")
    recorder.signal(2)
    run = recorder.wait().ok()
    missed = [int(line.split()[1]) for line in run.err.splitlines() if "had ended before" in line]
    check(missed and 1 <= missed[0] <= 1000, "nothing is said of what is missing: %s", run)


@one_python
def test_terms_of_an_event_alone(py):
    """name=, period= and freq= between a PMU's slashes; this PMU is everywhere, its event 0 is cpu-clock."""
    target = Target(py, "groundtruth.py", "--us", 100)
    home = harness.folder(0o777)
    events = ["software/config=0,name=ticks,period=2000000/u", "software/config=0,freq=200/u"]
    run = harness.pysampled("-p", target.pid, "-d", 2, "-F", 50, "-e", ",".join(events), "-o", "a.folded", "-o", "a.data",
                            home=home).ok()
    count = collections.Counter()
    for frames, n in harness.read_folded(os.path.join(home, "a.folded")):
        count[frames[1]] += n
    equal(set(count), {"event:ticks", "event:" + events[1]}, "names")
    enough(1.7 <= count["event:ticks"] / count["event:" + events[1]] <= 3.3, "500 and 200 a second are wanted: %s: %s", count, run)
    out, _ = harness.perf("evlist", "-v", "-i", os.path.join(home, "a.data"), home=home)
    check("ticks" in out and "2000000" in out and "200," in out, "what perf reads: %s", out)
    refused(2, "-p", target.pid, "-c", 1000, "-e", events[1], about=["freq=", "period"])


@harness.alone
@one_python
def test_groups_are_counted_at_the_leaders_samples(py):
    """A leader that counts CPU time, and a member that counts switches, of which the kernel keeps its own count."""
    harness.need_fifo()
    target = Target(py, "triggers.py")
    group = harness.pysampled("-p", target.pid, "-d", 0.1, "-e", "{task-clock,context-switches}:S", "-o", "-")
    if group.rc == 5 and "6.12" in group.err:
        raise harness.Skip("this kernel can't sample groups where new threads are followed")
    home = harness.folder(0o777)
    recorder = Recorder("-p", target.pid, "-e", "{task-clock,context-switches}:S", "-F", 999, "--hold-budget", 100, "--weight",
                        "period", "-o", "a.folded", "-o", "a.data", home=home).attached()
    recorder.recording()
    before = switches_of(target.pid)
    target.say("%d" % CYCLES)
    target.line("DONE")
    truth = switches_of(target.pid) - before
    recorder.signal(2)
    run = recorder.wait().ok()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    switches = sum(n for frames, n in stacks if frames[1] == "event:context-switches")
    # What comes after the last sample of CPU time is nobody's.
    check(0.9 * truth <= switches <= 1.02 * truth + 20, "%d switches, want %d: %s", switches, truth, run)
    out, _ = harness.perf("script", "-i", os.path.join(home, "a.data"), "-F", "event", home=home)
    seen = {event: out.count(event + ":") for event in ("task-clock", "context-switches")}
    equal(sum(seen.values()), run.n("samples"), "samples of both events in perf script")
    enough(min(seen.values()) > 30, "one of them is missing: %s", seen)
    read_back(os.path.join(home, "a.folded"), {"task-clock": harness.total(stacks) - switches, "context-switches": switches})


@one_python
def test_what_can_only_be_counted_is_read_with_another(py):
    """The time stamp counter has no interrupt, and counts in every mode."""
    need_pmu("msr")
    target, home = harness.start(py.command() + ["-c", "while True: pass"]), harness.folder(0o777)
    refused(5, "-p", target.pid, "-e", "msr/tsc/", about=("can be counted but not sampled", "{cpu-clock,msr/tsc/}:S"))
    run = harness.pysampled("-p", target.pid, "-t", target.pid, "-d", 1, "-e", "{cpu-clock,msr/tsc/}:S", "--weight", "period",
                            "-o", "a.folded", home=home).ok()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    clock, tsc = (sum(n for frames, n in stacks if frames[1] == "event:" + event) for event in ("cpu-clock", "msr/tsc/"))
    enough(clock > 0, "no sample: %s", run)
    check(0.1 * clock < tsc < 20 * clock, "it counts 0.1 to 20 times in a nanosecond: %d in %d ns: %s", tsc, clock, run)


@one_python
def test_groups_of_both_kinds_have_their_own_counts(py):
    """Counts are read by groups where one event is sampled so: each event's is its own, not its leader's."""
    faults = harness.start(py.command() + ["-c", "import mmap\nwhile True:\n    with mmap.mmap(-1, 1 << 20) as m:\n"
                                                 "        for at in range(0, 1 << 20, 4096): m[at] = 1"])
    run = harness.pysampled("-p", faults.pid, "-t", faults.pid, "-d", 1, "-e",
                            "{cpu-clock,page-faults},{task-clock,context-switches}:S", "-o", "a.folded").ok()
    enough(run.n("samples") > 20, "%s", run)
    check(run.n("uncounted") < run.n("samples"), "uncounted: %s", run)


def read_back(path, want):
    """Counts by event of folded stacks of several."""
    rows = json.loads(harness.pysampled("report", path, "--by", "event", "--json").ok().out)["rows"]
    equal({row["name"]: row["self"] for row in rows}, want, "report --by event")
    for event, count in want.items():
        said = harness.pysampled("report", path, "-e", event).ok().out
        check("# %d samples of %s," % (count, event) in said, "report -e %s: %s", event, said[:200])


def switches_of(pid):
    seen = harness.status(pid)
    return int(seen["voluntary_ctxt_switches"]) + int(seen["nonvoluntary_ctxt_switches"])


@one_python
def test_perf_knows_them_by_name(py):
    harness.need_tracepoints()
    need_pmu("uprobe")
    target = Target(py, "triggers.py")
    home = harness.folder(0o777)
    names = ["syscalls:sys_enter_nanosleep", "uprobe:%s:touch_02" % target.info["file"],
             "mem:%#x/1:w" % target.info["bytes"]["touch_01"]]
    breakpoint_here(target.info["bytes"]["touch_01"])
    recorder = Recorder("-p", target.pid, "-e", ",".join(names), "--hold-budget", 100, "-o", "a.data", home=home).attached()
    recorder.recording()
    target.say("50")
    target.line("DONE")
    recorder.signal(2)
    run = recorder.wait().ok()
    out, _ = harness.perf("script", "-i", os.path.join(home, "a.data"), "-F", "event,sym", home=home)
    for name in names:
        enough(out.count(name + ":") >= 40, "%s: %d in perf script: %s", name, out.count(name + ":"), run)
    out, _ = harness.perf("report", "-i", os.path.join(home, "a.data"), "--stdio", home=home)
    for name in names:
        check("of event '%s'" % name in out, "%s is missing in perf report", name)


def test_events_lists_tracepoints_with_a_word():
    harness.need_tracepoints()
    run = harness.pysampled("events", "nanosleep").ok()
    check("syscalls:sys_enter_nanosleep" in run.out and "sched_switch" not in run.out, "wrong ones: %s", run.out)
    check(all(line.endswith(" yes") for line in run.out.splitlines()), "root can have them: %s", run.out)
    refused(5, "events", "nosuchword", about=["nosuchword"])


@each(right=["+dac_read_search", ""])
def test_tracepoints_are_for_who_may_read_their_numbers(right):
    """By a capability, which access(2) does not ask for."""
    harness.need_tracepoints()
    if os.stat("/sys/kernel/tracing").st_mode & 0o007:
        raise harness.Skip("tracefs is open to all here")
    rights = ",".join(filter(None, ["+perfmon", right]))
    wrapper = [harness.need_command("setpriv"), "--reuid", str(harness.NOBODY), "--regid", str(harness.NOBODY), "--clear-groups",
               "--inh-caps", rights, "--ambient-caps", rights]
    binary, home = harness.for_nobody()
    run = harness.pysampled("events", "sched_switch", binary=binary, home=home, wrapper=wrapper).ok(0 if right else 5)
    if right:
        line = next((line for line in run.out.splitlines() if line.startswith("sched:sched_switch ")), "")
        check(line.endswith(" yes"), "it is not listed as one to be had: %s", run)
    else:
        check("only root may read; run as root, or with CAP_DAC_READ_SEARCH" in run.err, "no right is named: %s", run)


def test_events_lists_kinds_of_places_with_a_word():
    """As it lists them without one."""
    whole = harness.pysampled("events").ok().out.splitlines()
    for word, begin in (("uprobe", "uprobe:FILE:"), ("uretprobe", "uretprobe:FILE:"), ("usdt:", "usdt:["), ("mem:ADDR", "mem:ADDR["),
                        ("PMU::EVENT", "PMU::EVENT, ")):
        lines = [line for line in harness.pysampled("events", word).ok().out.splitlines() if line.startswith(begin)]
        equal(lines, [line for line in whole if line.startswith(begin)], "of events " + word)
        equal(len(lines), 1, "lines of events " + word)


def test_events_does_not_deny_what_it_cant_look_up():
    """Without tracefs a word may be a tracepoint's: the one line says so. No word is not an empty one."""
    harness.need_root()
    harness.need_command("unshare")
    command = "for at in tracing debug; do mount -t tmpfs none /sys/kernel/$at || exit 9; done; exec \"$@\""
    run = harness.pysampled("events", "sched_switch", wrapper=("unshare", "-m", "sh", "-c", command, "sh")).ok(5)
    equal(run.out, "", "what is listed")
    check("can't be told" in run.err and "mount -t tracefs" in run.err and run.err.count("\n") == 1, "not told: %s", run.err)
    refused(2, "events", "", about=["empty"])


def test_events_lists_what_each_kind_needs():
    run = harness.pysampled("events").ok()
    for kind in ("SYSTEM:NAME", "uprobe:FILE:SYMBOL", "usdt:", "mem:ADDR"):
        line = next((line for line in run.out.splitlines() if line.startswith(kind)), "")
        check(line.endswith(" yes") or " no: " in line, "no word about %s: %r", kind, line)
    for pmu in os.listdir(PMUS):
        folder = os.path.join(PMUS, pmu, "events")
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            check("." in name or "%s/%s/" % (pmu, name) in run.out, "no %s/%s/", pmu, name)


@each(row=[("sched:sched_swich", 5, ["nearest: sched:sched_switch"]), ("nosuch:event", 5, ["nosuch:event"]),
           ("sched:sched_switch:u", 2, [":u"]), ("cs:u", 2, [":u"]), ("cycels", 5, ["nearest: cycles"]), ("nopmu/event=1/", 5, ["nopmu", "there are"]),
           ("uprobe:/bin/sh:no_such_function_there", 5, ["no_such_function_there"]), ("uprobe:/no/file:f", 5, ["/no/file"]),
           ("uprobe:/bin/sh:0x10", 5, ["no instruction"]), ("usdt:/bin/sh:python:gc__start", 5, ["python:gc__start"]), ("mem:0x10:q", 2, ["modifiers"]),
           ("{cpu-clock,faults", 2, ["{A,B,...}"])])
@one_python
def test_what_cant_be_had_is_said(py, row):
    event, rc, about = row
    if event.startswith(("sched", "nosuch")):
        harness.need_tracepoints()
    target = Target(py, "triggers.py")
    refused(rc, "-p", target.pid, "-e", event, "-d", 1, about=about)


@each(event=["syscalls:sys_enter_nanosleep", "sched:sched_switch"])
@one_python
def test_stop_refuses_tracepoints(py, event):
    harness.need_tracepoints()
    target = Target(py, "triggers.py")
    refused(5, "-p", target.pid, "-e", event, "--capture", "stop", "-d", 1, about=["--capture stop"])


@each(event=["sched:sched_switch", "uprobe:FILE:touch_02", "context-switches", "{cpu-clock,cs}:S", "cpu-clock:k"])
@each(py=[harness.debian_python()])
def test_others_are_told_which_right_is_missing(py, event):
    harness.need_tracepoints()
    harness.need_events_for_all()
    target = Target(py, "triggers.py", user=harness.NOBODY)
    binary, home = harness.for_nobody()
    event = event.replace("FILE", target.info["file"])
    run = harness.pysampled("-p", target.pid, "-e", event, "-d", 1, "-o", "a.folded", binary=binary, home=home,
                            user=harness.NOBODY).ok(4)
    check("root" in run.err or "CAP_PERFMON" in run.err, "no right is named: %s", run)


@one_python
def test_a_precise_event_falls_back_with_a_line(py):
    if not harness.has_pmu():
        raise harness.Skip("no hardware PMU here: nothing is precise")
    target = Target(py, "groundtruth.py", "--us", 50)
    run, verdict, _ = harness.exact(target, "-e", "cycles:uppp", seconds=1)
    harness.all_right(verdict, run)
    check(run.summary["event"].startswith("cycles:u"), "event: %s", run)
    check(run.summary["event"] == "cycles:uppp" or "not that precise" in run.err, "no line about it: %s", run)


@one_python
@not_quick
def test_a_pmu_qualified_event_is_the_generic_one(py):
    if not harness.has_pmu():
        raise harness.Skip("no hardware PMU here")
    alias = next((name for pmu in ("cpu", "armv8_pmuv3") for name in ("cpu-cycles", "cpu_cycles")
                  if os.path.exists(os.path.join(PMUS, pmu, "events", name))), None)
    if not alias:
        raise harness.Skip("no PMU here has a name for cycles")
    pmu = "cpu" if alias == "cpu-cycles" else "armv8_pmuv3"
    target = Target(py, "groundtruth.py", "--us", 50)
    run, verdict, _ = harness.exact(target, "-e", "%s/%s/u" % (pmu, alias), "-c", 1000000, seconds=1)
    harness.all_right(verdict, run)


@each(pmu=["ibs_op", "ibs_fetch"])
@one_python
def test_amds_instruction_based_sampling(py, pmu):
    """It counts in the kernel too: its samples are those of user mode and the others."""
    need_pmu(pmu)
    target = Target(py, "groundtruth.py", "--us", 50)
    run, verdict, _ = harness.exact(target, "-e", "%s//" % pmu, "-c", 1000000, seconds=1)
    harness.all_right(verdict, run)


NAPS = """
import signal, time
signal.alarm(60)
print("READY", flush=True)
while True:
    time.sleep(0.002)
"""
SWITCHES = """
import os, signal
signal.alarm(60)
(a, b), (c, d) = os.pipe(), os.pipe()
if os.fork() == 0:
    signal.alarm(60)
    while os.read(a, 1):
        os.write(d, b".")
    os._exit(0)
print("READY", flush=True)
while True:
    os.write(b, b".")
    os.read(c, 1)
"""


@one_python
def test_a_rate_is_of_the_targets_own_events(py):
    """Beside others that do the same a thousand times as often."""
    harness.need_root()
    both = [harness.start(py.command() + ["-c", text], stdout=harness.subprocess.PIPE) for text in (NAPS, SWITCHES)]
    for one in both:
        one.stdout.readline()
        os.sched_setaffinity(one.pid, {min(os.sched_getaffinity(0))})
    run = harness.pysampled("-p", both[0].pid, "-e", "context-switches", "-F", 99, "-d", 3, "-o", "a.folded", home=harness.folder()).ok()
    for one in both:
        harness.end(one)
    harness.enough(run.n("samples") >= 15, "few samples: %s", run)
    return "%d samples" % run.n("samples")
