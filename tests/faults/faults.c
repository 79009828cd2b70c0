/* SPDX-License-Identifier: MIT
 *
 * faults - fails one chosen call of those that can fail for want of something: memory, room,
 * descriptors, threads, events.
 *
 * To be preloaded into pysampled. FAULTS names a file that holds a struct faults: which calls
 * are counted, and which of them fails; the program then counts there, and writes down where
 * it was when one failed. tests/integration/test_faults.py fails each in turn, or some of each
 * site: calls are of one site if the chains of their callers are the same. A site has the same
 * number in each run, for it is made of the places in the files that are mapped.
 */
#include <dirent.h>
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
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { ALLOC, MAP, OPEN, WRITE, THREAD, DESCRIPTOR, EVENT, PROCESS };

enum { MOST_CALLERS = 64, MOST_SITES = 4096, MOST_ENV = 512 };

#define ELSEWHERE (UINT64_C(1) << 63) /* of a place: its file is not the program's */

/* Shared with the test: five numbers of eight bytes that it writes, the rest is ours. */
struct faults {
	uint64_t kinds;	    /* bit (1 << kind): calls of this kind count */
	uint64_t site;	    /* whose calls @first counts; 0: all calls */
	uint64_t first;	    /* the number of the call that fails, from 1; 0: none */
	uint64_t all_after; /* 1: each later call fails too, of whatever site */
	uint64_t by_site;   /* 1: each site's calls are counted */
	uint64_t calls, failed, lost; /* lost: calls of sites that there is no room for */
	uint64_t n_callers, caller[MOST_CALLERS]; /* of the first that failed: places in files */
	struct {
		uint64_t site, calls;
	} sites[MOST_SITES];
};

struct callers {
	int n;
	uint64_t site;
	uint64_t at[MOST_CALLERS];
};

static struct faults none, *faults = &none;
static char preload[4096];	     /* "LD_PRELOAD=" and our own file */
static int full = -1;		     /* a device that has no room */
static _Thread_local int inside = 0; /* our own calls do not count */

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

/* The file that lies at @at: where it begins, and its name. */
static const char *file_at(void *at, uint64_t *base)
{
#if __GLIBC_PREREQ(2, 35)
	struct dl_find_object file; /* found without a lock, which a fork could keep */

	if (_dl_find_object(at, &file) < 0)
		return NULL;
	*base = file.dlfo_link_map->l_addr;
	return file.dlfo_link_map->l_name;
#else
	Dl_info file;

	if (!dladdr(at, &file))
		return NULL;
	*base = (uint64_t)(uintptr_t)file.dli_fbase;
	return file.dli_fname;
#endif
}

/* Adds a caller. One that is there already says only how deep a recursion is. */
static void add_caller(struct callers *c, void *address)
{
	uint64_t base, at;
	const char *name = file_at(address, &base);

	if (!name)
		return;
	at = (uint64_t)(uintptr_t)address - base;
	if (base != _r_debug.r_map->l_addr)
		at |= ELSEWHERE;
	for (int i = 0; i < c->n; i++)
		if (c->at[i] == at)
			return;
	c->at[c->n++] = at;
	c->site = mix(c->site, at);
	for (; *name; name++)
		c->site = mix(c->site, (unsigned char)*name);
}

static void who_calls(struct callers *c)
{
	void *at[MOST_CALLERS];
	int n;

	inside++;
	n = backtrace(at, MOST_CALLERS);
	*c = (struct callers){ .site = 1 };
	for (int i = 0; i < n; i++)
		add_caller(c, at[i]);
	inside--;
}

/* The number of this call among those of its site. */
static uint64_t count(uint64_t site)
{
	for (uint64_t i = 0; i < MOST_SITES; i++) {
		uint64_t *of = &faults->sites[(site + i) % MOST_SITES].site, was = 0;

		if (__atomic_compare_exchange_n(of, &was, site, 0, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED) ||
		    was == site)
			return __atomic_add_fetch(of + 1, 1, __ATOMIC_RELAXED);
	}
	__atomic_add_fetch(&faults->lost, 1, __ATOMIC_RELAXED);
	return 0;
}

/* Counts this call, at its site too if sites are told apart; true if it is the one that fails.
 */
static int is_chosen(void)
{
	uint64_t call = __atomic_add_fetch(&faults->calls, 1, __ATOMIC_RELAXED);
	struct callers callers;

	if (faults->by_site) {
		who_calls(&callers);
		call = count(callers.site);
		if (callers.site != faults->site)
			return 0;
	}
	return faults->first && call == faults->first;
}

