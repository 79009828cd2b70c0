/* SPDX-License-Identifier: MIT
 *
 * proc - what /proc says about processes and threads.
 *
 * Parsers are pure (bytes in, structs out); openers are thin. Nothing here holds
 * a file open after it returns, except where it returns the descriptor.
 */
#ifndef PROC_H
#define PROC_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

/* A process that is gone has no directory: @err of open(), as -errno for the caller. */
static inline int proc_gone(int err)
{
	return err == ENOENT ? -ESRCH : -err;
}

/* The threads of @pid, ascending; *@ret malloc'ed. 0 or -ESRCH. */
int proc_tasks(pid_t pid, pid_t **ret, size_t *n);

/* All processes that /proc shows, ascending; *@ret malloc'ed. 0 or -errno. */
int proc_processes(pid_t **ret, size_t *n);

/* Some more than there are, at the cost of one system call. */
size_t proc_count(void);

/* How many threads @pid has; 0: it is gone. */
size_t proc_count_tasks(pid_t pid);

/* @pid behind the *@n of a malloc'ed list with room for *@cap. 0 or -ENOMEM. */
int proc_push(pid_t **pids, size_t *n, size_t *cap, pid_t pid);

/* The id of thread @tid in its own innermost PID namespace (last field of
 * NSpid), @tid itself where the kernel does not tell; -ESRCH. */
pid_t proc_inner_tid(pid_t pid, pid_t tid);

/* The same for who may neither allocate nor have another thread look (ask.h); -ESRCH also where
 * the kernel does not tell. */
pid_t proc_inner_tid_alone(pid_t pid, pid_t tid);

/* Thread (or with tid == pid, process) name without the newline. 0 or -ESRCH. */
int proc_comm(pid_t pid, pid_t tid, char buf[16]);

/* One character of state ('R', 'S', 'D', 'T', 't', 'Z' ...), 0 when gone. */
char proc_state(pid_t pid, pid_t tid);

/* True: that thread is gone, or dead; not where nobody can tell (no descriptors). */
bool proc_thread_ended(pid_t pid, pid_t tid);

/* True: the process runs, and is not about to end. */
bool proc_lives(pid_t pid);

/* CPU time that a thread has used, ns; 0 where it is gone, or the kernel does not tell. */
uint64_t proc_ran_ns(pid_t pid, pid_t tid);

/* How often a thread was given a CPU; 0 where it is gone, or the kernel does not tell. */
uint64_t proc_turns(pid_t pid, pid_t tid);

/* As proc_state() of its main thread. @kernel: it is a thread of the kernel's, without memory
 * of its own. */
char proc_kind(pid_t pid, bool *kernel);

/* Where its first thread's stack began, at exec: near that stack's end; 0: not known, or not
 * allowed to. */
uint64_t proc_stack_root(pid_t pid);

/* That, the name of its main thread and proc_age_ns(), by one look. 0 or -errno, -ESRCH where it
 * is gone. */
int proc_introduce(pid_t pid, char comm[16], uint64_t *root, uint64_t *age);

/* How long ago it began, as exact as a clock tick, 10 ms; UINT64_MAX: it is gone. */
uint64_t proc_age_ns(pid_t pid);

/* False: it may not be dumped (setuid, or prctl(PR_SET_DUMPABLE, 0)), so that its own user may
 * not read its memory. */
bool proc_dumpable(pid_t pid);

/* True: a process, or another thread of one, has this number. */
bool proc_exists(pid_t pid);

/* stat() of a link of /proc that leads to a file, by what the kernel knows of that: no file
 * system is asked, so it does not hang (Linux 4.20). Without times of access. 0 or -errno. */
int proc_stat_known(const char *path, struct stat *ret);

/* A descriptor that means this process for good, whoever gets its number later; -errno. It has
 * ended: also a zombie has. While it has not, all that was done with its number since the
 * descriptor was opened was done with it. Any thread. */
int proc_pidfd(pid_t pid);
bool proc_has_ended(int pidfd);

/* Is @code the want of descriptors or memory, ours or the machine's, or (-ENOBUFS) of what else
 * those need who read files? */
static inline bool proc_is_short(int code)
{
	return code == -EMFILE || code == -ENFILE || code == -ENOMEM ||
	       code == -ENOBUFS;
}

/* @code, for want of descriptors or memory @pid can't be looked at, with a sentence that says
 * what to do. */
int proc_short(pid_t pid, int code, struct err *err);

/* Is the process that has number @pid one that was there at @ns (now_ns())? To 20 ms: its age
 * is known to a clock tick. */
bool proc_was_there(pid_t pid, uint64_t ns);
bool proc_is_so_old(uint64_t age_ns, uint64_t ns); /* the same, by an age known just now */
pid_t proc_tgid(pid_t tid); /* -ESRCH */

enum proc_memory {
	PROC_NO_MEMORY,	    /* a thread of the kernel's, or a zombie */
	PROC_MEMORY,
	PROC_OTHERS_MEMORY, /* the main thread is a zombie, other threads are left */
};

/* As proc_tgid(). Of another thread than the main one PROC_OTHERS_MEMORY is never said. */
pid_t proc_tgid_memory(pid_t tid, enum proc_memory *memory);

