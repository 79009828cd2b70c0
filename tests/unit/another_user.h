/* SPDX-License-Identifier: MIT
 *
 * another_user - processes of other users, for tests: root only.
 */
#ifndef TEST_ANOTHER_USER_H
#define TEST_ANOTHER_USER_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sys/proc.h"

enum { ANOTHER_USER = 100000 }; /* and those behind it */

/* Be @user's until we are killed. */
static inline _Noreturn void another_user_rest(uid_t user)
{
	if (setresuid(user, user, user) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	_exit(1);
}

static inline void another_user_await(pid_t pid, uid_t user)
{
	const struct timespec step = { .tv_nsec = 1000000 };

	for (int i = 0; i < 10000 && proc_user(pid) != user; i++)
		nanosleep(&step, NULL);
}

/* One that sleeps, and is @user's by now. */
static inline pid_t another_user_start(uid_t user)
{
	pid_t pid = fork();

	if (pid == 0)
		another_user_rest(user);
	another_user_await(pid, user);
	return pid;
}

static inline void another_user_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

#endif
