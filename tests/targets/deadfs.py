"""A file system with one file, "prog", that stops answering. Usage: deadfs.py FOLDER FILE [takes] [read].

Mounts itself on FOLDER, says READY and serves the bytes of FILE until it reads a line; from then on nobody gets an answer. With
"takes" it goes on to take what is asked: who asked can't even be killed then; with "read" it answers all but reads and closes
then. Its end ends all waits.
"""
import ctypes
import os
import select
import stat
import struct
import sys

LOOKUP, GETATTR, OPEN, READ, FLUSH, INIT = 1, 3, 14, 15, 25, 26
KEEP_CACHE = 2
FORGET, INTERRUPT, ENOSYS = 2, 36, 38


def attr(node, size):
    mode = stat.S_IFREG | 0o755 if node == 2 else stat.S_IFDIR | 0o755
    return struct.pack("=6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node, body, text):
    if opcode == INIT:
        return struct.pack("=4I2H2I2H8I", 7, 31, 65536, 0, 0, 0, 65536, 1, 0, 0, *[0] * 8)
    if opcode == LOOKUP:
        return struct.pack("=4Q2I", 2, 0, 60, 60, 0, 0) + attr(2, len(text))
    if opcode == GETATTR:
        return struct.pack("=Q2I", 60, 0, 0) + attr(node, len(text) if node == 2 else 0)
    if opcode == OPEN:
        return struct.pack("=Q2I", 1, KEEP_CACHE, 0)
    if opcode == READ:
        _, at, n = struct.unpack_from("=2QI", body)
        return text[at:at + n]
    return None


def serve(fuse, text, unheard):
    head = os.read(fuse, 1 << 18)
    _, opcode, unique, node = struct.unpack_from("=2I2Q", head)
    if opcode not in (FORGET, INTERRUPT, *unheard):
        body = answer(opcode, node, head[40:], text)
        os.write(fuse, struct.pack("=IiQ", 16 + len(body or b""), 0 if body is not None else -ENOSYS, unique) + (body or b""))


def main():
    folder = sys.argv[1].encode()
    with open(sys.argv[2], "rb") as file:
        text = file.read()
    fuse = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(1, 9)  # it ends with who started it: PR_SET_PDEATHSIG, SIGKILL
    if libc.mount(b"dead", folder, b"fuse", 6, b"fd=%d,rootmode=40000,user_id=0,group_id=0" % fuse):
        sys.exit(os.strerror(ctypes.get_errno()))
    print("READY", flush=True)
    while True:
        if sys.stdin in select.select([fuse, sys.stdin], [], [])[0]:
            break
        serve(fuse, text, ())
    sys.stdin.readline()
    print("DEAD", flush=True)
    while True:
        select.select([fuse] if "takes" in sys.argv else [], [], [])
        serve(fuse, text, (READ, FLUSH) if "read" in sys.argv else range(4096))


main()
