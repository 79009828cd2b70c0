/* SPDX-License-Identifier: MIT
 *
 * fake_program - a reader without a thread, for tests of program.c: records of forks, execs
 * and maps, an interpreter that is known from another process, and processes' memory, a few
 * bytes of each.
 */
#ifndef FAKE_PROGRAM_H
#define FAKE_PROGRAM_H

#include <errno.h>
#include <stdlib.h>

#include "base/stats.h"
#include "capture/reader_int.h"
#include "perf_records.h"
#include "targets/births.h"

enum {
	PID = 70,
	PARENT = 81, /* none of these shares a place of reader.newborn */
	THREAD = 85, /* of the parent */
	RING = 4096,
	MOVED = 0x10000,
	ID_BYTES = 20,
	INO = 555,
};
static const raddr CODE_AT = 0x400000, ID_AT = 0x401000, RUNTIME = 0x600000,
		   VERSIONS = 0x700000;
static const char ID[ID_BYTES + 1] = "0123456789abcdefghij";

/* What can be read: of one process, at one address. */
struct memory {
	pid_t pid;
	raddr at;
	char bytes[ID_BYTES];
};

struct fix {
	struct reader *r;
	struct reader_config c;
	struct stats stats;
	struct targets targets;
	struct cpu_slot slot;
	struct target *t; /* PID's */
	struct walk w;
	struct memory memory[4];
	size_t n_memory;
	struct pyfind_code code; /* of the interpreter that is known, and ... */
	struct target *known;	 /* ... where it was proven */
	struct perf_ring ring;
	struct perf_event_mmap_page page;
	uint64_t at;
	_Atomic uint64_t words[4 << 16]; /* ... of the kernel's table */
	struct run_table table;
	_Alignas(8) unsigned char data[RING];
};

static struct fix *fix; /* for what is called back */

static inline int memory_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct guarded *g = container_of(m, struct guarded, base);

	for (size_t i = 0; i < fix->n_memory; i++) {
		const struct memory *k = &fix->memory[i];

		if (k->pid == g->below.pid && k->at == at && n <= ID_BYTES) {
			memcpy(buf, k->bytes, n);
			return 0;
		}
	}
	return -EFAULT;
}

static const struct rmem_ops memory_ops = { "memory", memory_read, NULL };

static inline void put_memory(struct fix *f, pid_t pid, raddr at, const void *bytes, size_t n)
{
	struct memory *k = &f->memory[f->n_memory++];

	*k = (struct memory){ .pid = pid, .at = at };
	memcpy(k->bytes, bytes, n);
}

static inline struct target *publish(struct fix *f, pid_t pid, int state)
{
	struct target *t = target_create(pid);

	t->state = state;
	assert_int_equal(targets_publish(&f->targets, &t, 1), 0);
	return t;
}

/* The interpreter of another process, which is no target any more. */
static inline void teach(struct fix *f)
{
	struct target *t = f->known = target_create(4711);

	t->state = TARGET_PYTHON;
	t->version = 0x030c01f0;
	t->runtime = RUNTIME;
	t->py = (struct pystack_target){ .pid = 4711,
					 .program = 9,
					 .layout = *pylayout_find(0x030c),
					 .code_versions = VERSIONS,
					 .root = 0x7ff000 };
	pywalk_layout_init(&t->py.walk, &t->py.layout, RUNTIME);
	f->code = (struct pyfind_code){ .maj = 8,
					.min = 1,
					.ino = INO,
					.pgoff = 0x3000,
					.at = CODE_AT,
					.build_id_at = ID_AT,
					.build_id_n = ID_BYTES };
	memcpy(f->code.build_id, ID, ID_BYTES);
	births_teach(f->c.births, &f->code, t);
}

static inline int setup(void **state)
{
	struct fix *f = fix = calloc(1, sizeof(*f));

	f->r = calloc(1, sizeof(*f->r));
	f->c = (struct reader_config){ .targets = &f->targets,
				       .stats = &f->stats,
				       .births = births_create(),
				       .kick = -1 };
	f->r->c = &f->c;
	f->r->slot = &f->slot;
	assert_int_equal(queue_init(&f->slot.ctl, 1 << 16), 0);
	guarded_init(&f->r->mem, &f->slot.guard, -1);
	f->r->mem.base.ops = &memory_ops;
	assert_int_equal(targets_init(&f->targets), 0);
	f->ring = (struct perf_ring){ .page = &f->page, .data = f->data, .size = RING };
	f->t = publish(f, PID, TARGET_PENDING);
	teach(f);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fix *f = *state;

	queue_deinit(&f->slot.ctl);
	births_destroy(f->c.births);
	targets_deinit(&f->targets);
	free(f->known);
	free(f->r);
	free(f);
	return 0;
}

