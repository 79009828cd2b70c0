/* SPDX-License-Identifier: MIT
 *
 * page - what dump prints, kept until the lines of its native frames are known.
 */
#ifndef CMD_PAGE_H
#define CMD_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct places;
struct proc_maps;
struct stack;

/* Text for people, or frames as JSON, with what is mapped where from @maps. */
struct page_form {
	bool json;
	struct proc_maps *maps; /* borrowed; or NULL */
};

/* Text, and between it native frames that places know. */
struct page {
	struct page_form form;
	FILE *to; /* NULL: could not be had */
	char *text;
	size_t size;
	struct page_spot {
		size_t at; /* in the text */
		uint32_t place;
		uint64_t ip;
	} * spot;
	size_t n_spots, cap_spots;
	bool more; /* in JSON: there is a frame in this list */
	bool cut;  /* memory ran out: some of it is missing */
};

/* -ENOMEM or 0. */
int page_init(struct page *p, const struct page_form *form);
void page_deinit(struct page *p);

/* Add the frames of @s, one a line, innermost first. In JSON: between commas; what stands
 * before them ends with '[' or a frame. */
void page_stack(struct page *p, const struct stack *s);

/* Forget all that was not printed. */
void page_drop(struct page *p);

/* The same of a mark that is no frame, "[no Python]". */
void page_mark(struct page *p, const char *mark);

/* Add a line about process @pid, "[text]"; what JSON has no place for is said. */
void page_say(struct page *p, pid_t pid, const char *text);

/* What follows is a list of its own. */
void page_list(struct page *p);

/* Add all of @from. */
void page_add(struct page *p, struct page *from);

/* Print it on standard output at once, when @places (NULL: there are none) are resolved; then
 * it is empty. What is missing is told. */
void page_print(struct page *p, struct places *places);

#endif
