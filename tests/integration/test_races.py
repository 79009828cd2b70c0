"""Whatever happens to a target while pysampled attaches or detaches, the record ends well and so does the target."""
import random
import signal
import time

import harness
from harness import Recorder, Target, check, each, not_quick, one_python

BESIDE = True

RACES = 70 if harness.matrix_pythons() else 25  # for each capture
SHORT = 0.15  # seconds of a recording
NO_PROCESS, NOT_PERMITTED = 3, 4


def say(word):
    return lambda target: target.say(word)


def stop_and_go_on(target):
    target.process.send_signal(signal.SIGSTOP)
    time.sleep(0.02)
    target.process.send_signal(signal.SIGCONT)


def debug(target):
    """A debugger attaches, and leaves soon."""
    strace = harness.start([harness.need_command("strace"), "-qq", "-e", "trace=none", "-p", str(target.pid)],
                           stderr=harness.subprocess.DEVNULL)
    time.sleep(0.1)
    strace.terminate()
    strace.wait(10)


HAPPENS = {
    "it exits": say("exit"),
    "it is killed": lambda target: target.process.kill(),
    "it execs": say("exec"),
    "it forks": say("fork"),
    "it makes a thread": say("thread"),
    "it is stopped": stop_and_go_on,
    "a debugger attaches": debug,
}


def codes(what, capture):
    """The exit codes that are right."""
    if what in ("it exits", "it is killed"):
        return 0, NO_PROCESS
    if what == "a debugger attaches" and capture == "stop":
        return 0, NOT_PERMITTED
    return (0,)


def is_free(target):
    """Once it goes on; a signal that somebody else sends may be pending for a moment."""
    harness.runs_on(target.pid)
    said = []
    try:
        harness.until(lambda: not said.append(harness.left(target.pid)) and not said[-1], "nothing is left")
    except AssertionError:
        raise AssertionError("left of pysampled: " + said[-1]) from None


def waits_for_signals(record):
    """Or has ended. Before its first instruction a signal ends it."""
    return record.process.poll() is not None or int(harness.status(record.pid)["SigBlk"], 16) & 1 << signal.SIGINT - 1


def race(py, capture, what, when, chance):
    home = harness.folder()
    target = Target(py, "racer.py", extensions=())
    record = Recorder("-p", target.pid, "-F", 2000, "--capture", capture, "-o", "a.data", "-o", "a.folded", home=home)
    if when == "detach":
        record.attached()
        time.sleep(SHORT)
    time.sleep(chance.uniform(0, 0.06))
    if when == "attach":
        HAPPENS[what](target)
        time.sleep(SHORT)
        harness.until(lambda: waits_for_signals(record), "signals wait for it")
        record.signal(signal.SIGINT)
    else:
        harness.until(lambda: waits_for_signals(record), "signals wait for it")
        record.signal(signal.SIGINT)
        time.sleep(chance.uniform(0, 0.01))
        HAPPENS[what](target)
    run = record.wait(15)
    check(run.rc in codes(what, capture), "%s at %s: exit status %s: %s", what, when, run.rc, run)
    if run.rc == 0:
        harness.readable(run, home)
    if what not in ("it exits", "it is killed"):
        is_free(target)


@each(capture=["preempt", "stop", "async"])
@one_python
@not_quick
@harness.seconds(200)
def test_races_with(py, capture):
    if capture == "preempt":
        harness.need_fifo()
    chance = random.Random(capture)
    for _ in range(RACES):
        race(py, capture, chance.choice(sorted(HAPPENS)), chance.choice(["attach", "detach"]), chance)
        harness.clean_up()


@one_python
def test_a_process_whose_tasks_take_quick_turns_is_known(py):
    """While it runs alone, nearly each look at its frames and generators is torn."""
    target = Target(py, "grammars.py", "task", "--us", 2)
    for _ in range(12):
        harness.pysampled("-p", target.pid, "-d", "0.05", "--format", "folded").ok()
