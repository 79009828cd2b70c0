#!/usr/bin/env python3
"""Copy the files that were mapped by what is on a tape, for replay --files ROOT: gather.py REPLAY TAPE
ROOT, on the machine that was recorded, before it is changed. Says which are not there any more. The
vdso is this kernel's. Of a program in a container: with chroot, or ROOT filled by hand."""
import os
import shutil
import subprocess
import sys


def copy(inode, path, root):
    if os.path.normpath(path) != path:
        return "no path that the kernel would tell"
    try:
        if os.stat(path).st_ino != int(inode):
            return "another file by now"
        to = root + path
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copyfile(path, to)
    except OSError as e:
        return e.strerror
    return None


def copy_vdso(root):
    with open("/proc/self/maps") as maps:
        for line in maps:
            if line.endswith("[vdso]\n"):
                lo, hi = (int(x, 16) for x in line.split()[0].split("-"))
                with open("/proc/self/mem", "rb") as mem, open(root + "/[vdso]", "wb") as to:
                    mem.seek(lo)
                    to.write(mem.read(hi - lo))


def main():
    replay, tape, root = sys.argv[1:4]
    listed = subprocess.run([replay, "--maps", tape], capture_output=True, check=True).stdout
    os.makedirs(root, exist_ok=True)
    copy_vdso(root)
    for line in sorted(set(os.fsdecode(listed).splitlines())):
        inode, path = line.split("\t", 1)
        why = copy(inode, path, root)
        print("%s: %s" % (path, why or "copied"))


if __name__ == "__main__":
    main()
