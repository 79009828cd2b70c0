"""A target whose frames can't be read: at a line on stdin every remote read of them hangs, while it spins on."""
import sys

import frametrap
import target


def snare():
    frametrap.trap(sys._getframe())


target.live()
target.ready()
snare()
