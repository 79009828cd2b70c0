/* SPDX-License-Identifier: MIT
 *
 * taping - writes down what a reader takes from its ring, asks, reads and judges.
 */
#include "capture/taping.h"

#include <errno.h>

#include "sample/perf_decode.h"
#include "base/stats.h"
#include "targets/tape_target.h"
#include "capture/reader_int.h"

enum { KNOWN_IDS = 512, KNOWN_TARGETS = 256, PIECE = 16 << 10 };

/* What was written last of a process. */
struct known_target {
	pid_t pid;
	int program; /* its number; 0: the process is not known */
	int state;
	uint64_t none_ns, looked_ns;
	pid_t forker;
	bool unborn, nopython;
	uint32_t code_number;
};

struct taping {
	bool begun;
	uint64_t look_ns; /* when the look began that it is in */
	uint64_t ids[KNOWN_IDS];
	struct known_target targets[KNOWN_TARGETS];
};

struct taping *taping_create(void)
{
	return calloc(1, sizeof(struct taping));
}

void taping_destroy(struct taping *t)
{
	free(t);
}

static void put_reader(const struct reader *r, enum tape_type type, const struct tape_head *h,
		       struct bytes body)
{
	tape_queue(&r->slot->queue, r->c->stats, type, h, body);
}

static void put_head(const struct reader *r, enum tape_type type, const struct tape_head *h)
{
	put_reader(r, type, h, (struct bytes){ 0 });
}

/* Of a reader's chunk: which, and of when. */
static void begin_at(struct tape_head *h, const struct reader *r, uint64_t time)
{
	h->n = 0;
	h->full = false;
	tape_put(h, TAPE_SLOT_INDEX, r->slot->index);
	tape_put(h, TAPE_TIME, time);
}

static void begin(struct tape_head *h, const struct reader *r)
{
	begin_at(h, r, now_ns());
}

/* --- at the beginning --- */

void taping_begin(const struct reader_config *c, struct queue *q)
{
	struct tape_head h = { 0 };

	tape_put(&h, TAPE_SET,
		 (c->witness ? TAPE_WITNESS : 0u) | (c->counter ? TAPE_COUNTER : 0u) |
			 (c->native ? TAPE_NATIVE : 0u) | (c->follow ? TAPE_FOLLOW : 0u) |
			 (c->tell_threads ? TAPE_TELL_THREADS : 0u) |
			 (c->split ? TAPE_SPLIT : 0u) | (c->ours ? TAPE_OURS : 0u) |
			 (c->table ? TAPE_TABLE : 0u) | (c->early ? TAPE_EARLY : 0u) |
			 (c->switches_hidden ? TAPE_SWITCHES_HIDDEN : 0u));
	tape_put(&h, TAPE_SAMPLE_TYPE, c->sample_type);
	tape_put(&h, TAPE_STACK_BYTES, c->stack_bytes);
	tape_put(&h, TAPE_MAX_FRAMES, c->max_frames);
	tape_put(&h, TAPE_CHILD, (uint64_t)c->child);
	tape_put(&h, TAPE_CAP_SLOTS, c->cap_slots);
	tape_put_bytes(&h, TAPE_CAPTURE, c->capture->name, strlen(c->capture->name));
	tape_put_bytes(&h, TAPE_ARCH, arch_host->name, strlen(arch_host->name));
	if (c->n_tids)
		tape_put_bytes(&h, TAPE_TIDS, c->tids, c->n_tids * sizeof(*c->tids));
	tape_queue(q, c->stats, TAPE_SETTINGS, &h, (struct bytes){ 0 });
}

static void put_slot(struct reader *r)
{
	struct tape_head h;

	begin(&h, r);
	tape_put(&h, TAPE_CPU, (uint64_t)r->slot->cpu);
	tape_put(&h, TAPE_N, r->slot->ring.size);
	tape_put(&h, TAPE_POS, r->pos);
	tape_put(&h, TAPE_WATCHED, atomic_load(&r->slot->watched_ns));
	put_head(r, TAPE_SLOT, &h);
}

