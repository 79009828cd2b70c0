/* SPDX-License-Identifier: MIT
 *
 * pystack_cache - what is remembered from sample to sample: its memory, and a thread's entry.
 */
#include "pystack_int.h"
#include "sparse.h"

struct pystack *pystack_create(uint32_t max_frames,
			       void (*new_code)(void *, uint64_t, const struct pycode_copy *),
			       void *arg)
{
	struct pystack *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	/* Which thread calls matters little: the blocks are touched by who reads stacks. */
	p->max_frames = MIN(max_frames, PYWALK_MAX_FRAMES);
	p->new_code = new_code;
	p->next_id = 1;
	p->arg = arg;
	p->threads = sparse_alloc(N_THREADS * sizeof(*p->threads));
	p->states = sparse_alloc(N_LISTS * sizeof(*p->states));
	p->codes = sparse_alloc(N_CODES * sizeof(*p->codes));
	p->code_index = sparse_alloc(N_CODES * sizeof(*p->code_index));
	p->walked = sparse_alloc(PYWALK_MAX_FRAMES * sizeof(*p->walked));
	p->frames = sparse_alloc(PYWALK_MAX_FRAMES * sizeof(*p->frames));
	p->seen = sparse_alloc(PYWALK_MAX_FRAMES * sizeof(*p->seen));
	p->anchors = sparse_alloc(PYWALK_MAX_FRAMES * sizeof(*p->anchors));
	p->copy = sparse_alloc(PYCODE_COPY_MAX);
	p->bytes = sparse_alloc(BATCH_BYTES);
	if (!p->threads || !p->states || !p->codes || !p->walked || !p->frames || !p->seen ||
	    !p->copy || !p->anchors || !p->bytes || !p->code_index) {
		pystack_destroy(p);
		return NULL;
	}
	return p;
}

void pystack_destroy(struct pystack *p)
{
	if (!p)
		return;
	free(p->threads);
	free(p->states);
	free(p->codes);
	free(p->code_index);
	free(p->walked);
	free(p->frames);
	free(p->seen);
	free(p->anchors);
	free(p->copy);
	free(p->bytes);
	free(p);
}

size_t pystack_bytes(void)
{
	const struct pystack *p = NULL;

	return sizeof(*p) + N_THREADS * sizeof(*p->threads) + N_LISTS * sizeof(*p->states) +
	       N_CODES * sizeof(*p->codes) + PYCODE_COPY_MAX + BATCH_BYTES +
	       PYWALK_MAX_FRAMES * (sizeof(*p->walked) + sizeof(*p->frames) +
				    sizeof(*p->seen) + sizeof(*p->anchors));
}

struct thread *pystack_thread(struct pystack *p, int program, pid_t tid, uint32_t level)
{
	uint32_t h = (uint32_t)tid * 2654435761u;
	struct thread *th = &p->threads[((h >> 21) + level) & (N_THREADS - 1)];

	if (th->tid != tid || th->program != program || th->level != level)
		*th = (struct thread){ .program = program, .tid = tid, .level = level };
	return th;
}

void pystack_forget(struct pystack *p, int program)
{
	for (size_t i = 0; i < N_THREADS; i++)
		if (p->threads[i].program == program)
			p->threads[i] = (struct thread){ 0 };
	for (size_t i = 0; i < N_LISTS; i++)
		if (p->states[i].program == program)
			p->states[i].unique = 0;
	for (size_t i = 0; i < p->n_codes; i++)
		if (p->codes[i].program == program)
			p->codes[i].id = 0;
}
