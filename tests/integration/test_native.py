"""Native, Python and kernel frames in one stack: whole, and in the order in which they really were."""
import collections
import os
import platform
import re
import signal
import subprocess

import harness
import tolerances
from harness import check, each, each_python, enough, need_fifo, rare

BESIDE = True

TOKEN = re.compile(r"^(p_\d\d|p_spin|x_spin|x_call|x_hole|x_signal|x_handler_spin)( |$)")
ROOTS = ("_start", "__clone3", "clone3", "clone", "__clone")
MARKS = re.compile(r"^\[(no CFI|no map|no register|cut|limit|bad stack|guessed|unplaced|late|torn)\]$")


def load(py, kind, *options, python=None):
    """loads.py at work."""
    command = ([python] if python else py.command()) + list(options)
    target = harness.start(command + [os.path.join(harness.TARGETS, "loads.py"), kind, "40"], stdout=-1)
    check(target.stdout.readline() == b"READY\n", "the target did not start")
    return target


class Mix:
    """interleave.py at work, and the paths that it told."""

    def __init__(self, py, seconds, seed=1, flags=()):
        self.told = os.path.join(harness.folder(), "told")
        where = harness.extension(py, "interleave", flags=flags)
        with open(self.told, "wb") as out:
            self.process = harness.start(
                py.command() + [os.path.join(harness.TARGETS, "interleave.py"),
                                os.path.join(where, harness.module_file(py, "interleave")), str(seconds), str(seed)], stdout=out)
        harness.until(lambda: os.path.getsize(self.told), "the first path", limit=harness.BEGINS)

    def paths(self):
        with open(self.told) as file:
            return {tuple(line.split()) for line in file}


def tokens(frames):
    return tuple(match.group(1) for match in map(TOKEN.match, frames) if match)


def record(pid, *args):
    """Of so much of its CPU time that the samples are enough, however busy the machine is."""
    out = os.path.join(harness.folder(), "out.folded")
    recorder = harness.Recorder("-p", pid, "-F", 999, "-e", "cpu-clock:u", "--hold-budget", 50, "--provenance", "exact", "-v",
                                "-o", out, *args).attached()
    harness.works_for_a_while(pid, 2, limit=20)
    run = recorder.signal(signal.SIGINT).wait().ok()
    return run, without_dropped(run, harness.read_folded(out))


def without_dropped(run, stacks):
    """A machine that stalls us fills the queues, and bytes of stacks are dropped: that is told, and such stacks are cut."""
    told = sum(int(n) for n in re.findall(r"stack_dropped=(\d+)", run.err))
    cut = harness.total([(frames, n) for frames, n in stacks if "[cut]" in frames])
    if not 0 < cut <= told:
        return stacks
    enough(told <= 0.1 * run.n("samples"), "%d stacks were cut, for we were stalled: %s", told, run)
    return [(frames, n) for frames, n in stacks if "[cut]" not in frames]


def is_marked(frames):
    return any(map(MARKS.match, frames[1:]))


def judge(stacks, paths):
    count, wrong = collections.Counter(), []
    for frames, n in stacks:
        seen = tokens(frames)
        count["marked" if is_marked(frames) else "whole"] += n
        if not seen or not seen[-1].endswith("_spin"):
            continue
        good = seen in paths
        count["right" if good else "wrong"] += n
        count[seen[-1]] += n
        if not good:
            wrong.append(";".join(frames))
    return count, wrong


def true_order(py, flags=()):
    need_fifo()
    mix = Mix(py, 30, flags=flags)
    run, stacks = record(mix.process.pid)
    count, wrong = judge(stacks, mix.paths())
    check(not wrong, "%s: wrong: %s", dict(count), wrong[:3])
    no_root = [";".join(f) for f, _ in stacks if f[1] not in ROOTS and not is_marked(f)]
    check(not no_root, "%s: no root, and no mark that says why: %s", dict(count), no_root[:3])
    for leaf in "p_spin", "x_spin", "x_handler_spin":
        enough(count[leaf] > 30, "too few samples in %s: %s: %s", leaf, dict(count), run)
    enough(harness.total(stacks) > 1000, "too few samples to tell a share of a thousandth: %s", run)
    rare(count["marked"], tolerances.MARKED["order"] * harness.total(stacks), "%s: marked: %s", dict(count),
         [";".join(f) for f, _ in stacks if is_marked(f)][:3])
    return "%d of %d are marked" % (count["marked"], harness.total(stacks))


@each_python
@harness.seconds(90)
def test_frames_stand_in_their_true_order(py):
    """Python called from C, from Python, from sorted, map, re, qsort, __del__, json, exec, generators, coroutines ..."""
    return true_order(py)


DEBUG_FRAME = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fomit-frame-pointer")


