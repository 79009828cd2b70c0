/* SPDX-License-Identifier: MIT
 *
 * pyawait - a coroutine has a frame; where that is suspended in an await, what it awaits is
 * its topmost value.
 */
#include "python/pyawait.h"

#include <errno.h>

#include "base/base.h"
#include "offsets/tasklayout.h"
#include "python/pydict.h"

enum {
	TYPE_NAME_MAX = 24, /* bytes of a type's name that are compared */
	VALUES_MAX = 1 << 16,
	THROW_LINKS_SINCE = 0x0309,
};

/* One look at a chain. */
struct look {
	struct rmem *m;
	const struct pylayout *l;
	const struct pywalk_layout *walk;
	const struct genlayout *g;
};

enum kind {
	NOT_FOLLOWED, /* a future, or anything else: the chain ends above it */
	HAS_FRAME,
	REFERS, /* its first field is what is awaited */
};

static const struct {
	const char *type;
	enum kind kind;
} kinds[] = {
	{ "coroutine", HAS_FRAME },	     { "generator", HAS_FRAME },
	{ "async_generator", HAS_FRAME },    { "coroutine_wrapper", REFERS },
	{ "async_generator_asend", REFERS }, { "async_generator_athrow", REFERS },
	{ "anext_awaitable", REFERS },
};

bool pyawait_known(const struct pylayout *l)
{
	return genlayout_find(l) != NULL;
}

/* --- what kind of object --- */

/* A name may end where memory does. */
static int read_name(struct rmem *m, raddr at, char name[TYPE_NAME_MAX])
{
	size_t n = TYPE_NAME_MAX;

	while (n && rmem_read(m, at, name, n) < 0)
		n -= 2;
	return n ? 0 : -EFAULT;
}

static int kind_of(const struct look *k, raddr object, enum kind *ret)
{
	char name[TYPE_NAME_MAX] = "";
	raddr type, at;

	*ret = NOT_FOLLOWED;
	if (object % 8 ||
	    rmem_read_u64(k->m, object + pyoff_get(k->l->object.type), &type) < 0 ||
	    rmem_read_u64(k->m, type + pyoff_get(k->l->object.type_name), &at) < 0 ||
	    read_name(k->m, at, name) < 0)
		return -EBADMSG;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strncmp(name, kinds[i].type, sizeof(name)))
			*ret = kinds[i].kind;
	return 0;
}

/* From *@object to what it stands for. 0: *@object has a frame; -ENOENT: it is no more
 * followed. */
static int find_frame_owner(const struct look *k, raddr *object)
{
	enum kind kind;

	for (int i = 0; i < 4; i++) {
		if (kind_of(k, *object, &kind) < 0)
			return -EBADMSG;
		if (kind != REFERS)
			return kind == HAS_FRAME ? 0 : -ENOENT;
		if (rmem_read_u64(k->m, *object + pylayout_head(k->l), object) < 0 ||
		    !*object)
			return -EBADMSG;
	}
	return -EBADMSG;
}

/* --- one coroutine --- */

struct one {
	raddr object;
	raddr frame; /* 0: it has ended */
	enum pyawait_state state;
	int8_t told; /* from 3.10 on: its state */
	struct pyframe f;
};

static int read_state(const struct look *k, struct one *o)
{
	const struct genlayout *g = k->g;
	uint8_t running;

	if (pyoff_has(g->running)) {
		if (rmem_read(k->m, o->object + pyoff_get(g->running), &running, 1) < 0)
			return -EFAULT;
		o->state = running ? PYAWAIT_RUNS : PYAWAIT_WAITS;
		return running > 1 ? -EBADMSG : 0;
	}
	if (rmem_read(k->m, (k->l->lasti_unit ? o->frame : o->object) + pyoff_get(g->state),
		      &o->told, 1) < 0)
		return -EFAULT;
	if (o->told < -3 || o->told > 5)
		return -EBADMSG;
	o->state = o->told > g->runs  ? PYAWAIT_ENDED :
		   o->told == g->runs ? PYAWAIT_RUNS :
					PYAWAIT_WAITS;
	return 0;
}

