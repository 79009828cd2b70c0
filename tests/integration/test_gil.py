"""dump says who holds the GIL and who waits for it, as text and as JSON."""
import json
import os
import signal

import harness
from harness import Target, check, dealt, each, enough, equal, one_python

BESIDE = True

# Their layouts do not tell: 2.7's lock is another thing, 3.6 has it in variables without an exported name.
UNTOLD = ("2.7.", "3.6.")
# state, gil, waits_in of each thread.
TRUTH = {
    "hold": {"main": ("waiting", True, "clock_nanosleep"), "poller": ("waiting", False, "poll"), "waiter": ("gil", False, "futex")},
    "busy": {"main": ("running", True, None), "poller": ("waiting", False, "poll"), "waiter": ("gil", False, "futex")},
    "free": {"main": ("waiting", False, "read"), "poller": ("waiting", False, "poll")},
    "stop": {"main": ("stopped", True, "clock_nanosleep"), "poller": ("stopped", False, "poll"), "waiter": ("stopped", False, "futex")},
}
TEXT = {"gil": "waits for the GIL", "waiting": "idle", "running": "running", "stopped": "stopped"}


def all_pythons():
    """Those that have one."""
    return [py for py in harness.wanted_pythons() if not py.is_free_threaded()] + harness.older_pythons() + [harness.python_2_7()]


def dumped(pid, *options):
    """{thread: (state, gil, waits_in)}."""
    process, = json.loads(harness.pysampled("dump", "--json", pid, *options).ok().out)
    same = {"ppoll": "poll"}  # which select.poll() takes from CPython 3.15 on
    return {"main" if t["tid"] == pid else t["name"] or t["os_name"]: (t["state"], t["gil"], same.get(t["waits_in"], t["waits_in"]))
            for t in process["threads"]}


def expected(py, how):
    """What must be said of the threads; of 2.7 and 3.6 nothing that is about the GIL."""
    if not py.tag.startswith(UNTOLD):
        return TRUTH[how]
    return {name: ("waiting" if state == "gil" else state, None, waits) for name, (state, _, waits) in TRUTH[how].items()}


def holds_by_now(py, target, how):
    """The main thread is where it stays, so that all that is said of the GIL can be judged."""
    want = expected(py, how)["main"]
    harness.until(lambda: dumped(target.pid)["main"] == want, "the main thread: %s" % (want,))


def stop(target):
    os.kill(target.pid, signal.SIGSTOP)
    harness.until(lambda: all(harness.status(target.pid, t)["State"][0] == "T" for t in harness.tasks(target.pid)), "all stopped")


def target_that(py, how):
    """One that is in the state how, of which "stop" is "hold" and then stopped."""
    runs = "hold" if how == "stop" else how
    target = Target(py, "gil.py", runs, extensions=())
    holds_by_now(py, target, runs)
    if how == "stop":
        stop(target)
    return target


def never_wrong(got, want):
    """Who waits for the GIL wakes every 5 ms to ask for it, and runs then."""
    for name, (state, gil, waits) in want.items():
        if name == "waiter" and got[name][0] == "running":
            check(got[name][1] in (gil, None), "%s: %s", name, got)
        else:
            equal(got[name], (state, gil, waits), name)


@dealt
@each(py=all_pythons(), how=["hold", "busy", "free", "stop"])
@harness.seconds(120)
def test_dump_tells_who_holds_the_gil(py, how):
    target = target_that(py, how)
    want = expected(py, how)
    for options in ((), ("--no-native",)) * 3:
        never_wrong(dumped(target.pid, *options), want)
    harness.until(lambda: dumped(target.pid) == want, "as it is: %s" % want)
    return "as it is"


@dealt
@each(py=all_pythons(), how=["busy", "stop", "hold", "free"])
@harness.seconds(120)
def test_the_text_says_the_same(py, how):
    target = target_that(py, how)
    want = {"(%s%s): " % (TEXT[state], ", holds the GIL" if gil else "") for state, gil, _ in expected(py, how).values()}
    harness.until(lambda: want == set(said(harness.pysampled("dump", target.pid).ok().out)), "%s is said" % want)


def said(text):
    return [line[line.index("("):line.index(": ") + 2] for line in text.splitlines() if line.startswith("Thread ")]


ALTERNATES = """
import hashlib, signal
data = b"x" * (1 << 22)
def kept():
    sum(range(300000))
def free():
    hashlib.sha256(data).digest()  # of so much the GIL is let go
signal.alarm(60)
print("READY", flush=True)
while True:
    kept()
    free()
"""


@one_python
def test_the_gil_is_that_of_the_stack(py):
    """Of a thread that runs, the sample that tells its stack tells of the GIL too, which it has or has not a moment later."""
    harness.need_fifo()
    target = harness.start(py.command() + ["-c", ALTERNATES], stdout=harness.subprocess.PIPE)
    target.stdout.readline()
    told = []
    for _ in range(16):
        process, = json.loads(harness.pysampled("dump", "--json", target.pid).ok().out)
        main = process["threads"][0]
        names = {frame["name"] for frame in main["frames"] if frame["kind"] == "python"}
        if main["gil"] is not None and main["frames"][0]["kind"] != "marker" and names & {"kept", "free"}:
            told.append(("kept" in names, main["gil"]))
    harness.end(target)
    enough(len(told) > 8 and len(set(told)) > 1, "too few dumps tell: %s", told)
    check(sum(kept == gil for kept, gil in told) >= len(told) - 1, "in code that keeps the GIL, and has it: %s", told)
