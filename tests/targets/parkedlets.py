"""Greenlets: parked ones that tell where they stand, by what each says of its own frames; or ones that work in turns.

"parked": READY {"parked": [[[function, file, line], ...] innermost first, ...]}, and the main greenlet reads stdin. Some have not begun,
some have ended, some are gevent's, where that is installed. "turns": READY {"chains": {leaf: [callers]}}; each greenlet calls its own functions, and no
other's, gives its turn away within them, and from a C function that calls Python. "bare": greenlets without a Python frame, one
after the other, and work of the main one between.
"""
import functools
import gc
import sys
import time

import greenlet

try:
    import gevent
except ImportError:
    gevent = None

import target


def told(frame):
    found = []
    while frame is not None:
        found.append([target.name_of(frame.f_code), frame.f_code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return found


def deep(n):
    if n:
        return deep(n - 1)
    return greenlet.getcurrent().parent.switch()


def sorting():
    """Parked below a function of C."""
    return sorted([2, 1], key=lambda _: greenlet.getcurrent().parent.switch())


def generating():
    for _ in (greenlet.getcurrent().parent.switch() for _ in range(2)):
        pass


def raising():
    try:
        raise ValueError
    except ValueError:
        greenlet.getcurrent().parent.switch()


class Derived(greenlet.greenlet):
    def run(self):
        deep(1)


def park():
    kept = [greenlet.greenlet(functools.partial(deep, n)) for n in (0, 1, 3, 400)]
    kept += [greenlet.greenlet(sorting), greenlet.greenlet(generating), greenlet.greenlet(raising), Derived()]
    for one in kept:
        one.switch()
    ended = greenlet.greenlet(int)
    ended.switch()
    kept += [ended, greenlet.greenlet(deep)]
    if gevent:
        kept += [gevent.spawn(gevent.sleep, 3600) for _ in range(20)] + [gevent.spawn(naps, n) for n in range(5)]
        gevent.sleep(0.01)
    return kept


def naps(n):
    if n:
        naps(n - 1)
    gevent.sleep(3600)


def turns(n):
    """A greenlet that works in functions that no other has."""
    names = {"n": n, "give": functools.partial(gevent.sleep, 0) if gevent else greenlet.getcurrent().switch, "spin": spin}
    exec(compile("""
def leaf_%(n)d():
    spin()
def mid_%(n)d(_=None):
    leaf_%(n)d()
    give()
    leaf_%(n)d()
def top_%(n)d():
    while True:
        mid_%(n)d()
        sorted([1], key=mid_%(n)d)
""" % {"n": n}, __file__, "exec"), names)
    return names["top_%d" % n]


def spin():
    end = time.process_time() + 0.002
    while time.process_time() < end:
        pass


def greenlets():
    return [one for one in gc.get_objects() if isinstance(one, greenlet.greenlet)]


if sys.argv[1] == "parked":
    kept = park()
    frozen = greenlets()
    gc.freeze()  # what is there by now is in no list any more that gc tells
    kept += park()
    gc.collect()
    kept += [greenlet.greenlet(deep)]
    kept[-1].switch(2)
    target.ready(parked=[told(one.gr_frame) for one in frozen + greenlets() if one.gr_frame and one is not greenlet.getcurrent()])
    sys.stdin.readline()
elif sys.argv[1] == "bare":
    target.ready()
    while True:
        greenlet.greenlet(sum).switch(range(100000))
        spin()
else:
    works = [gevent.spawn(turns(n)) if gevent else greenlet.greenlet(turns(n)) for n in range(8)]
    target.ready(chains={"leaf_%d" % n: ["mid_%d" % n, "top_%d" % n] for n in range(8)})
    if gevent:
        gevent.joinall(works)
    while True:
        for one in works:
            one.switch()
