/* SPDX-License-Identifier: MIT
 *
 * pyfind_mapped - which files that a process maps may hold an interpreter, and where they lie;
 * opens one.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "elf/file_helper.h"
#include "elf/opener.h"
#include "python/pyfind_int.h"

enum {
	NEIGHBOURS = 64,
	PATIENCE_MS = 1000, /* for a file to be opened */
};

int pyfind_open(const struct search *s, const struct proc_map *map, struct stat *st, int *root)
{
	int fd = opener_map(file_helper_openers(s->files), s->pid, map, PATIENCE_MS, st, root);

	if (fd == -ETIMEDOUT)
		file_helper_slow(s->files, map->path);
	return fd == -EAGAIN ? -ENOBUFS : fd;
}

static int module_rank(const struct search *s, const struct proc_map *map)
{
	if (!strcmp(map->path, s->exe))
		return 0;
	return pyfind_is_named_python(map->path) ? 1 : 2;
}

static int module_compare(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank - y->rank;
	return COMPARE(x->order, y->order);
}

bool pyfind_is_named_python(const char *path)
{
	const char *name = base_name(path);

	/* Extension modules are many, and seldom hold an interpreter: json.cpython-313.so. */
	return strstr(name, "python") && !strstr(name, ".cpython-");
}

int pyfind_modules(const struct search *s, struct candidate **ret, size_t *n)
{
	struct candidate *list = calloc(s->maps.n + 1, sizeof(*list));
	size_t count = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < s->maps.n; i++) {
		const struct proc_map *map = &s->maps.map[i];
		int rank = module_rank(s, map);
		size_t j = 0;

		if (!map->ino || map->path[0] != '/' || (!map->x && rank == 2))
			continue;
		/* Mappings of a file are neighbours, nearly always; one that is listed twice
		 * is looked at twice. */
		while (j < MIN(count, (size_t)NEIGHBOURS) &&
		       !proc_map_same_file(list[count - 1 - j].map, map))
			j++;
		if (j == MIN(count, (size_t)NEIGHBOURS)) {
			list[count] = (struct candidate){ map, rank, count };
			count++;
		}
	}
	qsort(list, count, sizeof(*list), module_compare);
	*ret = list;
	*n = count;
	return 0;
}

static const struct proc_map *map_at(const struct search *s, raddr at)
{
	for (size_t i = 0; i < s->maps.n; i++)
		if (at >= s->maps.map[i].start && at < s->maps.map[i].end)
			return &s->maps.map[i];
	return NULL;
}

/* Is @at in memory that the interpreter could write? Its state is. */
static bool writable(const struct search *s, raddr at)
{
	const struct proc_map *map = map_at(s, at);

	return map && map->r && map->w;
}

/* True: each segment of the file begins where it must, if it was loaded at @bias. */
static bool is_whole(const struct search *s, const struct candidate *mod,
		     const struct elfpython *elf, uint64_t bias)
{
	uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;

	for (uint32_t j = 0; j < elf->n_loads; j++) {
		raddr at = bias + (elf->load[j].vaddr & ~in_page);
		const struct proc_map *map = map_at(s, at);

		if (!map || !proc_map_same_file(map, mod->map) ||
		    map->pgoff + (at - map->start) != (elf->load[j].offset & ~in_page))
			return false;
	}
	return true;
}

static bool is_new(const uint64_t *bias, size_t n, uint64_t one)
{
	for (size_t i = 0; i < n; i++)
		if (bias[i] == one)
			return false;
	return true;
}

/* A mapping tells where the file was loaded that begins where a segment begins in the file, if
 * the runtime then lies in writable memory. */
size_t pyfind_biases(const struct search *s, const struct candidate *mod,
		     const struct elfpython *elf, uint64_t *ret, size_t cap)
{
	uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	size_t n = 0;

	for (size_t i = 0; i < s->maps.n; i++) {
		const struct proc_map *map = &s->maps.map[i];

		for (uint32_t j = 0; proc_map_same_file(map, mod->map) && j < elf->n_loads;
		     j++) {
			uint64_t bias = map->start - (elf->load[j].vaddr & ~in_page);

			if ((elf->load[j].offset & ~in_page) != map->pgoff || n == cap ||
			    !is_new(ret, n, bias) || !writable(s, bias + elf->runtime) ||
			    (n && !is_whole(s, mod, elf, bias)))
				continue;
			ret[n++] = bias;
		}
	}
	return n;
}
