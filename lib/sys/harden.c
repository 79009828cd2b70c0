/* SPDX-License-Identifier: MIT */
#include "sys/harden.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/base.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* Linux 5.17: names of memory, for malloc */
#endif

#ifdef PYSAMPLED_COVERAGE
#define HARDEN_RUNTIME 1
#else
#define HARDEN_RUNTIME SANITIZED
#endif

enum {
	CHECKS = 3,	 /* in a row */
	HIGH_HALF = 8,	 /* of argument N: N + HIGH_HALF */
	MAX_CODE = 2048, /* instructions of a filter */
	CALLS = 1024,	 /* their numbers are below */
	NOT_PUT = UINT8_MAX,
	SEIZE_OPTIONS = PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
			PTRACE_O_TRACEVFORKDONE,
};

/* (argument & mask) == value, of its lower half; the value may be known only now. */
struct check {
	uint8_t arg;
	enum { CHECK_NONE, CHECK_VALUE, CHECK_US, CHECK_CHILD } kind;
	uint32_t mask, value;
};

struct row {
	uint32_t nr;
	uint16_t roles;
	struct check check[CHECKS];
};

#define IN(arg, mask, value)                                          \
	{                                                             \
		arg, CHECK_VALUE, (uint32_t)(mask), (uint32_t)(value) \
	}
#define IS(arg, value) IN(arg, UINT32_MAX, value)
#define HAS(arg, bits) IN(arg, bits, bits)
#define HIGH(arg, value) IS(HIGH_HALF + (arg), value)
#define IS_US(arg)                           \
	{                                    \
		arg, CHECK_US, UINT32_MAX, 0 \
	}
#define IS_CHILD(arg)                           \
	{                                       \
		arg, CHECK_CHILD, UINT32_MAX, 0 \
	}
#define ALLOW(name, roles, ...) { __NR_##name, roles, { __VA_ARGS__ } },

static const struct row rows[] = {
#include "sys/harden_rows.inc.h"
};

struct code {
	struct sock_filter insn[MAX_CODE];
	unsigned short n;
	unsigned roles;
	bool process; /* else of a thread, on top of the process's, which has looked at
			 CHECK_US */
	uint8_t checks[ARRAY_SIZE(rows)]; /* how many each row has; or NOT_PUT */
};

static void put(struct code *c, struct sock_filter insn)
{
	if (c->n < MAX_CODE)
		c->insn[c->n] = insn;
	c->n++;
}

static void put_load(struct code *c, size_t at)
{
	put(c, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)at));
}

static void put_return(struct code *c, uint32_t verdict)
{
	put(c, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

/* Unless what is loaded is @value, skip @skip instructions. */
static void put_unless(struct code *c, uint32_t value, uint8_t skip)
{
	put(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip));
}

static uint32_t value_of(const struct check *k, pid_t child)
{
	switch (k->kind) {
	case CHECK_US:
		return (uint32_t)getpid();
	case CHECK_CHILD:
		return child ? (uint32_t)child : UINT32_MAX;
	default:
		return k->value;
	}
}

static size_t place_of(const struct check *k)
{
	size_t at = offsetof(struct seccomp_data, args) + 8u * (k->arg % HIGH_HALF);

	return k->arg < HIGH_HALF ? at : at + 4;
}

/* All the roles that may be in a process with one of these. */
static unsigned kin_of(unsigned roles)
{
	const unsigned files = HARDEN_SERVE | HARDEN_FILE, lines = HARDEN_LINES | HARDEN_FETCH;

	return roles & files ? files : roles & lines ? lines : ~(files | lines);
}

/* Has the process's filter looked at all that the thread's would at the arguments of @nr? No
 * row of that call is for others than @role. */
static bool seen_by_process(uint32_t nr, unsigned role)
{
	const unsigned kin = kin_of(role);
	bool all = true;

	for (size_t i = 0; all && i < ARRAY_SIZE(rows); i++)
		if (rows[i].nr == nr && rows[i].roles & kin)
			all = rows[i].roles & role && rows[i].check[0].kind != CHECK_CHILD;
	return all;
}

static uint8_t n_checks(const struct code *c, const struct row *r)
{
	uint8_t n = 0;

	while (n < CHECKS && r->check[n].kind != CHECK_NONE &&
	       (c->process || r->check[n].kind != CHECK_US))
		n++;
	return n && !c->process && seen_by_process(r->nr, c->roles) ? 0 : n;
}

/* What is put of each row: a call without checks once, and none of its others. */
static void choose_rows(struct code *c)
{
	bool open[CALLS] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool *any = &open[rows[i].nr % CALLS];
		uint8_t n = rows[i].roles & c->roles ? n_checks(c, &rows[i]) : NOT_PUT;

		c->checks[i] = n == 0 && *any ? NOT_PUT : n;
		*any = *any || n == 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (c->checks[i] && open[rows[i].nr % CALLS])
			c->checks[i] = NOT_PUT;
}

/* Calls with whatever arguments: each jumps to one return. */
static void put_unchecked(struct code *c)
{
	size_t left = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		left += c->checks[i] == 0;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (c->checks[i] == 0)
			put(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							    rows[i].nr, (uint8_t)left--, 0));
	put(c, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1));
	put_return(c, SECCOMP_RET_ALLOW);
}

