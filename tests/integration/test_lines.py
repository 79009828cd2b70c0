"""--native-lines: source lines and inlined functions of a library that was built here."""
import ctypes
import http.server
import os
import re
import subprocess
import threading

import harness
import tolerances
from harness import Target, check, each, enough, equal, need_command, pysampled

BESIDE = True

SOURCE = """\
__attribute__((always_inline)) static inline void leaf(void)
{
	for (;;) { __asm__ volatile("nop"); } /* LEAF */
}
__attribute__((always_inline)) static inline void middle(void)
{
	leaf(); /* MIDDLE */
}
__attribute__((noinline)) static void outer(void)
{
	middle(); /* OUTER */
}
void enter(void)
{
	outer(); /* ENTER */
	__asm__ volatile("");
}
"""
CC = "cc -g -O2 -fPIC -shared -Wl,--build-id lib.c"
# What two files have in common goes to a third, which who reads lines opens without rights.
MANY_TYPES = CC + " -fno-eliminate-unused-debug-types -include stdio.h -include pthread.h"
COMMON = ["chmod o+x .", MANY_TYPES + " -o lib.so", "cp lib.so lib_2.so", "dwz -m common -M $PWD/common lib.so lib_2.so", "chmod o+r common"]
# After the link; the file must not lead to its own debug file by its name.
STEPS = {"whole": [], "gone": [],
         "zstd": ["objcopy --compress-debug-sections=zstd lib.so"],
         "beside": ["objcopy --only-keep-debug lib.so lib.debug", "strip -s lib.so",
                    "objcopy --add-gnu-debuglink=lib.debug lib.so"],
         "server": ["objcopy --only-keep-debug lib.so served", "strip -s lib.so"],
         "common": COMMON,
         "lost": COMMON + ["rm common"],
         "strange": COMMON + ["cp lib.c kept.c", "sed -i 's/middle/muddle/; s/leaf/fael/' lib.c", MANY_TYPES + " -o twin.so",
                              "mv kept.c lib.c", "cp twin.so twin_2.so", "rm common",
                              "dwz -m common -M $PWD/common twin.so twin_2.so", "chmod o+r common"],
         "garbled": ["objcopy --dump-section .debug_info=info lib.so",
                     "head -c $(stat -c %s info) /dev/urandom > noise",
                     "objcopy --update-section .debug_info=noise lib.so"],
         "unpackable": ["objcopy --compress-debug-sections=zstd lib.so",
                        "at=$(readelf -SW lib.so | sed -n 's/.* .debug_info *PROGBITS *[0-9a-f]* \\([0-9a-f]*\\).*/\\1/p');"
                        "printf nonsense | dd of=lib.so bs=1 conv=notrunc seek=$((0x$at + 24))"]}


def build(kind):
    """(folder, {function: "FUNCTION (FILE:LINE)"})."""
    where = harness.folder()
    harness.write(os.path.join(where, "lib.c"), SOURCE)
    for step in [CC + " -o lib.so"] + STEPS[kind]:
        made = subprocess.run(step, shell=True, cwd=where, stderr=subprocess.PIPE, text=True)
        if made.returncode != 0:
            raise harness.Skip("%s: %s" % (step, made.stderr.strip()))
    lines = enumerate(SOURCE.splitlines(), 1)
    return where, {word.lower(): "%s (%s/lib.c:%d)" % (word.lower(), where, number) for number, line in lines
                   for word in re.findall(r"/\* (\w+) \*/", line)}


class Server(http.server.BaseHTTPRequestHandler):
    """A debuginfod of one file."""
    wanted, file, asked = "", "", []

    def do_GET(self):
        self.asked.append(self.path)
        body = b""
        if self.path == self.wanted:
            with open(self.file, "rb") as file:
                body = file.read()
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(where):
    """A server of where/served; pysampled's environment names it."""
    notes = subprocess.check_output(["readelf", "-n", os.path.join(where, "lib.so")], text=True)
    Server.wanted = "/buildid/%s/debuginfo" % re.search(r"Build ID: (\w+)", notes)[1]
    Server.file, Server.asked = os.path.join(where, "served"), []
    server = http.server.HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    harness.cleanup(server.server_close)
    harness.cleanup(server.shutdown)
    for key, value in (("DEBUGINFOD_URLS", "http://127.0.0.1:%d" % server.server_port),
                       ("DEBUGINFOD_CACHE_PATH", os.path.join(where, "cache"))):
        os.environ[key] = value
        harness.cleanup(os.environ.pop, key)


def need_libdw():
    if "libdw" not in pysampled("-V").out:
        raise harness.Skip("built without libdw")