def sections(path):
    return subprocess.run([harness.need_command("readelf"), "-SW", path], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


def pack(library, how):
    said = harness.pysampled("-V").out
    if how not in said:
        raise harness.Skip("built without " + how)
    done = subprocess.run([harness.need_command("objcopy"), "--compress-debug-sections=" + how, library],
                          stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise harness.Skip("objcopy can't compress by %s: %s" % (how, done.stderr.strip()))


PACKED = {"zlib": 1, "zstd": 2}


@each(build=["stripped", "debug_frame"] + list(PACKED))
@harness.one_python
@harness.seconds(90)
def test_order_through_a_library_that_is(py, build):
    """Without symbols; without .eh_frame; and with what is left, .debug_frame, compressed."""
    flags = ("-s",) if build == "stripped" else DEBUG_FRAME + ("-gz=none", "-DPACKED=%d" % PACKED.get(build, 0))
    library = os.path.join(harness.extension(py, "interleave", flags=flags), harness.module_file(py, "interleave"))
    if build in PACKED:
        pack(library, build)
    found = sections(library)
    frame = re.search(r"\.debug_frame .*", found)
    check(bool(frame) == (build != "stripped"), "built wrong: %s", found)
    check(build != "stripped" or ".symtab" not in found, "not stripped: %s", found)
    check(not frame or (" C " in frame[0]) == (build in PACKED), "compressed, or not: %s", found)
    return true_order(py, flags)


def reach_the_root(run, stacks, kind, good):
    """All stacks are whole, but for a few that say why they are not."""
    bad = sorted(((n, ";".join(frames)) for frames, n in stacks if not good(frames)), reverse=True)
    silent = [frames for frames, _ in stacks if not good(frames) and not is_marked(frames)]
    check(not silent, "%d stacks end early without a mark: %s", len(silent), silent[:3])
    enough(harness.total(stacks) > 300, "too few samples: %s", run)  # of few, a share says nothing
    n = sum(n for n, _ in bad)
    rare(n, tolerances.MARKED[kind] * harness.total(stacks), "%d of %d samples are not whole: %s", n, harness.total(stacks), bad[:3])
    return "%d of %d are not whole" % (n, harness.total(stacks))


def is_whole(frames):
    return frames[1] in ROOTS and not is_marked(frames)


def is_whole_or_guessed(frames):
    return is_whole([f for f in frames if f != "[guessed]"])


# aarch64's vdso and libcrypto's assembly have no unwind information there.
by_rule = is_whole_or_guessed if platform.machine() == "aarch64" else is_whole


def recorded(target):
    need_fifo()
    return record(target.pid)


def whole_stacks(target, kind, good=is_whole):
    return reach_the_root(*recorded(target), kind, good)


@harness.some_python(0)
def test_plain_programs_reach_the_root(py):
    return whole_stacks(load(py, "plain"), "plain")


LARGE_FRAME = """
static __attribute__((noinline)) void spin(volatile char *at, unsigned long n)
{
	while (n-- > 0)
		*at = *at + 1;
}
int main(void)
{
	volatile char large[24 << 10];
	for (unsigned i = 0; i < sizeof(large); i++)
		large[i] = 0;
	for (;;)
		spin(large, 1000000);
}
"""


def test_a_large_frame_without_python_is_passed():
    """More of the stack than comes with a sample: read while the thread is held."""
    need_fifo()
    program = harness.start([harness.c_program("large", LARGE_FRAME)])
    run, stacks = record(program.pid, "--any", "--provenance", "all")
    return reach_the_root(run, stacks, "large", is_whole)


MAIN_THREAD_ENDS = """
#include <pthread.h>
#include <stdio.h>
volatile unsigned n;
__attribute__((noinline)) void goes_on(void)
{
	for (;;)
		n++;
}
static void *run(void *arg)
{
	goes_on();
	return arg;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, run, NULL);
	getchar();
	pthread_exit(NULL);
}
"""


def test_a_process_whose_main_thread_has_ended_has_names():
    program = harness.start([harness.c_program("ends", MAIN_THREAD_ENDS, "-pthread")], stdin=subprocess.PIPE)
    recorder = harness.Recorder("-p", program.pid, "--any", "-F", 499, "-d", 3, "-o", "a.folded").attached()
    harness.works(program.pid, 0.5)
    program.stdin.close()
    recorder.wait().ok()
    stacks = harness.read_folded(os.path.join(recorder.home, "a.folded"))
    named = sum(n for frames, n in stacks if any(frame == "goes_on" for frame in frames))
    enough(harness.total(stacks) > 100, "samples: %d", harness.total(stacks))
    check(named > 0.9 * harness.total(stacks), "samples with a name: %d of %d", named, harness.total(stacks))


@harness.some_python(1)
def test_stacks_deeper_than_the_snapshot_reach_the_root(py):
    """The rest is read while the thread is held."""
    run, stacks = recorded(load(py, "deep"))
    said = reach_the_root(run, stacks, "deep", is_whole)
    deepest = max(sum(frame.startswith("deep.<locals>.down (") for frame in frames) for frames, _ in stacks)
    check(deepest == 101, "the deepest stack has %d of 101 frames", deepest)
    return said


@each_python
def test_the_vdso_is_passed(py):
    run, stacks = recorded(load(py, "vdso"))
    said = reach_the_root(run, stacks, "vdso", by_rule)
    inside = sum(n for frames, n in stacks if "vdso" in frames[-1])
    if not inside:
        raise harness.Skip("no sample in the vdso: this clock is read by a system call")
    return said


@each_python
def test_assembly_of_libcrypto_reaches_the_root(py):
    return whole_stacks(load(py, "crypto"), "crypto", by_rule)


@harness.some_python(0)
@harness.seconds(300)
def test_threads_of_openblas_reach_the_root(py):
    target = load(py, "blas", python=harness.venv(py, "numpy", "greenlet"))
    # Its assembly has no unwind information: the way out of it is guessed, and says so.
    return whole_stacks(target, "blas", is_whole_or_guessed)


DEEP = "greenlets.<locals>.deep ("


@harness.some_python(2)
@harness.seconds(300)
def test_greenlets_end_at_their_root(py):
    target = load(py, "greenlets", python=harness.venv(py, "numpy", "greenlet"))
    run, stacks = recorded(target)
    # Each greenlet's own functions, and no other's.
    right, wrong = 0, []
    for frames, n in stacks:
        if not any(frame.startswith("greenlets.<locals>.count (") for frame in frames):
            continue
        inside = [f for f in frames if f.startswith(("greenlets.<locals>.first", "greenlets.<locals>.second"))]
        levels = sum(frame.startswith(DEEP) for frame in frames)
        good = frames[1] == "[coroutine root]" and (
            len(inside) == 1 and levels == 6 and "first" in inside[0] or
            len(inside) == 2 and levels == 4 and all("second" in frame for frame in inside))
        right += n * good
        wrong += [frames] * (not good and not is_marked(frames))
    check(not wrong, "%d right, %d wrong: %s", right, len(wrong), wrong[:3])
    said = reach_the_root(run, stacks, "greenlets", lambda frames: is_whole(frames) or frames[1] == "[coroutine root]")
    enough(right > 300, "only %d could be judged", right)
    return said


@each_python
def test_perf_trampolines_are_passed(py):
    if py.tag.startswith(("3.11", "debian3.11")):
        raise harness.Skip("-X perf came with 3.12")
    target = load(py, "plain", "-X", "perf")
    harness.cleanup(os.unlink, "/tmp/perf-%d.map" % target.pid)  # which says that there are trampolines
    return whole_stacks(target, "perf")


@harness.one_python
def test_a_process_of_many_maps_reaches_the_root(py):
    """Their records are three times what a queue has room for."""
    target = harness.start(py.command() + [os.path.join(harness.TARGETS, "manymaps.py"), "40000"], stdout=-1)
    check(target.stdout.readline() == b"READY\n", "the target did not start")
    return whole_stacks(target, "maps")


NESTED = re.compile(r"^((outer|at|free)_(\d)) \(")


@harness.some_python(0)
def test_interpreters_in_one_another(py):
    """Each one's frames stand on those of the one that ran it, whoever holds a GIL; and none is left behind."""
    need_fifo()
    target = harness.start(py.command() + [os.path.join(harness.TARGETS, "nested.py")], stdout=-1)
    if target.stdout.readline() != b"READY\n":
        raise harness.Skip("no module for subinterpreters")
    run, stacks = record(target.pid)
    seen = collections.Counter()
    for frames, n in stacks:
        found = [match for match in map(NESTED.match, frames) if match]
        if not found or found[-1][2] == "outer":
            continue
        last = found[-1]
        seen[last[1]] += n
        want = ["outer_%d" % i for i in range(int(last[3]) + 1)] + [last[1]]
        harness.equal([match[1] for match in found], want, "the stack of %s: %s" % (last[1], ";".join(frames)))
        check(is_whole(frames), "not whole: %s", ";".join(frames))
    enough(len(seen) == 6 and min(seen.values()) > 30, "too little was seen: %s: %s", dict(seen), run)
    without = [n for frames, n in stacks if not any("(" in f for f in frames)]
    harness.equal(sum(without), 0, "samples without a Python frame")


PEER = re.compile(r"^(libunwind|libdwfl) .* the same frames in .*; it came to an end in ([0-9.]+) %, of those the same"
                  r" ([0-9.]+) %$", re.M)


@harness.some_python(1)
def test_libunwind_and_elfutils_see_the_same_frames(py):
    """On the same thousands of samples, where they come to an end."""
    bench = os.path.join(harness.BUILD, "unwind_bench")
    if not os.path.exists(bench):
        raise harness.Skip("libunwind or libdw is not here")
    target = load(py, "plain")
    done = subprocess.run([bench, str(target.pid), "2000", "32768", "999"], stdout=subprocess.PIPE, text=True, timeout=50)
    check(done.returncode == 0, "%s: exit %d", bench, done.returncode)
    peers = PEER.findall(done.stdout)
    harness.equal([name for name, _, _ in peers], ["libunwind", "libdwfl"], "peers")
    for name, ended, same in peers:
        enough(float(ended) > tolerances.PEERS_END, "%s came to an end too seldom: %s", name, done.stdout)
        check(float(same) >= tolerances.SAME_AS_PEERS, "not the frames of %s: %s", name, done.stdout)


@harness.one_python
def test_libunwind_in_our_place(py):
    need_fifo()
    if "libunwind" not in harness.pysampled("-V").out:
        raise harness.Skip("built without libunwind")
    run, stacks = record(load(py, "plain").pid, "--unwinder", "libunwind")
    return reach_the_root(run, stacks, "libunwind", is_whole)


HIDDEN = re.compile(r"_PyEval_EvalFrameDefault|_PyFunction_Vectorcall|PyObject_Vectorcall|method_vectorcall")


@each(full=[False, True])
@harness.one_python
@harness.seconds(90)
def test_internals_between_python_frames(py, full):
    """They are hidden, unless --native=full."""
    need_fifo()
    mix = Mix(py, 30)
    run, stacks = record(mix.process.pid, *(["--native=full"] if full else []))
    found = looked = 0
    for frames, n in stacks:
        python = [i for i, f in enumerate(frames) if "(" in f]
        between = frames[python[0]:python[-1]] if python else []
        looked += n * any(frame.startswith("x_call") for frame in between)
        found += n * any(map(HIDDEN.match, between))
    enough(looked > 100, "too few stacks with C between Python frames: %s", run)
    enough(found > 100 or not full, "only %d stacks show the interpreter's internals: %s", found, run)
    check(full or not found, "%d stacks show the interpreter's internals", found)


def check_thrown(py, want, root=None):
    """@want: the functions of each stack with inner(), whose Python frames stand below @root."""
    stacks = record(harness.Target(py, "throws.py").pid)[1]
    names = [[name for name, _, _ in harness.python_frames(frames)] for frames, _ in stacks]
    wrong = [frames for (frames, _), name in zip(stacks, names) if "inner" in name and
             (name[:len(want)] != want or (root and harness.user_frames(frames)[0] != root))]
    check(not wrong, "wrong stacks: %s", wrong[:2])
    # Between the two loops is what calls the second one, and all else on one side. 3.10 links such a frame by several stores.
    wrong = [frames for frames, _ in stacks if "[unplaced]" in frames and ("inner" in str(frames) or py.minor() != "3.10") or
             ("_gen_throw" in frames and "inner" in str(frames) and
              not re.search(r"middle \S+ (\w*gen_(throw|send)\w* |_PyCallMethod\w+ )+inner ", " ".join(frames)))]
    check(not wrong, "native frames in the wrong place: %s", wrong[:2])
    enough(sum("inner" in name for name in names) > 5, "%d stacks", len(names))


THROWN = ["<module>", "main", "throws", "outer"] + ["middle"] * 10 + ["inner"]


@each_python
def test_what_is_thrown_into_generators(py):
    """throw() links those that delegate without a loop of their own: they run in the loop that has called it."""
    check_thrown(py, THROWN)


@each(py=[py for py in harness.older_pythons() if py.minor() in ("3.9", "3.10")])
def test_what_is_thrown_into_generators_of_older_pythons(py):
    """Up to 3.10.5 it links each of those to none, and the stack goes no further."""
    if tuple(map(int, py.tag.split("."))) < (3, 10, 6):
        check_thrown(py, ["middle", "inner"], "[truncated]")
    else:
        check_thrown(py, THROWN)


@each(options=[[], ["--no-native"]])
@each_python
def test_a_thread_that_begins_with_a_generator(py, options):
    """C runs it, and below it lies no other frame. It is not taken for a thread without Python."""
    need_fifo()
    run, stacks = record(harness.Target(py, "begun.py").pid, *options)
    count = collections.Counter()
    for frames, n in stacks:
        count[tuple(name for name, _, _ in harness.python_frames(frames))] += n
    wrong = [names for names in count if names not in (("generator",), ("generator", "works")) and names[:1] != ("<module>",)]
    check(not wrong and not run.n("nopython"), "%s: %s", dict(count), run)
    for names in ("generator",), ("generator", "works"):
        enough(count[names] > 30, "%s: %s", dict(count), run)
