#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Print the layout table of one CPython from its headers or its debug info.

From 3.11 on headers tell all: a tiny C program with offsetof() is compiled against
INCLUDE, the directory with Python.h (and internal/). Before, some structs are in no
header: gdb reads them from the DWARF of FILE, a python or libpython whose name has its
version. FILE works for later versions too. Usage:

  mklayout.py INCLUDE|FILE                   the table's offsets, as C
  mklayout.py --check py3_12.c INCLUDE|FILE  compare a table with them
  mklayout.py --debug-offsets INCLUDE        what _Py_DebugOffsets holds (3.13+)
  mklayout.py --after py3_15.c INCLUDE       a whole table: what headers don't tell is that table's
  mklayout.py --slots INCLUDE                where _Py_DebugOffsets keeps them, for debug_offsets.c
  mklayout.py --rows                         all fields as rows for lib/offsets/pyfields.c

--as 3.16 has --after and --slots print of that version what the headers of another one say.
--free-threaded compiles as a free-threaded build would, also where the headers are not those of one.
"""
import argparse
import os
import re
import struct
import subprocess
import sys
import tempfile

# layout field: C expression, first and last minor version that has it
FIELDS = [
    ("runtime.interp_head", "O(_PyRuntimeState, interpreters.head)", 11, 99),
    ("runtime.main_thread", "O(_PyRuntimeState, main_thread)", 11, 99),
    ("runtime.finalizing", "O(_PyRuntimeState, _finalizing)", 11, 99),
    ("interp.next", "O(PyInterpreterState, next)", 11, 99),
    ("interp.id", "O(PyInterpreterState, id)", 11, 99),
    ("interp.threads_head", "O(PyInterpreterState, threads.head)", 11, 99),
    ("interp.threads_unique", "O(PyInterpreterState, threads.next_unique_id)", 11, 99),
    ("interp.size", "sizeof(PyInterpreterState)", 12, 99),
    ("interp.code_versions", "O(PyInterpreterState, func_state.next_version)", 13, 99),
    ("interp.modules", "O(PyInterpreterState, modules)", 11, 11),
    ("interp.modules", "O(PyInterpreterState, imports.modules)", 12, 99),
    ("runtime.gil", "O(_PyRuntimeState, ceval.gil)", 11, 11),
    ("runtime.current", "O(_PyRuntimeState, gilstate.tstate_current)", 11, 11),
    ("interp.gil", "O(PyInterpreterState, ceval.gil)", 12, 99),
    ("gil.size", "sizeof(struct _gil_runtime_state)", 11, 99),
    ("gil.holder", "O(struct _gil_runtime_state, last_holder)", 11, 99),
    ("gil.locked", "O(struct _gil_runtime_state, locked)", 11, 99),
    ("gil.switches", "O(struct _gil_runtime_state, switch_number)", 11, 99),
    ("tstate.size", "sizeof(PyThreadState)", 11, 99),
    ("tstate.next", "O(PyThreadState, next)", 11, 99),
    ("tstate.prev", "O(PyThreadState, prev)", 11, 99),
    ("tstate.interp", "O(PyThreadState, interp)", 11, 99),
    ("tstate.thread_id", "O(PyThreadState, thread_id)", 11, 99),
    ("tstate.native_tid", "O(PyThreadState, native_thread_id)", 11, 99),
    ("tstate.cframe", "O(PyThreadState, cframe)", 11, 12),
    ("tstate.frame", "O(PyThreadState, current_frame)", 13, 99),
    ("tstate.datastack_chunk", "O(PyThreadState, datastack_chunk)", 11, 99),
    ("tstate.status", "O(PyThreadState, _status)", 12, 99),
    ("tstate.exc_info", "O(PyThreadState, exc_info)", 11, 13),
    ("tstate.base_frame", "O(PyThreadState, base_frame)", 15, 99),
    ("cframe.current_frame", "O(_PyCFrame, current_frame)", 11, 12),
    ("cframe.previous", "O(_PyCFrame, previous)", 11, 12),
    ("frame.size", "sizeof(_PyInterpreterFrame)", 11, 99),
    ("frame.code", "O(_PyInterpreterFrame, f_code)", 11, 12),
    ("frame.code", "O(_PyInterpreterFrame, f_executable)", 13, 99),
    ("frame.func", "O(_PyInterpreterFrame, f_func)", 11, 11),
    ("frame.previous", "O(_PyInterpreterFrame, previous)", 11, 99),
    ("frame.instr", "O(_PyInterpreterFrame, prev_instr)", 11, 12),
    ("frame.instr", "O(_PyInterpreterFrame, instr_ptr)", 13, 99),
    ("frame.localsplus", "O(_PyInterpreterFrame, localsplus)", 11, 99),
    ("frame.owner", "O(_PyInterpreterFrame, owner)", 11, 99),
    ("frame.object", "O(_PyInterpreterFrame, frame_obj)", 11, 99),
    ("frame.stacktop", "O(_PyInterpreterFrame, stacktop)", 11, 13),
    ("frame.is_entry", "O(_PyInterpreterFrame, is_entry)", 11, 11),
    ("frame.tlbc_index", "O(_PyInterpreterFrame, tlbc_index)", 14, 99),
    ("gen.exc_state", "O(PyGenObject, gi_exc_state)", 11, 13),
    ("gen.exc_previous", "O(PyGenObject, gi_exc_state.previous_item)", 11, 13),
    ("gen.frame", "O(PyGenObject, gi_iframe)", 11, 13),
    ("func.code", "O(PyFunctionObject, func_code)", 11, 11),
    ("func.version", "O(PyFunctionObject, func_version)", 11, 11),
    ("code.size", "O(PyCodeObject, co_code_adaptive)", 11, 99),
    ("code.filename", "O(PyCodeObject, co_filename)", 11, 99),
    ("code.name", "O(PyCodeObject, co_name)", 11, 99),
    ("code.qualname", "O(PyCodeObject, co_qualname)", 11, 99),
    ("code.linetable", "O(PyCodeObject, co_linetable)", 11, 99),
    ("code.firstlineno", "O(PyCodeObject, co_firstlineno)", 11, 99),
    ("code.flags", "O(PyCodeObject, co_flags)", 11, 99),
    ("code.version", "O(PyCodeObject, co_version)", 12, 99),
    ("code.firsttraceable", "O(PyCodeObject, _co_firsttraceable)", 11, 99),
    ("code.tlbc", "O(PyCodeObject, co_tlbc)", 14, 99),
    ("code.stacksize", "O(PyCodeObject, co_stacksize)", 11, 13),
    ("code.nlocalsplus", "O(PyCodeObject, co_nlocalsplus)", 11, 13),
    ("code.bytecode", "O(PyCodeObject, co_code_adaptive)", 11, 99),
    ("object.type", "O(PyObject, ob_type)", 11, 99),
    ("object.type_name", "O(PyTypeObject, tp_name)", 11, 99),
    ("object.type_flags", "O(PyTypeObject, tp_flags)", 11, 99),
    ("object.type_size", "O(PyTypeObject, tp_basicsize)", 11, 99),
    ("object.type_keys", "O(PyHeapTypeObject, ht_cached_keys)", 11, 99),
    ("dict.keys", "O(PyDictObject, ma_keys)", 11, 99),
    ("dict.values", "O(PyDictObject, ma_values)", 11, 99),
    ("dictkeys.index_log2", "O(PyDictKeysObject, dk_log2_index_bytes)", 11, 99),
    ("dictkeys.kind", "O(PyDictKeysObject, dk_kind)", 11, 99),
    ("dictkeys.n", "O(PyDictKeysObject, dk_nentries)", 11, 99),
    ("dictkeys.entries", "O(PyDictKeysObject, dk_indices)", 11, 99),
    ("module.dict", "O(PyModuleObject, md_dict)", 11, 99),
    ("module.state", "O(PyModuleObject, md_state)", 14, 99),
    ("integer.digit", "O(PyLongObject, ob_digit)", 11, 11),
    ("integer.digit", "O(PyLongObject, long_value.ob_digit)", 12, 99),
    ("attrs_first", "O(PyDictValues, values)", 13, 99),
    ("str.length", "O(PyASCIIObject, length)", 11, 99),
    ("str.hash", "O(PyASCIIObject, hash)", 11, 99),
    ("str.state", "O(PyASCIIObject, state)", 11, 99),
    ("str.ascii_data", "sizeof(PyASCIIObject)", 11, 99),
    ("str.compact_data", "sizeof(PyCompactUnicodeObject)", 11, 99),
    ("bytes.size", "O(PyBytesObject, ob_base.ob_size)", 11, 99),
    ("bytes.data", "O(PyBytesObject, ob_sval)", 11, 99),
    # Meanings that headers can tell.
    ("owner_shim", "FRAME_OWNED_BY_CSTACK", 12, 13),
    ("owner_shim", "FRAME_OWNED_BY_INTERPRETER", 14, 99),
    ("owner_generator", "FRAME_OWNED_BY_GENERATOR", 11, 99),
    ("active_bit", "BIT(PyThreadState, _status.active, _status)", 12, 99),
    ("str_kind_shift", "BIT(PyASCIIObject, state.kind, state)", 11, 99),
    ("str_compact_bit", "BIT(PyASCIIObject, state.compact, state)", 11, 99),
    ("str_ascii_bit", "BIT(PyASCIIObject, state.ascii, state)", 11, 99),
]
# The same of what comes before 3.11; minor 0 is 2.7.
OLD_FIELDS = [
    ("runtime.interp_head", "O(_PyRuntimeState, interpreters.head)", 7, 10),
    ("runtime.main_thread", "O(_PyRuntimeState, main_thread)", 8, 10),
    ("runtime.finalizing", "O(_PyRuntimeState, finalizing)", 7, 8),
    ("runtime.finalizing", "O(_PyRuntimeState, _finalizing)", 9, 10),
    ("interp.next", "O(PyInterpreterState, next)", 0, 10),
    ("interp.id", "O(PyInterpreterState, id)", 7, 10),
    ("interp.threads_head", "O(PyInterpreterState, tstate_head)", 0, 10),
    ("interp.modules", "O(PyInterpreterState, modules)", 0, 10),
    ("runtime.gil", "O(_PyRuntimeState, ceval.gil)", 7, 10),
    ("runtime.current", "O(_PyRuntimeState, gilstate.tstate_current)", 7, 10),
    ("gil.size", "sizeof(struct _gil_runtime_state)", 7, 10),
    ("gil.holder", "O(struct _gil_runtime_state, last_holder)", 7, 10),
    ("gil.locked", "O(struct _gil_runtime_state, locked)", 7, 10),
    ("gil.switches", "O(struct _gil_runtime_state, switch_number)", 7, 10),
    ("tstate.size", "sizeof(PyThreadState)", 0, 10),
    ("tstate.next", "O(PyThreadState, next)", 0, 10),
    ("tstate.prev", "O(PyThreadState, prev)", 6, 10),
    ("tstate.interp", "O(PyThreadState, interp)", 0, 10),
    ("tstate.thread_id", "O(PyThreadState, thread_id)", 0, 10),
    ("tstate.frame", "O(PyThreadState, frame)", 0, 10),
    ("frame.size", "O(PyFrameObject, f_lasti) + 8", 0, 10),  # and a word behind it
    ("frame.code", "O(PyFrameObject, f_code)", 0, 10),
    ("frame.previous", "O(PyFrameObject, f_back)", 0, 10),
    ("frame.instr", "O(PyFrameObject, f_lasti)", 0, 10),
    ("code.size", "sizeof(PyCodeObject)", 0, 10),
    ("code.filename", "O(PyCodeObject, co_filename)", 0, 10),
    ("code.qualname", "O(PyCodeObject, co_name)", 0, 10),
    ("code.linetable", "O(PyCodeObject, co_lnotab)", 0, 9),
    ("code.linetable", "O(PyCodeObject, co_linetable)", 10, 10),
    ("code.firstlineno", "O(PyCodeObject, co_firstlineno)", 0, 10),
    ("code.flags", "O(PyCodeObject, co_flags)", 0, 10),
    ("code.instructions", "O(PyCodeObject, co_code)", 0, 10),
    ("object.type", "O(PyObject, ob_type)", 0, 10),
    ("object.type_name", "O(PyTypeObject, tp_name)", 0, 10),
    ("object.type_flags", "O(PyTypeObject, tp_flags)", 0, 10),
    ("object.type_dict", "O(PyTypeObject, tp_dictoffset)", 0, 10),
    ("dict.keys", "O(PyDictObject, ma_table)", 0, 0),
    ("dict.mask", "O(PyDictObject, ma_mask)", 0, 0),
    ("dict.fill", "O(PyDictObject, ma_fill)", 0, 0),
    ("dict.keys", "O(PyDictObject, ma_keys)", 6, 10),
    ("dict.values", "O(PyDictObject, ma_values)", 6, 10),
    ("dictkeys.size", "O(PyDictKeysObject, dk_size)", 6, 10),
    ("dictkeys.n", "O(PyDictKeysObject, dk_nentries)", 6, 10),
    ("dictkeys.entries", "O(PyDictKeysObject, dk_indices)", 6, 10),
    ("module.dict", "O(PyModuleObject, md_dict)", 0, 10),
    ("integer.digit", "O(PyIntObject, ob_ival)", 0, 0),
    ("integer.digit", "O(PyLongObject, ob_digit)", 6, 10),
    ("str.length", "O(PyStringObject, ob_size)", 0, 0),
    ("str.length", "O(PyASCIIObject, length)", 6, 10),
    ("str.hash", "O(PyASCIIObject, hash)", 6, 10),
    ("str.state", "O(PyASCIIObject, state)", 6, 10),
    ("str.ascii_data", "sizeof(PyStringObject)", 0, 0),
    ("str.compact_data", "sizeof(PyStringObject)", 0, 0),
    ("str.ascii_data", "sizeof(PyASCIIObject)", 6, 10),
    ("str.compact_data", "sizeof(PyCompactUnicodeObject)", 6, 10),
    ("bytes.size", "O(PyStringObject, ob_size)", 0, 0),
    ("bytes.data", "O(PyStringObject, ob_sval)", 0, 0),
    ("bytes.size", "O(PyBytesObject, ob_base.ob_size)", 6, 10),
    ("bytes.data", "O(PyBytesObject, ob_sval)", 6, 10),
    ("str_kind_shift", "BIT(PyASCIIObject, state.kind, state)", 6, 10),
    ("str_compact_bit", "BIT(PyASCIIObject, state.compact, state)", 6, 10),
    ("str_ascii_bit", "BIT(PyASCIIObject, state.ascii, state)", 6, 10),
]
# Fields that only free-threaded builds have, and those that we don't read there: their GIL is off.
FREE_THREADED_ONLY = ("frame.tlbc_index", "code.tlbc")
WITH_GIL_ONLY = ("interp.gil", "gil.size", "gil.holder", "gil.locked", "gil.switches")
# Sizes and meanings are plain numbers in a table, the others AT(offset).
PLAIN = ("interp.size", "gil.size", "tstate.size", "frame.size", "code.size", "str.ascii_data", "str.compact_data")

# Runs inside gdb.
GDB = """
import re
def number(expr):
    expr = re.sub(r"O\\(([\\w ]+), ([^)]*)\\)", r"(unsigned long)&((\\1 *)0)->\\2", expr)
    bit = re.fullmatch(r"BIT\\((\\w+), (\\w+)\\.(\\w+), .*\\)", expr)
    if bit:
        t = gdb.lookup_type(bit.group(1)).strip_typedefs()
        return t[bit.group(2)].type.strip_typedefs()[bit.group(3)].bitpos
    return int(gdb.parse_and_eval(expr))
