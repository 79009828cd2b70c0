/* SPDX-License-Identifier: MIT
 *
 * tasklayout - where a CPython keeps what an asyncio task and a suspended coroutine say.
 *
 * Pure data, a row a build: no header of CPython tells these, so each was taken from the debug
 * info of a build that was there. A task's row is told by the version and by its type's size;
 * who reads checks what it finds there, for nothing here is proven at attach.
 */
#ifndef TASKLAYOUT_H
#define TASKLAYOUT_H

#include "offsets/pylayout.h"

/* An object of C's _asyncio.Task. */
struct tasklayout {
	uint16_t from, to; /* versions */
	bool free_threaded;
	uint16_t size;	   /* tp_basicsize of the type */
	uint16_t state, coro;
	pyoff name; /* absent: it has none (3.7) */
	/* From 3.14 on: its place in a list, a struct llist_node { next, prev }. */
	pyoff node;
};

/* Where a future, and up to 3.13 a Python function that it calls when it is done, say who
 * waits.
 */
struct awaiterlayout {
	uint16_t from, to; /* versions */
	bool free_threaded;
	uint8_t callback, callbacks; /* of the future; 0: the next two tell */
	uint8_t awaited_by, awaited_by_is_set;
	uint8_t func_qualname, func_closure, func_module;
};

/* A generator, coroutine or asynchronous generator, and how to tell what it waits for. */
struct genlayout {
	uint16_t version;
	bool free_threaded;
	uint16_t frame; /* where its frame is, or up to 3.10 the pointer to it */
	uint16_t qualname;
	pyoff running; /* up to 3.9, a byte: 1 while it runs */
	/* From 3.10 on, a signed byte: @runs while it runs, above when it has ended. In the
	 * frame in 3.10, else in the generator. */
	pyoff state;
	pyoff frame_of; /* up to 3.10, in the frame: its generator */
	/* Up to 3.10, in the frame: its values, and the first that is free: a pointer, or in
	 * 3.10 how many there are. From 3.11 on struct pylayout tells, but for top in 3.14. */
	pyoff values, top, depth;
	/* The opcode behind the instruction where it stands if it waits for something: all of
	 * them, and what its argument must be at least. 0: the state tells. */
	uint8_t opcode[2], argument;
	int8_t waits; /* the smallest state that tells, then; all between it and @runs do */
	int8_t runs;
	uint8_t above; /* values above the one that is awaited */
};

/* Where the lists of the garbage collector begin: three, of 24 bytes each. They are its
 * generations, or in 3.14.0 to 3.14.4 the young objects and the two halves of the old ones. */
struct gclayout {
	uint16_t version;
	bool of_runtime; /* else of each interpreter */
	/* The collector's state is in there, as the process tells, which tells these two of it,
	 * too (struct gc_told). 0: it tells nothing. */
	uint16_t size, collecting;
	uint16_t lists; /* in the state where it is told, else in what holds it */
	uint16_t frozen; /* behind that: one more list, of what gc.freeze() set aside */
};

/* The row of @l's version and kind of build, or NULL. */
const struct tasklayout *tasklayout_find(const struct pylayout *l, uint64_t size);
/* The row of tasks that are in lists, or NULL: this version has them in sets. */
const struct tasklayout *tasklayout_of_lists(const struct pylayout *l);
const struct genlayout *genlayout_find(const struct pylayout *l);
const struct awaiterlayout *awaiterlayout_find(const struct pylayout *l);
/* True: there is a row of this version. */
bool gclayout_known(uint16_t version);
/* The row of a state of which this is told, 0 and 0 where nothing is, or NULL. */
const struct gclayout *gclayout_find(uint16_t version, uint32_t size, uint32_t collecting);

#endif
