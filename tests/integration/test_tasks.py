"""dump --async tells the asyncio tasks as the target itself does."""
import json
import re
import time

import harness
from harness import Target, check, each, enough, equal

BESIDE = True

NAME_BYTES = 127
BAD = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
WHOSE_END = re.compile(r"^\[\d+ tasks (ended before they were|could not be) read", re.M)
# Those that link who is cancelled, while it goes on in what it awaits, to no other frame (EXACTNESS.md): its stack is cut.
THROWS_UNLINKED = re.compile(r"(debian)?3\.9(\..*)?|3\.10\.[0-5]")
HEADER = re.compile(r'Task(?: "(.*)")? \((\w+)\): coroutine (.*)')


def read_tasks():
    """3.7 on."""
    return harness.wanted_pythons() + [py for py in harness.older_pythons() if not py.tag.startswith("3.6")]


def shown(name):
    return name and BAD.sub("?", name).encode()[:NAME_BYTES].decode(errors="ignore")


def dumped_tasks(text):
    """[(name, state, coroutine, [(function, file, line), ...])], sorted."""
    tasks = []
    for line in text.splitlines():
        header = HEADER.fullmatch(line)
        if header:
            tasks.append((header[1], header[2], header[3], []))
        elif not line[:1].isspace():
            tasks.append((None, "no task", line, []))
        else:
            tasks[-1][3].append(harness.python_frame(line.strip()) or line.strip())
    return in_order(tasks[tasks.index(next(t for t in tasks if t[1] != "no task")):])


def tasks_of_json(tasks):
    return in_order([(task["name"], task["state"], task["coroutine"],
                      [(f["name"], f["file"], f["line"]) if f["kind"] == "python" else f["name"] for f in task["frames"]])
                     for task in tasks])


def in_order(tasks):
    return sorted(tasks, key=lambda task: (task[0] or "",) + task[1:])


def true_tasks(py, target):
    """From 3.14 on C's tasks are in lists until they are done; Python's are not read."""
    tasks = [task for task in target.info["tasks"] if not py.lists_tasks() or
             (task["of_c"] and task["state"] != "done")]
    return in_order([(shown(task["name"]), task["state"], task["coroutine"], [tuple(frame) for frame in task["frames"]])
                     for task in tasks])


@each(py=read_tasks())
def test_dump_tells_tasks_and_what_they_await(py):
    target = Target(py, "tasks.py", extensions=())
    run = harness.pysampled("dump", "-p", target.pid, "--async").ok()
    equal(dumped_tasks(run.out), true_tasks(py, target), "tasks")
    process, = json.loads(harness.pysampled("dump", "-p", target.pid, "--json", "--no-native").ok().out)
    equal(tasks_of_json(process["tasks"]), true_tasks(py, target), "tasks in JSON")
    equal(process["greenlets"], None if py.tag.startswith("3.7") or py.is_free_threaded() else [], "greenlets")


@each(py=read_tasks())
def test_tasks_that_move_are_whole(py):
    """While tasks come and go, each chain that is told is one that there was."""
    target = Target(py, "tasks.py", extensions=())
    still = [task for task in true_tasks(py, target) if task[1] == "waiting" and task[2] != "outer"]
    target.say("go")
    target.line("CHURNS")
    looks = seen = moved = 0
    end = time.monotonic() + 30
    while looks < 4 or (time.monotonic() < end and moved < 4):
        looks += 1
        out = harness.pysampled("dump", "-p", target.pid, "--async", "--no-native").ok().out
        tasks = dumped_tasks(out)
        naps = sum(task[2] == "nap" for task in tasks)
        check(naps >= 20 or WHOSE_END.search(out), "%d of 20 that nap, and no line says why: %s", naps, out)
        check(all(task in tasks for task in still), "of what stands still some is missing: %s", tasks)
        for name, state, coroutine, frames in tasks:
            check(coroutine != "[unknown]", "a task of no coroutine: %s %s", name, state)
            if state == "running" and frames != ["[torn]"]:
                known = frames[:-1] if frames[-1] == "[truncated]" and THROWS_UNLINKED.fullmatch(py.tag) else frames
                check(known and known[-1][0] == coroutine, "%s runs %s", coroutine, frames)
            if coroutine == "nap":
                seen += 1
                moved += state == "waiting" and frames != ["[torn]"]
                check(is_nap(frames) or frames == ["[torn]"] or state != "waiting", "a nap at %s", frames)
    enough(moved >= 4, "%d of %d tasks that move were seen waiting, in %d looks", moved, seen, looks)


def is_nap(frames):
    """Not begun, or in one of its sleeps, of which the first one yields by a generator."""
    functions = [frame[0] for frame in frames]
    return functions in (["nap"], ["sleep", "nap"], ["__sleep0", "sleep", "nap"])


@harness.one_python
def test_a_process_without_asyncio_has_no_tasks(py):
    target = Target(py, "threadnames.py", extensions=())
    run = harness.pysampled("dump", "-p", target.pid, "--async").ok()
    check(not re.search(r"^(Task|\[)", run.out, re.M), "tasks: %s", run.out)
    process, = json.loads(harness.pysampled("dump", "-p", target.pid, "--json").ok().out)
    equal(process["tasks"], [], "tasks in JSON")
