/* SPDX-License-Identifier: MIT
 *
 * folded - one line a stack, "COMM-PID;frame;frame COUNT", root first: the input of
 * flame graph tools.
 *
 * Stacks are added up in memory and written at the end, event by event, in the order of their
 * first sight: a line says whose it is and has a body, a list of frame ids that equal stacks of
 * all processes share, so that of a process among many little is kept. Once there are thousands of lines,
 * those of processes that ended long ago are packed into a few bytes each, and written first.
 * Should one get a sample yet, it has two lines. When several events are recorded, the
 * frame after the process (and thread) is "event:NAME": their counts are not comparable.
 *
 * Native frames that are noted in session.places stand in the lists by their number there;
 * when their lines are known, at the end, the lists are made anew, with names only.
 */
#include <errno.h>
#include <stdbool.h>

#include "base/hash.h"
#include "base/base.h"
#include "lines/places.h"
#include "base/stats.h"
#include "copies.h"
#include "folded_int.h"
#include "kept.h"

enum {
	PLACE_NAME_MAX = PYFUNC_NAME_MAX + PYFUNC_FILE_MAX,
	MEMORY_SHARE = 4, /* of session.memory, one part in so many for names and stacks */
	PACK_FROM = 4096, /* lines */
};

enum { LINE_KEY = offsetof(struct folded_line, count) };

/* Bodies that are always there. */
enum { BODY_EMPTY, BODY_UNNAMED };

/* Whose sample it is. */
static struct folded_line line_of(const struct sink *s, const struct sample *smp)
{
	const struct folded *f = s->priv;
	uint32_t comm = comms_name(&f->comms, smp->pid), title;
	struct folded_line line = { .comm = comm == IDMAP_NONE ? f->unknown : comm,
				    .pid = smp->pid,
				    .event = smp->event };

	if (s->session->flags & SESSION_THREADS) {
		title = comms_title(&f->comms, smp->tid);
		line.title = title == IDMAP_NONE ? f->unknown : title;
		line.tid = smp->tid;
	}
	return line;
}

static uint32_t frame_name(struct folded *f, const struct frame *fr)
{
	if (fr->kind == FRAME_PYTHON)
		return folded_names_python(&f->names, fr->func, fr->line);
	if (fr->place)
		return FOLDED_IS_PLACE | fr->place;
	return folded_names_kept(&f->names, fr->name && *fr->name ? fr->name : "[unknown]");
}

/* The slot of the line like @line, or a free one. */
static uint32_t *slot_of(const struct folded *f, const struct folded_line *line)
{
	size_t i = hash_bytes(hash_seed.begin, line, LINE_KEY) & (f->n_slots - 1);

	while (f->slot[i] && memcmp(folded_line_at(f, f->slot[i] - 1), line, LINE_KEY) != 0)
		i = (i + 1) & (f->n_slots - 1);
	return &f->slot[i];
}

static void find_slots(struct folded *f)
{
	f->n_renamed = 0;
	memset(f->slot, 0, f->n_slots * sizeof(*f->slot));
	for (uint32_t i = 0; i < folded_n_lines(f); i++)
		*slot_of(f, folded_line_at(f, i)) = i + 1;
}

/* Twice as many slots. */
static int grow_slots(struct folded *f)
{
	size_t n = f->n_slots ? 2 * f->n_slots : 1024;
	uint32_t *slot = calloc(n, sizeof(*slot));

	if (!slot)
		return -ENOMEM;
	free(f->slot);
	f->slot = slot;
	f->n_slots = n;
	find_slots(f);
	return 0;
}

/* For a line more. */
static int make_slots(struct folded *f)
{
	return 2 * (folded_n_lines(f) + f->n_renamed + 1) > f->n_slots ? grow_slots(f) : 0;
}

/* True: the first line of a thread that the program may still give a name. */
static bool is_first_untitled(const struct folded *f, const struct folded_line *line)
{
	return line->tid && line->title != f->unknown &&
	       line->title == comms_name(&f->comms, line->tid) &&
	       idmap_get(&f->untitled, (uint32_t)line->tid) == IDMAP_NONE;
}

