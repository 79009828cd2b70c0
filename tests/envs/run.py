#!/usr/bin/env python3
"""Tests of other machines and kernels, in guests: run.py [--counts FILE] [-k PATTERN]; or with --scale what a recording takes
on machines of more CPUs, with --truth how many of its stacks are right there: run.py --scale [--cpus 2,8,16] [--write FILE].

Builds, boots, and prints what the tests inside print. Writes "passed failed skipped" into FILE.
"""
import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
for number, name in enumerate(("integration", "bench", "accuracy"), 1):
    sys.path.insert(number, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name))
import harness  # noqa: E402
import many_cpus  # noqa: E402
import report  # noqa: E402
import scale  # noqa: E402
import tarball  # noqa: E402
from guest import ARM64, OLDER, RISCV64, ROOT, Guest, Missing  # noqa: E402

PYTHON = "3.13"
EXTENSIONS = ["gtspin", "interleave", "probed"]
NO_MATCH = 5  # tools/test knows this status
EXCHANGE = "consumers.perf_of_another_machine"
# An instruction takes so many virtual nanoseconds: 1, so that 100,000 cycles are 100,000 instructions, or 8, about what
# emulating one takes.
FINE, COARSE = {"shift": 0}, {"shift": 3}
# Debian's code signs return addresses where the processor can.
SIGNING = dict(COARSE, cpu="max,pauth-impdef=on")
RECORD = ["command.it_is_profiled_from", "consumers.counts_of", "contract.a_capture_works", "contract.doctor_speaks",
          "dump.dump_names", "events.a_uprobe", "events.groups", "event=syscalls:sys_enter",
          "events.what_an_older", "row=('nosuch:event'", "groundtruth.a_short_run", "groundtruth.page_faults_lie",
          "groundtruth.samples_beside", "stop.children_are_followed"]
BOOTS = [(ARM64, "PMU events", FINE, ["pmu."]),
         (ARM64, "events and captures", FINE,
          ["events.", "groundtruth.context_switches", "groundtruth.async_is_right", "stop.stop_is_always_right",
           "script=groundtruth", "script=mixed", "stop.other_signals", "stop.a_stopped_process"]),
         (ARM64, "aarch64", COARSE,
          ["groundtruth.a_short_run", "groundtruth.threads_are_kept", "groundtruth.page_faults_lie",
           "groundtruth.where_c_enters", "native.frames_stand", "native.plain", "native.stacks_deeper", "native.the_vdso", "native.perf_trampolines",
           "native.assembly_of_libcrypto", "command.", "doctor.", "user.", "dump.dump_equals", "dump.dump_names",
           "dump.dump_shows", "contract.a_capture", "harmless.sigkill", "under_strace", "consumers.perf_",
           "consumers.the_right_line", EXCHANGE]),
         (ARM64, "short lives", FINE, ["lives.shares_do_not_depend_on_how_long_threads_live[turn=('thread', 3", "lives.shares_do_not_depend_on_how_long_threads_live[turn=('fork', 8"]),
         (ARM64, "signed return addresses", SIGNING, ["native.frames_stand", "native.plain"]),
         (RISCV64, "PMU events of riscv64", FINE,
          ["pmu.cycles", "pmu.instructions", "pmu.a_counter", "consumers.counts_of", "consumers.perf_report_lists"]),
         # QEMU can't tell overflows of these counters while it counts instructions.
         (RISCV64, "TLB events", {"shift": None}, ["pmu.tlb"]),
         (RISCV64, "riscv64", COARSE,
          ["events.a_uprobe", "groundtruth.a_short_run", "groundtruth.page_faults_lie", "native.frames_stand", "native.plain",
           "native.stacks_deeper"])]
