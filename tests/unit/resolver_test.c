/* SPDX-License-Identifier: MIT
 *
 * resolver: queues filled by hand, a sink that writes down what it is given. Frames
 * are drawn innermost first: k a kernel address, n: a native name, p: a function and
 * its line, [late] and [torn] the markers.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"
#include "../provenance.h"
#include "targets/announce.h"
#include "arch/arch.h"
#include "perf_records.h"
#include "stacks/profile.h"
#include "stacks/resolver.h"
#include "sample/sink.h"
#include "base/stats.h"
#include "sample/tape.h"
#include "targets/target.h"

enum { USER = PERF_RECORD_MISC_USER, KERNEL = PERF_RECORD_MISC_KERNEL };

/* The places where the thread may be: in the eval loop, in what it calls with, and elsewhere.
 * This program exports them, as an interpreter does. */
int _PyEval_EvalFrameDefault(int n);
int PyObject_Call(int n);
int plain_leaf(int n);

__attribute__((__noinline__)) int _PyEval_EvalFrameDefault(int n)
{
	return n * 3 + 1;
}

__attribute__((__noinline__)) int plain_leaf(int n)
{
	return n * 5 + 2;
}

__attribute__((__noinline__)) int PyObject_Call(int n)
{
	return n * 7 + 3;
}

static uint64_t eval_ip(void)
{
	return (uint64_t)(uintptr_t)&_PyEval_EvalFrameDefault;
}

static uint64_t plain_ip(void)
{
	return (uint64_t)(uintptr_t)&plain_leaf;
}

static uint64_t call_ip(void)
{
	return (uint64_t)(uintptr_t)&PyObject_Call;
}

/* The resolver does not sleep between two cycles. */
static _Atomic bool hasty;

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left)
{
	if (hasty)
		return 0;
	return syscall(SYS_clock_nanosleep, clock, flags, t, left) < 0 ? errno : 0;
}

/*
 * The sink
 */

struct fix {
	struct queue queue[2];
	struct queue *queues[2];
	struct sink sink;
	struct resolver_config c;
	struct resolver_counts counts;
	int fail;   /* what sample() returns */
	bool quiet; /* about sides */
	_Atomic int asked; /* whether to wait */
	_Atomic int rounds;
	char log[4096];
	size_t n;
};

__attribute__((__format__(__printf__, 2, 3))) static void say(struct fix *f, const char *fmt,
							      ...)
{
	va_list ap;

	va_start(ap, fmt);
	f->n += (size_t)vsnprintf(f->log + f->n, sizeof(f->log) - f->n, fmt, ap);
	va_end(ap);
	assert_true(f->n < sizeof(f->log));
}

static void say_frame(struct fix *f, const struct frame *frame)
{
	switch (frame->kind) {
	case FRAME_KERNEL:
		say(f, " k%llx", (unsigned long long)(frame->ip & 0xff));
		break;
	case FRAME_NATIVE:
		say(f, " n:%s", frame->name ? frame->name : "?");
		break;
	case FRAME_PYTHON:
		say(f, " p:%s%d", frame->func->qualname, frame->line);
		break;
	case FRAME_MARKER:
		say(f, " %s", frame->name);
		break;
	}
}

static int log_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	struct fix *f = s->priv;

	say(f, "%llu %s:", (unsigned long long)smp->time, provenance_name(smp->prov));
	for (size_t i = 0; i < stk->n; i++)
		say_frame(f, &stk->frames[i]);
	say(f, "\n");
	return f->fail;
}

static int log_side(struct sink *s, const struct side *side)
{
	struct fix *f = s->priv;

	if (!f->quiet)
		say(f, "%llu side %d\n", (unsigned long long)side->time, (int)side->kind);
	return 0;
}

static int log_round(struct sink *s)
{
	struct fix *f = s->priv;

	say(f, "round\n");
	f->rounds++;
	return 0;
}

/* What of it goes through is tape_has_own_records()'s to see. */
static unsigned n_own_records;

