"""Compiles fn_NN, runs it and frees it, 100 names in turn, so that code objects come back at the same addresses.

fn_NN lies on line NN + 1 of its source and calls spin_NN. READY's truth: {spin_NN: [[fn_NN, NN + 1]]}.
Says REUSED N once N code objects have been seen at an address that held another name before.
"""
import argparse

import gtspin
import target

NAMES = 100
SOURCE = ["\n" * n + "def fn_%02d(): spin_%02d()\n" % (n, n) for n in range(NAMES)]
ENOUGH = 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--us", type=float, default=100)
    args = parser.parse_args()
    target.live()
    gtspin.calibrate(args.us)
    spins = target.spins()
    target.ready(truth={"spin_%02d" % n: [["fn_%02d" % n, n + 1]] for n in range(NAMES)})
    held = {}
    reused = count = 0
    while True:
        n = count * 37 % NAMES
        count += 1
        namespace = dict(spins)
        exec(SOURCE[n], namespace)
        function = namespace["fn_%02d" % n]
        address = id(function.__code__)
        if held.get(address, n) != n:
            reused += 1
            if reused == ENOUGH:
                print("REUSED %d" % reused, flush=True)
        held[address] = n
        function()
        function = namespace = None


main()
