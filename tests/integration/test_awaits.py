"""record --async: behind a task's coroutine come the tasks that await it, as the target itself knows."""
import json
import os

import harness
from harness import Target, check, each, enough, equal
from test_tasks import read_tasks

BESIDE = True


def chain_of(frames):
    """Of a stack, innermost first: the functions of awaits.py within its tasks, and the labels; None if work() is not on it."""
    told = []
    for frame in reversed(harness.user_frames(frames)):
        python = harness.python_frame(frame)
        if frame.startswith(("[task", "[await")):
            told.append(frame)
        elif python and os.path.basename(python[1]) == "awaits.py":
            told.append(python[0])
    outside = next((n for n, name in enumerate(told) if name == "run"), len(told))
    return told[told.index("work") + 1:outside] if "work" in told else None


def judge(stacks, chains, least=10):
    """Each stack of work() has one of the chains, and each chain was seen."""
    seen = {json.dumps(chain): 0 for chain in chains}
    for frames, n in harness.sure(stacks):
        chain = chain_of(frames)
        if chain is not None:
            check(json.dumps(chain) in seen, "a chain that is none: %s, want %s", chain, chains)
            seen[json.dumps(chain)] += n
    enough(min(seen.values()) >= least, "seen: %s", seen)


def record(target, *args, out=None):
    out = out or os.path.join(harness.folder(), "a.folded")
    run = harness.pysampled("-p", target.pid, "-d", 1, "-F", 499, "--async", "--hold-budget", 100, "-v", "-o", out, *args).ok()
    return run, harness.read_folded(out)


@each(py=read_tasks())
def test_a_task_stands_on_those_that_await_it(py):
    target = Target(py, "awaits.py", extensions=())
    run, stacks = record(target)
    judge(stacks, target.info["chains"])
    equal(run.counter("awaiting_unknown"), 0, "awaiting_unknown")
    without = os.path.join(harness.folder(), "a.folded")
    harness.pysampled("-p", target.pid, "-d", 0.3, "-F", 499, "-o", without).ok()
    check(not any(f.startswith("[task") for frames, _ in harness.read_folded(without) for f in frames), "tasks without --async")


@harness.dealt
@each(py=read_tasks(), how=["several", "threads"])
def test_several_that_await_and_several_loops(py, how):
    target = Target(py, "awaits.py", how, extensions=())
    run, stacks = record(target)
    judge(stacks, target.info["chains"], least=5)
    equal(run.counter("awaited_by_several") > 0, how == "several", "awaited_by_several: %s" % run.counter("awaited_by_several"))


@each(py=read_tasks())
def test_who_waits_by_as_completed(py):
    """Up to 3.13 that is not known, and said so."""
    target = Target(py, "awaits.py", "completed", extensions=())
    run, stacks = record(target)
    judge(stacks, target.info["chains"])
    equal(run.counter("awaiting_unknown") > 0, not py.lists_tasks(), "awaiting_unknown: %s" % run)


@each(py=[py for py in read_tasks() if py in harness.wanted_pythons() and "3.11" not in py.tag])
def test_a_task_that_is_begun_at_once(py):
    target = Target(py, "awaits.py", "eager", extensions=())
    _, stacks = record(target)
    found = [chain_of(frames) for frames, _ in harness.sure(stacks)]
    found = [chain for chain in found if chain]
    for chain in found:
        equal(chain, ["eagerly", "[task eager]", "eager"], "a task inside the one that made it")
    enough(len(found) >= 5, "%d stacks", len(found))


@each(py=[py for py in read_tasks() if "3.7" not in py.tag])
def test_numbered_tasks_are_one(py):
    target = Target(py, "awaits.py", "numbered", extensions=())
    _, stacks = record(target)
    judge(stacks, target.info["chains"])
    _, stacks = record(target, "--async=names")
    labels = {frame for frames, _ in stacks for frame in frames if frame.startswith("[task Task-")}
    check("[task Task-*]" not in labels and len(labels) > 5, "with =names: %s", labels)


@harness.one_python
def test_uvloop_too(py):
    target = Target(harness.Python(py.tag, harness.venv(py, "uvloop")), "awaits.py", "uvloop", extensions=())
    _, stacks = record(target)
    judge(stacks, target.info["chains"])


@harness.one_python
def test_all_outputs_have_the_tasks(py):
    home = harness.folder()
    target = Target(py, "awaits.py", extensions=())
    data, speedscope = os.path.join(home, "a.data"), os.path.join(home, "a.speedscope.json")
    _, stacks = record(target, "-o", data, "-o", speedscope, out=os.path.join(home, "a.folded"))
    judge(stacks, target.info["chains"])
    again = os.path.join(home, "b.folded")
    harness.pysampled("convert", data, "-o", again).ok()
    judge(harness.read_folded(again), target.info["chains"])
    with open(speedscope) as file:
        names = {frame["name"] for frame in json.load(file)["shared"]["frames"]}
    labels = {name for chain in target.info["chains"] for name in chain if name.startswith("[")}
    check(labels <= names, "speedscope lacks %s", labels - names)
