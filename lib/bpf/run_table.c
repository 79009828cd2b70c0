/* SPDX-License-Identifier: MIT
 *
 * run_table - the table's layout, and the four programs that write it.
 */
#include "bpf/run_table.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/base.h"

enum {
	HASH = (int)2654435761u,
	HASH_BITS = 16,
	PLACES = 1 << HASH_BITS,
	TASK_BITS = 6, /* the last ones of a task's address say nothing */
	/* Where the parts begin, each with PLACES of 64 bits: when a task came; where it does
	 * that by a thread's number, with that number above; when a process execed. */
	CAME = 0,
	TASKS = CAME + PLACES * 8,
	EXECS = TASKS + PLACES * 8,
	NAMES = EXECS + PLACES * 8,
	/* What sampled threads are called: the thread, or 0 while that is written; its name.
	 */
	NAME_BITS = 12,
	NAME_SHIFT = 5,
	NAME = 8,
	/* When a task last left a CPU, with that CPU's number in the last LEFT_BITS. */
	LEFT = NAMES + (1 << (NAME_BITS + NAME_SHIFT)),
	LEFT_BITS = 12,
	CPUS = LEFT + PLACES * 8,
	/* A row a CPU: 64-bit words. */
	ROW = 256,
	ARMED = 0, /* the thread whose leaving gives a record; 0: none's */
	HOTPLUG = 8,
	DROPPED = 16,
};
_Static_assert(DROPPED + 8 * RUN_TABLE_EVENTS <= ROW, "a row holds a count an event");

static size_t size_of(const struct run_table *t)
{
	return CPUS + (size_t)t->n_cpus * ROW;
}

static uint64_t word(const struct run_table *t, size_t at)
{
	return atomic_load_explicit(&t->at[at / 8], memory_order_acquire);
}

static size_t place_of(size_t part, pid_t number)
{
	return part + (size_t)((uint32_t)number * (uint32_t)HASH >> (32 - HASH_BITS)) * 8;
}

static size_t name_of(pid_t tid)
{
	return NAMES +
	       ((size_t)((uint32_t)tid * (uint32_t)HASH >> (32 - NAME_BITS)) << NAME_SHIFT);
}

/* --- the programs --- */

/* R1 becomes the address of the part at @at. */
#define TABLE(t, at) \
	WIDE_LO(BPF_REG_1, BPF_PSEUDO_MAP_VALUE, (t)->map), INSN(0, 0, 0, 0, (int)(at))
/* The lower half of register @r becomes its hash. */
#define PLACE(r) MULI32(r, HASH), SHRI32(r, 32 - HASH_BITS)

/* The place in @part that R6 counts gets the time. What the thread does afterwards is seen
 * after that by all CPUs. */
static void put_time(const struct run_table *t, struct bpf_code *c, size_t part)
{
	BPF_PUT(c, CALL(BPF_FUNC_ktime_get_ns), TABLE(t, part), ADD(BPF_REG_1, BPF_REG_6),
		t->barrier ? XCHG(BPF_REG_1, 0, BPF_REG_0) :
			     STORE(BPF_DW, BPF_REG_1, 0, BPF_REG_0));
}

/* R1 becomes the address of the row of the CPU in R0. One that has none ends with 0. */
static void put_row(const struct run_table *t, struct bpf_code *c)
{
	BPF_PUT(c, IF(BPF_JLT, BPF_REG_0, (int)t->n_cpus, 2), MOVI(BPF_REG_0, 0), EXIT,
		MULI(BPF_REG_0, ROW), TABLE(t, CPUS), ADD(BPF_REG_1, BPF_REG_0));
}

/* The 64 bits at R8 become R0, and are seen before what is stored next. */
static void put_word(const struct run_table *t, struct bpf_code *c)
{
	BPF_PUT(c, t->barrier ? XCHG(BPF_REG_8, 0, BPF_REG_0) :
				STORE(BPF_DW, BPF_REG_8, 0, BPF_REG_0));
}

