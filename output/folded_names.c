/* SPDX-License-Identifier: MIT
 *
 * folded_names - names as frames of folded stacks show them, each once.
 */
#include "folded_names.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/printable.h"
#include "short_files.h"

enum { FOLDED_NAME_MAX = PYFUNC_NAME_MAX + PYFUNC_FILE_MAX + 64 };

/* A name that ends with a file's, and with a line's number or not. */
struct with_file {
	uint32_t name, file; /* in @text */
	uint32_t number;     /* of the file in @files, at the end */
	uint32_t at;	     /* where the file begins in the name */
};

size_t folded_names_fit(char *buf, size_t size, const char *text)
{
	size_t n = printable(buf, size, text);

	for (char *c = buf; (c = strchr(c, ';'));)
		*c = ':';
	return n;
}

/* Add the text to the names, fit for the format. */
uint32_t folded_names_add(struct folded_names *f, const char *text)
{
	char buf[FOLDED_NAME_MAX];
	size_t n = folded_names_fit(buf, sizeof(buf), f->full ? FOLDED_UNNAMED : text);

	return strtab_add(f->text, buf, n);
}

uint32_t folded_names_format(struct folded_names *f, const char *fmt, ...)
{
	char buf[FOLDED_NAME_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	return folded_names_add(f, buf);
}

/* Keep that @key means @id. */
static uint32_t remember(const struct folded_names *f, struct idmap *m, uint64_t key,
			 uint32_t id)
{
	if (f->full)
		return id;
	return idmap_set(m, key, id) ? (uint32_t)STRTAB_NONE : id;
}

/* Keep where the file stands in a function's name, which goes on with @after bytes. */
static void note_file(struct folded_names *f, uint32_t name, const char *file, size_t after)
{
	struct with_file w = { .name = name };

	if (f->full || name == STRTAB_NONE || f->flags & SESSION_FULL_PATHS)
		return;
	w.file = folded_names_add(f, file);
	if (w.file == STRTAB_NONE)
		return;
	w.at = (uint32_t)(strtab_len(f->text, name) - after - strtab_len(f->text, w.file));
	buf_put(&f->with_file, &w, sizeof(w));
}

uint32_t folded_names_python(struct folded_names *f, const struct pyfunc *func, int line)
{
	char end[16] = ")";
	uint64_t key;
	uint32_t id;

	if (!(f->flags & SESSION_LINES) || line < 0)
		line = 0;
	key = (uint64_t)func->index << 32 | (uint32_t)line;
	id = idmap_get(&f->lines, key);
	if (id != IDMAP_NONE)
		return id;
	if (line)
		snprintf(end, sizeof(end), ":%d)", line);
	id = folded_names_format(f, "%s (%s%s", func->qualname, func->file, end);
	note_file(f, id, func->file, strlen(end));
	return remember(f, &f->lines, key, id);
}

uint32_t folded_names_kept(struct folded_names *f, const char *name)
{
	uint32_t id = idmap_get(&f->kept, (uintptr_t)name);

	return id != IDMAP_NONE ?
		       id :
		       remember(f, &f->kept, (uintptr_t)name, folded_names_add(f, name));
}

int folded_names_init(struct folded_names *f, unsigned flags)
{
	f->flags = flags;
	f->text = strtab_create();
	return f->text ? 0 : -ENOMEM;
}

size_t folded_names_bytes(const struct folded_names *f)
{
	return strtab_bytes(f->text) + idmap_bytes(&f->lines) + idmap_bytes(&f->kept) +
	       f->with_file.cap;
}

/* What folded_names_shorten() made. */
static void forget_files(struct folded_names *f)
{
	free(f->files);
	free(f->short_files);
	free(f->ends_with);
}

void folded_names_deinit(struct folded_names *f)
{
	strtab_destroy(f->text);
	idmap_deinit(&f->lines);
	idmap_deinit(&f->kept);
	buf_deinit(&f->with_file);
	forget_files(f);
}

/* --- short names of files --- */

static struct with_file *with_file(const struct folded_names *f, size_t i)
{
	return (struct with_file *)(void *)f->with_file.at + i;
}

/* Each file of the @n names once in @file; a name's file becomes its number there. */
static size_t distinct_files(struct folded_names *f, size_t n, const char **file,
			     uint32_t *number)
{
	size_t files = 0;

	for (size_t i = 0; i < n; i++) {
		struct with_file *w = with_file(f, i);

		if (!number[w->file]) {
			file[files] = strtab_get(f->text, w->file);
			number[w->file] = (uint32_t)++files;
		}
		w->number = number[w->file] - 1;
	}
	return files;
}

int folded_names_shorten(struct folded_names *f)
{
	size_t n = f->with_file.n / sizeof(struct with_file), ids = strtab_count(f->text);
	_cleanup_free_ uint32_t *number = calloc(ids + 1, sizeof(*number));

	forget_files(f);
	f->files = calloc(n + 1, sizeof(*f->files));
	f->short_files = calloc(n + 1, sizeof(*f->short_files));
	f->ends_with = calloc(ids + 1, sizeof(*f->ends_with));
	if (!number || !f->files || !f->short_files || !f->ends_with || f->with_file.oom ||
	    short_files(f->files, distinct_files(f, n, f->files, number), f->short_files))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		f->ends_with[with_file(f, i)->name] = (uint32_t)i + 1;
	return 0;
}

void folded_names_write(const struct folded_names *f, uint32_t id, FILE *out)
{
	const char *name = strtab_get(f->text, id);
	size_t n = strtab_len(f->text, id), end;
	const struct with_file *w =
		f->ends_with[id] ? with_file(f, f->ends_with[id] - 1) : NULL;

	if (w) {
		fwrite(name, 1, w->at, out);
		fputs(f->short_files[w->number], out);
		end = w->at + strlen(f->files[w->number]);
		name += end;
		n -= end;
	}
	fwrite(name, 1, n, out);
}
