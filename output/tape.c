/* SPDX-License-Identifier: MIT
 *
 * tape - the sink that keeps what came in, for replay, and what outputs got, for report, diff
 * and convert (lib/sample/tape.h). For a perf.data that is also where code was: addresses, maps
 * and build-ids.
 *
 * A name, a function or a stack is written before what first names it, and once, as long as
 * there is memory to know stacks by: beyond that each sample has its own.
 */
#include "sample/tape.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio_ext.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/idmap.h"
#include "base/strtab.h"
#include "buf.h"
#include "perf_file.h"
#include "perf_kernel.h"
#include "sink.h"

enum {
	FLUSH_MS = 200,	  /* what a killed recording may lose */
	MEMORY_SHARE = 4, /* of session.memory, one part in so many for stacks */
};

struct tape_sink {
	struct tape_writer *writer;
	struct idmap texts, funcs; /* by address, to their numbers */
	uint32_t n_texts, n_funcs;
	struct strtab *stacks; /* their bytes, by number */
	struct buf stack;      /* of the sample at hand */
	struct buf addresses;  /* of its frames that have one, u64 each */
	uint64_t flushed_ms;
	uint64_t written; /* samples that the writer took */
	uint64_t kept;	  /* samples in the first @kept_bytes of the file */
	off_t kept_bytes; /* written whole, as far as is known */
};

static int keep_first(struct sink *s, int r)
{
	if (r < 0 && !s->failed)
		s->failed = r;
	return r;
}

static int write_event(struct tape_writer *w, const struct session *s, size_t i)
{
	const struct event_info *e = &s->events[i];
	const struct event_how *how = &s->how[i];
	struct tape_head h = { .n = 0 };

	tape_put(&h, TAPE_INDEX, i);
	tape_put_bytes(&h, TAPE_NAME, e->name, strlen(e->name));
	tape_put_bytes(&h, TAPE_ATTR, &e->attr, sizeof(e->attr));
	tape_put(&h, TAPE_LEADER, how->leader);
	tape_put(&h, TAPE_FLAGS, s->flags);
	tape_put(&h, TAPE_NAMED, 1);
	tape_put(&h, TAPE_EPOCH, s->epoch_ns);
	tape_put(&h, TAPE_HOW,
		 (how->led ? TAPE_LED : 0u) | (how->read ? TAPE_HOW_READ : 0u) |
			 (how->probe ? TAPE_PROBE : 0u) | (how->jumps ? TAPE_JUMPS : 0u) |
			 (how->on_cpus ? TAPE_ON_CPUS : 0u));
	return tape_write(w, TAPE_EVENT, tape_head_bytes(&h), (struct bytes){ 0 });
}

static void tape_free(struct tape_sink *t)
{
	tape_writer_destroy(t->writer);
	strtab_destroy(t->stacks);
	idmap_deinit(&t->texts);
	idmap_deinit(&t->funcs);
	buf_deinit(&t->stack);
	buf_deinit(&t->addresses);
	*t = (struct tape_sink){ 0 };
}

static void clear(struct tape_head *h)
{
	h->n = 0;
	h->full = false;
}

static int put_body(struct tape_sink *t, enum tape_type type, struct tape_head *h,
		    const void *at, size_t n)
{
	tape_put_body(h, TAPE_BYTES, n);
	return tape_write(t->writer, type, tape_head_bytes(h), (struct bytes){ at, n });
}

static int tape_side(struct sink *s, const struct side *side);

static int begin_kernel_map(void *sink, const struct perf_kernel_map *map)
{
	return tape_side(sink, &(struct side){
				       .kind = SIDE_MMAP,
				       .pid = -1,
				       .announced = true,
				       .u.mmap = { .addr = map->addr,
						   .len = map->len,
						   .pgoff = map->pgoff,
						   .path = map->path,
						   .kernel = true,
						   .file_id = { map->id.at, map->id.n } } });
}

