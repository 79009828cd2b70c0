/* SPDX-License-Identifier: MIT
 *
 * srcline_main - the process that reads DWARF: the only user of libdw.
 */
#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>

#include "elf/debugfile.h"
#include "elf/elfplain.h"
#include "lines/srcline_int.h"
#include "sys/harden.h"

/* --- the file with the DWARF --- */

/* From a server that the user's DEBUGINFOD_URLS names. debuginfod_find_debuginfo(3). */
static int find_debug(const struct srcline_question *q, char **path)
{
	void *lib = dlopen("libdebuginfod.so.1", RTLD_NOW), *client;
	void *(*begin)(void);
	int (*find)(void *client, const unsigned char *id, int n, char **path);

	if (!lib || q->n_id == 0 || q->n_id > sizeof(q->id))
		return -ENOENT;
	begin = (void *(*)(void))dlsym(lib, "debuginfod_begin");
	find = (int (*)(void *, const unsigned char *, int, char **))dlsym(
		lib, "debuginfod_find_debuginfo");
	client = begin && find ? begin() : NULL;
	return client ? find(client, q->id, (int)q->n_id, path) : -ENOENT;
}

/* From here on only what is below @folder can be written, where the kernel has Landlock. */
static void write_only_below(const char *folder)
{
#ifdef SYS_landlock_create_ruleset
	struct landlock_ruleset_attr rules = { .handled_access_fs =
						       LANDLOCK_ACCESS_FS_WRITE_FILE |
						       LANDLOCK_ACCESS_FS_REMOVE_DIR |
						       LANDLOCK_ACCESS_FS_REMOVE_FILE |
						       LANDLOCK_ACCESS_FS_MAKE_DIR |
						       LANDLOCK_ACCESS_FS_MAKE_REG };
	struct landlock_path_beneath_attr below = { .allowed_access =
							    rules.handled_access_fs };
	int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);

	if (fd < 0)
		return;
	below.parent_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &below, 0);
	syscall(SYS_landlock_restrict_self, fd, 0);
	close(below.parent_fd);
	close(fd);
#endif
}

/* The process that asks a server: it sees no file of a target, but the number of one. */
static int fetch(void)
{
	const char *cache = getenv("DEBUGINFOD_CACHE_PATH");
	struct srcline_question q;
	char *path = NULL;

	write_only_below(cache ? cache : "/nonexistent");
	if (harden_process(HARDEN_FETCH, 0, NULL) < 0 ||
	    pread(SRCLINE_QUESTION, &q, sizeof(q), 0) != sizeof(q) ||
	    find_debug(&q, &path) < 0 || !path)
		return SRCLINE_NO_DEBUG;
	snprintf(q.debug, sizeof(q.debug), "%s", path);
	return pwrite(SRCLINE_QUESTION, &q, sizeof(q), 0) == sizeof(q) ? 0 : SRCLINE_FAILED;
}

/* Have a server asked for the debug file of @im. */
static void want(struct srcline_question *q, const struct elfimage *im)
{
	_Static_assert((int)ELFIMAGE_MAX_ID <= (int)SRCLINE_MAX_ID, "a build-id fits");

	q->n_id = (uint32_t)elfimage_build_id(im, q->id);
	if (q->n_id && pwrite(SRCLINE_QUESTION, q, sizeof(*q), 0) == sizeof(*q))
		_exit(SRCLINE_WANTED);
}

static int open_other(struct srcline_question *q)
{
	struct debugfile_origin from = { .root = q->has_root ? SRCLINE_ROOT : -1,
					 .path = q->path };
	struct elfimage im;
	int fd = -ENOENT;

	if (q->has_debug)
		return SRCLINE_DEBUG;
	if (elfimage_init(&im, SRCLINE_FILE, (struct bytes){ 0 }) == 0)
		fd = debugfile_open(&im, &from);
	if (fd >= 0 && !debugfile_has_dwarf(fd)) {
		close(fd);
		fd = -ENOENT;
	}
	if (fd < 0 && q->debuginfod)
		want(q, &im);
	elfimage_deinit(&im);
	return fd;
}

/* --- what libdw knows --- */

