"""Completions of shells offer what --help tells of each command."""
import os
import pty
import re
import select
import shutil
import subprocess
import time

import harness
from harness import check, each, equal

BESIDE = True

BASH = """. "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_pysampled 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
"""


def with_ours():
    """An environment in which `pysampled` is the one that is tested."""
    return dict(os.environ, PATH=os.path.dirname(os.path.abspath(harness.PYSAMPLED)) + ":" + os.environ["PATH"])


def made(shell):
    """The file that is installed."""
    run = subprocess.run([os.path.join(harness.ROOT, "tools", "completions"), harness.PYSAMPLED, shell], stdout=subprocess.PIPE,
                         check=True)
    path = os.path.join(harness.folder(), "completions." + shell)
    with open(path, "wb") as file:
        file.write(run.stdout)
    return path


def offered(path, *words):
    run = subprocess.run(["bash", "-c", BASH, "bash", path, *words], stdout=subprocess.PIPE, text=True, check=True, env=with_ours())
    return set(run.stdout.split())


def commands():
    return re.findall(r"^  (\w+) +\S", harness.pysampled("--help").ok().out, re.M)


def test_bash_offers_each_option_that_help_tells():
    path = made("bash")
    equal(offered(path, "pysampled", "") & set(commands()), set(commands()), "commands")
    for command in commands():
        told = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", harness.pysampled(command, "--help").ok().out, re.M))
        check(told >= {"--help", "--version"}, "%s --help does not tell all: %s", command, told)
        equal({word for word in offered(path, "pysampled", command, "--") if word in told}, told, "options of %s" % command)


def test_bash_offers_the_values_of_an_option():
    path = made("bash")
    for option, least in (("--format", {"perf", "folded", "tape"}), ("--capture", {"auto", "preempt", "stop"}),
                          ("--events-on", {"auto", "cpus", "threads"}), ("--provenance", {"exact", "late", "all"}),
                          ("--weight", {"samples", "period"})):
        for words in ["record"], []:
            equal(offered(path, "pysampled", *words, option, ""), offered(path, "pysampled", option, "") | least, "values of " + option)
    equal(offered(path, "pysampled", "record", "--capture", "pre"), {"preempt"}, "values that begin so")
    equal(offered(path, "pysampled", "-o", "a.folded", "--provenance", "l"), {"late"}, "values after other words")


def test_bash_offers_what_other_commands_take():
    path = made("bash")
    for words, want in ((("report", "--by", ""), {"function", "line", "file", "thread", "process", "event"}), (("report", "-s", ""), {"self", "total"}),
                        (("diff", "--by", "l"), {"line"}), (("record", "--unwinder", ""), {"own", "libunwind"}),
                        (("convert", "x.data", "--format", ""), {"folded", "flamegraph", "pprof", "speedscope", "gecko", "perf"}),
                        (("--mode", "="), {"cpu", "wall", "gil"}), (("record", "--mode", "=", "w"), {"wall"}), (("-u", "roo"), {"root"}),
                        (("unpack", ""), set()), (("report", ""), set()), (("--", "ls", "-"), set()),
                        (("--native", "=", "f"), {"full"}), (("--native", "="), {"full"}), (("dump", "--native", "="), {"full"}), (("--async", "=", ""), {"names"}),
                        (("-e", "a,cpu-clo"), {"a,cpu-clock"}), (("help", "rep"), {"report"}), (("help", ""), set(commands()))):
        equal(offered(path, "pysampled", *words), want, "what is offered behind %s" % (words,))
    check("bash" in offered(path, "pysampled", "-d", "3", "--", "bas"), "no command behind --")


def test_bash_offers_tracepoints():
    """A colon ends a word for bash: what is offered follows it."""
    harness.need_tracepoints()
    path = made("bash")
    for words, want in (("-e sched : sched_swit", "sched_switch"), ("-e sched : sched_switch,sched : sched_wakeup_n", "sched_wakeup_new"), ("--event = sched : sched_swit", "sched_switch"),
                        ("-e cs,sched : sched_swit", "sched_switch"), ("-e sched : sched_switch,cpu-clo", "sched_switch,cpu-clock")):
        equal(offered(path, "pysampled", *words.split()), {want}, "behind " + words)
    check(offered(path, "pysampled", "-e", "sched", ":") > {"sched_switch", "sched_wakeup"}, "behind the colon")
    seen = typed(["bash", "--norc", "-i"], b". %s\npysampled -e sched:sched_swit\t\b,cpu-clo\t" % path.encode(), b"cpu-clock")
    check(b"sched:sched_switch" in seen and b"cpu-clock" in seen, "what is typed: %r", seen[-300:])


