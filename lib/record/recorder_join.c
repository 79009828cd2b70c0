/* SPDX-License-Identifier: MIT
 *
 * recorder_join - a recording of a scope: who belongs to it when it begins, and who joins.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>

#include "base/clock.h"
#include "bpf/stranger_filter.h"
#include "capture/waits.h"
#include "record/recorder_int.h"
#include "sys/proc.h"
#include "sys/rights.h"
#include "targets/births.h"
#include "targets/census.h"
#include "targets/joins.h"
#include "targets/ours.h"
#include "targets/tracker_int.h"

/* --- who is there --- */

static int take_row(struct recorder *r, const struct census_row *row)
{
	struct target *t = tracker_add(&r->tracker, row->python.pid, 0);

	if (!t)
		return -ENOMEM;
	if (row->code == 0) {
		tracker_found(&r->tracker, t, &row->python);
		return 0;
	}
	tracker_note_none(&r->tracker, t, row->code, &row->python, row->began);
	return tracker_search(&r->tracker, t, true);
}

/* Children of what --match names need not match: those that multiprocessing starts do not. */
static int take_children(struct recorder *r)
{
	size_t n = r->tracker.targets.n_all;
	_cleanup_free_ pid_t *pids = calloc(n + 1, sizeof(*pids));

	if (!recorder_descends(r))
		return 0;
	for (size_t i = 0; pids && i < n; i++)
		pids[i] = r->tracker.targets.all[i]->pid;
	return pids ? tracker_descendants(&r->tracker, pids, n) : -ENOMEM;
}

static void tell_census(const struct recorder *r, const struct census *c)
{
	size_t left = census_left_out(c);
	char text[300], others[80] = "none";

	if (left)
		snprintf(others, sizeof(others), "%zu of them left out, %s", left,
			 left == c->looked ? "of none is known that it" :
					     "none of the others");
	if (!c->n)
		note_say(&r->o.note,
			 "waiting: %zu %s, %s runs Python yet; those that will are joined (%s)",
			 c->looked, c->looked == 1 ? "process fits" : "processes fit", others,
			 scope_text(r->o.scope, text, sizeof(text)));
	census_tell(c, &r->o.note);
}

/* Who waits for a stranger is told of its CPU time, and so is who waits for that one. */
static void note_strange(void *arg, pid_t parent)
{
	enum { GENERATIONS = 16 };
	struct recorder *r = arg;

	for (int i = 0; i < GENERATIONS && parent > 1 && ticks_strange(&r->ticks, parent); i++)
		parent = proc_parent(parent);
}

int recorder_begin_scope(struct recorder *r, struct err *err)
{
	struct census c;
	char denied[400];
	int ret;

	r->joins = joins_create(&r->tracker, r->o.scope,
				(struct joins_listener){ note_strange, r });
	if (!r->joins)
		return -ENOMEM;
	ret = census_take(&c, r->o.scope, r->session->file_helper, r->o.stop);
	for (size_t i = 0; ret == 0 && i < c.n; i++)
		ret = take_row(r, &c.row[i]);
	if (ret == 0)
		ret = take_children(r);
	if (ret == 0 && !c.n && c.looked && c.denied == c.looked)
		ret = err_set(err, -EPERM, "%s", census_denied(&c, denied, sizeof(denied)));
	else if (ret < 0)
		census_failed(ret, err);
	else
		tell_census(r, &c);
	census_deinit(&c);
	return ret;
}

/* What lets more events be opened: attach_raise_nofile() has gone as far as it may. */
static const char *more_descriptors(char *buf, size_t size)
{
	char wanted[200];

	if (rights_have(CAP_SYS_RESOURCE))
		snprintf(buf, size, "raise fs.nr_open");
	else
		snprintf(buf, size, "%s, or raise 'ulimit -n'",
			 rights_wanted(wanted, sizeof(wanted), "CAP_SYS_RESOURCE"));
	return buf;
}

void recorder_busiest(struct recorder *r, size_t n)
{
	struct targets *t = &r->tracker.targets;
	char more[250];

	note_say(
		&r->o.note,
		"%zu processes fit, and events can be opened in the busiest %zu of them: only "
		"those are recorded (%s)",
		t->n, n, more_descriptors(more, sizeof(more)));
	for (size_t i = t->n_all; i-- > n;)
		if (targets_find(t, t->all[i]->pid) == t->all[i])
			tracker_gone(&r->tracker, t->all[i]->pid);
}

