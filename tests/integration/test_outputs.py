"""What goes to files and terminals, whoever chose the names and whoever else writes where they lie."""
import fcntl
import gzip
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import xml.etree.ElementTree

import harness
from harness import Target, check, equal, need_root, pysampled

BESIDE = True

EVIL = b"\x1b]0;PWNED\x07\x9b5m"
CONTROLS = set(range(32)) - {10} | {127} | set(range(0x80, 0xa0))

NAMED = """
import ctypes, threading, time
name = %r
threading.current_thread().name = name.decode(errors="surrogateescape")
def leaf():
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
    while True:
        pass
exec("def leaf\\u009b(): leaf()" if False else "outer = leaf")
threading.Thread(target=outer, daemon=True).start()
ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
print("READY", flush=True)
while True:
    time.sleep(0.01)
"""


def is_plain(text, where):
    bad = sorted({hex(ord(c)) for c in text if ord(c) in CONTROLS or c == "\ufffd"})
    check(not bad, "%s has %s: %r", where, bad, text[:400])


@harness.one_python
def test_names_of_targets_reach_no_terminal_raw(py):
    home = harness.folder()
    target = harness.start([py.path, "-c", NAMED % EVIL], stdout=-1)
    equal(target.stdout.readline(), b"READY\n", "the target")
    run = pysampled("dump", "-p", target.pid)
    check('"?]0;PWNED??5m"' in run.out, "the name is not there: %s", run)
    is_plain(run.out + run.err, "dump")
    out = os.path.join(home, "out.folded")
    run = pysampled("-p", target.pid, "-F", 499, "-d", 1, "--threads", "-o", out)
    is_plain(run.err, "record's messages")
    with open(out, errors="replace") as f:
        text = f.read()
    check("?]0:PWNED??5m-" in text, "the name is not in the file: %r", text[:300])
    is_plain(text, "folded")
    wrapper = os.path.join(os.fsencode(home), EVIL)
    shutil.copy("/bin/sleep", wrapper)
    sleeper = harness.start([wrapper, "100"])
    harness.until(lambda: b"PWNED" in open("/proc/%d/comm" % sleeper.pid, "rb").read(), "the sleeper's name")
    for command in (["doctor", "-p", sleeper.pid], ["-p", sleeper.pid, "-o", out], ["dump", "-p", sleeper.pid]):
        run = pysampled(*command)
        check("PWNED" in run.out + run.err, "the name is not there: %s", run)
        is_plain(run.out + run.err, command[0])


@harness.alone
@harness.one_python
def test_a_full_device_is_told(py):
    target = Target(py, "groundtruth.py")
    for command in (["dump", "-p", target.pid], ["doctor"], ["events"], ["--help"], ["-V"], ["record", "--help"],
                    ["-p", target.pid, "-d", 0.2, "-o", "-"]):
        run = pysampled(*command, wrapper=("sh", "-c", 'exec "$@" >/dev/full', "sh"))
        equal(run.rc, 1, "the exit code of %s" % command)
        check(run.err.count("No space left on device") == 1, "%s says: %s", command, run.err)


THREADS = """
import sys, threading
threading.stack_size(1 << 16)
wait = threading.Event()
for i in range(int(sys.argv[1])):
    threading.Thread(target=wait.wait, daemon=True).start()
print("READY", flush=True)
wait.wait()
"""


@harness.one_python
def test_a_dump_is_linear_in_its_threads(py):
    harness.need_command("strace")
    calls = {}
    for n in (200, 800):
        target = harness.start([py.path, "-c", THREADS, str(n)], stdout=-1)
        equal(target.stdout.readline(), b"READY\n", "the target")
        log = os.path.join(harness.folder(), "strace")
        traced = harness.start(["strace", "-f", "-o", log, "-e", "trace=process_vm_readv,openat,write", harness.PYSAMPLED,
                                "dump", "-p", str(target.pid)], stdout=-1)
        text = traced.communicate(timeout=100)[0]
        equal(text.count(b"\nThread "), n + 1, "threads")
        with open(log) as f:
            lines = f.readlines()
        calls[n] = len(lines)
        writes = [i for i, line in enumerate(lines) if "write(1," in line]
        check(len(writes) > n, "it does not print as it goes: %d writes", len(writes))
        harness.end(target)
    check(calls[800] < 5 * calls[200], "system calls by threads: %s", calls)


def recorded(target, path, *more):
    return pysampled("-p", target.pid, "-F", 99, "-d", 0.2, "-o", path, *more)


def refuses(target, path, word, *more):
    run = recorded(target, path, *more)
    check(run.rc == 1 and word in run.err, "not refused: %s", run)


def holds(path, text):
    with open(path) as f:
        equal(f.read(), text, path)


def folder_for_all():
    """Like /tmp."""
    path = harness.folder(0o755)
    os.chmod(path, 0o1777)
    return path


def owned(path, uid):
    os.lchown(path, uid, uid)
    return path


@harness.one_python
def test_no_output_goes_where_another_user_led_it(py):
    """As root in a folder like /tmp: links, FIFOs, others' files, and links among the parents."""
    need_root()
    target = Target(py, "groundtruth.py")
    mine, shared = harness.folder(0o755), folder_for_all()
    victim = os.path.join(mine, "victim")
    for kind in ("folded", "data"):
        harness.write(victim, "precious")
        path = os.path.join(shared, "link." + kind)
        os.symlink(victim, path)
        owned(path, 65534)
        refuses(target, path, "link")
        holds(victim, "precious")
        path = os.path.join(mine, "link." + kind)
        os.symlink(victim, path)
        refuses(target, path, "link")
        holds(victim, "precious")
        path = os.path.join(shared, "fifo." + kind)
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        refuses(target, path, "regular")
        equal(os.read(reader, 100), b"", "what the FIFO got")
        os.close(reader)
        path = os.path.join(shared, "theirs." + kind)
        harness.write(path, "theirs")
        refuses(target, owned(path, 65534), "another user")
        holds(path, "theirs")
        path = os.path.join(shared, "hard." + kind)
        os.link(victim, path)
        recorded(target, path).ok()
        holds(victim, "precious")
        check(os.stat(path).st_nlink == 1 and not os.path.samefile(path, victim), "%s is not a file of its own", path)
        folder = os.path.join(shared, "way-" + kind)
        os.symlink(mine, folder)
        owned(folder, 65534)
        refuses(target, os.path.join(folder, "new." + kind), "link")
        refuses(target, os.path.join(folder, "..", "x." + kind), "link")
        check(not os.path.exists(os.path.join(mine, "new." + kind)), "it was written through a link")
        os.symlink(mine, os.path.join(mine, "way-" + kind))
        recorded(target, os.path.join(mine, "way-" + kind, "new." + kind)).ok()
        for _ in range(2):  # its own file, again
            recorded(target, os.path.join(shared, "plain." + kind)).ok()
    left = [name for name in os.listdir(shared) if name.startswith(".")]
    equal(left, [], "files left behind")
    check(os.path.exists(os.path.join(shared, "plain.data.old")), "no recording was kept")


@harness.one_python
def test_a_link_in_the_place_of_the_old_recording_is_replaced(py):
    need_root()
    target = Target(py, "groundtruth.py")
    mine, shared = harness.folder(0o755), folder_for_all()
    victim, data = os.path.join(mine, "victim"), os.path.join(shared, "perf.data")
    harness.write(victim, "precious")
    old, symbols = data + ".old", data + ".pyframes"
    for name, to in ((old, victim), (symbols, mine)):
        os.symlink(to, name)
        owned(name, 65534)
    harness.write(data, "an old one")
    refuses(target, data, "symbols")
    holds(data, "an old one")
    os.unlink(symbols)
    os.mkdir(symbols)
    refuses(target, owned(symbols, 65534) and data, "another user")
    os.rmdir(symbols)
    recorded(target, data).ok()
    equal(sorted(os.listdir(mine)), ["victim"], "files behind the link")
    holds(victim, "precious")
    holds(old, "an old one")
    check(not os.path.islink(old), "%s still is a link", old)
    equal(os.stat(symbols).st_mode & 0o777, 0o700, "mode of the folder of symbols")


@harness.one_python
def test_the_old_recording_keeps_its_symbols(py):
    target, data = Target(py, "groundtruth.py"), os.path.join(harness.folder(), "a.data")
    ids = []
    for _ in range(3):
        recorded(target, data).ok()
        with open(data + ".pyframes/pyframes.so", "rb") as file:
            ids.append(file.read())
    with open(data + ".old.pyframes/pyframes.so", "rb") as file:
        check(file.read() == ids[1], "the old recording has other symbols than it was written with")


@harness.one_python
def test_without_the_cache_symbols_are_beside_only(py):
    harness.need_command("perf")
    target, home = Target(py, "groundtruth.py"), harness.folder()
    data = os.path.join(home, "a.data")
    run = pysampled("-p", target.pid, "-d", 0.5, "-F", 999, "-B", "-o", data, home=home).ok()
    check(not os.path.exists(os.path.join(home, ".debug")), "~/.debug was made: %s", run)
    text, _ = harness.perf("script", "-i", data, "-F", "ip,sym", home=home)
    check("py::" in text, "no names: %s", text[:500])
    pysampled("-p", target.pid, "-d", 0.5, "-o", data, home=home).ok()
    check(os.path.exists(os.path.join(home, ".debug")), "no copy without -B")
    shutil.rmtree(os.path.join(home, ".debug"))
    for more in (("-o", os.path.join(home, "a.folded")), ("-o", "-", "--format", "perf"), ("-o", "/dev/stdout", "--format", "perf"),
                 ("-o", "/dev/fd/1", "--format", "perf")):
        run = pysampled("-p", target.pid, "-d", 0.5, "-B", *more, home=home).ok(2)
        check("-B" in run.err and not os.path.exists(os.path.join(home, ".debug")), "%s: %s", more, run)
    if os.path.isdir("/dev/shm"):  # where files are below /dev
        where = "/dev/shm/pysampled-test-%d" % os.getpid()
        os.mkdir(where)
        harness.cleanup(shutil.rmtree, where)
        pysampled("-p", target.pid, "-d", 0.5, "-B", "-o", where + "/a.data", home=home).ok()
        check(not os.path.exists(os.path.join(home, ".debug")), "~/.debug was made for a file")


@harness.one_python
def test_devices_and_fifos_are_named_on_purpose(py):
    target = Target(py, "groundtruth.py")
    for path in ("/dev/stdout", "/dev/fd/1"):
        run = recorded(target, path, "-F", 999, "--format", "folded", "--no-native").ok()
        check("spin" in run.out or ";" in run.out, "%s got nothing: %s", path, run)
    recorded(target, "/dev/null", "--format", "folded").ok()


DEVICES = """mount -t tmpfs -o mode=755 none /dev && mknod -m 666 /dev/null c 1 3 && ln -s /proc/self/fd /dev/fd &&
ln -s /proc/self/fd/1 /dev/stdout && "$@" > out && test -L /dev/stdout && ls -A /dev > left"""


@harness.one_python
def test_the_file_that_a_device_leads_to_is_written_in_its_place(py):
    """As root, for whom /dev is a folder like others, here one of its own; the kinds that are written whole, and perf's, whose
    symbols go where those of a stream do."""
    need_root()
    harness.need_command("unshare")
    target, home = Target(py, "groundtruth.py"), harness.folder()
    harness.write(os.path.join(home, "a.folded"), "p-1;main (app.py:1) 3\n")

    def to_stdout(*words):
        run = pysampled(*words, "-o", "/dev/stdout", home=home, wrapper=("unshare", "-m", "sh", "-c", DEVICES, "sh")).ok()
        with open(os.path.join(home, "left")) as file:
            equal(file.read().split(), ["fd", "null", "stdout"], "files in /dev")
        check("next: " not in run.err, "what is said of a device: %s", run)
    to_stdout("convert", "a.folded", "--format", "folded")
    holds(os.path.join(home, "out"), "p-1;main (app.py:1) 3\n")
    for format in "folded", "perf":
        to_stdout("-p", target.pid, "-F", 499, "-d", 1, "--format", format)
        rows = json.loads(pysampled("report", "out", "--json", home=home).ok().out)["rows"]
        check(any(re.match(r"[fg]_\d\d", row["name"]) for row in rows), "names of %s: %s", format, rows)


FUNCTIONS = """
source = "\\n".join("def function_with_a_name_%d(n):\\n for i in range(300): n += i\\n return n" % i for i in range(1000))
names = {}
exec(compile(source, "/many.py", "exec"), names)
functions = [names["function_with_a_name_%d" % i] for i in range(1000)]
print("READY", flush=True)
while True:
    for f in functions:
        f(1)
"""


def many_functions(py):
    target = harness.start([py.path, "-c", FUNCTIONS], stdout=-1)
    equal(target.stdout.readline(), b"READY\n", "the target")
    return target


@harness.each(kb=[64, 100, 200, 260, 400, 1000])
@harness.one_python
def test_names_are_the_last_thing_that_a_full_disk_takes(py, kb):
    need_root()
    harness.need_command("perf")
    target = many_functions(py)
    disk = harness.small_disk(kb)
    data = os.path.join(disk, "perf.data")
    run = pysampled("-p", target.pid, "-F", 4000, "-d", 2, "-o", data)
    text, _ = harness.perf("script", "-i", data, "-F", "ip,sym", home=harness.folder())
    check("py::" in text and "functions are lost" not in run.err, "no names, where there is room for some: %s", run)
    first = re.search(r"it has the first (\d+) of (\d+) samples", run.err)
    there = harness.perf_samples(data, harness.folder())
    equal(there, int(first[1]) if first else run.n("samples"), "samples in the file")
    equal(there, run.n("samples") - int(run.summary.get("unwritten", 0)), "those taken without those unwritten: %s" % run)
    harness.enough(run.rc == 1 or kb >= 200, "the disk did not fill: %s", run)


