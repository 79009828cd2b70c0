"""The scripts in tools/: what they say of programs that are made up, and of machines that are not a Debian's root."""
import glob
import os

import harness
from harness import equal
from test_tables import tool

BESIDE = True


# ---- tools/fuzz -------------------------------------------------------------------------------------------------------

def test_each_target_of_the_fuzzers_has_a_plant():
    files = glob.glob(os.path.join(harness.ROOT, "tests", "fuzz", "fuzz_*.c"))
    equal({name.split(".")[0] for name in tool("fuzz").PLANTS}, {os.path.basename(path)[5:-2] for path in files}, "targets")
