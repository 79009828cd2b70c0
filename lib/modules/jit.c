/* SPDX-License-Identifier: MIT */
#include "modules/jit.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/later.h"
#include "base/quota.h"
#include "elf/codemap.h"
#include "elf/file_helper.h"
#include "elf/opener.h"
#include "modules/jit_objects.h"
#include "sys/rootfile.h"
#include "sys/proc.h"

enum {
	MAX_PIECES = 16, /* at a time */
	PATIENCE_MS = 200,
};

#define PERF_MAP "/tmp/perf-%d.map"

static const uint64_t min_pause_ns = 1000000, max_pause_ns = 200000000;

/* One file, read up to @place. */
struct source {
	enum codemap_kind kind;
	struct codemap map; /* what was read since end() took it */
	bool anew;	    /* what end() took before is no more in the file */
	struct stat st; /* of when it was read to its end */
	struct codemap_place place;
	unsigned bad_ends; /* of who read it */
	bool bad_end;	   /* the last one who read it ended badly */
	bool given_up;
};

/* The dump, as it is mapped. */
struct mapped {
	struct proc_map map; /* ino 0: none */
	char path[PATH_MAX];
};

/* What the reading thread has to itself while it reads. */
struct sources {
	pid_t pid, inner; /* inner: its number in its own PID namespace */
	uid_t euid;
	uint64_t who; /* who_is() */
	int root, dump_fd;
	struct mapped mapped;
	struct source perf, dump;
	struct jit_objects objects;
	unsigned objects_bad_ends;
	int objects_result;
	uint64_t took_ns;
	bool changed;
	struct quota *quota;
	struct quota_share share; /* also of what the jit knows */
	struct file_helper *files; /* or NULL */
};

struct reading {
	struct sources *s;
	struct quota *quota;
	uint64_t who, begun; /* quota_enter(), quota_begin() */
};

/* In the order in which names are looked for. */
enum known { KNOWN_DUMP, KNOWN_PERF, KNOWN_OBJECTS, N_KNOWN };

struct jit {
	struct codemap known[N_KNOWN]; /* what was read, also while more is */
	struct sources *s;   /* NULL while they are read */
	struct later *later; /* who reads the sources */
	struct reading *reading;
	uint64_t next_ns, pause_ns;
	uint64_t stale_ns; /* jit_stale_ns() */
	pid_t inner;
	struct quota *quota;	   /* borrowed */
	struct file_helper *files; /* the same */
	struct mapped mapped; /* for the next reading */
	bool refused;	      /* jit_was_refused() */
};

/* ---- Files ---- */

static void source_reset(struct source *f)
{
	codemap_deinit(&f->map);
	f->anew = true;
	f->place = (struct codemap_place){ 0 };
}

/* Whether the file, which now is @st, has changed since it was read. */
static bool source_changed(const struct source *f, const struct stat *st)
{
	return st->st_size != f->st.st_size || st->st_ino != f->st.st_ino ||
	       st->st_dev != f->st.st_dev || st->st_mtim.tv_sec != f->st.st_mtim.tv_sec ||
	       st->st_mtim.tv_nsec != f->st.st_mtim.tv_nsec;
}

/* A piece, elsewhere if that can be. 0; -EAGAIN: not now; -EPROTO, -EPIPE: who read it ended;
 * -ESTALE: what was read before is no more in it. */
static int source_piece(struct source *f, int fd, struct file_helper *files)
{
	if (files)
		return file_helper_code(files, &f->map, fd, f->kind, &f->place);
	if (!codemap_same(fd, &f->place))
		return -ESTALE;
	codemap_read(&f->map, fd, f->kind, &f->place);
	return 0;
}

/* Read what is new. True: there was something. */
static bool source_read(struct source *f, int fd, const struct stat *st,
			struct file_helper *files)
{
	int r = 0;

	if (f->given_up || !source_changed(f, st))
		return false;
	if (f->place.at && (st->st_ino != f->st.st_ino || st->st_dev != f->st.st_dev))
		source_reset(f);
	f->place.more = true;
	for (int i = 0; i < MAX_PIECES && r == 0 && f->place.more && !f->map.full; i++) {
		r = source_piece(f, fd, files);
		if (r != -ESTALE)
			continue;
		source_reset(f);
		f->place.more = true;
		r = 0;
	}
	codemap_sort(&f->map);
	f->bad_end = r == -EPROTO || r == -EPIPE;
	f->st = *st;
	if (r < 0 || (f->place.more && !f->map.full))
		f->st.st_size = -1; /* there is more */
	return true;
}

/* perf's own rule: nobody else's file. */
static bool is_theirs(const struct sources *s, const struct stat *st)
{
	return st->st_uid == 0 || st->st_uid == s->euid;
}

