"""Runs on CPython 2.7 too, without extensions: call_KK calls leaf_KK from one line, and that works by itself.

READY's truth: {leaf_KK: [lines of its loop, line in call_KK, line in run]}.
Usage: pairs27.py
"""
import json
import os
import sys

N = 8
TEXT = "".join("""
def leaf_%02d(n):
    x = 0
    while n:
        x += n
        n -= 1
    return x

def call_%02d(n):
    return leaf_%02d(n)
""" % (k, k, k) for k in range(N)) + """
def run(pick):
    while True:
        pick = (pick * 1103515245 + 12345) %% 2147483648
        CALLS[pick // 65536 %% %d](400)
""" % N

namespace = {}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pairs27_generated.py")
exec(compile(TEXT, path, "exec"), namespace)
namespace["CALLS"] = [namespace["call_%02d" % k] for k in range(N)]
lines = TEXT.split("\n")
truth = {}
for k in range(N):
    first = lines.index("def leaf_%02d(n):" % k) + 1
    truth["leaf_%02d" % k] = [[first, first + 5], lines.index("    return leaf_%02d(n)" % k) + 1,
                              lines.index("        CALLS[pick // 65536 %% %d](400)" % N) + 1]
sys.stdout.write("READY " + json.dumps({"truth": truth}) + "\n")
sys.stdout.flush()
namespace["run"](1)