/* --- the ring --- */

static void put_id(struct reader *r, uint64_t id)
{
	uint64_t *known = &r->taping->ids[id % KNOWN_IDS];
	struct tape_head h;

	if (*known == id)
		return;
	*known = id;
	begin(&h, r);
	tape_put(&h, TAPE_KEY, id);
	tape_put(&h, TAPE_INDEX, watch_event_of(r->c, r->slot, id));
	put_head(r, TAPE_EVENT_ID, &h);
}

/* Which event a sample is of, and those that it counts. */
static void put_ids(struct reader *r, const struct perf_event_header *h)
{
	bool reads = r->c->sample_type & PERF_SAMPLE_READ;
	struct perf_sample s;

	if (h->type != PERF_RECORD_SAMPLE || h->size < sizeof(*h) + 8)
		return;
	put_id(r, load_u64(h + 1));
	if (!reads || perf_decode_sample(h, r->c->sample_type, &s) < 0)
		return;
	for (uint32_t i = 0; i < s.n_reads; i++)
		put_id(r, load_u64(s.reads + 16 * (size_t)i + 8));
}

static void put_ring(struct reader *r, uint64_t head)
{
	const struct perf_ring *ring = &r->slot->ring;

	for (uint64_t pos = r->pos; pos < head;) {
		const struct perf_event_header *rec = scan_look(r, pos);

		if (!rec)
			break;
		put_ids(r, rec);
		pos += rec->size;
	}
	for (uint64_t pos = r->pos, n; pos < head; pos += n) {
		uint64_t off = pos & (ring->size - 1);
		struct tape_head h;

		n = MIN(MIN(head - pos, ring->size - off), (uint64_t)PIECE);
		begin(&h, r);
		tape_put(&h, TAPE_POS, pos);
		tape_put_body(&h, TAPE_BYTES, n);
		put_reader(r, TAPE_RING, &h, (struct bytes){ ring->data + off, n });
	}
}

static void taping_drain(struct reader *r, uint64_t head, uint64_t shed_left, bool last)
{
	const struct reader_config *c = r->c;
	struct tape_head h;

	if (!r->taping->begun)
		put_slot(r);
	else if (head == r->pos && !r->n_pend)
		return;
	r->taping->begun = true;
	put_ring(r, head);
	begin(&h, r);
	tape_put(&h, TAPE_HEAD, head);
	tape_put(&h, TAPE_WOKE, r->woke_ns);
	tape_put(&h, TAPE_START, atomic_load(&c->start_ns));
	tape_put(&h, TAPE_END, atomic_load(&c->end_ns));
	tape_put(&h, TAPE_OVER, atomic_load(&c->over_ns));
	tape_put(&h, TAPE_BLIND, atomic_load(&c->blind_ns));
	tape_put(&h, TAPE_DRAINING,
		 (shed_left ? TAPE_SHED : 0u) | (last ? TAPE_LAST : 0u) |
			 (r->unfit ? TAPE_UNFIT : 0u) | (r->crowded ? TAPE_CROWDED : 0u));
	put_head(r, TAPE_DRAIN, &h);
}

/* --- what it is told --- */

/* What other readers take out of their rings from now on it still sees there. */
static void taping_look(struct reader *r, enum tap_look what, pid_t tid)
{
	r->taping->look_ns = now_ns();
}

static void taping_looked(struct reader *r, enum tap_look what, pid_t tid, uint64_t own)
{
	uint64_t heads[CPUS_MAX];
	uint32_t n = MIN(r->c->n_slots, (uint32_t)CPUS_MAX);
	struct tape_head h;

	for (uint32_t i = 0; i < n; i++)
		heads[i] = i == r->slot->index ? own : r->cursor[i];
	begin_at(&h, r, r->taping->look_ns);
	tape_put(&h, TAPE_WHAT, what);
	tape_put(&h, TAPE_TID, (uint64_t)tid);
	tape_put_body(&h, TAPE_HEADS, n * sizeof(*heads));
	put_reader(r, TAPE_LOOK, &h,
		   (struct bytes){ (const void *)heads, n * sizeof(*heads) });
}

