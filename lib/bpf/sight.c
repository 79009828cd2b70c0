/* SPDX-License-Identifier: MIT
 *
 * sight - the word's layout, and the program that writes it.
 */
#include "bpf/sight.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "bpf/bpf_code.h"
#include "sys/cpus.h"

enum {
	HASH = (int)2654435761u,
	HASH_BITS = 16,
	TASK_BITS = 6, /* the last ones of a task's address say nothing */
	/* Where the parts begin. The word: */
	SURE = 0, /* its bits: CPUs whose last comer is in sight, */
	KNOWN_SHIFT = 16, /* CPUs with a switch since the program runs, */
	UNSEEN_SHIFT = 32, /* how often one left who had not been seen coming */
	COUNT = 0xffff,
	FOOLED = 8, /* not 0: a hidden thread was taken for one in sight, once */
	TASKS = 64, /* addresses of tasks in sight, by their hash */
	CPUS = TASKS + (8 << HASH_BITS),
	/* A row a CPU: */
	LAST = 0,    /* the task that came last */
	IS_SURE = 8, /* 1: it is in sight */
	ROW = 64,
	/* Bits of a task's state: EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD (include/linux/sched.h). */
	ENDED = 0x10 | 0x20 | 0x80,
};

static size_t size_of(const struct sight *s)
{
	return CPUS + (size_t)s->n_cpus * ROW;
}

/* R1 becomes the address of the part at @at. */
#define PART(s, at) \
	WIDE_LO(BPF_REG_1, BPF_PSEUDO_MAP_VALUE, (s)->map), INSN(0, 0, 0, 0, (int)(at))

/* R1 becomes the address of the place of the task in @r. Uses R2. */
#define PLACE(s, r)                                                                       \
	MOV(BPF_REG_2, r), SHRI(BPF_REG_2, TASK_BITS), MULI32(BPF_REG_2, HASH),           \
		SHRI32(BPF_REG_2, 32 - HASH_BITS), SHLI(BPF_REG_2, 3), PART(s, TASKS), \
		ADD(BPF_REG_1, BPF_REG_2)

/* Arguments: preempted, the task that leaves, the one that comes, the state of who leaves. */
static int load_switch(const struct sight *s)
{
	struct bpf_code c = { 0 };

	BPF_PUT(&c, LOAD(BPF_DW, BPF_REG_6, BPF_REG_1, 8),
		LOAD(BPF_DW, BPF_REG_7, BPF_REG_1, 16), LOAD(BPF_DW, BPF_REG_8, BPF_REG_1, 24));
	/* Who leaves is in sight, or ends. */
	BPF_PUT(&c, PLACE(s, BPF_REG_6), MOVI(BPF_REG_3, 0), IF(BPF_JSET, BPF_REG_8, ENDED, 1),
		MOV(BPF_REG_3, BPF_REG_6), STORE(BPF_DW, BPF_REG_1, 0, BPF_REG_3));
	/* R9: 1 if who comes is in sight. */
	BPF_PUT(&c, PLACE(s, BPF_REG_7), LOAD(BPF_DW, BPF_REG_2, BPF_REG_1, 0),
		MOVI(BPF_REG_9, 1), IFX(BPF_JEQ, BPF_REG_2, BPF_REG_7, 1), MOVI(BPF_REG_9, 0));
	BPF_PUT(&c, CALL(BPF_FUNC_get_smp_processor_id),
		IF(BPF_JLT, BPF_REG_0, (int)s->n_cpus, 2), MOVI(BPF_REG_0, 0), EXIT,
		MULI(BPF_REG_0, ROW), PART(s, CPUS), ADD(BPF_REG_1, BPF_REG_0),
		LOAD(BPF_DW, BPF_REG_2, BPF_REG_1, LAST),
		LOAD(BPF_DW, BPF_REG_3, BPF_REG_1, IS_SURE),
		STORE(BPF_DW, BPF_REG_1, LAST, BPF_REG_7),
		STORE(BPF_DW, BPF_REG_1, IS_SURE, BPF_REG_9), SUB(BPF_REG_9, BPF_REG_3));
	/* R9: what the word gets. A CPU's first switch; one that left who had not come. If the
	 * one that had come was in sight, a hidden thread was taken for a seen one. */
	BPF_PUT(&c, IF(BPF_JNE, BPF_REG_2, 0, 1), ADDI(BPF_REG_9, 1 << KNOWN_SHIFT),
		IFX(BPF_JEQ, BPF_REG_2, BPF_REG_6, 8), MOVI(BPF_REG_4, 1),
		SHLI(BPF_REG_4, UNSEEN_SHIFT), ADD(BPF_REG_9, BPF_REG_4),
		IF(BPF_JEQ, BPF_REG_3, 0, 4), PART(s, FOOLED), MOVI(BPF_REG_4, 1),
		STORE(BPF_DW, BPF_REG_1, 0, BPF_REG_4),
		IF(BPF_JEQ, BPF_REG_9, 0, 3), PART(s, SURE), FETCH_ADD(BPF_REG_1, 0, BPF_REG_9),
		MOVI(BPF_REG_0, 0), EXIT);
	return bpf_load(&c, BPF_PROG_TYPE_RAW_TRACEPOINT);
}

/* Its arguments are known to be these. */
static bool knows_order(void)
{
	struct utsname u;

	return uname(&u) == 0 && (u.release[0] >= '6' || u.release[1] != '.');
}

static int make_map(struct sight *s)
{
	void *at = NULL;

	s->map = bpf_value(size_of(s), 0, PROT_READ, &at);
	s->at = at;
	return MIN(s->map, 0);
}

/* After the program runs: a CPU that comes online later shows by its first switch. */
static int count_online(struct sight *s)
{
	struct cpus online;
	int r = cpus_system(&online, "online");

	s->n_online = r < 0 ? 0 : (uint32_t)cpus_count(&online);
	return r;
}

int sight_init(struct sight *s, uint32_t n_cpus)
{
	int r;

	*s = (struct sight){ .map = -1, .link = -1, .n_cpus = n_cpus };
	r = knows_order() ? make_map(s) : -ENOTSUP;
	if (r == 0)
		r = s->link = bpf_link("sched_switch", load_switch(s));
	if (r >= 0)
		r = count_online(s);
	if (r < 0)
		sight_deinit(s);
	return r;
}

void sight_deinit(struct sight *s)
{
	if (s->at)
		munmap((void *)(uintptr_t)s->at, size_of(s));
	if (s->link >= 0)
		close(s->link);
	if (s->map >= 0)
		close(s->map);
	*s = (struct sight){ .map = -1, .link = -1 };
}

bool sight_clear(const struct sight *s, struct sight_seen *seen, uint64_t since)
{
	uint64_t word, sure;
	uint32_t n_unseen;

	/* What was read before counts. */
	atomic_thread_fence(memory_order_seq_cst);
	word = atomic_load_explicit(&s->at[SURE / 8], memory_order_acquire);
	n_unseen = (uint32_t)(word >> UNSEEN_SHIFT);
	sure = word & COUNT;
	if (!seen->ns || n_unseen != seen->n_unseen)
		*seen = (struct sight_seen){ .ns = now_ns(), .n_unseen = n_unseen };
	if (atomic_load_explicit(&s->at[FOOLED / 8], memory_order_acquire))
		return false;
	return seen->ns < since && sure >= s->n_online && sure == (word >> KNOWN_SHIFT & COUNT);
}