/* Up to 3.10 the frame is an object that knows whose it is; later it is a part of it. */
static int find_frame(const struct look *k, struct one *o)
{
	raddr owner;

	o->frame = o->object + k->g->frame;
	if (!k->l->lasti_unit)
		return 0;
	if (rmem_read_u64(k->m, o->frame, &o->frame) < 0)
		return -EFAULT;
	if (!o->frame)
		return 0;
	if (rmem_read_u64(k->m, o->frame + pyoff_get(k->g->frame_of), &owner) < 0)
		return -EFAULT;
	return owner == o->object ? 0 : -EBADMSG;
}

static int read_one(const struct look *k, struct one *o)
{
	struct pywalk w;
	int r = find_frame(k, o);

	o->state = PYAWAIT_ENDED;
	if (r < 0 || !o->frame)
		return r;
	r = read_state(k, o);
	if (r < 0 || o->state == PYAWAIT_ENDED)
		return r;
	w = pyframe_walk_on(k->m, k->walk, o->frame, &o->f, 1);
	if (w.n != 1)
		return -EFAULT;
	return k->l->lasti_unit || o->f.frame & PYFRAME_GENERATOR ? 0 : -EBADMSG;
}

/* --- what it awaits --- */

static int next_instruction(const struct look *k, const struct one *o, uint8_t ret[2])
{
	raddr at = o->f.instr;

	if (k->l->lasti_unit) {
		raddr bytes;

		if (rmem_read_u64(k->m, o->f.code + pyoff_get(k->l->code.instructions),
				  &bytes) < 0)
			return -EFAULT;
		at = bytes + pyoff_get(k->l->bytes.data) + (o->f.instr - o->f.code);
	}
	return rmem_read(k->m, at + 2, ret, 2);
}

/* Does it stand in an await or a yield from? 0, -ENOENT or a read error. */
static int stands_in_await(const struct look *k, const struct one *o)
{
	const struct genlayout *g = k->g;
	uint8_t next[2];

	if (!g->opcode[0])
		return o->told >= g->waits && o->told < g->runs ? 0 : -ENOENT;
	if (k->l->lasti_unit && (int64_t)(o->f.instr - o->f.code) < 0)
		return -ENOENT; /* it has not begun */
	if (next_instruction(k, o, next) < 0)
		return -EFAULT;
	return (next[0] == g->opcode[0] || next[0] == g->opcode[1]) &&
			       (!g->argument || (next[1] & 3) >= g->argument) ?
		       0 :
		       -ENOENT;
}

/* From 3.11 on values follow the locals; up to 3.13 it is counted from the first of these. */
static int find_top(const struct look *k, const struct one *o, raddr *ret)
{
	const struct pylayout *l = k->l;
	raddr locals = o->frame + pyoff_get(l->frame.localsplus), top;
	int32_t n_top, n_locals;

	if (pyoff_has(k->g->top)) {
		if (rmem_read_u64(k->m, o->frame + pyoff_get(k->g->top), &top) < 0)
			return -EFAULT;
		if (top - locals > 8 * VALUES_MAX || top - locals < 8 + 8ull * k->g->above)
			return -EBADMSG;
		*ret = top - 8 - 8ull * k->g->above;
		return 0;
	}
	if (rmem_read(k->m, o->frame + pyoff_get(l->frame.stacktop), &n_top, 4) < 0 ||
	    rmem_read(k->m, o->f.code + pyoff_get(l->code.nlocalsplus), &n_locals, 4) < 0)
		return -EFAULT;
	if (n_top > VALUES_MAX || n_locals < 0 || n_top <= n_locals)
		return -EBADMSG;
	*ret = locals + 8ull * (uint32_t)(n_top - 1);
	return 0;
}

/* Up to 3.10. */
static int find_top_of_object(const struct look *k, const struct one *o, raddr *ret)
{
	const struct genlayout *g = k->g;
	raddr values, top;
	int32_t depth;

	if (rmem_read_u64(k->m, o->frame + pyoff_get(g->values), &values) < 0)
		return -EFAULT;
	if (pyoff_has(g->depth)) {
		if (rmem_read(k->m, o->frame + pyoff_get(g->depth), &depth, 4) < 0)
			return -EFAULT;
		top = values + 8ull * (uint32_t)(depth > 0 ? depth : 0);
	} else if (rmem_read_u64(k->m, o->frame + pyoff_get(g->top), &top) < 0) {
		return -EFAULT;
	}
	if (top <= values || top - values > 8 * VALUES_MAX)
		return -EBADMSG;
	*ret = top - 8;
	return 0;
}

