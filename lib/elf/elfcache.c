/* SPDX-License-Identifier: MIT
 *
 * elfcache - which files there are, which is read just now, and what is dropped when the cache
 * is full.
 */
#include "elf/elfcache.h"

#include <errno.h>

#include "base/hash.h"
#include "base/clock.h"
#include "base/later.h"
#include "base/quota.h"
#include "base/stats.h"
#include "elf/debugfile.h"
#include "elf/file_helper.h"
#include "elf/module.h"
#include "elf/rows.h"
#include "sys/proc.h"

enum { MAX_LAZY_FDS = 8, MAX_ELFS = 65536, MAX_PATH_BYTES = 16 << 20, N_BUCKETS = 1024 };

/* Bytes of a file that may take 100 ms. */
enum { LARGE = 16 << 20 };

enum {
	PATIENCE_MS = 2000,
	MORE_PATIENCE_MS = 8000, /* for a large file */
	BYTES_A_MS = 64 << 10,
	LESS_PATIENCE = 20, /* times, where a file of the device is slow already, or too many are */
	WAIT_SHARE = 10,    /* of the time one in so many parts may be waited */
	MAX_SLOW = 32,
	MAX_SLOW_OF_DEVICE = 3,
	MAX_MISSES = 64,
	QUICK_NS = 1000000, /* to read a file */
	PAUSE_NS = 100000000, /* at least, before one is read again that took longer */
	CHECK_NS = 100000000,
	IDLE = 10000, /* lookups: what was not asked for since makes room even where there is
			 little */
};

/* As long may be waited at once. */
#define WAITS_AT_ONCE_NS ((uint64_t)20000000000)

enum elf_state { ELF_NO_FILE, ELF_FD, ELF_IMAGE, ELF_READING, ELF_READ, ELF_BAD };

struct elfcache_elf {
	struct elfcache_elf *next; /* in its bucket */
	struct elfcache_id id;
	enum elf_state state;
	int fd, root; /* ELF_FD */
	struct bytes image;
	struct later *later; /* ELF_READING */
	struct reading *reading;
	struct module *module; /* ELF_READ; NULL: dropped, or nothing could be made */
	size_t bytes;	       /* of it, as counted last */
	unsigned char build_id[ELFIMAGE_MAX_ID];
	size_t n_id;
	unsigned misses, bad_ends;
	uint64_t again_ns; /* it is read again from then on; 0: it was not, or lacked nothing */
	struct elfcache_stamp stamp; /* changed_ns 0: none was noted */
	uint64_t checked_ns;	     /* it was so then */
	uint64_t version;
	uint64_t used; /* elfcache.clock at the last lookup */
	uint64_t gone; /* elfcache.clock when it made room for others last; 0: it never did */
	pid_t asked_by;
	uid_t user; /* whose that is; PROC_NOBODY: not looked up, or not known */
	bool crowded; /* counted: others of that user are slow, and leave it no place */
	bool kept;     /* elfcache_keep() */
	bool put_off;  /* elfcache_is_put_off() */
};

struct elfcache {
	struct elfcache_elf *bucket[N_BUCKETS];
	size_t n_elfs, n_fds, most_fds, bytes, max_bytes;
	size_t most_bytes; /* elfcache_may_grow(); 0: it may not */
	size_t path_bytes;
	uint64_t clock, last_version;
	uint64_t wait_ns; /* what was waited is WAIT_SHARE of the time by then */
	struct elfcache_facts facts;
	struct elfcache_elf *slow[MAX_SLOW]; /* files that take too long */
	size_t n_slow;
	struct file_helper *helper; /* or NULL */
	struct quota *quota;
	struct stats *stats; /* or NULL */
	bool rows, little;
};

struct elfcache *elfcache_create(size_t max_bytes, bool rows)
{
	struct elfcache *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->max_bytes = max_bytes, c->rows = rows;
	c->most_fds = MAX_LAZY_FDS;
	c->quota = quota_create();
	if (c->quota)
		return c;
	free(c);
	return NULL;
}

void elfcache_count(struct elfcache *c, struct stats *stats)
{
	c->stats = stats;
}

void elfcache_has_little(struct elfcache *c)
{
	c->little = true;
}

void elfcache_may_grow(struct elfcache *c, size_t bytes)
{
	c->most_bytes = MAX(c->max_bytes, bytes);
}