static int begin_told(struct sink *s)
{
	struct tape_head h = { .n = 0 };
	struct buf told = { 0 };
	int r;

	perf_file_told(&told, s->session);
	tape_put(&h, TAPE_N, s->session->shown);
	r = told.oom ? -ENOMEM : put_body(s->priv, TAPE_TOLD, &h, told.at, told.n);
	buf_deinit(&told);
	return r || !perf_kernel_is_wanted(s->session) ? r :
							 perf_kernel_maps(begin_kernel_map, s);
}

static int tape_begin(struct sink *s, struct err *err)
{
	struct tape_sink *t = s->priv;
	int r = 0;

	t->writer = tape_writer_create(s->out, err);
	if (!t->writer)
		return keep_first(s, -ENOMEM);
	t->stacks = strtab_create();
	if (!t->stacks)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < s->session->n_events; i++)
		r = write_event(t->writer, s->session, i);
	if (r == 0)
		r = begin_told(s);
	if (r == 0)
		return 0;
	tape_free(t);
	err_set(err, r, "%s: %s", s->path, strerror(-r));
	return keep_first(s, r);
}

/* The number of the text @text, whose address is its own for the whole recording. */
static int text_number(struct tape_sink *t, const char *text, uint32_t *ret)
{
	struct tape_head h;

	*ret = idmap_get(&t->texts, (uintptr_t)text);
	if (*ret != IDMAP_NONE)
		return 0;
	*ret = t->n_texts++;
	if (idmap_set(&t->texts, (uintptr_t)text, *ret) < 0)
		return -ENOMEM;
	clear(&h);
	tape_put(&h, TAPE_INDEX, *ret);
	return put_body(t, TAPE_TEXT, &h, text, strlen(text));
}

static int func_number(struct tape_sink *t, const struct pyfunc *f, uint32_t *ret)
{
	struct tape_head h;
	uint32_t name, file;
	int r;

	*ret = idmap_get(&t->funcs, (uintptr_t)f);
	if (*ret != IDMAP_NONE)
		return 0;
	r = text_number(t, f->qualname, &name);
	if (r == 0)
		r = text_number(t, f->file, &file);
	if (r)
		return r;
	*ret = t->n_funcs++;
	if (idmap_set(&t->funcs, (uintptr_t)f, *ret) < 0)
		return -ENOMEM;
	clear(&h);
	tape_put(&h, TAPE_INDEX, *ret);
	tape_put(&h, TAPE_FUNC_NAME, name);
	tape_put(&h, TAPE_FUNC_FILE, file);
	tape_put(&h, TAPE_LINE_FIRST, (uint64_t)f->firstline);
	tape_put(&h, TAPE_LINE_MIN, (uint64_t)f->min);
	tape_put(&h, TAPE_LINE_MAX, (uint64_t)f->max);
	return tape_write(t->writer, TAPE_FUNC, tape_head_bytes(&h), (struct bytes){ 0 });
}

/* @stk's bytes into @t->stack, and the addresses that are not among them. */
static int encode(struct tape_sink *t, const struct stack *stk)
{
	uint32_t number, file;
	int r = 0;

	t->stack.n = t->addresses.n = 0;
	for (size_t i = 0; r == 0 && i < stk->n; i++) {
		const struct frame *f = &stk->frames[i];

		number = file = UINT32_MAX;
		if (f->kind == FRAME_PYTHON)
			r = func_number(t, f->func, &number);
		else if (f->name)
			r = text_number(t, f->name, &number);
		if (r == 0 && f->file)
			r = text_number(t, f->file, &file);
		buf_u32(&t->stack, f->kind);
		buf_u32(&t->stack, number);
		buf_u32(&t->stack, (uint32_t)f->line);
		buf_u32(&t->stack, file);
		if (f->kind == FRAME_KERNEL || f->kind == FRAME_NATIVE)
			buf_u64(&t->addresses, f->ip);
	}
	return t->stack.oom || t->addresses.oom ? -ENOMEM : r;
}

