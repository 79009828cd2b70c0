"""Where small bugs can be planted in a C file: functions, statements, operators, constants.

The code is read as text in the style that clang-format gives it (spaces around binary operators, a function's
braces in the first column), so no C parser is needed. Comments and strings are blanked first."""
import collections
import hashlib
import re

# One small bug: file[start:end] becomes `text`. `lines` are those that must run for it to matter (1-based,
# inclusive); `before` and `after` are the changed lines, each without the space around it.
Mutant = collections.namedtuple("Mutant", "file function kind start end text before after lines")

# Statements that do not decide what a sample says: what is freed, closed or counted of our own work.
NO_TRUTH = re.compile(r"\b((?:\w+_)?free|close|munmap|work_add|work_foreign|work_own|assert|static_assert|\w*alloc(?:array)?|\w+_create|"
                      r"\w+_destroy|\w+_deinit|ENOMEM|prefetch\w*|\w+_attr_\w+)\b")
# Functions that make and unmake objects, which fail only without memory; and those that write sentences.
NO_TRUTH_IN = re.compile(r"_(destroy|deinit|create|init)$|^free_|_free$|^close_|^explain_")

OPERATOR = re.compile(r" (<=|>=|==|!=|<<|>>|&&|\|\||\+=|-=|<|>|\+|-|\*|/|%|&|\|)(?=[ \n])")
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-",
         "-": "+", "*": "/", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "+=": "-=",
         "-=": "+="}
KIND = {**dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), "relation"), **dict.fromkeys(("&&", "||"), "logic")}
NUMBER = re.compile(r"(?<![\w.'])(0x[0-9a-fA-F]+|\d+)(?=[uUlL]*\b)(?![.\w])")
ORDER = re.compile(r"\? -?(1 : )?$")  # of a comparison for sorting: only the sign counts
ROOM = re.compile(r"\bchar \w+\[$")  # of a local text: one byte more of it changes nothing
# Calls whose two arguments may stand in any order.
COMMUTES = re.compile(r"\b(MIN|MAX|fwrite)\($|!(str|mem)\w*cmp\($")
COMPARES, EQUAL = re.compile(r"\b(str|mem)\w*cmp\($"), re.compile(r"\)\s+[!=]= 0\b")
# No descriptor of ours is 0: hold_closed() of cmd/pysampled.c keeps 0 to 2.
DESCRIPTOR, ZERO = re.compile(r"\bfd $"), re.compile(r"(<|>=) 0\b")
OF_DESCRIPTOR = re.compile(r"\bfd (<|>=) $")
WAKES = re.compile(r"\beventfd_write\([^,;]+, $")  # what is added to its count is not read
# What nobody can notice: one nanosecond of a clock; where a hash table keeps something, and how large it is made; which
# errno that is none of ours was there before.
CLOCK, OF_CLOCK = re.compile(r"\b\w+_ns\(\)$"), re.compile(r"\s*\w+_ns\(\)(?![\w(]| [-+*/])")
SLOT, GROWS = re.compile(r"\bhash\w*\b.* & \([^()]* - $"), re.compile(r"^\s*size_t cap = ")
ERRNO = re.compile(r"\berrno = $")
SIMPLE = re.compile(r"^\s*(\*?[\w>.\[\]()+*-]+\s*(=|[-+|&*/]=|<<=|>>=|\+\+|--)|\w+\(|\+\+|--|continue;)")
DECLARATION = re.compile(r"^\s*(const |static |enum |struct |union |unsigned |extern |_\w+ |\w+ \**\w+( =|;|,|\[|\())")
FIELD = re.compile(r"(\b\w+(?:\[\w+\])?)(->|\.)(\w+)\b(?!\()")


def blank(text):
    """The same text with spaces for comments, strings, characters and preprocessor lines."""
    def spaces(m):
        return re.sub(r"[^\n]", " ", m.group())
    text = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])+'", spaces, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", spaces, text, flags=re.M)


def up_to(code, at):
    """What an expression looks back at from `at`: a line, however long."""
    return code[max(0, at - 100):at]


def functions(code):
    """(name, first character after the brace, closing brace) of each function."""
    for m in re.finditer(r"^\{\n(.*?)^\}$", code, flags=re.M | re.S):
        head = code[:m.start()]
        head = head[max(head.rfind(c) for c in (";", "}", "\n\n")) + 1:]
        name = re.search(r"(\w+)\s*\(", head)
        if name and "=" not in head:
            yield name.group(1), m.start(1), m.end(1)


