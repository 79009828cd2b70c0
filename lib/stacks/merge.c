/* SPDX-License-Identifier: MIT */
#include "stacks/merge.h"

/* Where we are. */
struct merger {
	const struct merge_input *in;
	struct merge_item *ret;
	size_t n;
	uint32_t n_frames;
	uint32_t python; /* the next Python frame */
	uint32_t anchor; /* the next that some frame from here on owns, or n_anchors */
	uint32_t anchor_owner; /* the frame that owns it */
	uint32_t bare; /* the root of a coroutine that runs no Python, or n_frames */
};

uint32_t merge_owner(const struct unwind_frame *frame, uint32_t from, uint32_t n, uint64_t at)
{
	uint32_t i = from;

	while (i < n && !(frame[i].sp <= at && at < frame[i].cfa))
		i++;
	return i;
}

static void put(struct merger *m, enum merge_kind kind, uint32_t i)
{
	m->ret[m->n++] = (struct merge_item){ .kind = kind, .i = i };
}

static void put_python(struct merger *m, uint32_t to)
{
	while (m->python < to)
		put(m, MERGE_PYTHON, m->python++);
}

static bool by_loops(const struct merge_input *in)
{
	return in->n_anchors && in->anchor[0].at == PYSTACK_IN_LOOP;
}

/* The first evaluation loop from @from on. */
static uint32_t loop_from(const struct merger *m, uint32_t from)
{
	while (from < m->n_frames && m->in->hint[from] != MERGE_IS_EVAL)
		from++;
	return from;
}

/* Up to 3.10, of a whole stack: where does the loop of the newest frame begin to be looked
 * for? A loop that is being entered or left has no frame: it is one more. With any other
 * number nobody knows which loop runs which frame, unless frames are missing that run in the
 * outer ones. The loops beyond a greenlet's root run others' frames; which of the library's
 * frames is the root shows in their number. */
static uint32_t first_loop(const struct merger *m, bool whole)
{
	uint32_t loops = 0, n = m->in->n_anchors;
	bool one_more = false;

	for (uint32_t i = 0; i < m->n_frames; i++) {
		loops += m->in->hint[i] == MERGE_IS_EVAL;
		if (m->in->hint[i] != MERGE_IS_COROUTINE)
			continue;
		if (loops == n)
			return 0;
		one_more |= loops == n + 1;
	}
	if (loops < n ? !whole : loops == n || m->in->truncated)
		return 0;
	return one_more || loops == n + 1 ? loop_from(m, 0) + 1 : m->n_frames;
}

/* The next anchor from @a on that a frame from @from on owns. An anchor that none owns (one on
 * another stack) leaves its Python frames to the next one that has an owner. */
static void next_anchor(struct merger *m, uint32_t a, uint32_t from)
{
	if (by_loops(m->in)) {
		m->anchor_owner = loop_from(m, from);
		m->anchor = m->anchor_owner < m->n_frames ? a : m->in->n_anchors;
		return;
	}
	for (; a < m->in->n_anchors; a++) {
		m->anchor_owner =
			merge_owner(m->in->frame, from, m->n_frames, m->in->anchor[a].at);
		if (m->anchor_owner < m->n_frames)
			break;
	}
	m->anchor = a;
}

/* A frame, and the Python frames of the activations in it. */
static void put_frame(struct merger *m, uint32_t i)
{
	bool owns = m->anchor < m->in->n_anchors && m->anchor_owner == i;

	/* What a coroutine library keeps in its own frames runs no Python itself. */
	put(m, owns && m->in->hint[i] != MERGE_IS_COROUTINE ? MERGE_EVAL : MERGE_NATIVE, i);
	while (m->anchor < m->in->n_anchors && m->anchor_owner == i) {
		put_python(m, MIN(m->in->anchor[m->anchor].n, m->in->n_python));
		next_anchor(m, m->anchor + 1, by_loops(m->in) ? i + 1 : i);
	}
}

/* Python frames beyond the last anchor, read or not: the walk was cut, and which activation runs
 * them is not known. */
static bool is_cut(const struct merger *m)
{
	const struct merge_input *in = m->in;
	uint32_t placed = in->n_anchors ? in->anchor[in->n_anchors - 1].n : 0;

	return m->anchor == in->n_anchors && m->python == placed &&
	       (placed < in->n_python || in->truncated);
}

/* True: there is nothing more to say about the frames from @i on. */
static bool ends_before(struct merger *m, uint32_t i)
{
	if (!is_cut(m) || m->in->hint[i] != MERGE_IS_EVAL)
		return false;
	put(m, MERGE_EVAL, i);
	put_python(m, m->in->n_python);
	put(m, MERGE_END, UNWIND_LIMIT);
	return true;
}

