"""Draws a flame graph (SVG) from folded stacks, or prints the functions with the most samples of their own.

Usage: flamegraph.py FOLDED > OUT.svg; flamegraph.py --top N FOLDED
"""
import argparse
import re
import sys
import zlib
from xml.sax.saxutils import escape

WIDTH, ROW, MARGIN, LETTER = 1200, 17, 10, 6.6
LEAST = 0.3  # narrower boxes, in pixels, are left out

STYLE = """text { font: 11px monospace; pointer-events: none; } rect:hover { stroke: black; }
.title { font: 16px sans-serif; }"""
# A click on a box makes it as wide as the picture; a click on the lowest one brings all back.
SCRIPT = """function zoom(box) {
  var from = +box.dataset.x, wide = +box.dataset.w, total = %d - 2 * %d;
  document.querySelectorAll('g.frame').forEach(function (g) {
    var r = g.querySelector('rect'), t = g.querySelector('text'), x = +r.dataset.x, w = +r.dataset.w;
    var nx = (x - from) / wide * total, nw = w / wide * total;
    var seen = nx + nw > 0.1 && nx < total - 0.1;
    g.style.display = seen ? '' : 'none';
    if (!seen) return;
    nw = Math.min(nx + nw, total) - Math.max(nx, 0); nx = Math.max(nx, 0);
    r.setAttribute('x', %d + nx); r.setAttribute('width', nw);
    if (t) { var fits = Math.floor((nw - 4) / %g), name = t.dataset.name;
      t.setAttribute('x', %d + nx + 2);
      t.textContent = fits < 3 ? '' : name.length <= fits ? name : name.slice(0, fits - 2) + '..'; }
  });
}""" % (WIDTH, MARGIN, MARGIN, LETTER, MARGIN)


class Node:
    """A frame with all samples below it."""

    def __init__(self):
        self.count, self.children = 0, {}

    def add(self, frames, count):
        self.count += count
        node = self
        for frame in frames:
            node = node.children.setdefault(frame, Node())
            node.count += count

    def depth(self):
        """Rows, counted without recursion: stacks may be thousands deep."""
        rows, level = 0, [self]
        while level:
            rows, level = rows + 1, [child for node in level for child in node.children.values()]
        return rows


def read(path):
    """[(frames, count)]."""
    stacks = []
    with open(path, errors="replace") as file:
        for line in file:
            stack, _, count = line.rstrip("\n").rpartition(" ")
            if stack:
                stacks.append((stack.split(";"), int(count)))
    return stacks


def colour(frame):
    """Python warm, native blue, kernel green, markers grey; each name always the same shade."""
    shade = zlib.crc32(frame.encode()) % 60
    if frame.startswith("["):
        return "rgb(190,190,190)"
    if frame.endswith("_[k]"):
        return "rgb(%d,200,%d)" % (110 + shade, 110 + shade)
    if re.search(r"\.py(:\d+)?\)$|<.*>.*\)$", frame):
        return "rgb(%d,%d,60)" % (200 + shade * 55 // 60, 90 + shade * 2)
    return "rgb(%d,%d,225)" % (120 + shade, 150 + shade)


def box(name, node, x, y, width, total):
    share = "%s: %d samples, %.2f %%" % (name, node.count, 100 * node.count / total)
    name, shade = re.sub(r" \(/.*/", " (", name), colour(name)  # the whole path stands in the tooltip
    room = int((width - 4) / LETTER)
    text = "" if room < 3 else name if len(name) <= room else name[:room - 2] + ".."
    return ('<g class="frame"><title>%s</title><rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s" rx="1" '
            'data-x="%.3f" data-w="%.3f" onclick="zoom(this)"/><text x="%.2f" y="%d" data-name="%s">%s</text></g>'
            % (escape(share), x, y, width, ROW - 1, shade, x - MARGIN, width, x + 2, y + 12,
               escape(name, {'"': "&quot;"}), escape(text)))


def draw(root, title, out):
    """Boxes from the root at the bottom upwards, children sorted by name."""
    height = (root.depth() + 1) * ROW + 3 * MARGIN + 20
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
              'viewBox="0 0 %d %d">\n<style>%s</style>\n<script><![CDATA[%s]]></script>\n'
              '<rect width="100%%" height="100%%" fill="#fffdf5"/>\n<text class="title" x="%d" y="24">%s</text>\n'
              % (WIDTH, height, WIDTH, height, STYLE, SCRIPT, MARGIN, escape(title)))
    scale = (WIDTH - 2 * MARGIN) / root.count
    waiting = [("all", root, float(MARGIN), height - MARGIN - ROW)]
    while waiting:
        name, node, x, y = waiting.pop()
        if node.count * scale < LEAST:
            continue
        out.write(box(name, node, x, y, node.count * scale, root.count) + "\n")
        for frame in sorted(node.children):
            waiting.append((frame, node.children[frame], x, y - ROW))
            x += node.children[frame].count * scale
    out.write("</svg>\n")


def top(stacks, number):
    """The Python functions that samples were innermost in: those are on the CPU, themselves or in native code."""
    own = {}
    for frames, count in stacks:
        python = [re.sub(r":\d+\)$", ")", f) for f in frames if re.search(r" \(.+:\d+\)$", f)]
        if python:
            own[python[-1]] = own.get(python[-1], 0) + count
    total = sum(count for _, count in stacks)
    for name, count in sorted(own.items(), key=lambda pair: (-pair[1], pair[0]))[:number]:
        print("  %5.1f%% %7d  %s" % (100 * count / total, count, name))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--top", type=int)
    parser.add_argument("--title", default="pysampled")
    parser.add_argument("folded")
    args = parser.parse_args()
    stacks = read(args.folded)
    if not stacks:
        raise SystemExit("%s holds no stacks" % args.folded)
    if args.top:
        return top(stacks, args.top)
    root = Node()
    for frames, count in stacks:
        root.add(frames, count)
    draw(root, args.title, sys.stdout)


if __name__ == "__main__":
    main()
