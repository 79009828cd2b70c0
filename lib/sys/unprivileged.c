/* SPDX-License-Identifier: MIT
 *
 * unprivileged - starts a process, and drops rights and limits of the calling one.
 */
#include "sys/unprivileged.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"

/* Those of ours that are in @caps, and none for who we start. */
static int keep(uint64_t caps)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct c[2] = { 0 };

	if (caps && syscall(SYS_capget, &head, c) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		c[i].permitted &= (uint32_t)(caps >> 32 * i);
		c[i].effective &= c[i].permitted;
		c[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &head, c) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

static void drop_heritage(void)
{
	unsigned long cap = 0;

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	while (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0) /* refused to all but root */
		cap++;
}

int unprivileged_keep(uint64_t caps)
{
	drop_heritage();
	return keep(caps);
}

int unprivileged_become(void)
{
	enum { NOBODY = UNPRIVILEGED_NOBODY };

	drop_heritage();
	if (geteuid() == 0 && setgroups(0, NULL) == 0 &&
	    setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0)
		return -errno;
	return keep(0);
}

void unprivileged_limit(int what, rlim_t n)
{
	if (SANITIZED && (what == RLIMIT_AS || what == RLIMIT_DATA))
		return;
	setrlimit((__rlimit_resource_t)what, &(struct rlimit){ n, n });
}

/* In the new process: nothing of ours is held open, and no signal of a terminal ends it, until
 * there is a question, by which it is our program once more. */
static _Noreturn void await_question(int socket, char *const argv[])
{
	sigset_t all;
	char byte;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	/* Where there is none it does not wait: an end of ours may be open in it. */
	if (dup2(socket, 0) == 0 &&
	    (syscall(SYS_close_range, 3u, ~0u, 0u) < 0 || recv(0, &byte, 1, MSG_PEEK) > 0))
		execve("/proc/self/exe", argv, environ);
	_exit(0);
}

/* posix_spawn() would ask for what is done at each signal, in 130 calls; we have no handlers.
 */
int unprivileged_start(char *const argv[], pid_t *pid)
{
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	*pid = fork();
	if (*pid == 0)
		await_question(ends[1], argv);
	r = *pid < 0 ? -errno : ends[0];
	close(ends[1]);
	if (r < 0)
		close(ends[0]);
	return r;
}
