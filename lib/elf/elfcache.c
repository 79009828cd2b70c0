/* SPDX-License-Identifier: MIT
 *
 * elfcache - which files there are, and what is known of each.
 */
#include "elf/elfcache_int.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/quota.h"
#include "elf/file_helper.h"
#include "sys/proc.h"

enum { MAX_LAZY_FDS = 8, MAX_ELFS = 65536, MAX_PATH_BYTES = 16 << 20 };

enum {
	LARGE = 16 << 20, /* bytes of a file that may take 100 ms */
	CHECK_NS = 100000000,
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

static void elf_destroy(struct elfcache *c, struct elfcache_elf *e)
{
	if (e->state == ELF_FD)
		elfcache_close_both(e->fd, e->root);
	later_release(e->later);
	elfcache_forget(c, e);
	free((void *)(uintptr_t)e->id.path);
	free(e);
}

void elfcache_destroy(struct elfcache *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < ELFCACHE_BUCKETS; i++) {
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
	struct elfcache_elf **b = &c->bucket[id_hash(id) % ELFCACHE_BUCKETS], *e;
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
	return e->misses < ELFCACHE_MAX_MISSES && lacks_file(e);
}

bool elfcache_was_missed(const struct elfcache_elf *e)
{
	return e->misses >= ELFCACHE_MAX_MISSES && lacks_file(e);
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

bool elfcache_pending(const struct elfcache_elf *e)
{
	return e->state == ELF_READING || e->state == ELF_FD;
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
	elfcache_drop(c, e);
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
	return !e->kept && e->state != ELF_READING && elfcache_slow_find(c, e) == c->n_slow;
}

size_t elfcache_sweep(struct elfcache *c)
{
	struct elfcache_elf **p, *e;
	size_t before = c->n_elfs;

	for (size_t i = 0; i < ELFCACHE_BUCKETS; i++) {
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
	for (size_t i = 0; i < ELFCACHE_BUCKETS; i++) {
		for (struct elfcache_elf *e = c->bucket[i]; e; e = e->next) {
			bool close = e->state == ELF_FD && !e->kept;

			e->kept = false;
			if (!close)
				continue;
			elfcache_close_both(e->fd, e->root);
			e->state = ELF_NO_FILE;
			c->n_fds--;
		}
	}
}

void elfcache_give_fd(struct elfcache *c, struct elfcache_elf *e, int fd, int root)
{
	if (e->state != ELF_NO_FILE) {
		elfcache_close_both(fd, root);
		return;
	}
	e->fd = fd;
	e->root = root;
	e->state = ELF_FD;
	e->used = ++c->clock;
	if (++c->n_fds > c->most_fds)
		elfcache_read(c, e);
}

void elfcache_offer_fd(struct elfcache *c, struct elfcache_elf *e, int fd, int root)
{
	if (c->n_fds < c->most_fds || e->state != ELF_NO_FILE || e->stamp.bytes <= LARGE) {
		elfcache_give_fd(c, e, fd, root);
		return;
	}
	elfcache_close_both(fd, root);
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
	elfcache_take(c, e, m);
}

const struct module *elfcache_module(struct elfcache *c, struct elfcache_elf *e)
{
	e->used = ++c->clock;
	elfcache_poll_slow(c);
	if (e->state == ELF_FD || e->state == ELF_IMAGE)
		elfcache_read(c, e);
	else if (e->state == ELF_READING)
		elfcache_poll(c, e, 0);
	elfcache_count_bytes(c, e);
	return e->module;
}

const struct elfcache_facts *elfcache_facts(const struct elfcache *c)
{
	return &c->facts;
}
