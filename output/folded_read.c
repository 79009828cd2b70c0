/* SPDX-License-Identifier: MIT
 *
 * folded_read - takes lines apart: "COMM-PID/THREAD-TID;frame;frame COUNT", of several events
 * "COMM-PID;event:NAME;frame;frame COUNT".
 */
#include "folded_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "base/strtab.h"

static const char EVENT[] = "event:", TRUNCATED[] = "[truncated]";

enum {
	MAX_FRAMES = 1 << 16, /* of a stack: 8 times what a perf.data can hold */
	BLOCK = 4096	      /* functions */
};

struct folded_reader {
	struct sink *sink;
	const struct session *session;
	struct strtab *names;
	struct idmap func_of;	/* name and file to pyfunc.index */
	struct pyfunc **blocks; /* outputs keep where a function is: it stays there */
	size_t n_func, cap_blocks;
	uint64_t counts;      /* of the lines so far, together */
	struct frame *frames; /* of the line that is read */
	size_t n, cap;
};

static const char *keep(const struct folded_reader *r, const char *text, size_t n,
			uint32_t *id)
{
	*id = strtab_add(r->names, text, n);
	return *id == STRTAB_NONE ? NULL : strtab_get(r->names, *id);
}

static struct pyfunc *func_at(const struct folded_reader *r, size_t i)
{
	return &r->blocks[i / BLOCK][i % BLOCK];
}

/* Room for one more function. 0 or -ENOMEM. */
static int grow(struct folded_reader *r)
{
	size_t n = r->n_func / BLOCK;

	if (r->n_func % BLOCK)
		return 0;
	if (!array_reserve(&r->blocks, &r->cap_blocks, n + 1, sizeof(*r->blocks)))
		return -ENOMEM;
	r->blocks[n] = malloc(BLOCK * sizeof(**r->blocks));
	return r->blocks[n] ? 0 : -ENOMEM;
}

static const struct pyfunc *func_of(struct folded_reader *r, const char *name, size_t name_n,
				    const char *file, size_t file_n)
{
	struct pyfunc f = { .index = (uint32_t)r->n_func };
	uint32_t a, b, known;

	f.qualname = keep(r, name, name_n, &a);
	f.file = keep(r, file, file_n, &b);
	if (!f.qualname || !f.file)
		return NULL;
	known = idmap_get(&r->func_of, (uint64_t)a << 32 | b);
	if (known != IDMAP_NONE)
		return func_at(r, known);
	if (idmap_set(&r->func_of, (uint64_t)a << 32 | b, f.index) || grow(r))
		return NULL;
	*func_at(r, r->n_func) = f;
	return func_at(r, r->n_func++);
}

/* The digits before @end, which follow @mark; *@at is where @mark stands. -1: there are none.
 */
static int number_before(const char *begin, const char *end, char mark, const char **at)
{
	const char *p = end;

	while (p > begin && p[-1] >= '0' && p[-1] <= '9')
		p--;
	if (p == end || end - p > 9 || p == begin || p[-1] != mark)
		return -1;
	*at = p - 1;
	return atoi(p);
}

/* Where the file begins of which @end is the bracket: behind the " (" that belongs to it, for a
 * file may be called "copy (1).py", or else behind the last one. NULL: there is none. */
static const char *file_at(const char *text, const char *end)
{
	const char *last = NULL;
	int depth = 0;

	for (const char *p = end; p > text; p--) {
		depth += (*p == ')') - (*p == '(');
		if (p[0] != '(' || p[-1] != ' ')
			continue;
		last = last ? last : p + 1;
		if (!depth)
			return p + 1;
	}
	return last;
}

/* "name (file.py:7)", "name (<string>)": the only frames that are Python's for sure. */
static bool python_frame(struct folded_reader *r, const char *text, size_t n, struct frame *fr)
{
	const char *file, *end = text + n - 1;
	int line;

	if (n < 5 || *end != ')')
		return false;
	file = file_at(text, end);
	if (!file)
		return false;
	line = number_before(file, end, ':', &end);
	fr->line = MAX(0, line);
	if (end - file < 3 || (memcmp(end - 3, ".py", 3) && !(*file == '<' && end[-1] == '>')))
		return false;
	fr->kind = FRAME_PYTHON;
	fr->func = func_of(r, text, (size_t)(file - 2 - text), file, (size_t)(end - file));
	return true;
}

