/* SPDX-License-Identifier: MIT
 *
 * emit: what a reader tells of codes that it forgets, of records and to the control thread;
 * also where a queue has no room.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "unit.h"
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

/* --- a sample --- */

enum { FRAMES = 3, ANCHORS = 2, CHAIN = 5, READS = 2 };

struct made {
	struct session session;
	struct pystack_frame frames[FRAMES];
	struct pystack_anchor anchors[ANCHORS];
	uint64_t chain[CHAIN], reads[2 * READS], regs[ARCH_MAX_REGS];
	unsigned char stack[64];
	struct pending p;
	struct walk w;
};

/* All that a sample can have, each with a value of its own. */
static struct made *make(struct fix *f)
{
	static struct made m;

	m = (struct made){
		.session = { .n_events = 1, .events[0].attr.sample_period = 77 },
		.frames = { { .code_id = 1, .lasti = 2 },
			    { .code_id = 3, .lasti = 4 },
			    { .code_id = 5, .lasti = 6 } },
		.anchors = { { 0x7100, 1, 0 }, { 0x7200, 3, 0 } },
		.chain = { PERF_CONTEXT_KERNEL, 0xffffffff81000001, 0xffffffff81000002,
			   PERF_CONTEXT_USER, 0x401000 },
		.reads = { 1001, 11, 1002, 12 },
		.p = { .prov = PROV_EXACT, .held = true, .hold.t_end = 5600 },
		.w = { .res = { .end = PYSTACK_OK,
				.n = FRAMES,
				.frames = m.frames,
				.anchors = m.anchors,
				.n_anchors = ANCHORS,
				.truncated = true },
		       .gil = PYGIL_HAS_NOT,
		       .published = (struct target *)0x1234 },
	};
	m.session.how[0].read = true;
	m.p.s = (struct perf_sample){ .id = 900,
				      .ip = 901,
				      .time = 5000,
				      .addr = 903,
				      .period = 904,
				      .pid = 905,
				      .tid = 906,
				      .cpu = 7,
				      .misc = PERF_RECORD_MISC_KERNEL,
				      .reads = (const unsigned char *)m.reads,
				      .n_reads = READS,
				      .kchain = (const unsigned char *)m.chain,
				      .n_kchain = CHAIN,
				      .have_user = true,
				      .user_ip = 908,
				      .user_sp = 0x7000,
				      .regs = (const unsigned char *)m.regs,
				      .stack = { m.stack, sizeof(m.stack) } };
	memset(m.stack, 0x5a, sizeof(m.stack));
	for (size_t i = 0; i < ARCH_MAX_REGS; i++)
		m.regs[i] = 2000 + i;
	f->c.session = &m.session;
	f->c.native = true;
	f->c.first_seen = true;
	f->r->wait = Q_WAIT_DISK;
	return &m;
}

static const struct q_sample *emitted(struct fix *f, struct made *m)
{
	while (queue_peek(&f->slot.queue))
		queue_pop(&f->slot.queue);
	emit_sample(f->r, &m->p, &m->w);
	return next(f, Q_SAMPLE);
}

static void all_of_a_sample(void **state)
{
	struct fix *f = *state;
	struct made *m = make(f);
	const struct q_sample *q = emitted(f, m);

	assert_int_equal(5000, q->sample.time);
	assert_int_equal(904, q->sample.period);
	assert_int_equal(901, q->sample.ip);
	assert_int_equal(903, q->sample.addr);
	assert_int_equal(905, q->sample.pid);
	assert_int_equal(906, q->sample.tid);
	assert_int_equal(7, q->sample.cpu);
	assert_int_equal(0, q->sample.event);
	assert_int_equal(PERF_RECORD_MISC_KERNEL, q->sample.misc);
	assert_int_equal(PROV_EXACT, q->sample.prov);
	assert_int_equal(600, q->sample.late_ns);
	assert_int_equal(PYGIL_HAS_NOT, q->sample.gil);
	assert_true(q->sample.truncated);
	assert_int_equal(908, q->user_ip);
	assert_int_equal(Q_WAIT_DISK, q->wait);
	assert_false(q->undecided || q->unread);
	assert_null(q->program);
	assert_int_equal(3, q->n_kernel); /* without markers */
	for (uint32_t i = 0; i < 3; i++)
		assert_true(q_kernel(q)[i] == m->chain[i == 2 ? 4 : i + 1]);
	assert_int_equal(FRAMES, q->n_python);
	for (uint32_t i = 0; i < FRAMES; i++) {
		assert_int_equal(MARK | (2 * i + 1), q_python(q)[i].code_id);
		assert_int_equal(2 * i + 2, q_python(q)[i].lasti);
	}
	assert_int_equal(ANCHORS, q->n_anchors);
	assert_memory_equal(m->anchors, q_anchors(q), sizeof(m->anchors));
	assert_int_equal(READS, q->n_reads);
	for (uint32_t i = 0; i < READS; i++) {
		assert_int_equal(11 + i, q_reads(q)[i].id);
		assert_int_equal(1001 + i, q_reads(q)[i].value);
		assert_int_equal(0, q_reads(q)[i].event);
	}
	assert_int_equal(arch_host->n_regs, q->n_regs);
	assert_memory_equal(m->regs, q_regs(q), 8 * (size_t)q->n_regs);
	assert_int_equal(sizeof(m->stack), q->n_stack);
	assert_memory_equal(m->stack, q_stack(q), sizeof(m->stack));
	assert_int_equal(1, STATS_GET(&f->stats, truncated));
	assert_int_equal(0, STATS_GET(&f->stats, lost));
}