static void note_callers(void)
{
	struct callers callers;

	who_calls(&callers);
	memcpy(faults->caller, callers.at, sizeof(faults->caller));
	faults->n_callers = (uint64_t)callers.n;
}

/* True if this call fails, with errno set. */
static int fails(enum kind kind, int error)
{
	if (inside || !(faults->kinds >> kind & 1))
		return 0;
	if (!is_chosen() &&
	    !(faults->all_after && __atomic_load_n(&faults->failed, __ATOMIC_RELAXED)))
		return 0;
	if (__atomic_fetch_add(&faults->failed, 1, __ATOMIC_RELAXED) == 0)
		note_callers();
	errno = error;
	return 1;
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

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAULTS"), *preloaded = getenv("LD_PRELOAD");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map, *warm[1];

	if (preloaded)
		snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", preloaded);
	unsetenv("LD_PRELOAD"); /* other programs that pysampled starts are not tested */
	full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	backtrace(warm, 1); /* loads what it needs */
	map = fd < 0 ? MAP_FAILED :
		       mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (map != MAP_FAILED)
		faults = map;
}

/* pysampled's helpers are the program once more, and are tested with it. */
int execve(const char *path, char *const argv[], char *const envp[])
{
	static __typeof__(&execve) next;
	char *env[MOST_ENV];
	int n = 0;

	if (!next)
		next = REAL(execve);
	if (strcmp(path, "/proc/self/exe") != 0)
		return next(path, argv, envp);
	while (envp[n] && n < MOST_ENV - 2) {
		env[n] = envp[n];
		n++;
	}
	env[n] = preload;
	env[n + 1] = NULL;
	return next(path, argv, env);
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
CALL(WRITE, ENOSPC, -1, ssize_t, write, (int fd, const void *at, size_t n), (fd, at, n))
CALL(WRITE, ENOSPC, -1, ssize_t, pwrite, (int fd, const void *at, size_t n, off_t off),
     (fd, at, n, off))
CALL(WRITE, ENOSPC, -1, ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
CALL(THREAD, EAGAIN, EAGAIN, int, pthread_create,
     (pthread_t * t, const pthread_attr_t *a, void *(*run)(void *), void *arg),
     (t, a, run, arg))
CALL(PROCESS, EAGAIN, -1, pid_t, fork, (void), ())
CALL(OPEN, EMFILE, NULL, DIR *, opendir, (const char *path), (path))
CALL(WRITE, ENOSPC, -1, int, ftruncate, (int fd, off_t n), (fd, n))
CALL(WRITE, ENOSPC, -1, int, mkdirat, (int at, const char *path, mode_t mode),
     (at, path, mode))
CALL(WRITE, ENOSPC, -1, int, renameat,
     (int from, const char *old, int to, const char *path), (from, old, to, path))
CALL(WRITE, ENOSPC, -1, ssize_t, sendfile, (int to, int from, off_t *at, size_t n),
     (to, from, at, n))
CALL(DESCRIPTOR, EMFILE, -1, int, dup, (int fd), (fd))
CALL(DESCRIPTOR, EMFILE, -1, int, socketpair, (int domain, int type, int proto, int fd[2]),
     (domain, type, proto, fd))
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

/* ---- fcntl: makes a descriptor, or not ---- */

int fcntl(int fd, int what, ...)
{
	static __typeof__(&fcntl) next;
	va_list ap;
	long arg;

	va_start(ap, what);
	arg = va_arg(ap, long);
	va_end(ap);
	if ((what == F_DUPFD || what == F_DUPFD_CLOEXEC) && fails(DESCRIPTOR, EMFILE))
		return -1;
	if (!next)
		next = REAL(fcntl);
	return next(fd, what, arg);
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
	int kept;

	inside++;
	kept = fcntl(fileno(file), F_DUPFD_CLOEXEC, 0);
	inside--;
	dup2(full, fileno(file));
	return kept;
}

static void swap_back(int kept, int fd)
{
	dup2(kept, fd);
	close(kept);
}

/* Not so those in memory, which have no descriptor. */
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
	if (kept >= 0) {
		inside++;
		fflush(file); /* else it may fail later, or not at all */
		inside--;
		swap_back(kept, fileno(file));
	}
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
