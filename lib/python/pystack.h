/* SPDX-License-Identifier: MIT
 *
 * pystack - one held thread -> its Python frames with code identities.
 *
 * The hot path: finds the thread's PyThreadState (cached, checked at each use),
 * brings everything the walk will need in one batched read planned from the
 * thread's last walk, walks, and makes sure that each frame's code object still
 * is the one whose name is known, by fingerprint. A code object seen first is
 * copied at once, while the thread is held.
 *
 * One struct pystack a reader thread; it allocates only in pystack_create.
 */
#ifndef PYSTACK_H
#define PYSTACK_H

#include "python/pycode.h"
#include "pyframe_walk.h"
#include "remote/remote_batch.h"

/* A process's interpreter, as the readers need it. Immutable once published. */
struct pystack_target {
	pid_t pid;
	int program; /* a number that no other has: whose threads and codes are known */
	struct pylayout layout;
	struct pywalk_layout walk;
	raddr code_versions; /* struct pyproc */
	raddr root; /* where the stack of the process's first thread ends; 0: not known */
	bool no_jit; /* struct pyproc */
};

/* What else a process has beside its first interpreter: further libpythons, or the same one
 * loaded again. Of each target the pid and the program are the first one's, and this one's
 * place here, plus 1, is added to the program's number: so those are multiples of
 * PYSTACK_SEVERAL. Immutable once published. */
enum { PYSTACK_SEVERAL = 8 };
struct pystack_others {
	uint32_t n;
	bool refused; /* there is one that can't be read, and is not here */
	struct pystack_other {
		struct pystack_target target;
		bool proven; /* else nothing runs in it yet */
	} of[PYSTACK_SEVERAL - 1];
};

/* One frame for the resolver. */
struct pystack_frame {
	uint64_t code_id; /* of a copy handed to new_code() */
	uint32_t lasti;	  /* bytes into the bytecode */
	uint32_t flags;	  /* enum pystack_frame_flag */
};

/* Of the innermost frame, but where it says more. */
enum pystack_frame_flag {
	/* A JIT may run it (3.13 on): then lasti is that of an earlier instruction. */
	PYSTACK_MAY_BE_JITTED = 1 << 0,
	/* A frame was called by it that has not begun, or that a JIT runs. */
	PYSTACK_CALLS = 1 << 1,
	/* Of any frame: of code that was compiled to C, whose line is not known. */
	PYSTACK_COMPILED = 1 << 2,
};

/* Why there are no frames, or that there are. */
enum pystack_end {
	PYSTACK_OK,
	PYSTACK_NOPYTHON,  /* a complete search found no thread state or no frame */
	PYSTACK_FAULT,	   /* a read failed */
	PYSTACK_BROKEN,	   /* caught in mid-update: not a whole stack */
	PYSTACK_BADCODE,   /* a frame without a valid code object or instruction */
	PYSTACK_ELSEWHERE, /* the state's frames are on a stack not known to be the thread's */
	PYSTACK_UNPROVEN,  /* another interpreter runs, whose layout nobody has proven yet */
	PYSTACK_END_N,
};

/* An activation of the evaluation loop: something of it lies at @at, inside its native
 * frame on the C stack, whatever the symbols say (3.12 on: its entry frame; 3.11: its
 * _PyCFrame). It runs the frames from the one before's @n up to its own. */
enum { PYSTACK_IN_LOOP = 1 };
struct pystack_anchor {
	/* 0: could not be read. PYSTACK_IN_LOOP, up to 3.10: each evaluation loop runs one
	 * frame, and those that throw() has linked to it, and nothing of known place tells
	 * which. */
	raddr at;
	uint32_t n;
	uint32_t pad;
};

/* What pystack_join() did. */
enum pystack_joined {
	PYSTACK_NO_TASK,
	PYSTACK_JOINED,
	PYSTACK_JOINED_SEVERAL, /* up to a task that several ones await */
	PYSTACK_JOINED_PART,	/* up to where the tasks could not be read */
	PYSTACK_JOINED_NOT,	/* its tasks could not be read, if one runs */
};

struct pystack_result {
	enum pystack_end end;
	bool truncated; /* OK, but cut at max_frames, or where throw() links no further */
	uint32_t n;
	struct pystack_frame *frames; /* innermost first; valid until the next call */
	/* Innermost first; frames after the last one's @n belong to activations that were cut
	 * off. Valid as long. */
	const struct pystack_anchor *anchors;
	uint32_t n_anchors;
	/* greenlet moves the thread to another C stack: the frames are those that it moves
	 * away from, whatever lies on the stack. */
	bool switching;
	bool code_lost; /* new_code() would not have one that the frames may use */
	enum pystack_joined joined;
	uint32_t n_joined; /* pystack_join() took as long as a walk of so many frames */
	raddr tstate, first; /* for pystack_unchanged() */
	raddr root;   /* where the C stack that the thread began on ends; 0: not known */
	pid_t number; /* that the innermost state bears; 0: no state */
	const struct pystack_target *of; /* whose state the innermost one is */
	bool several;			 /* frames of more than one interpreter's states */
};

