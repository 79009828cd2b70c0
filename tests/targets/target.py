"""What every target does: bound its life, say READY with its facts, and count its progress in a shared file."""
import json
import mmap
import signal
import struct

LIFE = 300  # seconds; nothing is left behind even when a test is killed


def live():
    signal.alarm(LIFE)


def ready(**info):
    print("READY " + json.dumps(info), flush=True)


class Progress:
    """A counter that others read from a file, without a word to us."""

    def __init__(self, path):
        with open(path, "w+b") as file:
            file.truncate(8)
            self.map = mmap.mmap(file.fileno(), 8)

    def step(self):
        struct.pack_into("=Q", self.map, 0, struct.unpack_from("=Q", self.map)[0] + 1)


def generated(text, name, namespace):
    """Compiles source as if it lay in a file of its own beside the targets."""
    import os
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    exec(compile(text, path, "exec"), namespace)
    return path


def spins(prefix="spin_"):
    import gtspin
    return {name: getattr(gtspin, name) for name in dir(gtspin) if name.startswith(prefix)}


def forever(body, seconds, progress=None):
    """Calls body again and again for a time, 20 times between looks at the clock."""
    import time
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(20):
            body()
        if progress:
            progress.step()
