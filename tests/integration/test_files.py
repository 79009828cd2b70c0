"""The files of targets are read by processes without rights, and whatever becomes of those, a recording goes on and ends."""
import contextlib
import os
import platform
import re
import signal
import struct
import subprocess
import time

import harness
import test_lines
from harness import NOBODY, Recorder, Target, check, each, enough, equal, one_python, seconds

BESIDE = True


def opens(pid):
    """Is it one of those that open files?"""
    try:
        return harness.status(pid)["Name"] == "opener"
    except OSError:
        return False


def kinds(pid):
    """The processes below the recorder that read files, and those that open them."""
    found = harness.children(pid)[1:]
    return [child for child in found if not opens(child)], [child for child in found if opens(child)]


def helpers(pid):
    return kinds(pid)[0]


def is_nobody(pid):
    try:
        return str(NOBODY) in harness.status(pid)["Uid"].split()
    except OSError:
        return False


def nobodys(pid):
    """Those without root's rights by now. Who is just made, also to open files, still has its parent's name and rights."""
    return [child for child in helpers(pid) if is_nobody(child)]


def rests(pids):
    """It has read, and reads nothing now: who ends while it reads leaves a file that is to blame. None has ended: one that has read
    for long does by itself."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        before = harness.cpu_seconds(pids)
        time.sleep(0.5)
        return harness.cpu_seconds(pids) == before and all(harness.status(pid)["State"][0] == "S" for pid in pids)
    return False


def that_rest(find, pid):
    """Waits for those that read files, once they have read."""
    def look():
        found = find(pid)
        return len(found) >= 3 and rests(found) and found
    return harness.until(look, "they have read")


def recording(py, *args, **options):
    target = Target(py, "groundtruth.py", "--us", 50)
    recorder = Recorder("-p", target.pid, "-F", 199, "-o", "out.folded", *args, **options).attached()
    harness.works(target.pid, 0.3)
    return target, recorder


def native(home):
    """Samples that have the name of a C function of the interpreter, and all."""
    stacks = harness.read_folded(os.path.join(home, "out.folded"))
    return sum(n for frames, n in stacks if any("Py" in frame for frame in frames)), harness.total(stacks)


def lives(pid):
    try:
        return harness.status(pid)["State"][0] not in "ZX"
    except OSError:
        return False


def ended(pids):
    return not any(map(lives, pids))


@each(user=["root", "ambient"])
@one_python
def test_who_reads_files_has_no_rights(py, user):
    harness.need_root()
    home, wrapper = harness.folder(0o777), []
    if user == "ambient":
        rights = "+sys_ptrace,+perfmon,+dac_override,+sys_nice"
        wrapper = [harness.need_command("setpriv"), "--reuid", str(NOBODY), "--inh-caps", rights, "--ambient-caps", rights]
    _, recorder = recording(py, home=home, wrapper=wrapper)
    pids = that_rest(helpers, recorder.pid)
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


@each(kind=[1, 2])
@one_python
def test_files_in_memory_that_nobody_may_execute(py, kind):
    """vm.memfd_noexec, which a namespace of processes can set for itself: tables are handed over all the same."""
    harness.need_root()
    harness.need_command("unshare")
    home, setting = harness.folder(), "/proc/sys/vm/memfd_noexec"
    if not os.path.exists(setting):
        raise harness.Skip("before Linux 6.3")
    wrapper = ["unshare", "-pf", "--mount-proc", "sh", "-c", 'echo %d > %s && exec "$@"' % (kind, setting), "sh"]
    program = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end:\n    sorted(range(1000))"
    Recorder("-F", 199, "-o", "out.folded", "--", *py.command(), "-c", program, home=home, wrapper=wrapper).wait().ok()
    named, all_ = native(home)
    enough(all_ > 20, "samples: %d", all_)
    check(named > all_ / 2, "samples with names of C functions: %d of %d", named, all_)


@each(how=[signal.SIGINT, signal.SIGKILL])
@one_python
def test_none_is_left(py, how):
    home = harness.folder()
    _, recorder = recording(py, home=home)
    pids = harness.until(lambda: len(helpers(recorder.pid)) >= 2 and helpers(recorder.pid), "processes")
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
    pids = that_rest(helpers, recorder.pid)
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
    """No process can be had for those that read, from some time on: it is not the files' fault, and is told."""
    harness.need_root()
    limit = [harness.need_command("prlimit"), "--nproc=0"]
    target = Target(py, "becomes.py", os.path.join(harness.TARGETS, "groundtruth.py"), "--us", 50)
    recorder = Recorder("-p", target.pid, "-F", 199, "-v", "-o", "out.folded").attached()
    pids = that_rest(nobodys, recorder.pid)
    for pid in pids:
        subprocess.check_call(limit + ["--pid", str(pid)], preexec_fn=harness.as_nobody)  # they are nobody's
    for pid in pids[2:]:
        os.kill(pid, signal.SIGKILL)
    harness.until(lambda: ended(pids[2:]), "they have ended")
    target.say("go")
    harness.works(target.pid, 0.5)
    run = recorder.signal(signal.SIGINT).wait().ok()
    check("unread=" in run.err and "ran out" in run.err, "nothing is told: %s", run)
    check("bad_file=" not in run.err, "the files are blamed: %s", run)


