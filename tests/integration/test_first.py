"""The first five minutes: what a stranger types, and what is said then."""
import json
import os
import re
import signal
import time

import harness
from harness import Target, check, each, equal, one_python


BESIDE = True


def spinning(py):
    return Target(py, "groundtruth.py", "--us", 50)


@each(words=[("4711", "pysampled -p 4711"), ("sh x.sh", "pysampled -- sh ..."), ("recrod", "nearest: record"), ("report x --by fnction", "function, line, file"),
             ("-p 1 --provenence all", "nearest: --provenance"), ("-p postgres", "--match"), ("-p 1 -F 0", "max_sample_rate"),
             ("-p 1 -d 5x", "500ms, 2m, 1h"), ("-p 1 -d 1e-10", "500ms, 2m, 1h"), ("-p 1 --f=9", "short for --freq, --format, --follow"), ("-p 1 2", "-p 12,34"), ("-p 1 sleep 5", "-d SEC"),
             ("-p 1 -i 10ms", "-F HZ"), ("-p 1 --format raw", "--format folded"), ("-p 1 --format collapsed", "--format folded"),
             ("-p 1 --format svg", "FILE.svg"), ("report --no-native", "--python"), ("report --threads", "--by thread"),
             ("x.py 1", "pysampled -- python3 x.py ..."), ("./x.py", "pysampled -- python3 ./x.py"), ("record x.py", "-- python3 x.py"), ("record x", "'--'"),
             ("-p 1 --native-lines=yes", "--native-lines takes no value"), ("-p 1 --help=x", "--help takes no value"), ("-p 1 -Z", "no option -Z; see"), ("-p 1 --native -Zq", "no option -Z; see"),
             ("-p 1 --", "no command follows '--'"), ("-d 1 --", "no command follows '--'"), ("doctor x", "not a process number"),
             ("convert -i x", "the file's name alone"), ("diff -i x y", "the file's name alone"), ("report -o x", "> FILE"),
             ("report --sort dso x", "--by"), ("report -i x y", "one FILE")])
def test_what_was_probably_meant_is_said(words):
    harness.refused(2, *words[0].split(), about=[words[1]])


def test_a_function_that_is_mistyped_has_a_nearest_one():
    path = os.path.join(harness.folder(), "a.folded")
    with open(path, "w") as file:
        file.write("p-1;main (a.py:1);Shop.price (a.py:2);strcmp 1\n")
    for name, nearest in (("maim", "; nearest: main"), ("prize", "; nearest: price"), ("Shop.prize", "; nearest: Shop.price"), ("strcmp", "'"), ("x", "'")):
        harness.refused(1, "report", path, "--annotate", name, about=["no sample has a Python function '%s'%s" % (name, nearest.rstrip("'"))])


def test_the_hottest_of_equally_called_functions_is_annotated_first():
    path = os.path.join(harness.folder(), "a.folded")
    with open(path, "w") as file:
        file.write("p-1;main (a.py:1);f (b.py:1) 2\np-1;main (c.py:1);f (b.py:1) 5\np-1;main (c.py:2) 1\np-1;main (b.py:1) 3\n")
    out = harness.pysampled("report", path, "--annotate", "main").ok().out
    equal([line for line in out.splitlines() if " in " in line], ["# main in " + name for name in ("c.py", "b.py", "a.py")], "order")


def test_a_script_that_cannot_be_run_is_python_s():
    folder = harness.folder()
    for name in "x.py", "y":
        open(os.path.join(folder, name), "w").close()
    for words, rc in (("x.py", 127), ("./x.py", 126), ("y", 127)):
        run = harness.pysampled("--", words, cwd=folder).ok(rc)
        equal("pysampled -- python3 " + words in run.err, words != "y", "is Python named? %s" % run)


@each(event=[("cpu", "-e cpu-clock"), ("wall", "--mode wall")])
def test_an_event_of_other_profilers(event):
    harness.refused(5, "-p", 1, "-e", event[0], about=[event[1]])


@one_python
def test_doctor_takes_a_process_as_dump_does(py):
    pid = spinning(py).pid
    check("ok  process %d is CPython" % pid in harness.pysampled("doctor", pid).ok().out, "not told of %d", pid)
    harness.refused(2, "doctor", pid, pid, about=["one process at a time"])


def test_what_is_another_word_is_not_offered():
    for words in (["report", "--comm", "x"], ["-p", "1", "--gel"]):
        run = harness.pysampled(*words).ok(2)
        check("there is no option" in run.err and "nearest" not in run.err, "%s", run)


