/* SPDX-License-Identifier: MIT
 *
 * pygreenlets - through the lists of the garbage collector, and into a greenlet.
 */
#include "python/pygreenlets.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "offsets/debug_offsets.h"
#include "offsets/tasklayout.h"
#include "python/pydict.h"
#include "python/pynames.h"
#include "python/pytype.h"

enum {
	GC_HEAD =
		16, /* before each object: next, previous; the lowest bits mean other things */
	LISTS = 3,
	LIST_BYTES = 24,
	PTR_BITS = 7,
	TYPES = 1024, /* power of two; entries that collide are replaced */
	/* From greenlet 2 on: a weak reference list, a dict, and what it keeps elsewhere. */
	GREENLET_BYTES = 40,
	GREENLET_KEEPS = 32,
	KEEPS_FROM = 88, /* where among these the frame is looked for: it was seen at 104 */
	KEEPS_TO = 128,	 /* and 120, and what is kept is longer than this */
	FRAME_OBJECT_FRAME = 24, /* from 3.11 on */
	PIECE = 4096,
};

enum is { NO, YES, STRANGE };

struct search {
	struct rmem *m;
	const struct pylayout *l;
	struct pygreenlets *ret;
	uint64_t until_ns;
	size_t looked; /* objects */
	bool strange;  /* greenlets of another layout */
	bool over;     /* there is no more time or room */
	struct {
		raddr type; /* 0: none is kept; nothing is of that type */
		enum is is;
	} types[TYPES];
};

void pygreenlets_deinit(struct pygreenlets *g)
{
	free(g->at);
	*g = (struct pygreenlets){ 0 };
}

bool pygreenlets_known(const struct pylayout *l)
{
	return !l->free_threaded && pynames_known(l) && gclayout_known(l->version);
}

/* --- is it one? --- */

static enum is judge_type(struct search *s, raddr type)
{
	uint64_t size;

	for (int i = 0; type && i < PYTYPE_BASES; i++) {
		raddr behind = type + pylayout_head(s->l);

		if (pytype_is_called(s->m, s->l, type, "greenlet.greenlet"))
			return rmem_read_u64(s->m, behind + PYTYPE_BASICSIZE, &size) == 0 &&
					       size == GREENLET_BYTES ?
				       YES :
				       STRANGE;
		if (rmem_read_u64(s->m, behind + PYTYPE_BASE, &type) < 0)
			return NO;
	}
	return NO;
}

static enum is judge(struct search *s, raddr type)
{
	size_t i = (type >> 4) % TYPES;

	if (s->types[i].type != type) {
		s->types[i].type = type;
		s->types[i].is = judge_type(s, type);
	}
	return s->types[i].is;
}

/* --- the lists --- */

/* False: there is no room. */
static bool add(struct pygreenlets *g, raddr at)
{
	if (g->n == PYGREENLETS_MAX ||
	    !array_reserve(&g->at, &g->cap, g->n + 1, sizeof(*g->at)))
		return false;
	g->at[g->n++] = at;
	return true;
}

static void look_at(struct search *s, raddr object, raddr type)
{
	switch (judge(s, type)) {
	case YES:
		s->over = !add(s->ret, object);
		break;
	case STRANGE:
		s->strange = true;
		break;
	default:
		break;
	}
}

/* There is time for more, and room. */
static bool goes_on(struct search *s)
{
	s->over = s->over || s->looked++ >= PYGREENLETS_OBJECTS;
	if (!s->over && s->looked % PIECE == 0)
		s->over = now_ns() >= s->until_ns;
	s->ret->cut = s->ret->cut || s->over;
	return !s->over;
}

/* One that is changed meanwhile leads somewhere else: what was met counts, the rest of
 * the list is missing. False: not even the head's links lead back to it. */
static bool read_list(struct search *s, raddr head)
{
	uint32_t type = GC_HEAD / 8 + pyoff_get(s->l->object.type) / 8;
	uint64_t node[8]; /* next, previous, and the object's head */
	raddr at = head, before;
	size_t n = 8 * ((size_t)type + 1);

	if (n > sizeof(node) || rmem_read(s->m, head, node, 16) < 0)
		return false;
	if (node[0] == head)
		return node[1] == head;
	while ((node[0] & ~(uint64_t)PTR_BITS) != head && goes_on(s)) {
		before = at;
		at = node[0] & ~(uint64_t)PTR_BITS;
		if (rmem_read(s->m, at, node, n) < 0 ||
		    (node[1] & ~(uint64_t)PTR_BITS) != before) {
			s->ret->cut = true;
			return before != head;
		}
		look_at(s, at + GC_HEAD, node[type]);
	}
	return true;
}

