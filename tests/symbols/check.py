#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares our names with those of nm and eu-addr2line at 10 000 random addresses of real files, and our source lines
and inlined functions with those of eu-addr2line.

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
import tempfile
import time

SYMNAME = os.path.abspath(sys.argv[1])
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYENV = os.environ.get("PYENV_ROOT", "~/.pyenv") + "/versions/"
PYENVS_LIBPYTHON = PYENV + "3.1[1-9]*/lib/libpython3.1*.so.1.0"
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


# ---- lines -----------------------------------------------------------------------------------------------------------

def inside_functions(path, n):
    """Random addresses of code, ascending: not of the padding between functions, which no function has."""
    code, rng, ends = code_of(path), random.Random(7), []
    rows = [(start, size) for start, size, _ in Nm(path).rows if size and inside(code, start)]
    for _, size in rows:
        ends.append(size + (ends[-1] if ends else 0))
    found = set()
    for _ in range(n):
        at = rng.randrange(ends[-1])
        i = bisect.bisect_right(ends, at)
        found.add(rows[i][0] + ends[i] - 1 - at)
    return sorted(found)


def inside(ranges, address):
    return any(start <= address < end for start, end in ranges)


def ask(path, addresses, limit=120):
    """[[(function, "file:line"), …]] innermost first, and how it ended."""
    if "libdw" not in run(os.path.join(os.path.dirname(SYMNAME), "pysampled"), "-V"):
        raise Skip("built without libdw")
    p = subprocess.run([SYMNAME, "--lines", path], input="".join("%x\n" % a for a in addresses), text=True,
                       capture_output=True, timeout=limit, errors="replace")
    found = [[] for _ in addresses]
    for line in p.stdout.splitlines():
        number, function, place = line.split("\t")
        found[int(number)].append((function, place))
    # Under ASan the search for leaks may complain of a thread that ends meanwhile; a finding is another status.
    assert p.returncode in (0, 1), p.stderr
    return found, re.sub(r"(?m)^==\d+==Unable to get registers from thread \d+\.$", "", p.stderr).strip()


def inlined_by(command, path, addresses):
    """The same by an addr2line."""
    p = subprocess.run([command, "-a", "-f", "-i", "-e", path], input="".join("%#x\n" % a for a in addresses),
                       capture_output=True, text=True, timeout=300, errors="replace")
    found, function = [], None
    for line in p.stdout.splitlines():
        if re.fullmatch("0x[0-9a-f]+", line):
            found.append([])
        elif function is None:
            function = line
        else:
            place = re.sub(r"(:\d+)(:\d+| \(discriminator \d+\))$", r"\1", line)
            found[-1].append((re.sub(" inlined at .*", "", function), place))
            function = None
    assert len(found) == len(addresses), "%s: %s" % (command, p.stderr[-500:])
    return found


def places(frames):
    return [place for _, place in frames] or ["??:0"]


def compare_lines(path, n=N, inlined=0.3, least=0.9):
    """Of inlined functions eu-addr2line sometimes knows others than binutils' addr2line: one of them must agree."""
    addresses = inside_functions(path, n)
    began = time.monotonic()
    ours, ended = ask(path, addresses)
    took = time.monotonic() - began
    theirs = inlined_by("eu-addr2line", path, addresses)
    lines = [i for i in range(len(addresses)) if places(ours[i])[0] != places(theirs[i])[0]]
    chains = [i for i in range(len(addresses)) if places(ours[i]) != places(theirs[i])]
    others = inlined_by("addr2line", path, [addresses[i] for i in chains])
    wrong = ["%#x: %s, eu-addr2line: %s, addr2line: %s" % (addresses[i], ours[i], theirs[i], other)
             for i, other in zip(chains, others) if places(ours[i]) != places(other)]
    known = sum(1 for frames in ours if frames and frames[0][1] != "??:0")
    deep = sum(1 for frames in ours if len(frames) > 1)
    print("  %s: %d addresses in %.2f s, %d with a line, %d in inlined functions; not as eu-addr2line's: %d lines, %d "
          "chains, of which %d not as addr2line's" % (path, len(addresses), took, known, deep, len(lines), len(chains),
                                                      len(wrong)))
    assert ended == "Success", ended
    assert not lines, [(hex(addresses[i]), ours[i], theirs[i]) for i in lines[:3]]
    assert not wrong and len(chains) <= len(addresses) // 100, wrong[:3]
    assert known >= least * len(addresses) and deep >= inlined * len(addresses)


