/* SPDX-License-Identifier: MIT
 *
 * space_file - opens and reads the files behind maps, in threads of their own.
 */
#include "modules/space_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/later.h"
#include "base/stats.h"
#include "elf/elfimage.h"
#include "elf/file_helper.h"
#include "elf/opener.h"
#include "sys/proc.h"
#include "sys/proc_maps.h"
#include "sys/rootfile.h"

enum {
	PATIENCE_MS = 1000, /* for a file to be opened, on a busy machine */
	RETRY_NS = 100000000,
};

void space_note_unread(struct spaces *s)
{
	if (s->stats)
		STATS_ADD(s->stats, unread, 1);
}

/* We had no thread, descriptor or memory left: a stack lacks names, and it is tried again
 * later. */
static void ran_out(struct spaces *s)
{
	space_note_unread(s);
	s->retry_ns = now_ns() + RETRY_NS;
}

struct proc_map space_proc_map(const struct space_map *m, const char *path)
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
	uint64_t since_ns; /* it had that number then; 0: not known */
	uint64_t view;	   /* proc_view() of it, when it was asked */
	struct proc_map map;
	char path[PATH_MAX];
	uint64_t told_ns;	/* as of its map */
	struct elfcache_stamp stamp; /* of what was opened */
	bool elsewhere; /* below @root, whoever mapped it */
	int fd, root;	/* root: of its process; -1: ours */
	ino_t ino;	/* of what was opened */
	bool wants_id;
	struct file_helper *files; /* who looks for the id; NULL: we do */
	bool lacks;		   /* the id was not found, for want of something */
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
	int n;

	if (o->files) {
		n = file_helper_id(o->files, o->id, o->fd, -1);
		o->n_id = n > 0 ? (size_t)n : 0;
		o->lacks = n == -EAGAIN;
		if (n == -EPROTO || n == -EPIPE)
			file_helper_bad_end(o->files, o->path, 1);
		return;
	}
	if (elfimage_init(&im, o->fd, (struct bytes){ 0 }) == 0)
		o->n_id = elfimage_build_id(&im, o->id);
	elfimage_deinit(&im);
}

/* Whoever has the number by now has other files, and a root of its own, as has who changed it:
 * only a file that is known to be the same counts. */
static void forget_strangers(struct opening *o)
{
	bool same = o->ino == o->map.ino;
	uint64_t view = o->view;

	if (o->elsewhere || o->fd < 0 || !o->since_ns || (same && o->root < 0) ||
	    (proc_was_there(o->pid, o->since_ns) &&
	     (o->root < 0 || (proc_view(o->pid, &view) == 0 && view == o->view))))
		return;
	base_close(&o->root);
	o->root = -1;
	if (same)
		return;
	base_close(&o->fd);
	o->fd = -ESTALE;
}

/* Something was written into the file, or another one made that has its number, after it was
 * mapped. What is written in the future, by a clock that is wrong, says nothing. */
static void forget_changed(struct opening *o)
{
	struct timespec t;
	uint64_t now, ago, mono = now_ns();

	clock_gettime(CLOCK_REALTIME, &t);
	now = clock_ns(&t);
	ago = now - MIN(now, o->stamp.changed_ns);
	if (o->fd < 0 || !o->told_ns || o->stamp.changed_ns > now || ago >= mono ||
	    mono - ago <= o->told_ns)
		return;
	base_close(&o->fd);
	o->fd = -ESTALE;
}

/* The file of a process, as it has mapped it. */
static void open_mapped(struct opening *o)
{
	struct stat st = { 0 };

	o->fd = opener_map(file_helper_openers(o->files), o->pid, &o->map, -1, &st,
			   o->map.here ? NULL : &o->root);
	o->ino = st.st_ino;
	o->stamp = (struct elfcache_stamp){ (uint64_t)st.st_size, clock_ns(&st.st_mtim) };
	forget_changed(o);
}

static void opening_run(void *arg)
{
	struct opening *o = arg;

	if (!o->elsewhere)
		open_mapped(o);
	else if (o->root >= 0)
		o->fd = rootfile_open(o->root, o->path);
	if (o->fd < 0)
		return;
	if (o->n) {
		o->got = o->files ? file_helper_bytes(o->files, o->fd, o->at, o->bytes, o->n) :
				    pread(o->fd, o->bytes, o->n, (off_t)o->at);
		return;
	}
	if (o->wants_id)
		read_id(o);
}

static void opening_drop(void *arg)
{
	struct opening *o = arg;

	if (o->fd >= 0)
		close(o->fd);
	if (o->root >= 0)
		close(o->root);
	file_helper_unref(o->files);
	free(o);
}

/* Elsewhere the vdso is a file, too. */
static bool map_has_file(const struct spaces *s, const struct space_map *m)
{
	const char *path = elfcache_path(m->elf);

	if (s->elsewhere && strcmp(path, "[vdso]") == 0)
		return true;
	return m->ino && path[0] == '/' && path[1] != '/' && strlen(path) < PATH_MAX;
}

