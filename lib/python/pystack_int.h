/* SPDX-License-Identifier: MIT
 *
 * pystack_int - what the files of pystack share, and nobody else sees: pystack.c (threads,
 * walks), pystack_several.c, pystack_cache.c, pystack_plan.c, pystack_nest.c, pystack_place.c,
 * pystack_code.c (code objects and their identity), pystack_live.c, pystack_entry.c.
 */
#ifndef PYSTACK_INT_H
#define PYSTACK_INT_H

#include "base/base.h"
#include "python/pycompiled.h"
#include "python/pystack.h"
#include "python/pytasks.h"
#include "remote/remote_pages.h"

enum {
	N_THREADS = 2048, /* power of two, at most; entries that collide are replaced */
	N_THREADS_FIRST = 256,
	N_LEFT = 1536,	 /* replaced entries after which it is counted anew who came back */
	MOST_BACK = 128, /* of them, before there are twice as many entries */
	N_CODES = 32768, /* power of two, in 16 bits; emptied between samples when half full */
	CODES_AGE = 4096, /* copies after which codes that were not met are forgotten */
	N_REGIONS = 120,
	PAGE_SHIFT = 12,
	REGION_MAX = 64 << 10,
	REGION_AGE = 2, /* walks that a region is kept for without being touched */
	PLAN_AGE = 256, /* walks after which the plan is made anew */
	SLACK = 1024,	/* a few frames more than last time */
	TSTATE_BYTES = 512,
	N_LISTS = 16,	 /* power of two; entries that collide are replaced */
	N_STATES = 1024, /* of one process */
	N_MET = 4,	 /* processes of which states are known by number */
	MANY_MET = 16,	 /* fewer are searched again */
	FIND_MAX = 4096, /* threads looked at while one is held */
	CHUNK_MAX = 256 << 10,
	FUNC_SKIP = 100,
	CFRAME_BYTES = PYLAYOUT_CFRAME_MAX,
};

/* Memory that recent walks of a thread touched. */
struct region {
	raddr lo, hi;  /* lo first: rows_up_to() */
	uint32_t walk; /* the last one that did */
};

/* One thread and the plan for its next walk: its data stack, C stack, frames on
 * the heap and code objects, near ones merged. */
struct thread {
	int program;
	pid_t pid, tid; /* pid: of the process, from pystack_read() on */
	uint32_t level; /* of several states the how manieth from the leaf */
	raddr tstate;
	uint64_t number; /* that the state bears, of the thread that bound it; */
	raddr pthread;	 /* whose struct pthread this is */
	/* Of a stack that is the thread's own: what some samples of it have proven; or empty.
	 */
	raddr stack_lo, stack_hi;
	raddr hole;	 /* an address that can't be read, where one was asked for */
	uint32_t levels; /* level 0: states that ran at the last sample, if they were asked for
			  */
	uint32_t with;	 /* level 0: which interpreter alone had frames, where there are others
			  */
	bool none;	 /* a complete search found no thread state */
	uint64_t none_unique;	 /* what the lists looked like then */
	raddr chunk, top, limit; /* of the data stack; 0 where not known */
	raddr interp;
	uint64_t interp_id; /* id_of_begun(): another one may lie there later */
	uint32_t versions;  /* its count of code objects at the last walk, 0: unknown */
	bool distrust;	    /* that count was caught out: not what we take it for */
	uint32_t walks, n_regions;
	struct region region[N_REGIONS];
};

/* All thread states of a process, ascending. */
struct states {
	int program;
	uint64_t unique; /* they are all while the lists look like this; 0: they may not be */
	uint32_t n;
	raddr at[N_STATES];
	bool seen[N_STATES]; /* place_scan(): stands on the stack of the thread */
};

/* Thread states of a process with their numbers, as a search met them. One may be another's or
 * nobody's by now, as what is known of a thread may be. */
struct met {
	int program;	 /* 0: none */
	uint64_t unique; /* of all states; 0: they are not all, or may be others */
	struct pyframe_met list;
};

