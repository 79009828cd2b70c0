/* SPDX-License-Identifier: MIT
 *
 * rest - how much of a thread's stack unwinding wants, and the part of it that the kernel
 * did not copy.
 *
 * PERF_SAMPLE_STACK_USER ends at the size asked for, and at the first page that is not
 * there, which may be the never touched middle of a large frame. Where the Python stack is
 * known its outermost activation tells how far the C stack has to reach. Nor does it bring the
 * red zone, in which assembly keeps its caller's stack pointer. If all activations are far
 * away, the thread is on a stack for signals, or very deep in C: what is near them is read
 * too.
 */
#include "capture/reader_int.h"

/* ROOT_BYTES: from the outermost activation of the interpreter to the thread's first frame,
 * where it is not known where that lies. */
enum { ROOT_BYTES = 4096, PAGE = 4096, UNKNOWN_BYTES = 16 << 10, ABOVE_BYTES = 16 << 10 };

/* Where the wanted part ends: a program that Python is embedded in may have large frames above
 * the outermost activation. 0: not known. */
static raddr wanted_end(raddr sp, const struct pystack_result *res)
{
	raddr top = 0;

	if (res->end != PYSTACK_OK || !res->n_anchors)
		return 0;
	for (uint32_t i = 0; i < res->n_anchors; i++)
		if (res->anchors[i].at > sp && res->anchors[i].at - sp < REST_BYTES)
			top = MAX(top, res->anchors[i].at);
	/* Up to 3.10 no activation tells where it lies. */
	if ((top || res->anchors[0].at == PYSTACK_IN_LOOP) && res->root > MAX(top, sp) &&
	    res->root - sp <= REST_BYTES)
		return res->root;
	return top ? top + ROOT_BYTES : 0;
}

void rest_size(const struct reader *r, const struct pending *p, const struct walk *w,
	       struct q_sample *q)
{
	const struct perf_sample *s = &p->s;
	const struct rest *rest = &w->rest;
	/* Activations of another moment don't tell how far the stack of this one goes. */
	raddr end = p->held ? wanted_end(s->user_sp, &w->res) : 0;

	if (!r->c->native || !s->regs)
		return;
	q->n_regs = arch_host->n_regs;
	q->n_stack = (uint32_t)(end ? MIN(end - s->user_sp, s->stack.n) : s->stack.n);
	q->stack_at = s->user_sp;
	if (!p->held)
		return;
	if (s->user_sp == rest->far_sp) {
		q->far_at = rest->at;
		q->n_far = rest->n;
	} else if (s->user_sp + q->n_stack == rest->at) {
		q->n_stack += rest->n;
	}
	if (s->user_sp == rest->red_end) {
		q->stack_at -= RED_BYTES;
		q->n_stack += RED_BYTES;
	}
}

void rest_copy(const struct reader *r, const struct perf_sample *s, struct q_sample *q)
{
	size_t red = s->user_sp - q->stack_at, n;

	if (!q->n_regs)
		return;
	memcpy(q_regs(q), s->regs, q->n_regs * 8u);
	if (!q->n_stack)
		return;
	n = MIN(q->n_stack - red, s->stack.n);
	memcpy(q_stack(q), r->red, red);
	if (n)
		memcpy(q_stack(q) + red, s->stack.at, n);
	memcpy(q_stack(q) + red + n, r->rest, q->n_stack - red - n);
	memcpy(q_far(q), r->rest, q->n_far);
}

_Static_assert(REST_BYTES / PAGE + 1 <= RMEM_MAX_VEC, "what is read at most is one call");

/* Page by page, so that what is there before a hole comes. */
static uint32_t read_pages(struct reader *r, raddr at, raddr end)
{
	struct rmem_vec v[RMEM_MAX_VEC];
	size_t n = 0, done;
	uint32_t got = 0;

	if (at >= end)
		return 0;
	do {
		raddr next = MIN((at + PAGE) & ~(raddr)(PAGE - 1), end);

		v[n++] = (struct rmem_vec){ at, r->rest + got, next - at };
		got += (uint32_t)(next - at);
		at = next;
	} while (at < end);
	for (done = rmem_readv(&r->mem.base, v, n); done < n; done++)
		got -= (uint32_t)v[done].n;
	return got;
}

/* Around the activations of the interpreter, which are not above @sp: from what the innermost
 * one may have called on. */
static void read_far(struct reader *r, raddr sp, struct walk *w)
{
	struct rest *rest = &w->rest;

	for (raddr above = ABOVE_BYTES; above && !rest->n; above /= 8) {
		rest->at = (w->res.anchors[0].at - above) & ~(raddr)7;
		rest->n =
			read_pages(r, rest->at,
				   MIN(wanted_end(rest->at, &w->res), rest->at + REST_BYTES));
	}
	rest->far_sp = sp;
}

void rest_read(struct reader *r, const struct perf_sample *s, struct rmem *red, struct walk *w)
{
	struct rest *rest = &w->rest;
	raddr end;

	if (!r->c->native || !s->regs)
		return;
	if (rmem_read(red, s->user_sp - RED_BYTES, r->red, RED_BYTES) == 0)
		rest->red_end = s->user_sp;
	end = wanted_end(s->user_sp, &w->res);
	if (!end && w->res.end == PYSTACK_OK && w->res.n_anchors &&
	    w->res.anchors[0].at > ABOVE_BYTES) {
		read_far(r, s->user_sp, w);
		return;
	}
	rest->at = s->user_sp + s->stack.n;
	/* Of a thread without Python it is not known how far: OpenBLAS has frames of 16 KiB.
	 */
	if (!end)
		end = rest->at + UNKNOWN_BYTES;
	rest->n = read_pages(r, rest->at, MIN(end, rest->at + REST_BYTES));
}
