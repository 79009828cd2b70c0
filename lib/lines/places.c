/* SPDX-License-Identifier: MIT */
#include "lines/places.h"

#include <errno.h>

#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "modules/space_file.h"
#include "elf/file_helper.h"
#include "lines/srcline.h"
#include "base/stats.h"
#include "names/symnames.h"

enum {
	MAX_PLACES = 1 << 20,
	MAX_VADDR_BITS = 47,
	FILE_MS = 20000,
	ALL_MS = 60000,
	FETCH_TIMES = 5, /* as long where files come from a server */
};

struct place {
	uint64_t vaddr;
	uint32_t file;
	uint32_t first, n; /* of places.frame */
	bool is_symbol, plain;
	bool cut; /* no room for all its frames: it has none */
	const char *name;
};

struct file {
	uint64_t version; /* elfcache_version() */
	int fd, root;	  /* fd < 0: it can't be had */
	char *path;
};

struct places {
	struct srcline *lines; /* who is asked */
	struct file_helper *files; /* who opens them; or NULL */
	bool debuginfod, resolved;
	struct stats *stats;
	struct file file[PLACES_MAX_FILES];
	size_t n_files;
	struct place *place; /* place number 1 is the first */
	uint32_t n;
	size_t cap;
	struct idmap numbers; /* file, plain and vaddr to number */
	struct symnames names;
	struct places_frame *frame;
	uint32_t n_frames;
	size_t cap_frames;
	/* while a file's places are asked for */
	uint32_t *order; /* of places, by file and vaddr */
	size_t from;	 /* the file's first in it */
	size_t n_asked;
	size_t max_bytes;	   /* places_limit() */
	struct places_frame alone; /* of a place that there was no room for more of */
};

static ssize_t ask_name(void *arg, const char *raw, char *buf, size_t cap)
{
	const struct places *p = arg;

	return file_helper_demangle(p->files, raw, buf, cap, FILE_HELPER_NAME_MS);
}

struct places *places_create(struct srcline *lines, bool debuginfod, struct stats *stats)
{
	struct places *p = calloc(1, sizeof(*p));

	if (!p || symnames_init(&p->names) < 0) {
		free(p);
		return NULL;
	}
	symnames_ask(&p->names, ask_name, p);
	p->lines = lines;
	p->debuginfod = debuginfod;
	p->stats = stats;
	p->max_bytes = SIZE_MAX;
	return p;
}

uint64_t places_cpu_ns(const struct places *p)
{
	return p ? srcline_cpu_ns(p->lines) : 0;
}

void places_limit(struct places *p, size_t bytes)
{
	p->max_bytes = bytes;
	symnames_limit(&p->names, bytes / 4, p->stats);
}

static bool is_full(const struct places *p, size_t most)
{
	return p->cap * sizeof(*p->place) + p->cap_frames * sizeof(*p->frame) +
		       p->names.bytes + idmap_bytes(&p->numbers) >
	       most;
}

static void file_close(struct file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	if (f->root >= 0)
		close(f->root);
	f->fd = f->root = -1;
}

void places_destroy(struct places *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_files; i++) {
		file_close(&p->file[i]);
		free(p->file[i].path);
	}
	symnames_deinit(&p->names);
	idmap_deinit(&p->numbers);
	free(p->place);
	free(p->frame);
	free(p);
}

/* --- what was seen --- */

/* The number of a file; -1: there is none. One that can't be had is not tried again. */
static int file_of(struct places *p, const struct space *sp, const struct space_map *m)
{
	struct file *f = p->file;
	struct elfcache_stamp unused;
	int root = -1, fd;

	for (size_t i = 0; i < p->n_files; i++, f++)
		if (f->version == elfcache_version(m->elf))
			return f->fd < 0 ? -1 : (int)i;
	if (p->n_files == PLACES_MAX_FILES) {
		STATS_ADD(p->stats, unplaced, 1);
		return -1;
	}
	p->files = elfcache_reader(sp->of->elfs);
	fd = space_open(sp, m, &root, &unused);
	if (fd == -EAGAIN)
		return -1;
	*f = (struct file){ .version = elfcache_version(m->elf),
			    .fd = fd,
			    .root = root,
			    .path = strdup(elfcache_path(m->elf)) };
	if (!f->path)
		file_close(f);
	p->n_files++;
	return f->fd < 0 ? -1 : (int)p->n_files - 1;
}