void elfcache_may_hold(struct elfcache *c, size_t n)
{
	c->most_fds = MAX(c->most_fds, n);
}

void elfcache_read_by(struct elfcache *c, struct file_helper *h)
{
	c->helper = file_helper_ref(h);
}

struct file_helper *elfcache_reader(const struct elfcache *c)
{
	return c->helper;
}

struct quota *elfcache_quota(const struct elfcache *c)
{
	return c->quota;
}

static void close_both(int fd, int root)
{
	if (fd >= 0)
		close(fd);
	if (root >= 0)
		close(root);
}

static void elf_forget(struct elfcache *c, struct elfcache_elf *e)
{
	c->bytes -= e->bytes;
	e->bytes = 0;
	module_free(e->module);
	e->module = NULL;
}

static void elf_destroy(struct elfcache *c, struct elfcache_elf *e)
{
	if (e->state == ELF_FD)
		close_both(e->fd, e->root);
	later_release(e->later);
	elf_forget(c, e);
	free((void *)(uintptr_t)e->id.path);
	free(e);
}

void elfcache_destroy(struct elfcache *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < N_BUCKETS; i++) {
		for (struct elfcache_elf *e = c->bucket[i], *next; e; e = next) {
			next = e->next;
			elf_destroy(c, e);
		}
	}
	file_helper_unref(c->helper);
	quota_unref(c->quota);
	free(c);
}

static bool id_same(const struct elfcache_id *a, const struct elfcache_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->view == b->view &&
	       (!a->generation || !b->generation || a->generation == b->generation) &&
	       strcmp(a->path, b->path) == 0;
}

/* All of what id_same() compares but for the generation, which may be unknown. */
static uint64_t id_hash(const struct elfcache_id *id)
{
	uint64_t hash = hash_bytes(hash_seed.begin, id->path, strlen(id->path));

	hash = hash_more(hash_more(hash, id->view), id->ino);
	return hash_more(hash_more(hash, id->dev), 0);
}

static void share_add(struct elfcache_share *share, size_t path_bytes)
{
	if (!share)
		return;
	share->files++;
	share->path_bytes += path_bytes;
}

/* True: there is room for a file more, and as much is left as @share has then. */
static bool may_add(const struct elfcache *c, const struct elfcache_share *share,
		    size_t path_bytes)
{
	size_t files = MAX_ELFS - c->n_elfs, bytes = MAX_PATH_BYTES - c->path_bytes;

	if (!files || path_bytes > bytes)
		return false;
	return !share || (share->files < files &&
			  share->path_bytes + path_bytes <= bytes - path_bytes);
}

struct elfcache_elf *elfcache_get(struct elfcache *c, const struct elfcache_id *id)
{
	return elfcache_get_for(c, id, NULL);
}

struct elfcache_elf *elfcache_get_for(struct elfcache *c, const struct elfcache_id *id,
				      struct elfcache_share *share)
{
	struct elfcache_elf **b = &c->bucket[id_hash(id) % N_BUCKETS], *e;
	size_t n;

	for (e = *b; e; e = e->next) {
		c->facts.compared++;
		if (!id_same(&e->id, id))
			continue;
		if (!e->id.generation)
			e->id.generation = id->generation;
		return e;
	}
	n = strlen(id->path) + 1;
	if (!may_add(c, share, n))
		return NULL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->id = *id;
	e->id.path = strdup(id->path);
	if (!e->id.path) {
		free(e);
		return NULL;
	}
	e->user = PROC_NOBODY;
	e->version = ++c->last_version;
	e->next = *b;
	*b = e;
	c->n_elfs++;
	c->path_bytes += n;
	c->facts.added++;
	share_add(share, n);
	return e;
}

const char *elfcache_path(const struct elfcache_elf *e)
{
	return e->id.path;
}

static bool lacks_file(const struct elfcache_elf *e)
{
	return e->state == ELF_NO_FILE && (!e->again_ns || now_ns() >= e->again_ns);
}

bool elfcache_wants_file(const struct elfcache_elf *e)
{
	return e->misses < MAX_MISSES && lacks_file(e);
}

bool elfcache_was_missed(const struct elfcache_elf *e)
{
	return e->misses >= MAX_MISSES && lacks_file(e);
}

