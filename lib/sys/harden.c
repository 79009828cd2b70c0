/* SPDX-License-Identifier: MIT */
#include "sys/harden.h"

#include <errno.h>
#include <seccomp.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>

#include "base/base.h"

/* ptrace requests from @lo to @hi fail. A filter compares an argument once in a rule, so the
 * range is cut into aligned powers of two. */
static int forbid_requests(scmp_filter_ctx f, uint64_t lo, uint64_t hi)
{
	int r = 0;

	while (r == 0 && lo <= hi) {
		uint64_t size = 1;

		while (!(lo & (2 * size - 1)) && lo + 2 * size - 1 <= hi && size < 1u << 31)
			size *= 2;
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ptrace), 1,
				     SCMP_A0(SCMP_CMP_MASKED_EQ, ~(size - 1), lo));
		lo += size;
	}
	return r;
}

static int forbid_other_requests(scmp_filter_ctx f)
{
	static const uint64_t allowed[] = { PTRACE_CONT,	PTRACE_DETACH,
					    PTRACE_GETEVENTMSG, PTRACE_GETSIGINFO,
					    PTRACE_GETREGSET,	PTRACE_SEIZE,
					    PTRACE_LISTEN };
	uint64_t lo = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(allowed); i++) {
		r = forbid_requests(f, lo, allowed[i] - 1);
		lo = allowed[i] + 1;
	}
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ptrace), 1,
				     SCMP_A0(SCMP_CMP_GE, lo));
	return r;
}

int harden_read_only(bool trace, struct err *err)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	int r = f ? 0 : -ENOMEM;

	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(process_vm_writev), 0);
	if (r == 0)
		r = trace ? forbid_other_requests(f) :
			    seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ptrace), 0);
	if (r == 0)
		r = seccomp_load(f);
	seccomp_release(f);
	if (r < 0)
		return err_set(err, r, "can't load the seccomp filter: %s", strerror(-r));
	return 0;
}
