/* SPDX-License-Identifier: MIT
 *
 * fuzz_decode - perf records of any kind of bytes.
 */
#include "../unit/perf_records.h"
#include "watch/proof.h"
#include "fuzz.h"

static void check_sample(const struct perf_event_header *h, uint64_t sample_type)
{
	const unsigned char *end = (const unsigned char *)h + h->size;
	struct perf_sample s;

	if (perf_decode_sample(h, sample_type, &s) < 0)
		return;
	FUZZ_CHECK(sample_type & PERF_SAMPLE_CALLCHAIN || !s.n_kchain);
	FUZZ_CHECK(sample_type & PERF_SAMPLE_PERIOD || !s.period);
	FUZZ_CHECK(s.have_user || (!s.user_ip && !s.regs));
	FUZZ_CHECK(!s.regs || s.regs + 8 * (size_t)arch_host->n_regs <= end);
	FUZZ_CHECK(!s.stack.n || s.stack.n <= (size_t)(end - s.stack.at));
	FUZZ_CHECK(!s.n_kchain || s.kchain > (const unsigned char *)h);
	FUZZ_CHECK(!s.n_kchain || s.n_kchain <= (size_t)(end - s.kchain) / 8);
}

static void check_side(const struct perf_event_header *h)
{
	const char *end = (const char *)h + h->size - PERF_TRAILER;
	const char *s = NULL;
	struct side side;

	if (perf_decode_side(h, &side) < 0)
		return;
	if (side.kind == SIDE_COMM)
		s = side.u.comm.name;
	else if (side.kind == SIDE_MMAP)
		s = side.u.mmap.path;
	FUZZ_CHECK(!s || (s > (const char *)h && s + strlen(s) < end));
	if (side.kind == SIDE_MMAP && side.u.mmap.build_id) {
		FUZZ_CHECK(side.u.mmap.build_id_n <= 20);
		FUZZ_CHECK((const char *)side.u.mmap.build_id + 20 <= end);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct perf_event_header *h;
	struct proof_switch sw;

	if (n < sizeof(*h) || n > UINT16_MAX)
		return 0;
	/* The ring's reader has seen to it that the size is right. */
	h = malloc(n);
	memcpy(h, data, n);
	h->size = (uint16_t)n;
	check_sample(h, 0);
	check_sample(h, PERF_SAMPLE_PERIOD);
	check_sample(h, PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN);
	check_side(h);
	if (proof_is_switch(h, (unsigned char *)h + n - PERF_TRAILER, &sw))
		FUZZ_CHECK(h->type == PERF_RECORD_SWITCH ||
			   h->type == PERF_RECORD_SWITCH_CPU_WIDE);
	free(h);
	return 0;
}

static void seed_mmap(struct record *r, uint16_t misc)
{
	record_begin(r, PERF_RECORD_MMAP2, misc);
	for (uint64_t i = 0; i < 8; i++)
		record_u64(r, 20 - i);
	record_str(r, "/usr/lib/libpython3.12.so.1.0");
	record_trailer(r, 71, 5);
}

static void seed_numbers(struct record *r, uint32_t type)
{
	record_begin(r, type, 0);
	for (uint64_t i = 0; i < 3; i++)
		record_u64(r, i);
	record_trailer(r, 71, 5);
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	struct record r;

	switch (i) {
	case 0:
		record_sample(&r, 5, 4, 0x7f0000401234);
		break;
	case 1:
		record_sample(&r, 5, -1, 0);
		break;
	case 2:
		record_comm(&r, PERF_RECORD_MISC_COMM_EXEC, "python3", 5);
		break;
	case 3:
		seed_mmap(&r, 0);
		break;
	case 4:
		seed_mmap(&r, PERF_RECORD_MISC_MMAP_BUILD_ID);
		break;
	case 5:
		record_switch(&r, PERF_RECORD_MISC_SWITCH_OUT, 71, 5);
		break;
	case 6:
		seed_numbers(&r, PERF_RECORD_FORK);
		break;
	case 7:
		seed_numbers(&r, PERF_RECORD_LOST);
		break;
	case 8:
		record_sample(&r, 5, 4, 0x7f0000401234);
		for (uint64_t k = 0; k < 6; k++)
			record_u64(&r, k ? 24 : 32);
		break;
	default:
		return 0;
	}
	return fuzz_bytes(buf, cap, r.bytes, r.n);
}
