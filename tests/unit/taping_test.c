/* SPDX-License-Identifier: MIT
 *
 * taping: what a reader writes down of what it takes, is told, reads and judges.
 */
#include <errno.h>
#include <stdio.h>

#include "unit.h"
#include "fake_ring.h"
#include "sample/tape.h"
#include "capture/taping.h"

enum { MISSING = 99, TYPES = 64 };

/* The last chunk of each type, and how many there are. */
struct chunks {
	_Alignas(8) unsigned char at[TYPES][8192];
	struct bytes last[TYPES];
	unsigned n[TYPES];
};

/* Q_TAPE: the type, how long the head is, the chunk. */
static void sort(struct chunks *c, const struct queue_record *rec)
{
	uint32_t type = load_u32(rec->data);
	size_t n = rec->n - sizeof(*rec) - 8;

	assert_true(type < TYPES);
	c->n[type]++;
	n = MIN(n, sizeof(c->at[0]));
	memcpy(c->at[type], rec->data + 8, n);
	c->last[type] = (struct bytes){ c->at[type], n };
}

/* Those that @q has; none that were taken before count. */
static void take(struct chunks *c, struct queue *q)
{
	const struct queue_record *rec;

	memset(c, 0, sizeof(*c));
	for (; (rec = queue_peek(q)); queue_pop(q))
		if (rec->type == Q_TAPE)
			sort(c, rec);
}

static struct chunks *tape(struct fake *f)
{
	struct chunks *c = calloc(1, sizeof(*c));

	f->c.tape = true;
	taping_begin(&f->c, &f->slots[0].queue);
	fake_run(f);
	take(c, &f->slots[0].queue);
	return c;
}

static void settings(void **state)
{
	struct fake *f = *state;
	struct chunks *c;
	char name[16];

	f->c.witness = f->c.native = f->c.split = true;
	c = tape(f);
	assert_int_equal(c->n[TAPE_SETTINGS], 1);
	assert_int_equal(tape_get(c->last[TAPE_SETTINGS], TAPE_SET, 0),
			 TAPE_WITNESS | TAPE_NATIVE | TAPE_SPLIT);
	assert_int_equal(tape_get(c->last[TAPE_SETTINGS], TAPE_MAX_FRAMES, 0), 512);
	tape_get_text(c->last[TAPE_SETTINGS], TAPE_CAPTURE, name, sizeof(name));
	assert_string_equal(name, "fake");
	tape_get_text(c->last[TAPE_SETTINGS], TAPE_ARCH, name, sizeof(name));
	assert_string_equal(name, arch_host->name);
	assert_int_equal(tape_get(c->last[TAPE_SLOT], TAPE_CPU, MISSING), 0);
	assert_int_equal(tape_get(c->last[TAPE_SLOT], TAPE_N, 0), FAKE_RING);
	free(c);
}

/* What a tape says of a recording with these settings. */
static uint64_t set_of(const struct reader_config *c)
{
	const struct queue_record *rec;
	uint64_t set = MISSING;
	struct queue q;

	assert_int_equal(queue_init(&q, 1 << 16), 0);
	q.hurry = -1;
	taping_begin(c, &q);
	rec = queue_peek(&q);
	assert_non_null(rec);
	assert_int_equal(rec->type, Q_TAPE);
	/* Behind the type and the length of the head; the first field. */
	memcpy(&set, rec->data + 16, 8);
	queue_deinit(&q);
	return set;
}

