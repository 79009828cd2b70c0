/* SPDX-License-Identifier: MIT
 *
 * deaf - which threads block the signal of --capture stop, and when each is looked at again.
 */
#include "capture/deaf.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/nudge.h"
#include "sys/proc.h"

/* A thread that is just being made blocks all signals for a moment, and so does one that starts
 * a program: it is looked at soon, and each time when it has been deaf for a quarter longer. That
 * moment lasts until it gets a CPU. */
static const uint64_t FIRST_NS = 200000, LAST_NS = 1600000000;
static const uint64_t MOMENT_NS = 100000000; /* who is deaf for so long is told of */
enum { AGAIN_NS = 10000000 };		     /* the nudge may come just before we wait */

int deaf_init(struct deaf *d, struct attach *attach, int signal)
{
	*d = (struct deaf){ .attach = attach, .signal = signal, .look_ns = UINT64_MAX };
	return nudge_timer(&d->timer);
}

void deaf_deinit(struct deaf *d)
{
	timer_delete(d->timer);
	free(d->thread);
}

/* 1: @tid blocks the signal; 0: it does not, or has ended; -errno: that can't be told now. */
static int is_deaf(const struct deaf *d, pid_t tid)
{
	struct proc_status s;
	int r = proc_status(tid, &s);

	if (r < 0)
		return proc_is_short(r) ? r : 0;
	return (s.blocked & (UINT64_C(1) << (d->signal - 1))) != 0;
}

/* The nudge comes at @ns, UINT64_MAX: never. */
static void look_at(struct deaf *d, uint64_t ns)
{
	struct itimerspec at = { 0 };

	if (ns != UINT64_MAX) {
		at.it_value.tv_sec = (time_t)(ns / 1000000000);
		at.it_value.tv_nsec = (long)(ns % 1000000000);
		at.it_interval.tv_nsec = AGAIN_NS;
	}
	d->look_ns = ns;
	timer_settime(d->timer, TIMER_ABSTIME, &at, NULL);
}

/* Where @tid is in the list; ->n: it is not. */
static size_t place_of(const struct deaf *d, pid_t tid)
{
	size_t i = 0;

	while (i < d->n && d->thread[i].tid != tid)
		i++;
	return i;
}

/* A new place at the end of the list. NULL: no memory. */
static struct deaf_thread *grow(struct deaf *d)
{
	bool room = array_reserve(&d->thread, &d->cap, d->n + 1, sizeof(*d->thread));

	return room ? &d->thread[d->n++] : NULL;
}

/* @tid gets no signal until it was seen not to block it. Without memory it gets them. */
static void add(struct deaf *d, pid_t tid, bool told)
{
	size_t at = place_of(d, tid);
	struct deaf_thread *t = at < d->n ? &d->thread[at] : grow(d);
	uint64_t now = now_ns();

	if (!t)
		return;
	*t = (struct deaf_thread){ tid, told, now, now + FIRST_NS };
	attach_signal(d->attach, tid, false);
	if (t->look_ns < d->look_ns)
		look_at(d, t->look_ns);
}

/* The same, but 0 where it is in the list. */
static int becomes_deaf(const struct deaf *d, pid_t tid)
{
	return place_of(d, tid) == d->n ? is_deaf(d, tid) : 0;
}

size_t deaf_find(struct deaf *d)
{
	const struct attach_hooks *h = &d->attach->hooks;
	size_t found = 0;

	for (pid_t tid = 0; (tid = attach_next(d->attach, tid));) {
		int deaf;

		if (h->between)
			h->between(h->arg);
		deaf = becomes_deaf(d, tid);
		if (deaf)
			add(d, tid, deaf > 0);
		found += deaf > 0;
	}
	return found;
}

void deaf_begin(struct deaf *d, pid_t tid)
{
	add(d, tid, false);
}

void deaf_process(struct deaf *d, pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0;

	if (proc_tasks(pid, &tids, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (attach_has(d->attach, tids[i]))
			deaf_begin(d, tids[i]);
}

void deaf_suspect(struct deaf *d, pid_t tid)
{
	if (becomes_deaf(d, tid))
		add(d, tid, false);
}

void deaf_leave(const struct deaf *d)
{
	for (size_t i = 0; i < d->n; i++)
		attach_signal(d->attach, d->thread[i].tid, false);
}

/* True: @t is still deaf, as far as is known, and when it is looked at next is known. */
static bool stays(struct deaf *d, struct deaf_thread *t, uint64_t now)
{
	int deaf;

	if (now < t->look_ns)
		return true;
	deaf = is_deaf(d, t->tid);
	if (!deaf) {
		attach_signal(d->attach, t->tid, true);
		return false;
	}
	if (deaf > 0 && !t->told && now - t->since_ns >= MOMENT_NS) {
		t->told = true;
		d->n_later++;
	}
	t->look_ns = now + MIN(MAX((now - t->since_ns) / 4, FIRST_NS), LAST_NS);
	return true;
}

void deaf_look(struct deaf *d)
{
	uint64_t now = now_ns(), first = UINT64_MAX;
	size_t n = 0;

	if (now < d->look_ns)
		return;
	for (size_t i = 0; i < d->n; i++) {
		if (!stays(d, &d->thread[i], now))
			continue;
		d->thread[n++] = d->thread[i];
		first = MIN(first, d->thread[i].look_ns);
	}
	d->n = n;
	look_at(d, first);
}