static int log_raw(struct sink *s, unsigned type, struct bytes head, struct bytes body)
{
	n_own_records += type == TAPE_SIDE;
	if (type == TAPE_SIDE)
		return 0;
	say(s->priv, "raw %u %.*s|%.*s\n", type, (int)head.n, (const char *)head.at,
	    (int)body.n, (const char *)body.at);
	return 0;
}

static const struct sink_ops named = {
	.name = "log",
	.needs = SINK_NEEDS_NAMES,
	.side = log_side,
	.sample = log_sample,
	.round = log_round,
	.raw = log_raw,
};
static const struct sink_ops nameless = { .name = "log", .sample = log_sample };

static struct stats stats;

static int setup(void **state)
{
	static const struct session session = { .stats = &stats };
	struct fix *f = calloc(1, sizeof(*f));

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(queue_init(&f->queue[i], 1 << 16), 0);
		f->queues[i] = &f->queue[i];
	}
	f->sink = (struct sink){ .ops = &named, .path = "log", .priv = f };
	f->c = (struct resolver_config){
		.session = &session,
		.queues = f->queues,
		.n_queues = 2,
		.sinks = { &f->sink },
		.n_sinks = 1,
		.native = true,
	};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	queue_deinit(&f->queue[0]);
	queue_deinit(&f->queue[1]);
	free(f);
	return 0;
}

/* Everything queued goes to the sink, which must have written @want. */
static void resolve(struct fix *f, const char *want)
{
	struct resolver *r = resolver_create(&f->c);

	assert_non_null(r);
	f->n = 0;
	f->log[0] = '\0';
	assert_int_equal(resolver_start(r), 0);
	resolver_stop(r, &f->counts);
	assert_int_equal(resolver_failed(r), f->fail != 0);
	resolver_destroy(r);
	assert_string_equal(f->log, want);
}

/*
 * What is queued
 */

static void put(struct fix *f, int queue, uint32_t type, const void *p, size_t n)
{
	void *to = queue_reserve(&f->queue[queue], type, n);

	assert_non_null(to);
	memcpy(to, p, n);
	queue_commit(&f->queue[queue]);
}

/* Code @id: a function named by one letter, each code unit a line, from 10 on. */
static void put_code(struct fix *f, int queue, uint64_t id, char name)
{
	static const unsigned char table[] = { 0xe8, 0, 0xe8, 2, 0xe8, 2 };
	struct {
		uint64_t id;
		unsigned char copy[sizeof(struct pycode_copy) + 1 + sizeof(table)];
	} q = { .id = id };
	struct pycode_copy c = {
		.firstlineno = 10,
		.name_n = 1,
		.table_n = sizeof(table),
		.name_kind = 1,
		.file_kind = 1,
		.linetable = PY_LOCATIONS_311,
	};

	memcpy(q.copy, &c, sizeof(c));
	q.copy[sizeof(c)] = (unsigned char)name;
	memcpy(q.copy + sizeof(c) + 1, table, sizeof(table));
	put(f, queue, Q_CODE, &q, offsetof(__typeof__(q), copy) + sizeof(q.copy));
}

struct put {
	uint64_t time;
	enum provenance prov;
	uint16_t misc;
	uint64_t ip, user_ip;
	uint32_t n_kernel;
	const char *python; /* ids as digits, all in their second line */
	bool anchored;	    /* with a stack of one frame, in which their activation lies */
	bool undecided;
	const struct target *program;
	uint32_t wait; /* a Q_WAIT_*: it is one, of @tid */
	pid_t tid;
};

/* At the first instruction of a function that was called from nowhere. */
static void put_anchored(struct q_sample *q)
{
	enum { SP = 0x7000 };
	unsigned char *regs = q_regs(q);

	*q_anchors(q) = (struct pystack_anchor){ .at = SP, .n = q->n_python };
	for (unsigned i = 0; i < q->n_regs; i++) {
		uint64_t v = arch_host->dwarf_regs[i] == ARCH_NO_REG	     ? q->sample.ip :
			     arch_host->dwarf_regs[i] == arch_host->dwarf_sp ? SP :
									       0;

		memcpy(regs + 8 * i, &v, sizeof(v));
	}
	q->stack_at = SP;
	memset(q_stack(q), 0, q->n_stack);
}

