/* SPDX-License-Identifier: MIT
 *
 * elfcache - what was made of ELF files, kept by the files' identity and bounded.
 *
 * A file is read once, by its descriptor, which is closed then, and in a thread of its own.
 * What is made of it is the kind's matter. One user thread.
 */
#ifndef ELFCACHE_H
#define ELFCACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

struct debugfile_origin;

/* A file by its identity. Lives as long as the cache; its tables may be dropped
 * when the cache is full. */
struct elfcache_id {
	uint64_t dev, ino, generation; /* generation 0: not known, matches any */
	const char *path;
};

struct elfcache;
struct elfcache_elf;

/* What a cache makes of its files; 0 or -errno. */
struct elfcache_kind {
	/* In a thread of its own, which may take long and outlive the cache (later.h): what
	 * the file says. @fd, or -1 and an image in memory; all borrowed. */
	int (*read)(int fd, struct bytes image, const struct debugfile_origin *from,
		    void **ret);
	/* In the cache's thread: makes of what was read, and takes over, what is kept, and
	 * tells how many bytes that holds. */
	int (*make)(void *arg, void *read, void **ret, size_t *bytes);
	void (*drop)(void *read); /* what was read and is not wanted any more */
	void (*free)(void *arg, void *made);
};

struct elfcache *elfcache_create(size_t max_bytes, const struct elfcache_kind *kind,
				 void *arg);
void elfcache_destroy(struct elfcache *c);

/* Of all that its user has done in threads of their own. Borrowed. */
struct quota *elfcache_quota(const struct elfcache *c);

/* Find or add. NULL when there are too many. */
struct elfcache_elf *elfcache_get(struct elfcache *c, const struct elfcache_id *id);
const char *elfcache_path(const struct elfcache_elf *e);

/* Has it no descriptor and no tables: never given, or dropped since? No longer after many
 * misses. */
bool elfcache_wants_file(const struct elfcache_elf *e);
void elfcache_missed(struct elfcache_elf *e);

/* Take over a descriptor (read on first use) and the root that its path and its debug file are
 * in (rootfile_open(); may be -1), or borrow an image in memory. @fd < 0: never mind the file.
 */
void elfcache_give_fd(struct elfcache *c, struct elfcache_elf *e, int fd, int root);
void elfcache_give_image(struct elfcache *c, struct elfcache_elf *e, struct bytes image);

/* Or give what was made elsewhere, of @bytes (NULL: nothing could be). */
void elfcache_give_made(struct elfcache *c, struct elfcache_elf *e, void *made, size_t bytes);

/* Something takes too long with this file: it and its whole device are left alone, until it no
 * longer does. */
void elfcache_slow(struct elfcache *c, struct elfcache_elf *e, bool slow);
bool elfcache_is_slow(const struct elfcache *c, const struct elfcache_elf *e);

/* Is it being read just now, or waits for another of its device that is? That can take long,
 * or for ever where the mount is dead. */
bool elfcache_pending(const struct elfcache_elf *e);

/* What was made of the file, valid until the next call; NULL where there is no readable ELF,
 * or not yet. */
const void *elfcache_made(struct elfcache *c, struct elfcache_elf *e);

/* How often tables had to be dropped. */
uint64_t elfcache_dropped(const struct elfcache *c);

#endif
