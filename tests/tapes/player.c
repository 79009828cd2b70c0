/* SPDX-License-Identifier: MIT
 *
 * player - every reader of the tape is a reader here, on a thread of its own, and they take
 * turns: the drains, and the looks into other readers' rings within them, come in the order in
 * which they came. In between a reader runs alone.
 */
#include "player.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/idmap.h"
#include "targets/births.h"
#include "targets/ours.h"
#include "capture/reader_int.h"
#include "../provenance.h"
#include "outlet.h"
#include "targets/tape_target.h"
#include "world.h"

enum { QUEUE_BYTES = 32 << 20, CTL_BYTES = 1 << 20, TABLE_BYTES = 4 << 20 };

struct lane {
	struct player *p;
	struct script_slot *script;
	struct cpu_slot *slot;
	struct reader *reader;
	struct world world;
	pthread_t thread;
	uint64_t filled;		/* of the ring, so far */
	const struct script_step *step; /* where it is */
	bool begun;
	uint64_t judged, differ;
	uint64_t control[16];
};

struct player {
	struct script *s;
	FILE *tell;
	struct reader_config config;
	struct targets targets;
	struct event_ids *first;
	_Atomic(struct event_ids *) ids;
	struct run_table table;
	struct memory *memory;
	struct idmap inner; /* of older tapes: threads' own numbers */
	struct lane *lanes;
	pthread_mutex_t lock;
	pthread_cond_t turned;
	size_t turn; /* number of the step that is played */
};

static _Thread_local struct lane *current;

/* --- what is known of processes --- */

static void apply_numbers(struct player *p, struct bytes chunk)
{
	struct bytes pairs;

	tape_field(chunk, TAPE_INNER_TIDS, &pairs);
	for (size_t at = 0; at + 8 <= pairs.n; at += 8)
		idmap_set(&p->inner, load_u32(pairs.at + at), load_u32(pairs.at + at + 4));
}

static void apply_target(struct player *p, struct bytes chunk)
{
	pid_t pid = (pid_t)tape_get(chunk, TAPE_PID, 0);
	int program = (int)tape_get(chunk, TAPE_PROGRAM, 0);
	struct target *t = targets_find(&p->targets, pid), *fresh = NULL;

	if (tape_get(chunk, TAPE_IS, 0) & TAPE_GONE) {
		if (t)
			targets_remove(&p->targets, pid);
		return;
	}
	if (pid <= 0)
		return;
	if (!t || t->py.program != program)
		t = fresh = calloc(1, sizeof(*t));
	tape_get_target(chunk, t);
	apply_numbers(p, chunk);
	if (fresh && targets_publish(&p->targets, &t, 1) < 0)
		abort();
	ours_set(p->config.ours, pid, true);
	if (atomic_load(&t->state) == TARGET_PYTHON && t->code.build_id_n)
		births_teach(p->config.births, &t->code, t);
}

/* --- turns --- */

/* The next step; those of the control thread are done at once. With the lock. */
static void turn_next(struct player *p)
{
	struct script *s = p->s;

	for (p->turn++; p->turn < s->n_steps && s->steps[p->turn].slot < 0; p->turn++)
		apply_target(p, s->steps[p->turn].chunk);
	pthread_cond_broadcast(&p->turned);
}

/* Until it is the lane's turn with its next step. */
static void turn_wait(struct lane *l, size_t step)
{
	struct player *p = l->p;

	pthread_mutex_lock(&p->lock);
	while (p->turn != step)
		pthread_cond_wait(&p->turned, &p->lock);
	pthread_mutex_unlock(&p->lock);
	l->step = &p->s->steps[step];
	l->world.now = l->step->time;
}

static void turn_end(struct player *p)
{
	pthread_mutex_lock(&p->lock);
	turn_next(p);
	pthread_mutex_unlock(&p->lock);
}

/* --- rings --- */

/* The ring gets what it held up to @head. */
static void fill(struct lane *l, uint64_t head)
{
	struct perf_ring *ring = &l->slot->ring;
	uint64_t first = l->script->first, end = first + l->script->n_ring;

	end = MIN(end, perf_ring_tail(ring) + ring->size);
	for (; l->filled < MIN(head & ~UINT64_C(7), end); l->filled += 8)
		memcpy(ring->data + (l->filled & (ring->size - 1)),
		       l->script->ring + (l->filled - first), 8);
	ring->page->data_head = l->filled;
}

static void fill_seen(struct player *p, struct bytes chunk)
{
	struct bytes heads;

	tape_field(chunk, TAPE_HEADS, &heads);
	for (size_t i = 0; i < heads.n / 8 && i < p->config.n_slots; i++)
		fill(&p->lanes[i], load_u64(heads.at + 8 * i));
}

/* --- the tap --- */

