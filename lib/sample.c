/* SPDX-License-Identifier: MIT */
#include "sample.h"

const char *provenance_name(enum provenance p)
{
	static const char *const names[PROV_N] = { "exact", "late", "torn", "nopython" };

	return p < PROV_N ? names[p] : "?";
}
