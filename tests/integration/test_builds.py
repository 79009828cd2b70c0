"""Builds as they are shipped: stripped, in files whose names tell no version, and inside another program."""
import glob
import os
import re
import shutil
import struct
import subprocess

import harness
import matrix
from harness import Python, Skip, Target, check, each, enough, equal, need_command

BESIDE = True


def nameless(py):
    """The same Python without symbols: a program called app, and its library, if it has one, called libpxthon."""
    need_command("strip")
    home = harness.folder()
    code = "import sys; print(sys.executable + ' ' + sys.prefix)"
    program, prefix = subprocess.check_output(py.command() + ["-c", code], text=True, env=harness.plain_env()).split()
    root = matrix.root_of(py)
    files = {os.path.realpath(root + program): "app"}
    for path in glob.glob(os.path.join(root + prefix, "lib", "libpython?.*.so.*")):
        files[path] = os.path.basename(path).replace("python", "pxthon")
    for path, name in files.items():
        with open(path, "rb") as file, open(os.path.join(home, name), "wb") as copy:
            copy.write(file.read().replace(b"libpython", b"libpxthon"))
        subprocess.run(["strip", "-s", os.path.join(home, name)], check=True)
    os.chmod(os.path.join(home, "app"), 0o755)
    app = os.path.join(home, "app")
    if root:
        matrix.write_script(os.path.join(home, "run"), matrix.wrapper(root, app))
        app = os.path.join(home, "run")
    ret = Python(py.tag, py.path)
    ret.command = lambda: ["env", "LD_LIBRARY_PATH=" + home, "PYTHONHOME=" + prefix, app]
    return ret


def told(pid, version, stripped=", stripped"):
    """doctor names the version, and that there are no symbols."""
    out = harness.pysampled("doctor", "-p", pid).ok().out
    check("is CPython %s (" % version in out and stripped + ")" in out, "of CPython %s doctor says: %s", version, out)


def version_of(py):
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    return subprocess.check_output(py.command() + ["-c", code], text=True, env=harness.plain_env()).strip()


@each(py=harness.older_pythons() + harness.wanted_pythons())
def test_a_stripped_python_of_no_name_is_right(py):
    version = version_of(py)
    target = Target(nameless(py), "groundtruth.py", "--us", 50)
    told(target.pid, version, ", stripped" + ", free-threaded" * py.is_free_threaded())
    run, verdict, _ = harness.exact(target, "-F", 999)
    harness.all_right(verdict, run)
    return str(verdict)


def right_pairs(home, truth, least):
    """Each leaf has one caller."""
    judged = 0
    for frames, count in harness.read_folded(os.path.join(home, "a.folded")):
        names = [name for name, _, _ in reversed(harness.python_frames(frames))]
        if names and names[0] in truth:
            equal(names[1:], [names[0].replace("leaf", "call"), "run", "<module>"], "callers of %s" % names[0])
            judged += count
    enough(judged > least, "only %d of their leaf", judged)
    return "%d stacks" % judged


def pairs(command):
    target = harness.start(command + [os.path.join(harness.TARGETS, "pairs27.py")], stdout=subprocess.PIPE)
    return target, harness.json.loads(target.stdout.readline().decode().partition(" ")[2])["truth"]


@each(py=[harness.python_2_7()])
def test_a_stripped_python_2_7_of_no_name_is_right(py):
    target, truth = pairs(nameless(py).command())
    told(target.pid, version_of(py))
    home = harness.folder()
    harness.pysampled("-p", target.pid, "-F", 999, "-d", 2, "-o", "a.folded", "--provenance", "exact", home=home).ok()
    return right_pairs(home, truth, 100)


def static(name):
    """A program with Debian's static CPython inside, of which it exports nothing, without symbols."""
    library = glob.glob("/usr/lib/python3.11/config-3.11-*/libpython3.11.a")
    if not library:
        raise Skip("no static libpython3.11 here (libpython3.11-dev)")
    out = os.path.join(harness.folder(), name)
    harness.write(out + ".c", "int Py_BytesMain(int, char **);\nint main(int n, char **v) { return Py_BytesMain(n, v); }\n")
    subprocess.run(["cc", "-O2", "-no-pie", "-s", "-o", out, out + ".c"] + library + ["-lm", "-lz", "-lexpat", "-ldl"], check=True)
    return out


