"""Servers that fork in C, and states that bear another thread's number: who runs Python has Python frames."""
import os
import re
import socket
import subprocess
import urllib.request

import harness
import tolerances
from harness import Skip, Target, all_right, check, each, each_python, enough, need_fifo, not_quick, one_python, seconds

BESIDE = True

EVAL = "_PyEval_EvalFrameDefault"
MATRIX = harness.every_pair()


class Embedded(Target):
    """tests/targets/embedfork.c with the library of a Python; child: the process to look at."""

    def __init__(self, py, how):
        command = harness.embedding(py, "embedfork")
        self.py = harness.Python(py.tag, command[0])
        self.py.command = lambda: command[:-1]
        super().__init__(self.py, command[-1], how)
        self.child = int(self.line("CHILD"))


def seen_by_nobody(stacks):
    """Samples without a Python frame and without a mark that have an evaluation loop."""
    return [frames for frames, _ in harness.sure(stacks)
            if any(f.startswith(EVAL) for f in frames) and not harness.python_frames(frames)]


def has_its_stacks(py, how):
    target = Embedded(py, how)
    target.pid = target.child
    run, verdict, _ = harness.exact(target, "-F", 1999, seconds=1)
    all_right(verdict, run)
    run, _, stacks = harness.exact(target, "-F", 1999, "--no-native", seconds=1)
    names = [[q for q, _, _ in harness.python_frames(frames)] for frames, _ in stacks]
    wrong = [found for found in names if found[-2:] != ["serve", "work"] and found[-2:] != ["<module>", "serve"]]
    check(not wrong, "wrong stacks: %s: %s", wrong[:3], run)
    enough(harness.total(stacks) > 30, "too few samples: %s", run)
    text = harness.pysampled("dump", "-p", target.child).ok().out
    check("    serve (<string>:5)\n" in text and "[no Python]" not in text, "dump: %s", text)


@each_python
def test_the_child_of_a_child_forked_in_c_has_its_stacks(py):
    """Its state bears the number of another process's thread for ever."""
    need_fifo()
    has_its_stacks(py, "chain")


@one_python
def test_the_child_of_a_thread_that_forks_in_c_has_its_stacks(py):
    need_fifo()
    has_its_stacks(py, "thread")


def has_nobody_elses(py, how):
    """Who runs C alone has no Python frames; the run, the stacks and the truth."""
    target = Embedded(py, how)
    out = os.path.join(harness.folder(), "out.folded")
    run = harness.pysampled("-p", target.child, "-d", 1, "-F", 1999, "--native=full", "--hold-budget", 100, "-o", out).ok()
    stacks = harness.read_folded(out)
    alone = [frames for frames, _ in stacks if frames[-1] == "outside"]
    check(not any(map(harness.python_frames, alone)), "frames of others: %s: %s", alone[:3], run)
    enough(alone, "no sample outside Python: %s", run)
    check(not seen_by_nobody(stacks), "not seen: %s", seen_by_nobody(stacks)[:3])
    enough(run.n("torn") <= tolerances.TORN_SERVER * run.n("samples"), "torn: %s", run)
    return run, stacks, target.info["truth"]


@each_python
def test_a_state_that_is_handed_over_is_the_other_threads(py):
    need_fifo()
    run, stacks, truth = has_nobody_elses(py, "handed")
    all_right(harness.judge(harness.sure(stacks), truth), run, share=0.1)


@one_python
def test_what_a_thread_left_at_a_fork_is_nobodys(py):
    need_fifo()
    has_nobody_elses(py, "stale")


@each_python
def test_states_that_another_thread_made(py):
    need_fifo()
    target = Target(py, "handed.py")
    if not target.info["can"]:
        raise Skip("no _xxsubinterpreters")
    run, verdict, stacks = harness.exact(target, "-F", 1999, "--threads", seconds=1)
    all_right(verdict, run)
    text = harness.pysampled("dump", "-p", target.pid, "--no-native").ok().out
    for thread in re.split(r"^Thread ", text, flags=re.M)[1:]:
        modules = thread.count("<module>")
        check(modules == 1 or thread.count("outer") >= modules - 1, "frames of several threads: %s", thread)
        check(thread.startswith("%d " % target.pid) or modules <= 1, "more than one interpreter's frames: %s", thread)


