/* SPDX-License-Identifier: MIT
 *
 * scope - which processes belong to a recording that names no process.
 */
#include "targets/scope.h"

#include <errno.h>
#include <glob.h>
#include <pwd.h>
#include <unistd.h>

#include "base/base.h"
#include "sys/proc.h"

#define CGROUPS "/sys/fs/cgroup"

/* --- its parts --- */

int scope_match(struct scope *s, const char *regex, struct err *err)
{
	char why[128];
	int r;

	if (s->match)
		regfree(&s->regex);
	s->match = NULL;
	r = regcomp(&s->regex, regex, REG_EXTENDED | REG_NOSUB);
	if (r) {
		regerror(r, &s->regex, why, sizeof(why));
		return err_set(err, -EINVAL, "--match '%.100s': %s", regex, why);
	}
	s->match = regex;
	return 0;
}

int scope_user(struct scope *s, const char *name, struct err *err)
{
	const struct passwd *p = getpwnam(name);
	char *end;
	unsigned long uid = strtoul(name, &end, 10);

	if (!p && (*end || end == name || uid >= UINT32_MAX))
		return err_set(err, -ENOENT, "there is no user '%.100s'", name);
	s->user = name;
	s->uid = p ? p->pw_uid : (uid_t)uid;
	return 0;
}

/* A folder of the mounted hierarchy, or the path in it. */
static const char *path_of(const char *path)
{
	size_t n = strlen(CGROUPS);

	if (!strncmp(path, CGROUPS, n) && (!path[n] || path[n] == '/'))
		path += n;
	return *path ? path : "/";
}

static bool is_below(const char *hierarchy, const char *own)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s%s", hierarchy, own);
	return access(path, F_OK) == 0;
}

/* In the only hierarchy, or in one of several. systemd's names have backslashes: "a\x2db.slice". */
static bool is_cgroup(const char *own)
{
	bool is = is_below(CGROUPS, own);
	glob_t found = { 0 };

	if (!is && glob(CGROUPS "/*", GLOB_NOSORT, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc && !is; i++)
			is = is_below(found.gl_pathv[i], own);
	globfree(&found);
	return is;
}

int scope_cgroup(struct scope *s, const char *path, struct err *err)
{
	const char *own = path_of(path);

	if (*own != '/')
		return err_set(err, -EINVAL,
			       "-G takes the path of a cgroup, as /proc/PID/cgroup has it or "
			       "below " CGROUPS ", not '%.100s'",
			       path);
	if (access(CGROUPS, F_OK) == 0 && !is_cgroup(own))
		return err_set(err, -ENOENT, "there is no cgroup %.200s below " CGROUPS, own);
	s->cgroup = own;
	return 0;
}

/* --- a process --- */

/* @path without the name of @n bytes that a hierarchy's folder has, if it begins with that. */
static const char *without(const char *path, const char *name, size_t n)
{
	bool has = n && !strncmp(path + 1, name, n) && (path[1 + n] == '/' || !path[1 + n]);

	return has ? path + 1 + n : path;
}

/* Is @line's path, behind "N:CONTROLLERS:", @path or below it? Where there are several
 * hierarchies each has a folder of its own. */
static bool line_fits(const char *line, size_t n, const char *path)
{
	const char *end = line + n, *names = memchr(line, ':', n);
	const char *at = names ? memchr(names + 1, ':', (size_t)(end - names - 1)) : NULL;
	size_t n_names, n_path;

	if (!at)
		return false;
	n_names = (size_t)(at++ - ++names);
	if (n_names > 5 && !strncmp(names, "name=", 5))
		path = without(path, names + 5, n_names - 5);
	else if (n_names)
		path = without(path, names, n_names);
	else
		path = without(path, "unified", 7);
	n_path = strlen(path);
	while (n_path && path[n_path - 1] == '/')
		n_path--;
	return (size_t)(end - at) >= n_path && !strncmp(at, path, n_path) &&
	       (at + n_path == end || at[n_path] == '/');
}

bool scope_in_cgroup(const char *text, const char *path)
{
	bool fits = false;

	while (!fits && *text) {
		size_t n = strcspn(text, "\n");

		fits = line_fits(text, n, path);
		text += n + (text[n] == '\n');
	}
	return fits;
}

static bool cgroup_fits(const struct scope *s, pid_t pid)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	return proc_read_file(path, &text, &n) == 0 && scope_in_cgroup(text, s->cgroup);
}

