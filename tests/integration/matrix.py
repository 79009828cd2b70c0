"""CPythons that this system has no packages of, unpacked or built into the build folder: scripts that behave like a python3.

unpack() makes BUILD/matrix/3.14 and 3.15 of Debian sid, and compiles 3.13t, which no Debian has, from the sources of the next
Debian's 3.13 (as compile_musl() does, when a test wants it), and with --free-threaded 3.14t and 3.15t from sid's; provide() makes
those of BUILD/pythons that a plain Debian 12 lacks: 3.13 of the next Debian, and 3.12, which no Debian has, of a jar that holds a
whole CPython. Those of a Debian run in a chroot and see the repository, /tmp and TMPDIR at their usual places, through a mount
namespace that ends with the process.
"""
import fcntl
import glob
import os
import shutil
import subprocess
import zipfile

import harness

VERSIONS = harness.MATRIX_DEBIANS
FOLDER = os.path.join(harness.BUILD, "matrix")
NEEDED = ["base-files", "libc-bin", "dash", "coreutils"]
PACKAGES = ["python%s" % v for v in VERSIONS] + ["python3.13", "python3.14-dbg", "python3.15-dbg", "libpython3.15", "libstdc++6"] + [
    "libpython%s-dev" % v for v in VERSIONS]  # headers, for tests/unit/headers_test.py
JARS = {"3.12": "org.bytedeco:cpython:3.12.1-1.5.10:jar:linux-x86_64"}
SUITES = {"3.11": "bookworm", "3.13": "trixie"}  # else sid
WRAPPER = """#!/bin/sh
# Becomes %(program)s of that Debian, with the repository and temporary files at their usual places.
exec unshare -m sh -c 'mount --bind "%(repo)s" "%(root)s%(repo)s" && mount --rbind /tmp "%(root)s/tmp" &&
  mkdir -p "%(root)s${TMPDIR:-/tmp}" && mount --rbind "${TMPDIR:-/tmp}" "%(root)s${TMPDIR:-/tmp}" &&
  mount -t proc proc "%(root)s/proc" && exec chroot "%(root)s" %(program)s "$@"' sh "$@"
"""
JAR_WRAPPER = """#!/bin/sh
export PYTHONHOME="%(home)s" LD_LIBRARY_PATH="%(home)s"
exec "%(home)s/bin/python%(version)s" "$@"
"""


def unpack(free_threaded=False):
    """Sets PYSAMPLED_MATRIX for the harness; what could not be had has a file with the reason there, and is skipped."""
    os.makedirs(FOLDER, exist_ok=True)
    reason = make_root(FOLDER, "sid", PACKAGES)
    for version in VERSIONS:
        note(version, reason)
        if not reason:
            write_wrapper(FOLDER, version)
    given = {py.tag: py.path for py in harness.given_free_threaded()}
    for tag in harness.FREE_THREADED if free_threaded else sorted({harness.FREE_THREADED[0], *given}):
        note(tag, compile_free_threaded(tag, given.get(tag)))
    os.environ["PYSAMPLED_MATRIX"] = FOLDER


def note(version, reason):
    """Why there is no such CPython; None: there is."""
    path = os.path.join(FOLDER, version + ".absent")
    if reason:
        with open(path, "w") as file:
            file.write(reason)
    elif os.path.exists(path):
        os.unlink(path)


def provide(versions):
    """{version: why it could not be had} of those that could not."""
    reasons = {}
    for version in versions:
        folder = os.path.join(harness.PYTHONS, version + ".d")
        package, suite = "python" + version, suite_of(version)
        reason = unpack_jar(folder, version) if version in JARS else make_root(folder, suite, [package])
        if not reason and version not in JARS and not os.path.exists(os.path.join(folder, "root/usr/bin", package)):
            reason = "Debian %s has no %s" % (suite, package)  # mmdebstrap of Debian 13 says so to nobody
        if reason:
            reasons[version] = reason
        elif version not in JARS:
            write_wrapper(folder, version, os.path.join(harness.PYTHONS, version))
    return reasons


def command(name, package):
    """None, or why there is no such command; it is installed where it may be."""
    if not shutil.which(name):
        harness.install([package])
    return None if shutil.which(name) else "no %s here" % name


