"""Threads are called what the program calls them, in every output: threading.Thread.name."""
import re

import harness
from harness import Target, check, each_python, equal

NAME_BYTES = 127
BAD = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def shown(name):
    """As an output shows it: a control character is a question mark, and what is too long is cut."""
    return BAD.sub("?", name).encode()[:NAME_BYTES].decode(errors="ignore")


def dumped_names(text):
    """{thread id: name} of a dump."""
    return dict(re.findall(r'^Thread (\d+) \(.*?\): "(.*)"$', text, re.M))


@each_python
def test_dump_tells_the_names_of_threads(py):
    target = Target(py, "threadnames.py")
    run = harness.pysampled("dump", "-p", target.pid).ok()
    want = {tid: shown(name) for tid, name in target.info["names"].items()}
    want[str(target.pid)] = target.info["main"]
    equal(dumped_names(run.out), want, "names of threads")
    target.say("rename")
    target.line("RENAMED")
    run = harness.pysampled("dump", "-p", target.pid).ok()
    check(all(dumped_names(run.out)[tid].startswith("renamed-") for tid in target.info["names"]), "old names: %s", run.out)
