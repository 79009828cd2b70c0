"""What a process says of a file, or puts beside it, is nobody else's answer."""
import os
import signal
import subprocess

import harness
from harness import Recorder, check, each, enough, need_root

BURNS = """
#include <stdio.h>
#include <unistd.h>

__attribute__((noinline)) static void %s(void)
{
	for (volatile long n = 0; n < 10000000; n++)
		;
}

int main(int argc, char **argv)
{
	if (argc > 1 && chroot(argv[1]))
		return 1;
	puts("READY");
	fflush(stdout);
	for (;;)
		%s();
}
"""
ID = "feedbeef" * 5


def burner(name):
    return harness.c_program("prog", BURNS % (name, name), "-g", "-Wl,--build-id=0x" + ID)


def put(path, place):
    os.makedirs(os.path.dirname(place), exist_ok=True)
    os.rename(path, place)


def ready(*command):
    process = harness.start(command, stdout=subprocess.PIPE)
    harness.equal(process.stdout.readline(), b"READY\n", "what it says")
    return process


@each(first=["hostile", "innocent"])
@each(lines=[False, True])
@harness.one_python
def test_a_debug_file_in_a_root_of_ones_own_names_nobody_elses_code(py, first, lines):
    """Both run one file, and its build-id is that of the debug file that the one has put into a root of its own."""
    need_root()
    prog, root = burner("innocent"), harness.folder()
    put(burner("stolen"), os.path.join(root, "usr/lib/debug/.build-id", ID[:2], ID[2:] + ".debug"))
    subprocess.run([harness.need_command("objcopy"), "--only-keep-debug", prog, prog + ".debug"], check=True)
    subprocess.run(["strip", "-s", prog], check=True)
    subprocess.run(["objcopy", "--add-gnu-debuglink=" + prog + ".debug", prog], check=True)
    who = {name: ready(prog, *[root] * (name == "hostile")) for name in (first, *{"hostile", "innocent"} - {first})}
    recorder = Recorder("-p", ",".join(str(process.pid) for process in who.values()), "--any", "-F", 499, "-o", "a.folded",
                        *["--native-lines"] * lines).attached()
    harness.works(who["innocent"].pid)
    run = recorder.signal(signal.SIGINT).wait().ok()
    stacks = harness.of_pid(harness.read_folded(os.path.join(recorder.home, "a.folded")), who["innocent"].pid)
    enough(harness.total(stacks) > 20, "only %d samples: %s", harness.total(stacks), run)
    for frames, _ in stacks:
        text = ";".join(frames)
        check("innocent" in text and "stolen" not in text and (not lines or "prog.c:7)" in text), "a wrong name: %s", text)


# Runs one Python, and has another one's library mapped, which it has written over: by what lies there it is its own.
SEEMS = """
import ctypes, sys
libc, own, other = ctypes.CDLL(None), ctypes.pythonapi, ctypes.CDLL(sys.argv[1])
def at(lib, name):
    return ctypes.addressof(ctypes.c_char.in_dll(lib, name))
ctypes.memmove(at(other, "_PyRuntime"), at(own, "_PyRuntime"), 150000)
version = ctypes.c_ulong.in_dll(other, "Py_Version")
libc.mprotect(ctypes.c_void_p(ctypes.addressof(version) & ~4095), 8192, 3)
version.value = sys.hexversion
print("READY", flush=True)
while True:
    pass
"""


def library_python(version):
    there = [(name, path) for name, path in harness.pyenv_versions() if name.startswith(version + ".") and os.access(path, os.X_OK)]
    if not there:
        raise harness.Skip("no CPython %s with a shared libpython here" % version)
    return harness.Python(*there[-1])


@each(command=["record", "dump"])
def test_which_python_a_file_holds_is_not_what_another_process_wrote_over_it(command):
    need_root()
    innocent = harness.Target(library_python("3.12"), "groundtruth.py")
    with open("/proc/%d/maps" % innocent.pid) as file:
        library = next(line.split()[-1] for line in file if "libpython3.12" in line)
    hostile = ready(library_python("3.11").path, "-c", SEEMS, library)
    both = "%d,%d" % (hostile.pid, innocent.pid)
    if command == "dump":
        run = harness.pysampled("dump", "-p", both).ok()
        check("Process %d: CPython 3.12" % innocent.pid in run.out, "what it is: %s", run.out)
        check("[torn]" not in run.out, "its stack: %s", run.out)
        return
    recorder = Recorder("-p", both, "-F", 499, "-v", "-o", "a.folded").attached()
    harness.works(innocent.pid)
    run = recorder.signal(signal.SIGINT).wait().ok()
    check("process %d: CPython 3.12" % innocent.pid in run.err, "what it is: %s", run.err)
    stacks = harness.of_pid(harness.read_folded(os.path.join(recorder.home, "a.folded")), innocent.pid)
    harness.all_right(harness.judge(harness.sure(stacks), innocent.info["truth"]), run)
