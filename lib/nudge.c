/* SPDX-License-Identifier: MIT */
#include "nudge.h"

#include <signal.h>
#include <stddef.h>

static void nothing(int sig)
{
	(void)sig;
}

void nudge_init(void)
{
	struct sigaction act = { .sa_handler = nothing };

	sigaction(SIGUSR2, &act, NULL);
}

void nudge(pthread_t thread)
{
	pthread_kill(thread, SIGUSR2);
}