@each(command=["record", "report", "doctor"])
def test_help_of_a_command(command):
    equal(harness.pysampled("help", command).ok().out, harness.pysampled(command, "--help").ok().out, "help " + command)
    harness.refused(2, "help", "nix", about=["no command 'nix'"])


@each(output=["out.json", "out.xyz", "out", ".data"])
@one_python
def test_an_output_without_a_format_is_refused(py, output):
    home = harness.folder()
    run = harness.pysampled("-p", spinning(py).pid, "-d", 1, "-o", output, home=home)
    equal(run.rc, 2, "exit status of %s" % run)
    check("--format" in run.err, "no way out is named: %s", run)
    equal(os.listdir(home), [], "files")


@each(option=["--threads", "--provenance=exact", "--folded-lines=no", "--weight=period", "--full-paths"])
@one_python
def test_an_option_that_no_output_honours_is_refused(py, option):
    pid = spinning(py).pid
    harness.refused(2, "-p", pid, "-d", 1, option, about=[option.split("=")[0], "folded"])
    harness.pysampled("-p", pid, "-d", 0.2, option, "-o", "a.data", "-o", "a.folded", home=harness.folder()).ok()


@one_python
def test_what_packs_nothing_is_refused(py):
    pid = spinning(py).pid
    harness.refused(2, "-p", pid, "-d", 1, "-z", "-o", "a.folded", about=["-z", "perf.data"])
    for level in ("-z0", "-z23", "--compress=x"):
        harness.refused(2, "-p", pid, "-d", 1, level, about=["from 1 to 22"])


def kept(*names):
    """A folder with files that hold their own names."""
    home = harness.folder()
    for name in names:
        with open(os.path.join(home, name), "w") as file:
            file.write(name)
    return home


def are_kept(home, names):
    """Those are all that is there, and the recordings among them hold what they did."""
    equal(sorted(os.listdir(home)), names, "files")
    recordings = [name for name in names if ".data" in name]
    equal(len(recordings), 2, "recordings")
    for name in recordings:
        with open(os.path.join(home, name)) as file:
            equal(file.read(), name, name)


def without_its_linker():
    """A program for this machine whose dynamic linker is not there."""
    with open("/bin/true", "rb") as file:
        program = file.read()
    if program.count(b"/ld-") != 1:
        raise harness.Skip("/bin/true names no dynamic linker")
    return program.replace(b"/ld-", b"/xx-")


@each(command=["pyhton3", "/nonexistent", "/etc/passwd", "script", "windows", "linker"])
def test_a_command_that_cant_run_touches_no_file(command):
    home = kept("perf.data", "perf.data.old")
    programs = {"script": (lambda: b"#!/nonexistent/interpreter\n", "'/nonexistent/interpreter'"),
                "windows": (lambda: b"#!/bin/sh\r\n", "\\r"), "linker": (without_its_linker, "/xx-")}
    about = ""
    if command in programs:
        program, about = programs[command]
        command = os.path.join(home, command)
        with open(command, "wb") as file:
            file.write(program())
        os.chmod(command, 0o755)
    before = sorted(os.listdir(home))
    run = harness.pysampled("--", command, home=home)
    equal(run.rc, 126 if command == "/etc/passwd" else 127, "exit status of %s" % run)
    check(about in run.err and "samples=" not in run.err, "the reason: %s", run)
    are_kept(home, before)


@one_python
def test_an_output_that_cant_be_opened_touches_no_other(py):
    home, pid = kept("a.data", "a.data.old"), spinning(py).pid
    os.mkdir(os.path.join(home, "b.folded"))
    before = sorted(os.listdir(home))
    for wrong in ("/nonexistent/b.folded", "b.folded"):
        for target in (("-p", pid), ("--", "true")):
            run = harness.pysampled("-d", 0.2, "-q", "-o", "a.data", "-o", wrong, *target, home=home)
            equal(run.rc, 1 if target[0] == "-p" else 125, "exit status of %s" % run)
            check(wrong in run.err, "%s", run)
    are_kept(home, before)


