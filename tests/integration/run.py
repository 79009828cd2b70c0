"""Runs the integration tests: run.py [--quick] [--matrix] [--free-threaded] [-k PATTERN] [--list] [--slowest N] [--counts FILE].

Prints "ok name (s)", "FAIL name: why" or "SKIP name: reason" for each, and writes "passed failed skipped" into FILE,
with the failures below. A test that has too little to judge by (harness.enough) is printed as "again name: why" and tried
once more; no other failure is. The last lines say how many were. A PATTERN that no name has is a failure, or status 5 of --list.
"""
import argparse
import atexit
import contextlib
import glob
import importlib
import os
import pickle
import select
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402


BESIDE = 6
NO_MATCH = 5  # tools/test knows this status


class TimedOut(Exception):
    pass


def on_alarm(number, frame):
    raise TimedOut()


def on_end(number, frame):
    """Of whoever is told to end. SIGTERM is heard once: a terminal's SIGINT reaches a child that its parent then tells, too,
    and `timeout` tells each twice."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt()


def listen():
    signal.signal(signal.SIGALRM, on_alarm)
    signal.signal(signal.SIGTERM, on_end)
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:  # a shell's background job ignores it
        signal.signal(signal.SIGINT, on_end)


def find_tests():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in sorted(glob.glob(os.path.join(here, "test_*.py"))):
        module = importlib.import_module(os.path.basename(path)[:-3])
        for name, function in list(vars(module).items()):
            if name.startswith("test_") and callable(function) and function.__module__ == module.__name__:
                function.beside = getattr(function, "beside", getattr(module, "BESIDE", False))
                for arguments, suffix in harness.cases(function):
                    yield "%s.%s%s" % (module.__name__[5:], name[5:], suffix), function, arguments


def run_one(function, arguments):
    """(word, text) of one test; "again" if it had too little to judge by."""
    try:
        word, text = run_function(function, arguments)
    except BaseException:  # a signal ends the run
        harness.clean_up()
        raise
    errors = harness.clean_up()
    return ("FAIL", "cleaning up: " + "; ".join(errors)) if errors and word != "FAIL" else (word, text)


def run_function(function, arguments):
    try:
        signal.alarm(getattr(function, "limit", harness.SECONDS))
        if "py" in arguments:
            arguments["py"].need()
        return "ok", function(**arguments) or ""
    except harness.Skip as skip:
        return "SKIP", str(skip)
    except TimedOut:
        return "FAIL", "no end within %d s" % getattr(function, "limit", harness.SECONDS)
    except AssertionError as error:
        return "again" if isinstance(error, harness.Spoilt) else "FAIL", "%s (%s)" % (error, where(error))
    except Exception as error:
        lines = ", ".join(map(frame, traceback.extract_tb(error.__traceback__)))
        return "FAIL", "%s: %s (%s)" % (type(error).__name__, error, lines)
    finally:
        signal.alarm(0)


def run_last(function, arguments):
    """(word, text) of a test that is not tried again."""
    word, text = run_one(function, arguments)
    return "FAIL" if word == "again" else word, text


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
    parser.add_argument("--free-threaded", action="store_true", help="with --matrix: also compile 3.14t and 3.15t")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="name the N tests that took longest, all runs")
    parser.add_argument("--counts")
    parser.add_argument("-k", dest="patterns", action="append", help="only tests with this in their name; may be repeated")
    return parser.parse_args()


def chosen(args):
    """The tests to run, and the patterns that none has in its name."""
    tests = [test for test in find_tests() if not (args.quick and getattr(test[1], "not_quick", False))]
    patterns = args.patterns or [""]
    unknown = [p for p in patterns if not any(p in name for name, _, _ in tests)]
    return [test for test in tests if any(p in test[0] for p in patterns)], unknown


class Results:
    """Counts of ok, FAIL and SKIP, seconds by test, the lines of failures, the names of what was tried again."""

    def __init__(self):
        self.totals, self.times, self.failures, self.again = {"ok": 0, "FAIL": 0, "SKIP": 0}, {}, [], []

    def say(self, word, name, text):
        line = "%s %s%s" % (word, name, ": " + shorter(text) if text else "")
        print(line, flush=True)
        self.totals[word] += 1
        self.failures += [line + "\n"] if word == "FAIL" else []

    def take(self, test, word, text, took):
        """What became of a test. One that had too little to judge by is tried again, alone."""
        name, function, arguments = test
        short = name.partition("[")[0]
        self.times[short] = self.times.get(short, 0) + took
        if word == "again":
            print("again %s: %s" % (name, shorter(text)), flush=True)
            self.again.append(name)
            self.take(test, *timed(run_last, function, arguments))
        else:
            self.say(word, "%s (%.1f s)" % (name, took) if word == "ok" else name, text)


def timed(run, function, arguments):
    begin = time.monotonic()
    return (*run(function, arguments), time.monotonic() - begin)


def in_a_child(function, arguments):
    """(process, pipe that brings what timed() says of it)."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(out)
        with contextlib.suppress(KeyboardInterrupt), open(into, "wb") as file:
            pickle.dump(timed(run_one, function, arguments), file)
        sys.stdout.flush()
        os._exit(0)
    os.close(into)
    return pid, open(out, "rb")


