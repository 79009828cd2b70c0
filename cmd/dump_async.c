/* SPDX-License-Identifier: MIT
 *
 * dump_async - which tasks, in which order, and each one's stack at one moment.
 */
#include "dump_async.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/clock.h"
#include "python/pyfind.h"
#include "remote/remote_pages.h"

enum {
	TRIES = 20, /* of each task */
	SECONDS_MAX =
		20 /* of all: a process may have any number of them, in chains of any length */
};

/* A task, and what it is sorted by. */
struct listed {
	struct pytask_ref at;
	char key[PYNAME_MAX];
};

struct looking {
	const struct dump_async *d;
	struct dump_async_end end;
	struct rmem_pages pages; /* of one look at a task */
	unsigned char page[RMEM_PAGES][RMEM_PAGE];
	struct pytask now, again;
	uint64_t until_ns;
	struct listed *list;
	size_t n;
	struct pytask_ref *lost; /* that could not be read */
	size_t n_lost;
};

const char *dump_async_state(enum pytask_state s)
{
	switch (s) {
	case PYTASK_RUNNING:
		return "running";
	case PYTASK_WAITING:
		return "waiting";
	case PYTASK_DONE:
		return "done";
	}
	return "?";
}

static int read_task(struct looking *k, const struct pytask_ref *at, struct pytask *ret)
{
	const struct dump_async *d = k->d;

	return pytasks_read(&k->pages.base, &d->process->layout, &d->target->walk, at, ret);
}

static bool has_time(const struct looking *k)
{
	return now_ns() < k->until_ns;
}

/* --- one --- */

/* Its stack: the @n frames, or if @torn none that could be had. */
static void tell(struct looking *k, const struct pytask *t, const struct pystack_result *r,
		 uint32_t n, bool torn)
{
	struct assemble_input in = {
		.prov = torn ? PROV_TORN :
			n    ? PROV_EXACT :
			       PROV_NOPYTHON,
		.truncated = n && r->truncated && n == r->n,
		.python = n ? r->frames : NULL,
		.native = { .pid = k->d->target->pid, .time = now_ns(), .n_python = n },
	};
	struct dump_task told = {
		.name = t->has_name ? t->name : NULL,
		.coroutine = t->has_coroutine ? t->coroutine : NULL,
		.state = t->state,
	};

	if (torn || n)
		assemble(k->d->assembler, &in, &told.stack);
	k->d->found(k->d->arg, &told);
}

/* The frames from the leaf of the thread that runs it to its own: how many. */
static uint32_t find_running(struct looking *k, raddr frame, struct pystack_result *ret)
{
	const struct dump_async *d = k->d;

	for (size_t i = 0; d->thread(d->arg, i, ret); i++) {
		uint32_t n = ret->end == PYSTACK_OK ? pystack_frames_to(d->stacks, frame) : 0;

		if (n && n <= ret->n)
			return n;
	}
	return 0;
}

/* As k->now says. True: told. */
static bool tell_stack(struct looking *k, const struct pytask_ref *at)
{
	const struct dump_async *d = k->d;
	const struct pytask *t = &k->now;
	struct pystack_result r = { 0 };
	uint32_t n = 0;

	if (t->state == PYTASK_RUNNING) {
		/* A stack that counts proves that it ran. */
		n = find_running(k, t->chain.runs, &r);
		if (!n)
			return false;
	} else if (t->state == PYTASK_WAITING && t->has_coroutine) {
		r = pystack_read_parked(d->stacks, d->target, &k->pages.base, t->chain.frame,
					t->chain.n);
		n = r.n;
	}
	rmem_pages_forget(&k->pages);
	if (t->state != PYTASK_RUNNING &&
	    (read_task(k, at, &k->again) < 0 || !pytasks_same(t, &k->again)))
		return false;
	tell(k, t, &r, n, r.end != PYSTACK_OK && t->state == PYTASK_WAITING);
	return true;
}

static void look_at(struct looking *k, const struct pytask_ref *at)
{
	const struct pystack_result none = { 0 };
	int r = 0;

	for (int i = 0; i < TRIES && has_time(k); i++) {
		rmem_pages_forget(&k->pages);
		r = read_task(k, at, &k->now);
		if (r == 0 && tell_stack(k, at))
			return;
		if (r == -ENOENT) {
			k->end.gone++;
			return;
		}
	}
	if (!has_time(k))
		k->end.unseen++;
	else if (r == 0)
		tell(k, &k->now, &none, 0, true);
	else
		k->lost[k->n_lost++] = *at;
}

/* --- all --- */

static int compare(const void *a, const void *b)
{
	const struct listed *x = a, *y = b;

	return strverscmp(x->key, y->key) ?: COMPARE(x->at.at, y->at.at);
}

/* For the order alone, so pages may be old. */
static void list(struct looking *k, const struct pytasks *t)
{
	for (size_t i = 0; i < t->n && has_time(k); i++) {
		struct listed *l = &k->list[k->n++];

		l->at = t->task[i];
		if (read_task(k, &l->at, &k->now) < 0)
			continue;
		if (k->now.has_name)
			memcpy(l->key, k->now.name, sizeof(l->key));
		else if (k->now.has_coroutine)
			memcpy(l->key, k->now.coroutine, sizeof(l->key) - 1);
	}
	qsort(k->list, k->n, sizeof(*k->list), compare);
}

/* Those that could not be read are looked at again, if they are there: another may have come
 * in the place of one. */
static void look_again(struct looking *k)
{
	size_t n = k->n_lost;

	k->n_lost = 0;
	for (size_t i = 0; i < n; i++) {
		const struct pytask_ref at = k->lost[i];

		look_at(k, &at);
	}
}

static void look_at_all(struct looking *k, const struct pytasks *t)
{
	k->list = calloc(t->n + 1, sizeof(*k->list));
	k->lost = calloc(t->n + 1, sizeof(*k->lost));
	if (k->list && k->lost) {
		list(k, t);
		k->end.unseen = t->n - k->n;
		for (size_t i = 0; i < k->n; i++)
			if (!i || k->list[i].at.at != k->list[i - 1].at.at)
				look_at(k, &k->list[i].at);
		look_again(k);
		k->end.strange = k->n_lost;
	} else {
		k->end.whole = false;
	}
	free(k->list);
	free(k->lost);
}

struct dump_async_end dump_async(const struct dump_async *d)
{
	struct dump_async_end end = { .known = pytasks_known(&d->process->layout) };
	struct looking *k = calloc(1, sizeof(*k));
	struct pytasks t;
	int r;

	if (k && end.known) {
		k->d = d;
		k->end = end;
		rmem_pages_init(&k->pages, d->m, k->page, RMEM_PAGES);
		k->until_ns = now_ns() + SECONDS_MAX * 1000000000ull;
		r = pytasks_find(d->m, &d->process->layout, d->process->runtime, &t);
		k->end.known = r != -ENOTSUP;
		k->end.whole = r == 0 && !t.cut;
		look_at_all(k, &t);
		pytasks_deinit(&t);
		end = k->end;
	}
	free(k);
	return end;
}
