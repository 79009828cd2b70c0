"""t_KK touches fresh pages of its own mapping, each from one line: first natively (touch_KK), then in Python.

READY's truth: {touch_KK: [[t_KK, line], ["cycle", line]]}; lines: {t_KK: line of its Python store}; pages: faults each.
Starts at a line on stdin, says DONE, and ends at the next line. Usage: pagefaults.py --pages N --pause-us US
"""
import argparse
import ctypes
import mmap
import sys

import gtspin
import target

FUNCTIONS = 16
PAGE = mmap.PAGESIZE
MADV_NOHUGEPAGE = 15


def fresh(pages):
    area = mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(MADV_NOHUGEPAGE)
    return area


def source():
    lines, truth, stores = [], {}, {}

    def add(text):
        lines.append(text)
        return len(lines)

    touches = {}
    for k in range(FUNCTIONS):
        add("def t_%02d(offset):" % k)
        add("    spin_%02d()" % k)
        touches[k] = add("    touch_%02d(base_%02d + offset)" % (k, k))
        add("    spin_%02d()" % k)
        stores["t_%02d" % k] = add("    area_%02d[offset] = 1" % k)
        add("    spin_%02d()" % k)
    add("def cycle(offset):")
    for k in range(FUNCTIONS):
        line = add("    t_%02d(offset)" % k)
        truth["touch_%02d" % k] = [["t_%02d" % k, touches[k]], ["cycle", line]]
    return "\n".join(lines) + "\n", truth, stores


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--pause-us", type=float, default=50)
    args = parser.parse_args()
    target.live()
    gtspin.calibrate(args.pause_us)
    text, truth, stores = source()
    namespace = dict(target.spins(), **target.spins("touch_"))
    keep = []
    for k in range(FUNCTIONS):
        native = fresh(args.pages)
        view = (ctypes.c_char * 1).from_buffer(native)
        keep += [native, view]
        namespace["base_%02d" % k] = ctypes.addressof(view)
        namespace["area_%02d" % k] = fresh(args.pages)
    target.generated(text, "pagefaults_generated.py", namespace)
    offsets = [page * PAGE for page in range(args.pages)]
    cycle = namespace["cycle"]
    target.ready(truth=truth, roots=[target.root(main)], lines=stores, pages=args.pages)
    sys.stdin.readline()
    for offset in offsets:
        cycle(offset)
    print("DONE", flush=True)
    sys.stdin.readline()


main()
