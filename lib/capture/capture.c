/* SPDX-License-Identifier: MIT */
#include "capture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct capture_ops *const captures[] = { &capture_preempt, &capture_stop, &capture_async,
					       NULL };

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
	return err_set(err, -EINVAL,
		       "--capture is one of auto, preempt, stop, async; not '%s'", name);
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