static void sources_read(struct sources *s)
{
	struct pool *openers = file_helper_openers(s->files);
	_cleanup_close_ int fd = -1;
	struct stat st;
	bool known = false;
	char path[64];

	snprintf(path, sizeof(path), PERF_MAP, s->inner);
	fd = opener_path(openers, s->root, path, -1, &st);
	s->changed = fd >= 0 && is_theirs(s, &st) && source_read(&s->perf, fd, &st, s->files);
	if (s->dump_fd >= 0)
		known = opener_stat(openers, s->dump_fd, -1, &st) == 0;
	else if (s->mapped.map.ino)
		known = (s->dump_fd = opener_map(openers, s->pid, &s->mapped.map, -1, &st,
						 NULL)) >= 0;
	if (known && source_read(&s->dump, s->dump_fd, &st, s->files))
		s->changed = true;
	s->objects_result = jit_objects_read(&s->objects, s->files);
	if (s->objects_result > 0)
		s->changed = true;
}

static void sources_destroy(struct sources *s)
{
	if (!s)
		return;
	if (s->dump_fd >= 0)
		close(s->dump_fd);
	close(s->root);
	codemap_deinit(&s->perf.map);
	codemap_deinit(&s->dump.map);
	jit_objects_deinit(&s->objects);
	quota_give(s->quota, QUOTA_JITS, 1);
	file_helper_unref(s->files);
	free(s);
}

/* A number for its users and root: those who share them share how many may read. Roots of its own
 * anybody can make, in a namespace of users of its own: they are this user's. */
static uint64_t who_is(pid_t pid, const struct proc_status *s)
{
	uint64_t view = 0;

	proc_view(pid, &view);
	return (hash_pair(view, s->euid) | 1) << 32 | s->uid;
}

static struct sources *sources_create(pid_t pid, uint64_t since_ns, struct quota *quota,
				      struct file_helper *files)
{
	struct sources *s = calloc(1, sizeof(*s));
	struct proc_status status;

	if (!s || !quota_take(quota, QUOTA_JITS, 1)) {
		free(s);
		return NULL;
	}
	s->quota = s->share.quota = quota;
	s->perf.map.share = s->dump.map.share = &s->share;
	s->pid = pid;
	since_ns = since_ns ? since_ns : now_ns();
	jit_objects_init(&s->objects, pid, since_ns, &s->share); /* first: all is of one process */
	s->inner = proc_inner_tid(pid, pid);
	s->root = rootfile_root(pid);
	s->dump_fd = -1;
	s->files = file_helper_ref(files);
	s->dump.kind = CODEMAP_DUMP;
	if (s->inner > 0 && s->root >= 0 && proc_status(pid, &status) == 0 &&
	    proc_was_there(pid, since_ns) && !jit_objects_left(&s->objects)) {
		s->euid = status.euid;
		s->who = who_is(pid, &status);
		s->share.user = status.uid;
		return s;
	}
	sources_destroy(s);
	return NULL;
}

/* ---- When ---- */

/* One of those that there may be, which then ends by reading_over(). */
static bool may_read(struct quota *quota, uint64_t who, uint64_t *begun)
{
	if (!quota_enter(quota, who))
		return false;
	*begun = quota_begin(quota, now_ns());
	if (!*begun)
		quota_leave(quota, who);
	return *begun;
}

static void reading_over(const struct reading *g)
{
	quota_end(g->quota, g->begun);
	quota_leave(g->quota, g->who);
}

static void reading_run(void *arg)
{
	struct reading *g = arg;
	uint64_t t = now_ns();

	sources_read(g->s);
	g->s->took_ns = now_ns() - t;
	reading_over(g);
}

static void reading_drop(void *arg)
{
	struct reading *g = arg;

	sources_destroy(g->s);
	free(g);
}

static void source_again(struct source *f, struct codemap *known)
{
	if (f->given_up || !codemap_has_room(known))
		return;
	codemap_deinit(known);
	source_reset(f);
	f->st = (struct stat){ 0 };
}

/* What others had taken the room of is read from its beginning once they have given it back. */
static void read_again(struct jit *j)
{
	struct codemap *objects = &j->known[KNOWN_OBJECTS];
	struct sources *s = j->s;

	source_again(&s->dump, &j->known[KNOWN_DUMP]);
	source_again(&s->perf, &j->known[KNOWN_PERF]);
	if (s->objects.given_up || !codemap_has_room(objects))
		return;
	codemap_deinit(objects);
	jit_objects_begin_anew(&s->objects);
}

static void begin(struct jit *j)
{
	struct quota *quota = j->s->quota;
	struct reading *g = malloc(sizeof(*g));
	uint64_t who = j->s->who, begun;

	j->refused = !g || !may_read(quota, who, &begun);
	if (j->refused) {
		free(g);
		return;
	}
	read_again(j);
	*g = (struct reading){ j->s, quota, who, begun };
	g->s->mapped = j->mapped;
	g->s->mapped.map.path = g->s->mapped.path;
	j->later = later_start(quota, reading_run, reading_drop, g);
	if (j->later) {
		j->s = NULL;
		j->reading = g;
	} else {
		j->refused = true;
		reading_over(g);
		g->s = NULL; /* stay here */
		reading_drop(g);
	}
}

static void judge(struct jit *j, struct source *f, const char *path)
{
	if (f->bad_end)
		f->given_up = file_helper_bad_end(j->files, path, ++f->bad_ends);
	f->bad_end = false;
}

