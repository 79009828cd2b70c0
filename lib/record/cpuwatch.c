/* SPDX-License-Identifier: MIT */
#include "capture/capture.h"
#include "record/cpuwatch.h"

#include <errno.h>

#include "capture/reader.h"
#include "base/clock.h"
#include "sys/family.h"
#include "sys/proc.h"
#include "targets/target.h"

enum { BIRTH_TRIES = 20, LOOK_SHARE = 100 };
static const uint64_t LOOK_NS = 1000000000;

struct tids {
	pid_t *tid; /* ascending */
	size_t n;
};

static int append(struct tids *t, const pid_t *tids, size_t n)
{
	pid_t *all = realloc(t->tid, (t->n + n) * sizeof(*all));

	if (!all)
		return -ENOMEM;
	memcpy(all + t->n, tids, n * sizeof(*all));
	t->tid = all;
	t->n += n;
	return 0;
}

static int append_process(struct tids *t, pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0;

	return proc_tasks(pid, &tids, &n) < 0 ? 0 : append(t, tids, n);
}

static int append_family(struct tids *t, pid_t pid)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0;
	int r = 0;

	if (family_list(pid, &pids, &n) < 0)
		return 0;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = append_process(t, pids[i]);
	return r;
}

/* Children that were orphaned are no descendants any more, but targets. *@n: those with threads.
 */
static int append_targets(struct tids *t, struct targets *targets, size_t *n)
{
	int r = 0;

	*n = 0;
	for (size_t i = 0; r == 0 && i < targets->n_all; i++) {
		size_t before = t->n;

		if (targets_find(targets, targets->all[i]->pid) == targets->all[i])
			r = append_process(t, targets->all[i]->pid);
		*n += t->n > before;
	}
	return r;
}

/* Every thread that is recorded. */
static int list_threads(const struct cpuwatch *w, struct tids *ret)
{
	size_t targets;
	int r = 0;

	*ret = (struct tids){ 0 };
	if (w->n_tids)
		return append(ret, w->tids, w->n_tids);
	for (size_t i = 0; r == 0 && i < w->n_pids; i++) {
		r = append_process(ret, w->pids[i]);
		if (r == 0 && w->follow)
			r = append_family(ret, w->pids[i]);
	}
	if (r == 0 && w->follow)
		r = append_targets(ret, w->config->targets, &targets);
	ret->n = proc_sort_pids(ret->tid, ret->n);
	return r;
}

static bool within(const struct tids *some, const struct tids *all)
{
	size_t k = 0;

	for (size_t i = 0; i < some->n; i++) {
		while (k < all->n && all->tid[k] < some->tid[i])
			k++;
		if (k == all->n || all->tid[k] != some->tid[i])
			return false;
	}
	return true;
}

int cpuwatch_threads(const struct cpuwatch *w, pid_t **ret, size_t *n, size_t *processes)
{
	struct tids t = { 0 };
	int r = append_targets(&t, w->config->targets, processes);

	if (r == 0 && w->n_tids) {
		t.n = 0;
		r = append(&t, w->tids, w->n_tids);
	}
	t.n = proc_sort_pids(t.tid, t.n);
	*ret = t.tid;
	*n = t.n;
	return r;
}

/* Nobody runs on CPUs that are not online: where each of those is in reach no further thread
 * has to be asked. */
int cpuwatch_reach(const pid_t *tids, size_t n, struct cpus *ret)
{
	struct cpus online = { 0 }, rest;
	int r = cpus_system(&online, "online");

	*ret = (struct cpus){ 0 };
	rest = online;
	for (size_t i = 0; i < n && (r < 0 || cpus_next(&rest, 0) >= 0); i++) {
		cpus_add_thread(ret, tids[i]);
		for (int cpu = cpus_next(ret, 0); cpu >= 0; cpu = cpus_next(ret, cpu + 1))
			cpus_del(&rest, cpu);
	}
	if (cpus_next(ret, 0) >= 0)
		return 0;
	*ret = online;
	return r;
}

static int reach(const struct cpuwatch *w, struct cpus *ret)
{
	struct tids t;
	int r = list_threads(w, &t);

	*ret = (struct cpus){ 0 };
	if (r == 0 && t.n)
		r = cpuwatch_reach(t.tid, t.n, ret);
	free(t.tid);
	return r;
}

/* Events for one more CPU on every thread. What is born meanwhile may have inherited them
 * or not: then they are closed again, its too, and opened anew. Where none are inherited readers
 * tell of it. */
