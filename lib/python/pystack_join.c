/* SPDX-License-Identifier: MIT
 *
 * pystack_join - behind the coroutine of the task that runs come the tasks that wait for it.
 *
 * The stack stays as it is; between the outermost frame of the task's coroutine and what runs
 * the task, "[task NAME]" is put, and the suspended frames of the task that awaits it with
 * that one's name, and so on up to a task that none awaits. A name is a code of its own: a
 * copy that says PYCODE_LABEL.
 */
#include "python/pystack_int.h"
#include <stdio.h>

#include "base/hash.h"
#include "base/printable.h"
#include "python/pyawaiter.h"

enum {
	TASKS = 64,   /* of a chain */
	RUNNING = 64, /* tasks that run in the interpreter's event loops */
	COST = 32768, /* of all reads (rmem_pages_limit()): a few ms */
	COST_OF_FRAME = 16,
	LABEL_BYTES = PYNAME_MAX + 16,
};

/* --- labels --- */

static void make_copy(struct pycode_copy *c, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	uint32_t n = 0, ch;
	size_t used;

	*c = (struct pycode_copy){
		.flags = PYCODE_LABEL, .name_kind = 4, .file_kind = 1, .linetable = PY_LNOTAB
	};
	while (*at && (used = printable_decode(at, &ch))) {
		memcpy(c->data + 4 * (size_t)n++, &ch, 4);
		at += used;
	}
	c->name_n = 4 * n;
}

static uint64_t label_id(struct pystack *p, const char *text)
{
	uint64_t hash = hash_bytes(1, text, strlen(text));
	struct label *l = &p->join->label[hash & (JOIN_LABELS - 1)];

	if (l->id && l->hash == hash)
		return l->id;
	make_copy(p->copy, text);
	*l = (struct label){ .hash = hash, .id = p->next_id++ };
	if (!p->new_code(p->arg, l->id, p->copy)) {
		p->code_lost = true;
		l->id = 0;
	}
	return l->id;
}

/* --- the chain --- */

static void put(struct join *j, struct pyframe f)
{
	j->cut = j->cut || j->n == JOIN_ITEMS;
	if (j->n < JOIN_ITEMS)
		j->item[j->n++] = f;
}

static void put_label(struct pystack *p, const char *text)
{
	put(p->join, (struct pyframe){ .instr = label_id(p, text) });
}

/* "Task-144" tells nothing but that it is another; "Task-1" is the program's first one. */
static bool is_numbered(const char *name)
{
	size_t n = sizeof("Task-") - 1;

	return !strncmp(name, "Task-", n) && strcmp(name + n, "1") &&
	       strspn(name + n, "0123456789") == strlen(name + n) && name[n];
}

static void put_task(struct pystack *p)
{
	const struct pytask *t = &p->join->task;
	char text[LABEL_BYTES];

	if (!t->has_name) { /* 3.7 */
		put_label(p, "[task]");
	} else if (p->join->one_name && is_numbered(t->name)) {
		put_label(p, "[task Task-*]");
	} else {
		snprintf(text, sizeof(text), "[task %s]", t->name);
		put_label(p, text);
	}
}

/* One without a code would be taken for a name. */
static void put_frames(struct join *j)
{
	for (uint32_t i = j->task.chain.n; i-- > 0;) {
		j->cut = j->cut || !j->task.chain.frame[i].code;
		put(j, j->task.chain.frame[i]);
	}
}

/* From the task that was put last on: all that wait. */
static enum pystack_joined put_waiting(struct pystack *p, const struct pystack_target *t)
{
	struct join *j = p->join;
	raddr at = j->task.at;

	for (int i = 0; i < TASKS && !j->cut; i++) {
		enum pyawaiter who = pyawaiter_find(&j->pages.base, &t->layout, at, &at);

		if (who == PYAWAITER_NONE)
			return PYSTACK_JOINED;
		if (who == PYAWAITER_SEVERAL)
			return PYSTACK_JOINED_SEVERAL;
		if (who == PYAWAITER_UNKNOWN ||
		    pytasks_read_held(&j->pages.base, &t->layout, &t->walk, at, &j->task) <
			    0 ||
		    !j->task.has_coroutine || j->task.state != PYTASK_WAITING)
			return PYSTACK_JOINED_PART;
		put_frames(j);
		put_task(p);
	}
	return PYSTACK_JOINED_PART;
}

/* --- into the stack --- */

/* The frames among the items are named as those of a walk are. */
static bool name_items(struct pystack *p, const struct pystack_target *t, struct thread *th,
		       struct pystack_frame *ret, uint32_t *n)
{
	struct join *j = p->join;
	uint32_t walked = 0, lasti;