static void judge_objects(struct jit *j)
{
	struct sources *s = j->s;
	char what[64];

	if (s->objects_result != -EPROTO && s->objects_result != -EPIPE)
		return;
	snprintf(what, sizeof(what), "code that process %d registered for GDB", j->inner);
	s->objects.given_up =
		file_helper_bad_end(j->files, what, ++s->objects_bad_ends);
}

static void learn(struct codemap *known, struct codemap *map, bool *anew)
{
	if (*anew)
		codemap_deinit(known);
	*anew = false;
	codemap_join(known, map);
}

static void learn_all(struct jit *j)
{
	struct sources *s = j->s;

	learn(&j->known[KNOWN_DUMP], &s->dump.map, &s->dump.anew);
	learn(&j->known[KNOWN_PERF], &s->perf.map, &s->perf.anew);
	learn(&j->known[KNOWN_OBJECTS], &s->objects.map, &s->objects.anew);
}

/* Have the sources back, if they were read within @ms. */
static void end(struct jit *j, int ms)
{
	uint64_t begin, now;
	char path[64];

	if (!later_wait(j->later, ms))
		return;
	begin = now_ns();
	j->s = j->reading->s;
	j->reading->s = NULL;
	later_release(j->later);
	j->later = NULL;
	snprintf(path, sizeof(path), PERF_MAP, j->inner);
	judge(j, &j->s->perf, path);
	judge(j, &j->s->dump, j->s->mapped.path);
	judge_objects(j);
	learn_all(j);
	now = now_ns();
	/* A JIT that writes on and on costs a tenth of our time; one that never wrote costs
	 * nothing. */
	if (j->s->changed)
		j->pause_ns = MAX(min_pause_ns, 10 * (j->s->took_ns + now - begin));
	else
		j->pause_ns = MIN(MAX(min_pause_ns, 2 * j->pause_ns), max_pause_ns);
	/* A dump that was mapped meanwhile has not been looked at. */
	j->next_ns = j->mapped.map.ino == j->s->mapped.map.ino ? now + j->pause_ns : 0;
	j->stale_ns = now + max_pause_ns;
}

static const char *find(const struct jit *j, uint64_t ip)
{
	const char *name = NULL;

	for (size_t i = 0; i < N_KNOWN && !name; i++)
		name = codemap_find(&j->known[i], ip);
	return name;
}

/* Many processes whose JITs write on and on, a tenth of our time each, would take all of it. */
static void wait_for(struct jit *j)
{
	uint64_t begin = now_ns();

	if (!quota_may_wait(j->quota, begin)) {
		end(j, 0);
		return;
	}
	end(j, PATIENCE_MS);
	quota_waited(j->quota, begin, now_ns() - begin);
}

const char *jit_name(struct jit *j, uint64_t ip)
{
	const char *name = find(j, ip);

	if (j->later) {
		end(j, 0);
	} else if (now_ns() >= (name ? j->stale_ns : j->next_ns)) {
		begin(j);
		if (j->later)
			wait_for(j);
	}
	return find(j, ip);
}

uint64_t jit_stale_ns(const struct jit *j)
{
	return j->stale_ns;
}

bool jit_was_refused(const struct jit *j)
{
	return j->refused;
}

bool jit_lacks_room(const struct jit *j)
{
	bool lacks = false;

	for (size_t i = 0; i < N_KNOWN; i++)
		lacks |= j->known[i].full && j->known[i].lacked;
	return lacks;
}

/* ---- Life ---- */

struct jit *jit_create(pid_t pid, uint64_t since_ns, struct quota *quota,
		       struct file_helper *files)
{
	struct jit *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->files = files;
	j->quota = quota;
	j->s = sources_create(pid, since_ns, quota, files);
	if (!j->s) {
		free(j);
		return NULL;
	}
	for (size_t i = 0; i < N_KNOWN; i++)
		j->known[i].share = &j->s->share;
	j->inner = j->s->inner;
	return j;
}

void jit_destroy(struct jit *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < N_KNOWN; i++)
		codemap_deinit(&j->known[i]);
	sources_destroy(j->s);
	later_release(j->later);
	free(j);
}

void jit_mapped(struct jit *j, const struct proc_map *m)
{
	const char *base = strrchr(m->path, '/');
	char want[64];

	if (!base || strlen(m->path) >= PATH_MAX || j->mapped.map.ino)
		return;
	snprintf(want, sizeof(want), "/jit-%d.dump", j->inner);
	if (strcmp(base, want) != 0)
		return;
	j->mapped.map = *m;
	strcpy(j->mapped.path, m->path);
	j->next_ns = 0;
}

bool jit_is_memory(const char *path)
{
	static const char *const prefixes[] = { "//anon",  "[anon:",	    "[heap]",
						"[stack]", "/memfd:",	    "/dev/zero",
						"/SYSV",   "/anon_hugepage" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (strncmp(path, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return path[0] == '\0';
}

bool jit_is_trampoline(const char *name)
{
	return strncmp(name, "py::", 4) == 0;
}