static int open_events(struct cpuwatch *w, struct cpu_slot *slot, struct err *err)
{
	if (w->wide)
		return attach_cpu(w->attach, slot->index, &ATTACH_ALL, 1, err);
	for (int i = 0; i < BIRTH_TRIES; i++) {
		struct tids before, after;
		bool whole = false;
		int r = list_threads(w, &before);

		if (r == 0)
			r = attach_cpu(w->attach, slot->index, before.tid, before.n, err);
		if (r == 0) {
			r = list_threads(w, &after);
			whole = r == 0 && (!w->attach->inherit || within(&after, &before));
			free(after.tid);
		}
		free(before.tid);
		if (whole)
			return w->attach->on_cpus ?
				       attach_cpu(w->attach, slot->index, &ATTACH_ALL, 1, err) :
				       0;
		attach_close_cpu(w->attach, slot->index);
		if (r < 0)
			return r;
	}
	return err_set(err, -EAGAIN, "threads are born faster than they can be attached to");
}

static int watch(struct cpuwatch *w, int cpu, struct err *err)
{
	struct cpu_slot *slot = slots_find(w->config, cpu);
	int r = 0;

	if (w->config->capture->fixed_cpus)
		return err_set(err, -ENOTSUP,
			       "--capture %s watches those CPUs alone that it began with",
			       w->config->capture->name);
	if (!slot) {
		r = slots_add(w->config, cpu, err);
		if (r < 0)
			return r;
		slot = slots_find(w->config, cpu);
		resolver_add_queue(w->resolver, &slot->queue);
	}
	if (slot->reader)
		reader_nudge(slot); /* back to its CPU, from where that took it */
	else
		r = reader_start(w->config, slot);
	attach_close_cpu(w->attach, slot->index);
	if (r == 0)
		r = open_events(w, slot, err);
	if (r < 0)
		return r;
	attach_enable_cpu(w->attach, slot->index);
	atomic_store(&slot->watched_ns, now_ns());
	return 0;
}

/* True: all of @rest are watched now. What can't be is told once. */
static bool watch_all(struct cpuwatch *w, const struct cpus *rest)
{
	struct cpus added = { 0 };
	bool whole = true;
	char list[200];

	for (int cpu = cpus_next(rest, 0); cpu >= 0; cpu = cpus_next(rest, cpu + 1)) {
		struct err err = { .text = "out of memory" };

		if (watch(w, cpu, &err) == 0) {
			cpus_add(&added, cpu);
			continue;
		}
		whole = false;
		if (!cpus_has(&w->told, cpu))
			note_say(&w->note,
				 "the targets may run on CPU %d now and what runs there is "
				 "not in "
				 "the recording: %s",
				 cpu, err.text);
		cpus_add(&w->told, cpu);
	}
	if (cpus_next(&added, 0) >= 0)
		note_say(&w->note,
			 "the targets may run on CPU %s now: watched from here on; what ran "
			 "there "
			 "in the %.1f s before is not in the recording",
			 cpus_text(&added, list, sizeof(list)),
			 (double)(now_ns() - w->whole_ns) / 1e9);
	return whole;
}

/* The hotplug thread has run there, as it does on each CPU also where a module is loaded that wants
 * to be told of CPUs. If the events are there after it has left, it took none away. It can't take
 * one away later but by coming anew, which gone_ns tells. */
static void see_what_is_kept(const struct cpuwatch *w, struct cpu_slot *s)
{
	uint64_t left = atomic_load(&s->left_ns), gone = atomic_load(&s->gone_ns);

	if (left > gone && attach_sees_cpu(w->attach, s->index))
		atomic_store(&s->kept_ns, gone);
}

/* CPUs that are online and not watched, whoever may run there. */
static void unwatched(struct cpuwatch *w, uint64_t now, struct cpus *ret)
{
	const struct reader_config *c = w->config;

	if (cpus_system(ret, "online") < 0)
		memset(ret, 0xff, sizeof(*ret));
	for (uint32_t i = 0; i < c->n_slots; i++) {
		struct cpu_slot *s = &c->slots[i];

		if (w->attach->on_cpus && !cpus_has(ret, s->cpu))
			atomic_store(&s->gone_ns, now);
		if (c->table && run_table_hotplug(c->table, s->cpu) > atomic_load(&s->gone_ns))
			atomic_store(&s->gone_ns, run_table_hotplug(c->table, s->cpu));
		if (!slot_watched(s))
			see_what_is_kept(w, s);
		if (slot_watched(s))
			cpus_del(ret, s->cpu);
	}
}

void cpuwatch_begin(struct cpuwatch *w, uint64_t now)
{
	w->whole_ns = now;
	w->next_ns = now + LOOK_NS;
}

void cpuwatch_look(struct cpuwatch *w)
{
	uint64_t now = now_ns();
	bool wanders = atomic_load(&w->config->wanders), whole;
	struct cpus rest, may;

	if (now < w->next_ns)
		return;
	unwatched(w, now, &rest);
	whole = cpus_next(&rest, 0) < 0;
	if (!whole && (wanders || reach(w, &may) == 0)) {
		if (!wanders)
			cpus_keep(&rest, &may);
		whole = watch_all(w, &rest);
	}
	if (whole && wanders)
		atomic_store(&w->config->wanders, false);
	if (whole)
		w->whole_ns = now;
	w->next_ns = now + MAX(LOOK_NS, LOOK_SHARE * (now_ns() - now));
}
