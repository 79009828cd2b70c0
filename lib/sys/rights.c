/* SPDX-License-Identifier: MIT
 *
 * rights - words the advice by who asks: root is not told to become root.
 */
#include "sys/rights.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"

static const struct {
	const char *name;
	unsigned cap;
} named[] = {
	{ "CAP_BPF", CAP_BPF },
	{ "CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH },
	{ "CAP_PERFMON", CAP_PERFMON },
	{ "CAP_SYS_NICE", CAP_SYS_NICE },
	{ "CAP_SYS_PTRACE", CAP_SYS_PTRACE },
	{ "CAP_SYS_RESOURCE", CAP_SYS_RESOURCE },
};

bool rights_have(unsigned cap)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	return syscall(SYS_capget, &head, data) == 0 &&
	       data[cap / 32].effective >> cap % 32 & 1;
}

static bool have_all(const char *caps)
{
	for (size_t i = 0; i < ARRAY_SIZE(named); i++)
		if (strstr(caps, named[i].name) && !rights_have(named[i].cap))
			return false;
	return true;
}

const char *rights_wanted(char *buf, size_t size, const char *caps)
{
	if (geteuid() == 0 && have_all(caps))
		snprintf(buf, size,
			 "root has %s and is refused all the same, by a security module, a "
			 "seccomp filter or its user namespace: run outside of that",
			 caps);
	else if (geteuid() == 0)
		snprintf(buf, size,
			 "this root lacks a right (in a container or a user namespace?): give "
			 "it %s",
			 caps);
	else
		snprintf(buf, size, "run as root, or with %s", caps);
	return buf;
}
