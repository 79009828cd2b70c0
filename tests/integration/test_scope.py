"""Recordings and dumps of a scope instead of processes: -a, --match, -u, -G; who fits, who joins, who never does."""
import json
import os
import re
import resource
import signal
import subprocess
import time

import harness
import test_dump
from harness import Target, check, enough, equal, one_python, seconds

PROGRAM = """
import sys, time
def %s(until):
    while time.process_time() < until:
        sum(range(500))
print("READY", flush=True)
%s(time.process_time() + float(sys.argv[1]))
print("DONE", flush=True)
sys.stdin.readline()
"""


def program(where, name):
    """A Python program that works in a function of that name, for so many seconds of CPU time, and then waits."""
    path = os.path.join(where, name + ".py")
    harness.write(path, PROGRAM % (name, name))
    os.chmod(path, 0o644)
    return path


def by_process(path):
    """{pid: {names of functions}} of a folded file."""
    found = {}
    with open(path) as file:
        for line in file:
            root, *frames = line.rpartition(" ")[0].split(";")
            found.setdefault(int(root.rpartition("-")[2]), set()).update(frame.partition(" (")[0] for frame in frames)
    return found


def end(recorder):
    return recorder.signal(signal.SIGINT).wait()


def reads(pid):
    """System calls that read, so far."""
    with open("/proc/%d/io" % pid) as file:
        return int(re.search(r"^syscr: (\d+)", file.read(), re.M)[1])


def worked(target, limit=60):
    target.line("DONE", limit)
    return target


