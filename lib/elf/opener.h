/* SPDX-License-Identifier: MIT
 *
 * opener - opens the files that targets chose, in processes that have our rights to open and do
 * nothing else (file_serve.c starts them): a process can't end while a thread of it waits for a file system
 * that took a request and never answers.
 *
 * What comes back are O_PATH descriptors: to close one asks no file system anything. Who reads
 * gets the file itself from the opener (opener_send()), so the asking process never has it.
 */
#ifndef OPENER_H
#define OPENER_H

#include <sys/stat.h>

#include "elf/debugfile.h"
#include "elf/pool.h"
#include "sys/fdpass.h"
#include "sys/proc_maps.h"

/* In all of these: @openers NULL: the calling thread does it, and files are open for reading.
 * Waits @ms for the answer, -1: for ever. -ETIMEDOUT: there was none; -EAGAIN: processes or
 * descriptors had run out; -errno, of which none that means a want of ours or an end of theirs is
 * one that a file's server chose: that is -EIO. */

/* As proc_map_open(), with what fstat() says in @st, and in @root (NULL: it is not wanted) the
 * root of @pid, -1 if that is ours. */
int opener_map(struct pool *openers, pid_t pid, const struct proc_map *m, int ms,
	       struct stat *st, int *root);

/* As rootfile_open(). */
int opener_path(struct pool *openers, int root, const char *path, int ms, struct stat *st);

/* What fstat() says of one of those now. 0 or -errno. */
int opener_stat(struct pool *openers, int fd, int ms, struct stat *st);

enum { OPENER_MESSAGE = 1024 }; /* bytes of one at most */

/* As fdpass_send(), but of @fds the first may be O_PATH, and goes as a file that is open for
 * reading. After -ETIMEDOUT and -EAGAIN it may have come, or still come. */
int opener_send(struct pool *openers, int socket, const void *message, size_t n,
		const int *fds, size_t n_fds, int ms);

/* Send to @socket @message with what debugfile_open_all() opens; bit N of the integer at
 * @set_at of the message then says that there is one at place N. 0; 1: descriptors had run
 * out, though. */
int opener_debug(struct pool *openers, int socket, void *message, size_t n, size_t set_at,
		 const struct debugfile_want *want, int root, const char *beside);

/* What the process does that opens; returns when @socket is closed. */
void opener_serve(int socket);

#endif