/* Each of them alone. */
static void each_setting(void **state)
{
	struct fake *f = *state;
	struct reader_config *c = &f->c;
	const struct {
		bool *set;
		uint64_t bit;
	} rows[] = {
		{ &c->witness, TAPE_WITNESS },
		{ &c->counter, TAPE_COUNTER },
		{ &c->native, TAPE_NATIVE },
		{ &c->follow, TAPE_FOLLOW },
		{ &c->tell_threads, TAPE_TELL_THREADS },
		{ &c->split, TAPE_SPLIT },
		{ &c->early, TAPE_EARLY },
		{ &c->switches_hidden, TAPE_SWITCHES_HIDDEN },
	};
	struct run_table table = { 0 };

	assert_int_equal(set_of(c), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		*rows[i].set = true;
		assert_int_equal(set_of(c), rows[i].bit);
		*rows[i].set = false;
	}
	c->table = &table;
	assert_int_equal(set_of(c), TAPE_TABLE);
	c->table = NULL;
	c->ours = ours_create(NULL);
	assert_int_equal(set_of(c), TAPE_OURS);
	ours_destroy(c->ours);
	c->ours = NULL;
}

/* Which threads were asked for, if not all, and what else a player must know. */
static void chosen_threads(void **state)
{
	static const pid_t tids[] = { 11, 12, 4000000 };
	struct fake *f = *state;
	struct bytes found;
	struct chunks *c;

	f->c.child = 4711;
	f->c.max_frames = 511;
	c = tape(f);
	assert_false(tape_field(c->last[TAPE_SETTINGS], TAPE_TIDS, &found));
	assert_int_equal(tape_get(c->last[TAPE_SETTINGS], TAPE_CHILD, MISSING), 4711);
	assert_int_equal(tape_get(c->last[TAPE_SETTINGS], TAPE_CAP_SLOTS, MISSING), FAKE_CPUS);
	assert_int_equal(tape_get(c->last[TAPE_SETTINGS], TAPE_SAMPLE_TYPE, MISSING),
			 f->c.sample_type);
	assert_int_equal(tape_get(c->last[TAPE_SETTINGS], TAPE_STACK_BYTES, MISSING), FAKE_STACK);
	assert_int_equal(tape_get(c->last[TAPE_SETTINGS], TAPE_MAX_FRAMES, MISSING), 511);
	free(c);
	f->c.tids = tids;
	f->c.n_tids = ARRAY_SIZE(tids);
	c = tape(f);
	assert_true(tape_field(c->last[TAPE_SETTINGS], TAPE_TIDS, &found));
	assert_int_equal(found.n, sizeof(tids));
	assert_memory_equal(found.at, tids, sizeof(tids));
	free(c);
}

/* That nobody may be held for a while is told with what is taken then. */
static void a_drain_over_the_budget(void **state)
{
	struct chunks *c = calloc(1, sizeof(*c));
	struct fake *f = *state;

	f->c.tape = true;
	f->c.hold_budget = 0;
	fake_start(f);
	fake_take(f, (struct fake_event){ 0 });
	while (f->page[0].data_tail != f->page[0].data_head) {
		eventfd_write(f->slots[0].ring.fd, 1);
		usleep(1000);
	}
	fake_stop(f);
	take(c, &f->slots[0].queue);
	assert_int_equal(tape_get(c->last[TAPE_DRAIN], TAPE_DRAINING, MISSING), TAPE_SHED);
	assert_int_equal(tape_get(c->last[TAPE_DRAIN], TAPE_HEAD, MISSING),
			 f->page[0].data_head);
	free(c);
}

/* Each event's number once, however its samples come. */
static void events(void **state)
{
	struct fake *f = *state;
	struct chunks *c;

	f->session.n_events = 2;
	for (uint64_t i = 0; i < 4; i++)
		fake_take(f, (struct fake_event){ .id = FAKE_ID + i % 2, .after = i });
	c = tape(f);
	assert_int_equal(c->n[TAPE_EVENT_ID], 2);
	assert_int_equal(tape_get(c->last[TAPE_EVENT_ID], TAPE_KEY, 0), FAKE_ID + 1);
	assert_int_equal(tape_get(c->last[TAPE_EVENT_ID], TAPE_INDEX, MISSING), 1);
	assert_int_equal(c->n[TAPE_JUDGED], 4);
	assert_int_equal(tape_get(c->last[TAPE_JUDGED], TAPE_EVENT_INDEX, MISSING), 1);
	free(c);
}

