/* SPDX-License-Identifier: MIT
 *
 * sleeper - a child process that sleeps until it is ended, at the latest with us.
 */
#ifndef SLEEPER_H
#define SLEEPER_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

static inline pid_t sleeper_start(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	return pid;
}

static inline void sleeper_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

#endif
