/* SPDX-License-Identifier: MIT
 *
 * waits - a thread that reads the stacks of those that sleep, at random moments: its ticks, and
 * what the control thread asks of it.
 */
#include "capture/waits.h"

#include <errno.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "base/base.h"
#include "base/draw.h"
#include "capture/waits_int.h"
#include "sys/harden.h"

enum {
	QUEUE_BYTES = 1 << 20, /* of each reader's messages */
	OUT_BYTES = 4 << 20,
	CTL_BYTES = 64 << 10,
	RING_BYTES = 1 << 20, /* of the ring that is none: it never is full */
	READ_PART = 20, /* of the time between ticks, one part in so many for reads */
	READ_LEAST_NS = 1000000,
	LEAST_NS = 1000000,	 /* mean distance of ticks; a tick itself takes some 20 us */
	LONGEST_NS = 1000000000, /* between ticks, where reads take too long */
	LAST_NS = 1000000000,	 /* for reads at the end */
	NICE = -10,
};

/* What readers told by now needs its room: between ticks that are far apart. */
static void take_early(struct waits *w, uint64_t until)
{
	uint64_t now = now_ns();
	bool all = waits_collect(w);

	waits_apply_until(w, MIN(now, until), all);
}

static void sleep_until(struct waits *w, uint64_t ns)
{
	const struct timespec t = clock_time(ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR &&
	       !atomic_load(&w->stop))
		take_early(w, ns);
}

/* Where reads take too long ticks come less often: then each stands for more. */
static void adapt(struct waits *w, bool over)
{
	if (over && w->short_of_time)
		w->period_ns = MIN(w->period_ns + w->period_ns / 4, (uint64_t)LONGEST_NS);
	else
		w->period_ns = MAX(w->period_ns - w->period_ns / 16, w->base_ns);
	w->short_of_time = false;
}

/* All that happened until @at, and a tick there. */
static void tick_at(struct waits *w, uint64_t at)
{
	uint64_t distance = at - w->last_ns;

	w->last_ns = at;
	waits_apply_until(w, at, waits_collect(w));
	waits_end_strangers(w, at);
	wait_table_tick(&w->table, at, distance);
	waits_doubt(w);
}

static void begin(struct waits *w)
{
	w->begun = true;
	waits_list(w);
	w->last_ns = w->table.since = w->start_ns;
}

static void tick(struct waits *w)
{
	uint64_t distance = draw_around(&w->slot.reader->random, w->period_ns);
	uint64_t at = w->last_ns + distance, until;

	sleep_until(w, at);
	if (atomic_load(&w->stop))
		return;
	tick_at(w, at);
	until = waits_own_ns() + MAX(distance / READ_PART, (uint64_t)READ_LEAST_NS);
	waits_read_some(w, true, until);
	waits_read_some(w, false, until);
	adapt(w, waits_own_ns() > until);
	waits_settle_some(w, until);
	waits_list_again(w, until);
}

/* Those that go on end now. */
static void give_rest(struct waits *w)
{
	for (size_t i = 0; i < w->table.n; i++)
		if (w->table.all[i].asleep)
			waits_give(w, &w->table.all[i], w->last_ns);
	w->ended = true;
}

static void be_ordinary(void)
{
	const struct sched_param none = { 0 };

	sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none);
	setpriority(PRIO_PROCESS, 0, NICE);
}

/* What began since the last tick had none: the end is as good a moment for one as any. Its
 * reads may take long. */
static void end(struct waits *w)
{
	uint64_t now = now_ns();

	be_ordinary();
	waits_end_strangers(w, now);
	tick_at(w, now);
	waits_read_some(w, true, waits_own_ns() + LAST_NS);
	waits_read_some(w, false, waits_own_ns() + LAST_NS);
	waits_settle_some(w, waits_own_ns() + LAST_NS);
	give_rest(w);
}

static void run(struct waits *w)
{
	atomic_store_explicit(&w->slot.reader->tid, gettid(), memory_order_relaxed);
	atomic_store_explicit(&w->post.tid, gettid(), memory_order_relaxed);
	work_own = &w->slot.work;
	harden_thread(HARDEN_READER, 0);
	if (w->c->capture->waits_begin(w->c->plan) < 0)
		be_ordinary();
	if (!w->begun)
		begin(w);
	while (!atomic_load(&w->stop))
		tick(w);
	end(w);
}

static void *waits_main(void *arg)
{
	struct waits *w = arg;
	struct reader *r = w->slot.reader;
	jmp_buf ended;

	r->mem.end = &ended;
	if (setjmp(ended) == 0) /* else abandoned: @r will be gone */
		run(w);
	return NULL;
}