APP = """
import time
def burn(n):
    x = 0
    for i in range(n):
        x += i * i
    return x
def application(environ, start_response):
    end = time.process_time() + 0.01
    while time.process_time() < end:
        burn(2000)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]
"""
UWSGI = {"processes": ["--master", "--processes", 2], "threads": ["--master", "--processes", 2, "--threads", 2],
         "lazy": ["--master", "--processes", 2, "--lazy-apps"], "single": [], "emperor": []}


def free_port():
    """One that is given to nobody else meanwhile: a socket of ours keeps it, which does not listen."""
    keeps = socket.socket()
    harness.cleanup(keeps.close)
    keeps.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    keeps.bind(("127.0.0.1", 0))
    return keeps.getsockname()[1]


def uwsgi(py, mode, where, port):
    """The command: uWSGI in one of its ways, with an application of ours."""
    program = os.path.join(os.path.dirname(harness.venv(py, "uwsgi")), "uwsgi")
    options = ["--http-socket", "127.0.0.1:%d" % port, "--wsgi-file", os.path.join(where, "app.py"), "--need-app",
               "--disable-logging", "--die-on-term", "--reuse-port"] + UWSGI[mode]
    if mode != "emperor":
        return [program] + [str(option) for option in options]
    vassals = os.path.join(where, "vassals")
    os.mkdir(vassals)
    harness.write(os.path.join(vassals, "app.ini"), "[uwsgi]\nmaster = 1\nprocesses = 2\n"
                  "http-socket = 127.0.0.1:%d\nreuse-port = 1\nwsgi-file = %s/app.py\nneed-app = 1\ndisable-logging = 1\n" % (port, where))
    return [program, "--emperor", vassals, "--die-on-term"]


def is_asked(port):
    try:
        with urllib.request.urlopen("http://127.0.0.1:%d/" % port, timeout=20) as answer:
            return answer.read() == b"ok"
    except OSError:
        return False


ASK = """
import sys, urllib.request
while True:
    urllib.request.urlopen(sys.argv[1], timeout=20).read()
"""


@not_quick
@seconds(300)
@each(mode=list(UWSGI) if MATRIX else ["processes"])
@each(py=[py for py in harness.wanted_pythons() if not py.tag.startswith("debian")][:3 if MATRIX else 1])
def test_uwsgi(py, mode):
    """Its workers are forked in C. Built from its source, which takes a minute: with --matrix only."""
    need_fifo()
    if not MATRIX:
        raise Skip("with --matrix only")
    where, port = harness.folder(), free_port()
    harness.write(os.path.join(where, "app.py"), APP)
    server = harness.start(uwsgi(py, mode, where, port), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, cwd=where, env=harness.plain_env())
    harness.cleanup(server.terminate)
    harness.until(lambda: is_asked(port), "an answer")
    for _ in range(2):
        harness.start(["python3", "-c", ASK, "http://127.0.0.1:%d/" % port], stderr=subprocess.DEVNULL)
    pids = [str(pid) for pid in harness.children(server.pid) if mode != "emperor" or pid != server.pid]
    out = os.path.join(where, "out.folded")
    run = harness.pysampled("-p", ",".join(pids), "-d", 2, "-F", 499, "--native=full", "-o", out).ok()
    stacks = harness.read_folded(out)
    with_eval = [(frames, n) for frames, n in stacks if any(f.startswith(EVAL) for f in frames)
                 or harness.python_frames(frames)]
    named = sum(n for frames, n in with_eval if harness.python_frames(frames))
    enough(named >= (1 - tolerances.TORN_SERVER) * harness.total(with_eval), "%d of %d: %s", named, harness.total(with_eval), run)
    check(not seen_by_nobody(stacks), "not seen: %s", seen_by_nobody(stacks)[:3])
    enough(named > 50, "only %d with frames: %s", named, run)
    harness.until(lambda: any("application (%s" % where in harness.pysampled("dump", "-p", pid).out for pid in pids),
                  "dump sees a request")
