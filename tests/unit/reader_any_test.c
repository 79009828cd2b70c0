/* SPDX-License-Identifier: MIT
 *
 * reader: any course of records, drawn at random, in recordings of any settings. Whatever the
 * course is, each sample is queued once or counted once. What else comes out has a sum: nobody
 * can say of each course what is right, but a change of the sum is a change of what is believed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/hash.h"
#include "capture/wait_post.h"
#include "fake_drain.h"

enum {
	COURSES = 400,
	RECORDS = 28,	    /* of a course */
	EARLY = 800,	 /* id of event 0 while threads take its samples */
	UNKNOWN_ID = 999,
	INO = 555, /* of the interpreter's file, and where its code is mapped */
	CODE_AT = 0x400000,
	BEGIN = 1000000000, /* ns: long ago on any machine */
	PLACES = 1 << 16,   /* of the table of who came when */
};

/* --- what is drawn --- */

static uint64_t state_of_draw, sum;
static pid_t pids[4]; /* ours, and strangers' */

static uint32_t draw(uint32_t below)
{
	state_of_draw = state_of_draw * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state_of_draw >> 33) % below;
}

static bool one_of(uint32_t n)
{
	return draw(n) == 0;
}

/* --- what comes out --- */

static void note(uint64_t v)
{
	sum = (sum ^ v) * 0x9e3779b97f4a7c15u;
	sum ^= sum >> 32;
}

static void note_bytes(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum = (sum ^ ((const unsigned char *)p)[i]) * 0x100000001b3u;
}

/* Our own number is another in each run, and so are the strangers'. */
static void note_pid(pid_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		if (pid == pids[i])
			pid = (pid_t)i + 1;
	note((uint64_t)pid);
}

static void note_sample(const struct q_sample *q)
{
	const struct sample *s = &q->sample;

	note(s->time), note(s->period), note(s->ip), note(s->addr), note_pid(s->pid);
	note_pid(s->tid), note(s->cpu);
	note((uint64_t)s->event << 32 | (uint64_t)s->misc << 16 | (uint64_t)s->prov << 8 |
	     (uint64_t)s->gil << 1 | s->truncated);
	note(s->late_ns), note(q->user_ip), note(q->stack_at), note(q->far_at);
	note(q->program != NULL), note(q->undecided), note(q->wait), note(q->unread);
	note_bytes(&q->n_kernel, 7 * sizeof(q->n_kernel));
	note_bytes(q_kernel(q), 8 * (size_t)q->n_kernel);
	for (uint32_t i = 0; i < q->n_python; i++)
		note(q_python(q)[i].code_id << 16 | (uint32_t)q_python(q)[i].lasti);
	for (uint32_t i = 0; i < q->n_anchors; i++)
		note(q_anchors(q)[i].at << 16 | q_anchors(q)[i].n);
	for (uint32_t i = 0; i < q->n_reads; i++)
		note(q_reads(q)[i].id ^ q_reads(q)[i].value << 16 ^ q_reads(q)[i].event << 48);
	note_bytes(q_regs(q), 8 * (size_t)q->n_regs);
	note_bytes(q_stack(q), q->n_stack);
	note_bytes(q_far(q), q->n_far);
}

static void note_side(const struct perf_event_header *h)
{
	struct side s;

	note((uint64_t)h->type << 32 | (uint64_t)h->misc << 16 | h->size);
	if (perf_decode_side(h, &s) < 0)
		return;
	note((uint64_t)s.kind), note_pid(s.pid), note_pid(s.tid), note(s.time);
	if (s.kind == SIDE_COMM)
		note_bytes(s.u.comm.name, strlen(s.u.comm.name));
}

/* All that the reader queued; how many samples. */
static uint64_t note_queues(struct fake *f)
{
	const struct queue_record *rec;
	uint64_t n = 0;

	for (; (rec = queue_peek(&f->slots[0].queue)); queue_pop(&f->slots[0].queue)) {
		if (rec->type)
			note(rec->type);
		if (rec->type == Q_SAMPLE)
			note_sample((const void *)rec->data), n++;
		else if (rec->type == Q_SIDE)
			note_side((const void *)rec->data);
		else if (rec->type == Q_CODE)
			note(load_u64(rec->data));
	}
	for (; (rec = queue_peek(&f->slots[0].ctl)); queue_pop(&f->slots[0].ctl)) {
		struct ctl_msg m;

		memcpy(&m, rec->data, sizeof(m));
		note(rec->type), note(m.time);
		note_pid(m.pid), note_pid(m.ppid), note_pid(m.ptid);
	}
	return n;
}

