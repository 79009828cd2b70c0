/* SPDX-License-Identifier: MIT
 *
 * space - what executable memory each process has, and of which files.
 *
 * Follows side records, has mapped files opened while the process is there. One user
 * thread.
 */
#ifndef SPACE_H
#define SPACE_H

#include "elfcache.h"
#include "sample.h"

struct space_map {
	uint64_t lo, hi, pgoff;
	uint32_t maj, min; /* to open the file again after its tables were dropped */
	uint64_t ino;
	struct elfcache_elf *elf; /* NULL: too many files */
};

/* One process's executable maps, sorted, disjoint. */
struct space {
	struct space *next;
	pid_t pid;
	uint64_t gen; /* unique; new with every change, so that cached answers expire */
	struct space_map *map;
	size_t n, cap;
};

enum { SPACE_BUCKETS = 1024 };

struct spaces {
	struct space *bucket[SPACE_BUCKETS];
	size_t n;
	uint64_t last_gen;
	uint64_t n_opened; /* files; what was answered before may have lacked one */
	struct elfcache *elfs;
};

/* @elfs is borrowed. */
void spaces_init(struct spaces *s, struct elfcache *elfs);
void spaces_deinit(struct spaces *s);

/* MMAP, FORK (copy), COMM with exec (forget), EXIT of the leader. Others are ignored. */
void spaces_side(struct spaces *s, const struct side *side);

struct space *spaces_find(struct spaces *s, pid_t pid); /* or NULL */

/* The map that holds @addr, or NULL. */
struct space_map *space_at(const struct space *sp, uint64_t addr);

/* What is made of the map's file, opened again if need be; NULL: no file, or it can't be
 * read any more. Valid until the next call. */
const void *spaces_made(struct spaces *s, pid_t pid, const struct space_map *m);

#endif
