#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Opens made-up recordings with the programs that read perf.data and folded stacks.

usage: check.py MKPERFDATA [NAME]. Prints "ok", "FAIL" or "SKIP" and a name a line; exits 1 if
anything failed, 77 if perf is missing, or does not run (Ubuntu's is a script, which wants one of this kernel).
"""
import functools
import html
import http.server
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import urllib.request
import xml.etree.ElementTree

MKPERFDATA = os.path.abspath(sys.argv[1])
ONLY = sys.argv[2] if len(sys.argv) > 2 else ""
os.environ["PATH"] += ":/usr/lib/%s-linux-gnu/libexec" % os.uname().machine  # where Debian has hotspot's perfparser
SPIN, HANDLE = "py::spin:%s/work.py", "py::Server.handle.<locals>.<lambda>:%s/main.py"
ODD = r"py::gr\xf6\xdfe\x3b\x28x\x29:<frozen_importlib._bootstrap>"
passed, failed, skipped = [], [], []


class Skip(Exception):
    pass


def run(*command, **more):
    """(stdout, stderr) of a command that must succeed."""
    p = subprocess.run(command, capture_output=True, text=True, timeout=300, **more)
    assert p.returncode == 0, "%s: exit %d: %s" % (command[:3], p.returncode, p.stderr[-500:])
    return p.stdout, p.stderr


def record(out, *options):
    return run(MKPERFDATA, out, "--src", os.path.abspath("src"), *options)[1]


def perf(*arguments):
    """perf's stdout; it must have nothing to warn about."""
    out, err = run("perf", *arguments, stdin=subprocess.DEVNULL)
    err = re.sub(r"WARNING: perf.data is missing HEADER_NRCPUS.*\n", "", err) # perf 7, of each recording that was killed, perf's too
    assert not err.strip(), "perf %s warns: %s" % (arguments[0], err.strip())
    assert not re.search(r"warning|error:", out, re.I), "perf %s warns: %s" % (arguments[0], out[:500])
    return out


def need_no_asan():
    """For programs of others alone: what the build without ASan writes is the same."""
    if "ASAN_OPTIONS" in os.environ:
        raise Skip("the files of the build without ASan are opened")


def need(program):
    if not shutil.which(program):
        raise Skip("%s is not installed" % program)


def counts(text):
    """{symbol: samples} of perf report -n --stdio, over commands and contexts."""
    ret = {}
    for line in text.splitlines():
        m = re.match(r"\s+[\d.]+%\s+(\d+)\s+\S+\s+\S+\s+\[[.k]\] (.*\S)", line)
        if m:
            ret[m[2]] = ret.get(m[2], 0) + int(m[1])
    return ret


def report(data, *more):
    return perf("report", "--stdio", "-n", "-g", "none", "-i", data, *more)


def test_report_names_and_counts():
    text = report("a.data", "--no-children", "--sort", "comm,dso,sym")
    assert "# Total Lost Samples: 5" in text, text[:300]
    assert "Samples: 101  of event 'cpu-clock'" in text
    got = counts(text)
    # every fourth of a hundred is in the kernel if we may see it, one is the child's
    kernel = sum(n for name, n in got.items() if name not in ("put_sample", SPIN % SRC))
    assert got["put_sample"] + kernel == 100, got
    assert kernel in (0, 25), got
    assert got[SPIN % SRC] == 1, got


def test_report_finds_every_frame_of_the_chains():
    text = perf("report", "--stdio", "--no-children", "-g", "caller", "-i", "a.data")
    for name in (SPIN % SRC, HANDLE % SRC, "py::<module>:%s/main.py" % SRC, "[late]", "put_sample"):
        assert name in text, "no %s in %s" % (name, text)


def test_report_by_line():
    text = report("a.data", "--no-children", "--sort", "srcline", "--comm", "python3", "--dso", "pyframes.so")
    assert "work.py:14" in text, text


def test_threads_and_processes():
    got = counts_by(report("a.data", "--no-children", "--sort", "comm"))
    assert got == {"python3": 91, "worker": 10}, got


def counts_by(text):
    return {m[2]: int(m[1]) for m in re.finditer(r"^\s+[\d.]+%\s+(\d+)\s+(\S+)\s*$", text, re.M)}


def test_script_lines():
    text = perf("script", "-i", "a.data", "-F", "+srcline")
    for name, line, n in ((SPIN, "work.py:5", 50), (SPIN, "work.py:6", 50), (HANDLE, "main.py:29", 100),
                          ("py::<module>:%s/main.py", "main.py:40", 100), (SPIN, "work.py:14", 1)):
        pattern = re.escape(name % SRC) + r"\+0x\S+ \(\S+\)\n\s+" + re.escape(line) + r"\n"
        got = len(re.findall(pattern, text))
        assert got == n, "%s at %s: %d, not %d" % (name, line, got, n)
    assert "[unknown]" not in text


def test_late_samples_carry_the_marker():
    text = perf("script", "-i", "a.data", "-F", "comm,ip,sym")
    samples = [s for s in text.strip("\n").split("\n\n")]
    assert len(samples) == 101, len(samples)
    late = [s for s in samples if re.search(r"\[late\]\n\s+\S+ py::spin", s)]
    assert len(late) == 14, len(late)


def test_annotate_shows_the_source():
    text, _ = run("perf", "annotate", "--stdio", "-i", "a.data", SPIN % SRC, stdin=subprocess.DEVNULL)
    assert "source line 14" in text, text
    at = text.index("source line 14")
    assert "100.00" in text[at:at + 200], text


def test_evlist_and_header():
    text = perf("evlist", "-v", "-i", "e.data")
    names = [line.split(":")[0] for line in text.strip().splitlines()]
    assert names == ["cpu-clock", "page-faults", "context-switches"], text
    assert len(set(re.findall(r"sample_type: (\S+),", text))) == 1, text
    text = perf("report", "--header-only", "-i", "e.data")
    for word in ("hostname : ", "os release : ", "perf version : pysampled", "arch : ", "nrcpus online : ",
                 "cpudesc : ", "cmdline : ", "time of first sample : 1.001000", "id = { 101 }"):
        assert word in text, "no %s in %s" % (word, text)


def test_several_events_are_apart():
    text = report("e.data", "--no-children")
    got = re.findall(r"Samples: (\d+)  of event '(\S+)'", text)
    assert got == [("35", "cpu-clock"), ("33", "page-faults"), ("33", "context-switches")], got


def test_build_ids():
    text = perf("buildid-list", "-i", "a.data")
    assert MKPERFDATA in text and "/libc.so" in text, text
    m = re.search(r"^([0-9a-f]{40}) %s$" % re.escape(os.path.realpath("a.data.pyframes/pyframes.so")), text, re.M)
    assert m, text
    notes, _ = run("readelf", "-n", "a.data.pyframes/pyframes.so")
    assert m[1] in notes, notes


def test_diff_pairs_python_functions():
    record("b.data")
    text = perf("diff", "a.data", "b.data")
    pairs = re.findall(r"^ +[\d.]+% +[+-][\d.]+% +pyframes\.so +\[\.\] (py::\S+)$", text, re.M)
    assert SPIN % SRC in pairs, text


def test_symbols_survive_in_the_cache():
    os.mkdir("gone")
    record("gone/c.data")
    os.unlink("gone/c.data.pyframes/pyframes.so")
    text = perf("script", "-i", "gone/c.data", "-F", "ip,sym")
    assert text.count(SPIN % SRC) == 101, text[:1000]


def test_deep_stacks():
    err = record("d.data", "--deep", "8000", "--samples", "10")
    assert "cut=0" in err, err
    text, _ = run("perf", "script", "-i", "d.data", "--max-stack", "20000", "-F", "ip,sym,srcline")
    assert text.count(ODD) == 80000, text.count(ODD)
    assert text.count("<frozen importlib._bootstrap>:111") == 80000
    assert text.count("py::<module>") == 10
    assert "cut=10" in record("d.data", "--deep", "9000", "--samples", "10")
    assert os.path.exists("d.data.old")


def test_without_the_kernel():
    record("n.data", "--no-kernel")
    assert "[kernel" not in report("n.data", "--no-children")


def test_killed_recording_is_readable():
    p = subprocess.run([MKPERFDATA, "k.data", "--kill", "--samples", "500"], capture_output=True)
    assert p.returncode == -9, p.returncode
    text = report("k.data", "--no-children")
    assert re.search(r"Samples: 500  of event", text), text
    assert "py::spin:" in perf("script", "-i", "k.data", "-F", "ip,sym")


SCRIPT = ("-F", "comm,time,event,ip,sym,srcline")


def where(text):
    """What perf script says, without addresses: perf 7 prints those in memory, which are others in each run."""
    return re.sub(r"^\t +[0-9a-f]+ ", "", text, flags=re.M)


def script(*arguments):
    return where(perf("script", *arguments, *SCRIPT))


def test_packed_is_the_same():
    record("z.data", "--compress", "3")
    assert "# compressed : Zstd, level = 3, ratio = " in perf("report", "--header-only", "-i", "z.data")
    got, want = (script("-i", name) for name in ("z.data", "a.data"))
    assert got == want and SPIN % SRC in got, got[:500]
    assert counts(report("z.data", "--no-children"))[SPIN % SRC] == 1
    assert os.path.getsize("z.data") * 8 < os.path.getsize("a.data")
    assert "py::spin" in perf("diff", "a.data", "z.data")


def test_inject():
    record("z.data", "--compress", "3")
    for name in ("a", "z"):
        run("perf", "inject", "-b", "-i", name + ".data", "-o", "i.data")
        got = counts(report("i.data", "--no-children"))
        assert got == counts(report(name + ".data", "--no-children")) and got[SPIN % SRC] == 1, got


def test_packed_and_killed():
    p = subprocess.run([MKPERFDATA, "zk.data", "--kill", "--samples", "5000", "--compress", "9", "--deep", "40"],
                       capture_output=True)
    assert p.returncode == -9, p.returncode
    text = report("zk.data", "--no-children")
    assert re.search(r"Samples: 5K of event", text), text
    text = perf("script", "-i", "zk.data", "-F", "ip,sym")
    assert text.count("py::spin:") == 5000 and "[unknown]" not in text, text[:500]


def piped(*options, into=()):
    """What perf says to a recording that comes down a pipe."""
    with subprocess.Popen([MKPERFDATA, "-", "--src", os.path.abspath("src"), *options], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as source:
        text, err = run("perf", *into, stdin=source.stdout)
    assert source.returncode == 0 and not err.strip(), (source.returncode, err)
    return text


def test_down_a_pipe():
    want = script("-i", "a.data")
    for packed in ((), ("--compress", "3")):
        text = piped(*packed, into=("report", "-i", "-", "--stdio", "-n", "-g", "none", "--no-children", "--header"))
        for word in ("hostname : ", "perf version : pysampled", "cmdline : ", "# Total Lost Samples: 5",
                     "Samples: 101  of event 'cpu-clock'"):
            assert word in text, "no %s in %s" % (word, text)
        assert counts(text)[SPIN % SRC] == 1, text
        assert where(piped(*packed, into=("script", "-i", "-", *SCRIPT))) == want
    text = piped("--events", "3", into=("report", "-i", "-", "--stdio", "-n", "-g", "none"))
    got = re.findall(r"Samples: (\d+)  of event '(\S+)'", text)
    assert got == [("35", "cpu-clock"), ("33", "page-faults"), ("33", "context-switches")], got


def test_elf_is_clean():
    need_no_asan()
    need("llvm-dwarfdump")
    text, err = run("llvm-dwarfdump", "--verify", "a.data.pyframes/pyframes.so")
    assert "No errors." in text and "warning" not in text + err, text + err


def test_readelf_is_clean():
    need_no_asan()
    need("readelf")
    for file in ("a.data.pyframes/pyframes.so", "d.data.pyframes/pyframes.so"):
        _, err = run("readelf", "-a", "-w", "-W", file)
        assert not err.strip(), err


def test_folded_adds_up():
    record("a.folded")
    with open("a.folded") as file:
        lines = file.read().splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == 101
    assert all(re.match(r"python3-\d+;.* \d+$", line) for line in lines), lines
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines if ";[late];" in line) == 14


def collapsed(text):
    """{stack: samples} of perf script, as folded has it: py::NAME:FILE with its line is NAME (FILE:LINE), FILE without folders;
    other frames are what they are. The kernel's are left out: the recording made them up."""
    ret = {}
    for sample in text.strip("\n").split("\n\n\n"):
        frames = []
        for name, line in re.findall(r"^\t +[0-9a-f]+ (.+) \((?!\[).*\)(?:\n  (\S.*))?$", sample, re.M):
            name = re.sub(r"\\x(..)", lambda m: chr(int(m[1], 16)), name)
            py = re.fullmatch(r"py::(.*):(/.*)", name)
            frames.insert(0, "%s (%s:%s)" % (py[1], os.path.basename(py[2]), line.rsplit(":", 1)[1]) if py else name)
        ret[";".join(frames)] = ret.get(";".join(frames), 0) + 1
    return ret


def test_collapsed_perf_script_is_our_folded():
    record("a.folded")
    ours = {}
    for line in open("a.folded"):
        stack, n = line.rsplit(" ", 1)
        stack = ";".join(frame for frame in stack.split(";")[1:] if not frame.endswith("_[k]"))
        ours[stack] = ours.get(stack, 0) + int(n)
    theirs = collapsed(perf("script", "-F", "ip,sym,dso,srcline", "-i", "a.data"))
    assert len(ours) > 3 and ours == theirs, "folded has %s, perf script %s" % (ours, theirs)


def without_lines(path):
    """{stack: samples} of our folded: without process, lines and the kernel's frames, which the recording made up."""
    ret = {}
    with open(path) as file:
        for line in file:
            stack, n = line.rsplit(" ", 1)
            frames = [re.sub(r":\d+\)$", ")", f) for f in stack.split(";")[1:] if not f.endswith("_[k]")]
            ret[";".join(frames)] = ret.get(";".join(frames), 0) + int(n)
    return ret


def test_inferno():
    """Its collapse of perf script is our folded, when py::NAME:FILE is NAME (FILE), FILE without folders."""
    need("inferno-collapse-perf")
    record("a.folded")
    text = perf("script", "-i", "a.data", "-F", "comm,pid,tid,time,event,ip,sym,dso") # without periods, which it would count
    got = {}
    for line in run("inferno-collapse-perf", "--kernel", input=text)[0].splitlines():
        stack, n = line.rsplit(" ", 1)
        frames = []
        for frame in stack.split(";")[1:]:
            py = re.fullmatch(r"py::(.*):(/.*)", frame)
            if not frame.endswith("_[k]"):
                frames.append("%s (%s)" % (py[1], os.path.basename(py[2])) if py else frame)
        got[";".join(frames)] = got.get(";".join(frames), 0) + int(n)
    want = without_lines("a.folded")
    assert want == got and any(";[late];" in stack for stack in want), "folded has %s, inferno %s" % (want, got)
    svg, _ = run("inferno-flamegraph", "a.folded")
    assert "spin (work.py:5)" in svg


def asked_of_samply(path, library, addresses):
    """[(function, file, line)] of a library's addresses, by the server that samply's window asks."""
    process = subprocess.Popen(["samply", "load", "--no-open", "-P", "3000+", path], stdout=subprocess.PIPE, text=True)
    try:
        address = next(m[1] for m in (re.search(r"symbolServer=(\S+)", line) for line in process.stdout) if m)
        asked = {"memoryMap": [[library["debugName"], library["breakpadId"]]], "stacks": [[[0, n] for n in addresses]]}
        request = urllib.request.Request(urllib.parse.unquote(address) + "/symbolicate/v5",
                                         json.dumps({"jobs": [asked]}).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            told = json.load(answer)["results"][0]["stacks"][0]
    finally:
        process.terminate()
        process.wait(timeout=60)
    return [(f["function"], os.path.basename(f.get("file", "")), f.get("line")) for f in told]


def told_to_hotspot(path):
    """What perfparser tells hotspot's window: the names of threads, and {(function, file, line)}."""
    with open(path, "rb") as file:
        data = file.read()
    at, text, commands, functions, places = data.index(b"\0", 11) + 5, {}, set(), {}, {}
    while at < len(data): # messages of a length and a kind, both as perfparser's perfunwind.h has them
        size, kind = struct.unpack_from("<IB", data, at)
        if kind == 2: # a command: pid, tid, time, CPU, name
            commands.add(struct.unpack_from(">IIQIi", data, at + 5)[4])
        elif kind == 3: # a location: id, address, file, pid, line, column, the function's location
            where, _, file, _, line, _, parent = struct.unpack_from(">iQiIiii", data, at + 5)
            places[where] = file, line, parent
        elif kind == 4: # a symbol: its location, name, ...
            where, name = struct.unpack_from(">ii", data, at + 5)
            functions[where] = name
        elif kind == 5: # a string: id, length, bytes
            number, length = struct.unpack_from(">iI", data, at + 5)
            text[number] = data[at + 13:at + 13 + length].decode(errors="replace")
        at += 4 + size
    lines = {(text.get(functions.get(parent, functions.get(where))), os.path.basename(text.get(file, "")), line)
             for where, (file, line, parent) in places.items()}
    return {text[name] for name in commands}, lines


def test_samply():
    need("samply")
    run("samply", "import", "--save-only", "-o", "samply.json", "a.data")
    with open("samply.json") as file:
        profile = json.load(file)
    names = {t["name"]: t for t in profile["threads"]}
    assert "worker" in names, names.keys()
    thread, libraries = names["worker"], [library["name"] for library in profile["libs"]]
    frames, functions, resources = thread["frameTable"], thread["funcTable"], thread["resourceTable"]
    ours = libraries.index("pyframes.so")
    is_ours = [r is not None and r >= 0 and resources["lib"][r] == ours for r in functions["resource"]]
    addresses = [n for n, function in zip(frames["address"], frames["func"]) if is_ours[function]]
    got = asked_of_samply("samply.json", profile["libs"][ours], addresses)
    assert (SPIN % SRC, "work.py", 6) in got and (HANDLE % SRC, "main.py", 29) in got, got


def test_hotspot():
    need("hotspot-perfparser")
    run("hotspot-perfparser", "--input", "a.data", "--output", "hotspot.out")
    commands, lines = told_to_hotspot("hotspot.out")
    assert {"python3", "worker"} <= commands, commands
    assert (SPIN % SRC, "work.py", 5) in lines and (HANDLE % SRC, "main.py", 29) in lines, lines


def test_pprof():
    need("perf_to_profile")
    need("pprof")
    run("perf_to_profile", "-i", "a.data", "-o", "a.pb", "-f")
    text, _ = run("pprof", "-top", "a.pb")
    assert "py::spin" in text, text


def pprof(*arguments):
    """Of Go's own tool."""
    need("go")
    need_no_asan()
    return run("go", "tool", "pprof", *arguments)[0]


def flat_and_cum(text):
    """{function: (flat, cum)} of pprof -top."""
    rows = re.findall(r"^ +(\d+) +[\d.]+% +[\d.]+% +(\d+) +[\d.]+%  (.*)$", text, re.M)
    return {name: (int(flat), int(cum)) for flat, cum, name in rows}


def folded_counts(path):
    """{function: (self, total)} of folded stacks, and the sum."""
    own, total = {}, {}
    with open(path) as file:
        for line in file:
            stack, n = line.rsplit(" ", 1)
            names = [re.sub(r" \(\S+\)$", "", frame) for frame in stack.split(";")[1:]]
            own[names[-1]] = own.get(names[-1], 0) + int(n)
            for name in set(names):
                total[name] = total.get(name, 0) + int(n)
    return {name: (own.get(name, 0), n) for name, n in total.items()}


def test_pprof_of_ours():
    record("a.pb.gz")
    record("a.folded")
    got = flat_and_cum(pprof("-top", "a.pb.gz"))
    assert got == folded_counts("a.folded") and got["spin"][1] == 101, got
    assert re.search(r"^ +\. +50 +5:# source line 5$", pprof("-list", "^spin$", "a.pb.gz"), re.M)
    text = pprof("-traces", "a.pb.gz")
    assert len(re.findall(r"spin\n +Server.handle.<locals>.<lambda>\n +<module>", text)) > 3, text
    text = pprof("-tags", "a.pb.gz")
    assert re.search(r"14 \(.*late", text) and re.search(r"10 \(.*worker", text), text


def test_pprof_events():
    record("e.pb.gz", "--events", "3")
    text = pprof("-top", "-sample_index=page-faults", "e.pb.gz")
    assert "Total samples = 33" in text.replace("33000", "33"), text


def test_pprof_odd_names_and_deep_stacks():
    record("d.pb.gz", "--deep", "7990", "--samples", "10")
    text = pprof("-top", "d.pb.gz")
    assert flat_and_cum(text)["gr\xf6\xdfe;(x)"] == (0, 10), text


def browse(address, *more):
    """A page's elements after its scripts have run, in headless Chromium; and what they said."""
    need("chromium")
    need_no_asan()
    return run("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
               "--dump-dom", *more, address)


def test_speedscope():
    record("a.speedscope.json")
    # as deep as records are by default: of 8000 frames speedscope says "Maximum call stack size exceeded"
    record("d.speedscope.json", "--deep", "1000", "--samples", "3")
    with open("a.speedscope.json") as file:
        profile = json.load(file)
    names = {p["name"].split("/")[1].rsplit("-", 1)[0]: sum(p["weights"]) for p in profile["profiles"][:2]}
    assert names == {"python3": 90, "worker": 10}, names
    home = os.environ.get("PYSAMPLED_SPEEDSCOPE", "")
    if not os.path.exists(home + "/index.html"):
        raise Skip("PYSAMPLED_SPEEDSCOPE is not speedscope's dist/release (npm)")
    for name in ("a", "d"):
        shutil.copytree(home, name + ".page")
        shutil.copy(name + ".speedscope.json", name + ".page/profile.json")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory="."))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in ("a", "d"):
        base = "http://127.0.0.1:%d/%s.page/" % (server.server_port, name)
        for patience in 10, 40, 100: # until it has read the file, however busy the machine is
            page, said = browse(base + "index.html#view=sandwich&profileURL=" + base + "profile.json",
                             "--virtual-time-budget=%d000" % patience, "--enable-unsafe-swiftshader", "--use-gl=swiftshader")
            if "&lt;module&gt;" in page:
                break
        assert '"Importing as speedscope json file"' in said and "&lt;module&gt;" in page, (said[-2000:], page[-2000:])
    server.shutdown()