/* The thread in R7 has its name in its place. Who reads it meanwhile sees no thread there. */
static void put_name(const struct run_table *t, struct bpf_code *c)
{
	BPF_PUT(c, MOV32(BPF_REG_6, BPF_REG_7), MULI32(BPF_REG_6, HASH),
		SHRI32(BPF_REG_6, 32 - NAME_BITS), SHLI(BPF_REG_6, NAME_SHIFT),
		TABLE(t, NAMES), ADD(BPF_REG_1, BPF_REG_6), MOV(BPF_REG_8, BPF_REG_1),
		MOVI(BPF_REG_0, 0));
	put_word(t, c);
	BPF_PUT(c, MOV(BPF_REG_1, BPF_REG_8), ADDI(BPF_REG_1, NAME),
		MOVI(BPF_REG_2, RUN_TABLE_NAME), CALL(BPF_FUNC_get_current_comm),
		MOV32(BPF_REG_0, BPF_REG_7));
	put_word(t, c);
}

void run_table_arm(const struct run_table *t, struct bpf_code *c)
{
	BPF_PUT(c, CALL(BPF_FUNC_get_smp_processor_id));
	put_row(t, c);
	BPF_PUT(c, MOV32(BPF_REG_2, BPF_REG_7), STORE(BPF_DW, BPF_REG_1, ARMED, BPF_REG_2));
	put_name(t, c);
}

void run_table_put_execed(const struct run_table *t, struct bpf_code *c)
{
	BPF_PUT(c, MOV(BPF_REG_2, BPF_REG_7), SHRI(BPF_REG_2, 32), PLACE(BPF_REG_2),
		SHLI(BPF_REG_2, 3), TABLE(t, EXECS), ADD(BPF_REG_1, BPF_REG_2),
		LOAD(BPF_DW, BPF_REG_1, BPF_REG_1, 0));
}

void run_table_drop(const struct run_table *t, struct bpf_code *c, uint32_t e)
{
	int16_t at = (int16_t)(DROPPED + 8 * e);

	BPF_PUT(c, CALL(BPF_FUNC_get_smp_processor_id));
	put_row(t, c);
	BPF_PUT(c, LOAD(BPF_DW, BPF_REG_2, BPF_REG_1, at), ADDI(BPF_REG_2, 1),
		STORE(BPF_DW, BPF_REG_1, at, BPF_REG_2));
}

/* The current thread leaves this CPU: if it is the armed one, its number leads to its task
 * from now on, and there is a record. */
static int load_leaves(const struct run_table *t)
{
	struct bpf_code c = { 0 };
	size_t nobody, another;
	int r;

	BPF_PUT(&c, CALL(BPF_FUNC_get_smp_processor_id));
	put_row(t, &c);
	BPF_PUT(&c, MOV(BPF_REG_9, BPF_REG_1), LOAD(BPF_DW, BPF_REG_8, BPF_REG_9, ARMED));
	nobody = c.n;
	BPF_PUT(&c, IF(BPF_JEQ, BPF_REG_8, 0, 0));
	r = bpf_put_current(&c, 0);
	if (r < 0)
		return r;
	BPF_PUT(&c, MOV32(BPF_REG_7, BPF_REG_0));
	another = c.n;
	BPF_PUT(&c, IFX(BPF_JNE, BPF_REG_8, BPF_REG_7, 0), MOVI(BPF_REG_2, 0),
		STORE(BPF_DW, BPF_REG_9, ARMED, BPF_REG_2), CALL(BPF_FUNC_get_current_task),
		SHRI(BPF_REG_0, TASK_BITS), PLACE(BPF_REG_0), SHLI(BPF_REG_8, 32),
		ORR(BPF_REG_8, BPF_REG_0), PLACE(BPF_REG_7), SHLI(BPF_REG_7, 3),
		TABLE(t, TASKS), ADD(BPF_REG_1, BPF_REG_7),
		STORE(BPF_DW, BPF_REG_1, 0, BPF_REG_8), MOVI(BPF_REG_0, 1), EXIT);
	c.insn[nobody].off = (int16_t)(c.n - nobody - 1);
	c.insn[another].off = (int16_t)(c.n - another - 1);
	BPF_PUT(&c, MOVI(BPF_REG_0, 0), EXIT);
	return bpf_load(&c, BPF_PROG_TYPE_PERF_EVENT);
}