def close_of(code, at):
    """The place of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if not depth:
            return i
    return len(code)


def operand_end(code, at):
    """Where the operand that begins at `at` ends."""
    depth = 0
    for i in range(at, len(code)):
        if depth == 0 and (code[i] in ",;?:)]}" or code[i:i + 2] in ("&&", "||")):
            return i
        depth += (code[i] in "([{") - (code[i] in ")]}")
    return len(code)


def operand_begin(code, at):
    """Where the operand that ends at `at` begins."""
    depth = 0
    for i in range(at - 1, 0, -1):
        if depth == 0 and (code[i] in ",;?:([{" or code[i - 1:i + 1] in ("&&", "||") or
                           (code[i] == "=" and code[i - 1] == " " and code[i + 1] == " ") or code[i - 6:i + 1] == "return "):
            return i + 1
        depth += (code[i] in ")]}") - (code[i] in "([{")
    return 0


def arguments(code, open_at):
    """The (start, end) of each argument of the call whose bracket is at `open_at`."""
    end, depth, start = close_of(code, open_at), 0, open_at + 1
    for i in range(open_at + 1, end + 1):
        if i == end or (depth == 0 and code[i] == ","):
            if code[start:i].strip():
                skip = len(code[start:i]) - len(code[start:i].lstrip())
                yield start + skip, i
            start = i + 1
        else:
            depth += (code[i] in "([{") - (code[i] in ")]}")


def statements(code, start, end):
    """(start, end) of each simple statement, its semicolon included."""
    begin = depth = 0
    begin = start
    for i in range(start, end):
        c = code[i]
        depth += (c in "([") - (c in ")]")
        if depth:
            continue
        if c == ";":
            yield begin + len(code[begin:i]) - len(code[begin:i].lstrip()), i + 1
        if c in ";{}":
            begin = i + 1
        elif c == ")" and re.match(r"\s*(else )?(if|for|while|switch) \(", code[begin:i]):
            if code[begin:i + 1].count("(") == code[begin:i + 1].count(")"):
                begin = i + 1
        elif c == ":" and re.match(r"\s*(case [\w ]+|default|\w+)$", code[begin:i]):
            begin = i + 1
        elif code[i - 4:i] == "else" and c in " \n" and code[begin:i].strip() == "else":
            begin = i + 1


def edits(name, code, start, end):
    """(kind, start, end, text) of each change that could be made in function `name`."""
    for m in OPERATOR.finditer(code, start, end):
        op = m.group(1)
        if op == "*" and re.search(r"\b(struct \w+|\w+_t|char|void)$", up_to(code, m.start())):
            continue
        descriptor = DESCRIPTOR.search(up_to(code, m.start(1))) and ZERO.match(code, m.start(1))
        clock = CLOCK.search(up_to(code, m.start())) or OF_CLOCK.match(code, m.end())
        if not descriptor and not (clock and op in ("<", "<=", ">", ">=") and OTHER[op] in (op + "=", op[0])):
            yield KIND.get(op, "operator"), m.start(1), m.end(1), OTHER[op]
        if op in ("&&", "||"):
            right, left = operand_end(code, m.end()), operand_begin(code, m.start())
            yield "condition", m.start(), right, ""
            yield "condition", left, m.end() + 1, " " if code[left] == " " else ""
    for m in re.finditer(r"\b(if|while) \(", code[start:end]):
        at = start + m.end() - 1
        yield "condition", at, close_of(code, at) + 1, "(0)"
        if m.group(1) == "if":
            yield "condition", at, close_of(code, at) + 1, "(1)"
    for m in re.finditer(r"(?<=[ (])!(?=[\w(*])", code[start:end]):
        yield "negation", start + m.start(), start + m.end(), ""
    for m in NUMBER.finditer(code, start, end):
        value = int(m.group(1), 0)
        before = up_to(code, m.start())
        if value == 1 and name.endswith("_cmp") and ORDER.search(before):
            continue
        if value == 0 and OF_DESCRIPTOR.search(before):
            continue
        line = code[code.rfind("\n", 0, m.start()) + 1:m.start()]
        if SLOT.search(line) or GROWS.match(line) or ERRNO.search(line):
            continue
        if code[m.start() - 2:m.end() + 2] == "{ 0 }" or ROOM.search(before) or WAKES.search(before):
            continue
        yield "constant", m.start(1), m.end(1), str(value + 1)
    for m in re.finditer(r"\b(MIN|MAX)\(|\breturn (true|false);|\breturn ([^;]+);", code[start:end]):
        if m.group(1):
            yield "constant", start + m.start(1), start + m.end(1), {"MIN": "MAX", "MAX": "MIN"}[m.group(1)]
        elif m.group(2):
            yield "return", start + m.start(2), start + m.end(2), {"true": "false", "false": "true"}[m.group(2)]
        elif not re.fullmatch(r"-?\w+", m.group(3)):
            yield "return", start + m.start(3), start + m.end(3), "0"
    for m in re.finditer(r"\b(?!if|while|for|switch|sizeof|return)\w+\(", code[start:end]):
        args, call = list(arguments(code, start + m.end() - 1)), up_to(code, start + m.end())
        if COMMUTES.search(call):
            continue
        if COMPARES.search(call) and EQUAL.match(code, close_of(code, start + m.end() - 1)):
            continue
        for (a, b), (c, d) in zip(args, args[1:]):
            if code[a:b] != code[c:d]:
                yield "arguments", a, d, code[c:d] + ", " + code[a:b]
    uses = collections.defaultdict(list)
    for m in FIELD.finditer(code, start, end):
        if m.group(3) not in uses[m.group(1, 2)]:
            uses[m.group(1, 2)].append(m.group(3))
    for m in FIELD.finditer(code, start, end):
        names = uses[m.group(1, 2)]
        if len(names) > 1:
            other = names[(names.index(m.group(3)) + 1) % len(names)]
            yield "field", m.start(3), m.end(3), other
    for a, b in statements(code, start, end):
        if SIMPLE.match(code[a:b]) and not DECLARATION.match(code[a:b]):
            yield "statement", a, b, ";"


def line_at(text, at):
    return text.count("\n", 0, at) + 1


def statement_lines(code, start, end):
    """The lines of the statement around code[start:end], for a compiler may count its execution at any of them;
    None: one that is not executed itself, as an enum or a table."""
    a = max(code.rfind(c, 0, start) for c in ";{}") + 1
    a += len(code[a:start]) - len(code[a:start].lstrip())
    ends = [i for i in (code.find(c, end) for c in ";{}") if i >= 0]
    enum, table = code.rfind("enum {", 0, start), code.rfind("static const ", 0, start)
    if enum >= 0 and "}" not in code[enum:start] or table >= 0 and ";" not in code[table:start]:
        return None
    return line_at(code, a), line_at(code, min(ends, default=end))


def squeeze(text):
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.split("\n"))))


def changed(text, start, end, new):
    """The lines around text[start:end], before and after."""
    a = text.rfind("\n", 0, start) + 1
    b = text.find("\n", end)
    return squeeze(text[a:b]), squeeze(text[a:start] + new + text[end:b])


def is_truth(code, start, end):
    """Does what stands there decide something? A check for memory right behind its allocation does not."""
    a, b = code.rfind("\n", 0, start) + 1, code.find("\n", end)
    before = code[code.rfind("\n", 0, a - 1) + 1:a] if "if (!" in code[a:b] else ""
    return not NO_TRUTH.search(before + code[a:b])


def mutants(name, text):
    """Each mutant of file `name`."""
    code, seen = blank(text), set()
    spans = [f for f in functions(code) if not NO_TRUTH_IN.search(f[0])]
    for m in re.finditer(r"^enum \{(.*?)\};|^static const \w+ \w+ = [^;{]*;", code, flags=re.M | re.S):
        for n in NUMBER.finditer(code, m.start(), m.end()):
            value = int(n.group(1), 0)
            if value >= 8 and is_truth(code, n.start(), n.end()):
                yield Mutant(name, "", "constant", n.start(1), n.end(1), str(value * 10),
                             *changed(text, n.start(1), n.end(1), str(value * 10)), None)
    for function, start, end in spans:
        for kind, a, b, new in edits(function, code, start, end):
            before, after = changed(text, a, b, new)
            if before != after and (function, before, after) not in seen and is_truth(code, a, b):
                seen.add((function, before, after))
                yield Mutant(name, function, kind, a, b, new, before, after,
                             statement_lines(code, a, b))


def key(mutant, seed=""):
    """A number of the mutant that no edit elsewhere changes."""
    what = "\0".join((str(seed), mutant.file, mutant.function, mutant.before, mutant.after))
    return hashlib.sha1(what.encode()).hexdigest()


def table(path):
    """The entries of known.txt and equivalent.txt as (file, function, before, after, why)."""
    entry, entries = None, []
    with open(path, encoding="utf-8") as f:
        for n, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            if line[0] not in "-+=":
                file, _, function = line.partition(" ")
                entry = (file, function, [], [], [])
                entries.append(entry)
            elif entry is None or line[1:2] not in ("", " "):
                raise SystemExit("%s:%d: not '- before', '+ after' or '= why'" % (path, n))
            else:
                entry["-+=".index(line[0]) + 2].append(line[2:])
    return [(file, function, squeeze("\n".join(a)), squeeze("\n".join(b)), " ".join(w))
            for file, function, a, b, w in entries]


def equivalent(listed, m):
    """Why nobody could notice the mutant, in what table() says of such, by their first four; None: somebody could."""
    function = m.file, m.function
    return listed.get(function + (m.before, m.after), listed.get(function + ("", "")))


def planted(entry, text):
    """The mutant that a known entry describes. Its text must be found exactly once."""
    file, function, before, after, why = entry
    pattern = r"\s+".join(re.escape(word) for word in before.split())
    found = list(re.finditer(pattern, text))
    if len(found) != 1:
        raise SystemExit("known.txt: %s (%s): found %d times, not once:\n%s" % (file, why, len(found), before))
    m = found[0]
    return Mutant(file, function, "known", m.start(), m.end(), after, before, after,
                  statement_lines(blank(text), m.start(), m.end()))
