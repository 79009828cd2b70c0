"""tools/mutate: a test that fails or hangs without the mutant too does not kill it."""
import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
sys.dont_write_bytecode = True

from mutation import lab  # noqa: E402

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


def noticed(script):
    place = lab.Lab.__new__(lab.Lab)
    place.own, place.meson = [], "/"
    return place.noticed(lab.Test("it", "it", []), ["sh", "-c", script], collections.defaultdict(int), "/mutant", "/plain")


failed = [script for script, want in CASES if noticed(script) != want]
for script in failed:
    print("[  FAILED  ] " + script)
print("[  PASSED  ] %d test(s)." % (len(CASES) - len(failed)))
sys.exit(bool(failed))
