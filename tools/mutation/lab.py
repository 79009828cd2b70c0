"""Builds the library as one shared object, so that a mutant is one compilation and one link, and runs the fast
tests against it: those that reach the changed lines, the quickest first, until one fails."""
import collections
import concurrent.futures
import contextlib
import glob
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time

Test = collections.namedtuple("Test", "name program command")

# A mutant that mixes pointers and numbers is no bug that a person could write: it does not compile.
STRICT = ("-Werror=int-conversion", "-Werror=incompatible-pointer-types", "-Werror=implicit-function-declaration",
          "-Werror=address", "-Werror=shift-count-overflow", "-Wformat", "-Werror=format", "-Wextra")
MIXED = re.compile("comparison between pointer and integer|"  # a warning without a name
                   "ordered comparison of pointer with integer zero")
FUZZ_RUNS = "2000"
SUMMED = ["fuzz_" + n for n in ("decode", "linetable", "native", "symbols", "unwind", "walk")]  # as meson.build has them
FUZZ_MAIN = "tests/fuzz/main.c"  # which meson puts into a library
# Whole recordings of the fake kernel of tests/source: capture, output, forks.
SOURCES = [("preempt", "folded", "100"), ("async", "folded", "100"), ("preempt", "perf.data", "20")]
WRAP = "-Wl,--wrap="
# As tools/test has them. What reads or writes beyond its memory, or leaks, no plain run may notice.
SANITIZE = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer")
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=1:halt_on_error=1", "UBSAN_OPTIONS": "halt_on_error=1"}
SLOWEST = 20  # seconds more, and ...
SLOWER = 10  # ... times longer than without a mutant: a test that takes longer hangs
INCLUDE = re.compile(r'^#include "(?:\w+/)*(\w+\.inc\.h)"$', re.M)


class NotBuilt(Exception):
    pass


def kept(path):
    """What keep() has written there, or None."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return f.read()


def keep(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))


def namespace(*folders):
    """A mutant may signal any process, or leave some behind: where we may, it has processes of its own. So has it a /tmp, unless
    one of the folders lies there: what a killed test leaves is another's with its number, as /tmp/perf-PID.map."""
    how = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    may = shutil.which(how[0]) and subprocess.run(how + ["true"], capture_output=True).returncode == 0
    # Nor is a test process 1, which few signals end, or 2, which tests have for a process that is not theirs.
    far = "echo 20000 2> /dev/null > /proc/sys/kernel/ns_last_pid; "
    if not any(os.path.realpath(f).startswith("/tmp/") for f in folders):
        far += "mount -t tmpfs none /tmp; "
    return how + ["sh", "-c", far + '"$@"; exit $?', "sh"] if may else []


RUNNING = set()  # process groups of tests


def end_all(sig, _):
    """For who ends us: no test is left behind."""
    for pid in list(RUNNING):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    os._exit(128 + sig)


def run(command, env, seconds, cwd):
    """(exit status, or None if it hung; output)"""
    with subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=limits) as p:
        RUNNING.add(p.pid)
        try:
            out = p.communicate(timeout=seconds)[0]
            return p.returncode, out
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            return None, p.communicate()[0]
        finally:
            RUNNING.discard(p.pid)