/* The number of the stack in @t->stack, STRTAB_NONE: there is no room to know it by. */
static int stack_number(const struct sink *s, uint32_t *ret)
{
	struct tape_sink *t = s->priv;
	const char *at = t->stack.n ? (const char *)t->stack.at : "";
	uint32_t n = strtab_count(t->stacks);
	size_t memory = s->session->memory;
	struct tape_head h;

	if (memory && strtab_bytes(t->stacks) >= memory / MEMORY_SHARE) {
		*ret = strtab_find(t->stacks, at, t->stack.n);
		return 0;
	}
	*ret = strtab_add(t->stacks, at, t->stack.n);
	if (*ret == STRTAB_NONE)
		return -ENOMEM;
	if (*ret < n)
		return 0;
	clear(&h);
	tape_put(&h, TAPE_INDEX, *ret);
	return put_body(t, TAPE_STACK, &h, at, t->stack.n);
}

static int write_addresses(struct tape_sink *t)
{
	struct tape_head h = { .n = 0 };

	return t->addresses.n ?
		       put_body(t, TAPE_ADDRESSES, &h, t->addresses.at, t->addresses.n) :
		       0;
}

static int write_sample(struct tape_sink *t, const struct sample *smp, uint32_t stack)
{
	const char *prov = tape_provenances[smp->prov];
	struct tape_head h;

	clear(&h);
	tape_put(&h, TAPE_TIME, smp->time);
	tape_put(&h, TAPE_PID, (uint64_t)smp->pid);
	tape_put(&h, TAPE_TID, (uint64_t)smp->tid);
	tape_put(&h, TAPE_CPU, smp->cpu);
	tape_put(&h, TAPE_EVENT_INDEX, smp->event);
	tape_put(&h, TAPE_PERIOD, smp->period);
	tape_put_bytes(&h, TAPE_PROV, prov, strlen(prov));
	if (smp->addr)
		tape_put(&h, TAPE_ADDR, smp->addr);
	if (!t->stack.n) {
		tape_put(&h, TAPE_IP, smp->ip);
		tape_put(&h, TAPE_MISC, smp->misc);
	}
	if (stack == STRTAB_NONE)
		return put_body(t, TAPE_SAMPLE, &h, t->stack.at, t->stack.n);
	tape_put(&h, TAPE_STACK_INDEX, stack);
	return tape_write(t->writer, TAPE_SAMPLE, tape_head_bytes(&h), (struct bytes){ 0 });
}

/* Its records, reads and verdict came through raw(). */
static int tape_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	struct tape_sink *t = s->priv;
	uint32_t number;
	int r = s->failed;

	if (r == 0)
		r = encode(t, stk);
	if (r == 0)
		r = stack_number(s, &number);
	if (r == 0)
		r = write_addresses(t);
	if (r == 0)
		r = write_sample(t, smp, number);
	t->written += r == 0;
	s->samples++;
	return keep_first(s, r);
}

static const char *put_name(struct tape_head *h, const struct side *side)
{
	tape_put(h, TAPE_IS,
		 (side->u.comm.exec ? TAPE_NAME_EXEC : 0u) |
			 (side->u.comm.thread ? TAPE_NAME_THREAD : 0u));
	tape_put(h, TAPE_UNTIL, side->u.comm.until);
	return side->u.comm.name;
}

static const char *put_map(struct tape_head *h, const struct side *side)
{
	const unsigned char *id = side->u.mmap.build_id;

	tape_put(h, TAPE_IS,
		 (side->u.mmap.kernel ? TAPE_MAP_KERNEL : 0u) |
			 (side->announced ? TAPE_MAP_ANNOUNCED : 0u));
	tape_put(h, TAPE_AT, side->u.mmap.addr);
	tape_put(h, TAPE_N, side->u.mmap.len);
	tape_put(h, TAPE_FILE_PGOFF, side->u.mmap.pgoff);
	tape_put(h, TAPE_FILE_MAJ, side->u.mmap.maj);
	tape_put(h, TAPE_FILE_MIN, side->u.mmap.min);
	tape_put(h, TAPE_FILE_INO, side->u.mmap.ino);
	tape_put(h, TAPE_FILE_GENERATION, side->u.mmap.ino_generation);
	tape_put(h, TAPE_PROT, side->u.mmap.prot);
	tape_put(h, TAPE_MAP_FLAGS, side->u.mmap.flags);
	if (id)
		tape_put_bytes(h, TAPE_BUILD_ID, id, side->u.mmap.build_id_n);
	tape_put_bytes(h, TAPE_FILE_ID, side->u.mmap.file_id.at, side->u.mmap.file_id.n);
	return side->u.mmap.path;
}

