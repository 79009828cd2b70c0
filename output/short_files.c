/* SPDX-License-Identifier: MIT
 *
 * short_files - cuts paths, and lengthens those that were cut to the same text.
 */
#include "short_files.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Folders that are told before files with one name are told whole. */
enum { MOST_FOLDERS = 16 };

struct file {
	const char *whole;
	const char **name; /* the end of @whole that is shown */
};

/* The length of a folder's name with its '/', below which modules stand by the names that
 * Python has for them: "site-packages/", "python3.11/"; 0: it is another folder. */
static size_t library(const char *folder)
{
	static const char *const names[] = { "site-packages/", "dist-packages/" };
	size_t n = strlen("python");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strncmp(folder, names[i], strlen(names[i])))
			return strlen(names[i]);
	if (strncmp(folder, "python", n) != 0 || !isdigit((unsigned char)folder[n]))
		return 0;
	n += strspn(folder + n, "0123456789.");
	n += folder[n] == 't'; /* without the GIL */
	return memchr(folder, '.', n) && folder[n] == '/' ? n + 1 : 0;
}

const char *short_files_library(const char *whole)
{
	const char *ret = NULL;

	for (const char *p = *whole == '/' ? whole : NULL; p; p = strchr(p + 1, '/')) {
		size_t n = library(p + 1);

		if (n)
			ret = p + 1 + n;
	}
	return ret && *ret ? ret : NULL;
}

/* What does not begin with '/' is kept: it is short already, or no path, such as "<frozen a/b>". */
const char *short_files_shortest(const char *whole)
{
	const char *last = strrchr(whole, '/'), *ret = short_files_library(whole);

	if (ret || *whole != '/')
		return ret ? ret : whole;
	return last[1] ? last + 1 : whole;
}

/* With one folder more. */
static const char *longer(const char *whole, const char *name)
{
	const char *p = name;

	if (p > whole)
		p--; /* the '/' before the name */
	while (p > whole && p[-1] != '/')
		p--;
	return p <= whole + 1 ? whole : p;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*((const struct file *)a)->name, *((const struct file *)b)->name);
}

/* Give those whose name another has a longer one. True: there are some. */
static bool lengthen(struct file *f, size_t n, bool whole)
{
	bool any = false;

	qsort(f, n, sizeof(*f), by_name);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && !by_name(&f[i], &f[end]);)
			end++;
		for (size_t k = i; end - i > 1 && k < end; k++)
			*f[k].name = whole ? f[k].whole : longer(f[k].whole, *f[k].name);
		any |= end - i > 1;
	}
	return any;
}

int short_files(const char *const *file, size_t n, const char **name)
{
	_cleanup_free_ struct file *f = calloc(n + 1, sizeof(*f));
	unsigned rounds = 0;

	if (!f)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		name[i] = short_files_shortest(file[i]);
		f[i] = (struct file){ file[i], &name[i] };
	}
	while (lengthen(f, n, rounds >= MOST_FOLDERS))
		rounds++;
	return 0;
}