def fish_offers(path, line):
    run = subprocess.run(["fish", "-c", "source %s; complete -C '%s'" % (path, line)], stdout=subprocess.PIPE, text=True, env=with_ours())
    return [line.split("\t")[0] for line in run.stdout.splitlines()]


def test_fish_offers_values_and_commands():
    if not shutil.which("fish"):
        raise harness.Skip("fish is not installed")
    path = made("fish")
    equal(fish_offers(path, "pysampled report --by l"), ["line"], "values")
    equal(fish_offers(path, "pysampled convert x.data --format spe"), ["speedscope"], "formats")
    check("bash" in fish_offers(path, "pysampled -d 3 -- bas"), "no command behind --")
    equal(fish_offers(path, "pysampled --native=f"), ["--native=full"], "a value that may be left out")
    equal(fish_offers(path, "pysampled -e a,cpu-clo"), ["a,cpu-clock"], "behind a comma")
    if harness.has_tracepoints():
        equal(fish_offers(path, "pysampled -e a,sched:sched_swit"), ["a,sched:sched_switch"], "tracepoints")
    equal(fish_offers(path, "pysampled help rep"), ["report"], "what there is help of")


@harness.one_python
def test_zsh_and_fish_offer_python_processes(py):
    """Those of other terminals, too, and also where a command takes them without -p."""
    if not shutil.which("zsh") or not shutil.which("fish"):
        raise harness.Skip("zsh or fish is not installed")
    pid = str(harness.Target(py, "groundtruth.py").pid)
    path = made("fish")
    for line in "pysampled -p ", "pysampled dump ", "pysampled doctor ":
        check(pid in fish_offers(path, line), "fish: %s", line)
    for line in b"pysampled -p \t", b"pysampled dump \t":
        seen = typed(["zsh", "-f", "-i"], zsh_begin() + line, pid.encode())
        check(pid.encode() in seen, "zsh: %r: %r", line, seen[-300:])


def typed(shell, text, want):
    """What a shell on a terminal makes of @text, and a tab: until it has @want, or for 20 s."""
    pid, screen = pty.fork()
    if not pid:
        os.environ.update(with_ours(), TERM="dumb", PS1="$ ")
        os.execvp(shell[0], shell)
    seen, end = b"", time.time() + 20
    os.write(screen, text)
    while want not in seen and time.time() < end:
        if select.select([screen], [], [], 0.1)[0]:
            seen += os.read(screen, 4096)
    os.close(screen)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return seen


def zsh_begin():
    """Without the option zsh types what all matches begin with, such as the first digit of all pids, and lists them at
    a second tab."""
    begin = "PS1='$ '; LISTMAX=9999; setopt no_list_ambiguous; autoload -Uz compinit; compinit -u -D; autoload -Uz +X %s; compdef _pysampled pysampled\n"
    folder = os.path.dirname(made("zsh"))
    os.rename(os.path.join(folder, "completions.zsh"), os.path.join(folder, "_pysampled"))
    return ("fpath=(%s $fpath); " % folder + begin % "_pysampled").encode()


def test_zsh_offers_values_and_commands():
    if not shutil.which("zsh"):
        raise harness.Skip("zsh is not installed")
    begin = zsh_begin()
    for line, want in ((b"pysampled --mode=w\t", b"--mode=wall"), (b"pysampled report --by lin\t", b"--by line"),
                       (b"pysampled -d 3 -- zsh --hel\t", b"-- zsh --help"), (b"pysampled repo\t", b"pysampled report"),
                       (b"pysampled --native=f\t", b"--native=full"), (b"pysampled help repo\t", b"help report"),
                       (b"pysampled -e a,cpu-clo\t", b"-e a,cpu-clock"),
                       *[(b"pysampled -e a,sched:sched_swit\t", b"-e a,sched:sched_switch")] * harness.has_tracepoints()):
        seen = typed(["zsh", "-f", "-i"], begin + line, want)
        check(want in seen, "%r: %r", line, seen[-300:])


@each(shell=["zsh", "fish"])
def test_other_shells_take_their_file(shell):
    if not shutil.which(shell):
        raise harness.Skip("%s is not installed" % shell)
    path = made(shell)
    run = subprocess.run([shell, "-n", path], stderr=subprocess.PIPE, text=True)
    equal((run.returncode, run.stderr), (0, ""), "what %s says of its file" % shell)
    if shell == "fish":
        equal(fish_offers(path, "pysampled record --form"), ["--format"], "what fish offers")
