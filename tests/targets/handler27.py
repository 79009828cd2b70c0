"""Python 2.7: works in a handler of expat's, which it calls from a frame of its own that has no bytecode."""
from __future__ import print_function

import signal
import sys
from xml.parsers import expat


def work():
    while True:
        pass


def begin(name, attributes):
    work()


def main():
    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    print("READY")
    sys.stdout.flush()
    parser.Parse("<a></a>", 1)


signal.alarm(300)
main()
