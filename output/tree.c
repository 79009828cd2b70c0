/* SPDX-License-Identifier: MIT
 *
 * tree - adds stacks up, each frame below its caller's.
 */
#include "tree.h"

#include <errno.h>
#include <string.h>

#include "apportion.h"
#include "base/stats.h"
#include "kept.h"
#include "lines/places.h"
#include "perf_event.h"

#define UNNAMED "[unnamed]"
#define UNKNOWN "[unknown]"

enum {
	NONE = IDMAP_NONE,
	PLACE_TEXT = 4096,
	STEP_BITS = 10,	 /* of the number of steps that are kept */
	NAMES_BACK = 64, /* of a thread's names, the latest: one that it had before is looked up */
};

size_t tree_n_funcs(const struct tree *t)
{
	return t->funcs.n / sizeof(struct tree_func);
}

size_t tree_n_frames(const struct tree *t)
{
	return t->frames.n / sizeof(struct tree_frame);
}

size_t tree_n_nodes(const struct tree *t)
{
	return tree_nodes_n(&t->nodes);
}

size_t tree_n_threads(const struct tree *t)
{
	return t->threads.n / sizeof(struct tree_thread);
}

size_t tree_n_rows(const struct tree *t)
{
	return t->rows.n / sizeof(struct tree_row);
}

static uint32_t intern(const struct tree *t, const char *text)
{
	return strtab_add(t->strings, text, strlen(text));
}

/* Append @n bytes, the value of the number @index, and keep that @key means it. */
static uint32_t add(struct idmap *m, uint64_t key, struct buf *b, const void *p, size_t n)
{
	uint32_t index = (uint32_t)(b->n / n);

	buf_put(b, p, n);
	return b->oom || idmap_set(m, key, index) ? (uint32_t)NONE : index;
}

/* --- frames --- */

/* The entry of @b for @i, which is zeroed where there was none. NULL: no memory. */
static void *entry_at(struct buf *b, size_t i, size_t size)
{
	if (i >= b->n / size)
		buf_zero(b, (i + 1) * size - b->n);
	return b->oom ? NULL : b->at + i * size;
}

static uint64_t key_of_func(const struct tree_func *f)
{
	return ((uint64_t)f->name << 32 | f->file) ^ (uint64_t)f->kind << 62;
}

/* The function that has @f's name, file and kind. */
static uint32_t func_called(struct tree *t, const struct tree_func *f)
{
	uint32_t i = idmap_get(&t->others, key_of_func(f));

	return i != NONE ? i : add(&t->others, key_of_func(f), &t->funcs, f, sizeof(*f));
}

static uint32_t python_func(struct tree *t, const struct pyfunc *func)
{
	struct tree_func f = { .first = func->firstline, .kind = FRAME_PYTHON, .frame = NONE };
	uint32_t *known = entry_at(&t->python, func->index, sizeof(*known)), i;

	if (!known || *known)
		return known ? *known - 1 : (uint32_t)NONE;
	f.name = intern(t, func->qualname);
	f.file = intern(t, func->file);
	if (f.name == STRTAB_NONE || f.file == STRTAB_NONE)
		return NONE;
	i = t->compared ? func_called(t, &f) : (uint32_t)tree_n_funcs(t);
	if (!t->compared)
		buf_put(&t->funcs, &f, sizeof(f));
	if (i == NONE || t->funcs.oom)
		return NONE;
	*known = i + 1;
	return i;
}

static uint32_t other_func(struct tree *t, enum frame_kind kind, const char *name,
			   const char *file)
{
	struct tree_func f = { intern(t, name), intern(t, file), 0, kind, NONE };

	return f.name == STRTAB_NONE || f.file == STRTAB_NONE ? (uint32_t)NONE : func_called(t, &f);
}

static uint32_t line_frame(struct tree *t, uint32_t func, int line, bool inlined)
{
	uint64_t key = (uint64_t)func << 32 | (uint64_t)inlined << 31 | (uint32_t)line;
	struct tree_frame f = { .func = func, .line = line, .inlined = inlined };
	uint32_t i, *first;

	if (func == NONE)
		return NONE;
	first = &((struct tree_func *)(void *)t->funcs.at)[func].frame;
	if (*first == NONE) {
		*first = (uint32_t)tree_n_frames(t);
		buf_put(&t->frames, &f, sizeof(f));
		return t->frames.oom ? (uint32_t)NONE : *first;
	}
	if (tree_frame(t, *first)->line == line && tree_frame(t, *first)->inlined == inlined)
		return *first;
	i = idmap_get(&t->lines, key);
	return i != NONE ? i : add(&t->lines, key, &t->frames, &f, sizeof(f));
}

