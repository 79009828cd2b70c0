/* SPDX-License-Identifier: MIT */
#include "events/uprobe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/later.h"
#include "base/nearest.h"
#include "base/quota.h"
#include "base/stop.h"
#include "elf/elfprobe.h"
#include "elf/file_helper.h"
#include "elf/opener.h"
#include "events/pmu.h"
#include "sys/proc_maps.h"

enum { PATIENCE_MS = 5000, STEP_MS = 50 };

/* What is looked for, in a thread of its own: a file may never open. */
struct search {
	const char *devices;
	struct file_helper *files; /* reads them; NULL: we do */
	struct perf_spec like;
	char file[sizeof(((struct perf_spec *)0)->name)]; /* "": what @pid has mapped */
	pid_t pid;
	struct elfprobe_want want;
	struct nearest near;
	struct err err;
	int r;
	size_t cap, n;
	struct perf_spec ret[];
};

/* --- the event --- */

static int complete(const char *devices, struct perf_spec *s,
		    const struct elfprobe_place *place, struct err *err)
{
	bool returns = s->kind == PERF_KIND_URETPROBE;

	if (pmu_type(devices, "uprobe", &s->type) < 0)
		return err_set(err, -ENOENT,
			       "event '%s': this kernel has no uprobe PMU (Linux 4.17 with "
			       "CONFIG_UPROBE_EVENTS)",
			       s->name);
	if (returns && pmu_set(devices, "uprobe", "retprobe", 1, s) < 0)
		return err_set(err, -ENOENT, "event '%s': this kernel has no uretprobes",
			       s->name);
	if (place->counter &&
	    pmu_set(devices, "uprobe", "ref_ctr_offset", place->counter, s) < 0)
		return err_set(err, -ENOENT,
			       "event '%s': this kernel can't switch on probes with a "
			       "semaphore (Linux 4.20)",
			       s->name);
	s->config2 = place->offset;
	s->jumps = !returns && place->jumps;
	s->each = true;
	s->kind = PERF_KIND_READY;
	return 0;
}

/* The kernel opens it again for each thread and CPU, maybe hours later, and another file may have
 * its path by then, where the place is another one. So ours stays open until we end. */
static int keep_file(struct search *u, int fd, struct perf_spec *s)
{
	int kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (kept < 0)
		return err_set(&u->err, -errno, "event '%s': no descriptor for its file: %s",
			       s->name, strerror(errno));
	snprintf(s->file, sizeof(s->file), "/proc/self/fd/%d", kept);
	return 0;
}

static int add_places(struct search *u, int fd, ino_t ino, const struct elfprobe *found)
{
	int r = found->n ? keep_file(u, fd, &u->like) : 0;

	for (uint32_t i = 0; r == 0 && i < found->n; i++) {
		if (u->n == u->cap)
			return err_set(&u->err, -EINVAL,
				       "event '%s': too many places; at most %zu events",
				       u->like.name, u->cap);
		u->ret[u->n] = u->like;
		u->ret[u->n].file_ino = ino;
		r = complete(u->devices, &u->ret[u->n++], &found->place[i], &u->err);
	}
	return r;
}

/* --- a file --- */

static int read_here(int fd, const struct elfprobe_want *want, struct elfprobe *ret)
{
	struct elfimage im;
	int r = elfimage_init(&im, fd, (struct bytes){ 0 });

	if (r == 0)
		elfprobe_find(&im, want, ret);
	elfimage_deinit(&im);
	return r;
}

/* Where opening it hangs, so does the end of the process that does: it is not ours. */
static int open_file(const struct search *u, const char *path, struct stat *st)
{
	return opener_path(file_helper_openers(u->files), -1, path, -1, st);
}

static int read_file(struct search *u, const char *path, int fd, struct elfprobe *ret)
{
	const char *name = u->like.name;
	int r = fd;

	if (fd >= 0)
		r = u->files ? file_helper_probe(u->files, ret, fd, &u->want) :
			       read_here(fd, &u->want, ret);
	switch (r) {
	case 0:
		return 0;
	case -ENOEXEC:
		return err_set(&u->err, -ENOENT, "event '%s': '%s' is no 64-bit ELF file",
			       name, path);
	case -EACCES:
		return err_set(&u->err, r, "event '%s': '%s' may not be read", name, path);
	case -EPROTO:
		return err_set(&u->err, -EIO, "event '%s': who read '%s' came to a bad end",
			       name, path);
	}
	return err_set(&u->err, -ENOENT, "event '%s': '%s': %s", name, path, strerror(-r));
}

