/* SPDX-License-Identifier: MIT
 *
 * elfcache_int - what the files of the cache of modules share, and nobody else sees: elfcache.c
 * (which files there are), elfcache_read.c (how one is read), elfcache_room.c (what is dropped),
 * elfcache_slow.c (those that do not answer).
 */
#ifndef ELFCACHE_INT_H
#define ELFCACHE_INT_H

#include "base/later.h"
#include "elf/elfcache.h"
#include "elf/elfimage.h"

enum { ELFCACHE_BUCKETS = 1024, ELFCACHE_MAX_SLOW = 32, ELFCACHE_MAX_MISSES = 64 };
enum { ELFCACHE_WAIT_SHARE = 10 /* of the time one in so many parts may be waited */ };

enum elf_state { ELF_NO_FILE, ELF_FD, ELF_IMAGE, ELF_READING, ELF_READ, ELF_BAD };

struct elfcache_elf {
	struct elfcache_elf *next; /* in its bucket */
	struct elfcache_id id;
	enum elf_state state;
	int fd, root; /* ELF_FD */
	struct bytes image;
	struct later *later; /* ELF_READING */
	struct reading *reading;
	struct module *module; /* ELF_READ; NULL: dropped, or nothing could be made */
	size_t bytes;	       /* of it, as counted last */
	unsigned char build_id[ELFIMAGE_MAX_ID];
	size_t n_id;
	unsigned misses, bad_ends;
	uint64_t again_ns; /* it is read again from then on; 0: it was not, or lacked nothing */
	struct elfcache_stamp stamp; /* changed_ns 0: none was noted */
	uint64_t checked_ns;	     /* it was so then */
	uint64_t version;
	uint64_t used; /* elfcache.clock at the last lookup */
	uint64_t gone; /* elfcache.clock when it made room for others last; 0: it never did */
	pid_t asked_by;
	uid_t user; /* whose that is; PROC_NOBODY: not looked up, or not known */
	bool crowded; /* counted: others are slow, and leave it no place */
	bool kept;     /* elfcache_keep() */
	bool put_off;  /* elfcache_is_put_off() */
};

struct elfcache {
	struct elfcache_elf *bucket[ELFCACHE_BUCKETS];
	size_t n_elfs, n_fds, most_fds, bytes, max_bytes;
	size_t most_bytes; /* elfcache_may_grow(); 0: it may not */
	size_t path_bytes;
	uint64_t clock, last_version;
	uint64_t wait_ns; /* what was waited is ELFCACHE_WAIT_SHARE of the time by then */
	struct elfcache_facts facts;
	struct elfcache_elf *slow[ELFCACHE_MAX_SLOW]; /* files that take too long */
	size_t n_slow;
	struct file_helper *helper; /* or NULL */
	struct quota *quota;
	struct stats *stats; /* or NULL */
	bool rows, little;
};

/* Of a file that waits to be read; -1: there is none. */
void elfcache_close_both(int fd, int root);

/* @e has no module any more. */
void elfcache_forget(struct elfcache *c, struct elfcache_elf *e);

/* The same, counted: who keeps what a module's rows said looks at how many were dropped. */
void elfcache_drop(struct elfcache *c, struct elfcache_elf *e);

/* How large the module of @e is by now; others make room for it, or it is given up. */
void elfcache_count_bytes(struct elfcache *c, struct elfcache_elf *e);

/* A file could not be read whole, or not now. */
void elfcache_note_unread(const struct elfcache *c);

/* Where @e stands among the slow files; their number: nowhere. */
size_t elfcache_slow_find(const struct elfcache *c, const struct elfcache_elf *e);

/* Begins to read a file or an image, and waits for it as long as it may. */
void elfcache_read(struct elfcache *c, struct elfcache_elf *e);

/* Takes what was read, once it was; waits @ms for it at most. */
void elfcache_poll(struct elfcache *c, struct elfcache_elf *e, int ms);

/* The same of each file that took too long, without a wait: nobody may ask for it again. */
void elfcache_poll_slow(struct elfcache *c);

/* @m, which may be NULL, is the module of @e from now on. */
void elfcache_take(struct elfcache *c, struct elfcache_elf *e, struct module *m);

#endif
