/* SPDX-License-Identifier: MIT
 *
 * provenance - its words, for tests that print samples.
 */
#ifndef PROVENANCE_H
#define PROVENANCE_H

#include "sample/sample.h"

static inline const char *provenance_name(enum provenance p)
{
	static const char *const names[PROV_N] = { "exact", "late", "torn", "nopython" };

	return p < PROV_N ? names[p] : "?";
}

#endif
