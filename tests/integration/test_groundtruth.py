"""Every stack marked exact is the true one: the sampled native function tells which Python lines were running."""
import os
import signal
import threading

import harness
import tolerances
from harness import Recorder, Target, all_right, check, each, each_python, enough, equal, exact, judge, need_fifo, \
    not_quick, one_python, rare

BESIDE = True


@each(us=[2, 10, 100])
@each(rate=[99, 999, 4999])
@each_python
@not_quick
def test_preempt_is_always_right(py, rate, us):
    need_fifo()
    target = Target(py, "groundtruth.py", "--us", us)
    run, verdict, _ = exact(target, "-F", rate, seconds=2 if rate < 999 else 0.7)
    harness.equal(run.summary["capture"], "preempt", "capture")
    all_right(verdict, run)
    enough(run.n("exact") >= tolerances.EXACT * run.n("samples") - 1, "too few are exact: %s", run)


@each(py=harness.older_pythons())
def test_pythons_before_3_11_are_right(py):
    need_fifo()
    target = Target(py, "groundtruth.py", "--us", 10, "--depth", 50)
    run, verdict, _ = exact(target, "-F", 999, seconds=0.7)
    all_right(verdict, run)
    enough(run.n("exact") >= tolerances.EXACT * run.n("samples") - 1, "too few are exact: %s", run)


@each(py=[harness.python_2_7()])
def test_python_2_7_is_right(py):
    """Each leaf has one caller, each line of a caller one leaf."""
    need_fifo()
    target = harness.start(py.command() + [os.path.join(harness.TARGETS, "pairs27.py")], stdout=harness.subprocess.PIPE)
    truth = harness.json.loads(target.stdout.readline().decode().partition(" ")[2])["truth"]
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "-F", 1999, "-d", 2, "-o", "a.folded", "--provenance", "exact", home=home).ok()
    judged = 0
    for frames, count in harness.read_folded(os.path.join(home, "a.folded")):
        got = [(name, line) for name, _, line in reversed(harness.python_frames(frames))]
        if not got[0][0].startswith("leaf_"):
            check(got[0][0] in ("run", "Random.randrange", "randrange", "<module>") or got[0][0].startswith("call_"), "%s", got)
            continue
        (first, last), caller, root = truth[got[0][0]]
        check(first <= got[0][1] <= last, "line of %s", got)
        equal(got[1:3], [(got[0][0].replace("leaf", "call"), caller), ("run", root)], "callers of %s in %s" % (got, run))
        equal([name for name, _ in got[3:]], ["<module>"], "root of %s" % got)
        judged += count
    enough(judged > 500, "only %d of their leaf: %s", judged, run)
    enough(run.n("exact") >= tolerances.EXACT * run.n("samples") - 1, "too few are exact: %s", run)
    return "%d stacks" % judged


@harness.dealt
@each(us=[2, 100])
@each(rate=[99, 1999])
@each_python
@not_quick
def test_events_on_cpus_are_right(py, rate, us):
    """Who ran is told by a table that the kernel keeps, not by records."""
    need_table()
    target = Target(py, "groundtruth.py", "--us", us, "--threads", 3)
    run, verdict, _ = exact(target, "-F", rate, "--events-on", "cpus", seconds=2 if rate < 999 else 0.7)
    all_right(verdict, run)
    enough(run.n("exact") >= tolerances.EXACT * run.n("samples") - 1, "too few are exact: %s", run)


@each(capture=["cpus", "threads"])
@each(rate=[199, 1999])
@each_python
@not_quick
def test_threads_that_migrate_all_the_time_are_right(py, rate, capture):
    """Each is moved to another CPU a thousand times a second, also while it is read."""
    need_table()
    target = Target(py, "groundtruth.py", "--us", 2)
    with Moving(harness.tasks(target.pid)) as moving:
        run, verdict, _ = exact(target, "-F", rate, "--events-on", capture, seconds=2)
    all_right(verdict, run)
    enough(moving.n > 200, "moved only %d times", moving.n)


