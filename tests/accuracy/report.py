# SPDX-License-Identifier: MIT
"""What tools/accuracy found, as Markdown tables, and the place in docs/ACCURACY.md where they stand."""
import os
import platform
import subprocess
import time


def marks(part):
    """The lines between which a part of a document is written anew."""
    return "<!-- %s begins -->\n" % part, "<!-- %s ends -->\n" % part


BEGIN, END = marks("tools/accuracy")


def many(n):
    return "{:,}".format(n).replace(",", " ")


def part(n, of):
    return "%.*f %%" % (1 if n < 0.999 * of else 2, 100 * n / of) if of else "-"


def of(n, all_of):
    return "**0** of %s" % many(all_of) if not n and all_of else "%s of %s" % (many(n), many(all_of)) if all_of else "-"


def table(head, rows):
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines) + "\n"


HEAD = "", "samples", "called right", "failed", "not what the native leaf tells", "impossible stacks", "wrong lines"


def by_profiler(pools):
    """pools: {profiler: Tally}"""
    rows = [(name, many(t.samples), part(t.sure, t.samples), many(round(t.failed)) if t.failed else "0",
             of(t.wrong, t.leaves), of(t.impossible, t.judged), of(t.line, t.judged)) for name, t in pools.items()]
    return table(HEAD, rows)


def by_case(cases, names, pools):
    """pools: {(profiler, case): Tally}"""
    def cell(tally):
        return of(tally.mistakes(), max(tally.judged, tally.leaves)) if tally else "-"
    return table(("", *names), [(case, *(cell(pools.get((name, case))) for name in names)) for case in cases])


def distances(cases, names, pools, shares):
    """pools: {(profiler, case): Tally}, shares: {case: {(case, path): share}}"""
    def cell(tally, case):
        return "%.2f %% (%.2f)" % tuple(100 * d for d in tally.distance(shares[case])) if tally else "-"
    return table(("", *names), [(case, *(cell(pools.get((name, case)), case) for name in names)) for case in cases])


def sure(axis, columns, pools, title):
    """How many samples are called right; pools: {(row, column): Tally}"""
    def cell(tally):
        return part(tally.sure, tally.samples) if tally else "-"
    return table((title, *("%s threads" % c if c > 1 else "1 thread" for c in columns)),
                 [(row, *(cell(pools.get((row, column))) for column in columns)) for row in axis])


def commit():
    """What was measured, with a + where files are not as committed; unknown in a tarball."""
    done = subprocess.run(["git", "describe", "--always", "--dirty=+", "--exclude=*"], cwd=os.path.dirname(__file__),
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() or "unknown"


def head(where, command):
    """When and what was measured, and how."""
    return "%s, commit %s, %s:\n\n```\n%s\n```\n" % (time.strftime("%Y-%m-%d"), commit(), where, command)


def machine():
    return "%d CPUs, Linux %s, %s" % (os.cpu_count(), platform.release().partition("-")[0],
                                      "root" if os.geteuid() == 0 else "an ordinary user")


def write(path, text, part="tools/accuracy"):
    """Replaces what stands between the two marker lines of that part."""
    begins, ends = marks(part)
    with open(path) as file:
        before, begin, rest = file.read().partition(begins)
    _, end, after = rest.partition(ends)
    if not begin or not end:
        raise SystemExit("%s has no lines %s and %s" % (path, begins.strip(), ends.strip()))
    with open(path, "w") as file:
        file.write(before + begins + text + ends + after)
