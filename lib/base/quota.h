/* SPDX-License-Identifier: MIT
 *
 * quota - how much one recording may have at a time of what may hang or what a hostile file
 * can make grow.
 *
 * A thread that hangs may outlast its recording and gives back what it has when it ends: so it
 * holds a reference. Any thread.
 */
#ifndef QUOTA_H
#define QUOTA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum quota_of {
	QUOTA_THREADS,	 /* of later.h: more than those who start them let hang */
	QUOTA_JITS,	 /* processes that make code: each keeps a descriptor or two */
	QUOTA_JIT_READS, /* of their files, those that hang among them: quota_enter() */
	QUOTA_JIT_BYTES, /* of names, all processes together */
	QUOTA_N
};

struct quota;

/* With one reference. NULL: no memory. */
struct quota *quota_create(void);
struct quota *quota_ref(struct quota *l); /* returns @l */
void quota_unref(struct quota *l);	  /* NULL is allowed */

/* Take @n more. False: there are too many, and nothing is taken. */
bool quota_take(struct quota *l, enum quota_of what, size_t n);
void quota_give(struct quota *l, enum quota_of what, size_t n);

/* What one process has of QUOTA_JIT_BYTES: no more than are left for all others, and those of one
 * user leave an eighth. */
struct quota_share {
	struct quota *quota; /* borrowed; NULL: there is no bound */
	uint32_t user;
	_Atomic size_t used;
};
bool quota_share_take(struct quota_share *s, size_t n);
void quota_share_give(struct quota_share *s, size_t n);
/* True: it could have @n in all by now. */
bool quota_share_may(const struct quota_share *s, size_t n);

/* As quota_take() of one of QUOTA_JIT_READS, for @who, who has no more of them than are left for
 * all others. Its lower half is its user's number, its upper half, not 0, tells it from others of
 * that user, who all together leave an eighth. One thread enters. */
bool quota_enter(struct quota *l, uint64_t who);
void quota_leave(struct quota *l, uint64_t who);

/* Four at a time may be at what ends soon: who does not end has let another take its place after
 * a second. What quota_end() needs; 0: not at @now. */
uint64_t quota_begin(struct quota *l, uint64_t now);
void quota_end(struct quota *l, uint64_t begun);

/* A tenth of the time, and 100 ms at once, may go into waiting for what targets make slow, all of
 * them together. True: at @now it may be waited for. */
bool quota_may_wait(const struct quota *l, uint64_t now);
/* It was, for @ns. */
void quota_waited(struct quota *l, uint64_t now, uint64_t ns);

/* From now on there may be @n of it. How often there were too many. */
void quota_limit(struct quota *l, enum quota_of what, size_t n);
size_t quota_refused(const struct quota *l, enum quota_of what);

#endif