void elfcache_missed(struct elfcache_elf *e)
{
	e->misses++;
}

void elfcache_note_id(struct elfcache_elf *e, struct bytes id)
{
	e->n_id = MIN(id.n, sizeof(e->build_id));
	memcpy(e->build_id, id.at, e->n_id);
}

struct bytes elfcache_build_id(const struct elfcache_elf *e)
{
	return (struct bytes){ e->build_id, e->n_id };
}

/* ---- Files that do not answer ---- */

static void note_unread(const struct elfcache *c)
{
	if (c->stats)
		STATS_ADD(c->stats, unread, 1);
}

static size_t slow_find(const struct elfcache *c, const struct elfcache_elf *e)
{
	size_t i = 0;

	while (i < c->n_slow && c->slow[i] != e)
		i++;
	return i;
}

/* Whose process asks for it. */
static uid_t user_of(struct elfcache_elf *e)
{
	if (e->user == PROC_NOBODY)
		e->user = proc_user(e->asked_by);
	return e->user;
}

void elfcache_slow(struct elfcache *c, struct elfcache_elf *e, bool slow)
{
	size_t i = slow_find(c, e);

	if (slow && i == c->n_slow && i < MAX_SLOW) {
		user_of(e);
		c->slow[c->n_slow++] = e;
		file_helper_slow(c->helper, e->id.path);
	}
	if (!slow && i < c->n_slow)
		c->slow[i] = c->slow[--c->n_slow];
}

void elfcache_asked_by(const struct elfcache *c, struct elfcache_elf *e, pid_t pid)
{
	if (e->asked_by == pid || slow_find(c, e) < c->n_slow)
		return;
	e->asked_by = pid;
	e->user = PROC_NOBODY;
}

static bool same_device(const struct elfcache_elf *a, const struct elfcache_elf *b)
{
	return a->id.dev == b->id.dev && a->id.view == b->id.view;
}

/* True: one before the @i-th is of its device, too, and of the same process. */
static bool is_further(const struct elfcache *c, size_t i)
{
	const struct elfcache_elf *e = c->slow[i];

	while (i-- > 0)
		if (same_device(c->slow[i], e) && c->slow[i]->asked_by == e->asked_by)
			return true;
	return false;
}

/* Those of the process that asks for @e, and one of each other's: a file can be slow for what is
 * in it, by which one process must not take the device from all. */
static size_t slow_of_device(const struct elfcache *c, const struct elfcache_elf *e)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_slow; i++)
		n += same_device(c->slow[i], e) &&
		     (c->slow[i]->asked_by == e->asked_by || !is_further(c, i));
	return n;
}

/* True: one more of its user would be more than what is left for all others. */
static bool is_crowded(const struct elfcache *c, struct elfcache_elf *e)
{
	size_t own = 0;
	uid_t user;

	if (2 * c->n_slow < MAX_SLOW) /* whosever they are */
		return false;
	user = user_of(e);
	for (size_t i = 0; i < c->n_slow; i++)
		own += c->slow[i]->user == user;
	return c->n_slow + own >= MAX_SLOW;
}

bool elfcache_is_slow(const struct elfcache *c, struct elfcache_elf *e)
{
	if (slow_find(c, e) < c->n_slow || slow_of_device(c, e) >= MAX_SLOW_OF_DEVICE)
		return true;
	if (!is_crowded(c, e))
		return false;
	if (!e->crowded)
		note_unread(c);
	e->crowded = true;
	return true;
}

int elfcache_reading_ms(const struct elfcache_elf *e)
{
	return PATIENCE_MS + (int)MIN(e->stamp.bytes / BYTES_A_MS, (uint64_t)MORE_PATIENCE_MS);
}

int elfcache_patience(const struct elfcache *c, const struct elfcache_elf *e, int ms)
{
	bool less = slow_of_device(c, e) ||
		    c->wait_ns > now_ns() + WAITS_AT_ONCE_NS * WAIT_SHARE;

	return less ? ms / LESS_PATIENCE : ms;
}

bool elfcache_await(struct elfcache *c, const struct elfcache_elf *e, struct later *l, int ms)
{
	uint64_t start = now_ns();
	bool done = later_wait(l, elfcache_patience(c, e, ms));

	c->wait_ns = MAX(c->wait_ns, start) + (now_ns() - start) * WAIT_SHARE;
	return done;
}