/* The number of the call is loaded, before and after. */
static void put_row(struct code *c, const struct row *r, uint8_t n, pid_t child)
{
	enum { A_CHECK = 3 }; /* instructions */

	put_unless(c, r->nr, (uint8_t)(A_CHECK * n + 2));
	for (uint8_t i = 0; i < n; i++) {
		const struct check *k = &r->check[i];

		put_load(c, place_of(k));
		put(c, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, k->mask));
		put_unless(c, value_of(k, child), (uint8_t)(A_CHECK * (n - 1 - i) + 1));
	}
	put_return(c, SECCOMP_RET_ALLOW);
	put_load(c, offsetof(struct seccomp_data, nr));
}

static bool is_checked(const struct code *c, size_t i)
{
	return c->checks[i] && c->checks[i] != NOT_PUT;
}

/* A call that is allowed with other arguments is not permitted; others do not exist. */
static void put_refusals(struct code *c)
{
	bool refused[CALLS] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!is_checked(c, i) || refused[rows[i].nr % CALLS])
			continue;
		refused[rows[i].nr % CALLS] = true;
		put_unless(c, rows[i].nr, 1);
		put_return(c, SECCOMP_RET_ERRNO | EPERM);
	}
	put_return(c, SECCOMP_RET_ERRNO | ENOSYS);
}

static void make(struct code *c, pid_t child)
{
	choose_rows(c);
	put_load(c, offsetof(struct seccomp_data, arch));
	put_unless(c, seccomp_arch_native(), 1); /* libseccomp has the kernel's numbers */
	put(c, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1));
	put_return(c, SECCOMP_RET_ERRNO | ENOSYS);
	put_load(c, offsetof(struct seccomp_data, nr));
	put_unchecked(c);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (is_checked(c, i))
			put_row(c, &rows[i], c->checks[i], child);
	put_refusals(c);
}

static int load(unsigned roles, pid_t child, bool process)
{
	struct code c = { .roles = roles, .process = process };
	unsigned flags = process ? SECCOMP_FILTER_FLAG_TSYNC : 0;
	struct sock_fprog p;

	make(&c, child);
	if (c.n > MAX_CODE)
		return -E2BIG;
	p = (struct sock_fprog){ .len = c.n, .filter = c.insn };
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &p) < 0 ? -errno : 0;
}

int harden_process(unsigned roles, pid_t child, struct err *err)
{
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : load(roles, child, true);

	if (r < 0)
		return err_set(err, r, "can't load the seccomp filter: %s", strerror(-r));
	return 0;
}

int harden_thread(enum harden_role role, pid_t child)
{
	return load(role, child, false);
}