for name, expr in wanted:
    try:
        print("FIELD", name, number(expr))
    except (gdb.error, KeyError) as e:
        print("FAILED", name, e)
"""

HEAD = """
#define Py_BUILD_CORE 1
#include "Python.h"
#include "internal/pycore_runtime.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_code.h"
#include "internal/pycore_dict.h"
#include "internal/pycore_moduleobject.h"
#if PY_VERSION_HEX >= 0x030e0000
#include "internal/pycore_interpframe_structs.h"
#endif
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#define O(type, member) offsetof(type, member)
#define BIT(type, bits, word) __extension__ ({ type x; unsigned v; \\
    memset(&x, 0, sizeof(x)); x.bits = 1; memcpy(&v, &x.word, sizeof(v)); \\
    (size_t)__builtin_ctz(v); })
"""

DEBUG_OFFSETS = """
#include "internal/pycore_ceval.h"
#include "internal/pycore_runtime_init.h"
#if PY_VERSION_HEX >= 0x030e0000
#include "internal/pycore_debug_offsets.h"
struct _Py_DebugOffsets d = _Py_DebugOffsets_INIT("xdebugpy");
#else
_PyRuntimeState d = _PyRuntimeState_INIT(d, "xdebugpy");
#endif
unsigned long n __attribute__((section("size"))) = sizeof(struct _Py_DebugOffsets);
"""


# Which member of _Py_DebugOffsets is which slot in debug_offsets.c, and from which minor version on.
SLOTS = [
    ("runtime_state", [("RUNTIME_FINALIZING", "finalizing", 13), ("RUNTIME_HEAD", "interpreters_head", 13)]),
    ("interpreter_state", [
        ("INTERP_SIZE", "size", 13), ("INTERP_ID", "id", 13), ("INTERP_NEXT", "next", 13), ("INTERP_THREADS", "threads_head", 13),
        ("INTERP_GC", "gc", 13),
        ("INTERP_MODULES", "imports_modules", 13), ("INTERP_GIL", "ceval_gil", 13), ("GIL", "gil_runtime_state", 13),
        ("GIL_LOCKED", "gil_runtime_state_locked", 13), ("GIL_HOLDER", "gil_runtime_state_holder", 13)]),
    ("thread_state", [
        ("TSTATE_SIZE", "size", 13), ("TSTATE_PREV", "prev", 13), ("TSTATE_NEXT", "next", 13), ("TSTATE_INTERP", "interp", 13),
        ("TSTATE_FRAME", "current_frame", 13), ("TSTATE_BASE_FRAME", "base_frame", 15), ("TSTATE_THREAD_ID", "thread_id", 13),
        ("TSTATE_NATIVE_TID", "native_thread_id", 13), ("TSTATE_DATASTACK", "datastack_chunk", 13), ("TSTATE_STATUS", "status", 13)]),
    ("interpreter_frame", [
        ("FRAME_SIZE", "size", 13), ("FRAME_PREVIOUS", "previous", 13), ("FRAME_CODE", "executable", 13),
        ("FRAME_INSTR", "instr_ptr", 13), ("FRAME_LOCALSPLUS", "localsplus", 13), ("FRAME_OWNER", "owner", 13),
        ("FRAME_TLBC_INDEX", "tlbc_index", 14)]),
    ("code_object", [
        ("CODE_FILENAME", "filename", 13), ("CODE_NAME", "name", 13), ("CODE_QUALNAME", "qualname", 13),
        ("CODE_LINETABLE", "linetable", 13), ("CODE_FIRSTLINENO", "firstlineno", 13), ("CODE_ARGCOUNT", "argcount", 13),
        ("CODE_LOCALSPLUSNAMES", "localsplusnames", 13), ("CODE_BYTECODE", "co_code_adaptive", 13), ("CODE_TLBC", "co_tlbc", 14)]),
    ("pyobject", [("OBJECT_TYPE", "ob_type", 13)]),
    ("type_object", [("TYPE_NAME", "tp_name", 13), ("TYPE_FLAGS", "tp_flags", 13)]),
    ("bytes_object", [("BYTES_SIZE", "ob_size", 13), ("BYTES_DATA", "ob_sval", 13)]),
    ("unicode_object", [
        ("STR_STATE", "state", 13), ("STR_LENGTH", "length", 13), ("STR_ASCII", "asciiobject_size", 13),
        ("STR_COMPACT", "compactunicodeobject_size", 15)]),
    ("gc", [("GC_SIZE", "size", 13), ("GC_COLLECTING", "collecting", 13)]),
]


def version(source):
    """(major, minor, micro) of headers or of a file."""
    if os.path.isfile(source):
        major, minor = re.search(r"python(\d)\.(\d+)", os.path.basename(source)).groups()
        with open(source, "rb") as f:
            micro = re.search(rb"%s\.%s\.(\d+)\+?\0" % (major.encode(), minor.encode()),
                              f.read())
        if not micro:
            sys.exit(f"mklayout: {source} does not tell its version")
        return int(major), int(minor), int(micro[1])
    with open(os.path.join(source, "patchlevel.h")) as f:
        text = f.read()
    part = {k: int(v) for k, v in re.findall(r"#define PY_(M\w+)_VERSION\s+(\d+)", text)}
    return part["MAJOR"], part["MINOR"], part["MICRO"]


def is_free_threaded(source):
    """Are these the headers, or is this the file, of a build without the GIL?"""
    if os.path.isfile(source):
        return bool(re.search(r"python\d\.\d+t", os.path.basename(source)))
    with open(os.path.join(source, "pyconfig.h")) as f:
        return bool(re.search(r"^#define Py_GIL_DISABLED 1", f.read(), re.M))


def fields(major, minor, free_threaded):
    """(name, expression) of each field of that version."""
    minor = minor if major == 3 else 0
    other = WITH_GIL_ONLY if free_threaded else FREE_THREADED_ONLY
    return [(name, expr) for name, expr, first, last in OLD_FIELDS + FIELDS
            if first <= minor <= last and name not in other]


def compile_c(source, out, include, args, *more):
    cc = os.environ.get("CC", "cc")
    multiarch = subprocess.run([cc, "-print-multiarch"], capture_output=True, text=True)
    above = os.path.join(include, "..")
    cmd = [cc, "-w", "-x", "c", "-", "-o", out, "-I", include,
           "-I", os.path.join(include, "internal"), "-idirafter", above,
           "-idirafter", os.path.join(above, multiarch.stdout.strip()), *more]
    if args.free_threaded:
        cmd.append("-DPy_GIL_DISABLED=1")
    run = subprocess.run(cmd, input=source, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"mklayout: {include}: {run.stderr.strip()[:2000]}")


def layout_of_file(path, args):
    """{field: value} as the DWARF of @path says."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(f"wanted = {fields(*version(path)[:2], args.free_threaded)!r}\n{GDB}")
        script.flush()
        run = subprocess.run(["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off",
                              "-x", script.name, path], capture_output=True, text=True)
    failed = re.findall(r"^FAILED (.*)", run.stdout, re.M)
    found = {k: int(v) for k, v in re.findall(r"^FIELD (\S+) (\d+)", run.stdout, re.M)}
    if failed or not found:
        sys.exit(f"mklayout: {path}: {'; '.join(failed) or run.stderr.strip()[:2000]}")
    return found