@each(py=[py for py in harness.wanted_pythons() if py.tag.startswith(("3.12", "3.13"))])
def test_without_a_process_that_reads_nobody_else_does(py):
    """Of 3.12 files alone tell all that is needed, of 3.13 memory does, and native names are missing."""
    harness.need_root()
    target = Target(py, "groundtruth.py", "--us", 50)
    wrapper = [harness.need_command("prlimit"), "--nproc=0"]
    run = harness.pysampled("-p", target.pid, "-d", 1, "-o", "out.folded", wrapper=wrapper)
    if py.tag.startswith("3.13"):
        check("ran out: some stacks lack names" in run.ok().err, "why is not told: %s", run)
        return
    equal(run.rc, 1, "status of %s" % run)
    check("(ulimit -u)" in run.err and "is no CPython" not in run.err, "why is not told: %s", run)


@each(limit=["4096:", "4096"])
@one_python
def test_files_that_may_not_grow(py, limit):
    """'ulimit -f' limits the memory in which names are handed over, too. A soft limit is raised, a hard one is told."""
    target = Target(py, "groundtruth.py", "--us", 50)
    run = harness.pysampled("dump", "-p", target.pid, wrapper=[harness.need_command("prlimit"), "--fsize=" + limit]).ok()
    if limit == "4096:":
        enough("[native frames unknown" not in run.out, "it got no CPU for 0.3 s: %s", run)
    equal(("_start" in run.out.split(), "(ulimit -f) ran out" in run.err), (limit == "4096:", limit == "4096"),
          "names, and why there are none, of %s" % run)


@one_python
def test_what_lacks_room_is_not_read_for_each_sample(py):
    """Each file was read 64 times in a row, most of that after the end: of -d 1 it took 5 s, on a busy machine 40."""
    target = Target(py, "groundtruth.py", "--us", 50)
    wrapper = [harness.need_command("prlimit"), "--fsize=65536"]
    run = harness.pysampled("-p", target.pid, "-F", 999, "-d", 1, "-v", "-o", "out.folded", wrapper=wrapper).ok()
    enough(run.n("samples") > 100, "too few samples: %s", run)
    check(0 < run.counter("unread") < 64, "files without names: %s", run)


