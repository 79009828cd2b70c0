/* SPDX-License-Identifier: MIT
 *
 * pyframe_walk.inc.h - the body of the walker; one source, two compilations.
 *
 * The includer defines
 *   WALK_FN                       function attributes
 *   WALK_READ(w, dst, n, addr)    0 or negative
 *   WALK_MAX                      frames at most, a constant
 *   struct walk_state             with  unsigned char buf[PYWALK_FRAME_BYTES],
 *                                 struct pyframe *f, struct pywalk out
 * and keeps the state out of the stack. What a BPF verifier needs is kept here:
 * constant loop bounds, masked offsets into buf, no recursion, no pointers made
 * of remote data.
 */

#define WALK_U64(w, off) (*(const uint64_t *)((w)->buf + ((off)&0x78)))
#define WALK_U8(w, off) ((w)->buf[(off)&0x7f])
#define WALK_I32(w, off) (*(const int32_t *)((w)->buf + ((off)&0x7c)))

/* tstate -> its innermost frame. 3.11 and 3.12 put a _PyCFrame between. */
WALK_FN int walk_first(struct walk_state *w, const struct pywalk_layout *l, uint64_t ts,
		       uint64_t *ret)
{
	uint64_t at = 0;

	if (WALK_READ(w, &at, sizeof(at), ts + l->ts_frame))
		return -1;
	if (l->cf_frame != PYWALK_NONE) {
		w->out.cframe = at;
		if (WALK_READ(w, &at, sizeof(at), at + l->cf_frame))
			return -1;
	}
	*ret = at;
	return 0;
}

/* The frame in buf as a struct pyframe. */
WALK_FN void walk_emit(struct walk_state *w, const struct pywalk_layout *l, uint64_t at,
		       struct pyframe *f)
{
	uint64_t bits = 0;
	uint8_t owner = WALK_U8(w, l->fr_owner);

	if (l->lasti_unit) {
		int64_t lasti = WALK_I32(w, l->fr_instr);

		f->code = WALK_U64(w, l->fr_code);
		f->instr = f->code + (uint64_t)(lasti < 0 ? -2 : lasti * l->lasti_unit);
		f->frame = at;
		return;
	}
	if (l->owner_shim && owner >= l->owner_shim)
		bits = PYFRAME_SHIM;
	else if (owner == l->owner_generator)
		bits = PYFRAME_GENERATOR;
	if (l->fr_entry != PYWALK_NONE && WALK_U8(w, l->fr_entry))
		bits |= PYFRAME_ENTRY;
	f->code = WALK_U64(w, l->fr_code) & l->code_mask;
	f->instr = WALK_U64(w, l->fr_instr);
	f->frame = at | bits;
}

/* Where does a whole stack end? 3.12 on: in a shim without a predecessor (3.15:
 * in the base frame that is part of the thread state). 3.11: in an entry frame
 * that no generator owns, for a generator that returns is unlinked a moment
 * before the thread moves on. Elsewhere the thread was caught in mid-update. Up to
 * 3.10 one store links or unlinks a frame that is whole: each end is one. */
WALK_FN bool walk_whole(const struct pywalk_layout *l, uint64_t last)
{
	if (l->lasti_unit)
		return true;
	if (l->owner_shim)
		return last & PYFRAME_SHIM;
	return (last & PYFRAME_ENTRY) && !(last & PYFRAME_GENERATOR);
}

/* The frames from @at on. */
WALK_FN void walk_on(struct walk_state *w, const struct pywalk_layout *l, uint64_t at,
		     uint32_t cap)
{
	uint32_t i;

	w->out.first = at;
	for (i = 0; i < WALK_MAX; i++) {
		if (!at)
			break;
		w->out.next = at;
		if (i >= cap) {
			w->out.end = PYWALK_LIMIT;
			return;
		}
		if ((at & 7) || WALK_READ(w, w->buf, l->fr_size & 0xff, at)) {
			w->out.end = PYWALK_FAULT;
			return;
		}
		walk_emit(w, l, at, &w->f[i]);
		w->out.n = i + 1;
		at = WALK_U64(w, l->fr_prev);
	}
	if (at)
		w->out.end = PYWALK_LIMIT;
	else if (i > 0 && !walk_whole(l, w->f[i - 1].frame))
		w->out.end = PYWALK_BROKEN;
}

WALK_FN void walk_frames(struct walk_state *w, const struct pywalk_layout *l, uint64_t ts,
			 uint32_t cap)
{
	uint64_t at = 0;

	if (walk_first(w, l, ts, &at))
		w->out.end = PYWALK_FAULT;
	else
		walk_on(w, l, at, cap);
}
