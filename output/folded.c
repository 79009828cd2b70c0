/* SPDX-License-Identifier: MIT
 *
 * folded - one line a stack, "COMM-PID;frame;frame COUNT", root first: the input of
 * flame graph tools.
 *
 * Stacks are added up in memory as lists of frame ids, and written at the end in
 * the order of their first sight. When several events are recorded, the frame
 * after the process (and thread) is "event:NAME": their counts are not comparable.
 *
 * Native frames that are noted in session.places stand in the lists by their number there;
 * when their lines are known, at the end, the lists are made anew, with names only.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>

#include "base/hash.h"
#include "base/base.h"
#include "perf_event.h"
#include "lines/places.h"
#include "base/stats.h"
#include "apportion.h"
#include "buf.h"
#include "folded_names.h"
#include "sink.h"

enum {
	PLACE_NAME_MAX = PYFUNC_NAME_MAX + PYFUNC_FILE_MAX,
	MEMORY_SHARE = 4, /* of session.memory, one part in so many for names and stacks */
};

#define IS_PLACE (1u << 31) /* in an id; ids of names are below */

struct folded_stack {
	uint64_t hash, count;
	size_t at, n; /* in @ids */
	uint32_t event;
};

struct folded {
	struct folded_names names; /* full: no room for stacks, either (session.memory) */
	struct buf ids;		   /* u32 each: the frames of all stacks, root first */
	struct buf stacks;	   /* struct folded_stack each */
	struct buf same;	   /* u32 each: a stack + 1, by stack.same; 0 is none */
	uint64_t samples[SESSION_MAX_EVENTS];
	uint32_t *slot; /* stack + 1, 0 is free */
	size_t n_slots; /* a power of two */
};

static uint32_t frame_name(struct folded *f, const struct frame *fr)
{
	if (fr->kind == FRAME_PYTHON)
		return folded_names_python(&f->names, fr->func, fr->line);
	if (fr->place)
		return IS_PLACE | fr->place;
	return folded_names_kept(&f->names, fr->name && *fr->name ? fr->name : "[unknown]");
}

static struct folded_stack *stack_at(const struct folded *f, size_t i)
{
	return (struct folded_stack *)(void *)f->stacks.at + i;
}

static uint64_t stack_hash(const unsigned char *ids, size_t n)
{
	return hash_bytes(hash_seed.begin, ids, 4 * n);
}

/* Twice as many slots. */
static int grow_slots(struct folded *f)
{
	size_t n = f->n_slots ? 2 * f->n_slots : 1024;
	uint32_t *slot = calloc(n, sizeof(*slot));

	if (!slot)
		return -ENOMEM;
	for (size_t i = 0; i < f->n_slots; i++) {
		size_t to;

		if (!f->slot[i])
			continue;
		to = stack_at(f, f->slot[i] - 1)->hash & (n - 1);
		while (slot[to])
			to = (to + 1) & (n - 1);
		slot[to] = f->slot[i];
	}
	free(f->slot);
	f->slot = slot;
	f->n_slots = n;
	return 0;
}

/* The slot of the stack whose ids were just put at the end of @f->ids, or a free one. */
static uint32_t *slot_of(const struct folded *f, const struct folded_stack *st)
{
	size_t i = st->hash & (f->n_slots - 1);

	for (; f->slot[i]; i = (i + 1) & (f->n_slots - 1)) {
		const struct folded_stack *old = stack_at(f, f->slot[i] - 1);

		if (old->hash == st->hash && old->n == st->n && old->event == st->event &&
		    memcmp(f->ids.at + old->at, f->ids.at + st->at, 4 * st->n) == 0)
			break;
	}
	return &f->slot[i];
}

static struct folded_stack last_stack(const struct folded *f, size_t start, uint32_t event)
{
	size_t n = (f->ids.n - start) / 4;

	return (struct folded_stack){
		.hash = stack_hash(f->ids.at + start, n), .at = start, .n = n, .event = event
	};
}

/* Count the stack whose ids were just put at the end of @f->ids. If it is known
 * they are taken off again. @same: where to keep which it is, or NULL. */
static int count_stack(struct folded *f, size_t start, uint32_t event, uint64_t weight,
		       uint32_t *same)
{
	size_t n_stacks = f->stacks.n / sizeof(struct folded_stack);
	struct folded_stack st = last_stack(f, start, event);
	uint32_t *slot;

	if (2 * (n_stacks + 1) > f->n_slots && grow_slots(f))
		return -ENOMEM;
	slot = slot_of(f, &st);
	if (same)
		*same = *slot ? *slot : (uint32_t)n_stacks + 1;
	if (*slot) {
		stack_at(f, *slot - 1)->count += weight;
		f->ids.n = start;
		return 0;
	}
	st.count = weight;
	buf_put(&f->stacks, &st, sizeof(st));
	*slot = (uint32_t)n_stacks + 1;
	return f->stacks.oom ? -ENOMEM : 0;
}

