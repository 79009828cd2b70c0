"""The self-check at attach refuses a layout with one field changed, and no program that is healthy."""
import json
import os
import signal
import sys

import harness
from harness import Recorder, Target, check, each, enough, equal

sys.path.insert(0, os.path.join(harness.ROOT, "tools"))
import mklayout  # noqa: E402

BESIDE = True

# Fields that a process gives no proof of at attach. Only the test `headers` holds them.
UNPROVEN = {
    "runtime.interp_head": "the next field points to the same interpreter where there is one",
    "runtime.main_thread": "no stack depends on it",
    "runtime.finalizing": "its neighbours are 0, too",
    "interp.next": "0 where there is one interpreter",
    "interp.id": "0 where there is one interpreter",
    "interp.code_versions": "a number like others",
    "interp.threads_unique<>interp.code_versions": "both are counts",
    "gil.switches": "a count like others",
    "tstate.thread_id": "up to 3.10 a neighbour may lead to a number",
    "tstate.frame": "a thread may have no frame",
    "tstate.datastack_chunk": "a thread may have none",
    "cframe.previous": "0 in the outermost one",
    "frame.instr": "3.10: a neighbour is a small number, too",
    "3.11 frame.owner": "no shim is on those stacks, and a neighbour is 0, too",
    "3.14 frame.owner": "a parked thread's neighbouring bytes may do; the process tells its offset",
    "3.15 frame.owner": "as in 3.14",
    "3.15 tstate.base_frame": "not looked at: a walk that never meets it ends elsewhere",
    "3.14 tstate.status": "not looked at from 3.14 on; the process tells its offset",
    "3.15 tstate.status": "not looked at from 3.14 on; the process tells its offset",
    "frame.localsplus": "a parked thread does not tell",
    "frame.func": "a parked thread does not tell",
    "frame.object": "0 in most frames",
    "frame.stacktop": "-1 only while a frame executes",
    "func.code": "a parked thread does not tell",
    "func.version": "a number like others",
    "code.version": "a number like others",
    "code.firsttraceable": "a number like others",
    "code.nlocalsplus": "a number like others",
}
# What names of threads alone are read by: pynames compares texts ("threading", "_active") on its way.
NAMES_ONLY = ("interp.modules", "dict.", "dictkeys.", "module.", "integer.", "object.type_keys")
# Who switches between generators is asked only while one does.
GENERATORS = ("gen.",)


def is_proven(field, how, py):
    return not ({field, field + how, py.minor() + " " + field} & set(UNPROVEN) or field.startswith(NAMES_ONLY + GENERATORS) or
                (field == "str.length" and py.tag.startswith("2.")))


def offsets_in_table(py):
    """Fields with an offset; a table's other numbers are sizes and meanings."""
    path = os.path.join(harness.ROOT, "lib", "offsets", "py%s.c" % py.minor().replace(".", "_"))
    return {name for name in mklayout.table(path) if "." in name and name not in mklayout.PLAIN and name != "attrs_first"}


@each(py=harness.wanted_pythons() + harness.older_pythons() + [harness.python_2_7()])
def test_the_self_check_refuses_a_changed_field(py):
    target = Target(py, "parked.py", extensions=())
    harness.until(lambda: len(harness.tasks(target.pid)) == 4, "four threads")
    run = harness.subprocess.run([os.path.join(harness.BUILD, "change"), str(target.pid)], text=True,
                                 stdout=harness.subprocess.PIPE, stderr=harness.subprocess.PIPE)
    check(run.returncode == 0, "change: %s", run.stderr)
    tried = [line.split(None, 3)[:3] for line in run.stdout.splitlines()]
    check(tried[0] == ["nothing", "+0", "taken"], "the layout itself is refused: %s", run.stdout[:200])
    left_out = offsets_in_table(py) - {field for field, _, _ in tried} - {"interp.code_versions"}  # not in each process's own layout
    check(not left_out, "never changed: %s", left_out)
    taken = [(field, how) for field, how, what in tried[1:] if what == "taken" and is_proven(field, how, py)]
    check(not taken, "taken though changed: %s", taken)
    return "%d changes, %d refused" % (len(tried) - 1, sum(what == "refused" for _, _, what in tried))