def test_a_static_program_without_symbols_is_right():
    target, truth = pairs([static("app")])
    told(target.pid, version_of(Python("static", harness.DEBIAN_PYTHON)))
    home = harness.folder()
    harness.pysampled("-p", target.pid, "-F", 999, "-d", 2, "-o", "a.folded", "--provenance", "exact", home=home).ok()
    return right_pairs(home, truth, 100)


def test_a_static_program_without_symbols_is_sampled_from_its_start():
    """Its version can be told once its Python has begun."""
    home = harness.folder()
    script = os.path.join(home, "a.py")
    harness.write(script, "import time\ndef leaf():\n    end = time.time() + 2\n    while time.time() < end: pass\nleaf()\n")
    harness.pysampled("-F", 999, "-o", "a.folded", "--", static("app"), script, home=home).ok()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    found = sum(n for frames, n in stacks if [f[0] for f in harness.python_frames(frames)] == ["<module>", "leaf"])
    enough(found > 0.5 * harness.total(stacks), "in leaf are %d of %d", found, harness.total(stacks))


@each(py=harness.older_pythons()[2:3] + [py for py in harness.wanted_pythons() if not py.tag.startswith("debian")])
@each(capture=["preempt", "stop"])
@each(threads=["", "20", "30"])
@harness.dealt
def test_large_frames_are_read_up_to_the_first(py, capture, threads):
    """150 KB of C frames around Python: what the kernel does not copy is read while the thread is held. Where a queue is full
    of such stacks, they are dropped, and counted. Of many threads one is found by what the search for another has met."""
    if capture == "preempt":
        harness.need_fifo()
    target = harness.start(harness.embedding(py, "largeframes") + threads.split(), stdout=subprocess.PIPE)
    target.stdout.readline()
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "-F", 499, "-d", 2, "--capture", capture, "--native=full", "--provenance", "exact", "-v",
                            "-o", "a.folded", home=home).ok()
    judged = dropped = 0
    for frames, count in harness.read_folded(os.path.join(home, "a.folded")):
        names = [name for name, _, _ in harness.python_frames(frames)]
        if names != ["<module>", "top", "leaf"]:
            continue
        native = [frame for frame in frames if frame in ("outer", "inner") or frame.startswith("[")]
        if native == ["[cut]"]:
            dropped += count
            continue
        equal(native, ["outer"] * 6 + ["inner"] * 4, "C frames of %s: %s" % (frames, run))
        judged += count
    check(dropped <= run.counter("stack_dropped"), "%d are cut: %s", dropped, run)
    enough(judged > 20, "only %d judged: %s", judged, run)
    text = harness.pysampled("dump", "-p", target.pid).ok().out
    check("[cut]" not in text, "dump: %s", text)


# ---- builds of Debian sid, with --matrix ------------------------------------------------------------------------------

def sid(suffix=""):
    """Its CPythons; without --matrix one that is not here."""
    found = [Python(py.tag + suffix, py.path, py.reason) for py in harness.matrix_pythons() if py.tag in ("3.14", "3.15")]
    return found or [Python("sid" + suffix, None, "with --matrix only")]


def by(py, *before, path=None):
    """The same Python, run by another command."""
    py.need()
    ret = Python(py.tag, py.path)
    ret.command = lambda: list(before) + [path or py.path]
    return ret


def dumps_are_right(target):
    texts = [harness.pysampled("dump", "-p", target.pid).ok().out for _ in range(3)]
    check(all(" forever (" in text and "[torn]" not in text for text in texts), "dump: %s", texts)
    check(any(" cycle (" in text for text in texts), "dump, of what is between two cycles in a thousandth of the time: %s", texts)


def has_its_stacks(py, *options):
    target = Target(py, "groundtruth.py", "--us", 50)
    run, verdict, stacks = harness.exact(target, "-F", 999, *options, seconds=1)
    harness.all_right(verdict, run)
    dumps_are_right(target)
    return target, stacks