static void put_sample(struct fix *f, int queue, const struct put *p)
{
	uint32_t n = p->python ? (uint32_t)strlen(p->python) : 0;
	struct q_sample *q, head = {
		.sample = { .time = p->time,
			    .pid = getpid(),
			    .tid = p->tid ? p->tid : getpid(),
			    .ip = p->ip,
			    .misc = p->misc,
			    .prov = p->prov },
		.user_ip = p->user_ip,
		.n_kernel = p->n_kernel,
		.n_python = n,
		.n_anchors = p->anchored,
		.n_regs = p->anchored ? arch_host->n_regs : 0,
		.n_stack = p->anchored ? 16 : 0,
		.undecided = p->undecided,
		.program = p->program,
		.wait = p->wait,
	};

	q = queue_reserve(&f->queue[queue], Q_SAMPLE, q_bytes(&head));
	*q = head;
	for (uint32_t i = 0; i < p->n_kernel; i++)
		q_kernel(q)[i] = 0xffffffff81000001u + i;
	if (p->anchored)
		put_anchored(q);
	for (uint32_t i = 0; i < n; i++)
		q_python(q)[i] =
			(struct pystack_frame){ .code_id = (uint64_t)p->python[i] - '0',
						.lasti = 2 };
	queue_commit(&f->queue[queue]);
}

static void put_comm(struct fix *f, int queue, uint64_t time)
{
	struct record r;

	record_comm(&r, 0, "x", time);
	put(f, queue, Q_SIDE, r.bytes, r.n);
}

/*
 * Tests
 */

static void time_order(void **state)
{
	struct fix *f = *state;

	put_sample(f, 0, &(struct put){ .time = 10, .prov = PROV_NOPYTHON });
	put_sample(f, 0, &(struct put){ .time = 40, .prov = PROV_NOPYTHON });
	put_comm(f, 0, 60);
	put_comm(f, 1, 20);
	put_sample(f, 1, &(struct put){ .time = 50, .prov = PROV_NOPYTHON });
	put_sample(f, 1, &(struct put){ .time = 30, .prov = PROV_NOPYTHON });
	resolve(f, "10 nopython:\n20 side 0\n30 nopython:\n40 nopython:\n50 nopython:\n"
		   "60 side 0\nround\n");
	assert_int_equal(f->counts.by_prov[PROV_NOPYTHON], 4);
}

/* Numbers of codes are forgotten when all samples before are named; other numbers of the same
 * code are not. */
static void codes_are_forgotten_in_time(void **state)
{
	const struct q_codes_gone gone = { .time = 20, .from = 0, .below = 2 };
	const struct q_code_kept kept = { .id = 2, .was = 1 };
	struct fix *f = *state;

	put_code(f, 0, 1, 'a');
	put_sample(f, 0, &(struct put){ .time = 10, .prov = PROV_EXACT, .python = "1" });
	put(f, 0, Q_CODE_KEPT, &kept, sizeof(kept));
	put(f, 0, Q_CODES_GONE, &gone, sizeof(gone));
	put_sample(f, 0, &(struct put){ .time = 30, .prov = PROV_EXACT, .python = "2" });
	put_sample(f, 0, &(struct put){ .time = 40, .prov = PROV_EXACT, .python = "1" });
	resolve(f, "10 exact: p:a11\n30 exact: p:a11\n40 torn: [torn]\nround\n");
}

/* Of one time: as they came. */
static void equal_times(void **state)
{
	struct fix *f = *state;

	for (int i = 0; i < 4; i++) {
		put_comm(f, 0, 5);
		put_sample(f, 0, &(struct put){ .time = 5, .prov = PROV_TORN });
	}
	resolve(f, "5 side 0\n5 torn: [torn]\n5 side 0\n5 torn: [torn]\n"
		   "5 side 0\n5 torn: [torn]\n5 side 0\n5 torn: [torn]\nround\n");
}

