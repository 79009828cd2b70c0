/* SPDX-License-Identifier: MIT
 *
 * tasklayout - the rows.
 */
#include "offsets/tasklayout.h"

/* 3.10 got an exception's traceback between two micro versions, which is 8 bytes more. */
static const struct tasklayout tasks[] = {
	{ .from = 0x0307, .to = 0x0307, .size = 136, .state = 72, .coro = 112 },
	{ .from = 0x0308,
	  .to = 0x0308,
	  .size = 144,
	  .state = 72,
	  .coro = 112,
	  .name = AT(120) },
	{ .from = 0x0309,
	  .to = 0x030a,
	  .size = 184,
	  .state = 80,
	  .coro = 152,
	  .name = AT(160) },
	{ .from = 0x030a,
	  .to = 0x030a,
	  .size = 192,
	  .state = 88,
	  .coro = 160,
	  .name = AT(168) },
	{ .from = 0x030b,
	  .to = 0x030c,
	  .size = 176,
	  .state = 88,
	  .coro = 136,
	  .name = AT(144) },
	{ .from = 0x030d,
	  .to = 0x030d,
	  .size = 144,
	  .state = 96,
	  .coro = 120,
	  .name = AT(128) },
	{ .from = 0x030e,
	  .to = 0x030f,
	  .size = 168,
	  .state = 104,
	  .coro = 128,
	  .name = AT(136),
	  .node = AT(152) },
};

/* 3.14.10 and 3.15.2 of Debian: section .AsyncioDebug of the file that has the module. */
static const struct tasklists lists[] = {
	{ .version = 0x030e,
	  .interp_size = 225864,
	  .in_interp = 10880,
	  .in_tstate = 880,
	  .running = 872 },
	{ .version = 0x030f,
	  .interp_size = 226240,
	  .in_interp = 10856,
	  .in_tstate = 1048,
	  .running = 1032 },
};

/* A future's head is the same from 3.7 to 3.13; a function's fields moved in 3.10. */
static const struct awaiterlayout awaiters[] = {
	{ .from = 0x0307,
	  .to = 0x0309,
	  .callback = 24,
	  .callbacks = 40,
	  .func_qualname = 104,
	  .func_closure = 48,
	  .func_module = 88 },
	{ .from = 0x030a,
	  .to = 0x030d,
	  .callback = 24,
	  .callbacks = 40,
	  .func_qualname = 40,
	  .func_closure = 72,
	  .func_module = 104 },
	{ .from = 0x030e, .to = 0x030f, .awaited_by = 96, .awaited_by_is_set = 109 },
};

/* The second RESUME is what the interpreter makes of the first: of code that is hot, in 3.11,
 * or that is watched, in 3.12. */
enum { YIELD_FROM = 72, RESUME = 151, RESUME_QUICK = 150, INSTRUMENTED_RESUME = 240 };

static const struct genlayout gens[] = {
#define UP_TO_3_9(v)                                                             \
	{                                                                        \
		.version = v, .frame = 16, .qualname = 56, .running = AT(24),    \
		.frame_of = AT(96), .values = AT(64), .top = AT(72), .opcode = { \
			YIELD_FROM,                                              \
			YIELD_FROM                                               \
		}                                                                \
	}
	UP_TO_3_9(0x0307),
	UP_TO_3_9(0x0308),
	UP_TO_3_9(0x0309),
#undef UP_TO_3_9
	{ .version = 0x030a,
	  .frame = 16,
	  .qualname = 48,
	  .state = AT(108),
	  .frame_of = AT(88),
	  .values = AT(64),
	  .depth = AT(80),
	  .opcode = { YIELD_FROM, YIELD_FROM } },
	{ .version = 0x030b,
	  .frame = 80,
	  .qualname = 40,
	  .state = AT(75),
	  .opcode = { RESUME, RESUME_QUICK },
	  .argument = 2 },
	{ .version = 0x030c,
	  .frame = 72,
	  .qualname = 32,
	  .state = AT(67),
	  .opcode = { RESUME, INSTRUMENTED_RESUME },
	  .argument = 2 },
	{ .version = 0x030d, .frame = 72, .qualname = 32, .state = AT(67), .waits = -1 },
	{ .version = 0x030e,
	  .frame = 72,
	  .qualname = 32,
	  .state = AT(67),
	  .top = AT(64),
	  .waits = -1 },
	{ .version = 0x030f,
	  .frame = 72,
	  .qualname = 32,
	  .state = AT(67),
	  .top = AT(64),
	  .waits = 2,
	  .runs = 4,
	  .above = 1 },
};

/* The runtime's or interpreter's gc, of debug info, and 24 bytes: 3.13.0's is told by the
 * process, too, and lies elsewhere if an interpreter is of another size. */
static const struct gclayout gcs[] = {
	{ .version = 0x0308, .of_runtime = true, .generations = 344 + 24 },
	{ .version = 0x0309, .generations = 616 + 24 },
	{ .version = 0x030a, .generations = 616 + 24 },
	{ .version = 0x030b, .generations = 648 + 24 },
	{ .version = 0x030c, .generations = 112 + 24 },
	{ .version = 0x030d, .generations = 7400 + 24 },
};

const struct tasklayout *tasklayout_find(uint16_t version, uint64_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++)
		if (version >= tasks[i].from && version <= tasks[i].to &&
		    size == tasks[i].size)
			return &tasks[i];
	return NULL;
}

const struct tasklayout *tasklayout_of_lists(uint16_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++)
		if (version >= tasks[i].from && version <= tasks[i].to &&
		    pyoff_has(tasks[i].node))
			return &tasks[i];
	return NULL;
}

const struct tasklists *tasklists_find(uint16_t version, uint32_t interp_size)
{
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (lists[i].version == version && lists[i].interp_size == interp_size)
			return &lists[i];
	return NULL;
}

const struct genlayout *genlayout_find(uint16_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(gens); i++)
		if (gens[i].version == version)
			return &gens[i];
	return NULL;
}

const struct awaiterlayout *awaiterlayout_find(uint16_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(awaiters); i++)
		if (version >= awaiters[i].from && version <= awaiters[i].to)
			return &awaiters[i];
	return NULL;
}

const struct gclayout *gclayout_find(uint16_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(gcs); i++)
		if (gcs[i].version == version)
			return &gcs[i];
	return NULL;
}