@each(where=["cpus", "threads"])
@one_python
def test_two_recordings_at_once_do_not_disturb_each_other(py, where):
    """The kernel may mix up the ids of software events that happen at the same moment."""
    need_table()
    one, other = (Target(py, "groundtruth.py", "--us", 10) for _ in range(2))
    beside = Recorder("-p", other.pid, "-e", "cpu-clock", "-F", 499, "--events-on", where, "-o", "beside.folded")
    beside.attached()
    run, verdict, _ = exact(one, "-F", 499, "-v", "--events-on", where, seconds=2)
    beside.signal(signal.SIGINT)
    other_run = beside.wait(20).ok()
    equal(run.counter("unknown"), 0, "records with the id of the other's event")
    all_right(verdict, run)
    for each_run in (run, other_run):
        enough(each_run.n("exact") >= tolerances.EXACT_BESIDE * each_run.n("samples"), "too few are exact: %s", each_run)


class Moving:
    """Moves threads from CPU to CPU until it is left; n: how often."""

    def __init__(self, tids):
        self.tids, self.n, self.ends = tids, 0, threading.Event()
        self.thread = threading.Thread(target=self.move)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()

    def move(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            return
        while not self.ends.wait(0.001):
            for tid in self.tids:
                try:
                    os.sched_setaffinity(tid, {cpus[self.n % len(cpus)]})
                except ProcessLookupError:
                    continue
                self.n += 1


def need_table():
    """Events on CPUs with the table take CAP_BPF and Linux 5.5."""
    need_fifo()
    if os.geteuid() != 0:
        raise harness.Skip("not root: no BPF")


@each_python
def test_a_short_run_is_right(py):
    target = Target(py, "groundtruth.py", "--us", 10)
    run, verdict, stacks = exact(target, "-F", 999)
    if harness.can_fifo():
        all_right(verdict, run)
    files = {f for frames, _ in stacks for q, f, _ in harness.python_frames(frames) if q.startswith(("f_", "g_"))}
    check(files <= {os.path.basename(target.info["file"])}, "another file: %s", files)


@harness.alone
@each(us=[2, 100])
@each_python
@not_quick
def test_async_is_right_where_it_says_exact(py, us):
    target = Target(py, "groundtruth.py", "--us", us)
    run, verdict, _ = exact(target, "-F", 999, "--capture", "async", seconds=1)
    harness.equal(run.summary["capture"], "async", "capture")
    no_mistake_in_many(verdict)


def no_mistake_in_many(verdict):
    """What async can call exact is the scheduler's to say."""
    check(verdict.right == verdict.judged, "wrong stacks among those marked exact: %s", verdict)
    if verdict.judged < 30:
        raise harness.Skip("only %d stacks could be judged" % verdict.judged)


@one_python
@not_quick
def test_an_unchecked_read_is_found_wrong(py):
    """The same judge, on the plain read after wake-up: 1 % to 99 % are wrong, as the scheduler places the reader."""
    target = Target(py, "groundtruth.py", "--us", 2)
    run, verdict, _ = exact(target, "-F", 999, "--capture", "async", binary=harness.UNCHECKED)
    enough(verdict.judged >= 50, "only %d judged: %s", verdict.judged, run)
    enough(verdict.right < verdict.judged - 2, "the plain read was right: %s", verdict)


@each(depth=[100, 900])
@each_python
@not_quick
def test_deep_stacks_are_right_and_whole(py, depth):
    target = Target(py, "groundtruth.py", "--us", 20, "--depth", depth)
    run, verdict, stacks = exact(target, "-F", 499, seconds=1)
    if harness.can_fifo():
        all_right(verdict, run)
    for frames, count in stacks:
        deep = sum(q == "deep" for q, _, _ in harness.python_frames(frames))
        if frames[-1].startswith("spin_"):
            harness.equal(deep, depth + 1, "frames of deep()")


@one_python
def test_stacks_above_max_frames_are_cut_counted_and_exact(py):
    target = Target(py, "groundtruth.py", "--us", 20, "--depth", 3000)
    run, verdict, stacks = exact(target, "-F", 199, most=500)
    check(run.n("truncated") > 0.9 * run.n("exact"), "truncated stacks were not counted: %s", run)
    if harness.can_fifo():
        all_right(verdict, run)
    longest = max(len(harness.python_frames(frames)) for frames, _ in stacks)
    check(longest <= 500, "%d Python frames", longest)


@one_python
@not_quick
def test_a_stack_of_3000_is_whole_with_max_frames_8000(py):
    target = Target(py, "groundtruth.py", "--us", 20, "--depth", 3000)
    out = os.path.join(harness.folder(0o777), "out.folded")
    run = harness.pysampled("-p", target.pid, "-d", 3, "-F", 99, "--max-frames", 8000, "--hold-budget", 100, "-o", out).ok()
    stacks = harness.sure(harness.read_folded(out))
    all_right(judge(stacks, target.info["truth"]), run)
    harness.equal(run.n("truncated"), 0, "truncated")
    if harness.can_fifo():
        enough(run.n("exact") >= 0.9 * run.n("samples"), "deep stacks are not exact: %s", run)
    depths = {sum(q == "deep" for q, _, _ in harness.python_frames(frames)) for frames, _ in stacks
              if frames[-1].startswith("spin_")}
    harness.equal(depths, {3001}, "frames of deep()")


@each_python
def test_threads_are_kept_apart_and_right(py):
    target = Target(py, "groundtruth.py", "--us", 100, "--threads", 4)
    run, verdict, stacks = exact(target, "-F", 999, "--threads")
    if harness.can_fifo():
        all_right(verdict, run)
    tids = {int(frames[0].rpartition("-")[2]) for frames, _ in stacks}
    theirs = set(harness.tasks(target.pid))
    check(tids <= theirs, "threads %s of %s", tids, theirs)
    enough(len(tids) >= 4, "only threads %s of %s", tids, theirs)


@each_python
def test_generators_coroutines_classes_and_callbacks_are_right(py):
    target = Target(py, "mixed.py", "--us", 20)
    run, verdict, _ = exact(target, "-F", 999, seconds=2)
    if harness.can_fifo():
        all_right(verdict, run)


def entries_wrong(stacks, info):
    """Pairs of frames that can't follow one another: the line that calls C, that C, and the function it calls back."""
    wrong = []
    for frames, _ in stacks:
        frames = harness.user_frames(frames)
        places = [harness.python_frame(frame) for frame in frames]
        python = [place for place in places if place]
        for (name, _, line), (callee, _, _) in zip(python, python[1:]):
            if name in info["calls"] and (callee, line) != (info["calls"][name], info["lines"][name]):
                wrong.append((name, line, callee))
        for i, frame in enumerate(frames):
            callers = [name for name, names in info["c"].items() if frame in names]
            caller = [place[0] for place in places[:i] if place][-1:]
            if callers and caller and caller[0] not in callers:
                wrong.append((caller, frame))
    return wrong


@each_python
def test_where_c_enters_python_the_caller_is_known(py):
    need_fifo()
    target = Target(py, "entries.py", extensions=())
    out = os.path.join(harness.folder(), "out.folded")
    recorder = Recorder("-p", target.pid, "-F", 1999, "-v", "--capture", "preempt", "--hold-budget", 100, "-o", out).attached()
    harness.works_for_a_while(target.pid, 3, 20)
    run = recorder.signal(signal.SIGINT).wait().ok()
    stacks = harness.sure(harness.read_folded(out))
    wrong = entries_wrong(stacks, target.info)
    check(not wrong, "%d wrong: %s: %s", len(wrong), wrong[:5], run)
    torn = sum(run.counter("torn_" + why) for why in ("fault", "broken", "badcode"))
    rare(torn, 1 + tolerances.TORN_AT_ENTRY * run.n("samples"), "%d torn: %s", torn, run)
    enough(run.n("exact") > 500, "too few are exact: %s", run)
    return "%d torn of %d" % (torn, run.n("samples"))


@each_python
def test_threads_that_live_for_milliseconds_are_right(py):
    target = Target(py, "churn.py")
    run, verdict, _ = exact(target, "-F", 999, seconds=2)
    if harness.can_fifo():
        all_right(verdict, run)


@each_python
def test_a_reused_code_object_never_gets_a_wrong_name(py):
    target = Target(py, "execreuse.py", "--us", 100)
    target.line("REUSED")
    run, verdict, _ = exact(target, "-F", 1999, seconds=2)
    if harness.can_fifo():
        all_right(verdict, run)


@harness.alone
@one_python
@not_quick
def test_the_same_names_in_the_async_capture(py):
    target = Target(py, "execreuse.py", "--us", 300)
    run, verdict, _ = exact(target, "-F", 1999, "--capture", "async", seconds=3)
    no_mistake_in_many(verdict)


@each_python
def test_page_faults_lie_on_the_faulting_line(py):
    """Of native stores the faulting function tells the line; a line of Python's own faults as often as it must."""
    target = Target(py, "pagefaults.py", "--pages", 200, "--pause-us", 30)
    out = os.path.join(harness.folder(), "out.folded")
    recorder = Recorder("-p", target.pid, "-e", "page-faults", "-c", 1, "--hold-budget", 100, "-o", out).recording()
    target.say("go")
    target.line("DONE")
    target.say("end")
    run = recorder.wait().ok()
    stacks = harness.read_folded(out)
    sure = harness.sure(stacks)
    verdict = judge(sure, target.info["truth"])
    faults = 16 * target.info["pages"]
    check(verdict.right == verdict.judged, "wrong lines of native faults: %s", verdict)
    check_python_faults(sure, target)
    enough(verdict.judged >= 0.95 * faults, "%d of %d native faults were seen and sure: %s", verdict.judged, faults, run)
    return "%s, of %d native faults" % (verdict, faults)


@harness.dealt
@each(capture=["preempt", "async"])
@each_python
def test_context_switches_lie_on_the_sleeping_line(py, capture):
    """Also beside the witness, which is an event of the same kind."""
    if capture == "preempt":
        need_fifo()
    target = Target(py, "grammars.py", "nap", "--us", 100, "--threads", 2)
    harness.keep_busy()
    run, verdict, stacks = exact(target, "-e", "context-switches", "-c", 1, "--capture", capture,
                                 seconds=1)
    all_right(verdict, run, share=0.2, least=100)
    enough(capture == "async" or run.n("exact") > tolerances.EXACT_SIGNALLED * run.n("samples"), "too few are exact: %s", run)
    asleep = sum(n for frames, n in stacks if user_leaf(frames).startswith("doze_"))
    enough(asleep > 100, "only %d samples of sleeps: %s", asleep, run)
    return str(verdict)


@one_python
def test_samples_beside_context_switches_keep_their_witness(py):
    need_fifo()
    run, verdict, stacks = exact(Target(py, "grammars.py", "nap", "--us", 100), "-e", "context-switches,cpu-clock", "-F",
                                 999, seconds=1)
    all_right(verdict, run)
    seen = {user_leaf(frames)[:5] for frames, _ in stacks}
    enough({"spin_", "doze_"} <= seen, "one of the two events is missing: %s", seen)


@one_python
def test_a_period_of_page_faults_takes_one_of_so_many(py):
    target = Target(py, "pagefaults.py", "--pages", 1000, "--pause-us", 0)
    recorder = Recorder("-p", target.pid, "-e", "page-faults", "-c", 100, "-o", "a.folded").attached()
    target.say("go")
    target.line("DONE")
    target.say("end")
    run = recorder.wait().ok()
    want = 16 * target.info["pages"] / 100
    check(0.9 * want <= run.n("samples") <= 2.2 * want, "want %d: %s", want, run)


def check_python_faults(stacks, target):
    by_line = {}
    for frames, count in stacks:
        python = harness.python_frames(frames)
        if python and user_leaf(frames) not in target.info["truth"]:
            key = python[-1][0], python[-1][2]
            by_line[key] = by_line.get(key, 0) + count
    want = {(name, line) for name, line in target.info["lines"].items()}
    stores = sum(n for key, n in by_line.items() if key in want)
    others = sum(n for key, n in by_line.items() if key[0].startswith("t_") and key not in want)
    faults = 16 * target.info["pages"]
    equal(others, 0, "faults on other lines than those that fault: %s" % by_line)
    for key in want:
        check(by_line.get(key, 0) <= target.info["pages"], "%s: too many: %s", key, by_line)
    enough(stores >= 0.95 * faults, "%d of %d Python faults lie on their line: %s", stores, faults, by_line)


def user_leaf(frames):
    frames = harness.user_frames(frames)
    return frames[-1] if frames else ""
