/* SPDX-License-Identifier: MIT */
#include "space.h"

#include <elf.h>
#include <limits.h>
#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "proc.h"

enum {
	MAX_SPACES = 32768,
	MAX_MAPS = 65536, /* the kernel's own limit a process */
};

static struct space **space_slot(struct spaces *s, pid_t pid)
{
	struct space **p = &s->bucket[(uint32_t)pid % SPACE_BUCKETS];

	while (*p && (*p)->pid != pid)
		p = &(*p)->next;
	return p;
}

static struct space *space_get(struct spaces *s, pid_t pid)
{
	struct space **p = space_slot(s, pid);

	if (*p || s->n == MAX_SPACES)
		return *p;
	*p = calloc(1, sizeof(**p));
	if (*p) {
		(*p)->pid = pid;
		s->n++;
	}
	return *p;
}

static void space_drop(struct spaces *s, pid_t pid)
{
	struct space **p = space_slot(s, pid), *gone = *p;

	if (!gone)
		return;
	*p = gone->next;
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
	size_t cap = MAX(n, sp->cap + sp->cap / 2 + 16);
	struct space_map *more;

	if (n <= sp->cap)
		return 0;
	if (n > MAX_MAPS)
		return -E2BIG;
	more = reallocarray(sp->map, cap, sizeof(*more));
	if (!more)
		return -ENOMEM;
	sp->map = more;
	sp->cap = cap;
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

/* Put @m over whatever was mapped there; with @keep false only cut the hole. */
static void space_insert(struct space *sp, const struct space_map *m, bool keep)
{
	size_t from = space_find(sp, m->lo), to = from, n = 0;
	struct space_map with[3];

	if (m->lo >= m->hi || space_reserve(sp, sp->n + 2) < 0)
		return;
	while (to < sp->n && sp->map[to].lo < m->hi)
		to++;
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
}

/* ---- Files behind maps ---- */

/* Let @elf have its file, while the process is there. */
static void map_open(struct spaces *s, pid_t pid, const struct space_map *m)
{
	static const char gone[] = " (deleted)";
	char path[PATH_MAX];
	size_t n = strlen(elfcache_path(m->elf)), cut = sizeof(gone) - 1;
	struct proc_map pm = { .start = m->lo,
			       .end = m->hi,
			       .pgoff = m->pgoff,
			       .ino = m->ino,
			       .maj = m->maj,
			       .min = m->min,
			       .r = true,
			       .x = true,
			       .path = path };
	int fd;

	if (n >= sizeof(path) || !m->ino)
		return;
	memcpy(path, elfcache_path(m->elf), n + 1);
	if (path[0] != '/' || path[1] == '/')
		return;
	if (n > cut && strcmp(path + n - cut, gone) == 0) {
		path[n - cut] = '\0';
		pm.deleted = true;
	}
	fd = proc_map_open(pid, &pm);
	if (fd < 0)
		return;
	elfcache_give_fd(s->elfs, m->elf, fd);
	s->n_opened++;
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

static void side_mmap(struct spaces *s, const struct side *side)
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
	if (keep)
		m.elf = elfcache_get(s->elfs, &id);
	space_insert(sp, &m, keep);
	if (!m.elf || !elfcache_wants_file(m.elf))
		return;
	if (strcmp(id.path, "[vdso]") == 0)
		vdso_give(s, m.elf);
	else
		map_open(s, side->pid, &m);
	/* Some ms that are sure to be needed: before the samples rather than among them. */
	if (is_interpreter(id.path))
		elfcache_made(s->elfs, m.elf);
}

void spaces_side(struct spaces *s, const struct side *side)
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

void spaces_init(struct spaces *s, struct elfcache *elfs)
{
	*s = (struct spaces){ .elfs = elfs };
}

void spaces_deinit(struct spaces *s)
{
	for (size_t i = 0; i < SPACE_BUCKETS; i++)
		while (s->bucket[i])
			space_drop(s, s->bucket[i]->pid);
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

const void *spaces_made(struct spaces *s, pid_t pid, const struct space_map *m)
{
	if (!m->elf)
		return NULL;
	if (elfcache_wants_file(m->elf))
		map_open(s, pid, m);
	return elfcache_made(s->elfs, m->elf);
}
