"""READY, and once it is told to go it becomes another script. Usage: becomes.py SCRIPT [ARG]..."""
import os
import sys

import target

target.live()
target.ready()
sys.stdin.readline()
os.execv(sys.executable, [sys.executable] + sys.argv[1:])
