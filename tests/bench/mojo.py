# SPDX-License-Identifier: MIT
"""Reads the stacks of an austin recording (MOJO 3)."""

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
        """A variable-length integer: six bits and a sign, then seven bits a byte, lowest first."""
        byte = self.byte()
        value, shift, sign = byte & 0x3f, 6, byte & 0x40
        while byte & 0x80:
            byte = self.byte()
            value |= (byte & 0x7f) << shift
            shift += 7
        return -value if sign else value

    def text(self):
        start = self.at
        self.at = self.data.index(b"\0", start) + 1
        return self.data[start:self.at - 1].decode("utf-8", "replace")


def stacks_of(path):
    """Each stack as [(function, line)], root first."""
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
    for stack in stacks:
        yield [(strings.get(frames[key][0], "?"), frames[key][1]) for key in stack if key in frames]


def count(path, function):
    """(stacks that contain function, all stacks)"""
    stacks = list(stacks_of(path))
    return sum(1 for stack in stacks if function in dict(stack)), len(stacks)


def take_event(reader, strings, frames, stacks):
    event = reader.byte()
    if event == METADATA:
        reader.text(), reader.text()
    elif event == STACK:
        reader.number(), reader.number(), reader.text()
        stacks.append([])
    elif event == FRAME:
        key, _, scope, line = (reader.number() for _ in range(4))
        for _ in range(3):  # end line, columns
            reader.number()
        frames[key] = (scope, line)
        stacks[-1].append(key)
    elif event == FRAME_REF:
        stacks[-1].append(reader.number())
    elif event == FRAME_KERNEL:
        reader.text()
    elif event in (TIME, MEMORY, STRING_REF):
        reader.number()
    elif event == STRING:
        key = reader.number()
        strings[key] = reader.text()
    elif event not in (FRAME_INVALID, GC, IDLE):
        raise ValueError("unknown MOJO event %d" % event)
