/* SPDX-License-Identifier: MIT
 *
 * others - lists of further interpreters, as readers need them.
 */
#include "targets/others.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/base.h"
#include "targets/target.h"

enum { KEPT_MAX = 4096 };

/* Where there is no room for what else is there. */
static const struct pystack_others unknown = { .refused = true };

void others_deinit(struct others *o)
{
	for (size_t i = 0; i < o->n; i++)
		free(o->all[i]);
	free(o->all);
}

struct pystack_others *others_of(const struct pyproc *p, bool enough)
{
	struct pystack_others *ret;

	if (!p->n_others && !p->refused[0])
		return NULL;
	ret = calloc(1, sizeof(*ret));
	for (uint32_t i = 0; ret && i < p->n_others; i++) {
		const struct pyproc_other *from = &p->other[i];
		struct pystack_other *to = &ret->of[ret->n];

		if (!from->proven && from->begun && enough)
			continue;
		ret->n++;
		to->proven = from->proven;
		to->target.layout = from->layout;
		to->target.code_versions = from->code_versions;
		to->target.no_jit = from->no_jit;
		pywalk_layout_init(&to->target.walk, &from->layout, from->runtime);
	}
	if (ret)
		ret->refused = p->refused[0] && enough;
	return ret;
}

/* The one that is alike, if there is one already. */
static const struct pystack_others *keep(struct others *o, struct pystack_others *one)
{
	for (size_t i = 0; i < o->n; i++)
		if (!memcmp(o->all[i], one, sizeof(*one))) {
			free(one);
			return o->all[i];
		}
	if (o->n == KEPT_MAX || !array_reserve(&o->all, &o->cap, o->n + 1, sizeof(*o->all))) {
		free(one);
		return &unknown;
	}
	return o->all[o->n++] = one;
}

static bool was_proven(const struct pystack_others *was, const struct pyproc_other *o)
{
	for (uint32_t i = 0; was && i < was->n; i++)
		if (was->of[i].proven &&
		    was->of[i].target.walk.interp_head ==
			    o->runtime + pyoff_get(o->layout.runtime.interp_head))
			return true;
	return false;
}

static void tell(const struct note *note, const struct pyproc *p, bool enough,
		 const struct pystack_others *was)
{
	for (uint32_t i = 0; i < p->n_others; i++) {
		const struct pyproc_other *o = &p->other[i];
		char version[16];

		if (o->proven && !was_proven(was, o))
			note_detail(note, "process %d: also CPython %s, %s", p->pid,
				    pyproc_version(o->version, version), o->file);
	}
	if (enough && p->refused[0] && !(was && was->refused))
		note_say(note, "one of the interpreters of process %d is not read: %s", p->pid,
			 p->refused);
}

/* @p was found anew, and first in it may be one that is not @target's first: that one changes
 * places with it. */
static void put_in_order(const struct target *target, struct pyproc *p)
{
	struct pyproc_other own = { .proven = true,
				    .begun = true,
				    .version = p->version,
				    .runtime = p->runtime,
				    .code_versions = p->code_versions,
				    .no_jit = p->no_jit,
				    .layout = p->layout };
	uint32_t i = 0;

	if (atomic_load(&target->state) != TARGET_PYTHON || p->runtime == target->runtime)
		return;
	while (i < p->n_others && p->other[i].runtime != target->runtime)
		i++;
	if (i == PYFIND_OTHERS)
		return;
	p->n_others = MAX(p->n_others, i + 1);
	snprintf(own.file, sizeof(own.file), "%.63s", basename(p->module));
	p->other[i] = own;
}

void others_learn(struct others *o, struct target *target, const struct pyproc *found,
		  bool enough, const struct note *note)
{
	struct pyproc copy = *found, *p = &copy;
	const struct pystack_others *was = target_others(target), *now = NULL;
	struct pystack_others *made;

	put_in_order(target, p);
	made = others_of(p, enough);
	if (made)
		now = keep(o, made);
	else if (p->n_others)
		now = &unknown;
	if (now != was)
		tell(note, p, enough, was);
	atomic_store_explicit(&target->others, now, memory_order_release);
	atomic_store(&target->looked_ns, p->looked_ns);
}

bool others_unproven(const struct target *target)
{
	const struct pystack_others *o = target_others(target);

	for (uint32_t i = 0; o && i < o->n; i++)
		if (!o->of[i].proven)
			return true;
	return false;
}
