"""The tables of the documents: the command that stands above each would still write its columns and its rows."""
import contextlib
import importlib.machinery
import importlib.util
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
import types
from unittest import mock

import harness
from harness import check, each, equal
from test_oracle import oracle

for name in "bench", "envs":
    sys.path.insert(0, os.path.join(harness.ROOT, "tests", name))

import grammar  # noqa: E402
import many  # noqa: E402
import many_cpus  # noqa: E402
import profilers  # noqa: E402
import report  # noqa: E402
import runs  # noqa: E402
import scale  # noqa: E402
import tables as written  # noqa: E402

ENVS = os.path.join("tests", "envs")
CPUS = 2  # of the machine that wrote tools/bench --scale


def line(*cells):
    return "| " + " | ".join(cells) + " |"


def finds_its_pythons(module, given):
    """Without --matrix it looks for none of Debian sid, nor for pyenv's 3.11 where Debian's is."""
    wanting = [tag for tag in module.words(given.pythons) if tag in harness.MATRIX_PYTHONS or tag.startswith("3.11.")]
    check(given.matrix or not wanting, "its command finds no %s without --matrix", wanting)


def of_accuracy(options):
    """Columns, and how each row begins, by its own writers, of recordings without a sample."""
    module, judge = oracle(*options)
    given = judge.given
    finds_its_pythons(module, given)
    judge.captures = module.words(given.captures) or ["preempt", "stop", "async"]
    cases = [case for case in module.words(given.cases)]
    for capture, case in itertools.product(judge.captures, cases):
        judge.pools[capture] = judge.pools[capture, case] = tally = grammar.Tally()
        tally.paths = dict.fromkeys([(case, ())], 0)
        judge.shares[case] = {(case, ()): 1.0}
        for rate, threads in itertools.product(module.numbers(given.rates), module.numbers(given.threads)):
            judge.pools[capture, rate, threads] = grammar.Tally()
    lines = [text for text in "\n".join(judge.tables()).split("\n") if text.startswith("|")]
    heads = [lines[i - 1] for i, text in enumerate(lines) if text.startswith("| --- ")]
    return heads, ["|".join(text.split("|")[:2]) + "|" for text in lines if text not in heads and "---" not in text]


def of_lives(options):
    module, judge = oracle(*options)
    rates = module.numbers(judge.given.rates) if judge.given.rates != module.RATES else module.lives.RATES
    rows = ["| %s, %g ms | %d Hz |" % (kind, ms, rate) for (kind, ms), rate in itertools.product(module.lives.TURNS, rates)]
    return [line("turns", "rate", *module.lives.PROFILERS)], rows


def of_scale(options):
    rows = ["| %d | %d × %d, %d%s |" % (CPUS, processes, threads, busy, "" if more else " (default)")
            for processes, threads, busy, more in scale.sets(CPUS, False)]
    return [line(*scale.HEAD)], rows


def of_guests(options):
    cpus = options[options.index("--cpus") + 1].split(",")
    heads = [line(*scale.HEAD), "| | slopes | " + " | ".join("%d CPUs, %d busy" % size for size in scale.GUESSED) + " |"]
    return heads, ["| %s |" % n for n in cpus]


def of_truth(options):
    cpus = options[options.index("--cpus") + 1].split(",") if "--cpus" in options else many_cpus.MANY
    rows = ["| %s | %s | %d |" % cells for cells in itertools.product(cpus, many_cpus.CASES, many_cpus.RATES)]
    return [line(*many_cpus.HEAD), line(*many_cpus.ORACLE_HEAD)], rows