/* --- who joins --- */

/* Have @pid looked at, later where there is no room yet. False: nor is there any for those. */
static bool look(struct recorder *r, pid_t pid)
{
	if (joins_look(r->joins, pid))
		return true;
	if (r->n_unlooked == RECORDER_UNLOOKED)
		return false;
	r->unlooked[r->n_unlooked++] = pid;
	return true;
}

static void look_at_more(struct recorder *r)
{
	while (r->n_unlooked && joins_look(r->joins, r->unlooked[r->n_unlooked - 1]))
		r->n_unlooked--;
}

/* Nobody sampled it until now: what it has run as the program that it is, or, where it has become
 * none since we look, for as long as a stranger is dropped. */
static uint64_t unseen_of(const struct recorder *r, pid_t pid)
{
	uint64_t execed = births_execed(r->config.births, pid);
	uint64_t most = execed ? now_ns() - execed : STRANGER_NS, ns = 0;
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0;

	if (proc_tasks(pid, &tids, &n) < 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		ns += MIN(proc_ran_ns(pid, tids[i]), most);
	return ns;
}

static void note_unseen(struct recorder *r, uint64_t ns)
{
	r->unseen_ns += ns;
	r->n_joined += ns > 0;
}

/* Events that see all of a CPU, or its own. False: it can't have those, and is left out. */
static bool attach_joined(struct recorder *r, pid_t pid)
{
	struct err err;
	int ret;

	if (r->config.ours) {
		ours_set(r->config.ours, pid, true);
		stranger_filter_add(&r->filter, pid, 0);
		return true;
	}
	ret = attach_process(&r->attach, pid, NULL, 0, &err);
	if (ret == 0 || ret == -ESRCH)
		return true;
	tracker_gone(&r->tracker, pid);
	if (!r->told_no_join)
		note_say(&r->o.note, "process %d can't join: %s", pid, err.text);
	r->told_no_join = true;
	return false;
}

void recorder_join(struct recorder *r)
{
	pid_t pid;

	while (r->joins && (pid = joins_run(r->joins))) {
		uint64_t unseen = unseen_of(r, pid);

		recorder_introduce(r, pid, now_ns());
		recorder_count_from_now(r, pid);
		if (!attach_joined(r, pid))
			continue;
		note_unseen(r, unseen);
		waits_joined(r->waits, pid);
	}
	look_at_more(r);
}

void recorder_stranger(struct recorder *r, const struct ctl_msg *m)
{
	if (!r->joins || targets_find(&r->tracker.targets, m->pid))
		return;
	if (!m->ppid) {
		/* Who does not fit now may do so later: it is moved to a cgroup, say. */
		bool fits = scope_fits(r->o.scope, m->pid);

		if (!fits)
			note_strange(r, joins_parent(r->joins, m->pid));
		if (!fits || !look(r, m->pid))
			ours_set(r->config.strangers, m->pid, false);
		return;
	}
	/* A reader has seen it map a known interpreter, and samples it already; that it has become
	 * another program may have been told after that. */
	ours_set(r->config.ours, m->pid, true);
	tracker_new(&r->tracker, m->pid, births_execed(r->config.births, m->pid));
	recorder_introduce(r, m->pid, m->time);
	recorder_count_from_now(r, m->pid);
	if (!r->by_table) /* its exec did not end its time as a stranger */
		note_unseen(r, unseen_of(r, m->pid));
	stranger_filter_add(&r->filter, m->pid, 0);
	waits_joined(r->waits, m->pid);
}

bool recorder_stranger_again(struct recorder *r, pid_t pid)
{
	const struct target *t = targets_find(&r->tracker.targets, pid);
	uint64_t execed = births_execed_by(r->config.births, pid);
	struct births_fork f;

	if (!r->config.strangers || r->config.descends || !execed ||
	    births_forked(r->config.births, pid, &f) || (t && t->begun_ns >= execed))
		return false;
	tracker_gone(&r->tracker, pid);
	ours_set(r->config.ours, pid, false);
	ours_set(r->config.strangers, pid, false);
	/* Until now its records were a target's, and no reader told what it mapped. */
	if (r->waits && r->joins && births_python(r->config.births, pid) > execed)
		look(r, pid);
	return true;
}
