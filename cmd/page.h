/* SPDX-License-Identifier: MIT
 *
 * page - what dump prints, kept until the lines of its native frames are known.
 */
#ifndef CMD_PAGE_H
#define CMD_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct places;
struct stack;

/* Text, and between it native frames that places know. */
struct page {
	FILE *to; /* NULL: could not be had */
	char *text;
	size_t size;
	struct page_spot {
		size_t at; /* in the text */
		uint32_t place;
	} * spot;
	size_t n_spots;
	bool cut; /* memory ran out: some of it is missing */
};

/* -ENOMEM or 0. */
int page_init(struct page *p);
void page_deinit(struct page *p);

/* Add the frames of @s, one a line, innermost first. */
void page_stack(struct page *p, const struct stack *s);

/* Add all of @from. */
void page_add(struct page *p, struct page *from);

/* Print it on standard output at once, when @places (NULL: there are none) are resolved; then
 * it is empty. What is missing is told. */
void page_print(struct page *p, struct places *places);

#endif
