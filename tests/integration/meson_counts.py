"""Counts the tests of a meson test run, each of cmocka's: meson_counts.py BUILD-FOLDER COUNTS-FILE STATUS PROGRAM...

Prints one line for each failure and skip and writes "passed failed skipped" into COUNTS-FILE, with the failures below.
STATUS is meson's: other than 0 it has to have a failure for its reason. Each PROGRAM has to have run.
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


def read_log(folder):
    """What meson wrote of each program that ran."""
    try:
        with open(os.path.join(folder, "meson-logs", "testlog.json")) as log:
            return [json.loads(line) for line in log]
    except OSError:
        return []


def main(folder, counts_file, status, *programs):
    totals, failures, ran = [0, 0, 0], [], read_log(folder)
    for test in ran:
        counts = count(test)
        totals = [a + b for a, b in zip(totals, counts)]
        print("%s %s (%d)" % ("FAIL" if counts[1] else "ok", test["name"], counts[0]))
        if counts[1]:
            failures.append("FAIL %s in %s\n" % (test["name"], folder))
            print((test.get("stdout") or "") + (test.get("stderr") or ""))
        if counts[2]:
            print("SKIP %s: %d tests said so" % (test["name"], counts[2]))
    missing = set(programs) - {test["name"].rpartition(" / ")[2] for test in ran}
    complaints = ["FAIL %s in %s did not run\n" % (name, folder) for name in sorted(missing)]
    if status != "0" and not failures + complaints:
        complaints.append("FAIL meson test in %s: status %s, though no test failed\n" % (folder, status))
    print("".join(complaints), end="")
    totals[1] += len(complaints)
    with open(counts_file, "w") as out:
        out.write("%d %d %d\n" % tuple(totals) + "".join(failures + complaints))


main(*sys.argv[1:])
