/* SPDX-License-Identifier: MIT
 *
 * pyfind_cache - what was found in files, by what tells that a file is still the same.
 */
#include "python/pyfind_cache.h"

#include <errno.h>
#include <pthread.h>

#include "elf/file_helper.h"
#include "sys/proc.h"

enum {
	FILES = 256,
	PATIENCE_MS = 3000, /* for one to be read, on a busy machine */
};

struct entry {
	struct pyfind_file file;
	struct elfpython elf, mapped_elf;
	int code;
	bool read;	  /* @elf and @code are known */
	bool mapped;	  /* @mapped_elf is */
	bool proven;
	struct pylayout layout; /* by which it was */
	bool asked;	  /* @debug is known */
	struct pyfind_debug debug;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry entries[FILES]; /* the one at @next is replaced next */
static size_t next;

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool same_file(const struct pyfind_file *a, const struct pyfind_file *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       same_time(&a->mtim, &b->mtim) && same_time(&a->ctim, &b->ctim);
}

/* With the lock. */
static struct entry *find(const struct pyfind_file *file)
{
	for (size_t i = 0; i < FILES; i++)
		if (file->ino && same_file(&entries[i].file, file))
			return &entries[i];
	return NULL;
}

/* A copy of what is known of a file. False: nothing. */
static bool look_up(const struct pyfind_file *file, struct entry *ret)
{
	const struct entry *e;

	pthread_mutex_lock(&lock);
	e = find(file);
	if (e)
		*ret = *e;
	pthread_mutex_unlock(&lock);
	return e;
}

/* The lock is taken then: what is known of the file is to be written down. NULL, without the lock:
 * the file can't be known again. */
static struct entry *lock_entry(const struct pyfind_file *file)
{
	struct entry *e;

	if (!file->ino)
		return NULL;
	pthread_mutex_lock(&lock);
	e = find(file);
	if (!e) {
		e = &entries[next];
		next = (next + 1) % FILES;
		*e = (struct entry){ .file = *file };
	}
	return e;
}

static void unlock(void)
{
	pthread_mutex_unlock(&lock);
}

bool pyfind_cache_read_before(const struct pyfind_file *file, struct elfpython *ret, int *code)
{
	struct entry e;

	if (!look_up(file, &e) || !e.read)
		return false;
	*ret = e.elf;
	*code = e.code;
	return true;
}

/* What was left out for want of memory looks like what the file does not have. */
static int read_here(int fd, struct elfpython *ret)
{
	int code;

	errno = 0;
	code = elfpython_read(fd, ret);
	return errno == ENOMEM ? -ENOMEM : code;
}

/* By others, of which a file may end some: -EPROTO, once it is given up. */
static int read_there(int fd, const char *path, struct file_helper *files,
		      struct elfpython *ret)
{
	int code;

	for (unsigned bad = 1;; bad++) {
		code = file_helper_python(files, ret, fd, PATIENCE_MS);
		if (code == -ETIMEDOUT)
			file_helper_slow(files, path);
		if (code != -EPROTO && code != -EPIPE)
			return code == -EAGAIN ? -ENOBUFS : code;
		if (file_helper_bad_end(files, path, bad))
			return -EPROTO;
	}
}

struct pyfind_file pyfind_cache_file(const struct stat *st)
{
	return (struct pyfind_file){ st->st_dev, st->st_ino, st->st_size, st->st_mtim,
				     st->st_ctim };
}

int pyfind_cache_read(int fd, const char *path, struct file_helper *files,
		      struct elfpython *ret, const struct pyfind_file *file)
{
	struct entry *e;
	int code;

	if (pyfind_cache_read_before(file, ret, &code))
		return code;
	/* Reading it may hang: not with the lock. */
	code = files ? read_there(fd, path, files, ret) : read_here(fd, ret);
	e = proc_is_short(code) || code == -ETIMEDOUT ? NULL : lock_entry(file);
	if (e) {
		e->elf = *ret;
		e->code = code;
		e->read = true;
		unlock();
	}
	return code;
}

void pyfind_cache_prove(const struct pyfind_file *file, const struct pylayout *layout)
{
	struct entry *e = lock_entry(file);

	if (!e)
		return;
	e->proven = true;
	e->layout = *layout;
	unlock();
}

bool pyfind_cache_proven_by(const struct pyfind_file *file, const struct pylayout *layout)
{
	struct entry e;

	return look_up(file, &e) && e.proven && !memcmp(&e.layout, layout, sizeof(*layout));
}

bool pyfind_cache_debug(const struct pyfind_file *file, pid_t pid, struct pyfind_debug *ret)
{
	struct entry e;
	uint64_t view = 0;
	bool known = look_up(file, &e) && e.asked;

	if (known)
		proc_view(pid, &view);
	if (!known || e.debug.view != view)
		return false;
	*ret = e.debug;
	return true;
}

void pyfind_cache_keep_debug(const struct pyfind_file *file, const struct pyfind_debug *d)
{
	struct entry *e = lock_entry(file);

	if (!e)
		return;
	e->asked = true;
	e->debug = *d;
	unlock();
}

bool pyfind_cache_mapped_before(const struct pyfind_file *file, struct elfpython *ret)
{
	struct entry e;
	bool mapped = look_up(file, &e) && e.mapped;

	if (mapped)
		*ret = e.mapped_elf;
	return mapped;
}

void pyfind_cache_keep_mapped(const struct pyfind_file *file, const struct elfpython *elf)
{
	struct entry *e = lock_entry(file);

	if (!e)
		return;
	e->mapped_elf = *elf;
	e->mapped = true;
	unlock();
}