def layout(include, args):
    """{field: value} as the headers say."""
    if os.path.isfile(include):
        return layout_of_file(include, args)
    return compiled(include, fields(*version(include)[:2], args.free_threaded), args)


def slots(include, args):
    """{slot: position in _Py_DebugOffsets} as the headers say."""
    minor = version(include)[1]
    return compiled(include, [(slot, f"offsetof(struct _Py_DebugOffsets, {group}.{member})") for group, members in SLOTS
                              for slot, member, first in members if minor >= first], args)


def compiled(include, expressions, args):
    """{name: value} of C expressions."""
    lines = [f'printf("{name} %zu\\n", (size_t)({expr}));' for name, expr in expressions]
    source = HEAD + "int main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n"
    with tempfile.TemporaryDirectory() as tmp:
        exe = os.path.join(tmp, "layout")
        compile_c(source, exe, include, args)
        out = subprocess.run([exe], capture_output=True, text=True, check=True).stdout
    return {k: int(v) for k, v in (line.split() for line in out.splitlines())}


def table(path):
    """{field: value} of a table in C. Left out meanings are 0."""
    return {name: int(text, 0) for name, text in table_texts(path) if re.fullmatch(r"\d+|0x[0-9a-f]+", text)}


def table_texts(path):
    """(field, value as it is written, without AT()) of a table in C."""
    with open(path) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    body = text[text.index("= {") + 3:]
    group = ""
    for token in re.finditer(r"\.(\w+)\s*=\s*(?:(\{)|AT\((\d+)\)|(\w+))|(\})", body):
        name, opened, offset, plain, closed = token.groups()
        if closed:
            group = ""
        elif opened:
            group = name + "."
        else:
            yield group + name, offset or plain