static uint32_t place_add(struct places *p, const struct place *new)
{
	if (!array_reserve(&p->place, &p->cap, p->n + 1, sizeof(*p->place)))
		return 0;
	p->place[p->n] = *new;
	return ++p->n;
}

uint32_t places_add(struct places *p, const struct space *sp, const struct space_map *m,
		    uint64_t vaddr, const char *name, bool is_symbol, bool plain)
{
	int file = p->resolved || !m->ino || vaddr >> MAX_VADDR_BITS ? -1 : file_of(p, sp, m);
	uint64_t key = ((uint64_t)file << 1 | plain) << MAX_VADDR_BITS | vaddr;
	uint32_t number;

	if (file < 0)
		return 0;
	number = idmap_get(&p->numbers, key);
	if (number != IDMAP_NONE)
		return number;
	/* Half is for their lines, which come later. */
	if (p->n == MAX_PLACES || is_full(p, p->max_bytes / 2)) {
		STATS_ADD(p->stats, unplaced, 1);
		return 0;
	}
	number = place_add(p, &(struct place){ .vaddr = vaddr,
					       .file = (uint32_t)file,
					       .is_symbol = is_symbol,
					       .plain = plain,
					       .name = symnames_intern(&p->names, name) });
	if (number)
		idmap_set(&p->numbers, key, number);
	return number;
}

/* --- their lines --- */

static bool frame_add(struct places *p, struct place *pl, const struct places_frame *f)
{
	if (is_full(p, p->max_bytes) ||
	    !array_reserve(&p->frame, &p->cap_frames, p->n_frames + 1, sizeof(*p->frame)))
		return false;
	if (!pl->n)
		pl->first = p->n_frames;
	p->frame[p->n_frames++] = *f;
	pl->n++;
	return true;
}

static void take_answer(void *arg, size_t i, const struct srcline_text *s)
{
	char file[SYMNAMES_RAW];
	struct places *p = arg;
	struct place *pl = i < p->n_asked ? &p->place[p->order[p->from + i]] : NULL;

	/* One after the other, or it is not one of ours that answers. */
	if (!pl || pl->cut || (pl->n && pl->first + pl->n != p->n_frames))
		return;
	symnames_clean(file, sizeof(file), s->file);
	pl->cut = !frame_add(
		p, pl,
		&(struct places_frame){
			.function =
				*s->function ? symnames_symbol(&p->names, s->function) : NULL,
			.file = *file ? symnames_intern(&p->names, file) : NULL,
			.line = s->line,
		});
	if (pl->cut) {
		pl->n = 0;
		STATS_ADD(p->stats, unplaced, 1);
	}
}

/* False: the user has no patience. */
static bool ask(struct places *p, size_t n, uint64_t until)
{
	const struct file *f = &p->file[p->place[p->order[p->from]].file];
	_cleanup_free_ uint64_t *at = calloc(n, sizeof(*at));
	uint64_t now = now_ns(), ms = now < until ? (until - now) / 1000000 : 0;
	uint64_t most = FILE_MS * (p->debuginfod ? FETCH_TIMES : 1);
	int r;

	if (!at)
		return false;
	for (size_t i = 0; i < n; i++)
		at[i] = p->place[p->order[p->from + i]].vaddr;
	p->n_asked = n;
	r = srcline_ask(p->lines,
			&(struct srcline_file){ f->fd, f->root, f->path,
						file_helper_openers(p->files) },
			at, n, p->debuginfod, (int)MIN(ms, most), take_answer, p);
	if (r == -EBUSY)
		file_helper_slow(p->files, f->path);
	if (r < 0 && r != -ENOENT)
		STATS_ADD(p->stats, bad_debug, 1);
	return r != -EINTR;
}