static void player_drain(struct reader *r, uint64_t head, uint64_t shed_left, bool last)
{
}

static void player_looked(struct reader *r, enum tap_look what, pid_t tid, uint64_t own)
{
}

static void player_target(struct reader *r, pid_t pid, const struct target *t)
{
}

/* The look that the tape has for this one: those before it are passed by. NULL: none. */
static struct script_item *look_of(struct lane *l, enum tap_look what, pid_t tid)
{
	for (size_t i = 0; i < l->world.n_items; i++) {
		struct script_item *it = &l->world.items[i];

		if (it->type == TAPE_LOOK && !it->used &&
		    tape_get(it->chunk, TAPE_WHAT, 0) == what &&
		    (pid_t)tape_get(it->chunk, TAPE_TID, 0) == tid)
			return it;
	}
	return NULL;
}

/* Go through the turns of the looks up to @last, or of all in the drain (NULL). */
static void pass(struct lane *l, const struct script_item *last)
{
	for (size_t i = 0; i < l->world.n_items; i++) {
		struct script_item *it = &l->world.items[i];

		if (it->type != TAPE_LOOK || it->used)
			continue;
		it->used = true;
		turn_end(l->p);
		turn_wait(l, it->step);
		if (it == last)
			return;
	}
}

static void player_look(struct reader *r, enum tap_look what, pid_t tid)
{
	struct script_item *it = look_of(current, what, tid);

	if (!it)
		return;
	pass(current, it);
	fill_seen(current->p, it->chunk);
}

/* The own number of thread @tid, as an older tape tells it; 0: it does not. */
static uint64_t number_of(const struct player *p, uint64_t tid)
{
	uint32_t number = idmap_get(&p->inner, tid);

	return number == IDMAP_NONE ? 0 : number;
}

static void player_answer(struct reader *r, enum tap_answer what, uint64_t key,
			  uint64_t *value)
{
	struct handover *ho = &r->slot->handover;
	struct world *w = &current->world;

	for (size_t i = 0; i < w->n_items; i++) {
		struct script_item *it = &w->items[i];
		struct bytes regs;

		if (it->type != TAPE_ANSWER || it->used ||
		    tape_get(it->chunk, TAPE_WHAT, 0) != what ||
		    tape_get(it->chunk, TAPE_KEY, 0) != key)
			continue;
		it->used = true;
		*value = tape_get(it->chunk, TAPE_VALUE, 0);
		if (tape_field(it->chunk, TAPE_REGS, &regs))
			memcpy(what == TAP_HELD ? ho->regs : ho->accepted_regs, regs.at,
			       MIN(regs.n, sizeof(ho->regs)));
		/* Older tapes don't tell when it had been let go before. */
		ho->ran_on_ns = ho->accepted_ran_on_ns = tape_get(it->chunk, TAPE_START, 0);
		ho->accepted_ns = tape_get(it->chunk, TAPE_END, ho->accepted_ns);
		return;
	}
	/* Older tapes don't tell it, and here the process is not. */
	if (what == TAP_LEFT)
		*value = 0;
	if (what == TAP_INNER)
		*value = number_of(current->p, key);
}

static void tell(struct lane *l, const struct pending *p, const char *was, const char *is)
{
	l->differ++;
	if (l->p->tell)
		fprintf(l->p->tell,
			"# DIFFERS: CPU %d, sample at %" PRIu64 ": was %s, is %s\n",
			l->slot->cpu, p->s.time, was, is);
}

static void player_judged(struct reader *r, const struct pending *p)
{
	const char *is = provenance_name(p->prov);
	struct lane *l = current;

	l->judged++;
	for (size_t i = 0; i < l->script->n_judged; i++) {
		struct script_judged *j = &l->script->judged[i];

		if (j->pos != p->pos || j->seen)
			continue;
		j->seen = true;
		if (strcmp(j->prov, is) != 0)
			tell(l, p, j->prov, is);
		return;
	}
	tell(l, p, "not judged", is);
}

static const struct tap_ops player_ops = {
	.drain = player_drain,
	.look = player_look,
	.looked = player_looked,
	.target = player_target,
	.answer = player_answer,
	.judged = player_judged,
};

/* --- a reader --- */

