/* SPDX-License-Identifier: MIT
 *
 * py3_14 - CPython 3.14 (headers Include/cpython and Include/internal of 3.14).
 *
 * Offsets are those of the build with a GIL, micro version 10; a running 3.14 tells
 * its own (debug_offsets.c), free-threaded builds too. The meanings are used as is.
 */
#include "offsets/pylayout.h"

const struct pylayout pylayout_3_14 = {
	.version = 0x030e,
	.micro_min = 10,
	.micro_max = 10,

	.runtime = {
		.interp_head = AT(808),
		.main_thread = AT(832),
		.finalizing = AT(784),
	},
	.interp = {
		.size = 225864,
		.next = AT(7272),
		.id = AT(7280),
		.threads_head = AT(7344),
		.threads_unique = AT(7336),
		.code_versions = AT(14256),
		.modules = AT(7688),
		.gil = AT(16),
	},
	.gil = {
		.size = 208,
		.holder = AT(8),
		.locked = AT(16),
		.switches = AT(24),
	},
	.tstate = {
		.size = 832,
		.next = AT(8),
		.prev = AT(0),
		.interp = AT(16),
		.thread_id = AT(152),
		.native_tid = AT(160),
		.frame = AT(72),
		.datastack_chunk = AT(232),
		.status = AT(32),
	},
	.frame = {
		.size = 88,
		.code = AT(0),
		.previous = AT(8),
		.instr = AT(56),
		.localsplus = AT(80),
		.owner = AT(74),
		.object = AT(48),
	},
	.code = {
		.size = 208,
		.filename = AT(112),
		.name = AT(120),
		.qualname = AT(128),
		.linetable = AT(136),
		.firstlineno = AT(68),
		.flags = AT(48),
		.version = AT(92),
		.firsttraceable = AT(192),
		.bytecode = AT(208),
	},
	.object = {
		.type = AT(8),
		.type_name = AT(24),
		.type_flags = AT(168),
		.type_size = AT(32),
		.type_keys = AT(880),
	},
	.dict = { .keys = AT(32), .values = AT(40) },
	.dictkeys = {
		.index_log2 = AT(9),
		.kind = AT(10),
		.n = AT(24),
		.entries = AT(32),
	},
	.module = { .dict = AT(16), .state = AT(32) },
	.integer = { .digit = AT(24) },
	.str = {
		.length = AT(16),
		.hash = AT(24),
		.state = AT(32),
		.ascii_data = 40, /* sizeof(PyASCIIObject) */
		.compact_data = 56, /* sizeof(PyCompactUnicodeObject) */
	},
	.bytes = { .size = AT(16), .data = AT(32) },

	.owner_shim = 3, /* FRAME_OWNED_BY_INTERPRETER; 4 is FRAME_OWNED_BY_CSTACK */
	.owner_generator = 1, /* FRAME_OWNED_BY_GENERATOR */
	/* f_executable is a _PyStackRef. Its tag is bit 0 (pycore_stackref.h), but
	 * objects are aligned to 8 and more, so all of Py_INT_TAG may go. */
	.code_tag_mask = 3,
	.active_bit = 4, /* _status.active follows four others */
	/* struct _PyUnicodeObject_state: interned:2, kind:3, compact:1, ascii:1. */
	.str_kind_shift = 2,
	.str_compact_bit = 5,
	.str_ascii_bit = 6,
	.attrs = PY_ATTRS_INLINE,
	.attrs_first = 8,
	.int_one = 8, /* lv_tag: as in 3.13 */
	.linetable = PY_LOCATIONS_311,
};
