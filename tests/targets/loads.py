"""Work in native code of one kind, for SECONDS: loads.py KIND SECONDS."""
import sys
import time


def blas():
    import numpy
    a = numpy.random.rand(400, 400)
    return lambda: numpy.sort(a @ a, axis=0)


def crypto():
    import hashlib
    blob = bytes(range(256)) * 4000

    def work():
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 2000)
        hashlib.sha512(blob).digest()
        hashlib.sha3_256(blob).digest()
    return work


def plain():
    import json
    import zlib
    data = {str(i): list(range(30)) for i in range(100)}
    blob = bytes(range(256)) * 400
    return lambda: (json.loads(json.dumps(data)), zlib.decompress(zlib.compress(blob)), sorted(blob, key=lambda x: -x))


def greenlets():
    import greenlet

    def count():
        return sum(i for i in range(20000))

    def deep(to, n):
        if n:
            deep(to, n - 1)
        else:
            count()
            to.switch()

    def first():
        while True:
            deep(second_one, 5)

    def second():
        while True:
            sorted([1], key=lambda _: deep(main, 3) or 0)
    main = greenlet.getcurrent()
    first_one, second_one = greenlet.greenlet(first), greenlet.greenlet(second)
    return first_one.switch


def deep():
    """Some 60 KiB of stack, C and Python in turns, the most of it kept for a while."""
    def down(n):
        return max([n], key=lambda _: down(n - 1)) if n else sum(range(100000))
    return lambda: down(100)


def vdso():
    now = time.time
    return lambda: [now() for _ in range(10000)]


work = {"blas": blas, "crypto": crypto, "plain": plain, "greenlets": greenlets, "deep": deep, "vdso": vdso}[sys.argv[1]]()
print("READY", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    work()
