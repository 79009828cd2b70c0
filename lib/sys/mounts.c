/* SPDX-License-Identifier: MIT */
#include "sys/mounts.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINKS = 40 };

/* Is the field at @s, up to a blank, @path? Blanks and the like stand in it as \040. */
static bool is_path(const char *s, const char *path)
{
	unsigned octal;

	for (; *s != ' ' && *path; path++) {
		bool coded = *s == '\\' && sscanf(s + 1, "%3o", &octal) == 1;

		if ((coded ? (char)octal : *s) != *path)
			return false;
		s += coded ? 4 : 1;
	}
	return *s == ' ' && !*path;
}

/* Is @point where such a file system is mounted? proc_pid_mountinfo(5): the mount point is the
 * fifth field, the type comes behind a hyphen. What is mounted last is on top. */
static bool is_served(const char *mountinfo, const char *point)
{
	bool ret = false;

	for (const char *line = mountinfo; line && *line;) {
		const char *end = strchr(line, '\n'), *at = line, *type = strstr(line, " - ");

		for (int i = 0; i < 4 && at; i++)
			at = (at = strchr(at, ' ')) ? at + 1 : NULL;
		if (at && type && at < type && is_path(at, point))
			ret = strncmp(type + 3, "fuse", 4) == 0;
		line = end ? end + 1 : NULL;
	}
	return ret;
}

/* The next name of @rest moves behind @done. False: there is none, or no room. */
static bool step(char done[PATH_MAX], char *rest)
{
	const char *name = rest + strspn(rest, "/");
	size_t n = strcspn(name, "/"), have = strlen(done);

	if (n == 0 || have + n + 2 > PATH_MAX)
		return false;
	if (n == 2 && !memcmp(name, "..", n)) {
		*(have ? strrchr(done, '/') : done) = '\0';
	} else if (n != 1 || *name != '.') {
		snprintf(done + have, PATH_MAX - have, "/%.*s", (int)n, name);
	}
	memmove(rest, name + n, strlen(name + n) + 1);
	return true;
}

bool mounts_served(const char *mountinfo, const char *path)
{
	char done[PATH_MAX] = "", rest[2 * PATH_MAX], link[PATH_MAX + 1];
	int links = 0;

	if (snprintf(rest, sizeof(rest), "%s", path) >= PATH_MAX)
		return true;
	while (step(done, rest)) {
		ssize_t n;

		if (is_served(mountinfo, done))
			return true;
		n = *done ? readlink(done, link, PATH_MAX) : -1;
		if (n <= 0)
			continue;
		if (++links > MAX_LINKS || n + strlen(rest) >= PATH_MAX)
			return true;
		memmove(rest + n, rest, strlen(rest) + 1);
		memcpy(rest, link, (size_t)n);
		*(*link == '/' ? done : strrchr(done, '/')) = '\0';
	}
	return rest[strspn(rest, "/")];
}