/* One that nobody could judge is what is known by now of the program that it names. */
static void undecided(void **state)
{
	struct target *t = target_create(getpid());
	struct fix *f = *state;

	t->none_ns = 20;
	for (int i = 1; i <= 3; i++)
		put_sample(f, 0,
			   &(struct put){ .time = (uint64_t)i * 10,
					  .prov = PROV_TORN,
					  .undecided = true,
					  .program = t });
	put_sample(f, 0, &(struct put){ .time = 40, .prov = PROV_TORN, .undecided = true });
	resolve(f, "10 nopython:\n20 nopython:\n30 torn: [torn]\n40 torn: [torn]\nround\n");
	free(t);
}

/* A code is known to samples of any queue, also to those that are older. */
static void codes_first(void **state)
{
	struct fix *f = *state;

	put_sample(f, 0, &(struct put){ .time = 5, .prov = PROV_EXACT, .python = "1" });
	put_code(f, 1, 1, 'a');
	resolve(f, "5 exact: p:a11\nround\n");
}

struct stack_row {
	struct put put;
	bool full, no_native;
	const char *want;
};

/* In ip and user_ip: 1 is the eval loop, 2 another function, 3 one that it calls with. */
static const struct stack_row stack_rows[] = {
	{ { 1, PROV_EXACT, USER, 1, 0, 0, "12" }, .want = "1 exact: p:a11 p:b11" },
	{ { 1, PROV_EXACT, USER, 2, 0, 0, "12" },
	  .want = "1 exact: n:plain_leaf p:a11 p:b11" },
	{ { 1, PROV_EXACT, USER, 1, 0, 0, "12" },
	  .full = true,
	  .want = "1 exact: n:_PyEval_EvalFrameDefault p:a11 p:b11" },
	{ { 1, PROV_EXACT, USER, 2, 0, 0, "12" },
	  .no_native = true,
	  .want = "1 exact: p:a11 p:b11" },
	/* How the loop calls is shown where the event was. */
	{ { 1, PROV_EXACT, USER, 3, 0, 0, "12" },
	  .want = "1 exact: n:PyObject_Call p:a11 p:b11" },
	/* In the kernel: its frames, then where it was entered. */
	{ { 1, PROV_EXACT, KERNEL, 7, 2, 2, "1" },
	  .want = "1 exact: k1 k2 n:plain_leaf p:a11" },
	{ { 1, PROV_EXACT, KERNEL, 7, 1, 2, "1" }, .want = "1 exact: k1 k2 p:a11" },
	{ { 1, PROV_EXACT, KERNEL, 7, 0, 1, "1" }, .want = "1 exact: k1 p:a11" },
	/* [late] is the outermost, [torn] stands for the Python frames. */
	{ { 1, PROV_LATE, USER, 1, 0, 0, "12" }, .want = "1 late: p:a11 p:b11 [late]" },
	{ { 1, PROV_LATE, USER, 2, 0, 1, "1" },
	  .want = "1 late: k1 n:plain_leaf p:a11 [late]" },
	{ { 1, PROV_TORN, USER, 2, 0, 0, NULL }, .want = "1 torn: n:plain_leaf [torn]" },
	{ { 1, PROV_TORN, USER, 1, 0, 0, NULL },
	  .want = "1 torn: n:_PyEval_EvalFrameDefault [torn]" },
	{ { 1, PROV_TORN, KERNEL, 7, 2, 1, NULL },
	  .no_native = true,
	  .want = "1 torn: k1 [torn]" },
	/* Without Python frames the native one is all there is. */
	{ { 1, PROV_NOPYTHON, USER, 2, 0, 0, NULL },
	  .no_native = true,
	  .want = "1 nopython: n:plain_leaf" },
	{ { 1, PROV_NOPYTHON, USER, 1, 0, 0, NULL },
	  .want = "1 torn: n:_PyEval_EvalFrameDefault [torn]" },
	{ { 1, PROV_NOPYTHON, USER, 1, 0, 0, NULL },
	  .no_native = true,
	  .want = "1 torn: [torn]" },
	{ { 1, PROV_LATE, USER, 1, 0, 0, NULL },
	  .want = "1 torn: n:_PyEval_EvalFrameDefault [torn]" },
	{ { 1, PROV_NOPYTHON, KERNEL, 7, 0, 1, NULL }, .want = "1 nopython: k1" },
	/* But who was held there has those that were read, if only none. */
	{ { 1, PROV_EXACT, USER, 1, 0, 0, NULL },
	  .want = "1 exact: n:_PyEval_EvalFrameDefault" },
#ifdef __x86_64__
	/* An activation's frame; of a late sample, only what now lies where one was later. */
	{ { 1, PROV_EXACT, USER, 2, 0, 0, "12", true }, .want = "1 exact: p:a11 p:b11" },
	{ { 1, PROV_LATE, USER, 2, 0, 0, "12", true },
	  .want = "1 late: n:plain_leaf p:a11 p:b11 [late]" },
	{ { 1, PROV_LATE, USER, 1, 0, 0, "12", true }, .want = "1 late: p:a11 p:b11 [late]" },
#endif
	/* A code that was never queued. */
	{ { 1, PROV_EXACT, USER, 2, 0, 1, "13" }, .want = "1 torn: k1 n:plain_leaf [torn]" },
};

