/* SPDX-License-Identifier: MIT
 *
 * strtab - interned strings: equal text is one id and one pointer.
 *
 * Append-only. Ids are 0, 1, 2 ... in the order of first sight; pointers stay
 * valid as long as the table. Not for two threads.
 */
#ifndef STRTAB_H
#define STRTAB_H

#include <stddef.h>
#include <stdint.h>

enum { STRTAB_NONE = 0x7fffffff };

struct strtab;

struct strtab *strtab_create(void); /* NULL: no memory */
void strtab_destroy(struct strtab *t);

/* The id of the @n bytes at @s, which hold no NUL if they are read as text. STRTAB_NONE: no
 * memory. */
uint32_t strtab_add(struct strtab *t, const char *s, size_t n);

/* Its id if it was added, or STRTAB_NONE. */
uint32_t strtab_find(const struct strtab *t, const char *s, size_t n);

/* The text of an id that strtab_add() returned, with a NUL; and its length. */
const char *strtab_get(const struct strtab *t, uint32_t id);
size_t strtab_len(const struct strtab *t, uint32_t id);

uint32_t strtab_count(const struct strtab *t);

/* Memory that it takes. */
size_t strtab_bytes(const struct strtab *t);

#endif
