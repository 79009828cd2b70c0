/* SPDX-License-Identifier: MIT */
#include "harden.h"

#include <errno.h>
#include <seccomp.h>
#include <string.h>

int harden_read_only(struct err *err)
{
	static const int forbidden[] = { SCMP_SYS(process_vm_writev), SCMP_SYS(ptrace) };
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	int r = f ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), forbidden[i], 0);
	if (r == 0)
		r = seccomp_load(f);
	seccomp_release(f);
	if (r < 0)
		return err_set(err, r, "can't load the seccomp filter: %s", strerror(-r));
	return 0;
}
