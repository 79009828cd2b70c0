"""Machines where nothing was installed: the compiler, libraries, perf and Python that each Debian has, by the README's first command."""
import os
import re
import shutil
import subprocess

import harness
import matrix
from harness import Skip, check, each, equal

BESIDE = True

SOURCES = "/srv/pysampled"  # where the new Debian has ours
DEMO = """
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys" &&
  exec chroot "$1" env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c 'cd "$0" && exec tools/demo --seconds 3' "$2"
"""


def debian(suite, root):
    """Its smallest root that has apt, and mount."""
    reason = matrix.command("mmdebstrap", "mmdebstrap") or matrix.make(
        root, ["mmdebstrap", "--quiet", "--variant=apt", "--include=mount", "--skip=check/empty",
               "--aptopt=Acquire::Check-Valid-Until \"false\"", suite, root], "Debian " + suite)
    if reason:
        raise Skip(reason)


@harness.seconds(1500)
@each(suite=["bookworm", "trixie", "sid"])
def test_the_demo_works_on_a_fresh_debian(suite):
    if not harness.every_pair():
        raise Skip("with --matrix only")
    if not harness.is_root():
        raise Skip("a chroot needs root")
    root = os.path.join(harness.folder(), "root")
    debian(suite, root)
    shutil.copytree(harness.ROOT, root + SOURCES, ignore=shutil.ignore_patterns("build", "build-*", ".git", "demo-out"))
    demo = subprocess.run(["unshare", "-m", "sh", "-c", DEMO, "sh", root, SOURCES], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    equal(demo.returncode, 0, "exit status of tools/demo: " + demo.stdout[-800:])
    summary = re.search(r"^samples=(\d+) exact=(\d+) ", demo.stdout, re.M)
    check(summary and int(summary[2]) > 0.9 * int(summary[1]) > 0, "its samples: %s", demo.stdout[-800:])
    check(" search (%s/demo/app.py:" % SOURCES in demo.stdout, "its hottest function is not named: %s", demo.stdout[-1500:])
    written = sorted(os.listdir(root + SOURCES + "/demo-out"))
    check({"perf.data", "perf.folded", "flamegraph.html", "profile.pb.gz"} <= set(written), "it wrote: %s", written)