static void note_waits(struct wait_post *post)
{
	const struct queue_record *rec;

	for (; (rec = queue_peek(&post->in[0])); queue_pop(&post->in[0])) {
		struct wait_message m = { 0 };

		memcpy(&m, rec->data, MIN(sizeof(m), rec->n - sizeof(*rec)));
		note(m.time), note_pid(m.pid), note_pid(m.tid), note(m.type);
		note_bytes(m.regs, 8 * (size_t)m.n_regs);
	}
	note(post->blind);
}

static void note_counters(const struct fake *f)
{
	const char *text;
	uint64_t v;

	for (size_t i = 0; stats_at(&f->stats, i, &v, &text); i++)
		note(v);
	for (uint32_t e = 0; e < 3; e++)
		note(f->slots[0].seen[e].n << 32 ^ f->slots[0].seen[e].period);
	note(f->target->taken), note(f->c.asked), note(f->c.n_births);
}

/* --- what a reader asks of the world is drawn, too --- */

static void look(struct reader *r, enum tap_look what, pid_t tid)
{
	note(what), note_pid(tid);
}

static void looked(struct reader *r, enum tap_look what, pid_t tid, uint64_t own)
{
	note(own), note(r->cursor[1]);
}

static void found(struct reader *r, pid_t pid, const struct target *t)
{
	note_pid(pid), note(t != NULL);
}

static void answer(struct reader *r, enum tap_answer what, uint64_t key, uint64_t *value)
{
	note(what);
	if (what == TAP_HELD)
		return;
	*value = one_of(4);
	if (what == TAP_CAME && *value)
		*value = r->pend[0].s.time + draw(2000);
}

static void judged(struct reader *r, const struct pending *p)
{
	const struct hold *h = &p->hold;

	note(h->t0), note(h->t_out), note(p->t_in), note(h->gap_max_ns);
	note((uint64_t)h->in_kernel | (uint64_t)h->ending << 1 | (uint64_t)h->preempted << 2 |
	     (uint64_t)h->counted << 3 | (uint64_t)h->backlog << 4 | (uint64_t)h->ran << 5 |
	     (uint64_t)h->witness << 6 | (uint64_t)p->probe << 8 | (uint64_t)p->jumps << 9 |
	     (uint64_t)p->held << 10 | (uint64_t)p->open << 11 | (uint64_t)p->early << 12);
	/* Nothing is exact of a thread that ran on. */
	if (p->prov == PROV_EXACT && !h->ending) {
		assert_true(h->t_out && !h->ran && !h->backlog);
		assert_int_not_equal(h->witness, WITNESS_MOVED);
	}
}

static void drained(struct reader *r, uint64_t head, uint64_t shed_left, bool last)
{
	note(head), note(r->pos);
}

static const struct tap_ops tap = { drained, look, looked, found, answer, judged };

static const struct rmem_ops *live;

/* Other processes are those of this machine: their memory is none. */
static int read_ours(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct guarded *g = container_of(m, struct guarded, base);

	return g->below.pid == getpid() ? live->read(m, at, buf, n) : -ESRCH;
}

static size_t readv_ours(struct rmem *m, const struct rmem_vec *v, size_t n)
{
	struct guarded *g = container_of(m, struct guarded, base);

	return g->below.pid == getpid() ? live->readv(m, v, n) : 0;
}

static const struct rmem_ops ours_only = { "ours", read_ours, readv_ours };

static bool comes_back_always(const struct hold *h)
{
	return true;
}

static void release(struct reader *r, struct walk *w)
{
	fake_release(r, w);
	w->t_end = w->sample_ns + 7000;
}

/* --- a recording --- */