	for (uint32_t i = 0; i < j->n; i++)
		if (j->item[i].code)
			p->walked[walked++] = j->item[i];
	codes_verify(p, t, th, walked);
	*n = walked = 0;
	for (uint32_t i = 0; i < j->n; i++) {
		const struct code *c;

		if (!j->item[i].code) {
			ret[(*n)++] = (struct pystack_frame){ .code_id = j->item[i].instr };
			continue;
		}
		c = p->seen[walked++].code;
		if (!c || c->bad || !pystack_lasti_of(c, j->item[i].instr, &lasti))
			return false;
		ret[(*n)++] = (struct pystack_frame){ .code_id = c->id, .lasti = lasti };
	}
	return true;
}

/* @k frames of the stack are the task's. What is behind them and those that come in between,
 * @n at @in, are cut where there are more than may be. */
static void insert(struct pystack *p, struct pystack_result *r, uint32_t k,
		   const struct pystack_frame *in, uint32_t n)
{
	uint32_t room = p->max_frames - k, behind;

	r->truncated = r->truncated || n > room || r->n - k > room - n;
	n = MIN(n, room);
	behind = MIN(r->n - k, room - n);
	memmove(&p->frames[k + n], &p->frames[k], behind * sizeof(*p->frames));
	memcpy(&p->frames[k], in, n * sizeof(*in));
	for (uint32_t i = 0; i < r->n_anchors; i++)
		if (p->anchors[i].n >= k)
			p->anchors[i].n = MIN(p->anchors[i].n + n, k + n + behind);
	r->n = k + n + behind;
}

/* --- together --- */

/* Which of the interpreter's running tasks is this thread's? Its coroutine is on the stack.
 * As many frames as it has, 0: none; or -errno: it could not be told. */
static int find_task(struct pystack *p, const struct pystack_target *t,
		     const struct pystack_result *r)
{
	struct join *j = p->join;
	raddr task[RUNNING];
	int n = pytasks_running(&j->pages.base, &t->layout, r->tstate, t->program, &j->place,
				task, RUNNING);

	for (int i = 0; i < n; i++) {
		uint32_t k = 0;

		if (pytasks_read_held(&j->pages.base, &t->layout, &t->walk, task[i],
				      &j->task) == 0 &&
		    j->task.state == PYTASK_RUNNING)
			k = pystack_frames_to(p, j->task.chain.runs);
		if (k)
			return (int)k;
	}
	return MIN(n, 0);
}

/* From 3.11 on a coroutine's frame says that it is a generator's. */
static bool may_run_task(const struct pystack *p, const struct pystack_target *t)
{
	for (uint32_t i = 0; i < p->n_named; i++)
		if (p->walked[i].frame & PYFRAME_GENERATOR)
			return true;
	return t->walk.lasti_unit;
}

void pystack_join(struct pystack *p, const struct pystack_target *t, pid_t tid, bool one_name,
		  struct pystack_result *r)
{
	struct join *j = p->join;
	struct pystack_frame *named = j->named;
	uint32_t n;
	int k;

	if (r->of != t)
		t = &p->several->now;
	if (r->end != PYSTACK_OK || (!r->several && !may_run_task(p, t)))
		return;
	if (r->several || !pytasks_known(&t->layout)) {
		r->joined = PYSTACK_JOINED_NOT;
		return;
	}
	rmem_pages_init(&j->pages, p->mem, j->page, RMEM_PAGES);
	rmem_pages_limit(&j->pages, COST);
	k = find_task(p, t, r);
	if (k > 0) {
		j->n = 0;
		j->cut = false;
		j->one_name = one_name;
		put_task(p);
		r->joined = put_waiting(p, t);
	} else if (k < 0 || !j->pages.left) {
		r->joined = PYSTACK_JOINED_NOT;
	}
	r->n_joined = (uint32_t)(COST - j->pages.left) / COST_OF_FRAME;
	if (k <= 0)
		return;
	if (!j->pages.left) /* some take what they could not read for none */
		r->joined = PYSTACK_JOINED_PART;
	if (j->cut || !name_items(p, t, pystack_thread(p, t->program, tid, 0), named, &n)) {
		r->joined = PYSTACK_JOINED_PART;
		n = 1; /* the first is the running task's name */
		named[0] = (struct pystack_frame){ .code_id = j->item[0].instr };
	}
	if (r->joined != PYSTACK_JOINED)
		named[n++] = (struct pystack_frame){
			.code_id = label_id(p, r->joined == PYSTACK_JOINED_SEVERAL ?
						       "[awaited by several tasks]" :
						       "[awaiting tasks unknown]")
		};
	r->code_lost |= p->code_lost;
	insert(p, r, (uint32_t)k, named, n);
}
