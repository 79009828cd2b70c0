"""The scripts in tools/: what they say of programs that are made up, and of machines that are not a Debian's root."""
import glob
import os
import re
import subprocess
import types
from unittest import mock

import harness
from harness import Skip, check, each, equal
from test_tables import tool

BESIDE = True


def script(path, text):
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def as_user():
    """Before a command: what makes root an ordinary user."""
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if harness.is_root() else []


def path_with(folder, **commands):
    """PATH with these in front."""
    for name, text in commands.items():
        script(os.path.join(folder, name.replace("_", "-")), text)
    return harness.plain_env(PATH=folder + os.pathsep + os.environ["PATH"])


# ---- tools/fuzz -------------------------------------------------------------------------------------------------------

def test_each_target_of_the_fuzzers_has_a_plant():
    files = glob.glob(os.path.join(harness.ROOT, "tests", "fuzz", "fuzz_*.c"))
    equal({name.split(".")[0] for name in tool("fuzz").PLANTS}, {os.path.basename(path)[5:-2] for path in files}, "targets")


def test_each_plant_can_still_be_planted():
    for name, (path, before, _, *user) in tool("fuzz").PLANTS.items():
        with open(os.path.join(harness.ROOT, path)) as file:
            equal(file.read().count(before), 1, "how often %r of %s stands in %s" % (before, name, path))
        check(all(os.path.exists(os.path.join(harness.ROOT, more)) for more in user), "%s has no %s", name, user)


STATS = "echo 'stat::number_of_executed_units: 7' >&2\n"
CRASH = 'for i; do case $i in -artifact_prefix=*) : > "${i#*=}crash-1" ;; esac; done\n'
# What a fuzzer does, and whether it is as it must be: with a plant, without.
ENDS = {"finds": (STATS + CRASH + "exit 1", True, False),
        "finds nothing": (STATS, False, True),
        "does not begin": ("exit 1", False, False),
        "plays nothing": ("", False, False),
        "takes too long": (STATS + "exit 70", False, False)}


@each(end=list(ENDS))
def test_a_fuzzer_finds_a_plant_by_a_crash_alone(end):
    fuzz, folder = tool("fuzz"), harness.folder()
    program, *wanted = ENDS[end]
    os.makedirs(os.path.join(folder, "found", "x"))
    open(os.path.join(folder, "found", "x", "planted-crash-of-another-run"), "w").close()
    script(os.path.join(folder, "fuzz_x"), "")
    for plant, want in zip((True, False), wanted):
        args = types.SimpleNamespace(plant=plant, runs=1)
        n, *found, _ = fuzz.run(script(os.path.join(folder, "cover_x"), program), folder, "x", args)
        good, what = fuzz.judged(plant, n, *found)
        equal(good, want, "%s, with a plant: %s: %s" % (end, plant, what))


# ---- tools/bench ------------------------------------------------------------------------------------------------------

def test_a_profiler_that_is_none_is_refused_beside_one_that_is():
    bench = tool("bench")
    try:
        bench.find(bench.options(["--only", "pysampled,austn"]), None)
    except SystemExit as end:
        check("austn" in str(end.code), "it says: %s", end.code)
        return
    raise AssertionError("austn is left out without a word")


# ---- tools/test -------------------------------------------------------------------------------------------------------

def test_an_ordinary_user_may_not_read_how_random_addresses_are():
    """TSan's programs have fixed ones then, where that is allowed."""
    if subprocess.run([*as_user(), "cat", "/proc/sys/vm/mmap_rnd_bits"], capture_output=True).returncode == 0:
        raise Skip("anybody may read it here")
    with open(os.path.join(harness.ROOT, "tools", "test")) as file:
        lines = "".join(re.findall(r"^(?:fixed=|.*mmap_rnd_bits|\[.*fixed=).*\n", file.read(), re.M))
    done = subprocess.run([*as_user(), "bash", "-uc", lines + 'echo "${fixed[@]}"'], capture_output=True, text=True)
    allowed = subprocess.run([*as_user(), "setarch", "-R", "true"], stderr=subprocess.DEVNULL).returncode == 0
    equal((done.stdout.strip(), done.stderr), ("setarch -R" if allowed else "", ""), "what it takes, and says")


# ---- tools/packages.sh ------------------------------------------------------------------------------------------------

INSTALLED = 'for i; do case $i in linux-tools-generic%s) echo "install ok installed" ;; esac; done\n'
KNOWN = 'case $2 in linux-perf) echo "  Candidate: (none)" ;; %s) echo "  Candidate: 6.8" ;; esac\n'
PERFS = {"runs": ("exit 0", "", "linux-*", ""),
         "of no kernel": ("exit 2", "", "linux-*", "PERF"),
         "of no kernel, whose own is not to be had": ("exit 2", "", "linux-tools-generic", ""),
         "of no kernel, whose own is there": ("exit 2", "|linux-tools-$(uname -r)", "linux-*", "")}


