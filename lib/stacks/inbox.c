/* SPDX-License-Identifier: MIT */
#include "stacks/inbox.h"
#include "sys/harden.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/array.h"
#include "base/chunks.h"
#include "base/stats.h"
#include "sample/perf_decode.h"

enum { NICE = -15 };

struct inbox {
	struct queue **queues;
	_Atomic size_t n_queues;
	int hurry;
	_Atomic bool stop;
	bool started;
	pthread_t thread;
	pthread_mutex_t lock; /* the queues' tails, and all below */
	struct chunks memory; /* of the items' data */
	struct inbox_item *items;
	size_t n, cap;
	size_t most_stack, most_samples, most_all, most_share; /* inbox_limit() */
	_Atomic size_t bytes; /* also of what was handed out and is not free yet */
	_Atomic size_t side_bytes; /* of these: Q_SIDE */
	uint64_t lost_samples, lost_others;
	struct stats *stats;
};

static size_t held_by(size_t n)
{
	return n + sizeof(struct inbox_item);
}

static void drop(struct inbox *in, const struct queue_record *rec)
{
	struct side s;

	inbox_count_drop(rec->type, &in->lost_samples, &in->lost_others);
	/* What the kernel lost is in the books all the same. */
	if (rec->type == Q_SIDE && perf_decode_side((const void *)rec->data, &s) == 0 &&
	    s.kind == SIDE_LOST)
		STATS_ADD(in->stats, lost, s.u.lost.n);
}

/* True: there is no room for @n bytes. Of side records targets can make as many as they like: they
 * leave some to samples and code. */
static bool is_full(const struct inbox *in, uint32_t type, size_t n, size_t share)
{
	size_t bytes = atomic_load(&in->bytes) + held_by(n), least = in->most_samples / 4;

	switch (type) {
	case Q_SIDE:
		return bytes > share + in->most_all - least;
	case Q_SAMPLE:
	case Q_TAPE:
		return bytes > share + in->most_samples &&
		       bytes - atomic_load(&in->side_bytes) > least;
	default:
		return bytes > share + in->most_all;
	}
}

static void put(struct inbox *in, const struct queue_record *rec)
{
	bool sample = rec->type == Q_SAMPLE;
	const struct q_sample *q = sample ? (const void *)rec->data : NULL;
	size_t bytes = atomic_load(&in->bytes);
	size_t share = MIN(in->n_queues * INBOX_CPU_BYTES, in->most_share);
	bool cut = sample && q->n_stack && bytes > in->most_stack + share;
	size_t n = cut ? (size_t)(q_stack(q) - rec->data) : rec->n - sizeof(*rec);
	bool room = !is_full(in, rec->type, n, share) &&
		    array_reserve(&in->items, &in->cap, in->n + 1, sizeof(*in->items));
	unsigned char *data = room ? chunks_get(&in->memory, n) : NULL;

	if (!data) {
		drop(in, rec);
		return;
	}
	memcpy(data, rec->data, n);
	if (cut) {
		q_drop_stack((void *)data);
		STATS_ADD(in->stats, stack_dropped, 1);
	}
	in->items[in->n++] =
		(struct inbox_item){ .type = rec->type, .n = (uint32_t)n, .data = data };
	atomic_fetch_add(&in->bytes, held_by(n));
	if (rec->type == Q_SIDE)
		atomic_fetch_add(&in->side_bytes, held_by(n));
}

static void drain(struct inbox *in)
{
	const struct queue_record *rec;

	for (size_t i = 0; i < in->n_queues; i++)
		while ((rec = queue_peek(in->queues[i]))) {
			put(in, rec);
			queue_pop(in->queues[i]);
		}
}

static void *inbox_main(void *arg)
{
	struct inbox *in = arg;
	eventfd_t n;

	harden_thread(HARDEN_INBOX, 0);
	/* Beside busy targets it comes too late; it works for less than a millisecond. */
	setpriority(PRIO_PROCESS, 0, NICE);

	while (eventfd_read(in->hurry, &n) == 0 && !atomic_load(&in->stop)) {
		pthread_mutex_lock(&in->lock);
		drain(in);
		pthread_mutex_unlock(&in->lock);
	}
	return NULL;
}

void inbox_limit(struct inbox *in, size_t bytes)
{
	in->most_stack = MIN((size_t)INBOX_STACK_BYTES, bytes / 2);
	in->most_samples = MIN((size_t)INBOX_SAMPLE_BYTES, bytes / 4 * 3);
	in->most_all = MIN((size_t)INBOX_BYTES, bytes / 2 * 3);
	in->most_share = bytes / 4;
}

struct inbox *inbox_create(struct queue **queues, size_t n, struct stats *stats)
{
	struct inbox *in = calloc(1, sizeof(*in));

	if (!in)
		return NULL;
	in->queues = queues;
	in->stats = stats;
	in->n_queues = n;
	pthread_mutex_init(&in->lock, NULL);
	inbox_limit(in, SIZE_MAX);
	chunks_init(&in->memory);
	in->hurry = eventfd(0, EFD_CLOEXEC);
	for (size_t i = 0; i < n; i++)
		queues[i]->hurry = in->hurry;
	if (in->hurry >= 0)
		return in;
	inbox_destroy(in);
	return NULL;
}

int inbox_start(struct inbox *in)
{
	int e = 0;

	if (!in->started)
		e = pthread_create(&in->thread, NULL, inbox_main, in);
	in->started = e == 0;
	return -e;
}

void inbox_destroy(struct inbox *in)
{
	if (!in)
		return;
	if (in->started) {
		atomic_store(&in->stop, true);
		eventfd_write(in->hurry, 1);
		pthread_join(in->thread, NULL);
	}
	for (size_t i = 0; i < in->n_queues; i++)
		in->queues[i]->hurry = -1;
	if (in->hurry >= 0)
		close(in->hurry);
	for (size_t i = 0; i < in->n; i++)
		inbox_free(in, &in->items[i]);
	free(in->items);
	chunks_deinit(&in->memory);
	pthread_mutex_destroy(&in->lock);
	free(in);
}

void inbox_add(struct inbox *in, struct queue *q)
{
	q->hurry = in->hurry;
	in->queues[in->n_queues] = q;
	in->n_queues++;
}

void inbox_take(struct inbox *in, struct inbox_item **items, size_t *n)
{
	pthread_mutex_lock(&in->lock);
	drain(in);
	*items = in->items;
	*n = in->n;
	in->items = NULL;
	in->n = in->cap = 0;
	pthread_mutex_unlock(&in->lock);
	chunks_age(&in->memory);
}

void inbox_free(struct inbox *in, const struct inbox_item *it)
{
	if (it->type == Q_SIDE)
		atomic_fetch_sub(&in->side_bytes, held_by(it->n));
	atomic_fetch_sub(&in->bytes, held_by(it->n));
	chunks_put(&in->memory, it->data);
}

void inbox_dropped(struct inbox *in, uint64_t *samples, uint64_t *others)
{
	pthread_mutex_lock(&in->lock);
	*samples = in->lost_samples;
	*others = in->lost_others;
	in->lost_samples = in->lost_others = 0;
	pthread_mutex_unlock(&in->lock);
}