static int add_frame(struct folded_reader *r, const char *text, size_t n)
{
	struct frame fr = { .kind = FRAME_NATIVE };
	uint32_t id;

	if (!array_reserve(&r->frames, &r->cap, r->n + 1, sizeof(*r->frames)))
		return -ENOMEM;
	if (n > 4 && !memcmp(text + n - 4, "_[k]", 4))
		fr.kind = FRAME_KERNEL;
	else if (n > 2 && *text == '[' && text[n - 1] == ']')
		fr.kind = FRAME_MARKER;
	if (!python_frame(r, text, n, &fr))
		fr.name = keep(r, text, n, &id);
	r->frames[r->n++] = fr;
	return fr.name || fr.func ? 0 : -ENOMEM;
}

/* @thread: it is no process' name. */
static int tell_name(const struct folded_reader *r, pid_t pid, pid_t tid, bool thread,
		     const char *text, size_t n)
{
	struct side side = { .kind = SIDE_COMM,
			     .pid = pid,
			     .tid = tid,
			     .u.comm.thread = thread };
	uint32_t id;

	side.u.comm.name = keep(r, text, n, &id);
	return side.u.comm.name ? r->sink->ops->side(r->sink, &side) : -ENOMEM;
}

/* The slash of "COMM-PID/THREAD-TID", of which *@dash is the first; or NULL. @at: its last dash. */
static const char *slash_of(const char *text, const char *at, const char **dash, int *pid)
{
	for (const char *p = text + 1; p < at; p++) {
		*pid = *p == '/' ? number_before(text, p, '-', dash) : -1;
		if (*pid >= 0)
			return p;
	}
	return NULL;
}

/* "COMM-PID", "COMM-PID/THREAD-TID"; of other tools, any text: that is a frame. */
static int read_root(struct folded_reader *r, const char *text, size_t n, struct sample *smp)
{
	const char *end = text + n, *at = NULL, *dash, *slash;
	int id = number_before(text, end, '-', &at), pid, ret;

	if (id < 0)
		return add_frame(r, text, n);
	smp->pid = smp->tid = id;
	slash = slash_of(text, at, &dash, &pid);
	if (slash) {
		smp->pid = pid;
		ret = tell_name(r, pid, pid, false, text, (size_t)(dash - text));
		if (ret)
			return ret;
	}
	text = slash ? slash + 1 : text;
	return tell_name(r, smp->pid, smp->tid, slash && smp->pid == smp->tid, text,
			 (size_t)(at - text));
}

/* Sinks want the innermost frame first. */
static void turn(struct folded_reader *r)
{
	for (size_t i = 0; i < r->n / 2; i++) {
		struct frame fr = r->frames[i];

		r->frames[i] = r->frames[r->n - 1 - i];
		r->frames[r->n - 1 - i] = fr;
	}
}

/* -1: none of @s's is called @name. */
static int find_event(const struct session *s, const char *name, size_t n)
{
	for (size_t e = 0; e < s->n_events; e++)
		if (strlen(s->events[e].name) == n && !memcmp(s->events[e].name, name, n))
			return (int)e;
	return -1;
}

/* The second of a line's frames names its event, where there are several. */
static bool is_event(const struct folded_reader *r, const char *text, struct sample *smp)
{
	size_t skip = strlen(EVENT);
	int e = strncmp(text, EVENT, skip) ? -1 :
					     find_event(r->session, text + skip,
							strlen(text) - skip);

	if (e >= 0)
		smp->event = (uint32_t)e;
	return e >= 0;
}

/* The @i'th of a line. Those behind the first up to number @cut are left out. */
static int read_frame(struct folded_reader *r, size_t i, size_t cut, const char *text,
		      struct sample *smp)
{
	if (!i)
		return read_root(r, text, strlen(text), smp);
	if (i == 1 && is_event(r, text, smp))
		return 0;
	if (i < cut) /* of millions of frames outputs would be GBs of one line */
		return 0;
	text = i == cut ? TRUNCATED : text;
	return add_frame(r, text, strlen(text));
}

/* The digits at @text are all of it, and no output's sum gets too large. 0, -EBADMSG or
 * -EOVERFLOW. */
