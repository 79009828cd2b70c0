/* SPDX-License-Identifier: MIT
 *
 * array - room in arrays that grow by doubling.
 */
#ifndef ARRAY_H
#define ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* @array: the address of a pointer to *@cap elements of @each bytes, which are malloc'ed. Make them
 * @n at least. False: there is no memory, and all is as it was. */
bool array_reserve(void *array, size_t *cap, size_t n, size_t each);

#endif
