/* SPDX-License-Identifier: MIT
 *
 * reader_int - what the files of a reader share, and nobody else sees: reader.c (the
 * thread), scan.c (its ring), hold.c (reading and judging), program.c (what is read), emit.c
 * (queueing).
 */
#ifndef READER_INT_H
#define READER_INT_H

#include <pthread.h>

#include "arch/arch.h"
#include "base/clock.h"
#include "watch/event_ids.h"
#include "watch/proof.h"
#include "python/pygil.h"
#include "python/pystack.h"
#include "remote_mem.h"
#include "bpf/run_table.h"
#include "bpf/stranger_filter.h"
#include "targets/target.h"
#include "sample/perf_decode.h"
#include "sample/wire.h"
#include "capture/capture.h"
#include "targets/ours.h"
#include "capture/reader.h"
#include "capture/tap.h"

enum { PEND_MAX = 256, REST_BYTES = 192 << 10, RED_BYTES = 128, NEWBORNS = 16 };
static const uint64_t SECOND = 1000000000; /* ns */

/* A sample, from its record to the queue: decoded once, then what is learnt is added. What is
 * the same for all samples of one thread is in its struct walk. */
struct pending {
	uint64_t pos;	      /* of its record in the ring */
	struct perf_sample s; /* views into the ring, where it stays until it was emitted */
	uint32_t event;
	bool probe;    /* an instruction of the thread's own was a breakpoint */
	bool jumps;    /* that instruction goes elsewhere */
	bool early;    /* read, but its stop has not come yet: see struct reader */
	bool done;     /* emitted, or nobody wants it */
	uint64_t t_in; /* it ran on after its stop; 0: no record of it */
	struct hold hold;
	/* As it was judged: */
	enum provenance prov;
	bool held; /* what was read later is as it was at the sample */
	bool open; /* torn, but "nopython" if its program turns out to have had no interpreter
		    */
};

/* What was read of a thread's stack besides what its sample has. The bytes are in reader.rest
 * and reader.red until the next walk. */
struct rest {
	raddr at; /* of @n bytes in reader.rest */
	uint32_t n;
	raddr far_sp;  /* they lie elsewhere, for a sample with this stack pointer; or 0 */
	raddr red_end; /* of reader.red: the stack pointer it was read for; 0: it was not */
};

/* What all pending samples of a thread share: what it is, what was read, whether it held. */
struct walk {
	enum pystack_end able; /* what program_readable() said */
	struct pystack_result res;
	struct rest rest;
	pid_t pid, tid;
	uint64_t sample_ns; /* of its oldest sample that waits */
	bool early;	    /* read before the thread's stop was told */
	uint64_t came_ns;   /* proof_came() after the read */
	enum pygil_has gil; /* with c->only_gil, or SESSION_GIL */
	bool ran, unchanged;
	bool unmapped;	/* nor is the interpreter there that the walk began in */
	bool undecided; /* what is known of the program may be outdated: who looks again
			   decides */
	struct target *published; /* NULL: the process is not known */
	struct target *program;	  /* what was read: @published, or one of reader.newborn */
	uint64_t began_ns;	  /* the program, as far as is known */
	uint64_t t_end;
	uint64_t reads_ns; /* that the reader had made before, for hold_charge() */
	enum judgement latest; /* of the last sample, whose stack bytes were used */
};

/* What number thread @tid of a program has in its PID namespace, as it was at @asked_ns. */
struct inner_number {
	pid_t tid, inner;
	int program;
	uint64_t asked_ns;
};

enum { READER_RENAMED = 256, INNER_NUMBERS = 256 };

struct reader {
	struct reader_config *c;
	struct cpu_slot *slot;
	pthread_t thread;
	_Atomic int tid; /* 0: not running yet */
	void *block;	 /* all that it lies in; NULL: the slot's */
	int wake;	 /* epoll on our ring, or on our handover */
	_Atomic bool stop;
	_Atomic bool asleep; /* waits for a sample, however long */
	struct reader *next; /* in slot->stuck */