static int read_count(struct folded_reader *r, const char *text, uint64_t *count)
{
	if (!*text || text[strspn(text, "0123456789")])
		return -EBADMSG;
	errno = 0;
	*count = strtoull(text, NULL, 10);
	if (errno || *count > INT64_MAX - r->counts)
		return -EOVERFLOW;
	r->counts += *count;
	return 0;
}

static int read_line(struct folded_reader *r, char *line)
{
	struct sample smp = { 0 };
	char *count = strrchr(line, ' '), *next = line;
	size_t n = 0, cut;
	int ret = count ? read_count(r, count + 1, &smp.period) : -EBADMSG;

	if (ret)
		return ret;
	*count = '\0';
	for (const char *p = line; (p = strchr(p, ';')); p++)
		n++;
	r->n = 0;
	cut = n > MAX_FRAMES ? n - MAX_FRAMES : 0;
	for (size_t i = 0; !ret && next; i++)
		ret = read_frame(r, i, cut, strsep(&next, ";"), &smp);
	turn(r);
	return ret ? ret :
		     r->sink->ops->sample(r->sink, &smp, &(struct stack){ r->n, r->frames });
}

/* The name of @line's event goes to @s, unless it is there. False: the line names none, or there
 * is no room. */
static bool take_event(const char *line, struct session *s)
{
	const char *name = strchr(line, ';'), *end;
	size_t n;

	if (!name || strncmp(name + 1, EVENT, strlen(EVENT)) != 0)
		return false;
	name += 1 + strlen(EVENT);
	end = strchr(name, ';');
	end = end ? end : strrchr(name, ' ');
	n = end ? (size_t)(end - name) : 0;
	if (!n || n >= sizeof(s->events[0].name))
		return false;
	if (find_event(s, name, n) >= 0)
		return true;
	if (s->n_events == SESSION_MAX_EVENTS)
		return false;
	snprintf(s->events[s->n_events++].name, sizeof(s->events[0].name), "%.*s", (int)n, name);
	return true;
}

/* True: the line tells a thread. */
static bool has_thread(const char *line)
{
	const char *end = line + strcspn(line, ";"), *at, *dash;
	int pid;

	if (!*end)
		end = strrchr(line, ' ');
	return end && number_before(line, end, '-', &at) >= 0 && slash_of(line, at, &dash, &pid);
}

/* True: @line, of @n bytes, ends in a count. */
static bool has_count(const char *line, size_t n)
{
	const char *count = strrchr(line, ' ');

	return count && strlen(line) == n && strspn(count + 1, "0123456789") > 0 &&
	       !count[1 + strspn(count + 1, "0123456789\n")];
}

bool folded_begins(FILE *in)
{
	_cleanup_free_ char *text = NULL;
	size_t cap = 0;
	ssize_t n;

	while ((n = getline(&text, &cap, in)) > 0)
		if (*text != '\n')
			return has_count(text, (size_t)n);
	return true;
}

int folded_look(FILE *in, struct session *session)
{
	_cleanup_free_ struct session *found = calloc(1, sizeof(*found));
	_cleanup_free_ char *text = NULL;
	size_t cap = 0;
	bool all = found;

	while (found && (all || !(session->flags & SESSION_THREADS)) &&
	       getline(&text, &cap, in) > 0) {
		all = all && take_event(text, found);
		session->flags |= has_thread(text) ? SESSION_THREADS : 0;
	}
	if (!all || !found->n_events)
		return found ? 0 : -ENOMEM;
	session->n_events = found->n_events;
	memcpy(session->events, found->events, sizeof(found->events));
	return 0;
}

int folded_read(FILE *in, const struct session *session, struct sink *s, size_t *line)
{
	struct folded_reader r = { .sink = s, .session = session, .names = strtab_create() };
	_cleanup_free_ char *text = NULL;
	size_t cap = 0;
	ssize_t n;
	int ret = r.names ? 0 : -ENOMEM;

	for (*line = 1; !ret && (n = getline(&text, &cap, in)) > 0; *line += !ret) {
		if (text[n - 1] == '\n')
			text[--n] = '\0';
		if (n)
			ret = strlen(text) == (size_t)n ? read_line(&r, text) : -EBADMSG;
	}
	for (size_t i = 0; i < (r.n_func + BLOCK - 1) / BLOCK; i++)
		free(r.blocks[i]);
	free(r.blocks);
	free(r.frames);
	idmap_deinit(&r.func_of);
	strtab_destroy(r.names);
	return ret;
}
