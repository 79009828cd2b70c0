/* SPDX-License-Identifier: MIT
 *
 * tracker_attach - the first targets: processes that the user named, and their descendants.
 */
#include "targets/tracker_int.h"

#include <errno.h>

#include "base/base.h"
#include "sys/family.h"
#include "sys/proc.h"
#include "targets/lookup.h"
#include "targets/probe.h"

enum {
	PROBE_WAIT_MS = 1000, /* for those that the user named */
	AT_ONCE = 8,	      /* so many descendants are looked at before they run */
};

/* The probe of a named process did not say anything yet. */
static int root_hangs(struct tracker *t, pid_t pid, struct probe *probe)
{
	struct target *target = tracker_add(t, pid, 0);
	int r = target ? tracker_search(t, target, true) : -ENOMEM;

	if (r < 0) {
		probe_release(probe);
		return r;
	}
	t->searches[t->n_searches - 1].probe = probe;
	t->searches[t->n_searches - 1].tries = 1;
	if (!stop_asked(t->stop))
		tracker_quarantine(t, pid);
	return 0;
}

/* What it said. */
static int judge_root(struct tracker *t, pid_t pid, bool any, int code, const struct pyproc *p,
		      uint64_t began, struct err *err)
{
	struct target *target;
	char version[16];

	if (code < 0 && code != -EAGAIN && !(any && (code == -ENOEXEC || code == -ENOTSUP)))
		return code;
	target = tracker_add(t, pid, 0);
	if (!target)
		return err_set(err, -ENOMEM, "out of memory");
	if (code == 0) {
		note_detail(&t->note, "process %d: CPython %s, %s, %s", target->pid,
			    pyproc_version(p->version, version), p->build, p->module);
		tracker_found(t, target, p);
		return pyproc_is_pending(p) ? tracker_search(t, target, false) : 0;
	}
	tracker_note_none(t, target, code, p, began);
	if (code == -EAGAIN)
		return tracker_search(t, target, true);
	atomic_store(&target->state, TARGET_NOPYTHON);
	return 0;
}

static int take_wrapper(struct tracker *t, pid_t pid, const struct lookup *l, struct err *err)
{
	struct target *target = tracker_add(t, pid, 0);
	char comm[16] = "?", list[200];

	if (!target)
		return err_set(err, -ENOMEM, "out of memory");
	tracker_note_none(t, target, l->starts ? -EAGAIN : -ENOEXEC, &l->python, l->began);
	proc_comm(pid, pid, comm);
	note_say(&t->note,
		 "following %zu Python child%s of process %d (%s), which runs no Python "
		 "itself: %s",
		 l->n_child, l->n_child > 1 ? "ren" : "", pid, comm,
		 lookup_list(l, list, sizeof(list)));
	return l->starts ? tracker_search(t, target, true) : 0;
}

int tracker_root(struct tracker *t, pid_t pid, bool any, bool follow, struct err *err)
{
	struct lookup l = {
		.crew = t->crew,
		.kick = t->kick,
		.files = t->files,
		.wait_ms = PROBE_WAIT_MS,
		.any = any,
		.children = follow,
		.stop = t->stop,
	};
	int code = lookup(&l, pid, err);

	if (code == LOOKUP_WRAPPER)
		code = take_wrapper(t, pid, &l, err);
	else if (code == -EINPROGRESS)
		code = root_hangs(t, pid, l.hanging);
	else
		code = judge_root(t, pid, any, code, &l.python, l.began, err);
	free(l.child);
	return code;
}

/* Those of @pids that are no targets yet become some. */
static int add_descendants(struct tracker *t, const pid_t *pids, size_t n)
{
	_cleanup_free_ struct target **add = calloc(n + 1, sizeof(*add));
	_cleanup_free_ pid_t *fresh = calloc(n + 1, sizeof(*fresh));
	_cleanup_free_ bool *plain = calloc(n + 1, sizeof(*plain));
	size_t k = 0, n_fresh = 0, done = t->targets.n_all;
	int r = add && fresh && plain ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < n; i++)
		if (!targets_find(&t->targets, pids[i]))
			fresh[n_fresh++] = pids[i];
	if (r == 0)
		proc_same_pid_namespace_each(fresh, n_fresh, plain);
	for (; r == 0 && k < n_fresh; k += r == 0) {
		add[k] = tracker_create(t, fresh[k], 0);
		r = add[k] ? 0 : -ENOMEM;
		if (r == 0)
			add[k]->plain = plain[k];
	}
	if (r == 0)
		r = targets_publish(&t->targets, add, k);
	for (size_t i = 0; r < 0 && i < k; i++)
		free(add[i]);
	for (size_t i = done; r == 0 && i < t->targets.n_all; i++) {
		t->targets.all[i]->asleep = true;
		/* Many are looked at when they run. */
		if (t->n_awake++ < AT_ONCE)
			r = tracker_wake(t, t->targets.all[i]);
	}
	return r;
}

static int list_descendants(struct tracker *t, pid_t pid)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0;

	return family_list(pid, &pids, &n) < 0 ? 0 : add_descendants(t, pids, n);
}

int tracker_descendants(struct tracker *t, const pid_t *pids, size_t n)
{
	int r = 0;

	t->newest = family_newest();
	for (size_t i = 0; r == 0 && i < n; i++)
		r = list_descendants(t, pids[i]);
	return r;
}

/* Does it take less to ask the targets for their children than to look at @n numbers? Not
 * those with several threads: one that ends leaves its children to another, which was asked
 * before. */
static bool should_ask(const struct tracker *t, size_t n)
{
	enum { A_TARGET = 5 }; /* system calls */
	bool single = n > A_TARGET * t->targets.n_all;

	for (size_t i = 0; single && i < t->targets.n_all; i++)
		single = proc_count_tasks(t->targets.all[i]->pid) == 1;
	return single;
}

/* Also those of targets that this finds. */
static int ask_targets(struct tracker *t)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < t->targets.n_all; i++) {
		struct target *target = t->targets.all[i];
		_cleanup_free_ pid_t *pids = NULL;
		size_t n = 0, cap = 0;

		if (targets_find(&t->targets, target->pid) == target &&
		    family_children(target->pid, &pids, &n, &cap) == 0)
			r = add_descendants(t, pids, n);
	}
	return r;
}

int tracker_born(struct tracker *t, const pid_t *pids, size_t n)
{
	_cleanup_free_ struct family_birth *born = NULL;
	pid_t since = t->newest, now = family_newest();
	size_t n_born;
	int r = 0;

	t->newest = now;
	if (since && now > since && should_ask(t, (size_t)(now - since)))
		return ask_targets(t);
	if (!family_born(since, now, &born, &n_born))
		return tracker_descendants(t, pids, n);
	/* Parents are before their children. */
	for (size_t i = 0; r == 0 && i < n_born; i++)
		if (targets_find(&t->targets, born[i].parent))
			r = add_descendants(t, &born[i].pid, 1);
	return r;
}
