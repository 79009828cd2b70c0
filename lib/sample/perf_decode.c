/* SPDX-License-Identifier: MIT */
#include "sample/perf_decode.h"

#include <errno.h>

#include "arch/arch.h"

/* What is left of a record. */
struct cursor {
	const unsigned char *p;
	size_t left;
	bool bad;
};

static const unsigned char *take(struct cursor *c, size_t n)
{
	const unsigned char *p = c->p;

	if (n > c->left) {
		c->bad = true;
		return NULL;
	}
	c->p += n;
	c->left -= n;
	return p;
}

static uint64_t take_u64(struct cursor *c)
{
	const unsigned char *p = take(c, 8);

	return p ? load_u64(p) : 0;
}

static uint32_t take_u32(struct cursor *c)
{
	const unsigned char *p = take(c, 4);

	return p ? load_u32(p) : 0;
}

static struct cursor body_of(const struct perf_event_header *h)
{
	return (struct cursor){
		.p = (const unsigned char *)(h + 1),
		.left = h->size < sizeof(*h) ? 0 : h->size - sizeof(*h),
	};
}

/* PERF_FORMAT_GROUP, ID and both times. */
static void take_reads(struct cursor *c, struct perf_sample *s)
{
	uint64_t n = take_u64(c);

	take(c, 16); /* enabled and running, ns */
	if (n > c->left / 16) {
		c->bad = true;
		return;
	}
	s->n_reads = (uint32_t)n;
	s->reads = take(c, n * 16);
}

static void take_chain(struct cursor *c, struct perf_sample *s)
{
	uint64_t n = take_u64(c);

	if (n > c->left / 8) {
		c->bad = true;
		return;
	}
	s->n_kchain = (uint32_t)n;
	s->kchain = take(c, n * 8);
}

static void take_regs(struct cursor *c, struct perf_sample *s)
{
	uint64_t abi = take_u64(c);
	const unsigned char *regs;

	if (abi == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	regs = take(c, arch_host->n_regs * 8u);
	if (!regs)
		return;
	s->have_user = true;
	s->regs = regs;
	s->user_ip = load_u64(regs + arch_host->ip * 8);
	s->user_sp = load_u64(regs + arch_host->sp * 8);
}

/* The record's last part, where it was asked for: what of the bytes is there says a word
 * behind them. */
static void take_stack(struct cursor *c, struct perf_sample *s)
{
	uint64_t room = c->left ? take_u64(c) : 0, n;
	const unsigned char *p;

	if (!room)
		return;
	p = room > c->left ? NULL : take(c, room);
	n = p ? take_u64(c) : 0;
	if (p && n <= room)
		s->stack = (struct bytes){ .at = p, .n = n };
	else
		c->bad = true;
}

int perf_decode_sample(const struct perf_event_header *h, uint64_t sample_type,
		       struct perf_sample *ret)
{
	struct cursor c = body_of(h);

	*ret = (struct perf_sample){ .misc = h->misc };
	ret->id = take_u64(&c);
	ret->ip = take_u64(&c);
	ret->pid = (pid_t)take_u32(&c);
	ret->tid = (pid_t)take_u32(&c);
	ret->time = take_u64(&c);
	ret->addr = take_u64(&c);
	ret->cpu = take_u32(&c);
	take_u32(&c);
	if (sample_type & PERF_SAMPLE_PERIOD)
		ret->period = take_u64(&c);
	if (sample_type & PERF_SAMPLE_READ)
		take_reads(&c, ret);
	if (sample_type & PERF_SAMPLE_CALLCHAIN)
		take_chain(&c, ret);
	take_regs(&c, ret);
	take_stack(&c, ret);
	return c.bad ? -EBADMSG : 0;
}

int perf_decode_witness(const struct perf_event_header *h, bool read, struct perf_sample *ret)
{
	struct cursor c = body_of(h);

	*ret = (struct perf_sample){ .misc = h->misc };
	ret->id = take_u64(&c);
	ret->pid = (pid_t)take_u32(&c);
	ret->tid = (pid_t)take_u32(&c);
	ret->time = take_u64(&c);
	if (read)
		take_reads(&c, ret);
	take_regs(&c, ret);
	return c.bad || c.left ? -EBADMSG : 0;
}

void perf_decode_trailer(const unsigned char *end, struct perf_trailer *ret)
{
	ret->pid = (pid_t)load_u32(end);
	ret->tid = (pid_t)load_u32(end + 4);
	ret->time = load_u64(end + 8);
	ret->cpu = load_u32(end + 16);
	ret->id = load_u64(end + 24);
}

/* A NUL-terminated string that ends inside the record. */
static const char *take_string(struct cursor *c)
{
	const char *s = (const char *)c->p;

	if (!memchr(s, '\0', c->left)) {
		c->bad = true;
		return "";
	}
	return s;
}

static void decode_mmap2(struct cursor *c, uint16_t misc, struct side *s)
{
	s->kind = SIDE_MMAP;
	s->u.mmap.addr = take_u64(c);
	s->u.mmap.len = take_u64(c);
	s->u.mmap.pgoff = take_u64(c);
	if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		const unsigned char *p = take(c, 24);

		s->u.mmap.build_id_n = p ? MIN(p[0], 20) : 0;
		s->u.mmap.build_id = p ? p + 4 : NULL;
	} else {
		s->u.mmap.maj = take_u32(c);
		s->u.mmap.min = take_u32(c);
		s->u.mmap.ino = take_u64(c);
		s->u.mmap.ino_generation = take_u64(c);
	}
	s->u.mmap.prot = take_u32(c);
	s->u.mmap.flags = take_u32(c);
	s->u.mmap.path = take_string(c);
}