@harness.each(kb=[4, 16, 64, 200])
@harness.one_python
def test_a_full_disk_says_what_it_took_of_a_tape(py, kb):
    need_root()
    target = many_functions(py)
    disk, home = harness.small_disk(kb), harness.folder()
    out = os.path.join(disk, "out.tape")
    run = pysampled("-p", target.pid, "-F", 4000, "-d", 2, "-o", out, "-o", "whole.folded", home=home)
    taken, unwritten = run.n("samples"), int(run.summary.get("unwritten", 0))
    equal(run.rc, 1 if unwritten else 0, "exit status of %s" % run)
    check(not unwritten or "No space left on device" in run.err, "no word why: %s", run)
    there = re.match(r"# (\d+) samples", pysampled("report", out, "--by", "event", home=home).out)
    equal(int(there[1]) if there else 0, taken - unwritten, "samples in the file: %s" % run)
    harness.enough(unwritten or kb > 4, "the disk did not fill: %s", run)


@harness.one_python
def test_what_lost_its_names_is_not_to_be_unpacked(py):
    need_root()
    target = Target(py, "groundtruth.py")
    disk = harness.small_disk(40)
    run = pysampled("-p", target.pid, "-F", 999, "-d", 2, "-o", os.path.join(disk, "a.data"), "-o", os.path.join(disk, "a.tape"))
    harness.enough("functions are lost" in run.err, "there was room for names: %s", run)
    check("unpack" not in run.err, "what is told of it: %s", run)


@harness.each(threads=["", "--threads"])
@harness.one_python
def test_folded_stacks_stay_what_they_are(py, threads):
    """Those without threads got one each, called as the process."""
    home, target = harness.folder(), Target(py, "groundtruth.py")
    pysampled("-p", target.pid, "-F", 499, "-d", 1, *threads.split(), "-o", "a.folded", home=home).ok()
    pysampled("convert", "a.folded", "-o", "b.folded", home=home).ok()
    with open(os.path.join(home, "a.folded")) as one, open(os.path.join(home, "b.folded")) as other:
        want = sorted(one)
        equal(sorted(other), want, "the same stacks")
    harness.enough(want, "no samples")


@harness.one_python
def test_too_few_descriptors_are_told(py):
    need_root()
    target = Target(py, "groundtruth.py")
    said = 0
    for limit in range(4, 12):
        run = pysampled("dump", "-p", target.pid, wrapper=("sh", "-c", 'ulimit -n %d; exec "$@"' % limit, "sh"))
        check("holds an interpreter" not in run.err, "at %d descriptors: %s", limit, run)
        if "no descriptors left" in run.err:
            python = "groundtruth.py" in run.out and "lack native frames" in run.err
            equal(run.rc, 0 if python else 1, "the exit code at %d descriptors: %s" % (limit, run))
            said += 1
    check(said > 0, "no limit was low enough")


def folded_counts(path):
    """{(name, file): [self, total]} of Python functions."""
    ret = {}
    with open(path) as file:
        for line in file:
            stack, n = line.rsplit(" ", 1)
            put(ret, [split(frame) for frame in stack.split(";")[1:]], int(n))
    return ret


def split(frame):
    m = re.fullmatch(r"(.*) \((.*?)(:\d+)?\)", frame)
    return m and (m[1], m[2])


def put(ret, frames, n):
    """Count one stack, root first; what is no Python function is None."""
    for f in set(frames) - {None}:
        ret.setdefault(f, [0, 0])[1] += n
    if frames and frames[-1]:
        ret[frames[-1]][0] += n


def speedscope_counts(path):
    with open(path) as file:
        profile = json.load(file)
    frames, ret = [(f["name"], f.get("file")) for f in profile["shared"]["frames"]], {}
    for p in profile["profiles"]:
        equal((p["unit"], p["endValue"]), ("none", sum(p["weights"])), "the unit and the end")
        for stack, n in zip(p["samples"], p["weights"]):
            put(ret, [frames[i] if frames[i][1] else None for i in stack], n)
    return ret


def page_counts(path):
    with open(path) as file:
        data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', file.read(), re.S)[1])
    ret = {}
    for node, _thread, _event, _prov, n in data["rows"]:
        frames = []
        while node:
            name, where, kind = data["funcs"][data["frames"][data["nodes"][2 * node + 1]][0]]
            frames.insert(0, (name, where) if kind == "python" else None)
            node = data["nodes"][2 * node]
        put(ret, frames, n)
    return ret