static uint64_t ip_of(uint64_t row)
{
	return row == 1 ? eval_ip() : row == 2 ? plain_ip() : row == 3 ? call_ip() : row;
}

static void stacks(void **state)
{
	struct fix *f = *state;

	f->quiet = true;
	for (size_t i = 0; i < ARRAY_SIZE(stack_rows); i++) {
		const struct stack_row *row = &stack_rows[i];
		struct put p = row->put;
		char want[256];

		p.ip = ip_of(p.ip);
		p.user_ip = ip_of(p.user_ip);
		f->c.native = !row->no_native;
		f->c.full = row->full;
		assert_int_equal(announce_process(&f->queue[1], getpid(), false, true, 0, NULL),
				 0);
		put_code(f, 0, 1, 'a');
		put_code(f, 0, 2, 'b');
		put_sample(f, 0, &p);
		snprintf(want, sizeof(want), "%s\nround\n", row->want);
		resolve(f, want);
	}
}

static void counted_as_given(void **state)
{
	struct fix *f = *state;
	uint64_t before = STATS_GET(&stats, torn_badcode);

	put_code(f, 0, 1, 'a');
	put_sample(f, 0, &(struct put){ .prov = PROV_EXACT, .python = "1" });
	put_sample(f, 0, &(struct put){ .prov = PROV_LATE, .python = "1" });
	put_sample(f, 0, &(struct put){ .prov = PROV_EXACT, .python = "9" });
	resolve(f, "0 exact: p:a11\n0 late: p:a11 [late]\n0 torn: [torn]\nround\n");
	assert_int_equal(f->counts.by_prov[PROV_EXACT], 1);
	assert_int_equal(f->counts.by_prov[PROV_LATE], 1);
	assert_int_equal(f->counts.by_prov[PROV_TORN], 1);
	assert_int_equal(STATS_GET(&stats, torn_badcode), before + 1);
}

/* Names are looked up for sinks that want them. */
static void without_names(void **state)
{
	struct fix *f = *state;

	f->sink.ops = &nameless;
	put_sample(f, 0, &(struct put){ 1, PROV_TORN, USER, plain_ip(), 0, 1, NULL });
	put_comm(f, 0, 2);
	resolve(f, "1 torn: k1 n:? [torn]\n");
}