@each(kids=[1, 12])
@harness.one_python
def test_a_process_that_tells_another_layout_is_not_read_by_that_of_its_file(py, kids):
    """Its file is the one of a process whose layout was proven. Of many children the last is not looked at before it runs."""
    target = Target(py, "told.py", kids)
    out, liar = os.path.join(harness.folder(), "out.folded"), target.info["liar"]
    recorder = Recorder("-v", "-p", target.pid, "-e", "cpu-clock:u", "-F", 999, "-o", out).attached()
    target.say("go")
    target.line("GONE")
    harness.works(target.pid, 0.5)
    harness.works(liar, 0.5)
    run = recorder.signal(signal.SIGINT).wait(15).ok()
    stacks = harness.read_folded(out)
    named = {pid: sum(n for frames, n in harness.of_pid(stacks, pid) if any("work_of_the" in frame for frame in frames))
             for pid in (target.pid, liar)}
    equal(named[liar], 0, "samples read by another process's layout: %s" % run)
    enough(named[target.pid] > 50, "too few samples of the parent: %s", run)
    enough(harness.total(harness.of_pid(stacks, liar)) > 50, "too few samples of the child: %s", run)
    check("process %d" % liar in run.err, "nobody says why the child is not read: %s", run)


# ---- healthy programs ---------------------------------------------------------------------------------------------------

ALL = harness.older_pythons() + harness.wanted_pythons()


def since(minor, pythons=ALL):
    """Those of 3.MINOR on."""
    return [py for py in pythons if int(py.minor().rstrip("t").split(".")[1]) >= minor]


def dumped(target):
    """[(name, file)] of the main thread's Python frames, innermost first."""
    out = harness.pysampled("dump", "--json", target.pid).ok().out
    thread = next(t for t in json.loads(out)[0]["threads"] if t["tid"] == target.pid)
    return [(f["name"], f["file"]) for f in thread["frames"] if f["kind"] == "python"]


def is_read(target, names, module=1):
    """By both commands that look at a process which runs already: these functions on so many frames of the program's own."""
    got = [name for name, _ in dumped(target)]
    equal(got[:len(names)], names, "functions that dump tells, innermost first, of %s" % got)
    equal(len(got), len(names) + module, "frames that dump tells: %s" % got)
    out = os.path.join(harness.folder(), "a.folded")
    run = harness.pysampled("-p", target.pid, "-F", 499, "-d", 0.5, "-o", out).ok()
    equal(run.n("nopython"), 0, "samples that say that no Python ran: %s" % run)
    enough(run.n("exact") > 5, "few are exact: %s", run)
    return harness.sure(harness.read_folded(out))


@each(py=since(13))
def test_a_program_in_a_constructor_is_read(py):
    """Below each __init__ stands a frame of _Py_InitCleanup, whose code says that it is traced from behind its end on."""
    target = Target(py, "strange.py", "init", extensions=())
    stacks = is_read(target, target.info["names"], module=2)
    wrong = [frames for frames, _ in stacks if [name for name, _, _ in harness.python_frames(frames)] not in (
        [], ["<module>", "main"] + target.info["names"])]
    check(not wrong, "stacks: %s", wrong[:2])


UNUSUAL = {"nofile": ALL, "before": ALL, "nul": since(8), "unnamed": since(8), "unresumed": since(11), "interpreters": since(13)}


@each(how=list(UNUSUAL))
def test_a_program_of_unusual_code_is_read(how):
    pythons = [py for py in UNUSUAL[how] if py.path]
    for py in pythons if harness.every_pair() else pythons[:1] + pythons[-1:]:
        target = Target(py, "strange.py", how, extensions=())
        is_read(target, [name.replace("\0", "\ufffd") for name in target.info["names"]], module=2)
        harness.end(target.process)
    return " ".join(map(str, pythons))


def test_a_frame_without_bytecode_is_read():
    """expat of 2.7 calls what handles elements from a frame that it makes."""
    target = Target(harness.python_2_7(), "handler27.py", extensions=())
    equal([name for name, _ in dumped(target)], ["work", "begin", "StartElement", "main", "<module>"], "its functions")
    stacks = is_read(target, ["work", "begin", "StartElement", "main"])
    unplaced = [frames for frames, _ in stacks if "[unplaced]" in frames]
    check(not unplaced, "frames are not put where they run: %s", unplaced[:2])