static void a_sample(void **state)
{
	struct fake *f = *state;
	struct chunks *c;
	struct bytes b;
	uint64_t began = now_ns(), at;
	char name[16];

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	c = tape(f);
	assert_true(tape_field(c->last[TAPE_RING], TAPE_BYTES, &b));
	assert_int_equal(b.n, f->page[0].data_head);
	assert_memory_equal(b.at, f->map[0], b.n);
	assert_int_equal(tape_get(c->last[TAPE_DRAIN], TAPE_HEAD, 0), f->page[0].data_head);
	assert_int_equal(tape_get(c->last[TAPE_LOOK], TAPE_TID, 0), FAKE_TID);
	assert_in_range(tape_get(c->last[TAPE_LOOK], TAPE_TIME, 0), began, now_ns());
	assert_true(tape_field(c->last[TAPE_LOOK], TAPE_HEADS, &b));
	assert_int_equal(b.n, FAKE_CPUS * 8);
	assert_int_equal(load_u64(b.at), f->page[0].data_head);
	assert_true(c->n[TAPE_READ] > 1);
	assert_int_equal(tape_get(c->last[TAPE_READ], TAPE_PID, 0), getpid());
	assert_true(tape_field(c->last[TAPE_READ], TAPE_BYTES, &b));
	assert_int_equal(b.n, tape_get(c->last[TAPE_READ], TAPE_N, 0));
	at = tape_get(c->last[TAPE_READ], TAPE_AT, MISSING);
	assert_int_not_equal(at, MISSING);
	assert_memory_equal(b.at, fake_memory(at), b.n);
	assert_int_equal(tape_get(c->last[TAPE_TARGET], TAPE_PID, 0), getpid());
	assert_int_equal(tape_get(c->last[TAPE_JUDGED], TAPE_TIME, 0), f->t);
	tape_get_text(c->last[TAPE_JUDGED], TAPE_PROV, name, sizeof(name));
	assert_string_equal(name, "exact");
	assert_true(c->n[TAPE_ANSWER] > 0);
	assert_int_not_equal(tape_get(c->last[TAPE_ANSWER], TAPE_KEY, MISSING), MISSING);
	assert_int_not_equal(tape_get(c->last[TAPE_ANSWER], TAPE_VALUE, MISSING), MISSING);
	free(c);
}

/* What begins at the ring's end and goes on at its begin is written in two pieces. */
static void a_sample_around_the_rings_end(void **state)
{
	enum { BEGIN = 3 * FAKE_RING - 16 };
	struct fake *f = *state;
	struct chunks *c;
	struct bytes b;

	f->page[0].data_head = f->page[0].data_tail = BEGIN;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	c = tape(f);
	assert_int_equal(2, c->n[TAPE_RING]);
	assert_int_equal(BEGIN + 16, tape_get(c->last[TAPE_RING], TAPE_POS, MISSING));
	assert_true(tape_field(c->last[TAPE_RING], TAPE_BYTES, &b));
	assert_int_equal(f->page[0].data_head - BEGIN - 16, b.n);
	assert_memory_equal(b.at, f->map[0], b.n);
	assert_int_equal(BEGIN, tape_get(c->last[TAPE_JUDGED], TAPE_POS, MISSING));
	free(c);
}

/* A drain is written with the recording's times as they were. */
static void times_of_a_drain(void **state)
{
	struct fake *f = *state;
	struct chunks *c;

	atomic_store(&f->c.start_ns, 11);
	atomic_store(&f->c.end_ns, 12);
	atomic_store(&f->c.over_ns, 13);
	atomic_store(&f->c.blind_ns, 14);
	fake_take(f, (struct fake_event){ 0 });
	c = tape(f);
	assert_int_equal(11, tape_get(c->last[TAPE_DRAIN], TAPE_START, MISSING));
	assert_int_equal(12, tape_get(c->last[TAPE_DRAIN], TAPE_END, MISSING));
	assert_int_equal(13, tape_get(c->last[TAPE_DRAIN], TAPE_OVER, MISSING));
	assert_int_equal(14, tape_get(c->last[TAPE_DRAIN], TAPE_BLIND, MISSING));
	free(c);
}

