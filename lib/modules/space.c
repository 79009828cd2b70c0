/* SPDX-License-Identifier: MIT */
#include "modules/space.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "base/clock.h"
#include "base/hash.h"
#include "elf/module.h"
#include "modules/jit.h"
#include "base/stats.h"
#include "modules/space_file.h"
#include "sys/proc.h"

enum {
	MAX_SPACES = 32768,
	MAX_MAPS = 65536, /* the kernel's own limit a process */
	FEW_MAPS = 256, /* they are moved whatever that takes */
	MOVED_A_SECOND = 32 << 20, /* bytes of one process's maps */
	CHECK_EVERY_NS = 20000000,
	OPEN_EVERY_NS = 5000000, /* files of one process, before a sample needs them */
	OPENS_AT_ONCE = 4096,
	MAX_MISSED = 16, /* files of a process that others could not open either */
	SWEEP_EVERY = 1024, /* files that were added, or refused, until all maps are looked at */
	TIDY_NS = 1000000000, /* between two looks for files to close, and for who has ended */
};

static struct space **space_slot(struct spaces *s, pid_t pid)
{
	struct space **p = &s->bucket[hash_u64((uint32_t)pid) % SPACE_BUCKETS];

	while (*p && (*p)->pid != pid)
		p = &(*p)->next;
	return p;
}

static struct space *space_get(struct spaces *s, pid_t pid)
{
	struct space **p = space_slot(s, pid);

	if (*p)
		return *p;
	if (s->n < MAX_SPACES)
		*p = calloc(1, sizeof(**p));
	if (!*p) {
		space_note_unread(s);
		return NULL;
	}
	(*p)->pid = pid;
	(*p)->of = s;
	s->n++;
	return *p;
}

static struct space *space_take(struct spaces *s, pid_t pid)
{
	struct space **p = space_slot(s, pid), *gone = *p;

	if (!gone)
		return NULL;
	*p = gone->next;
	jit_destroy(gone->jit);
	gone->jit = NULL;
	s->map_bytes -= gone->cap * sizeof(*gone->map);
	s->n--;
	s->untidy = true;
	return gone;
}

static void space_free(struct space *gone)
{
	if (gone)
		free(gone->map);
	free(gone);
}

/* Where the space is kept of @pid, whose main thread has ended. NULL: nowhere. */
static struct space **space_ended(struct spaces *s, pid_t pid)
{
	for (size_t i = 0; i < SPACE_ENDED; i++)
		if (s->ended[i] && s->ended[i]->pid == pid)
			return &s->ended[i];
	return NULL;
}

/* Also what was kept of it. */
static void space_drop(struct spaces *s, pid_t pid)
{
	struct space **kept = space_ended(s, pid);

	space_free(space_take(s, pid));
	if (kept) {
		space_free(*kept);
		*kept = NULL;
	}
}

/* What struct space.whole is as long as no record was lost since: on its way here, too. */
static uint64_t nothing_lost(const struct spaces *s)
{
	return 1 + s->n_lost + (s->stats ? STATS_GET(s->stats, side_lost) : 0);
}

/* From here on all that it maps is told; what was announced by us is what it had mapped. */
static void space_exec(struct spaces *s, const struct side *side)
{
	struct space *sp = *space_slot(s, side->pid);
	uint64_t view = sp ? sp->view : 0, open_ns = sp ? sp->open_ns : 0;

	space_drop(s, side->pid);
	sp = side->announced ? NULL : space_get(s, side->pid);
	if (!sp)
		return;
	sp->view = view;
	sp->open_ns = open_ns;
	sp->since_ns = side->time;
	sp->gen = ++s->last_gen;
	sp->whole = nothing_lost(s);
}

/* True: other threads run on where the main one has ended. */
static bool runs_on(const struct space *ended)
{
	enum proc_memory memory;

	return ended->since_ns && !ended->of->elsewhere &&
	       proc_tgid_memory(ended->pid, &memory) == ended->pid &&
	       memory == PROC_OTHERS_MEMORY && proc_was_there(ended->pid, ended->since_ns);
}

