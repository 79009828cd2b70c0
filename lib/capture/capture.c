/* SPDX-License-Identifier: MIT
 *
 * capture - the list of captures, the choice among them, and what several of them share.
 */
#include "capture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* One row a word of meson.build's captures. */
#define X(name) extern const struct capture_ops capture_##name;
#include "captures.inc"
#undef X

#define X(name) &capture_##name,
const struct capture_ops *const captures[] = {
#include "captures.inc"
	NULL
};
#undef X

static int no_such_capture(const char *name, struct err *err)
{
	char list[200] = "auto";

	for (size_t i = 0; captures[i]; i++) {
		size_t n = strlen(list);

		snprintf(list + n, sizeof(list) - n, ", %s", captures[i]->name);
	}
	return err_set(err, -EINVAL, "--capture is one of %s; not '%s'", list, name);
}

static int pick_named(const char *name, struct capture_want want,
		      const struct capture_ops **ret, struct err *err)
{
	want.named = true;
	for (size_t i = 0; captures[i]; i++)
		if (!strcmp(name, captures[i]->name)) {
			*ret = captures[i];
			return captures[i]->possible(&want, err);
		}
	if (!strcmp(name, "bpf"))
		return err_set(err, -EINVAL, "--capture %s is not built into this version",
			       name);
	return no_such_capture(name, err);
}

/* The reasons why not a better one, one after the other. */
static void add_reason(struct err *why, const struct err *more)
{
	size_t n = strlen(why->text);

	snprintf(why->text + n, sizeof(why->text) - n, "%s%s", n ? "; " : "", more->text);
}

int capture_pick(const char *name, const struct capture_want *want,
		 const struct capture_ops **ret, struct err *why, struct err *err)
{
	why->text[0] = '\0';
	if (strcmp(name, "auto") != 0)
		return pick_named(name, *want, ret, err);
	for (size_t i = 0; captures[i]; i++) {
		struct err no;

		*ret = captures[i];
		if (captures[i]->possible(want, &no) == 0)
			break;
		add_reason(why, &no);
	}
	return 0;
}

enum judgement capture_judge_held(const struct hold *h)
{
	if (h->ending)
		return JUDGE_EXACT;
	if (h->backlog)
		return JUDGE_BACKLOG;
	if (!h->t_out)
		return JUDGE_NOSWITCH;
	if (h->ran)
		return JUDGE_RAN;
	if (h->witness == WITNESS_SAME)
		return JUDGE_EXACT;
	if (h->witness == WITNESS_MOVED)
		return JUDGE_GAP;
	/* A reader that preempts was made runnable before the kernel could return
	 * to the thread: whatever the kernel still did after the event, no user
	 * instruction ran before t_out. An event in user code has no such excuse. */
	if (!h->in_kernel && !h->preempted)
		return JUDGE_VOLUNTARY;
	if (!h->in_kernel && h->t_out - h->t0 > h->gap_max_ns)
		return JUDGE_GAP;
	return JUDGE_EXACT;
}

enum judgement capture_judge_unheld(const struct hold *h)
{
#ifdef PYSAMPLED_ASYNC_UNCHECKED
	(void)h;
	return JUDGE_EXACT; /* test builds: shows how wrong a plain read is */
#else
	/* A thread that ran on may have come back to the same registers, on another path. */
	if (!h->ending &&
	    (h->witness != WITNESS_SAME || (!h->counted && h->t_out - h->t0 > h->gap_max_ns)))
		return JUDGE_CAPTURE;
	return capture_judge_held(h);
#endif
}

const char *capture_says_nothing(char *buf, size_t size)
{
	if (size)
		buf[0] = '\0';
	return buf;
}

const char *capture_no_caveat(const struct preempt_plan *p, char *buf, size_t size)
{
	(void)p;
	return capture_says_nothing(buf, size);
}

void capture_limits_nothing(struct perf_options *o)
{
	(void)o;
}

int capture_slot_as_is(struct cpu_slot *slot)
{
	(void)slot;
	return 0;
}

int capture_attach_here(const struct capture_attach *a, struct err *err)
{
	return a->attach(a->arg, err);
}

bool capture_stays(const struct reader *r)
{
	(void)r;
	return false;
}

void capture_sleep(struct reader *r, uint64_t left_ns)
{
	struct timespec t = { .tv_nsec = (long)left_ns };

	(void)r;
	if (left_ns > CAPTURE_SHED_NS)
		t.tv_nsec = CAPTURE_SHED_NS;
	nanosleep(&t, NULL);
}

void capture_idle(struct reader *r)
{
	(void)r;
}

bool capture_comes_back_never(const struct hold *h)
{
	(void)h;
	return false;
}
