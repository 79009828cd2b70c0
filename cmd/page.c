/* SPDX-License-Identifier: MIT */
#include "page.h"

#include <errno.h>

#include "base/base.h"
#include "lines/places.h"
#include "sample/sample.h"
#include "cmd.h"

enum { MAX_TEXT = 8192 };

int page_init(struct page *p)
{
	*p = (struct page){ 0 };
	p->to = open_memstream(&p->text, &p->size);
	return p->to ? 0 : -ENOMEM;
}

void page_deinit(struct page *p)
{
	if (p->to)
		fclose(p->to);
	free(p->text);
	free(p->spot);
	*p = (struct page){ 0 };
}

static void add_spot(struct page *p, size_t at, uint32_t place)
{
	struct page_spot *more = reallocarray(p->spot, p->n_spots + 1, sizeof(*more));

	if (!more) {
		p->cut = true;
		return;
	}
	p->spot = more;
	p->spot[p->n_spots++] = (struct page_spot){ at, place };
}

static void add_frame(struct page *p, const struct frame *f)
{
	if (f->place) {
		fflush(p->to);
		add_spot(p, p->size, f->place);
	} else if (f->kind != FRAME_PYTHON) {
		cmd_line(p->to, "    %s", f->name);
	} else if (f->line) {
		cmd_line(p->to, "    %s (%s:%d)", f->func->qualname, f->func->file, f->line);
	} else {
		cmd_line(p->to, "    %s (%s)", f->func->qualname, f->func->file);
	}
}

void page_stack(struct page *p, const struct stack *s)
{
	for (size_t i = 0; i < s->n; i++)
		add_frame(p, &s->frames[i]);
}

void page_add(struct page *p, struct page *from)
{
	fflush(p->to);
	fflush(from->to);
	for (size_t i = 0; i < from->n_spots; i++)
		add_spot(p, p->size + from->spot[i].at, from->spot[i].place);
	fwrite(from->text, 1, from->size, p->to);
	p->cut |= from->cut || ferror(from->to);
}

static void print_place(struct places *places, uint32_t place)
{
	size_t n;
	const struct places_frame *f = places_frames(places, place, &n);
	char text[MAX_TEXT];

	for (size_t i = 0; i < n; i++) {
		places_text(&f[i], true, text, sizeof(text));
		cmd_line(stdout, "    %s%s", text, f[i].inlined ? " (inlined)" : "");
	}
}

void page_print(struct page *p, struct places *places)
{
	size_t at = 0;

	fflush(p->to);
	for (size_t i = 0; i < p->n_spots; i++) {
		fwrite(p->text + at, 1, p->spot[i].at - at, stdout);
		at = p->spot[i].at;
		print_place(places, p->spot[i].place);
	}
	fwrite(p->text + at, 1, p->size - at, stdout);
	fflush(stdout);
	if (p->cut || ferror(p->to))
		cmd_say("out of memory: some frames are not shown");
	p->cut = false;
	p->n_spots = 0;
	rewind(p->to); /* forgets errors too */
}
