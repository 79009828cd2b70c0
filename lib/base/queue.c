/* SPDX-License-Identifier: MIT */
#include "base/queue.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "base/sparse.h"

void queue_place(struct queue *q, void *bytes, size_t size)
{
	*q = (struct queue){ .bytes = bytes, .size = size, .hurry = -1 };
}

int queue_init(struct queue *q, size_t size)
{
	queue_place(q, sparse_alloc(size), size);
	return q->bytes ? 0 : -ENOMEM;
}

void queue_deinit(struct queue *q)
{
	free(q->bytes);
	q->bytes = NULL;
}

static struct queue_record *record_at(struct queue *q, uint64_t pos)
{
	return (struct queue_record *)(void *)(q->bytes + (pos & (q->size - 1)));
}

/* Of an empty queue: see queue.h. Returns where its head and tail are then. */
static uint64_t go_to_first_byte(struct queue *q, uint64_t head)
{
	uint64_t first = (head + q->size - 1) & ~((uint64_t)q->size - 1);

	if (first == head)
		return head;
	atomic_store_explicit(&q->tail, first, memory_order_relaxed);
	atomic_store_explicit(&q->head, first, memory_order_release);
	return first;
}

void *queue_reserve(struct queue *q, uint32_t type, size_t n)
{
	uint64_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&q->tail, memory_order_acquire);
	size_t need = (sizeof(struct queue_record) + n + 7) & ~(size_t)7, to_end, pad;
	struct queue_record *r;

	if (head == tail)
		head = tail = go_to_first_byte(q, head);
	to_end = q->size - (head & (q->size - 1));
	pad = to_end < need ? to_end : 0;
	if (need > q->size / 2 || need + pad > q->size - (head - tail))
		return NULL;
	if (pad) {
		*record_at(q, head) = (struct queue_record){ .n = (uint32_t)pad };
		head += pad;
	}
	r = record_at(q, head);
	r->n = (uint32_t)need;
	r->type = type;
	q->reserved = head + need;
	return r->data;
}

static uint64_t used(const struct queue *q)
{
	uint64_t head = atomic_load_explicit(&q->head, memory_order_relaxed);

	return head - atomic_load_explicit(&q->tail, memory_order_acquire);
}

bool queue_scarce(const struct queue *q)
{
	return used(q) > q->size / 8 * 7;
}

bool queue_half_full(const struct queue *q)
{
	return used(q) > q->size / 2;
}

void queue_commit(struct queue *q)
{
	uint64_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
	bool half = q->reserved - tail > q->size / 2;

	atomic_store_explicit(&q->head, q->reserved, memory_order_release);
	if (half && !q->hurried && q->hurry >= 0)
		eventfd_write(q->hurry, 1);
	q->hurried = half;
}

const struct queue_record *queue_peek(struct queue *q)
{
	for (;;) {
		/* In this order: see queue.h. */
		uint64_t head = atomic_load_explicit(&q->head, memory_order_acquire);
		uint64_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
		struct queue_record *r = record_at(q, tail);

		if (tail >= head)
			return NULL;
		if (r->type)
			return r;
		atomic_store_explicit(&q->tail, tail + r->n, memory_order_release);
	}
}

void queue_pop(struct queue *q)
{
	uint64_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);

	atomic_store_explicit(&q->tail, tail + record_at(q, tail)->n, memory_order_release);
}