	struct pystack *ps;
	struct target newborn[NEWBORNS]; /* that the control thread may not know yet */
	int n_newborn;
	struct guarded mem;
	/* Of capture stop: whom the tracer holds for us, in which turn (0: nobody), and the
	 * read that is offered to it (tid 0: none; whatever that read is here). */
	uint32_t turn;
	pid_t turn_tid;
	struct walk early;
	struct pending pend[PEND_MAX];
	uint32_t n_pend;
	uint64_t first_pos; /* in our ring: where it was emptied for the first time, before the
			     * recording began; 0: it was not */
	uint64_t pos;		     /* in our ring: everything before it is dealt with */
	uint64_t *cursor;	     /* in the others' rings */
	uint64_t saw_all_ns;	     /* with c->table: the last look into all of them */
	uint64_t saw_births_ns;	     /* with c->table: the last look for births in them */
	uint64_t window_ns, held_ns; /* hold budget: this second's */
	uint64_t woke_ns;	     /* our last wake-up */
	uint64_t looked_ns;	     /* at another reader, in turn: */
	uint64_t look;		     /* its guard then */
	uint32_t look_at;	     /* its slot */
	bool unfit;    /* this thread is not where or what the capture needs: holds nobody */
	bool crowded;  /* c->crowded, as this drain began */
	uint32_t wait; /* of capture/waits alone: Q_WAIT_* of what it reads; else 0 */
	uint32_t sampled; /* bit e: since the last drain, by this CPU's own event e */
	uint32_t pace;	  /* target.pace of the last sample by an event in c->paced; 0: none */
	uint64_t renamed_ns[READER_RENAMED]; /* scan.c: from then on a process of this place may
					      * rename threads again */
	uint64_t way_out; /* ns: the longest from such a sample to where its thread was held */
	uint64_t random;  /* state of a generator */
	struct proof_stat_files stat_files;
	struct inner_number inner[INNER_NUMBERS]; /* by @tid */
	struct sight_seen sight;
	const struct tap_ops *tap; /* who listens; or NULL */
	struct taping *taping;	   /* what it has written, if it is taping_ops */
	/* Records that can't be looked at in the ring: those that samples in @pend point into, and
	 * behind them room for one (scan_look()). */
	_Alignas(8) unsigned char bounce[2 * PERF_RECORD_BYTES];
	size_t bounced; /* bytes of it that samples point into, at most half */
	unsigned char rest[REST_BYTES], red[RED_BYTES];
};

/* reader.c: a reader of @slot without its thread, and its end. Records are taken out of its
 * ring, read and judged by reader_drain(): @shed_left: no, they are dropped; @last: no others
 * will come. NULL: no memory. */
struct reader *reader_create(struct reader_config *c, struct cpu_slot *slot);
void reader_destroy(struct reader *r);
bool reader_drain(struct reader *r, uint64_t shed_left, bool last);

/* scan.c: take in the record at @pos of its ring, which lies before the head. Where the next one
 * is. */
uint64_t scan_record(struct reader *r, uint64_t pos);

/* scan.c: @r begins where @was, which was given up, stands in their ring, and has the samples that
 * wait there. */
void scan_take_over(struct reader *r, const struct reader *was);

/* scan.c: that record, until the next one is looked at. NULL: none (perf_ring_at()). */
const struct perf_event_header *scan_look(struct reader *r, uint64_t pos);

/* The taps, where there are some. */
static inline void tap_look(struct reader *r, enum tap_look what, pid_t tid)
{
	if (r->tap)
		r->tap->look(r, what, tid);
}
static inline void tap_looked(struct reader *r, enum tap_look what, pid_t tid, uint64_t own)
{
	if (r->tap)
		r->tap->looked(r, what, tid, own);
}
static inline uint64_t tap_answer(struct reader *r, enum tap_answer what, uint64_t key,
				  uint64_t value)
{
	if (r->tap)
		r->tap->answer(r, what, key, &value);
	return value;
}

/* What handover_held() told, in r->turn and r->turn_tid. */
static inline void tap_held(struct reader *r)
{
	uint64_t both = r->turn ? (uint64_t)r->turn_tid << 32 | r->turn : 0;

	both = tap_answer(r, TAP_HELD, 0, both);
	r->turn = (uint32_t)both;
	if (both)
		r->turn_tid = (pid_t)(both >> 32);
}