/* What it meets in this drain. */
static void enter_drain(struct lane *l, const struct script_step *step)
{
	struct reader_config *c = &l->p->config;
	struct world *w = &l->world;

	w->items = l->script->items + step->item;
	w->n_items = step->n_items;
	w->next_read = 0;
	for (size_t i = 0; i < w->n_items; i++) {
		struct bytes chunk = w->items[i].chunk, b;

		if (w->items[i].type == TAPE_TARGET)
			apply_target(l->p, chunk);
		else if (w->items[i].type == TAPE_READ && tape_field(chunk, TAPE_BYTES, &b))
			memory_put(w->memory, (pid_t)tape_get(chunk, TAPE_PID, 0),
				   tape_get(chunk, TAPE_AT, 0), b);
	}
	atomic_store(&c->start_ns, tape_get(step->chunk, TAPE_START, 0));
	atomic_store(&c->end_ns, tape_get(step->chunk, TAPE_END, UINT64_MAX));
	atomic_store(&c->over_ns, tape_get(step->chunk, TAPE_OVER, UINT64_MAX));
	atomic_store(&c->blind_ns, tape_get(step->chunk, TAPE_BLIND, 0));
	l->reader->woke_ns = tape_get(step->chunk, TAPE_WOKE, step->time);
	fill(l, tape_get(step->chunk, TAPE_HEAD, 0));
}

static void take_messages(struct lane *l)
{
	const struct queue_record *rec;

	while ((rec = queue_peek(&l->slot->ctl))) {
		l->control[rec->type % ARRAY_SIZE(l->control)]++;
		queue_pop(&l->slot->ctl);
	}
}

static void play_drain(struct lane *l, size_t i)
{
	const struct script_step *step = &l->p->s->steps[i];
	uint64_t bits = tape_get(step->chunk, TAPE_DRAINING, 0);

	turn_wait(l, i);
	enter_drain(l, step);
	l->reader->unfit = bits & TAPE_UNFIT;
	atomic_store(&l->p->config.crowded, bits & TAPE_CROWDED);
	reader_drain(l->reader, bits & TAPE_SHED ? 1 : 0, bits & TAPE_LAST);
	if (!l->begun && tape_get(step->chunk, TAPE_START, 0) == UINT64_MAX)
		l->reader->first_pos = l->reader->pos;
	l->begun = true;
	take_messages(l);
	pass(l, NULL);
	turn_end(l->p);
}

static void *lane_main(void *arg)
{
	struct lane *l = arg;
	struct script *s = l->p->s;

	current = l;
	work_own = &l->slot->work;
	world_enter(&l->world);
	for (size_t i = 0; i < s->n_steps; i++)
		if (s->steps[i].type == TAPE_DRAIN && s->steps[i].slot == (int)l->slot->index)
			play_drain(l, i);
	world_enter(NULL);
	work_own = NULL;
	return NULL;
}

/* --- the recording --- */

static const struct capture_ops *capture_of(const char *name)
{
	for (size_t i = 0; captures[i]; i++)
		if (!strcmp(captures[i]->name, name))
			return captures[i];
	return NULL;
}

static void set_config(struct player *p)
{
	struct bytes set = p->s->settings, tids;
	uint64_t bits = tape_get(set, TAPE_SET, 0);
	struct reader_config *c = &p->config;

	tape_field(set, TAPE_TIDS, &tids);
	*c = (struct reader_config){
		.capture = capture_of(p->s->capture),
		.targets = &p->targets,
		.session = &p->s->session,
		.stats = &p->s->stats,
		.max_frames = (uint32_t)MIN(tape_get(set, TAPE_MAX_FRAMES, 1024), 8192u),
		.hold_budget = 100,
		.sample_type = tape_get(set, TAPE_SAMPLE_TYPE, 0),
		.witness = bits & TAPE_WITNESS,
		.counter = bits & TAPE_COUNTER,
		.native = bits & TAPE_NATIVE,
		.stack_bytes = (uint32_t)tape_get(set, TAPE_STACK_BYTES, 0),
		.follow = bits & TAPE_FOLLOW,
		.tell_threads = bits & TAPE_TELL_THREADS,
		.kick = -1,
		.ids = &p->ids,
		.ours = bits & TAPE_OURS ? ours_create(NULL) : NULL,
		.split = bits & TAPE_SPLIT,
		.table = bits & TAPE_TABLE ? &p->table : NULL,
		.early = bits & TAPE_EARLY,
		.switches_hidden = bits & TAPE_SWITCHES_HIDDEN,
		.child = (pid_t)tape_get(set, TAPE_CHILD, 0),
		.n_tids = tids.n / sizeof(pid_t),
		.last_in = calloc(LAST_IN, sizeof(*c->last_in)),
		.births = births_create(),
		.n_slots = p->s->n_slots,
		.cap_slots = (uint32_t)MAX(MIN(tape_get(set, TAPE_CAP_SLOTS, 0), 4096u),
					   p->s->n_slots),
	};
	c->tids = tids.n ? memcpy(malloc(tids.n), tids.at, tids.n) : NULL;
	c->slots = calloc(c->cap_slots, sizeof(*c->slots));
}

