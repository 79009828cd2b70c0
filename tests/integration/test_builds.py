"""Builds as they are shipped: stripped, in files whose names tell no version, and inside another program."""
import glob
import os
import subprocess

import harness
from harness import Python, Skip, Target, check, each, enough, equal, need_command

BESIDE = True


def nameless(py):
    """The same Python without symbols: a program called app, and its library, if it has one, called libpxthon."""
    need_command("strip")
    home = harness.folder()
    code = "import sys; print(sys.prefix)"
    prefix = subprocess.check_output(py.command() + ["-c", code], text=True, env=harness.plain_env()).strip()
    files = {os.path.realpath(py.need()): "app"}
    for path in glob.glob(os.path.join(prefix, "lib", "libpython?.*.so.*")):
        files[path] = os.path.basename(path).replace("python", "pxthon")
    for path, name in files.items():
        with open(path, "rb") as file, open(os.path.join(home, name), "wb") as copy:
            copy.write(file.read().replace(b"libpython", b"libpxthon"))
        subprocess.run(["strip", "-s", os.path.join(home, name)], check=True)
    os.chmod(os.path.join(home, "app"), 0o755)
    ret = Python(py.tag, py.path)
    ret.command = lambda: ["env", "LD_LIBRARY_PATH=" + home, "PYTHONHOME=" + prefix, os.path.join(home, "app")]
    return ret


def told(pid, version):
    """doctor names the version, and that there are no symbols."""
    out = harness.pysampled("doctor", "-p", pid).ok().out
    check("is CPython %s (" % version in out and ", stripped)" in out, "of CPython %s doctor says: %s", version, out)


def version_of(py):
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    return subprocess.check_output(py.command() + ["-c", code], text=True, env=harness.plain_env()).strip()


@each(py=harness.older_pythons() + harness.wanted_pythons())
def test_a_stripped_python_of_no_name_is_right(py):
    version = version_of(py)
    target = Target(nameless(py), "groundtruth.py", "--us", 50)
    told(target.pid, version)
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