def check(path, include, args):
    """Sentences about what differs."""
    want, got = layout(include, args), table(path)
    major, minor, micro = version(include)
    if (major, minor) >= (3, 13):  # such a target tells its own; the size grew within 3.13
        got["tstate.size"] = want["tstate.size"]
        # What depends on the size of the whole interpreter is used where that is the table's.
        if micro != got["micro_min"] and got["interp.size"] != want["interp.size"]:
            got.update((k, want[k]) for k in ("interp.size", "interp.code_versions"))
    if got.get("version") != major << 8 | minor:
        return [f"{path} is not the table of {major}.{minor}"]
    wrong = [f"{k}: {include} {v}, table {got.get(k, 'absent')}"
             for k, v in want.items() if got.get(k) != v]
    known = {name for name, *_ in OLD_FIELDS + FIELDS}
    wrong += [f"{k}: table {v}, not in {include}" for k, v in got.items()
              if k in known and k not in want and v]
    return wrong


def print_table(values, major, minor, micro):
    print(f"/* From {major}.{minor}.{micro}. */")
    print(f"\t.version = 0x{major << 8 | minor:04x},\n\t.micro_min = {micro},"
          f"\n\t.micro_max = {micro},")
    group, heads = None, [name.rpartition(".")[0] for name in values]
    for name, value in sorted(values.items(), key=lambda item: (not item[0].count("."), heads.index(item[0].rpartition(".")[0]))):
        head, _, field = name.rpartition(".")
        if head != group:
            print("\t},\n" if group else "", end="")
            print(f"\t.{head} = {{\n" if head else "", end="")
            group = head
        text = f"{value}" if name in PLAIN or not head else f"AT({value})"
        print(f"\t{chr(9) if head else ''}.{field} = {text},")
    if group:
        print("\t},")


