# SPDX-License-Identifier: MIT
"""A busy process: templates, json, regular expressions, a database, sorting with callbacks and
system calls, each reached in its own way. Usage: busy.py NUMBER; says READY."""
import functools
import json
import os
import re
import sqlite3
import sys
import zlib

NUMBER = int(sys.argv[1])
ROWS = [{"id": i, "name": "row %d" % i, "tags": ["a%d" % (i % 7), "b"], "value": i / 3} for i in range(60)]
WORD = re.compile(r"(\w+) (\d+)")


class Node:
    def __init__(self, depth):
        self.children = [Node(depth - 1) for _ in range(3)] if depth else []

    def __iter__(self):
        yield self
        for child in self.children:
            yield from child

    def total(self):
        return 1 + sum(child.total() for child in self.children)


TREE = Node(4)


def database():
    base = sqlite3.connect(":memory:")
    base.create_function("twice", 1, lambda value: value * 2)
    base.execute("create table t (id int, name text)")
    base.executemany("insert into t values (?, ?)", [(row["id"], row["name"]) for row in ROWS])
    return base.execute("select sum(twice(id)), group_concat(name) from t group by id % 5").fetchall()


def texts():
    return [WORD.sub(lambda m: m.group(2) + m.group(1), row["name"]) for row in ROWS]


def documents():
    return json.loads(json.dumps(ROWS, default=str, indent=1), object_hook=dict)


def compressed():
    return zlib.compress(json.dumps(ROWS).encode(), 9)


def ordered():
    rows = sorted(ROWS * 3, key=lambda row: (row["name"], -row["id"]))
    return sorted(rows, key=functools.cmp_to_key(lambda a, b: a["value"] - b["value"]))


def files():
    for _ in range(20):
        os.stat("/")
        os.listdir("/proc/self")


def trees():
    return TREE.total() + sum(1 for _ in TREE)


JOBS = [database, texts, documents, compressed, ordered, files, trees]


def nested(depth, job):
    """As frameworks do: Python that is called from C that is called from Python."""
    if depth:
        return list(map(functools.partial(nested, depth - 1), [job]))
    return job()


print("READY", flush=True)
while True:
    for i, job in enumerate(JOBS):
        nested((i + NUMBER) % 8, job)