/* Code whose lines are looked for at the end; until then it has its symbol's name. */
static uint32_t place_frame(struct sink *s, uint32_t place)
{
	struct tree *t = s->priv;
	struct tree_frame f = { .place = place };
	uint32_t i = idmap_get(&t->placed, place);

	if (i == NONE)
		f.func = other_func(t, FRAME_NATIVE, places_symbol(s->session->places, place),
				    "");
	if (f.func == NONE)
		return NONE;
	return i != NONE ? i : add(&t->placed, place, &t->frames, &f, sizeof(f));
}

static uint32_t named_frame(struct tree *t, const struct frame *fr)
{
	uint32_t i = fr->name ? idmap_get(&t->named, (uintptr_t)fr->name) : NONE;
	const char *name = fr->name && *fr->name ? fr->name : UNKNOWN;

	if (t->by_file && fr->file)
		return line_frame(t, other_func(t, fr->kind, name, fr->file), 0, false);
	if (i != NONE)
		return i;
	i = line_frame(t, other_func(t, fr->kind, name, ""), 0, false);
	if (i != NONE && fr->name && idmap_set(&t->named, (uintptr_t)fr->name, i))
		return NONE;
	return i;
}

static uint32_t frame_of(struct sink *s, const struct frame *fr)
{
	bool lines = s->session->flags & SESSION_LINES;

	if (fr->kind == FRAME_PYTHON)
		return line_frame(s->priv, python_func(s->priv, fr->func),
				  lines && fr->line > 0 ? fr->line : 0, false);
	return fr->place ? place_frame(s, fr->place) : named_frame(s->priv, fr);
}

static uint32_t child_of(struct tree *t, uint32_t parent, uint32_t frame)
{
	if (parent == NONE || frame == NONE)
		return NONE;
	return tree_nodes_child(&t->nodes, parent, frame);
}

/* A number for @fr that no other one has, or 0. */
static uint64_t number_of(const struct tree *t, const struct frame *fr)
{
	if (fr->kind == FRAME_PYTHON)
		return UINT64_C(1) << 63 | (uint64_t)fr->func->index << 32 | (uint32_t)fr->line;
	return fr->place || t->by_file ? 0 : (uintptr_t)fr->name;
}

/* The node of @fr below the node @parent: mostly one that was found before. */
static uint32_t step(struct sink *s, uint32_t parent, const struct frame *fr)
{
	struct tree *t = s->priv;
	const uint64_t what = number_of(t, fr), key = what ^ (uint64_t)parent << 24;
	struct tree_step *last = &t->steps[key * 0x9e3779b97f4a7c15 >> (64 - STEP_BITS)];

	if (!what || last->what != what || last->parent != parent)
		*last = (struct tree_step){ what, parent, child_of(t, parent, frame_of(s, fr)) };
	return last->node;
}

/* --- threads --- */

static uint32_t or_unknown(const struct tree *t, uint32_t name)
{
	return name == NONE ? intern(t, "?") : name;
}

static uint64_t thread_key(pid_t pid, pid_t tid)
{
	return (uint64_t)pid << 32 | (uint32_t)tid;
}

/* Under the names that it has now: it may have had them before others. */
static uint32_t find_thread(struct tree *t, const struct sample *smp)
{
	uint64_t key = thread_key(smp->pid, smp->tid);
	struct tree_thread th = { smp->pid, smp->tid,
				  or_unknown(t, comms_name(&t->comms, smp->pid)),
				  or_unknown(t, comms_title(&t->comms, smp->tid)),
				  .before = idmap_get(&t->thread_of, key) };
	uint32_t i = th.before;

	if (th.process == STRTAB_NONE || th.name == STRTAB_NONE)
		return NONE;
	for (int n = 0; i != NONE && n < NAMES_BACK; n++) {
		const struct tree_thread *old = tree_thread(t, i);

		if (old->name == th.name && old->process == th.process)
			return i;
		i = old->before;
	}
	return add(&t->thread_of, key, &t->threads, &th, sizeof(th));
}

static uint32_t thread_of(struct tree *t, const struct sample *smp)
{
	const struct tree_thread *last;

	if (t->threads.n && t->last_thread != NONE) {
		last = tree_thread(t, t->last_thread);
		if (last->tid == smp->tid && last->pid == smp->pid)
			return t->last_thread;
	}
	return t->last_thread = find_thread(t, smp);
}

