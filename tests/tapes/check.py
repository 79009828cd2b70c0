"""Play a tape and compare: check.py REPLAY TAPE [--flips N]. What comes out must be TAPE's
.expect, played with the files that its .sh makes, if there is one, also with chunks and fields of a later version in it, and without the fields that a
version before theirs would have left out, and what is judged must be what was
judged when it was recorded; prefixes and N byte flips must end cleanly (of a tape of readers,
whose every play is a recording, a fiftieth); with 0 it is only compared. What comes out of 20 flips has a sum that
sums.txt knows. Prints totals as cmocka
does."""
import os
import platform
import subprocess
import sys
import tempfile

SKIPPED, SUMMED = 77, "20"


def run(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def compare(tape, *replay):
    done = run(*replay, tape)
    if done.returncode == SKIPPED:
        print(done.stdout)
        sys.exit(SKIPPED)
    with open(tape[:-len(".tape")] + ".expect") as f:
        expect = f.read()
    if done.returncode != 0 or done.stderr:
        return "exit %d: %s" % (done.returncode, done.stderr[:2000])
    if "DIFFERS" in done.stdout:
        return "it no longer ends as it did when it was recorded:\n" + "\n".join(
            line for line in done.stdout.splitlines() if "DIFFERS" in line)[:2000]
    return None if done.stdout == expect else "not what its .expect says"


def torture(tape, replay, flips):
    done = run(replay, "--torture", flips, tape)
    if done.returncode != 0 or done.stderr:
        return "exit %d: %s" % (done.returncode, done.stderr[:2000])
    samples = int(done.stdout.split()[0])
    return None if samples > 500 else "only %d samples came out" % samples


def summed(tape, replay):
    """What comes out of a few damaged ones, too, is what it was. Nobody can say of each what is right: a changed
    sum asks whether more or less shall be believed."""
    with open(os.path.join(os.path.dirname(tape), "sums.txt")) as f:
        known = dict(line.split() for line in f)
    done = run(replay, "--torture", SUMMED, tape)
    name, told = os.path.basename(tape)[:-len(".tape")], done.stdout.split()
    if done.returncode != 0 or done.stderr:
        return "exit %d: %s" % (done.returncode, done.stderr[:2000])
    return None if told[-1] == known.get(name) else "sums.txt would need: %s %s" % (name, told[-1])


def with_files(tape, replay, folder):
    """Without the files it must be something else, or they would prove nothing."""
    if compare(tape, replay) is None:
        return "its .expect can be had without files"
    made = run(tape[:-len(".tape")] + ".sh", folder)
    if made.returncode != 0:
        return "its files can't be made: " + made.stderr[:2000]
    return compare(tape, replay, "--files", folder) or \
        compare(tape, replay, "--files", folder, "--future") or \
        compare(tape, replay, "--files", folder, "--past")


def main():
    replay, tape = sys.argv[1:3]
    flips = int(sys.argv[4]) if len(sys.argv) > 4 else 200
    with open(tape[:-len(".tape")] + ".expect") as f:
        of_readers = "# judged" in f.read()
    few = str(max(flips // 50, 20) if of_readers else flips)
    checks = [("compare", lambda: compare(tape, replay)),
              ("future", lambda: compare(tape, replay, "--future")),
              ("past", lambda: compare(tape, replay, "--past")),
              ("torture", lambda: torture(tape, replay, few))]
    checks = checks[:3] if flips == 0 else checks
    if platform.machine() == "x86_64":
        checks.append(("summed", lambda: summed(tape, replay)))
    if os.path.exists(tape[:-len(".tape")] + ".sh"):
        folder = tempfile.TemporaryDirectory()
        checks[:3] = [("files", lambda: with_files(tape, replay, folder.name))]
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
