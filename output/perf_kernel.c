/* SPDX-License-Identifier: MIT
 *
 * perf_kernel - reads /proc/kallsyms, /proc/modules and modules.dep.
 */
#include "perf_kernel.h"

#include <inttypes.h>
#include <limits.h>
#include <sys/utsname.h>

#include "sys/proc.h"

/* Bytes of kernel code, from /proc/iomem; 0: not told to us. */
static uint64_t code_size(void)
{
	_cleanup_fclose_ FILE *iomem = fopen("/proc/iomem", "re");
	_cleanup_free_ char *line = NULL;
	uint64_t start, end;
	size_t cap = 0;

	while (iomem && getline(&line, &cap, iomem) > 0)
		if (strstr(line, " : Kernel code") &&
		    sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 && end > start)
			return end - start + 1;
	return 0;
}

bool perf_kernel_parse(FILE *kallsyms, uint64_t size, struct perf_kernel_map *ret)
{
	uint64_t text = 0, stext = 0, end = 0, addr;
	_cleanup_free_ char *line = NULL;
	char type, name[16];
	size_t cap = 0;

	while ((!text || !end) && getline(&line, &cap, kallsyms) > 0) {
		const char *word = strchr(line, ' ');

		if (!word || word[1] == '\0' || strncmp(word + 2, " _", 2) != 0)
			continue; /* 100,000 of them */
		/* longer names are cut, and then they are not one of these */
		if (sscanf(line, "%" SCNx64 " %c %15s", &addr, &type, name) != 3)
			continue;
		if (!strcmp(name, "_text")) {
			text = addr;
			end = size ? text + size : 0; /* spares the kernel 36 ms of printing */
		} else if (!strcmp(name, "_stext"))
			stext = addr;
		else if (!strcmp(name, "_etext"))
			end = addr;
	}
	*ret = (struct perf_kernel_map){
		.addr = text ? text : stext,
		/* perf relocates by this symbol: its name and its address */
		.path = text ? "[kernel.kallsyms]_text" : "[kernel.kallsyms]_stext",
		.dso = "[kernel.kallsyms]",
	};
	ret->pgoff = ret->addr;
	ret->len = end - ret->addr;
	return ret->addr && end > ret->addr;
}

bool perf_kernel_parse_module(const char *line, char name[64], struct perf_kernel_map *ret)
{
	uint64_t len, addr;

	/* name size users used-by state address */
	if (sscanf(line, "%63s %" SCNu64 " %*s %*s %*s %" SCNx64, name, &len, &addr) != 3)
		return false;
	*ret = (struct perf_kernel_map){ .addr = addr, .len = len };
	return addr && len;
}

/* True: the file @path is the module @name, '-' or '_', .ko and any compression. */
static bool is_module_file(const char *path, size_t n, const char *name)
{
	const char *base = memrchr(path, '/', n);
	const char *end = path + n;

	base = base ? base + 1 : path;
	for (; base < end && *name; base++, name++)
		if (*base != *name && !(*base == '-' && *name == '_'))
			return false;
	return !*name && end - base >= 3 && !strncmp(base, ".ko", 3);
}

const char *perf_kernel_find_module(const char *dep, const char *name, size_t *n)
{
	while (*dep) {
		size_t line = strcspn(dep, "\n");

		*n = strcspn(dep, ":\n");
		if (is_module_file(dep, *n, name))
			return dep;
		dep += line + (dep[line] == '\n');
	}
	return NULL;
}

static int each_module(const char *line, const char *dep, const char *release,
		       int (*each)(void *ctx, const struct perf_kernel_map *map), void *ctx)
{
	struct perf_kernel_map map;
	char name[64], path[PATH_MAX], notes[128];
	const char *at;
	size_t n = 0;

	if (!perf_kernel_parse_module(line, name, &map))
		return 0;
	at = perf_kernel_find_module(dep, name, &n);
	if (!at)
		snprintf(path, sizeof(path), "[%s]", name);
	else if (*at == '/')
		snprintf(path, sizeof(path), "%.*s", (int)n, at);
	else
		snprintf(path, sizeof(path), "/lib/modules/%s/%.*s", release, (int)n, at);
	snprintf(notes, sizeof(notes), "/sys/module/%s/notes/.note.gnu.build-id", name);
	map.path = map.dso = path;
	map.id = buildid_of_notes_file(notes);
	return each(ctx, &map);
}

static int each_modules(int (*each)(void *ctx, const struct perf_kernel_map *map), void *ctx)
{
	_cleanup_free_ char *dep = NULL, *text = NULL;
	char path[PATH_MAX];
	struct utsname u;
	size_t n;
	int ret = 0;

	uname(&u);
	snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", u.release);
	if (proc_read_file("/proc/modules", &text, &n))
		return 0;
	if (proc_read_file(path, &dep, &n))
		dep = NULL;
	for (char *line = text, *next; line && *line && !ret; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		ret = each_module(line, dep ? dep : "", u.release, each, ctx);
	}
	return ret;
}

bool perf_kernel_is_wanted(const struct session *s)
{
	bool ret = s->flags & SESSION_KERNEL;

	for (size_t i = 0; i < s->n_events; i++)
		ret |= !s->events[i].attr.exclude_kernel;
	return ret && !s->told.n;
}

int perf_kernel_maps(int (*each)(void *ctx, const struct perf_kernel_map *map), void *ctx)
{
	_cleanup_fclose_ FILE *kallsyms = fopen("/proc/kallsyms", "re");
	struct perf_kernel_map map;
	int ret;

	if (!kallsyms || !perf_kernel_parse(kallsyms, code_size(), &map))
		return 0;
	map.id = buildid_of_notes_file("/sys/kernel/notes");
	ret = each(ctx, &map);
	return ret ? ret : each_modules(each, ctx);
}
