/* SPDX-License-Identifier: MIT
 *
 * stranger_filter - the program, instruction by instruction, and its one map: so few that no
 * compiler and no loader is worth its weight.
 */
#include "stranger_filter.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base.h"

enum {
	STRANGERS = 8192,	      /* the least recently sampled gives way */
	INIT_PID_NS_INO = 0xEFFFFFFC, /* PROC_PID_INIT_INO, include/linux/proc_ns.h */
	KEY = -4,		      /* on the program's stack: the process */
	NUMBERS = -16,		      /* ... and a struct bpf_pidns_info */
	TGID = NUMBERS + 4,
	MINOR_BITS = 20, /* of a dev_t in the kernel */
};

#define INSN(c, d, s, o, i) \
	((struct bpf_insn){ \
		.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })
#define MOV(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOVI(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADDI(d, i) INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define SHRI(d, i) INSN(BPF_ALU64 | BPF_RSH | BPF_K, d, 0, 0, i)
#define LOAD(size, d, s, o) INSN(BPF_LDX | BPF_MEM | (size), d, s, o, 0)
#define STORE(size, d, o, s) INSN(BPF_STX | BPF_MEM | (size), d, s, o, 0)
#define CALL(f) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define IF(op, d, i, skip) INSN(BPF_JMP | (op) | BPF_K, d, 0, skip, i)
#define IFX(op, d, s, skip) INSN(BPF_JMP | (op) | BPF_X, d, s, skip, 0)
#define EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
/* A 64-bit constant takes two. */
#define WIDE_LO(d, s, v) INSN(BPF_LD | BPF_DW | BPF_IMM, d, s, 0, (int32_t)(uint32_t)(v))
#define WIDE_HI(v) INSN(0, 0, 0, 0, (int32_t)(uint32_t)((uint64_t)(v) >> 32))

static int bpf(int cmd, union bpf_attr *a)
{
	long r = syscall(SYS_bpf, cmd, a, sizeof(*a));

	return r < 0 ? -errno : (int)r;
}

/* @p ends with the current process at KEY, by its number in our own PID namespace @ns. Returns
 * how many instructions that takes. One that has no number there passes. */
static size_t put_process(struct bpf_insn *p, const struct stat *ns)
{
	uint64_t dev = (uint64_t)major(ns->st_dev) << MINOR_BITS | minor(ns->st_dev);
	const struct bpf_insn any[] = {
		CALL(BPF_FUNC_get_current_pid_tgid),
		SHRI(BPF_REG_0, 32),
		STORE(BPF_W, BPF_REG_10, KEY, BPF_REG_0),
	};
	const struct bpf_insn inner[] = {
		WIDE_LO(BPF_REG_1, 0, dev),
		WIDE_HI(dev),
		WIDE_LO(BPF_REG_2, 0, ns->st_ino),
		WIDE_HI(ns->st_ino),
		MOV(BPF_REG_3, BPF_REG_10),
		ADDI(BPF_REG_3, NUMBERS),
		MOVI(BPF_REG_4, sizeof(struct bpf_pidns_info)),
		CALL(BPF_FUNC_get_ns_current_pid_tgid),
		IF(BPF_JEQ, BPF_REG_0, 0, 2),
		MOVI(BPF_REG_0, 1),
		EXIT,
		LOAD(BPF_W, BPF_REG_0, BPF_REG_10, TGID),
		STORE(BPF_W, BPF_REG_10, KEY, BPF_REG_0),
	};
	bool init = ns->st_ino == (ino_t)(uint32_t)INIT_PID_NS_INO;

	memcpy(p, init ? any : inner, init ? sizeof(any) : sizeof(inner));
	return init ? ARRAY_SIZE(any) : ARRAY_SIZE(inner);
}

/* What overflowed in a process that is a stranger until later than now is no sample: 0. */
static size_t put_verdict(struct bpf_insn *p, int map)
{
	const struct bpf_insn code[] = {
		WIDE_LO(BPF_REG_1, BPF_PSEUDO_MAP_FD, map),
		WIDE_HI(0),
		MOV(BPF_REG_2, BPF_REG_10),
		ADDI(BPF_REG_2, KEY),
		CALL(BPF_FUNC_map_lookup_elem),
		IF(BPF_JEQ, BPF_REG_0, 0, 3),
		LOAD(BPF_DW, BPF_REG_6, BPF_REG_0, 0),
		CALL(BPF_FUNC_ktime_get_ns),
		IFX(BPF_JGT, BPF_REG_6, BPF_REG_0, 2),
		MOVI(BPF_REG_0, 1),
		EXIT,
		MOVI(BPF_REG_0, 0),
		EXIT,
	};

	memcpy(p, code, sizeof(code));
	return ARRAY_SIZE(code);
}

static int load_program(int map)
{
	struct bpf_insn code[64];
	union bpf_attr a = { .prog_type = BPF_PROG_TYPE_PERF_EVENT,
			     .insns = (uintptr_t)code,
			     /* ktime_get_ns() is for programs that say so. */
			     .license = (uintptr_t) "Dual MIT/GPL" };
	struct stat ns;
	size_t n;

	if (stat("/proc/self/ns/pid", &ns) < 0)
		return -errno;
	n = put_process(code, &ns);
	n += put_verdict(code + n, map);
	a.insn_cnt = (uint32_t)n;
	return bpf(BPF_PROG_LOAD, &a);
}

int stranger_filter_init(struct stranger_filter *f)
{
	union bpf_attr a = { .map_type = BPF_MAP_TYPE_LRU_HASH,
			     .key_size = sizeof(uint32_t),
			     .value_size = sizeof(uint64_t),
			     .max_entries = STRANGERS };

	*f = (struct stranger_filter){ .map = bpf(BPF_MAP_CREATE, &a), .program = -1 };
	if (f->map < 0)
		return f->map;
	f->program = load_program(f->map);
	if (f->program < 0) {
		int r = f->program;

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
	if (f->map >= 0)
		close(f->map);
	if (f->program >= 0)
		close(f->program);
	f->map = f->program = -1;
}

int stranger_filter_attach(const struct stranger_filter *f, int fd)
{
	if (f->program < 0)
		return 0;
	return ioctl(fd, PERF_EVENT_IOC_SET_BPF, f->program) < 0 ? -errno : 0;
}

void stranger_filter_add(const struct stranger_filter *f, pid_t pid, uint64_t until_ns)
{
	uint32_t key = (uint32_t)pid;
	union bpf_attr a = { .map_fd = (uint32_t)f->map,
			     .key = (uintptr_t)&key,
			     .value = (uintptr_t)&until_ns };

	if (f->map >= 0)
		bpf(BPF_MAP_UPDATE_ELEM, &a);
}