/* What the program calls a thread is read after its first samples: until then it has the
 * kernel's name, and is the same thread. Who begins with its number once it has ended is another;
 * its last samples may be younger than the record of its end. */
static void note_thread(struct tree *t, const struct side *side, uint32_t name)
{
	uint64_t key = thread_key(side->pid, side->tid);
	uint32_t i = idmap_get(&t->thread_of, key);
	struct tree_thread *th = (struct tree_thread *)(void *)t->threads.at + i;

	if (i == NONE)
		return;
	if (side->kind == SIDE_EXIT)
		th->ended = true;
	else if (side->kind == SIDE_FORK && th->ended)
		idmap_set(&t->thread_of, key, NONE);
	else if (side->kind == SIDE_COMM && side->u.comm.thread &&
		 th->name == comms_name(&t->comms, side->tid))
		th->name = name;
}

static uint32_t comm_name(struct sink *s, const char *name)
{
	struct tree *t = s->priv;
	size_t before = strtab_bytes(t->strings);
	uint32_t ret;

	if (t->full || !kept_name(s, t->comm_bytes))
		return t->empty;
	ret = intern(t, name);
	t->comm_bytes += strtab_bytes(t->strings) - before;
	return ret;
}

int tree_side(struct sink *s, const struct side *side)
{
	struct tree *t = s->priv;
	uint32_t name = NONE;
	int ret;

	t->last_thread = NONE;
	if (side->kind == SIDE_COMM)
		name = comm_name(s, side->u.comm.name);
	ret = side->kind == SIDE_COMM && name == STRTAB_NONE ?
		      -ENOMEM :
		      comms_side(&t->comms, side, name);
	if (ret && !s->failed)
		s->failed = ret;
	else if (!ret)
		note_thread(t, side, name);
	return ret;
}

/* --- samples --- */

static size_t bytes_of(const struct tree *t)
{
	size_t maps = (t->row_of.cap + t->lines.cap) * (size_t)16;

	return maps + t->funcs.cap + t->python.cap + t->frames.cap + tree_nodes_bytes(&t->nodes) +
	       t->rows.cap + t->first_row.cap + t->threads.cap + strtab_bytes(t->strings);
}

/* The node of the stack. Where there is no room for new ones, that of "[unnamed]". */
static uint32_t node_of(struct sink *s, const struct stack *stk)
{
	const struct frame unnamed = { .kind = FRAME_MARKER, .name = UNNAMED };
	struct tree *t = s->priv;
	uint32_t node = 0;

	t->full |= s->session->memory && bytes_of(t) > s->session->memory / 2;
	if (t->full) {
		if (!t->unnamed)
			t->unnamed = child_of(t, 0, named_frame(t, &unnamed));
		STATS_ADD(s->session->stats, unnamed, 1);
		return t->unnamed;
	}
	for (size_t i = stk->n; i-- && node != NONE;)
		node = step(s, node, &stk->frames[i]);
	return node;
}

/* What is known of stacks equal to @stk; a fresh one if it is the first. NULL: no memory. */
static struct tree_same *same_of(struct tree *t, const struct stack *stk)
{
	return entry_at(&t->same, stk->same, sizeof(struct tree_same));
}

bool tree_is_time(const struct session *session, uint32_t event)
{
	return session->flags & SESSION_PERIOD &&
	       perf_event_is_clock(&session->events[event].attr);
}

static bool is_row(const struct tree_row *r, const struct tree_row *want)
{
	return r->node == want->node && r->thread == want->thread && r->event == want->event &&
	       r->prov == want->prov;
}

/* The row of @want's stack, thread, event and provenance; NONE: no memory. Most stacks have one. */
static uint32_t row_of(struct tree *t, const struct tree_row *want)
{
	uint64_t key = (uint64_t)want->node << 32 | (uint64_t)want->thread << 6 |
		       want->event << 2 | want->prov;
	uint32_t *first = entry_at(&t->first_row, want->node, sizeof(*first)), i;

	if (!first)
		return NONE;
	if (!*first) {
		*first = (uint32_t)tree_n_rows(t) + 1;
		buf_put(&t->rows, want, sizeof(*want));
		return t->rows.oom ? (uint32_t)NONE : *first - 1;
	}
	if (is_row(tree_row(t, *first - 1), want))
		return *first - 1;
	i = idmap_get(&t->row_of, key);
	return i != NONE ? i : add(&t->row_of, key, &t->rows, want, sizeof(*want));
}

