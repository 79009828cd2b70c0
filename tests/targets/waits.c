/* SPDX-License-Identifier: MIT
 *
 * waits - preloaded into pysampled: between its look at the processes and its events it says so, by
 * closing descriptor WAITS_SAY, and goes on when WAITS_GO is at its end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* The first that is set: how many descriptors there may be, which is raised where it is low. */
int setrlimit64(__rlimit_resource_t what, const struct rlimit64 *r)
{
	int (*real)(__rlimit_resource_t, const struct rlimit64 *) =
		(int (*)(__rlimit_resource_t, const struct rlimit64 *))dlsym(RTLD_NEXT,
									     "setrlimit64");
	const char *say = getenv("WAITS_SAY"), *go = getenv("WAITS_GO");
	static int said;
	char byte;

	/* The processes that read files have neither descriptor. */
	if (say && go && what == RLIMIT_NOFILE && fcntl(atoi(go), F_GETFD) >= 0 && !said++) {
		close(atoi(say));
		while (read(atoi(go), &byte, 1) < 0)
			if (errno != EINTR)
				abort();
	}
	return real(what, r);
}