/* A function, an inlined one or a block; those around it. */
struct scope {
	Dwarf_Die die;
	struct scope *in, *next;
};

struct asked {
	const uint64_t *at;
	size_t n;
	bool *answered;
	/* of the unit at hand */
	Dwarf_Die lines, code; /* two with split DWARF */
	struct scope **inner;  /* of each address, innermost; NULL: none */
	struct scope *scopes;  /* all */
};

enum { MAX_DEPTH = 500 };

/* As elfutils' tools name functions. */
static const char *name_of(Dwarf_Die *die)
{
	Dwarf_Attribute a;
	const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &a));

	if (!name)
		name = dwarf_formstring(
			dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &a));
	return name ? name : dwarf_diename(die);
}

/* Where the inlined function @die was called. */
static struct srcline_text call_of(Dwarf_Die *die, Dwarf_Files *files)
{
	struct srcline_text s = { 0 };
	Dwarf_Attribute a;
	Dwarf_Word v;

	if (files && dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &a), &v) == 0)
		s.file = dwarf_filesrc(files, v, NULL, NULL);
	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &a), &v) == 0)
		s.line = (uint32_t)v;
	return s;
}

/* Calls @f for each of the addresses that @die has code at, until it returns false. */
static void each_at(struct asked *a, Dwarf_Die *die,
		    bool (*f)(struct asked *a, size_t i, void *arg), void *arg)
{
	Dwarf_Addr base = 0, lo, hi;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0) {
		/* What begins at 0 is code that the linker left out. */
		size_t i = lo ? rows_up_to(a->at, a->n, sizeof(*a->at), lo - 1) : a->n;

		for (; i < a->n && a->at[i] < hi; i++)
			if (!f(a, i, arg))
				return;
	}
}

/* A scope that is not made before an address is found in it. */
struct maybe_scope {
	const Dwarf_Die *die;
	struct scope *in, *made;
};

static bool enter(struct asked *a, size_t i, void *arg)
{
	struct maybe_scope *m = arg;

	if (a->inner[i] != m->in) /* as dwarf_getscopes(): the first of two that overlap */
		return true;
	if (!m->made) {
		m->made = malloc(sizeof(*m->made));
		if (!m->made)
			return false;
		*m->made = (struct scope){ *m->die, m->in, a->scopes };
		a->scopes = m->made;
	}
	a->inner[i] = m->made;
	return true;
}

/* Find the scopes inside @die, for all addresses in one pass: dwarf_getscopes() makes one for
 * each. */
static void find_scopes(struct asked *a, Dwarf_Die *die, struct scope *in, unsigned depth)
{
	Dwarf_Die child;

	if (depth > MAX_DEPTH || dwarf_child(die, &child) != 0)
		return;
	do {
		struct maybe_scope m = { .die = &child, .in = in };

		switch (dwarf_tag(&child)) {
		case DW_TAG_namespace:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
			find_scopes(a, &child, in, depth + 1);
			break;
		case DW_TAG_subprogram:
		case DW_TAG_inlined_subroutine:
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
		case DW_TAG_with_stmt:
		case DW_TAG_entry_point:
		case DW_TAG_module:
			each_at(a, &child, enter, &m);
			if (m.made)
				find_scopes(a, &child, m.made, depth + 1);
			break;
		}
	} while (dwarf_siblingof(&child, &child) == 0);
}

/* --- answers --- */

/* What the unit calls its files by may be relative to @folder. */
static void put(size_t i, const struct srcline_text *s, const char *folder)
{
	const char *function = s->function ? s->function : "", *file = s->file ? s->file : "";
	bool whole = !*file || *file == '/' || !folder;
	char path[SRCLINE_MAX_TEXT + 1];
	struct srcline_record rec = { (uint32_t)i, s->line,
				      (uint16_t)strnlen(function, SRCLINE_MAX_TEXT), 0 };

	snprintf(path, sizeof(path), "%s%s%s", whole ? "" : folder, whole ? "" : "/", file);
	rec.n_file = (uint16_t)strlen(path);
	fwrite(&rec, sizeof(rec), 1, stdout);
	fwrite(function, 1, rec.n_function, stdout);
	fwrite(path, 1, rec.n_file, stdout);
}