static int start_reader(struct waits *w)
{
	struct reader *r = reader_create(w->c, &w->slot);

	if (!r)
		return -ENOMEM;
	w->slot.reader = r;
	if (pthread_create(&r->thread, NULL, waits_main, w) == 0)
		return 0;
	w->slot.reader = NULL;
	reader_destroy(r);
	return -EAGAIN;
}

/* --- the control thread --- */

static bool make_slot(struct waits *w)
{
	struct cpu_slot *s = &w->slot;

	s->cpu = -1;
	s->index = w->c->cap_slots;
	s->handover.posted = -1;
	s->ring = (struct perf_ring){ .fd = eventfd(0, EFD_CLOEXEC),
				      .page = calloc(1, sizeof(*s->ring.page)),
				      .size = RING_BYTES };
	return s->ring.fd >= 0 && s->ring.page && queue_init(&s->queue, OUT_BYTES) == 0 &&
	       queue_init(&s->ctl, CTL_BYTES) == 0 && queue_init(&w->joined, QUEUE_BYTES) == 0;
}

struct wait_post *waits_post(struct waits *w)
{
	return &w->post;
}

struct waits *waits_create(struct reader_config *c)
{
	struct waits *w = calloc(1, sizeof(*w));
	bool made;

	if (!w)
		return NULL;
	w->c = c;
	w->post.in = calloc(c->cap_slots, sizeof(*w->post.in));
	w->post.poke = calloc(c->cap_slots, sizeof(*w->post.poke));
	made = make_slot(w) && w->post.in && w->post.poke;
	for (uint32_t i = 0; made && i < c->cap_slots; i++)
		w->post.poke[i] = -1;
	for (uint32_t i = 0; made && i < c->cap_slots; i++) {
		w->post.poke[i] = eventfd(0, EFD_CLOEXEC);
		made = w->post.poke[i] >= 0 && queue_init(&w->post.in[i], QUEUE_BYTES) == 0;
	}
	if (made)
		return w;
	waits_destroy(w);
	return NULL;
}

void waits_destroy(struct waits *w)
{
	if (!w)
		return;
	for (uint32_t i = 0; i < w->c->cap_slots; i++) {
		if (w->post.poke && w->post.poke[i] > 0)
			close(w->post.poke[i]);
		if (w->post.in)
			queue_deinit(&w->post.in[i]);
	}
	reader_destroy(w->slot.reader);
	if (w->slot.ring.fd >= 0)
		close(w->slot.ring.fd);
	free(w->slot.ring.page);
	queue_deinit(&w->slot.queue);
	queue_deinit(&w->slot.ctl);
	queue_deinit(&w->joined);
	wait_table_deinit(&w->table);
	free(w->late);
	free(w->post.in);
	free(w->post.poke);
	free(w);
}

struct queue *waits_queue(struct waits *w)
{
	return &w->slot.queue;
}

struct queue *waits_messages(struct waits *w)
{
	return &w->slot.ctl;
}

int waits_start(struct waits *w, uint64_t period_ns, uint64_t start_ns)
{
	w->period_ns = w->base_ns = MAX(period_ns, (uint64_t)LEAST_NS);
	w->start_ns = start_ns;
	return start_reader(w);
}

uint64_t waits_told_ns(const struct waits *w)
{
	return atomic_load_explicit(&w->told_ns, memory_order_acquire);
}

pid_t waits_watch(struct waits *w)
{
	pid_t pid = w->slot.reader ? reader_stuck(&w->slot) : 0;

	if (pid || w->slot.bare)
		w->slot.bare = start_reader(w) < 0;
	/* Else what readers tell has no room soon, and samples wait for it. */
	if (w->slot.bare && now_ns() - w->last_ns >= w->period_ns)
		tick_at(w, now_ns());
	return pid;
}

pid_t waits_returned(struct waits *w)
{
	return reader_returned(&w->slot);
}

bool waits_bare(const struct waits *w)
{
	return w->slot.bare;
}

bool waits_stuck(const struct waits *w)
{
	return w && w->slot.stuck;
}

void waits_stop(struct waits *w)
{
	if (!w)
		return;
	atomic_store(&w->stop, true);
	readers_stop(&w->slot, 1);
	if (w->ended || !w->begun)
		return;
	/* It hangs in a read: what was not read by then stays unread. */
	tick_at(w, now_ns());
	give_rest(w);
}