/* What the program calls a thread is read after its first samples, which are the same thread's:
 * they are given its name, too. */
static int name_lines(struct folded *f, const struct side *side, uint32_t title)
{
	uint32_t first = idmap_get(&f->untitled, (uint32_t)side->tid);
	int ret = 0;

	idmap_forget(&f->untitled, (uint32_t)side->tid);
	for (size_t i = first; !ret && i < folded_n_lines(f); i++) {
		struct folded_line *line = folded_line_at(f, i);
		uint32_t *slot;

		if (line->tid != side->tid || line->pid != side->pid ||
		    line->title != comms_name(&f->comms, side->tid))
			continue;
		ret = make_slots(f);
		line->title = title;
		slot = ret ? NULL : slot_of(f, line);
		if (slot && !*slot) {
			*slot = (uint32_t)i + 1;
			f->n_renamed++;
		}
	}
	return ret;
}

/* True: it is of a process that was known, and ended so long ago that it is not any more. */
static bool is_over(const struct folded *f, const struct folded_line *line)
{
	return line->comm != STRTAB_NONE && line->comm != f->unknown &&
	       comms_name(&f->comms, line->pid) == IDMAP_NONE;
}

/* Lines that are over leave the table. Where places get their names at the end, lines may yet
 * become one: all stay. */
static void pack_lines(const struct session *session, struct folded *f)
{
	size_t n = folded_n_lines(f), kept = 0;

	for (size_t i = 0; i < n && !session->places; i++) {
		const struct folded_line *line = folded_line_at(f, i);
		bool first = idmap_get(&f->untitled, (uint32_t)line->tid) == i;
		bool keep = !is_over(f, line) || packed_add(&f->packed, line);

		if (first)
			idmap_set(&f->untitled, (uint32_t)line->tid,
				  keep ? (uint32_t)kept : (uint32_t)IDMAP_NONE);
		if (keep)
			*folded_line_at(f, kept++) = *line;
	}
	if (!session->places)
		f->stacks.n = kept * sizeof(struct folded_line);
	f->pack_at = MAX((size_t)PACK_FROM, 2 * folded_n_lines(f));
	find_slots(f);
}

/* A new line for which there is no room is "[unnamed]", with several events of its event. */
static uint32_t *slot_of_unnamed(struct sink *s, struct folded_line *line)
{
	STATS_ADD(s->session->stats, unnamed, 1);
	*line = (struct folded_line){ .comm = STRTAB_NONE, .event = line->event };
	return slot_of(s->priv, line);
}

/* Count @weight more of @line. */
static int count_line(struct sink *s, struct folded_line line, uint64_t weight)
{
	struct folded *f = s->priv;
	uint32_t *slot;

	if (folded_n_lines(f) >= MAX((size_t)PACK_FROM, f->pack_at))
		pack_lines(s->session, f);
	if (make_slots(f))
		return -ENOMEM;
	slot = slot_of(f, &line);
	if (!*slot && f->names.full)
		slot = slot_of_unnamed(s, &line);
	if (!*slot) {
		line.count = 0;
		buf_put(&f->stacks, &line, sizeof(line));
		if (f->stacks.oom)
			return -ENOMEM;
		*slot = (uint32_t)folded_n_lines(f);
		if (is_first_untitled(f, &line) &&
		    idmap_set(&f->untitled, (uint32_t)line.tid, *slot - 1))
			return -ENOMEM;
	}
	folded_line_at(f, *slot - 1)->count += weight;
	return 0;
}

static bool put_name(struct folded *f, uint32_t id)
{
	if (id != STRTAB_NONE)
		buf_u32(&f->ids, id);
	return id != STRTAB_NONE && !f->ids.oom;
}

static size_t bytes_of(const struct folded *f)
{
	return f->stacks.cap + f->packed.bytes.cap + f->same.cap + f->n_slots * sizeof(*f->slot) +
	       folded_names_bytes(&f->names) + strtab_bytes(f->bodies) +
	       comms_bytes(&f->comms) + idmap_bytes(&f->untitled);
}

