"""Real programs: a web service behind gunicorn, and three of pyperformance's benchmarks, at 999 Hz."""
import glob
import os
import re
import time

import harness
import tolerances
from harness import Recorder, Target, check, each, enough, equal, need_fifo, need_root, not_quick, seconds

RATE, SECONDS = 999, 5


def some_pythons():
    return [harness.newest_python()] + ([harness.debian_python()] if harness.every_pair() else [])


def record(pid, home, *args):
    """The run, and the CPU seconds that the target and its children used during it."""
    recorder = Recorder("-p", pid, "-e", "cycles", "-F", RATE, "-d", SECONDS, "--hold-budget", 10, "-o", "a.data", "-o",
                        "a.folded", *args, home=home).attached()
    family = harness.children(pid)
    cpu, clock = harness.cpu_seconds(family), time.monotonic()
    run = recorder.wait(SECONDS + 30).ok()
    used = (harness.cpu_seconds(family) - cpu) / (time.monotonic() - clock)
    return run, used * float(run.summary["duration"].rstrip("s"))


def meets_the_issue(run, used):
    """What the first issue promises of the summary."""
    samples, sure = run.n("samples"), run.n("exact")
    enough(sure >= tolerances.EXACT * (samples - run.n("nopython")), "less than 99 %% are exact: %s", run)
    enough(run.n("nopython") <= tolerances.NO_PYTHON * samples, "too much is without Python: %s", run)
    enough(run.n("lost") + run.n("throttled") <= tolerances.LOST * samples, "too many were lost: %s", run)
    enough(samples >= tolerances.COUNTED * used * RATE, "%d samples for %.2f CPU seconds at %d Hz: %s", samples, used, RATE, run)


def readable(run, home, functions):
    """All outputs agree, and perf names the program's own functions and lines."""
    data = os.path.join(home, "a.data")
    harness.same_counts(run, harness.read_folded(os.path.join(home, "a.folded")))
    equal(harness.perf_samples(data, home), run.n("samples"), "samples in perf script")
    out, err = harness.perf("report", "--stdio", "-g", "none", "-i", data, home=home)
    equal(err.strip(), "", "what perf report warns")
    for name in functions:
        check("py::%s:" % name in out, "no py::%s in perf report: %s", name, out[:3000])
    out, _ = harness.perf("script", "-i", data, "-F", "+srcline", "--time", "0%-10%", home=home, limit=200)
    check(re.search(r"\.py:\d+", out), "no line in perf script: %s", out[:2000])


def gunicorn(py):
    """(master's pid, port) of a service with 2 workers."""
    python = harness.venv(py, "gunicorn", "flask")
    log = os.path.join(harness.folder(), "log")
    with open(log, "w") as out:
        master = harness.start([python, "-m", "gunicorn", "-w", "2", "-b", "127.0.0.1:0", "--chdir", harness.TARGETS,
                                "flaskapp:app"], stdout=out, stderr=out, stdin=harness.subprocess.DEVNULL,
                               env=harness.plain_env(PYTHONDONTWRITEBYTECODE="1"))
    harness.cleanup(end_workers, master)

    def listening():
        with open(log) as file:
            text = file.read()
        check(master.poll() is None, "gunicorn ended: %s", text)
        port = re.search(r"Listening at: http://127.0.0.1:(\d+)", text)
        return int(port[1]) if port and text.count("Booting worker") == 2 else None
    return master.pid, harness.until(listening, "gunicorn listens")


def end_workers(master):
    """gunicorn's workers end with their master when it is asked to; none may outlive the test."""
    if master.poll() is None:
        master.terminate()
        try:
            master.wait(20)
        except harness.subprocess.TimeoutExpired:
            pass


@each(py=some_pythons())
@not_quick
@seconds(240)
def test_gunicorn_with_flask_under_load(py):
    need_root()
    need_fifo()
    master, port = gunicorn(py)
    load = Target(py, "load.py", port, "/", "/json")
    home = harness.folder()
    run, used = record(master, home, "--follow")
    check(load.alive(), "the load ended")
    meets_the_issue(run, used)
    enough(used > 0.2 * SECONDS, "the service was hardly busy: %.1f CPU seconds", used)
    readable(run, home, ["index", "as_json", "make_rows", "checksum"])
    workers = harness.children(master)[1:]
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    for pid in workers:
        enough(harness.total(harness.of_pid(stacks, pid)) > 100, "worker %d has no samples", pid)


def benchmark(py, name):
    """A benchmark that runs for long enough, once it works."""
    python = harness.venv(py, "pyperformance")
    pattern = os.path.join(os.path.dirname(os.path.dirname(python)), "lib", "python3*", "site-packages",
                           "pyperformance", "data-files", "benchmarks", "bm_" + name, "run_benchmark.py")
    scripts = glob.glob(pattern)
    check(scripts, "pyperformance has no %s", name)
    process = harness.start([python, scripts[0], "--worker", "--loops", "1000000", "--values", "1", "--warmups", "0"],
                            stdin=harness.subprocess.DEVNULL, stdout=harness.subprocess.DEVNULL,
                            stderr=harness.subprocess.DEVNULL)
    harness.until(lambda: harness.cpu_seconds([process.pid]) > 1 or process.poll() is not None, "the benchmark works")
    check(process.poll() is None, "the benchmark ended")
    return process.pid


@each(name=["richards", "deltablue", "json_dumps"] if harness.every_pair() else [])
@harness.one_python
@not_quick
@seconds(240)
def test_a_benchmark_of_pyperformance(py, name):
    benchmark_meets_the_issue(py, name)


@each(py=[harness.debian_python()])
@not_quick
@seconds(240)
def test_a_benchmark_under_a_python_without_symbols(py):
    benchmark_meets_the_issue(py, "richards")


def benchmark_meets_the_issue(py, name):
    need_root()
    need_fifo()
    pid = benchmark(py, name)
    home = harness.folder()
    run, used = record(pid, home)
    meets_the_issue(run, used)
    functions = {"richards": ["Task.runTask", "schedule"], "deltablue": ["Planner.make_plan", "Plan.execute"],
                 "json_dumps": ["JSONEncoder.encode", "bench_json_dumps"]}
    readable(run, home, functions[name])


@not_quick
@seconds(600)
def test_the_demo_runs_and_leaves_its_files():
    need_root()
    home = harness.folder()
    done = harness.subprocess.run([os.path.join(harness.ROOT, "tools", "demo"), "--out", home, "--seconds", "4"],
                                  stdin=harness.subprocess.DEVNULL, stdout=harness.subprocess.PIPE,
                                  stderr=harness.subprocess.STDOUT, text=True)
    check(done.returncode == 0, "tools/demo: exit %d: %s", done.returncode, done.stdout[-3000:])
    for name in ("perf.data", "perf.folded", "flamegraph.html", "profile.pb.gz"):
        check(os.path.getsize(os.path.join(home, name)) > 1000, "%s is empty", name)
        check(os.path.join(home, name) in done.stdout, "it does not say where %s lies: %s", name, done.stdout)
    top = re.findall(r"^ *\d+\.\d% +\d+\.\d% +\S+", done.stdout, re.M)
    equal(len(top), 10, "top functions in %s" % done.stdout)
