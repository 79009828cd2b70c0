/* SPDX-License-Identifier: MIT
 *
 * pystack_cache - what is remembered from sample to sample: its memory, and a thread's entry.
 */
#include "python/pystack_int.h"
#include "base/resident.h"
#include "base/sparse.h"

/* X(field, bytes, how many of them nearly each read touches): the arrays of a struct pystack
 * @p. */
#define ARRAYS(X)                                                                         \
	X(threads, N_THREADS * sizeof(*p->threads), 0)                                    \
	X(states, N_LISTS * sizeof(*p->states), 0)                                        \
	X(met_rows, (N_MET + 1) * FIND_MAX * sizeof(*p->met_rows), 0)                     \
	X(codes, N_CODES * sizeof(*p->codes), 8192)                                       \
	X(code_index, N_CODES * sizeof(*p->code_index), N_CODES * sizeof(*p->code_index)) \
	X(walked, PYWALK_MAX_FRAMES * sizeof(*p->walked), 4096)                           \
	X(frames, PYWALK_MAX_FRAMES * sizeof(*p->frames), 4096)                           \
	X(seen, PYWALK_MAX_FRAMES * sizeof(*p->seen), 4096)                               \
	X(anchors, PYWALK_MAX_FRAMES * sizeof(*p->anchors), 4096)                         \
	X(several, sizeof(*p->several), 0)                                                \
	X(join, sizeof(*p->join), 0)                                                      \
	X(copy, PYCODE_COPY_MAX, 4096)                                                    \
	X(bytes, BATCH_BYTES, 49152)

struct pystack *pystack_create(uint32_t max_frames,
			       bool (*new_code)(void *, uint64_t, const struct pycode_copy *),
			       void *arg)
{
	void *block = sparse_alloc(pystack_bytes());

	return block ? pystack_place(block, max_frames, new_code, arg) : NULL;
}

struct pystack *pystack_place(void *block, uint32_t max_frames,
			      bool (*new_code)(void *, uint64_t, const struct pycode_copy *),
			      void *arg)
{
	struct pystack *p = block;
	char *at = (char *)p + sparse_room(sizeof(*p));

	/* Which thread calls matters little: the block is touched by who reads stacks. */
	p->max_frames = MIN(max_frames, PYWALK_MAX_FRAMES);
	p->new_code = new_code;
	p->next_id = 1;
	p->thread_mask = N_THREADS_FIRST - 1;
	p->arg = arg;
#define X(field, n, first)     \
	p->field = (void *)at; \
	at += sparse_room(n);
	ARRAYS(X)
#undef X
	for (uint32_t i = 0; i <= N_MET; i++)
		p->met[i].list = (struct pyframe_met){ .row = p->met_rows + i * FIND_MAX,
						       .cap = FIND_MAX };
	return p;
}

void pystack_destroy(struct pystack *p)
{
	free(p);
}

size_t pystack_bytes(void)
{
	const struct pystack *p = NULL;

#define X(field, n, first) +sparse_room(n)
	return sparse_room(sizeof(*p)) ARRAYS(X);
#undef X
}

void pystack_warm(struct pystack *p)
{
	resident_touch(p, sizeof(*p));
#define X(field, n, first) resident_touch(p->field, first);
	ARRAYS(X)
#undef X
}

static void count_anew(struct pystack *p)
{
	memset(p->left, 0, sizeof(p->left));
	p->n_left = p->n_back = 0;
}

/* The thread @tid takes the entry of @old. */
static void replace(struct pystack *p, pid_t tid, pid_t old)
{
	p->n_back += p->left[(uint32_t)tid % N_THREADS] == tid;
	if (old)
		p->left[(uint32_t)old % N_THREADS] = old;
	p->n_left += old != 0;
	if (p->n_back > MOST_BACK && p->thread_mask + 1 < N_THREADS) {
		p->thread_mask = 2 * p->thread_mask + 1;
		count_anew(p);
	} else if (p->n_left > N_LEFT) {
		count_anew(p);
	}
}

struct thread *pystack_thread(struct pystack *p, int program, pid_t tid, uint32_t level)
{
	uint32_t h = ((uint32_t)tid * 2654435761u >> 21) +
		     PYSTACK_SEVERAL * ((uint32_t)program % PYSTACK_SEVERAL);
	struct thread *th = &p->threads[(h + level) & p->thread_mask];

	if (level == 0 && th->tid != tid) {
		replace(p, tid, th->tid);
		th = &p->threads[h & p->thread_mask];
	}
	/* Levels are fewer than entries: one of the same thread is of the same level. */
	if (th->tid != tid || th->program != program)
		*th = (struct thread){ .program = program, .tid = tid, .level = level };
	return th;
}

/* True: it is one of the interpreters of @program. */
static bool is_of(int one, int program)
{
	return one >= program && one - program < PYSTACK_SEVERAL;
}

void pystack_forget_codes(struct pystack *p, int program)
{
	for (size_t i = 0; i < p->n_codes; i++)
		if (is_of(p->codes[i].program, program))
			p->codes[i].id = 0;
}
