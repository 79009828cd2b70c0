# SPDX-License-Identifier: MIT
"""Counts the stacks in an austin recording (MOJO 3): all of them, and those with a function."""

METADATA, STACK, FRAME, FRAME_INVALID, FRAME_REF, FRAME_KERNEL = 1, 2, 3, 4, 5, 6
GC, IDLE, TIME, MEMORY, STRING, STRING_REF = 7, 8, 9, 10, 11, 12


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def more(self):
        return self.at < len(self.data)

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        """The bytes of a variable-length integer: as a key they serve as well as its value."""
        start = self.at
        while self.byte() & 0x80:
            pass
        return self.data[start:self.at]

    def text(self):
        start = self.at
        self.at = self.data.index(b"\0", start) + 1
        return self.data[start:self.at - 1].decode("utf-8", "replace")


def count(path, function):
    """(stacks that contain function, all stacks)"""
    with open(path, "rb") as file:
        data = file.read()
    if data[:3] != b"MOJ" or data[3] != 3:
        raise ValueError("not a MOJO 3 recording")
    reader = Reader(data[4:])
    strings, frames, stacks = {}, {}, []
    try:
        while reader.more():
            take_event(reader, strings, frames, stacks)
    except (IndexError, ValueError):
        pass  # cut short: what is complete counts
    names = {key for key, name in strings.items() if name == function}
    wanted = {frame for frame, scope in frames.items() if scope in names}
    return sum(1 for stack in stacks if wanted & stack), len(stacks)


def take_event(reader, strings, frames, stacks):
    event = reader.byte()
    if event == METADATA:
        reader.text(), reader.text()
    elif event == STACK:
        reader.number(), reader.number(), reader.text()
        stacks.append(set())
    elif event == FRAME:
        key, _, scope = reader.number(), reader.number(), reader.number()
        for _ in range(4):
            reader.number()
        frames[key] = scope
        stacks[-1].add(key)
    elif event == FRAME_REF:
        stacks[-1].add(reader.number())
    elif event == FRAME_KERNEL:
        reader.text()
    elif event in (TIME, MEMORY, STRING_REF):
        reader.number()
    elif event == STRING:
        key = reader.number()
        strings[key] = reader.text()
    elif event not in (FRAME_INVALID, GC, IDLE):
        raise ValueError("unknown MOJO event %d" % event)