def need_debuginfod():
    try:
        ctypes.CDLL("libdebuginfod.so.1")
    except OSError:
        raise harness.Skip("libdebuginfod is not installed")


def start(kind):
    """(target, {function: frame}, options)."""
    need_libdw()
    for command in ("cc", "objcopy", "strip", "readelf"):
        need_command(command)
    if kind == "server":
        need_debuginfod()
    where, lines = build(kind)
    target = Target(harness.newest_python(), "natives.py", "lib", os.path.join(where, "lib.so"))
    if kind == "gone":
        os.unlink(os.path.join(where, "lib.so"))
    if kind == "server":
        serve(where)
    return target, lines, ["--native-lines"] + ["--debuginfod"] * (kind == "server")


def record(target, *options):
    home = harness.folder()
    run = pysampled("-p", target.pid, "-e", "cpu-clock:u", "-F", 499, "-d", 1, "-v", "-o", "a.folded", *options,
                    home=home).ok()
    stacks = harness.read_folded(os.path.join(home, "a.folded"))
    harness.same_counts(run, stacks)
    equal(len({tuple(frames) for frames, _ in stacks}), len(stacks), "stacks that are on one line")
    enough(harness.total(stacks) > 50, "too few samples: %s", run)
    return run, stacks


def check_share(stacks, want):
    """Nearly all end with these frames."""
    n = sum(n for frames, n in stacks if frames[-len(want):] == want)
    check(n >= (1 - tolerances.OUTSIDE_LEAF) * harness.total(stacks), "%d of %d samples end with %s: %s", n, harness.total(stacks), want,
          stacks[:3])


@each(kind=["whole", "gone", "zstd", "beside", "server"])
def test_folded(kind):
    target, lines, options = start(kind)
    run, stacks = record(target, *options)
    check_share(stacks, [lines["enter"], lines["outer"], lines["middle"] + "_[i]", lines["leaf"] + "_[i]"])
    check("bad_debug=" not in run.err, "files were not read: %s", run)
    if kind == "server":
        check(Server.wanted in Server.asked, "never asked for: %s", Server.asked)


@each(kind=["whole", "server"])
def test_dump(kind):
    target, lines, options = start(kind)
    run = pysampled("dump", "-p", target.pid, *options).ok()
    frames = [line.strip() for line in run.out.splitlines()]
    enough("[native frames unknown: it ran, and was not sampled]" not in frames, "it got no CPU for 0.3 s: %s", run)
    want = [lines["leaf"] + " (inlined)", lines["middle"] + " (inlined)", lines["outer"], lines["enter"]]
    check(want[0] in frames, "no leaf: %s", frames)
    at = frames.index(want[0])
    equal(frames[at:at + 4], want, "native frames")
    check("<module> (%s:" % target.script in "".join(frames[at:]), "no Python frame: %s", frames)


def test_a_server_is_not_asked_unless_wanted():
    target, _, _ = start("server")
    run, stacks = record(target, "--native-lines")
    equal(Server.asked, [], "requests")
    check(re.search(r"no_line=\d", run.err), "what has no line is not counted: %s", run)
    leaf = next(frames[-1] for frames, _ in stacks if "enter" in frames)
    check(leaf.startswith("lib.so+0x"), "a stripped function's name: %s", leaf)


def test_functions_without_lines():
    """With --folded-lines=no inlined functions are shown, and lines are not."""
    target, _, _ = start("whole")
    _, stacks = record(target, "--native-lines", "--folded-lines=no")
    check_share(stacks, ["enter", "outer", "middle_[i]", "leaf_[i]"])


def test_without_the_option():
    target, _, _ = start("whole")
    _, stacks = record(target)
    check_share(stacks, ["enter", "outer"])


@each(kind=["common", "lost"])
def test_names_in_a_common_file(kind):
    """Where it is not there inlined functions are called by their lines."""
    need_command("dwz")
    target, lines, options = start(kind)
    _, stacks = record(target, *options)
    named = [lines["middle"], lines["leaf"]]
    if kind == "lost":
        named = [re.sub(r".* \((.*/)?(.*)\)", r"\2 (\1\2)", name) for name in named]
    check_share(stacks, [lines["enter"], lines["outer"]] + [name + "_[i]" for name in named])


def test_the_common_file_of_another_build():
    """Its names are others', at the same offsets."""
    need_command("dwz")
    target, lines, options = start("strange")
    run, stacks = record(target, *options)
    check_share(stacks, ["enter", "outer"])
    check("bad_debug=1" in run.err, "not counted: %s", run)