static int compare(const void *a, const void *b)
{
	const raddr *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* One that moved from list to list was met twice. */
static void put_in_order(struct pygreenlets *g)
{
	size_t n = 0;

	if (g->n)
		qsort(g->at, g->n, sizeof(*g->at), compare);
	for (size_t i = 0; i < g->n; i++)
		if (!i || g->at[i] != g->at[i - 1])
			g->at[n++] = g->at[i];
	g->n = n;
}

/* Where the lists of the interpreter at @interp begin, into @ret; or NULL: nobody knows. */
static const struct gclayout *lists_of(struct search *s, raddr runtime, raddr interp,
				       raddr *ret)
{
	const struct gclayout *gc = gclayout_find(s->l->version, 0, 0);
	unsigned char raw[DEBUG_OFFSETS_MAX];
	struct gc_told told = { 0 };

	if (!gc && rmem_read(s->m, runtime, raw, sizeof(raw)) == 0 &&
	    debug_offsets_gc((struct bytes){ raw, sizeof(raw) }, &told) == 0)
		gc = gclayout_find(s->l->version, told.size, told.collecting);
	if (gc)
		*ret = (gc->of_runtime ? runtime : interp) + told.at + gc->lists;
	return gc;
}

/* While it collects, one of the lists may lead elsewhere from its head on. */
static int read_interp(struct search *s, raddr runtime, raddr interp)
{
	struct pydict d;
	int r = pydict_of_module(s->m, s->l, interp, "greenlet._greenlet", &d);
	const struct gclayout *gc;
	raddr lists;
	int good = 0;

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	gc = lists_of(s, runtime, interp, &lists);
	if (!gc)
		return -ENODATA;
	for (int i = 0; i < LISTS; i++)
		good += read_list(s, lists + (raddr)i * LIST_BYTES);
	if (!good)
		return -ENODATA;
	if (!read_list(s, lists + gc->frozen) || good < LISTS)
		s->ret->cut = true;
	return 0;
}

int pygreenlets_find(struct rmem *m, const struct pylayout *l, raddr runtime,
		     uint64_t until_ns, struct pygreenlets *ret)
{
	struct search *s = calloc(1, sizeof(*s));
	raddr interp;
	int r;

	*ret = (struct pygreenlets){ 0 };
	if (!s)
		return -ENOMEM;
	*s = (struct search){ .m = m, .l = l, .ret = ret, .until_ns = until_ns };
	r = rmem_read_u64(m, runtime + pyoff_get(l->runtime.interp_head), &interp);
	for (int n = 0; r == 0 && interp; n++) {
		if (n == PYNAMES_INTERPS) {
			ret->cut = true;
			break;
		}
		r = read_interp(s, runtime, interp);
		if (r == 0)
			r = rmem_read_u64(m, interp + pyoff_get(l->interp.next), &interp);
	}
	put_in_order(ret);
	if (r == 0 && s->strange)
		r = -ENOTSUP;
	free(s);
	return r;
}

/* --- one --- */

/* The only frame object among @words. 0, -ENOENT, or -EBADMSG: there are several. */
static int find_frame(struct rmem *m, const struct pylayout *l, const uint64_t *words,
		      size_t n, raddr *ret)
{
	*ret = 0;
	for (size_t i = 0; i < n; i++) {
		if (!words[i] || words[i] % 8 || words[i] == *ret ||
		    !pytype_is_a(m, l, words[i], "frame"))
			continue;
		if (*ret)
			return -EBADMSG;
		*ret = words[i];
	}
	return *ret ? 0 : -ENOENT;
}

int pygreenlets_read(struct rmem *m, const struct pylayout *l,
		     const struct pywalk_layout *walk, raddr at,
		     struct pyframe ret[PYGREENLET_FRAMES])
{
	uint64_t words[(KEEPS_TO - KEEPS_FROM) / 8];
	struct pywalk w;
	raddr keeps, frame;
	int r = rmem_read_u64(m, at + GREENLET_KEEPS, &keeps);

	if (r < 0 || !keeps)
		return r;
	r = rmem_read(m, keeps + KEEPS_FROM, words, sizeof(words));
	if (r < 0)
		return r;
	r = find_frame(m, l, words, ARRAY_SIZE(words), &frame);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (!l->lasti_unit && rmem_read_u64(m, frame + FRAME_OBJECT_FRAME, &frame) < 0)
		return -EFAULT;
	w = pyframe_walk_on(m, walk, frame, ret, PYGREENLET_FRAMES);
	/* Its first frame has none before it; whether that one is an entry does not matter. */
	if (!w.n || (w.end != PYWALK_BOTTOM && w.end != PYWALK_BROKEN))
		return -EBADMSG;
	for (uint32_t i = 0, j = w.n - 1; i < j; i++, j--) {
		struct pyframe f = ret[i];

		ret[i] = ret[j];
		ret[j] = f;
	}
	return (int)w.n;
}
