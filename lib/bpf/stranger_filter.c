/* SPDX-License-Identifier: MIT
 *
 * stranger_filter - the program, and its map of strangers.
 */
#include "bpf/stranger_filter.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bpf/run_table.h"

enum {
	STRANGERS = 8192, /* the least recently sampled gives way */
	KEY = -24,	  /* on the program's stack: the process */
};

/* What overflowed in a process that is a stranger until later than now is no sample: 0. But where
 * it had been the program that it is for less than STRANGER_NS when it was taken for one, it is
 * dropped for no longer than that: what it will run shows later, and nothing wakes a reader
 * then but a sample. */
static int load_program(const struct stranger_filter *f, uint32_t e)
{
	struct bpf_code c = { 0 };
	size_t known, later, execed = 0, young = 0;
	int r = bpf_put_current(&c, 1);

	if (r < 0)
		return r;
	BPF_PUT(&c, MOV(BPF_REG_7, BPF_REG_0), SHRI(BPF_REG_0, 32),
		STORE(BPF_W, BPF_REG_10, KEY, BPF_REG_0),
		WIDE_LO(BPF_REG_1, BPF_PSEUDO_MAP_FD, f->map), WIDE_HI(0),
		MOV(BPF_REG_2, BPF_REG_10), ADDI(BPF_REG_2, KEY),
		CALL(BPF_FUNC_map_lookup_elem));
	known = c.n;
	BPF_PUT(&c, IF(BPF_JEQ, BPF_REG_0, 0, 0), LOAD(BPF_DW, BPF_REG_6, BPF_REG_0, 0),
		CALL(BPF_FUNC_ktime_get_ns));
	later = c.n;
	BPF_PUT(&c, IFX(BPF_JLE, BPF_REG_6, BPF_REG_0, 0));
	if (f->table) {
		run_table_put_execed(f->table, &c);
		BPF_PUT(&c, ADDI(BPF_REG_6, -STRANGER_NS)); /* when it was taken for one */
		execed = c.n;
		BPF_PUT(&c, IFX(BPF_JGT, BPF_REG_1, BPF_REG_6, 0), MOV(BPF_REG_2, BPF_REG_6),
			SUB(BPF_REG_2, BPF_REG_1), ADD(BPF_REG_2, BPF_REG_6));
		young = c.n;
		BPF_PUT(&c, IFX(BPF_JLE, BPF_REG_2, BPF_REG_0, 0));
		run_table_drop(f->table, &c, e);
	}
	BPF_PUT(&c, MOVI(BPF_REG_0, 0), EXIT);
	if (f->table) {
		c.insn[execed].off = (int16_t)(c.n - execed - 1);
		c.insn[young].off = (int16_t)(c.n - young - 1);
	}
	c.insn[known].off = (int16_t)(c.n - known - 1);
	c.insn[later].off = (int16_t)(c.n - later - 1);
	if (f->table)
		run_table_arm(f->table, &c);
	BPF_PUT(&c, MOVI(BPF_REG_0, 1), EXIT);
	return bpf_load(&c, BPF_PROG_TYPE_PERF_EVENT);
}

int stranger_filter_init(struct stranger_filter *f, const struct run_table *table)
{
	union bpf_attr a = { .map_type = BPF_MAP_TYPE_LRU_HASH,
			     .key_size = sizeof(uint32_t),
			     .value_size = sizeof(uint64_t),
			     .max_entries = STRANGERS };

	*f = (struct stranger_filter){ .map = bpf_call(BPF_MAP_CREATE, &a), .table = table };
	for (uint32_t e = 0; e < STRANGER_EVENTS; e++)
		f->program[e] = -1;
	if (f->map < 0)
		return f->map;
	f->program[0] = load_program(f, 0);
	if (f->program[0] < 0) {
		int r = f->program[0];

		stranger_filter_deinit(f);
		return r;
	}
	/* The idle task, and us. */
	stranger_filter_add(f, 0, UINT64_MAX);
	stranger_filter_add(f, getpid(), UINT64_MAX);
	return 0;
}

void stranger_filter_deinit(struct stranger_filter *f)
{
	if (f->map < 0)
		return;
	for (uint32_t e = 0; e < STRANGER_EVENTS; e++)
		if (f->program[e] >= 0)
			close(f->program[e]);
	close(f->map);
	f->map = -1;
}

int stranger_filter_attach(struct stranger_filter *f, int fd, uint32_t e)
{
	if (f->map < 0)
		return 0;
	/* Who is dropped is counted for each event, by a program of its own. */
	if (!f->table)
		e = 0;
	if (f->program[e] < 0)
		f->program[e] = load_program(f, e);
	if (f->program[e] < 0)
		return f->program[e];
	return ioctl(fd, PERF_EVENT_IOC_SET_BPF, f->program[e]) < 0 ? -errno : 0;
}

void stranger_filter_add(const struct stranger_filter *f, pid_t pid, uint64_t until_ns)
{
	uint32_t key = (uint32_t)pid;
	union bpf_attr a = { .map_fd = (uint32_t)f->map,
			     .key = (uintptr_t)&key,
			     .value = (uintptr_t)&until_ns };

	if (f->map >= 0)
		bpf_call(BPF_MAP_UPDATE_ELEM, &a);
}
