"""Play a tape and compare: check.py REPLAY TAPE [--flips N]. What comes out must be TAPE's
.expect, and every prefix and N byte flips must end cleanly; with 0 it is only compared. Prints
totals as cmocka does."""
import subprocess
import sys


def run(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def compare(replay, tape):
    done = run(replay, tape)
    with open(tape[:-len(".tape")] + ".expect") as f:
        expect = f.read()
    if done.returncode != 0 or done.stderr:
        return "exit %d: %s" % (done.returncode, done.stderr[:2000])
    if "DIFFERS" in done.stdout:
        return "the walk no longer ends as it did when it was recorded"
    return None if done.stdout == expect else "not the stacks of its .expect"


def torture(replay, tape, flips):
    done = run(replay, "--torture", flips, tape)
    if done.returncode != 0 or done.stderr:
        return "exit %d: %s" % (done.returncode, done.stderr[:2000])
    stacks = int(done.stdout.split()[0])
    return None if stacks > 1000 else "only %d stacks came out" % stacks


def main():
    replay, tape = sys.argv[1:3]
    flips = sys.argv[4] if len(sys.argv) > 4 else "200"
    checks = [("compare", lambda: compare(replay, tape)), ("torture", lambda: torture(replay, tape, flips))]
    checks = checks[:1] if flips == "0" else checks
    failed = 0
    for name, check in checks:
        why = check()
        print("[       %s ] %s" % ("OK" if why is None else "FAILED", name), why or "")
        failed += why is not None
    print("[  PASSED  ] %d test(s)." % (len(checks) - failed))
    if failed:
        print("[  FAILED  ] %d test(s)." % failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
