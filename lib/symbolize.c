/* SPDX-License-Identifier: MIT */
#include "symbolize.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "elfcache.h"
#include "kallsyms.h"
#include "proc.h"
#include "strtab.h"
#include "symnames.h"

enum {
	N_BUCKETS = 1024,
	N_CACHED = 4096, /* addresses with their names; a power of two */
	MAX_SPACES = 32768,
	MAX_MAPS = 65536, /* the kernel's own limit a process */
	MAX_ELF_BYTES = 256 << 20,
};

struct map {
	uint64_t lo, hi, pgoff;
	uint32_t maj, min; /* to open the file again after its tables were dropped */
	uint64_t ino;
	struct elfcache_elf *elf; /* NULL: too many files */
};

/* One process's executable maps, sorted, disjoint. */
struct space {
	struct space *next;
	pid_t pid;
	uint64_t gen; /* unique; new with every change, so that cached answers expire */
	struct map *map;
	size_t n, cap;
};

struct answer {
	uint64_t gen, ip;
	const char *name; /* NULL: empty slot */
	bool eval;
};

struct symbolizer {
	struct space *bucket[N_BUCKETS];
	size_t n_spaces;
	uint64_t last_gen;
	struct elfcache *elfs;
	struct symnames names;
	struct kallsyms kernel;
	struct answer cached[N_CACHED];
};

/* ---- Address spaces ---- */

static struct space **space_slot(struct symbolizer *s, pid_t pid)
{
	struct space **p = &s->bucket[(uint32_t)pid % N_BUCKETS];

	while (*p && (*p)->pid != pid)
		p = &(*p)->next;
	return p;
}

static struct space *space_get(struct symbolizer *s, pid_t pid)
{
	struct space **p = space_slot(s, pid);

	if (*p || s->n_spaces == MAX_SPACES)
		return *p;
	*p = calloc(1, sizeof(**p));
	if (*p) {
		(*p)->pid = pid;
		s->n_spaces++;
	}
	return *p;
}

