/* SPDX-License-Identifier: MIT
 *
 * program - looks along PATH, and into a script for its interpreter.
 */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

static int is_program(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return access(path, X_OK) < 0 ? -errno : 0;
}

/* Of a script, "#!INTERPRETER ..."; who may not read it leaves that to the kernel. */
static int check_script(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char head[256], *word;
	ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head) - 1);

	if (n < 3 || head[0] != '#' || head[1] != '!')
		return 0;
	head[n] = '\0';
	head[strcspn(head, "\n")] = '\0';
	word = head + 2 + strspn(head + 2, " \t");
	word[strcspn(word, " \t\r")] = '\0';
	return *word ? is_program(word) : 0;
}

int program_find(const char *name)
{
	const char *dirs = getenv("PATH"), *next;
	char path[PATH_MAX];
	int ret = -ENOENT;

	if (strchr(name, '/') || !*name) {
		ret = is_program(name);
		return ret ? ret : check_script(name);
	}
	for (const char *dir = dirs ? dirs : "/bin:/usr/bin"; dir; dir = next) {
		int n = (int)strcspn(dir, ":"), r;

		next = dir[n] ? dir + n + 1 : NULL;
		snprintf(path, sizeof(path), "%.*s%s%s", n, dir, n ? "/" : "", name);
		r = is_program(path);
		if (r == 0)
			return check_script(path);
		if (r == -EACCES)
			ret = r;
	}
	return ret;
}

const char *program_python(const char *name)
{
	size_t n = strlen(name);

	return n > 3 && !strcmp(name + n - 3, ".py") && program_find(name) ? "python3 " : "";
}