@each(command=["doctor", "dump", "out.folded", "out.data"])
@one_python
def test_the_recorder_reads_no_file_of_a_target(py, command):
    """Not what mapped files hold: those that have no rights do. It asks what files they are, and opens them."""
    strace = harness.need_command("strace")
    target = Target(py, "groundtruth.py", "--us", 50)
    trace = os.path.join(harness.folder(), "trace")
    args = ["-p", target.pid, "-d", 0.5, "-o", command] if "out" in command else [command, "-p", target.pid]
    run = harness.pysampled(*args, wrapper=[strace, "-f", "-y", "-e", "trace=pread64,execve,clone,fork,vfork", "-o", trace],
                            limit=60).ok()
    with open(trace) as file:
        lines = harness.strace_calls(file.read())
    lines = lines[next(i for i, line in enumerate(lines) if re.search(r"\b(?:clone|fork)\(", line)):]  # behind what ld.so reads of ours
    helpers = {line.split()[0] for line in lines if "--internal-files" in line}
    for line in lines * 3:  # who is born may be seen before its parent has its number
        born = re.search(r"\b(?:clone|fork|vfork)\b.* = (\d+)$", line)
        if born and line.split()[0] in helpers:
            helpers.add(born[1])
    with open("/proc/%d/maps" % target.pid) as file:
        mapped = {"<%s>" % line.split()[-1] for line in file if " /" in line}
    of_target = [line for line in lines if "pread64" in line and any(path in line for path in mapped)]
    check([line for line in of_target if line.split()[0] in helpers], "nobody reads them: %s", run)
    own = [line for line in of_target if line.split()[0] not in helpers]
    # Code where nothing tells how to unwind it, in blocks of 16 KB: its bytes alone.
    equal([line for line in own if not re.search(r", 16384, \d+\) += \d+$", line)][:3], [], "what the recorder itself reads")


MOST_MB = 500 if "ASAN_OPTIONS" in os.environ else 100  # its shadow
SPIN = {"x86_64": bytes.fromhex("48ffcf75fbc3"), "aarch64": struct.pack("<3I", 0xf1000400, 0x54ffffe1, 0xd65f03c0)}
MACHINE = {"x86_64": 62, "aarch64": 183}
NOTE, DYNSYM, SYMTAB, STRTAB = 7, 11, 2, 3


def section(kind, at, n, entry=0, link=0):
    return struct.pack("<2I4Q2I2Q", 0, kind, 0, 0, at, n, link, 0, 8, entry)


def endless_name(at):
    """The code has a C++ name that takes libiberty twice as long for each of its 60 levels."""
    name = b"_ZN1AcvT_I" + b"L_ZN1AcvT_I" * 60 + b"iEEv" + b"EEEv" * 60 + b"\0"
    at += 2 * 64 - 64 * 60000  # behind the sections
    return [section(STRTAB, at, len(name)), section(SYMTAB, at + len(name), 24, 24), name,
            struct.pack("<I2BH2Q", 0, 0x12, 0, 1, 4096, 16)], 2, 0


def frames(at):
    """The code's function has 12 MB of instructions, each of which has 17 expressions of 1,000 bytes compared with one another."""
    sp, ra = {"x86_64": (7, 16), "aarch64": (31, 30)}[platform.machine()]
    begin, names, at = b"\0\0\0\0\x01zRS\0\x01\x78%c\x01\0\x0c%c\x08" % (ra, sp), b"\0.eh_frame\0\0\0\0\0\0", at + 3 * 64 - 64 * 60000
    begin += b"\0" * (-len(begin) % 8)
    ops = b"".join(b"\x16%c\xe8\x07%s%c" % (reg, b"\x07" * 999, reg) for reg in range(17)) + b"\x41" * (12 << 20)
    function = struct.pack("<I2QB", 8 + len(begin), 4096, 1 << 30, 0) + ops
    records = b"".join(struct.pack("<I", len(record)) + record for record in (begin, function)) + struct.pack("<I", 0)
    eh_frame = struct.pack("<I", 1) + section(1, at + len(names), len(records))[4:]
    return [section(STRTAB, at, len(names)), eh_frame, b"\0" * 64, names, records], 2, 0


# (sections, e_shnum, bytes of a hole behind them).
BOMBS = {
    "name": endless_name,
    "frames": frames,
    "notes": lambda at: ([section(NOTE, at, 1 << 30)] * 60000, 60000, 1 << 30),
    "symbols": lambda at: ([section(STRTAB, at, 1 << 20)] + [section(DYNSYM, at, 3 << 29, 24)] * 12, 13, 3 << 29),
    "sections": lambda at: ([section(0, 0, 8 << 20)], 0, 64 * (8 << 20)),
}


