"""--mode: what of a thread's time is recorded."""
import os

import harness
from harness import Target, check, each, enough, equal, one_python

# Their layouts do not tell who has the GIL: 2.7's lock is another thing, 3.6 has it in variables without an exported name.
UNTOLD = ("2.7.", "3.6.")


def stacks(path):
    with open(path) as file:
        return [(line.rpartition(" ")[0].split(";"), int(line.rpartition(" ")[2])) for line in file]


def count(found, name):
    return sum(n for frames, n in found if any(frame.startswith(name + " (") for frame in frames))


@each(py=harness.wanted_pythons() + harness.older_pythons())
@harness.dealt
def test_gil_keeps_samples_of_its_holder(py):
    target = Target(py, "gilshares.py", extensions=())
    home = harness.folder()
    if py.tag.startswith(UNTOLD):
        harness.refused(3, "-p", target.pid, "--mode", "gil", "-d", 1, about=["--mode gil", py.tag[:3]], home=home)
        return
    run = harness.pysampled("-p", target.pid, "--mode", "gil", "-d", 2, "-v", "-o", "a.folded", home=home).ok()
    found = stacks(os.path.join(home, "a.folded"))
    equal(sum(n for _, n in found), run.n("samples"), "samples in folded")
    # It takes the GIL for an instant between two digests.
    with_gil, without = count(found, "with_gil"), count(found, "without_gil")
    check(without * 20 <= with_gil, "%d samples of the holder, %d of who has let go", with_gil, without)
    enough(with_gil >= 10 and run.counter("gil_none") >= 10, "too few samples: %s", run)


def test_what_a_mode_does_not_go_with_is_refused():
    for words, about in (("--mode x", "--mode"), ("--mode gil --any", "--any"), ("--mode gil -o a.tape", "tape")):
        harness.refused(2, "-p", os.getpid(), *words.split(), about=[about])


@one_python
def test_cpu_is_the_default(py):
    target = Target(py, "gilshares.py", extensions=())
    home = harness.folder()
    harness.pysampled("-p", target.pid, "--mode", "cpu", "-d", 2, "-o", "a.folded", home=home).ok()
    found = stacks(os.path.join(home, "a.folded"))
    enough(count(found, "with_gil") and count(found, "without_gil"), "both use a CPU: %s", found)
