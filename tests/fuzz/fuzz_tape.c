/* SPDX-License-Identifier: MIT
 *
 * fuzz_tape - the chunks and fields of an unpacked tape. (What zstd unpacks is tape_test's.)
 */
#include "../tapes/whole.h"
#include "fuzz.h"
#include "sample/tape.h"

static void check_chunk(struct bytes chunk)
{
	struct bytes b;
	char text[16];

	for (enum tape_tag tag = 0; tag < TAPE_TAGS; tag++) {
		tape_get_text(chunk, tag, text, sizeof(text));
		FUZZ_CHECK(strlen(text) < sizeof(text));
		if (!tape_field(chunk, tag, &b))
			continue;
		FUZZ_CHECK(b.at >= chunk.at && b.n <= (size_t)(chunk.at + chunk.n - b.at));
		FUZZ_CHECK(b.n != 8 || tape_get(chunk, tag, 0) == load_u64(b.at));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct tape t = { .data = malloc(n ? n : 1), .n = n };
	struct bytes chunk;
	uint32_t type;
	size_t pos = 0;

	memcpy(t.data, data, n);
	while (tape_next(&t, &pos, &type, &chunk)) {
		FUZZ_CHECK(pos <= n && chunk.n <= n);
		check_chunk(chunk);
	}
	tape_deinit(&t);
	return 0;
}

/* A ring's chunk with a number, bytes and a text. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	struct tape_head h = { .n = 0 };
	uint32_t header[2] = { TAPE_RING };
	size_t n;

	if (i > 0)
		return 0;
	tape_put(&h, TAPE_SLOT_INDEX, 3);
	tape_put_bytes(&h, TAPE_BYTES, "abc", 3);
	tape_put_bytes(&h, TAPE_NAME, "cpu-clock", 9);
	header[1] = (uint32_t)h.n;
	n = fuzz_bytes(buf, cap, header, sizeof(header));
	n += fuzz_bytes(buf + n, cap - n, h.bytes, h.n);
	return n;
}
