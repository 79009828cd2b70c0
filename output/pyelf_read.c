/* SPDX-License-Identifier: MIT
 *
 * pyelf_read - checks the two sections of ours once, then finds frames by bisection.
 */
#include "pyelf_read.h"

#include <errno.h>
#include <limits.h>

#include "base/printable.h"
#include "elf/elfimage.h"
#include "pyelf.h"

void pyelf_table_deinit(struct pyelf_table *t)
{
	free(t->place);
	elfimage_free(&t->strings);
	*t = (struct pyelf_table){ 0 };
}

/* A target sets any numbers it likes: an int must hold each of the function's lines. */
static bool are_lines(const struct pyelf_entry *e)
{
	uint64_t last = (uint64_t)e->first + (e->n_lines ? e->n_lines - 1 : 0);

	return e->n_lines <= PYELF_MAX_LINES && last <= INT_MAX && e->decl <= INT_MAX;
}

/* True: a text begins at @at. */
static bool is_text(struct bytes strings, uint32_t at)
{
	return at < strings.n && (at == 0 || !strings.at[at - 1]);
}

/* False: the entry is damaged. */
static bool take_entry(struct pyelf_table *t, const struct pyelf_entry *e)
{
	char *strings = (char *)(uintptr_t)t->strings.at;
	const struct pyelf_place *last = t->n ? &t->place[t->n - 1] : NULL;
	uint64_t end = last ? last->addr + (last->n_lines + 1) * PYELF_SLOT : PYELF_TEXT;
	struct pyelf_place p = { .addr = e->addr,
				 .n_lines = e->n_lines,
				 .first = (int)e->first,
				 .func.index = (uint32_t)t->n };

	if (e->addr < end || e->addr >= PYELF_TEXT + (uint64_t)PYELF_SPAN ||
	    !are_lines(e) || !is_text(t->strings, e->name) ||
	    (e->file != UINT32_MAX && !is_text(t->strings, e->file)))
		return false;
	p.func.qualname = strings + e->name;
	p.func.file = e->file == UINT32_MAX ? NULL : strings + e->file;
	if (!p.func.file) /* a marker, which outputs do not filter */
		printable(strings + e->name, strlen(strings + e->name) + 1, strings + e->name);
	p.func.firstline = (int)e->decl;
	p.func.min = (int)e->first;
	p.func.max = (int)(e->first + (e->n_lines ? e->n_lines - 1 : 0));
	t->place[t->n++] = p;
	return true;
}

/* Names are UTF-8 from here on; each stays where it is. */
static void clean_strings(struct bytes strings)
{
	char *at = (char *)(uintptr_t)strings.at, *end = at + strings.n;

	while (at < end) {
		size_t n = strlen(at) + 1;

		printable_utf8(at, n, at);
		at += n;
	}
}

static int take_entries(struct pyelf_table *t, struct bytes funcs)
{
	size_t n = funcs.n / sizeof(struct pyelf_entry);
	struct pyelf_entry e;

	if (!n || n > PYELF_MAX_FUNCS || !t->strings.n || t->strings.at[t->strings.n - 1])
		return -ENOEXEC;
	clean_strings(t->strings);
	t->place = calloc(n, sizeof(*t->place));
	if (!t->place)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		memcpy(&e, funcs.at + i * sizeof(e), sizeof(e));
		if (!take_entry(t, &e))
			return -ENOEXEC;
	}
	return 0;
}

int pyelf_read(struct pyelf_table *t, int fd, struct bytes image, struct bytes id)
{
	unsigned char has[ELFIMAGE_MAX_ID];
	struct elfimage im;
	int ret;

	*t = (struct pyelf_table){ 0 };
	ret = elfimage_init(&im, fd, image);
	if (!ret && (elfimage_build_id(&im, has) != id.n || memcmp(has, id.at, id.n)))
		ret = -ESTALE;
	if (!ret) {
		_cleanup_bytes_ struct bytes funcs =
			elfimage_bytes(&im, elfimage_section(&im, PYELF_FUNCS));

		t->strings = elfimage_bytes(&im, elfimage_section(&im, PYELF_STRINGS));
		ret = take_entries(t, funcs);
	}
	elfimage_deinit(&im);
	if (ret)
		pyelf_table_deinit(t);
	return ret;
}

bool pyelf_frame(const struct pyelf_table *t, uint64_t addr, struct frame *ret)
{
	size_t lo = 0, n = t->n;
	const struct pyelf_place *p;
	uint64_t slot;

	while (n > 0) {
		size_t half = n / 2;

		if (t->place[lo + half].addr <= addr) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	if (!lo)
		return false;
	p = &t->place[lo - 1];
	slot = (addr - p->addr) / PYELF_SLOT;
	if (slot > p->n_lines)
		return false;
	if (p->func.file)
		*ret = (struct frame){ .kind = FRAME_PYTHON,
				       .func = &p->func,
				       .line = slot < p->n_lines ? p->first + (int)slot : 0 };
	else
		*ret = (struct frame){ .kind = FRAME_MARKER, .name = p->func.qualname };
	return true;
}