def elf(path, bomb=None):
    """A file whose code, at 4096, computes for as long as its argument says; with a bomb its sections are without end."""
    machine = platform.machine()
    if machine not in SPIN:
        raise harness.Skip("no code for %s" % machine)
    at = 8192
    sections, n, hole = BOMBS[bomb](at + 64 * 60000) if bomb else ([], 0, 0)
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<2HI3QI6H", 3, MACHINE[machine], 1, 0, 64, at if bomb else 0, 0,
                                                                 64, 56, 1, 64, n, 0)
    head += struct.pack("<2I6Q", 1, 5, 0, 0, 0, 8192, 8192, 4096)
    with open(path, "wb") as file:
        file.write(head.ljust(4096, b"\0") + SPIN[machine].ljust(4096, b"\0") + b"".join(sections))
        file.truncate(max(file.tell(), at + 64 * 60000 + hole))
    return path


def beside(py, *args, dies=lambda: None):
    """Records a process in the code of such a file, and another; what is found of the other and in all."""
    home = harness.folder(0o777)
    hostile, other = Target(py, "foreign.py", *args), Target(py, "groundtruth.py", "--us", 50)
    dies()
    recorder = Recorder("-p", "%d,%d" % (hostile.pid, other.pid), "-F", 499, "-v", "-o", "out.folded", "-o", "out.data", home=home).attached()
    harness.all_work([hostile.pid, other.pid], 1.5)
    run = recorder.signal(signal.SIGINT).wait(20).ok()
    rss = float(run.summary["rss"].rstrip("MiB"))
    check(rss < MOST_MB, "%.0f MiB: %s", rss, run)
    # perf itself would hang in such a file
    check(os.path.getsize(os.path.join(home, "out.data")) > 150 * run.n("samples"), "not all of it is there: %s", run)
    stacks = harness.read_folded(os.path.join(home, "out.folded"))
    ours, theirs = (harness.of_pid(stacks, target.pid) for target in (other, hostile))
    named = sum(n for frames, n in ours if any("Py" in frame for frame in frames))
    enough(harness.total(ours) > 100 and harness.total(theirs) > 100, "too few samples: %s", run)
    check(named >= 0.9 * harness.total(ours), "%d of the other's %d samples have native names: %s", named, harness.total(ours), run)


@each(bomb=list(BOMBS))
@one_python
@seconds(120)
def test_an_elf_bomb_takes_no_other_names(py, bomb):
    harness.need_root()
    beside(py, elf(os.path.join(harness.folder(0o755), "bomb.so"), bomb))