# Programs that are no integration tests; their lines count like those of tests. All CPUs of such a guest take turns and share
# one clock: with N busy ones everything takes N times as long by it, and 99 and 999 Hz of a real machine are a Nth of that there.
PROGRAMS = "tests/envs/many_cpus.py", "tools/accuracy"
BESIDE = 3  # busy loops beside the oracle's program: with one a CPU its recordings never come to their end
ORACLE = ("tools/accuracy --cases pairs,leaf --rates %d,%d --threads 8 --seconds 2 --captures preempt --peers no --at-least 100"
          " --exact 95 --busy %d" % (99 // (BESIDE + 1), 999 // (BESIDE + 1), BESIDE))
TURN_US = 30  # about as long as a reader works for a sample


def on_many(cpus, options=""):
    """A row of BOOTS."""
    return (OLDER[-1], "%d CPUs" % cpus, dict(FINE, cpus=cpus, turn_us=TURN_US, limit=3600),
            ["tests/envs/many_cpus.py" + options, ORACLE])


BOOTS += map(on_many, many_cpus.MANY)
BOOTS += [(machine, "record on " + machine.name, COARSE, RECORD) for machine in OLDER]


def cross_build(guest):
    """Path of the build folder; raises CalledProcessError."""
    where, file = guest.path("build"), guest.path("root.ini")
    with open(file, "w") as out:
        out.write("[constants]\nroot = '%s'\n" % guest.root)
    if not os.path.exists(os.path.join(where, "build.ninja")):
        cross = guest.machine.triplet.partition("-")[0] + ".ini"
        call("meson", "setup", where, ROOT, "--cross-file", os.path.join(ROOT, "cross", cross), "--cross-file", file,
             "-Dwerror=true")
    call("ninja", "-C", where)
    headers = os.path.join(guest.root, "usr", "include", "python" + PYTHON)
    with open(os.path.join(headers, "patchlevel.h")) as file:
        version = re.search(r'PY_VERSION\s+"(.+)"', file.read())[1]
    for name in EXTENSIONS:
        build_extension(guest, name, os.path.join(where, "targets", version), headers)
    return where


def build_extension(guest, name, out, headers):
    """As the harness does, which finds it then."""
    triplet = guest.machine.triplet
    libs, include = guest.root + "/usr/lib/" + triplet, guest.root + "/usr/include"
    os.makedirs(out, exist_ok=True)
    call(triplet + "-gcc", "--sysroot=" + guest.root, "-B" + libs, "-L" + libs, "-O2", "-g", "-fPIC", "-shared",
         "-fno-ipa-icf", "-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type", "-I", headers,
         "-isystem", os.path.join(include, triplet), "-isystem", include,
         os.path.join(ROOT, "tests", "targets", name + ".c"), "-o", os.path.join(out, name + ".abi3.so"))


def call(*command):
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)


class Totals:
    """Counts ok, FAIL and SKIP; prints."""

    def __init__(self):
        self.count = {"ok": 0, "FAIL": 0, "SKIP": 0}
        self.failures, self.again = [], []

    def say(self, word, text):
        self.line("%s %s\n" % (word, text))

    def line(self, text):
        """What a test says itself."""
        print(text, end="", flush=True)
        word = text.partition(" ")[0]
        if word in self.count:
            self.count[word] += 1
        if word == "FAIL":
            self.failures.append(text)
        if word == "again":
            self.again.append(text.partition(":")[0] + "\n")

    def boot(self, guest, script, name, **options):
        """Counts what the guest says; that it came to its end, too."""
        begin, failed = time.monotonic(), self.count["FAIL"]
        status = guest.run(script, self.line, **options)
        if status is None:
            self.say("FAIL", "%s: the guest never came to its end" % name)
        else:
            self.ended(name, status, failed)
        print("-- %s: %.0f s" % (name, time.monotonic() - begin), flush=True)

    def ended(self, name, status, failed):
        """A status that no failure explains is one; failed: how many there were before."""
        if status != 0 and self.count["FAIL"] == failed:
            self.say("FAIL", "%s: ended with status %d, though nothing failed" % (name, status))


UNIT_SCRIPT = """cd %s
for test in *_test; do
  ./$test > /tmp/log 2>&1
  case $? in
    0) echo "ok unit.$test" ;;
    77) echo "SKIP unit.$test: not for this machine" ;;
    *) echo "FAIL unit.$test: $(grep -E -A3 'FAILED|ERROR' /tmp/log | head -8 | tr '\\n' ' ')" ;;
  esac
done
cd %s
"""
SETTINGS = """echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent
echo 2 > /proc/sys/kernel/perf_event_paranoid
echo -1 > /proc/sys/kernel/sched_rt_runtime_us
export PYSAMPLED_BUILD=%s PYSAMPLED_EXCHANGE=%s PYSAMPLED_TEST_PYTHONS=%s PYTHONDONTWRITEBYTECODE=1
"""


class Prepared:
    """A guest, a build for it, and the Python to profile there; raises Missing or CalledProcessError."""

    def __init__(self, machine):
        self.guest = Guest(machine)
        self.guest.make()
        self.exchange = self.guest.path("exchange")
        shutil.rmtree(self.exchange, ignore_errors=True)
        if machine.triplet:
            self.build, self.python, self.runner = cross_build(self.guest), "/usr/bin/python" + PYTHON, "python3"
        else:
            self.build, self.runner = harness.BUILD, shlex.quote(sys.executable)
            self.python = harness.newest_python().path or sys.executable
            for name in EXTENSIONS:
                harness.extension(harness.Python(harness.tag_of(self.python), self.python), name)

    def script(self, unit, tests):
        """Its status is the last that is not 0."""
        text = UNIT_SCRIPT % (self.build, ROOT) if unit else ""
        text += SETTINGS % (self.build, self.exchange, shlex.quote(self.python))
        patterns = " ".join("-k " + shlex.quote(test) for test in tests if not test.startswith(PROGRAMS))
        commands = ["tests/integration/run.py " + patterns] if patterns else []
        commands += [test for test in tests if test.startswith(PROGRAMS)]
        text += "".join("%s %s || status=$?\n" % (self.runner, command) for command in commands)
        return text + "exit ${status:-0}\n"

    def read_here(self, totals):
        """What the guest recorded, if it did."""
        if not os.path.exists(os.path.join(self.exchange, "facts")):
            return
        failed = totals.count["FAIL"]
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "integration", "run.py"), "-k", EXCHANGE],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              env=dict(os.environ, PYSAMPLED_EXCHANGE=self.exchange, PYSAMPLED_TEST_PYTHONS=sys.executable))
        for text in done.stdout.splitlines(True):
            totals.line(text)
        totals.ended(EXCHANGE, done.returncode, failed)