static void decode_task(struct cursor *c, enum side_kind kind, struct side *s)
{
	s->kind = kind;
	s->pid = (pid_t)take_u32(c);
	s->u.fork.ppid = (pid_t)take_u32(c);
	s->tid = (pid_t)take_u32(c);
	s->u.fork.ptid = (pid_t)take_u32(c);
	s->time = take_u64(c);
}

static int decode_body(struct cursor *c, const struct perf_event_header *h, struct side *s)
{
	switch (h->type) {
	case PERF_RECORD_MMAP2:
		s->pid = (pid_t)take_u32(c);
		s->tid = (pid_t)take_u32(c);
		decode_mmap2(c, h->misc, s);
		return 0;
	case PERF_RECORD_COMM:
		s->kind = SIDE_COMM;
		s->pid = (pid_t)take_u32(c);
		s->tid = (pid_t)take_u32(c);
		s->u.comm.exec = h->misc & PERF_RECORD_MISC_COMM_EXEC;
		s->u.comm.name = take_string(c);
		s->u.comm.thread = h->misc & PERF_MISC_THREAD_NAME;
		s->u.comm.until = s->u.comm.thread ? take_u64(c) : 0;
		return 0;
	case PERF_RECORD_FORK:
		decode_task(c, SIDE_FORK, s);
		return 0;
	case PERF_RECORD_EXIT:
		decode_task(c, SIDE_EXIT, s);
		return 0;
	case PERF_RECORD_LOST:
		take_u64(c);
		s->kind = SIDE_LOST;
		s->u.lost.n = take_u64(c);
		return 0;
	case PERF_RECORD_LOST_SAMPLES:
		s->kind = SIDE_LOST;
		s->u.lost.n = take_u64(c);
		return 0;
	case PERF_RECORD_THROTTLE:
		s->kind = SIDE_THROTTLE;
		return 0;
	default:
		return -ENOENT;
	}
}

int perf_decode_side(const struct perf_event_header *h, struct side *ret)
{
	struct cursor c = body_of(h);
	struct perf_trailer t;

	*ret = (struct side){ 0 };
	if (c.left < PERF_TRAILER)
		return -EBADMSG;
	c.left -= PERF_TRAILER;
	perf_decode_trailer(c.p + c.left, &t);
	ret->pid = t.pid;
	ret->tid = t.tid;
	ret->time = t.time;
	ret->cpu = t.cpu;
	if (decode_body(&c, h, ret) < 0)
		return -ENOENT;
	return c.bad ? -EBADMSG : 0;
}

int perf_decode_side_before(const struct perf_event_header *h, size_t n, struct side *ret)
{
	struct cursor c = body_of(h);

	*ret = (struct side){ 0 };
	if (c.left < n)
		return -EBADMSG;
	c.left -= n;
	if (decode_body(&c, h, ret) < 0)
		return -ENOENT;
	return c.bad ? -EBADMSG : 0;
}
