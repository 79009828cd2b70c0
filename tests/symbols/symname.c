/* SPDX-License-Identifier: MIT
 *
 * symname - the names that we would give: symname FILE < ADDRESSES (file addresses in hex, one
 * a line); "?" where there is none. With -C as people read them.
 *
 * symname --lines FILE < ADDRESSES, ascending: "INDEX FUNCTION FILE:LINE" for
 * each function at an address, innermost first; the exit status is 1 if that failed.
 */
#include <fcntl.h>

#include "elf/debugfile.h"
#include "elf/module.h"
#include "lines/srcline.h"
#include "names/symnames.h"

static const char *name_of(const struct module *t, struct symnames *names, uint64_t at)
{
	const char *symbol = module_symbol(t, at);
	static char raw[SYMNAMES_RAW];

	if (!symbol)
		return "?";
	snprintf(raw, sizeof(raw), "%s", symbol);
	symnames_cut(raw);
	return names ? symnames_symbol(names, raw) : raw;
}

static int names(int argc, char **argv)
{
	const char *path = argv[argc - 1];
	struct debugfile_origin from = { .root = -1, .path = path };
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool pretty = argc == 3 && strcmp(argv[1], "-C") == 0;
	struct module t;
	struct symnames names;
	char line[64];

	if (fd < 0 || module_read(&t, fd, (struct bytes){ 0 }, &from, false) < 0 ||
	    symnames_init(&names) < 0)
		return 1;
	while (fgets(line, sizeof(line), stdin))
		puts(name_of(&t, pretty ? &names : NULL, strtoull(line, NULL, 16)));
	symnames_deinit(&names);
	module_deinit(&t);
	return 0;
}

static void print_line(void *arg, size_t i, const struct srcline_text *s)
{
	char function[SYMNAMES_RAW], file[SYMNAMES_RAW];

	symnames_clean(function, sizeof(function), *s->function ? s->function : "?");
	symnames_clean(file, sizeof(file), *s->file ? s->file : "??");
	printf("%zu\t%s\t%s:%u\n", i, function, file, s->line);
}

static int lines(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	static uint64_t at[1 << 20];
	char line[64];
	struct srcline *s = srcline_start(false);
	size_t n = 0;
	int r;

	while (n < ARRAY_SIZE(at) && fgets(line, sizeof(line), stdin))
		at[n++] = strtoull(line, NULL, 16);
	r = srcline_ask(s, &(struct srcline_file){ .fd = fd, .root = -1, .path = path }, at, n, false, 60000,
			print_line, NULL);
	srcline_end(s);
	fflush(stdout);
	fprintf(stderr, "%s\n", strerror(-r));
	return r < 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], SRCLINE_COMMAND))
		return srcline_main(false);
	if (argc > 2 && !strcmp(argv[1], "--lines"))
		return lines(argv[2]);
	return names(argc, argv);
}
