"""Garbage collection as a frame of its own, where the interpreter's symbols tell of it."""
import json
import os

import harness
from harness import Target, check, each, enough

BESIDE = True
COLLECTS = ("collect", "gc_collect_main", "gc_collect_internal", "gc_collect_young", "gc_collect_increment", "gc_collect_full")
PYTHONS = harness.older_pythons() + harness.wanted_pythons()


def without_inner_ones(frames):
    """Of collecting functions that call each other the one that was called first."""
    return [i for i, frame in enumerate(frames) if frame in COLLECTS and not (i and frames[i - 1] in COLLECTS)]


@each(py=PYTHONS if harness.every_pair() else PYTHONS[1:2] + PYTHONS[-2:])
def test_each_collection_is_a_frame(py):
    target = Target(py, "collects.py")
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "-F", 999, "-d", 2, "-o", "a.folded", "-o", "a.gecko.json", home=home).ok()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    marked = 0
    for frames, count in stacks:
        says = [i for i, frame in enumerate(frames) if frame == "[gc]"]
        check([i + 1 for i in says] == without_inner_ones(frames), "not where symbols tell of a collection: %s", frames)
        names = [name.split(".")[-1] for name, _, _ in harness.python_frames(frames[:says[0]])] if says else []
        check(not says or "[torn]" in frames or names[-1:] == ["collecting"], "below %s: %s", names[-1:], frames)
        marked += count * bool(says)
    whole = any("working" in str(frames) for frames, _ in stacks)
    told = any(frame in COLLECTS for frames, _ in stacks for frame in frames)
    if not told and "stripped" in harness.pysampled("doctor", "-p", target.pid).out:
        check(not marked, "a collection that no symbol tells of")
        return
    enough(marked > 10 and whole, "%d collections of %s", marked, run)
    for name, category in categories(os.path.join(home, "a.gecko.json")):
        check(name != "[gc]" or category == "GC", "%s is %s in a gecko profile", name, category)


def categories(path):
    """(function, its frame's category) of a gecko profile."""
    with open(path) as file:
        profile = json.load(file)
    names = [category["name"] for category in profile["meta"]["categories"]]
    for thread in profile["threads"]:
        frames, strings = thread["frameTable"], thread["stringArray"]
        for func, category in zip(frames["func"], frames["category"]):
            yield strings[thread["funcTable"]["name"][func]], names[category]