struct pystack;

/* @new_code gets each fresh copy, before the result that uses its @id. False: it has no room.
 */
struct pystack *pystack_create(uint32_t max_frames,
			       bool (*new_code)(void *arg, uint64_t id,
						const struct pycode_copy *c),
			       void *arg);
void pystack_destroy(struct pystack *p);

/* The same in pystack_bytes() of zeroed memory at @block, which is the caller's; not to be
 * destroyed. */
struct pystack *pystack_place(void *block, uint32_t max_frames,
			      bool (*new_code)(void *arg, uint64_t id,
					       const struct pycode_copy *c),
			      void *arg);

/* Bytes that each takes, most of which are touched only as they are needed. */
size_t pystack_bytes(void);

/* Makes resident what nearly each read touches, about 150 KB (resident.h). For the thread that
 * reads, before it holds another one. */
void pystack_warm(struct pystack *p);

/* Where the thread stands: what proves a thread state to be its own, whatever number the state
 * bears. */
struct pystack_place {
	raddr sp;	   /* its stack pointer; 0: not known */
	struct bytes regs; /* its registers, borrowed until the next pystack_read() ends */
	pid_t forker; /* of a process's first thread: what number its state may bear until
		       * PyOS_AfterFork_Child(); 0: not known */
};

/* Of the next pystack_read(). */
void pystack_stands(struct pystack *p, const struct pystack_place *place);

/* Memory that is known already, as it is at the sample: the next pystack_read() does not
 * read it. @bytes: borrowed until then. */
void pystack_know(struct pystack *p, raddr at, struct bytes bytes);

/* Bring these bytes too with the next pystack_read(); then they can be had from
 * pystack_memory(), which asks the process for what was not brought. It stays as it is
 * until the next pystack_read(). */
void pystack_want(struct pystack *p, raddr at, size_t n);
struct rmem *pystack_memory(struct pystack *p);

/* The state at @tstate bore number @inner, which is thread @tid's, and was the only one, while
 * the lists of states had the digest @unique (see pyframe_all_states()): it is looked at
 * before any search. @tstate 0: there was none. */
void pystack_suggest(struct pystack *p, const struct pystack_target *t, pid_t tid, pid_t inner,
		     raddr tstate, uint64_t unique);

/* Read the stack of thread @tid (@inner: its id in the target's own PID
 * namespace) through @below: of all interpreters that it is in. Never fails: the result says
 * it all. */
struct pystack_result pystack_read(struct pystack *p, const struct pystack_target *t,
				   struct rmem *below, pid_t tid, pid_t inner);

/* The same of all interpreters of a process, the @others (NULL: none) too: their frames lie in
 * one another as they do on the C stack. */
struct pystack_result pystack_read_all(struct pystack *p, const struct pystack_target *t,
				       const struct pystack_others *others, struct rmem *below,
				       pid_t tid, pid_t inner);

/* Of the stack that was just read as @r, which does not change meanwhile: if it runs an
 * asyncio task, behind that one's coroutine come the task's name, a code with PYCODE_LABEL,
 * and the tasks that await it, up to one that nobody awaits. @one_name: those that
 * asyncio named itself are all called alike. */
void pystack_join(struct pystack *p, const struct pystack_target *t, pid_t tid, bool one_name,
		  struct pystack_result *r);

/* The @n frames at @f, outermost first, which are no thread's: as if a thread stood in the
 * last one. They must not change meanwhile. PYSTACK_OK, _BADCODE, or _NOPYTHON: there is none.
 */
struct pystack_result pystack_read_parked(struct pystack *p, const struct pystack_target *t,
					  struct rmem *below, const struct pyframe *f,
					  uint32_t n);

/* Of the stack that was just read, which is not changed since: how many frames there are from
 * the leaf to the one at @frame. 0: it is not among them, or in an outer interpreter's. */
uint32_t pystack_frames_to(const struct pystack *p, raddr frame);

/* True: the thread still stands in the frame that the result began with. */
bool pystack_unchanged(const struct pystack_result *r, struct rmem *m);

/* Between samples: forget codes that were not met for long, if many were copied since the last
 * time; without it what is remembered is bounded too, but their numbers never end. The others
 * go on with new numbers, which @keep is told of (false: it can't keep that one). 0: nothing
 * was done; else results have no number below that any more. */
uint64_t pystack_age_codes(struct pystack *p,
			   bool (*keep)(void *arg, uint64_t id, uint64_t was), void *arg);

/* Forget a program's codes, in all its interpreters: they are new codes when they are met again. */
void pystack_forget_codes(struct pystack *p, int program);

#endif
