/* SPDX-License-Identifier: MIT
 *
 * json - text of any origin as a JSON string.
 */
#ifndef OUTPUT_JSON_H
#define OUTPUT_JSON_H

#include <stdint.h>
#include <stdio.h>

/* In quotes. What printable() takes out and '<' (so that it can stand in a page's script) are
 * escaped; a byte that is no part of valid UTF-8 becomes one U+FFFD.
 * NULL: null. */
void json_string(FILE *out, const char *text);

/* Faster than fprintf(). */
void json_number(FILE *out, int64_t v);

/* A key of an object that is not its first one, and its text. */
void json_key(FILE *out, const char *key, const char *text);

#endif