class Lab:
    """A folder with the objects of the library, the test programs and what each of them executes."""

    def __init__(self, root, folder, jobs):
        self.root, self.folder, self.jobs = root, os.path.abspath(folder), jobs
        self.meson = os.path.join(self.folder, "meson")
        os.makedirs(self.folder, exist_ok=True)
        self.configure()
        with open(os.path.join(self.meson, "compile_commands.json"), encoding="utf-8") as f:
            self.commands = {os.path.relpath(os.path.join(c["directory"], c["file"]), root): c["command"]
                             for c in json.load(f)}
        self.sources = sorted(p for p in self.commands if p.startswith(("lib/", "output/")))
        self.texts = {os.path.basename(p): (p, self.read(p)) for p in self.sources}
        for path in glob.glob(os.path.join(root, "lib/**/*.inc.h"), recursive=True):
            self.texts[os.path.basename(path)] = (os.path.relpath(path, root), self.read(path))

    def prepare(self):
        """Build, and learn what each test executes."""
        self.own = namespace(self.root, self.folder)
        self.build()
        self.tests = self.find_tests()
        self.learn()

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as f:
            return f.read()

    def configure(self):
        if not os.path.exists(os.path.join(self.meson, "build.ninja")):
            subprocess.run(["meson", "setup", self.meson, self.root, "-Doptimization=1", "-Ddebug=false",
                            "-Dstatic=false"], check=True,
                           stdout=subprocess.DEVNULL)
        else:
            subprocess.run(["ninja", "-C", self.meson, "build.ninja"], check=True, stdout=subprocess.DEVNULL)

    # --- the library ---

    def compiler(self, path):
        """The command that compiles a source, without its output and input."""
        words = shlex.split(self.commands[path])
        words = words[words.index("ccache") + 1:] if "ccache" in words else words
        result, skip = [], 0
        for word in words:
            if skip or word in ("-MQ", "-MF", "-o", "-c"):
                skip = 0 if skip else 1
            elif word.startswith("-I"):
                result.append("-I" + os.path.join(self.meson, word[2:]))
            elif not word.startswith(("-W", "-MD", "-g", "-fdiagnostics")):
                result.append(word)
        return result + ["-fPIC", "-w", "-ftrivial-auto-var-init=pattern", "-iquote", os.path.join(self.root, os.path.dirname(path))]

    def compile(self, path, text, at, *flags):
        """Compile `text` as source `path` in folder `at`: there always under the same name, so that the same code
        gives the same object."""
        name = path.replace("/", "_")
        keep(os.path.join(at, "src", name), text)
        words = [w for w in self.compiler(path) if flags != STRICT or w != "-w"]
        command = words + list(flags) + ["-c", "src/" + name, "-o", name + ".o"]
        done = subprocess.run(command, cwd=at, capture_output=True, text=True)
        if done.returncode or flags == STRICT and MIXED.search(done.stderr):
            raise NotBuilt(done.stderr)
        return os.path.join(at, name + ".o")

    def link_words(self, target):
        """What meson links with a program, without its own objects and libraries."""
        out = subprocess.run(["ninja", "-C", self.meson, "-t", "commands", target], check=True, capture_output=True,
                             text=True).stdout
        words = shlex.split(out.strip().split("\n")[-1])
        return [w for w in words[words.index("-o") + 2:] if not w.endswith((".o", ".a"))]

    def link(self, objects, at, *flags):
        """The library, and the same for programs that put functions of theirs before its own or libc's."""
        self.link_one(objects, at, *flags)
        os.makedirs(os.path.join(at, "wrapped", "tmp"), exist_ok=True)
        self.link_one(objects, os.path.join(at, "wrapped"), *flags, *self.wraps)

    def link_one(self, objects, at, *flags):
        words = [w for w in self.link_words_of_core if w != "-Wl,--no-undefined"]
        done = subprocess.run(["cc", "-shared", *flags, "-o", os.path.join(at, "libcore.so"),
                               *objects, *words], capture_output=True, text=True)
        if done.returncode:
            raise NotBuilt(done.stderr)

    def headers(self, *tops):
        """A sum of the headers below these folders."""
        h = hashlib.sha1()
        for top in tops:
            for path in sorted(glob.glob(os.path.join(self.root, top, "**/*.h"), recursive=True)):
                with open(path, "rb") as f:
                    h.update(path.encode() + f.read())
        return h.hexdigest()

    def compile_kept(self, path, at, *flags):
        """The object of an unchanged source, kept from the run before if it is still what it would be."""
        text = self.read(path)
        headers = self.own_headers + ("" if path.startswith(("lib", "output")) else self.test_headers)
        key = hashlib.sha1("\0".join([headers, text, *self.compiler(path), *flags]).encode()).hexdigest()
        made = os.path.join(at, path.replace("/", "_") + ".o")
        if not os.path.exists(made) or kept(made + ".key") != key:
            self.compile(path, text, at, *flags)
            keep(made + ".key", key)
        return made, key

    def build(self):
        """The library as it is, counting what is executed, and under sanitizers; and the programs."""
        self.own_headers = self.headers("lib", "output")
        self.test_headers = self.headers("tests/unit", "tests/fuzz")
        made = [os.path.relpath(f, self.meson) for t in self.targets() if t["type"] == "custom"
                for f in t["filename"] if f.endswith(".inc")]
        subprocess.run(["ninja", "-C", self.meson, *made], check=True, stdout=subprocess.DEVNULL)
        self.link_words_of_core = self.link_words("pysampled")
        self.wraps = [w for w in self.link_words("source") if w.startswith(WRAP)]
        self.plain, self.counting, self.watched = (os.path.join(self.folder, n) for n in ("plain", "counting", "watched"))
        for at in (self.plain, self.counting, self.watched):
            os.makedirs(os.path.join(at, "tmp"), exist_ok=True)
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            plain = list(pool.map(lambda p: self.compile_kept(p, self.plain), self.sources))
            self.objects = dict(zip(self.sources, (o for o, _ in plain)))
            watched = list(pool.map(lambda p: self.compile_kept(p, self.watched, *SANITIZE), self.sources))
            self.watched_objects = dict(zip(self.sources, (o for o, _ in watched)))
            counting = list(pool.map(lambda p: self.compile_kept(p, self.counting, "-O0", "--coverage"),
                                     self.sources))
            self.key = hashlib.sha1("".join(k for _, k in plain + counting + watched).encode()).hexdigest()
            if kept(os.path.join(self.folder, "linked")) != self.key + "".join(self.wraps):
                self.link(self.objects.values(), self.plain)
                self.link([o for o, _ in counting], self.counting, "--coverage")
                self.link_one([o for o, _ in watched], self.watched, *SANITIZE)
                keep(os.path.join(self.folder, "linked"), self.key + "".join(self.wraps))
            self.program_keys = dict(pool.map(self.build_program, self.programs()))

    def targets(self):
        return json.loads(subprocess.run(["meson", "introspect", "--targets", self.meson], check=True,
                                         capture_output=True, text=True).stdout)

    def programs(self):
        """(name, its sources) of each program that a fast test runs."""
        for target in self.targets():
            name = target["name"]
            if target["type"] == "executable" and (name.endswith("_test") or name.startswith("fuzz_") or
                                                   name in ("replay", "source")):
                sources = [os.path.relpath(s, self.root) for s in target["target_sources"][0]["sources"]]
                yield name, sources + ([FUZZ_MAIN] if name.startswith("fuzz_") else [])

    def build_program(self, program):
        name, sources = program
        key = self.build_program_in("programs", self.plain, name, sources)
        if name != "source":  # whose wraps are before the sanitizers'
            key += self.build_program_in("programs-watched", self.watched, name, sources, *SANITIZE)
        return name, key

    def build_program_in(self, folder, library, name, sources, *flags):
        at = os.path.join(self.folder, folder)
        # Some read their own debug info.
        objects = [self.compile_kept(p, os.path.join(at, name + ".p"), "-g", *flags) for p in sources]
        key = "".join(k for _, k in objects)
        if kept(os.path.join(at, name + ".key")) != key:
            subprocess.run(["cc", *flags, "-o", os.path.join(at, name), *(o for o, _ in objects),
                            "-L" + self.library(name, library), "-lcore", *self.link_words(name)], check=True)
            keep(os.path.join(at, name + ".key"), key)
        return key

    # --- the tests ---

    def find_tests(self):
        at = os.path.join(self.folder, "programs")
        tests = [Test(name, name, [os.path.join(at, name)] + (["-n", FUZZ_RUNS] if name.startswith("fuzz_") else []))
                 for name, _ in self.programs() if name not in ("replay", "source")]
        tests += [Test("sums_" + n[len("fuzz_"):], n, [os.path.join(at, n), "-s"]) for n, _ in self.programs() if n in SUMMED]
        for capture, end, forks in SOURCES:
            tests.append(Test("source-%s-%s" % (capture, end), "source",
                              ["sh", "-c", 'exec "$0" "$1" "$TMPDIR/$2" "$3"', os.path.join(at, "source"), capture,
                               "source." + end, forks]))
        check = os.path.join(self.root, "tests/tapes/check.py")
        for tape in sorted(glob.glob(os.path.join(self.root, "tests/tapes/*.tape"))):
            command = [sys.executable, check, os.path.join(at, "replay"), tape, "--flips", "0"]
            tests.append(Test(os.path.basename(tape), "replay", command))
        return tests

    def library(self, program, at):
        """Where the library lies in @at that a program wants."""
        return os.path.join(at, "wrapped") if program == "source" else at

    def watched_command(self, test):
        """The same of the programs that sanitizers watch."""
        plain, watched = (os.path.join(self.folder, n, "") for n in ("programs", "programs-watched"))
        return [word.replace(plain, watched) for word in test.command]

    def environment(self, library, **more):
        return {**os.environ, "LD_LIBRARY_PATH": library, "TMPDIR": os.path.join(library, "tmp"), **more}

    def learn_one(self, test):
        """What learn_new() says, of this or an earlier run."""
        path = os.path.join(self.folder, "learnt", test.name)
        key = self.key + self.program_keys[test.program]
        known = json.loads(kept(path) or "[null]")
        if known[0] != key:
            known = [key, *self.learn_new(test), self.learn_watched(test)]
            if known[3] is not None:
                keep(path, json.dumps(known))
        return known[1:]

    def learn_watched(self, test):
        """How long it takes under sanitizers; None: it does not pass there, or is not built so."""
        if test.program == "source":
            return None
        began = time.monotonic()
        status, _ = run(self.own + self.watched_command(test), self.environment(self.watched, **SANITIZERS), 300, self.meson)
        return time.monotonic() - began if status == 0 else None

    def learn_new(self, test):
        """Its name, how long it takes, and the lines of each file that it executes; None and why if it fails or is
        skipped."""
        at = os.path.join(self.folder, "learn", test.name)
        shutil.rmtree(at, ignore_errors=True)
        os.makedirs(at)
        began = time.monotonic()
        status, out = run(self.own + test.command, self.environment(self.library(test.program, self.plain)), 300, self.meson)
        took = time.monotonic() - began
        if status != 0:
            return test.name, took, None, "skipped" if status == 77 else out.decode(errors="replace")[-2000:]
        depth = str(self.counting.count("/"))
        env = self.environment(self.library(test.program, self.counting), GCOV_PREFIX=at, GCOV_PREFIX_STRIP=depth)
        run(self.own + test.command, env, 600, self.meson)
        data = glob.glob(os.path.join(at, "**/*.gcda"), recursive=True)
        for path in data:
            note = os.path.basename(path)[:-len(".gcda")] + ".gcno"
            link = os.path.join(os.path.dirname(path), note)
            if not os.path.exists(link):
                os.symlink(os.path.join(self.counting, note), link)
        lines = collections.defaultdict(set)
        shown = subprocess.run(["gcov", "-j", "-t", *data], cwd=at, capture_output=True, text=True).stdout
        for line in shown.splitlines():
            for file in json.loads(line)["files"]:
                name = os.path.basename(file["file"])
                lines[name].update(x["line_number"] for x in file["lines"] if x["count"])
        shutil.rmtree(at)
        flat = {p.replace("/", "_"): os.path.basename(p) for p in self.sources}
        return test.name, took, {flat.get(n, n): sorted(x) for n, x in lines.items() if x}, ""

    def passes_outside(self, name):
        """Does a test pass as meson builds it, without the lab's library and its namespace?"""
        test = next(t for t in self.tests if t.name == name)
        built = subprocess.run(["ninja", "-C", self.meson, test.program], stdout=subprocess.DEVNULL)
        at = os.path.join(self.folder, "programs", test.program)
        command = [os.path.join(self.meson, test.program) if word == at else word for word in test.command]
        env = {**os.environ, "TMPDIR": os.path.join(self.plain, "tmp")}
        return built.returncode == 0 and run(command, env, 300, self.meson)[0] == 0

    def learn(self):
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            learnt = list(pool.map(self.learn_one, self.tests))
        self.left_out = {name: out for name, _, lines, out, _ in learnt if lines is None}
        self.took = {name: took for name, took, _, _, _ in learnt}
        self.took_watched = {name: took for name, _, _, _, took in learnt}
        self.reach = {name: {f: set(x) for f, x in lines.items()} for name, _, lines, _, _ in learnt if lines}

    def tests_of(self, mutant):
        """The tests that reach it, the quickest first."""
        def reaches(test):
            lines = self.reach.get(test.name, {}).get(mutant.file, set())
            first, last = mutant.lines or (0, 1 << 30)
            return any(first <= n <= last for n in lines)
        return sorted(filter(reaches, self.tests), key=lambda t: self.took[t.name])

    # --- one mutant ---

    def mutated(self, mutant):
        """The source to compile and its text. A body that is included is put in its place."""
        path, text = self.texts[mutant.file]
        text = text[:mutant.start] + mutant.text + text[mutant.end:]
        if path.endswith(".c"):
            return path, text
        for user in self.sources:
            whole = self.read(user)
            for m in INCLUDE.finditer(whole):
                if m.group(1) == mutant.file:
                    return user, whole[:m.start()] + text + whole[m.end():]
        raise NotBuilt("nobody includes " + mutant.file)

    def judge(self, mutant, at):
        """("killed", by what), ("survived", ""), ("same", "") or ("invalid", why)."""
        shutil.rmtree(at, ignore_errors=True)
        os.makedirs(os.path.join(at, "tmp"))
        try:
            path, text = self.mutated(mutant)
            made = self.compile(path, text, at, *STRICT)
            with open(made, "rb") as a, open(self.objects[path], "rb") as b:
                if a.read() == b.read():
                    return "same", ""
            tests = self.tests_of(mutant)
            if not tests:
                return "survived", "no test executes it"
            for library in {self.library(test.program, at) for test in tests}:
                os.makedirs(os.path.join(library, "tmp"), exist_ok=True)
                self.link_one(self.with_mutant(self.objects, path, made), library, *(self.wraps if library != at else ()))
        except NotBuilt as why:
            return "invalid", str(why)
        for test in tests:
            how = self.noticed(test, test.command, self.took, self.library(test.program, at),
                               self.library(test.program, self.plain))
            if how is not None:
                return "killed", test.name + how
        return self.judge_watched(path, text, tests, os.path.join(at, "watched"))

    def noticed(self, test, command, took, library, plain, **env):
        """None, or how a test fails with the mutant's library. A machine that is busy makes a test fail or late by
        chance, so it must fail twice, and each time pass without the mutant, in as much time."""
        for again in (False, True):
            limit = SLOWEST + SLOWER * took[test.name]
            status, _ = run(self.own + command, self.environment(library, **env), limit, self.meson)
            if status in (0, 77):
                return None
            began = time.monotonic()
            calm, _ = run(self.own + command, self.environment(plain, **env), limit, self.meson)
            took[test.name] = max(took[test.name], time.monotonic() - began)
            if calm not in (0, None) or calm is None and again:
                return None
        return " (hung)" if status is None else ""

    def with_mutant(self, objects, path, made):
        return [made if p == path else o for p, o in objects.items()]

    def judge_watched(self, path, text, tests, at):
        """The same under sanitizers, of a mutant that survived."""
        os.makedirs(os.path.join(at, "tmp"))
        made = self.compile(path, text, at, *SANITIZE)
        self.link_one(self.with_mutant(self.watched_objects, path, made), at, *SANITIZE)
        for test in tests:
            if self.took_watched[test.name] is None:
                continue
            how = self.noticed(test, self.watched_command(test), self.took_watched, at, self.watched, **SANITIZERS)
            if how is not None:
                return "killed", test.name + how + " (under sanitizers)"
        return "survived", "%d tests" % len(tests)
