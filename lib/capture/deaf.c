/* SPDX-License-Identifier: MIT
 *
 * deaf - which threads block the signal of --capture stop, and when each is looked at again.
 */
#include "capture/deaf.h"

#include "base/clock.h"
#include "base/nudge.h"
#include "sys/proc.h"

/* A thread that is just being made blocks all signals for a moment, and so does one that starts
 * a program: it is looked again after the first time, then after twice as long. */
static const uint64_t FIRST_NS = 100000000, LAST_NS = 1600000000;
enum { AGAIN_NS = 10000000 }; /* the nudge may come just before we wait */

int deaf_init(struct deaf *d, struct attach *attach, int signal)
{
	*d = (struct deaf){ .attach = attach, .signal = signal, .pause_ns = FIRST_NS };
	return nudge_timer(&d->timer);
}

void deaf_deinit(struct deaf *d)
{
	timer_delete(d->timer);
	free(d->tids);
}

static bool is_deaf(const struct deaf *d, pid_t tid)
{
	struct proc_status s;

	return proc_status(tid, &s) == 0 && (s.blocked & (UINT64_C(1) << (d->signal - 1)));
}

static void look_later(struct deaf *d)
{
	struct itimerspec at = { 0 };

	if (d->n) {
		at.it_value.tv_sec = (time_t)(d->pause_ns / 1000000000);
		at.it_value.tv_nsec = (long)(d->pause_ns % 1000000000);
		at.it_interval.tv_nsec = AGAIN_NS;
	}
	d->look_ns = now_ns() + d->pause_ns;
	timer_settime(d->timer, 0, &at, NULL);
}

void deaf_find(struct deaf *d)
{
	for (size_t i = 0; i < d->attach->n_attached; i++) {
		pid_t tid = d->attach->attached[i].tid;

		if (is_deaf(d, tid) && proc_push(&d->tids, &d->n, &d->cap, tid) == 0)
			attach_signal(d->attach, tid, false);
	}
	if (d->n)
		look_later(d);
}

void deaf_leave(const struct deaf *d)
{
	for (size_t i = 0; i < d->n; i++)
		attach_signal(d->attach, d->tids[i], false);
}

void deaf_look(struct deaf *d)
{
	size_t n = 0;

	if (!d->n || now_ns() < d->look_ns)
		return;
	for (size_t i = 0; i < d->n; i++) {
		if (is_deaf(d, d->tids[i]))
			d->tids[n++] = d->tids[i];
		else
			attach_signal(d->attach, d->tids[i], true);
	}
	d->n = n;
	d->pause_ns = MIN(2 * d->pause_ns, LAST_NS);
	look_later(d);
}
