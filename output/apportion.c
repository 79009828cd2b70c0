/* SPDX-License-Identifier: MIT
 *
 * apportion - the method of largest remainders.
 */
#include "apportion.h"

#include <errno.h>
#include <stdlib.h>

#include "base/base.h"

struct share {
	unsigned __int128 remainder;
	size_t of;
};

static int by_remainder(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	return COMPARE(y->remainder, x->remainder) ?: COMPARE(x->of, y->of);
}

int apportion(uint64_t *weight, size_t n, uint64_t total)
{
	_cleanup_free_ struct share *share = calloc(n + 1, sizeof(*share));
	unsigned __int128 sum = 0;
	uint64_t given = 0;

	if (!share)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		sum += weight[i];
	for (size_t i = 0; i < n && sum; i++) {
		unsigned __int128 part = (unsigned __int128)weight[i] * total;

		share[i] = (struct share){ part % sum, i };
		weight[i] = (uint64_t)(part / sum);
		given += weight[i];
	}
	qsort(share, n, sizeof(*share), by_remainder);
	for (size_t i = 0; sum && i < n && given < total; i++, given++)
		weight[share[i].of]++;
	return 0;
}