static void look_at_room(struct sink *s)
{
	struct folded *f = s->priv;

	if (s->session->memory && f->n_slots &&
	    bytes_of(f) > s->session->memory / MEMORY_SHARE)
		f->names.full = true;
}

/* Where it is kept which body stacks equal to @stk have; NULL: it is not. */
static uint32_t *same_of(struct folded *f, const struct stack *stk)
{
	size_t at = 4 * (size_t)stk->same;

	if (stk->same && at >= f->same.n)
		buf_zero(&f->same, at + 4 - f->same.n);
	return stk->same && !f->same.oom ? (uint32_t *)(void *)(f->same.at + at) : NULL;
}

/* The body of which the names were put into @ids. One for which there is no room is unnamed.
 */
static uint32_t body_made(struct folded *f)
{
	const char *ids = f->ids.n ? (const char *)f->ids.at : "";
	uint32_t body;

	if (!f->names.full)
		return strtab_add(f->bodies, ids, f->ids.n);
	body = strtab_find(f->bodies, ids, f->ids.n);
	return body == STRTAB_NONE ? (uint32_t)BODY_UNNAMED : body;
}

/* STRTAB_NONE: no memory. */
static uint32_t body_of(struct sink *s, const struct stack *stk)
{
	struct folded *f = s->priv;
	uint32_t *same = same_of(f, stk), body;
	bool ok = !stk->same || same;

	if (same && *same)
		return *same - 1;
	f->ids.n = 0;
	for (size_t i = stk->n; i-- && ok;)
		ok = put_name(f, frame_name(f, &stk->frames[i]));
	body = ok ? body_made(f) : (uint32_t)STRTAB_NONE;
	if (same && body != STRTAB_NONE)
		*same = body + 1;
	return body;
}

static int folded_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	struct folded *f = s->priv;
	struct folded_line line = line_of(s, smp);
	int ret;

	if (s->failed || !kept_sample(s, smp))
		return s->failed;
	look_at_room(s);
	line.body = body_of(s, stk);
	ret = line.body == STRTAB_NONE ? -ENOMEM :
					 count_line(s, line, kept_weight(s->session, smp));
	if (ret) {
		s->failed = ret;
		return ret;
	}
	s->samples += kept_samples(s->session, smp);
	f->samples[smp->event] += kept_samples(s->session, smp);
	return 0;
}

static uint32_t comm_name(struct sink *s, const char *name)
{
	struct folded *f = s->priv;
	size_t before = strtab_bytes(f->names.text);
	bool room = kept_name(s, f->comm_bytes);
	uint32_t ret = folded_names_add(&f->names, room ? name : FOLDED_UNNAMED);

	f->comm_bytes += strtab_bytes(f->names.text) - before;
	return ret;
}

static int folded_side(struct sink *s, const struct side *side)
{
	struct folded *f = s->priv;
	bool comm = side->kind == SIDE_COMM;
	uint32_t name =
		comm ? comm_name(s, side->u.comm.name) : (uint32_t)STRTAB_NONE;
	int ret = comm && name == STRTAB_NONE ? -ENOMEM : comms_side(&f->comms, side, name);

	if (!ret && comm && side->u.comm.thread)
		ret = name_lines(f, side, name);
	else if (!ret && side->kind == SIDE_FORK)
		idmap_forget(&f->untitled, (uint32_t)side->tid);
	if (ret && !s->failed)
		s->failed = ret;
	return ret;
}

static void folded_free(struct folded *f)
{
	folded_names_deinit(&f->names);
	strtab_destroy(f->bodies);
	comms_deinit(&f->comms);
	idmap_deinit(&f->untitled);
	buf_deinit(&f->ids);
	buf_deinit(&f->stacks);
	packed_deinit(&f->packed);
	buf_deinit(&f->same);
	free(f->slot);
}

static int begin_bodies(struct folded *f)
{
	const uint32_t unnamed = folded_names_add(&f->names, FOLDED_UNNAMED);

	f->bodies = strtab_create();
	if (!f->bodies || unnamed == STRTAB_NONE ||
	    strtab_add(f->bodies, "", 0) != BODY_EMPTY ||
	    strtab_add(f->bodies, (const char *)&unnamed, sizeof(unnamed)) != BODY_UNNAMED)
		return -ENOMEM;
	return 0;
}

