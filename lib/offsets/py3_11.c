/* SPDX-License-Identifier: MIT
 *
 * py3_11 - CPython 3.11 (headers Include/cpython and Include/internal of 3.11).
 */
#include "offsets/pylayout.h"

const struct pylayout pylayout_3_11 = {
	.version = 0x030b,
	.micro_min = 2,
	.micro_max = 7,

	.runtime = {
		.interp_head = AT(40),
		.main_thread = AT(80),
		.finalizing = AT(24),
		.gil = AT(360),
		.current = AT(576),
	},
	.interp = {
		.next = AT(0),
		.id = AT(48),
		.threads_head = AT(16),
		.threads_unique = AT(8),
		.modules = AT(888),
	},
	.gil = {
		.size = 208,
		.holder = AT(8),
		.locked = AT(16),
		.switches = AT(24),
	},
	.tstate = {
		.size = 360,
		.next = AT(8),
		.prev = AT(0),
		.interp = AT(16),
		.thread_id = AT(152),
		.native_tid = AT(160),
		.cframe = AT(56),
		.datastack_chunk = AT(296),
		.exc_info = AT(120),
	},
	.cframe = { .current_frame = AT(8), .previous = AT(16) },
	.frame = {
		.size = 80,
		.code = AT(32),
		.previous = AT(48),
		.instr = AT(56),
		.localsplus = AT(72),
		.owner = AT(69),
		.is_entry = AT(68),
		.func = AT(0),
		.object = AT(40),
		.stacktop = AT(64),
	},
	.func = { .code = AT(48), .version = AT(128) },
	.gen = { .exc_state = AT(48), .exc_previous = AT(56), .frame = AT(80) },
	.code = {
		.size = 184,
		.filename = AT(112),
		.name = AT(120),
		.qualname = AT(128),
		.linetable = AT(136),
		.firstlineno = AT(72),
		.flags = AT(48),
		.firsttraceable = AT(168),
		.stacksize = AT(68),
		.nlocalsplus = AT(76),
		.bytecode = AT(184),
	},
	.object = {
		.type = AT(8),
		.type_name = AT(24),
		.type_flags = AT(168),
		.type_size = AT(32),
		.type_keys = AT(872),
	},
	.dict = { .keys = AT(32), .values = AT(40) },
	.dictkeys = {
		.index_log2 = AT(9),
		.kind = AT(10),
		.n = AT(24),
		.entries = AT(32),
	},
	.module = { .dict = AT(16) },
	.integer = { .digit = AT(24) },
	.str = {
		.length = AT(16),
		.hash = AT(24),
		.state = AT(32),
		.ascii_data = 48, /* sizeof(PyASCIIObject) */
		.compact_data = 72, /* sizeof(PyCompactUnicodeObject) */
	},
	.bytes = { .size = AT(16), .data = AT(32) },

	.owner_shim = 0, /* no shim frames: is_entry says where C calls in */
	.owner_generator = 1, /* FRAME_OWNED_BY_GENERATOR */
	/* struct _PyUnicodeObject_state: interned:2, kind:3, compact:1, ascii:1. */
	.str_kind_shift = 2,
	.str_compact_bit = 5,
	.str_ascii_bit = 6,
	.attrs = PY_ATTRS_BEFORE,
	.int_one = 1, /* ob_size */
	.linetable = PY_LOCATIONS_311,
};
