/* SPDX-License-Identifier: MIT */
#include "sample/perf_decode.h"

#include <errno.h>

#include "arch/arch.h"
#include "sample/perf_cursor.inc.h"

enum { WITNESS_TRAILER = PERF_TRAILER - 8 };

/* PERF_FORMAT_GROUP, ID and both times. */
static void take_reads(struct perf_cursor *c, struct perf_sample *s)
{
	uint64_t n = perf_take_u64(c);

	perf_take(c, 16); /* enabled and running, ns */
	if (n > c->left / 16) {
		c->bad = true;
		return;
	}
	s->n_reads = (uint32_t)n;
	s->reads = perf_take(c, n * 16);
}

static void take_chain(struct perf_cursor *c, struct perf_sample *s)
{
	uint64_t n = perf_take_u64(c);

	if (n > c->left / 8) {
		c->bad = true;
		return;
	}
	s->n_kchain = (uint32_t)n;
	s->kchain = perf_take(c, n * 8);
}

static void take_regs(struct perf_cursor *c, struct perf_sample *s)
{
	uint64_t abi = perf_take_u64(c);
	const unsigned char *regs;

	if (abi == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	regs = perf_take(c, arch_host->n_regs * 8u);
	if (!regs)
		return;
	s->have_user = true;
	s->regs = regs;
	s->user_ip = load_u64(regs + arch_host->ip * 8);
	s->user_sp = load_u64(regs + arch_host->sp * 8);
}

/* The record's last part, where it was asked for: what of the bytes is there says a word
 * behind them. */
static void take_stack(struct perf_cursor *c, struct perf_sample *s)
{
	uint64_t room = c->left ? perf_take_u64(c) : 0, n;
	const unsigned char *p;

	if (!room)
		return;
	p = room > c->left ? NULL : perf_take(c, room);
	n = p ? perf_take_u64(c) : 0;
	if (p && n <= room)
		s->stack = (struct bytes){ .at = p, .n = n };
	else
		c->bad = true;
}

int perf_decode_sample(const struct perf_event_header *h, uint64_t sample_type,
		       struct perf_sample *ret)
{
	struct perf_cursor c = perf_body(h);

	*ret = (struct perf_sample){ .misc = h->misc };
	ret->id = perf_take_u64(&c);
	ret->ip = perf_take_u64(&c);
	ret->pid = (pid_t)perf_take_u32(&c);
	ret->tid = (pid_t)perf_take_u32(&c);
	ret->time = perf_take_u64(&c);
	ret->addr = perf_take_u64(&c);
	ret->cpu = perf_take_u32(&c);
	perf_take_u32(&c);
	if (sample_type & PERF_SAMPLE_PERIOD)
		ret->period = perf_take_u64(&c);
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
	struct perf_cursor c = perf_body(h);

	*ret = (struct perf_sample){ .misc = h->misc };
	ret->id = perf_take_u64(&c);
	ret->pid = (pid_t)perf_take_u32(&c);
	ret->tid = (pid_t)perf_take_u32(&c);
	ret->time = perf_take_u64(&c);
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
static const char *take_string(struct perf_cursor *c)
{
	const char *s = (const char *)c->p;

	if (!memchr(s, '\0', c->left)) {
		c->bad = true;
		return "";
	}
	return s;
}

/* The number behind the string that take_string() gave, which ends at a multiple of 8. */
static uint64_t take_behind(struct perf_cursor *c, const char *string)
{
	for (size_t n = strlen(string) / 8 + 1; n--;)
		perf_take_u64(c);
	return perf_take_u64(c);
}

static void decode_mmap2(struct perf_cursor *c, uint16_t misc, struct side *s)
{
	s->kind = SIDE_MMAP;
	s->u.mmap.addr = perf_take_u64(c);
	s->u.mmap.len = perf_take_u64(c);
	s->u.mmap.pgoff = perf_take_u64(c);
	if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		const unsigned char *p = perf_take(c, 24);

		s->u.mmap.build_id_n = p ? MIN(p[0], 20) : 0;
		s->u.mmap.build_id = p ? p + 4 : NULL;
	} else {
		s->u.mmap.maj = perf_take_u32(c);
		s->u.mmap.min = perf_take_u32(c);
		s->u.mmap.ino = perf_take_u64(c);
		s->u.mmap.ino_generation = perf_take_u64(c);
	}
	s->u.mmap.prot = perf_take_u32(c);
	s->u.mmap.flags = perf_take_u32(c);
	s->u.mmap.path = take_string(c);
}

static void decode_task(struct perf_cursor *c, enum side_kind kind, struct side *s)
{
	s->kind = kind;
	s->pid = (pid_t)perf_take_u32(c);
	s->u.fork.ppid = (pid_t)perf_take_u32(c);
	s->tid = (pid_t)perf_take_u32(c);
	s->u.fork.ptid = (pid_t)perf_take_u32(c);
	s->time = perf_take_u64(c);
}

static int decode_body(struct perf_cursor *c, const struct perf_event_header *h,
		       struct side *s)
{
	switch (h->type) {
	case PERF_RECORD_MMAP2:
		s->pid = (pid_t)perf_take_u32(c);
		s->tid = (pid_t)perf_take_u32(c);
		decode_mmap2(c, h->misc, s);
		return 0;
	case PERF_RECORD_COMM:
		s->kind = SIDE_COMM;
		s->pid = (pid_t)perf_take_u32(c);
		s->tid = (pid_t)perf_take_u32(c);
		s->u.comm.exec = h->misc & PERF_RECORD_MISC_COMM_EXEC;
		s->u.comm.name = take_string(c);
		s->u.comm.thread = h->misc & PERF_MISC_THREAD_NAME;
		s->u.comm.until = s->u.comm.thread ? take_behind(c, s->u.comm.name) : 0;
		return 0;
	case PERF_RECORD_FORK:
		decode_task(c, SIDE_FORK, s);
		return 0;
	case PERF_RECORD_EXIT:
		decode_task(c, SIDE_EXIT, s);
		return 0;
	case PERF_RECORD_LOST:
		perf_take_u64(c);
		s->kind = SIDE_LOST;
		s->u.lost.n = perf_take_u64(c);
		return 0;
	case PERF_RECORD_LOST_SAMPLES:
		s->kind = SIDE_LOST;
		s->u.lost.n = perf_take_u64(c);
		return 0;
	case PERF_RECORD_THROTTLE:
		s->kind = SIDE_THROTTLE;
		return 0;
	default:
		return -ENOENT;
	}
}

/* Records of perf_event_witness() end without a CPU: it has none in its samples. Which event
 * tells what a ring lost is chance. */
static bool is_of_witness(const struct perf_event_header *h)
{
	size_t body = h->type == PERF_RECORD_LOST ? 16 : h->type == PERF_RECORD_THROTTLE ? 24 : 0;

	return body && h->size == sizeof(*h) + body + WITNESS_TRAILER;
}

static void witness_trailer(const unsigned char *end, struct perf_trailer *ret)
{
	*ret = (struct perf_trailer){ .pid = (pid_t)load_u32(end),
				      .tid = (pid_t)load_u32(end + 4),
				      .time = load_u64(end + 8),
				      .id = load_u64(end + 16) };
}

int perf_decode_side(const struct perf_event_header *h, struct side *ret)
{
	struct perf_cursor c = perf_body(h);
	const bool witness = is_of_witness(h);
	const size_t n = witness ? WITNESS_TRAILER : PERF_TRAILER;
	struct perf_trailer t;

	*ret = (struct side){ 0 };
	if (c.left < n)
		return -EBADMSG;
	c.left -= n;
	if (witness)
		witness_trailer(c.p + c.left, &t);
	else
		perf_decode_trailer(c.p + c.left, &t);
	ret->pid = t.pid;
	ret->tid = t.tid;
	ret->time = t.time;
	ret->cpu = t.cpu;
	ret->announced = !t.id; /* it is of no event */
	if (decode_body(&c, h, ret) < 0)
		return -ENOENT;
	return c.bad ? -EBADMSG : 0;
}

int perf_decode_side_before(const struct perf_event_header *h, size_t n, struct side *ret)
{
	struct perf_cursor c = perf_body(h);

	*ret = (struct side){ 0 };
	if (c.left < n)
		return -EBADMSG;
	c.left -= n;
	if (decode_body(&c, h, ret) < 0)
		return -ENOENT;
	return c.bad ? -EBADMSG : 0;
}