@each(perf=list(PERFS))
def test_a_perf_that_does_not_run_is_missing(perf):
    """Ubuntu's is a script, which looks for a program of the kernel that runs."""
    does, installed, known, want = PERFS[perf]
    env = path_with(harness.folder(), perf=does, dpkg_query=INSTALLED % installed, apt_cache=KNOWN % known)
    command = '. "%s/tools/packages.sh"; missing_packages "$PERF" | sed "s=^$PERF\\$=PERF="' % harness.ROOT
    done = subprocess.run(["bash", "-uc", command], env=env, stdout=subprocess.PIPE, text=True)
    equal(done.stdout.strip(), want, "what is missing")


def test_the_readers_of_perf_files_are_left_out_by_a_perf_that_does_not_run():
    check_py = os.path.join(harness.ROOT, "tests", "consumers", "check.py")
    done = subprocess.run(["python3", check_py, "mkperfdata", "report_names"], env=path_with(harness.folder(), perf="exit 2"),
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    equal(done.returncode, 77, "its status: " + done.stdout)


def test_tests_by_perf_are_skipped_where_it_does_not_run():
    folder = harness.folder()
    with mock.patch.dict(os.environ, path_with(folder, perf="exit 2")):
        try:
            harness.perf("script", home=folder)
        except Skip as reason:
            check("of this kernel" in str(reason), "the reason: %s", reason)
            return
    raise AssertionError("it was run")


# ---- tools/demo -------------------------------------------------------------------------------------------------------

PARANOID = "/proc/sys/kernel/perf_event_paranoid"


def demo(*args, **commands):
    """It in a folder where nothing is built: its status, what it said, and whether it began to build."""
    home = harness.folder(0o777)
    folders = {name: os.path.join(home, name) for name in ("tools", "demo", "build", "bin")}
    for path in folders.values():
        os.mkdir(path)
    for name in "demo", "packages.sh":
        with open(os.path.join(harness.ROOT, "tools", name)) as file:
            script(os.path.join(folders["tools"], name), file.read())
    with open(os.path.join(folders["build"], "build.ninja"), "w"):
        pass
    script(os.path.join(folders["build"], "pysampled"),
           'while [ $# -gt 0 ]; do if [ "$1" = -o ]; then : > "$2"; mkdir -p "$2.d"; fi; shift; done\n')
    with open(os.path.join(folders["demo"], "app.py"), "w") as app, open(os.path.join(folders["demo"], "load.py"), "w") as load:
        app.write("import time\nprint('PORT 1', flush=True)\ntime.sleep(60)\n")
        load.write("import time\nprint('READY', flush=True)\ntime.sleep(60)\n")
    env = path_with(folders["bin"], ninja=': > "%s/made"' % home, **commands)
    done = subprocess.run([*as_user(), "bash", os.path.join(folders["tools"], "demo"), *args], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(env, PYSAMPLED_NO_INSTALL="1"))
    return home, done


@each(seconds=["1.5", "x", "0"])
def test_the_demo_refuses_what_is_no_number_of_seconds_at_once(seconds):
    home, done = demo("--seconds", seconds)
    check(done.returncode != 0 and not os.path.exists(os.path.join(home, "made")), "it built: %s", done.stdout)
    check("syntax error" not in done.stdout, "it says: %s", done.stdout)


@harness.alone
@each(sudo=["works", "refuses"])
def test_the_demo_asks_for_the_rights_that_an_ordinary_user_lacks(sudo):
    """Before it builds; what it leaves is the user's."""
    harness.need_root()
    if not os.path.exists(PARANOID) or subprocess.run(["/usr/bin/python3", "-c", "import jinja2, sqlite3"], capture_output=True).returncode:
        raise Skip("no perf events, or no jinja2 of /usr/bin/python3")
    harness.change(PARANOID, "4\n")
    asked = 'echo "$@" >> "${0%/*}/../asked"; exec "$@"\n'
    home, done = demo("--seconds", "1", sudo=asked if sudo == "works" else "exit 1\n")
    built = os.path.exists(os.path.join(home, "made"))
    if sudo == "refuses":
        check(done.returncode != 0 and not built and "root" in done.stdout, "it built, or does not say why not: %s", done.stdout)
        return
    equal(done.returncode, 0, "its status: " + done.stdout)
    with open(os.path.join(home, "asked")) as file:
        asked = file.read()
    check("build/pysampled -p" in asked and re.search("^chown .*65534.*perf.data.d", asked, re.M), "by sudo: %s", asked)