@harness.each(packed=["", "-z", "-z9"])
@harness.one_python
def test_a_recording_from_another_machine_is_unpacked(py, packed):
    """There is neither the file beside it nor what perf keeps of it."""
    here, there = harness.folder(), harness.folder()
    target = Target(py, "groundtruth.py")
    run = pysampled("-p", target.pid, "-F", 499, "-d", 1, "-o", "a.data", *packed.split(), home=here).ok()
    check("and there: pysampled unpack a.data" in run.err, "nobody says how to move it: %s", run)
    moved = os.path.join(there, "a.data")
    os.rename(os.path.join(here, "a.data"), moved)
    shutil.rmtree(os.path.join(here, "a.data.pyframes"))

    def names():
        return re.findall(r"py::(\w+)", harness.perf("report", "--stdio", "-g", "none", "-i", moved, home=there)[0])
    equal(names(), [], "names before")
    run = pysampled("unpack", moved, home=there).ok()
    equal((run.out, "; next: perf report -i " in run.err), ("", True), "what is said on which stream: %s" % run)
    check(any(re.match(r"[fg]_\d\d", name) for name in names()), "perf has no names: %s", names())
    check(os.path.exists(moved + ".pyframes/pyframes.so"), "nothing beside it")
    with open(moved, "r+b") as file:
        file.truncate(os.path.getsize(moved) // 2)
    pysampled("unpack", moved, home=there).ok(1)
    pysampled("unpack", os.path.join(there, "nix")).ok(1)
    pysampled("unpack").ok(2)


def test_what_perf_would_not_find_is_not_unpacked():
    """Its cache can't be made; where it was recorded it is found without."""
    here, there = harness.folder(), harness.folder()
    path = os.path.join(here, "a.data")
    subprocess.run([os.path.join(harness.BUILD, "mkperfdata"), path], check=True, stdout=subprocess.DEVNULL, env=harness.plain_env(HOME=here))
    moved, no_home = shutil.copy(path, there), ("env", "HOME=" + path)
    pysampled("unpack", path, wrapper=no_home).ok()
    run = pysampled("unpack", moved, wrapper=no_home).ok(1)
    check("Not a directory" in run.err and "HOME" in run.err and "next:" not in run.out, "what is said: %s%s", run, run.out)
    pysampled("unpack", moved, home=there).ok()


HELL = r"""
import sys
names = ["two words", "a;b", "f(x:7)", "new\nline\r\x85\u2028end", "\x1b[31mred", "gr\xf6\xdfe \u4f60\u597d \U0001f40d", "lone\udcffone",
         "<script>alert('&amp;')</script>", "back\\slash 'n' \"quote\"", "a[b[0]]>c", "x" * 4095 + "y", "\xe4" * 4096, "%s %d"]
files = {n: "/tmp/%s.py" % n[:60] for n in names}
def work():
    n = 0
    for i in range(20000): n += i
functions = []
for name in names:
    code = compile("def f():\n  n = 0\n  for i in range(20000): n += i\n", files[name], "exec").co_consts[0]
    code = code.replace(co_name=name, co_qualname=name) if hasattr(code, "co_qualname") else code.replace(co_name=name)
    functions.append(type(work)(code, {}))
print("READY", flush=True)
while True:
    for f in functions: f()
"""


def hell():
    """{name: file} of HELL's functions, as outputs have them: a lone surrogate is one replacement sign."""
    names = {}
    source = HELL[:HELL.index("def work")]
    exec(source, names)
    return {n.replace("\udcff", "\ufffd"): names["files"][n].replace("\udcff", "\ufffd") for n in names["names"]}


def strings_of(profile):
    """The string table of a profile.proto, and its functions' (name, file)."""
    def varint(b, i):
        v = s = 0
        while True:
            v |= (b[i] & 127) << s
            s, i = s + 7, i + 1
            if b[i - 1] < 128:
                return v, i

    def fields(b):
        i = 0
        while i < len(b):
            key, i = varint(b, i)
            v, i = varint(b, i)
            if key & 7 == 2:
                v, i = b[i:i + v], i + v
            yield key >> 3, v
    top = list(fields(profile))
    strings = [v.decode() for k, v in top if k == 6]
    functions = [dict(fields(v)) for k, v in top if k == 5]
    return {(strings[f.get(2, 0)], strings[f.get(4, 0)]) for f in functions}


@harness.one_python
def test_names_from_hell(py):
    """Whole and as they are where a format can hold them; else filtered, and each line is still a line."""
    home, want = harness.folder(), hell()
    target = harness.start([py.path, "-c", HELL], stdout=-1)
    equal(target.stdout.readline(), b"READY\n", "the target")
    files = ["a.data", "a.folded", "a.pb.gz", "a.speedscope.json", "a.html", "a.svg", "a.gecko.json"]
    run = pysampled("-p", target.pid, "-F", 999, "-d", 3, "--full-paths", *[x for f in files for x in ("-o", f)], home=home).ok()
    harness.enough(run.n("samples") > 400, "too few for each of 13 functions: %s", run)
    is_plain(run.err.replace("\ufffd", ""), "record's messages")
    for name in "b.folded", "b.pb.gz", "b.speedscope.json", "b.html":
        pysampled("convert", "a.data", "-o", name, *["--full-paths"] * name.endswith(".folded"), home=home).ok()

    def text(name):
        with open(os.path.join(home, name), "rb") as file:
            return file.read().decode()  # whoever writes it, it is valid UTF-8
    for p in "a", "b":
        with gzip.open(os.path.join(home, p + ".pb.gz")) as file:
            pairs = strings_of(file.read())
        equal(want.items() - pairs, set(), "names that pprof lacks in " + p)
        frames = {(f["name"], f.get("file")) for f in json.loads(text(p + ".speedscope.json"))["shared"]["frames"]}
        equal(want.items() - frames, set(), "names that speedscope lacks in " + p)
        data = re.search(r"\{\"title\".*\}", text(p + ".html"), re.S)[0]
        funcs = {(f[0], f[1]) for f in json.JSONDecoder().raw_decode(data)[0]["funcs"]}
        equal(want.items() - funcs, set(), "names that the page lacks in " + p)
        is_plain(text(p + ".folded").replace("\ufffd", ""), "folded")
        for line in text(p + ".folded").split("\n")[:-1]:
            check(re.fullmatch(r".+-\d+(;[^;]+)* \d+", line) and len(line.splitlines()) == 1, "a line of folded: %r", line)
        for name, file in want.items():
            plain = [re.sub("[\\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", "?", x).replace(";", ":") for x in (name, file)]
            check("%s (%s" % tuple(plain) in text(p + ".folded"), "folded %s lacks %r", p, name[:100])
    stacks = set(json.loads(text("a.gecko.json"))["threads"][0]["stringArray"])
    equal({n for n in want if not any(s.startswith(n) for s in stacks)}, set(), "names that gecko lacks")
    titles = [t.text for t in xml.etree.ElementTree.fromstring(text("a.svg")).iter("{http://www.w3.org/2000/svg}title")]
    check(any(t.startswith("<script>alert('&amp;')</script> (") for t in titles), "the image: %s", titles[:20])
    said, warned = harness.perf("script", "-i", os.path.join(home, "a.data"), "-F", "ip,sym,srcline", home=home)
    equal(warned, "", "perf warns")
    check(r"py::new\x0aline\x0d\x85\u2028end:" in said and r"py::a\x3bb:" in said, "perf has other names")
    is_plain(said.replace("\ufffd", "").replace("\t", ""), "perf script")
    said = pysampled("report", "a.data", "-n", 0, home=home).ok().out
    is_plain(said.replace("\ufffd", ""), "report")
    rows = {(r["name"], r["file"]) for r in json.loads(pysampled("report", "a.data", "--json", home=home).ok().out)["rows"]}
    equal(want.items() - rows, set(), "names that report --json lacks")


@harness.one_python
def test_a_diff_knows_names_as_folded_stacks_have_them(py):
    """One recording, once with names as they are and once filtered, has no changes."""
    home = harness.folder()
    target = harness.start([py.path, "-c", HELL], stdout=-1)
    equal(target.stdout.readline(), b"READY\n", "the target")
    pysampled("-p", target.pid, "-F", 199, "-d", 2, "-o", "a.data", "-o", "a.folded", "-o", "a.tape", home=home).ok()
    for pair in ("a.data", "a.folded"), ("a.folded", "a.tape"):
        for by in "function", "line", "file":
            rows = pysampled("diff", *pair, "-n", 0, "--by", by, home=home).ok().out.splitlines()[3:]
            harness.enough(len(rows) > 4, "too few samples: %s", rows)
            equal([row for row in rows if not re.match(" *[-+]0.00% ", row)], [], "changes between %s by %s" % (pair, by))


def piped(command, *options, home):
    """A recording of @command's target, read by perf from a pipe: what both say."""
    env = harness.plain_env(HOME=home, PERF_PAGER="cat")
    with harness.subprocess.Popen([harness.PYSAMPLED, "-o", "-", "--format", "perf", *map(str, options)], env=env,
                                  stdout=-1, stderr=-1, text=True) as run:
        read = harness.subprocess.run(["perf", *command], env=env, stdin=run.stdout, stdout=-1, stderr=-1, text=True,
                                      errors="replace", timeout=60)
        said = run.stderr.read()
    equal((run.returncode, read.returncode, read.stderr), (0, 0, ""), "how it ended: %s" % said)
    return read.stdout, int(re.search(r"^samples=(\d+)", said, re.M)[1])


@harness.each(packed=["", "-z"])
@harness.one_python
def test_perf_reads_from_a_pipe(py, packed):
    """All samples, with names also of functions that were met late."""
    harness.need_command("perf")
    home, target = harness.folder(), Target(py, "groundtruth.py")
    options = ["-p", target.pid, "-F", 499, "-d", 1.5, *packed.split()]
    text, n = piped(["script", "-i", "-", "-F", "comm,tid,ip,sym,dso"], *options, home=home)
    equal(len(re.findall(r"^\S.*\d+ *$", text, re.M)), n, "samples")
    check("py::g_" in text and "py::f_" in text, "perf script has no names: %s", text[:1000])
    check("[unknown] (/pyframes.so)" not in text, "frames of Python without a name")
    harness.enough(n > 100, "%d samples", n)
    text, _ = piped(["report", "-i", "-", "--stdio"], *options, home=home)
    check("py::g_" in text and "py::f_" in text, "perf report has no names: %s", text[:1000])
    equal(os.listdir(home), [".debug"], "files")


@harness.each(packed=["", "-z"])
@harness.one_python
def test_what_went_down_a_pipe_is_read(py, packed):
    """report and convert tell the same of it as of another output of the same recording; cut, what stands before that."""
    home, target = harness.folder(), Target(py, "groundtruth.py")
    path = os.path.join(home, "x.data")
    with open(path, "wb") as file:
        run = harness.subprocess.run([harness.PYSAMPLED, "-p", str(target.pid), "-e", "cpu-clock,page-faults", "-F", "499", "-d", "1.5",
                                      *packed.split(), "-o", "-", "--format", "perf", "-o", "x.folded"],
                                     env=harness.plain_env(HOME=home), cwd=home, stdout=file, stderr=-1, text=True)
    equal(run.returncode, 0, run.stderr)
    with open(os.path.join(home, "x.folded")) as file:
        want = sorted(file)
    harness.enough(len(want) > 10, "%s", want)
    equal(sorted(pysampled("convert", "x.data", "-o", "-", home=home).ok().out.splitlines(True)), want, "stacks")
    rows = json.loads(pysampled("report", "x.data", "--by", "event", "--json", home=home).ok().out)["rows"]
    harness.enough(rows[0]["self"] > 50, "samples: %s", rows)
    size = os.path.getsize(path)
    for cut in size * 9 // 10, 1000, 300, 100, 17:
        os.truncate(path, cut)
        run = pysampled("report", "x.data", "--by", "event", "--json", home=home)
        equal((run.rc, "damaged" in run.err), (1, True), "what is said when %d of %d bytes are left: %s" % (cut, size, run))


@harness.each(options=["", "-z", "--call-graph=dwarf,4096"])
@harness.one_python
def test_what_perf_sent_down_a_pipe_is_read(py, options):
    harness.need_command("perf")
    home, target = harness.folder(), Target(py, "groundtruth.py")
    path = os.path.join(home, "x.data")
    with open(path, "wb") as file:
        harness.subprocess.run(["perf", "record", "-q", "-e", "cpu-clock,page-faults", "-F", "499", *options.split(), "-p", str(target.pid), "-o", "-",
                                "--", "sleep", "1"], cwd=home, stdout=file, stderr=-1, check=True)
    with open(path, "rb") as file:
        theirs = harness.subprocess.run(["perf", "script", "-i", "-", "-F", "event"], stdin=file, stdout=-1, stderr=-1, text=True).stdout.split()
    theirs = {name: theirs.count(name + ":") for name in ("cpu-clock", "page-faults") if name + ":" in theirs}
    harness.enough(theirs.get("cpu-clock", 0) > 20, "samples: %s", theirs)
    for words in (["x.data"], ["-"]):
        with open(path, "rb") as file:
            run = harness.subprocess.run([harness.PYSAMPLED, "report", *words, "--by", "event", "--json"], cwd=home, stdin=file, stdout=-1, stderr=-1, text=True)
        equal(run.returncode, 0, run.stderr)
        ours = {row["name"]: row["self"] for row in json.loads(run.stdout)["rows"]}
        equal(ours, theirs, "samples of " + words[0])


@harness.each(size=[256, 32768])
@harness.one_python
def test_a_stack_whose_copy_ends_says_so(py, size):
    """perf copies the stack's begin: where a thread's start is not reached a marker stands in its place."""
    harness.need_command("perf")
    home, target = harness.folder(), Target(py, "groundtruth.py")
    path = os.path.join(home, "x.data")
    harness.perf("record", "-q", "-e", "cpu-clock:u", "-F", "499", "--call-graph=dwarf,%d" % size, "-p", str(target.pid), "-o", path, "--", "sleep", "1", home=home)
    stacks = harness.parse_folded(pysampled("convert", path, "-o", "-", home=home).ok().out)
    roots = {}
    for frames, count in stacks:
        roots[frames[1]] = roots.get(frames[1], 0) + count
    harness.enough(sum(roots.values()) > 20, "samples: %s", roots)
    markers = {root for root in roots if re.match(r"\[(cut|limit|bad stack|no \w+)\]$", root)}
    equal(set(roots) - markers - {"_start", "clone3", "__clone3", "clone", "__clone"}, set(), "begins of stacks among %s" % roots)
    check("[cut]" in roots if size == 256 else "_start" in roots, "begins of stacks: %s", roots)


def is_full(pipe, least=20000):
    """Has nothing more gone into it for a second?"""
    def waiting():
        n = bytearray(4)
        fcntl.ioctl(pipe, termios.FIONREAD, n)
        return int.from_bytes(n, "little")

    before = waiting()
    time.sleep(1)
    return before > least and waiting() == before


def gives_up(run, how):
    """Ends of a signal, and tells that nobody reads what it writes: what it printed."""
    run.send_signal(how)
    try:
        run.wait(20)
    except harness.subprocess.TimeoutExpired:
        run.kill()
        run.wait()
    said = run.stderr.read()
    equal(run.returncode, 1, "exit status: %s" % said)
    check("has stopped reading" in said, "not told: %s", said)
    return said


def recording_into(out, target, *args):
    return harness.subprocess.Popen([harness.PYSAMPLED, "-p", str(target.pid), "-F", "999", *map(str, args)], pass_fds=[out],
                                    env=harness.plain_env(HOME=harness.folder()), stdout=out, stderr=-1, text=True)


def attached(run):
    while "attached" not in run.stderr.readline():
        check(run.poll() is None, "it has ended")


STREAMS = ["perf", "folded", "pprof", "speedscope", "gecko", "flamegraph", "tape"]


@harness.each(format=STREAMS)
@harness.each(how=[signal.SIGINT, signal.SIGTERM])
@harness.dealt
@harness.one_python
def test_who_stops_reading_a_stream_holds_up_no_end(py, how, format):
    target = Target(py, "groundtruth.py")
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    try:
        while format != "perf":
            os.write(theirs, bytes(4096))  # no room is left
    except BlockingIOError:
        os.set_blocking(theirs, True)
    with recording_into(theirs, target, "-o", "-", "--format", format) as run:
        attached(run)
        harness.until(lambda: is_full(ours), "the pipe is full")
        gives_up(run, how)
    os.close(ours)
    os.close(theirs)


@harness.one_python
def test_who_stops_reading_after_the_end_is_waited_for_until_a_signal(py):
    """A pager: all is there for who goes on reading, and Ctrl-C ends it for who does not."""
    target = Target(py, "groundtruth.py")
    for goes_on in (True, False):
        ours, theirs = os.pipe()
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
        with recording_into(theirs, target, "-d", 0.5, "-o", "-") as run:
            os.close(theirs)
            harness.until(lambda: is_full(ours, 2000), "the pipe is full")
            check(run.poll() is None, "nobody waits for who reads")
            if goes_on:
                with os.fdopen(ours) as pipe:
                    text = pipe.read()
                said = run.stderr.read()
                n = sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())
                check(run.wait() == 0 and "samples=%d " % n in said, "%d samples were read of: %s", n, said)
            else:
                gives_up(run, signal.SIGTERM)
                os.close(ours)


@harness.one_python
def test_a_fifo_without_a_reader_is_not_waited_for(py):
    """Opened by way of a descriptor, and as root a FIFO of its own in /dev."""
    target, fifo = Target(py, "groundtruth.py"), os.path.join(harness.folder(), "fifo")
    os.mkfifo(fifo)
    paths = []
    held = os.open(fifo, os.O_PATH)
    paths.append("/dev/fd/%d" % held)
    if os.getuid() == 0:
        paths.append("/dev/pysampled-test-%d" % os.getpid())
        os.mkfifo(paths[-1])
        harness.cleanup(os.unlink, paths[-1])
    for path in paths:
        for format in STREAMS:
            run = harness.subprocess.run([harness.PYSAMPLED, "-p", str(target.pid), "-d", "0.2", "-o", path, "--format", format],
                                         pass_fds=[held], stdout=-1, stderr=-1, text=True, timeout=30)
            check(run.returncode == 1 and "nobody reads it" in run.stderr, "%s to %s: %s", format, path, run)
    os.close(held)


@harness.each(format=STREAMS)
@harness.one_python
def test_whose_reader_goes_is_told(py, format):
    """Of a FIFO: by a descriptor that can be read, too, we would be a reader ourselves."""
    target, fifo = Target(py, "groundtruth.py"), os.path.join(harness.folder(), "fifo")
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    held = os.open(fifo, os.O_WRONLY)
    with recording_into(held, target, "-d", 3, "-o", "/dev/fd/%d" % held, "--format", format) as run:
        attached(run)
        os.close(held)
        os.close(reader)
        said = run.stderr.read()
    check(run.returncode == 1 and "Broken pipe" in said, "not told: %s", said)


@harness.each(removed=["file", "folder"])
@harness.each(format=["data", "folded", "tape", "html"])
@harness.one_python
def test_an_output_that_is_removed_meanwhile_is_told(py, format, removed):
    target, home, out = Target(py, "groundtruth.py"), harness.folder(), os.path.join(harness.folder(), "out")
    os.mkdir(out)
    path = os.path.join(out, "a." + format)
    recorder = harness.Recorder("-p", target.pid, "-F", 199, "-o", path, "-o", "kept.folded", home=home).recording()
    if removed == "file":
        os.unlink(path)
    else:
        shutil.rmtree(out)
    harness.works(target.pid, 0.1)
    run = recorder.signal(signal.SIGINT).wait()
    there = os.path.exists(path)  # what is put in place as a whole is there again, where there is a folder
    check(there or (run.rc == 1 and "a.%s was removed while it was written" % format in run.err), "not told: %s", run)
    check(not there or run.rc == 0, "told, and it is there: %s", run)
    check(os.path.getsize(os.path.join(home, "kept.folded")) > 0, "the other output: %s", run)
    check(removed == "file" or not there, "where is it?")


@harness.one_python
def test_nothing_goes_where_a_closed_stream_was(py):
    """What is opened first would have its number: a signal descriptor, a helper's socket, an output."""
    home, target = harness.folder(), Target(py, "groundtruth.py")
    for closed in ("1>&-", "0<&- 1>&-"):
        for format in STREAMS:
            run = pysampled("-p", target.pid, "-d", 0.2, "-o", "-", "--format", format, home=home,
                            wrapper=("sh", "-c", 'exec "$@" ' + closed, "sh"))
            harness.enough(run.rc == 1 or run.n("samples") > 0, "nothing to write: %s", run)
            check(run.rc == 1 and "Bad file descriptor" in run.err, "%s with %s: %s", format, closed, run)
    for closed in ("2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"):
        run = pysampled("-p", target.pid, "-d", 0.2, "-v", "-o", "a.folded", home=home,
                        wrapper=("sh", "-c", 'exec "$@" ' + closed, "sh"))
        equal(run.rc, 0, "the exit code with %s" % closed)
        with open(os.path.join(home, "a.folded")) as file:
            check("pysampled" not in file.read(), "messages are in the output")


@harness.one_python
def test_a_stream_that_nobody_could_name_is_refused(py):
    home, target = harness.folder(), Target(py, "groundtruth.py")
    kept = os.path.join(home, "kept")
    for env in ({}, {"HOME": ""}):
        with open(kept, "wb") as out:
            run = harness.subprocess.run([harness.PYSAMPLED, "-p", str(target.pid), "-d", "1", "-o", "-", "--format", "perf"],
                                         env=env, stdout=out, stderr=-1, text=True)
        check(run.returncode == 1 and "HOME" in run.stderr, "not refused: %s", run)
        equal(os.path.getsize(kept), 0, "bytes written")
    with open(kept, "wb") as out:
        harness.subprocess.run([harness.PYSAMPLED, "-p", str(target.pid), "-F", "999", "-d", "1", "-o", "-", "--format", "perf"],
                               env=harness.plain_env(HOME=home), stdout=out, stderr=-1, check=True)
    told = pysampled("report", kept, home=home).ok().out
    check(re.search(r"spin_\d\d", told), "a stream that was kept tells no names: %s", told)


