/* SPDX-License-Identifier: MIT
 *
 * py3_15 - CPython 3.15 (headers Include/cpython and Include/internal of 3.15).
 *
 * Offsets are those of the build with a GIL, micro version 2; a running 3.15 tells
 * its own (debug_offsets.c), free-threaded builds too. The meanings are used as is.
 */
#include "offsets/pylayout.h"

const struct pylayout pylayout_3_15 = {
	.version = 0x030f,
	.micro_min = 2,
	.micro_max = 2,

	.runtime = {
		.interp_head = AT(936),
		.main_thread = AT(960),
		.finalizing = AT(912),
	},
	.interp = {
		.size = 226232,
		.next = AT(7264),
		.id = AT(7272),
		.threads_head = AT(7336),
		.threads_unique = AT(7328),
		.code_versions = AT(14264),
		.modules = AT(7592),
		.gil = AT(16),
	},
	.gil = {
		.size = 208,
		.holder = AT(8),
		.locked = AT(16),
		.switches = AT(24),
	},
	.tstate = {
		.size = 888,
		.next = AT(8),
		.prev = AT(0),
		.interp = AT(16),
		.thread_id = AT(176),
		.native_tid = AT(184),
		.frame = AT(72),
		.datastack_chunk = AT(256),
		.status = AT(32),
		.base_frame = AT(80),
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
		.type_keys = AT(888),
	},
	.dict = { .keys = AT(32), .values = AT(40) },
	.dictkeys = {
		.index_log2 = AT(9),
		.kind = AT(10),
		.n = AT(24),
		.entries = AT(32),
	},
	.module = { .dict = AT(16), .state = AT(24) },
	.integer = { .digit = AT(24) },
	.str = {
		.length = AT(16),
		.hash = AT(24),
		.state = AT(32),
		.ascii_data = 40, /* sizeof(PyASCIIObject) */
		.compact_data = 56, /* sizeof(PyCompactUnicodeObject) */
	},
	.bytes = { .size = AT(16), .data = AT(32) },

	.owner_shim = 3, /* FRAME_OWNED_BY_INTERPRETER, the base_frame sentinel too */
	.owner_generator = 1, /* FRAME_OWNED_BY_GENERATOR */
	.code_tag_mask = 3, /* f_executable is a _PyStackRef: Py_TAG_BITS */
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