static struct opening *opening_make(const struct space *sp, const struct space_map *m,
				    uint64_t at, size_t n_bytes)
{
	static const char gone[] = " (deleted)";
	const char *path = elfcache_path(m->elf);
	size_t n = strlen(path), cut = sizeof(gone) - 1;
	int root = sp->of->root;
	struct opening *o;

	o = calloc(1, sizeof(*o) + n_bytes);
	if (!o)
		return NULL;
	o->pid = sp->pid;
	o->since_ns = sp->since_ns;
	o->told_ns = m->told_ns;
	o->at = at;
	o->n = n_bytes;
	o->elsewhere = sp->of->elsewhere;
	o->files = file_helper_ref(elfcache_reader(sp->of->elfs));
	o->root = root < 0 ? -1 : fcntl(root, F_DUPFD_CLOEXEC, 0);
	o->fd = o->root < 0 && root >= 0 ? -errno : -ENOENT;
	o->map = space_proc_map(m, o->path);
	o->view = sp->view;
	o->map.here = !sp->view;
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

/* A process that nobody can look at (ask.h) holds up who opens a file through it. */
static bool process_hangs(struct spaces *s, const struct opening *o)
{
	struct stat st;
	bool hangs = !o->elsewhere && proc_map_stat(o->pid, &o->map, &st) == -ETIMEDOUT;

	s->hung |= hangs;
	return hangs;
}

/* Have it done, soon. NULL: it was not, or can't be now. */
static struct later *opening_run_soon(struct spaces *s, struct opening *o,
				      struct elfcache_elf *elf)
{
	struct later *l;

	stuck_poll(s);
	if (!o)
		return NULL;
	elfcache_asked_by(s->elfs, elf, o->pid);
	if (elfcache_is_slow(s->elfs, elf) || s->n_stuck == SPACE_MAX_STUCK ||
	    (s->hung && process_hangs(s, o))) {
		opening_drop(o);
		return NULL;
	}
	l = later_start(elfcache_quota(s->elfs), opening_run, opening_drop, o);
	if (!l) {
		opening_drop(o);
		ran_out(s);
		return NULL;
	}
	if (elfcache_await(s->elfs, elf, l, PATIENCE_MS)) {
		forget_strangers(o);
		return l;
	}
	if (process_hangs(s, o)) {
		later_release(l);
	} else {
		elfcache_slow(s->elfs, elf, true);
		s->stuck[s->n_stuck].later = l, s->stuck[s->n_stuck++].elf = elf;
	}
	return NULL;
}

ssize_t space_read(const struct space *sp, const struct space_map *m, uint64_t at, void *buf,
		   size_t n)
{
	struct opening *o;
	struct later *l;
	ssize_t got;

	if (!map_has_file(sp->of, m))
		return -ENOENT;
	o = opening_make(sp, m, at, n);
	l = opening_run_soon(sp->of, o, m->elf);
	if (!l)
		return -EAGAIN;
	got = o->fd < 0 ? o->fd : o->got == -EAGAIN ? -EAGAIN : o->got < 0 ? -EIO : o->got;
	if (got > 0)
		memcpy(buf, o->bytes, (size_t)got);
	later_release(l);
	return got;
}

/* The file is open, or can't be; NULL: not now. */
static struct later *open_soon(const struct space *sp, const struct space_map *m,
			       bool wants_id, struct opening **ret)
{
	bool pause = now_ns() < sp->of->retry_ns || !map_has_file(sp->of, m);

	*ret = pause ? NULL : opening_make(sp, m, 0, 0);
	if (*ret)
		(*ret)->wants_id = wants_id;
	return opening_run_soon(sp->of, *ret, m->elf);
}

int space_look(const struct space *sp, const struct space_map *m,
	       struct elfcache_stamp *stamp)
{
	struct opening *o;
	struct later *l = open_soon(sp, m, false, &o);
	int r;

	if (!l)
		return -EAGAIN;
	*stamp = o->stamp;
	r = MIN(o->fd, 0);
	later_release(l);
	return r;
}

int space_open(const struct space *sp, const struct space_map *m, int *root,
	       struct elfcache_stamp *stamp)
{
	struct opening *o;
	struct later *l = open_soon(sp, m, sp->of->ids, &o);
	int fd;

	if (!l)
		return -EAGAIN;
	fd = o->fd;
	if (o->lacks)
		space_note_unread(sp->of);
	if (o->n_id)
		elfcache_note_id(m->elf, (struct bytes){ o->id, o->n_id });
	*root = -1;
	*stamp = o->stamp;
	if (fd >= 0) {
		*root = o->root;
		o->fd = o->root = -1;
	}
	later_release(l);
	if (!proc_is_short(fd) && fd != -EAGAIN) /* as opener_map() says that nobody opens */
		return fd;
	ran_out(sp->of);
	return -EAGAIN;
}

void space_file_deinit(struct spaces *s)
{
	while (s->n_stuck > 0)
		later_release(s->stuck[--s->n_stuck].later);
	if (s->root >= 0)
		close(s->root);
}
