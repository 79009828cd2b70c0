/* SPDX-License-Identifier: MIT
 *
 * space_file - the files behind the maps of a process. One user thread, the resolver; what may
 * hang is done in threads of their own.
 */
#ifndef SPACE_FILE_H
#define SPACE_FILE_H

#include "modules/space.h"
#include "sys/proc_maps.h"

/* Open the file behind a map (elf is not NULL) and, in @root, the root of its process, -1 if
 * that is ours; in @stamp what it is by now. In a thread of its own, so that it takes at most a
 * second. A descriptor; -EAGAIN: too slow, or no descriptors left, now; -ESTALE: what was
 * mapped is no more in it; -errno. */
int space_open(const struct space *sp, const struct space_map *m, int *root,
	       struct elfcache_stamp *stamp);

/* The same, without a descriptor: 0. */
int space_look(const struct space *sp, const struct space_map *m,
	       struct elfcache_stamp *stamp);

/* Up to @n bytes at @at of the file behind a map (elf is not NULL) into @buf, read in a thread
 * of its own, so that it takes at most a second. How many; -EAGAIN: too slow, now; -errno. */
ssize_t space_read(const struct space *sp, const struct space_map *m, uint64_t at, void *buf,
		   size_t n);

/* Something has no names now for want of memory or descriptors: it is counted. */
void space_note_unread(struct spaces *s);

/* The map as /proc/PID/maps would tell it, of file @path, which is borrowed. */
struct proc_map space_proc_map(const struct space_map *m, const char *path);

/* Let go of files that are still being opened, and of the folder of spaces_elsewhere(). */
void space_file_deinit(struct spaces *s);

#endif
