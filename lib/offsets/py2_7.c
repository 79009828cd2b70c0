/* SPDX-License-Identifier: MIT
 *
 * py2_7 - CPython 2.7 (its headers; Python/pystate.c for struct _is).
 */
#include "offsets/pylayout.h"

const struct pylayout pylayout_2_7 = {
	.version = 0x0207,
	.micro_min = 18,
	.micro_max = 18,

	.runtime = {
		.interp_head = AT(0), /* the variable itself: there is no _PyRuntime */
	},
	.interp = {
		.next = AT(0),
		.threads_head = AT(8),
		.modules = AT(16),
	},
	.tstate = {
		.size = 168,
		.next = AT(0),
		.interp = AT(8),
		.thread_id = AT(144),
		.frame = AT(16),
	},
	.frame = {
		.size = 128,
		.code = AT(32),
		.previous = AT(24),
		.instr = AT(120),
	},
	.code = {
		.size = 128,
		.filename = AT(80),
		.qualname = AT(88), /* co_name: there is no other */
		.linetable = AT(104),
		.firstlineno = AT(96),
		.flags = AT(28),
		.instructions = AT(32),
	},
	.object = {
		.type = AT(8),
		.type_name = AT(24),
		.type_flags = AT(168),
		.type_dict = AT(288),
	},
	.dict = { .keys = AT(40), .mask = AT(32), .fill = AT(16) },
	.module = { .dict = AT(16) },
	.integer = { .digit = AT(16) }, /* PyIntObject */
	/* PyStringObject: no state. */
	.str = { .length = AT(16), .ascii_data = 40, .compact_data = 40 },
	.bytes = { .size = AT(16), .data = AT(36) },

	.lasti_unit = 1, /* f_lasti counts bytes */
	.attrs = PY_ATTRS_DICT,
	.thread_attrs = PY_THREAD_27,
	.linetable = PY_LNOTAB_UNSIGNED,
};
