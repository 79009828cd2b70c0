#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""headers: each layout table says what the headers and the debug info of that CPython say.

They are those of the interpreters in PYSAMPLED_TEST_PYTHONS (paths, separated by
colons), else of pyenv's and of the system's; PYSAMPLED_TEST_INCLUDES adds directories
with a Python.h. Headers of 3.13 on also tell what a build without the GIL would have: its table is
compared with them, too, and of such a build with its debug info. Before 3.11 headers hide some structs: those tables are compared with
debug info alone, by gdb. What is left out is named. Exit code 77: nothing was compared.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def pythons():
    if "PYSAMPLED_TEST_PYTHONS" in os.environ:
        return os.environ["PYSAMPLED_TEST_PYTHONS"].split(":")
    found = ["python3"]
    try:
        run = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=True)
        found += glob.glob(os.path.join(run.stdout.strip(), "versions", "*", "bin", "python"))
    except (OSError, subprocess.CalledProcessError):
        pass
    return found + glob.glob("/usr/bin/python3.*[0-9]")


ASK = """
import os, sys, sysconfig
get = sysconfig.get_config_var
shared = os.path.join(get("LIBDIR") or "", get("INSTSONAME") or "")
print(sysconfig.get_paths()["include"])
print(shared if get("Py_ENABLE_SHARED") and os.path.exists(shared) else sys.executable)
"""


def sources():
    """Include directories and files with code, of each Python."""
    for python in pythons():
        try:
            run = subprocess.run([python, "-c", ASK], capture_output=True, text=True)
        except OSError:
            continue
        if run.returncode == 0:
            yield from run.stdout.splitlines()
    yield from filter(None, os.environ.get("PYSAMPLED_TEST_INCLUDES", "").split(":"))


def has_debug_info(path):
    run = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True)
    return ".debug_info" in run.stdout


def kinds(source, minor, suffix):
    """(suffix of the table, arguments) of each comparison."""
    yield suffix, []
    # A file has one kind of structs, headers have both.
    if minor >= 13 and not suffix and os.path.isdir(source):
        yield "t", ["--free-threaded"]


def why_not(source, table):
    """Why @source can't be compared with @table, or None."""
    if not os.path.exists(table):
        return "no table"
    if os.path.isfile(source):
        if not shutil.which("gdb"):
            return "no gdb"
        return None if has_debug_info(source) else "no debug info"
    if int(re.search(r"_(\d+)t?\.c$", table)[1]) < 11 or "py2_" in table:
        return "structs are hidden"
    inside = os.path.join(source, "internal", "pycore_code.h")
    return None if os.path.exists(inside) else "no internal headers"


def compare(source, table, more):
    """True: they are the same; False: they differ; None: they could not be compared."""
    name = os.path.basename(table)
    skip = why_not(source, table)
    if skip:
        print(f"{source}: skipped: {skip}", flush=True)
        return None
    run = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "mklayout.py"), "--check", table, *more, source])
    print(f"{source}: {name} {'differs' if run.returncode else 'ok'}", flush=True)
    return run.returncode == 0


def main():
    results = []
    for source in sorted(set(os.path.realpath(i) for i in sources())):
        version = re.search(r"python(\d)\.(\d+)(t?)", os.path.basename(source))
        if not version:
            print(f"{source}: skipped: no version in its name", flush=True)
            continue
        for suffix, more in kinds(source, int(version[2]), version[3]):
            table = os.path.join(ROOT, "lib", "offsets", f"py{version[1]}_{version[2]}{suffix}.c")
            results.append(compare(source, table, more))
    n, bad = sum(r is not None for r in results), results.count(False)
    print(f"{n} compared, {bad} differ")
    sys.exit(1 if bad else 0 if n else 77)


if __name__ == "__main__":
    main()
