/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "bench.h"
#include "base/clock.h"
#include "sample/perf_decode.h"
#include "perf_event.h"
#include "sys/proc.h"

enum { MAX_THREADS = 64, RING_PAGES = 256, SECONDS = 60 };

static int push(struct bench_samples *all, const struct perf_sample *p)
{
	struct bench_sample s = { .pid = p->pid, .tid = p->tid };
	unsigned char *copy = malloc(p->stack.n + 1);

	if (all->n == all->cap) {
		size_t cap = all->cap * 2 + 1024;
		struct bench_sample *more = reallocarray(all->s, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		all->s = more;
		all->cap = cap;
	}
	if (!copy)
		return -ENOMEM;
	memcpy(copy, p->stack.at, p->stack.n);
	unwind_regs_perf(&s.regs, p->regs);
	s.mem.piece[0].at = p->user_sp;
	s.mem.piece[0].bytes = (struct bytes){ copy, p->stack.n };
	all->s[all->n++] = s;
	return 0;
}

static int drain(struct bench_samples *all, struct perf_ring *r, uint64_t type, size_t want)
{
	static unsigned char bounce[PERF_RECORD_BYTES] __attribute__((__aligned__(8)));
	uint64_t at = perf_ring_tail(r), head = perf_ring_head(r);

	while (at < head) {
		const struct perf_event_header *h = perf_ring_at(r, at, bounce);
		struct perf_sample p;

		if (!h)
			return -EBADMSG;
		if (h->type == PERF_RECORD_SAMPLE && perf_decode_sample(h, type, &p) == 0 &&
		    p.regs && p.stack.n > 0 && all->n < want)
			if (push(all, &p) < 0)
				return -ENOMEM;
		at += h->size;
	}
	perf_ring_consume(r, head);
	return 0;
}

int bench_capture(struct bench_samples *ret, pid_t pid, size_t want, uint32_t stack,
		  uint64_t hz)
{
	struct perf_options o = { .freq = true, .value = hz, .stack = stack };
	struct perf_spec spec = { .type = PERF_TYPE_SOFTWARE,
				  .config = PERF_COUNT_SW_CPU_CLOCK };
	struct perf_event_attr attr = perf_event_attr_of(&spec, &o);
	static struct perf_ring ring[MAX_THREADS];
	_cleanup_free_ pid_t *tids = NULL;
	uint64_t until = now_ns() + SECONDS * 1000000000ull;
	size_t n = 0, n_rings = 0;
	int r = proc_tasks(pid, &tids, &n);

	*ret = (struct bench_samples){ 0 };
	for (size_t i = 0; r == 0 && i < MIN(n, MAX_THREADS); i++) {
		r = perf_ring_map(&ring[i], &attr, tids[i], -1, RING_PAGES);
		n_rings += r == 0;
	}
	while (r == 0 && ret->n < want && now_ns() < until) {
		poll(NULL, 0, 5);
		for (size_t i = 0; r == 0 && i < n_rings; i++)
			r = drain(ret, &ring[i], attr.sample_type, want);
	}
	for (size_t i = 0; i < n_rings; i++)
		perf_ring_close(&ring[i]);
	return r;
}

void bench_samples_free(struct bench_samples *s)
{
	for (size_t i = 0; i < s->n; i++)
		elfimage_free(&s->s[i].mem.piece[0].bytes);
	free(s->s);
}
