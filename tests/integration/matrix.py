"""CPythons that this system has no packages of: unpacked from Debian sid into a folder, run in a chroot of their own.

unpack() makes BUILD/matrix/3.14 and 3.15, scripts that behave like a python3: they see the repository and /tmp
at their usual places, through a mount namespace that ends with the process.
"""
import os
import shutil
import subprocess

import harness

VERSIONS = harness.MATRIX_PYTHONS
FOLDER = os.path.join(harness.BUILD, "matrix")
ROOT = os.path.join(FOLDER, "root")
PACKAGES = ["python%s" % v for v in VERSIONS] + ["libpython3.15", "base-files", "libc-bin", "dash", "coreutils",
                                                 "libstdc++6"]
WRAPPER = """#!/bin/sh
# Becomes %(python)s of Debian sid, with the repository and /tmp at their usual places.
exec unshare -m sh -c 'mount --bind "%(repo)s" "%(root)s%(repo)s" && mount --rbind /tmp "%(root)s/tmp" &&
  mount -t proc proc "%(root)s/proc" && exec chroot "%(root)s" /usr/bin/%(python)s "$@"' sh "$@"
"""


def unpack():
    """Sets PYSAMPLED_MATRIX for the harness; without it those CPythons are skipped, with the reason."""
    reason = missing() or make_root()
    if reason:
        os.environ["PYSAMPLED_NO_MATRIX"] = reason
        return
    os.makedirs(ROOT + harness.ROOT, exist_ok=True)  # also in a build folder that was copied
    for version in VERSIONS:
        write_wrapper(version)
    os.environ["PYSAMPLED_MATRIX"] = FOLDER


def missing():
    if not harness.is_root():
        return "a chroot needs root"
    if not shutil.which("mmdebstrap"):
        subprocess.run(["apt-get", "install", "-q", "-y", "--no-install-recommends", "mmdebstrap"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return None if shutil.which("mmdebstrap") else "no mmdebstrap here"


def make_root():
    """None, or why there is none."""
    done = os.path.join(FOLDER, "complete")
    if os.path.exists(done):
        return None
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    made = subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--include=" + ",".join(PACKAGES),
                           "--aptopt=APT::Install-Recommends \"false\"",
                           "--aptopt=Acquire::Check-Valid-Until \"false\"",
                           "--dpkgopt=path-exclude=/usr/share/doc/*", "sid", ROOT],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if made.returncode != 0:
        return "Debian sid could not be unpacked: " + " ".join(made.stdout.split())[-300:]
    open(done, "w").close()
    return None


def write_wrapper(version):
    path = os.path.join(FOLDER, version)
    with open(path, "w") as out:
        out.write(WRAPPER % {"python": "python" + version, "repo": harness.ROOT, "root": ROOT})
    os.chmod(path, 0o755)