struct course {
	struct fake *f;
	struct run_table table;
	struct queue in[FAKE_CPUS];
	int poke[FAKE_CPUS];
	struct wait_post post;
	uint64_t taken; /* samples in the ring, but witnesses */
};

static void choose_event(struct fake *f, int e)
{
	static const uint32_t kinds[][2] = {
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK },
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK },
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS },
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES },
		{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
		{ PERF_TYPE_TRACEPOINT, 3 },
	};
	const uint32_t *kind = kinds[draw(ARRAY_SIZE(kinds))];

	f->session.events[e].attr.type = kind[0];
	f->session.events[e].attr.config = kind[1];
	f->session.events[e].attr.sample_period = 1000 + draw(9);
	f->session.how[e].read = one_of(2);
	f->session.how[e].probe = one_of(4);
	f->session.how[e].jumps = one_of(4);
	f->session.how[e].on_cpus = one_of(2);
	event_ids_add(f->ids, FAKE_ID + (uint64_t)e, (uint8_t)e);
	event_ids_add(f->ids, EARLY + (uint64_t)e,
		      (uint8_t)session_early_number(&f->session, (size_t)e));
}

static void choose_events(struct fake *f)
{
	event_ids_destroy(f->ids);
	f->ids = event_ids_create(16, NULL);
	f->session.n_events = 1 + draw(3);
	for (int e = 0; e < (int)f->session.n_events; e++)
		choose_event(f, e);
	event_ids_add(f->ids, FAKE_WITNESS, (uint8_t)f->session.n_events);
	f->c.witness = one_of(2);
	f->c.counter = f->c.witness && one_of(2);
	f->c.sample_type = PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN |
			   (f->c.counter || one_of(4) ? PERF_SAMPLE_READ : 0);
	f->c.early = one_of(3);
	f->c.births_told = true;
	f->c.over_ns = one_of(2) ? UINT64_MAX : f->t + draw(400 * US);
	f->c.paced = draw(8);
}

/* The kernel's table: nobody became another program, and one thread has a name. */
static void choose_table(struct course *k)
{
	static _Atomic uint64_t words[4 * PLACES];
	struct fake *f = k->f;

	for (size_t i = 3 * PLACES; i < ARRAY_SIZE(words); i += 4) {
		words[i] = FAKE_TID;
		words[i + 1] = 0x72656b726f77; /* "worker" */
	}
	k->table = (struct run_table){ .n_cpus = FAKE_CPUS, .at = words };
	f->c.table = f->c.ours && one_of(2) ? &k->table : NULL;
	f->c.named = f->c.table && one_of(2) ? ours_create(NULL) : NULL;
}

static void choose_scope(struct course *k)
{
	struct fake *f = k->f;
	static const pid_t tids[] = { FAKE_TID };

	f->c.ours = one_of(2) ? ours_create(NULL) : NULL;
	ours_set(f->c.ours, getpid(), true);
	f->c.split = f->c.ours && one_of(3);
	f->c.strangers = f->c.ours && one_of(2) ? ours_create(NULL) : NULL;
	f->c.descends = one_of(2);
	f->c.adopts = one_of(4);
	f->c.follow = one_of(2);
	f->c.child = one_of(4) ? pids[1] : 0;
	f->c.tids = tids;
	f->c.n_tids = one_of(4);
	f->c.tell_threads = one_of(2);
	choose_table(k);
}

/* The interpreter that others may have mapped as well, and where. */
static void teach(struct fake *f)
{
	struct pyfind_code code = { .maj = 8,
				    .min = 1,
				    .ino = INO,
				    .at = CODE_AT,
				    .build_id_at = f->sp,
				    .build_id_n = 20 };

	memcpy(code.build_id, world_mem(f->w, f->sp), code.build_id_n);
	f->target->runtime = f->w->runtime;
	births_teach(f->c.births, &code, f->target);
	f->target->code_number = draw(2);
	f->target->code_at = one_of(2) ? CODE_AT : CODE_AT + FAKE_PAGE;
}