def dead_file_system(py, *mode, serves=None):
    """(the folder whose "prog" does not answer, what makes it so, what ends it)."""
    plain, folder = serves or elf(os.path.join(harness.folder(), "prog")), harness.folder(0o755)
    server = harness.start([py.path, os.path.join(harness.TARGETS, "deadfs.py"), folder, plain, *mode], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if server.stdout.readline() != b"READY\n":
        raise harness.Skip("no FUSE here: %s" % server.stderr.read().decode())
    harness.cleanup(subprocess.call, ["umount", "-l", folder])

    def dies():
        server.stdin.write(b"now\n")
        server.stdin.flush()
        equal(server.stdout.readline(), b"DEAD\n", "the server")

    return folder, dies, lambda: harness.end(server)


@one_python
@seconds(120)
def test_a_file_system_that_stops_answering_takes_no_other_names(py):
    harness.need_root()
    folder, dies, end = dead_file_system(py)
    beside(py, os.path.join(folder, "prog"), dies=dies)
    end()


@one_python
@seconds(120)
def test_a_root_that_stops_answering_takes_no_other_names(py):
    """The other one maps the same files, of which only the hostile one has such names."""
    harness.need_root()
    folder, dies, end = dead_file_system(py)
    beside(py, elf(os.path.join(harness.folder(), "spins")), folder, dies=dies)
    end()


@one_python
def test_a_page_does_not_wait_for_source_that_a_program_serves(py):
    """Who asked such a file system can't even be killed while that does not answer."""
    harness.need_root()
    script = os.path.join(harness.folder(), "script")
    with open(script, "w") as file:
        file.write("def served():\n    while True:\n        sum(range(500))\nprint('READY', flush=True)\nserved()\n")
    folder, dies, end = dead_file_system(py, "takes", serves=script)
    target = harness.start(py.command() + [os.path.join(folder, "prog")], stdout=subprocess.PIPE)
    equal(target.stdout.readline(), b"READY\n", "the target")
    home = harness.folder()
    recorder = Recorder("-p", target.pid, "-F", 199, "-d", 2, "-o", "a.html", home=home).recording()
    dies()
    recorder.wait().ok()
    with open(os.path.join(home, "a.html")) as file:
        page = file.read()
    check("served" in page and "a program serves its file system" in page, "what the page says of the source: %s", page[-600:])
    end()


# Spins on a stack above which a file is mapped that nobody has read.
SERVED_STACK = r"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
static ucontext_t there, back;
__attribute__((noinline)) void spin(void)
{
	for (;;)
		__asm__ volatile("");
}

int main(int argc, char **argv)
{
	enum { HALF = 32 << 10, ALL = PROT_READ | PROT_WRITE };
	char *at = mmap(0, 2 * HALF, ALL, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mmap(at + HALF, HALF, ALL, MAP_PRIVATE | MAP_FIXED, open(argv[1], O_RDONLY), 0) == MAP_FAILED)
		return 1;
	puts("READY");
	fflush(stdout);
	getcontext(&there);
	there.uc_stack.ss_sp = at;
	there.uc_stack.ss_size = HALF;
	makecontext(&there, spin, 0);
	swapcontext(&back, &there);
	return 0;
}
"""


@one_python
def test_memory_that_a_program_serves_keeps_nobody_else_waiting(py):
    """Who reads such memory can't even be killed while there is no answer: the process stays, but what it wrote to is closed."""
    harness.need_root()
    where, program = harness.folder(), harness.c_program("trap", SERVED_STACK)
    harness.write(os.path.join(where, "text"), "\0" * (64 << 10))
    folder, dies, end = dead_file_system(py, "takes", serves=os.path.join(where, "text"))
    trap = harness.start([program, os.path.join(folder, "prog")], stdout=subprocess.PIPE)
    equal(trap.stdout.readline(), b"READY\n", "the target")
    dies()
    ours = harness.start([harness.PYSAMPLED, "--any", "-p", str(trap.pid), "-F", "499", "-d", "1", "-o", "out.folded"], cwd=where,
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    err = ours.stderr.read().decode()  # until it is closed
    check("still hangs" in err, "what is told: %s", err)
    with open(os.path.join(where, "out.folded")) as file:
        check("spin" in file.read(), "where it is: %s", err)
    equal(ours.poll(), None, "its end, before that of the read")
    end()
    equal(ours.wait(10), 0, "its exit code")


@each(file=[*BOMBS, "dead", "dead takes"])
@one_python
def test_a_file_that_is_named_for_a_probe(py, file):
    """Whatever it is, it is read elsewhere, and what can't be read in time is told."""
    harness.need_root()
    if file in BOMBS:
        path, end = elf(os.path.join(harness.folder(0o755), "bomb.so"), file), lambda: None
    else:
        folder, dies, end = dead_file_system(py, *file.split()[1:])
        path = os.path.join(folder, "prog")
        dies()
    target = Target(py, "groundtruth.py", "--us", 50)
    run = harness.pysampled("-e", "uprobe:%s:spin" % path, "-p", target.pid, "-d", 1, "-o", "out.folded", limit=20)
    equal((run.rc in (1, 5), path in run.err, run.err.count("\n")), (True, True, 1), "what is told: %s" % run)
    if file not in BOMBS:
        check("in time" in run.err, "why: %s", run)
    end()


@each(event=["uprobe:FILE:PyObject_Call", "usdt:FILE:python:gc__start"])
@one_python
def test_the_recorder_reads_no_file_of_a_probe(py, event):
    strace, path = harness.need_command("strace"), os.path.realpath(py.path)
    trace = os.path.join(harness.folder(), "trace")
    target = Target(py, "groundtruth.py", "--us", 50)
    harness.pysampled("-e", event.replace("FILE", path), "-p", target.pid, "-d", 0.2, "-o", "out.folded", limit=60,
                      wrapper=[strace, "-f", "-y", "-e", "trace=pread64,read,mmap,execve", "-o", trace])
    with open(trace) as file:
        lines = file.read().splitlines()
    own = lines[0].split()[0]
    reads = {line.split()[0] for line in lines if "<%s>" % path in line and "pread64" in line}
    check(reads, "nobody reads it: %s", lines[-3:])
    check(own not in reads, "the recorder itself reads it")


def unserved_ns(pid):
    """How long its threads, and those of the processes below it, could run and had no CPU."""
    total = 0
    for one in [pid, *harness.children(pid)]:
        try:
            for tid in harness.tasks(one):
                with open("/proc/%d/task/%d/schedstat" % (one, tid)) as file:
                    total += int(file.read().split()[1])
        except OSError:
            pass
    return total


def ends_soon(recorder, limit=2):
    """Within so many seconds of a Ctrl-C, and of those that it has a CPU if it wants one."""
    began, first = time.monotonic(), unserved_ns(recorder.pid)
    last = first
    recorder.signal(signal.SIGINT)
    while recorder.process.poll() is None:
        last = max(last, unserved_ns(recorder.pid))
        took = time.monotonic() - began
        check(took < limit + (last - first) / 1e9, "it runs after %.1f s: %s%s", took, recorder.text(1), recorder.stuck())
        time.sleep(0.005)
    return recorder.wait()


@each(command=["out.data", "out.folded", "out.html", "--native-lines", "dump", "doctor"])
@each(hangs=["open", "read"])
@one_python
@seconds(60)
def test_a_file_that_hangs_keeps_nobody_from_ending(py, hangs, command):
    """The server takes each request, from before we open the file or from when we have it open, and never answers."""
    harness.need_root()
    options = ["-o", command]
    if command == "--native-lines":
        test_lines.need_libdw()
        options = [command, "-o", "out.folded"]
    plain = elf(os.path.join(harness.folder(), "prog"), "notes")
    os.truncate(plain, 8192 + 64 * 60000)  # section headers alone: more than is read of it for the code that runs
    folder, dies, end = dead_file_system(py, "takes", hangs, serves=plain)
    path = os.path.join(folder, "prog")
    target = Target(py, "foreign.py", path)
    dies()
    if command in ("dump", "doctor"):
        run = harness.pysampled(command, "-p", target.pid, limit=15).ok()
    else:
        recorder = Recorder("-p", target.pid, "-F", 199, "-v", *options).attached()
        harness.works(target.pid, 0.5)
        run = ends_soon(recorder).ok()
        enough(run.n("samples") > 20, "too few samples: %s", run)
    check("'%s'" % path in run.err + run.out, "nobody says which file does not answer: %s%s", run, run.out)
    end()


OTHER_ROOT = """
import ctypes, mmap, os, sys
sys.path.insert(0, sys.argv[1])
import target
target.live()
libc, folder = ctypes.CDLL(None, use_errno=True), sys.argv[2].encode()
NEWNS, PRIVATE_ALL, DETACH = 0x20000, 0x44000, 2
if libc.unshare(NEWNS) or libc.mount(b"none", b"/", None, PRIVATE_ALL, None) or libc.umount2(folder, DETACH):
    sys.exit(os.strerror(ctypes.get_errno()))
with open(os.path.join(sys.argv[2], "prog"), "w+b") as file:
    file.truncate(4096)
    code = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
os.chroot(sys.argv[2])
target.ready()
while True:
    sum(range(500))
"""


@each(command=["out.data", "dump"])
@one_python
@seconds(60)
def test_what_hangs_where_another_root_is(py, command):
    """For us a file system that does not answer is mounted on the folder that is a target's root, and on that alone."""
    harness.need_root()
    folder, dies, end = dead_file_system(py, "takes")
    script = os.path.join(harness.folder(), "script.py")
    with open(script, "w") as file:
        file.write(OTHER_ROOT)
    target = harness.start(py.command() + [script, harness.TARGETS, folder], stdout=subprocess.PIPE)
    check(target.stdout.readline().startswith(b"READY"), "the target did not begin")
    dies()
    if command == "dump":
        run = harness.pysampled(command, "-p", target.pid, limit=15).ok()
        check("<module>" in run.out, "what is dumped: %s", run)
    else:
        recorder = Recorder("-p", target.pid, "-F", 199, "-v", "-o", command).attached()
        harness.works(target.pid, 0.5)
        run = ends_soon(recorder).ok()
        enough(run.n("samples") > 20, "too few samples: %s", run)
    end()
