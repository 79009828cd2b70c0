"""Runs the integration tests: run.py [--quick] [--matrix] [-k PATTERN] [--list] [--slowest N] [--counts FILE].

Prints "ok name (s)", "FAIL name: why" or "SKIP name: reason" for each, and writes "passed failed skipped" into FILE,
with the failures below.
A failure that a busy machine can cause is printed as "again name: why" and tried once more.
"""
import argparse
import glob
import importlib
import os
import re
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402


class TimedOut(Exception):
    pass


def on_alarm(number, frame):
    raise TimedOut()


def on_term(number, frame):
    raise KeyboardInterrupt()


def find_tests():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in sorted(glob.glob(os.path.join(here, "test_*.py"))):
        module = importlib.import_module(os.path.basename(path)[:-3])
        for name, function in list(vars(module).items()):
            if name.startswith("test_") and callable(function) and function.__module__ == module.__name__:
                for arguments, suffix in harness.cases(function):
                    yield "%s.%s%s" % (module.__name__[5:], name[5:], suffix), function, arguments


def run_one(function, arguments):
    """(word, text) of one test."""
    word, text = run_function(function, arguments)
    errors = harness.clean_up()
    return ("FAIL", "cleaning up: " + "; ".join(errors)) if errors and word == "ok" else (word, text)


def run_function(function, arguments):
    try:
        signal.alarm(getattr(function, "limit", 60))
        if "py" in arguments:
            arguments["py"].need()
        return "ok", function(**arguments) or ""
    except harness.Skip as skip:
        return "SKIP", str(skip)
    except TimedOut:
        return "FAIL", "no end within %d s" % getattr(function, "limit", 60)
    except AssertionError as error:
        return "FAIL", "%s (%s)" % (error, where(error))
    except Exception as error:
        lines = ", ".join(map(frame, traceback.extract_tb(error.__traceback__)))
        return "FAIL", "%s: %s (%s)" % (type(error).__name__, error, lines)
    finally:
        signal.alarm(0)


def run_again(name, function, arguments, text):
    """What a busy machine spoils (too few samples, a slow start) gets a second chance, in the open. A wrong stack,
    a wrong name, anything about truth or harm does not."""
    if re.search(r"wrong|TracerPid|pending|stopped|[Ss]anitizer|signal|interrupted|exit status|did not end|goes on|traces|"
                 r"cleaning up", text):
        return "FAIL", text
    print("again %s: %s" % (name, shorter(text)), flush=True)
    return run_one(function, arguments)


def shorter(text, most=1500):
    """What a reader takes in: some failures show whole stacks."""
    return text if len(text) <= most else "%s [...] %s" % (text[:most * 2 // 3], text[-most // 3:])


def frame(line):
    return "%s:%d" % (os.path.basename(line.filename), line.lineno)


def where(error):
    """The line of the test itself that failed."""
    lines = [f for f in traceback.extract_tb(error.__traceback__) if os.path.basename(f.filename).startswith("test_")]
    return frame(lines[-1]) if lines else "harness"


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--matrix", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="name the N tests that took longest, all runs")
    parser.add_argument("--counts")
    parser.add_argument("-k", dest="patterns", action="append", help="only tests with this in their name; may be repeated")
    return parser.parse_args()


def main():
    args = parse_args()
    signal.signal(signal.SIGALRM, on_alarm)
    signal.signal(signal.SIGTERM, on_term)
    if args.matrix:
        import matrix
        matrix.unpack()
    for path in [] if args.list else harness.undo_of_the_killed():
        print("%s is as it was before a run that was killed" % path, flush=True)
    totals, times, failures = {"ok": 0, "FAIL": 0, "SKIP": 0}, {}, []
    for name, function, arguments in find_tests():
        if not any(p in name for p in args.patterns or [""]) or (args.quick and getattr(function, "not_quick", False)):
            continue
        if args.list:
            print(name)
            continue
        begin = time.monotonic()
        word, text = run_one(function, arguments)
        if word == "FAIL":
            word, text = run_again(name, function, arguments, text)
        totals[word] += 1
        took = time.monotonic() - begin
        times[name.partition("[")[0]] = times.get(name.partition("[")[0], 0) + took
        line = "%s %s%s%s" % (word, name, " (%.1f s)" % took if word == "ok" else "", ": " + shorter(text) if text else "")
        print(line, flush=True)
        failures += [line + "\n"] if word == "FAIL" else []
    for name in sorted(times, key=times.get, reverse=True)[:args.slowest]:
        print("-- %s: %.1f s in all" % (name, times[name]))
    if args.counts:
        harness.write_totals(args.counts, totals, failures)
    return 1 if totals["FAIL"] else 0


sys.exit(main())