/* The last chunk of answers, of a reader that was told @value. */
static struct chunks *answered(struct fake *f, enum tap_answer what, uint64_t value)
{
	struct chunks *c = calloc(1, sizeof(*c));
	struct reader *r;

	f->c.tape = true;
	r = reader_create(&f->c, &f->slots[0]);
	assert_non_null(r);
	r->tap->answer(r, what, FAKE_TID, &value);
	take(c, &f->slots[0].queue);
	reader_destroy(r);
	assert_int_equal(c->n[TAPE_ANSWER], 1);
	assert_int_equal(tape_get(c->last[TAPE_ANSWER], TAPE_WHAT, MISSING), what);
	assert_int_equal(tape_get(c->last[TAPE_ANSWER], TAPE_KEY, MISSING), FAKE_TID);
	assert_int_equal(tape_get(c->last[TAPE_ANSWER], TAPE_VALUE, MISSING), value);
	return c;
}

/* A player has no tracer to ask for them. */
static void a_stop_is_written_with_its_registers(void **state)
{
	struct fake *f = *state;
	struct handover *h = &f->slots[0].handover;
	struct bytes regs;
	struct chunks *c;

	for (uint64_t i = 0; i < ARCH_MAX_REGS; i++) {
		h->regs[i] = i + 1;
		h->accepted_regs[i] = i + 1000;
	}
	h->ran_on_ns = 71;
	h->accepted_ran_on_ns = 72;
	h->accepted_ns = 73;
	c = answered(f, TAP_HELD, 1);
	assert_true(tape_field(c->last[TAPE_ANSWER], TAPE_REGS, &regs));
	assert_int_equal(regs.n, sizeof(h->regs));
	assert_memory_equal(regs.at, h->regs, regs.n);
	assert_int_equal(tape_get(c->last[TAPE_ANSWER], TAPE_START, MISSING), 71);
	assert_int_equal(tape_get(c->last[TAPE_ANSWER], TAPE_END, MISSING), MISSING);
	free(c);
	c = answered(f, TAP_WITHDRAWN, 1);
	assert_true(tape_field(c->last[TAPE_ANSWER], TAPE_REGS, &regs));
	assert_int_equal(regs.n, sizeof(h->accepted_regs));
	assert_memory_equal(regs.at, h->accepted_regs, regs.n);
	assert_int_equal(tape_get(c->last[TAPE_ANSWER], TAPE_START, MISSING), 72);
	assert_int_equal(tape_get(c->last[TAPE_ANSWER], TAPE_END, MISSING), 73);
	free(c);
}

/* Whether nobody is held, or something else was asked. */
static void other_answers_are_written_without_registers(void **state)
{
	static const struct {
		enum tap_answer what;
		uint64_t value;
	} rows[] = {
		{ TAP_HELD, 0 }, { TAP_WITHDRAWN, 0 }, { TAP_ACCEPTED, 1 }, { TAP_RELEASED, 1 },
	};
	struct fake *f = *state;
	struct bytes regs;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct chunks *c = answered(f, rows[i].what, rows[i].value);

		assert_false(tape_field(c->last[TAPE_ANSWER], TAPE_REGS, &regs));
		assert_int_equal(tape_get(c->last[TAPE_ANSWER], TAPE_START, MISSING), MISSING);
		free(c);
	}
}