/* The functions at address @i, innermost first; each was called at a line of the next. */
static bool answer(struct asked *a, size_t i, void *arg)
{
	struct srcline_text s = { 0 };
	Dwarf_Attribute attr;
	const char *folder;
	Dwarf_Line *line;
	int number, tag;

	if (a->answered[i])
		return true;
	a->answered[i] = true;
	folder = dwarf_formstring(dwarf_attr(&a->lines, DW_AT_comp_dir, &attr));
	line = dwarf_getsrc_die(&a->lines, a->at[i]);
	if (line && dwarf_lineno(line, &number) == 0)
		s = (struct srcline_text){ .file = dwarf_linesrc(line, NULL, NULL),
					   .line = (uint32_t)number };
	for (struct scope *in = a->inner[i]; in; in = in->in) {
		tag = dwarf_tag(&in->die);
		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
			continue;
		s.function = name_of(&in->die);
		if (tag == DW_TAG_subprogram)
			break;
		put(i, &s, folder);
		s = call_of(&in->die, arg);
	}
	if (s.file || s.function)
		put(i, &s, folder);
	return true;
}

static bool say_yes(struct asked *a, size_t i, void *arg)
{
	*(bool *)arg = true;
	return false;
}

static void answer_unit(struct asked *a)
{
	Dwarf_Files *files;
	bool any = false;

	each_at(a, &a->lines, say_yes, &any);
	if (!any)
		return;
	if (dwarf_getsrcfiles(&a->lines, &files, NULL) < 0)
		files = NULL;
	memset(a->inner, 0, a->n * sizeof(*a->inner));
	find_scopes(a, &a->code, NULL, 0);
	each_at(a, &a->lines, answer, files);
	for (struct scope *s; (s = a->scopes);) {
		a->scopes = s->next;
		free(s);
	}
	fflush(stdout); /* should a later unit be our end */
}

static void answer_all(struct asked *a, Dwarf *dw)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die split;
	uint8_t type;

	while (dwarf_get_units(dw, unit, &unit, NULL, &type, &a->lines, &split) == 0) {
		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		a->code = type == DW_UT_skeleton && split.addr ? split : a->lines;
		answer_unit(a);
	}
}

/* dwz moves what several files have in common to another one, which libdw opens by its path. False:
 * another build's lies there, whose offsets have other names. */
static bool has_own_common(Dwarf *dw)
{
	const void *want, *has;
	const char *path;
	ssize_t n = dwelf_dwarf_gnu_debugaltlink(dw, &path, &want);
	Dwarf *common = n > 0 ? dwarf_getalt(dw) : NULL;

	return !common || (dwelf_elf_gnu_build_id(dwarf_getelf(common), &has) == n &&
			   memcmp(want, has, (size_t)n) == 0);
}

static bool read_question(struct srcline_question *q, struct asked *a)
{
	uint64_t *at;

	if (fread(q, sizeof(*q), 1, stdin) != 1 || q->n > UINT32_MAX)
		return false;
	at = calloc(q->n, sizeof(*at));
	*a = (struct asked){ .at = at,
			     .n = q->n,
			     .answered = calloc(q->n, sizeof(bool)),
			     .inner = calloc(q->n, sizeof(*a->inner)) };
	return at && a->answered && a->inner && fread(at, sizeof(*at), q->n, stdin) == q->n;
}

static int run(void)
{
	struct srcline_question q;
	struct asked a;
	Dwarf *dw;
	int fd = SRCLINE_FILE;

	if (harden_process(HARDEN_LINES, 0, NULL) < 0 || !read_question(&q, &a))
		return SRCLINE_FAILED;
	if (!debugfile_has_dwarf(fd))
		fd = open_other(&q);
	if (fd < 0)
		return SRCLINE_NO_DEBUG;
	fd = elfplain_open(fd);
	dw = fd < 0 ? NULL : dwarf_begin(fd, DWARF_C_READ);
	if (!dw || !has_own_common(dw))
		return SRCLINE_FAILED;
	answer_all(&a, dw);
	return fflush(stdout) == 0 ? 0 : SRCLINE_FAILED;
}

int srcline_main(bool debuginfod)
{
	return srcline_serve(debuginfod, run, fetch);
}