bool elfcache_pending(const struct elfcache_elf *e)
{
	return e->state == ELF_READING || e->state == ELF_FD;
}

/* Who keeps what a module's rows said looks at how many were dropped. */
static void elf_drop(struct elfcache *c, struct elfcache_elf *e)
{
	c->facts.dropped++;
	elf_forget(c, e);
}

/* The module that was not asked for longest, other than @keep's. */
static struct elfcache_elf *find_oldest(const struct elfcache *c,
					const struct elfcache_elf *keep)
{
	struct elfcache_elf *oldest = NULL;

	for (size_t i = 0; i < N_BUCKETS; i++)
		for (struct elfcache_elf *e = c->bucket[i]; e; e = e->next)
			if (e != keep && e->state == ELF_READ && e->module &&
			    (!oldest || e->used < oldest->used))
				oldest = e;
	return oldest;
}

/* It made room a moment ago and is here again: those that are in use have too little. */
static bool goes_round(const struct elfcache *c, const struct elfcache_elf *e)
{
	return c->most_bytes && e->gone && c->clock - e->gone < IDLE;
}

/* Where there is too little, two that are asked for in turn would be read again and again. */
static void make_room(struct elfcache *c, const struct elfcache_elf *keep, bool tight)
{
	uint64_t idle = tight ? IDLE : 0;
	struct elfcache_elf *e;

	while (c->bytes > c->max_bytes && (e = find_oldest(c, keep)) &&
	       c->clock - e->used >= idle) {
		elf_drop(c, e);
		e->gone = c->clock;
		e->state = e->image.at ? ELF_IMAGE : ELF_NO_FILE;
	}
}

/* ---- Files that change ---- */

void elfcache_note_stamp(struct elfcache_elf *e, const struct elfcache_stamp *stamp,
			 uint64_t time)
{
	e->stamp = *stamp;
	e->checked_ns = time;
}

bool elfcache_may_be_old(struct elfcache_elf *e, uint64_t time)
{
	if (e->state != ELF_READ || !e->stamp.changed_ns || time < e->checked_ns + CHECK_NS)
		return false;
	e->checked_ns = time;
	return true;
}

bool elfcache_check(struct elfcache *c, struct elfcache_elf *e,
		    const struct elfcache_stamp *stamp)
{
	if (e->state != ELF_READ || (stamp->bytes == e->stamp.bytes &&
				     stamp->changed_ns == e->stamp.changed_ns))
		return false;
	elf_drop(c, e);
	e->state = ELF_NO_FILE;
	e->misses = 0;
	e->again_ns = 0;
	e->version = ++c->last_version;
	return true;
}

uint64_t elfcache_version(const struct elfcache_elf *e)
{
	return e->version;
}

/* ---- Files that nobody maps any more ---- */

void elfcache_keep(struct elfcache_elf *e, struct elfcache_share *share)
{
	if (!e->kept)
		share_add(share, strlen(e->id.path) + 1);
	e->kept = true;
}

static bool may_go(const struct elfcache *c, const struct elfcache_elf *e)
{
	return !e->kept && e->state != ELF_READING && slow_find(c, e) == c->n_slow;
}

size_t elfcache_sweep(struct elfcache *c)
{
	struct elfcache_elf **p, *e;
	size_t before = c->n_elfs;

	for (size_t i = 0; i < N_BUCKETS; i++) {
		for (p = &c->bucket[i]; (e = *p);) {
			bool go = may_go(c, e);

			e->kept = false;
			if (!go) {
				p = &e->next;
				continue;
			}
			*p = e->next;
			c->n_elfs--;
			c->n_fds -= e->state == ELF_FD;
			c->path_bytes -= strlen(e->id.path) + 1;
			elf_destroy(c, e);
		}
	}
	c->facts.dropped += before - c->n_elfs;
	return before - c->n_elfs;
}

size_t elfcache_waiting(const struct elfcache *c)
{
	return c->n_fds;
}

void elfcache_close_others(struct elfcache *c)
{
	for (size_t i = 0; i < N_BUCKETS; i++) {
		for (struct elfcache_elf *e = c->bucket[i]; e; e = e->next) {
			bool close = e->state == ELF_FD && !e->kept;

			e->kept = false;
			if (!close)
				continue;
			close_both(e->fd, e->root);
			e->state = ELF_NO_FILE;
			c->n_fds--;
		}
	}
}