FILE_HEAD = """/* SPDX-License-Identifier: MIT
 *
 * py{suffix} - CPython {of}, as the headers of {seen} say.
 *
 * What no header tells is that of {after}, and wants to be read (docs/ADD_A_PYTHON.md, 2).
 */
#include "offsets/pylayout.h"

const struct pylayout pylayout_{suffix} = {{"""


def print_file(include, args):
    """The table of a version, of which the one before is args.after."""
    seen, values = version(include), layout(include, args)
    major, minor = map(int, args.version.split(".")) if args.version else seen[:2]
    suffix = f"{major}_{minor}" + "t" * args.free_threaded
    after = os.path.basename(args.after)
    print(FILE_HEAD.format(suffix=suffix, of=f"{major}.{minor}", seen="%d.%d.%d" % seen, after=after))
    print_table(values, major, minor, seen[2])
    print(f"\n\t/* As in {after}. */")
    for name, text in table_texts(args.after):
        if "." not in name and name not in values and name not in ("version", "micro_min", "micro_max"):
            print(f"\t.{name} = {text},")
    print("};")


def print_slots(include, args):
    major, minor = map(int, args.version.split(".")) if args.version else version(include)[:2]
    print("{\n\t.version = 0x%04x,\n\t.at = {" % (major << 8 | minor))
    for slot, at in slots(include, args).items():
        print(f"\t\t[{slot}] = {at},")
    print("\t},\n}")