/* The task in R7 has left this CPU now. */
static void put_left(const struct run_table *t, struct bpf_code *c)
{
	BPF_PUT(c, SHRI(BPF_REG_7, TASK_BITS), PLACE(BPF_REG_7), SHLI(BPF_REG_7, 3),
		CALL(BPF_FUNC_get_smp_processor_id), MOV32(BPF_REG_9, BPF_REG_0),
		CALL(BPF_FUNC_ktime_get_ns), SHRI(BPF_REG_0, LEFT_BITS),
		SHLI(BPF_REG_0, LEFT_BITS), ORR(BPF_REG_0, BPF_REG_9), TABLE(t, LEFT),
		ADD(BPF_REG_1, BPF_REG_7), STORE(BPF_DW, BPF_REG_1, 0, BPF_REG_0));
}

/* Arguments: preempted, the task that leaves, the one that comes. A time that was read before
 * another task's, and stored after it, gives way to the time now. */
static int load_came(const struct run_table *t)
{
	struct bpf_code c = { 0 };

	BPF_PUT(&c, LOAD(BPF_DW, BPF_REG_7, BPF_REG_1, 8));
	BPF_PUT(&c, LOAD(BPF_DW, BPF_REG_6, BPF_REG_1, 16), SHRI(BPF_REG_6, TASK_BITS),
		PLACE(BPF_REG_6), SHLI(BPF_REG_6, 3), CALL(BPF_FUNC_ktime_get_ns),
		MOV(BPF_REG_8, BPF_REG_0), TABLE(t, CAME), ADD(BPF_REG_1, BPF_REG_6));
	if (t->barrier) {
		size_t newest;

		BPF_PUT(&c, XCHG(BPF_REG_1, 0, BPF_REG_0));
		newest = c.n;
		BPF_PUT(&c, IFX(BPF_JLE, BPF_REG_0, BPF_REG_8, 0));
		put_time(t, &c, CAME);
		c.insn[newest].off = (int16_t)(c.n - newest - 1);
	} else {
		BPF_PUT(&c, STORE(BPF_DW, BPF_REG_1, 0, BPF_REG_0));
	}
	if (t->notes_left)
		put_left(t, &c);
	BPF_PUT(&c, MOVI(BPF_REG_0, 0), EXIT);
	return bpf_load(&c, BPF_PROG_TYPE_RAW_TRACEPOINT);
}

static int load_execed(const struct run_table *t)
{
	struct bpf_code c = { 0 };
	int r = bpf_put_current(&c, 0);

	if (r < 0)
		return r;
	BPF_PUT(&c, MOV(BPF_REG_6, BPF_REG_0), SHRI(BPF_REG_6, 32), PLACE(BPF_REG_6),
		SHLI(BPF_REG_6, 3));
	put_time(t, &c, EXECS);
	BPF_PUT(&c, MOVI(BPF_REG_0, 0), EXIT);
	return bpf_load(&c, BPF_PROG_TYPE_RAW_TRACEPOINT);
}

/* Arguments: the CPU, the state that it is to reach, and that of this step (trace/events/cpuhp.h).
 * A step on the way down is above what is to be reached. On the way up no event is lost, and a
 * module that is loaded has a step of its own executed on each CPU, which stays as it is; CPU 0,
 * which booted, looks then as if it went down, before Linux 6.2. */
static int load_hotplug(const struct run_table *t)
{
	struct bpf_code c = { 0 };

	BPF_PUT(&c, LOAD(BPF_DW, BPF_REG_6, BPF_REG_1, 0), LOAD(BPF_DW, BPF_REG_7, BPF_REG_1, 8),
		LOAD(BPF_DW, BPF_REG_8, BPF_REG_1, 16), IFX(BPF_JLT, BPF_REG_7, BPF_REG_8, 2),
		MOVI(BPF_REG_0, 0), EXIT, CALL(BPF_FUNC_ktime_get_ns),
		MOV(BPF_REG_7, BPF_REG_0), MOV32(BPF_REG_0, BPF_REG_6));
	put_row(t, &c);
	BPF_PUT(&c, STORE(BPF_DW, BPF_REG_1, HOTPLUG, BPF_REG_7), MOVI(BPF_REG_0, 0), EXIT);
	return bpf_load(&c, BPF_PROG_TYPE_RAW_TRACEPOINT);
}