/* ---- Reading, elsewhere ---- */

struct reading {
	bool rows;
	int fd;
	struct bytes image;
	struct debugfile_origin from;
	char *path;
	struct file_helper *helper; /* who reads; NULL: we do */
	struct module *module;	    /* NULL: it could not be read */
	bool short_of;		    /* it was not read whole: memory or descriptors had run out */
	bool bad_end;		    /* who read it ended, or answered what can't be */
	uint64_t ns;		    /* that it took */
};

/* What is left out of a module for want of memory is left out like what a file does not have:
 * only errno tells. */
static int read_here(struct reading *g, struct module *m)
{
	int r;

	errno = 0;
	r = module_read(m, g->fd, g->image, &g->from, g->rows);
	g->short_of = proc_is_short(-errno);
	return r;
}

static int read_there(struct reading *g, struct module *m)
{
	int r = file_helper_read(g->helper, m, g->fd, &g->from, g->rows);

	g->short_of = r == -EAGAIN;
	g->bad_end = r == -EPROTO || r == -EPIPE;
	return r;
}

static void reading_run(void *arg)
{
	struct reading *g = arg;
	uint64_t start = now_ns();
	struct module *m = malloc(sizeof(*m));

	g->short_of = !m;
	if (m && (g->helper && g->fd >= 0 ? read_there(g, m) : read_here(g, m)) == 0)
		g->module = m;
	else
		free(m);
	g->ns = now_ns() - start;
}

static void reading_drop(void *arg)
{
	struct reading *g = arg;

	close_both(g->fd, g->from.root);
	file_helper_unref(g->helper);
	module_free(g->module);
	free(g->path);
	free(g);
}

/* Copies of one file are several files: they share one's rows. */
static void share_rows(struct elfcache *c, struct module *m)
{
	const struct elfcache_elf *e;
	struct rows *same;

	for (size_t i = 0; i < N_BUCKETS; i++)
		for (e = c->bucket[i]; e; e = e->next) {
			same = e->module ? e->module->rows : NULL;
			if (!same || !rows_equal(same, m->rows))
				continue;
			rows_put(m->rows);
			m->rows = same;
			same->refs++;
			c->facts.shared++;
			return;
		}
}

static struct elfcache_elf *find_largest(const struct elfcache *c)
{
	struct elfcache_elf *largest = NULL;

	for (size_t i = 0; i < N_BUCKETS; i++)
		for (struct elfcache_elf *e = c->bucket[i]; e; e = e->next)
			if (e->module && (!largest || e->bytes > largest->bytes))
				largest = e;
	return largest;
}

static void give_up(struct elfcache *c, struct elfcache_elf *e)
{
	elf_drop(c, e);
	e->state = ELF_BAD;
	if (c->stats)
		STATS_ADD(c->stats, nameless, 1);
}

/* A module's rows grow. Where there is little room, one that has none is given up; where those
 * in use have too little, the largest of them: others are on more stacks. */
static void count_bytes(struct elfcache *c, struct elfcache_elf *e)
{
	size_t bytes = e->module ? module_bytes(e->module) : 0;
	bool grows = goes_round(c, e);
	struct elfcache_elf *large;

	if (bytes == e->bytes)
		return;
	c->bytes += bytes - e->bytes;
	e->bytes = bytes;
	if (grows)
		c->max_bytes = MAX(c->max_bytes, MIN(c->bytes, c->most_bytes));
	make_room(c, e, c->little || grows);
	if (c->bytes > c->max_bytes && c->little)
		give_up(c, e);
	while (grows && c->bytes > c->max_bytes && (large = find_largest(c)))
		give_up(c, large);
}

static void take_module(struct elfcache *c, struct elfcache_elf *e, struct module *m)
{
	if (m && m->rows && !m->memory)
		share_rows(c, m);
	e->module = m;
	e->state = m ? ELF_READ : ELF_BAD;
	c->facts.read += m != NULL;
	count_bytes(c, e);
}

/* It is opened and read again when it is asked for next, a few times at most; one that took
 * long after ten times as long, for at the end of a recording it is asked for all the time. */