static int folded_begin(struct sink *s, struct err *err)
{
	struct folded *f = s->priv;

	if (folded_names_init(&f->names, s->session->flags) == 0 && begin_bodies(f) == 0) {
		f->unknown = folded_names_add(&f->names, "?");
		if (f->unknown != STRTAB_NONE)
			return 0;
	}
	folded_free(f);
	return err_set(err, -ENOMEM, "writing %s: out of memory", s->path);
}

/* The frames at a place, outermost first: "symbol (file.c:12)", "inlined (file.h:3)_[i]". */
static bool put_place(struct sink *s, uint32_t place)
{
	struct folded *f = s->priv;
	char buf[PLACE_NAME_MAX];
	size_t n;
	const struct places_frame *fr = places_frames(s->session->places, place, &n);
	bool ok = true;

	while (n-- && ok) {
		places_text(&fr[n], s->session->flags & SESSION_LINES, buf, sizeof(buf));
		ok = put_name(s->priv, folded_names_format(&f->names, "%s%s", buf,
							   fr[n].inlined ? "_[i]" : ""));
	}
	return ok;
}

/* The body @i of @from, with names for places. STRTAB_NONE: no memory. */
static uint32_t name_places(struct sink *s, const struct strtab *from, uint32_t i)
{
	struct folded *f = s->priv;
	const char *ids = strtab_get(from, i);
	bool ok = true;

	f->ids.n = 0;
	for (size_t at = 0; at < strtab_len(from, i) && ok; at += 4) {
		uint32_t id = load_u32(ids + at);

		ok = id & FOLDED_IS_PLACE ? put_place(s, id & ~FOLDED_IS_PLACE) : put_name(f, id);
	}
	return ok ? body_made(f) : (uint32_t)STRTAB_NONE;
}

/* Lines of which the bodies are one now are one. */
static int name_all_places(struct sink *s)
{
	struct folded *f = s->priv, old = *f;
	uint32_t n = strtab_count(old.bodies);
	_cleanup_free_ uint32_t *now = calloc(n, sizeof(*now));
	int ret;

	places_resolve(s->session->places);
	f->bodies = NULL;
	f->stacks = (struct buf){};
	f->slot = NULL;
	f->n_slots = 0;
	f->n_renamed = 0;
	f->names.full = false; /* there are no more stacks than before */
	ret = now ? begin_bodies(f) : -ENOMEM;
	for (uint32_t i = 0; !ret && i < n; i++) {
		now[i] = name_places(s, old.bodies, i);
		ret = now[i] == STRTAB_NONE ? -ENOMEM : 0;
	}
	for (size_t i = 0; !ret && i < folded_n_lines(&old); i++) {
		struct folded_line line = *folded_line_at(&old, i);

		line.body = now[line.body];
		ret = count_line(s, line, line.count);
	}
	strtab_destroy(old.bodies);
	buf_deinit(&old.stacks);
	free(old.slot);
	return ret;
}

static int folded_finish(struct sink *s)
{
	return s->session->places ? name_all_places(s) : 0;
}

static int folded_end(struct sink *s, struct err *err)
{
	if (s->failed && !s->is_whole)
		s->lacking = folded_lacking(s);
	folded_free(s->priv);
	return 0;
}

static const char *const extensions[] = { ".folded", ".txt", NULL };

const struct sink_ops sink_folded = {
	.name = "folded",
	.extensions = extensions,
	.next = "flamegraph.pl ",
	.help = "one line a stack, for flame graphs",
	.needs = SINK_NEEDS_NAMES | SINK_KNOWS_STACKS | SINK_IS_RESULT | SINK_IS_LINES,
	.priv_size = sizeof(struct folded),
	.begin = folded_begin,
	.side = folded_side,
	.sample = folded_sample,
	.round = copies_round,
	.copy = folded_write,
	.finish = folded_finish,
	.end = folded_end,
};
