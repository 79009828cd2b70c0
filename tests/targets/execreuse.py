"""Compiles fn_NN, runs it and frees it, 100 names in turn, so that code objects come back at the same addresses.

fn_NN, a function, a generator, a class or a method, lies on line NN + 1 of its source and calls spin_NN. READY's truth:
{spin_NN: [[name, NN + 1]]}, of a class with the module of its source.
Says REUSED N once N code objects have been seen at an address that held another name before.
"""
import argparse

import gtspin
import target

NAMES = 100
ENOUGH = 1000
KINDS = (  # source, the name of what calls the spin
    ("def fn_{0}(): spin_{0}()", "fn_{0}"),
    ("def fn_{0}(): yield spin_{0}()", "fn_{0}"),
    ("class fn_{0}: __call__ = lambda self: spin_{0}()", "fn_{0}.<lambda>"),
    ("class fn_{0}: spin_{0}()", "fn_{0}"),
)
SOURCE = ["\n" * n + KINDS[n % 4][0].format("%02d" % n) + "\n" for n in range(NAMES)]
TRUTH = {"spin_%02d" % n: [[KINDS[n % 4][1].format("%02d" % n), n + 1]] + ([["<module>", n + 1]] if n % 4 == 3 else [])
         for n in range(NAMES)}


def run(n, made):
    """What runs the code; the code object."""
    if n % 4 == 2:
        made()()
        return made.__call__.__code__
    if n % 4 == 3:
        return None  # its body has run
    list(made() or ())
    return made.__code__


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--us", type=float, default=100)
    args = parser.parse_args()
    target.live()
    gtspin.calibrate(args.us)
    spins = target.spins()
    target.ready(truth=TRUTH, roots=[target.root(run, main), target.root(main)])
    held = {}
    reused = count = 0
    while True:
        n = count * 37 % NAMES
        count += 1
        namespace = dict(spins)
        exec(SOURCE[n], namespace)
        address = id(run(n, namespace["fn_%02d" % n]))
        if held.get(address, n) != n:
            reused += 1
            if reused == ENOUGH:
                print("REUSED %d" % reused, flush=True)
        held[address] = n
        namespace = None


main()
