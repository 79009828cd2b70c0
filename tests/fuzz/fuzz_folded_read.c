/* SPDX-License-Identifier: MIT
 *
 * fuzz_folded_read - folded stacks of any tool, or of none.
 */
#include <errno.h>

#include "../../output/folded_read.h"
#include "fuzz.h"

static int take_side(struct sink *s, const struct side *side)
{
	(void)s;
	FUZZ_CHECK(side->kind == SIDE_COMM && side->pid >= 0 && side->tid >= 0);
	FUZZ_CHECK(!strpbrk(side->u.comm.name, "\n;"));
	return 0;
}

/* Each is whole, and its numbers are none that a format would trip over. */
static int take_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	FUZZ_CHECK(smp->pid >= 0 && smp->tid >= 0);
	for (size_t i = 0; i < stk->n; i++) {
		const struct frame *fr = &stk->frames[i];
		bool python = fr->kind == FRAME_PYTHON;
		const char *name = python ? fr->func->qualname : fr->name;

		FUZZ_CHECK(!strpbrk(name, "\n;"));
		FUZZ_CHECK(!python || (fr->line >= 0 && strlen(fr->func->file) >= 3));
	}
	s->samples++;
	return 0;
}

static const struct sink_ops ops = { .side = take_side, .sample = take_sample };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct sink s = { .ops = &ops };
	FILE *in = n ? fmemopen((void *)(uintptr_t)data, n, "r") : NULL;
	struct session session = { .n_events = 1 };
	size_t line;
	int ret;

	if (!in)
		return 0;
	FUZZ_CHECK(folded_look(in, &session) == 0);
	rewind(in);
	ret = folded_read(in, &session, &s, &line);
	FUZZ_CHECK(ret == 0 || ret == -EBADMSG || ret == -EOVERFLOW);
	FUZZ_CHECK(s.samples < line);
	fclose(in);
	return 0;
}

static const char *const seeds[] = {
	("python3-10;event:cpu-clock;f 1\npython3-10;event:x 2\n"),
	("python3-10/worker-11;main (/srv/a.py:7);f (<string>:2);nap;[late];sys_[k] 12\n"
	 "python3-10;main (/srv/a.py:9) 3\n"),
	"java;f(int);b (x) 1\n\nc d-4;(.py) 18446744073709551615",
	"-1/-2;f (.py:);g (<>:1);[] 1\n",
};

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	return i < ARRAY_SIZE(seeds) ? fuzz_bytes(buf, cap, seeds[i], strlen(seeds[i])) : 0;
}
