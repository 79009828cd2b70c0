#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""headers: each layout table says what the headers and the debug info of that CPython say.

They are those of the interpreters in PYSAMPLED_TEST_PYTHONS (paths, separated by
colons), else of pyenv's and of the system's; PYSAMPLED_TEST_INCLUDES adds directories
with a Python.h. Headers of 3.13 on also tell what a build without the GIL would have: its table is
compared with them, too, and of such a build with its debug info. Before 3.11 headers hide some structs: those tables are compared with
debug info alone, by gdb. What is left out is named. Exit code 77: nothing was compared.

Of headers of 3.13 on also where _Py_DebugOffsets keeps each offset; and of the newest ones a table for the next version is
written, by tools/mklayout.py alone, compiled, and compared with the one that it follows.
Usage: headers_test.py [BUILD], where tools/test --matrix unpacks CPythons.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MKLAYOUT = os.path.join(ROOT, "tools", "mklayout.py")
sys.path.insert(0, os.path.dirname(MKLAYOUT))
import mklayout  # noqa: E402


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
    for build in sys.argv[1:]:
        unpacked = (os.path.join(build, "matrix", "root", "usr"), os.path.join(build, "matrix", "3.13t.d", "root"))
        for folder in unpacked:
            yield from glob.glob(os.path.join(folder, "include", "python3.*[0-9t]"))


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
    run = subprocess.run([sys.executable, MKLAYOUT, "--check", table, *more, source])
    print(f"{source}: {name} {'differs' if run.returncode else 'ok'}", flush=True)
    return run.returncode == 0


def written(*args):
    run = subprocess.run([sys.executable, MKLAYOUT, *args], capture_output=True, text=True)
    if run.returncode:
        print(run.stderr)
    return run.stdout


def compare_slots(source, version):
    """Does debug_offsets.c have the slots where these headers have them?"""
    with open(os.path.join(ROOT, "lib", "offsets", "debug_offsets.c"), encoding="utf-8") as file:
        ours = re.search(r"\.version = 0x03%02x,(.*?)\n\t}," % version, file.read(), re.S)
    slots = [dict(re.findall(r"\[(\w+)\] = (\d+)", text)) for text in (ours[1] if ours else "", written("--slots", source))]
    print(f"{source}: _Py_DebugOffsets {'ok' if slots[0] == slots[1] else 'differs'}", flush=True)
    return bool(slots[0]) and slots[0] == slots[1]


def next_table(source, table, more):
    """Is the table that the script writes for the version after @table the same, for the same headers?"""
    version = int(re.search(r"_(\d+)t?\.c$", table)[1]) + 1
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, os.path.basename(table).replace(str(version - 1), str(version)))
        with open(path, "w", encoding="utf-8") as file:
            file.write(written("--after", table, "--as", f"3.{version}", *more, source))
        good = subprocess.run([os.environ.get("CC", "cc"), "-fsyntax-only", "-std=gnu11", "-Wall", "-Wextra", "-Werror",
                               "-I", os.path.join(ROOT, "lib"), path]).returncode == 0
        got, want = dict(mklayout.table_texts(path)), dict(mklayout.table_texts(table))
    good = good and got.pop("version") == f"0x03{version:02x}" and want.pop("version") == f"0x03{version - 1:02x}"
    # Those depend on the micro version and on how it was built.
    for name in ("micro_min", "micro_max", "tstate.size", "interp.size", "interp.code_versions"):
        good = good and name in got and name in want
        got.pop(name, None), want.pop(name, None)
    differ = sorted(k for k in got.keys() | want.keys() if got.get(k) != want.get(k))
    print(f"{source}: {os.path.basename(path)} as {os.path.basename(table)}: {'differs: %s' % differ if differ or not good else 'ok'}",
          flush=True)
    return good and not differ


def next_tables(folders):
    """Of the newest headers of a build with a GIL, which tell of both kinds."""
    newest = max((s for s in folders if os.path.exists(os.path.join(s, "internal", "pycore_code.h")) and
                  not mklayout.is_free_threaded(s)), key=mklayout.version, default=None)
    if not newest:
        return []
    version = mklayout.version(newest)[1]
    tables = [(os.path.join(ROOT, "lib", "offsets", f"py3_{version}{suffix}.c"), more) for suffix, more in kinds(newest, version, "")]
    return [next_table(newest, table, more) for table, more in tables if os.path.exists(table)]


def main():
    results, there = [], sorted(set(os.path.realpath(i) for i in sources()))
    for source in there:
        version = re.search(r"python(\d)\.(\d+)(t?)", os.path.basename(source))
        if not version:
            print(f"{source}: skipped: no version in its name", flush=True)
            continue
        for suffix, more in kinds(source, int(version[2]), version[3]):
            table = os.path.join(ROOT, "lib", "offsets", f"py{version[1]}_{version[2]}{suffix}.c")
            results.append(compare(source, table, more))
        if int(version[2]) >= 13 and os.path.isdir(source) and not why_not(source, table):
            results.append(compare_slots(source, int(version[2])))
    results += next_tables([source for source in there if os.path.isdir(source)])
    n, bad = sum(r is not None for r in results), results.count(False)
    print(f"{n} compared, {bad} differ")
    sys.exit(1 if bad else 0 if n else 77)


if __name__ == "__main__":
    main()