/* The end of a wait whose sample had no room, which was counted where that was seen. */
static void a_wait_without_its_sample_is_lost_once(void **state)
{
	struct fix *f = *state;
	uint64_t lost = STATS_GET(&stats, lost);
	struct q_wait over = { .time = 5, .out = 2, .weight = 3, .tid = 71 };

	put(f, 0, Q_WAIT, &over, sizeof(over));
	resolve(f, "round\n");
	assert_int_equal(STATS_GET(&stats, lost), lost);
}

enum { FIT = 8 };
static const struct session few_frames = { .stats = &stats,
					   .memory = 4 * FIT * sizeof(struct frame) };

/* Thread @tid waits from @out on. */
static void put_deep_wait(struct fix *f, int tid, uint64_t out)
{
	put_sample(f, 0,
		   &(struct put){ .time = out,
				  .prov = PROV_NOPYTHON,
				  .n_kernel = FIT / 2 + 1,
				  .wait = Q_WAIT_SLEEP,
				  .tid = tid });
}

/* A queue had no room for the end of a wait: the thread's next one tells so, or the end of all. */
static void a_wait_without_its_end_is_lost(void **state)
{
	const struct q_wait over = { .time = 5, .out = 4, .weight = 3, .tid = 71 };
	uint64_t lost = STATS_GET(&stats, lost), full = STATS_GET(&stats, queue_full);
	struct fix *f = *state;

	put_deep_wait(f, 71, 2);
	put_deep_wait(f, 71, 4);
	put_deep_wait(f, 71, 4); /* read once more */
	put(f, 1, Q_WAIT, &over, sizeof(over));
	resolve(f, "5 nopython: [sleep] k1 k2 k3 k4 k5\nround\n");
	assert_int_equal(STATS_GET(&stats, lost), lost + 1);
	put_deep_wait(f, 71, 2);
	resolve(f, "round\n");
	assert_int_equal(STATS_GET(&stats, lost), lost + 2);
	assert_int_equal(STATS_GET(&stats, queue_full), full + 2);
}

/* Stacks of waits that are not over have a part of the memory for names and stacks. */
static void deep_waits(void **state)
{
	struct fix *f = *state;
	uint64_t unnamed = STATS_GET(&stats, unnamed);

	f->c.session = &few_frames;
	for (int tid = 1; tid <= 2; tid++) {
		struct q_wait over = { .time = 5, .out = 2, .weight = 3, .tid = tid };

		put_deep_wait(f, tid, 2);
		put(f, 1, Q_WAIT, &over, sizeof(over));
	}
	resolve(f, "5 nopython: [sleep] k1 k2 k3 k4 k5\n5 nopython: [sleep] [unnamed]\nround\n");
	assert_int_equal(STATS_GET(&stats, unnamed), unnamed + 1);
}

/* One that stands for nothing is nobody's: it is not given, and its stack has no room any more. */
static void a_wait_that_is_taken_back(void **state)
{
	struct fix *f = *state;

	f->c.session = &few_frames;
	for (int tid = 1; tid <= 3; tid++) {
		uint64_t out = 2 * (uint64_t)tid;
		struct q_wait over = {
			.time = out + 1, .out = out, .weight = tid / 3, .tid = tid
		};

		put_deep_wait(f, tid, out);
		put(f, 1, Q_WAIT, &over, sizeof(over));
	}
	resolve(f, "7 nopython: [sleep] k1 k2 k3 k4 k5\nround\n");
	assert_int_equal(f->counts.by_prov[PROV_NOPYTHON], 1);
}

static void lost_and_throttled_are_counted(void **state)
{
	struct fix *f = *state;
	uint64_t lost = STATS_GET(&stats, lost), throttled = STATS_GET(&stats, throttled);
	struct record r;

	record_begin(&r, PERF_RECORD_LOST_SAMPLES, 0);
	record_u64(&r, 17);
	record_trailer(&r, 71, 5);
	put(f, 0, Q_SIDE, r.bytes, r.n);
	record_begin(&r, PERF_RECORD_THROTTLE, 0);
	record_trailer(&r, 71, 6);
	put(f, 0, Q_SIDE, r.bytes, r.n);
	record_begin(&r, 4000, 0); /* what nobody knows */
	record_trailer(&r, 71, 7);
	put(f, 0, Q_SIDE, r.bytes, r.n);
	resolve(f, "5 side 4\n6 side 5\nround\n");
	assert_int_equal(STATS_GET(&stats, lost), lost + 17);
	assert_int_equal(STATS_GET(&stats, throttled), throttled + 1);
}

