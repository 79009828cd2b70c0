/* SPDX-License-Identifier: MIT
 *
 * json - escapes what JSON, and scripts in pages, can't hold.
 */
#include "json.h"

#include <string.h>

#include "base/printable.h"

/* What ends a line in a script, and printable() does not let through, escaped; or NULL. */
static const char *line_end(const char *s)
{
	if (!strncmp(s, "\342\200\250", 3))
		return "\\u2028";
	return strncmp(s, "\342\200\251", 3) ? NULL : "\\u2029";
}

/* The bytes of the valid character at @s; 0: there is none. */
static size_t character(const char *s)
{
	char one[8], copy[8];

	for (size_t n = 2; n <= 4 && memchr(s, 0, n) == NULL; n++) {
		memcpy(one, s, n);
		one[n] = '\0';
		if (printable(copy, sizeof(copy), one) == n && !memcmp(one, copy, n))
			return n;
	}
	return 0;
}

/* A character beyond ASCII. Returns its bytes. */
static size_t put_far(FILE *out, const char *s)
{
	size_t n = character(s);
	unsigned char next = (unsigned char)s[1];
	const char *end = line_end(s);

	if (end) {
		fputs(end, out);
		return 3;
	}
	if (!n && (unsigned char)*s == 0xc2 && next >= 0x80 && next < 0xa0) {
		fprintf(out, "\\u%04x", next); /* C1 */
		return 2;
	}
	if (n)
		fwrite(s, 1, n, out);
	else
		fputs("\\ufffd", out);
	return n ? n : 1;
}

void json_string(FILE *out, const char *s)
{
	if (!s) {
		fputs("null", out);
		return;
	}
	putc_unlocked('"', out);
	while (*s) {
		unsigned char c = (unsigned char)*s;

		if (c >= 0x80) {
			s += put_far(out, s);
			continue;
		}
		if (c < ' ' || c == 0x7f || c == '<')
			fprintf(out, "\\u%04x", c);
		else if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else
			putc_unlocked(c, out);
		s++;
	}
	putc_unlocked('"', out);
}

void json_key(FILE *out, const char *key, const char *text)
{
	fprintf(out, ",\"%s\":", key);
	json_string(out, text);
}

void json_number(FILE *out, int64_t v)
{
	uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;
	char digits[24];
	size_t n = sizeof(digits);

	do {
		digits[--n] = (char)('0' + left % 10);
		left /= 10;
	} while (left);
	if (v < 0)
		digits[--n] = '-';
	fwrite_unlocked(digits + n, 1, sizeof(digits) - n, out);
}
