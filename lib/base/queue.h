/* SPDX-License-Identifier: MIT
 *
 * queue - one reader thread to the resolver: a ring of variable-size records.
 *
 * One producer, one consumer, no locks, no allocation after queue_init(). A
 * record is reserved, filled in place and committed; when there is no room the
 * reservation fails and the producer counts the loss.
 *
 * What of it is resident follows the backlog that there really was, and lies on the
 * producer's NUMA node: its bytes are touched by records only, and a producer that finds the
 * queue empty goes on at its first byte. A page's first record costs a page fault. Positions
 * only grow, and the place of one is its remainder by the size, so going on there means that
 * both move up to the next multiple of the size. The tail is the consumer's while there are
 * records, and the producer's while there are none:
 *  - the consumer gives it away by the pop (release) that makes it equal to the head, and
 *    the producer that sees that (acquire) may write over every byte;
 *  - the producer moves the tail first and then the head (release). The consumer looks at
 *    the head first (acquire), so with a new head it sees the new tail; with an old head
 *    it may see either tail, none of which is below that head: the queue is empty.
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
	_Alignas(64) _Atomic uint64_t tail; /* by the consumer, or the producer if empty */
	uint64_t reserved;		    /* producer: end of the open reservation */
	int hurry;    /* eventfd to write to when it gets half full; -1: none */
	bool hurried; /* producer: it was, as it is */
};

int queue_init(struct queue *q, size_t size); /* 0 or -ENOMEM; without @hurry */
void queue_deinit(struct queue *q);

/* The same in @size bytes of zeros that are the caller's: without queue_deinit(). */
void queue_place(struct queue *q, void *bytes, size_t size);

/* Room for @n bytes of data; NULL when full. One reservation at a time. */
void *queue_reserve(struct queue *q, uint32_t type, size_t n);
void queue_commit(struct queue *q);

/* For the producer: less than an eighth of it is free. */
bool queue_scarce(const struct queue *q);
/* For the producer: more than half of it is used. */
bool queue_half_full(const struct queue *q);

/* The oldest record, or NULL; valid until queue_pop(). */
const struct queue_record *queue_peek(struct queue *q);
void queue_pop(struct queue *q);

#endif
