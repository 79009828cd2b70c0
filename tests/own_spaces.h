/* SPDX-License-Identifier: MIT
 *
 * own_spaces - a symbolizer with spaces of its own, for tests.
 */
#ifndef OWN_SPACES_H
#define OWN_SPACES_H

#include "modules/space.h"
#include "symbolize.h"

static inline struct symbolizer *own_symbolizer(unsigned needs)
{
	return symbolizer_create(spaces_create(256 << 20, needs));
}

static inline void own_symbolizer_destroy(struct symbolizer *s)
{
	struct spaces *spaces = symbolizer_spaces(s);

	symbolizer_destroy(s);
	spaces_destroy(spaces);
}

#endif
