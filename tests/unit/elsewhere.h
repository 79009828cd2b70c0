/* SPDX-License-Identifier: MIT
 *
 * elsewhere - child processes to whom paths mean something else than to us.
 */
#ifndef ELSEWHERE_H
#define ELSEWHERE_H

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that sleeps, with @root as its root; NULL: with mounts of its own. < 0: that is not
 * allowed. */
static inline pid_t elsewhere_start_in(const char *root)
{
	int done[2], ok = 0;
	pid_t pid;

	if (pipe(done) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ok = root ? chroot(root) == 0 : unshare(CLONE_NEWNS) == 0;
		if (write(done[1], &ok, sizeof(ok)) == sizeof(ok))
			pause();
		_exit(0);
	}
	close(done[1]);
	if (read(done[0], &ok, sizeof(ok)) != sizeof(ok))
		ok = 0;
	close(done[0]);
	if (pid > 0 && !ok) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return ok ? pid : -1;
}

static inline pid_t elsewhere_start(void)
{
	return elsewhere_start_in(NULL);
}

static inline void elsewhere_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

#endif