/* 5.18 began with another order of sched_switch's arguments. */
static bool knows_order(void)
{
	struct utsname u;

	return uname(&u) == 0 && strncmp(u.release, "5.18.", 5) != 0;
}

/* Kernels before 5.12 have no barrier; x86-64 needs none, for its stores are seen in order. */
static int load_all(struct run_table *t)
{
	t->barrier = true;
	t->link[0] = bpf_link("sched_switch", load_came(t));
#ifdef __x86_64__
	if (t->link[0] == -EINVAL) {
		t->barrier = false;
		t->link[0] = bpf_link("sched_switch", load_came(t));
	}
#endif
	t->link[1] =
		t->link[0] < 0 ? t->link[0] : bpf_link("sched_process_exec", load_execed(t));
	t->link[2] = t->link[1] < 0 ? t->link[1] : bpf_link("cpuhp_enter", load_hotplug(t));
	t->leaves = t->link[2] < 0 ? t->link[2] : load_leaves(t);
	return t->leaves < 0 ? t->leaves : 0;
}

/* --- */

static int make_table(struct run_table *t)
{
	void *at = NULL;

	t->map = bpf_value(size_of(t), 0, PROT_READ, &at);
	t->at = at;
	return MIN(t->map, 0);
}

int run_table_init(struct run_table *t, uint32_t n_cpus, bool notes_left)
{
	int r;

	*t = (struct run_table){ .map = -1,
				 .leaves = -1,
				 .link = { -1, -1, -1 },
				 n_cpus,
				 .notes_left = notes_left };
	r = knows_order() ? make_table(t) : -ENOTSUP;
	if (r == 0)
		r = load_all(t);
	if (r < 0)
		run_table_deinit(t);
	return r;
}

void run_table_deinit(struct run_table *t)
{
	int *fds[] = { &t->link[0], &t->link[1], &t->link[2], &t->leaves, &t->map };

	if (t->at)
		munmap((void *)(uintptr_t)t->at, size_of(t));
	t->at = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

int run_table_watch(const struct run_table *t, int fd)
{
	return ioctl(fd, PERF_EVENT_IOC_SET_BPF, t->leaves) < 0 ? -errno : 0;
}

uint64_t run_table_dropped(const struct run_table *t, uint32_t e)
{
	uint64_t n = 0;

	for (uint32_t cpu = 0; cpu < t->n_cpus; cpu++)
		n += word(t, CPUS + (size_t)cpu * ROW + DROPPED + 8 * e);
	return n;
}

uint64_t run_table_came(const struct run_table *t, pid_t tid)
{
	uint64_t task = word(t, place_of(TASKS, tid));

	return task >> 32 == (uint32_t)tid ? word(t, CAME + (size_t)(uint32_t)task * 8) :
					     UINT64_MAX;
}

bool run_table_left_another(const struct run_table *t, pid_t tid, int cpu, uint64_t since)
{
	const uint64_t cpus = (1 << LEFT_BITS) - 1;
	uint64_t task = word(t, place_of(TASKS, tid)), left;

	if (task >> 32 != (uint32_t)tid)
		return false;
	left = word(t, LEFT + (size_t)(uint32_t)task * 8);
	return (left & cpus) != ((uint64_t)cpu & cpus) && (left | cpus) > since;
}

bool run_table_execed(const struct run_table *t, pid_t pid, uint64_t since)
{
	return word(t, place_of(EXECS, pid)) > since;
}

bool run_table_name(const struct run_table *t, pid_t tid, char ret[RUN_TABLE_NAME])
{
	size_t at = name_of(tid);
	uint64_t half[RUN_TABLE_NAME / 8];
	bool its = word(t, at) == (uint32_t)tid;

	for (size_t i = 0; i < ARRAY_SIZE(half); i++)
		half[i] = word(t, at + NAME + 8 * i);
	memcpy(ret, half, sizeof(half));
	ret[RUN_TABLE_NAME - 1] = '\0';
	return its && word(t, at) == (uint32_t)tid;
}

uint64_t run_table_hotplug(const struct run_table *t, int cpu)
{
	return (uint32_t)cpu < t->n_cpus ? word(t, CPUS + (size_t)cpu * ROW + HOTPLUG) : 0;
}