def test_a_report_shows_the_first_of_all_rows():
    """A few are found without sorting all; functions with as many samples stand by name, then by file."""
    home = harness.folder()
    with open(os.path.join(home, "a.folded"), "w") as file:
        file.writelines("main (/a.py:1);f%d (/%d.py:1) %d\n" % (i * 37 % 101, i % 2, 1 + i * 53 % 7) for i in range(300))

    def rows(*words):
        return json.loads(pysampled("report", "a.folded", "--json", *words, home=home).ok().out)["rows"]
    for sort in "self", "total":
        key = lambda row: (-row[sort], -row["self"], -row["total"], row["name"], row["file"])
        every = rows("--sort", sort)
        equal(len(every), 203, "functions")
        equal(every, sorted(every, key=key), "rows by " + sort)
        for n in 1, 5, 64, 65, 202, 204:
            equal(rows("--sort", sort, "-n", n), every[:n], "the first %d by %s" % (n, sort))


def test_a_diff_shows_no_change_where_there_is_none():
    """Rows that are chosen are those that changed; where there is room for all, all are there."""
    home = harness.folder()
    for name, text in ("a", "f (a.py:1) 5\np-1;g (a.py:2) 5\n"), ("b", "f (a.py:1) 10\np-1;g (a.py:2) 5\np-1;h (a.py:2) 5\n"):
        with open(os.path.join(home, name + ".folded"), "w") as file:
            file.write("p-1;m (a.py:9);" + text)

    def rows(*words):
        out = pysampled("diff", *words, home=home).ok().out
        return re.findall(r"^ *([-+][\d.]+)%.* (\w+) ", out, re.M), out
    found, out = rows("a.folded", "a.folded", "-n", 2)
    check(not found and "# no change in 3: -n 0 shows them" in out, "%s", out)
    found, out = rows("a.folded", "b.folded", "-n", 3)
    equal(found, [("+25.00", "h"), ("-25.00", "g")], "rows of " + out)
    equal(len(rows("a.folded", "b.folded", "-n", 0)[0]), 4, "all rows")


def test_a_diff_shows_no_line_where_none_is_known():
    home = harness.folder()
    for name, n in ("a.folded", 3), ("b.folded", 5):
        with open(os.path.join(home, name), "w") as file:
            file.write("main (x.py:7);search (x.py) %d\nmain (x.py:7) 2\n" % n)
    out = pysampled("diff", "a.folded", "b.folded", "--by", "line", home=home).ok().out
    check("search (x.py)\n" in out and "main (x.py:7)\n" in out, "lines: %s", out)


def test_a_diff_tells_what_may_stand_twice():
    """A file has a longer short name where another one of its name was sampled, too."""
    home = harness.folder()
    for name, text in (("a", "p-1;list (orders/views.py:5) 4\np-1;add (users/views.py:5) 6\n"), ("b", "p-1;list (views.py:5) 4\n"),
                       ("c", "p-1;list (views.py:5) 4\np-1;list (orders/views.py:5) 4\n"), ("d", "p-1;list (reviews.py:5) 4\np-1;find (views.py:5) 2\n")):
        harness.write(os.path.join(home, name), text)
    for more in (), ("--by", "line"), ("--by", "file"), ("-o", "x.html"):
        for pair, told in (("ab", True), ("ba", True), ("aa", False), ("bd", False), ("cc", False)):
            run = pysampled("diff", *pair, *more, home=home).ok()
            equal("--full-paths" in run.err, told, "of %s %s: %s" % (pair, more, run.err))
            check(not told or "1 may stand twice, such as " in run.err, "%s", run.err)


def test_folded_stacks_of_other_tools_stay_what_they_are():
    """Convert gives them back as they were, but for line ends, and report shows each frame."""
    home = harness.folder()
    text = "worker-3;run;f 5\nworker-4;run;f 4\nworker-4;run;g 3\n"
    for name, data in ("unix", text.encode()), ("windows", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()):
        with open(os.path.join(home, name), "wb") as file:
            file.write(data)
        equal(pysampled("convert", name, "-o", "-", home=home).ok().out, text, name)
        rows = json.loads(pysampled("report", name, "--json", home=home).ok().out)["rows"]
        equal({r["name"]: r["total"] for r in rows}, {"worker-3": 5, "worker-4": 7, "run": 12, "f": 9, "g": 3}, name)


def test_a_diff_is_of_one_event():
    """Of those that both have, whichever comes first in either file; a recording without samples is refused, by a page too."""
    home = harness.folder()
    for name, text in (("a", "p-1;event:x;f 1\np-1;event:y;g 3\n"), ("b", "p-1;event:y;g 2\np-1;event:x;f 5\n"),
                       ("y", "p-1;event:z;f 1\np-1;event:y;g 4\n"), ("none", "p-1;f 0\n")):
        with open(os.path.join(home, name + ".folded"), "w") as file:
            file.write(text)

    def head(*words):
        return re.findall(r"^# [AB]: (\d+) samples of (\w+), ", pysampled("diff", *words, home=home).ok().out, re.M)
    equal(head("a.folded", "b.folded"), [("1", "x"), ("5", "x")], "a and b")
    equal(head("b.folded", "a.folded"), [("2", "y"), ("3", "y")], "b and a")
    equal(head("a.folded", "y.folded"), [("3", "y"), ("4", "y")], "where only the second is in both")
    pysampled("diff", "a.folded", "y.folded", "-o", "y.html", home=home).ok()
    with open(os.path.join(home, "y.html")) as file:
        check('"events":["B: y","A: y"]' in file.read().replace("\n", ""), "the page's events")
    with open(os.path.join(home, "y.html")) as file:
        equal(sorted(re.findall(r"^(?:.rows.:)?\[\[?\d+,0,(\d),0,(\d+)\]", file.read(), re.M)), [("0", "4"), ("1", "3")], "what its rows count")
    for pair in ("a.folded", "none.folded"), ("none.folded", "a.folded"):
        for more in (), ("-o", "n.html"):
            check("none.folded has no samples" in pysampled("diff", *pair, *more, home=home).ok(1).err, "%s %s", pair, more)
    check("standard input" in pysampled("diff", "-", "-", home=home).ok(2).err, "both from one stream")


def kernels(kind, body, misc=0):
    """A record."""
    return struct.pack("<I2H", kind, misc, 8 + len(body)) + body


def perf_file(path, records, attrs=((1000, 1 | 2 | 4, 0),)):
    """As perf writes one, by default of samples that have an address, their thread and a time; events' ids are 70, 71, ..."""
    at, ids = 104 + 144 * len(attrs), b"".join(struct.pack("<Q", 70 + i) for i in range(len(attrs)))
    head = struct.pack("<8s8Q", b"PERFILE2", 104, 144, 104, 144 * len(attrs), at + len(ids), len(records), 0, 0).ljust(104, b"\0")
    for i, attr in enumerate(attrs):
        head += struct.pack("<2I%dQ" % (1 + len(attr)), i, 128, 0, *attr).ljust(128, b"\0") + struct.pack("<2Q", at + 8 * i, 8)
    with open(path, "wb") as file:
        file.write(head + ids + records)


def python_file(path, pid, functions):
    """As of perf record of python -X perf, whose process has ended: a sample of each function, a name and a file."""
    named = "/tmp/perf-%d.map" % pid
    harness.write(named, "".join("%x 100 py::%s:%s\n" % (4096 * i, *function) for i, function in enumerate(functions, 1)))
    harness.cleanup(os.unlink, named)
    perf_file(path, b"".join(kernels(9, struct.pack("<Q2IQ", 4096 * i + 8, pid, pid, i)) for i, _ in enumerate(functions, 1)))


def test_a_diff_pairs_what_lies_in_another_folder():
    """Functions of a file that only one recording has: with those of the file that is called most alike in the other one. A line says so."""
    home = harness.folder()
    old, new, flask = "/srv/releases/1/%s", "/srv/releases/2/%s", "/%s/lib/python3.%d/site-packages/flask/app.py"
    recordings = {
        "old": [("f", old % "app.py"), ("get", old % "orders/views.py"), ("get", old % "users/views.py"), ("run", flask % ("home/a/venv", 11))],
        "new": [("f", new % "app.py"), ("get", new % "orders/views.py"), ("get", new % "users/views.py"), ("run", flask % ("venv", 12))],
        "one": [("f", new % "app.py"), ("get", new % "users/views.py")],
        "which": [("f", new % "app.py"), ("get", new % "carts/views.py")],
        "orders": [("f", old % "app.py"), ("get", old % "orders/views.py")],
        "carts": [("f", old % "app.py"), ("get", old % "carts/views.py")],
    }
    for i, (name, functions) in enumerate(recordings.items()):
        python_file(os.path.join(home, name), 5000000 + 8 * os.getpid() + i, functions) # the kernel has no such numbers
    twice, alike = [("+", "get", "carts"), ("-", "get", "orders")], ("f", "get", "run")
    for pair, joined, may, apart in ((("old", "new"), 4, 0, []), (("new", "old"), 4, 0, []), (("old", "old"), 0, 0, []),
                                     (("old", "one"), 2, 0, [("-", "get", "orders"), ("-", "run", "flask")]),
                                     (("old", "which"), 1, 1, [*twice, ("-", "get", "users"), ("-", "run", "flask")]),
                                     (("orders", "carts"), 0, 0, twice)):
        run = pysampled("diff", *pair, "-n", 0, home=home).ok()
        rows = re.findall(r"^ *([-+])[\d.]+% +([\d.]+)% +([\d.]+)%  (\w+) \(\S*?(\w+)/\w+\.py\)$", run.out, re.M)
        equal(sorted((sign, name, file) for sign, a, b, name, file in rows if "0.00" in (a, b)), sorted(apart), "who stands alone in %s: %s" % (pair, run.out))
        equal(len(rows) - len(apart), joined or len(rows) - len(apart), "pairs of %s: %s" % (pair, run.out))
        for n, what in (joined, "paired by short names"), (may, "may stand twice"):
            equal(re.findall(r"differ: (\d+) %s, such as (?:%s) " % (what, "|".join(alike)), run.err), [str(n)] if n else [], "what is said of %s: %s" % (pair, run.err))
        run = pysampled("diff", *pair, "-o", "x.html", home=home).ok()
        equal(re.findall(r"differ: (\d+) may stand twice, .*-o FILE.folded", run.err), [str(joined + may)] if joined + may else [], "what is said of the page of %s" % (pair,))
    text = pysampled("diff", "old", "new", "--by", "file", home=home).ok().out
    equal(len(re.findall(r"^ +\+0.00% +25.00% +25.00%  python ", text, re.M)), 4, "files: " + text)


def test_lost_samples_are_told():
    """By whatever reads a recording. What perf says of a full ring twice is lost once, and what a filter took is not."""
    home = harness.folder()
    paths = [os.path.join(home, name) for name in ("m.data", "m.tape", "p.data", "none.data", "none.folded")]
    for path in paths[:2]:
        subprocess.run([os.path.join(harness.BUILD, "mkperfdata"), path], check=True, stdout=subprocess.DEVNULL)
    sample, lost, lost_samples = kernels(9, struct.pack("<Q2IQ", 4096, 7, 7, 1)), 2, 13
    perf_file(paths[2], sample + kernels(lost, struct.pack("<2Q", 0, 2)) + kernels(lost, struct.pack("<2Q", 0, 1)) +
              kernels(lost_samples, struct.pack("<Q", 5)) + kernels(lost_samples, struct.pack("<Q", 9), misc=1 << 15))
    perf_file(paths[3], sample)
    with open(paths[4], "w") as file:
        file.write("p-1;f 1\n")
    out = os.path.join(home, "out.folded")
    for path in paths:
        told = "pysampled: %s: 5 samples were lost as it was recorded" % path
        page = ("diff", paths[4] if path == paths[4] else paths[3], path, "-o", out + ".html")
        for words in ("report", path), ("convert", path, "-o", out), ("diff", path, paths[4]), page:
            said = [line for line in pysampled(*words).ok().err.splitlines() if "lost" in line]
            equal(said, [] if "none" in path else [told], "what %s says" % (words,))


def test_many_small_stacks_have_their_share():
    """Also where each of them, here of a thread, has less than half a sample: the period was adapted."""
    home = harness.folder()
    path, out = os.path.join(home, "a.data"), os.path.join(home, "a.folded")
    ids, freq = 1 | 2 | 4 | 256, 1 << 10
    perf_file(path, b"".join(kernels(9, struct.pack("<Q2I2Q", 4096, pid, 1000 * pid + i, 1 + i, period))
                             for pid, period in ((8, 400), (9, 1600)) for i in range(1000)), attrs=((99, ids, 0, freq),))
    rows = json.loads(pysampled("report", path, "--by", "process", "--json").ok().out)["rows"]
    equal({row["name"]: row["self"] for row in rows}, {"?-8": 400, "?-9": 1600}, "samples by process")
    rows = json.loads(pysampled("report", path, "--json").ok().out)["rows"]
    equal([row["self"] for row in rows], [2000], "samples by function")
    pysampled("convert", path, "-o", out, "--threads").ok()
    small = sum(count for frames, count in harness.read_folded(out) if frames[0].startswith("?-8/"))
    check(abs(small - 400) < 4 * 16, "%d samples are of the smaller process", small) # 16: one standard deviation


