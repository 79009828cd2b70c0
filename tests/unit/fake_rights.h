/* SPDX-License-Identifier: MIT
 *
 * fake_rights - who a test is for what it tests, and which capabilities it has. Before
 * rights_begin() all is as it is.
 */
#ifndef FAKE_RIGHTS_H
#define FAKE_RIGHTS_H

#include <linux/capability.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real_syscall.h"

#define RIGHT(cap) (UINT64_C(1) << (cap))

static struct {
	bool fake;
	uid_t euid;
	uint64_t caps; /* a RIGHT() each */
} rights;

uid_t geteuid(void)
{
	uid_t (*f)(void) = dlsym(RTLD_NEXT, "geteuid");

	return rights.fake ? rights.euid : f();
}

static long fake_syscall(long nr, const long a[SYSCALL_ARGS])
{
	struct __user_cap_data_struct *data = (void *)a[1];

	if (!rights.fake || nr != SYS_capget)
		return real_syscall(nr, a);
	data[0].effective = (uint32_t)rights.caps;
	data[1].effective = (uint32_t)(rights.caps >> 32);
	return 0;
}

static inline void rights_begin(uid_t euid, uint64_t caps)
{
	rights.fake = true;
	rights.euid = euid;
	rights.caps = caps;
}

static inline int rights_end(void **state)
{
	rights.fake = false;
	return 0;
}

#endif