# What a person does with the page, and what is there then.
ACTS = """<script>
const texts = () => [...document.querySelectorAll('#graph button')].map(e => e.title);
const key = k => dispatchEvent(new KeyboardEvent('keydown', { key: k, bubbles: true }));
const seen = { all: texts() };
const wider = e => e.offsetWidth > parseFloat(e.style.width) + 1; // rounded, at most
seen.wider = [...document.querySelectorAll('#graph button')].filter(wider).length;
seen.shown = [...document.querySelectorAll('#graph button')].map(e => e.textContent);
seen.beyond = $('main').scrollWidth - $('main').clientWidth;
$('search').value = '^spin'; $('search').dispatchEvent(new Event('input'));
seen.matched = $('matched').textContent;
seen.found = document.querySelectorAll('#graph button.found').length;
key('n'); seen.next = document.activeElement.title; key('n'); seen.next2 = document.activeElement.title;
seen.stops = document.querySelectorAll('#graph [tabindex="0"]').length;
[...$('graph').children].find(e => e.title.startsWith('spin')).click();
seen.zoomed = texts(); key('0'); seen.out = texts().length; key('r'); seen.reversed = texts(); key('i');
$('thread').value = 1; $('thread').dispatchEvent(new Event('change')); seen.worker = texts()[0];
$('thread').value = -1; key('s'); seen.source = $('graph').innerText;
seen.top = $('main').scrollTop; $('search').value = 'put'; $('search').dispatchEvent(new Event('input')); key('0'); key('n');
seen.tables = document.querySelectorAll('#graph table').length;
$('event').value = D.events.length - 1; $('event').dispatchEvent(new Event('change')); seen.title = document.title;
document.body.dataset.seen = JSON.stringify(seen); // the page stays: it still hears that it was scrolled
</script>"""