/* It is linked as one that runs, and keeps its values as one that is suspended does. */
bool pyawait_throws(struct rmem *m, const struct pylayout *l, const struct pyframe *f)
{
	bool may = l->lasti_unit && l->version >= THROW_LINKS_SINCE;
	const struct look k = { m, l, NULL, may ? genlayout_find(l) : NULL };
	struct one o = { .frame = f->frame, .f = *f };
	raddr top, previous;

	if (!k.g ||
	    rmem_read_u64(m, o.frame + pyoff_get(k.g->frame_of), &o.object) < 0 || !o.object ||
	    find_top_of_object(&k, &o, &top) < 0 || read_state(&k, &o) < 0 ||
	    o.state == PYAWAIT_ENDED || stands_in_await(&k, &o) < 0 ||
	    rmem_read_u64(m, o.frame + pyoff_get(l->frame.previous), &previous) < 0)
		return false;
	/* One that begins to run, or has just yielded, has its caller: in 3.9 nothing else tells
	 * it. From 3.10.6 on throw() takes the caller away a moment before the frame. */
	return !previous || (pyoff_has(k.g->state) && o.state == PYAWAIT_RUNS);
}

/* 0: @o->object is what it awaits; -ENOENT: nothing that has a frame. */
static int follow(const struct look *k, struct one *o)
{
	raddr at;
	int r = stands_in_await(k, o);

	if (r == 0)
		r = k->l->lasti_unit ? find_top_of_object(k, o, &at) : find_top(k, o, &at);
	if (r < 0)
		return r;
	if (rmem_read_u64(k->m, at, &o->object) < 0)
		return -EFAULT;
	o->object &= ~(raddr)k->l->code_tag_mask; /* a _PyStackRef, too */
	return find_frame_owner(k, &o->object);
}

int pyawait_read(struct rmem *m, const struct pylayout *l, const struct pywalk_layout *walk,
		 raddr coro, struct pyawait *ret)
{
	const struct look k = { m, l, walk, genlayout_find(l) };
	struct one o = { .object = coro };
	int r = k.g ? find_frame_owner(&k, &o.object) : -EBADMSG;

	ret->n = 0;
	ret->runs = 0;
	if (r == 0)
		r = read_one(&k, &o);
	if (r < 0)
		return r == -ENOENT ? -EBADMSG : r;
	ret->state = o.state;
	if (o.state != PYAWAIT_WAITS) {
		ret->runs = o.state == PYAWAIT_RUNS ? o.frame : 0;
		return 0;
	}
	while (r == 0) {
		if (ret->n == PYAWAIT_MAX)
			return -EBADMSG;
		ret->frame[ret->n++] = o.f;
		r = follow(&k, &o);
		if (r == 0)
			r = read_one(&k, &o);
		/* What a suspended one awaits is suspended, too. */
		if (r == 0 && o.state != PYAWAIT_WAITS)
			return -EBADMSG;
	}
	return r == -ENOENT ? 0 : r;
}

bool pyawait_same(const struct pyawait *a, const struct pyawait *b)
{
	return a->state == b->state && a->runs == b->runs && a->n == b->n &&
	       !memcmp(a->frame, b->frame, a->n * sizeof(*a->frame));
}

int pyawait_qualname(struct rmem *m, const struct pylayout *l, raddr coro, char *buf,
		     size_t cap)
{
	const struct look k = { m, l, NULL, genlayout_find(l) };
	enum kind kind;
	raddr at;

	if (!k.g || kind_of(&k, coro, &kind) < 0 || kind != HAS_FRAME)
		return -EBADMSG;
	if (rmem_read_u64(m, coro + k.g->qualname, &at) < 0)
		return -EFAULT;
	return pydict_text(m, l, at, buf, cap);
}