def run_beside(results, tests):
    """Several at once, each in a process of its own; those that had too little to judge by afterwards, alone."""
    waiting, running, alone = list(tests), {}, []
    try:
        while waiting or running:
            while waiting and len(running) < BESIDE:
                test = waiting.pop(0)
                pid, pipe = in_a_child(*test[1:])
                running[pipe] = test, pid
            for pipe in select.select(list(running), [], [])[0]:
                said = pipe.read()
                test, pid = running.pop(pipe)
                pipe.close()
                os.waitpid(pid, 0)
                became = pickle.loads(said) if said else ("FAIL", "its process died", 0)
                if became[0] == "again":
                    alone.append((test, became))
                else:
                    results.take(test, *became)
    finally:
        for _, pid in running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for _, pid in running.values():
            os.waitpid(pid, 0)
    for test, became in alone:
        results.take(test, *became)


def unpack_absent():
    """Gets the CPythons that are not here; {version: reason} of those that can't be had."""
    versions = harness.absent()
    if not versions:
        return {}
    import matrix
    return matrix.provide(versions)


def main():
    args = parse_args()
    listen()
    if args.matrix or args.free_threaded:
        import matrix
        matrix.unpack(args.free_threaded)
    absent = {} if args.list or args.quick else unpack_absent()
    tests, unknown = chosen(args)
    if args.list:
        print("\n".join(name for name, _, _ in tests))
        return NO_MATCH if unknown else 0
    for path in harness.undo_of_the_killed():
        print("%s is as it was before a run that was killed" % path, flush=True)
    harness.unmount_of_the_killed()
    harness.remove_folders_of_the_killed()
    atexit.register(harness.remove_folders_of_the_killed)
    atexit.register(harness.unmount_of_the_killed)  # of tests that ran in processes of their own
    atexit.register(harness.unmount_of_the_killed, ours=True)
    results = Results()
    for pattern in unknown:
        results.say("FAIL", "-k " + pattern, "no test has this in its name")
    apart = [test for test in tests if not getattr(test[1], "beside", False)]
    for test in apart:
        results.take(test, *timed(run_one, *test[1:]))
    run_beside(results, [test for test in tests if test not in apart])
    for name in sorted(results.times, key=results.times.get, reverse=True)[:args.slowest]:
        print("-- %s: %.1f s in all" % (name, results.times[name]))
    print("-- tried again: %d%s" % (len(results.again), "".join("\n   " + name for name in results.again)))
    for pair in absent.items():
        print("-- not tested: CPython %s: %s" % pair)
    if args.counts:
        harness.write_totals(args.counts, results.totals, results.failures, ["again %s\n" % name for name in results.again] +
                             ["absent CPython %s: %s\n" % pair for pair in absent.items()])
    return 1 if results.totals["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
