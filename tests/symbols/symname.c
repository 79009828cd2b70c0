/* SPDX-License-Identifier: MIT
 *
 * symname - the names that we would give: symname FILE < ADDRESSES (file addresses in hex, one
 * a line); "?" where there is none. With -C as people read them.
 */
#include <fcntl.h>

#include "../../lib/debugfile.h"
#include "../../lib/elfcache.h"
#include "../../lib/symnames.h"

static const char *name_of(const struct elfcache_tables *t, struct symnames *names,
			   uint64_t at)
{
	const char *symbol = elfcache_symbol(t, at);
	static char raw[SYMNAMES_RAW];

	if (!symbol)
		return "?";
	snprintf(raw, sizeof(raw), "%s", symbol);
	symnames_cut(raw);
	return names ? symnames_symbol(names, raw) : raw;
}

int main(int argc, char **argv)
{
	const char *path = argv[argc - 1];
	struct debugfile_origin from = { .root = -1, .path = path };
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool pretty = argc == 3 && strcmp(argv[1], "-C") == 0;
	struct elfcache_tables t;
	struct symnames names;
	char line[64];

	if (fd < 0 || elfcache_tables_read(&t, fd, (struct bytes){ 0 }, &from) < 0 ||
	    symnames_init(&names) < 0)
		return 1;
	while (fgets(line, sizeof(line), stdin))
		puts(name_of(&t, pretty ? &names : NULL, strtoull(line, NULL, 16)));
	symnames_deinit(&names);
	elfcache_tables_deinit(&t);
	return 0;
}
