/* SPDX-License-Identifier: MIT
 *
 * nearest - of the names that are offered, those that a mistyped one probably means. Pure.
 */
#ifndef NEAREST_H
#define NEAREST_H

#include <stddef.h>

enum { NEAREST_N = 3, NEAREST_NAME = 128 };

struct nearest {
	const char *want; /* borrowed */
	struct {
		char name[NEAREST_NAME];
		unsigned distance;
	} best[NEAREST_N]; /* nearest first */
	size_t n;
};

/* An argument for functions that offer names one after the other: struct nearest. */
void nearest_offer(void *nearest, const char *name);

/* "; nearest: a, b" into @buf, or "" if nothing is near. Returns @buf. */
const char *nearest_text(const struct nearest *n, char *buf, size_t size);

#endif
