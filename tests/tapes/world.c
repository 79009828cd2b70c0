/* SPDX-License-Identifier: MIT
 *
 * world - stands in for the system.
 *
 * A read is answered by the next one of the same place that the drain had. Where the code
 * under test asks otherwise than the code that made the tape, the bytes come from what was
 * read of that process before.
 */
#include "world.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static _Thread_local struct world *world;

void world_enter(struct world *w)
{
	world = w;
}

/* --- memory --- */

enum { PAGE = 4096, BUCKETS = 4096 };

struct page {
	struct page *next;
	pid_t pid;
	uint64_t at;
	unsigned char bytes[PAGE], known[PAGE / 8];
};

struct memory {
	struct page *buckets[BUCKETS];
};

struct memory *memory_create(void)
{
	return calloc(1, sizeof(struct memory));
}

void memory_destroy(struct memory *m)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct page *p = m->buckets[i], *next; p; p = next) {
			next = p->next;
			free(p);
		}
	free(m);
}

static struct page *page_of(struct memory *m, pid_t pid, uint64_t at, bool make)
{
	struct page **bucket = &m->buckets[(at / PAGE * 31 + (uint64_t)pid) % BUCKETS];
	struct page *p = *bucket;

	while (p && (p->pid != pid || p->at != at / PAGE))
		p = p->next;
	if (p || !make)
		return p;
	p = calloc(1, sizeof(*p));
	p->pid = pid;
	p->at = at / PAGE;
	p->next = *bucket;
	return *bucket = p;
}

void memory_put(struct memory *m, pid_t pid, uint64_t at, struct bytes bytes)
{
	for (size_t i = 0; i < bytes.n; i++) {
		struct page *p = page_of(m, pid, at + i, true);
		size_t off = (at + i) % PAGE;

		p->bytes[off] = bytes.at[i];
		p->known[off / 8] |= (unsigned char)(1u << off % 8);
	}
}

static bool memory_get(struct memory *m, pid_t pid, uint64_t at, unsigned char *to, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct page *p = page_of(m, pid, at + i, false);
		size_t off = (at + i) % PAGE;

		if (!p || !(p->known[off / 8] >> off % 8 & 1))
			return false;
		to[i] = p->bytes[off];
	}
	return true;
}

/* --- calls --- */

static _Atomic bool no_system;

void world_without_system(bool without)
{
	atomic_store(&no_system, without);
}

/* 0, or the error that the read had. */
static int answer(struct world *w, pid_t pid, const struct iovec *from, void *to)
{
	uint64_t at = (uintptr_t)from->iov_base;

	for (size_t i = w->next_read; i < w->n_items; i++) {
		struct bytes c = w->items[i].chunk, b;
		int code = (int)tape_get(c, TAPE_CODE, 0);

		if (w->items[i].type != TAPE_READ || tape_get(c, TAPE_AT, 0) != at ||
		    tape_get(c, TAPE_N, 0) != from->iov_len ||
		    (pid_t)tape_get(c, TAPE_PID, 0) != pid)
			continue;
		tape_field(c, TAPE_BYTES, &b);
		if (!code && b.n != from->iov_len)
			continue;
		w->next_read = i + 1;
		if (!code && b.n)
			memcpy(to, b.at, b.n);
		return code;
	}
	if (memory_get(w->memory, pid, at, to, from->iov_len)) {
		w->others++;
		return 0;
	}
	w->misses++;
	return EFAULT;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n_to,
			 const struct iovec *from, unsigned long n_from, unsigned long flags)
{
	ssize_t got = 0;

	if (!world && atomic_load(&no_system)) {
		errno = ESRCH;
		return -1;
	}
	if (!world)
		return syscall(SYS_process_vm_readv, pid, to, n_to, from, n_from, flags);
	world->calls++;
	world->pieces += n_from;
	for (unsigned long i = 0; i < n_from; i++) {
		int code = answer(world, pid, &from[i], to[i].iov_base);

		if (code && !got) {
			errno = code;
			return -1;
		}
		if (code)
			break;
		got += (ssize_t)from[i].iov_len;
	}
	return got;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (!world)
		return (int)syscall(SYS_clock_gettime, clock, t);
	*t = (struct timespec){ .tv_sec = (time_t)(world->now / 1000000000),
				.tv_nsec = (long)(world->now % 1000000000) };
	return 0;
}

int sched_getcpu(void)
{
	unsigned cpu = 0;

	if (world)
		return world->cpu;
	return syscall(SYS_getcpu, &cpu, NULL, NULL) < 0 ? -1 : (int)cpu;
}

/* What was learnt from it is on the tape as an answer. */
int sched_getaffinity(pid_t tid, size_t n, cpu_set_t *set)
{
	if (!world) {
		memset(set, 0, n);
		return syscall(SYS_sched_getaffinity, tid, n, set) < 0 ? -1 : 0;
	}
	errno = ESRCH;
	return -1;
}

/* Nothing that is played hangs, so whatever has a limit of time is waited for, however busy
 * the machine is: that decides no stack. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
			   const struct timespec *until)
{
	return pthread_cond_wait(cond, lock);
}

/* --- files --- */

/* One of this machine's may have a number that is on the tape. */
static bool is_process(const char *path)
{
	return !strncmp(path, "/proc/", 6) && isdigit((unsigned char)path[6]);
}

int open64(const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (!is_process(path) &&
	    (!atomic_load(&no_system) || !strncmp(path, "/proc/self/fd/", 14)))
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	errno = ENOENT;
	return -1;
}
