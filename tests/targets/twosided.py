"""Two sides by turns: begin -> SIDE_ping and SIDE_pong by turns -> common -> spin_NN; then all of it returns.

READY's truth: {spin: [names below it, innermost first]}: of a whole stack, so a sample in spin_NN tells its root.
Usage: twosided.py --side N --common N [--us US] [--stay]; --stay: only one side, which never returns.
"""
import argparse
import sys

import gtspin
import target

SIDES = {"left": "spin_00", "right": "spin_01"}

SOURCE = """
def SIDE_ping(side, common_n):
    if side > 1:
        return SIDE_pong(side - 1, common_n)
    return common(common_n, SPIN)
def SIDE_pong(side, common_n):
    if side > 1:
        return SIDE_ping(side - 1, common_n)
    return common(common_n, SPIN)
"""


def common(n, spin):
    if n > 1:
        return common(n - 1, spin)
    return spin()


def begin(work, side, common_n):
    work(side, common_n)


def below(side, args):
    sides = [side + ("_pong" if n % 2 else "_ping") for n in range(args.side)]
    return ["common"] * args.common + sides[::-1] + ["begin", "<module>"]


parser = argparse.ArgumentParser()
parser.add_argument("--side", type=int, required=True)
parser.add_argument("--common", type=int, required=True)
parser.add_argument("--us", type=float, default=20)
parser.add_argument("--stay", action="store_true")
args = parser.parse_args()
target.live()
sys.setrecursionlimit(args.side + args.common + 1000)
gtspin.calibrate(args.us)
space = {"common": common, **target.spins()}
for side, spin in SIDES.items():
    exec(SOURCE.replace("SIDE", side).replace("SPIN", "forever" if args.stay else spin), space)


def forever():
    while True:
        gtspin.spin_00()


space["forever"] = forever
truth = {spin: below(side, args) for side, spin in SIDES.items()}
truth["spin_00"] = ["forever"] * args.stay + truth["spin_00"]
target.ready(truth=truth)
while True:
    begin(space["left_ping"], args.side, args.common)
    begin(space["right_ping"], args.side, args.common)
