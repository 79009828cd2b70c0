/* SPDX-License-Identifier: MIT
 *
 * pyfind_debug - a layout made of debug info, for a CPython that no table knows, or that is
 * not as its table says.
 */
#include <errno.h>

#include "elf/file_helper.h"
#include "python/pyfind_int.h"
#include "sys/proc.h"

/* What debug info does not tell: the table's of that version, or the newest one's of one that
 * is newer. */
static const struct pylayout *meanings_of(uint16_t version, bool free_threaded)
{
	size_t n;
	const struct pylayout *const *all = pylayout_all(&n);
	uint16_t newest = all[n - 1]->version, of = MIN(version, newest);

	if (version >> 8 != newest >> 8)
		return NULL;
	return free_threaded ? pylayout_find_free_threaded(of) : pylayout_find(of);
}

/* 0; -ENOENT there is none; -EAGAIN another time, maybe. */
static int ask(const struct search *s, const struct candidate *mod,
	       const struct elflayout_want *want, struct elflayout *ret)
{
	_cleanup_close_ int root = -1;
	struct stat st;
	_cleanup_close_ int fd = pyfind_open(s, mod->map, &st, &root);
	const struct debugfile_origin from = { .root = root, .path = mod->map->path };
	int r;

	if (fd < 0 || !s->files)
		return fd < 0 && fd != -ENOBUFS && !proc_is_short(fd) ? -ENOENT : -EAGAIN;
	r = file_helper_layout(s->files, ret, fd, want, &from);
	/* A file that ends who reads it tells nothing. */
	if (r == -EPROTO && file_helper_bad_end(s->files, mod->map->path, 1))
		return -ENOENT;
	return r == 0 || r == -EAGAIN || r == -EPIPE ? r : -ENOENT;
}

int pyfind_debug_layout(const struct search *s, const struct candidate *mod,
			const struct pyfind_file *file, struct pyproc *p,
			struct pyfind_debug *ret)
{
	const struct elflayout_want want = { (uint16_t)(p->version >> 16),
					     p->layout.free_threaded };
	const struct pylayout *meanings = meanings_of(want.version, want.free_threaded);
	struct elflayout said;
	struct err why;

	if (pyfind_cache_debug(file, s->pid, ret) &&
	    (ret->code < 0 || ret->layout.version == want.version))
		return ret->code;
	*ret = (struct pyfind_debug){ .code = -ENOENT };
	proc_view(s->pid, &ret->view);
	if (meanings)
		ret->code = ask(s, mod, &want, &said);
	if (ret->code == -EAGAIN || ret->code == -EPIPE)
		return ret->code;
	if (ret->code == 0) {
		ret->separate = said.separate != 0;
		ret->code = pyfield_layout(&said.values, want.version, meanings, &ret->layout,
					   &why);
	}
	pyfind_cache_keep_debug(file, ret);
	return ret->code;
}
