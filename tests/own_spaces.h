/* SPDX-License-Identifier: MIT
 *
 * own_spaces - a symbolizer with spaces of its own, and our own maps as records, for tests.
 */
#ifndef OWN_SPACES_H
#define OWN_SPACES_H

#include <sys/mman.h>
#include <unistd.h>

#include "modules/space.h"
#include "sample/perf_decode.h"
#include "sys/proc_maps.h"
#include "symbolize.h"

static inline struct symbolizer *own_symbolizer(unsigned needs)
{
	return symbolizer_create(spaces_create(256 << 20, needs));
}

static inline void own_symbolizer_destroy(struct symbolizer *s)
{
	struct spaces *spaces = symbolizer_spaces(s);

	symbolizer_destroy(s);
	spaces_destroy(spaces);
}

/* The record of each file whose code we have mapped. 0 or -errno. */
static inline int own_files(void (*take)(void *arg, struct side *side), void *arg)
{
	struct proc_maps maps;
	int r = proc_maps_read(&maps, getpid());

	if (r < 0)
		return r;
	for (size_t i = 0; i < maps.n; i++) {
		const struct proc_map *m = &maps.map[i];
		struct side side = { .kind = SIDE_MMAP, .pid = getpid(), .tid = getpid() };

		if (!m->x || m->path[0] != '/')
			continue;
		side.u.mmap.addr = m->start, side.u.mmap.len = m->end - m->start;
		side.u.mmap.pgoff = m->pgoff, side.u.mmap.ino = m->ino;
		side.u.mmap.maj = m->maj, side.u.mmap.min = m->min;
		side.u.mmap.prot = PROT_READ | PROT_EXEC, side.u.mmap.path = m->path;
		take(arg, &side);
	}
	proc_maps_deinit(&maps);
	return 0;
}

#endif
