/* SPDX-License-Identifier: MIT
 *
 * fake_ring - a recording without a kernel, for tests: rings of bytes in memory, one a CPU, a
 * made-up Python (pyworld.h) at its addresses in our own memory, so that a real reader reads
 * it through process_vm_readv(), and what the reader queues as text.
 *
 * A test fills the rings, calls fake_run() and takes what came with fake_next().
 */
#ifndef FAKE_RING_H
#define FAKE_RING_H

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "targets/births.h"
#include "capture/hold.h"
#include "capture/reader.h"
#include "base/clock.h"
#include "watch/event_ids.h"
#include "base/nudge.h"
#include "sample/perf_decode.h"
#include "perf_records.h"
#include "pyworld.h"
#include "base/stats.h"
#include "sys/proc.h"

enum {
	FAKE_CPUS = 2,
	FAKE_RING = 256 << 10,
	FAKE_TID = 4000031, /* no thread of this machine */
	FAKE_PAGE = 4096,
	FAKE_CODES = 256,
	FAKE_UNITS = 8,
	FAKE_STACK = 512, /* bytes that come with a sample */
	FAKE_SIDE = 128,
	FAKE_ID = 600,	  /* of event 0; event 1: one more ... */
	FAKE_WITNESS = 700,
	US = 1000, /* ns */
	IN = 0,	   /* misc of a switch */
	NAMED = 1, /* neither pc nor stack pointer, on any processor */
};

struct fake {
	struct reader_config c;
	struct session session;
	struct targets targets;
	struct target *target;
	struct cpu_slot slots[FAKE_CPUS];
	struct perf_event_mmap_page page[FAKE_CPUS];
	unsigned char *map[FAKE_CPUS];
	_Atomic(struct event_ids *) ids;
	struct world *w;
	raddr interp, ts, sp, code['z' + 1];
	uint64_t t;   /* when the sample of the tests happens */
	uint32_t own; /* the CPU whose reader runs */
	uint32_t version;
	uint64_t code_id[FAKE_CODES];
	char code_name[FAKE_CODES];
	size_t n_codes, n_side;
	struct perf_event_header side;		  /* the last one's */
	unsigned char side_body[FAKE_SIDE];	  /* what follows it */
	_Alignas(8) unsigned char last[64 << 10]; /* the last sample */
	struct stats stats;			  /* since the last fake_start() */
	bool hole[WORLD_BYTES / FAKE_PAGE];	  /* pages of the world that are not mapped */
};

/* Of the last sample that fake_next() told of. */
static inline struct q_sample *fake_sample(struct fake *f)
{
	return (struct q_sample *)(void *)f->last;
}

/* Called as each judgement is made: after the stack was read, before it is looked at again. */
static void (*fake_on_judge)(void);

static inline enum judgement fake_judge(const struct hold *h)
{
	if (fake_on_judge)
		fake_on_judge();
	return capture_judge_held(h);
}

static inline int fake_begin(const struct preempt_plan *p, int cpu)
{
	return 0;
}

static inline void fake_release(struct reader *r, struct walk *w)
{
	uint64_t t_out = hold_last_of(r, w)->hold.t_out;

	hold_release(r, w);
	if (t_out)
		hold_charge(r, w->t_end - t_out, w);
}

static const struct capture_ops fake_capture = {
	.name = "fake",
	.wait_ms = 200,
	.thread_begin = fake_begin,
	.waits_begin = capture_waits_ordinary,
	.moved_away = capture_stays,
	.shed = capture_sleep,
	.scan = capture_idle,
	.comes_back = capture_comes_back_never,
	.read = hold_flush,
	.flush = hold_flush,
	.release = fake_release,
	.resume = cpu_events_restart,
	.judge = fake_judge,
};

