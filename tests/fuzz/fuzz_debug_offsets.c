/* SPDX-License-Identifier: MIT
 *
 * fuzz_debug_offsets - what a process says of itself: refused or plausible.
 */
#include <errno.h>

#include "../unit/debug_offsets_fixtures.h"
#include "../unit/layout_room.h"
#include "fuzz.h"
#include "offsets/debug_offsets.h"
#include "pyframe_walk.h"

static void check_layout(struct bytes raw, const struct pylayout *table)
{
	struct pywalk_layout walk;
	struct err err = { 0 };
	struct pylayout l;
	int r = debug_offsets_parse(raw, table, &l, &err);

	if (r < 0) {
		FUZZ_CHECK((r == -ENOENT || r == -EBADMSG) && err.text[0]);
		return;
	}
	FUZZ_CHECK(pylayout_check(&l, NULL) == 0);
	FUZZ_CHECK(l.version == table->version && l.owner_shim == table->owner_shim);
	FUZZ_CHECK(!layout_outside(&l));
	pywalk_layout_init(&walk, &l, 0x1000);
	/* What the walker takes out of its buffer of 128 bytes is in the frame. */
	FUZZ_CHECK(walk.fr_size <= PYWALK_FRAME_BYTES && walk.fr_owner < walk.fr_size);
	FUZZ_CHECK(walk.fr_code + 8 <= walk.fr_size && walk.fr_prev + 8 <= walk.fr_size);
	FUZZ_CHECK(walk.fr_instr + 8 <= walk.fr_size && walk.ts_frame != PYWALK_NONE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct bytes raw = { data, n };
	const struct pylayout *const *all;
	uint32_t version;
	size_t n_all;
	bool ft;

	all = pylayout_all(&n_all);
	for (size_t i = 0; i < n_all; i++)
		check_layout(raw, all[i]);
	for (uint16_t v = 0x030d; pylayout_find_free_threaded(v); v++)
		check_layout(raw, pylayout_find_free_threaded(v));
	if (debug_offsets_version(raw, &version, &ft) == 0)
		FUZZ_CHECK(n >= 24 && version == load_u32(data + 8));
	return 0;
}

#define SEED(a)                                       \
	{                                             \
		(const unsigned char *)(a), sizeof(a) \
	}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const struct bytes seeds[] = {
		SEED(offsets_3_13_0),	SEED(offsets_3_13_0t), SEED(offsets_3_14_10),
		SEED(offsets_3_14_10t), SEED(offsets_3_15_2),  SEED(offsets_3_15_2t),
	};

	return i < ARRAY_SIZE(seeds) ? fuzz_bytes(buf, cap, seeds[i].at, seeds[i].n) : 0;
}