INLINED = """\
__attribute__((always_inline)) static inline int leaf(int x)
{
	__asm__ volatile("incl %0" : "+r"(x)); /* LEAF */
	return x;
}
__attribute__((always_inline)) static inline int middle(int x)
{
	return leaf(x) + 1; /* MIDDLE */
}
__attribute__((noinline)) int outer(int x)
{
	return middle(x) * 3; /* OUTER */
}
int main(int n, char **v)
{
	return outer(n);
}
"""


def line_of(word):
    return next(i for i, line in enumerate(INLINED.splitlines(), 1) if word in line)


class Built:
    """A program with functions inlined into outer(), after some more commands."""

    def __init__(self, flags="-g -O2", *more):
        self.folder = tempfile.mkdtemp(prefix="pysampled-test-")
        os.chmod(self.folder, 0o755)  # .dwo files are opened with nobody's rights
        self.path = os.path.join(self.folder, "a.out")
        with open(os.path.join(self.folder, "a.c"), "w") as file:
            file.write(INLINED)
        for command in ("cc %s -Wl,--build-id a.c -o a.out" % flags,) + more:
            p = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True)
            if p.returncode != 0:
                shutil.rmtree(self.folder)
                raise Skip("%s: %s" % (command, p.stderr.strip()[-200:]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def addresses(self, whole):
        """Those of outer()."""
        row, = [row for row in Nm(whole).rows if row[2] == "outer"]
        return list(range(row[0], row[0] + row[1]))

    def check(self, addresses):
        """The inlined functions are found, each in its line."""
        found, ended = ask(self.path, addresses)
        want = [(name, "%s/a.c:%d" % (os.path.realpath(self.folder), line_of(word)))
                for name, word in (("leaf", "LEAF"), ("middle", "MIDDLE"), ("outer", "OUTER"))]
        assert want in found and ended == "Success", "%s, want %s: %s" % (found, want, ended)


def test_lines_of_libpython():
    compare_lines(one_of(PYENVS_LIBPYTHON))


def test_lines_of_libc():
    path = one_of("/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/lib/*/libc.so.6")
    if not debug_file(path):
        raise Skip("the debug file of libc is not installed")
    compare_lines(path, inlined=0.1)


def test_lines_of_our_own():
    compare_lines(SYMNAME, inlined=0.03, least=0.05)  # the libraries linked into it have none


def test_what_is_not_built_leaves_no_folder():
    kept = tempfile.tempdir
    with tempfile.TemporaryDirectory() as tempfile.tempdir:
        try:
            Built("-g", "false")
            assert False, "built"
        except Skip:
            assert not os.listdir(tempfile.tempdir), os.listdir(tempfile.tempdir)
        finally:
            tempfile.tempdir = kept


def check_built(flags, *more):
    with Built(flags, "cp a.out whole", *more) as built:
        built.check(built.addresses(os.path.join(built.folder, "whole")))


def test_lines_of_dwarf_4():
    check_built("-g -gdwarf-4 -O2")


def test_lines_of_split_dwarf():
    check_built("-g -gsplit-dwarf -O2")


def test_lines_of_zlib_sections():
    check_built("-g -O2", "objcopy --compress-debug-sections=zlib a.out")


def test_lines_of_zstd_sections():
    check_built("-g -O2", "objcopy --compress-debug-sections=zstd a.out",
                "readelf -t a.out | grep -q ZSTD")


def test_lines_from_a_linked_file():
    check_built("-g -O2", "objcopy --only-keep-debug a.out a.debug", "strip -s a.out",
                "objcopy --add-gnu-debuglink=a.debug a.out")


def test_lines_of_a_stripped_file():
    with Built("-g -O2", "cp a.out whole", "strip -s a.out") as built:
        found, ended = ask(built.path, built.addresses(os.path.join(built.folder, "whole")))
        assert not any(found) and ended == "No such file or directory", "%s: %s" % (found, ended)


def debug_sections(path):
    return [(int(m[2], 16), int(m[3], 16)) for m in re.finditer(
        r"\] (\.debug_\S+) +PROGBITS +\w+ (\w+) (\w+) ", run("readelf", "-SW", path))]


def test_lines_of_garbled_files():
    """Whatever stands in the debug sections: no crash of ours, no hang, no more functions than there are."""
    ends, rng = {}, random.Random(3)
    with Built() as built:
        addresses = built.addresses(built.path)
        sections = debug_sections(built.path)
        with open(built.path, "rb") as file:
            good = file.read()
        assert len(sections) >= 5, sections
        for kind in range(150):
            bad = bytearray(good)
            if kind % 10 == 9:
                del bad[rng.randrange(64, len(bad)):]
            else:
                at, size = rng.choice(sections)
                for _ in range(1 << rng.randrange(8)):
                    bad[at + rng.randrange(size)] = rng.choice((0, 0xff, 0x80, rng.randrange(256)))
            with open(built.path, "wb") as file:
                file.write(bad)
            found, ended = ask(built.path, addresses, limit=30)
            assert ended in ("Success", "No such file or directory", "Input/output error"), ended
            ends[ended] = ends.get(ended, 0) + 1
    print("  %s" % ends)
    assert len(ends) >= 2, "nothing was broken: %s" % ends


def one_of(*patterns):
    for pattern in patterns:
        found = sorted(glob.glob(os.path.expanduser(pattern), recursive=True))
        if found:
            return found[-1]
    raise Skip("there is no %s" % patterns[0])


def libpython():
    return one_of(PYENVS_LIBPYTHON, "/usr/lib/*/libpython3.1*.so.1.0")


def packages(pattern):
    return [PYENV + "*/lib/python3*/site-packages/" + pattern,
            "/usr/lib/python3/dist-packages/" + pattern,
            os.path.join(os.environ.get("PYSAMPLED_BENCH_VENV", SOURCE + "/build-bench/venv"),
                         "lib/python3*/site-packages/" + pattern)]


def test_libc():
    compare(one_of("/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/lib/*/libc.so.6"))


def test_libpython():
    compare(libpython())


def test_stripped_python():
    compare(one_of("/usr/bin/python3.1[1-9]"), least=N // 20)


def test_numpy():
    compare(one_of(*packages("numpy/*core/_multiarray_umath.*.so")))


def test_openblas():
    compare(one_of(*packages("numpy.libs/lib*openblas*.so*")))


def stubs(path, least):
    """Those of .plt and .plt.sec, at any of their bytes, by objdump."""
    rng, labels = random.Random(3), {}
    for section in ".plt", ".plt.sec":
        out = subprocess.run(["objdump", "-d", "-j", section, path], capture_output=True, text=True).stdout
        for m in re.finditer(r"^(\w+) <([^*@]+)(@\w\S*)?@plt>:", out, re.M):
            labels[int(m[1], 16)] = m[2] + "@plt"
    ours = run(SYMNAME, path, text="".join("%x\n" % (at + rng.randrange(16)) for at in labels)).splitlines()
    wrong = [(a, b) for a, b in zip(ours, labels.values()) if a != b]
    print("  %s: %d stubs" % (path, len(ours)))
    assert len(ours) >= least and not wrong, (len(ours), wrong[:5])


def test_stubs():
    stubs(libpython(), 500)
    stubs(one_of("/usr/bin/python3.1[1-9]"), 100)
    stubs(one_of("/usr/lib/*/libstdc++.so.6", "/usr/lib64/libstdc++.so.6"), 500)


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