static inline void fake_slot(struct fake *f, uint32_t i)
{
	struct cpu_slot *s = &f->slots[i];

	f->map[i] = mmap(NULL, FAKE_RING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	*s = (struct cpu_slot){ .cpu = (int)i, .index = i, .watched_ns = 1 };
	s->ring = (struct perf_ring){ .fd = eventfd(0, 0),
				      .cpu = (int)i,
				      .page = &f->page[i],
				      .data = f->map[i],
				      .size = FAKE_RING };
	s->handover.posted = -1;
	for (int e = 0; e < SESSION_MAX_EVENTS; e++)
		s->sampler[e] = -1;
	assert_int_equal(queue_init(&s->queue, 1 << 20), 0);
	assert_int_equal(queue_init(&s->ctl, 1 << 16), 0);
	s->queue.hurry = s->ctl.hurry = -1;
}

static inline void fake_configure(struct fake *f)
{
	f->session.n_events = 1;
	for (int e = 0; e < 3; e++)
		f->session.events[e].attr =
			(struct perf_event_attr){ .type = PERF_TYPE_SOFTWARE,
						  .config = PERF_COUNT_SW_CPU_CLOCK,
						  .sample_period = 1000 };
	f->c = (struct reader_config){
		.capture = &fake_capture,
		.targets = &f->targets,
		.stats = &f->stats,
		.session = &f->session,
		.max_frames = 512,
		.hold_budget = 100,
		.sample_type = PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN,
		.stack_bytes = FAKE_STACK,
		.queue_bytes = 1 << 20,
		.kick = eventfd(0, 0),
		.end_ns = UINT64_MAX,
		.over_ns = UINT64_MAX,
		.ids = &f->ids,
		.last_in = calloc(LAST_IN, sizeof(*f->c.last_in)),
		.births = births_create(),
		.slots = f->slots,
		.cap_slots = FAKE_CPUS,
		.n_slots = FAKE_CPUS,
	};
	f->ids = event_ids_create(16, NULL);
	for (uint8_t e = 0; e < 3; e++)
		event_ids_add(f->ids, FAKE_ID + e, e);
}

/* A process with an interpreter of @version, and a thread in it. */
static inline struct fake *fake_create(uint16_t version)
{
	struct fake *f = calloc(1, sizeof(*f));
	void *at = (void *)(uintptr_t)WORLD_AT;

	assert_ptr_equal(mmap(at, WORLD_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
			 at);
	f->w = world_create(pylayout_find(version));
	f->interp = world_interp(f->w);
	f->ts = world_thread(f->w, f->interp, FAKE_TID, true);
	f->sp = world_take(f->w, FAKE_STACK);
	for (uint32_t i = 0; i < FAKE_CPUS; i++)
		fake_slot(f, i);
	fake_configure(f);
	assert_int_equal(targets_init(&f->targets), 0);
	f->target = target_create(getpid());
	/* It lives, however old the samples are that are made up for it. */
	f->target->pidfd = proc_pidfd(getpid());
	f->target->state = TARGET_PYTHON;
	f->target->py = (struct pystack_target){
		.pid = getpid(), .program = 1, .layout = f->w->l, .walk = f->w->walk
	};
	assert_int_equal(targets_publish(&f->targets, &f->target, 1), 0);
	/* Its events may be older than we are. */
	targets_open(&f->targets, f->target);
	f->t = now_ns();
	fake_on_judge = NULL;
	return f;
}

static inline void fake_destroy(struct fake *f)
{
	munmap((void *)(uintptr_t)WORLD_AT, WORLD_BYTES);
	for (uint32_t i = 0; i < FAKE_CPUS; i++) {
		munmap(f->map[i], FAKE_RING);
		close(f->slots[i].ring.fd);
		queue_deinit(&f->slots[i].queue);
		queue_deinit(&f->slots[i].ctl);
	}
	close(f->c.kick);
	event_ids_destroy(f->ids);
	births_destroy(f->c.births);
	targets_deinit(&f->targets);
	free(f->c.last_in);
	free(f->w);
	free(f);
}

/* The thread's stack: functions named by letters, innermost first, each at its unit 3. */
static inline void fake_python(struct fake *f, const char *codes)
{
	size_t n = strlen(codes);
	char letters[WORLD_FRAMES + 2] = "";
	raddr code[WORLD_FRAMES + 1] = { 0 }, instr[WORLD_FRAMES + 1] = { 0 };

	for (size_t i = 0; i < n; i++) {
		const struct world_code c = {
			(char[]){ codes[i], '\0' }, "/x.py", 10, FAKE_UNITS, 2, ++f->version
		};
		raddr *at = &f->code[(unsigned char)codes[i]];

		*at = *at ? *at : world_code(f->w, &c);
		code[i] = *at;
		instr[i] = world_instr(f->w, *at, 3);
		letters[i] = 'f';
	}
	if (f->w->l.owner_shim)
		letters[n] = 's';
	else if (n)
		letters[n - 1] = 'e';
	world_stack(f->w, f->ts, letters, code, instr);
}

/* The bytes of the target's memory at @at, as they are while the reader runs. */
static inline void *fake_memory(raddr at)
{
	return (void *)(uintptr_t)at;
}

static inline void fake_write(struct fake *f, uint32_t cpu, const struct record *r)
{
	struct perf_event_mmap_page *page = &f->page[cpu];

	for (size_t i = 0; i < r->n; i++)
		f->map[cpu][(page->data_head + i) & (FAKE_RING - 1)] = r->bytes[i];
	page->data_head += r->n;
}

/* What a sample says; what is left 0 is our thread's in CPU 0's ring, of event 0. */
struct fake_event {
	pid_t pid, tid;
	uint64_t id, after, ip, instructions, regs_add, period;
	uint64_t reg; /* what register NAMED has; 0: as the others */
	size_t cut;   /* bytes of the stack that memory has not */
	uint16_t misc;
	bool witness, no_regs, no_stack;
	const uint64_t *chain;
	int n_chain;
	uint32_t cpu;
};

/* Registers: each its number and @regs_add, but the stack pointer and NAMED. */
static inline void fake_regs(struct fake *f, struct record *r, const struct fake_event *e)
{
	record_u64(r, e->no_regs ? PERF_SAMPLE_REGS_ABI_NONE : PERF_SAMPLE_REGS_ABI_64);
	for (int i = 0; !e->no_regs && i < arch_host->n_regs; i++)
		record_u64(r, i == arch_host->sp     ? f->sp :
			      i == NAMED && e->reg ? e->reg :
						     (uint64_t)(1000 + i) + e->regs_add);
}

static inline void fake_reads(struct fake *f, struct record *r, uint64_t value)
{
	record_u64(r, 2);
	record_u64(r, 1);
	record_u64(r, 1);
	record_u64(r, 77);
	record_u64(r, FAKE_ID + 1);
	record_u64(r, value);
	record_u64(r, FAKE_ID + 2);
}

/* One sample, @e.after ns behind f->t. */
static inline void fake_take(struct fake *f, struct fake_event e)
{
	uint64_t type = f->c.sample_type;
	struct record r;

	record_begin(&r, PERF_RECORD_SAMPLE, e.misc ? e.misc : PERF_RECORD_MISC_USER);
	record_u64(&r, e.id ? e.id : e.witness ? FAKE_WITNESS : FAKE_ID);
	if (!e.witness)
		record_u64(&r, e.ip ? e.ip : 1000 + (uint64_t)arch_host->ip);
	record_u32(&r, (uint32_t)(e.pid ? e.pid : getpid()),
		   (uint32_t)(e.tid ? e.tid : FAKE_TID));
	record_u64(&r, f->t + e.after);
	if (!e.witness) {
		record_u64(&r, 0xadd4);
		record_u32(&r, e.cpu, 0);
	}
	if (!e.witness && type & PERF_SAMPLE_PERIOD)
		record_u64(&r, e.period ? e.period : 1000);
	if (e.witness ? f->c.counter : type & PERF_SAMPLE_READ)
		fake_reads(f, &r, e.instructions);
	if (!e.witness) {
		record_u64(&r, (uint64_t)e.n_chain);
		record_add(&r, e.chain, 8 * (size_t)e.n_chain);
	}
	fake_regs(f, &r, &e);
	if (!e.witness && !e.no_regs && !e.no_stack) {
		record_u64(&r, FAKE_STACK - e.cut);
		record_add(&r, world_mem(f->w, f->sp), FAKE_STACK - e.cut);
		record_u64(&r, FAKE_STACK - e.cut);
	}
	fake_write(f, e.cpu, &r);
}

static inline void fake_switch(struct fake *f, uint32_t cpu, uint16_t misc, pid_t tid,
			       uint64_t after)
{
	struct record r;

	record_switch(&r, misc, (uint32_t)tid, f->t + after);
	fake_write(f, cpu, &r);
}

/* The thread is made to leave CPU 0, @after ns behind f->t. */
static inline void fake_leave(struct fake *f, uint64_t after)
{
	fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
		    FAKE_TID, after);
}

/* The page at @at can't be read from now on. */
static inline raddr fake_hole(struct fake *f, raddr at)
{
	at &= ~(raddr)(FAKE_PAGE - 1);
	munmap(fake_memory(at), FAKE_PAGE);
	f->hole[(at - WORLD_AT) / FAKE_PAGE] = true;
	return at;
}

/* The world as it is now can be read. */
static inline void fake_lay(struct fake *f)
{
	memset(&f->stats, 0, sizeof(f->stats));
	for (size_t i = 0; i < WORLD_BYTES; i += FAKE_PAGE)
		if (!f->hole[i / FAKE_PAGE])
			memcpy(fake_memory(WORLD_AT + i), f->w->mem + i, FAKE_PAGE);
	nudge_init();
}

/* A CPU's reader begins with what its ring has. */
static inline void fake_start(struct fake *f)
{
	fake_lay(f);
	f->c.n_ready = 0;
	assert_int_equal(reader_start(&f->c, &f->slots[f->own]), 0);
	while (!f->c.n_ready)
		usleep(100);
}

static inline void fake_stop(struct fake *f)
{
	readers_stop(&f->slots[f->own], 1);
	assert_null(f->slots[f->own].reader);
}

/* It takes what its ring has. */
static inline void fake_run(struct fake *f)
{
	fake_start(f);
	fake_stop(f);
}

/* By how much a counter has grown in the last fake_run(). */
#define fake_counted(f, name) STATS_GET(&(f)->stats, name)

static inline const char *fake_text(struct fake *f, const struct q_sample *q)
{
	static const char *const provs[] = { "exact", "late", "torn", "nopython" };
	static char text[8 * WORLD_FRAMES];
	char *p = text;

	p += sprintf(p, "%s", provs[q->sample.prov]);
	for (uint32_t i = 0; i < q->n_python; i++) {
		const struct pystack_frame *frame = &q_python(q)[i];
		size_t k = 0;

		while (k < f->n_codes && f->code_id[k] != frame->code_id)
			k++;
		assert_true(k < f->n_codes);
		p += sprintf(p, " %c%u", f->code_name[k], frame->lasti / 2);
	}
	return text;
}

static inline void fake_code(struct fake *f, const struct queue_record *rec)
{
	const struct pycode_copy *c = (const void *)(rec->data + 8);
	char name[8];

	assert_true(f->n_codes < FAKE_CODES);
	pycode_name(c, name, sizeof(name));
	f->code_id[f->n_codes] = load_u64(rec->data);
	f->code_name[f->n_codes++] = name[0];
}

/* The next sample: "exact a3 b3"; what comes before it is noted. "": there is none. */
static inline const char *fake_next_of(struct fake *f, struct queue *queue, size_t skip)
{
	const struct queue_record *rec;

	for (; (rec = queue_peek(queue)); queue_pop(queue)) {
		if (rec->type == Q_CODE)
			fake_code(f, rec);
		if (rec->type == Q_SIDE) {
			memcpy(&f->side, rec->data, sizeof(f->side));
			memcpy(f->side_body, rec->data + sizeof(f->side),
			       MIN(f->side.size - sizeof(f->side), sizeof(f->side_body)));
			f->n_side++;
		}
		if (rec->type != Q_SAMPLE)
			continue;
		memcpy(f->last, rec->data + skip, rec->n - sizeof(*rec) - skip);
		queue_pop(queue);
		return fake_text(f, fake_sample(f));
	}
	return "";
}

static inline const char *fake_next(struct fake *f)
{
	return fake_next_of(f, &f->slots[f->own].queue, 0);
}

/* The next message to the control thread, its type into *@type (0: none). */
static inline struct ctl_msg fake_control(struct fake *f, uint32_t *type)
{
	const struct queue_record *rec = queue_peek(&f->slots[0].ctl);
	struct ctl_msg m = { 0 };

	*type = rec ? rec->type : 0;
	if (!rec)
		return m;
	memcpy(&m, rec->data, sizeof(m));
	queue_pop(&f->slots[0].ctl);
	return m;
}

/* A fork or an exit: pid, ppid, tid, ptid. */
static inline void fake_task_on(struct fake *f, uint32_t cpu, uint32_t type,
				const uint32_t ids[4], uint64_t after)
{
	struct record r;

	record_begin(&r, type, 0);
	record_u32(&r, ids[0], ids[1]);
	record_u32(&r, ids[2], ids[3]);
	record_u64(&r, f->t + after);
	record_u32(&r, ids[0], ids[2]);
	record_u64(&r, f->t + after);
	record_u32(&r, cpu, 0);
	record_u64(&r, FAKE_ID);
	fake_write(f, cpu, &r);
}

static inline void fake_task(struct fake *f, uint32_t type, const uint32_t ids[4],
			     uint64_t after)
{
	fake_task_on(f, 0, type, ids, after);
}

static inline void fake_expect_control(struct fake *f, uint32_t type, struct ctl_msg m)
{
	uint32_t got;
	struct ctl_msg c = fake_control(f, &got);

	assert_int_equal(got, type);
	assert_int_equal(c.pid, m.pid);
	assert_int_equal(c.ppid, m.ppid);
	assert_int_equal(c.ptid, m.ptid);
	assert_int_equal(c.time, m.time);
}

/* Of a test: a thread in a(), called by b(), on CPU 0. */
static inline int fake_setup(void **state)
{
	struct fake *f = fake_create(0x030c);

	f->w->chunk = 8192;
	fake_python(f, "ab");
	*state = f;
	return 0;
}

/* Its activations lie further than what is read of a stack. */
static inline int fake_setup_far(void **state)
{
	struct fake *f = fake_create(0x030c);

	f->w->chunk = 216 << 10;
	fake_python(f, "ab");
	*state = f;
	return 0;
}

static inline int fake_teardown(void **state)
{
	fake_destroy(*state);
	return 0;
}

#define FAKE_TEST(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)

#endif
