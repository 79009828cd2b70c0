# SPDX-License-Identifier: MIT
"""What tools/bench found, as the Markdown tables of docs/PERFORMANCE.md; each kind has its columns here, for the test too."""
import re

import report
import resolve
from stats import median, median_interval, quartiles

COMPARED = ("profiler", "windows", "samples/s", "own CPU, µs a sample", "× %s", "its whole life, µs a sample", "target CPU", "target wall")
TARGET = ("target's cost of a sample, µs", "median", "quartiles", "95 % interval of the median")
TARGET_ROWS = (("event", "bare event beyond nothing, CPU"), ("jumps of event", "— by the jumps of the CPU clock"),
               ("cpu", "pysampled beyond the bare event, CPU"), ("jumps", "— by the jumps of the CPU clock, both"),
               ("wall", "pysampled beyond the bare event, wall"))
IDLE = ("profiler", "% of a CPU, busy thread alone", "beside %d idle ones", "ratio")
RESOLVER = ("µs a sample", *("%d CPUs" % cpus if cpus > 1 else "1 CPU" for cpus in resolve.CPUS), "instructions")
PARTS = ("", "CPU before the first sample, ms", "CPU, µs a sample", "system calls a sample")
MANY = ("processes × threads, busy", "profiler", "CPU of the first %d s, ms", "then % of a CPU", "samples/s")
ATTACH = ("threads, libraries, MiB", "", "first stack, ms", "× pysampled")
OPTIONS = "native", "idle", "scale", "resolver", "parts", "many", "attach"


def part(given):
    """Between which marks a command's tables stand."""
    return "".join(["tools/bench", *(" --" + name for name in OPTIONS if getattr(given, name))])


def spread(values, form):
    if not values:
        return "-"
    return (form + " (" + form + "–" + form + ")") % (median(values), min(values), max(values))


def factor(values):
    return "× %.3f" % median(values) if values else "-"


def heading(columns, name):
    """The columns of a table with a name in one of them."""
    return [column % name if "%s" in column or "%d" in column else column for column in columns]


def compared(result, versions):
    """One rate of the main table: tools/bench's result of it."""
    rows = [(name if name == "pysampled" else " ".join([name, *re.findall(r"\d[\d.]*", versions[name])[:1]]), len(row["steady"]),
             "%.0f" % median(row["rate"]), spread(row["steady"], "%.1f"), spread(row["ratio"], "%.2f"), "%.0f" % median(row["whole"]),
             factor(row["cpu"]), factor(row["wall"])) for name, row in result["rows"].items()]
    return "%d Hz, CPython %s, other programs on %s CPUs; median (least–greatest) of the rounds:\n\n%s" % (
        result["rate"], result["python"], spread(result["others"], "%.2f"), report.table(heading(COMPARED, result["reference"]), rows))


def target_cost(values):
    """What a recording costs its target; None where that was not measured."""
    if not values or not values["cpu"]:
        return None
    rows = [(what, "%.1f" % median(values[key]), "%.1f…%.1f" % quartiles(values[key]), "%.1f…%.1f" % median_interval(values[key]))
            for key, what in TARGET_ROWS if values[key]]
    return report.table(TARGET, rows)


def idle(seen):
    """{(profiler, idle threads): windows}"""
    names = dict.fromkeys(name for name, _ in seen)
    count = max(count for _, count in seen)
    def steady(name, threads):
        return [window["steady"] for window in seen[name, threads]]
    rows = [(name, "%.2f" % median(steady(name, 0)), "%.2f" % median(steady(name, count)),
             "%.2f" % median([b / a for a, b in zip(steady(name, 0), steady(name, count))])) for name in names]
    return report.table(heading(IDLE, count), rows)


def many(seen, seconds):
    """What many.measure() gave."""
    def cells(windows):
        return ["-"] * 3 if not windows else [form % median([window[key] / per for window in windows]) for form, key, per in (
            ("%.0f", "before", 1), ("%.1f", "steady", 1), ("%.0f", "samples", 2 * seconds))]
    rows = [("%d × %d, %d" % numbers, name, *cells(windows)) for numbers, of in seen.items() for name, windows in of.items()]
    return report.table([column.replace("%d", str(seconds)) for column in MANY], rows)


def attach(seen):
    """What attach.measure() gave. Ratios are those of the medians, all in one run."""
    return report.table(ATTACH, [("%d, %d, %d" % numbers, name, spread(values, "%.0f"),
                                  "%.1f" % (median(values) / median(of["pysampled"])) if values and of["pysampled"] else "-")
                                 for numbers, of in seen.items() for name, values in of.items()])


def resolver(seen):
    """What resolve.measure() gave."""
    return report.table(RESOLVER, [(name, *("%.1f" % row[cpus] for cpus in resolve.CPUS),
                                    "%.0f" % row["instructions"] if "instructions" in row else "-") for name, row in seen.items()])


def parts(found):
    """{options: {thread: parts.Part}}"""
    return report.table(PARTS, [("%s: %s" % (options, name), "%.1f" % part.start_ms, "%.1f" % part.us, part.calls)
                                for options, threads in found.items() for name, part in threads.items()])
