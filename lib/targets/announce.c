/* SPDX-License-Identifier: MIT */
#include "targets/announce.h"

#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "elf/opener.h"
#include "sample/perf_decode.h"
#include "sys/proc.h"
#include "sys/proc_maps.h"
#include "sample/wire.h"

enum {
	ROOM_MS = 1000,
	ANSWER_MS = 200, /* of a file system */
};

struct writer {
	unsigned char buf[8192];
	size_t n;
};

static void put(struct writer *w, const void *p, size_t n)
{
	if (n <= sizeof(w->buf) - w->n) {
		memcpy(w->buf + w->n, p, n);
		w->n += n;
	}
}

static void put_u32(struct writer *w, uint32_t v)
{
	put(w, &v, sizeof(v));
}

static void put_u64(struct writer *w, uint64_t v)
{
	put(w, &v, sizeof(v));
}

/* With its NUL, padded to 8 bytes; cut where a record has no room. */
static void put_string(struct writer *w, const char *s)
{
	static const char zero[8];
	size_t n = MIN(strlen(s), 4096);

	put(w, s, n);
	put(w, zero, 8 - n % 8);
}

static void begin(struct writer *w, uint32_t type, uint16_t misc, pid_t pid, pid_t tid)
{
	struct perf_event_header h = { .type = type, .misc = misc };

	w->n = 0;
	put(w, &h, sizeof(h));
	put_u32(w, (uint32_t)pid);
	put_u32(w, (uint32_t)tid);
}

/* A process may have more maps than a queue has room for: wait while it is emptied. */
static unsigned char *room(struct queue *q, size_t n)
{
	const struct timespec step = { .tv_nsec = 1000000 };
	int left = q->hurry >= 0 ? ROOM_MS : 0;
	unsigned char *to;

	while (!(to = queue_reserve(q, Q_SIDE, n)) && left-- > 0)
		nanosleep(&step, NULL);
	return to;
}

/* The trailer of sample_id_all, the size, and off it goes. */
static int end(struct writer *w, struct queue *q, pid_t pid, pid_t tid, uint64_t time)
{
	struct perf_event_header *h = (void *)w->buf;
	unsigned char *to;

	put_u32(w, (uint32_t)pid);
	put_u32(w, (uint32_t)tid);
	put_u64(w, time);
	put_u64(w, 0); /* CPU */
	put_u64(w, 0); /* identifier */
	h->size = (uint16_t)w->n;
	to = room(q, w->n);
	if (!to)
		return -ENOBUFS;
	memcpy(to, w->buf, w->n);
	queue_commit(q);
	return 0;
}

static int announce_thread(struct writer *w, struct queue *q, pid_t pid, pid_t tid,
			   uint16_t misc, uint64_t time)
{
	char comm[16];

	if (proc_comm(pid, tid, comm) < 0)
		return 0; /* it ended */
	begin(w, PERF_RECORD_COMM, misc, pid, tid);
	put_string(w, comm);
	return end(w, q, pid, tid, time);
}

int announce_name(struct queue *q, pid_t pid, pid_t tid, const char *name, uint64_t from,
		  uint64_t until)
{
	struct writer w;

	begin(&w, PERF_RECORD_COMM, PERF_MISC_THREAD_NAME, pid, tid);
	put_string(&w, name);
	put_u64(&w, until);
	return end(&w, q, pid, tid, from);
}

/* Is it at @path here? Who may hang is asked; after the first who does nobody is. */
static bool is_file_of(const struct proc_map *m, const char *path, struct pool **openers)
{
	struct stat st;
	int fd = *openers ? opener_path(*openers, -1, path, ANSWER_MS, &st) : -ENOENT;

	if (fd == -ETIMEDOUT)
		*openers = NULL;
	if (fd >= 0)
		close(fd);
	return fd >= 0 && st.st_ino == m->ino;
}

/* In a chroot of a mount namespace of its own a file's path, as the kernel tells it, begins
 * with the root's and may lead nowhere here. Without it, it may be the same file: perf 6.1
 * ends where the addr2line that it starts finds no file. */
static const char *path_here(const struct proc_map *m, const char *root, struct pool **openers)
{
	size_t n = strlen(root);

	if (n > 1 && strncmp(m->path, root, n) == 0 && m->path[n] == '/' &&
	    !is_file_of(m, m->path, openers) && is_file_of(m, m->path + n, openers))
		return m->path + n;
	return m->path[0] ? m->path : "//anon";
}

static int announce_map(struct writer *w, struct queue *q, pid_t pid, const struct proc_map *m,
			const char *path, uint64_t time)
{
	begin(w, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER, pid, pid);
	put_u64(w, m->start);
	put_u64(w, m->end - m->start);
	put_u64(w, m->pgoff);
	put_u32(w, m->maj);
	put_u32(w, m->min);
	put_u64(w, m->ino);
	put_u64(w, 0);
	put_u32(w, (uint32_t)((m->r ? PROT_READ : 0) | (m->w ? PROT_WRITE : 0) | PROT_EXEC));
	put_u32(w, m->shared ? MAP_SHARED : MAP_PRIVATE);
	put_string(w, path);
	return end(w, q, pid, pid, time);
}

/* 0: @pid runs the program whose stack began at @stack. */
static int still_runs(pid_t pid, uint64_t stack)
{
	char comm[16];
	uint64_t root, age;
	int r = proc_introduce(pid, comm, &root, &age);

	return r < 0 ? r : root == stack ? 0 : -ESRCH;
}

int announce_maps(struct queue *q, pid_t pid, uint64_t stack, uint64_t time,
		  struct pool *openers)
{
	char root[PATH_MAX];
	struct proc_maps maps;
	struct writer w;
	int r = proc_maps_read(&maps, pid);

	if (r < 0)
		return r;
	r = stack ? still_runs(pid, stack) : 0;
	proc_link(pid, "root", root, sizeof(root));
	if (root[0] && root[1])
		pool_user = proc_user(pid);
	for (size_t i = 0; r == 0 && i < maps.n; i++)
		if (maps.map[i].x)
			r = announce_map(&w, q, pid, &maps.map[i],
					 path_here(&maps.map[i], root, &openers), time);
	pool_user = PROC_NOBODY;
	proc_maps_deinit(&maps);
	return r;
}

int announce_names(struct queue *q, pid_t pid, bool execed, bool threads, uint64_t time)
{
	uint16_t misc = execed ? PERF_RECORD_MISC_COMM_EXEC : 0;
	_cleanup_free_ pid_t *tids = NULL;
	struct writer w;
	size_t n = 0;
	int r = threads ? proc_tasks(pid, &tids, &n) : 0;

	/* The leader's name is the process's: it goes first. */
	if (r == 0)
		r = announce_thread(&w, q, pid, pid, misc, time);
	for (size_t i = 0; r == 0 && i < n; i++)
		if (tids[i] != pid)
			r = announce_thread(&w, q, pid, tids[i], 0, time);
	return r;
}

int announce_process(struct queue *q, pid_t pid, bool execed, bool threads, uint64_t time,
		     struct pool *openers)
{
	int r = announce_names(q, pid, execed, threads, time);

	return r < 0 ? r : announce_maps(q, pid, 0, time, openers);
}
