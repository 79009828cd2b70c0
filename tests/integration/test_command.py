"""pysampled … -- CMD: profiled from its first instruction, and its own exit status."""
import os

import harness
from harness import check, each, equal, one_python

BESIDE = True


def started(*command):
    home = harness.folder()
    return harness.pysampled("-o", "a.folded", "--", *command, home=home), home


def need_start():
    help_text = harness.pysampled("record", "--help").out
    if "-- CMD" not in help_text:
        raise harness.Skip("-- CMD is not built yet")


@each(code=[0, 1, 7, 125])
@one_python
def test_the_exit_status_is_the_commands(py, code):
    need_start()
    run, _ = started(*py.command(), "-c", "import sys; sys.exit(%d)" % code)
    equal(run.rc, code, "exit status of %s" % run)


@each(number=[6, 9, 15])
@one_python
def test_a_signal_is_128_and_its_number(py, number):
    need_start()
    run, _ = started(*py.command(), "-c", "import os; os.kill(os.getpid(), %d)" % number)
    equal(run.rc, 128 + number, "exit status of %s" % run)


def test_a_command_that_is_not_there():
    need_start()
    equal(started("/nonexistent/command")[0].rc, 127, "exit status")


@each(wrong=[(2, ("-F", 10**6)), (2, ("--capture", "bpf")), (5, ("-e", "nothing"))])
def test_what_is_asked_wrongly_is_no_failure_of_ours(wrong):
    """The command did not run: there is no exit status of it."""
    need_start()
    code, words = wrong
    path = os.path.join(harness.folder(), "ran")
    equal(harness.pysampled(*words, "--", "touch", path).rc, code, "exit status with %s" % (words,))
    check(not os.path.exists(path), "the command ran")


def test_the_summary_comes_last():
    need_start()
    lines = harness.pysampled("-d", 0.2, "--", "sleep", "1").ok().err.splitlines()
    check(any("waiting for 'sleep'" in line for line in lines), "%s", lines)
    check(lines[-1].startswith("samples="), "%s", lines[-2:])


# Goes on until it is told to end, and leaves a mark.
GOES_ON = """import os, time
end = time.monotonic() + 60
while not os.path.exists("go") and time.monotonic() < end:
    sum(range(1000))
time.sleep(1)
open("done", "w").close()"""


@one_python
def test_it_is_waited_for_though_an_output_failed(py):
    need_start()
    harness.need_root()
    out = os.path.join(harness.small_disk(64), "x.data")
    recorder = harness.Recorder("-F", 4999, "-o", out, "--", *py.command(), "-c", GOES_ON)
    harness.until(lambda: "waiting for" in recorder.text(1), "the recording is over")
    harness.write(os.path.join(recorder.home, "go"), "")
    recorder.wait().ok(125)
    check(os.path.exists(os.path.join(recorder.home, "done")), "the command was left alone")


def test_a_command_that_is_no_program():
    need_start()
    path = os.path.join(harness.folder(), "text")
    with open(path, "w") as file:
        file.write("no program\n")
    equal(started(path)[0].rc, 126, "exit status")


@one_python
def test_it_is_profiled_from_its_start(py):
    need_start()
    run, home = started(*py.command(), "-c", "def early():\n  for i in range(10**7): pass\nearly()")
    names = {q for f, _ in harness.read_folded(os.path.join(home, "a.folded")) for q, _, _ in harness.python_frames(f)}
    check("early" in names, "functions: %s", names)
