#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""headers: each layout table says what the headers of that CPython say.

Headers are those of the interpreters in PYSAMPLED_TEST_PYTHONS (paths, separated by
colons), else of pyenv's and of the system's; PYSAMPLED_TEST_INCLUDES adds directories
with a Python.h. Exit code 77: there are none.
"""
import glob
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def pythons():
    if "PYSAMPLED_TEST_PYTHONS" in os.environ:
        return os.environ["PYSAMPLED_TEST_PYTHONS"].split(":")
    found = ["python3"]
    try:
        run = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=True)
        found += glob.glob(os.path.join(run.stdout.strip(), "versions", "*", "bin", "python3"))
    except (OSError, subprocess.CalledProcessError):
        pass
    return found + glob.glob("/usr/bin/python3.*[0-9]")


def includes():
    for python in pythons():
        code = "import sysconfig; print(sysconfig.get_paths()['include'])"
        try:
            run = subprocess.run([python, "-c", code], capture_output=True, text=True)
        except OSError:
            continue
        if run.returncode == 0:
            yield run.stdout.strip()
    yield from filter(None, os.environ.get("PYSAMPLED_TEST_INCLUDES", "").split(":"))


def main():
    bad = n = 0
    for include in sorted(set(os.path.realpath(i) for i in includes())):
        tables = os.path.join(ROOT, "lib", "offsets")
        name = os.path.basename(include).removeprefix("python").removesuffix("t")
        table = os.path.join(tables, f"py{name.replace('.', '_')}.c")
        # tools/mklayout.py does not read those of before 3.11.
        if not os.path.exists(os.path.join(include, "internal", "pycore_interp.h")) or \
                int(name.rstrip("m").partition(".")[2] or 0) < 11 or \
                not os.path.exists(os.path.join(include, "internal", "pycore_code.h")) or \
                not os.path.exists(table):
            continue
        run = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "mklayout.py"),
                              "--check", table, include])
        print(f"{include}: {'differs' if run.returncode else 'ok'}", flush=True)
        bad += run.returncode != 0
        n += 1
    sys.exit(1 if bad else 0 if n else 77)


if __name__ == "__main__":
    main()
