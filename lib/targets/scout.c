/* SPDX-License-Identifier: MIT
 *
 * scout - where in processes that nobody has looked at an interpreter lies that is known from
 * another process.
 */
#include "targets/scout.h"
#include "sys/harden.h"

#include <pthread.h>
#include <stdatomic.h>

#include "sys/proc_maps.h"
#include "base/work.h"

struct scout {
	_Atomic int refs; /* the thread's and the owner's */
	_Atomic bool stop;
	_Atomic size_t n_done;
	size_t n, n_taken, n_codes;
	struct work work;
	struct pyfind_code code[BIRTHS_CODES];
	struct scout_found *found;
	pid_t pids[];
};

static void drop(struct scout *s)
{
	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	free(s->found);
	free(s);
}

/* A worker is a copy of who forked it: everything lies where it does there. */
static bool is_copy(pid_t pid, const struct pyfind_code *c)
{
	unsigned char id[sizeof(c->build_id)];
	struct rmem_live m;

	rmem_live_init(&m, pid);
	return rmem_read(&m.base, c->build_id_at, id, c->build_id_n) == 0 &&
	       !memcmp(id, c->build_id, c->build_id_n);
}

static bool is_code(const struct proc_map *m, const struct pyfind_code *c)
{
	return m->x && m->ino == c->ino && m->maj == c->maj && m->min == c->min &&
	       m->pgoff == c->pgoff;
}

static struct scout_found look_at_maps(const struct scout *s, pid_t pid)
{
	struct scout_found found = { 0 };
	struct proc_maps maps;

	if (proc_maps_read(&maps, pid) < 0)
		return found;
	for (size_t i = 0; !found.number && i < maps.n; i++)
		for (size_t c = 0; !found.number && c < s->n_codes; c++)
			if (is_code(&maps.map[i], &s->code[c]))
				found = (struct scout_found){ (uint32_t)c + 1,
							      maps.map[i].start };
	proc_maps_deinit(&maps);
	return found;
}

static struct scout_found look(const struct scout *s, pid_t pid)
{
	for (size_t c = 0; c < s->n_codes; c++)
		if (is_copy(pid, &s->code[c]))
			return (struct scout_found){ (uint32_t)c + 1, s->code[c].at };
	return look_at_maps(s, pid);
}

static void *scout_main(void *arg)
{
	struct scout *s = arg;

	work_own = &s->work;
	harden_thread(HARDEN_PROBE, 0);
	for (size_t i = 0; i < s->n && !atomic_load(&s->stop); i++) {
		s->found[i] = look(s, s->pids[i]);
		atomic_store_explicit(&s->n_done, i + 1, memory_order_release);
	}
	drop(s);
	return NULL;
}

struct scout *scout_start(struct births *b, const pid_t *pids, size_t n)
{
	struct scout *s = calloc(1, sizeof(*s) + n * sizeof(*pids));
	const struct births_code *known;
	pthread_t thread;

	if (!s)
		return NULL;
	memcpy(s->pids, pids, n * sizeof(*pids));
	s->n = n;
	for (uint32_t i = 0; (known = births_known(b, i)); i++)
		s->code[s->n_codes++] = known->code;
	s->found = calloc(n + 1, sizeof(*s->found));
	atomic_init(&s->refs, 2);
	if (s->found && pthread_create(&thread, NULL, scout_main, s) == 0) {
		pthread_detach(thread);
		return s;
	}
	free(s->found);
	free(s);
	return NULL;
}

ssize_t scout_take(struct scout *s, struct scout_found *ret)
{
	if (!s || s->n_taken == atomic_load_explicit(&s->n_done, memory_order_acquire))
		return -1;
	*ret = s->found[s->n_taken];
	return (ssize_t)s->n_taken++;
}

bool scout_over(const struct scout *s)
{
	return !s || s->n_taken == s->n;
}

void scout_release(struct scout *s)
{
	if (!s)
		return;
	atomic_store(&s->stop, true);
	work_take(&s->work);
	drop(s);
}
