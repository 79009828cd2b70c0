/* SPDX-License-Identifier: MIT
 *
 * py3_15t - CPython 3.15 without the GIL (its headers, with Py_GIL_DISABLED).
 *
 * Of micro version 2; a running 3.15 tells most offsets itself (debug_offsets.c). The others
 * and the meanings are used as is.
 */
#include "offsets/pylayout.h"

const struct pylayout pylayout_3_15t = {
	.version = 0x030f,
	.micro_min = 2,
	.micro_max = 2,

	.runtime = {
		.interp_head = AT(936),
		.main_thread = AT(960),
		.finalizing = AT(912),
	},
	.interp = {
		.size = 250328,
		.next = AT(7264),
		.id = AT(7272),
		.threads_head = AT(7336),
		.threads_unique = AT(7328),
		.code_versions = AT(20004),
		.modules = AT(7592),
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
		.owner = AT(78),
		.object = AT(48),
		.tlbc_index = AT(72),
	},
	.code = {
		.size = 232,
		.filename = AT(128),
		.name = AT(136),
		.qualname = AT(144),
		.linetable = AT(152),
		.firstlineno = AT(84),
		.flags = AT(64),
		.version = AT(108),
		.firsttraceable = AT(208),
		.tlbc = AT(224),
		.bytecode = AT(232),
	},
	.object = {
		.type = AT(24),
		.type_name = AT(40),
		.type_flags = AT(184),
		.type_size = AT(48),
		.type_keys = AT(904),
	},
	.dict = { .keys = AT(48), .values = AT(56) },
	.dictkeys = {
		.index_log2 = AT(9),
		.kind = AT(10),
		.n = AT(24),
		.entries = AT(32),
	},
	.module = { .dict = AT(32), .state = AT(40) },
	.integer = { .digit = AT(40) },
	.str = {
		.length = AT(32),
		.hash = AT(40),
		.state = AT(48),
		.ascii_data = 56, /* sizeof(PyASCIIObject) */
		.compact_data = 72, /* sizeof(PyCompactUnicodeObject) */
	},
	.bytes = { .size = AT(32), .data = AT(48) },

	.owner_shim = 3, /* FRAME_OWNED_BY_INTERPRETER */
	.owner_generator = 1, /* FRAME_OWNED_BY_GENERATOR */
	/* f_executable is a _PyStackRef; objects are aligned to 8 and more. Its tag is that of
	 * a reference that is not counted: most code is deferred. */
	.code_tag_mask = 3,
	.active_bit = 4, /* _status.active follows four others */
	/* struct _PyUnicodeObject_state: a byte interned, kind:3, compact:1, ascii:1. */
	.str_kind_shift = 8,
	.str_compact_bit = 11,
	.str_ascii_bit = 12,
	.free_threaded = true,
	.attrs = PY_ATTRS_INLINE_BARE,
	.attrs_first = 8,
	.int_one = 8, /* lv_tag: as in 3.13 */
	.linetable = PY_LOCATIONS_311,
};