@seconds(180)
@one_python
def test_all_takes_who_runs_and_who_starts(py):
    """Also who was started by a shell, which is no target, nor is what a Python starts that is none; idle ones cost no sample."""
    harness.need_root()
    home = harness.folder(0o777)
    idle = Target(py, program(home, "idle"), 0)
    first = Target(py, program(home, "first"), 1.5)
    recorder = harness.Recorder("-a", "-o", "a.folded", home=home).recording()
    second = Target(py, program(home, "second"), 1)
    shell = harness.start(["sh", "-c", "%s %s 1; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; true" %
                           (py.path, program(home, "third"))], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    starts = harness.start(py.command() + ["-c", "import subprocess; subprocess.run(['sh', '-c', 'i=0; "
                                           "while [ $i -lt 300000 ]; do i=$((i+1)); done'])"])
    worked(first), worked(second)
    for process in shell, starts:
        process.wait()
    run = end(recorder).ok()
    found = by_process(os.path.join(home, "a.folded"))
    names = set().union(*found.values()) if found else set()
    check(idle.pid not in found, "a sample of a process that slept: %s", found.get(idle.pid))
    # Before its exec a shell is its parent, which is a Python, and a look takes a moment after it.
    of_shell = harness.of_pid(harness.read_folded(os.path.join(home, "a.folded")), shell.pid)
    check(recorder.pid not in found, "pysampled was taken: %s", found.get(recorder.pid))
    check("first" in found.get(first.pid, ()) and "second" in found.get(second.pid, ()) and "third" in names,
          "who is missing? %s of %s\n%s", (first.pid, second.pid), {p: sorted(f)[:5] for p, f in found.items()}, run)
    check("attached to every Python process" in run.err, "what was attached to is not said: %s", run)
    enough(harness.total(of_shell) < 5, "the shell was taken: %s", of_shell)


@one_python
def test_a_program_that_becomes_python_is_taken_from_then_on(py):
    """It has been a stranger for more than a second, and was dropped for the next one."""
    harness.need_root()
    home = harness.folder(0o777)
    script = "while [ ! -e %s/go ]; do :; done; exec %s %s 1" % (home, " ".join(py.command()), program(home, "late"))
    recorder = harness.Recorder("-a", "-F", 499, "-o", "a.folded", home=home).recording()
    late = harness.start(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    harness.works(late.pid, 1.5)
    harness.write(home + "/go", "")
    while late.stdout.readline() != "DONE\n":
        check(late.poll() is None, "it has ended")
    run = end(recorder).ok()
    taken = harness.total(harness.of_pid(harness.read_folded(os.path.join(home, "a.folded")), late.pid))
    check(taken + run.n("uncounted") > 0.8 * 499, "%d samples of a second and its start: %s", taken, run)


@seconds(120)
@one_python
@harness.beside
def test_match_takes_those_of_a_command_line(py):
    home = harness.folder(0o777)
    one, other = Target(py, program(home, "wanted"), 1), Target(py, program(home, "unwanted"), 1)
    recorder = harness.Recorder("--match", home + "/wanted.py", "-o", "a.folded", home=home).recording()
    late = Target(py, program(home, "wanted"), 1)
    worked(one), worked(other), worked(late)
    run = end(recorder).ok()
    found = by_process(os.path.join(home, "a.folded"))
    check(set(found) <= {one.pid, late.pid}, "others than %s were taken: %s", (one.pid, late.pid), sorted(found))
    check("wanted" in found.get(late.pid, ()), "who joined is missing: %s\n%s", found, run)
    enough("wanted" in found.get(one.pid, ()), "who was there is missing, or was done by then: %s", found)


@seconds(120)
@one_python
def test_user_takes_a_users(py):
    harness.need_root()
    home = harness.folder(0o777)
    py = harness.debian_python()
    path = program(home, "theirs")
    recorder = harness.Recorder("-u", harness.NOBODY, "-o", "a.folded", home=home).recording()
    ours, theirs = Target(py, path, 1), Target(py, path, 1, user=harness.NOBODY)
    worked(ours), worked(theirs)
    run = end(recorder).ok()
    found = by_process(os.path.join(home, "a.folded"))
    check("theirs" in found.get(theirs.pid, ()) and ours.pid not in found, "of %d and not of %d: %s\n%s", theirs.pid, ours.pid,
          found, run)


def cgroup(below="below"):
    """The folder of a new cgroup, which has another of that name."""
    harness.need_root()
    cgroups = "/sys/fs/cgroup"
    root = "%s/pysampled-test-%d" % (cgroups if os.path.exists(cgroups + "/cgroup.procs") else cgroups + "/cpu", os.getpid())
    try:
        os.makedirs(os.path.join(root, below))
    except OSError as error:
        raise harness.Skip("no cgroup can be made: %s" % error)
    harness.cleanup(os.rmdir, root)
    harness.cleanup(os.rmdir, os.path.join(root, below))
    return root


@seconds(120)
@one_python
@harness.beside
def test_cgroup_takes_those_in_it_and_below(py):
    root, home = cgroup(), harness.folder(0o777)
    recorder = harness.Recorder("-G", root, "-o", "a.folded", home=home).recording()
    path = program(home, "inside")
    inside, outside = Target(py, path, 2), Target(py, path, 1)
    harness.cleanup(harness.end, inside.process)
    harness.write(root + "/below/cgroup.procs", "%d\n" % inside.pid)
    worked(inside), worked(outside)
    end(recorder).ok()
    found = by_process(os.path.join(home, "a.folded"))
    check(outside.pid not in found, "who is not in the cgroup was taken: %s", found)
    enough(inside.pid in found, "who was moved into it did not join: %s", found)


@one_python
@harness.beside
def test_a_cgroups_path_is_no_pattern(py):
    """systemd writes the hyphen of a name as \\x2d."""
    root = cgroup("a\\x2db.slice")
    slice, home = root + "/a\\x2db.slice", harness.folder(0o777)
    inside = Target(py, program(home, "inside"), 0)
    harness.cleanup(harness.end, inside.process)
    harness.write(slice + "/cgroup.procs", "%d\n" % inside.pid)
    run = harness.pysampled("dump", "-G", slice).ok()
    check(re.search(r"\b%d\b" % inside.pid, run.out), "who is in it was not taken: %s", run)
    harness.refused(3, "dump", "-G", root + "/a*", about=("there is no cgroup", "/a*"))


QUIET = """
print("READY", flush=True)
while True:
    sum(range(500))
"""
FAULTS = """
import mmap
print("READY", flush=True)
while True:
    with mmap.mmap(-1, 1 << 20) as m:
        for at in range(0, 1 << 20, 4096):
            m[at] = 1
"""


@seconds(120)
@one_python
def test_groups_counts_are_each_threads_own(py):
    """Two take turns on a CPU, and one of them has all page faults."""
    harness.need_root()
    home, targets = harness.folder(0o777), {}
    for name, text in ("quiet", QUIET), ("faults", FAULTS):
        harness.write(os.path.join(home, name + ".py"), text)
        targets[name] = Target(py, os.path.join(home, name + ".py"), cpus={min(os.sched_getaffinity(0))})
    run = harness.pysampled("--match", home, "-e", "{cpu-clock,page-faults}:S", "-F", 199, "-d", 3, "-v", "--weight", "period", "-o",
                            "a.folded", home=home).ok()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    clock, faults = ({name: sum(n for frames, n in harness.of_pid(stacks, target.pid) if frames[1] == "event:" + event)
                      for name, target in targets.items()} for event in ("cpu-clock", "page-faults"))
    check(sum(clock.values()) < 1.3 * 3e9, "both have all that their CPU ran, %s ns: %s", clock, run)
    check(faults["quiet"] <= 0.05 * faults["faults"], "a loop has the page faults of its neighbour: %s: %s", faults, run)
    enough(faults["faults"] > 1000, "few page faults: %s: %s", faults, run)
    check("events on threads" in run.err, "where events are: %s", run)


BUSY_SHELLS = """
import subprocess, time
print("READY", flush=True)
while True:
    subprocess.run(["sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"])
"""


@seconds(120)
@one_python
def test_what_strange_children_use_is_not_in_the_books(py):
    """A process that waits for its child is told of all that this has used, whether or not it was a target."""
    harness.need_root()
    py, home = harness.debian_python(), harness.folder(0o777)
    harness.write(os.path.join(home, "shells.py"), BUSY_SHELLS)
    os.chmod(os.path.join(home, "shells.py"), 0o644)
    target = Target(py, os.path.join(home, "shells.py"), user=harness.NOBODY)
    run = harness.pysampled("-u", harness.NOBODY, "-d", 3, "-v", "-o", "a.folded", home=home).ok()
    enough(run.counter("foreign") >= 5, "nobody saw the shells run: %s", run)
    check(run.n("uncounted") < 60, "what its shells ran is uncounted: %s", run)
    harness.end(target.process)


SLEEPERS = """
import sys, threading, time
def parked():
    time.sleep(1000)
for _ in range(4):
    threading.Thread(target=parked, daemon=True).start()
time.sleep(0.2)
print("READY", flush=True)
while True:
    sum(range(500))
"""


@seconds(120)
@one_python
def test_who_joins_asleep_is_in_wall(py):
    """No record of a switch tells of a thread that slept before its process joined, and sleeps on."""
    root, home = cgroup(), harness.folder(0o777)
    harness.write(os.path.join(home, "sleepers.py"), SLEEPERS)
    target = Target(py, os.path.join(home, "sleepers.py"))
    harness.cleanup(harness.end, target.process)
    recorder = harness.Recorder("-G", root, "--mode", "wall", "-o", "a.folded", home=home).recording()
    harness.write(root + "/cgroup.procs", "%d\n" % target.pid)
    moved = time.monotonic()
    time.sleep(4)
    lived = time.monotonic() - moved
    run = end(recorder).ok()
    with open(os.path.join(home, "a.folded")) as file:
        parked = sum(int(line.rpartition(" ")[2]) for line in file if ";parked (" in line) / 1e6
    check(4 * (lived - 2) < parked < 4 * (lived + 0.5), "%g s of four threads that slept for %g s: %s", parked, lived, run)


PARKED = """
import time
def parked():
    time.sleep(1000)
parked()
"""


def sleep_for(pids, seconds):
    """Waits until all of these threads sleep in Python's sleep(), and then for so long."""
    harness.until(lambda: all(map(test_dump.sleeps, pids)), "they sleep", 60)
    time.sleep(seconds)


def all_parked(recorder, pids, home):
    """The recording ends: each of these was seen parked."""
    run = end(recorder).ok()
    found = by_process(os.path.join(home, "a.folded"))
    equal({pid for pid in found if "parked" in found[pid]} & pids, pids, "who was seen parked: %s" % run)


def children_of(command):
    """The children of a program that tells them in its first line, and does not end them."""
    parent = harness.start(command, stdout=subprocess.PIPE)
    children = {int(pid) for pid in parent.stdout.readline().split()}
    for pid in children:
        harness.cleanup(os.kill, pid, signal.SIGKILL)
    return children


@seconds(120)
@one_python
def test_who_sleeps_before_it_is_sampled_is_in_wall(py):
    """It joins by what it maps, however rare samples are."""
    harness.need_root()
    home = harness.folder(0o777)
    harness.write(os.path.join(home, "parked.py"), PARKED)
    recorder = harness.Recorder("--match", home + "/parked", "--mode", "wall", "-F", 2, "-o", "a.folded", home=home).recording()
    asleep = {harness.start(py.command() + [os.path.join(home, "parked.py")]).pid for _ in range(6)}
    sleep_for(asleep, 4)
    run = end(recorder).ok()
    found = by_process(os.path.join(home, "a.folded"))
    equal({pid for pid in found if "parked" in found[pid]}, asleep, "who was seen parked: %s" % run)


STARTER = """
import subprocess, sys
children = [subprocess.Popen([sys.executable, sys.argv[1]]) for _ in range(6)]
print(*[child.pid for child in children], flush=True)
children[0].wait()
"""


@seconds(120)
@one_python
def test_who_is_started_by_a_python_and_sleeps_is_in_wall(py):
    """Its records are its parent's until its exec is dealt with, those of what it maps among them."""
    harness.need_root()
    home = harness.folder(0o777)
    harness.write(os.path.join(home, "parked.py"), PARKED)
    harness.write(os.path.join(home, "parent.py"), STARTER)
    recorder = harness.Recorder("-a", "--mode", "wall", "-F", 2, "-o", "a.folded", home=home).recording()
    asleep = children_of(py.command() + [os.path.join(home, "parent.py"), os.path.join(home, "parked.py")])
    sleep_for(asleep, 4)
    all_parked(recorder, asleep, home)


FORKING = """
import os, time
def parked():
    time.sleep(1000)
time.sleep(1)
for _ in range(20):
    child = os.fork()
    if not child:
        parked()
    print(child, end=" ", flush=True)
print(flush=True)
time.sleep(1000)
"""


@seconds(120)
@one_python
def test_children_that_sleep_at_once_are_in_wall(py):
    """Their first switches may be read before the records of their forks, which lie in another CPU's ring."""
    harness.need_root()
    home = harness.folder(0o777)
    harness.write(os.path.join(home, "forking.py"), FORKING)
    recorder = harness.Recorder("-a", "--mode", "wall", "-F", 2, "-o", "a.folded", home=home).recording()
    children = children_of(py.command() + [os.path.join(home, "forking.py")])
    sleep_for(children, 3)
    all_parked(recorder, children, home)


@one_python
def test_nobody_yet_is_said_and_waited_for(py):
    home = harness.folder(0o777)
    run = harness.pysampled("--match", home + "/nobody", "-d", 0.5, "-o", "a.folded", home=home).ok()
    check("waiting: " in run.err and home in run.err, "it is not said that nobody is there: %s", run)
    equal(run.n("samples"), 0, "samples")


def sleeper(word, **options):
    """A program that is no Python, whose command line holds the word."""
    return harness.start([word, "300"], executable="/bin/sleep", **options)


@one_python
def test_who_may_not_be_looked_at_is_not_said_to_run_no_python(py):
    """An ordinary user's own process fits, and root's Python."""
    harness.need_root()
    harness.need_events_for_all()
    binary, home = harness.for_nobody()
    sleeper(home + "/server", preexec_fn=harness.as_nobody)
    Target(py, program(home, "server"), 0)
    options = dict(binary=binary, home=home, user=harness.NOBODY)
    run = harness.pysampled("dump", "--match", home + "/server", **options).ok(4)
    check("of 2 processes that fit 1 may not be looked at, and none of the others runs Python: run as root, or with CAP_SYS_PTRACE"
          in run.err and "none runs Python" not in run.err, "dump: %s", run)
    run = harness.pysampled("--match", home + "/server", "-d", 0.5, "-o", "a.folded", **options).ok()
    check("waiting: 2 processes fit, 1 of them left out, none of the others runs Python yet" in run.err and
          "left out: 1 process whose memory may not be read" in run.err, "record: %s", run)


def without(*caps):
    """A command that starts others as a root that lacks some capabilities."""
    harness.need_root()
    return [harness.need_command("setpriv"), "--bounding-set", ",".join("-" + cap for cap in caps)]


def test_a_root_without_rights_is_not_told_to_become_root():
    """As in a container."""
    home = harness.folder(0o777)
    Target(harness.debian_python(), program(home, "server"), 0, user=harness.NOBODY)
    for command in ["dump"], ["-d", 0.5]:
        run = harness.pysampled(*command, "--match", home + "/server", home=home, wrapper=without("sys_ptrace")).ok(4)
        check("none of the 1 processes that fit may be looked at: this root lacks a right" in run.err and
              "CAP_SYS_PTRACE" in run.err and "as root" not in run.err, "%s", run)


FORKED = """
import os, sys
for _ in range(30):
    if not os.fork():
        sys.stdin.read()
        os._exit(0)
print("READY", flush=True)
sys.stdin.read()
"""


def test_a_root_with_few_descriptors_is_not_told_to_become_root():
    """Without the right to events on CPUs those of 30 processes need more."""
    home = harness.folder(0o777)
    harness.write(home + "/forked.py", FORKED)
    harness.change("/proc/sys/kernel/perf_event_paranoid", "2")
    Target(harness.debian_python(), home + "/forked.py")

    def few():
        most = 64 + 22 * len(os.sched_getaffinity(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    run = harness.pysampled("--match", home, "-d", 0.5, "-o", "a.folded", home=home, preexec_fn=few,
                            wrapper=without("sys_resource", "sys_admin", "perfmon")).ok()
    check("31 processes fit, and events can be opened in the busiest " in run.err, "%s", run)
    check("only those are recorded (this root lacks a right (in a container or a user namespace?): give it CAP_SYS_RESOURCE, or raise "
          "'ulimit -n')" in run.err, "what to do: %s", run)


def recording_of_ones_own(busy):
    """An ordinary user's recording of all of its own, for whom /proc is asked: Python, folder, the first process, which works for so
    many seconds, and the recorder."""
    harness.need_root()
    harness.need_events_for_all()
    py = harness.debian_python()
    binary, home = harness.for_nobody()
    first = Target(py, program(home, "first"), busy, user=harness.NOBODY)
    recorder = harness.Recorder("-u", harness.NOBODY, "-o", "a.folded", binary=binary, home=home, user=harness.NOBODY).attached()
    return py, home, first, recorder


@seconds(120)
@one_python
def test_without_rights_ones_own_join(py):
    """Nobody tells of them: /proc is asked."""
    py, home, first, recorder = recording_of_ones_own(2)
    second = Target(py, program(home, "second"), 2, user=harness.NOBODY)
    worked(first), worked(second)
    run = end(recorder).ok()
    found = by_process(os.path.join(home, "a.folded"))
    check("second" in found.get(second.pid, ()), "who joined is missing: %s\n%s", found, run)
    check(re.search(r"processes that joined: 1; .* run for at most [\d.]+ ms .* is missing", run.err), "its start is not named: %s", run)
    enough("first" in found.get(first.pid, ()), "who was there is missing, or was done by then: %s", found)


BORN = """
import os, sys, threading, time
def parked():
    time.sleep(1000)
print("READY", flush=True)
sys.stdin.readline()
child = os.fork()
if not child:
    parked()
for _ in range(4):
    threading.Thread(target=parked, daemon=True).start()
print("BORN", child, flush=True)
time.sleep(1000)
"""


@seconds(120)
@one_python
def test_without_rights_who_is_born_and_sleeps_is_in_wall(py):
    """By the time that it gets events it sleeps already."""
    harness.need_root()
    harness.need_events_for_all()
    py = harness.debian_python()
    binary, home = harness.for_nobody()
    path = os.path.join(home, "born.py")
    harness.write(path, BORN)
    os.chmod(path, 0o644)
    target = Target(py, path, user=harness.NOBODY)
    recorder = harness.Recorder("-u", harness.NOBODY, "--mode", "wall", "--threads", "-o", "a.folded", binary=binary, home=home,
                                user=harness.NOBODY).attached()
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    child = int(target.line("BORN"))
    harness.cleanup(os.kill, child, signal.SIGKILL)
    sleep_for([*harness.tasks(target.pid), child], 3)
    run = end(recorder).ok()
    with open(os.path.join(home, "a.folded")) as file:
        roots = {line.partition(";")[0] for line in file if ";parked (" in line}
    born = [sum("-%d/" % pid in root for root in roots) for pid in (target.pid, child)]
    equal(born, [4, 1], "threads that were seen parked: %s\n%s" % (roots, run))


@one_python
def test_what_others_run_is_not_in_the_books(py):
    """Of a clock that counts on CPUs, also where no table tells who ran: waits need records of switches."""
    harness.need_root()
    harness.need_fifo()
    home = harness.folder(0o777)
    for _ in range(2):
        harness.start(["sh", "-c", "while :; do :; done"])
    target = Target(py, program(home, "known"), 20)
    run = harness.pysampled("--match", home, "--mode", "wall", "-d", 3, "-v", "-o", "a.folded", home=home).ok()
    check("events on CPUs only: so that processes can join" in run.err, "why events are where they are: %s", run)
    check(run.n("uncounted") < 99, "what others ran is uncounted: %s", run)
    harness.end(target.process)


@seconds(240)
@one_python
@harness.beside
def test_who_comes_with_many_joins(py):
    """So many others that not all of them are looked at."""
    py, home, _, recorder = recording_of_ones_own(0)
    others = harness.start(["sh", "-c", "for i in $(seq 400); do sleep 300 & done; echo READY; wait"], user=harness.NOBODY,
                           stdout=subprocess.PIPE, start_new_session=True)
    harness.cleanup(os.killpg, others.pid, signal.SIGKILL)
    others.stdout.readline()
    target = Target(py, program(home, "with_many"), 8, user=harness.NOBODY)
    worked(target, 150)
    run = end(recorder).ok()
    found = by_process(os.path.join(home, "a.folded"))
    check("with_many" in found.get(target.pid, ()), "who came with many is missing: %s\n%s", found, run)


def reads_in_a_second(pid):
    before = reads(pid)
    time.sleep(1)
    return reads(pid) - before


@seconds(180)
@one_python
def test_idle_processes_cost_nothing(py):
    """After the look at the beginning no system call is made for them. A second in which that look goes on, or others begin
    processes, is not the least of several."""
    harness.need_root()
    home = harness.folder(0o777)
    many = "i=0; while [ $i -lt %d ]; do sleep 100 & i=$((i+1)); done; echo ready; wait"
    calls = []
    for n in 10, 400:
        group = harness.start(["sh", "-c", many % n], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True)
        harness.cleanup(os.killpg, group.pid, signal.SIGKILL)
        group.stdout.readline()
        recorder = harness.Recorder("--match", "^sleep 100", "-d", 20, "-o", "a.folded", home=home).recording()
        calls.append(min(reads_in_a_second(recorder.pid) for _ in range(8)))
        end(recorder)
    check(calls[1] < calls[0] + 200, "400 processes more cost so many reads a second: %s", calls)


@seconds(120)
@one_python
def test_dump_prints_a_scopes(py):
    home = harness.folder(0o777)
    targets = [Target(py, program(home, name), 0) for name in ("one", "two", "other")]
    run = harness.pysampled("dump", "--match", home + "/(one|two)", "--json", home=home).ok()
    equal({process["pid"] for process in json.loads(run.out)}, {t.pid for t in targets[:2]}, "processes")
    harness.refused(3, "dump", "--match", home + "/nobody", about=["none runs Python"])
    if harness.is_root():
        run = harness.pysampled("dump", "-a", "--json", home=home)
        check({t.pid for t in targets} <= {process["pid"] for process in json.loads(run.out)}, "all: %s", run)


def test_what_makes_no_sense_is_refused():
    home = harness.folder(0o777)
    for words, about in (("-a -p 1", "one or the other"), ("--match x -- true", "one or the other"), ("-a -t 1", "-t"),
                         ("--match (", "--match"), ("-u nosuchuser", "nosuchuser"), ("-a --any", "--any"), ("-G relative", "-G"),
                         ("-p httpd", "--match"), ("dump -a -p 1", "one or the other"),
                         ("--match gunicorn --match celery", "--match 'gunicorn|celery'"), ("-u root -u root", "-u is given twice"),
                         ("-G / -G /", "-G is given twice"), ("dump --match a --match a", "twice"), ("dump -u root -u 1", "twice"),
                         ("dump -G / -G /sys/fs/cgroup", "twice")):
        harness.refused(2, *words.split(), about=[about], home=home)
    harness.refused(3, "-G", "/no/such/cgroup", about=["no cgroup"], home=home)
    equal(os.listdir(home), [], "files")
