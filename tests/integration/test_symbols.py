"""Names of native code in a live process: of C++, of stripped files, of what a JIT made."""
import os
import platform
import re
import stat
import subprocess

import harness
import tolerances
from harness import Target, check, each, enough, need_command, pysampled

BESIDE = True

SOURCE = """
namespace ns {
__attribute__((noinline)) static void spin(unsigned long n, const char *why)
{
	for (;; n += *why)
		__asm__ volatile("" : "+r"(n));
}
}
extern "C" void enter() { ns::spin(1, "why"); }
"""


def check_leaf(target, name):
    home = harness.folder()
    pysampled("-p", target.pid, "-e", "cpu-clock", "-F", 499, "-d", 1, "-o", "a.folded", home=home).ok()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    named = sum(n for frames, n in stacks if harness.user_frames(frames)[-1:] == [name])
    check(named >= (1 - tolerances.OUTSIDE_LEAF) * harness.total(stacks), "%d of %d samples are in %s: %s", named, harness.total(stacks), name,
          stacks[:3])
    enough(named > 50, "only %d samples are in %s", named, name)


def build(where, symbols):
    """libspin.so; its symbols are in it, in a file beside it, or packed in it."""
    path = os.path.join(where, "libspin.so")
    with open(os.path.join(where, "spin.cc"), "w") as file:
        file.write(SOURCE)
    steps = ["g++ -O2 -fPIC -shared -o libspin.so spin.cc"]
    if symbols != "whole":
        steps += ["objcopy --only-keep-debug libspin.so libspin.debug", "strip -s libspin.so"]
    if symbols == "beside":
        steps += ["objcopy --add-gnu-debuglink=libspin.debug libspin.so"]
    if symbols == "packed":
        steps += ["xz -k libspin.debug", "objcopy --add-section .gnu_debugdata=libspin.debug.xz libspin.so"]
    if symbols != "beside":
        steps += ["rm -f libspin.debug"]
    subprocess.run(" && ".join(steps), shell=True, check=True, cwd=where)
    return path


@each(symbols=["whole", "beside", "packed"])
def test_names_of_cpp(symbols):
    for command in ("g++", "objcopy", "strip", "xz"):
        need_command(command)
    said = pysampled("-V").out
    for part in ["libiberty"] + ["lzma"] * (symbols == "packed"):
        if part not in said:
            raise harness.Skip("built without " + part)
    target = Target(harness.newest_python(), "natives.py", "lib", build(harness.folder(), symbols))
    check_leaf(target, "ns::spin(unsigned long, char const*)")


def mounted():
    where = harness.folder()
    done = subprocess.run(["mount", "-t", "tmpfs", "none", where], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise harness.Skip("no tmpfs can be mounted: " + done.stderr.strip())
    harness.cleanup(lambda: subprocess.run(["umount", "-l", where], stderr=subprocess.DEVNULL))
    return where


def text_end(path):
    """Where in the file the segments end that the program needs."""
    said = subprocess.run(["readelf", "-lW", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    loads = [line.split() for line in said.splitlines() if line.split()[:1] == ["LOAD"]]
    return max(int(load[1], 16) + int(load[4], 16) for load in loads)


def change_file(path, fate):
    """What becomes of a library that a process has mapped."""
    if fate == "truncated":
        os.truncate(path, text_end(path))
    elif fate == "unmounted":
        subprocess.run(["umount", "-l", os.path.dirname(path)], check=True)
    else:
        os.unlink(path)
    if fate == "another":
        subprocess.run(["cp", "/bin/true", path], check=True)
    elif fate == "fifo":
        os.mkfifo(path)  # who opens it waits for a writer
    elif fate == "device":
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))


@each(fate=["deleted", "another", "fifo", "device", "unmounted", "truncated"])
def test_a_library_whose_file_is_now(fate):
    """Its code runs on; names and stacks come from what is mapped, and nothing else is opened blindly."""
    harness.need_root()  # /proc/PID/map_files
    harness.need_fifo()
    for command in ("g++", "readelf", "mount"):
        need_command(command)
    path = build(mounted() if fate == "unmounted" else harness.folder(), "whole")
    target = Target(harness.newest_python(), "natives.py", "lib", path)
    change_file(path, fate)
    home = harness.folder()
    pysampled("-p", target.pid, "-e", "cpu-clock:u", "-F", 499, "-d", 1, "--provenance", "exact", "-o", "a.folded",
              home=home).ok()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    name = "libspin.so+0x" if fate == "truncated" else "ns::spin(unsigned long"
    good = sum(n for frames, n in stacks if frames[-1].startswith(name) and frames[1] == "_start")
    check(good >= (1 - tolerances.OUTSIDE_LEAF) * harness.total(stacks), "%d of %d samples are whole: %s", good, harness.total(stacks), stacks[:3])
    enough(good > 50, "only %d samples are whole", good)


def test_names_of_made_code():
    if platform.machine() != "x86_64":
        raise harness.Skip("the code is x86-64's")
    target = Target(harness.newest_python(), "natives.py", "jit")
    harness.cleanup(os.unlink, "/tmp/perf-%d.map" % target.pid)
    check_leaf(target, "made: here")


@each(full=[False, True])
def test_trampolines(full):
    """Those of python -X perf: their Python frames stand for them, unless --native=full."""
    target = Target(harness.newest_python(), "natives.py", "perf")
    harness.cleanup(os.unlink, "/tmp/perf-%d.map" % target.pid)
    home = harness.folder()
    pysampled("-p", target.pid, "-e", "cpu-clock:u", "-F", 499, "-d", 1, "--native=full" if full else "--native",
              "-o", "a.folded", home=home).ok()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    shown = sum(n for frames, n in stacks if any(frame.startswith("py::") for frame in frames))
    check(full or not shown, "%d of %d samples show one: %s", shown, harness.total(stacks), stacks[:3])
    enough((shown if full else harness.total(stacks)) > 50, "%d of only %d samples show one", shown, harness.total(stacks))


@harness.one_python
def test_kernel_names_are_asked_for_one_by_one(py):
    """The list of all of them takes the kernel longer to print than a minute's samples take us."""
    strace, home = need_command("strace"), harness.folder()
    if "no  CAP_BPF" in pysampled("doctor").out:
        raise harness.Skip("without CAP_BPF the list is read")
    calls, target = os.path.join(home, "calls"), Target(py, "lives.py", "thread", 2, extensions=())
    run = pysampled("-p", target.pid, "-e", "context-switches", "-c", 1, "-d", 1, "-o", "a.folded", "-o", "a.data", home=home,
                    wrapper=[strace, "-f", "-e", "trace=openat,bpf", "-o", calls]).ok()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    names = {frame for frames, _ in stacks for frame in frames if frame.endswith("_[k]")}
    enough(run.n("samples") > 50 and len(names) > 5, "too few kernel frames: %s, %s", run, names)
    check(not any("+0x" in name or " " in name for name in names) and "[kernel]_[k]" not in names, "names: %s", names)
    with open(calls) as file:
        said = file.read()
    check("BPF_PROG_TEST_RUN" in said, "the kernel was not asked")
    resolver = re.search(r"^(\d+) .*BPF_PROG_TEST_RUN", said, re.M).group(1)
    check(not re.search(r"^%s .*kallsyms" % resolver, said, re.M), "the list was read")
