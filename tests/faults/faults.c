/* SPDX-License-Identifier: MIT
 *
 * faults - fails one chosen call of those that can fail for want of something: memory, room,
 * descriptors, threads, events.
 *
 * To be preloaded into pysampled. FAULTS names a file that holds a struct faults: which calls
 * are counted, and which of them fails; the program then counts there, and writes down where
 * it was when one failed. tests/integration/test_faults.py fails each in turn.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { ALLOC, MAP, OPEN, WRITE, THREAD, DESCRIPTOR, EVENT };

enum { MOST_CALLERS = 24 };

/* Shared with the test: four numbers of eight bytes that it writes, the rest is ours. */
struct faults {
	uint64_t kinds; /* bit (1 << kind): calls of this kind count */
	uint64_t first; /* the number of the call that fails, from 1; 0: none */
	uint64_t n;	/* how many fail from there on */
	uint64_t error; /* errno of those that fail; 0: the usual one of its kind */
	uint64_t calls, failed;
	uint64_t base; /* where the program lies */
	uint64_t n_callers, caller[MOST_CALLERS];
};

static struct faults none, *faults = &none;
static int full = -1;		     /* a device that has no room */
static _Thread_local int inside = 0; /* our own calls do not count */

static int base_of_program(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uint64_t *)arg = info->dlpi_addr;
	return 1; /* the first is the program */
}

static void note_callers(void)
{
	void *at[MOST_CALLERS];
	int n;

	inside++;
	n = backtrace(at, MOST_CALLERS);
	inside--;
	for (int i = 0; i < n; i++)
		faults->caller[i] = (uint64_t)(uintptr_t)at[i];
	faults->n_callers = (uint64_t)n;
}

/* True if this call fails, with errno set. */
static int fails(enum kind kind, int error)
{
	uint64_t call;

	if (inside || !(faults->kinds >> kind & 1))
		return 0;
	call = __atomic_add_fetch(&faults->calls, 1, __ATOMIC_RELAXED);
	if (!faults->first || call < faults->first || call - faults->first >= faults->n)
		return 0;
	if (__atomic_fetch_add(&faults->failed, 1, __ATOMIC_RELAXED) == 0)
		note_callers();
	errno = faults->error ? (int)faults->error : error;
	return 1;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAULTS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map, *warm[1];

	unsetenv("LD_PRELOAD"); /* what pysampled starts is not tested */
	full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	backtrace(warm, 1); /* loads what it needs */
	map = fd < 0 ? MAP_FAILED :
		       mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (map == MAP_FAILED)
		return;
	dl_iterate_phdr(base_of_program, &((struct faults *)map)->base);
	faults = map;
}

/* ---- memory ---- */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
	return fails(ALLOC, ENOMEM) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
	return fails(ALLOC, ENOMEM) ? NULL : __libc_calloc(n, each);
}

void *realloc(void *p, size_t n)
{
	return fails(ALLOC, ENOMEM) ? NULL : __libc_realloc(p, n);
}

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
	void *ret;

	inside++;
	ret = dlsym(RTLD_NEXT, name);
	inside--;
	return ret;
}

/* ---- calls of which nothing but the result differs; names are those of 64-bit offsets ----
 */

#define CALL(kind, error, failed, type, name, params, args) \
	type name params                                    \
	{                                                   \
		static __typeof__(&name) next;              \
                                                            \
		if (fails(kind, error))                     \
			return failed;                      \
		if (!next)                                  \
			next = REAL(name);                  \
		return next args;                           \
	}

CALL(MAP, ENOMEM, MAP_FAILED, void *, mmap,
     (void *at, size_t n, int prot, int flags, int fd, off_t off),
     (at, n, prot, flags, fd, off))
CALL(OPEN, EMFILE, NULL, FILE *, fopen, (const char *path, const char *mode), (path, mode))
CALL(OPEN, ENOMEM, NULL, FILE *, fdopen, (int fd, const char *mode), (fd, mode))
CALL(WRITE, ENOSPC, -1, ssize_t, write, (int fd, const void *at, size_t n), (fd, at, n))
CALL(WRITE, ENOSPC, -1, ssize_t, pwrite, (int fd, const void *at, size_t n, off_t off),
     (fd, at, n, off))
CALL(WRITE, ENOSPC, -1, ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
CALL(THREAD, EAGAIN, EAGAIN, int, pthread_create,
     (pthread_t * t, const pthread_attr_t *a, void *(*run)(void *), void *arg),
     (t, a, run, arg))
CALL(DESCRIPTOR, EMFILE, -1, int, eventfd, (unsigned value, int flags), (value, flags))
CALL(DESCRIPTOR, EMFILE, -1, int, pipe2, (int fd[2], int flags), (fd, flags))
CALL(DESCRIPTOR, EMFILE, -1, int, epoll_create1, (int flags), (flags))
CALL(DESCRIPTOR, EMFILE, -1, int, memfd_create, (const char *name, unsigned flags),
     (name, flags))
CALL(DESCRIPTOR, EMFILE, -1, int, signalfd, (int fd, const sigset_t *set, int flags),
     (fd, set, flags))
CALL(DESCRIPTOR, ENOSPC, -1, int, epoll_ctl, (int fd, int op, int of, struct epoll_event *e),
     (fd, op, of, e))

/* ---- opens: the mode is there only where a file may be made ---- */

int openat(int at, const char *path, int flags, ...)
{
	static __typeof__(&openat) next;
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (fails(OPEN, EMFILE))
		return -1;
	if (!next)
		next = REAL(openat);
	return next(at, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	static __typeof__(&open) next;
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (fails(OPEN, EMFILE))
		return -1;
	if (!next)
		next = REAL(open);
	return next(path, flags, mode);
}

/* ---- calls that libc has no function for ---- */

long syscall(long number, ...)
{
	static __typeof__(&syscall) next;
	long arg[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_perf_event_open && fails(EVENT, EMFILE))
		return -1;
	if ((number == SYS_pidfd_open || number == SYS_bpf) && fails(DESCRIPTOR, EMFILE))
		return -1;
	if (!next)
		next = REAL(syscall);
	return next(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/* ---- streams write by themselves: for one call theirs is the full device ---- */

static int swap_for_full(FILE *file)
{
	int kept = fcntl(fileno(file), F_DUPFD_CLOEXEC, 0);

	dup2(full, fileno(file));
	return kept;
}

static void swap_back(int kept, int fd)
{
	dup2(kept, fd);
	close(kept);
}

static int stream_fails(FILE *file)
{
	return file && fileno(file) >= 0 && fails(WRITE, ENOSPC);
}

size_t fwrite(const void *at, size_t each, size_t n, FILE *file)
{
	static __typeof__(&fwrite) next;
	int kept = stream_fails(file) ? swap_for_full(file) : -1;
	size_t ret;

	if (!next)
		next = REAL(fwrite);
	ret = next(at, each, n, file);
	if (kept >= 0)
		swap_back(kept, fileno(file));
	return ret;
}

int fflush(FILE *file)
{
	static __typeof__(&fflush) next;
	int kept = stream_fails(file) ? swap_for_full(file) : -1;
	int ret;

	if (!next)
		next = REAL(fflush);
	ret = next(file);
	if (kept >= 0)
		swap_back(kept, fileno(file));
	return ret;
}

int fclose(FILE *file)
{
	static __typeof__(&fclose) next;
	int kept = stream_fails(file) ? swap_for_full(file) : -1;
	int ret;

	if (!next)
		next = REAL(fclose);
	ret = next(file);
	if (kept >= 0)
		close(kept);
	return ret;
}
