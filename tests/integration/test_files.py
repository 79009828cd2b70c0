"""The files of targets are read by processes without rights, and whatever becomes of those, a recording goes on and ends."""
import os
import signal
import subprocess

import harness
from harness import NOBODY, Recorder, Target, check, each, enough, equal, one_python


def helpers(pid):
    """The processes below the recorder."""
    return harness.children(pid)[1:]


def recording(py, *args, **options):
    target = Target(py, "groundtruth.py", "--us", 50)
    recorder = Recorder("-p", target.pid, "-F", 199, "-o", "out.folded", *args, **options).attached()
    harness.works(target.pid, 0.3)
    return target, recorder


def native(home):
    """Samples that have the name of a C function of the interpreter, and all."""
    stacks = harness.read_folded(os.path.join(home, "out.folded"))
    return sum(n for frames, n in stacks if any("Py" in frame for frame in frames)), harness.total(stacks)


def ended(pids):
    return not any(os.path.exists("/proc/%d" % pid) and harness.status(pid)["State"][0] != "Z" for pid in pids)


@each(user=["root", "ambient"])
@one_python
def test_who_reads_files_has_no_rights(py, user):
    harness.need_root()
    home, wrapper = harness.folder(0o777), []
    if user == "ambient":
        rights = "+sys_ptrace,+perfmon,+dac_override,+sys_nice"
        wrapper = [harness.need_command("setpriv"), "--reuid", str(NOBODY), "--inh-caps", rights, "--ambient-caps", rights]
    _, recorder = recording(py, home=home, wrapper=wrapper)
    pids = harness.until(lambda: len(helpers(recorder.pid)) >= 3 and helpers(recorder.pid), "they read")
    for pid in pids:
        status = harness.status(pid)
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            equal(int(status[name], 16), 0, name)
        equal((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), "NoNewPrivs, Seccomp")
        equal(set(status["Uid"].split()), {str(NOBODY)}, "who it is")
        if user == "root":
            equal(int(status["CapBnd"], 16), 0, "what bounds it")
        links = {os.readlink("/proc/%d/fd/%s" % (pid, fd)).split(":")[0] for fd in os.listdir("/proc/%d/fd" % pid)}
        check(links <= {"/dev/null", "socket"}, "what it has open between two files: %s", links)
        equal(os.readlink("/proc/%d/cwd" % pid), "/", "its folder")
    filters = [int(harness.status(pid)["Seccomp_filters"]) for pid in pids]
    check(filters[-1] > filters[0], "filters of those that start others, and of who reads: %s", filters)
    recorder.signal(signal.SIGINT).wait().ok()
    harness.until(lambda: ended(pids), "none is left", limit=5)


@each(how=[signal.SIGINT, signal.SIGKILL])
@one_python
def test_none_is_left(py, how):
    home = harness.folder()
    _, recorder = recording(py, home=home)
    pids = helpers(recorder.pid)
    check(len(pids) >= 2, "processes: %s", pids)
    recorder.signal(how)
    recorder.process.wait()
    harness.until(lambda: ended(pids), "none is left", limit=5)


@each(which=[0, 1, 2, "all"])
@one_python
def test_whoever_is_ended(py, which):
    """The recording goes on, and code that is mapped later still gets its names, but not if all are ended at once."""
    harness.need_root()
    home = harness.folder()
    target, recorder = recording(py, home=home)
    pids = harness.until(lambda: len(helpers(recorder.pid)) >= 3 and helpers(recorder.pid), "they read")
    for pid in pids if which == "all" else [pids[which]]:
        os.kill(pid, signal.SIGKILL)
    other = Target(py, "groundtruth.py", "--us", 50)
    harness.works(target.pid, 0.3)
    recorder.signal(signal.SIGINT).wait().ok()
    harness.end(other.process)
    named, total = native(home)
    check(named >= 0.5 * total, "%d of %d samples have native names", named, total)
    enough(total >= 20, "only %d samples", total)


@one_python
def test_too_few_processes_are_our_lack(py):
    """No process can be had for those that read: it is not the files' fault, and is told."""
    harness.need_root()
    target = Target(py, "groundtruth.py", "--us", 50)
    wrapper = [harness.need_command("prlimit"), "--nproc=0"]
    run = harness.pysampled("-p", target.pid, "-d", 1, "-v", "-o", "out.folded", wrapper=wrapper).ok()
    check("unread=" in run.err and "ran out" in run.err, "nothing is told: %s", run)
    check("bad_file=" not in run.err, "the files are blamed: %s", run)
