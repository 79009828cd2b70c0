/* SPDX-License-Identifier: MIT
 *
 * elfcache - the modules of files, kept by the files' identity and bounded.
 *
 * A file is read once, by its descriptor, which is closed then, and in a thread of its own,
 * which may take long and outlive the cache (later.h): in a process without rights, if there
 * is one (file_helper.h). One that ends badly thrice on a file gives it up. One user thread.
 */
#ifndef ELFCACHE_H
#define ELFCACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

/* A file by its identity. Lives until elfcache_sweep() finds that nobody keeps it; its module
 * may be dropped when the cache is full. @view: proc_view() of who maps it: in another root there
 * is another way to it, and there are other debug files. */
struct elfcache_id {
	uint64_t dev, ino, generation; /* generation 0: not known, matches any */
	uint64_t view;
	const char *path;
};

/* By what it is noticed that something else is in a file than before. */
struct elfcache_stamp {
	uint64_t bytes, changed_ns; /* changed_ns: by CLOCK_REALTIME */
};

struct elfcache;
struct elfcache_elf;
struct later;
struct module;
struct stats;

/* @rows: modules get their unwind rows too. NULL: no memory. */
struct elfcache *elfcache_create(size_t max_bytes, bool rows);
void elfcache_destroy(struct elfcache *c);

/* Files that memory or descriptors ran out for are counted there (unread), and read again; those
 * that were given up too (nameless). */
void elfcache_count(struct elfcache *c, struct stats *stats);

/* @max_bytes is not enough for the files of one process: who has no room is given up. */
void elfcache_has_little(struct elfcache *c);

/* Modules that are asked for in turn may take up to @bytes, so that none of them is read again
 * and again. Where that is not enough either the largest one is given up (nameless). */
void elfcache_may_grow(struct elfcache *c, size_t bytes);

/* @n files, instead of some, may be open that no stack has asked for: what is given beyond is read
 * at once, also if no stack ever asks for it. */
void elfcache_may_hold(struct elfcache *c, size_t n);

/* From now on files are read by @h, in processes without rights, of which a reference is
 * taken. Else, and where memory is read, by threads of our own. */
struct file_helper;
void elfcache_read_by(struct elfcache *c, struct file_helper *h);

/* The same, borrowed; or NULL. */
struct file_helper *elfcache_reader(const struct elfcache *c);

/* Of all that its user has done in threads of their own. Borrowed. */
struct quota *elfcache_quota(const struct elfcache *c);

/* The files that one process had added, or keeps. All 0 at first. */
struct elfcache_share {
	size_t files, path_bytes;
};

/* Find or add. NULL when there are too many, or their paths are too long; or where @share, which
 * it counts in, would be more than what is left for all others. @share NULL: it is nobody's. */
struct elfcache_elf *elfcache_get_for(struct elfcache *c, const struct elfcache_id *id,
				      struct elfcache_share *share);
struct elfcache_elf *elfcache_get(struct elfcache *c, const struct elfcache_id *id);

/* Make room: forget the files that nobody named to elfcache_keep() since the last time, but for
 * those that are being read or are slow. How many; their modules count as dropped. @e counts in
 * the share, or NULL, of who names it first. */
void elfcache_keep(struct elfcache_elf *e, struct elfcache_share *share);
size_t elfcache_sweep(struct elfcache *c);

/* How many files are open until a stack asks for them. */
size_t elfcache_waiting(const struct elfcache *c);

/* Close those of them that elfcache_keep() was not told since the last time or sweep. */
void elfcache_close_others(struct elfcache *c);

const char *elfcache_path(const struct elfcache_elf *e);

/* True: it has no descriptor and no module, for none was given, or it was dropped since. After
 * many misses no longer. */
bool elfcache_wants_file(const struct elfcache_elf *e);
/* True: without so many misses elfcache_wants_file() would be true. */
bool elfcache_was_missed(const struct elfcache_elf *e);
void elfcache_missed(struct elfcache_elf *e);

