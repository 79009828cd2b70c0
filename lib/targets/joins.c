/* SPDX-License-Identifier: MIT
 *
 * joins - processes that fit a scope and are seen while a recording runs.
 */
#include "targets/joins.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/idmap.h"
#include "sys/family.h"
#include "sys/proc.h"
#include "targets/births.h"
#include "targets/probe.h"
#include "targets/tracker_int.h"

enum {
	MOST = 256,    /* that are looked at, or wait for that */
	PROBES = 16,   /* looked at at a time; of one user no more than are left for others */
	TRIES = 8,     /* of a young one: it may be about to become a Python */
	RETRY_MS = 10, /* doubled each time */
	CREW_MS = 50,  /* between two looks whether all who look hang */
	POLL_MS = 100, /* between two looks into /proc */
	TURN = 16,     /* that a look into /proc asks for their program */
};
static const uint64_t MS = 1000000, YOUNG_NS = 2000000000;

struct look {
	pid_t pid, parent;
	int tries;
	uint64_t next_ns;
	struct probe *probe; /* at work, or NULL */
	uint64_t asked_ns;   /* when that was started */
	uid_t user;	     /* for whose process */
	bool crowded;	     /* it waits for others of its user */
	bool asked;	     /* for another look, while that one was at work */
};

struct joins {
	struct tracker *t;
	const struct scope *scope;
	struct joins_listener listener;
	bool told;
	bool told_hang; /* a person, of one look that hangs */
	struct look look[MOST];
	size_t n, n_probes;
	uint64_t made_ns;
	/* Without @told: */
	uint64_t poll_ns;
	pid_t newest;	      /* family_newest() at the last poll */
	struct idmap program; /* of each process: a mark of its program's file */
	pid_t *turn;	      /* those that are asked in turn, from number @at on */
	size_t n_turn, at;
};

pid_t joins_parent(const struct joins *j, pid_t pid)
{
	pid_t parent = births_parent(j->t->births, pid);

	return parent ? parent : proc_parent(pid);
}

bool joins_look(struct joins *j, pid_t pid)
{
	for (size_t i = 0; i < j->n; i++) {
		struct look *l = &j->look[i];

		if (l->pid != pid)
			continue;
		/* What that one sees may be the program before an exec. */
		l->asked = l->probe != NULL;
		return true;
	}
	if (j->n == MOST)
		return false;
	j->look[j->n++] = (struct look){ .pid = pid, .parent = joins_parent(j, pid) };
	return true;
}

/* --- without records: /proc --- */

/* 0: it has none, or that can't be told. */
static uint32_t program_of(pid_t pid)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (proc_stat_known(path, &st) < 0)
		return 0;
	return (uint32_t)((st.st_ino ^ (st.st_dev << 20)) * 0x9e3779b97f4a7c15u >> 35);
}

/* With @look one that is new is looked at: by another turn where there is no room. */
static void note_program(struct joins *j, pid_t pid, bool look)
{
	uint32_t program = program_of(pid), was = idmap_get(&j->program, (uint64_t)pid);

	if (was != program && (!look || joins_look(j, pid)))
		idmap_set(&j->program, (uint64_t)pid, program);
}

/* From now on all processes there are are asked in turn. */
static void begin_turn(struct joins *j, bool look)
{
	free(j->turn);
	j->turn = NULL;
	j->n_turn = j->at = 0;
	if (proc_processes(&j->turn, &j->n_turn) < 0)
		return;
	/* Who has ended is forgotten. */
	if (j->program.n > 2 * j->n_turn + MOST)
		idmap_deinit(&j->program);
	if (!j->program.n)
		for (size_t i = 0; i < j->n_turn; i++)
			note_program(j, j->turn[i], look);
}

static void ask_in_turn(struct joins *j)
{
	if (j->at == j->n_turn)
		begin_turn(j, true);
	for (size_t i = 0; i < TURN && j->at < j->n_turn; i++)
		note_program(j, j->turn[j->at++], true);
}

static void poll_proc(struct joins *j)
{
	_cleanup_free_ struct family_birth *born = NULL;
	pid_t now = family_newest();
	size_t n = 0;

	if (now != j->newest && !family_born(j->newest, now, &born, &n))
		j->at = j->n_turn = 0;
	for (size_t i = 0; i < n; i++)
		note_program(j, born[i].pid, true);
	j->newest = now;
	ask_in_turn(j);
}

/* --- a look --- */

static bool is_young(pid_t pid)
{
	uint64_t age = proc_age_ns(pid);

	return age != UINT64_MAX && age < YOUNG_NS;
}

/* True: not now, but later. */
static bool put_off(struct look *l)
{
	if (l->tries >= TRIES)
		return false;
	l->next_ns = now_ns() + (RETRY_MS * MS << l->tries++);
	return true;
}

/* One more at work would be more of its user's than are left for all others. */
static bool is_crowded(const struct joins *j, const struct look *l)
{
	size_t own = 0;

	for (size_t i = 0; i < j->n; i++)
		own += j->look[i].probe && j->look[i].user == l->user;
	return own && j->n_probes + own >= PROBES;
}

static bool begin_look(struct joins *j, struct look *l)
{
	if (targets_find(&j->t->targets, l->pid))
		return false;
	if (!scope_fits(j->scope, l->pid))
		return !j->told && is_young(l->pid) && put_off(l);
	if (j->n_probes == PROBES || l->crowded)
		return true;
	l->user = proc_user(l->pid);
	l->crowded = is_crowded(j, l);
	if (l->crowded)
		return true;
	l->asked_ns = now_ns();
	l->probe = probe_start(j->t->crew, l->pid, l->asked_ns, j->t->files, j->t->kick);
	j->n_probes += l->probe != NULL;
	return l->probe || put_off(l);
}

