"""The judges can fail: without this a green run proves nothing."""
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent import futures
from unittest import mock

import harness
from harness import check, equal

TRUTH = harness.Truth({"spin_05": [["g_01", 9], ["f_01", 7], ["cycle", 100]]}, [[["forever", [1, 2]], ["<module>", [3]]]])
RIGHT = "py-7;<module> (/a/b.py:3);forever (/a/b.py:2);cycle (/a/b.py:100);f_01 (/a/b.py:7);g_01 (/a/b.py:9);spin_05 3\n"


def verdict(text):
    return harness.judge(harness.parse_folded(text), TRUTH)


def test_judge_accepts_the_right_stack():
    equal((verdict(RIGHT).judged, verdict(RIGHT).right), (3, 3), "judged, right")


def test_judge_accepts_kernel_frames_above_the_spin():
    equal(verdict(RIGHT.replace("spin_05", "spin_05;asm_sysvec_[k];tick_[k]")).right, 3, "right")


@harness.each(wrong=["g_01|g_02", ":9|:10", "f_01|f_02", ":7|:8", ":100|:101", "cycle|cyclo",
                     "g_01 (/a/b.py:9);|", "f_01 (/a/b.py:7);|", "spin_05|[late];spin_05", "<module> (/a/b.py:3);|", "forever (/a/b.py:2);|",
                     "<module> |<modulo> ", ":3|:4", "forever (/a/b.py:2)|forever (/a/b.py:4)",
                     "<module>|run (/a/b.py:3);<module>"])
def test_judge_sees(wrong):
    old, _, new = wrong.partition("|")
    got = verdict(RIGHT.replace(old, new))
    equal((got.judged, got.right), (3, 0), "judged, right")


def test_judge_accepts_a_cut_stack_only_where_it_may_be_cut():
    equal([verdict(RIGHT.replace("<module> (/a/b.py:3);", root)).right for root in ("", "[truncated];")], [0, 3], "right")


SHORT = "py-7;cycle (/a/b.py:100);f_01 (/a/b.py:7);g_01 (/a/b.py:9);spin_05 3\n"  # nothing stands below it


@harness.each(short=["cycle (/a/b.py:100);", "cycle (/a/b.py:100);f_01 (/a/b.py:7);",
                     "cycle (/a/b.py:100);f_01 (/a/b.py:7);g_01 (/a/b.py:9);"])
def test_judge_sees_that_callers_are_missing_where_nothing_is_below(short):
    truth = harness.Truth(TRUTH, [[]])

    def right(text):
        return harness.judge(harness.parse_folded(text), truth).right
    equal(right(SHORT), 3, "the whole stack")
    equal(right(SHORT.replace(short, "")), 0, "without some callers, or all")
    equal(right(SHORT.replace(short, "[truncated];")), 3, "a stack that is cut there")


def test_judge_knows_what_is_below_each_leaf():
    truth = harness.Truth(dict(TRUTH, spin_06=TRUTH["spin_05"]), {"spin_05": TRUTH.roots, "spin_06": [[]]})
    stacks = [text.replace("spin_05", leaf) for text in (RIGHT, SHORT) for leaf in ("spin_05", "spin_06")]
    equal([harness.judge(harness.parse_folded(text), truth).right for text in stacks], [3, 0, 0, 3], "right")


def test_judge_of_a_jit_judges_functions():
    sys.path.insert(0, os.path.join(harness.ROOT, "tests", "accuracy"))
    from peers import with_hidden_lines
    for frame, right in ("g_01 (/a/b.py);[anon]", 3), ("g_01 (/a/b.py)", 3), ("g_02 (/a/b.py);[anon]", 0), ("[anon]", 0):
        stacks = harness.parse_folded(RIGHT.replace("g_01 (/a/b.py:9)", frame))
        equal(harness.judge(with_hidden_lines(stacks, TRUTH), TRUTH).right, right, frame)


def test_judge_leaves_other_leaves_alone():
    equal(verdict(RIGHT.replace("spin_05", "memcpy")).judged, 0, "judged")


