/* SPDX-License-Identifier: MIT
 *
 * scope - which processes belong to a recording that names no process: all of them, or those
 * of a command line, a user, a cgroup.
 *
 * A value: it knows of no recording. Whether a process that fits runs Python is not asked
 * here. Never fit: we and what we started, threads of the kernel, and who has ended.
 */
#ifndef SCOPE_H
#define SCOPE_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* All that is set must fit. */
struct scope {
	bool all;	   /* nothing else need be set */
	const char *match; /* of the command line, its arguments parted by blanks; or NULL */
	regex_t regex;
	const char *user;   /* as it was named; or NULL */
	uid_t uid;	    /* the effective one of a process */
	const char *cgroup; /* at it or below: a path in its hierarchy; or NULL. Borrowed */
};

/* Set a part from what a person wrote, which is kept. 0, or -errno with a sentence: -EINVAL it
 * can't be understood; -ENOENT there is no such user or cgroup. */
int scope_match(struct scope *s, const char *regex, struct err *err);
int scope_user(struct scope *s, const char *name, struct err *err);
int scope_cgroup(struct scope *s, const char *path, struct err *err);

/* True: a scope was named. */
static inline bool scope_is_set(const struct scope *s)
{
	return s->all || s->match || s->user || s->cgroup;
}

/* True: whatever process fits that is not one of those that never do. */
static inline bool scope_is_open(const struct scope *s)
{
	return !s->match && !s->user && !s->cgroup;
}

/* Pure. True: the text of a cgroup file, cgroups(7), names @path or one below it. */
bool scope_in_cgroup(const char *text, const char *path);

/* True: @pid fits now. */
bool scope_fits(const struct scope *s, pid_t pid);

/* All that fit, those first that have used most CPU time; *@ret malloc'ed. 0 or -errno. */
int scope_list(const struct scope *s, pid_t **ret, size_t *n);

/* In words, for a person: "every Python process of user joe". Returns @buf. */
const char *scope_text(const struct scope *s, char *buf, size_t size);

#endif