/* It is a target from now on. */
static bool take(struct joins *j, const struct look *l, int code, const struct pyproc *p)
{
	struct tracker *t = j->t;
	struct target *target = tracker_add(t, l->pid, births_execed(t->births, l->pid));

	if (!target)
		return false;
	if (code == 0) {
		tracker_found(t, target, p);
		births_teach(t->births, &target->code, target);
		tracker_learnt(t, target);
		return true;
	}
	tracker_note_none(t, target, code, p, probe_began(l->probe));
	return tracker_search(t, target, true) == 0;
}

static void end_probe(struct joins *j, struct look *l)
{
	probe_release(l->probe);
	l->probe = NULL;
	j->n_probes--;
	for (size_t i = 0; i < j->n; i++)
		j->look[i].crowded = false;
}

/* When a probe that is not over would hang, or has waited for too long; of one that has not begun,
 * when it is looked again whether all who look hang. */
static uint64_t probe_due(const struct look *l, uint64_t now)
{
	uint64_t began = probe_began(l->probe);

	return began ? began + TRACKER_LOOK_NS :
		       MIN(l->asked_ns + TRACKER_LOOK_NS, now + CREW_MS * MS);
}

/* Others wait for its turn. */
static void give_up(struct joins *j, struct look *l)
{
	end_probe(j, l);
	if (!j->told_hang)
		note_say(&j->t->note,
			 "process %d takes too long to look at: it, and others like it, can't join",
			 l->pid);
	j->told_hang = true;
}

/* What the probe said. True: look again. */
static bool end_look(struct joins *j, struct look *l, uint64_t now, bool *joined)
{
	struct pyproc p;
	struct err err;
	bool again = false, other;
	int code;

	if (!probe_done(l->probe, &code, &p, &err)) {
		if (now < probe_due(l, now))
			return true;
		give_up(j, l);
		return false;
	}
	/* It saw the program before, or may have. */
	other = births_execed(j->t->births, l->pid) > probe_began(l->probe);
	if (!other && (code == 0 || code == -EAGAIN) &&
	    !targets_find(&j->t->targets, l->pid))
		*joined = take(j, l, code, &p);
	else if (code == -ENOEXEC)
		again = p.partly || (!j->told && is_young(l->pid));
	else if (code == -ENOTSUP)
		tracker_tell_refused(j->t, err.text);
	else
		again = proc_is_short(code);
	end_probe(j, l);
	if ((l->asked || other) && !*joined) {
		*l = (struct look){ .pid = l->pid, .parent = l->parent };
		return true;
	}
	if (again && put_off(l))
		return true;
	if (proc_is_short(code))
		tracker_tell_refused(j->t, err.text);
	return false;
}

/* True: it stays in the list. */
static bool step(struct joins *j, struct look *l, uint64_t now, bool *joined)
{
	if (l->probe)
		return end_look(j, l, now, joined);
	return now < l->next_ns || begin_look(j, l);
}

pid_t joins_run(struct joins *j)
{
	uint64_t now = now_ns();

	if (!j->told && now >= j->poll_ns) {
		j->poll_ns = now + POLL_MS * MS;
		poll_proc(j);
	}
	for (size_t i = 0; i < j->n;) {
		pid_t pid = j->look[i].pid, parent = j->look[i].parent;
		bool joined = false;

		if (step(j, &j->look[i], now, &joined)) {
			i++;
			continue;
		}
		j->look[i] = j->look[--j->n];
		if (!joined && parent > 0 && !targets_find(&j->t->targets, pid))
			j->listener.strange(j->listener.arg, parent);
		if (joined)
			return pid;
	}
	return 0;
}

int joins_due_ms(const struct joins *j, int most)
{
	uint64_t now = now_ns(), next = now + (uint64_t)most * MS;

	if (!j->told)
		next = MIN(next, j->poll_ns);
	for (size_t i = 0; i < j->n; i++) {
		const struct look *l = &j->look[i];

		/* The end of a probe kicks the control thread. */
		if (l->probe)
			next = MIN(next, probe_due(l, now));
		else if (j->n_probes < PROBES && !l->crowded)
			next = MIN(next, l->next_ns);
	}
	return next > now ? MIN((int)((next - now) / MS) + 1, most) : 0;
}

struct joins *joins_create(struct tracker *t, const struct scope *s,
			   struct joins_listener listener)
{
	struct joins *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->t = t;
	j->scope = s;
	j->listener = listener;
	j->told = true;
	j->made_ns = now_ns();
	j->newest = family_newest();
	begin_turn(j, false);
	return j;
}

/* A young one may have been looked at before it mapped its interpreter. */
void joins_begin(struct joins *j, bool told)
{
	uint64_t young = now_ns() - j->made_ns + YOUNG_NS;

	j->told = told;
	begin_turn(j, false);
	for (size_t i = 0; i < j->n_turn; i++) {
		pid_t pid = j->turn[i];

		note_program(j, pid, true);
		if (proc_age_ns(pid) < young)
			joins_look(j, pid);
	}
}

void joins_destroy(struct joins *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->n; i++)
		probe_release(j->look[i].probe);
	idmap_deinit(&j->program);
	free(j->turn);
	free(j);
}
