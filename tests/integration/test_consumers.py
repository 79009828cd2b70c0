"""perf reads what we write, and all outputs agree."""
import json
import os
import platform
import re

import harness
from harness import Target, check, each, each_python, enough, equal, not_quick, one_python

BESIDE = True


def record(py, home, *args):
    """(run, home, target) of a recording into home/a.data and home/a.folded."""
    target = Target(py, "groundtruth.py", "--us", 50)
    run = harness.pysampled("-p", target.pid, *args, "-o", "a.data", "-o", "a.folded", home=home).ok()
    return run, home, target


def recorded(py):
    """One as most tests want it."""
    made = record(py, harness.folder(0o777), "-e", "cycles", "-F", 999, "-d", 2)
    enough(made[0].n("samples") >= 200, "too few samples for any test: %s", made[0])
    return made


def data(home):
    return os.path.join(home, "a.data")


@each_python
def test_perf_report_lists_python_functions_without_a_warning(py):
    run, home, target = recorded(py)
    out, err = harness.perf("report", "--stdio", "-i", data(home), home=home)
    equal(err.strip(), "", "what perf report warns")
    for name in ("g_00", "f_00", "cycle"):
        check("py::%s:%s" % (name, target.info["file"]) in out, "no py::%s in perf report: %s", name, out[:3000])
    check("py::forever:" + os.path.join(harness.TARGETS, "target.py") in out, "no py::forever: %s", out[:3000])


@one_python
def test_perf_report_tells_late_from_exact(py):
    target = Target(py, "groundtruth.py", "--us", 50)
    home = harness.folder(0o777)
    run = harness.pysampled("-p", target.pid, "-F", 999, "-d", 2, "--capture", "async", "-o", "a.data", home=home).ok()
    out, _ = harness.perf("report", "--stdio", "-i", data(home), "--no-children", "-g", "none", "-n", "-s", "parent",
                          "-p", r"^\[(late|torn)\]$", home=home)
    counts = {name: int(n) for n, name in re.findall(r"^ +[\d.]+% +(\d+) +\[(\w+)\]", out, re.M)}
    equal(sum(counts.values()), run.n("samples"), "samples in perf report")
    for name in ("late", "torn"):
        equal(counts.get(name, 0), run.n(name), name)


@harness.some_python(2)
def test_perf_script_shows_file_and_line(py):
    run, home, target = recorded(py)
    out, _ = harness.perf("script", "-i", data(home), "-F", "+srcline", home=home)
    check("spin_" in out, "no native leaf in perf script: %s", out[:3000])
    samples = out.split("\n\n")
    sure = "\n\n".join(sample for sample in samples if "[late]" not in sample and "[torn]" not in sample)
    for spin, stack in target.info["truth"].items():
        if spin in sure:
            line = "%s:%d" % (os.path.basename(target.info["file"]), stack[0][1])
            check(re.search(re.escape(line) + r"\b", sure), "no %s in perf script: %s", line, sure[:3000])
    if harness.can_fifo():
        enough("spin_" in sure, "no sample that is neither late nor torn: %s", run)


@one_python
def test_perf_report_knows_the_lines_of_callers(py):
    """It asks for them by addresses of the file where stacks have lines, too: docs/PERF_DATA.md."""
    run, home, target = recorded(py)
    out, _ = harness.perf("report", "--stdio", "-i", data(home), "--sort", "sym,srcline", "-g", "graph,0.5,caller,srcline", home=home)
    rows = re.findall(r"^ +[\d.]+% +[\d.]+% +\[\.\] py::forever:\S+ +(\S+)", out, re.M)
    check(rows and all(re.fullmatch(r"target\.py:\d+", row) for row in rows), "lines of forever: %s in %s", rows, out[:3000])


@harness.some_python(0)
@harness.seconds(120)
def test_the_right_line_stands_behind_each_spin_in_perf_script(py):
    """What folded must show, perf must show too: the Python frame next to spin_NN, and its line."""
    run, home, target = recorded(py)
    out, _ = harness.perf("script", "-i", data(home), "-F", "ip,sym,srcline", "--max-stack", "200", home=home)
    if not harness.can_fifo():
        raise harness.Skip("SCHED_FIFO is not granted, so stacks may be late")
    judged = 0
    for sample in out.split("\n\n"):
        leaf = re.search(r"\b(spin_\d\d)\b", sample)
        if not leaf or "[late]" in sample or "[torn]" in sample:
            continue
        function, line = target.info["truth"][leaf[1]][0]
        after = sample[leaf.end():]
        first = re.search(r"py::(\S+?):(\S+)\s+(\S+?):(\d+)", after)
        check(first, "no Python frame behind %s: %s", leaf[1], sample)
        equal((first[1], int(first[4])), (function, line), "frame behind " + leaf[1])
        judged += 1
    enough(judged >= 50, "only %d judged", judged)


@each_python
def test_counts_of_perf_folded_and_summary_agree(py):
    run, home, target = recorded(py)
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    harness.same_counts(run, stacks)
    equal(harness.perf_samples(data(home), home), run.n("samples"), "samples in perf script")
    for marker in ("late", "torn"):
        equal(harness.total(harness.marked(stacks, marker)), run.n(marker), "stacks marked " + marker)


@one_python
def test_perf_report_counts_as_many_samples(py):
    run, home, target = recorded(py)
    out, _ = harness.perf("report", "--stdio", "-n", "--no-children", "-s", "pid", "-g", "none", "-i", data(home),
                          home=home)
    counts = [int(line.split()[1]) for line in out.splitlines() if re.match(r" +\d+\.\d+% +\d+ ", line)]
    equal(sum(counts), run.n("samples"), "samples in perf report")


