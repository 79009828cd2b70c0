/* SPDX-License-Identifier: MIT */
#include "modules/space.h"

#include <elf.h>
#include <limits.h>
#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/hash.h"
#include "base/clock.h"
#include "modules/jit.h"
#include "base/later.h"
#include "base/stats.h"
#include "elf/elfimage.h"
#include "sys/rootfile.h"

enum {
	MAX_SPACES = 32768,
	MAX_MAPS = 65536,   /* the kernel's own limit a process */
	PATIENCE_MS = 1000, /* for a file to be opened, on a busy machine */
	RETRY_NS = 100000000,
};

static struct space **space_slot(struct spaces *s, pid_t pid)
{
	struct space **p = &s->bucket[hash_u64((uint32_t)pid) % SPACE_BUCKETS];

	while (*p && (*p)->pid != pid)
		p = &(*p)->next;
	return p;
}

/* Something has no names now for want of memory or descriptors. */
static void note_unread(struct spaces *s)
{
	if (s->stats)
		STATS_ADD(s->stats, unread, 1);
}

static struct space *space_get(struct spaces *s, pid_t pid)
{
	struct space **p = space_slot(s, pid);

	if (*p)
		return *p;
	if (s->n < MAX_SPACES)
		*p = calloc(1, sizeof(**p));
	if (!*p) {
		note_unread(s);
		return NULL;
	}
	(*p)->pid = pid;
	(*p)->of = s;
	s->n++;
	return *p;
}

static void space_drop(struct spaces *s, pid_t pid)
{
	struct space **p = space_slot(s, pid), *gone = *p;

	if (!gone)
		return;
	*p = gone->next;
	jit_destroy(gone->jit);
	s->map_bytes -= gone->cap * sizeof(*gone->map);
	free(gone->map);
	free(gone);
	s->n--;
}