/* Each counter that is read with a sample is an event with a number, too. */
static void counters_of_a_sample(void **state)
{
	struct fake *f = *state;
	struct chunks *c;

	f->session.n_events = 3;
	f->c.sample_type |= PERF_SAMPLE_READ;
	fake_take(f, (struct fake_event){ .instructions = 5 });
	c = tape(f);
	assert_int_equal(c->n[TAPE_EVENT_ID], 3);
	assert_int_equal(tape_get(c->last[TAPE_EVENT_ID], TAPE_KEY, 0), FAKE_ID + 2);
	assert_int_equal(tape_get(c->last[TAPE_EVENT_ID], TAPE_INDEX, MISSING), 2);
	free(c);
}

/* What stands where samples have their event's is something else. */
static void other_records_tell_no_event(void **state)
{
	struct fake *f = *state;
	struct chunks *c;

	fake_switch(f, 0, IN, FAKE_TID, 1);
	fake_task(f, PERF_RECORD_EXIT, (const uint32_t[]){ 1, 1, 1, 1 }, 2);
	c = tape(f);
	assert_int_equal(c->n[TAPE_RING], 1);
	assert_int_equal(c->n[TAPE_EVENT_ID], 0);
	free(c);
}

/* Nor does what stands behind a sample that is too short for it. */
static void a_cut_sample_tells_no_event(void **state)
{
	struct fake *f = *state;
	struct record r;
	struct chunks *c;

	record_begin(&r, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	fake_write(f, 0, &r);
	fake_switch(f, 0, IN, FAKE_TID, 1);
	c = tape(f);
	assert_int_equal(c->n[TAPE_RING], 1);
	assert_int_equal(c->n[TAPE_EVENT_ID], 0);
	free(c);
}

static void change(struct target *t, unsigned field)
{
	switch (field) {
	case 0:
		t->none_ns++;
		break;
	case 1:
		t->forker++;
		break;
	case 2:
		t->unborn = !t->unborn;
		break;
	case 3:
		t->code_number++;
		break;
	case 4:
		t->looked_ns++;
		break;
	case 5:
		t->state = TARGET_NOPYTHON;
		break;
	}
}

/* What readers judge by is written again when it changed, whatever it is, and only then. */
static void a_process_that_changes(void **state)
{
	enum { FIELDS = 6 };
	struct fake *f = *state;
	struct chunks *c = calloc(1, sizeof(*c));

	f->c.tape = true;
	for (unsigned field = 0; field <= FIELDS; field++) {
		fake_take(f, (struct fake_event){ 0 });
		taping_begin(&f->c, &f->slots[0].queue);
		fake_start(f);
		while (atomic_load((_Atomic uint64_t *)&f->page[0].data_tail) !=
		       f->page[0].data_head)
			usleep(100);
		change(f->target, field);
		f->t += 1000000;
		fake_take(f, (struct fake_event){ 0 });
		fake_stop(f);
		take(c, &f->slots[0].queue);
		assert_int_equal(c->n[TAPE_TARGET], field < FIELDS ? 2 : 1);
	}
	free(c);
}

/* A reader of the second slot, where no thread runs; and what it has written since the last time, with
 * the time before it. */
struct reading {
	struct fake *f;
	struct reader *r;
	struct chunks *c;
	uint64_t since;
};

static struct reading begin_reading(struct fake *f)
{
	struct reading x = { .f = f, .c = calloc(1, sizeof(*x.c)), .since = now_ns() };

	f->c.tape = true;
	x.r = reader_create(&f->c, &f->slots[1]);
	assert_non_null(x.r);
	return x;
}

static void end_reading(struct reading *x)
{
	reader_destroy(x->r);
	free(x->c);
}

static void take_written(struct reading *x)
{
	take(x->c, &x->f->slots[1].queue);
}

/* The one chunk of that type, which says whose it is, and when that was. */
static struct bytes written(struct reading *x, enum tape_type type)
{
	struct bytes chunk = x->c->last[type];

	assert_int_equal(x->c->n[type], 1);
	assert_int_equal(tape_get(chunk, TAPE_SLOT_INDEX, MISSING), 1);
	assert_in_range(tape_get(chunk, TAPE_TIME, 0), x->since, now_ns());
	return chunk;
}

/* Once, before all else: where the reader begins. */
static void where_a_reader_begins(void **state)
{
	enum { BEGIN = 4 * FAKE_RING + 80, WATCHED = 4711 };
	struct fake *f = *state;
	struct reading x;
	struct bytes slot;

	f->page[1].data_head = f->page[1].data_tail = BEGIN;
	f->slots[1].watched_ns = WATCHED;
	x = begin_reading(f);
	x.r->tap->drain(x.r, BEGIN, 0, false);
	take_written(&x);
	slot = written(&x, TAPE_SLOT);
	assert_int_equal(tape_get(slot, TAPE_CPU, MISSING), 1);
	assert_int_equal(tape_get(slot, TAPE_N, MISSING), FAKE_RING);
	assert_int_equal(tape_get(slot, TAPE_POS, MISSING), BEGIN);
	assert_int_equal(tape_get(slot, TAPE_WATCHED, MISSING), WATCHED);
	written(&x, TAPE_DRAIN);
	x.r->n_pend = 1;
	x.r->tap->drain(x.r, BEGIN, 0, false);
	take_written(&x);
	written(&x, TAPE_DRAIN); /* of what waits */
	assert_int_equal(x.c->n[TAPE_SLOT], 0);
	x.r->n_pend = 0;
	x.r->tap->drain(x.r, BEGIN, 0, false);
	take_written(&x);
	assert_int_equal(x.c->n[TAPE_DRAIN], 0); /* of nothing */
	end_reading(&x);
}

static void how_it_drains(void **state)
{
	static const struct {
		uint64_t shed_left;
		bool last, unfit, crowded;
		uint64_t says;
	} rows[] = {
		{ 0, false, false, false, 0 },
		{ 1, false, false, false, TAPE_SHED },
		{ 0, true, false, false, TAPE_LAST },
		{ 0, false, true, false, TAPE_UNFIT },
		{ 0, false, false, true, TAPE_CROWDED },
	};
	enum { WOKE = 17 };
	struct reading x = begin_reading(*state);

	x.r->woke_ns = WOKE;
	x.r->n_pend = 1;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct bytes drain;

		x.r->unfit = rows[i].unfit;
		x.r->crowded = rows[i].crowded;
		x.r->tap->drain(x.r, x.r->pos, rows[i].shed_left, rows[i].last);
		take_written(&x);
		drain = written(&x, TAPE_DRAIN);
		assert_int_equal(tape_get(drain, TAPE_DRAINING, MISSING), rows[i].says);
		assert_int_equal(tape_get(drain, TAPE_WOKE, MISSING), WOKE);
		assert_int_equal(tape_get(drain, TAPE_HEAD, MISSING), x.r->pos);
	}
	end_reading(&x);
}