static void choose_target(struct fake *f)
{
	static const int states[] = { TARGET_PYTHON,   TARGET_PYTHON,  TARGET_PYTHON,
				      TARGET_PYTHON,   TARGET_PENDING, TARGET_STARTING,
				      TARGET_NOPYTHON, TARGET_REFUSED, TARGET_QUARANTINED };
	struct target *t = f->target;

	t->state = states[draw(ARRAY_SIZE(states))];
	t->nopython = one_of(2);
	t->none_ns = one_of(2) ? 0 : f->t + draw(300 * US);
	t->looked_ns = one_of(4) ? 0 : f->t + draw(300 * US);
	t->begun_ns = one_of(2) ? 0 : f->t + draw(200 * US);
	t->since_ns = one_of(2) ? 0 : f->t + draw(200 * US);
	t->unborn = one_of(8);
	t->plain = one_of(2);
	t->asked = false;
	t->taken = 0;
	t->pace = draw(3) * 500;
	t->forker = one_of(8) ? FAKE_TID + 1 : 0;
}

/* Little room is left; what is in the way means nothing. */
static void fill_queue(struct queue *q, size_t piece)
{
	void *p;

	while ((p = queue_reserve(q, 0, piece))) {
		memset(p, 0, piece);
		queue_commit(q);
	}
}

static void choose(struct course *k)
{
	struct fake *f = k->f;

	f->t += 1000 * US;
	f->c.start_ns = one_of(3) ? f->t + draw(100 * US) : 0;
	f->c.end_ns = one_of(3) ? f->t + draw(600 * US) : UINT64_MAX;
	choose_events(f);
	choose_scope(k);
	f->c.births = births_create();
	if (one_of(3))
		teach(f);
	choose_target(f);
	f->c.native = one_of(2);
	f->c.only_gil = one_of(6);
	f->c.switches_hidden = one_of(3);
	f->c.max_frames = one_of(4) ? 1 : 512;
	f->c.waits = one_of(3) ? &k->post : NULL;
	f->session.flags = draw(2) * SESSION_GIL;
	f->session.flags |= draw(2) * SESSION_ASYNC;
	f->c.opening = one_of(16) ? FAKE_TID : 0;
	f->c.blind_ns = one_of(8) ? f->t + draw(300 * US) : 0;
	f->c.wanders = f->c.first_seen = false;
	f->c.asked = f->c.n_births = 0;
	for (size_t i = 0; i < FAKE_CPUS; i++)
		f->slots[i].watched_ns = one_of(8) ? f->t + draw(300 * US) : 1;
	f->slots[0].handover.since = one_of(8) ? f->t + draw(200 * US) : 0;
	memset(f->slots[0].seen, 0, sizeof(f->slots[0].seen));
	memset(f->c.last_in, 0, LAST_IN * sizeof(*f->c.last_in));
	f->c.last_out = f->c.switches_hidden ? calloc(LAST_IN, sizeof(*f->c.last_out)) : NULL;
	k->post.blind = false;
	if (one_of(6))
		fill_queue(&f->slots[0].queue, one_of(2) ? 4 << 10 : 60 << 10);
	if (one_of(12))
		fill_queue(&f->slots[0].ctl, sizeof(struct ctl_msg));
}

static void forget(struct course *k)
{
	struct fake *f = k->f;

	ours_destroy(f->c.ours);
	ours_destroy(f->c.strangers);
	ours_destroy(f->c.named);
	births_destroy(f->c.births);
	free(f->c.last_out);
	f->c.ours = f->c.strangers = f->c.named = NULL;
	f->c.last_out = NULL;
	f->c.births = NULL;
	for (uint32_t i = 0; i < FAKE_CPUS; i++)
		f->page[i].data_tail = f->page[i].data_head;
}

/* --- its records --- */

static pid_t any_tid(void)
{
	return FAKE_TID + (pid_t)(one_of(3) ? 1 + draw(2) : 0);
}

static pid_t any_pid(void)
{
	return pids[one_of(3) ? draw(ARRAY_SIZE(pids)) : 0];
}

