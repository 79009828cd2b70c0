/* SPDX-License-Identifier: MIT
 *
 * py3_13t - CPython 3.13 without the GIL (its headers, with Py_GIL_DISABLED).
 *
 * Of micro version 5; a running 3.13 tells most offsets itself (debug_offsets.c). The others
 * and the meanings are used as is.
 */
#include "offsets/pylayout.h"

const struct pylayout pylayout_3_13t = {
	.version = 0x030d,
	.micro_min = 5,
	.micro_max = 5,

	.runtime = {
		.interp_head = AT(632),
		.main_thread = AT(656),
		.finalizing = AT(608),
	},
	.interp = {
		.size = 215616,
		.next = AT(7264),
		.id = AT(7272),
		.threads_head = AT(7344),
		.threads_unique = AT(7336),
		.code_versions = AT(20092),
		.modules = AT(7664),
	},
	.tstate = {
		.size = 304,
		.next = AT(8),
		.prev = AT(0),
		.interp = AT(16),
		.thread_id = AT(152),
		.native_tid = AT(160),
		.frame = AT(72),
		.datastack_chunk = AT(232),
		.status = AT(32),
		.exc_info = AT(120),
	},
	.frame = {
		.size = 80,
		.code = AT(0),
		.previous = AT(8),
		.instr = AT(56),
		.localsplus = AT(72),
		.owner = AT(70),
		.object = AT(48),
		.stacktop = AT(64),
	},
	.gen = { .exc_state = AT(56), .exc_previous = AT(64), .frame = AT(88) },
	.code = {
		.size = 216,
		.filename = AT(128),
		.name = AT(136),
		.qualname = AT(144),
		.linetable = AT(152),
		.firstlineno = AT(84),
		.flags = AT(64),
		.version = AT(108),
		.firsttraceable = AT(200),
		.stacksize = AT(80),
		.nlocalsplus = AT(88),
		.bytecode = AT(216),
	},
	.object = {
		.type = AT(24),
		.type_name = AT(40),
		.type_flags = AT(184),
		.type_size = AT(48),
		.type_keys = AT(896),
	},
	.dict = { .keys = AT(48), .values = AT(56) },
	.dictkeys = {
		.index_log2 = AT(9),
		.kind = AT(10),
		.n = AT(24),
		.entries = AT(32),
	},
	.module = { .dict = AT(32) },
	.integer = { .digit = AT(40) },
	.str = {
		.length = AT(32),
		.hash = AT(40),
		.state = AT(48),
		.ascii_data = 56, /* sizeof(PyASCIIObject) */
		.compact_data = 72, /* sizeof(PyCompactUnicodeObject) */
	},
	.bytes = { .size = AT(32), .data = AT(48) },

	.owner_shim = 3, /* FRAME_OWNED_BY_CSTACK */
	.owner_generator = 1, /* FRAME_OWNED_BY_GENERATOR */
	.active_bit = 4, /* _status.active follows four others */
	/* struct _PyUnicodeObject_state: interned:2, kind:3, compact:1, ascii:1. */
	.str_kind_shift = 2,
	.str_compact_bit = 5,
	.str_ascii_bit = 6,
	.free_threaded = true,
	.attrs = PY_ATTRS_INLINE_BARE,
	.attrs_first = 8,
	.int_one = 8, /* lv_tag: one digit above three bits, 0 of them the sign */
	.linetable = PY_LOCATIONS_311,
};
