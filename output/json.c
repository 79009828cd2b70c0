/* SPDX-License-Identifier: MIT
 *
 * json - escapes what JSON, and scripts in pages, can't hold.
 */
#include "json.h"

#include "base/printable.h"

/* A character beyond ASCII, or a byte that is none. Returns its bytes. */
static size_t put_far(FILE *out, const char *s)
{
	uint32_t c;
	size_t n = printable_decode((const unsigned char *)s, &c);

	if (!n)
		fputs("\\ufffd", out);
	else if (printable_is_control(c))
		fprintf(out, "\\u%04x", c);
	else
		fwrite(s, 1, n, out);
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
