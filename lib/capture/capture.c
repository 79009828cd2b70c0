/* SPDX-License-Identifier: MIT
 *
 * capture - which captures there are, and which one is taken.
 */
#include "capture/capture.h"

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

const struct capture_ops *capture_named(const char *name)
{
	size_t i = 0;

	while (captures[i] && strcmp(name, captures[i]->name) != 0)
		i++;
	return captures[i];
}

bool capture_may_trace(const char *name)
{
	const struct capture_ops *named = capture_named(name);
	bool any = false;

	for (size_t i = 0; captures[i]; i++)
		any |= captures[i]->traces;
	return named ? named->traces : any;
}

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
	const struct capture_ops *named = capture_named(name);

	want.named = true;
	if (named) {
		*ret = named;
		return named->possible(&want, err);
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