static void tape_records_pass_through(void **state)
{
	struct fix *f = *state;
	struct {
		uint32_t type, head;
		char text[8];
	} q = { 4, 3, "abcdefg" };

	put(f, 0, Q_TAPE, &q, sizeof(q));
	q.head = 8;
	q.text[7] = 'h';
	put(f, 0, Q_TAPE, &q, sizeof(q));
	q.head = 9; /* more than there is */
	put(f, 0, Q_TAPE, &q, sizeof(q));
	q.head = UINT32_MAX;
	put(f, 0, Q_TAPE, &q, sizeof(q));
	resolve(f, "raw 4 abc|defg\nraw 4 abcdefgh|\n");
}

/* Records that we made are in no ring; those of the kernel are, and bear an event's number. */
static void tape_has_own_records(void **state)
{
	struct fix *f = *state;
	struct record r;

	record_comm(&r, 0, "name", 5);
	n_own_records = 0;
	put(f, 0, Q_SIDE, r.bytes, r.n);
	memset(r.bytes + r.n - 8, 0, 8);
	put(f, 0, Q_SIDE, r.bytes, r.n);
	resolve(f, "5 side 0\n5 side 0\nround\n");
	assert_int_equal(1, n_own_records);
}

enum { LOOKS = 5 }; /* more than what is queued would be held for */

/* A record that its reader leaves in the ring for so long. */
static bool lies_in_a_ring(void *arg, uint64_t until)
{
	struct fix *f = arg;

	(void)until;
	if (++f->asked == LOOKS)
		put_comm(f, 1, 2);
	return f->asked < LOOKS;
}

static void waits_for_the_rings(void **state)
{
	struct fix *f = *state;
	struct resolver *r;

	f->c.waits = lies_in_a_ring;
	f->c.tick_arg = f;
	put_sample(f, 0, &(struct put){ 3, PROV_TORN, USER, 0, 0, 0, NULL });
	r = resolver_create(&f->c);
	assert_int_equal(resolver_start(r), 0);
	while (!f->rounds)
		usleep(1000);
	resolver_stop(r, &f->counts);
	resolver_destroy(r);
	assert_string_equal(f->log, "2 side 0\n3 torn: [torn]\nround\n");
}

static bool lies_for_ever(void *arg, uint64_t until)
{
	struct fix *f = arg;

	(void)until;
	f->asked++;
	return true;
}

/* A ring that nobody empties, as where its reader gets no CPU, holds back what others have for a
 * while, not to the end. */
static void waits_for_no_ring_for_ever(void **state)
{
	enum { WHILE = 70, EVER = 20 * WHILE };
	struct fix *f = *state;
	struct resolver *r;

	f->c.waits = lies_for_ever;
	f->c.tick_arg = f;
	put_sample(f, 0, &(struct put){ 3, PROV_TORN, USER, 0, 0, 0, NULL });
	r = resolver_create(&f->c);
	hasty = true;
	assert_int_equal(resolver_start(r), 0);
	while (!f->rounds && f->asked < EVER)
		usleep(1000);
	assert_int_equal(f->rounds, 1);
	assert_true(f->asked >= WHILE);
	resolver_stop(r, &f->counts);
	hasty = false;
	resolver_destroy(r);
	assert_string_equal(f->log, "3 torn: [torn]\nround\n");
}

