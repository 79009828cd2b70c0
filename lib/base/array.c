/* SPDX-License-Identifier: MIT
 *
 * array - makes room in arrays.
 */
#include "base/array.h"

#include "base/base.h"

enum { FIRST = 16 };

bool array_reserve(void *array, size_t *cap, size_t n, size_t each)
{
	size_t more = MAX(MAX(2 * *cap, (size_t)FIRST), n);
	void *at;

	if (n <= *cap)
		return true;
	memcpy(&at, array, sizeof(at)); /* it is of another type */
	at = reallocarray(at, more, each);
	if (!at)
		return false;
	memcpy(array, &at, sizeof(at));
	*cap = more;
	return true;
}
