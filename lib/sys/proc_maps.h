/* SPDX-License-Identifier: MIT
 *
 * proc_maps - what /proc/PID/maps says, and the files behind it.
 */
#ifndef PROC_MAPS_H
#define PROC_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* One line of /proc/PID/maps. */
struct proc_map {
	uint64_t start, end, pgoff, ino;
	uint32_t maj, min;
	bool r, w, x, shared;
	bool deleted;	  /* the path ended in " (deleted)", which is cut off */
	bool here;	  /* the process's root is ours (proc_view()) */
	const char *path; /* "" for anonymous; owned by struct proc_maps */
};

/* True: both are of one file. */
static inline bool proc_map_same_file(const struct proc_map *a, const struct proc_map *b)
{
	return a->ino == b->ino && a->maj == b->maj && a->min == b->min;
}

struct proc_maps {
	struct proc_map *map;
	size_t n;
	char *text; /* owns the paths */
};

/* Pure: parse the text of a maps file. @text is taken over (malloc'ed, n bytes
 * and a NUL). Lines that do not parse are skipped. 0 or -ENOMEM. */
int proc_maps_parse(struct proc_maps *ret, char *text, size_t n);
/* 0, -ESRCH, -EACCES, ...; -EFBIG: the file is longer than that, 250 bytes each of as many maps as
 * processes that have many are allowed (262,144). */
enum { PROC_MAPS_MAX = 64 << 20 };
int proc_maps_read(struct proc_maps *ret, pid_t pid);
void proc_maps_deinit(struct proc_maps *m);

/* Open the file behind a map for reading, whatever happened to its path: first
 * /proc/PID/root/PATH, or just PATH if the process has our root, if it still is the same (dev,
 * inode), else /proc/PID/map_files/LO-HI, and for a process that is gone PATH itself if it is the
 * same file. Regular files only, O_NONBLOCK first, never a FIFO
 * or device. A descriptor or -errno. */
int proc_map_open(pid_t pid, const struct proc_map *m);
/* The same, but it is not opened: an O_PATH descriptor. */
int proc_map_look(pid_t pid, const struct proc_map *m);

/* As proc_stat_known(), of the file behind a map; not for an ordinary user. */
int proc_map_stat(pid_t pid, const struct proc_map *m, struct stat *ret);

/* Open for reading what an O_PATH descriptor of a regular file names. A descriptor or -errno.
 */
int proc_look_open(int look);

#endif
