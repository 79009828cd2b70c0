/* SPDX-License-Identifier: MIT
 *
 * fuzz_tape_read - a tape of anybody's, read for its samples: the file itself, or the chunks
 * in it, which are packed here so that the fuzzer can get at them.
 */
#include <errno.h>
#include <limits.h>
#include <zstd.h>

#include "../../output/tape_read.h"
#include "../tapes/whole.h"
#include "fuzz.h"
#include "tape_story.h"

static int take_side(struct sink *s, const struct side *side)
{
	FUZZ_CHECK(side->kind <= SIDE_THROTTLE);
	if (side->kind == SIDE_MMAP)
		FUZZ_CHECK(s->ops->needs & SINK_NEEDS_IDS &&
			   strlen(side->u.mmap.path) < PATH_MAX);
	if (side->kind == SIDE_COMM)
		FUZZ_CHECK(!strchr(side->u.comm.name, '\n'));
	return 0;
}

static int take_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	FUZZ_CHECK(smp->event < s->session->n_events && smp->prov < PROV_N);
	for (size_t i = 0; i < stk->n; i++) {
		const struct frame *f = &stk->frames[i];

		FUZZ_CHECK(f->kind <= FRAME_MARKER && f->line >= 0);
		if (f->kind == FRAME_PYTHON)
			FUZZ_CHECK(f->func->min <= f->func->max && f->func->qualname &&
				   f->func->file);
		else
			FUZZ_CHECK(f->kind != FRAME_MARKER || f->name);
		if (f->name)
			FUZZ_CHECK(!strchr(f->name, '\n'));
	}
	return 0;
}

static void read_file(const void *at, size_t n, unsigned needs)
{
	const struct sink_ops ops = {
		.needs = needs, .side = take_side, .sample = take_sample
	};
	struct sink s = { .ops = &ops };
	FILE *in = fmemopen((void *)(uintptr_t)at, n, "r");
	struct tape_reader *r;
	struct err err;
	int ret = tape_reader_open(&r, in, "fuzz.tape", &err);

	if (!ret) {
		s.session = tape_reader_session(r);
		ret = tape_reader_run(r, &s);
		tape_reader_close(r);
	}
	FUZZ_CHECK(ret == 0 || ret == -EBADMSG || ret == -ENOENT);
	fclose(in);
}

/* The first byte chooses. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	size_t cap = ZSTD_compressBound(n + 8), packed;
	uint8_t *plain, *file;

	if (n < 2)
		return 0;
	if (data[0] & 1) {
		read_file(data + 1, n - 1, 0);
		return 0;
	}
	plain = malloc(n + 7);
	file = malloc(cap);
	memcpy(plain, TAPE_MAGIC, 8);
	memcpy(plain + 8, data + 1, n - 1);
	packed = ZSTD_compress(file, cap, plain, n + 7, 1);
	FUZZ_CHECK(!ZSTD_isError(packed));
	read_file(file, packed, data[0] & 2 ? SINK_KNOWS_STACKS : SINK_NEEDS_IDS);
	free(plain);
	free(file);
	return 0;
}

/* Packed, and twice its chunks: with stacks and without room for them. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static struct session session = { .n_events = 2,
					  .events = { { .name = "cycles" },
						      { .name = "faults" } } };
	static const uint8_t how[] = { 1, 0, 2 };
	size_t n, ret;
	struct tape t;
	char *at;
	FILE *out;

	if (i >= ARRAY_SIZE(how))
		return 0;
	out = open_memstream(&at, &n);
	session.memory = i == 2;
	session.told = story_told();
	story_tell(&session, out);
	fclose(out);
	ret = fuzz_bytes(buf, cap, &how[i], 1);
	if (i == 0) {
		ret += fuzz_bytes(buf + 1, cap - 1, at, n);
	} else if (!tape_load(&t, (struct bytes){ (unsigned char *)at, n }, 1 << 20, NULL)) {
		ret += fuzz_bytes(buf + 1, cap - 1, t.data, t.n);
		tape_deinit(&t);
	}
	free(at);
	return ret;
}