static void read_again(struct elfcache *c, struct elfcache_elf *e, uint64_t took_ns)
{
	note_unread(c);
	e->misses++;
	e->again_ns = took_ns < QUICK_NS ? 0 : now_ns() + MAX(10 * took_ns, (uint64_t)PAUSE_NS);
	e->state = e->image.at ? ELF_IMAGE : ELF_NO_FILE;
}

/* Take what was read, once it was. */
static void elf_poll(struct elfcache *c, struct elfcache_elf *e, int ms)
{
	bool done = elfcache_await(c, e, e->later, ms);
	struct reading *g = e->reading;
	bool short_of, bad_end;
	uint64_t took_ns;
	struct module *m;

	elfcache_slow(c, e, !done);
	if (!done)
		return;
	took_ns = g->ns;
	bad_end = g->bad_end;
	short_of = g->short_of && e->misses < MAX_MISSES;
	m = short_of ? NULL : g->module;
	if (!short_of)
		g->module = NULL;
	c->facts.ns += took_ns;
	later_release(e->later);
	e->later = NULL;
	if (short_of)
		read_again(c, e, took_ns);
	else if (bad_end)
		e->state = file_helper_bad_end(c->helper, e->id.path, ++e->bad_ends) ?
				   ELF_BAD :
				   ELF_NO_FILE;
	else
		take_module(c, e, m);
}

/* Files that took too long, and that nobody may ask for again. */
static void slow_poll(struct elfcache *c)
{
	for (size_t i = c->n_slow; i > 0; i--)
		if (c->slow[i - 1]->state == ELF_READING)
			elf_poll(c, c->slow[i - 1], 0);
}

static void elf_read(struct elfcache *c, struct elfcache_elf *e)
{
	bool fd = e->state == ELF_FD;
	struct reading *g;

	if (fd && elfcache_is_slow(c, e))
		return;
	g = calloc(1, sizeof(*g));
	if (!g) {
		note_unread(c);
		return;
	}
	*g = (struct reading){ .rows = c->rows,
			       .fd = fd ? e->fd : -1,
			       .image = e->image,
			       .helper = file_helper_ref(c->helper),
			       .path = strdup(e->id.path) };
	g->from = (struct debugfile_origin){ .root = fd ? e->root : -1,
					     .path = g->path ? g->path : "" };
	c->n_fds -= fd;
	e->reading = g;
	e->later = later_start(c->quota, reading_run, reading_drop, g);
	e->state = e->later ? ELF_READING : fd ? ELF_NO_FILE : ELF_IMAGE;
	if (e->later) {
		elf_poll(c, e, elfcache_reading_ms(e));
		return;
	}
	reading_drop(g);
	note_unread(c);
}

void elfcache_give_fd(struct elfcache *c, struct elfcache_elf *e, int fd, int root)
{
	if (e->state != ELF_NO_FILE) {
		close_both(fd, root);
		return;
	}
	e->fd = fd;
	e->root = root;
	e->state = ELF_FD;
	e->used = ++c->clock;
	if (++c->n_fds > c->most_fds)
		elf_read(c, e);
}

void elfcache_offer_fd(struct elfcache *c, struct elfcache_elf *e, int fd, int root)
{
	if (c->n_fds < c->most_fds || e->state != ELF_NO_FILE || e->stamp.bytes <= LARGE) {
		elfcache_give_fd(c, e, fd, root);
		return;
	}
	close_both(fd, root);
	e->put_off = true;
}

bool elfcache_is_put_off(const struct elfcache_elf *e)
{
	return e->put_off;
}

void elfcache_give_image(struct elfcache *c, struct elfcache_elf *e, struct bytes image)
{
	if (e->state != ELF_NO_FILE)
		return;
	e->image = image;
	e->state = ELF_IMAGE;
}

void elfcache_give_module(struct elfcache *c, struct elfcache_elf *e, struct module *m)
{
	e->used = ++c->clock;
	take_module(c, e, m);
}

const struct module *elfcache_module(struct elfcache *c, struct elfcache_elf *e)
{
	e->used = ++c->clock;
	slow_poll(c);
	if (e->state == ELF_FD || e->state == ELF_IMAGE)
		elf_read(c, e);
	else if (e->state == ELF_READING)
		elf_poll(c, e, 0);
	count_bytes(c, e);
	return e->module;
}

const struct elfcache_facts *elfcache_facts(const struct elfcache *c)
{
	return &c->facts;
}
