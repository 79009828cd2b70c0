/* SPDX-License-Identifier: MIT
 *
 * pyframe_walk - follow one thread's Python frames, innermost first.
 *
 * One walker, two compilations: the body is pyframe_walk.inc.h, which reads
 * through a macro and keeps to what a BPF verifier accepts; here it reads
 * through an rmem. No syscalls, no allocation, no logging. Why the walk ended is
 * part of the answer, not an error.
 */
#ifndef PYFRAME_WALK_H
#define PYFRAME_WALK_H

#include "offsets/pylayout.h"
#include "remote_mem.h"

enum {
	PYWALK_MAX_FRAMES = 8192,
	PYWALK_MAX_INTERPS = 256, /* of one runtime */
	PYWALK_NONE = 0xffff,	  /* "no such field" in struct pywalk_layout */
	PYWALK_FRAME_BYTES = PYLAYOUT_FRAME_MAX,
};

/* The walker's row of a struct pylayout: small, flat, plain integers. */
struct pywalk_layout {
	uint64_t interp_head; /* remote address of _PyRuntime.interpreters.head */
	uint64_t code_mask;   /* ~ the tag bits of frame.code */
	uint32_t interp_next, interp_id, interp_threads, interp_unique;
	uint16_t ts_next, ts_tid, ts_thread, ts_frame, ts_base, ts_status;
	uint16_t ts_size;
	uint16_t cf_frame, cf_prev; /* _PyCFrame (3.11, 3.12), or PYWALK_NONE */
	uint16_t fr_size, fr_code, fr_prev, fr_instr, fr_owner, fr_entry;
	uint16_t pthread_tid[2]; /* see pyframe_state_number() */
	uint8_t owner_shim, owner_generator, active_bit;
	uint8_t lasti_unit; /* 0: fr_instr is a pointer */
};

/* One frame. @frame's low bits hold PYFRAME_SHIM and PYFRAME_ENTRY. */
struct pyframe {
	raddr code; /* code object, tags cleared; 0 for a C-stack anchor */
	/* prev_instr (3.11, 3.12) or instr_ptr (3.13+). Up to 3.10 f_lasti in bytes, as if the
	 * bytecode lay at @code; 2 below where the frame has not begun. */
	raddr instr;
	raddr frame;
};
enum {
	PYFRAME_SHIM = 1,      /* runs no code: lives on the C stack, it is the anchor */
	PYFRAME_ENTRY = 2,     /* 3.11: C called into the interpreter just below */
	PYFRAME_GENERATOR = 4, /* owned by a generator */
	PYFRAME_BITS = 7,
};

enum pywalk_end {
	PYWALK_BOTTOM, /* the whole stack */
	PYWALK_FAULT,  /* a read failed */
	PYWALK_LIMIT,  /* no room for more frames */
	PYWALK_BROKEN, /* ended where no whole stack ends: caught in mid-update */
};

struct pywalk {
	uint32_t n;
	enum pywalk_end end;
	raddr next;   /* LIMIT, FAULT: the frame to go on with */
	raddr first;  /* tstate's frame pointer as read: for a second look */
	raddr cframe; /* 3.11, 3.12: the innermost _PyCFrame, else 0 */
};

/* Fill @ret from @l for a runtime at @runtime. */
void pywalk_layout_init(struct pywalk_layout *ret, const struct pylayout *l, raddr runtime);

/* Walk the thread at @tstate. Shims are reported too (flag); the caller drops
 * them. At most @cap frames (<= PYWALK_MAX_FRAMES). */
struct pywalk pyframe_walk(struct rmem *m, const struct pywalk_layout *l, raddr tstate,
			   struct pyframe *frames, uint32_t cap);

/* The same from @frame on (with its bits or without) instead of a thread's newest. */
struct pywalk pyframe_walk_on(struct rmem *m, const struct pywalk_layout *l, raddr frame,
			      struct pyframe *frames, uint32_t cap);

/* States that a search has looked at. */
struct pyframe_met {
	struct pyframe_met_row {
		uint64_t number; /* pyframe_state_number() */
		raddr state;
	} *row; /* the caller's, @cap of them */
	uint32_t n, cap;
	bool all; /* there are no others */
};

/* The PyThreadState of native thread @tid (as the target's own PID namespace
 * numbers it), over all interpreters; among several the active one. *@unique
 * becomes a digest of every interpreter's number and count of threads ever made: while it is
 * unchanged a "none" stays true; 0 means that a state without an owner was seen and
 * nothing can be relied on. Those that were looked at go into @met (NULL: nowhere). 0; -ESRCH a
 * complete search found none; -ELOOP more than @max threads; or a read error. */
int pyframe_find_thread(struct rmem *m, const struct pywalk_layout *l, uint64_t tid,
			uint32_t max, struct pyframe_met *met, raddr *ret, uint64_t *unique);

/* The number of the thread that the state @ts is bound to, as the target's own PID namespace
 * has it. Up to 3.10 a state keeps only the address of a struct pthread; the C library has the
 * number there. 0: unknown. 0 or a read error. */
int pyframe_state_number(struct rmem *m, const struct pywalk_layout *l, raddr ts,
			 uint64_t *ret);

/* The number that the C library keeps in the struct pthread at @pthread, at one of @at (0: no
 * place). 0, or -ESRCH: it has none. */
int pyframe_pthread_number(struct rmem *m, const uint16_t at[2], raddr pthread, uint64_t *ret);

/* Does the thread state @ts have a frame, running or not; or, up to 3.12, an activation that
 * may not hold its frame yet? */
bool pyframe_runs(struct rmem *m, const struct pywalk_layout *l, raddr ts);

/* All states of all interpreters into ret[*n], at most @cap. Where there are too many, those
 * that never ran anything are left out first. While *@unique, as above, is unchanged no state
 * was added; 0: some were left out. 0; -ELOOP more than @max threads, or more than @cap states
 * with frames; or a read error. */
int pyframe_all_states(struct rmem *m, const struct pywalk_layout *l, uint32_t max, raddr *ret,
		       uint32_t cap, uint32_t *n, uint64_t *unique);

/* The digest alone (a few small reads an interpreter). 0 or a read error. */
int pyframe_threads_unique(struct rmem *m, const struct pywalk_layout *l, uint64_t *ret);

#endif
