"""What is built is in --help and works; what is not is refused as wrong usage, never accepted and ignored."""
import os
import re

import harness
from harness import Target, check, each, enough, equal, one_python, refused

BESIDE = True

OPTIONS = {"--unwinder": "libunwind", "--async": None, "--mode": "wall", "--compress": None, "--log-json": None,
           "--tid": "1", "--threads": None, "--weight": "period", "--folded-lines": "no", "--full-paths": None, "--any": None,
           "--native": "full", "--no-kernel": None, "--no-follow": None, "--one-thread": None}
COMMANDS = ["dump", "top", "stat", "report", "diff", "convert", "unpack", "events", "doctor", "daemon", "ctl", "query",
            "leak", "watch", "latency"]
# Format: how its file begins, as far as that is fixed.
FORMATS = {"perf": rb"PERFILE2", "folded": rb"[^\n]+ \d+\n", "pprof": rb"\x1f\x8b", "speedscope": rb"\{",
           "gecko": rb"\{|\x1f\x8b", "flamegraph": rb"<", "tape": rb"(?!PERFILE2)"}
CAPTURES = ["auto", "preempt", "stop", "async", "bpf"]


def helped(*command):
    run = harness.pysampled(*command, "--help").ok()
    check(run.out and not run.err, "--help belongs on stdout: %s", run)
    return run.out


@one_python
def test_an_option_is_in_the_help_or_refused(py):
    target = Target(py, "groundtruth.py", "--us", 50)
    text = helped("record")
    for option, value in OPTIONS.items():
        if not re.search(r"%s\b" % option, text):
            refused(2, "-p", target.pid, "-d", 1, option + ("=" + value if value else ""))


@each(command=COMMANDS)
def test_a_command_is_in_the_help_or_refused(command):
    if re.search(r"^ +(pysampled )?%s\b" % command, helped(), re.M):
        check("Usage: pysampled %s" % command in helped(command), "%s --help says nothing", command)
    else:
        refused(2, command)


@each(kind=FORMATS)
@one_python
def test_a_format_gives_a_file_or_is_refused(py, kind):
    target = Target(py, "groundtruth.py", "--us", 50)
    out = os.path.join(harness.folder(0o777), "out")
    run = harness.pysampled("-p", target.pid, "-d", 1, "--format", kind, "-o", out)
    if run.rc == 2:
        equal(len(run.err.splitlines()), 1, "lines on stderr: %s" % run)
        check(not os.path.exists(out), "refused, but a file was made")
        check(kind not in ("perf", "folded", "tape"), "%s must be there: %s", kind, run)
    else:
        run.ok()
        with open(out, "rb") as file:
            begin = file.read(4096)
        check(len(begin) > 100 and re.match(FORMATS[kind], begin), "no %s file: %r", kind, begin[:40])


@each(name=CAPTURES)
@one_python
def test_a_capture_works_or_is_refused(py, name):
    target = Target(py, "groundtruth.py", "--us", 50)
    run = harness.pysampled("-p", target.pid, "-d", 1, "--capture", name, "-o", "a.data")
    if run.rc == 2:
        equal(len(run.err.splitlines()), 1, "lines on stderr: %s" % run)
        check(name not in ("auto", "preempt", "stop", "async"), "%s must be there: %s", name, run)
        return
    if run.rc == 4:
        check(name == "preempt" and not harness.can_fifo(), "%s is not permitted: %s", name, run)
        return
    run.ok()
    if name != "auto":
        equal(run.summary["capture"], name, "capture= in the summary")


@one_python
def test_record_is_the_default_command(py):
    target = Target(py, "groundtruth.py", "--us", 50)
    run = harness.pysampled("record", "-p", target.pid, "-d", 1, "-o", "a.data").ok()
    enough(run.n("samples") > 10, "too few samples: %s", run)


@one_python
def test_the_default_is_perf_data_at_99_hz(py):
    target = Target(py, "groundtruth.py", "--us", 50)
    home = harness.folder(0o777)
    run = harness.pysampled("-p", target.pid, "-d", 2, home=home).ok()
    check(os.path.exists(os.path.join(home, "perf.data")), "no perf.data: %s", run)
    enough(40 <= run.n("samples") <= 220, "not 99 Hz: %s", run)


@one_python
def test_the_summary_is_complete(py):
    target = Target(py, "groundtruth.py", "--us", 50)
    run = harness.pysampled("-p", target.pid, "-d", 1, "-o", "a.data").ok()
    want = "samples exact late torn nopython lost throttled shed truncated capture event freq duration cpu rss".split()
    equal([key for key in run.summary if key in want], want, "keys of the summary")
    equal(run.err.splitlines()[-1].split("=")[0], "samples", "the last line on stderr")


@one_python
def test_quiet_says_nothing(py):
    target = Target(py, "groundtruth.py", "--us", 50)
    run = harness.pysampled("-q", "-p", target.pid, "-d", 1, "-o", "a.data").ok()
    noise = [line for line in run.err.splitlines() if not line.startswith("samples=")]
    equal(noise, [], "lines on stderr")


@each(option=["-V", "--version"])
def test_version(option):
    run = harness.pysampled(option).ok()
    check(re.match(r"pysampled \d+\.\d+", run.out), "no version: %r", run.out)


def test_events_lists_what_can_be_sampled_and_why_not():
    run = harness.pysampled("events").ok()
    for name in ("cycles", "cpu-clock", "page-faults", "context-switches", "cache-misses"):
        check(re.search(r"\b%s\b" % name, run.out), "no %s in %s", name, run.out)


@one_python
def test_doctor_speaks_of_a_target(py):
    target = Target(py, "groundtruth.py", "--us", 50)
    run = harness.pysampled("doctor", "-p", target.pid).ok()
    check("paranoid" in run.out, "nothing about perf_event_paranoid: %s", run.out)
    version = harness.tag_of(py.path).rstrip("t")
    check(version in run.out, "the target's Python %s is not named: %s", version, run.out)
