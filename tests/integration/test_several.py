"""Several interpreters in one process: of one libpython, of others, or of the same one loaded twice."""
import json
import os
import shutil
import subprocess

import harness
from harness import Skip, Target, check, each, enough, equal, sure
from test_builds import altered

BESIDE = True
PYTHONS = [py for py in harness.wanted_pythons() if not py.is_free_threaded()]
OLDER = harness.older_pythons()
NESTED = ["outer_1", "cross_1", "middle_2", "cross_2", "inner_1"]


def library(py):
    code = "import sysconfig as s; print(s.get_config_var('LIBDIR'), s.get_config_var('INSTSONAME'), s.get_config_var('prefix'))"
    where, name, prefix = subprocess.check_output(py.command() + ["-c", code], text=True, env=harness.plain_env()).split()
    path = os.path.join(where, name)
    if not os.path.exists(path):
        path = os.path.join(where, "x86_64-linux-gnu", name)
    if not os.path.exists(path):
        raise Skip("no shared libpython of %s" % py)
    return [path, prefix]


def start(how, *pythons):
    return start_of(how, *map(library, pythons))


def start_of(how, *libraries):
    program = os.path.join(harness.folder(), "several")
    subprocess.run(["cc", "-O2", "-fno-optimize-sibling-calls", "-pthread", os.path.join(harness.TARGETS, "several.c"), "-o", program, "-ldl"],
                   check=True)
    target = harness.start([program, how] + [word for one in libraries for word in one], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, env=harness.plain_env())
    equal(target.stdout.readline(), b"READY {}\n", "its first line")
    harness.works(target.pid)
    return target


def names(frames):
    return [name for name, _, _ in harness.python_frames(frames)]


def wrong_in_threads(stacks):
    """Each thread runs one interpreter, which leaves these names or has just begun."""
    right = [["<module>", "call_%d" % n, "leaf_%d" % n][:k] for n in (1, 2) for k in (1, 2, 3)]
    return [frames for frames, _ in stacks if names(frames) and names(frames) not in right]


def share(stacks, leaf):
    return sum(n for frames, n in stacks if names(frames)[-1:] == [leaf])


def record(target, *args, seconds=2):
    out = os.path.join(harness.folder(), "a.folded")
    run = harness.pysampled("-p", target.pid, "-F", 999, "-d", seconds, "-o", out, *args).ok()
    return run, harness.read_folded(out)


def dumped(target):
    """{names of the Python frames, outermost first, of a thread}."""
    out = harness.pysampled("dump", "--json", target.pid).ok().out
    threads = json.loads(out)[0]["threads"]
    return [([f["name"] for f in t["frames"] if f["kind"] == "python"][::-1], t) for t in threads]


def others_of(py):
    return [one for one in PYTHONS + OLDER if one.path and one.tag != py.tag] or [py]


def threads_are_right(target):
    """What a recording says of two threads, each in its own interpreter."""
    run, stacks = record(target)
    check(not wrong_in_threads(sure(stacks)), "wrong: %s", wrong_in_threads(sure(stacks))[:3])
    equal(run.n("nopython"), 0, "samples that say that no Python ran: %s" % run)
    for leaf in ("leaf_1", "leaf_2"):
        enough(share(sure(stacks), leaf) > 5, "%s: %d of %s", leaf, share(sure(stacks), leaf), run)


@each(py=PYTHONS + OLDER[2:3])
def test_each_thread_has_its_own_interpreter(py):
    other = others_of(py)[0]
    target = start("threads", py, other)
    threads_are_right(target)
    found = [names for names, _ in dumped(target)]
    for n in (1, 2):
        enough(any(one[:2] == ["<module>", "call_%d" % n] for one in found), "dump: %s", found)


@each(py=PYTHONS[-1:] + OLDER[-2:-1])
def test_the_same_file_loaded_twice(py):
    threads_are_right(start("again", py, py))


@each(py=PYTHONS if harness.every_pair() else PYTHONS[:2])
def test_one_calls_the_other(py):
    """On one thread: what each runs stands where it is on the C stack, beside the function through which it was called."""
    target = start("nested", py, others_of(py)[0])
    run, stacks = record(target)
    seen = [[f.split(" (")[0] for f in frames if f.split(" (")[0] in NESTED] for frames, _ in sure(stacks)]
    wrong = [one for one in seen if one != NESTED[:len(one)]]
    check(not wrong, "wrong: %s", wrong[:3])
    enough(sum(n for (_, n), one in zip(sure(stacks), seen) if len(one) == 5) > 5, "few innermost: %s", run)
    found = [names for names, _ in dumped(target)]
    enough(any("outer_1" in one for one in found), "dump: %s", found)


@each(py=OLDER[-1:])
def test_frames_of_no_known_place_are_not_mixed(py):
    """Up to 3.10 nothing tells where on the C stack a frame lies: two such interpreters on one stack are torn."""
    target = start("nested", py, py if len(OLDER) < 2 else OLDER[-2])
    run, stacks = record(target)
    seen = [[n for n in names(frames) if n in NESTED] for frames, _ in sure(stacks)]
    check(all(one in ([], ["outer_1"]) for one in seen), "wrong: %s", [one for one in seen if len(one) > 1][:3])
    enough(run.n("torn") > 30, "few torn: %s", run)


