/* SPDX-License-Identifier: MIT
 *
 * pyframe_walk - the user-space compilation of the walker, and thread lookup.
 */
#include "pyframe_walk.h"

#include <errno.h>

#include "arch/arch.h"

struct walk_state {
	_Alignas(8) unsigned char buf[PYWALK_FRAME_BYTES];
	struct rmem *mem;
	struct pyframe *f;
	struct pywalk out;
};

#define WALK_FN static
#define WALK_MAX PYWALK_MAX_FRAMES
#define WALK_READ(w, dst, n, addr) rmem_read((w)->mem, addr, dst, n)
#include "pyframe_walk.inc.h"

enum { PID_TOP = 1 << 22 }; /* no thread has a number above */
#define NONE32 UINT32_MAX   /* no such field */

static uint16_t off16(pyoff o)
{
	return pyoff_has(o) ? (uint16_t)pyoff_get(o) : PYWALK_NONE;
}

static uint32_t off32(pyoff o)
{
	return pyoff_has(o) ? pyoff_get(o) : NONE32;
}

void pywalk_layout_init(struct pywalk_layout *ret, const struct pylayout *l, raddr runtime)
{
	*ret = (struct pywalk_layout){
		.interp_head = runtime + pyoff_get(l->runtime.interp_head),
		.code_mask = ~(uint64_t)l->code_tag_mask,
		.interp_next = pyoff_get(l->interp.next),
		.interp_id = off32(l->interp.id),
		.interp_threads = pyoff_get(l->interp.threads_head),
		.interp_unique = off32(l->interp.threads_unique),
		.ts_next = off16(l->tstate.next),
		.ts_tid = off16(l->tstate.native_tid),
		.ts_thread = off16(l->tstate.thread_id),
		.ts_frame = off16(pyoff_has(l->tstate.cframe) ? l->tstate.cframe :
								l->tstate.frame),
		.ts_base = off16(l->tstate.base_frame),
		.ts_status = off16(l->tstate.status),
		.ts_size = (uint16_t)MIN(l->tstate.size, UINT16_MAX),
		.cf_frame = off16(l->cframe.current_frame),
		.cf_prev = off16(l->cframe.previous),
		.fr_size = (uint16_t)MIN(l->frame.size, PYWALK_FRAME_BYTES),
		.fr_code = off16(l->frame.code),
		.fr_prev = off16(l->frame.previous),
		.fr_instr = off16(l->frame.instr),
		.fr_owner = off16(l->frame.owner),
		.fr_entry = off16(l->frame.is_entry),
		.owner_shim = l->owner_shim,
		.owner_generator = l->owner_generator,
		.active_bit = l->active_bit,
		.lasti_unit = l->lasti_unit,
	};
	memcpy(ret->pthread_tid, arch_host->pthread_tid, sizeof(ret->pthread_tid));
	if (!pyoff_has(l->tstate.cframe))
		ret->cf_frame = ret->cf_prev = PYWALK_NONE;
}

struct pywalk pyframe_walk(struct rmem *m, const struct pywalk_layout *l, raddr tstate,
			   struct pyframe *frames, uint32_t cap)
{
	struct walk_state w = { .mem = m, .f = frames, .out.end = PYWALK_BOTTOM };

	walk_frames(&w, l, tstate, cap);
	return w.out;
}

struct pywalk pyframe_walk_on(struct rmem *m, const struct pywalk_layout *l, raddr frame,
			      struct pyframe *frames, uint32_t cap)
{
	struct walk_state w = { .mem = m, .f = frames, .out.end = PYWALK_BOTTOM };

	walk_on(&w, l, frame & ~(raddr)PYFRAME_BITS, cap);
	return w.out;
}

static uint64_t mixed(uint64_t digest, uint64_t v)
{
	return (digest ^ v) * 0x9e3779b97f4a7c15u + 1;
}

/* Its list of threads, and its count of threads ever made: a new thread changes both, an ended
 * one the list at most. */
static int enter_interp(struct rmem *m, const struct pywalk_layout *l, raddr interp,
			uint64_t *unique, raddr *threads)
{
	uint64_t made = 0;

	if ((l->interp_unique != NONE32 &&
	     rmem_read_u64(m, interp + l->interp_unique, &made) < 0) ||
	    rmem_read_u64(m, interp + l->interp_threads, threads) < 0)
		return -EFAULT;
	*unique = mixed(*unique, made);
	return 0;
}

/* On to the one after *@interp, the @i'th. Of several the numbers count too: one that is freed
 * and one that is made later may have the same count, at the same place. */
static int leave_interp(struct rmem *m, const struct pywalk_layout *l, raddr *interp,
			uint64_t *unique, int i)
{
	raddr at = *interp;
	uint64_t id = 0;

	if (rmem_read_u64(m, at + l->interp_next, interp) < 0 ||
	    ((i || *interp) && l->interp_id != NONE32 &&
	     rmem_read_u64(m, at + l->interp_id, &id) < 0))
		return -EFAULT;
	*unique = mixed(*unique, id);
	return 0;
}

int pyframe_threads_unique(struct rmem *m, const struct pywalk_layout *l, uint64_t *ret)
{
	raddr interp, threads;

	*ret = 0;
	if (rmem_read_u64(m, l->interp_head, &interp) < 0)
		return -EFAULT;
	for (int i = 0; interp; i++) {
		if (i == PYWALK_MAX_INTERPS)
			return -ELOOP;
		if (enter_interp(m, l, interp, ret, &threads) < 0 ||
		    leave_interp(m, l, &interp, ret, i) < 0)
			return -EFAULT;
	}
	return 0;
}