/* The bytes of a record that is none are written all the same. */
static void what_is_no_record(void **state)
{
	static const unsigned char bytes[16];
	struct reading x = begin_reading(*state);
	struct bytes b;

	memcpy(x.f->map[1] + (x.r->pos & (FAKE_RING - 1)), bytes, sizeof(bytes));
	x.r->tap->drain(x.r, x.r->pos + sizeof(bytes), 0, false);
	take_written(&x);
	assert_true(tape_field(written(&x, TAPE_RING), TAPE_BYTES, &b));
	assert_int_equal(b.n, sizeof(bytes));
	assert_memory_equal(b.at, bytes, sizeof(bytes));
	end_reading(&x);
}

/* Why, for whom, and where in each ring it ended; when it began. */
static void what_it_looks_for(void **state)
{
	enum { OWN = 66, OTHERS = 77 };
	const uint64_t want[FAKE_CPUS] = { OTHERS, OWN };
	struct reading x = begin_reading(*state);
	struct bytes look, heads;
	uint64_t began;

	x.r->cursor[0] = OTHERS;
	x.r->tap->look(x.r, TAP_BIRTHS, FAKE_TID);
	began = now_ns();
	x.r->tap->looked(x.r, TAP_BIRTHS, FAKE_TID, OWN);
	take_written(&x);
	look = written(&x, TAPE_LOOK);
	assert_in_range(tape_get(look, TAPE_TIME, 0), x.since, began);
	assert_int_equal(tape_get(look, TAPE_WHAT, MISSING), TAP_BIRTHS);
	assert_int_equal(tape_get(look, TAPE_TID, MISSING), FAKE_TID);
	assert_true(tape_field(look, TAPE_HEADS, &heads));
	assert_int_equal(heads.n, sizeof(want));
	assert_memory_equal(heads.at, want, sizeof(want));
	end_reading(&x);
}