/* A new stack for which there is no room becomes "[unnamed]", and with several events the
 * event's name. */
static bool cut_unnamed(struct sink *s, size_t start, uint32_t event)
{
	struct folded *f = s->priv;
	struct folded_stack st = last_stack(f, start, event);
	uint32_t id;

	if (!f->names.full || *slot_of(f, &st))
		return true;
	STATS_ADD(s->session->stats, unnamed, 1);
	id = folded_names_add(&f->names, "");
	memcpy(f->ids.at + start, &id, sizeof(id));
	f->ids.n = start + (s->session->n_events > 1 ? 8 : 4);
	return id != STRTAB_NONE;
}

static bool is_kept(const struct sink *s, const struct sample *smp)
{
	unsigned flags = s->session->flags;

	return !(flags & SESSION_ONLY_EXACT && smp->prov != PROV_EXACT) &&
	       !(flags & SESSION_ONLY_LATE && smp->prov != PROV_LATE);
}

static bool put_name(struct folded *f, uint32_t id)
{
	if (id != STRTAB_NONE)
		buf_u32(&f->ids, id);
	return id != STRTAB_NONE && !f->ids.oom;
}

/* Do its samples stand for different numbers of occurrences, for the kernel adapts the period?
 */
static bool adapts(const struct session *session, uint32_t event)
{
	const struct perf_event_attr *a = &session->events[event].attr;

	return a->freq && !perf_event_is_clock(a);
}

/* What counts: each sample, or what it stands for. */
static uint64_t weight_of(const struct session *session, const struct sample *smp)
{
	bool period = session->flags & SESSION_PERIOD || adapts(session, smp->event);

	return period ? smp->period : 1;
}

static size_t bytes_of(const struct folded *f)
{
	return f->ids.cap + f->stacks.cap + f->n_slots * sizeof(*f->slot) +
	       folded_names_bytes(&f->names);
}

static void look_at_room(struct sink *s)
{
	struct folded *f = s->priv;

	if (s->session->memory && f->n_slots &&
	    bytes_of(f) > s->session->memory / MEMORY_SHARE)
		f->names.full = true;
}

/* Where it is kept which stack those equal to @stk were counted as; NULL: it is not. */
static uint32_t *same_of(struct folded *f, const struct stack *stk)
{
	size_t at = 4 * (size_t)stk->same;

	if (stk->same && at >= f->same.n)
		buf_zero(&f->same, at + 4 - f->same.n);
	return stk->same && !f->same.oom ? (uint32_t *)(void *)(f->same.at + at) : NULL;
}

/* The frames of @stk. */
static bool put_frames(struct sink *s, const struct stack *stk, const uint32_t *same)
{
	struct folded *f = s->priv;
	size_t before = s->session->n_events > 1 ? 2 : 1;
	bool ok = true;

	if (!same || !*same) {
		for (size_t i = stk->n; i-- && ok;)
			ok = put_name(f, frame_name(f, &stk->frames[i]));
		return ok && (!stk->same || same);
	}
	for (size_t i = before; i < stack_at(f, *same - 1)->n && ok; i++)
		ok = put_name(f, load_u32(f->ids.at + stack_at(f, *same - 1)->at + 4 * i));
	return ok;
}

/* Does the stack that @same tells begin as the ids at @start do? Then it is counted. */
static bool count_same(struct folded *f, const uint32_t *same, size_t start, uint32_t event,
		       uint64_t weight)
{
	struct folded_stack *st = same && *same ? stack_at(f, *same - 1) : NULL;

	if (!st || st->event != event ||
	    memcmp(f->ids.at + st->at, f->ids.at + start, f->ids.n - start) != 0)
		return false;
	st->count += weight;
	f->ids.n = start;
	return true;
}

static int folded_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	const struct session *session = s->session;
	struct folded *f = s->priv;
	uint64_t weight = weight_of(session, smp);
	uint32_t *same = same_of(f, stk);
	size_t start = f->ids.n;
	bool ok;
	int ret = 0;

	if (s->failed || !is_kept(s, smp))
		return s->failed;
	look_at_room(s);
	ok = put_name(f, folded_names_root(&f->names, smp));
	if (session->n_events > 1)
		ok = ok && put_name(f, folded_names_format(&f->names, "event:%s",
							   session->events[smp->event].name));
	if (!ok || !count_same(f, same, start, smp->event, weight)) {
		ok = ok && put_frames(s, stk, same) && cut_unnamed(s, start, smp->event);
		ret = ok ? count_stack(f, start, smp->event, weight, same) : -ENOMEM;
	}
	if (ret) {
		s->failed = ret;
		return ret;
	}
	s->samples++;
	f->samples[smp->event]++;
	return 0;
}

static int folded_side(struct sink *s, const struct side *side)
{
	struct folded *f = s->priv;
	int ret = folded_names_side(&f->names, side);

	if (ret && !s->failed)
		s->failed = ret;
	return ret;
}