static void set_ids(struct player *p)
{
	p->first = event_ids_create((uint32_t)p->s->n_ids, NULL);
	for (size_t i = 0; i < p->s->n_ids; i++)
		event_ids_add(p->first, p->s->ids[i].id, p->s->ids[i].event);
	atomic_init(&p->ids, p->first);
}

static void open_lane(struct player *p, uint32_t i)
{
	struct script_slot *script = &p->s->slots[i];
	struct cpu_slot *slot = &p->config.slots[i];
	struct lane *l = &p->lanes[i];

	if (!script->there)
		*script = (struct script_slot){ .there = true, .size = 2 * PERF_RECORD_BYTES };
	*slot = (struct cpu_slot){ .cpu = script->cpu, .index = i };
	slot->watched_ns = script->watched_ns;
	slot->ring = (struct perf_ring){ .fd = eventfd(0, EFD_CLOEXEC), .size = script->size };
	slot->ring.page = calloc(1, sizeof(*slot->ring.page));
	slot->ring.data = calloc(1, script->size);
	slot->ring.page->data_head = slot->ring.page->data_tail = script->first;
	slot->handover.posted = -1;
	for (size_t e = 0; e < SESSION_MAX_EVENTS; e++)
		atomic_init(&slot->sampler[e], -1);
	if (queue_init(&slot->queue, QUEUE_BYTES) < 0 || queue_init(&slot->ctl, CTL_BYTES) < 0)
		abort();
	*l = (struct lane){ .p = p, .script = script, .slot = slot, .filled = script->first };
	l->world = (struct world){ .cpu = script->cpu, .memory = p->memory };
	l->reader = reader_create(&p->config, slot);
	if (!l->reader)
		abort();
	l->reader->tap = &player_ops;
}

static void close_lane(struct lane *l)
{
	reader_destroy(l->reader);
	close(l->slot->ring.fd);
	free(l->slot->ring.page);
	free(l->slot->ring.data);
	queue_deinit(&l->slot->queue);
	queue_deinit(&l->slot->ctl);
}

static void run_lanes(struct player *p)
{
	/* Begin with the first step; what the control thread did before it is done. */
	p->turn = SIZE_MAX;
	turn_end(p);
	for (uint32_t i = 0; i < p->config.n_slots; i++)
		if (pthread_create(&p->lanes[i].thread, NULL, lane_main, &p->lanes[i]))
			abort();
	for (uint32_t i = 0; i < p->config.n_slots; i++)
		pthread_join(p->lanes[i].thread, NULL);
}

static void sum_up(const struct player *p, struct played *ret)
{
	for (uint32_t i = 0; i < p->config.n_slots; i++) {
		const struct lane *l = &p->lanes[i];

		ret->judged += l->judged;
		ret->differ += l->differ;
		ret->others += l->world.others;
		ret->misses += l->world.misses;
		ret->calls += l->world.calls;
		ret->pieces += l->world.pieces;
		for (unsigned k = 0; k < WORK_N; k++)
			ret->work[k] += l->slot->work.n[k];
		for (size_t k = 0; k < l->script->n_judged; k++)
			ret->missing += !l->script->judged[k].seen;
		for (size_t k = 0; k < ARRAY_SIZE(ret->control); k++)
			ret->control[k] += l->control[k];
	}
}

int play_script(struct script *s, const char *files, const char *out, FILE *tell,
		struct played *ret)
{
	struct player p = { .s = s,
			    .tell = tell,
			    .lock = PTHREAD_MUTEX_INITIALIZER,
			    .turned = PTHREAD_COND_INITIALIZER };
	int code;

	*ret = (struct played){ 0 };
	if (!s->n_slots || !s->session.n_events || !capture_of(s->capture))
		return -EBADMSG;
	s->session.capture = s->capture;
	s->session.stats = &s->stats;
	s->session.argv = (char *[]){ NULL };
	p.memory = memory_create();
	targets_init(&p.targets);
	p.table.at = calloc(1, TABLE_BYTES);
	set_config(&p);
	set_ids(&p);
	p.lanes = calloc(s->n_slots, sizeof(*p.lanes));
	for (uint32_t i = 0; i < s->n_slots; i++)
		open_lane(&p, i);
	run_lanes(&p);
	code = outlet_write(s, &p.config, files, out, &ret->sums);
	sum_up(&p, ret);
	for (uint32_t i = 0; i < s->n_slots; i++)
		close_lane(&p.lanes[i]);
	free(p.lanes);
	event_ids_destroy(p.first);
	ours_destroy(p.config.ours);
	births_destroy(p.config.births);
	free((void *)(uintptr_t)p.config.last_in);
	free((void *)(uintptr_t)p.config.tids);
	free(p.config.slots);
	targets_deinit(&p.targets);
	memory_destroy(p.memory);
	idmap_deinit(&p.inner);
	free((void *)(uintptr_t)p.table.at);
	return code;
}
