"""Counts the cmocka tests of a meson test run: meson_counts.py BUILD-FOLDER COUNTS-FILE.

Prints one line for each failure and skip and writes "passed failed skipped" into COUNTS-FILE, with the failures below.
"""
import json
import os
import re
import sys


def cmocka(output, word):
    return sum(int(n) for n in re.findall(r"\[ +%s +\] (\d+) test\(s\)" % word, output))


def count(test):
    """(passed, failed, skipped) of one executable."""
    output = (test.get("stdout") or "") + (test.get("stderr") or "")
    passed, failed, skipped = (cmocka(output, word) for word in ("PASSED", "FAILED", "SKIPPED"))
    if test["result"] in ("OK", "EXPECTEDFAIL"):
        return passed or 1, failed, skipped
    if test["result"] == "SKIP":
        return passed, failed, skipped or 1
    return passed, failed or 1, skipped


def main(folder, counts_file):
    totals, failures = [0, 0, 0], []
    with open(os.path.join(folder, "meson-logs", "testlog.json")) as log:
        for line in log:
            test = json.loads(line)
            counts = count(test)
            totals = [a + b for a, b in zip(totals, counts)]
            print("%s %s (%d)" % ("FAIL" if counts[1] else "ok", test["name"], counts[0]))
            if counts[1]:
                failures.append("FAIL %s in %s\n" % (test["name"], folder))
                print((test.get("stdout") or "") + (test.get("stderr") or ""))
            if counts[2]:
                print("SKIP %s: %d tests said so" % (test["name"], counts[2]))
    with open(counts_file, "w") as out:
        out.write("%d %d %d\n" % tuple(totals) + "".join(failures))


main(*sys.argv[1:])
