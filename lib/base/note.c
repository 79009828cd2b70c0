/* SPDX-License-Identifier: MIT */
#include "base/note.h"

#include <stdarg.h>
#include <stdio.h>

void note_say(const struct note *n, const char *fmt, ...)
{
	char text[2000];
	va_list ap;

	if (!n->take)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n->take(n->arg, text);
}