def act(path):
    """What the page at @path has after ACTS. It must have nothing to say, and ask for nothing."""
    with open(path) as file:
        text = file.read()
    assert not re.search(r"(src|href)=.?(http|//)", text)
    with open("act.html", "w") as file:
        file.write(text + ACTS)
    dom, said = browse("file://" + os.path.abspath("act.html"), "--window-size=1200,700")
    assert "CONSOLE" not in said, said
    return json.loads(html.unescape(re.search(r'data-seen="(.*?)"', dom, re.S)[1]))


def test_page():
    need("chromium")
    record("a.html")
    seen = act("a.html")
    assert seen["all"][0] == "all: 101 samples, 100.0 %, 0 of its own", seen["all"]
    assert "spin (%s/work.py:5): 50 samples, 49.5 %%, 0 of its own" % SRC in seen["all"], seen["all"]
    assert "spin (work.py:5)" in seen["shown"] and not any("/" in t for t in seen["shown"]), seen["shown"]
    assert seen["matched"] == "101 of 101 samples" and seen["found"] == 3, seen
    assert seen["next"].startswith("spin (") and seen["next2"].startswith("spin (") and seen["next"] != seen["next2"], seen
    assert seen["stops"] == 1, "Tab stops at %d boxes" % seen["stops"]
    assert len(seen["zoomed"]) < len(seen["all"]) == seen["out"], seen
    assert any(t.startswith("put_sample: 75 samples") for t in seen["reversed"]), seen["reversed"]
    assert seen["worker"].startswith("all: 10 samples"), seen["worker"]
    assert re.search(r"^1.0 %.*\D14\t# source line 14$", seen["source"], re.M), seen["source"]
    # there is no graph to be found or zoomed in
    assert seen["tables"] > 0 and seen["top"] == 0, (seen["tables"], seen["top"])
    # what a line's native code and the kernel took is the line's own
    assert re.search(r"^49.5 %.*\D5\t# source line 5$", seen["source"], re.M), seen["source"]
    assert re.search(r"^\s+17\t# source line 17$", seen["source"], re.M), seen["source"]  # no sample, but near one


