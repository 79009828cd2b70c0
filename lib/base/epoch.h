/* SPDX-License-Identifier: MIT
 *
 * epoch - when memory that other threads may still look at can be freed, without locks.
 *
 * One thread, the owner, unlinks objects and gives each a number by epoch_retire(). A user
 * enters before it loads a shared pointer and leaves when it holds none any more: what was
 * retired before it entered it does not see. So an object can be freed once its number is not
 * above epoch_safe().
 *
 * The owner unlinks (seq_cst store) before it retires, a user announces itself (seq_cst)
 * before it loads (seq_cst): an owner that does not see a user has unlinked before that user
 * looks.
 */
#ifndef EPOCH_H
#define EPOCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct epoch_user {
	_Atomic uint64_t in; /* what it may see is above that; 0: it holds nothing */
	bool joined;	     /* the owner's */
	struct epoch_user *next;
};

struct epoch {
	_Atomic uint64_t now; /* the last number given, from 1 on */
	_Atomic(struct epoch_user *) users;
};

void epoch_init(struct epoch *e);

/* From now on @u counts. It must live as long as @e is used; once more is nothing. Owner. */
void epoch_join(struct epoch *e, struct epoch_user *u);

/* The number of what has just been unlinked. Owner. */
uint64_t epoch_retire(struct epoch *e);

/* Nobody but @except (or NULL) holds what was retired up to that number, nor will. Any
 * thread. */
uint64_t epoch_safe(const struct epoch *e, const struct epoch_user *except);

/* The user's thread. Who is in already stays in since then. */
void epoch_enter(const struct epoch *e, struct epoch_user *u);

/* The user's thread, or the owner for one that will never go on. */
void epoch_leave(struct epoch_user *u);

/* The user's thread: what it holds is above @safe. */
void epoch_move(struct epoch_user *u, uint64_t safe);

#endif