@one_python
def test_what_would_be_ignored_is_refused(py):
    """Options that an output, or another option, leaves without a meaning."""
    target = ("-p", spinning(py).pid, "-d", 0.2)
    harness.refused(2, *target, "-o", "a.svg", "--threads", about=["--threads", ".html"])
    harness.refused(2, *target, "-e", "cpu-clock:k", "--no-kernel", about=["cpu-clock:k", "--no-kernel"])
    harness.refused(2, *target, "-t", target[1], "--follow", about=["-t", "--follow"])
    harness.refused(2, *target, "--no-native", "--unwinder", "own", about=["--unwinder", "--no-native"])
    harness.refused(2, *target, "--stack-size", 32768, "--no-native", about=["--stack-size", "--no-native"])
    for option, value in (("-n", 2), ("--sort", "self"), ("--children", None)):
        words = [option] + [value] * (value is not None)
        harness.refused(2, "report", "a.data", "--annotate", "add", *words, about=["--annotate", option])
    for option in ("--match", "-u", "-G"):
        harness.refused(2, option, "", "-d", 0.2, about=[option, "empty"])


@one_python
def test_one_event_by_two_names_is_sampled_once(py):
    """Without a PMU cycles are the clock."""
    if harness.has_pmu():
        raise harness.Skip("cycles are no clock here: there is a PMU")
    home = harness.folder()
    run = harness.pysampled("-p", spinning(py).pid, "-e", "cpu-clock,cycles,page-faults", "-d", 0.5, "-o", "a.data",
                            "-o", "a.folded", home=home).ok()
    check("event=cpu-clock,page-faults " in run.err, "%s", run)
    rows = json.loads(harness.pysampled("report", "a.data", "-e", "cpu-clock", "--json", home=home).ok().out)["rows"]
    equal(sum(row["self"] for row in rows), run.n("samples"), "samples of the clock")
    run = harness.pysampled("-p", spinning(py).pid, "-e", "cycles,cpu-clock,{task-clock,page-faults}", "-d", 0.5, home=home).ok()
    check("event=cpu-clock,task-clock,page-faults " in run.err, "a group behind a double: %s", run)


@one_python
def test_diff_tells_which_events_it_compares(py):
    home, pid = harness.folder(), spinning(py).pid
    for event in ("cpu-clock", "task-clock"):
        harness.pysampled("-p", pid, "-e", event, "-F", 999, "-d", 1, "-o", event + ".data", "-q", home=home).ok()
    heads = harness.pysampled("diff", "cpu-clock.data", "task-clock.data", home=home).ok().out.splitlines()[:2]
    check(all("samples of %s, %s.data" % (event, event) in head for event, head in zip(("cpu-clock", "task-clock"), heads)),
          "%s", heads)
    harness.pysampled("convert", "cpu-clock.data", "-o", "a.folded", home=home).ok()
    harness.refused(2, "diff", "cpu-clock.data", "a.folded", "-o", "a.html", home=home, about=["folded", "convert"])
    check(not os.path.exists(os.path.join(home, "a.html")), "a page was written")
    head = harness.pysampled("diff", "cpu-clock.data", "cpu-clock.data", home=home).ok().out.splitlines()[0]
    check(head.endswith("samples of cpu-clock.data"), "%s", head)


@one_python
def test_the_first_run_answers(py):
    """Who is sampled, which functions are hottest, which files there are."""
    target = Target(py, "groundtruth.py", "--us", 50, "--threads", 2)
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "-F", 999, "-d", 2, "-o", "a.data", "-o", "a.folded", home=home).ok()
    check("attached to %d: sampling " % target.pid in run.err and "of 1 process at 999 Hz" in run.err, "%s", run)
    for name in ("a.data", "a.data.pyframes/pyframes.so", "a.folded"):
        size = "%s (%.1f KB)" % (name, os.path.getsize(os.path.join(home, name)) / 1e3)
        check(size in run.err, "want '%s': %s", size, run)
    rows = [line.split(None, 2) for line in run.err.splitlines() if line[:6].strip().endswith("%")]
    own, total, samples = {}, {}, 0
    for frames, count in harness.read_folded(os.path.join(home, "a.folded")):
        names = [q for q, _, _ in harness.python_frames(frames)]
        samples += count
        if names:
            own[names[-1]] = own.get(names[-1], 0) + count
        for name in set(names):
            total[name] = total.get(name, 0) + count
    check(rows and len(rows) <= 10, "%d rows: %s", len(rows), run)
    for self_share, total_share, what in rows:
        name = what.split(" (")[0]
        equal(self_share, "%.1f%%" % (100 * own.get(name, 0) / samples), "self of %s in %s" % (name, run))
        equal(total_share, "%.1f%%" % (100 * total[name] / samples), "total of %s in %s" % (name, run))
    equal(rows[0][2].split(" (")[0] in own, True, "the first row is a leaf: %s" % run)
    report = json.loads(harness.pysampled("report", "--python", "--json", "a.data", home=home).ok().out)["rows"]
    shares = ["%.1f%% %.1f%% %s (%s:%s)" % (100 * row["self"] / samples, 100 * row["total"] / samples, row["name"], row["file"], row["line"]) for row in report]
    for row in rows:
        check(" ".join(row) in shares, "%s is not in report --python: %s", row, shares)
    equal([row["self"] for row in report], sorted((row["self"] for row in report), reverse=True), "order")