def test_page_with_deep_stacks_and_events():
    need("chromium")
    record("d.html", "--deep", "7990", "--samples", "30", "--events", "3")
    seen = act("d.html")
    assert seen["title"] == "pysampled: 10 samples of context-switches", seen["title"]
    assert 10 < len(seen["all"]) < 500, len(seen["all"])
    assert "page-faults self" in seen["source"], seen["source"][:300]


def test_page_with_narrow_boxes():
    """A box is as wide as its share, also where that is less than a letter."""
    need("chromium")
    record("n.html", "--samples", "3000", "--distinct", "900")
    seen = act("n.html")
    assert len(seen["all"]) > 100, len(seen["all"])
    assert seen["wider"] == 0 and seen["beyond"] == 0, "%d boxes are wider, and the page by %d" % (seen["wider"], seen["beyond"])


def test_page_of_a_difference():
    """B's samples and A's are two events of one tree, in which a function is one."""
    record("b.data", "--samples", "300", "--distinct", "9")
    pysampled("diff", "a.data", "b.data", "-o", "diff.html")
    with open("diff.html") as file:
        page = json.loads(re.search(r'id="data" type="application/json">(.*?)</script>', file.read(), re.S)[1])
    assert page["events"] == ["B: cpu-clock", "A: cpu-clock"] and page["compared"], page["events"]
    for event, data in enumerate(("b.data", "a.data")):
        found = {}
        for node, _, of, _, n in page["rows"]:
            if of == event:
                name = page["funcs"][page["frames"][page["nodes"][2 * node + 1]][0]][0]
                found[name] = found.get(name, 0) + n
        assert (found, sum(found.values())) == ours(data), data
    names = [(name, file) for name, file, _ in page["funcs"]]
    assert len(names) == len(set(names)) and names.count(("spin", SRC + "/work.py")) == 1, names
    pysampled("diff", "a.data", "b.data", "-o", "diff.svg", code=2)