@each(py=PYTHONS if harness.every_pair() else PYTHONS[1:2])
def test_one_that_is_loaded_later(py):
    target = start("late", py, others_of(py)[0])
    home = harness.folder()
    recorder = harness.Recorder("-p", target.pid, "-F", 999, "-d", 4, "-o", "a.folded", home=home).recording()
    target.stdin.write(b"go\n")
    target.stdin.flush()
    run = recorder.wait().ok()
    stacks = sure(harness.read_folded(os.path.join(home, "a.folded")))
    begun = [row for row in stacks if any(path == "<string>" for _, path, _ in harness.python_frames(row[0]))]
    check(not wrong_in_threads(begun), "wrong: %s", wrong_in_threads(begun)[:3])
    for leaf in ("leaf_1", "leaf_2"):
        enough(share(stacks, leaf) > 5, "%s: %d of %s", leaf, share(stacks, leaf), run)


def strange_library(py):
    """A copy that says wrongly where a frame's code is, and has no debug info that would tell."""
    path, prefix = library(py)
    path = shutil.copy(path, harness.folder())
    subprocess.run([harness.need_command("strip"), "-g", path], check=True)
    altered(path, 0x030d, 240, lambda before: before + 8)
    return path, prefix


@each(strange=["first", "last"])
def test_one_that_cannot_be_read(strange):
    """Whichever of them is looked at first: that is said, and nobody says of its threads that no Python ran."""
    py = next((py for py in PYTHONS if py.path and py.tag.startswith("3.13.")), None)
    if not py:
        raise Skip("no CPython 3.13 of pyenv")
    both = [strange_library(py), library(others_of(py)[0])]
    target = start_of("late", *(both if strange == "first" else both[::-1]))
    target.stdin.write(b"go\n")
    target.stdin.flush()
    harness.until(lambda: len(harness.tasks(target.pid)) == 3, "both threads")
    harness.works(target.pid, 1)
    said = "one of the interpreters of process %d is not read" % target.pid
    check(said in harness.pysampled("dump", target.pid).ok().err, "dump does not say that one is not read")
    run, stacks = record(target, "-v")
    check(said in run.err, "record does not say so: %s", run)
    equal(run.n("nopython"), 0, "samples that say that no Python ran: %s" % run)
    enough(run.counter("torn_elsewhere") > 30, "few are of the other interpreter: %s", run)
    read = 2 if strange == "first" else 1
    enough(share(sure(stacks), "leaf_%d" % read) > 5, "few stacks of the interpreter that is read: %s", run)


def thread_of(frames):
    return frames[0].partition("/")[2].rpartition("-")[0]


@harness.dealt
@each(lock=["own", "legacy"])
@each(py=harness.wanted_pythons() + OLDER)
def test_the_interpreters_of_one_libpython(py, lock):
    """Their threads' names and stacks, also where one thread is in two: up to 3.10 only while it is known which one runs."""
    harness.need_fifo()
    target = Target(py, "interpreters.py", lock)
    stacks = target.info["stacks"]
    harness.until(lambda: len(harness.tasks(target.pid)) == 1 + len(stacks), "threads of each interpreter")
    harness.works(target.pid, 0.5)
    pairs = [(thread_of(frames), names(frames)) for frames, _ in sure(record(target, "--threads", seconds=3)[1])]
    wrong = [pair for pair in pairs if pair[0] in stacks and pair[1] != stacks[pair[0]]]
    check(not wrong, "wrong stacks: %s", wrong[:3])
    inside = {thread for thread, _ in pairs if thread in stacks}
    kinds = {thread[:5] for thread in inside}  # one that has an old lock hardly gives it away
    enough(kinds == {"inner", "outer"} or (py.tag.startswith("3.6") and "inner" in kinds), "seen: %s", inside)
    dumped = {thread["name"]: [frame["name"] for frame in thread["frames"][::-1] if frame["kind"] == "python"]
              for thread in json.loads(harness.pysampled("dump", "--json", "--no-native", target.pid).ok().out)[0]["threads"]}
    equal(set(dumped), {"MainThread", *stacks}, "names of threads")
    for thread, stack in stacks.items():
        check(dumped[thread] in (stack, []), "%s: %s", thread, dumped[thread])
    enough(all(map(dumped.get, stacks)) or py in OLDER, "threads that could not be read while they ran: %s", dumped)


@harness.dealt
@each(py=[py for py in harness.wanted_pythons() + OLDER if py.minor() not in ("2.7", "3.6", "3.7")])
def test_interpreters_that_follow_one_another(py):
    """Code of one may lie where that of an ended one lay, with the same number: its name is its own."""
    stacks = sure(record(Target(py, "interpreters_in_turn.py"), "--no-native", seconds=4)[1])
    pairs = [[name.partition("_")[2] for name in names(frames) if name.startswith(("called_", "work_"))] for frames, _ in stacks]
    pairs = [pair for pair in pairs if len(pair) == 2]
    wrong = [pair for pair in pairs if pair[0] != pair[1]]
    check(not wrong, "code of another interpreter: %s of %d", wrong[:3], len(pairs))
    enough(len(pairs) > 10, "%d stacks", len(pairs))