def on_a_terminal(*args):
    """A recording whose standard error is one, and the other side of that."""
    home = harness.folder()
    screen, ours = os.openpty()
    harness.cleanup(os.close, screen)
    process = harness.start([harness.PYSAMPLED, *map(str, args)], cwd=home, stderr=ours, env=harness.plain_env(HOME=home))
    os.close(ours)
    return process, screen


def seen_on(screen):
    """What comes next on it; "": nobody writes to it any more."""
    try:
        return os.read(screen, 65536).decode()
    except OSError:
        return ""


@each(more=[("-e", "major-faults,cpu-clock"), ("-e", "cpu-clock", "--provenance", "late")])
@one_python
def test_a_terminal_is_told_of_all_samples(py, more):
    """While the recording runs: where there are none that are kept of the first event, who looks would break it off."""
    some, told, seen = 100, 0, ""
    process, screen = on_a_terminal("-p", spinning(py).pid, "-F", 199, "-o", "a.folded", *more)
    begin = time.monotonic()
    while told <= some:
        part = seen_on(screen)
        seen += part
        told = max(map(int, re.findall(r"(\d+) samples in \d+ s", seen)), default=0)
        check(part and time.monotonic() < begin + 60, "it does not tell of %d samples: %s", some, seen[-300:])
    process.send_signal(signal.SIGINT)
    while part := seen_on(screen):
        seen += part
    equal(process.wait(), 0, "exit status: %s" % seen)
    harness.enough("late" not in more or int(harness.parse_summary(seen)["late"]) < some, "most are late: %s", seen)


FAULTS = """import mmap, time
def touch(pages):
    room = mmap.mmap(-1, 4096 * pages)
    for page in range(pages): room[4096 * page] = 1
def few():
    for _ in range(40): touch(1); time.sleep(0.005)
def many():
    room = mmap.mmap(-1, 4096 * 30000)
    for page in range(30000): room[4096 * page] = 1
few(); many()
"""


@one_python
def test_the_hottest_are_weighed_as_in_a_report(py):
    """The kernel adapts the period: a sample of few() is one fault, of many() hundreds."""
    home = harness.folder()
    run = harness.pysampled("-e", "page-faults", "-F", 999, "-o", "a.data", "--", py.path, "-c", FAULTS, home=home).ok()
    rows = json.loads(harness.pysampled("report", "--python", "--json", "a.data", home=home).ok().out)["rows"]
    share = {row["name"]: 100 * row["total"] / run.n("samples") for row in rows}
    shown = {name: float(total) for total, name in re.findall(r"^ *[\d.]+% +([\d.]+)%  (\w+) \(", run.err, re.M)}
    harness.enough("many" in share, "no sample is of many(): %s", run)  # of five in all none need be, as the kernel adapts
    check("many" in shown and abs(shown["many"] - share["many"]) <= 100 / run.n("samples") + 0.1, "%s in report, %s", share, run)


@one_python
def test_the_hottest_are_of_the_samples_that_are_kept(py):
    target = Target(py, "groundtruth.py")
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "-F", 999, "-d", 1, "--capture", "async", "--provenance", "exact", "-o", "a.folded", home=home).ok()
    harness.enough(run.n("late") > 0, "no sample is late: %s", run)
    told = re.search(r"self +total +of (\d+) samples", run.err)
    equal(int(told[1]) if told else 0, harness.total(harness.read_folded(os.path.join(home, "a.folded"))), "samples of the table: %s" % run)


