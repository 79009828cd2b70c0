/* SPDX-License-Identifier: MIT
 *
 * bpf_code - putting instructions behind each other, and loading them.
 */
#include "bpf/bpf_code.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sys/proc.h"

enum {
	INIT_PID_NS_INO = 0xEFFFFFFC, /* PROC_PID_INIT_INO, include/linux/proc_ns.h */
	NUMBERS = -16,		      /* on the program's stack: a struct bpf_pidns_info */
	TID = NUMBERS,
	TGID = NUMBERS + 4,
	MINOR_BITS = 20, /* of a dev_t in the kernel */
};

void bpf_put(struct bpf_code *c, const struct bpf_insn *insn, size_t n)
{
	memcpy(c->insn + c->n, insn, n * sizeof(*insn));
	c->n += n;
}

static bool is_initial(ino_t ns)
{
	return ns == (ino_t)(uint32_t)INIT_PID_NS_INO;
}

bool bpf_knows_all(void)
{
	dev_t dev;
	ino_t ours;

	return proc_own_pid_namespace(&dev, &ours) == 0 && is_initial(ours);
}

bool bpf_knows(pid_t pid)
{
	return proc_same_pid_namespace(pid);
}

int bpf_put_current(struct bpf_code *c, int verdict)
{
	uint64_t dev;
	dev_t ns_dev;
	ino_t ns;
	int r = proc_own_pid_namespace(&ns_dev, &ns);

	if (r < 0)
		return r;
	if (is_initial(ns)) {
		BPF_PUT(c, CALL(BPF_FUNC_get_current_pid_tgid));
		return 0;
	}
	dev = (uint64_t)major(ns_dev) << MINOR_BITS | minor(ns_dev);
	BPF_PUT(c, WIDE_LO(BPF_REG_1, 0, dev), WIDE_HI(dev), WIDE_LO(BPF_REG_2, 0, ns),
		WIDE_HI(ns), MOV(BPF_REG_3, BPF_REG_10), ADDI(BPF_REG_3, NUMBERS),
		MOVI(BPF_REG_4, sizeof(struct bpf_pidns_info)),
		CALL(BPF_FUNC_get_ns_current_pid_tgid), IF(BPF_JEQ, BPF_REG_0, 0, 2),
		MOVI(BPF_REG_0, verdict), EXIT, LOAD(BPF_W, BPF_REG_0, BPF_REG_10, TGID),
		SHLI(BPF_REG_0, 32), LOAD(BPF_W, BPF_REG_1, BPF_REG_10, TID),
		ORR(BPF_REG_0, BPF_REG_1));
	return 0;
}

/* Kernels before 5.11 take maps and programs for locked memory, root's too. */
static void lift_memlock(void)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &all);
}

int bpf_call(int cmd, union bpf_attr *a)
{
	long r = syscall(SYS_bpf, cmd, a, sizeof(*a));

	if (r < 0 && errno == EPERM && (cmd == BPF_MAP_CREATE || cmd == BPF_PROG_LOAD)) {
		lift_memlock();
		r = syscall(SYS_bpf, cmd, a, sizeof(*a));
	}

	return r < 0 ? -errno : (int)r;
}

int bpf_load(const struct bpf_code *c, enum bpf_prog_type type)
{
	union bpf_attr a = { .prog_type = type,
			     .insns = (uintptr_t)c->insn,
			     .insn_cnt = (uint32_t)c->n,
			     .prog_flags = type == BPF_PROG_TYPE_SYSCALL ? BPF_F_SLEEPABLE : 0,
			     /* ktime_get_ns() is for programs that say so. */
			     .license = (uintptr_t) "Dual MIT/GPL" };

	return bpf_call(BPF_PROG_LOAD, &a);
}

int bpf_link(const char *tracepoint, int program)
{
	union bpf_attr a = { .raw_tracepoint = { .name = (uintptr_t)tracepoint,
						 .prog_fd = (uint32_t)program } };
	int r = program < 0 ? program : bpf_call(BPF_RAW_TRACEPOINT_OPEN, &a);

	if (program >= 0)
		close(program);
	return r;
}

int bpf_value(size_t size, uint32_t flags, int prot, void **at)
{
	union bpf_attr a = { .map_type = BPF_MAP_TYPE_ARRAY,
			     .key_size = sizeof(uint32_t),
			     .value_size = (uint32_t)size,
			     .max_entries = 1,
			     .map_flags = flags | (at ? BPF_F_MMAPABLE : 0) };
	int map = bpf_call(BPF_MAP_CREATE, &a), r;
	void *p;

	if (map < 0 || !at)
		return map;
	p = mmap(NULL, size, prot, MAP_SHARED, map, 0);
	if (p != MAP_FAILED) {
		*at = p;
		return map;
	}
	r = -errno;
	close(map);
	return r;
}
