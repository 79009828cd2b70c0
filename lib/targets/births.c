/* SPDX-License-Identifier: MIT
 *
 * births - a table of what the rings told of each process, by its number.
 */
#include "targets/births.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sample/perf_decode.h"
#include "targets/target.h"

struct birth {
	_Atomic uint64_t execed, mapped, python;
	_Atomic uint64_t execed_by; /* which number, and when: number_at() */
	/* When code of an interpreter was mapped last, and which, where: struct births's index
	 * + 1 in 4 bits, the page's number in 36, and a mark of the time and the process, for
	 * several readers write both words. */
	_Atomic uint64_t known, where;
	/* When it was forked; and by whom: the thread's number, its process's, and the rest a
	 * mark of the time and the process. */
	_Atomic uint64_t forked, by;
	_Atomic uint64_t born;	/* a thread: when one with such a number was forked last */
	_Atomic uint64_t ended; /* a thread: number_at() */
};

struct births {
	_Atomic uint32_t n_codes;
	struct births_code code[BIRTHS_CODES];
	struct birth of[BIRTHS];
};

enum { NAME_MAX_BYTES = 256 };
enum { PAGE_BITS = 12, INDEX_BITS = 4, WHERE_BITS = 40, PID_BITS = 22 };

static uint64_t mark_of(pid_t pid, uint64_t time)
{
	return (time ^ (uint64_t)pid) * 0x9e3779b97f4a7c15u >> WHERE_BITS << WHERE_BITS;
}

struct births *births_create(void)
{
	return calloc(1, sizeof(struct births));
}

void births_destroy(struct births *b)
{
	free(b);
}

static struct birth *birth_of(struct births *b, pid_t pid)
{
	return &b->of[(uint32_t)pid % BIRTHS];
}

/* A PERF_RECORD_MMAP2 as far as it is of use here. */
struct mapped {
	struct perf_event_header h;
	uint32_t pid, tid;
	uint64_t at, len, pgoff;
	uint32_t maj, min;
	uint64_t ino;
};

/* A mapping of code that belongs to a file, not of code that the process wrote itself. */
static bool maps_file(const struct perf_ring *ring, uint64_t pos,
		      const struct perf_event_header *h, struct mapped *ret)
{
	if (h->type != PERF_RECORD_MMAP2 ||
	    (h->misc & (PERF_RECORD_MISC_MMAP_DATA | PERF_RECORD_MISC_MMAP_BUILD_ID)) ||
	    h->size < sizeof(*ret) + PERF_TRAILER)
		return false;
	perf_ring_copy(ring, pos, ret, sizeof(*ret));
	return ret->ino;
}

/* Is the mapped file named like Python? Its name ends the record, but for the trailer and
 * zeros.
 */
static bool names_python(const struct perf_ring *ring, uint64_t pos,
			 const struct perf_event_header *h)
{
	char name[NAME_MAX_BYTES + 1] = "";
	size_t from = sizeof(struct mapped) + 16, to = h->size - PERF_TRAILER;

	/* What is longer than a file's name may be is its folder. */
	from = to - from > NAME_MAX_BYTES ? to - NAME_MAX_BYTES : from;
	if (from < to)
		perf_ring_copy(ring, pos + from, name, to - from);
	return pyfind_is_named_python(name);
}

/* Notes that @m, mapped by @pid, is code of a known interpreter, if it is. */
static void note_known(struct births *b, pid_t pid, const struct mapped *m, uint64_t time)
{
	struct birth *of = birth_of(b, pid);
	uint32_t n = atomic_load_explicit(&b->n_codes, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++) {
		const struct pyfind_code *c = &b->code[i].code;

		if (c->ino != m->ino || c->maj != m->maj || c->min != m->min ||
		    c->pgoff != m->pgoff ||
		    atomic_load_explicit(&of->known, memory_order_relaxed) >= time)
			continue;
		atomic_store(&of->where, mark_of(pid, time) |
						 (m->at >> PAGE_BITS << INDEX_BITS &
						  ((UINT64_C(1) << WHERE_BITS) - 1)) |
						 (i + 1));
		clock_raise(&of->known, time);
	}
}

/* Numbers of processes are below 1 << PID_BITS (PID_MAX_LIMIT, include/linux/threads.h). */
static uint64_t by_of(pid_t pid, const struct births_fork *f)
{
	uint64_t mark = (f->time ^ (uint64_t)pid) * 0x9e3779b97f4a7c15u;

	return mark >> 2 * PID_BITS << 2 * PID_BITS | (uint64_t)f->ppid << PID_BITS |
	       (uint64_t)f->ptid;
}

