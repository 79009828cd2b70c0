/* SPDX-License-Identifier: MIT */
#include "page.h"

#include <errno.h>
#include <inttypes.h>

#include "base/array.h"
#include "base/base.h"
#include "lines/places.h"
#include "names/symnames.h"
#include "sample/sample.h"
#include "sys/proc_maps.h"
#include "json.h"
#include "cmd.h"

enum { MAX_TEXT = 8192 };

int page_init(struct page *p, const struct page_form *form)
{
	*p = (struct page){ .form = *form };
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

static void add_spot(struct page *p, size_t at, uint32_t place, uint64_t ip)
{
	if (array_reserve(&p->spot, &p->cap_spots, p->n_spots + 1, sizeof(*p->spot)))
		p->spot[p->n_spots++] = (struct page_spot){ at, place, ip };
	else
		p->cut = true;
}

/* --- JSON --- */

static const char *const kinds[] = {
	[FRAME_KERNEL] = "kernel",
	[FRAME_NATIVE] = "native",
	[FRAME_PYTHON] = "python",
	[FRAME_MARKER] = "marker",
};

static const struct proc_map *map_at(const struct proc_maps *maps, uint64_t ip)
{
	for (size_t i = 0; maps && i < maps->n; i++)
		if (ip - maps->map[i].start < maps->map[i].end - maps->map[i].start)
			return maps->map[i].path[0] ? &maps->map[i] : NULL;
	return NULL;
}

/* @line 0: not known. @ip 0: in no mapped file. */
static void put_frame(const struct page_form *form, FILE *to, enum frame_kind kind,
		      const char *name, const char *file, unsigned line, uint64_t ip)
{
	const struct proc_map *map = ip ? map_at(form->maps, ip) : NULL;

	fprintf(to, "\n{\"kind\":\"%s\"", kinds[kind]);
	json_key(to, "name", name);
	json_key(to, "file", file);
	if (line)
		fprintf(to, ",\"line\":%u", line);
	else
		fputs(",\"line\":null", to);
	json_key(to, "module", map ? map->path : NULL);
	if (map)
		fprintf(to, ",\"offset\":%" PRIu64 ",\"locals\":null}",
			ip - map->start + map->pgoff);
	else
		fputs(",\"offset\":null,\"locals\":null}", to);
}

static void comma(struct page *p)
{
	if (p->more)
		putc(',', p->to);
	p->more = true;
}

static void add_json(struct page *p, const struct frame *f)
{
	comma(p);
	if (f->place) {
		fflush(p->to);
		add_spot(p, p->size, f->place, f->ip);
	} else if (f->kind == FRAME_PYTHON) {
		put_frame(&p->form, p->to, f->kind, f->func->qualname,
			  f->func->file[0] ? f->func->file : NULL, (unsigned)MAX(f->line, 0),
			  0);
	} else {
		put_frame(&p->form, p->to, f->kind, f->name, NULL, 0,
			  f->kind == FRAME_NATIVE ? f->ip : 0);
	}
}

static void json_place(const struct page *p, struct places *places,
		       const struct page_spot *spot)
{
	size_t n;
	const struct places_frame *f = places_frames(places, spot->place, &n);

	for (size_t i = 0; i < n; i++) {
		if (i)
			putchar(',');
		put_frame(&p->form, stdout, FRAME_NATIVE,
			  f[i].function ? f[i].function : symnames_unknown, f[i].file,
			  f[i].line, spot->ip);
	}
}

/* --- text --- */

static void add_frame(struct page *p, const struct frame *f)
{
	if (f->place) {
		fflush(p->to);
		add_spot(p, p->size, f->place, f->ip);
	} else if (f->kind != FRAME_PYTHON) {
		cmd_line(p->to, "    %s", f->name);
	} else if (f->line) {
		cmd_line(p->to, "    %s (%s:%d)", f->func->qualname, f->func->file, f->line);
	} else {
		cmd_line(p->to, "    %s (%s)", f->func->qualname, f->func->file);
	}
}

/* --- together --- */

void page_stack(struct page *p, const struct stack *s)
{
	for (size_t i = 0; i < s->n; i++) {
		if (p->form.json)
			add_json(p, &s->frames[i]);
		else
			add_frame(p, &s->frames[i]);
	}
}

void page_mark(struct page *p, const char *mark)
{
	if (!p->form.json) {
		cmd_line(p->to, "    %s", mark);
		return;
	}
	comma(p);
	put_frame(&p->form, p->to, FRAME_MARKER, mark, NULL, 0, 0);
}

void page_say(struct page *p, pid_t pid, const char *text)
{
	if (p->form.json)
		cmd_say("process %d: %s", pid, text);
	else
		cmd_line(p->to, "[%s]", text);
}

void page_list(struct page *p)
{
	p->more = false;
}

void page_add(struct page *p, struct page *from)
{
	if (p->more && from->more)
		putc(',', p->to);
	fflush(p->to);
	fflush(from->to);
	for (size_t i = 0; i < from->n_spots; i++)
		add_spot(p, p->size + from->spot[i].at, from->spot[i].place, from->spot[i].ip);
	fwrite(from->text, 1, from->size, p->to);
	p->more |= from->more;
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

void page_drop(struct page *p)
{
	fflush(p->to);
	p->n_spots = 0;
	rewind(p->to); /* forgets errors too */
}

void page_print(struct page *p, struct places *places)
{
	size_t at = 0;

	fflush(p->to);
	for (size_t i = 0; i < p->n_spots; i++) {
		fwrite(p->text + at, 1, p->spot[i].at - at, stdout);
		at = p->spot[i].at;
		if (p->form.json)
			json_place(p, places, &p->spot[i]);
		else
			print_place(places, p->spot[i].place);
	}
	fwrite(p->text + at, 1, p->size - at, stdout);
	cmd_flush_part();
	if (p->cut || ferror(p->to))
		cmd_say("out of memory: some frames are not shown");
	p->cut = false;
	page_drop(p);
}