/* Where one more that has ended is kept. One that runs on gives way only to as many others. */
static struct space **place_of_ended(struct spaces *s)
{
	struct space **kept;
	int left = SPACE_ENDED;

	do
		kept = &s->ended[s->n_ended++ % SPACE_ENDED];
	while (*kept && --left && runs_on(*kept));
	return kept;
}

/* At its end a process works on in the kernel, and is sampled there; and it may be its main
 * thread alone that has ended. */
static void space_end(struct spaces *s, pid_t pid, uint64_t time)
{
	struct space *gone = space_take(s, pid), **kept;

	if (!gone || gone->n > SPACE_ENDED_MAPS) {
		space_free(gone);
		return;
	}
	kept = place_of_ended(s);
	space_free(*kept);
	gone->ended_ns = time;
	*kept = gone;
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

/* False: with @add more bytes @sp would have more than is left for all others. */
static bool may_take(const struct space *sp, size_t add)
{
	const struct spaces *s = sp->of;
	size_t left = s->max_map_bytes - s->map_bytes;

	return !s->max_map_bytes ||
	       (add <= left && sp->cap * sizeof(*sp->map) + add <= left - add);
}

static int space_reserve(struct space *sp, size_t n)
{
	size_t cap = MAX(n, sp->cap + sp->cap / 2 + 16), add;
	struct spaces *s = sp->of;
	struct space_map *more;

	if (n <= sp->cap)
		return 0;
	add = (cap - sp->cap) * sizeof(*more);
	if (n > MAX_MAPS || !may_take(sp, add)) {
		if (s->stats)
			STATS_ADD(s->stats, unmapped, 1);
		return -E2BIG;
	}
	more = reallocarray(sp->map, cap, sizeof(*more));
	if (!more) {
		space_note_unread(s);
		return -ENOMEM;
	}
	sp->map = more;
	sp->cap = cap;
	s->map_bytes += add;
	return 0;
}

/* Where each map moves all that are behind it, a process that has many and changes them all the
 * time would take all of our time: false, it has changed too many within a second. */
static bool may_move(struct space *sp, size_t n, uint64_t time)
{
	const uint64_t second = 1000000000;

	if (sp->n <= FEW_MAPS || !n)
		return true;
	if (time < sp->moved_ns)
		return false;
	sp->moved_ns = clock_spend(sp->moved_ns, time,
				   n * sizeof(*sp->map) * second / MOVED_A_SECOND);
	return true;
}

bool space_is_memory(const struct space_map *m)
{
	return !m || !m->elf || jit_is_memory(elfcache_path(m->elf));
}

static void count_memory(struct space *sp, const struct space_map *m, size_t n, int by)
{
	for (size_t i = 0; i < n; i++)
		if (space_is_memory(&m[i]))
			sp->n_memory += (size_t)by;
}

/* Replace maps [from, to) by the @n of @with. */
static void space_splice(struct space *sp, size_t from, size_t to,
			 const struct space_map *with, size_t n)
{
	count_memory(sp, sp->map + from, to - from, -1);
	count_memory(sp, with, n, 1);
	if (to != from + n)
		memmove(sp->map + from + n, sp->map + to, (sp->n - to) * sizeof(*sp->map));
	if (n)
		memcpy(sp->map + from, with, n * sizeof(*sp->map));
	sp->n = sp->n + n - (to - from);
}

/* What was mapped at [from, to) is another, which there is no place for. */
static void space_unname(struct space *sp, size_t from, size_t to)
{
	count_memory(sp, sp->map + from, to - from, -1);
	for (size_t i = from; i < to; i++)
		sp->map[i].elf = NULL;
	sp->n_memory += to - from;
	sp->whole = 0;
	if (sp->of->stats)
		STATS_ADD(sp->of->stats, remapped, 1);
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
		sp->whole = 0;
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
	if (n == to - from || may_move(sp, sp->n - to, m->told_ns))
		space_splice(sp, from, to, with, n);
	else
		space_unname(sp, from, to);
}

static void jit_make(struct space *sp)
{
	struct elfcache *c = sp->of->elfs;

	sp->jit = jit_create(sp->pid, sp->since_ns, elfcache_quota(c), elfcache_reader(c));
}

static void space_fork(struct spaces *s, pid_t child, pid_t parent, uint64_t time)
{
	struct space *from, *to;

	space_drop(s, child);
	from = spaces_find(s, parent);
	to = space_get(s, child);
	if (!to)
		return;
	to->gen = ++s->last_gen;
	to->since_ns = time;
	to->view = from ? from->view : 0;
	to->viewed = from && from->viewed;
	to->open_ns = from ? from->open_ns : 0;
	if (from && from->n == 0)
		to->whole = from->whole;
	if (!from || from->n == 0 || space_reserve(to, from->n) < 0)
		return;
	memcpy(to->map, from->map, from->n * sizeof(*to->map));
	to->n = from->n;
	to->n_memory = from->n_memory;
	to->whole = from->whole;
	to->forked_from = parent;
	if (from->jit)
		jit_make(to);
}

/* ---- Files behind maps ---- */

static void keep_files(struct space *sp)
{
	if (!sp)
		return;
	sp->share = (struct elfcache_share){ 0 };
	for (size_t i = 0; i < sp->n; i++)
		if (sp->map[i].elf)
			elfcache_keep(sp->map[i].elf, &sp->share);
}

static void keep_running(struct spaces *s)
{
	for (size_t i = 0; i < SPACE_BUCKETS; i++)
		for (struct space *sp = s->bucket[i]; sp; sp = sp->next)
			keep_files(sp);
}

static void sweep(struct spaces *s)
{
	keep_running(s);
	for (size_t i = 0; i < SPACE_ENDED; i++)
		keep_files(s->ended[i]);
	for (size_t i = 0; i < s->n_stuck; i++)
		elfcache_keep(s->stuck[i].elf, NULL);
	elfcache_sweep(s->elfs);
	s->n_refused = 0;
	s->n_added = elfcache_facts(s->elfs)->added;
	s->n_opened++;
}

/* Samples of its last moments may come; or its other threads run on. */
static bool may_ask(const struct space *ended, uint64_t now)
{
	return now < ended->ended_ns + TIDY_NS || proc_was_there(ended->pid, ended->since_ns);
}

void spaces_tidy(struct spaces *s, uint64_t now)
{
	if (!s->untidy || now < s->tidy_ns || !elfcache_waiting(s->elfs))
		return;
	s->tidy_ns = now + TIDY_NS;
	s->untidy = false;
	keep_running(s);
	for (size_t i = 0; i < SPACE_ENDED; i++) {
		if (!s->ended[i] || !may_ask(s->ended[i], now))
			continue;
		keep_files(s->ended[i]);
		s->untidy = true;
	}
	elfcache_close_others(s->elfs);
}

struct elfcache_elf *space_elf(struct space *sp, const struct elfcache_id *id)
{
	struct spaces *s = sp->of;
	struct elfcache_elf *e = elfcache_get_for(s->elfs, id, &sp->share);

	if (e || (elfcache_facts(s->elfs)->added - s->n_added < SWEEP_EVERY &&
		  ++s->n_refused < SWEEP_EVERY))
		return e;
	sweep(s);
	return elfcache_get_for(s->elfs, id, &sp->share);
}

/* What others could not open @sp may: they may have put another file at its path. */
static bool wants_file(const struct space *sp, const struct elfcache_elf *elf)
{
	return elfcache_wants_file(elf) || (sp->missed < MAX_MISSED && elfcache_was_missed(elf));
}

/* Let @elf have its file, while the process is there; @needed: its module is wanted now. */
static void map_open(struct space *sp, const struct space_map *m, bool needed)
{
	struct elfcache_stamp stamp;
	int root, fd = space_open(sp, m, &root, &stamp);

	if (fd >= 0) {
		if (wants_file(sp, m->elf))
			elfcache_note_stamp(m->elf, &stamp, m->told_ns);
		(needed ? elfcache_give_fd : elfcache_offer_fd)(sp->of->elfs, m->elf, fd,
								root);
		sp->of->n_opened++;
	} else if (fd != -EAGAIN) {
		elfcache_missed(m->elf);
		sp->missed++;
	}
}

/* True: the file that was read is to be looked at again. Some are each second, for each look takes
 * a thread: those that are not are the next time. */
static bool check_is_due(struct spaces *s, const struct space_map *m)
{
	if (s->elsewhere || m->told_ns < s->check_ns || !elfcache_may_be_old(m->elf, m->told_ns))
		return false;
	s->check_ns = clock_spend(s->check_ns, m->told_ns, CHECK_EVERY_NS);
	return true;
}

/* Another file may have the number of the one that was read by now, or something else be
 * written into it: nobody is told. */
static void map_check(const struct space *sp, const struct space_map *m)
{
	struct elfcache_stamp stamp;

	if (check_is_due(sp->of, m) && space_look(sp, m, &stamp) == 0)
		elfcache_check(sp->of->elfs, m->elf, &stamp);
}

/* Our own vdso is every process's of 64 bits: it is the kernel's. */
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

/* What a map is known by. A process of 32 bits has another vdso, which lies where 64 bits' does
 * not. */
static const char *map_name(const struct spaces *s, const struct space_map *m, const char *path)
{
	bool ours = strcmp(path, "[vdso]") == 0 && (!s->elsewhere || s->same_kernel);

	return ours && m->hi <= (uint64_t)1 << 32 ? "[vdso32]" : path;
}

static bool is_interpreter(const char *path)
{
	const char *base = strrchr(path, '/');

	return base &&
	       (strncmp(base, "/python", 7) == 0 || strncmp(base, "/libpython", 10) == 0);
}

static void jit_learn(struct space *sp, const struct space_map *m)
{
	const struct proc_map pm = space_proc_map(m, elfcache_path(m->elf));
	bool dump = strstr(pm.path, "/jit-") != NULL;

	if (!sp->jit && (dump || jit_is_memory(pm.path)))
		jit_make(sp);
	if (sp->jit && dump)
		jit_mapped(sp->jit, &pm);
}

/* Who maps names without end has them opened when a sample needs them: each takes a thread. */
static bool may_open_more(struct space *sp, uint64_t time)
{
	if (sp->open_ns >= time + (uint64_t)OPENS_AT_ONCE * OPEN_EVERY_NS)
		return false;
	sp->open_ns = MAX(sp->open_ns, time) + OPEN_EVERY_NS;
	return true;
}

/* Of an interpreter some ms that are sure to be needed: before the samples rather than among
 * them. */
static void give_file(struct space *sp, const struct space_map *m)
{
	struct spaces *s = sp->of;
	const char *path = elfcache_path(m->elf);
	bool needed = is_interpreter(path);

	if (strcmp(path, "[vdso]") == 0 && (!s->elsewhere || s->same_kernel))
		vdso_give(s, m->elf);
	else if (!s->later && (needed || !elfcache_is_put_off(m->elf)) &&
		 may_open_more(sp, m->told_ns))
		map_open(sp, m, needed);
	if (needed && !s->later)
		elfcache_module(s->elfs, m->elf);
}

/* Which root it has is asked once, with its first file. */
static uint64_t view_of(struct space *sp)
{
	if (!sp->viewed && !sp->of->elsewhere)
		proc_view(sp->pid, &sp->view);
	sp->viewed = true;
	return sp->view;
}

/* A process whose main thread alone has ended is there again: it maps more. */
static void space_again(struct spaces *s, pid_t pid)
{
	struct space **p = space_slot(s, pid), **kept = *p ? NULL : space_ended(s, pid), *sp;
	size_t bytes = kept ? (*kept)->cap * sizeof(*sp->map) : 0;

	if (!kept || s->n == MAX_SPACES ||
	    (s->max_map_bytes && bytes > s->max_map_bytes - s->map_bytes))
		return;
	*p = sp = *kept;
	*kept = NULL;
	sp->next = NULL;
	sp->whole = 0; /* where records were lost another process may have its number */
	s->map_bytes += bytes;
	s->n++;
	for (size_t i = 0; i < sp->n; i++)
		if (sp->map[i].elf)
			jit_learn(sp, &sp->map[i]);
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
			       .ino = side->u.mmap.ino,
			       .told_ns = side->time };
	bool keep = side->u.mmap.prot & PROT_EXEC;
	struct space *sp;

	if (side->u.mmap.kernel)
		return;
	space_again(s, side->pid);
	sp = space_get(s, side->pid);
	if (!sp)
		return;
	sp->gen = ++s->last_gen;
	if (!sp->since_ns)
		sp->since_ns = side->time;
	if (keep) {
		id.path = map_name(s, &m, id.path);
		id.view = m.ino ? view_of(sp) : 0;
		m.elf = space_elf(sp, &id);
		if (!m.elf)
			space_note_unread(s);
	}
	space_insert(sp, &m, keep);
	if (m.elf) {
		jit_learn(sp, &m);
		map_check(sp, &m);
	}
	if (m.elf && wants_file(sp, m.elf))
		give_file(sp, &m);
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
			space_fork(s, side->pid, side->u.fork.ppid, side->time);
		break;
	case SIDE_COMM:
		if (side->u.comm.exec)
			space_exec(s, side);
		break;
	case SIDE_EXIT:
		if (side->pid == side->tid)
			space_end(s, side->pid, side->time);
		break;
	case SIDE_LOST:
		s->n_lost++;
		break;
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
	s->later = needs & SPACES_LATER;
	s->root = -1;
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
	for (size_t i = 0; i < SPACE_ENDED; i++)
		space_free(s->ended[i]);
	space_file_deinit(s);
	elfcache_destroy(s->elfs);
	free(s);
}