static void space_drop(struct symbolizer *s, pid_t pid)
{
	struct space **p = space_slot(s, pid), *gone = *p;

	if (!gone)
		return;
	*p = gone->next;
	free(gone->map);
	free(gone);
	s->n_spaces--;
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
	struct map *more;

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
static void space_splice(struct space *sp, size_t from, size_t to, const struct map *with,
			 size_t n)
{
	memmove(sp->map + from + n, sp->map + to, (sp->n - to) * sizeof(*sp->map));
	if (n)
		memcpy(sp->map + from, with, n * sizeof(*sp->map));
	sp->n = sp->n + n - (to - from);
}

/* Put @m over whatever was mapped there; with @keep false only cut the hole. */
static void space_insert(struct space *sp, const struct map *m, bool keep)
{
	size_t from = space_find(sp, m->lo), to = from, n = 0;
	struct map with[3];

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

static void space_fork(struct symbolizer *s, pid_t child, pid_t parent)
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
static void map_open(struct symbolizer *s, pid_t pid, const struct map *m)
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
	memset(s->cached, 0, sizeof(s->cached)); /* they were answered without it */
}

/* Our own vdso is every process's: it is the kernel's. */
static void vdso_give(struct symbolizer *s, struct elfcache_elf *e)
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

static void side_mmap(struct symbolizer *s, const struct side *side)
{
	struct elfcache_id id = { .dev = makedev(side->u.mmap.maj, side->u.mmap.min),
				  .ino = side->u.mmap.ino,
				  .generation = side->u.mmap.ino_generation,
				  .path = side->u.mmap.path ? side->u.mmap.path : "" };
	uint64_t len = MIN(side->u.mmap.len, UINT64_MAX - side->u.mmap.addr);
	struct map m = { .lo = side->u.mmap.addr,
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
		elfcache_tables(s->elfs, m.elf);
}

void symbolizer_side(struct symbolizer *s, const struct side *side)
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

/* ---- User addresses ---- */

static bool is_eval_name(const char *name)
{
	static const char eval[] = "_PyEval_EvalFrameDefault", tail[] = "_TAIL_CALL_";
	size_t n = sizeof(eval) - 1;

	return strncmp(name, tail, sizeof(tail) - 1) == 0 ||
	       (strncmp(name, eval, n) == 0 && (name[n] == '\0' || name[n] == '.'));
}

/* "libm.so.6+0x1234"; memory without a file has no offsets worth telling apart. */
static const char *name_offset(struct symbolizer *s, const char *path, uint64_t offset)
{
	char module[256], buf[sizeof(module) + 32];
	const char *base = strrchr(path, '/');

	if (path[0] != '/' && path[0] != '[')
		return symnames_intern(&s->names, "[anon]");
	if (strncmp(path, "//anon", 6) == 0)
		return symnames_intern(&s->names, "[anon]");
	symnames_clean(module, sizeof(module), path[0] == '[' ? path : base + 1);
	if (path[0] == '[' && strcmp(path, "[vdso]") != 0)
		return symnames_intern(&s->names, module);
	snprintf(buf, sizeof(buf), "%s+0x%llx", module, (unsigned long long)offset);
	return symnames_intern(&s->names, buf);
}

static void answer_elf(struct symbolizer *s, pid_t pid, const struct map *m, struct answer *a)
{
	const struct elfcache_tables *t;
	const char *path = elfcache_path(m->elf), *sym;
	uint64_t at = a->ip - m->lo + m->pgoff, start;
	char name[SYMNAMES_MAX];

	if (elfcache_wants_file(m->elf))
		map_open(s, pid, m);
	t = elfcache_tables(s->elfs, m->elf);
	if (!t || !elfcache_vaddr(t, at, &at)) {
		a->name = name_offset(s, path, at);
		return;
	}
	a->eval = elfcache_is_eval_rest(t, at);
	sym = elfcache_symbol(t, at);
	if (!sym) {
		start = elfcache_function(t, at, &start) ? start : at;
		a->name = name_offset(s, path, start);
		return;
	}
	symnames_clean(name, sizeof(name), sym);
	symnames_cut(name);
	a->eval |= is_eval_name(name);
	a->name = symnames_intern(&s->names, name);
}

static struct answer *answer_slot(struct symbolizer *s, uint64_t gen, uint64_t ip)
{
	uint64_t h = (ip ^ gen << 40 ^ gen) * 0x9e3779b97f4a7c15;

	return &s->cached[h >> 32 & (N_CACHED - 1)];
}

/* Name and kind of a user address; stays until the next call. */
static const struct answer *answer_user(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	static const struct answer nothing = { .name = symnames_unknown };
	const struct space *sp = *space_slot(s, pid);
	struct answer *slot, a;
	size_t i;

	if (!sp)
		return &nothing;
	slot = answer_slot(s, sp->gen, ip);
	if (slot->name && slot->gen == sp->gen && slot->ip == ip)
		return slot;
	i = space_find(sp, ip);
	if (i == sp->n || sp->map[i].lo > ip || !sp->map[i].elf)
		return &nothing;
	a = (struct answer){ .gen = sp->gen, .ip = ip };
	answer_elf(s, pid, &sp->map[i], &a);
	*slot = a;
	return slot;
}

const char *symbolize_user(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	return answer_user(s, pid, ip)->name;
}

bool symbolize_is_eval(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	return answer_user(s, pid, ip)->eval;
}

const char *symbolize_kernel(struct symbolizer *s, uint64_t ip)
{
	struct answer *slot = answer_slot(s, 0, ip);

	if (!slot->name || slot->gen != 0 || slot->ip != ip)
		*slot = (struct answer){ .ip = ip,
					 .name = kallsyms_name(&s->kernel, &s->names, ip) };
	return slot->name;
}

struct symbolizer *symbolizer_create(void)
{
	struct symbolizer *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->elfs = elfcache_create(MAX_ELF_BYTES);
	s->names.tab = strtab_create();
	if (!s->elfs || !s->names.tab) {
		symbolizer_destroy(s);
		return NULL;
	}
	return s;
}

void symbolizer_destroy(struct symbolizer *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < N_BUCKETS; i++)
		while (s->bucket[i])
			space_drop(s, s->bucket[i]->pid);
	elfcache_destroy(s->elfs);
	kallsyms_deinit(&s->kernel);
	strtab_destroy(s->names.tab);
	free(s);
}