def test_a_report_tells_that_there_are_other_events():
    home = harness.folder()
    for name, text in ("one", "p-1;f 1\n"), ("two", "p-1;event:x;f 1\np-1;event:y;g 3\n"):
        with open(os.path.join(home, name), "w") as file:
            file.write(text)

    def told(*words):
        return "of 2 events: -e" in pysampled("report", *words, home=home).ok().out
    equal([told("two"), told("two", "-e", "y"), told("two", "--by", "event"), told("one")], [True, False, False, False], "is it told?")
    for wrong in ("two", "--by", "event", "-e", "y"), ("-i", "one", "-i", "two"), ("-i", "one", "two"):
        pysampled("report", *wrong, home=home).ok(2)


def test_an_image_is_text_whatever_names_are():
    """XML's parser takes it, and there is nothing that a terminal obeys: names as other tools write them, and one that is cut."""
    home = harness.folder()
    names = [b"\xff\xfe", b"\xed\xa0\x80", b"\xc2\x9b31m", b"\xf4\x90\x80\x80", b"\xef\xbf\xbe", b"\x1b]0;P", b"<a&\"]]>", b"\xc4\xbc",
             b"\xe4\xbd\xa0" * 4000]
    with open(os.path.join(home, "a.folded"), "wb") as file:
        file.write(b"".join(b"r;" + name.replace(b";", b":") + b" 1\n" for name in names))
    pysampled("convert", "a.folded", "-o", "a.svg", home=home).ok()
    with open(os.path.join(home, "a.svg"), encoding="utf-8") as file:
        text = file.read()
    is_plain(text, "the image")
    titles = {t.text.rpartition(": ")[0] for t in xml.etree.ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}title")}
    for name in "??", "?31m", "?", "?]0:P", '<a&"]]>', "\u013c":
        check(name in titles, "%r is not among %s", name, titles)


def test_a_diff_tells_what_grew_and_what_shrank():
    """By shares, for recordings of any length; functions are paired by name and file, wherever they begin."""
    home = harness.folder(0o777)
    paths = [os.path.join(home, name) for name in ("a.folded", "b.folded")]
    for path, text in zip(paths, ("p-1;main (/a.py:1);f (/a.py:5) 30\np-1;main (/a.py:1);g (/a.py:9) 70\n",
                                  "p-1;main (/a.py:2);f (/a.py:6) 120\np-1;main (/a.py:2);g (/a.py:9) 40\np-1;h (/b.py:2) 40\n")):
        with open(path, "w") as file:
            file.write(text)

    def rows(*more):
        lines = pysampled("diff", *paths, *more).ok().out.splitlines()
        return [line.split(None, 3) for line in lines if not line.startswith("#")]
    equal(rows(), [["+30.00%", "30.00%", "60.00%", "f (/a.py)"], ["+20.00%", "0.00%", "20.00%", "h (/b.py)"],
                   ["+0.00%", "0.00%", "0.00%", "main (/a.py)"], ["-50.00%", "70.00%", "20.00%", "g (/a.py)"]], "rows")
    equal([row[3] for row in rows("-n", 2)], ["f (/a.py)", "g (/a.py)"], "both ends")
    equal([row[0] for row in rows("--by", "file")], ["+20.00%", "-20.00%"], "files")
    equal([row[3] for row in rows("--by", "line") if row[0] != "+0.00%"],
          ["f (/a.py:6)", "h (/b.py:2)", "f (/a.py:5)", "g (/a.py:9)"], "lines")
    for wrong in ((paths[0],), (*paths, "--by", "thread"), (*paths, "-e", "nix")):
        pysampled("diff", *wrong).ok(2)
    pysampled("diff", paths[0], os.path.join(home, "nix")).ok(1)