/* What it has not, or what nobody asked for, is not there. */
static void parts_of_a_sample(void **state)
{
	struct fix *f = *state;
	struct made *m = make(f);
	const struct q_sample *q;

	m->p.prov = PROV_TORN;
	m->p.open = true;
	q = emitted(f, m);
	assert_int_equal(0, q->n_python + q->n_anchors);
	assert_false(q->sample.truncated);
	assert_true(q->undecided);
	assert_ptr_equal(m->w.published, q->program);
	m->p.prov = PROV_NOPYTHON;
	assert_int_equal(0, emitted(f, m)->n_python);
	m->p.prov = PROV_LATE;
	assert_int_equal(FRAMES, emitted(f, m)->n_python);
	m->session.how[0].read = false;
	assert_int_equal(0, emitted(f, m)->n_reads);
	m->p.s.period = 0;
	assert_int_equal(77, emitted(f, m)->sample.period);
	m->p.s.have_user = false;
	assert_int_equal(0, emitted(f, m)->user_ip);
	/* While a greenlet is left the native stack is another's. */
	m->w.res.switching = true;
	q = emitted(f, m);
	assert_int_equal(0, q->n_stack);
	assert_int_equal(FRAMES, q->n_python);
	assert_int_equal(0, STATS_GET(&f->stats, stack_dropped));
	m->p.prov = PROV_TORN;
	assert_int_equal(sizeof(m->stack), emitted(f, m)->n_stack);
	f->c.native = false;
	m->p.prov = PROV_LATE;
	assert_int_equal(0, emitted(f, m)->n_anchors);
}

/* How far await chains were joined is counted, of stacks that are given alone. */
static void joined(void **state)
{
	static const struct {
		enum pystack_joined joined;
		bool several, part, none;
	} rows[] = {
		{ PYSTACK_NO_TASK },
		{ PYSTACK_JOINED },
		{ PYSTACK_JOINED_SEVERAL, .several = true },
		{ PYSTACK_JOINED_PART, .part = true },
		{ PYSTACK_JOINED_NOT, .none = true },
	};
	struct fix *f = *state;
	struct made *m = make(f);

	f->c.native = false; /* no anchors */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (int torn = 0; torn < 2; torn++) {
			memset(&f->stats, 0, sizeof(f->stats));
			m->w.res.joined = rows[i].joined;
			m->p.prov = torn ? PROV_TORN : PROV_EXACT;
			emitted(f, m);
			assert_int_equal(rows[i].several && !torn,
					 STATS_GET(&f->stats, awaited_by_several));
			assert_int_equal(rows[i].part && !torn,
					 STATS_GET(&f->stats, awaiting_unknown));
			assert_int_equal(rows[i].none && !torn,
					 STATS_GET(&f->stats, tasks_unknown));
		}
}

static void nearly_fill(struct queue *q)
{
	while (!queue_scarce(q)) {
		queue_reserve(q, Q_SIDE, 8);
		queue_commit(q);
	}
}

/* In a queue that is nearly full it goes without its stack; in a full one it is lost. */
static void little_room(void **state)
{
	struct fix *f = *state;
	struct made *m = make(f);
	const struct queue_record *rec;
	const struct q_sample *last = NULL;

	nearly_fill(&f->slot.queue);
	emit_sample(f->r, &m->p, &m->w);
	assert_int_equal(1, STATS_GET(&f->stats, stack_dropped));
	assert_int_equal(0, STATS_GET(&f->stats, lost));
	fill(&f->slot.queue);
	emit_sample(f->r, &m->p, &m->w);
	assert_int_equal(1, STATS_GET(&f->stats, lost));
	assert_int_equal(1, STATS_GET(&f->stats, queue_full));
	for (; (rec = queue_peek(&f->slot.queue)); queue_pop(&f->slot.queue))
		if (rec->type == Q_SAMPLE) {
			assert_null(last);
			last = (const void *)rec->data;
			assert_int_equal(0, last->n_stack);
			assert_int_equal(FRAMES, last->n_python);
		}
	assert_non_null(last);
}

/* What has no stack loses none. */
static void little_room_without_a_stack(void **state)
{
	struct fix *f = *state;
	struct made *m = make(f);

	m->w.res.switching = true;
	nearly_fill(&f->slot.queue);
	emit_sample(f->r, &m->p, &m->w);
	assert_int_equal(0, STATS_GET(&f->stats, stack_dropped));
	assert_int_equal(0, STATS_GET(&f->stats, lost));
}

/* What was done by the first sample is not what is done by later ones. */
static void what_was_done_by_the_first(void **state)
{
	struct fix *f = *state;
	struct made *m = make(f);

	f->c.first_seen = false;
	for (uint64_t n = 5; n < 8; n++) {
		f->c.others.n[WORK_opens] = n;
		emitted(f, m);
		assert_int_equal(5, f->c.first.n[WORK_opens]);
		assert_true(f->c.first_seen);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(codes_are_gone), TEST(no_room_for_codes), TEST(records),
		TEST(messages),	      TEST(all_of_a_sample),   TEST(parts_of_a_sample),
		TEST(joined),	      TEST(little_room),       TEST(little_room_without_a_stack),
		TEST(what_was_done_by_the_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