/* --- records --- */

static inline void note(struct fix *f, struct record *r, pid_t pid, uint64_t time)
{
	record_u32(r, (uint32_t)pid, (uint32_t)pid);
	record_u64(r, time);
	record_u32(r, 0, 0);
	record_u64(r, 1);
	for (size_t i = 0; i < r->n; i++)
		f->data[(f->at + i) & (RING - 1)] = r->bytes[i];
	births_note(f->c.births, &f->ring, f->at,
		    (const struct perf_event_header *)(const void *)r->bytes,
		    r->bytes + r->n - PERF_TRAILER);
	f->at += r->n;
}

static inline void note_exec(struct fix *f, pid_t pid, uint64_t time)
{
	struct record r;

	record_begin(&r, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	record_u32(&r, (uint32_t)pid, (uint32_t)pid);
	record_str(&r, "x");
	note(f, &r, pid, time);
}

static inline void note_map_of(struct fix *f, pid_t pid, raddr at, const char *path,
			       uint64_t time)
{
	struct record r;

	record_map(&r, 0, (uint32_t)pid, (uint32_t)pid, at, INO, path);
	note(f, &r, pid, time);
}

static inline void note_map(struct fix *f, pid_t pid, raddr at, uint64_t time)
{
	note_map_of(f, pid, at, "/lib/x", time);
}

static inline void note_fork(struct fix *f, pid_t pid, pid_t ppid, pid_t ptid, uint64_t time)
{
	struct record r;

	record_begin(&r, PERF_RECORD_FORK, 0);
	record_u32(&r, (uint32_t)pid, (uint32_t)ppid);
	record_u32(&r, (uint32_t)pid, (uint32_t)ptid);
	record_u64(&r, time);
	note(f, &r, pid, time);
}

/* --- what is asked --- */

/* Can a sample of @pid be read, and of what? */
static inline enum pystack_end able(struct fix *f, pid_t pid)
{
	f->w = (struct walk){ .pid = pid,
			      .tid = pid,
			      .sample_ns = 1234,
			      .published = targets_find(&f->targets, pid) };
	program_readable(f->r, &f->w);
	return f->w.able;
}

/* The next message to the control thread is this one; 0: there is none. */
static inline void expect_control(struct fix *f, uint32_t type, pid_t pid, uint64_t time)
{
	const struct queue_record *rec = queue_peek(&f->slot.ctl);
	struct ctl_msg m;

	assert_int_equal(rec ? rec->type : 0, type);
	if (!rec)
		return;
	memcpy(&m, rec->data, sizeof(m));
	assert_int_equal(m.pid, pid);
	assert_int_equal(m.time, time);
	queue_pop(&f->slot.ctl);
}

/* Nobody can tell: the control thread is asked, once, and the resolver decides. */
static inline void expect_asked(struct fix *f, pid_t pid)
{
	struct target *t = targets_find(&f->targets, pid);

	while (queue_peek(&f->slot.ctl))
		queue_pop(&f->slot.ctl);
	if (t)
		t->asked = false;
	assert_int_equal(able(f, pid), PYSTACK_END_N);
	assert_true(f->w.undecided);
	assert_ptr_equal(f->w.program, t);
	expect_control(f, t ? CTL_LOOK : CTL_UNKNOWN, pid, t ? 1234 : 0);
	able(f, pid);
	expect_control(f, t ? 0 : CTL_UNKNOWN, pid, 0);
	expect_control(f, 0, 0, 0);
}

/* It can be read, as the known interpreter, @moved further. */
static const struct target *expect_known(struct fix *f, pid_t pid, raddr moved)
{
	const struct target *n;

	assert_int_equal(able(f, pid), PYSTACK_OK);
	assert_false(f->w.undecided);
	assert_ptr_equal(f->w.published, targets_find(&f->targets, pid));
	n = f->w.program;
	assert_ptr_not_equal(n, f->w.published);
	assert_int_equal(n->pid, pid);
	assert_int_equal(n->state, TARGET_PYTHON);
	assert_int_equal(n->py.pid, pid);
	assert_int_equal(n->py.root, 0);
	assert_true(n->py.program < 0);
	assert_int_equal(n->py.code_versions, VERSIONS + moved);
	assert_int_equal(n->py.walk.interp_head, f->known->py.walk.interp_head + moved);
	assert_int_equal(n->py.layout.frame.size, f->known->py.layout.frame.size);
	return n;
}

#endif
