/* SPDX-License-Identifier: MIT
 *
 * pystack_several - one thread's stack in a process with several interpreters of their own
 * (more than one libpython): each is read, and what they say becomes one stack by where their
 * activations lie on the C stack.
 */
#include "python/pystack_int.h"

/* What a pystack_read() uses up. */
struct told {
	struct bytes known;
	size_t want_n;
	struct pystack_place place;
};

static struct told told_of(const struct pystack *p)
{
	return (struct told){ p->known, p->want_n, p->place };
}

static void tell(struct pystack *p, const struct told *told)
{
	p->known = told->known;
	p->want_n = told->want_n;
	p->place = told->place;
}

/* Nothing of it is proven but that it has not begun. */
static bool is_unborn(struct rmem *m, const struct pystack_target *t)
{
	uint64_t head;

	return rmem_read_u64(m, t->walk.interp_head, &head) == 0 && !head;
}

static struct pystack_result read_other(struct pystack *p, const struct pystack_target *t,
					const struct pystack_others *others, uint32_t i,
					struct rmem *below, pid_t tid, pid_t inner)
{
	const struct pystack_other *o = &others->of[i];
	struct pystack_target *now = &p->several->now;
	struct pystack_result r = { .end = PYSTACK_UNPROVEN, .of = &o->target };

	if (!o->proven) {
		if (is_unborn(below, &o->target))
			r.end = PYSTACK_NOPYTHON;
		return r;
	}
	*now = o->target;
	now->pid = t->pid;
	now->program = t->program + 1 + (int)i;
	now->root = t->root;
	r = pystack_read(p, now, below, tid, inner);
	r.of = &o->target;
	return r;
}

/* Behind those that there are. False: where its frames lie is not known. */
static bool keep(struct pystack *p, const struct pystack_target *t,
		 const struct pystack_result *r)
{
	struct several *s = p->several;
	uint32_t from = 0;

	/* Each activation that is kept runs a frame: where all frames have room so has it. */
	if (r->truncated || r->switching || !r->n_anchors ||
	    r->n > PYWALK_MAX_FRAMES - s->n_frames ||
	    r->anchors[r->n_anchors - 1].n != r->n)
		return false;
	memcpy(s->frame + s->n_frames, r->frames, r->n * sizeof(*r->frames));
	for (uint32_t i = 0; i < r->n_anchors; i++) {
		const struct pystack_anchor *a = &r->anchors[i];

		if (a->n == from)
			continue;
		if (a->at <= PYSTACK_IN_LOOP || !place_on_stack(p, t, r->tstate, a->at))
			return false;
		s->activation[s->n_activations++] = (struct activation){
			.at = a->at, .from = s->n_frames + from, .n = a->n - from
		};
		from = a->n;
	}
	s->n_frames += r->n;
	return true;
}

/* Lowest, which is innermost, first. They come in a few rising runs. */
static void sort(struct several *s)
{
	for (uint32_t i = 1; i < s->n_activations; i++) {
		struct activation a = s->activation[i];
		uint32_t k = i;

		for (; k && s->activation[k - 1].at > a.at; k--)
			s->activation[k] = s->activation[k - 1];
		s->activation[k] = a;
	}
}

/* All that was kept is one stack: @r, which is the innermost interpreter's, becomes it. */
static void join(struct pystack *p, struct pystack_result *r)
{
	struct several *s = p->several;

	sort(s);
	r->n = r->n_anchors = 0;
	for (uint32_t i = 0; i < s->n_activations && !r->truncated; i++) {
		const struct activation *a = &s->activation[i];

		r->truncated = a->n > p->max_frames - r->n;
		if (r->truncated)
			break;
		memcpy(p->frames + r->n, s->frame + a->from, a->n * sizeof(*p->frames));
		r->n += a->n;
		p->anchors[r->n_anchors++] = (struct pystack_anchor){ .at = a->at, .n = r->n };
	}
	r->several = true;
}

/* Of the interpreter @i - 1 of the others; 0: of the first. */
static struct pystack_result read_one(struct pystack *p, const struct pystack_target *t,
				      const struct pystack_others *others, uint32_t i,
				      struct rmem *below, pid_t tid, pid_t inner)
{
	struct pystack_result r = i ? read_other(p, t, others, i - 1, below, tid, inner) :
				      pystack_read(p, t, below, tid, inner);

	p->several->code_lost |= r.code_lost;
	return r;
}

static struct pystack_result read_several(struct pystack *p, const struct pystack_target *t,
					  const struct pystack_others *others,
					  struct rmem *below, pid_t tid, pid_t inner)
{
	const struct told told = told_of(p);
	struct several *s = p->several;
	struct pystack_result r, innermost = { 0 };
	uint32_t n_with = 0, with = 0, last;
	raddr lowest = UINT64_MAX;
	bool placed = true, unproven = false;

	s->n_activations = s->n_frames = 0;
	/* What was read last is in @p's hands: that one need not be read again. */
	last = pystack_thread(p, t->program, tid, 0)->with;
	last = last <= others->n ? last : 0;
	for (uint32_t k = 0; k <= others->n; k++) {
		uint32_t i = k < others->n ? k + (k >= last) : last;

		tell(p, &told);
		r = read_one(p, t, others, i, below, tid, inner);
		unproven |= r.end == PYSTACK_UNPROVEN;
		if (r.end == PYSTACK_NOPYTHON || r.end == PYSTACK_UNPROVEN)
			continue;
		if (r.end != PYSTACK_OK)
			return r;
		with = i;
		placed = keep(p, r.of, &r) && placed;
		n_with++;
		if (!placed || r.anchors[0].at > lowest)
			continue;
		lowest = r.anchors[0].at;
		innermost = r;
	}
	if (unproven) {
		r.end = PYSTACK_UNPROVEN;
		r.n = r.n_anchors = 0;
		return r;
	}
	if (!n_with) {
		if (others->refused)
			r.end = PYSTACK_ELSEWHERE;
		return r;
	}
	if (n_with == 1 && with == last)
		return r;
	if (n_with == 1) {
		pystack_thread(p, t->program, tid, 0)->with = with;
		tell(p, &told);
		return read_one(p, t, others, with, below, tid, inner);
	}
	if (!placed)
		return (struct pystack_result){ .end = PYSTACK_BROKEN, .of = t };
	join(p, &innermost);
	return innermost;
}

struct pystack_result pystack_read_all(struct pystack *p, const struct pystack_target *t,
				       const struct pystack_others *others, struct rmem *below,
				       pid_t tid, pid_t inner)
{
	struct pystack_result r;

	if (!others)
		return pystack_read(p, t, below, tid, inner);
	p->several->code_lost = false;
	r = read_several(p, t, others, below, tid, inner);
	r.code_lost = p->several->code_lost;
	return r;
}