@one_python
def test_report_of_python_has_what_c_code_takes(py):
    """sum()'s C code is self of the line that calls it, in all that report adds up."""
    source = "things = list(range(5000))\ndef add():\n  return sum(things)\nprint('READY', flush=True)\nwhile True: add()\n"
    home = harness.folder()
    path = os.path.join(home, "a.py")
    with open(path, "w") as file:
        file.write(source)
    target = harness.start(py.command() + [path], stdout=harness.subprocess.PIPE)
    target.stdout.readline()
    run = harness.pysampled("-p", target.pid, "-F", 499, "-d", 1, "-o", "a.data", "-o", "a.folded", "--full-paths", "-o", "a.tape", home=home).ok()
    reports = []
    for name in "a.data", "a.folded", "a.tape":
        for by in "function", "line", "file":
            rows = json.loads(harness.pysampled("report", name, "--python", "--by", by, "--json", home=home).ok().out)["rows"]
            equal({row["kind"] for row in rows}, {"python"}, "kinds")
            check(sum(row["self"] for row in rows) >= 0.98 * run.n("samples"), "self that is nobody's: %s of %s", rows, run)
            reports.append([(row["name"], row["file"], row["self"], row["total"]) for row in rows])
    equal(reports[:3], reports[3:6], "of perf.data and of folded stacks")
    equal(reports[:3], reports[6:], "of perf.data and of a tape")
    texts = [harness.pysampled("report", "a.data", "--annotate", "add", *more, home=home).ok().out for more in ((), ("--python",))]
    shares = [[line.split()[:2] for line in text.splitlines() if "sum(" in line][0] for text in texts]
    equal(shares[0][1], shares[1][1], "total of the line")
    check(float(shares[0][0].rstrip("%")) < 50 < float(shares[1][0].rstrip("%")), "self of the line: %s", texts)
    for wrong in ("--by", "thread"), ("--by", "event"):
        harness.refused(2, "report", "a.data", "--python", *wrong, about=["--python goes with"])


@one_python
def test_a_last_comma_ends_a_list(py):
    pid = spinning(py).pid
    harness.pysampled("-p", "%d," % pid, "-d", 0.2, "-q", home=harness.folder()).ok()
    for wrong in ",", "%d,," % pid, ",%d" % pid:
        harness.refused(2, "-p", wrong, "-d", 0.2, about=["not a list"])


@one_python
def test_a_format_without_a_name_does_not_take_perf_datas(py):
    home, pid = harness.folder(), spinning(py).pid
    harness.pysampled("-p", pid, "-d", 0.3, "-q", home=home).ok()
    for kind, name in (("folded", "perf.folded"), ("flamegraph", "perf.html"), ("pprof", "perf.pb.gz")):
        run = harness.pysampled("-p", pid, "-d", 0.3, "--format", kind, home=home).ok()
        check("wrote %s (" % name in run.err and os.path.exists(os.path.join(home, name)), "%s", run)
    for name, begin in (("a.page", "<!doctype html"), ("a.svg", "<svg"), ("-", "<!doctype html")):
        whole = harness.pysampled("-p", pid, "-d", 0.3, "--format", "flamegraph", "-o", name, home=home).ok().out
        if name != "-":
            with open(os.path.join(home, name)) as file:
                whole = file.read()
        check(whole.startswith(begin), "%s begins with %r", name, whole[:40])
    check(not os.path.exists(os.path.join(home, "perf.data.old")), "perf.data was rotated")
    harness.pysampled("report", home=home).ok()


@one_python
def test_a_long_name_leaves_room_for_the_others(py):
    source = r"""
name = "n" + "\xe4" * 1000 + "end"
exec("def %s():\n  n = 0\n  for i in range(20000): n += i\n" % name)
print("READY", flush=True)
while True: globals()[name]()
"""
    target = harness.start(py.command() + ["-c", source], stdout=harness.subprocess.PIPE)
    target.stdout.readline()
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "-F", 199, "-d", 1, home=home).ok()
    report = harness.pysampled("report", home=home).ok().out
    for text in run.err, report, harness.pysampled("diff", "perf.data", "perf.data", "-n", 0, home=home).ok().out:
        rows = [line for line in text.splitlines() if "n\xe4\xe4" in line]
        check(len(rows) == 1 and "\u2026" in rows[0] and "\xe4end (<string>" in rows[0] and len(rows[0]) < 300, "%s", rows)
    check("\xe4" * 1000 in harness.pysampled("report", "--json", home=home).ok().out, "no whole name in JSON")


@one_python
def test_quiet_says_the_summary_alone(py):
    run = harness.pysampled("-p", spinning(py).pid, "-d", 0.5, "-g", "-q", home=harness.folder()).ok()
    equal(run.err.count("\n"), 1, "lines of %s" % run)


