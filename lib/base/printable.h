/* SPDX-License-Identifier: MIT
 *
 * printable - text of any origin, fit for a terminal: the one filter of all outputs and
 * messages.
 */
#ifndef PRINTABLE_H
#define PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of the valid UTF-8 character at @s, which a NUL ends, or 0; *@c is what it stands
 * for. */
size_t printable_decode(const unsigned char *s, uint32_t *c);

/* True: C0 (a newline too), DEL, C1, what else ends lines (U+2028, U+2029) or turns the direction of
 * the text behind it (U+202A to U+202E, U+2066 to U+2069). */
bool printable_is_control(uint32_t c);

/* Copy the text @from into the @size bytes at @to, with a NUL. Each of these characters and each
 * byte that is no part of valid UTF-8 becomes '?'; what does not fit is cut between characters.
 * @to may be @from. Returns the bytes before the NUL. */
size_t printable(char *to, size_t size, const char *from);

/* The same, but those characters stay: for what is filtered where it is shown. */
size_t printable_utf8(char *to, size_t size, const char *from);

#endif