/* The first map that ends above @addr; @n where there is none. */
static size_t space_find(const struct space *sp, uint64_t addr)
{
	size_t lo = 0, n = sp->n;

	while (n > 0) {
		if (sp->map[lo + n / 2].hi <= addr) {
			lo += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return lo;
}

static int space_reserve(struct space *sp, size_t n)
{
	size_t cap = MAX(n, sp->cap + sp->cap / 2 + 16), add;
	struct spaces *s = sp->of;
	struct space_map *more;

	if (n <= sp->cap)
		return 0;
	add = (cap - sp->cap) * sizeof(*more);
	if (n > MAX_MAPS || (s->max_map_bytes && add > s->max_map_bytes - s->map_bytes)) {
		if (s->stats)
			STATS_ADD(s->stats, unmapped, 1);
		return -E2BIG;
	}
	more = reallocarray(sp->map, cap, sizeof(*more));
	if (!more) {
		note_unread(s);
		return -ENOMEM;
	}
	sp->map = more;
	sp->cap = cap;
	s->map_bytes += add;
	return 0;
}

/* Replace maps [from, to) by the @n of @with. */
static void space_splice(struct space *sp, size_t from, size_t to,
			 const struct space_map *with, size_t n)
{
	memmove(sp->map + from + n, sp->map + to, (sp->n - to) * sizeof(*sp->map));
	if (n)
		memcpy(sp->map + from, with, n * sizeof(*sp->map));
	sp->n = sp->n + n - (to - from);
}

/* Put @m over whatever was mapped there; with @keep false only cut the hole. Without room all
 * that was there goes: it has no name then, rather than one of what was there before. */
static void space_insert(struct space *sp, const struct space_map *m, bool keep)
{
	size_t from = space_find(sp, m->lo), to = from, n = 0;
	struct space_map with[3];

	if (m->lo >= m->hi)
		return;
	while (to < sp->n && sp->map[to].lo < m->hi)
		to++;
	if (space_reserve(sp, sp->n + 2) < 0) {
		if (from < to)
			space_splice(sp, from, to, NULL, 0);
		return;
	}
	if (from < to && sp->map[from].lo < m->lo) {
		with[n] = sp->map[from];
		with[n++].hi = m->lo;
	}
	if (keep)
		with[n++] = *m;
	if (from < to && sp->map[to - 1].hi > m->hi) {
		with[n] = sp->map[to - 1];
		with[n].pgoff += m->hi - with[n].lo;
		with[n++].lo = m->hi;
	}
	space_splice(sp, from, to, with, n);
}

static void space_fork(struct spaces *s, pid_t child, pid_t parent)
{
	struct space *from, *to;

	space_drop(s, child);
	from = *space_slot(s, parent);
	to = space_get(s, child);
	if (!to)
		return;
	to->gen = ++s->last_gen;
	if (!from || from->n == 0 || space_reserve(to, from->n) < 0)
		return;
	memcpy(to->map, from->map, from->n * sizeof(*to->map));
	to->n = from->n;
	to->forked_from = parent;
	if (from->jit)
		to->jit = jit_create(child, elfcache_quota(s->elfs));
}

/* ---- Files behind maps ---- */

static struct proc_map map_as_proc(const struct space_map *m, const char *path)
{
	return (struct proc_map){ .start = m->lo,
				  .end = m->hi,
				  .pgoff = m->pgoff,
				  .ino = m->ino,
				  .maj = m->maj,
				  .min = m->min,
				  .r = true,
				  .x = true,
				  .path = path };
}

/* Opening a file, and reading some of it if that is wanted: both may hang. */
struct opening {
	pid_t pid;
	struct proc_map map;
	char path[PATH_MAX];
	int fd, root;
	bool wants_id;
	unsigned char id[ELFIMAGE_MAX_ID];
	size_t n_id;
	uint64_t at;
	size_t n; /* 0: the root is wanted */
	ssize_t got;
	unsigned char bytes[];
};

static void read_id(struct opening *o)
{
	struct elfimage im;

	if (elfimage_init(&im, o->fd, (struct bytes){ 0 }) == 0)
		o->n_id = elfimage_build_id(&im, o->id);
	elfimage_deinit(&im);
}

static void opening_run(void *arg)
{
	struct opening *o = arg;
	struct stat ours, its;

	o->fd = proc_map_open(o->pid, &o->map);
	if (o->fd < 0)
		return;
	if (o->n) {
		o->got = pread(o->fd, o->bytes, o->n, (off_t)o->at);
		return;
	}
	if (o->wants_id)
		read_id(o);
	o->root = rootfile_root(o->pid);
	if (o->root >= 0 && stat("/", &ours) == 0 && fstat(o->root, &its) == 0 &&
	    ours.st_dev == its.st_dev && ours.st_ino == its.st_ino) {
		close(o->root);
		o->root = -1;
	}
}

static void opening_drop(void *arg)
{
	struct opening *o = arg;

	if (o->fd >= 0)
		close(o->fd);
	if (o->root >= 0)
		close(o->root);
	free(o);
}

static bool map_has_file(const struct space_map *m)
{
	const char *path = elfcache_path(m->elf);

	return m->ino && path[0] == '/' && path[1] != '/' && strlen(path) < PATH_MAX;
}

static struct opening *opening_make(pid_t pid, const struct space_map *m, uint64_t at,
				    size_t n_bytes)
{
	static const char gone[] = " (deleted)";
	const char *path = elfcache_path(m->elf);
	size_t n = strlen(path), cut = sizeof(gone) - 1;
	struct opening *o;

	o = calloc(1, sizeof(*o) + n_bytes);
	if (!o)
		return NULL;
	o->pid = pid;
	o->at = at;
	o->n = n_bytes;
	o->fd = o->root = -1;
	o->map = map_as_proc(m, o->path);
	memcpy(o->path, path, n + 1);
	o->map.deleted = n > cut && strcmp(path + n - cut, gone) == 0;
	if (o->map.deleted)
		o->path[n - cut] = '\0';
	return o;
}

/* Files that took too long and now are open: theirs may be tried again. */
static void stuck_poll(struct spaces *s)
{
	for (size_t i = 0; i < s->n_stuck;) {
		if (!later_wait(s->stuck[i].later, 0)) {
			i++;
			continue;
		}
		elfcache_slow(s->elfs, s->stuck[i].elf, false);
		later_release(s->stuck[i].later);
		s->stuck[i] = s->stuck[--s->n_stuck];
	}
}

/* Have it done, soon. NULL: it was not, or can't be now. */
static struct later *opening_run_soon(struct spaces *s, struct opening *o,
				      struct elfcache_elf *elf)
{
	struct later *l;

	stuck_poll(s);
	if (!o || elfcache_is_slow(s->elfs, elf) || s->n_stuck == SPACE_MAX_STUCK) {
		free(o);
		return NULL;
	}
	l = later_start(elfcache_quota(s->elfs), opening_run, opening_drop, o);
	if (!l)
		opening_drop(o);
	else if (!later_wait(l, PATIENCE_MS)) {
		elfcache_slow(s->elfs, elf, true);
		s->stuck[s->n_stuck].later = l, s->stuck[s->n_stuck++].elf = elf;
		l = NULL;
	}
	return l;
}

ssize_t space_read(const struct space *sp, const struct space_map *m, uint64_t at, void *buf,
		   size_t n)
{
	struct opening *o;
	struct later *l;
	ssize_t got;

	if (!map_has_file(m))
		return -ENOENT;
	o = opening_make(sp->pid, m, at, n);
	l = opening_run_soon(sp->of, o, m->elf);
	if (!l)
		return -EAGAIN;
	got = o->fd < 0 ? o->fd : o->got < 0 ? -EIO : o->got;
	if (got > 0)
		memcpy(buf, o->bytes, (size_t)got);
	later_release(l);
	return got;
}

/* It was we who had no descriptor or memory left. */
static bool is_our_fault(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

int space_open(const struct space *sp, const struct space_map *m, int *root)
{
	bool pause = now_ns() < sp->of->retry_ns || !map_has_file(m);
	struct opening *o = pause ? NULL : opening_make(sp->pid, m, 0, 0);
	struct later *l;
	int fd;

	if (o)
		o->wants_id = sp->of->ids;
	l = opening_run_soon(sp->of, o, m->elf);
	if (!l)
		return -EAGAIN;
	fd = o->fd;
	if (o->n_id)
		elfcache_note_id(m->elf, (struct bytes){ o->id, o->n_id });
	*root = o->root;
	o->fd = o->root = -1;
	later_release(l);
	if (!is_our_fault(fd))
		return fd;
	note_unread(sp->of);
	sp->of->retry_ns = now_ns() + RETRY_NS;
	return -EAGAIN;
}

/* Let @elf have its file, while the process is there. */
static void map_open(const struct space *sp, const struct space_map *m)
{
	int root, fd = space_open(sp, m, &root);

	if (fd >= 0) {
		elfcache_give_fd(sp->of->elfs, m->elf, fd, root);
		sp->of->n_opened++;
	} else if (fd != -EAGAIN) {
		elfcache_missed(m->elf);
	}
}

/* Our own vdso is every process's: it is the kernel's. */
static void vdso_give(struct spaces *s, struct elfcache_elf *e)
{
	const unsigned char *at = (const unsigned char *)getauxval(AT_SYSINFO_EHDR);
	Elf64_Ehdr eh;
	size_t n;

	if (!at)
		return;
	memcpy(&eh, at, sizeof(eh));
	n = eh.e_shoff + (size_t)eh.e_shnum * eh.e_shentsize;
	elfcache_give_image(s->elfs, e, (struct bytes){ at, n });
}

static bool is_interpreter(const char *path)
{
	const char *base = strrchr(path, '/');

	return base &&
	       (strncmp(base, "/python", 7) == 0 || strncmp(base, "/libpython", 10) == 0);
}

static void jit_learn(struct space *sp, const struct space_map *m)
{
	const struct proc_map pm = map_as_proc(m, elfcache_path(m->elf));
	bool dump = strstr(pm.path, "/jit-") != NULL;

	if (!sp->jit && (dump || jit_is_memory(pm.path)))
		sp->jit = jit_create(sp->pid, elfcache_quota(sp->of->elfs));
	if (sp->jit && dump)
		jit_mapped(sp->jit, &pm);
}

static void side_mmap(struct spaces *s, struct side *side)
{
	struct elfcache_id id = { .dev = makedev(side->u.mmap.maj, side->u.mmap.min),
				  .ino = side->u.mmap.ino,
				  .generation = side->u.mmap.ino_generation,
				  .path = side->u.mmap.path ? side->u.mmap.path : "" };
	uint64_t len = MIN(side->u.mmap.len, UINT64_MAX - side->u.mmap.addr);
	struct space_map m = { .lo = side->u.mmap.addr,
			       .hi = side->u.mmap.addr + len,
			       .pgoff = side->u.mmap.pgoff,
			       .maj = side->u.mmap.maj,
			       .min = side->u.mmap.min,
			       .ino = side->u.mmap.ino };
	bool keep = side->u.mmap.prot & PROT_EXEC;
	struct space *sp = side->u.mmap.kernel ? NULL : space_get(s, side->pid);

	if (!sp)
		return;
	sp->gen = ++s->last_gen;
	if (keep) {
		m.elf = elfcache_get(s->elfs, &id);
		if (!m.elf)
			note_unread(s);
	}
	space_insert(sp, &m, keep);
	if (m.elf)
		jit_learn(sp, &m);
	if (m.elf && elfcache_wants_file(m.elf)) {
		if (strcmp(id.path, "[vdso]") == 0)
			vdso_give(s, m.elf);
		else
			map_open(sp, &m);
		/* Some ms that are sure to be needed: before the samples rather than among
		 * them. */
		if (is_interpreter(id.path))
			elfcache_module(s->elfs, m.elf);
	}
	if (m.elf)
		side->u.mmap.file_id = elfcache_build_id(m.elf);
}

void spaces_side(struct spaces *s, struct side *side)
{
	switch (side->kind) {
	case SIDE_MMAP:
		side_mmap(s, side);
		break;
	case SIDE_FORK:
		if (side->pid != side->u.fork.ppid)
			space_fork(s, side->pid, side->u.fork.ppid);
		break;
	case SIDE_COMM:
		if (side->u.comm.exec)
			space_drop(s, side->pid);
		break;
	case SIDE_EXIT:
		if (side->pid == side->tid)
			space_drop(s, side->pid);
		break;
	case SIDE_LOST:
	case SIDE_THROTTLE:
		break;
	}
}

struct spaces *spaces_create(size_t max_bytes, unsigned needs)
{
	struct spaces *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->elfs = elfcache_create(max_bytes, needs & SPACES_ROWS);
	s->ids = needs & SPACES_IDS;
	if (s->elfs)
		return s;
	free(s);
	return NULL;
}

void spaces_destroy(struct spaces *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < SPACE_BUCKETS; i++)
		while (s->bucket[i])
			space_drop(s, s->bucket[i]->pid);
	while (s->n_stuck > 0)
		later_release(s->stuck[--s->n_stuck].later);
	elfcache_destroy(s->elfs);
	free(s);
}

void spaces_limit(struct spaces *s, size_t bytes, struct stats *stats)
{
	s->max_map_bytes = bytes;
	s->stats = stats;
	elfcache_count(s->elfs, stats);
}

struct space *spaces_find(struct spaces *s, pid_t pid)
{
	return *space_slot(s, pid);
}

struct space_map *space_at(const struct space *sp, uint64_t addr)
{
	size_t i = space_find(sp, addr);

	return i < sp->n && sp->map[i].lo <= addr ? &sp->map[i] : NULL;
}

const struct module *space_module(const struct space *sp, const struct space_map *m)
{
	if (!m->elf)
		return NULL;
	if (elfcache_wants_file(m->elf))
		map_open(sp, m);
	return elfcache_module(sp->of->elfs, m->elf);
}
