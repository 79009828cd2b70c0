"""heavy() does three times the work of light(), by turns. Says DONE with what the counter of an event counted meanwhile.

Starts at a line on stdin and ends at the next. Usage: shares.py EVENT TURNS
"""
import json
import sys

import counter
import target


def heavy():
    for _ in range(3):
        for _ in range(1000):
            pass


def light():
    for _ in range(1000):
        pass


def work(turns):
    for _ in range(turns):
        heavy()
        light()


target.live()
work(10)
target.ready()
sys.stdin.readline()
# After the event of who samples, which so gets the PMU's own counter of cycles: QEMU's others overflow late.
counted = counter.Counter(sys.argv[1])
work(int(sys.argv[2]))
print("DONE " + json.dumps(counted.read()), flush=True)
sys.stdin.readline()