def prepare(totals, machine):
    """None, and said, if it can't be had."""
    begin = time.monotonic()
    try:
        prepared = Prepared(machine)
        totals.say("ok", "guest %s (%.0f s)" % (machine.name, time.monotonic() - begin))
        return prepared
    except Missing as reason:
        totals.say("SKIP", "guest %s: %s" % (machine.name, reason))
    except subprocess.CalledProcessError as error:
        totals.say("FAIL", "build for %s: %s" % (machine.name, " ".join((error.stdout or "").split())[-600:]))


def run_all(totals, pattern):
    prepared = {}
    for machine, name, options, tests in BOOTS:
        tests = tests if pattern in name else [test for test in tests if pattern in test]
        unit = name in ("aarch64", "riscv64") and pattern in name
        if not tests:
            continue
        if machine.name not in prepared:
            prepared[machine.name] = prepare(totals, machine)
        if prepared[machine.name]:
            totals.boot(prepared[machine.name].guest, prepared[machine.name].script(unit, tests), name, **options)
    for each in filter(None, prepared.values()):
        each.read_here(totals)
    if pattern in "tarball":
        arm = prepared.get(ARM64.name) or prepare(totals, ARM64)
        if arm:
            tarball.test(totals, arm.guest, PYTHON)


SCALE_SCRIPT = """echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent
echo -1 > /proc/sys/kernel/sched_rt_runtime_us
export PYTHONDONTWRITEBYTECODE=1
%s tools/bench --scale-quick --pysampled %s --python %s --json %s
"""
SCALE_LIMIT_S = 3600
SCALE_PART = "tests/envs/run.py --scale"


def kept(given, guest, name, measure, failures=()):
    """What measure() finds; with --resume what it found before, without a failure, of this binary: such a guest takes up to
    an hour."""
    before, path = len(failures), guest.path(name + ".json")
    with open(given.pysampled, "rb") as file:
        binary = hashlib.sha256(file.read()).hexdigest()
    if given.resume and os.path.exists(path):
        with open(path) as file:
            old = json.load(file)
        if old["binary"] == binary:
            return old["found"]
    found = measure()
    if found and len(failures) == before:
        with open(path, "w") as file:
            json.dump({"binary": binary, "found": found}, file)
    return found


def scale_in(guest, cpus, binary):
    """Rows of a guest of so many CPUs."""
    found = guest.path("scale.json")
    if os.path.exists(found):
        os.unlink(found)
    python = shlex.quote(harness.newest_python().path or sys.executable)
    begin = time.monotonic()
    guest.run(SCALE_SCRIPT % (shlex.quote(sys.executable), binary, python, found), lambda text: print(text, end="", flush=True),
              cpus=cpus, limit=SCALE_LIMIT_S, **COARSE)
    print("-- %d CPUs: %.0f s" % (cpus, time.monotonic() - begin), flush=True)
    if not os.path.exists(found):
        return []
    with open(found) as file:
        return json.load(file)


