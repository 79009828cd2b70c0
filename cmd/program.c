/* SPDX-License-Identifier: MIT
 *
 * program - looks along PATH, and into a program for its interpreter.
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

#include "arch/arch.h"
#include "base/base.h"
#include "elf/elfimage.h"

static int is_program(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return access(path, X_OK) < 0 ? -errno : 0;
}

/* "#!INTERPRETER ..." of a script's first bytes, as the kernel reads it: a '\r' is of its name. */
static bool script_needs(char *head, char *to)
{
	char *word;

	if (head[0] != '#' || head[1] != '!')
		return false;
	head[strcspn(head, "\n")] = '\0';
	word = head + 2 + strspn(head + 2, " \t");
	word[strcspn(word, " \t")] = '\0';
	snprintf(to, PATH_MAX, "%s", word);
	return *to;
}

/* The dynamic linker of an ELF file for this machine; another's may have an emulator. */
static bool elf_needs(int fd, char *to)
{
	struct elfimage im;
	bool found = elfimage_init(&im, fd, (struct bytes){ 0 }) == 0 &&
		     im.machine == arch_host->elf_machine;
	size_t i = 0;

	while (found && i < im.n_ph && im.ph[i].p_type != PT_INTERP)
		i++;
	found = found && i < im.n_ph && im.ph[i].p_filesz < PATH_MAX;
	if (found) {
		struct bytes part = elfimage_part(&im, im.ph[i].p_offset, im.ph[i].p_filesz);

		snprintf(to, PATH_MAX, "%.*s", (int)part.n, part.at ? (const char *)part.at : "");
		found = *to;
		elfimage_free(&part);
	}
	elfimage_deinit(&im);
	return found;
}

/* What starts the program at @path for it; of one that may not be read only the kernel knows. */
static bool needs(const char *path, char *to)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char head[256] = "";

	if (fd < 0 || read(fd, head, sizeof(head) - 1) < 3)
		return false;
	return script_needs(head, to) || elf_needs(fd, to);
}

/* 0: the file at @path can be run, and so can what it needs for that; or -errno with a clause. */
static int check(const char *path, struct err *err)
{
	char interpreter[PATH_MAX];
	int r = is_program(path);

	if (r < 0)
		return err_set(err, r, "%s", strerror(-r));
	if (!needs(path, interpreter))
		return 0;
	r = is_program(interpreter);
	if (r < 0)
		err_set(err, r, "its interpreter '%s'%s: %s", interpreter,
			strchr(interpreter, '\r') ? " (it ends with '\\r', as lines of Windows)" : "",
			strerror(-r));
	return r;
}

int program_find(const char *name, struct err *err)
{
	const char *dirs = getenv("PATH"), *next;
	char path[PATH_MAX];
	int ret = -ENOENT;

	if (strchr(name, '/') || !*name)
		return check(name, err);
	for (const char *dir = dirs ? dirs : "/bin:/usr/bin"; dir; dir = next) {
		int n = (int)strcspn(dir, ":"), r;

		next = dir[n] ? dir + n + 1 : NULL;
		snprintf(path, sizeof(path), "%.*s%s%s", n, dir, n ? "/" : "", name);
		r = is_program(path);
		if (r == 0)
			return check(path, err);
		if (r == -EACCES)
			ret = r;
	}
	return err_set(err, ret, "%s", strerror(-ret));
}

const char *program_python(const char *name)
{
	size_t n = strlen(name);

	return n > 3 && !strcmp(name + n - 3, ".py") && program_find(name, NULL) ? "python3 " : "";
}
