/* SPDX-License-Identifier: MIT
 *
 * jitted - decides by the native frames below the evaluation loop whether the innermost Python
 * frame's line can be stale.
 */
#include "stacks/jitted.h"

bool jitted_hides_line(const enum jitted_code *code, uint32_t n, bool gap)
{
	uint32_t first = 0, last = n;

	while (first < n && code[first] != JITTED_MEMORY)
		first++;
	if (first == n)
		return gap;
	while (code[last - 1] != JITTED_MEMORY)
		last--;
	/* CPython's is called by the interpreter; numba's and the like by their own modules. */
	for (uint32_t i = last; i < n; i++)
		if (code[i] == JITTED_FOREIGN)
			return false;
	for (uint32_t i = first; i < last; i++)
		if (code[i] != JITTED_MEMORY)
			return true;
	/* A function of an extension module is called as any code is, by its address. */
	return !first || code[first - 1] != JITTED_FOREIGN;
}