def debug_offsets(include, args):
    with tempfile.TemporaryDirectory() as tmp:
        obj, data, size = (os.path.join(tmp, n) for n in ("o", "data", "size"))
        compile_c(HEAD + DEBUG_OFFSETS, obj, include, args, "-c", "-fno-pic", "-fno-pie")
        for section, out in ((".data", data), ("size", size)):
            subprocess.run(["objcopy", "-O", "binary", "-j", section, obj, out], check=True)
        with open(data, "rb") as d, open(size, "rb") as s:
            n = struct.unpack("<Q", s.read())[0] // 8
            return struct.unpack(f"<{n}Q", d.read(n * 8))


def print_rows():
    """Which expression is which field, for pyfields.c: in which versions, of what kind, of which type and member."""
    kinds = ((r"O\(([\w ]+), ([\w.]+)\)(?: \+ (\d+))?", "OFFSET"), (r"sizeof\(([\w ]+)\)", "SIZE"),
             (r"BIT\((\w+), ([\w.]+), (\w+)\)", "BIT"), (r"()(\w+)", "CONSTANT"))
    for name, expr, first, last in OLD_FIELDS + FIELDS:
        match, kind = next((m, kind) for m, kind in ((re.fullmatch(regex, expr), kind) for regex, kind in kinds) if m)
        type_, member, more = (match.groups() + ("", ""))[:3]
        add, word = (0, more) if kind == "BIT" else (int(more or 0), "")
        only = "WITHOUT_GIL" if name in FREE_THREADED_ONLY else "WITH_GIL" if name in WITH_GIL_ONLY else "ANY"
        print(f'X({name}, {first}, {last}, {only}, {kind}, "{type_.replace("struct ", "")}", "{member or ""}", "{word}", {add})')


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--check", metavar="TABLE.c")
    p.add_argument("--debug-offsets", action="store_true")
    p.add_argument("--after", metavar="TABLE.c")
    p.add_argument("--slots", action="store_true")
    p.add_argument("--as", dest="version", metavar="X.Y")
    p.add_argument("--free-threaded", action="store_true")
    p.add_argument("--rows", action="store_true")
    p.add_argument("include", metavar="INCLUDE|FILE", nargs="?")
    args = p.parse_args()
    if args.rows:
        print_rows()
        return
    if not args.include:
        p.error("of which headers or file?")
    args.free_threaded |= is_free_threaded(args.include)
    if args.check:
        wrong = check(args.check, args.include, args)
        print("\n".join(wrong) or f"{args.check}: as {args.include} says")
        sys.exit(bool(wrong))
    if args.after:
        print_file(args.include, args)
        return
    if args.slots:
        print_slots(args.include, args)
        return
    if args.debug_offsets:
        print(", ".join(str(v) for v in debug_offsets(args.include, args)))
        return
    print_table(layout(args.include, args), *version(args.include))


if __name__ == "__main__":
    main()