/* The thread's number, and above it when, in microseconds: their last bits, which are the same
 * again after 50 days. */
static uint64_t number_at(pid_t tid, uint64_t time)
{
	return time / 1000 << PID_BITS | (uint64_t)tid;
}

/* True: @ended says that @tid ended before @time, by less than @us. */
static bool has_ended(uint64_t ended, pid_t tid, uint64_t time, uint64_t us)
{
	uint64_t since = number_at(tid, time) - ended;

	return ended && since % (UINT64_C(1) << PID_BITS) == 0 && since >> PID_BITS < us;
}

/* At @time somebody got the number @tid: who had it before has ended. */
static void note_born(struct birth *of, pid_t tid, uint64_t time)
{
	enum { LONG_US = 1800000000 };
	uint64_t ended = atomic_load(&of->ended);

	if (has_ended(ended, tid, time, LONG_US))
		atomic_compare_exchange_strong(&of->ended, &ended, 0);
}

/* The record of an end may be read after that of a later birth, and while another reader notes
 * that. */
static void note_end(struct birth *of, pid_t tid, uint64_t time)
{
	atomic_store(&of->ended, number_at(tid, time));
	note_born(of, tid, atomic_load(&of->born));
}

/* The main thread ends where another one calls exec, which gets its number. */
static void note_exec(struct birth *of, pid_t pid, uint64_t time)
{
	atomic_store(&of->execed_by, number_at(pid, time));
	clock_raise(&of->execed, time);
	note_born(of, pid, time);
}

/* A PERF_RECORD_FORK, or a PERF_RECORD_EXIT. */
struct forked {
	struct perf_event_header h;
	uint32_t pid, ppid, tid, ptid;
	uint64_t time;
};

static void note_fork(struct births *b, const struct perf_ring *ring, uint64_t pos)
{
	struct forked r;
	struct births_fork f;

	perf_ring_copy(ring, pos, &r, sizeof(r));
	f = (struct births_fork){ r.time, (pid_t)r.ppid, (pid_t)r.ptid };
	atomic_thread_fence(memory_order_acquire);
	/* Nobody has taken it from the ring meanwhile, so it was not overwritten. */
	if (perf_ring_tail(ring) > pos || (r.ppid | r.ptid | r.tid) >> PID_BITS)
		return;
	if (r.h.type == PERF_RECORD_EXIT) {
		/* Unless the thread that called exec has its number by now. */
		if (births_execed(b, (pid_t)r.tid) < r.time)
			note_end(birth_of(b, (pid_t)r.tid), (pid_t)r.tid, r.time);
		return;
	}
	clock_raise(&birth_of(b, (pid_t)r.tid)->born, r.time);
	note_born(birth_of(b, (pid_t)r.tid), (pid_t)r.tid, r.time);
	if (r.pid == r.ppid)
		return;
	atomic_store(&birth_of(b, (pid_t)r.pid)->by, by_of((pid_t)r.pid, &f));
	clock_raise(&birth_of(b, (pid_t)r.pid)->forked, r.time);
}

static bool fork_of(struct births *b, pid_t pid, struct births_fork *ret)
{
	struct birth *of = b ? birth_of(b, pid) : NULL;
	uint64_t time = of ? atomic_load_explicit(&of->forked, memory_order_acquire) : 0;
	uint64_t by = time ? atomic_load_explicit(&of->by, memory_order_acquire) : 0;
	uint64_t mask = (UINT64_C(1) << PID_BITS) - 1;

	*ret = (struct births_fork){ time, (pid_t)(by >> PID_BITS & mask),
				     (pid_t)(by & mask) };
	return time && by == by_of(pid, ret);
}

bool births_forked(struct births *b, pid_t pid, struct births_fork *ret)
{
	return fork_of(b, pid, ret) && births_execed(b, pid) < ret->time;
}

pid_t births_parent(struct births *b, pid_t pid)
{
	struct births_fork f, parent;

	if (!fork_of(b, pid, &f))
		return 0;
	return fork_of(b, f.ppid, &parent) && parent.time > f.time ? 0 : f.ppid;
}

