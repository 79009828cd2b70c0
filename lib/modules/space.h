/* SPDX-License-Identifier: MIT
 *
 * space - what executable memory each process has, and of which modules.
 *
 * Follows side records (first /proc/PID/maps, then the MMAP records), has mapped files opened
 * while the process is there, each once, and owns their modules. One user thread, the
 * resolver: what may hang is done in threads of their own, which see nothing of this.
 */
#ifndef SPACE_H
#define SPACE_H

#include "elf/elfcache.h"
#include "sample/sample.h"

struct space_map {
	uint64_t lo, hi, pgoff;
	uint32_t maj, min; /* to open the file again after its tables were dropped */
	uint64_t ino;
	uint64_t told_ns; /* it was mapped by then; 0: not known */
	struct elfcache_elf *elf; /* NULL: too many files */
};

/* One process's executable maps, sorted, disjoint. */
struct space {
	struct space *next;
	pid_t pid;
	uint64_t gen; /* unique; new with every change, so that cached answers expire */
	struct space_map *map;
	size_t n, cap;
	size_t n_memory;   /* of these: code in no file, or what has no elf */
	uint64_t moved_ns; /* records from here on may move maps again, if there are many */
	uint64_t open_ns;  /* as many files were opened as may be by then */
	struct spaces *of;
	struct jit *jit;   /* has memory for code that is in no file; NULL: none, or gone */
	pid_t forked_from; /* 0: not known */
	uint64_t whole;	   /* not 0: all of it was told since its exec, but for what was lost */
	uint64_t since_ns; /* the process had its number then; 0: not known */
	uint64_t view;	   /* proc_view(); until it was looked at, of what it came from */
	bool viewed;
	uint64_t ended_ns; /* its main thread ended then; 0: it runs */
	unsigned missed;   /* files of it that could not be opened */
	struct elfcache_share share;
};

enum {
	SPACE_BUCKETS = 1024,
	SPACE_MAX_STUCK = 32, /* as many as elfcache_slow() has room for */
	SPACE_ENDED = 64, /* processes that ended last */
	SPACE_ENDED_MAPS = 512,
};

struct spaces {
	struct space *bucket[SPACE_BUCKETS];
	size_t n;
	/* Those whose main threads ended last, and those of them whose other threads run on, until a
	 * record tells of another process or program of that number; or NULL. */
	struct space *ended[SPACE_ENDED];
	size_t n_ended;
	size_t map_bytes, max_map_bytes; /* of all processes' maps; the latter 0: no bound */
	struct stats *stats;		 /* borrowed; or NULL */
	uint64_t last_gen;
	uint64_t n_lost; /* records, or groups of them */
	uint64_t n_opened; /* files, or forgotten ones; what was answered before may have lacked
			    * one, or be of what is another one's place by now */
	uint64_t n_refused; /* files that there was no room for, since all maps were looked at */
	uint64_t n_added; /* files, before that */
	uint64_t check_ns; /* no file that was read is looked at again before */
	uint64_t retry_ns; /* none is opened before: descriptors had run out */
	uint64_t tidy_ns; /* none is closed before, by spaces_tidy() */
	bool untidy; /* maps went since then */
	struct elfcache *elfs;
	bool ids, later;
	bool hung; /* a process was met that nobody can look at */
	bool elsewhere; /* spaces_elsewhere(): files lie below @root */
	int root;	/* where files lie instead of /; < 0: there are none */
	bool same_kernel; /* spaces_same_kernel() */
	struct {
		struct later *later;
		struct elfcache_elf *elf;
	} stuck[SPACE_MAX_STUCK]; /* files that are still being opened */
	size_t n_stuck;
};

enum spaces_need {
	SPACES_ROWS = 1 << 0, /* modules have unwind rows */
	SPACES_IDS = 1 << 1,  /* mapped files' build-ids are told */
	SPACES_LATER = 1 << 2, /* files are opened when they are needed: processes stay */
};

/* @max_bytes: of all modules together; those unused for longest are dropped and made again
 * when needed. NULL: no memory. */
struct spaces *spaces_create(size_t max_bytes, unsigned needs);
void spaces_destroy(struct spaces *s);

/* The maps of all processes together take at most @bytes, and one's no more than they leave for
 * all others. Those beyond it are not kept, so that code there has no name, and counted in
 * @stats (unmapped), which is borrowed. There is counted too what has no names because memory
 * or descriptors ran out (unread). */
void spaces_limit(struct spaces *s, size_t bytes, struct stats *stats);

/* What was mapped, the vdso too, was another machine's: its files are those below folder @root
 * that have their paths, none where that can't be opened. For replay. */
void spaces_elsewhere(struct spaces *s, const char *root);

/* The kernel of that machine, of which the vdso is a part, is the one that runs here. */
void spaces_same_kernel(struct spaces *s);

/* MMAP, FORK (copy), COMM with exec (forget), EXIT of the leader. Others are ignored. With
 * SPACES_IDS an MMAP gets its file's build-id, which lives until the next call. */
void spaces_side(struct spaces *s, struct side *side);

/* At intervals: files that are open until a stack asks for them, and that nobody maps any more, are
 * closed, for their file systems could not be unmounted. */
void spaces_tidy(struct spaces *s, uint64_t now);

/* Also one whose main thread has ended; or NULL. */
struct space *spaces_find(struct spaces *s, pid_t pid);

/* True: the code that @m maps is in no file, or that is not known, for there was no memory for @m
 * or its file. */
bool space_is_memory(const struct space_map *m);

/* Is it certain that @pid maps no file that holds an interpreter? That needs an exec which was
 * told, each record since, and that all its files can be read; else false. @pid may have ended
 * just before. */
bool spaces_without_python(struct spaces *s, pid_t pid);

/* Find or add a file of what @sp maps; it lives as long as anybody does. Where there are too
 * many, or @sp has more of them than there is room left for those of all others, those that
 * nobody maps any more are forgotten first. NULL: there still are. */
struct elfcache_elf *space_elf(struct space *sp, const struct elfcache_id *id);

/* The map that holds @addr, or NULL. */
struct space_map *space_at(const struct space *sp, uint64_t addr);

/* The module of the map's file, opened again if need be; NULL: no file, or it can't be read
 * any more, or not yet. Valid until the next call. */
const struct module *space_module(const struct space *sp, const struct space_map *m);

#endif
