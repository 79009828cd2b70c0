/* SPDX-License-Identifier: MIT */
#include "base/nudge.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static void nothing(int sig)
{
	(void)sig;
}

void nudge_init(void)
{
	struct sigaction act = { .sa_handler = nothing };
	sigset_t set;

	sigaction(SIGUSR2, &act, NULL);
	/* Whoever started us may have blocked it; threads to come inherit this one's mask. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void nudge(pthread_t thread)
{
	pthread_kill(thread, SIGUSR2);
}

int nudge_timer(timer_t *ret)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2 };

	ev._sigev_un._tid = gettid();
	return timer_create(CLOCK_MONOTONIC, &ev, ret) < 0 ? -errno : 0;
}
