/* SPDX-License-Identifier: MIT */
#include "sys/rootfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "sys/proc.h"

int rootfile_root(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int rootfile_open(int root, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	_cleanup_close_ int look =
		root < 0 ? open(path, O_PATH | O_CLOEXEC) :
			   (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	struct stat st;

	if (look < 0 || fstat(look, &st) < 0)
		return -errno;
	/* Of no size are files of the kernel, some of which notice that they are read. */
	return S_ISREG(st.st_mode) && st.st_size > 0 ? proc_look_open(look) : -EINVAL;
}
