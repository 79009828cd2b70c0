/* SPDX-License-Identifier: MIT
 *
 * jit_objects - finds the lists in the process's mapped files, follows each from its newest
 * entry to the newest of the last time, and copies the images in the order of their age.
 */
#include "modules/jit_objects.h"

#include <errno.h>

#include "base/array.h"
#include "base/clock.h"
#include "elf/file_helper.h"
#include "elf/opener.h"
#include "remote_mem.h"
#include "sys/memfile.h"
#include "sys/proc.h"
#include "sys/proc_maps.h"

enum {
	MAX_FILES = 4096,      /* mapped, that are searched for a list */
	MAX_ENTRIES = 1 << 16, /* of a list, at a time: the newest */
	MAX_BYTES = 16 << 20,  /* of images, at a time */
	SEARCH_EVERY_NS = 1000000000,
	VERSION = 1, /* of the list: the only one there is */
};

struct jit_objects_file {
	uint64_t ino;
	uint32_t maj, min;
};

/* struct jit_descriptor and struct jit_code_entry of the GDB manual, on 64-bit machines. */
struct descriptor {
	uint32_t version, action;
	uint64_t relevant, first;
};
struct entry {
	uint64_t next, prev, image, size;
};

void jit_objects_init(struct jit_objects *o, pid_t pid, uint64_t since_ns,
		      struct quota_share *share)
{
	*o = (struct jit_objects){
		.pid = pid, .since_ns = since_ns, .pidfd = proc_pidfd(pid)
	};
	o->map.share = share;
}

bool jit_objects_left(const struct jit_objects *o)
{
	return o->pidfd >= 0 ? proc_has_ended(o->pidfd) :
			       !proc_was_there(o->pid, o->since_ns);
}

void jit_objects_deinit(struct jit_objects *o)
{
	if (o->pidfd >= 0)
		close(o->pidfd);
	codemap_deinit(&o->map);
	free(o->looked);
}

/* All of a file that is given at once. 0, or as file_helper_code() says. */
static int parse(struct codemap *m, int fd, enum codemap_kind kind, struct file_helper *files)
{
	struct codemap_place place = { .more = true };
	int r = 0;

	while (r == 0 && place.more) {
		uint64_t from = place.at;

		place.more = false;
		if (files)
			r = file_helper_code(files, m, fd, kind, &place);
		else
			codemap_read(m, fd, kind, &place);
		if (r == 0 && place.more && place.at == from)
			r = -EAGAIN; /* there was no memory for a piece */
	}
	return r;
}

/* ---- The lists ---- */

/* Note that the file of @m is searched: 1. 0: it was before, or there are too many; -EAGAIN.
 */
static int look_at(struct jit_objects *o, const struct proc_map *m)
{
	for (size_t i = 0; i < o->n_looked; i++) {
		const struct jit_objects_file *f = &o->looked[i];

		if (f->ino == m->ino && f->maj == m->maj && f->min == m->min)
			return 0;
	}
	if (o->n_looked == MAX_FILES)
		return 0;
	if (!array_reserve(&o->looked, &o->cap_looked, o->n_looked + 1, sizeof(*o->looked)))
		return -EAGAIN;
	o->looked[o->n_looked++] = (struct jit_objects_file){ m->ino, m->maj, m->min };
	return 1;
}

/* Where the first byte of the file is mapped that @maps have at @i. */
static uint64_t file_begin(const struct proc_maps *maps, size_t i)
{
	const struct proc_map *m = &maps->map[i], *first = m;

	for (size_t k = 0; k < maps->n; k++) {
		const struct proc_map *other = &maps->map[k];

		if (proc_map_same_file(other, m) &&
		    other->start - other->pgoff < first->start - first->pgoff)
			first = other;
	}
	return first->start - first->pgoff;
}

static int search_file(struct jit_objects *o, const struct proc_maps *maps, size_t i,
		       struct file_helper *files)
{
	struct stat st;
	_cleanup_close_ int fd = opener_map(file_helper_openers(files), o->pid, &maps->map[i],
					    -1, &st, NULL);
	struct codemap found = { 0 };
	uint64_t offset;
	int r = proc_is_short(fd) || fd == -EAGAIN ? -EAGAIN : 0;

	if (fd >= 0)
		r = parse(&found, fd, CODEMAP_MAPPED_FILE, files);
	if (r == 0 && codemap_first(&found, &offset) && o->n_lists < JIT_OBJECTS_LISTS)
		o->list[o->n_lists++].at = file_begin(maps, i) + offset;
	codemap_deinit(&found);
	return r;
}

/* Each file with code is searched once, but again where something for it had run out. */
static int search(struct jit_objects *o, struct file_helper *files)
{
	struct proc_maps maps;
	int r = proc_maps_read(&maps, o->pid);

	if (r < 0)
		return r == -ENOMEM ? -EAGAIN : 0;
	for (size_t i = 0; i < maps.n && r == 0; i++) {
		const struct proc_map *m = &maps.map[i];

		if (m->x && m->ino)
			r = look_at(o, m);
		if (r > 0) {
			r = search_file(o, &maps, i, files);
			o->n_looked -= r == -EAGAIN;
		}
	}
	proc_maps_deinit(&maps);
	return r;
}

