/* SPDX-License-Identifier: MIT
 *
 * perf_maps - reads each process's file once, when a name is missing.
 */
#include "perf_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/idmap.h"
#include "base/printable.h"
#include "base/strtab.h"
#include "elf/codemap.h"

enum {
	MAX_FILES = 256,
	NO_FILE = MAX_FILES, /* in the place of a number: there is none, or it has no names */
	MAX_PIECES = 4,
	MAX_FORKS = 8,
	MAX_NAME = 4096
};

#define TRAMPOLINE "py::"

struct perf_maps {
	struct timespec end;
	struct idmap file_of; /* process to a number in @file, or NO_FILE */
	struct idmap parent_of;
	struct codemap file[MAX_FILES];
	uint32_t n;
	struct strtab *names;
	struct idmap func_of; /* a name to a number in @func */
	struct pyfunc *func[1 << 16];
	uint32_t n_funcs;
};

struct perf_maps *perf_maps_create(struct timespec end)
{
	struct perf_maps *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->end = end;
	m->names = strtab_create();
	if (m->names)
		return m;
	free(m);
	return NULL;
}

void perf_maps_destroy(struct perf_maps *m)
{
	if (!m)
		return;
	for (uint32_t i = 0; i < m->n; i++)
		codemap_deinit(&m->file[i]);
	for (uint32_t i = 0; i < m->n_funcs; i++)
		free(m->func[i]);
	idmap_deinit(&m->file_of);
	idmap_deinit(&m->parent_of);
	idmap_deinit(&m->func_of);
	strtab_destroy(m->names);
	free(m);
}

void perf_maps_fork(struct perf_maps *m, pid_t pid, pid_t parent)
{
	idmap_set(&m->parent_of, (uint32_t)pid, (uint32_t)parent);
}

/* perf's own rule, nobody else's file; and none of a later process of that number. */
static bool is_theirs(const struct perf_maps *m, int fd)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &st) ||
	    !S_ISREG(st.stx_mode) || (st.stx_uid != 0 && st.stx_uid != geteuid()))
		return false;
	return !(st.stx_mask & STATX_BTIME) || st.stx_btime.tv_sec <= m->end.tv_sec;
}

static void read_file(const struct perf_maps *m, struct codemap *map, pid_t pid)
{
	struct codemap_place place = { .more = true };
	_cleanup_close_ int fd = -1;
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	if (fd < 0 || !is_theirs(m, fd))
		return;
	for (int i = 0; i < MAX_PIECES && place.more; i++)
		codemap_read(map, fd, CODEMAP_LINES, &place);
	codemap_sort(map);
}

/* The number of @pid's file, which was not looked for yet. */
static uint32_t new_file(struct perf_maps *m, pid_t pid)
{
	struct codemap *map = &m->file[m->n];
	uint32_t i;

	if (m->n == MAX_FILES)
		return NO_FILE;
	read_file(m, map, pid);
	i = map->n_laid ? m->n : (uint32_t)NO_FILE;
	if (idmap_set(&m->file_of, (uint32_t)pid, i))
		i = NO_FILE;
	if (i == NO_FILE)
		codemap_deinit(map);
	else
		m->n++;
	return i;
}

static const char *name_of(struct perf_maps *m, pid_t pid, uint64_t ip)
{
	uint32_t i = idmap_get(&m->file_of, (uint32_t)pid);

	if (i == IDMAP_NONE)
		i = new_file(m, pid);
	return i == NO_FILE ? NULL : codemap_find(&m->file[i], ip);
}

/* "py::QUALNAME:FILE" */
static const struct pyfunc *python_of(struct perf_maps *m, uint32_t name, uint32_t index)
{
	const char *text = strtab_get(m->names, name) + strlen(TRAMPOLINE);
	const char *colon = strrchr(text, ':');
	uint32_t known = idmap_get(&m->func_of, name), a, b;
	struct pyfunc *f;

	if (known != IDMAP_NONE)
		return m->func[known];
	if (!colon || m->n_funcs == ARRAY_SIZE(m->func))
		return NULL;
	a = strtab_add(m->names, text, (size_t)(colon - text));
	b = strtab_add(m->names, colon + 1, strlen(colon + 1));
	f = a == STRTAB_NONE || b == STRTAB_NONE ? NULL : malloc(sizeof(*f));
	if (!f || idmap_set(&m->func_of, name, m->n_funcs)) {
		free(f);
		return NULL;
	}
	*f = (struct pyfunc){ .qualname = strtab_get(m->names, a),
			      .file = strtab_get(m->names, b),
			      .index = index + m->n_funcs };
	return m->func[m->n_funcs++] = f;
}

bool perf_maps_frame(struct perf_maps *m, pid_t pid, uint64_t ip, uint32_t index,
		     struct frame *ret)
{
	const char *found = NULL;
	char clean[MAX_NAME];
	uint32_t name;

	for (int i = 0; !found && i < MAX_FORKS && (uint32_t)pid != IDMAP_NONE; i++) {
		found = name_of(m, pid, ip);
		pid = (pid_t)idmap_get(&m->parent_of, (uint32_t)pid);
	}
	if (!found)
		return false;
	printable(clean, sizeof(clean), found);
	name = strtab_add(m->names, clean, strlen(clean));
	if (name == STRTAB_NONE)
		return false;
	*ret = (struct frame){ .kind = FRAME_NATIVE,
			       .ip = ip,
			       .name = strtab_get(m->names, name) };
	if (strncmp(clean, TRAMPOLINE, strlen(TRAMPOLINE)) == 0)
		ret->func = python_of(m, name, index);
	if (ret->func)
		*ret = (struct frame){ .kind = FRAME_PYTHON, .func = ret->func };
	return true;
}
