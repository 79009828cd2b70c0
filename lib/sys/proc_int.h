/* SPDX-License-Identifier: MIT
 *
 * proc_int - what the files that implement proc.h share, and nobody else sees. proc_look_*() are
 * what an ask does (ask.h); they return 0 or -errno.
 */
#ifndef PROC_INT_H
#define PROC_INT_H

#include "sys/ask.h"
#include "sys/proc.h"

/* A file that the kernel writes in one piece: what is shorter than the room for it is whole, and no
 * second read has to tell so. Its text is malloc'ed. */
ssize_t proc_look_piece(struct ask *a);

ssize_t proc_look_stat(struct ask *a);  /* as stat() */
ssize_t proc_look_known(struct ask *a); /* as proc_stat_known() */

/* What @look finds out of a file of a process. 0 or -errno. */
int proc_stat_by(ssize_t (*look)(struct ask *a), const char *path, struct stat *ret);

/* The text of a thread's file, malloc'ed. 0 or -errno, -ESRCH where the thread is gone. */
int proc_task_file(pid_t pid, pid_t tid, const char *name, char **ret);

#endif