/* Take over a descriptor (read on first use) and the root that its path and its debug file are
 * in (rootfile_open(); may be -1), or borrow an image in memory. @fd < 0: never mind the file.
 */
void elfcache_give_fd(struct elfcache *c, struct elfcache_elf *e, int fd, int root);
void elfcache_give_image(struct elfcache *c, struct elfcache_elf *e, struct bytes image);

/* The same by who does not need its module yet. If many wait to be read a small one is read now,
 * and a large one closed: it is put off, to be opened again by who needs it. */
void elfcache_offer_fd(struct elfcache *c, struct elfcache_elf *e, int fd, int root);
bool elfcache_is_put_off(const struct elfcache_elf *e);

/* The file that was given is as @stamp says, and was so when it was mapped at @time. */
void elfcache_note_stamp(struct elfcache_elf *e, const struct elfcache_stamp *stamp,
			 uint64_t time);

/* Was its module read so long before @time that what is mapped by then may be another file of
 * the same number? Asked again for that a moment later it is not. */
bool elfcache_may_be_old(struct elfcache_elf *e, uint64_t time);

/* The file is as @stamp says by now: if it was not so as it was read, it is wanted again. True:
 * so it is. */
bool elfcache_check(struct elfcache *c, struct elfcache_elf *e,
		    const struct elfcache_stamp *stamp);

/* A number for this file as it is, never 0 nor given twice: another one once something else was
 * found in it. Unlike @e it may be kept. */
uint64_t elfcache_version(const struct elfcache_elf *e);

/* Or give a module that was made elsewhere, which is taken over; NULL: nothing could be. */
void elfcache_give_module(struct elfcache *c, struct elfcache_elf *e, struct module *m);

/* Its build-id, for whoever asks: copied; empty where none was noted. */
void elfcache_note_id(struct elfcache_elf *e, struct bytes id);
struct bytes elfcache_build_id(const struct elfcache_elf *e);

/* Process @pid asks for the file. If it is slow from now on it is so for that process. */
void elfcache_asked_by(const struct elfcache *c, struct elfcache_elf *e, pid_t pid);

/* Something takes too long with this file: it is left alone until it no longer does. Others of
 * its device, in the same view, are waited for less; and are left alone, too, while too many of
 * it are slow: of those that another process of its user asked for one counts, and so does one of
 * each other user. No user's processes have more slow ones than are left for all others. One that is
 * left alone for others is counted (unread). */
void elfcache_slow(struct elfcache *c, struct elfcache_elf *e, bool slow);
bool elfcache_is_slow(const struct elfcache *c, struct elfcache_elf *e);

/* How long reading a file of the size that was noted may take on a busy machine. */
int elfcache_reading_ms(const struct elfcache_elf *e);

/* How long to wait for what takes @ms at most where nothing is slow: less where something is,
 * and where more than a tenth of the time was waited. */
int elfcache_patience(const struct elfcache *c, const struct elfcache_elf *e, int ms);

/* Wait so long for @l, which does something with the file. True: it is done. */
bool elfcache_await(struct elfcache *c, const struct elfcache_elf *e, struct later *l, int ms);

/* Is it being read just now, or waits for another of its device that is? That can take long,
 * or for ever where the mount is dead. */
bool elfcache_pending(const struct elfcache_elf *e);

/* The file's module, valid until the next call; NULL where there is no readable ELF, or not
 * yet. */
const struct module *elfcache_module(struct elfcache *c, struct elfcache_elf *e);

/* Since it was created. Modules are dropped where there are too many. */
struct elfcache_facts {
	uint64_t read, dropped;
	uint64_t shared; /* of @read: whose unwind rows another one had too */
	uint64_t ns;	 /* that reading took */
	uint64_t compared; /* files that elfcache_get() looked at */
	uint64_t added;	   /* by it */
};
const struct elfcache_facts *elfcache_facts(const struct elfcache *c);

#endif
