"""tools/mutate: a test that fails or hangs without the mutant too does not kill it; which mutants nobody could notice;
what must run for one to matter."""
import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
sys.dont_write_bytecode = True

from mutation import lab, source  # noqa: E402

lab.SLOWEST, lab.SLOWER = 1, 5  # they sleep most of it
MUTANT = 'test "$LD_LIBRARY_PATH" = /plain || '
CASES = [
    ("true", None),
    ("exit 77", None),
    (MUTANT + "exit 1", ""),
    (MUTANT + "sleep 600", " (hung)"),
    ("exit 1", None),
    ("sleep 600", None),
]
LISTED = {("a.c", "one", "x", "y"): "it", ("a.c", "all", "", ""): "each of them"}
MUTANTS = [("one", "x", "y", "it"), ("one", "x", "z", None), ("all", "x", "z", "each of them"), ("none", "x", "y", None)]
CODE = "{\n\tstatic const int a[] = { 7, 8 };\n\tint b = 9;\n\n\treturn b;\n}\n"
LINES = [("8", None), ("9", (3, 3))]  # which must run for a change there to matter; None: it is a table


def noticed(script):
    place = lab.Lab.__new__(lab.Lab)
    place.own, place.meson = [], "/"
    return place.noticed(lab.Test("it", "it", []), ["sh", "-c", script], collections.defaultdict(int), "/mutant", "/plain")


def why(function, before, after):
    return source.equivalent(LISTED, source.Mutant("a.c", function, "condition", 0, 1, "", before, after, None))


def finds_nothing_of_another():
    """What one test left in /tmp the next one does not see, where a test has a /tmp of its own."""
    own, path = lab.namespace(), "/tmp/mutation_test.%d" % os.getpid()
    ends = [lab.run(own + ["sh", "-c", "test ! -e %s && touch %s" % (path, path)], None, 60, "/") for _ in range(2)]
    left = os.path.exists(path)
    if left:
        os.unlink(path)
    return not own or not left and all(status == 0 for status, _ in ends)


failed = [script for script, want in CASES if noticed(script) != want]
failed += [what for what, want in LINES
           if source.statement_lines(CODE, CODE.index(what), CODE.index(what) + 1) != want]
failed += [str(m) for m in MUTANTS if why(*m[:3]) != m[3]]
failed += [] if finds_nothing_of_another() else ["what another test left"]
for case in failed:
    print("[  FAILED  ] " + case)
print("[  PASSED  ] %d test(s)." % (len(CASES) + len(MUTANTS) + len(LINES) + 1 - len(failed)))
sys.exit(bool(failed))
