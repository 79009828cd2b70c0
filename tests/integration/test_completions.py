"""Completions of shells offer what --help tells of each command."""
import os
import re
import shutil
import subprocess

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


def made(shell):
    """The file that is installed."""
    run = subprocess.run([os.path.join(harness.ROOT, "tools", "completions"), harness.PYSAMPLED, shell], stdout=subprocess.PIPE,
                         check=True)
    path = os.path.join(harness.folder(), "completions." + shell)
    with open(path, "wb") as file:
        file.write(run.stdout)
    return path


def offered(path, *words):
    run = subprocess.run(["bash", "-c", BASH, "bash", path, *words], stdout=subprocess.PIPE, text=True, check=True)
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


@each(shell=["zsh", "fish"])
def test_other_shells_take_their_file(shell):
    if not shutil.which(shell):
        raise harness.Skip("%s is not installed" % shell)
    path = made(shell)
    run = subprocess.run([shell, "-n", path], stderr=subprocess.PIPE, text=True)
    equal((run.returncode, run.stderr), (0, ""), "what %s says of its file" % shell)
    if shell == "fish":
        run = subprocess.run(["fish", "-c", "source %s; complete -C 'pysampled record --form'" % path], stdout=subprocess.PIPE, text=True)
        equal([line.split("\t")[0] for line in run.stdout.splitlines()], ["--format"], "what fish offers")
