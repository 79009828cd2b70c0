/* SPDX-License-Identifier: MIT
 *
 * py3_7 - CPython 3.7 (its headers; Include/internal too).
 */
#include "offsets/pylayout.h"

const struct pylayout pylayout_3_7 = {
	.version = 0x0307,
	.micro_min = 16,
	.micro_max = 16,

	.runtime = {
		.interp_head = AT(24),
		.finalizing = AT(8),
		.gil = AT(1264),
		.current = AT(1480),
	},
	.interp = {
		.next = AT(0),
		.id = AT(16),
		.threads_head = AT(8),
		.modules = AT(40),
	},
	.gil = {
		.size = 208,
		.holder = AT(8),
		.locked = AT(16),
		.switches = AT(24),
	},
	.tstate = {
		.size = 280,
		.next = AT(8),
		.prev = AT(0),
		.interp = AT(16),
		.thread_id = AT(176),
		.frame = AT(24),
	},
	.frame = {
		.size = 112,
		.code = AT(32),
		.previous = AT(24),
		.instr = AT(104),
	},
	.code = {
		.size = 144,
		.filename = AT(96),
		.qualname = AT(104), /* co_name: there is no other */
		.linetable = AT(112),
		.firstlineno = AT(36),
		.flags = AT(32),
		.instructions = AT(40),
	},
	.object = {
		.type = AT(8),
		.type_name = AT(24),
		.type_flags = AT(168),
		.type_dict = AT(288),
	},
	.dict = { .keys = AT(32), .values = AT(40) },
	.dictkeys = { .size = AT(8), .n = AT(32), .entries = AT(40) },
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

	/* struct PyASCIIObject.state: interned:2, kind:3, compact:1, ascii:1. */
	.str_kind_shift = 2,
	.str_compact_bit = 5,
	.str_ascii_bit = 6,
	.lasti_unit = 1, /* f_lasti counts bytes */
	.attrs = PY_ATTRS_DICT,
	.int_one = 1, /* ob_size */
	.thread_attrs = PY_THREAD_IDENT,
	.linetable = PY_LNOTAB,
};
