/* SPDX-License-Identifier: MIT
 *
 * elfcache_read - a file is read elsewhere: by a thread, which has a process without rights do it.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/stats.h"
#include "elf/debugfile.h"
#include "elf/elfcache_int.h"
#include "elf/file_helper.h"
#include "elf/module.h"
#include "elf/rows.h"
#include "sys/proc.h"

enum {
	QUICK_NS = 1000000, /* to read a file */
	PAUSE_NS = 100000000, /* at least, before one is read again that took longer */
};

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

	elfcache_close_both(g->fd, g->from.root);
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

	for (size_t i = 0; i < ELFCACHE_BUCKETS; i++)
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

void elfcache_take(struct elfcache *c, struct elfcache_elf *e, struct module *m)
{
	if (m && m->rows && !m->memory)
		share_rows(c, m);
	e->module = m;
	e->state = m ? ELF_READ : ELF_BAD;
	c->facts.read += m != NULL;
	elfcache_count_bytes(c, e);
}

/* It is opened and read again when it is asked for next, a few times at most; one that took
 * long after ten times as long, for at the end of a recording it is asked for all the time. */
static void read_again(struct elfcache *c, struct elfcache_elf *e, uint64_t took_ns)
{
	elfcache_note_unread(c);
	e->misses++;
	e->again_ns = took_ns < QUICK_NS ? 0 : now_ns() + MAX(10 * took_ns, (uint64_t)PAUSE_NS);
	e->state = e->image.at ? ELF_IMAGE : ELF_NO_FILE;
}

void elfcache_poll(struct elfcache *c, struct elfcache_elf *e, int ms)
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
	short_of = g->short_of && e->misses < ELFCACHE_MAX_MISSES;
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
		elfcache_take(c, e, m);
}

void elfcache_poll_slow(struct elfcache *c)
{
	for (size_t i = c->n_slow; i > 0; i--)
		if (c->slow[i - 1]->state == ELF_READING)
			elfcache_poll(c, c->slow[i - 1], 0);
}

void elfcache_read(struct elfcache *c, struct elfcache_elf *e)
{
	bool fd = e->state == ELF_FD;
	struct reading *g;

	if (fd && elfcache_is_slow(c, e))
		return;
	g = calloc(1, sizeof(*g));
	if (!g) {
		elfcache_note_unread(c);
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
		elfcache_poll(c, e, elfcache_reading_ms(e));
		return;
	}
	reading_drop(g);
	elfcache_note_unread(c);
}