@each(py=sid("+jit"))
def test_a_jit_that_is_on_is_right(py):
    """Lines of what calls an extension module are told; where the JIT does not store them, none is."""
    py = by(py, "env", "PYTHON_JIT=1")
    has_its_stacks(py)
    target = Target(py, "jitted.py", extensions=())
    harness.works(target.pid, 0.5)
    for options in ["--native=full"], ["--no-native"]:
        home = harness.folder()
        run = harness.pysampled("-p", target.pid, "-F", 999, "-d", 2, "-o", "a.folded", "--provenance", "exact", *options, home=home).ok()
        stacks = [(frames[1:], n) for frames, n in harness.read_folded(os.path.join(home, "a.folded"))
                  if any(frame.startswith("hot (jitted.py") for frame in frames)]
        wrong = [frames for frames, _ in stacks if "PyUnicode_Concat" in frames
                 and not {"hot (jitted.py)", "hot (jitted.py:%d)" % target.info["line"]} & set(frames)]
        check(not wrong, "lines of the concatenation, which is %d: %s", target.info["line"], wrong[:3])
        hidden = sum(n for frames, n in stacks if "hot (jitted.py)" in frames)
        enough(hidden > 20, "the JIT was not met: %s", run)


@each(py=[py for py in harness.wanted_pythons() if py.minor() == "3.13"])
def test_a_python_without_a_jit_has_its_lines(py):
    """Code in no file is another's then: it takes no lines away, also where no native frames tell who runs."""
    target = Target(py, "natives.py", "jit")
    harness.cleanup(os.unlink, "/tmp/perf-%d.map" % target.pid)
    home = harness.folder()
    run = harness.pysampled("-p", target.pid, "-e", "cpu-clock:u", "-F", 499, "-d", 1, "--no-native", "--provenance", "exact",
                            "-o", "a.folded", home=home).ok()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    told_lines = sum(n for frames, n in stacks if frames[-1].startswith("<module> (natives.py:"))
    enough(told_lines > 50, "only %d lines: %s", told_lines, run)
    equal(told_lines, harness.total(stacks), "samples whose innermost line is told")


@each(py=sid("+ld.so"))
def test_a_python_run_by_another_loader_is_right(py):
    """The program, by /proc/PID/exe, is ld.so; and these Pythons lie at a fixed address."""
    py.need()
    root = os.path.join(os.environ["PYSAMPLED_MATRIX"], "root")
    program = os.path.join(root, "usr/bin/python" + py.tag.partition("+")[0])
    py = by(py, "env", "PYTHONHOME=%s/usr" % root, os.path.join(root, "lib64/ld-linux-x86-64.so.2"), "--library-path",
            os.path.join(root, "usr/lib/x86_64-linux-gnu"), path=program)
    target, _ = has_its_stacks(py)
    check(harness.readlink("/proc/%d/exe" % target.pid) != program, "no other loader")


@each(py=sid("-dbg"))
def test_a_debug_build_is_right(py):
    py.need()
    folder = os.environ["PYSAMPLED_MATRIX"]
    name = py.tag
    if not os.path.exists(os.path.join(folder, "root/usr/bin/python" + name)):
        raise Skip("no python%s in what was unpacked" % name)
    matrix.write_wrapper(folder, name)
    has_its_stacks(by(py, path=os.path.join(folder, name)))


def test_a_later_micro_release_is_read_by_what_it_tells():
    """3.13.18, whose thread states are larger than those of 3.13.0."""
    folder = os.environ.get("PYSAMPLED_MATRIX")
    if not folder or not os.path.exists(os.path.join(folder, "root/usr/bin/python3.13")):
        raise Skip("with --matrix only")
    matrix.write_wrapper(folder, "3.13")
    py = Python("3.13-sid", os.path.join(folder, "3.13"))
    version = version_of(py)
    check(int(version.split(".")[2]) > 13, "no later one: %s", version)
    target, _ = has_its_stacks(py)
    out = harness.pysampled("doctor", "-p", target.pid).ok().out
    check("is CPython %s (" % version in out, "doctor: %s", out)