/* What more is known of it; returns its text. */
static const char *put_side(struct tape_head *h, const struct side *side)
{
	switch (side->kind) {
	case SIDE_COMM:
		return put_name(h, side);
	case SIDE_MMAP:
		return put_map(h, side);
	case SIDE_LOST:
		tape_put(h, TAPE_N, side->u.lost.n);
		break;
	case SIDE_FORK:
	case SIDE_EXIT:
		tape_put(h, TAPE_PPID, (uint64_t)side->u.fork.ppid);
		tape_put(h, TAPE_PTID, (uint64_t)side->u.fork.ptid);
		break;
	case SIDE_THROTTLE:
		break;
	}
	return "";
}

static int tape_side(struct sink *s, const struct side *side)
{
	struct tape_head h;
	const char *text;

	if (s->failed)
		return s->failed;
	clear(&h);
	tape_put(&h, TAPE_WHAT, side->kind);
	tape_put(&h, TAPE_TIME, side->time);
	tape_put(&h, TAPE_PID, (uint64_t)side->pid);
	tape_put(&h, TAPE_TID, (uint64_t)side->tid);
	tape_put(&h, TAPE_CPU, side->cpu);
	text = put_side(&h, side);
	return keep_first(s, put_body(s->priv, TAPE_HAPPENED, &h, text, strlen(text)));
}

static int tape_round(struct sink *s)
{
	struct tape_sink *t = s->priv;
	uint64_t now = now_ns() / 1000000;
	int r = s->failed;

	if (r == 0)
		r = tape_write(t->writer, TAPE_ROUND, (struct bytes){ 0 }, (struct bytes){ 0 });
	if (r || now - t->flushed_ms < FLUSH_MS)
		return keep_first(s, r);
	t->flushed_ms = now;
	r = tape_writer_flush(t->writer);
	if (r == 0) {
		t->kept = t->written;
		t->kept_bytes = ftello(s->out);
	}
	return keep_first(s, r);
}

static int tape_raw(struct sink *s, unsigned type, struct bytes head, struct bytes body)
{
	struct tape_sink *t = s->priv;

	return keep_first(s, tape_write(t->writer, (enum tape_type)type, head, body));
}

/* What was not written whole goes, so that what is told to be there is. */
static void cut(struct sink *s)
{
	const struct tape_sink *t = s->priv;
	struct stat st;

	__fpurge(s->out); /* or closing would try to write it again */
	if (fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > t->kept_bytes &&
	    ftruncate(s->fd, t->kept_bytes) < 0)
		s->failed = -errno;
}

static int tape_end(struct sink *s, struct err *err)
{
	struct tape_sink *t = s->priv;
	int r;

	if (!t->writer)
		return 0;
	r = tape_writer_finish(t->writer);
	keep_first(s, r);
	if (r == 0)
		t->kept = t->written;
	else
		cut(s);
	if (s->failed) {
		s->lacking = sink_taken(s) - t->kept;
		err_set(err, s->failed,
			"writing %s: %s: it has the first %" PRIu64 " of %" PRIu64 " samples", s->path,
			strerror(-s->failed), t->kept, sink_taken(s));
	}
	tape_free(t);
	return s->failed;
}

static const char *const tape_extensions[] = { ".tape", NULL };

const struct sink_ops sink_tape = {
	.name = "tape",
	.extensions = tape_extensions,
	.help = "everything that came in, to be played again",
	.next = "pysampled report ",
	.needs = SINK_NEEDS_READS | SINK_NEEDS_NAMES | SINK_NEEDS_IDS | SINK_IS_BINARY,
	.priv_size = sizeof(struct tape_sink),
	.begin = tape_begin,
	.side = tape_side,
	.sample = tape_sample,
	.round = tape_round,
	.raw = tape_raw,
	.end = tape_end,
};