def tool(name, folder="tools"):
    """tools/NAME as a module."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(harness.ROOT, folder, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def bench(options):
    """Its module, and what it makes of its options."""
    module = tool("bench")
    return module, module.options(options)


def head_of(columns):
    return report.table(columns, []).split("\n")[0]


def of_bench(options):
    """The rows of pysampled and the peer that it is compared with, at each rate; the others need not be there."""
    module, given = bench(options)
    reference = module.PY_SPY_NATIVE if given.native else "austin"
    heads = [head_of(written.heading(written.COMPARED, reference))]
    rows = ["| pysampled |", "| %s " % reference, *(["| stop "] if not given.only else [])]
    if given.pairs:
        heads.append(head_of(written.TARGET))
        rows += ["| %s |" % what for _, what in written.TARGET_ROWS]
    return heads, rows


def of_idle(options):
    _, given = bench(options)
    return [head_of(written.heading(written.IDLE, given.idle))], ["| pysampled |", "| py-spy |"]


def of_resolver(options):
    return [head_of(written.RESOLVER)], ["| %s |" % name for name in written.resolve.PLAN]


def of_parts(options):
    module, _ = bench(options)
    return [head_of(written.PARTS)], ["| %s: %s |" % pair for pair in itertools.product(module.parts.OPTIONS, module.parts.NAMES)]


def of_many(options):
    module, _ = bench(options)
    head = [column.replace("%d", str(module.MANY_S)) for column in written.MANY]
    return [head_of(head)], ["| %d × %d, %d | pysampled |" % numbers for numbers in module.many.TARGETS]


def of_attach(options):
    module, _ = bench(options)
    return [head_of(written.ATTACH)], ["| %d, %d, %d | pysampled |" % numbers for numbers in module.attach.TARGETS]


def of_peers(options):
    """The judges of peers write what those of captures do; who is not there has no row."""
    module, judge = oracle(*options)
    finds_its_pythons(module, judge.given)
    return [head_of(module.report.HEAD)], ["| async, unchecked |"]


def of_coverage(options):
    """A row a room."""
    module = tool("coverage")
    return [line(*module.HEAD)], ["| %s |" % name for name in [*module.rooms(), "all"]]


TABLES = {"tools/coverage": ("COVERAGE.md", of_coverage), "tools/accuracy": ("ACCURACY.md", of_accuracy), "tools/accuracy --lives": ("ACCURACY.md", of_lives),
          "tools/accuracy --peers only": ("ACCURACY.md", of_peers),
          "tools/bench": ("PERFORMANCE.md", of_bench), "tools/bench --native": ("PERFORMANCE.md", of_bench),
          "tools/bench --idle": ("PERFORMANCE.md", of_idle), "tools/bench --parts": ("PERFORMANCE.md", of_parts),
          "tools/bench --many": ("PERFORMANCE.md", of_many), "tools/bench --attach": ("PERFORMANCE.md", of_attach),
          "tools/bench --resolver": ("PERFORMANCE.md", of_resolver), "tools/bench --scale": ("PERFORMANCE.md", of_scale),
          "tests/envs/run.py --scale": ("PERFORMANCE.md", of_guests),
          "tests/envs/run.py --truth": ("ACCURACY.md", of_truth)}
EXPLAINING = {"| test | what |", "| program | what is hard about it |", "| | |",  # tables without figures, and one whose command stands above it
              "| part | what | when it is used up |"}


def blocks(name):
    with open(os.path.join(harness.ROOT, "docs", name)) as file:
        return dict(re.findall(r"<!-- (.+) begins -->\n(.*?)<!-- \1 ends -->\n", file.read(), re.DOTALL))


@each(part=list(TABLES))
def test_a_table_is_one_that_its_command_writes(part):
    document, heads_and_rows = TABLES[part]
    text = blocks(document)[part]
    command = re.search(r"```\n(.+)\n```", text)[1]
    check(command.startswith(part), "another command stands there: %s", command)
    check(re.match(r"\d{4}-\d\d-\d\d, ", text), "no date: %s", text[:80])
    heads, rows = heads_and_rows(shlex.split(command)[1:])
    tables = [found for found in text.split("\n") if found.startswith("|") and "---" not in found]
    for head in heads:
        check(head in tables, "its command writes other columns: %s", head)
    for row in rows:
        check(any(found.startswith(row) for found in tables), "its command writes a row that is not there: %s", row)


def test_what_guests_told_is_taken_again_for_the_same_binary_only():
    envs, place, told = tool("run.py", ENVS), harness.folder(), iter(([], [1], [2], [3]))
    guest = types.SimpleNamespace(path=lambda name: os.path.join(place, name))
    given = types.SimpleNamespace(pysampled=os.path.join(place, "binary"), resume=True)

    def found(binary):
        with open(given.pysampled, "w") as file:
            file.write(binary)
        return envs.kept(given, guest, "scale-2", lambda: next(told))
    equal([found(binary) for binary in ("old", "old", "old", "new", "new")], [[], [1], [1], [2], [2]], "what is told")
    given.resume = False
    equal(found("new"), [3], "what is told that was not to be taken again")


@each(said=["", "ok", "ok FAIL"])
@each(status=[0, 1, 137, None])
def test_a_guest_that_breaks_is_a_failure(said, status):
    """Once; not where a failure explains its status."""
    def run(script, line):
        for word in said.split():
            line(word + " it\n")
        return status

    totals = tool("run.py", ENVS).Totals()
    with contextlib.redirect_stdout(io.StringIO()):
        totals.boot(types.SimpleNamespace(run=run), "", "arm64")
    equal(totals.count["FAIL"], int(status is None) + ("FAIL" in said or bool(status)), "failures")


@each(statuses=[(0, 0), (3, 0), (0, 3)])
def test_the_script_of_a_guest_ends_as_each_of_its_programs(statuses):
    envs, where = tool("run.py", ENVS), harness.folder()
    envs.SETTINGS = ": %s %s %s\n"
    prepared = envs.Prepared.__new__(envs.Prepared)
    prepared.build, prepared.exchange, prepared.python, prepared.runner = "build", "exchange", "python", "sh " + where + "/runner"
    harness.write(os.path.join(where, "runner"), "case $1 in tests/integration/run.py) exit %d;; *) exit %d;; esac\n" % statuses)
    script = prepared.script(False, ["first.", envs.PROGRAMS[1] + " --quick"])
    equal(subprocess.run(["sh", "-c", script]).returncode, max(statuses), "status of %s" % script)


def test_a_venv_without_its_programs_is_filled_again():
    """Once a run, also if that fails."""
    where, tries = harness.folder(), []
    os.mkdir(os.path.join(where, "venv"))

    def said(program):
        try:
            return profilers.in_venv(where, program)
        except profilers.Absent as reason:
            return str(reason)

    def without_network(argv, timeout):
        tries.append(os.path.basename(argv[0]))
        return 1, "x\nno network"

    with contextlib.redirect_stderr(io.StringIO()), mock.patch.dict(os.environ, PATH=where), \
            mock.patch.object(profilers, "output_of", without_network):
        os.environ.pop("PYSAMPLED_BENCH_VENV", None)
        equal({said("py-spy"), said("austin")}, {"pip could not install it: no network"}, "why they are absent")
    equal(tries.count("pip"), 1, "tries")


def test_why_a_peer_has_no_window_is_said():
    def fails(*_):
        raise runs.Failure("it ended")

    said, target = [], lambda *_: contextlib.nullcontext(1)
    with mock.patch.object(many, "window", fails), mock.patch.object(many.scale, "target", target):
        seen = many.measure([types.SimpleNamespace(name="austin")], "python", 99, 1, 1, "", said.append)
    equal((seen[many.TARGETS[0]], len(said)), ({"austin": []}, len(many.TARGETS)), "windows, and what is said")
    check(all("austin" in line and "it ended" in line for line in said), "what is said: %s", said)


def test_a_recording_in_which_nothing_was_counted_yet_does_not_bend_the_slopes():
    rows = [scale.Row(cpus=cpus, processes=cpus, threads=1, reads=40 + 2 * cpus) for cpus in (2, 4, 8, 16, 32)]
    rows.append(scale.Row(rows[-1], reads=0))
    factors = scale.fit(rows, scale.STARTS[:2], lambda row: row["reads"])
    check(20 <= factors[0] <= 60, "slopes of 40 + 2 a CPU: %s", factors)


def test_all_tables_between_markers_are_known():
    found = {part for name in os.listdir(os.path.join(harness.ROOT, "docs")) if name.endswith(".md") for part in blocks(name)}
    equal(found, set(TABLES), "tables")


def test_no_table_of_figures_is_without_its_command():
    """Numbers stand in tables that a command writes; other tables explain."""
    for name in "ACCURACY.md", "PERFORMANCE.md":
        with open(os.path.join(harness.ROOT, "docs", name)) as file:
            text = re.sub(r"<!-- (.+) begins -->\n.*?<!-- \1 ends -->\n", "", file.read(), flags=re.DOTALL)
        heads = set(re.findall(r"(?:^|\n)(\|.*\|)\n\|[-| ]+\|\n", text))
        check(heads <= EXPLAINING, "%s has other tables outside of marks: %s", name, heads - EXPLAINING)
