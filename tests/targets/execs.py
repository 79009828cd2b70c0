"""Execs itself TIMES times, after SECONDS of CPU time in even_NN or odd_NN each, and then ends.

Usage: execs.py TIMES SECONDS
"""
import os
import sys
import time


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))


def even(seconds):
    burn(seconds)


def odd(seconds):
    burn(seconds)


left, seconds = int(sys.argv[1]), float(sys.argv[2])
(odd if left % 2 else even)(seconds)
if left:
    os.execv(sys.executable, [sys.executable, sys.argv[0], str(left - 1), sys.argv[2]])
