/* SPDX-License-Identifier: MIT
 *
 * tasklayout - the rows.
 */
#include "offsets/tasklayout.h"

/* clang-format off: a row is a line or two */

/* 3.10 got an exception's traceback between two micro versions, which is 8 bytes more. */
static const struct tasklayout tasks[] = {
	{ .from = 0x0307, .to = 0x0307, .size = 136, .state = 72, .coro = 112 },
	{ .from = 0x0308, .to = 0x0308, .size = 144, .state = 72, .coro = 112, .name = AT(120) },
	{ .from = 0x0309, .to = 0x030a, .size = 184, .state = 80, .coro = 152, .name = AT(160) },
	{ .from = 0x030a, .to = 0x030a, .size = 192, .state = 88, .coro = 160, .name = AT(168) },
	{ .from = 0x030b, .to = 0x030c, .size = 176, .state = 88, .coro = 136, .name = AT(144) },
	{ .from = 0x030d, .to = 0x030d, .size = 144, .state = 96, .coro = 120, .name = AT(128) },
	{ .from = 0x030e, .to = 0x030f, .size = 168, .state = 104, .coro = 128, .name = AT(136),
	  .node = AT(152) },
	{ .from = 0x030d, .to = 0x030d, .free_threaded = true, .size = 160, .state = 112,
	  .coro = 136, .name = AT(144) },
	{ .from = 0x030e, .to = 0x030f, .free_threaded = true, .size = 192, .state = 120,
	  .coro = 144, .name = AT(152), .node = AT(168) },
};

/* A future's head is the same from 3.7 to 3.13; a function's fields moved in 3.10. */
static const struct awaiterlayout awaiters[] = {
	{ .from = 0x0307, .to = 0x0309, .callback = 24, .callbacks = 40, .func_qualname = 104,
	  .func_closure = 48, .func_module = 88 },
	{ .from = 0x030a, .to = 0x030d, .callback = 24, .callbacks = 40, .func_qualname = 40,
	  .func_closure = 72, .func_module = 104 },
	{ .from = 0x030e, .to = 0x030f, .awaited_by = 96, .awaited_by_is_set = 109 },
	{ .from = 0x030d, .to = 0x030d, .free_threaded = true, .callback = 40, .callbacks = 56,
	  .func_qualname = 56, .func_closure = 88, .func_module = 120 },
	{ .from = 0x030e, .to = 0x030f, .free_threaded = true, .awaited_by = 112,
	  .awaited_by_is_set = 125 },
};

/* The second RESUME is what the interpreter makes of the first: of code that is hot, in 3.11,
 * or that is watched, in 3.12. */
enum { YIELD_FROM = 72, RESUME = 151, RESUME_QUICK = 150, INSTRUMENTED_RESUME = 240 };

static const struct genlayout gens[] = {
#define UP_TO_3_9(v) \
	{ .version = v, .frame = 16, .qualname = 56, .running = AT(24), .frame_of = AT(96), \
	  .values = AT(64), .top = AT(72), .opcode = { YIELD_FROM, YIELD_FROM } }
	UP_TO_3_9(0x0307),
	UP_TO_3_9(0x0308),
	UP_TO_3_9(0x0309),
#undef UP_TO_3_9
	{ .version = 0x030a, .frame = 16, .qualname = 48, .state = AT(108), .frame_of = AT(88),
	  .values = AT(64), .depth = AT(80), .opcode = { YIELD_FROM, YIELD_FROM } },
	{ .version = 0x030b, .frame = 80, .qualname = 40, .state = AT(75),
	  .opcode = { RESUME, RESUME_QUICK }, .argument = 2 },
	{ .version = 0x030c, .frame = 72, .qualname = 32, .state = AT(67),
	  .opcode = { RESUME, INSTRUMENTED_RESUME }, .argument = 2 },
	{ .version = 0x030d, .frame = 72, .qualname = 32, .state = AT(67), .waits = -1 },
	{ .version = 0x030e, .frame = 72, .qualname = 32, .state = AT(67), .top = AT(64),
	  .waits = -1 },
	{ .version = 0x030f, .frame = 72, .qualname = 32, .state = AT(67), .top = AT(64),
	  .waits = 2, .runs = 4, .above = 1 },
#define WITHOUT_GIL .free_threaded = true, .frame = 88, .qualname = 48, .state = AT(83)
	{ .version = 0x030d, WITHOUT_GIL, .waits = -1 },
	{ .version = 0x030e, WITHOUT_GIL, .top = AT(64), .waits = -1 },
	/* 3 waits while another thread looks at what it awaits. */
	{ .version = 0x030f, WITHOUT_GIL, .top = AT(64), .waits = 2, .runs = 4, .above = 1 },
#undef WITHOUT_GIL
};
/* clang-format on */

/* The runtime's or interpreter's gc, of debug info, and 24 bytes; from 3.13 on of headers. The
 * first one of 3.14 collects in increments (3.14.0 to 3.14.4), the second in generations. */
static const struct gclayout gcs[] = {
	{ .version = 0x0308, .of_runtime = true, .lists = 344 + 24, .frozen = 80 },
	{ .version = 0x0309, .lists = 616 + 24, .frozen = 80 },
	{ .version = 0x030a, .lists = 616 + 24, .frozen = 80 },
	{ .version = 0x030b, .lists = 648 + 24, .frozen = 80 },
	{ .version = 0x030c, .lists = 112 + 24, .frozen = 80 },
	{ .version = 0x030d, .size = 240, .collecting = 200, .lists = 24, .frozen = 80 },
	{ .version = 0x030e, .size = 240, .collecting = 192, .lists = 24, .frozen = 72 },
	{ .version = 0x030e, .size = 264, .collecting = 192, .lists = 24, .frozen = 72 },
	{ .version = 0x030f, .size = 176, .collecting = 112, .lists = 8, .frozen = 72 },
};

#define FITS(row, l)                                                                   \
	((l)->version >= (row).from && (l)->version <= (row).to &&                     \
	 (l)->free_threaded == (row).free_threaded)

const struct tasklayout *tasklayout_find(const struct pylayout *l, uint64_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++)
		if (FITS(tasks[i], l) && size == tasks[i].size)
			return &tasks[i];
	return NULL;
}

const struct tasklayout *tasklayout_of_lists(const struct pylayout *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++)
		if (FITS(tasks[i], l) && pyoff_has(tasks[i].node))
			return &tasks[i];
	return NULL;
}

const struct genlayout *genlayout_find(const struct pylayout *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(gens); i++)
		if (gens[i].version == l->version &&
		    gens[i].free_threaded == l->free_threaded)
			return &gens[i];
	return NULL;
}

const struct awaiterlayout *awaiterlayout_find(const struct pylayout *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(awaiters); i++)
		if (FITS(awaiters[i], l))
			return &awaiters[i];
	return NULL;
}

bool gclayout_known(uint16_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(gcs); i++)
		if (gcs[i].version == version)
			return true;
	return false;
}

const struct gclayout *gclayout_find(uint16_t version, uint32_t size, uint32_t collecting)
{
	for (size_t i = 0; i < ARRAY_SIZE(gcs); i++)
		if (gcs[i].version == version && gcs[i].size == size &&
		    gcs[i].collecting == collecting)
			return &gcs[i];
	return NULL;
}
