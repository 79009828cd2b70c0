"""Greenlets: those that work have their own stack, and those that are parked are told by dump."""
import json
import os

import harness
from harness import Target, check, each, enough, equal

BESIDE = True


def pythons():
    """Which greenlet is there for; older ones and gevent take a minute each to install."""
    return [py for py in harness.wanted_pythons() + (harness.older_pythons() if harness.every_pair() else [])
            if not py.is_free_threaded() and py.tag.rpartition("n")[2].startswith(("3.8", "3.9", "3.1"))]


def target(py, how):
    packages = ("gevent", "--only-binary=:all:") if harness.every_pair() else ("numpy", "greenlet")
    return Target(harness.Python(py.tag, harness.venv(py, *packages)), "parkedlets.py", how, extensions=())


@harness.seconds(300)  # of which installing takes most, once
@each(py=pythons())
def test_parked_greenlets_are_told(py):
    parked = target(py, "parked")
    want = sorted([tuple(frame) for frame in frames] for frames in parked.info["parked"])
    check(len(want) >= 9, "%d parked: %s", len(want), want)
    process, = json.loads(harness.pysampled("dump", "-p", parked.pid, "--json", "--no-native").ok().out)
    got = sorted([(f["name"], f["file"], f["line"]) for f in greenlet["frames"]] for greenlet in process["greenlets"])
    equal(got, want, "greenlets in JSON")
    run = harness.pysampled("dump", "-p", parked.pid, "--async", "--no-native").ok()
    equal(run.out.count("Greenlet (parked)"), len(want), "greenlets in text")


@harness.one_python
def test_without_greenlet_there_is_none(py):
    sleeper = Target(py, "threadnames.py", extensions=())
    process, = json.loads(harness.pysampled("dump", "-p", sleeper.pid, "--json", "--no-native").ok().out)
    equal(process["greenlets"], [], "greenlets")


@harness.seconds(300)
@each(py=pythons())
def test_greenlets_that_work_have_their_own_stack(py):
    works = target(py, "turns")
    out = os.path.join(harness.folder(), "a.folded")
    harness.pysampled("-p", works.pid, "-d", 1, "-F", 499, "--hold-budget", 100, "-o", out).ok()
    judged = 0
    for frames, n in harness.sure(harness.read_folded(out)):
        names = [name for name, _, _ in reversed(harness.python_frames(frames)) if name.startswith(("leaf", "mid", "top"))]
        if names and names[0] in works.info["chains"]:
            equal(names[1:], works.info["chains"][names[0]], "callers of %s in %s" % (names[0], frames))
            # Up to 3.10 its frames are placed by number, and the loops beyond its root are others'.
            check("[unplaced]" not in frames, "its place is not known: %s", frames)
            check("[coroutine root]" in frames or not any("inner_bootstrap" in frame for frame in frames), "beyond its root: %s", frames)
            judged += n
    enough(judged >= 10, "%d judged", judged)


@harness.seconds(300)
@each(py=pythons())
def test_a_greenlet_without_a_python_frame_has_none(py):
    """Nor has it those of the greenlet on whose C stack it began; and it is not torn."""
    bare = target(py, "bare")
    out = os.path.join(harness.folder(), "a.folded")
    run = harness.pysampled("-p", bare.pid, "-d", 1, "-F", 499, "--hold-budget", 100, "-o", out).ok()
    none = [(frames, n) for frames, n in harness.read_folded(out) if not harness.python_frames(frames)]
    equal(sum(n for frames, n in none if "[torn]" not in frames), run.n("nopython"), "samples without Python")
    enough(run.n("nopython") > 0.2 * run.n("samples"), "few are without Python: %s", run)
    enough(run.n("exact") > 0.2 * run.n("samples"), "few are with Python: %s", run)
    # Up to 3.12 a program's samples are torn until one of a whole stack.
    enough(run.n("torn") <= 0.1 * run.n("samples"), "torn: %s", run)
