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
#include "base/hash.h"
#include "base/strtab.h"

static const char EVENT[] = "event:", TRUNCATED[] = "[truncated]", UNNAMED[] = "[unnamed]";

enum {
	MAX_FRAMES = 1 << 16, /* of a stack: 8 times what a perf.data can hold */
	BLOCK = 4096,	      /* functions */
	FIRST_PID = 300	      /* lower ones are the kernel's threads, and processes in containers */
};

struct folded_reader {
	struct sink *sink;
	const struct session *session;
	struct strtab *names;
	uint32_t *slot; /* pyfunc.index + 1, by name and file; 0 is free */
	size_t n_slots; /* a power of two, at least twice as many as functions */
	struct pyfunc **blocks; /* outputs keep where a function is: it stays there */
	size_t n_func, cap_blocks;
	uint64_t counts;      /* of the lines so far, together */
	struct frame *frames; /* of the line that is read */
	size_t n, cap;
};

static const char *keep(const struct folded_reader *r, const char *text, size_t n)
{
	uint32_t id = strtab_add(r->names, text, n);

	return id == STRTAB_NONE ? NULL : strtab_get(r->names, id);
}

static struct pyfunc *func_at(const struct folded_reader *r, size_t i)
{
	return &r->blocks[i / BLOCK][i % BLOCK];
}

/* The slot where the search for the function of kept texts begins. */
static size_t first_slot(const struct folded_reader *r, const char *name, const char *file)
{
	return hash_pair((uintptr_t)name, (uintptr_t)file) & (r->n_slots - 1);
}

/* The function's slot, or the free one where it would stand. */
static uint32_t *slot_of(const struct folded_reader *r, const char *name, const char *file)
{
	size_t i = first_slot(r, name, file);

	for (; r->slot[i]; i = (i + 1) & (r->n_slots - 1)) {
		const struct pyfunc *f = func_at(r, r->slot[i] - 1);

		if (f->qualname == name && f->file == file)
			break;
	}
	return &r->slot[i];
}