def run_scale(given):
    """One table of all machines. 0 if each gave its rows."""
    guest, rows = Guest(OLDER[-1]), []
    guest.make()
    for cpus in given.cpus.split(","):
        rows.append(kept(given, guest, "scale-" + cpus, lambda: scale_in(guest, int(cpus), given.pysampled)))
    flat = [scale.Row(row) for row in sum(rows, [])]
    where = "guests of Linux " + guest.machine.name.partition("-")[2]
    command = shlex.join(["tests/envs/run.py", *sys.argv[1:]])
    text = "\n".join([report.head(where, command), scale.table(flat), scale.larger(flat)]) if flat else ""
    if given.write and flat:
        report.write(given.write, text, SCALE_PART)
    print(text)
    return 0 if all(rows) else 1


# --- truth on many CPUs, as tables ---

TRUTH_PART = "tests/envs/run.py --truth"
SAID = re.compile(r"\w+ \S+ (\w+), (.*?) preempt: +(\d+) samples, +(\S+ %) sure; wrong (\d+) of (\d+);")


class Heard(Totals):
    """Also what the oracle says of each recording."""

    def __init__(self):
        super().__init__()
        self.oracle = []

    def line(self, text):
        super().line(text)
        found = SAID.match(text)
        if found:
            self.oracle.append((*found.groups()[:4], "%s of %s" % found.groups()[4:]))


def truth_in(totals, prepared, cpus):
    """Rows of many_cpus.py of a guest of so many CPUs."""
    found = prepared.guest.path("truth.json")
    if os.path.exists(found):
        os.unlink(found)
    _, name, options, tests = on_many(cpus, " --json " + shlex.quote(found))
    totals.boot(prepared.guest, prepared.script(False, tests[:1]), name, **options)
    if not os.path.exists(found):
        return []
    with open(found) as file:
        return json.load(file)


def oracle_in(totals, prepared, cpus):
    """Rows of what the oracle says there."""
    _, name, options, tests = on_many(cpus)
    totals.oracle = []
    totals.boot(prepared.guest, prepared.script(False, tests[1:]), name, **options)
    return totals.oracle


def run_truth(given):
    """One table of all machines, and one of the oracle there. 0 if nothing failed."""
    totals, rows, said = Heard(), [], []
    prepared = prepare(totals, OLDER[-1])
    for cpus in map(int, given.cpus.split(",") if prepared else []):
        found = kept(given, prepared.guest, "truth-%d" % cpus, lambda: truth_in(totals, prepared, cpus), totals.failures)
        rows += [many_cpus.Row(*row) for row in found]
        found = kept(given, prepared.guest, "oracle-%d" % cpus, lambda: oracle_in(totals, prepared, cpus), totals.failures)
        said += [("%d" % cpus, *cells) for cells in found]
    text = "\n".join([report.head("guests of Linux 6.12", shlex.join(["tests/envs/run.py", *sys.argv[1:]])),
                      report.table(many_cpus.HEAD, map(many_cpus.cells, rows)), report.table(many_cpus.ORACLE_HEAD, said)])
    if given.write and rows:
        report.write(given.write, text, TRUTH_PART)
    print(text)
    return 1 if totals.count["FAIL"] or not rows else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--counts")
    parser.add_argument("-k", dest="pattern", default="")
    parser.add_argument("--scale", action="store_true", help="instead: what a recording takes as CPUs get many")
    parser.add_argument("--truth", action="store_true", help="instead: how many stacks are right as CPUs get many")
    parser.add_argument("--cpus", help="of the guests of --scale (2,4,8,16,32) or --truth (8,16)")
    parser.add_argument("--resume", action="store_true", help="take what guests of --scale or --truth told before of the same binary")
    parser.add_argument("--pysampled", default=os.path.join(harness.BUILD, "pysampled"), help="the binary of --scale")
    parser.add_argument("--write", metavar="FILE", help="put the tables between their marks (docs/PERFORMANCE.md; --truth: docs/ACCURACY.md)")
    args = parser.parse_args()
    if args.truth:
        args.cpus = args.cpus or ",".join(map(str, many_cpus.MANY))
        return run_truth(args)
    args.cpus = args.cpus or "2,4,8,16,32"
    if args.scale:
        return run_scale(args)
    totals = Totals()
    run_all(totals, args.pattern)
    if not any(totals.count.values()):
        print("-k %s: no test of a guest has this in its name" % args.pattern)
        return NO_MATCH
    if args.counts:
        harness.write_totals(args.counts, totals.count, totals.failures, totals.again)
    return 1 if totals.count["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