/* What tells whether a state runs on a thread. */
struct state_row {
	raddr at;
	uint64_t number; /* struct thread */
	raddr pthread;
	raddr frame; /* its innermost one; 3.11, 3.12: its _PyCFrame */
};

struct code {
	int program;
	uint32_t stamp; /* the sample that verified it */
	uint32_t met;	/* the last sample that had it */
	raddr at;
	struct pycode_print print;
	uint64_t id;
	uint32_t bytecode, firsttraceable, length; /* bytes, code units, bytes */
	uint32_t table_n;			   /* bytes of its line table */
	uint32_t frame_size; /* bytes of a frame that runs it, up to 3.12 */
	uint64_t interp_id;    /* of the thread that had it then */
	uint32_t versions;     /* the interpreter's count when last verified, 0: none */
	uint32_t func_version; /* of a function that had this code then, 0: none */
	raddr func;
	uint8_t func_skip; /* times its function need not be asked: it told nothing */
	bool bad;
};

/* A function as it stands in a frame (3.11). */
struct function {
	raddr at;
	uint32_t version; /* 0: tells nothing */
	raddr code;
};

struct seen {
	struct code *code; /* NULL: a shim, or nothing that could be one */
	struct function func;
	bool verified;
};

/* An interpreter and its count of code objects at the last walk; @again: how often such counts,
 * also others', had gone back, for programs had ended interpreters and begun them anew. */
struct begun {
	int program;
	uint32_t count, again;
	uint64_t id; /* without @again */
};

/* pystack_join.c: a name that was queued as a code. */
struct label {
	uint64_t hash, id;
};

/* Awaiting tasks on their way into a stack, and what is remembered for the next one. */
enum { JOIN_ITEMS = 2048, JOIN_LABELS = 256 /* power of two; those that collide go */ };
struct join {
	struct pytasks_place place;
	struct label label[JOIN_LABELS];
	struct pytask task;
	/* What comes behind the coroutine, innermost first: a frame, or code 0 and in instr
	 * the number of a label. */
	struct pyframe item[JOIN_ITEMS];
	uint32_t n;
	bool cut;		 /* there was no room for more */
	bool one_name;		 /* of tasks that asyncio named itself */
	struct rmem_pages pages; /* of this sample: tasks take many small reads */
	unsigned char page[RMEM_PAGES][RMEM_PAGE];
	struct pystack_frame named[JOIN_ITEMS + 1];
};

/* pystack_several.c: frames of several interpreters, by the activations that run them. */
struct activation {
	raddr at; /* struct pystack_anchor */
	uint32_t from, n;
};
struct several {
	struct pystack_target now; /* of whom was read last, if it is not the first */
	bool code_lost; /* by one of the reads */
	uint32_t n_activations, n_frames;
	struct activation activation[PYWALK_MAX_FRAMES];
	struct pystack_frame frame[PYWALK_MAX_FRAMES];
};

struct pystack {
	struct rmem_batch batch;
	struct rmem *mem; /* what this sample reads through */
	raddr known_at;	  /* pystack_know() */
	struct bytes known;
	struct pystack_place place; /* pystack_stands() */
	raddr stack_at;		    /* of this sample: what pystack_know() said */
	struct bytes stack;
	raddr want_at; /* pystack_want() */
	size_t want_n;
	bool (*new_code)(void *arg, uint64_t id, const struct pycode_copy *c);
	void *arg;
	bool code_lost; /* by this read */
	uint32_t max_frames, stamp, n_codes;
	uint64_t next_id;
	/* pystack_age_codes(): next_id then, the sample then, and how many later again. */
	uint64_t aged_id, age_after;
	uint32_t aged_stamp;
	struct thread *threads;
	/* Of them thread_mask + 1 are in use: more only where threads come back that had to
	 * leave, for each takes a page, and where processes are forked all the time ever new
	 * threads come. @left: those that left lately, by their last bits. */
	uint32_t thread_mask, n_left, n_back;
	pid_t left[N_THREADS];
	struct states *states;
	struct met met[N_MET + 1]; /* by process; the last is for the next search */
	struct pyframe_met_row *met_rows;
	struct code *codes;   /* n_codes of them, one behind the other: few pages */
	uint16_t *code_index; /* by hash: a number in codes + 1; 0: free */
	struct pyframe *walked;
	struct pystack_frame *frames;
	struct pystack_anchor *anchors;
	struct seen *seen; /* of walked[i] */
	/* Of walked[], as many were named last, behind so many frames of other states. */
	uint32_t n_named, named_before;
	struct pycompiled compiled[N_LISTS]; /* by program; pystack_compiled() */
	struct begun begun[N_LISTS];	     /* by program and interpreter */
	uint32_t again;			     /* struct begun */
	struct join *join;		     /* pystack_join.c */
	struct several *several;	     /* pystack_several.c */
	struct pycode_copy *copy;
	unsigned char *bytes;
};