/* ---- The images ---- */

/* The entries of a list that are new, newest first. */
struct entries {
	struct jit_objects_entry entry[MAX_ENTRIES];
	size_t n;
	bool all; /* of the list: none of them is that of the last time */
};

static bool is_same(const struct jit_objects_entry *a, const struct jit_objects_entry *b)
{
	return a->at == b->at && a->image == b->image && a->size == b->size;
}

/* False: it is no list, or it changed while it was read. */
static bool follow(struct entries *new, struct rmem *mem, uint64_t at,
		   const struct jit_objects_entry *until)
{
	uint64_t prev = 0;
	struct entry e;

	for (; at && new->n < MAX_ENTRIES; prev = at, at = e.next) {
		struct jit_objects_entry *to = &new->entry[new->n];

		if (rmem_read(mem, at, &e, sizeof(e)) < 0 || e.prev != prev)
			return false;
		*to = (struct jit_objects_entry){ at, e.image, e.size };
		if (is_same(to, until))
			return true;
		new->n++;
	}
	new->all = !at;
	return true;
}

void jit_objects_begin_anew(struct jit_objects *o)
{
	codemap_deinit(&o->map);
	o->anew = true;
	for (size_t i = 0; i < o->n_lists; i++)
		o->list[i].head.at = 0;
}

/* Images to @fd, each behind its length, the oldest first: code that took the place of other
 * code comes later. One that is gone or too large is left out. The entry that was copied last,
 * NULL: none could be written. */
static const struct jit_objects_entry *copy(int fd, struct rmem *mem, const struct entries *new)
{
	_cleanup_free_ unsigned char *buf = malloc(sizeof(uint64_t) + CODEMAP_MAX_OBJECT);
	size_t bytes = 0;
	const struct jit_objects_entry *last = NULL;

	for (size_t i = new->n; i > 0 && buf && bytes < MAX_BYTES; i--) {
		uint64_t size = new->entry[i - 1].size;
		size_t n = sizeof(size) + size;

		last = &new->entry[i - 1];
		if (size > CODEMAP_MAX_OBJECT ||
		    rmem_read(mem, new->entry[i - 1].image, buf + sizeof(size), size) < 0)
			continue;
		memcpy(buf, &size, sizeof(size));
		if (write(fd, buf, n) != (ssize_t)n)
			return NULL;
		bytes += n;
	}
	return last;
}

/* 1, with the newest entry that was taken in @head; else as jit_objects_read(). */
static int take(struct jit_objects *o, struct rmem *mem, const struct entries *new,
		struct file_helper *files, struct jit_objects_entry *head)
{
	_cleanup_close_ int fd = memfile_new("pysampled", false);
	const struct jit_objects_entry *last = fd < 0 ? NULL : copy(fd, mem, new);
	int r;

	if (!last)
		return -EAGAIN;
	if (jit_objects_left(o)) /* whose memory it was is not known */
		return 0;
	r = parse(&o->map, fd, CODEMAP_OBJECTS, files);
	codemap_sort(&o->map);
	if (r < 0)
		return r;
	*head = *last;
	return 1;
}

static int read_list(struct jit_objects *o, size_t i, struct file_helper *files)
{
	_cleanup_free_ struct entries *new = NULL;
	struct jit_objects_entry *head = &o->list[i].head;
	struct descriptor d;
	struct rmem_live mem;

	rmem_live_init(&mem, o->pid);
	if (rmem_read(&mem.base, o->list[i].at, &d, sizeof(d)) < 0 || d.version != VERSION ||
	    !d.first)
		return 0;
	new = calloc(1, sizeof(*new));
	if (!new)
		return -EAGAIN;
	if (!follow(new, &mem.base, d.first, head) || new->n == 0)
		return 0;
	if (head->at && new->all)
		jit_objects_begin_anew(o);
	return take(o, &mem.base, new, files, head);
}

/* As jit_objects_read(). What brought nothing new costs a tenth of our time, too. */
static int read_lists(struct jit_objects *o, struct file_helper *files)
{
	uint64_t begin = now_ns(), end;
	bool any = false;
	int r = 0;

	if (begin < o->next_lists_ns)
		return 0;
	for (size_t i = 0; i < o->n_lists && r >= 0; i++) {
		r = read_list(o, i, files);
		any |= r > 0;
	}
	end = now_ns();
	if (!any)
		o->next_lists_ns = end + 10 * (end - begin);
	return r < 0 ? r : any;
}

int jit_objects_read(struct jit_objects *o, struct file_helper *files)
{
	int r = 0;

	if (o->given_up || o->map.full)
		return 0;
	if (now_ns() >= o->next_search_ns) {
		r = search(o, files);
		o->next_search_ns = now_ns() + SEARCH_EVERY_NS;
	}
	return r < 0 ? r : read_lists(o, files);
}