def test_all_right_wants_enough_samples():
    run = harness.Run([], 0, "", "samples=100 exact=100\n")
    harness.all_right(verdict(RIGHT.replace(" 3\n", " 31\n")), run)
    for count in (" 3\n", " 29\n"):
        try:
            harness.all_right(verdict(RIGHT.replace(" 3\n", count)), run)
        except AssertionError:
            continue
        raise AssertionError("%s samples passed where 30 were wanted" % count)


def test_a_wrong_stack_among_too_few_is_a_failure():
    run = harness.Run([], 0, "", "samples=100 exact=100\n")
    try:
        harness.all_right(verdict(RIGHT.replace(":9", ":10")), run)
    except harness.Spoilt:
        raise AssertionError("it would be tried again")
    except AssertionError:
        return
    raise AssertionError("accepted")


# What a test does, whether it is run twice, what the runner says in the end.
FAILS = {"too few at first": ("enough(len(open(LOG).readlines()) > 1, 'too few')", 2, "1 0 0"),
         "always too few": ("enough(False, 'too few')", 2, "0 1 0"),
         "wrong": ("check(False, 'too few samples')", 1, "0 1 0"),
         "crash": ("raise OSError('too few')", 1, "0 1 0"),
         "hang": ("harness.until(lambda: False, 'too few', 0.1)", 1, "0 1 0"),
         "harm": ("harness.cleanup(check, False, 'killed'); enough(False, 'too few')", 1, "0 1 0")}
MADE = """import harness
from harness import check, enough
LOG = %r
def test_it():
    open(LOG, "a").write("x\\n")
    %s
"""


def run_made(code, *args, **options):
    """The runner on a test made of this code: (status, how often the test ran, its counts, its output)."""
    where = harness.folder()
    for name in "run.py", "harness.py", "tolerances.py":
        shutil.copy(os.path.join(harness.ROOT, "tests", "integration", name), where)
    log, counts = os.path.join(where, "log"), os.path.join(where, "counts")
    harness.write(log, "")
    harness.write(counts, "")
    harness.write(os.path.join(where, "test_made.py"), MADE % (log, code))
    done = subprocess.run([sys.executable, os.path.join(where, "run.py"), "--counts", counts, *args], stdout=subprocess.PIPE,
                          text=True, **options)
    with open(log) as ran, open(counts) as counted:
        return done.returncode, len(ran.readlines()), counted.read().splitlines(), done.stdout


@harness.each(what=list(FAILS))
def test_only_too_little_to_judge_by_is_tried_again(what):
    code, times, totals = FAILS[what]
    status, ran, counts, said = run_made(code)
    equal((status, ran, counts[0]), (int(totals == "0 1 0"), times, totals), "status, runs and counts of %s" % said)
    equal("again made.it" in counts, times == 2, "noted as tried again")
    check("-- tried again: %d" % (times - 1) in said, "not counted: %s", said)


def test_a_pattern_without_a_test_is_a_failure():
    status, ran, counts, said = run_made("pass", "-k", "made", "-k", "mead")
    equal((status, ran, counts[0]), (1, 1, "1 1 0"), "status, runs and counts of %s" % said)


@harness.each(how=[("pass", "made", 0), ("pass", "mead", 5), ("(", "made", 1)])
def test_a_list_tells_what_does_not_match_from_what_is_broken(how):
    code, pattern, want = how
    status, ran, _, said = run_made(code, "--list", "-k", pattern, stderr=subprocess.DEVNULL)
    equal((status, ran), (want, 0), "status and runs of %s" % said)


# A unit test has the pattern in its name, and integration tests if a list of them says so.
FAKES = {"tools/packages.sh": "BUILD_PACKAGES=() TEST_PACKAGES=()\ninstall_packages() { :; }\n",
         "tests/integration/run.py": "import os, sys\nif '--list' in sys.argv: sys.exit(int(os.environ['LISTS']))\n"
                                     "print('1 0 0', file=open(sys.argv[sys.argv.index('--counts') + 1], 'w'))\n",
         "tests/integration/meson_counts.py": "import sys\nprint('1 0 0', file=open(sys.argv[2], 'w'))\n",
         "bin/meson": "#!/bin/sh\necho 'pysampled:unit / word'\n", "bin/ninja": "#!/bin/sh\n", "bin/mountpoint": "#!/bin/sh\n"}