void births_note(struct births *b, const struct perf_ring *ring, uint64_t pos,
		 const struct perf_event_header *h, const unsigned char *trailer)
{
	bool execed = h->type == PERF_RECORD_COMM && (h->misc & PERF_RECORD_MISC_COMM_EXEC);
	struct perf_trailer t;
	struct mapped m;

	if (b && (h->type == PERF_RECORD_FORK || h->type == PERF_RECORD_EXIT) &&
	    h->size == sizeof(struct forked) + PERF_TRAILER)
		note_fork(b, ring, pos);
	if (!b || h->size < sizeof(*h) + PERF_TRAILER ||
	    (!execed && !maps_file(ring, pos, h, &m)))
		return;
	perf_decode_trailer(trailer, &t);
	if (execed) {
		note_exec(birth_of(b, t.pid), t.pid, t.time);
		return;
	}
	clock_raise(&birth_of(b, t.pid)->mapped, t.time);
	note_known(b, t.pid, &m, t.time);
	if (names_python(ring, pos, h))
		clock_raise(&birth_of(b, t.pid)->python, t.time);
}

static bool same_code(const struct pyfind_code *a, const struct pyfind_code *b)
{
	return !memcmp(a->build_id, b->build_id, b->build_id_n) && a->ino == b->ino &&
	       a->min == b->min;
}

/* Of one file: a process may write over what it maps of it. */
static bool agrees(const struct births_code *known, const struct pyfind_code *code,
		   const struct target *target)
{
	return known->runtime - known->code.at == target->runtime - code->at &&
	       known->code.build_id_at - known->code.at == code->build_id_at - code->at &&
	       !memcmp(&known->py.layout, &target->py.layout, sizeof(target->py.layout));
}

void births_teach(struct births *b, const struct pyfind_code *code,
		  const struct target *target)
{
	uint32_t n = b ? atomic_load(&b->n_codes) : BIRTHS_CODES;

	for (uint32_t i = 0; i < n && b; i++)
		if (same_code(&b->code[i].code, code)) {
			if (!agrees(&b->code[i], code, target))
				atomic_store(&b->code[i].disputed, true);
			return;
		}
	if (n == BIRTHS_CODES || !code->build_id_n)
		return;
	b->code[n] = (struct births_code){ .code = *code,
					   .py = target->py,
					   .version = target->version,
					   .runtime = target->runtime,
					   .inner_tids = target->inner_tids };
	atomic_store_explicit(&b->n_codes, n + 1, memory_order_release);
}

const struct births_code *births_known(struct births *b, uint32_t i)
{
	uint32_t n = b ? atomic_load_explicit(&b->n_codes, memory_order_acquire) : 0;

	return i < n ? &b->code[i] : NULL;
}

const struct births_code *births_interpreter(struct births *b, pid_t pid, uint64_t since,
					     uint64_t *at)
{
	struct birth *of = b ? birth_of(b, pid) : NULL;
	uint64_t time = of ? atomic_load_explicit(&of->known, memory_order_acquire) : 0;
	uint64_t where = time ? atomic_load_explicit(&of->where, memory_order_acquire) : 0;

	if (!time || time <= since || where >> WHERE_BITS != mark_of(pid, time) >> WHERE_BITS)
		return NULL;
	*at = (where & ((UINT64_C(1) << WHERE_BITS) - 1)) >> INDEX_BITS << PAGE_BITS;
	return &b->code[(where & ((1 << INDEX_BITS) - 1)) - 1];
}

bool births_ending(struct births *b, pid_t tid, uint64_t time)
{
	enum { SOON_US = 1000000 }; /* later it may be another thread's number */

	return b && has_ended(atomic_load_explicit(&birth_of(b, tid)->ended,
						   memory_order_acquire),
			      tid, time, SOON_US);
}

uint64_t births_born(struct births *b, pid_t tid)
{
	return b ? atomic_load_explicit(&birth_of(b, tid)->born, memory_order_acquire) : 0;
}

uint64_t births_execed(struct births *b, pid_t pid)
{
	return b ? atomic_load_explicit(&birth_of(b, pid)->execed, memory_order_acquire) : 0;
}

uint64_t births_execed_by(struct births *b, pid_t pid)
{
	uint64_t time = births_execed(b, pid);
	bool own = time && atomic_load(&birth_of(b, pid)->execed_by) == number_at(pid, time);

	return own ? time : 0;
}

uint64_t births_python(struct births *b, pid_t pid)
{
	return b ? atomic_load_explicit(&birth_of(b, pid)->python, memory_order_acquire) : 0;
}

uint64_t births_mapped(struct births *b, pid_t pid)
{
	return b ? atomic_load_explicit(&birth_of(b, pid)->mapped, memory_order_acquire) : 0;
}