/* What is known of a program's functions that are compiled to C. Those of another one may be
 * there instead: its number tells. */
static inline struct pycompiled *pystack_compiled(struct pystack *p, int program)
{
	return &p->compiled[(uint32_t)program & (N_LISTS - 1)];
}

/* pystack_plan.c: the next walk of @th will read [lo, hi). */
void pystack_plan(struct thread *th, raddr lo, raddr hi);

/* pystack_plan.c: bring what is planned; then, for the current data-stack chunk lies in
 * [chunk, top), what of it the plan did not bring. */
void pystack_fetch(struct pystack *p, const struct thread *th);
void pystack_fetch_chunk(struct pystack *p, const struct pystack_target *t, struct thread *th);

/* pystack_plan.c: plan what this walk touched, and what earlier ones did not long ago. */
void pystack_plan_next(struct thread *th, const struct pystack_target *t,
		       const struct pyframe *f, const struct pywalk *w);

/* pystack_cache.c: what is known of a state of the thread, the @level'th from the leaf. */
struct thread *pystack_thread(struct pystack *p, int program, pid_t tid, uint32_t level);

/* pystack_nest.c: more than one interpreter? */
bool nest_wanted(struct pystack *p, const struct pystack_target *t, struct thread *th);

/* pystack_nest.c: the states that run frames on thread @th (level 0), innermost on the C stack
 * first, each in a struct thread of its level. How many; -EXDEV: one that bears the thread's
 * number, but whether it runs on it is not known; or -errno. */
enum nest_search {
	NEST_ALL,   /* by number, and by the stack that came with the sample */
	NEST_QUICK, /* none bears the number: only if that stack names any */
	NEST_DEEP,  /* more of the stack is read and looked at */
};
int nest_states(struct pystack *p, const struct pystack_target *t, struct thread *th,
		pid_t inner, enum nest_search how);

/* pystack_place.c: does the state run on thread @th, whose number is @inner? @at: the
 * innermost place on a C stack that is the state's; 0: it has none; or PLACE_LOST. */
enum place {
	PLACE_OURS,
	PLACE_OTHERS,
	PLACE_UNKNOWN, /* it bears the thread's number, but runs on a stack not known */
};
enum place place_of(struct pystack *p, const struct pystack_target *t, struct thread *th,
		    const struct state_row *s, raddr at, pid_t inner);

/* pystack_place.c: is @number the thread's, or its forker's? */
bool place_is_number(const struct pystack *p, const struct thread *th, uint64_t number,
		     pid_t inner);

/* pystack_place.c: is the struct pthread at @pthread that of the thread numbered @inner, by
 * the number that the C library keeps in it? */
bool place_is_pthread(struct pystack *p, raddr pthread, pid_t inner);

/* pystack_place.c: what the innermost activation of the state at @ts with @frame (struct
 * state_row) keeps; 0: none was found. It is on the C stack, or else, where the next one says
 * 0, the frame that is part of the thread state (3.15). */
raddr place_innermost(struct pystack *p, const struct pystack_target *t, raddr ts,
		      raddr frame);
raddr place_on_stack(struct pystack *p, const struct pystack_target *t, raddr ts, raddr shim);

/* pystack_place.c: both, as a walk of it found them, or, where that was cut before it came so
 * far, as further frames tell. PLACE_LOST: not even they do. */