/* With what was read, or why nothing was. */
static void what_it_reads(void **state)
{
	enum { AT = 0x7000, N = sizeof("memory"), READ_PID = 4711, NUMBERS = 6 };
	struct reading x = begin_reading(*state);
	struct tape_head numbers = { 0 };

	for (int i = 0; i < NUMBERS; i++)
		tape_put(&numbers, TAPE_N, 0);
	x.r->mem.below.pid = READ_PID;
	for (int code = 0; code <= EFAULT; code += EFAULT) {
		struct bytes read, bytes;

		x.r->mem.saw(x.r, AT, "memory", N, -code);
		take_written(&x);
		read = written(&x, TAPE_READ);
		assert_int_equal(tape_get(read, TAPE_PID, MISSING), READ_PID);
		assert_int_equal(tape_get(read, TAPE_AT, MISSING), AT);
		assert_int_equal(tape_get(read, TAPE_N, MISSING), N);
		assert_int_equal(tape_get(read, TAPE_CODE, MISSING), code);
		assert_int_equal(tape_field(read, TAPE_BYTES, &bytes), code == 0);
		if (code)
			assert_int_equal(read.n, numbers.n);
		if (code == 0)
			assert_memory_equal(bytes.at, "memory", N);
	}
	end_reading(&x);
}

/* That a process is no target is written once, as what it is. */
static void a_process_that_is_no_target(void **state)
{
	enum { NONE = 5 };
	struct reading x = begin_reading(*state);
	struct bytes chunk;

	for (int i = 0; i < 2; i++)
		x.r->tap->target(x.r, NONE, NULL);
	take_written(&x);
	chunk = written(&x, TAPE_TARGET);
	assert_int_equal(tape_get(chunk, TAPE_PID, MISSING), NONE);
	assert_int_equal(tape_get(chunk, TAPE_IS, MISSING), TAPE_GONE);
	x.r->tap->target(x.r, getpid(), x.f->target);
	take_written(&x);
	chunk = written(&x, TAPE_TARGET);
	assert_int_equal(tape_get(chunk, TAPE_PID, MISSING), getpid());
	assert_int_not_equal(tape_get(chunk, TAPE_IS, 0), TAPE_GONE);
	end_reading(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(settings),
		FAKE_TEST(each_setting),
		FAKE_TEST(chosen_threads),
		FAKE_TEST(a_drain_over_the_budget),
		FAKE_TEST(events),
		FAKE_TEST(a_sample),
		FAKE_TEST(a_sample_around_the_rings_end),
		FAKE_TEST(times_of_a_drain),
		FAKE_TEST(a_stop_is_written_with_its_registers),
		FAKE_TEST(other_answers_are_written_without_registers),
		FAKE_TEST(counters_of_a_sample),
		FAKE_TEST(other_records_tell_no_event),
		FAKE_TEST(a_cut_sample_tells_no_event),
		FAKE_TEST(a_process_that_changes),
		FAKE_TEST(where_a_reader_begins),
		FAKE_TEST(how_it_drains),
		FAKE_TEST(what_is_no_record),
		FAKE_TEST(what_it_looks_for),
		FAKE_TEST(what_it_reads),
		FAKE_TEST(a_process_that_is_no_target),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