static int folded_begin(struct sink *s, struct err *err)
{
	struct folded *f = s->priv;

	return folded_names_init(&f->names, s->session->flags) ?
		       err_set(err, -ENOMEM, "writing %s: out of memory", s->path) :
		       0;
}

static void write_stack(const struct folded *f, const struct folded_stack *st, FILE *out)
{
	for (size_t i = 0; i < st->n; i++) {
		if (i)
			putc_unlocked(';', out);
		folded_names_write(&f->names, load_u32(f->ids.at + st->at + 4 * i), out);
	}
	fprintf(out, " %" PRIu64 "\n", st->count);
}

/* The frames at a place, outermost first: "symbol (file.c:12)", "inlined (file.h:3)_[i]". */
static bool put_place(struct sink *s, uint32_t place)
{
	struct folded *f = s->priv;
	char buf[PLACE_NAME_MAX];
	size_t n;
	const struct places_frame *fr = places_frames(s->session->places, place, &n);
	bool ok = true;

	while (n-- && ok) {
		places_text(&fr[n], s->session->flags & SESSION_LINES, buf, sizeof(buf));
		ok = put_name(s->priv, folded_names_format(&f->names, "%s%s", buf,
							   fr[n].inlined ? "_[i]" : ""));
	}
	return ok;
}

/* Count a stack again, with names for places. */
static int name_places(struct sink *s, const struct folded *from,
		       const struct folded_stack *st)
{
	struct folded *f = s->priv;
	size_t start = f->ids.n;
	bool ok = true;

	for (size_t i = 0; i < st->n && ok; i++) {
		uint32_t id = load_u32(from->ids.at + st->at + 4 * i);

		ok = id & IS_PLACE ? put_place(s, id & ~IS_PLACE) : put_name(f, id);
	}
	return ok ? count_stack(f, start, st->event, st->count, NULL) : -ENOMEM;
}

static int name_all_places(struct sink *s)
{
	struct folded *f = s->priv, old = *f;
	int ret = 0;

	places_resolve(s->session->places);
	f->ids = f->stacks = (struct buf){};
	f->slot = NULL;
	f->n_slots = 0;
	f->names.full = false; /* there are no more stacks than before */
	for (size_t i = 0; !ret && i < old.stacks.n / sizeof(struct folded_stack); i++)
		ret = name_places(s, &old, stack_at(&old, i));
	buf_deinit(&old.ids);
	buf_deinit(&old.stacks);
	free(old.slot);
	return ret;
}

/* Weights of event @event become numbers of samples in the same proportion: a sample counts
 * for more where the kernel's period was longer. */
static int count_samples(struct folded *f, uint32_t event)
{
	size_t n = f->stacks.n / sizeof(struct folded_stack), k = 0;
	_cleanup_free_ uint64_t *weight = calloc(n + 1, sizeof(*weight));
	int ret;

	if (!weight)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (stack_at(f, i)->event == event)
			weight[k++] = stack_at(f, i)->count;
	ret = apportion(weight, k, f->samples[event]);
	k = 0;
	for (size_t i = 0; ret == 0 && i < n; i++)
		if (stack_at(f, i)->event == event)
			stack_at(f, i)->count = weight[k++];
	return ret;
}

static int count_all_samples(struct sink *s)
{
	int ret = 0;

	if (s->session->flags & SESSION_PERIOD)
		return 0;
	for (uint32_t e = 0; !ret && e < s->session->n_events; e++)
		if (adapts(s->session, e))
			ret = count_samples(s->priv, e);
	return ret;
}

static int folded_end(struct sink *s, struct err *err)
{
	struct folded *f = s->priv;
	int ret = s->session->places ? name_all_places(s) : 0;

	if (!ret)
		ret = count_all_samples(s);
	if (!ret)
		ret = folded_names_shorten(&f->names);
	for (size_t i = 0; !ret && i < f->stacks.n / sizeof(struct folded_stack); i++) {
		errno = 0;
		if (stack_at(f, i)->count)
			write_stack(f, stack_at(f, i), s->out);
		if (ferror(s->out))
			ret = errno ? -errno : -EIO;
	}
	folded_names_deinit(&f->names);
	buf_deinit(&f->ids);
	buf_deinit(&f->stacks);
	buf_deinit(&f->same);
	free(f->slot);
	return ret;
}

static const char *const extensions[] = { ".folded", ".txt", NULL };

const struct sink_ops sink_folded = {
	.name = "folded",
	.extensions = extensions,
	.next = "flamegraph.pl ",
	.help = "one line a stack, for flame graphs",
	.needs = SINK_NEEDS_NAMES | SINK_KNOWS_STACKS,
	.priv_size = sizeof(struct folded),
	.begin = folded_begin,
	.side = folded_side,
	.sample = folded_sample,
	.end = folded_end,
};