#define PLACE_LOST ((raddr)1)
raddr place_of_walk(struct pystack *p, const struct pystack_target *t, raddr ts,
		    const struct pywalk *w);

/* pystack_place.c: fill s->seen from the registers and the stack bytes of the sample; @deep:
 * from what is read of the stack behind them, too. */
void place_scan(struct pystack *p, struct states *s, bool deep);

/* pystack_code.c: before a walk: does the interpreter's count of code objects stand
 * still? */
void codes_begin(struct pystack *p, const struct pystack_target *t, struct thread *th);

/* pystack_code.c: after it: fill p->seen[] for the first @n walked frames; codes are
 * verified, or copied, or bad. */
void codes_verify(struct pystack *p, const struct pystack_target *t, struct thread *th,
		  uint32_t n);

/* pystack.c: where the instruction lies in the code, in bytes; false: not in it. */
bool pystack_lasti_of(const struct code *c, raddr instr, uint32_t *ret);

/* pystack_live.c: address of the @i'th frame that was walked. */
static inline raddr pystack_frame_at(const struct pystack *p, uint32_t i)
{
	return p->walked[i].frame & ~(raddr)PYFRAME_BITS;
}

/* pystack_live.c: the end on the data stack of the @i'th frame that was walked. */
raddr pystack_end_of(const struct pystack *p, uint32_t i);

/* pystack_live.c: the first frame from @i on that lies on the data stack; w->n: none. */
uint32_t pystack_next_function(const struct pystack *p, const struct pywalk *w, uint32_t i);

/* pystack_live.c: does the activation of the _PyCFrame @cframe begin in the @i'th frame? That of
 * the one before it is the next then. Up to 3.12. */
bool pystack_begins_in(struct pystack *p, const struct pystack_target *t, struct thread *th,
		       const struct pywalk *w, raddr cframe, uint32_t i);

/* pystack_live.c: where the innermost activation begins, is its predecessor's frame the next?
 * Up to 3.12. */
bool pystack_follows(struct pystack *p, const struct pystack_target *t, struct thread *th,
		     const struct pywalk *w);

/* pystack_live.c: do the newest two frames of functions lie one behind the other, up to the
 * top of the data stack? Up to 3.13. */
bool pystack_is_stacked(struct pystack *p, const struct pystack_target *t,
			const struct thread *th, const struct pywalk *w);

/* pystack_live.c: is @exc, a value of tstate.exc_info, what the newest generator of the walk
 * keeps, or the thread if there is none? */
bool pystack_is_exc_of(const struct pystack *p, const struct pystack_target *t,
		       const struct thread *th, const struct pywalk *w, raddr exc);

/* pystack_live.c: the walk ended in a frame without predecessor; because greenlet took the
 * shims out, so that all function's frames are there? */
bool pystack_is_exposed(struct pystack *p, const struct pystack_target *t,
			const struct pywalk *w);

/* pystack_entry.c: *@w is no stack; is it so because the thread is about to enter an
 * activation that is published and not yet filled in? Then *@w becomes its caller's walk,
 * proven, its frames and codes as codes_verify() leaves them, at most @cap. In 3.13 the newest
 * frame, which is linked, comes first, and w->cframe is its shim. */
bool pystack_entering(struct pystack *p, const struct pystack_target *t, struct thread *th,
		      uint32_t cap, struct pywalk *w);

/* pystack_entry.c: after both: is this the thread's stack, with the activations that it is in?
 */
bool pystack_is_linked(struct pystack *p, const struct pystack_target *t, struct thread *th,
		       const struct pywalk *w);

/* pystack_live.c: if not, while a greenlet's C stack is replaced by another's: are its frames
 * those that are alive? */
bool pystack_is_live(struct pystack *p, const struct pystack_target *t,
		     const struct thread *th, const struct pywalk *w);

/* pystack_code.c: CPython's own rule for frames that are not there yet, the newest too: it
 * belongs to the calling line until its first traceable instruction. From 3.13 on it drops the
 * static _Py_InitCleanup below each __init__. */
bool pystack_has_begun(const struct code *c, const struct pyframe *f);

#endif
