/* SPDX-License-Identifier: MIT
 *
 * printable - a decoder of UTF-8 that takes the shortest forms of characters only.
 */
#include "base/printable.h"

#include <string.h>

size_t printable_decode(const unsigned char *s, uint32_t *c)
{
	static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
	size_t more = *s < 0x80 ? 0 : *s < 0xc0 ? 4 : *s < 0xe0 ? 1 : *s < 0xf0 ? 2 : 3;

	if (more == 4 || *s > 0xf4)
		return 0;
	*c = more ? *s & (0x3fu >> more) : *s;
	for (size_t i = 1; i <= more; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*c = *c << 6 | (s[i] & 0x3fu);
	}
	if (*c < least[more] || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000))
		return 0;
	return more + 1;
}

bool printable_is_control(uint32_t c)
{
	return c < ' ' || (c >= 0x7f && c <= 0x9f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

static size_t copy(char *to, size_t size, const char *from, bool controls)
{
	const unsigned char *s = (const unsigned char *)from;
	size_t n = 0;

	while (*s) {
		uint32_t c = 0;
		size_t len = printable_decode(s, &c);
		bool plain = len && (controls || !printable_is_control(c));
		size_t room = plain ? len : 1;

		if (room >= size - n)
			break;
		if (plain)
			memmove(to + n, s, len);
		else
			to[n] = '?';
		n += room;
		s += len ? len : 1;
	}
	to[n] = '\0';
	return n;
}

size_t printable(char *to, size_t size, const char *from)
{
	return copy(to, size, from, false);
}

size_t printable_utf8(char *to, size_t size, const char *from)
{
	return copy(to, size, from, true);
}
