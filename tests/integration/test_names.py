"""Threads are called what the program calls them, in every output: threading.Thread.name."""
import collections
import os
import re
import signal

import harness
from harness import Target, check, each, equal

BESIDE = True

NAME_BYTES = 127
BAD = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def shown(name):
    """As an output shows it: a control character is a question mark, and what is too long is cut."""
    return BAD.sub("?", name).encode()[:NAME_BYTES].decode(errors="ignore")


def dumped_names(text):
    """{thread id: name} of a dump."""
    return dict(re.findall(r'^Thread (\d+) \(.*?\): "(.*)"$', text, re.M))


@each(py=harness.wanted_pythons() + harness.older_pythons() + [harness.python_2_7()])
def test_dump_tells_the_names_of_threads(py):
    """Up to 3.7 a Thread does not know the kernel's number of its own."""
    target = Target(py, "threadnames27.py", extensions=()) if py.tag.startswith("2.7") else Target(py, "threadnames.py")
    run = harness.pysampled("dump", "-p", target.pid).ok()
    want = {tid: shown(name) for tid, name in target.info["names"].items()}
    want[str(target.pid)] = target.info["main"]
    equal(dumped_names(run.out), want, "names of threads")
    target.say("rename")
    target.line("RENAMED")
    run = harness.pysampled("dump", "-p", target.pid).ok()
    check(all(dumped_names(run.out)[tid].startswith("renamed-") for tid in target.info["names"]), "old names: %s", run.out)


@each(py=(harness.wanted_pythons() if harness.every_pair() else [harness.newest_python()])
      + [py for py in harness.older_pythons() if py.tag.startswith("3.7")])
def test_a_recording_tells_the_names_of_threads(py):
    """Of those that are there, are renamed, and live for 50 ms of CPU time; in each output."""
    home = harness.folder()
    target = Target(py, "threadnames.py")
    recorder = harness.Recorder("-p", target.pid, "-e", "cpu-clock", "-F", 997, "--threads", "-o", "a.folded", "-o", "a.data",
                                home=home).recording()
    harness.works(target.pid, 0.5)
    brief = ["brief-%d" % i for i in range(8)]
    for name in brief:
        target.say("short " + name)
        target.line("ENDED")
    target.say("rename")
    target.line("RENAMED")
    harness.works(target.pid, 2)
    recorder.signal(signal.SIGINT).wait().ok()
    folded = collections.defaultdict(set)
    for frames, _ in harness.read_folded(os.path.join(home, "a.folded")):
        name, _, tid = frames[0].partition("/")[2].rpartition("-")
        folded[tid].add(name)
    lines = harness.perf("script", "-i", os.path.join(home, "a.data"), "-F", "comm,tid", home=home)[0].splitlines()
    perf = {tuple(line.strip().rsplit(None, 1)) for line in lines if line.strip()}
    names = {name for of_thread in folded.values() for name in of_thread}
    for tid, name in target.info["names"].items():
        check(folded[tid] <= {shown(name).replace(";", ":"), *("renamed-%d" % i for i in range(len(target.info["names"])))},
              "thread %s, %s, is called %s", tid, shown(name), folded[tid])
        harness.enough(len(folded[tid]) == 2, "thread %s is called %s alone", tid, folded[tid])
        check((shown(name).strip(), tid) in perf, "no comm %s of %s in perf script: %s", shown(name), tid, perf)
    harness.enough(len(names & set(brief)) >= len(brief) - 2, "threads of 50 ms are called %s", names)
    check({n for n, _ in perf} >= names & set(brief), "perf script lacks names: %s", perf)
    check("MainThread" not in {name for name, _ in perf}, "the process lost its name: %s", perf)


@harness.one_python
def test_a_process_that_a_named_thread_forks_has_its_processs_name(py):
    """Not none, and not the thread's."""
    home = harness.folder()
    target = Target(py, "threadnames.py")
    recorder = harness.Recorder("-p", target.pid, "-e", "cpu-clock", "-F", 997, "-o", "a.folded", "-o", "a.data",
                                home=home).recording()
    for _ in range(3):
        target.say("fork")
        target.line("ENDED")
    recorder.signal(signal.SIGINT).wait().ok()
    names = {frames[0].rpartition("-")[::2] for frames, _ in harness.read_folded(os.path.join(home, "a.folded"))}
    children = {pid for _, pid in names} - {str(target.pid)}
    harness.enough(len(children) == 3, "3 children: %s", names)
    equal({comm for comm, _ in names}, {comm for comm, pid in names if pid == str(target.pid)}, "names of processes")