/* cpu_events.c: is a sample of this thread wanted? What made its process a target may have
 * happened on another CPU, whose reader has not come to it yet: then its ring is looked into.
 */
bool cpu_events_want(struct reader *r, pid_t pid, pid_t tid, uint64_t time);

/* cpu_events.c: with c->table: a record of @time that tells of @pid: if the process is a
 * target by what lies in other rings, that is known now. */
void cpu_events_learn(struct reader *r, pid_t pid, uint64_t time);

/* cpu_events.c: of a scope: @pid, which is no target, may have become one by @time. */
void cpu_events_stranger(struct reader *r, pid_t pid, uint64_t time);

/* cpu_events.c: it is not, nor are those of that process that follow soon. */
void cpu_events_drop(struct reader *r, pid_t pid, uint64_t time);

/* cpu_events.c: a sample of @event by this CPU's own clock is @pid's. */
void cpu_events_taken(struct reader *r, pid_t pid, uint32_t event);

/* cpu_events.c: for the books: a sample of @event, in time, which stands for @period of it (0:
 * as many as it was asked for). */
void cpu_events_seen(struct reader *r, uint32_t event, uint64_t period);

/* cpu_events.c: while events go over from threads (@early) to CPUs both take samples: is this
 * one too many? */
bool cpu_events_twin(const struct reader *r, uint32_t event, bool early, uint64_t time);

/* cpu_events.c: a thread or process was born while threads take the samples: if that is often,
 * the control thread is told (CTL_BIRTHS). */
void cpu_events_birth(struct reader *r);

/* cpu_events.c: targets go on: begin a new period of this CPU's own events that were sampled
 * since the last call. */
void cpu_events_restart(struct reader *r);

/* program.c: can a walk of a thread of @w->pid be tried, as @w->published or another target?
 * Sets @w->able, PYSTACK_OK or why not, and @w->program. Counts what it finds. */
void program_readable(struct reader *r, struct walk *w);

/* program.c: is @t still what the process is, by all records that were noted; with @none, has
 * it mapped no code since it was looked at? */
bool program_stands(struct reader *r, const struct target *t, bool none);

/* program.c: @w's samples can't be judged: the control thread is asked to look at the process,
 * @t or not known, and the resolver will know what it saw. */
enum pystack_end program_ask(struct reader *r, struct target *t, struct walk *w);

/* program.c: is @t a program with Python, and no record that may lie in another ring unread
 * would change that? */
bool program_settled(struct reader *r, const struct target *t);

/* emit.c: a perf record that is no sample. False: there was no room, which is counted. */
bool emit_side(struct reader *r, const struct perf_event_header *h);

/* emit.c: one judged sample, or one that the resolver judges. */
void emit_sample(struct reader *r, const struct pending *p, const struct walk *w);

/* rest.c: while the thread is held: the part of its stack that unwinding will want and that
 * did not come with sample @s, to @w->rest. @red may have the red zone already. */
void rest_read(struct reader *r, const struct perf_sample *s, struct rmem *red,
	       struct walk *w);

/* rest.c: how many registers and stack bytes of a sample go to the resolver, into @q; and
 * these, behind @q. What was read later goes only if the thread was held. */
void rest_size(const struct reader *r, const struct pending *p, const struct walk *w,
	       struct q_sample *q);
void rest_copy(const struct reader *r, const struct perf_sample *s, struct q_sample *q);

/* emit.c: the numbers of codes are unique over so many readers of a slot, one after the other.
 */
enum { EMIT_GENERATIONS = 4095 };

/* emit.c: @slot, which has no reader, gets the next: the codes of the last one are gone. */
void emit_generation(struct cpu_slot *slot);

/* emit.c: a callback for pystack: a new code object. */
bool emit_code(void *arg, uint64_t id, const struct pycode_copy *c);

/* emit.c: between samples: codes that were not met for long are forgotten, here and by the
 * resolver. */
void emit_codes_gone(struct reader *r);

/* emit.c: a message to the control thread. False: there was no room, which is counted. */
bool emit_control(struct reader *r, enum ctl_type type, struct ctl_msg m);

/* emit.c: @n samples never reached the queue. */
void emit_lost(struct stats *s, uint64_t n);

#endif