static bool is_internal(const char *name)
{
	return name && (symnames_is_eval(name) || symnames_is_call(name));
}

/* Without the internals that are inlined. */
static void make_plain(struct places *p, struct place *pl)
{
	struct places_frame *f = p->frame + pl->first;
	uint32_t n = 0;

	for (uint32_t i = 0; i < pl->n; i++)
		if (!f[i].inlined || !is_internal(f[i].function))
			f[n++] = f[i];
	pl->n = n;
}

/* Names of inlined functions may lie in a file of dwz's that is not here. */
static void name_by_line(struct places *p, struct places_frame *f)
{
	const char *base = f->file ? strrchr(f->file, '/') : NULL;
	char name[SYMNAMES_MAX];

	if (f->function || !f->file)
		return;
	snprintf(name, sizeof(name), "%s:%u", base ? base + 1 : f->file, f->line);
	f->function = symnames_intern(&p->names, name);
}

/* The outermost function is named by its symbol, as where there are no lines. */
static void finish(struct places *p, struct place *pl)
{
	struct places_frame *last;

	if (!pl->n) { /* it is its name: places_frames() */
		STATS_ADD(p->stats, no_line, 1);
		return;
	}
	for (uint32_t i = 0; i + 1 < pl->n; i++) {
		p->frame[pl->first + i].inlined = true;
		name_by_line(p, &p->frame[pl->first + i]);
	}
	last = &p->frame[pl->first + pl->n - 1];
	if (pl->is_symbol || !last->function)
		last->function = pl->name;
	if (pl->plain)
		make_plain(p, pl);
}

static int by_file(const void *a, const void *b, void *arg)
{
	const struct places *p = arg;
	const struct place *x = &p->place[*(const uint32_t *)a],
			   *y = &p->place[*(const uint32_t *)b];

	return COMPARE(x->file, y->file) ?: COMPARE(x->vaddr, y->vaddr);
}

static void ask_all(struct places *p)
{
	uint64_t ms = ALL_MS * (p->debuginfod ? FETCH_TIMES : 1);
	uint64_t until = now_ns() + ms * 1000000;
	size_t n;

	for (uint32_t i = 0; i < p->n; i++)
		p->order[i] = i;
	qsort_r(p->order, p->n, sizeof(*p->order), by_file, p);
	for (p->from = 0; p->from < p->n; p->from += n) {
		uint32_t file = p->place[p->order[p->from]].file;

		n = 1;
		while (p->from + n < p->n && p->place[p->order[p->from + n]].file == file)
			n++;
		if (!ask(p, n, until))
			return;
	}
}

const char *places_symbol(const struct places *p, uint32_t place)
{
	return p->place[place - 1].name;
}

void places_resolve(struct places *p)
{
	if (p->resolved)
		return;
	p->resolved = true;
	p->order = calloc(p->n + 1, sizeof(*p->order));
	if (p->order)
		ask_all(p);
	free(p->order);
	for (uint32_t i = 0; i < p->n; i++)
		finish(p, &p->place[i]);
	for (size_t i = 0; i < p->n_files; i++)
		file_close(&p->file[i]);
}

const struct places_frame *places_frames(struct places *p, uint32_t place, size_t *n)
{
	const struct place *pl = place - 1 < p->n ? &p->place[place - 1] : NULL;

	*n = pl && pl->n ? pl->n : 1;
	if (pl && pl->n)
		return p->frame + pl->first;
	p->alone = (struct places_frame){ .function = pl ? pl->name : NULL };
	return &p->alone;
}

void places_text(const struct places_frame *f, bool lines, char *buf, size_t cap)
{
	const char *name = f->function ? f->function : symnames_unknown;

	if (lines && f->file && f->line)
		snprintf(buf, cap, "%s (%s:%u)", name, f->file, f->line);
	else
		snprintf(buf, cap, "%s", name);
}