@harness.seconds(1800)
@each(kind=["dynamic", "static"])
@each(symbols=[True, False])
def test_a_python_of_musl_is_right(kind, symbols):
    """Another libc, whose threads and loader are not glibc's; static: an executable at a fixed address."""
    if not harness.every_pair():
        raise Skip("with --matrix only")
    folder, reason = matrix.compile_musl()
    if reason:
        raise Skip(reason)
    program = shutil.copy(os.path.join(folder, kind), os.path.join(harness.folder(), "app"))
    if not symbols:
        subprocess.run(["strip", "-s", program], check=True)
    lib = os.path.join(folder, "lib")
    return has_its_pairs(["env", "PYTHONHOME=" + folder, "PYTHONPATH=" + lib, program, "-S"], "3.13.", "" if symbols else ", stripped")


def test_a_python_at_fixed_addresses_is_right():
    """Debian's program that is no PIE. Its package is not installed: it takes the place of /usr/bin/python3.11."""
    if not harness.every_pair():
        raise Skip("with --matrix only")
    home = harness.folder()
    script = "apt-get -q download python3.11-nopie && dpkg-deb -x python3.11-nopie_*.deb ."
    got = subprocess.run(["sh", "-c", script], cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if got.returncode != 0:
        raise Skip("no package python3.11-nopie: " + " ".join(got.stdout.split())[-200:])
    return has_its_pairs(["env", "PYTHONHOME=/usr", os.path.join(home, "usr/bin/python3.11")], "3.11.", ", stripped")


def has_its_pairs(command, version, stripped):
    target, truth = pairs(command)
    out = harness.pysampled("doctor", "-p", target.pid).ok().out
    check("is CPython " + version in out and "(static%s)" % stripped in out, "doctor says: %s", out)
    text = harness.pysampled("dump", "-p", target.pid).ok().out
    check(" run (" in text and "[torn]" not in text, "dump: %s", text)  # from which it calls
    home = harness.folder()
    harness.pysampled("-p", target.pid, "-F", 999, "-d", 2, "-o", "a.folded", "--provenance", "exact", home=home).ok()
    return right_pairs(home, truth, 100)


# ---- files that are not where they were -------------------------------------------------------------------------------

def tree(py):
    """A copy of the program and its library: its folder, and the Python in it."""
    code = "import sys; print(sys.prefix)"
    prefix = subprocess.check_output(py.command() + ["-c", code], text=True, env=harness.plain_env()).strip()
    libraries = glob.glob(os.path.join(prefix, "lib", "libpython?.*.so.*"))
    if not libraries:
        raise Skip("no shared libpython")
    home = os.path.join(harness.folder(), "tree")
    os.mkdir(home)
    for path in libraries:
        shutil.copy(path, home)
    program = shutil.copy(os.path.realpath(py.need()), os.path.join(home, "python"))
    return home, by(py, "env", "LD_LIBRARY_PATH=" + home, "PYTHONHOME=" + prefix, path=program)


def replaced(home):
    """As by an upgrade: other files of the same names."""
    for name in os.listdir(home):
        shutil.copy("/bin/true", os.path.join(home, "new"))
        os.rename(os.path.join(home, "new"), os.path.join(home, name))


FATES = {"renamed": lambda home: os.rename(home, home + ".new"), "deleted": shutil.rmtree, "upgraded": replaced}


@each(py=harness.older_pythons()[2:3] + [py for py in harness.wanted_pythons() if not py.tag.startswith("debian")])
@each(fate=list(FATES))
@harness.dealt
def test_a_tree_that_is_gone_is_right(py, fate):
    home, py = tree(py)
    target = Target(py, "groundtruth.py", "--us", 50)
    FATES[fate](home)
    told(target.pid, version_of(Python(py.tag, py.path)), "")
    run, verdict, stacks = harness.exact(target, "-F", 999, seconds=1)
    harness.all_right(verdict, run)
    cut = [frames for frames, _ in stacks if not any(frame in frames for frame in ("_start", "[unplaced]"))]
    check(not cut, "native frames: %s", cut[:2])


# ---- layouts from debug info ------------------------------------------------------------------------------------------

def altered(path, version, slot, value):
    """In a file of CPython, the word at SLOT of its _Py_DebugOffsets."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    found = [m.start() for m in re.finditer(b"xdebugpy", data) if struct.unpack_from("<Q", data, m.start() + 8)[0] >> 16 == version]
    equal(len(found), 1, "offsets in %s" % path)
    before = struct.unpack_from("<Q", data, found[0] + slot)[0]
    struct.pack_into("<Q", data, found[0] + slot, value(before))
    with open(path, "wb") as file:
        file.write(data)


def part(path, where):
    """Its debug info stays inside, lies beside it, or is nowhere."""
    need_command("objcopy")
    if where == "beside":
        subprocess.run(["objcopy", "--only-keep-debug", path, path + ".debug"], check=True)
    if where != "inside":
        subprocess.run(["strip", "-g", path], check=True)
    if where == "beside":
        subprocess.run(["objcopy", "--add-gnu-debuglink=" + path + ".debug", path], check=True)


def told_by_debug_info(target, version, where):
    """doctor says so, and stacks are right; or it is refused, and the version found is named."""
    about = "is CPython %s" % version
    if where == "nowhere":
        harness.refused(3, "dump", "-p", target.pid, about=["CPython %s" % version])
        harness.refused(3, "-p", target.pid, "-o", "a.folded", about=["CPython %s" % version])
        return None
    out = harness.pysampled("doctor", "-p", target.pid).ok().out
    said = "offsets from the debug info in its debug file" if where == "beside" else "offsets from its debug info"
    check(about in out and said in out, "doctor says: %s", out)
    dumps_are_right(target)
    run, verdict, _ = harness.exact(target, "-F", 999, seconds=1)
    harness.all_right(verdict, run)
    return str(verdict)


WHERE = ["inside", "beside", "nowhere"]


@each(where=WHERE)
def test_what_a_python_says_wrongly_its_debug_info_tells(where):
    """As of a build whose structs are not as it says: the place of a frame's code, one word further."""
    py = next((py for py in harness.wanted_pythons() if py.path and py.tag.startswith("3.13.")), None)
    if not py:
        raise Skip("no CPython 3.13 of pyenv")
    home, copy = tree(py)
    library = glob.glob(os.path.join(home, "libpython3.13*"))[0]
    part(library, where)
    altered(library, 0x030d, 240, lambda before: before + 8)
    return told_by_debug_info(Target(copy, "groundtruth.py", "--us", 50), version_of(py) if where != "nowhere" else "3.13", where)


@each(where=["inside", "nowhere"])
def test_a_python_of_no_table_is_told_by_its_debug_info(where):
    """sid's debug build of 3.15, which says that it is 3.16."""
    py = sid("-dbg")[-1]
    py.need()
    root, home = os.path.join(os.environ["PYSAMPLED_MATRIX"], "root"), harness.folder()
    if not os.path.exists(root + "/usr/bin/python3.15d"):
        raise Skip("no python3.15d in what was unpacked")
    app, run = shutil.copy(root + "/usr/bin/python3.15d", os.path.join(home, "app")), os.path.join(home, "run")
    part(app, where)
    altered(app, 0x030f, 8, lambda before: 0x031000f0)
    matrix.write_script(run, matrix.wrapper(root, app))
    return told_by_debug_info(Target(by(py, "env", "PYTHONHOME=/usr", path=run), "groundtruth.py", "--us", 50), "3.16", where)


def test_a_child_that_cannot_be_read_is_told_of():
    """Without -v too: all its samples are torn."""
    py = next((py for py in harness.wanted_pythons() if py.path and py.tag.startswith("3.13.")), None)
    if not py:
        raise Skip("no CPython 3.13 of pyenv")
    home, copy = tree(py)
    library = glob.glob(os.path.join(home, "libpython3.13*"))[0]
    part(library, "nowhere")
    altered(library, 0x030d, 240, lambda before: before + 8)
    spin = "import time\nend = time.time() + 2\nwhile time.time() < end: pass"
    run = harness.pysampled("-d", 3, "-o", "a.folded", "--", "sh", "-c", 'for i in 1 2; do "$@"; done', "sh", *copy.command(), "-c", spin)
    equal(run.err.count(": CPython 3.13 says"), 1, "that must be said once: %s" % run)


# ---- inside other programs --------------------------------------------------------------------------------------------

def loaded_late(py, *turns):
    """A program that loads the libpython once a line comes, in so many turns, and a recording of it as long as one more."""
    code = "import sysconfig as s; print(s.get_config_var('LIBDIR'), s.get_config_var('INSTSONAME'), s.get_config_var('prefix'))"
    where, name, prefix = subprocess.check_output(py.command() + ["-c", code], text=True, env=harness.plain_env()).split()
    home = harness.folder()
    program = os.path.join(home, "late")
    subprocess.run(["cc", "-O2", "-pthread", os.path.join(harness.TARGETS, "lateload.c"), "-o", program, "-ldl"], check=True)
    if not os.path.exists(os.path.join(where, name)):
        raise Skip("no shared libpython")
    target = harness.start([program, os.path.join(where, name), *turns], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           env=harness.plain_env(PYTHONHOME=prefix))
    target.stdout.readline()
    recorder = harness.Recorder("-p", target.pid, "--any", "-F", 499, "-d", 4, "-o", "a.folded", "--provenance", "exact",
                                home=home).attached()
    target.stdin.write(b"go\n")
    target.stdin.flush()
    run = recorder.wait()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    found = sum(n for frames, n in stacks if [name for name, _, _ in harness.python_frames(frames)] == ["<module>", "call", "leaf"])
    return run, found


@harness.one_python
def test_a_libpython_that_is_loaded_after_we_attached(py):
    run, found = loaded_late(py)
    enough(found > 30, "of its stack are %d: %s", found, run)


@harness.one_python
def test_a_libpython_that_is_unloaded_and_loaded_again(py):
    """It lies elsewhere then: as mod_wsgi's after a graceful restart of Apache."""
    run, found = loaded_late(py, "3")
    enough(found > 30, "of its stack are %d: %s", found, run)
    check(run.n("torn") <= 0.1 * run.n("samples"), "it is not found again: %s", run)


@harness.seconds(300)
@each(kind=["onefile", "onedir"])
def test_a_frozen_program_is_right(kind):
    """PyInstaller's: the files of a onefile are temporary, and its main() has 16 KiB of stack."""
    if not harness.every_pair():
        raise Skip("with --matrix only")
    python = harness.venv(harness.debian_python(), "pyinstaller")
    home = harness.folder()
    source = shutil.copy(os.path.join(harness.TARGETS, "pairs27.py"), os.path.join(home, "app.py"))
    subprocess.run([os.path.join(os.path.dirname(python), "pyinstaller"), "--" + kind, "--distpath", home, "--workpath", home + "/work",
                    "--specpath", home, "--name", "out", source], check=True, cwd=home, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=harness.plain_env())
    target, truth = pairs([os.path.join(home, *["out"] * (1 if kind == "onefile" else 2))])
    pid = harness.children(target.pid)[-1]
    if pid != target.pid:
        harness.cleanup(os.kill, pid, 9)
    harness.pysampled("-p", pid, "-F", 999, "-d", 2, "-o", "a.folded", "--provenance", "exact", home=home).ok()
    cut = [frames for frames, _ in harness.read_folded(os.path.join(home, "a.folded")) if "[cut]" in frames]
    check(not cut, "cut: %s", cut[:2])
    return right_pairs(home, truth, 100)


OF_FILE = re.compile(r"(.+) \((.+\.py)(:\d+)?\)")
COMPILED = re.compile(r"(<module>|Thread._bootstrap Thread._bootstrap_inner Thread.run)( main( middle( leaf)?|"
                      r" outer( outer.<locals>.<lambda>( inner)?)?| dumps( JSONEncoder[^ ]*| _make_iterencode[^ ]*)*( convert( leaf)?)?)?)?")


@harness.seconds(300)
@each(py=[py for py in harness.wanted_pythons() if not py.is_free_threaded() and not py.tag.startswith("debian")])
def test_a_program_compiled_by_nuitka_is_right(py):
    """Which functions; no line of those that were compiled; also where they and interpreted ones call each other."""
    if not harness.every_pair():
        raise Skip("with --matrix only")
    if py.tag in harness.MATRIX_PYTHONS:
        raise Skip("its root has no compiler")
    python = harness.venv(py, "nuitka")
    home = harness.folder()
    subprocess.run([python, "-m", "nuitka", "--follow-import-to=compiled_part", "--output-dir=" + home,
                    os.path.join(harness.TARGETS, "compiled.py")], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env=harness.plain_env())
    target = harness.start([os.path.join(home, "compiled.bin")], stdout=subprocess.PIPE, env=harness.plain_env())
    equal(target.stdout.readline(), b"READY\n", "its first line")
    harness.works(target.pid, 0.5)
    run = harness.pysampled("-p", target.pid, "-F", 1999, "-d", 3, "-o", "a.folded", "--provenance", "exact", home=home).ok()
    stacks = [[found for found in map(OF_FILE.fullmatch, frames) if found] for frames, _ in harness.read_folded(os.path.join(home, "a.folded"))]
    names = {" ".join(frame[1] for frame in frames) for frames in stacks if frames}
    wrong = [name for name in names if not COMPILED.fullmatch(name)]
    check(not wrong, "wrong stacks: %s", wrong[:3])
    lines = {frame[0] for frames in stacks for frame in frames if frame[2].startswith("compiled") and frame[3]}
    check(not lines, "lines of compiled functions: %s", lines)
    others = [bool(frame[3]) for frames in stacks for frame in frames if not frame[2].startswith("compiled")]
    check(sum(others) > 0.9 * len(others), "%d of %d have no line", others.count(False), len(others))  # COPY_FREE_VARS has none
    enough({"leaf", "inner"} <= {name.rpartition(" ")[2] for name in names} and any("convert" in name for name in names), "seen: %s", names)
    enough(run.n("exact") > 0.95 * run.n("samples") > 1000, "few are exact: %s", run)
    dumped = harness.pysampled("dump", "-p", target.pid).ok().out
    check("<module> (" in dumped and "Thread.run (" in dumped, "dump: %s", dumped)


SQL = """create extension plpython3u;
create function work(n int) returns int as $$
import time
def leaf():
    x = 0
    for i in range(3000):
        x += i * i
def call():
    leaf()
end = time.time() + n
while time.time() < end:
    call()
return 1
$$ language plpython3u;"""


@harness.seconds(120)
def test_plpython_in_postgresql_is_right():
    """Its main() lies 16 KiB above the function's evaluation loop."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    harness.need_root()
    if not programs or not glob.glob(os.path.join(os.path.dirname(programs[-1]), "../lib/plpython3.so")):
        raise Skip("no PostgreSQL with plpython3u here (postgresql-plpython3)")
    if not harness.every_pair():
        raise Skip("with --matrix only")
    where, home = os.path.dirname(programs[-1]), harness.folder(0o777)
    options = dict(user="postgres", group="postgres", extra_groups=[], cwd=home, stderr=subprocess.DEVNULL)
    subprocess.run([where + "/initdb", "-D", home + "/d", "-A", "trust"], check=True, stdout=subprocess.DEVNULL, **options)
    harness.start([where + "/postgres", "-D", home + "/d", "-k", home, "-h", ""], **options)
    psql = ["psql", "-q", "-t", "-A", "-h", home, "-d", "postgres"]
    harness.until(lambda: subprocess.run(psql + ["-c", "select 1"], stdout=subprocess.DEVNULL, **options).returncode == 0, "a server")
    subprocess.run(psql + ["-c", SQL], check=True, **options)
    query = harness.start(psql + ["-c", "select pg_backend_pid()", "-c", "select work(60)"], stdout=subprocess.PIPE, **options)
    pid = int(query.stdout.readline())
    harness.works(pid)
    harness.pysampled("-p", pid, "-F", 499, "-d", 2, "-o", "a.folded", "--provenance", "exact", home=home).ok()
    judged = 0
    for frames, count in harness.read_folded(os.path.join(home, "a.folded")):
        names = [name for name, _, _ in harness.python_frames(frames)]
        if names and names[-1].endswith("leaf"):
            work = names[1]
            equal(names, ["<module>", work, work + ".<locals>.call", work + ".<locals>.leaf"], "its stack")
            check("PostgresMain" in frames and frames[1] == "_start", "native frames: %s", frames)
            judged += count
    enough(judged > 30, "only %d judged", judged)
