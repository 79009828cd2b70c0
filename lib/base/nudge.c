/* SPDX-License-Identifier: MIT */
#include "base/nudge.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static void unblock(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* A timer of a limit says whose. */
static void on_nudge(int sig, siginfo_t *si, void *context)
{
	struct nudge_limit *l = si->si_code == SI_TIMER ? si->si_value.sival_ptr : NULL;

	(void)sig, (void)context;
	if (l && l->on) {
		l->on = 0;
		unblock(); /* a jump does not */
		siglongjmp(l->back, 1);
	}
}

void nudge_init(void)
{
	/* One at a time: who is nudged faster than the handler returns has only so much stack. */
	struct sigaction act = { .sa_sigaction = on_nudge, .sa_flags = SA_SIGINFO };

	sigaction(SIGUSR2, &act, NULL);
	/* Whoever started us may have blocked it; threads to come inherit this one's mask. */
	unblock();
}

void nudge(pthread_t thread)
{
	pthread_kill(thread, SIGUSR2);
}

void nudge_tid(pid_t tid)
{
	if (tid)
		tgkill(getpid(), tid, SIGUSR2);
}

int nudge_timer(timer_t *ret)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2 };

	ev._sigev_un._tid = gettid();
	return timer_create(CLOCK_MONOTONIC, &ev, ret) < 0 ? -errno : 0;
}

void nudges_set(struct nudges *n, unsigned ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	struct itimerspec at = { .it_value = t, .it_interval = t };

	if (!n->made) {
		nudge_init();
		n->made = nudge_timer(&n->timer) == 0;
	}
	if (n->made)
		timer_settime(n->timer, 0, &at, NULL);
}

void nudges_deinit(struct nudges *n)
{
	if (n->made)
		timer_delete(n->timer);
	n->made = false;
}

int nudge_limit_init(struct nudge_limit *l)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID,
			       .sigev_signo = SIGUSR2,
			       .sigev_value.sival_ptr = l };

	l->on = 0;
	ev._sigev_un._tid = gettid();
	return timer_create(CLOCK_MONOTONIC, &ev, &l->timer) < 0 ? -errno : 0;
}

void nudge_limit_deinit(struct nudge_limit *l)
{
	timer_delete(l->timer);
}

static void set_timer(struct nudge_limit *l, unsigned ms, bool again)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	struct itimerspec at = { .it_value = t };

	if (again)
		at.it_interval = t;
	timer_settime(l->timer, 0, &at, NULL);
}

bool nudge_limited(struct nudge_limit *l, unsigned ms, void (*call)(void *arg), void *arg)
{
	if (sigsetjmp(l->back, 0) == 0) {
		l->on = 1;
		set_timer(l, ms, false);
		call(arg);
		l->on = 0;
		set_timer(l, 0, false);
		return true;
	}
	return false;
}

void nudge_limit_again(struct nudge_limit *l, unsigned ms)
{
	set_timer(l, ms, true);
}
