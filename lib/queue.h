/* SPDX-License-Identifier: MIT
 *
 * queue - one reader thread to the resolver: a ring of variable-size records.
 *
 * One producer, one consumer, no locks, no allocation after queue_init(). A
 * record is reserved, filled in place and committed; when there is no room the
 * reservation fails and the producer counts the loss.
 */
#ifndef QUEUE_H
#define QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue_record {
	uint32_t n;    /* whole record in bytes, header included, multiple of 8 */
	uint32_t type; /* 0: padding at the end of the ring */
	unsigned char data[];
};

struct queue {
	unsigned char *bytes;
	size_t size;			    /* power of two */
	_Alignas(64) _Atomic uint64_t head; /* written by the producer */
	_Alignas(64) _Atomic uint64_t tail; /* written by the consumer */
	uint64_t reserved;		    /* producer: end of the open reservation */
	int hurry;    /* eventfd to write to when it gets half full; -1: none */
	bool hurried; /* producer: it was, as it is */
};

int queue_init(struct queue *q, size_t size); /* 0 or -ENOMEM; without @hurry */
void queue_deinit(struct queue *q);

/* Room for @n bytes of data; NULL when full. One reservation at a time. */
void *queue_reserve(struct queue *q, uint32_t type, size_t n);
void queue_commit(struct queue *q);

/* Is less than an eighth of it free? Asked by the producer. */
bool queue_scarce(const struct queue *q);

/* The oldest record, or NULL; valid until queue_pop(). */
const struct queue_record *queue_peek(struct queue *q);
void queue_pop(struct queue *q);

#endif