/* A thread of @pid that has memory, where the main thread has ended and has none; else 0. The
 * files of /proc that tell of memory, and memory itself, can be had by its number alone. */
pid_t proc_outliver(pid_t pid);

/* True: *@pid was such a process and is now its proc_outliver(), of which to ask again. */
bool proc_outlived(pid_t *pid);

/* Where the link @name of /proc/@pid leads, or that of proc_outliver(). As readlink(), but with
 * a NUL behind it. */
ssize_t proc_link(pid_t pid, const char *name, char *ret, size_t size);

pid_t proc_parent(pid_t pid); /* -ESRCH */

/* Is @pid a process, and no other thread of one? With its parent. */
bool proc_is_process(pid_t pid, pid_t *parent);

/* The file of our PID namespace, of the calling thread's first look on. 0 or -errno. */
int proc_own_pid_namespace(dev_t *dev, ino_t *ino);

/* Do its threads have the same numbers for itself as for us? False also where that can't be
 * told. Control thread. */
bool proc_same_pid_namespace(pid_t pid);
void proc_same_pid_namespace_each(const pid_t *pids, size_t n, bool *same);

/* Whether the files that @pid calls by a path are others than those that we call so, for it
 * has mounts or a root of its own. False too where that can't be told. */
bool proc_is_elsewhere(pid_t pid);

/* In @ret a number for the root of @pid: 0 if it is ours, else the same one for processes that
 * share root and mounts; of a process that nobody can look at now, one of its own. 0, or -errno
 * with @ret as it was: it is gone, or we are not allowed to ask. */
int proc_view(pid_t pid, uint64_t *ret);

/* For qsort() and bsearch() of numbers of processes, ascending. */
int proc_compare_pids(const void *a, const void *b);
/* @pids become ascending, each one once. Returns how many there are then. */
size_t proc_sort_pids(pid_t *pids, size_t n);

/* CPU time of all threads of a process, those that have ended among them, in ns. 0 or -errno. */
int proc_cpu_ns(pid_t pid, uint64_t *ret);

/* CPU time in clock ticks (sysconf(_SC_CLK_TCK)): in user mode and in the kernel. */
struct cpu_ticks {
	uint64_t user, kernel;
};

/* Of a process, by one look. */
struct proc_use {
	pid_t parent;
	struct cpu_ticks own, children; /* children: of those that ended and were waited for */
	uint64_t begun; /* in clock ticks since boot */
	bool memory;	/* as proc_tgid_memory(): it has some, or others have */
};

/* 0; -ESRCH: it has ended; or a code that proc_is_short() knows, or -ETIMEDOUT: it can't be looked
 * at now. */
int proc_use(pid_t pid, struct proc_use *ret);

/* The same of each of @n. */
void proc_use_each(const pid_t *pids, size_t n, struct proc_use *uses, ssize_t *rets);

/* Of /proc/TID/status; a set of signals has bit N - 1 for signal N. */
struct proc_status {
	char state;
	pid_t tracer;	  /* 0: none */
	uid_t uid, euid;  /* the real one, the effective one */
	unsigned seccomp; /* 2: a filter */
	uint64_t pending, blocked, caught;
};

int proc_status(pid_t tid, struct proc_status *ret); /* 0 or -ESRCH */

/* Whose it is: its real user, by the number that we have for it; PROC_NOBODY: not known. */
#define PROC_NOBODY ((uid_t)-1)
uid_t proc_user(pid_t pid);

/* Pure: from the text of a status file. What it lacks is 0, @euid -1. */
void proc_status_parse(const char *status, struct proc_status *ret);

/* Where a thread waits in the kernel: /proc/PID/task/TID/syscall and wchan. */
struct proc_wait {
	int syscall;	 /* its number, -1: none (a page fault, a stop) */
	uint64_t arg;	 /* its first argument; 0 where there is none */
	uint64_t sp, pc; /* of its user registers */
	char wchan[64];	 /* the kernel function that it sleeps in, or "" */
};

/* Pure: from the text of a syscall file, "NR ARG1 ... ARG6 SP PC", "-1 SP PC" or "running": 0,
 * or -EAGAIN. */
int proc_syscall_parse(const char *text, struct proc_wait *ret);

/* 0; -EAGAIN it runs; -ESRCH; -EACCES. */
int proc_wait(pid_t pid, pid_t tid, struct proc_wait *ret);

/* The same without wchan. */
int proc_syscall(pid_t pid, pid_t tid, struct proc_wait *ret);

/* The number of the system call that each of @n threads sleeps in, -1 where it sleeps in none, in
 * @rets[i].syscall; @rets[i].pc is 0 where it runs, or where that can't be told. */
void proc_syscall_each(const pid_t *tids, size_t n, struct proc_wait *rets);

/* A whole small file as a malloc'ed, NUL-terminated string. 0 or -errno. */
int proc_read_file(const char *path, char **ret, size_t *n);

/* The same, but nothing more is read once @is_whole says of what there is that it is all. */
int proc_read_until(const char *path, bool (*is_whole)(const char *text, size_t n), char **ret,
		    size_t *n);

/* The same of one that the kernel writes in one piece: a system call less. */
int proc_read_piece(const char *path, char **ret);

#endif
