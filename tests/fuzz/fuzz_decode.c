/* SPDX-License-Identifier: MIT
 *
 * fuzz_decode - perf records of any kind of bytes.
 */
#include "../unit/perf_records.h"
#include "watch/proof.h"
#include "fuzz.h"

static void note_sample(const struct perf_event_header *h, const struct perf_sample *s)
{
	const uint64_t all[] = { s->id,	 s->ip,	     s->time,	  s->addr,	(uint64_t)s->pid,
				 s->cpu, s->n_reads, s->n_kchain, s->have_user, (uint64_t)s->tid,
				 s->misc };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		fuzz_note(all[i]);
	fuzz_note(s->period);
	fuzz_note_place(s->n_reads ? s->reads : NULL, h);
	fuzz_note_place(s->n_kchain ? s->kchain : NULL, h);
	fuzz_note_place(s->regs, h);
	fuzz_note_place(s->stack.n ? s->stack.at : NULL, h);
	fuzz_note(s->stack.n);
	fuzz_note(s->have_user ? s->user_ip ^ s->user_sp << 1 : 0);
}

static void note_side(const struct side *s)
{
	fuzz_note((uint64_t)s->kind << 8 | s->announced);
	fuzz_note(s->time);
	fuzz_note((uint64_t)s->pid << 32 ^ (uint64_t)s->tid ^ (uint64_t)s->cpu << 16);
	if (s->kind == SIDE_COMM) {
		fuzz_note_text(s->u.comm.name);
		fuzz_note(s->u.comm.until ^ s->u.comm.exec ^ (uint64_t)s->u.comm.thread << 1);
	} else if (s->kind == SIDE_MMAP) {
		const uint64_t all[] = { s->u.mmap.addr, s->u.mmap.len,	 s->u.mmap.pgoff,
					 s->u.mmap.ino,	 s->u.mmap.maj,	 s->u.mmap.min,
					 s->u.mmap.prot, s->u.mmap.flags, s->u.mmap.kernel,
					 s->u.mmap.ino_generation };

		fuzz_note_bytes(all, sizeof(all));
		fuzz_note_text(s->u.mmap.path);
		if (s->u.mmap.build_id)
			fuzz_note_bytes(s->u.mmap.build_id, s->u.mmap.build_id_n);
	} else if (s->kind == SIDE_LOST) {
		fuzz_note(s->u.lost.n);
	} else if (s->kind != SIDE_THROTTLE) {
		fuzz_note((uint64_t)s->u.fork.ppid << 32 ^ (uint64_t)s->u.fork.ptid);
	}
}

static void check_witness(const struct perf_event_header *h, bool read)
{
	struct perf_sample s = { 0 };

	if (perf_decode_witness(h, read, &s) < 0)
		return;
	fuzz_note(s.id ^ s.time << 1 ^ (uint64_t)s.pid << 32 ^ (uint64_t)s.tid);
	fuzz_note(s.n_reads);
	fuzz_note_place(s.regs, h);
}

static void check_sample(const struct perf_event_header *h, uint64_t sample_type)
{
	const unsigned char *end = (const unsigned char *)h + h->size;
	struct perf_sample s;

	fuzz_note(sample_type);
	if (perf_decode_sample(h, sample_type, &s) < 0)
		return;
	note_sample(h, &s);
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
	note_side(&side);
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
	check_witness(h, false);
	check_witness(h, true);
	check_side(h);
	if (proof_is_switch(h, (unsigned char *)h + n - PERF_TRAILER, &sw)) {
		FUZZ_CHECK(h->type == PERF_RECORD_SWITCH ||
			   h->type == PERF_RECORD_SWITCH_CPU_WIDE);
		fuzz_note((uint64_t)sw.pid << 32 ^ (uint64_t)sw.tid);
		fuzz_note(sw.time << 2 ^ (uint64_t)sw.out << 1 ^ sw.preempt);
	}
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