static bool ends_behind(struct merger *m, uint32_t i)
{
	const struct merge_input *in = m->in;

	if (i == m->bare) {
		put(m, MERGE_END, UNWIND_COROUTINE);
		return true;
	}
	if (!in->n_anchors || m->anchor < in->n_anchors || m->python < in->n_python ||
	    in->hint[i] != MERGE_IS_COROUTINE)
		return false;
	put(m, MERGE_END, UNWIND_COROUTINE);
	return true;
}

static bool put_run(struct merger *m, uint32_t from, const struct merge_run *run)
{
	for (uint32_t i = from; i < run->to; i++) {
		if (ends_before(m, i))
			return true;
		put_frame(m, i);
		if (ends_behind(m, i))
			return true;
	}
	if (run->end != UNWIND_BOTTOM)
		put(m, MERGE_END, run->end);
	return run->end == UNWIND_BOTTOM;
}

/* A greenlet before its first Python frame, or behind its last. Where all is whole and nobody
 * runs Python, it is the interpreter that ends. */
static uint32_t bare_root(const struct merger *m, bool whole)
{
	uint32_t i = 0, loop = loop_from(m, 0);

	while (i < m->n_frames && m->in->hint[i] != MERGE_IS_COROUTINE)
		i++;
	return m->in->none && i < loop && (loop < m->n_frames || !whole) ? i : m->n_frames;
}

/* True: the native stack ends before frame @i, and goes on there. */
static bool is_broken_before(const struct merge_input *in, uint32_t i)
{
	for (uint32_t r = 0; r < in->n_runs; r++)
		if (in->run[r].to == i && in->run[r].end != UNWIND_BOTTOM)
			return true;
	return false;
}

/* Of an evaluation loop at frame @i. True: it is a handler, which the loop behind it called. */
static bool is_handler(const struct merger *m, uint32_t i)
{
	return i + 1 < m->n_frames && m->in->hint[i + 1] == MERGE_IS_EVAL;
}

/* While greenlet switches it copies a C stack over that of the Python frames. Then behind its
 * own frames come those of either greenlet, with a loop that no activation stands in, or up to
 * a break. Up to 3.10 nothing tells. How many innermost frames are surely the thread's; all: it
 * is not so. */
static uint32_t switch_frames(const struct merger *m)
{
	const struct merge_input *in = m->in;
	uint32_t owner = in->n_anchors ? m->anchor_owner : m->n_frames, own, i = 0;

	while (i < m->n_frames && in->hint[i] == MERGE_PLAIN)
		i++;
	for (own = i; own < m->n_frames && in->hint[own] == MERGE_IS_COROUTINE;)
		own++;
	if (own == i || !in->n_python)
		return m->n_frames;
	if (by_loops(in))
		return own;
	for (i = own; i < owner; i++)
		if ((in->hint[i] == MERGE_IS_EVAL && !is_handler(m, i)) || is_broken_before(in, i))
			return own;
	return i == owner && i < m->n_frames && is_broken_before(in, i) ? own : m->n_frames;
}

/* Of a thread in the midst of a switch. */
static size_t merge_switch(struct merger *m, uint32_t own)
{
	for (uint32_t i = 0; i < own; i++)
		put(m, MERGE_NATIVE, i);
	put(m, MERGE_END, UNWIND_CUT);
	put_python(m, m->in->n_python);
	return m->n;
}

size_t merge(const struct merge_input *in, struct merge_item *ret)
{
	struct merger m = { .in = in, .ret = ret };
	uint32_t from = 0, own;
	bool whole = false, whole_runs = in->n_runs;

	m.n_frames = in->n_runs ? in->run[in->n_runs - 1].to : 0;
	for (uint32_t r = 0; r < in->n_runs; r++)
		whole_runs &= in->run[r].end == UNWIND_BOTTOM;
	next_anchor(&m, 0, by_loops(in) ? first_loop(&m, whole_runs) : 0);
	m.bare = bare_root(&m, whole_runs);
	own = switch_frames(&m);
	if (own < m.n_frames)
		return merge_switch(&m, own);
	for (uint32_t r = 0; r < in->n_runs && !whole; r++) {
		whole = put_run(&m, from, &in->run[r]);
		from = in->run[r].to;
	}
	if (m.python < in->n_python && whole && ret[m.n - 1].kind != MERGE_END)
		put(&m, MERGE_UNPLACED, 0);
	put_python(&m, in->n_python);
	return m.n;
}