/* Slots for one more function. Functions differ, so none is compared. 0 or -ENOMEM. */
static int grow_slots(struct folded_reader *r)
{
	if (2 * (r->n_func + 1) <= r->n_slots)
		return 0;
	r->n_slots = MAX((size_t)64, 2 * r->n_slots);
	free(r->slot);
	r->slot = calloc(r->n_slots, sizeof(*r->slot));
	for (uint32_t i = 0; r->slot && i < r->n_func; i++) {
		size_t at = first_slot(r, func_at(r, i)->qualname, func_at(r, i)->file);

		while (r->slot[at])
			at = (at + 1) & (r->n_slots - 1);
		r->slot[at] = i + 1;
	}
	return r->slot ? 0 : -ENOMEM;
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
	uint32_t *slot;

	f.qualname = keep(r, name, name_n);
	f.file = keep(r, file, file_n);
	if (!f.qualname || !f.file || grow_slots(r))
		return NULL;
	slot = slot_of(r, f.qualname, f.file);
	if (*slot)
		return func_at(r, *slot - 1);
	if (grow(r))
		return NULL;
	*func_at(r, r->n_func) = f;
	*slot = (uint32_t)++r->n_func;
	return func_at(r, f.index);
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

/* The file of "name (file.py:7)" or "name (<string>)", the only frames that are Python's for sure,
 * with its *@end and *@line, 0: not told. NULL: it is another frame. */
static const char *python_file(const char *text, size_t n, const char **end, int *line)
{
	const char *file;

	if (n < 5 || text[n - 1] != ')')
		return NULL;
	*end = text + n - 1;
	file = file_at(text, *end);
	if (!file)
		return NULL;
	*line = number_before(file, *end, ':', end);
	*line = MAX(0, *line);
	if (*end - file < 3 ||
	    (memcmp(*end - 3, ".py", 3) && !(*file == '<' && (*end)[-1] == '>')))
		return NULL;
	return file;
}

static bool python_frame(struct folded_reader *r, const char *text, size_t n, struct frame *fr)
{
	const char *end, *file = python_file(text, n, &end, &fr->line);

	if (!file)
		return false;
	fr->kind = FRAME_PYTHON;
	fr->func = func_of(r, text, (size_t)(file - 2 - text), file, (size_t)(end - file));
	return true;
}

/* True: it is what native code has where there is no name. */
static bool is_place(const char *text, size_t n)
{
	static const char *const begin[] = { "[unknown]", "[anon]",	"[anon:",    "[heap]",
					     "[stack",	  "[vsyscall]", "[uprobes]" };

	for (size_t i = 0; i < ARRAY_SIZE(begin); i++)
		if (n >= strlen(begin[i]) && !memcmp(text, begin[i], strlen(begin[i])))
			return true;
	return false;
}

static int add_frame(struct folded_reader *r, const char *text, size_t n)
{
	struct frame fr = { .kind = FRAME_NATIVE };

	if (!array_reserve(&r->frames, &r->cap, r->n + 1, sizeof(*r->frames)))
		return -ENOMEM;
	if (n > 4 && !memcmp(text + n - 4, "_[k]", 4))
		fr.kind = FRAME_KERNEL;
	else if (n > 2 && *text == '[' && text[n - 1] == ']' && !is_place(text, n))
		fr.kind = FRAME_MARKER;
	if (!python_frame(r, text, n, &fr))
		fr.name = keep(r, text, n);
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

	side.u.comm.name = keep(r, text, n);
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

/* The first of a line's frames, where it is "COMM-PID" or "COMM-PID/THREAD-TID". */
struct root {
	pid_t pid, tid;
	const char *thread; /* NULL: it tells no thread */
	size_t comm_n, thread_n;
};

static bool take_root(const char *text, size_t n, struct root *ret)
{
	const char *at, *dash, *slash;
	int id = number_before(text, text + n, '-', &at), pid;

	if (id < 0)
		return false;
	*ret = (struct root){ .pid = id, .tid = id, .comm_n = (size_t)(at - text) };
	slash = slash_of(text, at, &dash, &pid);
	if (!slash)
		return true;
	ret->pid = pid;
	ret->comm_n = (size_t)(dash - text);
	ret->thread = slash + 1;
	ret->thread_n = (size_t)(at - ret->thread);
	return true;
}

/* Of other tools it is any text: a frame. */
static int read_root(struct folded_reader *r, const char *text, size_t n, struct sample *smp)
{
	struct root root;
	int ret;

	if (!(r->session->flags & SESSION_PROCESSES) || !take_root(text, n, &root))
		return add_frame(r, text, n);
	smp->pid = root.pid;
	smp->tid = root.tid;
	ret = tell_name(r, root.pid, root.pid, false, text, root.comm_n);
	if (ret || !root.thread)
		return ret;
	return tell_name(r, root.pid, root.tid, root.pid == root.tid, root.thread, root.thread_n);
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

/* True: @line, of @n bytes, ends in a count. */
static bool has_count(const char *line, size_t n)
{
	const char *count = strrchr(line, ' ');

	return count && strlen(line) == n && count[1] &&
	       !count[1 + strspn(count + 1, "0123456789")];
}

/* The file of the first Python frame from that at *@at on, which becomes the next one's place, of a
 * line that ends with @count. NULL: there is none. */
static const char *next_python(const char **at, const char *count)
{
	const char *file = NULL, *file_end;
	int number;

	while (*at && !file) {
		const char *text = *at, *end = text + strcspn(text, ";");

		*at = *end ? end + 1 : NULL;
		end = *end ? end : count;
		file = python_file(text, (size_t)(end - text), &file_end, &number);
	}
	return file;
}

/* True: one of the frames behind the first is Python's. */
static bool has_python(const char *line)
{
	const char *at = strchr(line, ';');

	at = at ? at + 1 : NULL;
	return next_python(&at, strrchr(line, ' '));
}

/* What is known of the lines so far. */
struct look {
	struct session found; /* their events */
	bool events;	      /* each line has one */
	bool roots;	      /* each line begins with a process, or could not be named */
	bool threads;	      /* one tells a thread */
	bool sure;	      /* one has what other tools' have not */
};

static void look_at(struct look *l, const char *line)
{
	const char *end = line + strcspn(line, ";");
	size_t n = (size_t)((*end ? end : strrchr(line, ' ')) - line);
	struct root root = { 0 };

	l->events = l->events && take_event(line, &l->found);
	l->roots = l->roots && (take_root(line, n, &root) ||
				(n == strlen(UNNAMED) && !memcmp(line, UNNAMED, n)));
	l->threads |= root.thread != NULL;
	l->sure = l->sure || root.pid >= FIRST_PID || has_python(line);
}

/* The next line without its end, and without the mark that some editors put before a text; how
 * long it is, -1: there is none. */
static ssize_t next_line(FILE *in, char **text, size_t *cap)
{
	static const char mark[] = "\xef\xbb\xbf";
	ssize_t n = getline(text, cap, in);
	size_t skip;

	if (n <= 0)
		return -1;
	n -= (*text)[n - 1] == '\n';
	n -= n && (*text)[n - 1] == '\r';
	(*text)[n] = '\0';
	skip = strncmp(*text, mark, strlen(mark)) ? 0 : strlen(mark);
	if (skip)
		memmove(*text, *text + skip, (size_t)n + 1 - skip);
	return n - (ssize_t)skip;
}

/* True: no stack, but what austin tells of its run. */
static bool is_remark(const char *line)
{
	return line[0] == '#' && line[1] == ' ' && !strchr(line, ';');
}

bool folded_begins(FILE *in)
{
	_cleanup_free_ char *text = NULL;
	size_t cap = 0;
	ssize_t n;

	while ((n = next_line(in, &text, &cap)) >= 0)
		if (n && !is_remark(text))
			return has_count(text, (size_t)n);
	return true;
}

bool folded_is_short(FILE *in)
{
	_cleanup_free_ char *text = NULL;
	size_t cap = 0;
	bool any = false;
	ssize_t n;

	while ((n = next_line(in, &text, &cap)) >= 0) {
		const char *at = has_count(text, (size_t)n) ? text : NULL, *file;

		while ((file = next_python(&at, strrchr(text, ' ')))) {
			if (*file == '/')
				return false;
			any |= *file != '<';
		}
	}
	return any;
}

int folded_look(FILE *in, struct session *session)
{
	_cleanup_free_ struct look *l = calloc(1, sizeof(*l));
	_cleanup_free_ char *text = NULL;
	size_t cap = 0;
	ssize_t n;

	if (!l)
		return -ENOMEM;
	l->events = l->roots = true;
	while ((l->events || l->roots) && (n = next_line(in, &text, &cap)) >= 0)
		if (has_count(text, (size_t)n) && !is_remark(text))
			look_at(l, text);
	if (l->events && l->found.n_events) {
		session->n_events = l->found.n_events;
		memcpy(session->events, l->found.events, sizeof(l->found.events));
		l->sure = true;
	}
	if (l->roots && (l->sure || l->threads))
		session->flags |= SESSION_PROCESSES | (l->threads ? SESSION_THREADS : 0);
	return 0;
}

int folded_read(FILE *in, const struct session *session, struct sink *s, size_t *line)
{
	struct folded_reader r = { .sink = s,
				   .session = session,
				   .names = session->texts ?: strtab_create() };
	_cleanup_free_ char *text = NULL;
	size_t cap = 0;
	ssize_t n;
	int ret = r.names ? 0 : -ENOMEM;

	for (*line = 1; !ret && (n = next_line(in, &text, &cap)) >= 0; *line += !ret)
		if (n && !is_remark(text))
			ret = strlen(text) == (size_t)n ? read_line(&r, text) : -EBADMSG;
	for (size_t i = 0; i < (r.n_func + BLOCK - 1) / BLOCK; i++)
		free(r.blocks[i]);
	free(r.blocks);
	free(r.frames);
	free(r.slot);
	if (!session->texts)
		strtab_destroy(r.names);
	return ret;
}