/* Of several thread states with one thread's number, the one it runs on: told by
 * its status, or in 3.11, where a new thread's state bears its maker's number until
 * the thread starts, by having a frame. */
static bool is_active(struct rmem *m, const struct pywalk_layout *l, raddr ts)
{
	struct walk_state w = { .mem = m };
	raddr frame = 0;
	uint32_t status;

	if (!l->active_bit)
		return walk_first(&w, l, ts, &frame) == 0 && frame;
	return rmem_read(m, ts + l->ts_status, &status, sizeof(status)) == 0 &&
	       (status >> l->active_bit) & 1;
}

bool pyframe_runs(struct rmem *m, const struct pywalk_layout *l, raddr ts)
{
	struct walk_state w = { .mem = m };
	raddr frame = 0, base = 0;

	if (l->ts_base != PYWALK_NONE && rmem_read_u64(m, ts + l->ts_base, &base) < 0)
		return false;
	if (walk_first(&w, l, ts, &frame) < 0)
		return false;
	return frame != base || (w.out.cframe && w.out.cframe - ts >= l->ts_size);
}

int pyframe_pthread_number(struct rmem *m, const uint16_t at[2], raddr pthread, uint64_t *ret)
{
	uint32_t tid;

	/* Its thread may have ended, and its stack be gone. */
	for (size_t i = 0; pthread && i < 2; i++)
		if (at[i] && rmem_read(m, pthread + at[i], &tid, sizeof(tid)) == 0 && tid &&
		    tid <= PID_TOP) {
			*ret = tid;
			return 0;
		}
	return -ESRCH;
}

int pyframe_state_number(struct rmem *m, const struct pywalk_layout *l, raddr ts,
			 uint64_t *ret)
{
	uint64_t pthread;

	if (l->ts_tid != PYWALK_NONE)
		return rmem_read_u64(m, ts + l->ts_tid, ret);
	*ret = 0;
	if (rmem_read_u64(m, ts + l->ts_thread, &pthread) < 0)
		return -EFAULT;
	pyframe_pthread_number(m, l->pthread_tid, pthread, ret);
	return 0;
}

/* A list being searched, for a thread's active state, or for all that there are. */
struct find {
	uint64_t tid;
	uint32_t left; /* threads that may still be looked at */
	bool unbound;  /* a state was seen that may become any thread's, unnoticed */
	raddr found;
	raddr *state; /* NULL: the active one of @tid is wanted */
	uint32_t n, cap, seen;
	struct pyframe_met *met; /* or NULL */
};

static void meet(struct pyframe_met *met, uint64_t number, raddr state)
{
	met->all = met->all && met->n < met->cap;
	if (met->all)
		met->row[met->n++] = (struct pyframe_met_row){ number, state };
}

/* One that may be wanted. 1: it is what was looked for. */
static int take_state(struct rmem *m, const struct pywalk_layout *l, raddr ts, struct find *f)
{
	f->found = ts;
	if (!f->state)
		return is_active(m, l, ts);
	f->seen++;
	if (f->n >= f->cap / 2 && !pyframe_runs(m, l, ts))
		return 0;
	if (f->n == f->cap)
		return -ELOOP;
	f->state[f->n++] = ts;
	return 0;
}

/* One interpreter's list. 1: found what was looked for; 0: go on; or -errno. */
static int search_list(struct rmem *m, const struct pywalk_layout *l, raddr ts, struct find *f)
{
	uint64_t id;
	int r;

	for (; ts; f->left--) {
		if (f->left == 0)
			return -ELOOP;
		if (pyframe_state_number(m, l, ts, &id) < 0)
			return -EFAULT;
		f->unbound |= id == 0;
		if (f->met)
			meet(f->met, id, ts);
		r = f->state || id == f->tid ? take_state(m, l, ts, f) : 0;
		if (r)
			return r;
		if (rmem_read_u64(m, ts + l->ts_next, &ts) < 0)
			return -EFAULT;
	}
	return 0;
}

static int search_all(struct rmem *m, const struct pywalk_layout *l, struct find *f,
		      uint64_t *unique)
{
	raddr interp, threads;
	int r;

	*unique = 0;
	if (rmem_read_u64(m, l->interp_head, &interp) < 0)
		return -EFAULT;
	for (int i = 0; interp; i++) {
		if (i == PYWALK_MAX_INTERPS)
			return -ELOOP;
		if (enter_interp(m, l, interp, unique, &threads) < 0)
			return -EFAULT;
		r = search_list(m, l, threads, f);
		if (r)
			return r;
		if (leave_interp(m, l, &interp, unique, i) < 0)
			return -EFAULT;
	}
	return 0;
}

int pyframe_find_thread(struct rmem *m, const struct pywalk_layout *l, uint64_t tid,
			uint32_t max, struct pyframe_met *met, raddr *ret, uint64_t *unique)
{
	struct find f = { .tid = tid, .left = max, .met = met };
	int r;

	if (met)
		met->n = 0, met->all = true;
	r = search_all(m, l, &f, unique);
	if (met)
		met->all = met->all && r == 0;
	/* Up to 3.11 there are no unbound states to tell by. */
	if (f.unbound || !l->owner_shim)
		*unique = 0;
	*ret = f.found;
	if (r < 0)
		return r;
	return f.found ? 0 : -ESRCH;
}

int pyframe_all_states(struct rmem *m, const struct pywalk_layout *l, uint32_t max, raddr *ret,
		       uint32_t cap, uint32_t *n, uint64_t *unique)
{
	struct find f = { .left = max, .state = ret, .cap = cap };
	int r = search_all(m, l, &f, unique);

	if (f.seen > f.n || l->interp_unique == NONE32)
		*unique = 0;
	*n = f.n;
	return r;
}