def tools_test(*args, lists=0):
    """tools/test where there is nothing to build or to run: its status and its last line."""
    where = harness.folder()
    for name, text in dict(FAKES, **{"tools/test": open(os.path.join(harness.ROOT, "tools", "test")).read()}).items():
        os.makedirs(os.path.dirname(os.path.join(where, name)), exist_ok=True)
        harness.write(os.path.join(where, name), text)
        os.chmod(os.path.join(where, name), 0o755)
    env = {name: value for name, value in os.environ.items() if name not in ("PYSAMPLED_SOAK_S", "PYSAMPLED_FAULTS")}
    done = subprocess.run([os.path.join(where, "tools", "test"), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, env=dict(env, PATH=where + "/bin:" + env["PATH"], LISTS=str(lists)))
    return done.returncode, done.stdout.splitlines()[-1]


@harness.each(lists=[0, 1, 5])
def test_a_list_that_breaks_is_a_failure(lists):
    want = {0: (0, "3 passed, 0 failed, 0 skipped"), 1: (1, "2 passed, 1 failed, 0 skipped"), 5: (0, "2 passed, 0 failed, 0 skipped")}
    equal(tools_test("-k", "word", lists=lists), want[lists], "status and last line")


@harness.each(args=["--fuzz --quick", "--fuzz -k word", "--quick --soak", "--fault-sites --quick", "-k", "-k ''"])
def test_what_would_not_be_run_is_refused(args):
    equal(tools_test(*shlex.split(args))[0], 2, "status")


@harness.each(log=["", "ran", "crashed", "failed"])
def test_the_units_are_counted(log):
    """A program that did not run, and a status that no failure explains, are failures."""
    where = harness.folder()
    os.mkdir(os.path.join(where, "meson-logs"))
    result = {"name": "pysampled:unit / one", "result": "FAIL" if log == "failed" else "OK", "stdout": "[  PASSED  ] 3 test(s).\n"}
    if log:
        harness.write(os.path.join(where, "meson-logs", "testlog.json"), json.dumps(result) + "\n")
    counts = os.path.join(where, "counts")
    subprocess.run([sys.executable, os.path.join(harness.ROOT, "tests", "integration", "meson_counts.py"), where, counts,
                    "1" if log in ("crashed", "failed") else "0", "one"], stdout=subprocess.DEVNULL, check=True)
    with open(counts) as file:
        equal(file.readline().split(), {"": ["0", "1", "0"], "ran": ["3", "0", "0"]}.get(log, ["3", "1", "0"]), "counts")


def test_summary_is_the_last_such_line():
    err = "note\nsamples=1 exact=1\nsamples=20 exact=19 late=1 capture=preempt duration=1.0s\n"
    equal(harness.parse_summary(err)["exact"], "19", "exact")
    equal(harness.parse_summary("nothing here"), {}, "no summary")


def test_folded_line_without_a_count_is_refused():
    try:
        harness.parse_folded("a;b;c\n")
    except AssertionError:
        return
    raise AssertionError("accepted")


def test_what_a_killed_run_changed_is_changed_back():
    path = os.path.join(harness.folder(), "setting")
    harness.write(path, "0\n")
    pid = os.fork()
    if pid == 0:
        harness.change(path, "1\n")
        harness.change(path, "2\n")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    equal(open(path).read(), "2\n", "the setting")
    equal(harness.undo_of_the_killed(), [path, path], "what is changed back")
    equal(open(path).read(), "0\n", "the setting")


# Who is told to end: the runner, the process of a test that runs beside others, or both, as by a terminal.
TOLD = {"alone": "kill(os.getpid(), signal.SIGTERM)", "parent": "kill(os.getppid(), signal.SIGTERM)",
        "terminal": "killpg(0, signal.SIGINT)"}
ENDS = """harness.folder(), harness.change(%r, "1\\n"), harness.cleanup(harness.time.sleep, 0.3)
    from harness import os, signal, time
    harness.until(lambda: harness.status(os.getppid())["State"][0] == "S", "the parent waits for us")
    os.%s
    time.sleep(60)
test_it.beside = %r"""


@harness.each(told=list(TOLD))
def test_what_an_interrupted_run_changed_is_changed_back(told):
    where, setting = harness.folder(), os.path.join(harness.folder(), "setting")
    harness.write(setting, "0\n")
    status, ran, _, said = run_made(ENDS % (setting, TOLD[told], told != "alone"), start_new_session=True, stderr=subprocess.DEVNULL,
                                    env=dict(os.environ, TMPDIR=where, PYSAMPLED_BUILD=where),
                                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    check(status != 0 and ran == 1, "status %s, runs %s: %s", status, ran, said)
    equal((open(setting).read(), os.listdir(where)), ("0\n", []), "the setting, and what is left")


def test_folders_of_a_killed_run_are_removed():
    """By the next run. Not those of others, nor one in which something is mounted."""
    with mock.patch.object(tempfile, "tempdir", harness.folder()):
        ours, pid = os.path.basename(harness.folder()), os.fork()
        if pid == 0:
            harness.write(os.path.join(harness.folder(), "file"), "")
            harness.folder()
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        first, second = sorted(set(os.listdir(tempfile.tempdir)) - {ours})
        with mock.patch.object(harness, "mounts", lambda: ["/", os.path.join(tempfile.tempdir, second, "mounted")]):
            harness.remove_folders_of_the_killed()
        equal(sorted(os.listdir(tempfile.tempdir)), sorted([ours, second]), "what is left")
        run_made("pass", env=dict(os.environ, TMPDIR=tempfile.tempdir))
        check({ours} <= set(os.listdir(tempfile.tempdir)) and second not in os.listdir(tempfile.tempdir), "what is left: %s",
              os.listdir(tempfile.tempdir))


@harness.one_python
def test_tests_of_one_recording_leave_no_folder(py):
    """They run in processes of their own, which end without what atexit would do."""
    harness.need_perf()
    where = harness.folder()
    done = subprocess.run([sys.executable, os.path.join(harness.ROOT, "tests", "integration", "run.py"), "-k", "consumers.counts_of",
                           "--quick"], stdout=subprocess.PIPE, text=True,
                          env=dict(os.environ, TMPDIR=where, PYSAMPLED_TEST_PYTHONS=py.need()))
    check("ok consumers.counts_of" in done.stdout, "no recording: %s", done.stdout)
    equal(os.listdir(where), [], "what is left")


def test_what_a_killed_run_mounted_is_unmounted():
    harness.need_root()

    def mount(where):
        subprocess.check_call(["mount", "-t", "tmpfs", "none", where])

    ours, (said, say) = harness.folder(), os.pipe()
    mount(ours)
    pid = os.fork()
    if pid == 0:
        theirs = harness.folder()
        mount(theirs)
        os.write(say, theirs.encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    theirs = os.read(said, 1000).decode()
    check({ours, theirs} <= set(harness.mounts()), "what is mounted: %s", harness.mounts())
    check(theirs in harness.unmount_of_the_killed(), "theirs is left")
    check(ours in harness.mounts() and ours in harness.unmount_of_the_killed(ours=True), "ours is left, or was not")
    check(not {ours, theirs} & set(harness.mounts()), "what is mounted: %s", harness.mounts())
    os.rmdir(theirs)
    os.close(said)
    os.close(say)


def test_what_a_run_changes_is_changed_back_at_its_end():
    path = os.path.join(harness.folder(), "setting")
    harness.write(path, "0\n")
    outer, harness._cleanups[:] = harness._cleanups[:], []
    harness.change(path, "1\n")
    equal(harness.undo_of_the_killed(), [], "what is changed back while it runs")
    equal(harness.clean_up(), [], "errors")
    equal(open(path).read(), "0\n", "the setting")
    harness._cleanups[:] = outer


@harness.each_python
def test_ground_truth_target_is_true(py):
    """The target's own lines say what the truth says."""
    target = harness.Target(py, "groundtruth.py", "--us", 2)
    equal(len(target.info["truth"]), 64, "spins")
    equal(target.info["truth"]["spin_05"][0][0], "g_01", "caller of spin_05")
    check(len({json.dumps(t) for t in target.info["truth"].values()}) == 64, "two spins share a stack")
    check(target.alive() and os.path.isabs(target.info["file"]), "the target ended")


@harness.each(what=["", "ShdPnd", "stopped", "TracerPid"])
def test_what_is_left_in_a_process_is_seen(what):
    def block():
        if what == "ShdPnd":
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGURG})
    process = harness.start(["sleep", "60"], preexec_fn=block)
    if what == "ShdPnd":
        process.send_signal(signal.SIGURG)
    elif what == "stopped":
        process.send_signal(signal.SIGSTOP)
    elif what == "TracerPid":
        harness.start([harness.need_command("strace"), "-qq", "-e", "trace=none", "-p", str(process.pid)])
    harness.until(lambda: what in harness.left(process.pid) and bool(what) == bool(harness.left(process.pid)),
                  "%r is seen" % what)


def test_who_ends_while_children_are_listed_hides_no_other():
    parent = harness.start(["sh", "-c", "sleep 60 & sleep 60 & wait"])
    harness.until(lambda: len(harness.children(parent.pid)) == 3, "two children")
    first, second = harness.children(parent.pid)[1:]
    for child in first, second:
        harness.cleanup(os.kill, child, signal.SIGKILL)
    tasks = harness.tasks

    def of(pid):
        if pid == first:
            raise FileNotFoundError(pid)
        return tasks(pid)

    with mock.patch.object(harness, "tasks", of):
        equal(harness.children(parent.pid), [parent.pid, second], "who is left")


TRACED = """\
7 pread64(3</a>,  <unfinished ...>
8  fork( <unfinished ...>
9 <... execve resumed>) = 0
7 <... pread64 resumed>"\\177ELF", 16384, 0) = 16384
8  <... fork resumed>) = 9
7 pread64(3</b>, "", 8, 0) = 0
7 pread64(3</c>,  <unfinished ...>
"""


def test_halves_of_a_call_in_strace_are_one_line():
    equal(harness.strace_calls(TRACED),
          ['7 pread64(3</a>,"\\177ELF", 16384, 0) = 16384', "8  fork() = 9", "9 <... execve resumed>) = 0",
           '7 pread64(3</b>, "", 8, 0) = 0', "7 pread64(3</c>,"], "calls")


@harness.each(n=[(10, ""), (11, "again"), (28, "again"), (29, "wrong"), (6, "again", 0), (7, "wrong", 0)])
def test_what_is_rare_is_judged_at_once_if_it_is_too_much(n):
    how_many, word, most = (*n, 10)[:3]
    try:
        harness.rare(how_many, most, "%d", how_many)
        said = ""
    except harness.Spoilt:
        said = "again"
    except AssertionError:
        said = "wrong"
    equal(said, word, "what is said of %d, where %d may be" % (how_many, most))


SLOW_CC = """#!/bin/sh
sleep 0.3
exec %s "$@"
"""


@harness.one_python
def test_a_module_is_built_once_for_all_who_want_it(py):
    """Also where two want it at once: each finds the file that is there at the end."""
    where, commands = harness.folder(), harness.folder()
    with open(os.path.join(commands, "cc"), "w") as file:
        os.fchmod(file.fileno(), 0o755)
        file.write(SLOW_CC % harness.need_command("cc"))

    def number(_):
        return os.stat(os.path.join(harness.extension(py, "probed", where), harness.module_file(py, "probed"))).st_ino

    with mock.patch.dict(os.environ, PATH=commands + ":" + os.environ["PATH"]), futures.ThreadPoolExecutor(2) as two:
        numbers = set(two.map(number, range(2)))
    equal(numbers, {number(0)}, "the file's numbers")