def most_memory(*arguments):
    """What pysampled held at most, in KB."""
    p = subprocess.Popen([os.path.join(os.path.dirname(MKPERFDATA), "pysampled"), *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    assert p.returncode == 0, "pysampled %s: exit %d" % (arguments, p.returncode)
    return usage.ru_maxrss


def test_a_difference_holds_one_recording_at_a_time():
    """Both were in memory to the end: 373 MB where one takes 189."""
    need_no_asan()
    record("w.data", "--samples", "60000", "--distinct", "60000", "--deep", "20", "--compress", "1")
    one = most_memory("report", "w.data")
    for more in (), ("-o", "w.html"):
        both = most_memory("diff", "w.data", "w.data", *more)
        assert both < 1.25 * one, "%d KB, and to report one takes %d: diff %s" % (both, one, more)


def test_functions_that_occur_once_take_little_memory():
    """Three tables by hash held each of them: 340 bytes a function."""
    need_no_asan()
    functions = 250000
    for name, n in ("few.folded", 10), ("many.folded", functions):
        with open(name, "w") as file:
            file.writelines("p-1;%s 1\n" % ";".join("f%d (%d.py:1)" % (i + k, i) for k in range(10)) for i in range(0, n, 10))
    each = 1024 * (most_memory("report", "many.folded") - most_memory("report", "few.folded")) / functions
    assert each < 230, "%.0f bytes a function" % each


def test_page_of_a_difference_is_shown():
    need("chromium")
    record("b.data", "--samples", "300", "--distinct", "9")
    pysampled("diff", "a.data", "b.data", "-o", "diff.html")
    seen = act("diff.html")
    assert seen["all"][0].startswith("all: 301 samples, 100.0 %") and all("; change " in t for t in seen["all"]), seen["all"]


def test_image():
    record("a.svg")
    image = xml.etree.ElementTree.parse("a.svg")
    titles = [t.text for t in image.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == "all: 101 samples, 100.0 %", titles
    assert "spin (%s/work.py:5): 50 samples, 49.5 %%" % SRC in titles, titles


def test_gecko_markers():
    """Samples of events but the first one are markers in the thread's first track, too."""
    record("e.gecko.json", "--events", "3")
    with open("e.gecko.json") as file:
        profile = json.load(file)
    assert [schema["name"] for schema in profile["meta"]["markerSchema"]] == ["event"]
    tracks = {}
    for track in profile["threads"]:
        tracks.setdefault((track["pid"], track["tid"]), []).append(track)
    marked = 0
    for first, *others in tracks.values():
        marks = first["markers"]
        assert all(len(column) == marks["length"] for column in marks.values() if isinstance(column, list)), marks
        names = [first["stringArray"][i] for i in marks["name"]]
        got = sorted(zip(names, marks["startTime"]))
        want = sorted((re.search(r"\((.*)\)", track["name"])[1], time) for track in others for time in track["samples"]["time"])
        assert got == want, "%s has markers %s, samples %s" % (first["name"], got[:5], want[:5])
        assert {data["type"] for data in marks["data"]} <= {"event"} and {data["where"] for data in marks["data"]} <= {"spin"}
        assert not any(track["markers"]["length"] for track in others)
        marked += len(got)
    assert marked == 66, marked


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def pysampled(*arguments, code=0):
    """(stdout, stderr) of the pysampled beside MKPERFDATA. A reader of recordings may not trace: LeakSanitizer must."""
    asan = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    p = subprocess.run([os.path.join(os.path.dirname(MKPERFDATA), "pysampled"), *arguments], capture_output=True, text=True,
                       timeout=300, env=dict(os.environ, ASAN_OPTIONS=asan))
    assert p.returncode == code, "pysampled %s: exit %d: %s" % (arguments, p.returncode, p.stderr[-500:])
    return p.stdout, p.stderr


def plain(name):
    """A symbol without what compilers add to it and without parameters, and of several at one address none in particular."""
    name = re.sub(r"\.(isra|constprop|part|cold|lto_priv)\b[.\d]*|@.*|(?<=\w)\(.*|^__vdso_", "", name)
    return name.replace("memmove", "memcpy")


def ours(data, *options):
    """({symbol: samples that are its own}, all samples)"""
    ret, rows = {}, json.loads(pysampled("report", data, "--json", *options)[0])["rows"]
    for row in rows:
        if row["self"]:
            ret[plain(row["name"])] = ret.get(plain(row["name"]), 0) + row["self"]
    return ret, sum(ret.values())


def ours_of(data, pid):
    """The same of one process."""
    pysampled("convert", data, "-o", "own.folded")
    ret = {}
    for line in open("own.folded", errors="surrogateescape"):
        stack, count = line.rsplit(" ", 1)
        if re.match(r".*-%d(;|$)" % pid, stack):
            leaf = plain(stack.rsplit(";", 1)[-1])
            ret[leaf] = ret.get(leaf, 0) + int(count)
    return ret, sum(ret.values())


def theirs(data, pid=None):
    """The same of perf report --stdio, of all or of one process."""
    ret = {}
    text = run("perf", "report", "-i", data, "--stdio", "--no-children", "-g", "none", "--no-inline", "-F", "sample,pid,sym",
               "-t", "|", stdin=subprocess.DEVNULL)[0]
    for n, whose, kind, name in re.findall(r"^ *(\d+) *\| *(-?\d+):[^|]*\|\[(.)\] (.*\S)", text, re.M):
        if pid not in (None, int(whose)):
            continue
        name = plain(name) + ("_[k]" if kind == "k" else "")
        ret[name] = ret.get(name, 0) + int(n)
    return ret, sum(ret.values())


def without_prefix(counts):
    """Of a function's names perf takes the longest that is not weak, __GI___pthread_self, and we pthread_self."""
    ret = {}
    for name, count in counts.items():
        plain = re.sub(r"^(__GI_)?_*", "", name)
        ret[plain] = ret.get(plain, 0) + count
    return ret


def test_report_of_what_perf_recorded():
    """With -a other programs run, too: of those only the number of samples is compared. With a fixed period folded stacks
    count samples."""
    # half a second of its own, however busy the machine is
    busy = "import time\nwhile time.process_time() < 0.5:\n for _ in range(50): time.time(); sorted(range(9), key=str)"
    command = "echo $$ > pid; exec python3 -c '%s'" % busy
    for more in ((), ("-g",), ("--call-graph", "dwarf"), ("-a", "-g"), ("-g", "--buildid-mmap")):
        if run("perf", "record", "-q", "-e", "cpu-clock", "-c", "1000000", *more, "-o", "own.data", "--", "sh", "-c", command)[1].strip():
            raise Skip("perf record warns")
        pid = int(open("pid").read())
        n, m = ours("own.data")[1], theirs("own.data")[1]
        assert n == m > 100, "%s: %d samples, perf has %d" % (more, n, m)
        (a, n), (b, m) = ours_of("own.data", pid), theirs("own.data", pid)
        assert n == m > 100, "%s: %d samples of our program, perf has %d" % (more, n, m)
        x, y = without_prefix(a), without_prefix(b)
        named = [name for name in sorted(y, key=y.get, reverse=True) if not name.startswith("0x")][:10]
        off = [(name, x.get(name, 0), y[name]) for name in named if abs(x.get(name, 0) - y[name]) > 0.005 * m]
        assert len(named) > 5 and not off, "%s: ours, perf's: %s" % (more, off)
        assert not [name for name in a if name.startswith("[vdso]")], "%s: the vdso has no names" % (more,)
        assert "[kernel]_[k]" not in a, "%s: the kernel has no names" % (more,)
        if "-g" not in more and more:
            lines = [line.rsplit(" ", 1) for line in open("own.folded", errors="surrogateescape")]
            deep = sum(int(count) for stack, count in lines if re.search(";Py_(Run|Bytes)Main;.*EvalFrame", stack))
            assert deep > 0.3 * n, "%s: %d of %d stacks reach main" % (more, deep, n)


def test_report_shares_are_perfs():
    """Names, self counts and the shares of what is on the stack (--children), of our own recording."""
    text = report("a.data", "--children", "--max-stack", "300", "--sort", "sym")
    perf_says = {re.sub(r"^py::|:/.*", "", m[3]): (m[1], m[2]) for m in
                 re.finditer(r"^ +([\d.]+)% +([\d.]+)% .*\[.\] (py::\S+)", text, re.M)}
    rows = {m[3]: (m[2], m[1]) for m in
            re.finditer(r"^ *([\d.]+)% +([\d.]+)% +\d+  (\S+) \(", pysampled("report", "a.data", "--children")[0], re.M)}
    assert rows.keys() >= {"spin", "<module>"} <= perf_says.keys(), (rows, perf_says)
    for name in ("spin", "<module>"):
        assert rows[name] == perf_says[name], "%s: total and self %s, perf's %s" % (name, rows[name], perf_says[name])


def test_report_by():
    total = ours("a.data")[1]
    for by in ("function", "line", "file", "thread", "process"):
        assert ours("a.data", "--by", by)[1] == total, by
    names = [row["name"] for row in json.loads(pysampled("report", "a.data", "--by", "thread", "--json")[0])["rows"]]
    assert any("/worker-" in name for name in names), names
    events = {row["name"]: row["self"] for row in json.loads(pysampled("report", "e.data", "--by", "event", "--json")[0])["rows"]}
    counted = perf("report", "--stdio", "-n", "-g", "none", "-i", "e.data")
    for name, n in events.items():
        assert ours("e.data", "-e", name)[1] == n, name
        assert re.search(r"^# Samples: %d +of event '%s'" % (n, name), counted, re.M), (name, n)
    assert len(events) == 3 and "has no event" in pysampled("report", "e.data", "-e", "cycles", code=2)[1]


def test_report_annotate():
    text = pysampled("report", "a.data", "--annotate", "spin")[0]
    lines = {int(m[3]): (float(m[2]), m[4]) for m in re.finditer(r"^ *([\d.]+)% +([\d.]+)% +(\d+)  (.*)", text, re.M)}
    by_line = {row["line"]: row["total"] for row in json.loads(pysampled("report", "a.data", "--by", "line", "--json")[0])["rows"]
               if row["name"] == "spin"}
    total = ours("a.data")[1]
    assert lines.keys() == by_line.keys() and len(lines) > 1, (lines, by_line)
    for line, (share, source) in lines.items():
        assert source == "# source line %d" % line, source
        assert abs(share - 100 * by_line[line] / total) < 0.01, (line, share)
    assert "no sample has" in pysampled("report", "a.data", "--annotate", "nobody", code=1)[1]


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


def write_sources():
    os.mkdir("src")
    for name in ("work.py", "main.py"):
        with open(os.path.join("src", name), "w") as file:
            file.writelines("# source line %d\n" % n for n in range(1, 51))


if not shutil.which("perf") or subprocess.run(["perf", "version"], stdin=subprocess.DEVNULL, capture_output=True).returncode:
    print("SKIP all: perf is not installed, or not for this kernel")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    os.chmod(folder, 0o755)  # of sources that not everybody may read a page of root's has no text
    os.chdir(folder)
    # built once, not for each new home
    os.environ.setdefault("GOCACHE", os.path.expanduser("~/.cache/go-build"))
    os.environ.update(HOME=folder, LC_ALL="C", PAGER="cat")
    os.environ.pop("DEBUGINFOD_URLS", None)
    write_sources()
    SRC = os.path.abspath("src")
    record("a.data")
    record("e.data", "--events", "3")
    for name, function in list(globals().items()):
        if name.startswith("test_") and name[5:].startswith(ONLY):
            check(name[5:], function)
    os.chdir("/")
if not passed + failed + skipped:
    sys.exit("no test begins with " + ONLY)
# counted as cmocka's are
for word, names in (("PASSED", passed), ("FAILED", failed), ("SKIPPED", skipped)):
    print("[  %s  ] %d test(s)" % (word, len(names)))
sys.exit(1 if failed else 0)