@one_python
def test_why_there_are_no_samples(py):
    target = harness.start(py.command() + ["-c", "import time; print('READY', flush=True); time.sleep(600)"],
                           stdout=harness.subprocess.PIPE)
    target.stdout.readline()
    run = harness.pysampled("-p", target.pid, "-d", 0.5, "-e", "cpu-clock:u", "--capture", "async",
                            home=harness.folder()).ok()
    equal(run.n("samples"), 0, "samples of %s" % run)
    check("pysampled dump -p %d" % target.pid in run.err and "--mode wall" in run.err, "%s", run)
    check("another machine" not in run.err, "what has no sample is moved: %s", run)
    run = harness.pysampled("-o", "b.data", "-e", "cpu-clock:u", "--capture", "async", "-c", 10 ** 9, "--", "sh", "-c", "exit 3",
                            home=harness.folder()).ok(3)
    check("no samples: 'sh' did too little for one" in run.err, "%s", run)
    run = harness.pysampled("-p", target.pid, "-d", 0.5, "-e", "major-faults", home=harness.folder()).ok()
    check("had no major-faults, or too few" in run.err and "dump" not in run.err, "who may work without them is said to wait: %s", run)
    target.send_signal(signal.SIGSTOP)
    run = harness.pysampled("-p", target.pid, "-d", 0.5, "-e", "cpu-clock:u", "--capture", "async",
                            home=harness.folder()).ok()
    check("is stopped; kill -CONT %d" % target.pid in run.err, "%s", run)


@each(reaped=[True, False])
@one_python
def test_who_ended_is_said_to_have_no_samples(py, reaped):
    """Also one that its parent does not wait for: there is no stack of it any more."""
    target = harness.start(py.command() + ["-c", "import sys; print('READY', flush=True); sys.stdin.read()"],
                           stdin=harness.subprocess.PIPE, stdout=harness.subprocess.PIPE)
    target.stdout.readline()
    record = harness.Recorder("-p", target.pid, "-e", "cpu-clock", "-c", 10 ** 9, "-o", "a.folded", home=harness.folder()).attached()
    target.stdin.close()
    if reaped:
        target.wait()
    run = record.wait(20).ok()
    equal(run.n("samples"), 0, "samples of %s" % run)
    check("no samples: process %d ended before it did enough for one" % target.pid in run.err and "dump" not in run.err, "%s", run)


WITHOUT_GIL = "import hashlib; print('READY', flush=True); hashlib.pbkdf2_hmac('sha512', b'a', b'b', 2 ** 31 - 1)"


@one_python
def test_who_works_without_the_gil_is_not_said_to_wait(py):
    target = harness.start(py.command() + ["-c", WITHOUT_GIL], stdout=harness.subprocess.PIPE)
    check(target.stdout.readline(), "no OpenSSL in %s?", py)
    run = harness.pysampled("-p", target.pid, "--mode", "gil", "-d", 1, "-v", "-o", "a.folded", home=harness.folder()).ok()
    left = run.counter("gil_none") + run.counter("gil_unknown")
    equal(run.n("samples"), 0, "samples of %s" % run)
    harness.enough(left > 0, "none was left out: %s", run)
    check("no samples: no thread was seen with the GIL; left out by --mode gil: %d\n" % left in run.err and "too little" not in run.err,
          "%s", run)


ONE_SLEEPS = """
import threading, time
sleeper = threading.Thread(target=time.sleep, args=(600,), daemon=True)
sleeper.start()
print(sleeper.native_id, flush=True)
while True: sum(range(500))
"""


@one_python
def test_of_threads_that_are_named_those_did_too_little(py):
    """And not their process."""
    target = harness.start(py.command() + ["-c", ONE_SLEEPS], stdout=harness.subprocess.PIPE)
    tid = int(target.stdout.readline())
    begin = ("-p", target.pid, "-t", tid, "-d", 0.5, "-o", "a.folded")
    run = harness.pysampled(*begin, "-e", "cpu-clock", home=harness.folder()).ok()
    equal(run.n("samples"), 0, "samples of %s" % run)
    check("no samples: the thread that -t names did too little for one; pysampled dump -p %d shows where it waits" % target.pid in run.err,
          "%s", run)
    run = harness.pysampled(*begin, "-e", "major-faults", home=harness.folder()).ok()
    check("no samples: the thread that -t names had no major-faults" in run.err, "%s", run)


@one_python
def test_an_event_named_twice_is_one(py):
    run = harness.pysampled("-p", spinning(py).pid, "-d", 0.5, "-e", "cpu-clock,cpu-clock", "-e", "cpu-clock",
                            home=harness.folder()).ok()
    equal(run.summary["event"], "cpu-clock", "events of %s" % run)