/* @same: NULL, it is not known. */
static int count(struct sink *s, const struct sample *smp, uint32_t node, uint32_t thread,
		 struct tree_same *same)
{
	struct tree *t = s->priv;
	struct tree_row row = { .node = node,
				.thread = thread,
				.event = smp->event,
				.prov = smp->prov,
				.time = smp->time };
	uint32_t i = same && same->node ? same->row : (uint32_t)NONE;

	if (i == NONE || !is_row(tree_row(t, i), &row))
		i = row_of(t, &row);
	if (i == NONE)
		return -ENOMEM;
	tree_row(t, i)->count += kept_weight(s->session, smp);
	tree_row(t, i)->samples += kept_samples(s->session, smp);
	tree_row(t, i)->period += smp->period;
	t->last_row = i;
	if (same)
		*same = (struct tree_same){ node, i };
	return 0;
}

int tree_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	struct tree *t = s->priv;
	struct tree_same *same = NULL;
	uint32_t node, thread;
	int ret;

	if (s->failed || !kept_sample(s, smp))
		return s->failed;
	if (stk->same)
		same = same_of(t, stk);
	node = same && same->node ? same->node : node_of(s, stk);
	thread = thread_of(t, smp);
	ret = node == NONE || thread == NONE || (stk->same && !same) ?
		      -ENOMEM :
		      count(s, smp, node, thread, same);
	if (ret) {
		s->failed = ret;
		return ret;
	}
	t->first_ns = s->samples ? MIN(t->first_ns, smp->time) : smp->time;
	t->last_ns = MAX(t->last_ns, smp->time);
	t->samples[smp->event] += kept_samples(s->session, smp);
	s->samples += kept_samples(s->session, smp);
	return 0;
}

/* --- begin and end --- */

void tree_complete(struct tree *t)
{
	struct buf *const bufs[] = { &t->python, &t->first_row, &t->same };
	struct idmap *const maps[] = { &t->others, &t->lines, &t->named,
				       &t->placed, &t->row_of, &t->thread_of };

	for (size_t i = 0; i < ARRAY_SIZE(bufs); i++)
		buf_deinit(bufs[i]);
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		idmap_deinit(maps[i]);
	tree_nodes_complete(&t->nodes);
	comms_deinit(&t->comms);
	free(t->steps);
	t->steps = NULL;
}

void tree_deinit(struct tree *t)
{
	tree_complete(t);
	buf_deinit(&t->funcs);
	buf_deinit(&t->frames);
	buf_deinit(&t->threads);
	buf_deinit(&t->rows);
	tree_nodes_deinit(&t->nodes);
	if (!t->shared)
		strtab_destroy(t->strings);
	t->strings = NULL;
}

int tree_begin(struct sink *s, struct err *err)
{
	struct tree *t = s->priv;

	t->strings = s->session->texts ?: strtab_create();
	t->shared = s->session->texts;
	t->compared = s->session->flags & SESSION_COMPARED;
	t->empty = t->strings ? intern(t, "") : STRTAB_NONE;
	t->steps = calloc(1 << STEP_BITS, sizeof(*t->steps));
	if (t->steps && t->empty != STRTAB_NONE && !tree_nodes_begin(&t->nodes))
		return 0;
	tree_deinit(t);
	return err_set(err, -ENOMEM, "writing %s: out of memory", s->path);
}

/* The node of all frames at a place below @parent: the outermost first, then what is inlined.
 */
static uint32_t place_node(struct sink *s, uint32_t parent, uint32_t place)
{
	struct tree *t = s->priv;
	size_t n;
	const struct places_frame *fr = places_frames(s->session->places, place, &n);

	while (n--) {
		uint32_t func =
			other_func(t, FRAME_NATIVE, fr[n].function ? fr[n].function : UNKNOWN,
				   fr[n].file ? fr[n].file : "");
		bool lines = s->session->flags & SESSION_LINES;

		parent = child_of(
			t, parent,
			line_frame(t, func, lines ? (int)fr[n].line : 0, fr[n].inlined));
	}
	return parent;
}

