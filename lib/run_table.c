/* SPDX-License-Identifier: MIT
 *
 * run_table - the table's layout, and the four programs that write it.
 */
#include "run_table.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base.h"

enum {
	HASH = (int)2654435761u,
	HASH_BITS = 16,
	PLACES = 1 << HASH_BITS,
	/* Where the parts begin. Who leaves has two words: when, and when with a record, to
	 * which its number is added so that nobody else's is taken for it. */
	OUTS = 0,
	RECORDED = OUTS + PLACES * 8,
	SAMPLED = RECORDED + PLACES * 8,
	INS = SAMPLED + PLACES * 8,
	EXECS = INS + PLACES * 8,
	ANY_HOTPLUG = EXECS + PLACES * 8,
	CPUS = ANY_HOTPLUG + 64,
	/* A row a CPU: 64-bit words. */
	ROW = 256,
	ARMED = 0, /* the thread whose leaving gives a record; 0: none's */
	HOTPLUG = 8,
	DROPPED = 16,
	NUMBER_BIT = 42, /* in RECORDED; numbers are below 1 << 22 (PID_MAX_LIMIT) */
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

/* --- the programs --- */

/* R1 becomes the address of the part at @at. */
#define TABLE(t, at) \
	WIDE_LO(BPF_REG_1, BPF_PSEUDO_MAP_VALUE, (t)->map), INSN(0, 0, 0, 0, (int)(at))

/* The place in @part of the number in the lower half of R6 gets the time, which R8 keeps; R7
 * is how far from @part's begin it lies. What the thread does afterwards is seen after that by
 * all CPUs. */
static void put_note(const struct run_table *t, struct bpf_code *c, size_t part)
{
	BPF_PUT(c, MOV32(BPF_REG_7, BPF_REG_6), MULI32(BPF_REG_7, HASH),
		SHRI32(BPF_REG_7, 32 - HASH_BITS), SHLI(BPF_REG_7, 3),
		CALL(BPF_FUNC_ktime_get_ns), MOV(BPF_REG_8, BPF_REG_0), TABLE(t, part),
		ADD(BPF_REG_1, BPF_REG_7),
		t->barrier ? XCHG(BPF_REG_1, 0, BPF_REG_0) :
			     STORE(BPF_DW, BPF_REG_1, 0, BPF_REG_0));
}

/* R1 becomes the address of the row of the CPU in R0. One that has none ends with 0. */
static void put_row(const struct run_table *t, struct bpf_code *c)
{
	BPF_PUT(c, IF(BPF_JLT, BPF_REG_0, (int)t->n_cpus, 2), MOVI(BPF_REG_0, 0), EXIT,
		MULI(BPF_REG_0, ROW), TABLE(t, CPUS), ADD(BPF_REG_1, BPF_REG_0));
}

void run_table_arm(const struct run_table *t, struct bpf_code *c)
{
	BPF_PUT(c, CALL(BPF_FUNC_get_smp_processor_id));
	put_row(t, c);
	BPF_PUT(c, MOV32(BPF_REG_2, BPF_REG_7), STORE(BPF_DW, BPF_REG_1, ARMED, BPF_REG_2),
		MOV32(BPF_REG_6, BPF_REG_7));
	put_note(t, c, SAMPLED);
}

void run_table_drop(const struct run_table *t, struct bpf_code *c, uint32_t e)
{
	int16_t at = (int16_t)(DROPPED + 8 * e);

	BPF_PUT(c, CALL(BPF_FUNC_get_smp_processor_id));
	put_row(t, c);
	BPF_PUT(c, LOAD(BPF_DW, BPF_REG_2, BPF_REG_1, at), ADDI(BPF_REG_2, 1),
		STORE(BPF_DW, BPF_REG_1, at, BPF_REG_2));
}

/* The thread in R6 leaves: 1 where that is to be a record. */
static void put_verdict(const struct run_table *t, struct bpf_code *c)
{
	BPF_PUT(c, CALL(BPF_FUNC_get_smp_processor_id));
	put_row(t, c);
	BPF_PUT(c, MOVI(BPF_REG_0, 0), MOV32(BPF_REG_3, BPF_REG_6),
		LOAD(BPF_DW, BPF_REG_2, BPF_REG_1, ARMED), IF(BPF_JEQ, BPF_REG_3, 0, 9),
		IFX(BPF_JNE, BPF_REG_2, BPF_REG_3, 8),
		STORE(BPF_DW, BPF_REG_1, ARMED, BPF_REG_0), TABLE(t, RECORDED),
		ADD(BPF_REG_1, BPF_REG_7), SHLI(BPF_REG_3, NUMBER_BIT),
		ADD(BPF_REG_3, BPF_REG_8), STORE(BPF_DW, BPF_REG_1, 0, BPF_REG_3),
		MOVI(BPF_REG_0, 1), EXIT);
}

static int load_note(const struct run_table *t, size_t part)
{
	enum bpf_prog_type type =
		part == EXECS ? BPF_PROG_TYPE_RAW_TRACEPOINT : BPF_PROG_TYPE_PERF_EVENT;
	struct bpf_code c = { 0 };
	int r = bpf_put_current(&c, 0);

	if (r < 0)
		return r;
	BPF_PUT(&c, MOV(BPF_REG_6, BPF_REG_0));
	if (part == EXECS)
		BPF_PUT(&c, SHRI(BPF_REG_6, 32));
	put_note(t, &c, part);
	if (part == OUTS)
		put_verdict(t, &c);
	else
		BPF_PUT(&c, MOVI(BPF_REG_0, 0), EXIT);
	return bpf_load(&c, type);
}

/* Its first argument is the CPU (trace/events/cpuhp.h). */
static int load_hotplug(const struct run_table *t)
{
	struct bpf_code c = { 0 };

	BPF_PUT(&c, LOAD(BPF_DW, BPF_REG_6, BPF_REG_1, 0), CALL(BPF_FUNC_ktime_get_ns),
		MOV(BPF_REG_7, BPF_REG_0), MOV32(BPF_REG_0, BPF_REG_6));
	put_row(t, &c);
	BPF_PUT(&c, STORE(BPF_DW, BPF_REG_1, HOTPLUG, BPF_REG_7), TABLE(t, ANY_HOTPLUG),
		STORE(BPF_DW, BPF_REG_1, 0, BPF_REG_7), MOVI(BPF_REG_0, 0), EXIT);
	return bpf_load(&c, BPF_PROG_TYPE_RAW_TRACEPOINT);
}

static int link_to(const char *tracepoint, int program)
{
	union bpf_attr a = { .raw_tracepoint = { .name = (uintptr_t)tracepoint,
						 .prog_fd = (uint32_t)program } };

	return bpf_call(BPF_RAW_TRACEPOINT_OPEN, &a);
}

/* Kernels before 5.12 have no barrier; x86-64 needs none, for its stores are seen in order. */
static int load_all(struct run_table *t)
{
	t->barrier = true;
	t->out = load_note(t, OUTS);
#ifdef __x86_64__
	if (t->out == -EINVAL) {
		t->barrier = false;
		t->out = load_note(t, OUTS);
	}
#endif
	t->in = t->out < 0 ? t->out : load_note(t, INS);
	t->execs = t->in < 0 ? t->in : load_note(t, EXECS);
	t->hotplug = t->execs < 0 ? t->execs : load_hotplug(t);
	t->exec_link = t->hotplug < 0 ? t->hotplug : link_to("sched_process_exec", t->execs);
	t->hotplug_link = t->exec_link < 0 ? t->exec_link : link_to("cpuhp_enter", t->hotplug);
	return t->hotplug_link < 0 ? t->hotplug_link : 0;
}

/* --- */

static int make_table(struct run_table *t)
{
	union bpf_attr a = { .map_type = BPF_MAP_TYPE_ARRAY,
			     .key_size = sizeof(uint32_t),
			     .value_size = (uint32_t)size_of(t),
			     .max_entries = 1,
			     .map_flags = BPF_F_MMAPABLE };
	void *at;

	t->map = bpf_call(BPF_MAP_CREATE, &a);
	if (t->map < 0)
		return t->map;
	at = mmap(NULL, size_of(t), PROT_READ, MAP_SHARED, t->map, 0);
	if (at == MAP_FAILED)
		return -errno;
	t->at = at;
	return 0;
}

int run_table_init(struct run_table *t, uint32_t n_cpus)
{
	int r;

	*t = (struct run_table){ -1, -1, -1, -1, -1, -1, -1, n_cpus, true, NULL };
	r = make_table(t);
	if (r == 0)
		r = load_all(t);
	if (r < 0)
		run_table_deinit(t);
	return r;
}

void run_table_deinit(struct run_table *t)
{
	int *fds[] = { &t->hotplug_link, &t->exec_link, &t->hotplug, &t->execs,
		       &t->in,		 &t->out,	&t->map };

	if (t->at)
		munmap((void *)(uintptr_t)t->at, size_of(t));
	t->at = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

int run_table_watch_outs(const struct run_table *t, int fd)
{
	return ioctl(fd, PERF_EVENT_IOC_SET_BPF, t->out) < 0 ? -errno : 0;
}

int run_table_watch_ins(const struct run_table *t, int fd)
{
	return ioctl(fd, PERF_EVENT_IOC_SET_BPF, t->in) < 0 ? -errno : 0;
}

uint64_t run_table_dropped(const struct run_table *t, uint32_t e)
{
	uint64_t n = 0;

	for (uint32_t cpu = 0; cpu < t->n_cpus; cpu++)
		n += word(t, CPUS + (size_t)cpu * ROW + DROPPED + 8 * e);
	return n;
}

/* A sample that came since would have armed it anew, and its leaving would be the second. */
bool run_table_stays(const struct run_table *t, pid_t tid, uint64_t sampled, uint64_t left)
{
	uint64_t out = word(t, place_of(OUTS, tid));
	uint64_t recorded = word(t, place_of(RECORDED, tid));

	return out > sampled && recorded == out + ((uint64_t)tid << NUMBER_BIT) &&
	       word(t, place_of(SAMPLED, tid)) < left && !run_table_moved(t, tid, sampled);
}

bool run_table_moved(const struct run_table *t, pid_t tid, uint64_t since)
{
	return word(t, place_of(INS, tid)) > since;
}

bool run_table_execed(const struct run_table *t, pid_t pid, uint64_t since)
{
	return word(t, place_of(EXECS, pid)) > since;
}

uint64_t run_table_any_hotplug(const struct run_table *t)
{
	return word(t, ANY_HOTPLUG);
}

uint64_t run_table_hotplug(const struct run_table *t, int cpu)
{
	return (uint32_t)cpu < t->n_cpus ? word(t, CPUS + (size_t)cpu * ROW + HOTPLUG) : 0;
}