@each(kind=["garbled", "unpackable"])
def test_garbled_debug_information(kind):
    """Gives no lines that are not there, and does no harm."""
    target, lines, options = start(kind)
    run, stacks = record(target, *options)
    check_share(stacks, ["enter", "outer"])
    said = bool(re.search(r"debug information could not be read to its end, .* in files: 1\n", run.err))
    check(said == (kind == "unpackable"), "what was said: %s", run)
    pysampled("dump", "-p", target.pid, *options).ok()


MAPPED = """
def spin(_):
    while True:
        pass
print("READY {}", flush=True)
list(map(spin, [0]))
"""


@each(full=[False, True])
def test_inlined_internals_are_hidden_as_others_are(full):
    """map() has the interpreter's way of calling inlined in it."""
    need_libdw()
    path = os.path.join(harness.folder(), "mapped.py")
    harness.write(path, MAPPED)
    target = Target(harness.newest_python(), path)
    _, stacks = record(target, "--native-lines", "--native=full" if full else "--native")
    frames = max(stacks, key=lambda stack: stack[1])[0]
    at = next(i for i, frame in enumerate(frames) if frame.startswith("map_next"))
    if "(" not in frames[at]:
        raise harness.Skip("this Python has no debug information: %s" % frames[at])
    internals = [frame for frame in frames[at:] if frame.startswith("_PyObject_Vectorcall") and frame.endswith("_[i]")]
    check(bool(internals) == full, "%s in %s", internals, frames)
    check(any(frame.startswith("spin (") for frame in frames[at:]), "no Python frame: %s", frames)


def test_two_outputs():
    """Both have lines, a perf.data beside them is as ever."""
    target, lines, options = start("whole")
    home = harness.folder()
    pysampled("-p", target.pid, "-e", "cpu-clock:u", "-F", 499, "-d", 1, "-o", "a.folded", "-o", "b.folded", "-o",
              "a.data", *options, home=home).ok()
    one, two = (harness.read_folded(os.path.join(home, name)) for name in ("a.folded", "b.folded"))
    check_share(one, [lines["outer"], lines["middle"] + "_[i]", lines["leaf"] + "_[i]"])
    equal(two, one, "the second output")
    equal(harness.perf_samples(os.path.join(home, "a.data"), home), harness.total(one), "samples in perf.data")


@each(options=["-o a.data --native-lines", "-o a.folded --no-native --native-lines", "-o a.folded --debuginfod"])
def test_lines_of_nothing_are_refused(options):
    need_libdw()
    harness.refused(2, "-p", os.getpid(), "-d", 1, *options.split())


@each(options=["--no-native --native-lines", "--debuginfod"])
def test_dump_of_lines_of_nothing_is_refused(options):
    need_libdw()
    harness.refused(2, "dump", "-p", os.getpid(), *options.split())


SLED = """\
#define LINE __asm__ volatile(".rept 50\\n nop\\n.endr");
#define LINES LINE LINE LINE LINE
#define F(n) __attribute__((noinline)) void f_##n(void) { LINES LINES LINES LINES }
%s
void enter(void)
{
	for (;;) { %s }
}
"""


def test_lines_have_a_share_of_memory():
    """Each address that is sampled takes some, and what has no room for lines keeps its name."""
    need_libdw()
    need_command("cc")
    where = harness.folder()
    numbers = range(1000)
    harness.write(os.path.join(where, "lib.c"), SLED % ("\n".join("F(%d)" % n for n in numbers), " ".join("f_%d();" % n for n in numbers)))
    subprocess.run("cc -g -O1 -fPIC -shared lib.c -o lib.so", shell=True, cwd=where, check=True)
    target = Target(harness.newest_python(), "natives.py", "lib", os.path.join(where, "lib.so"))
    run = pysampled("-p", target.pid, "-e", "cpu-clock:u", "-F", 4999, "--hold-budget", 100, "-d", 8, "-v", "--memory", "3M",
                    "--native-lines", "-o", "a.folded", home=where).ok()
    stacks = harness.read_folded(os.path.join(where, "a.folded"))
    harness.same_counts(run, stacks)
    enough(run.n("samples") > 4000 or run.counter("unplaced") > 0, "too few samples: %s", run)
    check("source lines of native frames have used up their part of --memory" in run.err, "not a word of it: %s", run)
    check(run.counter("unplaced") > 0, "not counted: %s", run)
    leaves = [frames[-1] for frames, _ in stacks if frames[-1].startswith("f_")]
    check(any("lib.c:" in leaf for leaf in leaves), "none has a line: %s", leaves[:5])
    check(any("lib.c:" not in leaf for leaf in leaves), "all have lines: %s", leaves[:5])