static void put_sample(struct course *k, uint64_t after)
{
	static const uint64_t chain[] = { PERF_CONTEXT_KERNEL, 0xffffffff81000010,
					  0xffffffff81000020 };
	static const uint16_t modes[] = { PERF_RECORD_MISC_USER, PERF_RECORD_MISC_USER,
					  PERF_RECORD_MISC_KERNEL };
	struct fake *f = k->f;
	struct fake_event e = { .after = after, .chain = chain };

	/* One after the other: what is drawn in one list comes in any order. */
	e.id = FAKE_ID + draw((uint32_t)f->session.n_events);
	if (one_of(6))
		e.id = EARLY;
	if (one_of(16))
		e.id = UNKNOWN_ID;
	e.pid = any_pid();
	e.tid = any_tid();
	e.instructions = draw(12);
	e.regs_add = one_of(4);
	e.period = draw(3) * 700;
	e.misc = modes[draw(ARRAY_SIZE(modes))];
	e.no_regs = one_of(8);
	e.no_stack = one_of(4);
	e.n_chain = one_of(2) ? 3 : 0;
	fake_take(f, e);
	k->taken++;
}

static void put_witness(struct fake *f, uint64_t after)
{
	struct fake_event e = { .witness = true, .after = after };

	e.tid = any_tid();
	e.instructions = draw(12);
	e.no_regs = one_of(8);
	e.regs_add = one_of(4);
	fake_take(f, e);
}

static void put_named(struct fake *f, uint32_t cpu, uint64_t after)
{
	uint16_t misc = one_of(3) ? PERF_RECORD_MISC_COMM_EXEC : 0;
	pid_t pid = any_pid();
	struct record r;

	record_begin(&r, PERF_RECORD_COMM, misc);
	record_u32(&r, (uint32_t)pid, (uint32_t)pid);
	record_str(&r, "name");
	record_u32(&r, (uint32_t)pid, (uint32_t)pid);
	record_u64(&r, f->t + after);
	record_u32(&r, cpu, 0);
	record_u64(&r, FAKE_ID);
	fake_write(f, cpu, &r);
}