def perf_lost(run):
    """What perf report warns of: the share of lost samples, from 5 % on."""
    lost = 100 * run.n("lost") / (run.n("samples") + run.n("lost"))
    return ["%.2f" % lost] if lost > 5 else []


@one_python
def test_several_events_each_have_their_report(py):
    events = ["cpu-clock", "page-faults", "context-switches"]
    run, home, target = record(py, harness.folder(0o777), "-e", ",".join(events), "-c", 1000, "-d", 2)
    listed, _ = harness.perf("evlist", "-i", data(home), home=home)
    equal(sorted(line.split(":")[0] for line in listed.split()), sorted(events), "perf evlist")
    out, err = harness.perf("report", "--stdio", "-i", data(home), home=home)
    equal(re.findall(r"lost ([\d.]+)%", err), perf_lost(run), "the loss that perf report warns of")
    check("of event 'cpu-clock" in out, "perf report names no event: %s", out[:2000])
    equal(harness.perf_samples(data(home), home), run.n("samples"), "samples in perf script")
    harness.same_counts(run, harness.read_folded(os.path.join(home, "a.folded")))


@one_python
def test_perf_report_header_is_whole(py):
    run, home, target = recorded(py)
    out, err = harness.perf("report", "--header-only", "-i", data(home), home=home)
    equal(err.strip(), "", "what perf report warns")
    for word in ("hostname", "os release", "arch", "nrcpus online", "cmdline", "event"):
        check("# %s" % word in out, "no %s in the header: %s", word, out)
    check(re.search("# arch : %s$" % platform.machine(), out, re.M), "the machine: %s", out)


def names_in_perf(place, home):
    """(samples, names of Python functions) that perf script shows."""
    out, _ = harness.perf("script", "-i", data(place), "-F", "time,ip,sym", home=home)
    return len(re.findall(r"^ *[\d.]+:", out, re.M)), sorted(set(re.findall(r"py::\S+", out)))


@one_python
def test_perf_of_another_machine_opens_it(py):
    """tests/envs runs it in a guest, which leaves a recording, and then where that is read."""
    place = os.environ.get("PYSAMPLED_EXCHANGE")
    if not place:
        raise harness.Skip("no recording of another machine: tools/test --pmu makes one")
    facts = os.path.join(place, "facts")
    if not os.path.exists(facts):
        os.makedirs(place)
        run, _, _ = record(py, place, "-e", "cycles", "-F", 499, "-d", 2)
        samples, names = names_in_perf(place, place)
        equal(samples, run.n("samples"), "samples in perf script")
        harness.write(facts, json.dumps([platform.machine(), samples, names]))
        return "left %d samples of %d functions" % (samples, len(names))
    with open(facts) as file:
        machine, samples, names = json.load(file)
    check(machine != platform.machine() and len(names) > 10, "nothing of another machine: %s", machine)
    equal(names_in_perf(place, harness.folder()), (samples, names), "samples and functions in perf script")
    out, _ = harness.perf("report", "--header-only", "-i", data(place), home=harness.folder())
    check(re.search("# arch : %s$" % machine, out, re.M), "the machine: %s", out)
    return "%d samples of %d functions, recorded on %s" % (samples, len(names), machine)


@one_python
def test_perf_dump_finds_no_bad_record(py):
    run, home, target = recorded(py)
    out, err = harness.perf("script", "-D", "-i", data(home), home=home)
    equal(err.strip(), "", "what perf warns")
    equal(len(re.findall(r"PERF_RECORD_SAMPLE\(", out)), run.n("samples"), "sample records")


@each(freq=[99, 4950])
@one_python
@not_quick
def test_the_event_is_named_as_it_was_opened(py, freq):
    """cycles where there is no PMU is cpu-clock, said in one line; with one it is cycles."""
    run, home, target = record(py, harness.folder(0o777), "-e", "cycles", "-F", freq, "-d", 1)
    listed, _ = harness.perf("evlist", "-i", data(home), home=home)
    name = "cycles" if harness.has_pmu() else "cpu-clock"
    equal(listed.strip().split(":")[0], name, "perf evlist")
    equal(run.summary["event"].split(":")[0], name, "event= in the summary")
    said = [line for line in run.err.splitlines() if "sampling cpu-clock" in line]
    equal(len(said), 0 if harness.has_pmu() else 1, "lines about the fallback")


@one_python
def test_folded_goes_to_stdout(py):
    target = Target(py, "groundtruth.py", "--us", 20)
    run = harness.pysampled("-p", target.pid, "-F", 499, "-d", 1, "-o", "-").ok()
    harness.same_counts(run, harness.parse_folded(run.out))


@one_python
def test_folded_without_lines_has_one_frame_a_function(py):
    target = Target(py, "groundtruth.py", "--us", 20)
    run = harness.pysampled("-p", target.pid, "-F", 499, "-d", 1, "-o", "-", "--folded-lines=no").ok()
    frame = re.compile(r"g_\d\d \(%s\)" % re.escape(os.path.basename(target.info["file"])))
    check(any(any(map(frame.fullmatch, frames)) for frames, _ in harness.parse_folded(run.out)), "no g_NN: %s", run.out[:2000])
    check(not re.search(r"\.py:\d+\)", run.out), "lines are still there: %s", run.out[:2000])


@one_python
def test_format_wins_over_the_extension(py):
    target = Target(py, "groundtruth.py", "--us", 20)
    out = os.path.join(harness.folder(0o777), "a.data")
    harness.pysampled("-p", target.pid, "-d", 1, "-o", out, "--format", "folded").ok()
    check(harness.total(harness.read_folded(out)) > 0, "no stacks")