/* Why @found is none of the places that @u means; or 0. */
static int refuse(struct search *u, const struct elfprobe *found)
{
	const char *event = u->like.name, *name = u->want.name;
	unsigned long long at = found->vaddr, other = found->other;
	char text[512];

	switch ((enum elfprobe_end)found->end) {
	case ELFPROBE_FOUND:
		return 0;
	case ELFPROBE_NO_NAME:
		return err_set(&u->err, -ENOENT, "event '%s': the file has no function '%s'%s",
			       event, name, nearest_text(&u->near, text, sizeof(text)));
	case ELFPROBE_SEVERAL:
		return err_set(&u->err, -EINVAL,
			       "event '%s': the file has several functions '%s', at 0x%llx "
			       "and 0x%llx for example; name one by its address",
			       event, name, at, other);
	case ELFPROBE_CHOSEN:
		return err_set(&u->err, -ENOENT,
			       "event '%s': '%s' is one of several functions, chosen for this "
			       "processor as programs start; name that one, or its address",
			       event, name);
	case ELFPROBE_INSIDE:
		return err_set(&u->err, -EINVAL,
			       "event '%s': a return is named by its function", event);
	case ELFPROBE_NO_INSTRUCTION:
		return err_set(&u->err, -ENOENT,
			       "event '%s': no code, or no instruction begins there", event);
	case ELFPROBE_NO_CODE:
		break;
	}
	return err_set(&u->err, -ENOENT, "event '%s': there is no code at 0x%llx of the file",
		       event, at);
}

static int look_in(struct search *u, const char *path, int fd, const struct stat *st)
{
	struct elfprobe found;
	int r = read_file(u, path, fd, &found);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < found.n_near; i++)
		nearest_offer(&u->near, found.near[i]);
	r = refuse(u, &found);
	return r < 0 ? r : add_places(u, fd, st->st_ino, &found);
}

/* Not by realpath(), which asks the file system, and /proc/PID/root leads elsewhere than its
 * text. */
static int look_in_named(struct search *u)
{
	char folder[PATH_MAX] = "", path[2 * PATH_MAX];
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (*u->file != '/' && !getcwd(folder, sizeof(folder)))
		return err_set(&u->err, -errno, "event '%s': no folder: %s", u->like.name,
			       strerror(errno));
	snprintf(path, sizeof(path), "%s%s%s", folder, *folder ? "/" : "", u->file);
	fd = open_file(u, path, &st);
	return look_in(u, path, fd, &st);
}

/* As @pid sees it, and its path for us. A descriptor or -errno. */
static int open_mapped(const struct search *u, const struct proc_map *m, char path[1200],
		       struct stat *st)
{
	int fd;

	snprintf(path, 1200, "/proc/%d/root%s", u->pid, m->path);
	fd = m->deleted ? -ENOENT : open_file(u, path, st);
	if (fd >= 0 && st->st_ino == m->ino)
		return fd;
	if (fd >= 0)
		close(fd);
	snprintf(path, 1200, "/proc/%d/map_files/%llx-%llx", u->pid,
		 (unsigned long long)m->start, (unsigned long long)m->end);
	return open_file(u, path, st);
}

/* The files whose code @pid has mapped, as it sees them. */
static int look_in_process(struct search *u)
{
	struct proc_maps maps;
	const char *last = "";
	size_t before;
	int r = proc_maps_read(&maps, u->pid);

	if (r < 0)
		return err_set(&u->err, r, "process %d: %s", u->pid, strerror(-r));
	for (size_t i = 0; r == 0 && i < maps.n; i++) {
		const struct proc_map *m = &maps.map[i];
		_cleanup_close_ int fd = -1;
		char path[1200];
		struct stat st;

		if (!m->x || *m->path != '/' || !strcmp(m->path, last))
			continue;
		fd = open_mapped(u, m, path, &st);
		last = m->path;
		before = u->n;
		r = look_in(u, path, fd, &st);
		if (u->n == before) /* no ELF file */
			r = 0;
	}
	proc_maps_deinit(&maps);
	return r;
}