static void put_map(struct fake *f, uint32_t cpu, pid_t pid, uint64_t after)
{
	struct record r;

	record_begin(&r, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	record_u32(&r, (uint32_t)pid, (uint32_t)pid);
	record_u64(&r, CODE_AT);
	record_u64(&r, 0x1000);
	record_u64(&r, 0);
	record_u32(&r, 8, 1);
	record_u64(&r, one_of(4) ? 0 : INO);
	record_u64(&r, 0);
	record_u32(&r, 5, 2);
	record_str(&r, one_of(2) ? "/bin/python3" : "/lib/x.so");
	record_u32(&r, (uint32_t)pid, (uint32_t)pid);
	record_u64(&r, f->t + after);
	record_u32(&r, cpu, 0);
	record_u64(&r, FAKE_ID);
	fake_write(f, cpu, &r);
}

static void put_lost(struct fake *f, uint64_t after)
{
	struct record r;

	record_begin(&r, PERF_RECORD_LOST, 0);
	record_u64(&r, FAKE_ID);
	record_u64(&r, 3);
	record_trailer(&r, 0, f->t + after);
	fake_write(f, 0, &r);
}

static void put_task(struct fake *f, uint32_t cpu, uint64_t after)
{
	uint32_t parent = (uint32_t)any_pid();
	uint32_t pid = one_of(2) ? parent : (uint32_t)pids[1 + draw(3)];
	uint32_t tid = pid == parent ? (uint32_t)any_tid() : pid;
	bool born = one_of(2);
	const uint32_t ids[] = { pid, born ? parent : pid, tid, born ? parent : tid };

	fake_task_on(f, cpu, born ? PERF_RECORD_FORK : PERF_RECORD_EXIT, ids, after);
}

static void put_switch(struct fake *f, uint32_t cpu, uint64_t after)
{
	static const uint16_t kinds[] = {
		IN,
		PERF_RECORD_MISC_SWITCH_OUT,
		PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
	};
	uint16_t misc = kinds[cpu ? draw(2) : draw(3)];

	fake_switch(f, cpu, misc, any_tid(), after);
}

static void put_any(struct course *k, uint64_t after)
{
	uint32_t cpu = one_of(4);
	struct fake *f = k->f;

	switch (draw(14)) {
	case 0:
	case 1:
	case 2:
	case 3:
		put_sample(k, after);
		return;
	case 4:
		put_witness(f, after);
		return;
	case 5:
		put_task(f, cpu, after);
		return;
	case 6:
		for (uint32_t n = one_of(3) ? 2 : 1; n; n--)
			put_named(f, cpu, after);
		return;
	case 7:
		put_map(f, cpu, any_pid(), after);
		return;
	case 8:
		if (one_of(3))
			put_lost(f, after);
		return;
	default:
		put_switch(f, cpu, after);
	}
}

/* --- a course --- */

static struct reader *reader_of(struct course *k)
{
	struct fake *f = k->f;
	struct reader *r = begin(f);

	keeping.read = one_of(3) ? capture_idle : hold_flush;
	keeping.flush = hold_flush;
	keeping.release = release;
	keeping.judge = one_of(4) ? capture_judge_unheld : capture_judge_held;
	keeping.comes_back = one_of(4) ? comes_back_always : capture_comes_back_never;
	r->tap = &tap;
	r->unfit = one_of(8);
	live = r->mem.base.ops;
	r->mem.base.ops = &ours_only;
	return r;
}

/* Whether the samples are so many as were taken or counted; a record with an id that nobody
 * knows may be a witness, of whom nobody counts. */
static void check_books(const struct course *k, uint64_t queued)
{
	const struct fake *f = k->f;
	uint64_t counted = fake_counted(f, foreign) + fake_counted(f, outside) +
			   fake_counted(f, unknown) + fake_counted(f, shed) +
			   fake_counted(f, queue_full) + fake_counted(f, gil_none) +
			   fake_counted(f, gil_unknown);

	if (!f->c.witness)
		assert_int_equal(queued + counted, k->taken);
}

static void play(struct course *k)
{
	struct fake *f = k->f;
	uint64_t after = 0, queued;
	struct reader *r;

	choose(k);
	r = reader_of(k);
	k->taken = 0;
	for (int i = 0; i < RECORDS; i++) {
		after += one_of(8) ? draw(60 * US) : draw(9 * US);
		put_any(k, after);
		if (one_of(12))
			reader_drain(r, one_of(6), false);
	}
	reader_drain(r, 0, true);
	assert_int_equal(r->n_pend, 0);
	assert_int_equal(r->pos, f->page[0].data_head);
	note(r->way_out), note(r->pace), note(r->held_ns > 0), note(r->bounced);
	queued = note_queues(f);
	note_waits(&k->post);
	note_counters(f);
	check_books(k, queued);
	reader_destroy(r);
	forget(k);
}

/* In all tables by numbers of processes, of which newborns' is the smallest, each has a place of
 * its own. */
static bool are_apart(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		for (size_t k = 0; k < i; k++)
			if ((pids[i] - pids[k]) % NEWBORNS == 0 ||
			    (hash_u64((uint32_t)pids[i]) - hash_u64((uint32_t)pids[k])) %
					    READER_RENAMED == 0)
				return false;
	return true;
}

static void name_processes(void)
{
	pids[0] = getpid();
	for (pid_t base = 100; !are_apart(); base++)
		for (pid_t i = 1; i < (pid_t)ARRAY_SIZE(pids); i++)
			pids[i] = base + i;
}

static void any_course(void **state)
{
	static struct course k = { .poke = { -1, -1 } };

	hash_seed = (struct hash_seed){ 12345, 0x9e3779b97f4a7c15 }; /* caches keep the same */
	k.f = *state;
	k.f->t = BEGIN;
	births_destroy(k.f->c.births);
	k.post = (struct wait_post){ .in = k.in, .poke = k.poke };
	for (size_t i = 0; i < FAKE_CPUS; i++)
		assert_int_equal(queue_init(&k.in[i], 1 << 16), 0);
	name_processes();
	for (uint32_t i = 0; i < COURSES; i++)
		play(&k);
	for (size_t i = 0; i < FAKE_CPUS; i++)
		queue_deinit(&k.in[i]);
#ifdef __x86_64__ /* other processors have other registers */
	if (sum != 0xbf11ab57c4dee4c9)
		fail_msg("0x%016llx", (unsigned long long)sum);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(any_course),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