/* Make the nodes anew, with the frames at their places; rows follow. */
static int name_places(struct sink *s)
{
	struct tree *t = s->priv;
	struct tree_nodes old = t->nodes;
	size_t n = tree_n_nodes(t);
	_cleanup_free_ uint32_t *now = calloc(n, sizeof(*now));

	places_resolve(s->session->places);
	t->nodes = (struct tree_nodes){};
	tree_nodes_begin(&t->nodes);
	for (size_t i = 1; now && i < n; i++) {
		const struct tree_node *node = tree_nodes_at(&old, (uint32_t)i);
		uint32_t place = tree_frame(t, node->frame)->place;

		now[i] = place ? place_node(s, now[node->parent], place) :
				 child_of(t, now[node->parent], node->frame);
		if (now[i] == NONE)
			break;
	}
	tree_nodes_deinit(&old);
	if (!now || t->nodes.all.oom || (n > 1 && (now[n - 1] == NONE || !now[n - 1])))
		return -ENOMEM;
	for (size_t i = 0; i < tree_n_rows(t); i++)
		tree_row(t, i)->node = now[tree_row(t, i)->node];
	return 0;
}

/* What rows of @event stand for becomes numbers of samples in the same proportion. */
static int count_samples(struct tree *t, uint32_t event)
{
	size_t n = tree_n_rows(t), k = 0;
	_cleanup_free_ uint64_t *weight = calloc(n + 1, sizeof(*weight));

	if (!weight)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (tree_row(t, i)->event == event)
			weight[k++] = tree_row(t, i)->count;
	apportion(weight, k, t->samples[event]);
	k = 0;
	for (size_t i = 0; i < n; i++)
		if (tree_row(t, i)->event == event)
			tree_row(t, i)->count = weight[k++];
	return 0;
}

/* True: samples are counted by what they stand for until they are shown. */
static bool is_weighed(const struct session *session, uint32_t event)
{
	return kept_adapts(session, event) && !(session->flags & SESSION_PERIOD);
}

int tree_places(struct sink *s)
{
	return s->session->places ? name_places(s) : 0;
}

int tree_counts(struct sink *s)
{
	int ret = 0;

	for (uint32_t e = 0; !ret && e < s->session->n_events; e++)
		if (is_weighed(s->session, e))
			ret = count_samples(s->priv, e);
	return ret;
}

double tree_scale(const struct tree *t, const struct session *session, uint32_t event)
{
	double weight = 0;

	for (size_t i = 0; i < tree_n_rows(t); i++)
		if (tree_row(t, i)->event == event)
			weight += (double)tree_row(t, i)->count;
	return weight > 0 && is_weighed(session, event) ? (double)t->samples[event] / weight : 1;
}

int tree_copy(struct sink *s, int (*write)(struct sink *s))
{
	struct tree *t = s->priv;
	size_t n = tree_n_rows(t);
	_cleanup_free_ uint64_t *weight = calloc(n + 1, sizeof(*weight));
	int ret = weight ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < n; i++)
		weight[i] = tree_row(t, i)->count;
	if (!ret)
		ret = tree_counts(s);
	if (!ret)
		ret = write(s);
	for (size_t i = 0; weight && i < n; i++)
		tree_row(t, i)->count = weight[i];
	return ret;
}

int tree_end(struct sink *s, struct err *err)
{
	tree_deinit(s->priv);
	return 0;
}

void tree_other(struct tree *t)
{
	struct idmap *const maps[] = { &t->named, &t->placed };

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		idmap_deinit(maps[i]);
	t->python.n = 0;
	memset(t->steps, 0, sizeof(*t->steps) << STEP_BITS);
	comms_clear(&t->comms);
	t->same.n = 0;
	t->last_thread = NONE;
}

/* --- reading --- */

size_t tree_path(const struct tree *t, uint32_t i, struct buf *ids)
{
	ids->n = 0;
	for (; i; i = tree_node(t, i)->parent)
		buf_u32(ids, tree_node(t, i)->frame);
	return ids->oom ? 0 : ids->n / 4;
}

void tree_thread_text(const struct tree *t, uint32_t thread, char *buf, size_t cap)
{
	const struct tree_thread *th = tree_thread(t, thread);

	snprintf(buf, cap, "%s-%d/%s-%d", tree_text(t, th->process), th->pid,
		 tree_text(t, th->name), th->tid);
}

const char *tree_kind(const struct tree *t, uint32_t func)
{
	static const char *const kinds[] = { [FRAME_KERNEL] = "kernel",
					     [FRAME_NATIVE] = "native",
					     [FRAME_PYTHON] = "python",
					     [FRAME_MARKER] = "marker" };
	const struct tree_func *f = tree_func(t, func);
	const char *name = tree_text(t, f->name);

	if (f->kind == FRAME_MARKER && !strcmp(name, "[gc]"))
		return "gc";
	if (f->kind == FRAME_NATIVE && (strstr(name, "gc_collect") || strstr(name, "_PyGC_")))
		return "gc";
	return kinds[f->kind];
}