static int search(struct search *u)
{
	char near[512];
	int r = *u->file ? look_in_named(u) : look_in_process(u);

	if (r < 0 || u->n)
		return r;
	return err_set(&u->err, -ENOENT,
		       "event '%s': %s has no such probe%s (not every "
		       "Python is built with them: ./configure --with-dtrace)",
		       u->like.name, *u->file ? u->file : "the process",
		       nearest_text(&u->near, near, sizeof(near)));
}

static void search_run(void *arg)
{
	struct search *u = arg;

	u->r = search(u);
}

static void search_drop(void *arg)
{
	struct search *u = arg;

	file_helper_unref(u->files);
	free(u);
}

/* --- what is written --- */

/* Splits "FILE:LAST" at the last colon. */
static char *split_last(char *text)
{
	char *colon = strrchr(text, ':');

	*colon = '\0';
	return colon + 1;
}

/* SYMBOL[+OFFSET], or an address. */
static int parse_place(struct search *u, char *symbol, struct err *err)
{
	char *plus = strrchr(symbol, '+'), *end = NULL;
	uint64_t more = plus ? strtoull(plus + 1, &end, 0) : 0;

	if (plus && (*end || end == plus + 1))
		return err_set(err, -EINVAL, "event '%s': '%s' is no offset", u->like.name,
			       plus + 1);
	if (plus)
		*plus = '\0';
	u->want.vaddr = more;
	if (strncmp(symbol, "0x", 2) != 0) {
		snprintf(u->want.name, sizeof(u->want.name), "%s", symbol);
		return 0;
	}
	u->want.vaddr += strtoull(symbol, &end, 0);
	return *end ? err_set(err, -EINVAL, "event '%s': '%s' is no address", u->like.name,
			      symbol) :
		      0;
}

/* [FILE:]PROVIDER, of @probe. */
static int parse_provider(struct search *u, const char *probe, struct err *err)
{
	char *colon = strrchr(u->file, ':');

	snprintf(u->want.name, sizeof(u->want.name), "%.120s:%.120s",
		 colon ? colon + 1 : u->file, probe);
	*(colon ? colon : u->file) = '\0';
	u->want.usdt = true;
	return colon || u->pid ? 0 :
				 err_set(err, -EINVAL,
					 "event '%s': name the file, usdt:FILE:PROVIDER:NAME, "
					 "for the program has none yet",
					 u->like.name);
}

static int parse(struct search *u, struct err *err)
{
	char *last;

	snprintf(u->file, sizeof(u->file), "%s", strchr(u->like.name, ':') + 1);
	last = split_last(u->file);
	u->near.want = u->want.name;
	u->want.returns = u->like.kind == PERF_KIND_URETPROBE;
	return u->like.kind == PERF_KIND_USDT ? parse_provider(u, last, err) :
						parse_place(u, last, err);
}

static struct search *search_make(const char *devices, const struct event_help *help,
				  const struct perf_spec *s, size_t cap)
{
	struct search *u = calloc(1, sizeof(*u) + cap * sizeof(*u->ret));

	if (!u)
		return NULL;
	u->devices = devices;
	u->files = file_helper_ref(help->files);
	u->pid = help->pid;
	u->like = *s;
	u->cap = cap;
	return u;
}

/* Have it done, soon. NULL: it was not. */
static struct later *search_soon(struct search *u, const struct stop *stop)
{
	struct quota *quota = quota_create();
	struct later *l = quota ? later_start(quota, search_run, search_drop, u) : NULL;
	bool done = false;

	quota_unref(quota);
	if (!l)
		search_drop(u);
	for (int ms = 0; l && !done && ms < PATIENCE_MS && !stop_asked(stop); ms += STEP_MS)
		done = later_wait(l, STEP_MS);
	if (done)
		return l;
	later_release(l);
	return NULL;
}

int uprobe_resolve(const char *devices, const struct event_help *help,
		   const struct perf_spec *s, struct perf_spec *ret, size_t cap, size_t *n,
		   struct err *err)
{
	struct search *u = search_make(devices, help, s, cap);
	int r = u ? parse(u, err) : err_set(err, -ENOMEM, "out of memory");
	struct later *l;

	if (r < 0) {
		if (u)
			search_drop(u);
		return r;
	}
	l = search_soon(u, help->stop);
	if (!l)
		return err_set(err, -ETIMEDOUT,
			       "event '%s': the file could not be read in time", s->name);
	r = u->r;
	*err = u->err;
	memcpy(ret, u->ret, u->n * sizeof(*ret));
	*n = u->n;
	later_release(l);
	return r;
}