void spaces_limit(struct spaces *s, size_t bytes, struct stats *stats)
{
	s->max_map_bytes = bytes;
	s->stats = stats;
	elfcache_count(s->elfs, stats);
}

void spaces_elsewhere(struct spaces *s, const char *root)
{
	s->elsewhere = true;
	s->root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void spaces_same_kernel(struct spaces *s)
{
	s->same_kernel = true;
}

struct space *spaces_find(struct spaces *s, pid_t pid)
{
	struct space *sp = *space_slot(s, pid), **kept = sp ? NULL : space_ended(s, pid);

	return kept ? *kept : sp;
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
	elfcache_asked_by(sp->of->elfs, m->elf, sp->pid);
	if (wants_file(sp, m->elf))
		map_open(spaces_find(sp->of, sp->pid), m, true);
	return elfcache_module(sp->of->elfs, m->elf);
}

/* Code in no file may be anything. */
static bool holds_none(const struct space *sp, const struct space_map *m)
{
	const struct module *module = space_module(sp, m);

	return module && !module->memory && !module->may_be_python;
}

bool spaces_without_python(struct spaces *s, pid_t pid)
{
	const struct space *sp = spaces_find(s, pid);

	if (!sp || sp->whole != nothing_lost(s))
		return false;
	for (size_t i = 0; i < sp->n; i++)
		if (!holds_none(sp, &sp->map[i]))
			return false;
	return true;
}
