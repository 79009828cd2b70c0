/* SPDX-License-Identifier: MIT
 *
 * fuzz_walk - a target's memory of any kind of bytes: thread search, walk, stacks.
 *
 * An input is the number of a layout (one byte) and the memory from WORLD_AT on.
 */
#include <errno.h>

#include "../unit/pyworld.h"
#include "fuzz.h"
#include "python/pystack.h"

enum { TID = 7, FRAMES = 300, CODES = 3 };

static uint64_t last_id, sums[1 << 16]; /* of the codes, by their numbers */

static bool new_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	char name[PYCODE_NAME_MAX * 3 + 1];
	int min, max;

	FUZZ_CHECK(id == last_id + 1);
	last_id = id;
	FUZZ_CHECK(pycode_copy_valid(c, pycode_copy_size(c)));
	FUZZ_CHECK(pycode_copy_size(c) <= PYCODE_COPY_MAX);
	pycode_name(c, name, sizeof(name));
	pycode_line_range(c, &min, &max);
	FUZZ_CHECK(min <= max);
	sums[id % ARRAY_SIZE(sums)] = (uint64_t)min << 32 ^ (uint64_t)max ^ strlen(name) << 48 ^
				      (uint64_t)(unsigned char)name[0] << 24;
	return true;
}

static void check_walk(struct rmem *m, const struct pywalk_layout *l)
{
	struct pyframe f[FRAMES];
	uint64_t unique, again;
	struct pywalk w;
	raddr ts = 0;
	int r = pyframe_find_thread(m, l, TID, 64, NULL, &ts, &unique);

	FUZZ_CHECK((r == 0) <= (ts != 0));
	if (r == -ESRCH && unique)
		FUZZ_CHECK(pyframe_threads_unique(m, l, &again) == 0 && again == unique);
	fuzz_note(ts ^ (uint64_t)(uint32_t)r << 32);
	w = pyframe_walk(m, l, ts, f, FRAMES);
	fuzz_note((uint64_t)w.end << 32 | w.n);
	fuzz_note(w.first ^ w.cframe << 1 ^ w.next << 2);
	for (uint32_t i = 0; i < w.n; i++)
		fuzz_note(f[i].code ^ f[i].instr << 1 ^ f[i].frame << 2);
	FUZZ_CHECK(w.n <= FRAMES && w.end <= PYWALK_BROKEN);
	FUZZ_CHECK(w.end != PYWALK_LIMIT || w.n == FRAMES);
	if (w.n)
		FUZZ_CHECK((f[0].frame & ~(raddr)PYFRAME_BITS) == w.first);
}

static void note_stack(const struct pystack_result *r)
{
	fuzz_note((uint64_t)r->end << 32 | r->n);
	if (r->end != PYSTACK_OK)
		return;
	for (uint32_t i = 0; i < r->n; i++) {
		fuzz_note(sums[r->frames[i].code_id % ARRAY_SIZE(sums)]);
		fuzz_note((uint64_t)r->frames[i].lasti << 32 | r->frames[i].flags);
	}
	for (uint32_t i = 0; i < r->n_anchors; i++)
		fuzz_note(r->anchors[i].at ^ (uint64_t)r->anchors[i].n << 48);
	fuzz_note((uint64_t)r->truncated | (uint64_t)r->switching << 1 |
		  (uint64_t)r->code_lost << 2 | (uint64_t)r->several << 3);
	fuzz_note(r->tstate ^ r->first << 1 ^ r->root << 2);
	fuzz_note((uint64_t)r->number);
}

/* All of the memory is the stack of a thread that stands in it: of one whose number no state bears,
 * and of the one that was read, where another runtime has the same threads. */
static void check_placed(struct pystack *p, struct rmem *m, const struct pystack_target *t)
{
	const struct pystack_place place = { .sp = WORLD_AT + 64 };
	struct pystack_others others = { .n = 1, .of[0] = { .target = *t, .proven = true } };

	for (pid_t tid = TID; tid <= TID + 1; tid++) {
		struct pystack_result r;

		pystack_stands(p, &place);
		r = pystack_read_all(p, t, tid == TID ? &others : NULL, m, tid, tid);
		FUZZ_CHECK(r.n <= FRAMES && (r.end == PYSTACK_OK) == (r.n > 0));
		note_stack(&r);
	}
}