/* A name is dated back to when it may have been given, also behind what sinks have. */
static void comes_too_late(void **state)
{
	struct fix *f = *state;
	struct resolver *r = resolver_create(&f->c);
	unsigned long long time = 0;

	put_sample(f, 0, &(struct put){ 3, PROV_TORN, USER, 0, 0, 0, NULL });
	assert_int_equal(resolver_start(r), 0);
	while (!f->rounds)
		usleep(1000);
	put_comm(f, 0, 2);
	resolver_stop(r, &f->counts);
	resolver_destroy(r);
	assert_int_equal(1, sscanf(f->log, "3 torn: [torn]\nround\n%llu side 0\n", &time));
	assert_true(time > 3);
}

static void failing_sink_is_told(void **state)
{
	struct fix *f = *state;

	f->fail = -ENOSPC;
	put_sample(f, 0, &(struct put){ 1, PROV_TORN, USER, 0, 0, 0, NULL });
	put_sample(f, 0, &(struct put){ 2, PROV_TORN, USER, 0, 0, 0, NULL });
	resolve(f, "1 torn: [torn]\n");
	assert_int_equal(f->sink.failed, -ENOSPC);
	assert_int_equal(f->sink.given, 2);
}

/* Neither does the sink that is no output keep a recording alive. */
static void the_other_outputs_go_on(void **state)
{
	struct fix *f = *state, other = { .n = 0 };
	struct sink sinks[] = { { .ops = &named, .path = "other", .priv = &other },
				{ .ops = &named, .priv = &other } };
	struct resolver *r;

	f->fail = -ENOSPC;
	for (size_t i = 0; i < 2; i++)
		f->c.sinks[f->c.n_sinks++] = &sinks[i];
	put_sample(f, 0, &(struct put){ 1, PROV_TORN, USER, 0, 0, 0, NULL });
	put_sample(f, 0, &(struct put){ 2, PROV_TORN, USER, 0, 0, 0, NULL });
	r = resolver_create(&f->c);
	assert_int_equal(resolver_start(r), 0);
	resolver_stop(r, &f->counts);
	assert_false(resolver_failed(r));
	assert_ptr_equal(resolver_next_failed(r), &f->sink);
	assert_null(resolver_next_failed(r));
	resolver_destroy(r);
	assert_string_equal(f->log, "1 torn: [torn]\n");
	assert_string_equal(other.log, "1 torn: [torn]\n1 torn: [torn]\n2 torn: [torn]\n"
				       "2 torn: [torn]\nround\nround\n");
	other.fail = -ENOSPC;
	other.n = f->n = 0;
	put_sample(f, 0, &(struct put){ 3, PROV_TORN, USER, 0, 0, 0, NULL });
	r = resolver_create(&f->c);
	assert_int_equal(resolver_start(r), 0);
	resolver_stop(r, &f->counts);
	assert_true(resolver_failed(r));
	resolver_destroy(r);
}

/* Stopped before it ran, and nothing queued at all. */
static void never_started(void **state)
{
	struct fix *f = *state;
	struct resolver *r = resolver_create(&f->c);

	put_comm(f, 0, 2);
	resolver_stop(r, &f->counts);
	assert_int_equal(f->counts.by_prov[PROV_EXACT], 0);
	resolver_destroy(r);
	resolver_destroy(NULL);
	queue_pop(&f->queue[0]);
	resolve(f, "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(time_order),
		TEST(undecided),
		TEST(codes_are_forgotten_in_time),
		TEST(equal_times),
		TEST(codes_first),
		TEST(stacks),
		TEST(counted_as_given),
		TEST(without_names),
		TEST(a_wait_without_its_sample_is_lost_once),
		TEST(a_wait_without_its_end_is_lost),
		TEST(deep_waits),
		TEST(a_wait_that_is_taken_back),
		TEST(lost_and_throttled_are_counted),
		TEST(tape_records_pass_through),
		TEST(tape_has_own_records),
		TEST(waits_for_the_rings),
		TEST(waits_for_no_ring_for_ever),
		TEST(comes_too_late),
		TEST(failing_sink_is_told),
		TEST(the_other_outputs_go_on),
		TEST(never_started),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
