/* SPDX-License-Identifier: MIT
 *
 * elfcache_slow - files that do not answer: which they are, whose, and how long one waits for
 * others of their device.
 */
#include "base/clock.h"
#include "base/stats.h"
#include "elf/elfcache_int.h"
#include "elf/file_helper.h"
#include "sys/proc.h"

enum {
	PATIENCE_MS = 2000,
	MORE_PATIENCE_MS = 8000, /* for a large file */
	BYTES_A_MS = 64 << 10,
	LESS_PATIENCE = 20, /* times, where a file of the device is slow already, or too many are */
	MAX_SLOW_OF_DEVICE = 3,
};

/* As long may be waited at once. */
#define WAITS_AT_ONCE_NS ((uint64_t)20000000000)

void elfcache_note_unread(const struct elfcache *c)
{
	if (c->stats)
		STATS_ADD(c->stats, unread, 1);
}

size_t elfcache_slow_find(const struct elfcache *c, const struct elfcache_elf *e)
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
	size_t i = elfcache_slow_find(c, e);

	if (slow && i == c->n_slow && i < ELFCACHE_MAX_SLOW) {
		user_of(e);
		c->slow[c->n_slow++] = e;
		file_helper_slow(c->helper, e->id.path);
	}
	if (!slow && i < c->n_slow)
		c->slow[i] = c->slow[--c->n_slow];
}

void elfcache_asked_by(const struct elfcache *c, struct elfcache_elf *e, pid_t pid)
{
	if (e->asked_by == pid || elfcache_slow_find(c, e) < c->n_slow)
		return;
	e->asked_by = pid;
	e->user = PROC_NOBODY;
}

static bool same_device(const struct elfcache_elf *a, const struct elfcache_elf *b)
{
	return a->id.dev == b->id.dev && a->id.view == b->id.view;
}

static bool is_any_of_device(const struct elfcache *c, const struct elfcache_elf *e)
{
	for (size_t i = 0; i < c->n_slow; i++)
		if (same_device(c->slow[i], e))
			return true;
	return false;
}

/* True: one before the @i-th is of its device, too, and of the same process; or of the same user,
 * who is not @user. */
static bool is_further(const struct elfcache *c, size_t i, uid_t user)
{
	const struct elfcache_elf *e = c->slow[i], *before;

	while (i-- > 0) {
		before = c->slow[i];
		if (same_device(before, e) &&
		    (before->asked_by == e->asked_by ||
		     (before->user == e->user && e->user != user)))
			return true;
	}
	return false;
}

/* Those of the process that asks for @e, one of each other process of its user, and one of each
 * other user: a file can be slow for what is in it, by which no user must take the device from
 * all. */
static size_t slow_of_device(const struct elfcache *c, struct elfcache_elf *e)
{
	uid_t user;
	size_t n = 0;

	if (!is_any_of_device(c, e))
		return 0;
	user = user_of(e);
	for (size_t i = 0; i < c->n_slow; i++)
		n += same_device(c->slow[i], e) &&
		     (c->slow[i]->asked_by == e->asked_by || !is_further(c, i, user));
	return n;
}

/* True: one more of its user would be more than what is left for all others. */
static bool is_crowded(const struct elfcache *c, struct elfcache_elf *e)
{
	size_t own = 0;
	uid_t user;

	if (2 * c->n_slow < ELFCACHE_MAX_SLOW) /* whosever they are */
		return false;
	user = user_of(e);
	for (size_t i = 0; i < c->n_slow; i++)
		own += c->slow[i]->user == user;
	return c->n_slow + own >= ELFCACHE_MAX_SLOW;
}

bool elfcache_is_slow(const struct elfcache *c, struct elfcache_elf *e)
{
	if (elfcache_slow_find(c, e) < c->n_slow)
		return true;
	if (slow_of_device(c, e) < MAX_SLOW_OF_DEVICE && !is_crowded(c, e))
		return false;
	if (!e->crowded)
		elfcache_note_unread(c);
	e->crowded = true;
	return true;
}

int elfcache_reading_ms(const struct elfcache_elf *e)
{
	return PATIENCE_MS + (int)MIN(e->stamp.bytes / BYTES_A_MS, (uint64_t)MORE_PATIENCE_MS);
}

int elfcache_patience(const struct elfcache *c, const struct elfcache_elf *e, int ms)
{
	bool less = is_any_of_device(c, e) ||
		    c->wait_ns > now_ns() + WAITS_AT_ONCE_NS * ELFCACHE_WAIT_SHARE;

	return less ? ms / LESS_PATIENCE : ms;
}

bool elfcache_await(struct elfcache *c, const struct elfcache_elf *e, struct later *l, int ms)
{
	uint64_t start = now_ns();
	bool done = later_wait(l, elfcache_patience(c, e, ms));

	c->wait_ns = MAX(c->wait_ns, start) + (now_ns() - start) * ELFCACHE_WAIT_SHARE;
	return done;
}
