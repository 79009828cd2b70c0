/* SPDX-License-Identifier: MIT
 *
 * emit: what a reader tells of codes that it forgets, of records and to the control thread;
 * also where a queue has no room.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/stats.h"
#include "capture/reader_int.h"
#define seen seen_code /* the readers have another struct of that name */
#include "python/pystack_int.h"
#undef seen

enum { SLOT = 3, GENERATION = 5, NEXT = 5000 };
static const uint64_t SLOT_MARK = UINT64_C(3) << 52, MARK = UINT64_C(3) << 52 | UINT64_C(5)
											<< 40;

struct fix {
	struct reader *r;
	struct reader_config c;
	struct stats stats;
	struct cpu_slot slot;
};

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	f->r = calloc(1, sizeof(*f->r));
	f->c = (struct reader_config){ .stats = &f->stats, .kick = eventfd(0, EFD_NONBLOCK) };
	f->slot.index = SLOT;
	f->slot.generation = GENERATION;
	assert_int_equal(queue_init(&f->slot.queue, 1 << 16), 0);
	assert_int_equal(queue_init(&f->slot.ctl, 1 << 16), 0);
	f->slot.queue.hurry = -1;
	f->r->c = &f->c;
	f->r->slot = &f->slot;
	f->r->ps = pystack_create(16, emit_code, f->r);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	queue_deinit(&f->slot.queue);
	queue_deinit(&f->slot.ctl);
	close(f->c.kick);
	pystack_destroy(f->r->ps);
	free(f->r);
	free(f);
	return 0;
}

/* Three codes, of which the first was met since codes were forgotten the last time. */
static void have_codes(struct fix *f)
{
	struct pystack *p = f->r->ps;

	p->codes[0] = (struct code){ .program = 1, .at = 0x1000, .id = 10, .met = 21 };
	p->codes[1] = (struct code){ .program = 1, .at = 0x2000, .id = 11, .met = 20 };
	p->codes[2] =
		(struct code){ .program = 1, .at = 0x3000, .id = 12, .met = 22, .bad = true };
	p->n_codes = 3;
	p->next_id = NEXT;
	p->aged_stamp = 20;
	p->stamp = 30;
}

static const void *next(struct fix *f, uint32_t type)
{
	const struct queue_record *rec = queue_peek(&f->slot.queue);

	assert_non_null(rec);
	assert_int_equal(rec->type, type);
	return rec->data;
}

/* Which are kept, with which numbers, and then that all others are gone. Numbers are unique
 * over all CPUs and over the readers of a CPU; those of its earlier readers are gone, too. */
static void codes_are_gone(void **state)
{
	struct fix *f = *state;
	const struct q_code_kept *kept;
	const struct q_codes_gone *gone;
	uint64_t before = now_ns();

	have_codes(f);
	emit_codes_gone(f->r);
	kept = next(f, Q_CODE_KEPT);
	assert_int_equal(kept->id, MARK | NEXT);
	assert_int_equal(kept->was, MARK | 10);
	queue_pop(&f->slot.queue);
	gone = next(f, Q_CODES_GONE);
	assert_int_equal(gone->from, SLOT_MARK);
	assert_int_equal(gone->below, MARK | NEXT);
	assert_in_range(gone->time, before, now_ns());
	queue_pop(&f->slot.queue);
	assert_null(queue_peek(&f->slot.queue));
	assert_int_equal(f->r->ps->n_codes, 1);
	emit_codes_gone(f->r); /* not again so soon */
	assert_null(queue_peek(&f->slot.queue));
}

static void fill(struct queue *q)
{
	while (queue_reserve(q, Q_SIDE, 8))
		queue_commit(q);
}

/* What can't be told to be kept is forgotten: it is copied again when it is met. */
static void no_room_for_codes(void **state)
{
	static struct pycode_copy none;
	struct fix *f = *state;

	have_codes(f);
	fill(&f->slot.queue);
	emit_codes_gone(f->r);
	assert_int_equal(f->r->ps->n_codes, 0);
	assert_false(emit_code(f->r, 1, &none));
	for (; queue_peek(&f->slot.queue); queue_pop(&f->slot.queue))
		next(f, Q_SIDE);
	assert_true(emit_code(f->r, 1, &none));
	assert_int_equal(load_u64(next(f, Q_CODE)), MARK | 1);
}

static void records(void **state)
{
	const struct perf_event_header h = { .type = 4, .size = sizeof(h) };
	struct fix *f = *state;

	assert_true(emit_side(f->r, &h));
	assert_memory_equal(next(f, Q_SIDE), &h, sizeof(h));
	assert_int_equal(STATS_GET(&f->stats, side_lost), 0);
	fill(&f->slot.queue);
	assert_false(emit_side(f->r, &h));
	assert_int_equal(STATS_GET(&f->stats, side_lost), 1);
}

/* The control thread is woken, also for what had no room. */
static void messages(void **state)
{
	struct fix *f = *state;
	const struct queue_record *rec;
	struct ctl_msg m = { .pid = 7 };
	eventfd_t n;

	emit_control(f->r, CTL_LOOK, m);
	assert_int_equal(f->c.asked, 1);
	emit_control(f->r, CTL_UNKNOWN, m);
	assert_int_equal(f->c.asked, 1);
	assert_int_equal(eventfd_read(f->c.kick, &n), 0);
	assert_int_equal(n, 2);
	rec = queue_peek(&f->slot.ctl);
	assert_int_equal(rec->type, CTL_LOOK);
	assert_memory_equal(rec->data, &m, sizeof(m));
	fill(&f->slot.ctl);
	emit_control(f->r, CTL_LOOK, m);
	assert_int_equal(STATS_GET(&f->stats, side_lost), 1);
	assert_int_equal(f->c.asked, 1); /* nobody will look */
	assert_int_equal(eventfd_read(f->c.kick, &n), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(codes_are_gone),
		TEST(no_room_for_codes),
		TEST(records),
		TEST(messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
