/* SPDX-License-Identifier: MIT */
#include "codefile.h"

#include <errno.h>
#include <unistd.h>

void codefile_deinit(struct codefile *c)
{
	for (size_t i = 0; i < CODEFILE_OPEN; i++)
		if (c->open[i].used && c->open[i].fd >= 0)
			close(c->open[i].fd);
}

static int descriptor(struct codefile *c, const struct space *sp, const struct space_map *m)
{
	struct codefile_open *o = c->open;

	for (size_t i = 0; i < CODEFILE_OPEN; i++)
		if (o[i].used && o[i].pid == sp->pid && o[i].lo == m->lo && o[i].ino == m->ino)
			return o[i].fd;
	o += c->next++ % CODEFILE_OPEN;
	if (o->used && o->fd >= 0)
		close(o->fd);
	*o = (struct codefile_open){ sp->pid, m->lo, m->ino, space_open(sp, m, NULL), true };
	o->used = o->fd != -EAGAIN;
	return o->fd;
}

int codefile_read(struct codefile *c, const struct space *sp, uint64_t at, void *buf, size_t n)
{
	const struct space_map *m = sp ? space_at(sp, at) : NULL;
	int fd;

	if (!m || !m->elf || m->hi - at < n)
		return -EFAULT;
	fd = descriptor(c, sp, m);
	if (fd < 0 || pread(fd, buf, n, (off_t)(at - m->lo + m->pgoff)) != (ssize_t)n)
		return -EFAULT;
	return 0;
}
