/* SPDX-License-Identifier: MIT
 *
 * pyfind_cache - what was found in files, by what tells that a file is still the same.
 */
#include "python/pyfind_cache.h"

#include <errno.h>
#include <pthread.h>

enum { FILES = 256 };

struct entry {
	struct pyfind_file file;
	struct pyfind_elf elf;
	int code;
	bool used;
	uint32_t version; /* 0: not proven */
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
		if (entries[i].used && same_file(&entries[i].file, file))
			return &entries[i];
	return NULL;
}

static bool lookup(const struct pyfind_file *file, struct pyfind_elf *ret, int *code)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find(file);
	if (e) {
		*ret = e->elf;
		*code = e->code;
	}
	pthread_mutex_unlock(&lock);
	return e;
}

static void add(const struct pyfind_file *file, const struct pyfind_elf *elf, int code)
{
	pthread_mutex_lock(&lock);
	if (!find(file)) {
		entries[next] = (struct entry){
			.file = *file, .elf = *elf, .code = code, .used = true
		};
		next = (next + 1) % FILES;
	}
	pthread_mutex_unlock(&lock);
}

int pyfind_cache_read(int fd, struct pyfind_elf *ret, struct pyfind_file *file)
{
	struct stat st;
	int code;

	if (fstat(fd, &st) < 0)
		return -errno;
	*file = (struct pyfind_file){ st.st_dev, st.st_ino, st.st_size, st.st_mtim,
				      st.st_ctim };
	if (lookup(file, ret, &code))
		return code;
	/* Reading it may hang: not with the lock. */
	errno = 0;
	code = pyfind_elf_read(fd, ret);
	/* What was left out for want of memory looks like what the file does not have. */
	if (errno == ENOMEM)
		return -ENOMEM;
	add(file, ret, code);
	return code;
}

void pyfind_cache_prove(const struct pyfind_file *file, uint32_t version)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find(file);
	if (e)
		e->version = version;
	pthread_mutex_unlock(&lock);
}

uint32_t pyfind_cache_proven(const struct pyfind_file *file)
{
	struct entry *e;
	uint32_t version;

	pthread_mutex_lock(&lock);
	e = find(file);
	version = e ? e->version : 0;
	pthread_mutex_unlock(&lock);
	return version;
}