@harness.each(name=["it's a b.data", "-b.data"])
@harness.one_python
def test_what_to_do_next_can_be_typed(py, name):
    """The commands that a recording's last lines offer are a shell's, whatever the file is called."""
    home = harness.folder(0o777)
    run = pysampled("-o", name, "--", py.path or "python3", "-c", "sum(range(20000000))", home=home).ok()
    line = next(line for line in run.err.splitlines() if "next: " in line)
    first, _, second = line.partition("next: ")[2].partition("; by line: ")
    for command in first, re.sub("^pysampled", harness.PYSAMPLED, second):
        done = subprocess.run(["sh", "-c", command + " > out"], cwd=home, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        equal(done.returncode, 0, "%s: %s" % (command, done.stderr))


def test_two_outputs_are_two_files():
    """By whatever path, there or not; and none is touched."""
    home = harness.folder(0o777)
    os.mkdir(os.path.join(home, "d"))
    for name in "x.folded", "x.data":
        with open(os.path.join(home, name), "w") as file:
            file.write("old")
    os.link(os.path.join(home, "x.folded"), os.path.join(home, "y.txt"))
    for a, b in (("x.data", "./x.data"), ("x.folded", "d/../x.folded"), ("x.folded", "y.txt"), ("n.html", os.path.join(home, "n.html"))):
        run = pysampled("-o", a, "-o", b, "--", "true", home=home).ok(2)
        check("output '%s' is named twice, also as %s" % (b, a) in run.err, "%s and %s: %s", a, b, run.err)
    for pair in ("x.data", "x.data.old"), ("d/../x.data.old", "x.data"):
        run = pysampled(*[word for path in pair for word in ("-o", path, "--format", "perf")], "--", "true", home=home).ok(2)
        check("x.data.old' is where an old 'x.data' is kept" in run.err, "%s: %s", pair, run.err)
    equal(sorted(os.listdir(home)), ["d", "x.data", "x.folded", "y.txt"], "files")
    with open(os.path.join(home, "x.data")) as file:
        equal(file.read(), "old", "the recording of before")
    check("named twice" not in pysampled("-o", "n.html", "-o", "d/n.html", "--", "/nix", home=home).err, "two folders are two")


def test_convert_does_not_write_over_what_it_reads():
    """By whatever path: the recording stays as it is."""
    home = harness.folder(0o777)
    path, link = os.path.join(home, "a.folded"), os.path.join(home, "b.folded")
    text = "p-1;main (/a.py:1) 30\n"
    with open(path, "w") as file:
        file.write(text)
    os.link(path, link)
    for name in path, "-":
        for out in (path, os.path.join(home, ".", "a.folded"), link):
            with open(path) as file:
                run = pysampled("convert", name, "-o", out, stdin=file).ok(2)
            check("both what is read" in run.err, "not told: %s", run.err)
            holds(path, text)


def test_diff_does_not_write_over_what_it_reads():
    """A recording may be called like a page."""
    home = harness.folder(0o777)
    path, other = os.path.join(home, "a.html"), os.path.join(home, "b.folded")
    text = "p-1;main (/a.py:1) 30\n"
    for name in (path, other):
        with open(name, "w") as file:
            file.write(text)
    for pair in ((path, other), (other, path)):
        run = pysampled("diff", *pair, "-o", os.path.join(home, ".", "a.html")).ok(2)
        check("both what is read" in run.err, "not told: %s", run.err)
        with open(path) as file:
            equal(file.read(), text, "the recording")


def test_an_option_of_what_reads_recordings_is_not_ignored():
    """A second -o of convert or diff is refused, and what only a table has beside diff's page; no file is made."""
    home = harness.folder(0o777)
    path, page, other = (os.path.join(home, name) for name in ("a.folded", "x.html", "y.html"))
    with open(path, "w") as file:
        file.write("p-1;main (/a.py:1) 30\n")
    for wrong in (("convert", path, "-o", page, "-o", other), ("diff", path, path, "-o", page, "-o", other),
                  ("diff", path, path, "-o", page, "-n", 3), ("diff", path, path, "--by", "line", "-o", page)):
        pysampled(*wrong).ok(2)
        equal(os.listdir(home), ["a.folded"], "files")
    pysampled("diff", path, path, "-o", page).ok()
    run = pysampled("convert", path, "-o", os.path.join(home, "x.tape")).ok(2)
    check("only record writes tape" in run.err, "not told: %s", run.err)
    run = pysampled("convert", path, "-o", other, "-z").ok(2)
    check("-z packs perf.data" in run.err, "not told: %s", run.err)
    for level in "0", "23", "x":
        check("from 1 to 22" in pysampled("convert", path, "-o", os.path.join(home, "x.data"), "-z" + level).ok(2).err, "level %s", level)
    equal(sorted(os.listdir(home)), ["a.folded", "x.html"], "files")


# The most memory that a command took, in KiB.
MOST = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=-3, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""


def test_a_function_takes_little():
    """Of recordings where nearly each frame is another: report and diff keep each text once, and of one side what is compared."""
    if "ASAN_OPTIONS" in os.environ:
        raise harness.Skip("a sanitizer takes more")
    home = harness.folder()
    few, many = 1000, 125000 # of whose tables nearly all is used
    for n in few, many:
        for side, order in ("a", range(n)), ("b", range(n)[::-1]):
            harness.write(os.path.join(home, "%d%s.folded" % (n, side)),
                          "".join("p-1;main (app.py:1);function%07d (module%03d.py:12) 1\n" % (i, i % 500) for i in order))

    def most(command, n):
        words = [command] + [os.path.join(home, "%d%s.folded" % (n, side)) for side in "ab"[:2 if command == "diff" else 1]]
        ret = subprocess.run([sys.executable, "-c", MOST, harness.PYSAMPLED, *words], stdout=-1, check=True, timeout=100)
        return 1024 * int(ret.stdout)
    for command, limit in ("report", 160), ("diff", 250):
        each = (most(command, many) - most(command, few)) / (many - few)
        check(each < limit, "%s: %d bytes a function", command, each)


def test_short_names_of_files_stay_short():
    """Of folded stacks that have short names of Python files no whole paths can be made: --full-paths is refused."""
    home = harness.folder()
    for name, text in (("short", "p-1;main (app.py:1);json (json/decoder.py:5) 3\n"), ("whole", "p-1;main (/srv/app.py:1) 3\n")):
        harness.write(os.path.join(home, name + ".folded"), text)
    check("short names" in pysampled("convert", "--full-paths", "short.folded", "-o", "out.folded", home=home).ok(2).err, "not told")
    check(not os.path.exists(os.path.join(home, "out.folded")), "a file of what was refused")
    pysampled("convert", "--full-paths", "whole.folded", "-o", "out.folded", home=home).ok()
    with open(os.path.join(home, "out.folded")) as out:
        equal(out.read(), "p-1;main (/srv/app.py:1) 3\n", "stacks")


def test_diff_and_convert_know_python_and_threads():
    home = harness.folder()
    for name, of in (("a", "w"), ("b", "v")):
        with open(os.path.join(home, name + ".folded"), "w") as file:
            file.write("p-1/%s-7;main (/a.py:1);native 30\np-1/u-8;main (/a.py:1);other (/a.py:9);native 10\n" % of)
    with open(os.path.join(home, "c.folded"), "w") as file:
        file.write("p-1;main (/a.py:1) 30\n")
    text = pysampled("diff", "--python", "-n", 0, "a.folded", "b.folded", home=home).ok().out
    equal(re.findall(r" ([\d.]+)% +([\d.]+)%  (\w+)", text), [("75.00", "75.00", "main"), ("25.00", "25.00", "other")], "rows of %s" % text)
    pysampled("diff", "--python", "-o", "x.html", "a.folded", "b.folded", home=home).ok(2)
    pysampled("convert", "--threads", "a.folded", "-o", "d.folded", home=home).ok()
    with open(os.path.join(home, "d.folded")) as file:
        equal(sorted(line.split(";")[0] for line in file), ["p-1/u-8", "p-1/w-7"], "threads")
    for source, out in (("c.folded", "e.folded"), ("a.folded", "e.html")):
        check("--threads" in pysampled("convert", "--threads", source, "-o", out, home=home).ok(2).err, "not refused: %s", out)
    check(not os.path.exists(os.path.join(home, "e.folded")), "a file of what was refused")


@harness.one_python
def test_convert_keeps_the_threads_of_a_recording_apart(py):
    home, target = harness.folder(), Target(py, "groundtruth.py")
    pysampled("-p", target.pid, "-F", 499, "-d", 0.5, "--threads", "-o", "a.folded", "-o", "a.data", home=home).ok()
    pysampled("convert", "--threads", "a.data", "-o", "b.folded", home=home).ok()
    roots = []
    for name in "a.folded", "b.folded":
        with open(os.path.join(home, name)) as file:
            roots.append({line.split(";")[0] for line in file})
    equal(*roots, "processes and threads")


TABLES = {"stackTable": {"prefix": "stackTable", "frame": "frameTable"}, "frameTable": {"func": "funcTable"},
          "funcTable": {"name": None, "fileName": None}, "resourceTable": {}, "nativeSymbols": {}}


def check_tables(track):
    """Each column as long as its table says, and each number in it that of a row; None is the array of strings."""
    tables = {**{name: track[name]["length"] for name in TABLES}, None: len(track["stringArray"]), "samples": track["samples"]["length"]}
    for name, refers in {**TABLES, "samples": {"stack": "stackTable"}}.items():
        for column, cells in track[name].items():
            if isinstance(cells, list):
                equal(len(cells), tables[name], "cells of %s.%s" % (name, column))
            if column in refers:
                check(all(i is None or 0 <= i < tables[refers[column]] for i in cells), "%s.%s: no such row", name, column)
    check(all(prefix is None or prefix < i for i, prefix in enumerate(track["stackTable"]["prefix"])), "a caller stands behind its callee")
    times = track["samples"]["time"]
    check(times == sorted(times), "samples are not in the order of time")


def gecko_counts(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        profile = json.load(file)
    ret = {}
    equal(profile["meta"]["preprocessedProfileVersion"], 48, "version of the format")
    equal(profile["meta"]["oscpu"], "Linux", "the platform that is shown")
    for track in profile["threads"]:
        check_tables(track)
        stacks, of_frame, funcs, text = track["stackTable"], track["frameTable"]["func"], track["funcTable"], track["stringArray"]
        for node, n in zip(track["samples"]["stack"], track["samples"]["weight"]):
            frames = []
            while node is not None:
                func = of_frame[stacks["frame"][node]]
                file = funcs["fileName"][func]
                frames.insert(0, (text[funcs["name"][func]], text[file]) if file is not None else None)
                node = stacks["prefix"][node]
            put(ret, frames, n)
    return ret


HEADS = "hostname", "os release", "perf version", "nrcpus", "cpudesc", "total memory", "cmdline", "time of", "sample duration"


def perf_says(path, home):
    """What perf tells of a recording, by what it is told: names, lines, counts, the header, build-ids. Python functions have other
    addresses in each symbol file."""
    script, _ = harness.perf("script", "-i", path, "-F", "comm,pid,tid,cpu,time,event,period,ip,sym,srcline", "--show-task-events",
                             "--show-lost-events", home=home)
    script = re.sub(r"^( +)80000[0-9a-f]{8} ", r"\1PYTHON ", script, flags=re.M)
    report, _ = harness.perf("report", "-i", path, "--stdio", "--no-children", "-g", "none", "-s", "comm,sym", home=home)
    head, _ = harness.perf("report", "-i", path, "--header-only", home=home)
    ids, _ = harness.perf("buildid-list", "-i", path, home=home)
    return {"script": script, "report": [line for line in report.splitlines() if not line.startswith("# (Tip: ")],
            "buildid-list": sorted(line for line in ids.splitlines() if "pyframes" not in line),
            "header": [line for line in head.splitlines() if line.startswith(tuple("# " + word for word in HEADS))]}


@harness.each(packed=["", "-z"])
@harness.one_python
def test_a_tape_becomes_the_perf_data(py, packed):
    """One made of a tape says what the one recorded beside it does, to perf and to us, from a file and down a pipe."""
    harness.need_command("perf")
    home, target = harness.folder(), Target(py, "groundtruth.py")
    paths = [os.path.join(home, name) for name in ("x.data", "y.data")]
    pysampled("-p", target.pid, "-e", "cpu-clock,page-faults", "-F", 199, "-d", 1.5, "-o", "x.data", "-o", "x.tape", home=home).ok()
    pysampled("convert", "x.tape", "-o", "y.data", *packed.split(), home=home).ok()
    ours, made = (perf_says(path, home) for path in paths)
    check("groundtruth_generated.py:" in ours["script"] and len(ours["header"]) > 5, "perf has no lines, or no header: %s", ours)
    for what, text in ours.items():
        equal(made[what], text, "perf %s of what was made of a tape" % what)
    equal("# compressed" in harness.perf("report", "-i", paths[1], "--header-only", home=home)[0], bool(packed), "is it packed?")
    for words in ("--json",), ("--json", "--by", "line"), ("--json", "--by", "thread"):
        equal(*(pysampled("report", name, *words, home=home).ok().out for name in ("y.data", "x.data")), "report %s" % (words,))
    os.rename(paths[1] + ".pyframes", os.path.join(home, "gone"))
    shutil.rmtree(os.path.join(home, ".debug"))
    equal(*(pysampled("report", name, "--json", home=home).ok().out for name in ("y.data", "x.data")), "report by the copy of the symbols")
    with open(os.path.join(home, "p.data"), "wb") as file:
        harness.subprocess.run([harness.PYSAMPLED, "convert", "x.tape", "-o", "-", "--format", "perf", *packed.split()],
                               cwd=home, stdout=file, env=harness.plain_env(HOME=home), check=True)
    equal(*(pysampled("report", name, "--json", home=home).ok().out for name in ("p.data", "x.data")), "report of what went down a pipe")


@harness.one_python
def test_a_tape_alone_has_build_ids(py):
    """No other output asked for them: those of the files are in what is made of it, and the kernel's, where it can be known."""
    harness.need_command("perf")
    home, target = harness.folder(), Target(py, "groundtruth.py")
    pysampled("-p", target.pid, "-F", 199, "-d", 0.5, "-o", "z.tape", home=home).ok()
    pysampled("convert", "z.tape", "-o", "z.data", home=home).ok()
    ids, _ = harness.perf("buildid-list", "-i", os.path.join(home, "z.data"), home=home)
    files = {line.split()[1] for line in ids.splitlines()}
    check(any("libc.so" in name for name in files), "no build-ids: %s", files)
    with open("/proc/kallsyms") as lines:
        hidden = next(lines).startswith("0" * 16)
    equal("[kernel.kallsyms]" in files, not hidden, "the kernel's among %s" % files)


@harness.one_python
def test_what_becomes_no_perf_data_says_why(py):
    """Only a tape has all that it takes, and it stays: what is refused touches no file."""
    home, target = harness.folder(), Target(py, "groundtruth.py")
    pysampled("-p", target.pid, "-F", 199, "-d", 0.5, "-o", "x.data", "-o", "x.folded", "-o", "x.tape", home=home).ok()
    os.rename(os.path.join(home, "x.tape"), os.path.join(home, "y.data.old"))
    shutil.copy(os.path.join(harness.ROOT, "tests", "tapes", "threads.tape"), os.path.join(home, "old.tape"))
    # One zstd frame, not packed, of one event (TAPE_EVENT: its number, its name, and that samples have names) and no more.
    event = b"".join(struct.pack("<II8s", tag, n, value) for tag, n, value in ((15, 8, b""), (16, 6, b"cycles"), (63, 8, b"\1")))
    chunks = b"PYSTAPE2" + struct.pack("<II", 16, len(event)) + event
    with open(os.path.join(home, "named.tape"), "wb") as file:
        file.write(b"\x28\xb5\x2f\xfd\x20" + bytes([len(chunks)]) + struct.pack("<I", len(chunks) << 3 | 1)[:3] + chunks)
    pysampled("report", "named.tape", home=home).ok()
    harness.write(os.path.join(home, "y.data"), "what was there")
    there = sorted(os.listdir(home))
    for name, why, rc in (("x.data", "is one already", 2), ("x.folded", "no addresses", 2), ("old.tape", "without names", 1),
                          ("named.tape", "older pysampled, which kept no addresses", 2), ("y.data.old", "both what is read", 2)):
        said = pysampled("convert", name, "-o", "y.data", home=home).ok(rc).err
        check(why in said, "%s: %s", name, said)
        equal(sorted(os.listdir(home)), there, "files")
    with open(os.path.join(home, "y.data")) as file:
        equal(file.read(), "what was there", "the file that is there")


@harness.one_python
def test_all_formats_count_the_same(py):
    home = harness.folder()
    target = Target(py, "groundtruth.py")
    outs = [os.path.join(home, "out." + end) for end in ("folded", "speedscope.json", "html", "pb.gz", "data", "gecko.json",
                                                         "gecko.json.gz", "tape")]
    recordings = outs[0], outs[4], outs[7]
    run = pysampled("-p", target.pid, "-F", 499, "-d", 1, "--full-paths", *[word for out in outs for word in ("-o", out)])
    run.ok()
    folded = folded_counts(outs[0])
    harness.enough(len(folded) > 3, "too few functions: %s", folded)
    equal(speedscope_counts(outs[1]), folded, "speedscope")
    equal(page_counts(outs[2]), folded, "the page")
    for path in outs[5:7]:
        equal(gecko_counts(path), folded, os.path.basename(path))
    for end, read in (("folded", folded_counts), ("speedscope.json", speedscope_counts), ("html", page_counts),
                      ("gecko.json", gecko_counts)):
        made = os.path.join(home, "made." + end)
        for recording in recordings:
            pysampled("convert", recording, "-o", made, *["--full-paths"] * (end == "folded")).ok()
            equal(read(made), folded, "%s converted to %s" % (recording, end))
    for recording in recordings:
        rows = json.loads(pysampled("report", recording, "--json").ok().out)["rows"]
        got = {(r["name"], r["file"]): [r["self"], r["total"]] for r in rows if r["kind"] == "python"}
        equal(got, folded, "report of " + recording)
        for n in 2, 0:
            equal(json.loads(pysampled("report", recording, "--json", "-n", n).ok().out)["rows"], rows[:n or None], "the first rows, -n %d" % n)
    by_thread = [json.loads(pysampled("report", path, "--by", "thread", "--json").ok().out)["rows"] for path in (outs[4], outs[7])]
    equal(by_thread[0], by_thread[1], "threads of perf.data and tape")
    check(any(r["name"].endswith("/MainThread-%d" % target.pid) for r in by_thread[0]), "no main thread by its name: %s", by_thread[0])
    short = os.path.join(home, "short.folded")
    pysampled("convert", outs[4], "-o", short).ok()
    for pair in (outs[4], short), (outs[7], short), (outs[7], outs[4]):
        changes = [line for line in pysampled("diff", *pair, "-n", 0).ok().out.splitlines() if not line.startswith("#")]
        check(changes, "nothing is compared: %s", pair)
        equal([line for line in changes if not re.match(" *[-+]0.00% ", line)], [], "changes between %s of one recording" % (pair,))
    # A tape has what the folded stacks were made of, so they are made again, native names and threads and all.
    made = os.path.join(home, "made.txt")
    pysampled("convert", outs[7], "-o", made, "--full-paths").ok()
    with open(outs[0], "rb") as one, open(made, "rb") as other:
        equal(other.read(), one.read(), "stacks made of the tape")
    for bad in ("made.data", "made.xyz"):
        pysampled("convert", outs[0], "-o", os.path.join(home, bad)).ok(2)
        check(not os.path.exists(os.path.join(home, bad)), "%s was touched", bad)
    if not shutil.which("go"):
        raise harness.Skip("go is not installed: pprof is not compared")
    text = harness.subprocess.run(["go", "tool", "pprof", "-top", outs[3]], stdout=-1, stderr=-1, text=True).stdout
    rows = {m[3]: [int(m[1]), int(m[2])] for m in
            re.finditer(r"^ +(\d+) +[\d.]+% +[\d.]+% +(\d+) +[\d.]+%  (.*)$", text, re.M)}
    for (name, _), counts in folded.items():
        if [n for n, _ in folded].count(name) == 1:
            equal(rows.get(name), counts, "pprof's %s" % name)


SLEEPS = """
import time
for seconds in 0.01, 0.3, 0.01, 0.01:
    time.sleep(seconds)
    sum(range(300000))
"""


@harness.one_python
def test_weights_of_a_firefox_profile_are_each_samples_own(py):
    """In milliseconds, where they are times: the long wait and the short ones have one stack."""
    home = harness.folder()
    outs = [os.path.join(home, "out." + end) for end in ("gecko.json", "folded", "data")]
    pysampled("--mode", "wall", "-F", 999, *[word for out in outs for word in ("-o", out)], "--", *py.command(), "-c", SLEEPS).ok()
    pysampled("convert", outs[2], "-o", os.path.join(home, "made.gecko.json")).ok()
    with open(outs[1]) as file:
        whole = sum(int(line.rsplit(" ", 1)[1]) for line in file) / 1e3
    for name in "out.gecko.json", "made.gecko.json":
        with open(os.path.join(home, name)) as file:
            samples = [track["samples"] for track in json.load(file)["threads"]]
        equal({s["weightType"] for s in samples}, {"tracing-ms"}, name)
        weights = sorted(w for s in samples for w in s["weight"])
        check(abs(sum(weights) - whole) < 1, "%s: %.3f ms, folded stacks have %.3f", name, sum(weights), whole)
        check(weights[-1] > 250, "%s: the longest are %s ms", name, weights[-5:])
        harness.enough(weights[-2] < 250, "%s: the longest are %s ms", name, weights[-5:])


def test_samples_in_files_of_their_own_are_not_none():
    """perf record --threads: the file with the events has no samples."""
    harness.need_command("perf")
    home = harness.folder()
    made = harness.subprocess.run(["perf", "record", "--threads", "-o", "a.data", "-e", "cpu-clock", "true"], cwd=home,
                                  stdout=-1, stderr=-2, text=True)
    if made.returncode:
        raise harness.Skip("perf record --threads fails here: " + made.stdout.strip().split("\n")[-1])
    for args in ("report", "a.data/data"), ("convert", "a.data/data", "-o", "a.folded"):
        check("its samples are in files of their own" in pysampled(*args, home=home).ok(1).err, "%s", args)
    equal(sorted(os.listdir(home)), ["a.data"], "the files that there are")


@harness.one_python
def test_what_is_no_recording_is_told_by_its_kind(py):
    """Formats that are only written, and others; and a tape of a version that kept no names."""
    home = harness.folder()
    target = Target(py, "groundtruth.py")
    kinds = {"pb.gz": "a pprof profile (.pb.gz)", "speedscope.json": "a speedscope profile (.speedscope.json)",
             "gecko.json": "a profile for the Firefox Profiler (.gecko.json)",
             "gecko.json.gz": "a profile for the Firefox Profiler (.gecko.json.gz)", "html": "a web page (.html)", "svg": "an image (.svg)"}
    paths = {os.path.join(home, "out." + end): kind for end, kind in kinds.items()}
    pysampled("-p", target.pid, "-d", 0.3, *[word for path in paths for word in ("-o", path)]).ok()
    for name, data, kind in (("x.json", b'{"a":1}', "JSON"), ("x.gz", gzip.compress(b"text"), "packed by gzip, as a pprof profile is"),
                             ("x.bin", bytes(range(64)), "neither a recording nor text"),
                             ("x.data", b"2ELIFREP" + bytes(96), "a perf.data from a machine with another byte order")):
        path = os.path.join(home, name)
        with open(path, "wb") as file:
            file.write(data)
        paths[path] = kind
    for path, kind in paths.items():
        for args in ("report", path), ("convert", path, "-o", os.path.join(home, "made.folded")), ("diff", path, path):
            said = pysampled(*args).ok(1).err
            check("%s is %s, which can't be read: a perf.data, a tape and folded stacks can" % (path, kind) in said, "%s: %s", args, said)
    good = os.path.join(home, "good.folded")
    for name, data in ("notes.txt", b"\nremember the milk\n"), ("some.bin", b"bin\0ary 3\n"):
        path = os.path.join(home, name)
        for file, content in (path, data), (good, b"a;b 1\n"):
            with open(file, "wb") as out:
                out.write(content)
        said = pysampled("convert", path, "-o", good).ok(1).err
        check("its first line is no folded stack, 'frame;frame COUNT'" in said, "%s: %s", name, said)
        equal(open(good, "rb").read(), b"a;b 1\n", "what stood where nothing was converted to")
    for command in "report", "unpack":
        check("is a folder: name the file" in pysampled(command, home).ok(1).err, "%s of a folder", command)
    old = os.path.join(harness.ROOT, "tests", "tapes", "threads.tape")
    said = pysampled("report", old).ok(1).err
    check("is a tape without names, of an older pysampled: 'replay %s >" % old in said, "an old tape: %s", said)
    # Stacks whose first frame looks like something else are stacks, also down a pipe.
    for text in ("<module>;f (/a.py:1) 3\n", "PERFILE1-7;f (/a.py:1) 3\n", "(x);f (/a.py:1) 3\n", "{x};f (/a.py:1) 3\n"):
        done = harness.subprocess.run("cat | %s report /dev/stdin --json" % harness.PYSAMPLED, input=text, shell=True, text=True,
                                      capture_output=True)
        equal([r["self"] for r in json.loads(done.stdout)["rows"] if r["kind"] == "python"], [3], "%r: %s" % (text, done.stderr))


@harness.one_python
def test_a_pipe_is_read_like_its_file(py):
    """Perf.data that names its places, folded stacks of several events, a tape: by '-' and by /dev/stdin."""
    home = harness.folder()
    target = Target(py, "groundtruth.py")
    files = "a.data", "a.folded", "a.tape"
    pysampled("-p", target.pid, "-e", "cpu-clock,task-clock", "-F", 499, "-d", 1, *[word for f in files for word in ("-o", f)], home=home).ok()

    def piped(file, *words):
        with open(os.path.join(home, file), "rb") as data:
            cat = subprocess.Popen(["cat"], stdin=data, stdout=subprocess.PIPE)
            done = subprocess.run([harness.PYSAMPLED, *words], stdin=cat.stdout, capture_output=True, cwd=home, env=harness.plain_env(HOME=home))
        cat.stdout.close()
        cat.wait()
        equal(done.returncode, 0, "%s of %s: %s" % (words, file, done.stderr))
        return done.stdout.decode()
    for file in files:
        for more in ("--json",), ("--json", "--by", "event"), ("--json", "-e", "task-clock"):
            whole = pysampled("report", file, *more, home=home).ok().out
            for name in "-", "/dev/stdin":
                equal(piped(file, "report", name, *more), whole, "report of %s by %s" % (file, name))
        equal(piped(file, "convert", "-", "-o", "-"), pysampled("convert", file, "-o", "-", home=home).ok().out, "stacks of " + file)
        check("# no change" in piped(file, "diff", "-", file, "-n", "2"), "a difference")


@harness.one_python
def test_what_is_no_text_is_not_for_a_terminal(py):
    target = Target(py, "groundtruth.py")
    for kind in "perf", "pprof", "tape":
        terminal, other = os.openpty()
        done = subprocess.run([harness.PYSAMPLED, "-p", str(target.pid), "-d", "0.3", "-o", "-", "--format", kind], stdout=other,
                              stderr=subprocess.PIPE, text=True, env=harness.plain_env(HOME=harness.folder()))
        os.close(other)
        os.set_blocking(terminal, False)
        try:
            equal(os.read(terminal, 100), b"", "what is on the terminal")
        except OSError:  # nothing, and no writer
            pass
        os.close(terminal)
        equal(done.returncode, 1, "%s: %s" % (kind, done.stderr))
        check("%s is not for a terminal" % kind in done.stderr, "%s: %s", kind, done.stderr)


@harness.one_python
def test_report_takes_what_perf_users_type(py):
    home = harness.folder()
    target = Target(py, "groundtruth.py")
    pysampled("-p", target.pid, "-F", 499, "-d", 1, home=home).ok()

    def report(*words):
        return pysampled("report", *words, home=home).ok().out
    for theirs, ours in ((("-i", "perf.data"), ("perf.data",)), (("--input=perf.data", "--stdio", "--no-children"), ()),
                         (("--children", "--no-children"), ()), (("-s", "total"), ("--sort", "total")), (("--sort", "sym"), ()),
                         (("-s", "symbol"), ("--by", "function")), (("-s", "srcline"), ("--by", "line")),
                         (("--sort", "sym,srcline"), ("--by", "line")), (("-s", "srcline,sym"), ("--by", "line")),
                         (("-s", "pid"), ("--by", "process")), (("-s", "tid"), ("--by", "thread"))):
        equal(report(*theirs), report(*ours), "report %s" % " ".join(theirs))


@harness.one_python
def test_annotate_begins_where_the_function_does(py):
    home = harness.folder()
    with open(os.path.join(home, "a.py"), "w") as file:
        file.write("print('READY', flush=True)\n\ndef work():\n    n = 0\n    while True:\n        n += 1\n\nwork()\n")
    target = harness.start(py.command() + [os.path.join(home, "a.py")], stdout=subprocess.PIPE)
    target.stdout.readline()
    pysampled("-p", target.pid, "-F", 499, "-d", 0.5, home=home).ok()
    out = pysampled("report", "--annotate", "work", home=home).ok().out
    check(re.search(r"^ +3  def work\(\):\n +4      n = 0\n", out, re.M), "%s", out)


@harness.one_python
def test_annotate_tells_that_a_file_was_changed(py):
    """The text of a file that was edited after the recording is not what ran."""
    home = harness.folder()
    path = os.path.join(home, "a.py")
    with open(path, "w") as file:
        file.write("import time\n\ndef work():\n    n = 0\n    while time.time() < end:\n        n += 1\n\nend = time.time() + 0.5\nwork()\n")
    outputs = "x.data", "x.tape", "x.folded"
    pysampled(*(word for name in outputs for word in ("-o", name)), "--full-paths", "-F", 499, "--", *py.command(), path, home=home).ok()
    for changed in False, True:
        if changed:
            later = time.time() + 100
            os.utime(path, (later, later))
        for name in outputs:
            out = pysampled("report", "--annotate", "work", name, home=home).ok().out
            check("n += 1" in out, "no text: %s", out)
            equal("changed since it was recorded" in out.splitlines()[0], changed, "what is said of a file, by " + name)
    for name in outputs[:2]: # folded stacks know no time
        copy = os.path.join(home, "copy" + name[1:])
        shutil.copyfile(os.path.join(home, name), copy)
        os.utime(copy, (later + 100, later + 100))
        out = pysampled("report", "--annotate", "work", copy).ok().out
        check("changed since it was recorded" in out.splitlines()[0], "not told by a copy that is younger than the file: %s", out.splitlines()[0])
        pysampled("convert", copy, "-o", os.path.join(home, "x.html")).ok()
        with open(os.path.join(home, "x.html")) as file:
            check('"changed":true' in file.read(), "not told by the page of %s", copy)


@harness.one_python
def test_a_page_of_roots_has_text_that_everybody_may_read(py):
    """Of files in a folder that others may not search it has none: who reads the page may be one of them."""
    need_root()
    home = harness.folder()
    path = os.path.join(home, "a.py")
    harness.write(path, "import time\n\nend = time.time() + 0.5\nwhile time.time() < end:\n    n = 'secret'\n")
    pages = (("a.html", ()), ("b.html", ("convert", "a.data")))
    pysampled("-o", "a.data", "-o", "a.html", "-F", 499, "--", *py.command(), path, home=home).ok()
    for mode, closed in (0o755, False), (0o700, True):
        os.chmod(home, mode)
        for name, command in pages[closed:]:
            if command:
                pysampled(*command, "-o", name, home=home).ok()
            with open(os.path.join(home, name)) as file:
                page = file.read()
            equal("= 'secret'" in page, not closed, "there is text in %s of a folder of mode %o" % (name, mode))
            check(not closed or "not everybody may read it" in page, "%s does not say why it has no text", name)


def test_annotate_takes_no_short_name_for_a_path():
    """A file that is called so in the current folder is another one."""
    home = harness.folder()
    harness.write(os.path.join(home, "app.py"), "not what ran\n")
    for name, shown in ("app.py", False), (os.path.join(home, "app.py"), True):
        harness.write(os.path.join(home, "a.folded"), "p-1;f (%s:1) 3\n" % name)
        out = pysampled("report", "--annotate", "f", "a.folded", home=home).ok().out
        equal("not what ran" in out, shown, out)


@harness.one_python
def test_kernel_names_of_what_perf_packed(py):
    """perf record -z notes no build-ids: the same release, and place and length of the kernel's code will do, but not another release's."""
    harness.need_command("perf")
    path = os.path.join(harness.folder(), "p.data")
    target = Target(py, "groundtruth.py", "--us", 50)
    harness.perf("record", "-q", "-z", "-e", "cpu-clock:k", "-c", "100000", "-p", str(target.pid), "-o", path, "--", "sleep", "1", home=os.path.dirname(path))
    rows = json.loads(pysampled("report", path, "--json").ok().out)["rows"]
    names = [row["name"] for row in rows if row["kind"] == "kernel"]
    harness.enough(names, "no sample in the kernel: %s", rows)
    check("[kernel]_[k]" not in names, "no names: %s", names)
    with open(path, "rb") as file:
        data = file.read()
    release = os.uname().release.encode()
    harness.enough(release in data, "the recording does not tell the release")
    with open(path, "wb") as file:
        file.write(data.replace(release, b"?" + release[1:]))
    rows = json.loads(pysampled("report", path, "--json").ok().out)["rows"]
    equal({row["name"] for row in rows if row["kind"] == "kernel"}, {"[kernel]_[k]"}, "names of another kernel")


@harness.one_python
def test_all_events_of_a_group_of_perf_are_counted(py):
    """Of {A,B}:S only A has samples, which tell how far B has come; perf makes a sample of each difference, and so does report."""
    harness.need_command("perf")
    home = harness.folder()
    harness.perf("record", "-q", "-e", "{cpu-clock,page-faults}:S", "-F", "499", "-o", "p.data", "--", py.path, "-c",
                 "for i in range(300): bytearray(1 << 20)", home=home, cwd=home)
    theirs = harness.perf("script", "-i", "p.data", "-F", "event", home=home, cwd=home)[0].split()
    harness.enough(theirs.count("page-faults:") > 5, "no faults: %s", theirs)
    rows = json.loads(pysampled("report", "p.data", "--by", "event", "--json", home=home).ok().out)["rows"]
    equal({row["name"]: row["self"] for row in rows}, {name: theirs.count(name + ":") for name in ("cpu-clock", "page-faults")}, "samples")


def test_members_of_a_group_of_perf_are_weighed():
    """Each of four samples tells how far the other event has come: of 2020 one thread has 2000, in half of the samples."""
    home = harness.folder()
    path = os.path.join(home, "p.data")
    kind, group = 1 | 2 | 4 | 16 | 64 | 256, 4 | 8  # IP, TID, TIME, READ, ID, PERIOD; ID, GROUP
    records = b"".join(kernels(9, struct.pack("<Q2I8Q", 4096, 7, tid, 1 + n, 70, 1000, 2, 1000 * n, 70, value, 71))
                       for n, (tid, value) in enumerate(((7, 10), (8, 1010), (7, 1020), (8, 2020))))
    perf_file(path, records, ((1000, kind, group), (0, kind, group)))
    events = json.loads(pysampled("report", path, "--json").ok().out)["events"]
    for event, want in zip(events, ({"7": 2, "8": 2}, {"7": 0, "8": 4})):
        rows = json.loads(pysampled("report", path, "--json", "-e", event, "--by", "thread").ok().out)["rows"]
        equal({row["name"].rpartition("-")[2]: row["self"] for row in rows}, want, event)


IN_TURN = """
import mmap, time
m = mmap.mmap(-1, 1 << 20)
def many(end):
    while time.thread_time() < end:
        for at in range(0, 1 << 20, 4096): m[at] = 1
        m.madvise(mmap.MADV_DONTNEED)
def few(end):
    while time.thread_time() < end:
        for at in range(1000): m[0] = 1
        m.madvise(mmap.MADV_DONTNEED)
print("READY", flush=True)
for _ in range(10):
    many(time.thread_time() + 0.1)
    few(time.thread_time() + 0.1)
"""


@harness.one_python
def test_members_of_a_group_are_weighed(py):
    """What a function counts of an event is not its share of the leader's samples, at nearly each of which it has counted some."""
    home = harness.folder()
    target = harness.start(py.command() + ["-c", IN_TURN], stdout=-1)
    equal(target.stdout.readline(), b"READY\n", "the target")
    names = "a.data", "a.folded", "a.tape"
    pysampled("-p", target.pid, "-t", target.pid, "-e", "{cpu-clock,page-faults}:S", "-F", 199, "-d", 20,
              *[word for name in names for word in ("-o", name)], home=home).ok()
    for name in names:
        shares = []
        for event in "cpu-clock", "page-faults":
            rows = json.loads(pysampled("report", name, "--python", "-e", event, "--json", home=home).ok().out)["rows"]
            total = sum(row["self"] for row in rows)
            harness.enough(total > 50, "only %d samples of %s in %s", total, event, name)
            shares.append(sum(row["self"] for row in rows if row["name"] == "few") / total)
        harness.enough(shares[0] > 0.2, "too little of the time: %s", rows)
        check(shares[1] < shares[0] / 2, "%s: %.2f of the time, %.2f of the faults", name, *shares)


@harness.one_python
def test_annotate_has_columns_for_each_event(py):
    """Those of each are what -e shows of it alone."""
    home = harness.folder()
    target = Target(py, "groundtruth.py")
    path = os.path.join(home, "x.data")
    pysampled("-p", target.pid, "-e", "cpu-clock,context-switches", "-F", 499, "-d", 1, "-o", path).ok()
    rows = json.loads(pysampled("report", path, "--json").ok().out)["rows"]
    name = next((r["name"] for r in rows if r["kind"] == "python"), None)
    harness.enough(name, "no Python: %s", rows)

    def lines(*more):
        text = pysampled("report", path, "--annotate", name, *more).ok().out.splitlines()
        return [line for line in text if line.startswith("#")], [line for line in text if not line.startswith("#")]

    head, both = lines()
    events = "cpu-clock", "context-switches"
    equal(head[1].split()[1 if head[1].startswith("# ") else 0:], [e[:14] for e in events], "the names")
    equal(head[2].lstrip("#").split(), ["self", "total"] * 2 + ["line"], "the columns")
    for i, event in enumerate(events):
        try:
            alone = {line[16:]: line[:16] for line in lines("-e", event)[1]}
        except AssertionError:
            continue  # no sample of it is in the function
        mine = {line[32:]: line[16 * i:16 * i + 16] for line in both}
        equal({text: shares for text, shares in mine.items() if shares.strip()},
              {text: shares for text, shares in alone.items() if shares.strip()}, "columns of " + event)


# Two functions of one name and file, of unlike length, and one calls the other: line 2 is that of both.
SAME_NAMES = """
first, second = {}, {}
exec("def f():\\n for i in range(4000): i == 0\\n", first)
exec("def f(g):\\n for i in range(4000): i == 0 and g()\\n\\n return 1\\n", second)
print("READY", flush=True)
while True:
    second["f"](first["f"])
"""


@harness.one_python
def test_annotate_adds_up_functions_of_one_name_and_file(py):
    """As dataclasses have them. A line had the shares of one of them, and those of the others were lost."""
    home = harness.folder()
    target = harness.start(py.command() + ["-c", SAME_NAMES], stdout=subprocess.PIPE)
    target.stdout.readline()
    pysampled("-p", target.pid, "-F", 499, "-d", 1, "--no-native", home=home).ok()
    table = pysampled("report", "-n", 0, home=home).ok().out
    functions = re.findall(r"^ *([\d.]+)% +[\d.]+% +(\d+)  f \(", table, re.M)
    harness.enough(len(functions) == 2 and all(int(n) > 10 for _, n in functions), "too few samples of both: %s", table)
    text = pysampled("report", "--annotate", "f", home=home).ok().out
    shares = [[float(n) for n in m] for m in re.findall(r"^ *([\d.]+)% +([\d.]+)% ", text, re.M)]
    got, want = sum(own for own, _ in shares), sum(float(own) for own, _ in functions)
    check(abs(got - want) < 0.01 * (len(shares) + 2), "%.2f%% of their own, not %.2f%%: %s", got, want, text)
    check(all(total <= 100 for _, total in shares), "more than all: %s", text)


@harness.one_python
def test_native_code_is_told_by_its_file(py):
    home = harness.folder()
    target = Target(py, "groundtruth.py")
    outs = [os.path.join(home, "x." + end) for end in ("data", "tape")]
    pysampled("-p", target.pid, "-F", 499, "-d", 1, *[word for path in outs for word in ("-o", path)]).ok()
    with open("/proc/%d/maps" % target.pid) as file:
        mapped = {os.path.basename(line.split()[-1]) for line in file if len(line.split()) > 5}
    for path in outs:
        rows, functions = (json.loads(pysampled("report", path, "--json", *more).ok().out)["rows"] for more in (("--by", "file"), ()))
        native = {r["file"]: r["self"] for r in rows if r["kind"] == "native"}
        harness.enough(sum(native.values()), "no native code: %s", rows)
        known = {file: n for file, n in native.items() if file}
        check(known and known.keys() <= mapped, "%s: not mapped: %s", path, known.keys() - mapped)
        equal(sum(native.values()), sum(r["self"] for r in functions if r["kind"] == "native"), "native samples of " + path)
    one, other = (json.loads(pysampled("report", path, "--json", "--by", "file").ok().out)["rows"] for path in outs)
    key = lambda r: (r["name"], r["file"] or "", r["self"], r["total"])
    equal(sorted(map(key, one)), sorted(map(key, other)), "rows of the perf.data and of the tape")


COLLECTS = """
volatile unsigned long n;
__attribute__((noinline)) void gc_collect_main(void) { for (int i = 0; i < 100000; i++) n++; }
__attribute__((noinline)) void other(void) { for (int i = 0; i < 100000; i++) n += 2; }
int main(void) { for (;;) { gc_collect_main(); other(); } }
"""


def test_what_collects_is_told_by_file_from_other_code():
    """It was all native code of its file where it was met first, and none where not."""
    home = harness.folder()

    def rows(path, *more):
        return {r["name"]: r["self"] for r in json.loads(pysampled("report", path, "--json", *more, home=home).ok().out)["rows"]}

    def unchanged(*pair):
        changes = re.findall(r"^ *[-+]([\d.]+)% .*% ", pysampled("diff", "--by", "file", *pair, home=home).ok().out, re.M)
        equal((len(changes) > 1, set(changes)), (True, {"0.00"}), "changes between %s and %s" % pair)
    stacks = ["p-1;f (a.py:1);gc_collect_main 1\n", "p-1;f (a.py:1);malloc 9\n"]
    for name, lines in ("a.folded", stacks), ("b.folded", stacks[::-1]):
        harness.write(os.path.join(home, name), "".join(lines))
        equal(rows(name, "--by", "file"), {"gc": 1, "native": 9, "python": 0}, name)
    unchanged("a.folded", "b.folded")

    target = harness.start([harness.c_program("collects", COLLECTS)])
    pysampled("-p", target.pid, "--any", "-e", "cpu-clock:u", "-F", 499, "-d", 1, "-o", "x.data", "-o", "x.folded", home=home).ok()
    functions, files = rows("x.data"), rows("x.data", "--by", "file")
    harness.enough(functions.get("gc_collect_main") and functions.get("other"), "too few samples: %s", functions)
    equal(files["gc"], functions["gc_collect_main"], "samples that collect")
    unchanged("x.data", "x.folded")


@harness.one_python
def test_a_tape_is_read_after_sigkill_at_any_time(py):
    home = harness.folder()
    target = Target(py, "groundtruth.py")
    path = os.path.join(home, "x.tape")
    found = False
    for patience in 0.5, 1.3, 6:
        recorder = harness.Recorder("-p", target.pid, "-F", 499, "-o", path, home=home).attached()
        time.sleep(patience)
        recorder.signal(signal.SIGKILL)
        recorder.process.wait()
        run = pysampled("report", path, "--json")
        if "it has no stacks" in run.err:
            continue
        run.ok()
        check("ends before its recording did" in run.err, "nothing says that it is cut: %s", run.err)
        found = any(r["kind"] == "python" for r in json.loads(run.out)["rows"])
    harness.enough(found, "no functions after %s s", patience)


@harness.each(more=[(), ("--native-lines",)])
@harness.one_python
def test_outputs_are_readable_after_sigkill_at_any_time(py, more):
    home = harness.folder()
    target = Target(py, "groundtruth.py")
    readers = {"folded": folded_counts, "speedscope.json": speedscope_counts, "html": page_counts, "gecko.json": gecko_counts,
               "gecko.json.gz": gecko_counts}
    outs = {end: os.path.join(home, "out." + end) for end in (*readers, "pb.gz", "svg")}
    nameless = []  # a first copy may be of one sample, and that without Python
    for patience in 0, 0.2, 1.1:
        for path in outs.values():
            if os.path.exists(path):
                os.unlink(path)
        recorder = harness.Recorder("-p", target.pid, "-F", 499, *more, *[word for out in outs.values() for word in ("-o", out)], home=home)
        harness.until(lambda: all(os.path.exists(path) and os.path.getsize(path) for path in outs.values()), "all have a first copy")
        time.sleep(patience)
        recorder.signal(signal.SIGKILL)
        recorder.process.wait()
        for end, read in readers.items():
            counts = read(outs[end])
            nameless += [] if any(total for _, total in counts.values()) else [(patience, end, counts)]
        with gzip.open(outs["pb.gz"]) as file:
            nameless += [] if b"groundtruth.py" in file.read() else [(patience, "pb.gz")]
        xml.etree.ElementTree.parse(outs["svg"])
    harness.enough(not nameless, "no functions (after so many seconds, in): %s", nameless)


@harness.one_python
def test_a_killed_perf_data_tells_its_events_and_its_mode(py):
    """Names of events and --mode are features of a perf.data, which come last; without them waits would count as one sample each."""
    harness.need_tracepoints()
    home = harness.folder()
    target = harness.start(py.command() + ["-c", "import time\nprint('READY', flush=True)\nwhile True: time.sleep(0.1); sum(range(100000))"], stdout=-1)
    equal(target.stdout.readline(), b"READY\n", "the target")
    for options, events in (("--mode", "wall"), ["cpu-clock"]), (("-e", "page-faults:u,cpu-clock,sched:sched_switch"), ["page-faults:u", "cpu-clock", "event2"]):
        recorder = harness.Recorder("-p", target.pid, "-F", 199, *options, "-o", "a.data", home=home).attached()
        time.sleep(4)
        recorder.signal(signal.SIGKILL)
        recorder.process.wait()
        equal(json.loads(pysampled("report", "a.data", "--json", home=home).ok().out)["events"], events, "events")
        wall = re.match(r"# ([\d.]+) s of all threads", pysampled("report", "a.data", home=home).ok().out)
        equal(bool(wall), "wall" in options, "is it told that it is time?")
        check(not wall or float(wall[1]) > 1, "waits do not count for their time: %s", wall)


@harness.each(kb=[16, 48, 200])
@harness.one_python
def test_a_full_disk_leaves_a_whole_copy(py, kb):
    need_root()
    target = many_functions(py)
    disk = harness.small_disk(kb)
    out = os.path.join(disk, "out.speedscope.json")
    run = pysampled("-p", target.pid, "-F", 2000, "-d", 2, "-o", out)
    first = re.search(r"it has the first (\d+) of (\d+) samples", run.err)
    if run.rc == 0 or first:
        with open(out) as file:
            got = sum(sum(p["weights"]) for p in json.load(file)["profiles"])
        equal(got, int(first[1]) if first else run.n("samples"), "samples in the file")
        equal(got, run.n("samples") - int(run.summary.get("unwritten", 0)), "those taken without those unwritten: %s" % run)
    check(run.rc == 0 or "No space left on device" in run.err, "it failed, and no word why: %s", run)
    equal(os.listdir(disk), ["out.speedscope.json"], "what is left")
    harness.enough(run.rc == 1 or kb != 16, "the disk did not fill: %s", run)


@harness.each(kb=[4, 8, 12])
@harness.one_python
def test_stacks_that_a_full_disk_had_no_room_for_are_counted(py, kb):
    """No whole copy fits: there are as many lines as there is room for."""
    need_root()
    target = many_functions(py)
    disk = harness.small_disk(kb)
    out = os.path.join(disk, "out.folded")
    run = pysampled("-p", target.pid, "-F", 2000, "-d", 2, "-o", out).ok(1)
    equal(harness.total(harness.read_folded(out)), run.n("samples") - run.n("unwritten"), "samples in the file: %s" % run)


@harness.one_python
def test_a_page_that_had_no_room_has_no_sample(py):
    need_root()
    target, disk = Target(py, "groundtruth.py"), harness.small_disk(4)
    run = pysampled("-p", target.pid, "-d", 1, "-o", os.path.join(disk, "out.html")).ok(1)
    equal(run.n("unwritten"), run.n("samples"), "samples that are in no file: %s" % run)
