"""The release tarball, built for aarch64 outside of the repository: by the cross file that it holds, and in the guest."""
import glob
import os
import shutil
import subprocess
import tempfile

from guest import ROOT

# All of it takes six minutes there, the program two. Then by the tests that it holds.
TESTS = ["contract.version", "consumers.the_right_line", "groundtruth.a_short_run"]
NATIVE_SCRIPT = """
failed() { echo "FAIL tarball.native: $1: $(tail -c 600 log | tr '\\n' ' ')"; exit 1; }
begin=$(date +%%s)
cd /tmp && python3 -m tarfile -e %s > log && cd pysampled-* || failed tar
meson setup build > log 2>&1 || failed meson
ninja -C build pysampled >> log 2>&1 || failed ninja
echo "ok tarball.native ($(($(date +%%s) - begin)) s)"
build/pysampled --version
echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent
PYSAMPLED_TEST_PYTHONS=/usr/bin/python%s python3 tests/integration/run.py %s
"""


def make():
    """The tarball of the last commit."""
    build = os.path.join(ROOT, "build")
    if not os.path.exists(os.path.join(build, "build.ninja")):
        call("meson", "setup", build, ROOT)
    call("meson", "dist", "-C", build, "--no-tests", "--allow-dirty", "--formats", "gztar")
    return max(glob.glob(os.path.join(build, "meson-dist", "*.tar.gz")), key=os.path.getmtime)


def cross_build(tarball, root_file):
    """All that is in it, in a folder of its own."""
    where = tempfile.mkdtemp(prefix="pysampled-tarball-")
    try:
        call("tar", "xzf", tarball, "-C", where)
        source, = glob.glob(os.path.join(where, "pysampled-*"))
        build = os.path.join(source, "build")
        call("meson", "setup", build, source, "--cross-file", os.path.join(source, "cross", "aarch64.ini"),
             "--cross-file", root_file)
        call("ninja", "-C", build)
        said = call("readelf", "-h", os.path.join(build, "pysampled"))
        return "AArch64" in said
    finally:
        shutil.rmtree(where)


def call(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=True).stdout


def test(totals, guest, python):
    if not os.path.exists(os.path.join(ROOT, ".git")):
        totals.say("SKIP", "tarball: this is no checkout to make one of")
        return
    try:
        tarball = make()
        totals.say("ok" if cross_build(tarball, guest.path("root.ini")) else "FAIL", "tarball.cross")
    except subprocess.CalledProcessError as error:
        totals.say("FAIL", "tarball: %s" % " ".join(error.stdout.split())[-600:])
        return
    tests = " ".join("-k " + name for name in TESTS)
    totals.boot(guest, NATIVE_SCRIPT % (tarball, python, tests), "release tarball", shift=None, cpus=2, limit=1200)