/* A process not seen before; twice through the same plan is the same answer, but for
 * ids: the table of codes may have been full and emptied in between. */
static void check_stack(struct rmem *m, const struct pystack_target *t)
{
	static struct pystack_frame first[FRAMES];
	static struct pystack *p;
	struct pystack_result r;
	uint32_t n;

	if (!p)
		p = pystack_create(FRAMES, new_code, NULL);
	r = pystack_read(p, t, m, TID, TID);
	FUZZ_CHECK(r.n <= FRAMES && (r.end == PYSTACK_OK) == (r.n > 0));
	for (uint32_t i = 0; i < r.n; i++)
		FUZZ_CHECK(r.frames[i].code_id && r.frames[i].code_id <= last_id);
	note_stack(&r);
	memcpy(first, r.frames, r.n * sizeof(*first));
	n = r.n;
	FUZZ_CHECK(r.end != PYSTACK_OK || pystack_unchanged(&r, m));
	r = pystack_read(p, t, m, TID, TID);
	FUZZ_CHECK(r.n == n);
	for (uint32_t i = 0; i < n; i++)
		FUZZ_CHECK(r.frames[i].lasti == first[i].lasti);
	check_placed(p, m, t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct rmem_chunk chunk = { .at = WORLD_AT, .n = n - 1, .bytes = data + 1 };
	const struct pylayout *const *all;
	static pid_t pid;
	struct pystack_target t = { .pid = pid = pid % 1000000 + 1 };
	struct rmem_image image;
	size_t n_all;

	if (n == 0)
		return 0;
	all = pylayout_all(&n_all);
	t.layout = *all[data[0] % n_all];
	pywalk_layout_init(&t.walk, &t.layout, WORLD_AT); /* the world's runtime */
	rmem_image_init(&image, &chunk, 1);
	check_walk(&image.base, &t.walk);
	check_stack(&image.base, &t);
	return 0;
}

/* Two interpreters, three threads, the second of which runs. A stack that is a circle
 * comes with a circle of interpreters, and the thread in the second. */
static void seed_world(struct world *w, const char *letters)
{
	raddr code[8], instr[8], some[CODES], ts, first;
	bool circle = strchr(letters, '@');

	w->chunk = 2048;
	for (uint32_t i = 0; i < CODES; i++)
		some[i] = world_code(w, &(struct world_code){ (char[]){ (char)('a' + i), 0 },
							      "/x.py", 10, 8, 1, i + 1 });
	for (uint32_t i = 0; letters[i]; i++) {
		code[i] = strchr("sb", letters[i]) ? 0 : some[i % CODES];
		instr[i] = world_instr(w, code[i], 2 + i % 4);
	}
	first = world_interp(w);
	world_thread(w, first, 5, true);
	ts = world_thread(w, circle ? world_interp(w) : first, TID, true);
	world_thread(w, circle ? first : world_interp(w), 6, true);
	world_put(w, w->last_interp, w->l.interp.next, circle ? first : 0, 8);
	world_stack(w, ts, letters, code, instr);
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const char *const stacks[][2] = {
		/* with entry frames, with shims */
		{ "fe", "fs" },
		{ "gfefe", "gfsfs" },
		{ "ffffe", "fffsb" },
		{ "fe@", "fs@" },
	};
	const struct pylayout *const *all;
	struct world *w;
	size_t n, n_all;

	all = pylayout_all(&n_all);
	if (i >= n_all * ARRAY_SIZE(stacks))
		return 0;
	w = world_create(all[i % n_all]);
	seed_world(w, stacks[i / n_all][all[i % n_all]->owner_shim != 0]);
	buf[0] = (uint8_t)(i % n_all);
	n = 1 + fuzz_bytes(buf + 1, cap - 1, w->mem, (size_t)(w->next - WORLD_AT));
	FUZZ_CHECK(w->runtime == WORLD_AT && n < cap);
	free(w);
	return n;
}
