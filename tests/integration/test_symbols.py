"""Names of native code in a live process: of C++, of stripped files, of what a JIT made."""
import os
import platform
import subprocess

import harness
from harness import Target, check, each, need_command, pysampled

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
    check(named >= 0.9 * harness.total(stacks) and named > 50, "%d of %d samples are in %s: %s", named,
          harness.total(stacks), name, stacks[:3])


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
    check(harness.total(stacks) > 50 and (shown > 50 if full else not shown), "%d of %d samples show one: %s", shown,
          harness.total(stacks), stacks[:3])