def make(folder, fill, what):
    """Fills a folder once, by a command; None, or why not."""
    done = os.path.join(folder, "complete")
    if os.path.exists(done):
        return None
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    made = subprocess.run(fill, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if made.returncode != 0:
        return "%s could not be unpacked: %s" % (what, " ".join(made.stdout.split())[-300:])
    open(done, "w").close()
    return None


# Its --prefix is made here: make install would compile each module, the tests' too, which takes as long as all the rest.
FETCH = """
set -e
cd "$1"
mkdir -p apt/lists/partial apt/cache/archives/partial build
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sed 1q)
test -n "$mirror" || { echo "apt knows no mirror of Debian"; exit 1; }
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb-src [signed-by=$key] $mirror $2 main" > apt/sources.list
apt() {
  apt-get -q -o Dir::Etc::SourceList="$1/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$1/apt/lists" \
    -o Dir::Cache="$1/apt/cache" -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false "${@:2}"
}
apt "$1" update
apt "$1" source --download-only "python$3"
tar -xf "python$3"_*.orig.tar.xz
cd build
"""
COMPILE = FETCH + """
nice ../"Python-$3".*/configure -q --disable-gil --disable-test-modules --without-ensurepip --prefix="$1/root" CFLAGS="-O1 -g"
nice make -s -j2
cd ..
lib=root/lib/python$3t
mkdir -p root/bin root/include "$lib/lib-dynload"
cp build/python "root/bin/python$3t"
ln -sf "python$3t" root/bin/python3
cp -r "Python-$3".*/Include "root/include/python$3t"
cp build/pyconfig.h "root/include/python$3t"
cp -r "Python-$3".*/Lib/. "$lib"
rm -r "$lib/test" "Python-$3".*
cp build/build/lib.*/_sysconfigdata* "$lib"
cp -L build/build/lib.*/*.so "$lib/lib-dynload"
# What targets import is compiled, for they don't.
"root/bin/python$3t" -c 'import argparse, asyncio, ctypes, dis, inspect, json, multiprocessing, random, select, socket, subprocess'
rm -r build apt
"""

# Its compiler is musl-gcc, which does not know the kernel's headers. No module is loaded: a static program can't.
COMPILE_MUSL = FETCH + """
mkdir kernel
ln -s /usr/include/linux /usr/include/asm-generic "/usr/include/$(cc -print-multiarch)/asm" kernel
cat > cc <<'END'
#!/bin/sh
case "$*" in *--print-multiarch*) echo "$(uname -m)-linux-musl";; *) exec musl-gcc "$@";; esac
END
chmod +x cc
nice ../Python-3.13.*/configure -q CC="$PWD/cc" --without-ensurepip --disable-test-modules py_cv_module__ctypes=n/a \\
  CFLAGS="-O1 -g1 -idirafter $PWD/kernel"
nice make -s -j2 python
cp python ../dynamic
rm python
nice make -s LDFLAGS="-static -no-pie" LINKFORSHARED=" " LIBS="-lm" python
cp python ../static
cd ..
cp -r Python-3.13.*/Lib lib
rm -r lib/test Python-3.13.* build apt
"""


def suite_of(version):
    return SUITES.get(version, "sid")


def compile_free_threaded(tag, given=None):
    """A CPython without the GIL, in FOLDER/3.13t.d/root, unless it is GIVEN; None, or why not."""
    version, folder = tag.rstrip("t"), os.path.join(FOLDER, tag + ".d")
    reason = None if given else command("cc", "gcc") or command("make", "make") or make(
        folder, ["bash", "-c", COMPILE, "compile", folder, suite_of(version), version], "CPython " + tag)
    if not reason:
        write_script(os.path.join(FOLDER, tag),
                     '#!/bin/sh\nexec "%s" "$@"\n' % (given or os.path.join(folder, "root/bin/python" + tag)))
    return reason


def compile_musl():
    """A CPython that musl is linked to, as programs called dynamic and static, and its lib: their folder, and None or why not."""
    folder = os.path.join(FOLDER, "musl.d")
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests that run beside one another want the same
        return folder, command("musl-gcc", "musl-tools") or command("make", "make") or make(
            folder, ["bash", "-c", COMPILE_MUSL, "compile", folder, suite_of("3.13"), "3.13"],
            "CPython 3.13 with musl")


def make_root(folder, suite, packages):
    """A Debian in FOLDER/root; None, or why not."""
    if not harness.is_root():
        return "a chroot needs root"
    root = os.path.join(folder, "root")
    reason = command("mmdebstrap", "mmdebstrap") or make(folder, [
        "mmdebstrap", "--quiet", "--variant=extract", "--include=" + ",".join(packages + NEEDED),
        "--aptopt=APT::Install-Recommends \"false\"", "--aptopt=Acquire::Check-Valid-Until \"false\"",
        "--dpkgopt=path-exclude=/usr/share/doc/*", suite, root], "Debian " + suite)
    if not reason:
        os.makedirs(root + harness.ROOT, exist_ok=True)  # also in a build folder that was copied
    return reason


def root_of(py):
    """The Debian that a CPython runs in; "" if that is this one."""
    if py.tag in VERSIONS:
        return os.path.join(FOLDER, "root")
    own = os.path.join(harness.PYTHONS, py.tag)
    return os.path.join(own + ".d", "root") if py.path == own and py.tag not in JARS else ""


def wrapper(root, program):
    return WRAPPER % {"program": program, "repo": harness.ROOT, "root": root}


def write_wrapper(folder, version, path=None):
    write_script(path or os.path.join(folder, version), wrapper(os.path.join(folder, "root"), "/usr/bin/python" + version))


def write_script(path, text):
    with open(path, "w") as out:
        out.write(text)
    os.chmod(path, 0o755)


def unpack_jar(folder, version):
    """A CPython with a shared libpython, from the jar of it; None, or why not."""
    reason = command("mvn", "maven") or make(folder, ["mvn", "-q", "-B", "dependency:copy", "-Dartifact=" + JARS[version],
                                                      "-DoutputDirectory=" + folder], "the jar of CPython " + version)
    if reason:
        return reason
    home = os.path.join(folder, "home")
    if not os.path.exists(home):
        with zipfile.ZipFile(glob.glob(os.path.join(folder, "*.jar"))[0]) as jar:
            jar.extractall(folder + ".new")
        os.rename(os.path.dirname(glob.glob(folder + ".new/**/libpython*.so.1.0", recursive=True)[0]), home)
        shutil.rmtree(folder + ".new")
        os.chmod(os.path.join(home, "bin", "python" + version), 0o755)
    write_script(os.path.join(harness.PYTHONS, version), JAR_WRAPPER % {"home": home, "version": version})
    return None