static bool command_fits(const struct scope *s, pid_t pid)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	if (proc_read_file(path, &text, &n) < 0)
		return false;
	if (!n)
		return proc_outlived(&pid) && command_fits(s, pid);
	for (size_t i = 0; i + 1 < n; i++)
		if (!text[i])
			text[i] = ' ';
	return regexec(&s->regex, text, 0, NULL, 0) == 0;
}

static bool user_fits(const struct scope *s, pid_t pid)
{
	struct proc_status st;

	return proc_status(pid, &st) == 0 && st.euid == s->uid;
}

static bool is_ours(pid_t pid, pid_t parent)
{
	pid_t us = getpid();

	return pid == us || parent == us;
}

/* A process of others that has memory. */
static bool rest_fits(const struct scope *s, pid_t pid)
{
	return (!s->user || user_fits(s, pid)) && (!s->cgroup || cgroup_fits(s, pid)) &&
	       (!s->match || command_fits(s, pid));
}

bool scope_fits(const struct scope *s, pid_t pid)
{
	enum proc_memory memory;

	return proc_tgid_memory(pid, &memory) == pid && memory != PROC_NO_MEMORY &&
	       !is_ours(pid, proc_parent(pid)) && rest_fits(s, pid);
}

/* --- all of them --- */

struct busy {
	uint64_t ticks;
	pid_t pid;
};

static int busiest_first(const void *a, const void *b)
{
	const struct busy *x = a, *y = b;

	return COMPARE(y->ticks, x->ticks) ?: COMPARE(x->pid, y->pid);
}

/* Those of @pids, which are processes, that fit: how many, or -ENOMEM. */
static ssize_t those_that_fit(const struct scope *s, const pid_t *pids, size_t n,
			      struct busy *ret)
{
	_cleanup_free_ struct proc_use *uses = calloc(n + 1, sizeof(*uses));
	_cleanup_free_ ssize_t *rets = calloc(n + 1, sizeof(*rets));
	ssize_t n_fit = 0;

	if (!uses || !rets)
		return -ENOMEM;
	proc_use_each(pids, n, uses, rets);
	for (size_t i = 0; i < n; i++) {
		const struct proc_use *u = &uses[i];

		if (rets[i] == 0 && u->memory && !is_ours(pids[i], u->parent) &&
		    rest_fits(s, pids[i]))
			ret[n_fit++] = (struct busy){ u->own.user + u->own.kernel +
							      u->children.user +
							      u->children.kernel,
						      pids[i] };
	}
	return n_fit;
}

int scope_list(const struct scope *s, pid_t **ret, size_t *n)
{
	_cleanup_free_ struct busy *busy = NULL;
	size_t n_all = 0;
	ssize_t n_fit;
	int r;

	*ret = NULL;
	*n = 0;
	r = proc_processes(ret, &n_all);
	if (r < 0)
		return r;
	busy = calloc(n_all + 1, sizeof(*busy));
	n_fit = busy ? those_that_fit(s, *ret, n_all, busy) : -ENOMEM;
	if (n_fit < 0) {
		free(*ret);
		*ret = NULL;
		return -ENOMEM;
	}
	*n = (size_t)n_fit;
	qsort(busy, *n, sizeof(*busy), busiest_first);
	for (size_t i = 0; i < *n; i++)
		(*ret)[i] = busy[i].pid;
	return 0;
}

const char *scope_text(const struct scope *s, char *buf, size_t size)
{
	int n = snprintf(buf, size, "every Python process");

	if (s->match)
		n += snprintf(buf + n, size - (size_t)n, " whose command line matches '%.80s'",
			      s->match);
	if (s->user)
		n += snprintf(buf + n, size - (size_t)n, " of user %.40s", s->user);
	if (s->cgroup)
		snprintf(buf + n, size - (size_t)n, " in cgroup %.100s", s->cgroup);
	return buf;
}
