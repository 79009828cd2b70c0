"""The judges can fail: without this a green run proves nothing."""
import json
import os
import signal

import harness
from harness import check, equal

TRUTH = {"spin_05": [["g_01", 9], ["f_01", 7], ["cycle", 100]]}
RIGHT = "py-7;<module> (/a/b.py:3);cycle (/a/b.py:100);f_01 (/a/b.py:7);g_01 (/a/b.py:9);spin_05 3\n"


def verdict(text):
    return harness.judge(harness.parse_folded(text), TRUTH)


def test_judge_accepts_the_right_stack():
    equal((verdict(RIGHT).judged, verdict(RIGHT).right), (3, 3), "judged, right")


def test_judge_accepts_kernel_frames_above_the_spin():
    equal(verdict(RIGHT.replace("spin_05", "spin_05;asm_sysvec_[k];tick_[k]")).right, 3, "right")


@harness.each(wrong=["g_01|g_02", ":9|:10", "f_01|f_02", ":7|:8", ":100|:101", "cycle|cyclo",
                     "g_01 (/a/b.py:9);|", "f_01 (/a/b.py:7);|", "spin_05|[late];spin_05"])
def test_judge_sees(wrong):
    old, _, new = wrong.partition("|")
    got = verdict(RIGHT.replace(old, new))
    equal((got.judged, got.right), (3, 0), "judged, right")


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