static void taping_answer(struct reader *r, enum tap_answer what, uint64_t key,
			  uint64_t *value)
{
	const struct handover *ho = &r->slot->handover;
	struct tape_head h;

	begin(&h, r);
	tape_put(&h, TAPE_WHAT, what);
	tape_put(&h, TAPE_KEY, key);
	tape_put(&h, TAPE_VALUE, *value);
	if (what == TAP_HELD && *value) {
		tape_put_bytes(&h, TAPE_REGS, ho->regs, sizeof(ho->regs));
		tape_put(&h, TAPE_START, ho->ran_on_ns);
	}
	if (what == TAP_WITHDRAWN && *value) {
		tape_put_bytes(&h, TAPE_REGS, ho->accepted_regs, sizeof(ho->accepted_regs));
		tape_put(&h, TAPE_START, ho->accepted_ran_on_ns);
		tape_put(&h, TAPE_END, ho->accepted_ns);
	}
	put_head(r, TAPE_ANSWER, &h);
}

void taping_saw(void *arg, raddr at, const void *bytes, size_t n, int ret)
{
	struct reader *r = arg;
	struct tape_head h;

	begin(&h, r);
	tape_put(&h, TAPE_PID, (uint64_t)r->mem.below.pid);
	tape_put(&h, TAPE_AT, at);
	tape_put(&h, TAPE_N, n);
	tape_put(&h, TAPE_CODE, (uint64_t)-ret);
	if (ret == 0)
		tape_put_body(&h, TAPE_BYTES, n);
	put_reader(r, TAPE_READ, &h, (struct bytes){ bytes, ret == 0 ? n : 0 });
}

/* True: nothing has changed since it was written. */
static bool is_known(struct taping *tape, pid_t pid, const struct target *t)
{
	struct known_target *known = &tape->targets[(uint32_t)pid % KNOWN_TARGETS], now;

	now = (struct known_target){ .pid = pid };
	if (t) {
		now.program = t->py.program;
		now.state = atomic_load(&t->state);
		now.none_ns = atomic_load(&t->none_ns);
		now.looked_ns = atomic_load(&t->looked_ns);
		now.forker = atomic_load(&t->forker);
		now.unborn = atomic_load(&t->unborn);
		now.nopython = atomic_load(&t->nopython);
		now.code_number = atomic_load(&t->code_number);
	}
	if (known->pid == pid && known->program == now.program && known->state == now.state &&
	    known->none_ns == now.none_ns && known->looked_ns == now.looked_ns &&
	    known->forker == now.forker && known->unborn == now.unborn &&
	    known->nopython == now.nopython &&
	    known->code_number == now.code_number)
		return true;
	*known = now;
	return false;
}

static void taping_found(struct reader *r, pid_t pid, const struct target *t)
{
	struct tape_head h;

	if (is_known(r->taping, pid, t))
		return;
	begin(&h, r);
	if (t)
		tape_put_target(&h, t, false, now_ns());
	else
		tape_put_no_target(&h, pid, now_ns());
	put_head(r, TAPE_TARGET, &h);
}

static void taping_judged(struct reader *r, const struct pending *p)
{
	const char *name = tape_provenances[p->prov];
	struct tape_head h;

	begin_at(&h, r, p->s.time);
	tape_put(&h, TAPE_POS, p->pos);
	tape_put(&h, TAPE_EVENT_INDEX, p->event);
	tape_put_bytes(&h, TAPE_PROV, name, strlen(name));
	put_head(r, TAPE_JUDGED, &h);
}

const struct tap_ops taping_ops = {
	.drain = taping_drain,
	.look = taping_look,
	.looked = taping_looked,
	.target = taping_found,
	.answer = taping_answer,
	.judged = taping_judged,
};
