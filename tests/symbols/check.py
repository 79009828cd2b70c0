#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares our names with those of nm and eu-addr2line at 10 000 random addresses of real files.

usage: check.py SYMNAME. Prints "ok", "FAIL" or "SKIP" and a name a line; exits 1 if anything
failed, 77 if elfutils is missing.
"""
import bisect
import glob
import os
import random
import re
import shutil
import subprocess
import sys

SYMNAME = os.path.abspath(sys.argv[1])
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
N = 10000
SUFFIX = re.compile(r"(\.(cold|constprop|part|isra|lto_priv|llvm)(\.\d+)?)+$")
passed, failed, skipped = [], [], []


class Skip(Exception):
    pass


def run(*command, text=None):
    p = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, errors="replace")
    assert p.returncode == 0, "%s: exit %d: %s" % (command[:3], p.returncode, p.stderr[-500:])
    return p.stdout


def code_of(path):
    """[(start, end)] of the sections that hold code."""
    ret = []
    for line in run("readelf", "-SW", path).splitlines():
        m = re.match(r"\s*\[ *\d+\] (\.text\S*)\s+PROGBITS\s+(\w+) \w+ (\w+) ", line)
        if m:
            ret.append((int(m[2], 16), int(m[2], 16) + int(m[3], 16)))
    return ret


def debug_file(path):
    m = re.search(r"Build ID: (\w\w)(\w+)", run("readelf", "-n", path))
    file = "/usr/lib/debug/.build-id/%s/%s.debug" % (m[1], m[2]) if m else ""
    return [file] if os.path.exists(file) else []


def cut(name):
    return SUFFIX.sub("", name.split("@")[0] if name.find("@") > 0 else name)


class Nm:
    """Which functions cover an address, by nm."""

    def __init__(self, path):
        rows = set()
        for file in [path] + debug_file(path):
            for option in ([], ["-D"]):
                for line in run("nm", "-S", "--defined-only", *option, file).splitlines():
                    m = re.match(r"(\w{16}) (\w{16}) [tTwWiu] (.*)", line)
                    if m:
                        rows.add((int(m[1], 16), int(m[2], 16), m[3]))
        self.rows = sorted(rows)
        self.starts = [row[0] for row in self.rows]

    def at(self, address):
        ret, i = set(), bisect.bisect_right(self.starts, address)
        for start, size, name in self.rows[max(0, i - 200):i]:
            if address < start + size:
                ret.add(cut(name))
        return ret


def addr2line(path, addresses):
    """The function's name as eu-addr2line has it; of inlined code the one it stands in."""
    out = run("eu-addr2line", "-f", "-e", path, text="".join("%#x\n" % a for a in addresses))
    names = [re.sub(r".* in ", "", line) for line in out.splitlines()[::2]]
    assert len(names) == len(addresses)
    return [cut(name) for name in names]


def compare(path, least=N * 9 // 10):
    rng, code, nm = random.Random(5), code_of(path), Nm(path)
    total = sum(end - start for start, end in code)
    addresses = []
    for _ in range(N):
        at = rng.randrange(total)
        for start, end in code:
            if at < end - start:
                addresses.append(start + at)
                break
            at -= end - start
    ours = run(SYMNAME, path, text="".join("%x\n" % a for a in addresses)).splitlines()
    wrong, named, other = [], 0, []
    for address, name, elfutils in zip(addresses, ours, addr2line(path, addresses)):
        known = nm.at(address)
        named += name != "?"
        if known and name not in known:
            wrong.append("%#x: %s, nm: %s" % (address, name, sorted(known)[:3]))
        if name != elfutils and elfutils not in known and elfutils != "??":
            other.append("%#x: %s, eu-addr2line: %s" % (address, name, elfutils))
    print("  %s: %d addresses, %d with a name, %d not as nm's, %d not as eu-addr2line's" % (
        path, N, named, len(wrong), len(other)))
    assert not wrong, wrong[:5]
    # labels between functions, of assembly, are names for elfutils
    assert len(other) <= N // 1000, other[:5]
    assert named > least, "only %d have names" % named


def one_of(*patterns):
    for pattern in patterns:
        found = sorted(glob.glob(os.path.expanduser(pattern), recursive=True))
        if found:
            return found[-1]
    raise Skip("there is no %s" % patterns[0])


def packages(pattern):
    return ["~/.pyenv/versions/*/lib/python3*/site-packages/" + pattern,
            "/usr/lib/python3/dist-packages/" + pattern,
            os.path.join(os.environ.get("PYSAMPLED_BENCH_VENV", SOURCE + "/build-bench/venv"),
                         "lib/python3*/site-packages/" + pattern)]


def test_libc():
    compare(one_of("/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/lib/*/libc.so.6"))


def test_libpython():
    compare(one_of("~/.pyenv/versions/3.1[1-9]*/lib/libpython3.1*.so.1.0", "/usr/lib/*/libpython3.1*.so.1.0"))


def test_stripped_python():
    compare(one_of("/usr/bin/python3.1[1-9]"), least=N // 20)


def test_numpy():
    compare(one_of(*packages("numpy/*core/_multiarray_umath.*.so")))


def test_openblas():
    compare(one_of(*packages("numpy.libs/lib*openblas*.so*")))


def test_demangled():
    path = one_of("/usr/lib/*/libstdc++.so.6", "/usr/lib64/libstdc++.so.6")
    rows = [row for row in Nm(path).rows if row[2].startswith("_Z")]
    if "libiberty" not in run(os.path.join(os.path.dirname(SYMNAME), "pysampled"), "-V"):
        raise Skip("built without libiberty")
    addresses = "".join("%x\n" % row[0] for row in rows)
    mangled = run(SYMNAME, path, text=addresses)
    ours = run(SYMNAME, "-C", path, text=addresses).splitlines()
    theirs = run("c++filt", "-i", text=mangled).splitlines()
    long = [a for a, b in zip(ours, theirs) if len(b.encode()) > 511]
    wrong = [(a, b) for a, b in zip(ours, theirs) if a != b.encode()[:511].decode()]
    print("  %s: %d names, %d too long" % (path, len(ours), len(long)))
    assert len(ours) > 1000 and not wrong, wrong[:5]


def check(name, function):
    try:
        function()
        print("ok", name)
        passed.append(name)
    except Skip as skip:
        print("SKIP %s: %s" % (name, skip))
        skipped.append(name)
    except (AssertionError, subprocess.SubprocessError, OSError) as error:
        print("FAIL %s: %s" % (name, error))
        failed.append(name)


if not shutil.which("eu-addr2line") or not shutil.which("nm"):
    print("SKIP all: elfutils or binutils is not installed")
    sys.exit(77)
os.environ["LC_ALL"] = "C"
os.environ.pop("DEBUGINFOD_URLS", None)
for name, function in list(globals().items()):
    if name.startswith("test_"):
        check(name[5:], function)
# counted as cmocka's are
for word, names in (("PASSED", passed), ("FAILED", failed), ("SKIPPED", skipped)):
    print("[  %s  ] %d test(s)" % (word, len(names)))
sys.exit(1 if failed else 0)
