/* SPDX-License-Identifier: MIT
 *
 * fuzz_perf_data - a perf.data that others made, and the symbol file in it.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "../../output/perf_read.h"
#include "../../output/pyelf.h"
#include "../../output/pyelf_read.h"
#include "../../output/sink.h"
#include "fuzz.h"

static int look_at_side(struct sink *s, const struct side *side)
{
	if (side->kind == SIDE_COMM)
		FUZZ_CHECK(!strpbrk(side->u.comm.name, "\n\033"));
	return 0;
}

static int look_at_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	FUZZ_CHECK(smp->event < s->session->n_events);
	for (size_t i = 0; i < stk->n; i++) {
		const struct frame *f = &stk->frames[i];

		FUZZ_CHECK(f->line >= 0);
		if (f->kind == FRAME_PYTHON) /* raw: each output filters them */
			FUZZ_CHECK(f->func->qualname && f->func->file);
		else
			FUZZ_CHECK(f->name && !strpbrk(f->name, "\n\033"));
	}
	return 0;
}

static const struct sink_ops ops = { .side = look_at_side, .sample = look_at_sample };

/* The first byte is 1: a symbol file alone, whose build-id is right. */
static void play_symbols(struct bytes image)
{
	unsigned char id[PYELF_BUILD_ID] = { 0 };
	struct pyelf_table t;
	struct frame f;

	if (pyelf_read(&t, -1, image, (struct bytes){ id, sizeof(id) }) == 0)
		for (uint64_t at = PYELF_TEXT; at < PYELF_TEXT + 4096; at += 2)
			if (pyelf_frame(&t, at, &f))
				FUZZ_CHECK(f.func ? f.func->file && f.line >= 0 :
						    f.name != NULL);
	pyelf_table_deinit(&t);
}

static void play_recording(struct bytes b)
{
	_cleanup_fclose_ FILE *in = fmemopen((void *)(uintptr_t)b.at, b.n, "r");
	struct sink s = { .ops = &ops };
	struct perf_reader *r;
	struct err err;

	if (!in || perf_reader_open(&r, in, NULL, &err) < 0)
		return;
	s.session = perf_reader_session(r);
	perf_reader_run(r, &s);
	perf_reader_missing(r);
	perf_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n < 2)
		return 0;
	if (data[0] == 1)
		play_symbols((struct bytes){ data + 1, n - 1 });
	else
		play_recording((struct bytes){ data, n });
	if (fuzz_all_is_freed)
		fuzz_all_is_freed();
	return 0;
}

static const struct pyfunc spin = { "spin", "/srv/work.py", 5, 5, 14, 0 };
static const struct pyfunc odd = { "gr\303\266\303\237e;(x)", "<string>", 1, 1, 3, 1 };

static void put_samples(struct sink *s)
{
	const struct frame frames[] = {
		{ .kind = FRAME_KERNEL, .ip = UINT64_MAX - 9999 },
		{ .kind = FRAME_NATIVE, .ip = 0x401234 },
		{ .kind = FRAME_PYTHON, .func = &spin, .line = 6 },
		{ .kind = FRAME_PYTHON, .func = &odd, .line = 2 },
		{ .kind = FRAME_MARKER, .name = "[late]" },
	};
	struct sample smp = { .pid = 10, .tid = 11, .time = 1000, .period = 7 };
	struct side side = {
		.kind = SIDE_COMM, .pid = 10, .tid = 11, .u.comm.name = "worker"
	};

	s->ops->side(s, &side);
	side = (struct side){ .kind = SIDE_MMAP,
			      .pid = 10,
			      .tid = 10,
			      .u.mmap = { .addr = 0x400000,
					  .len = 0x10000,
					  .ino = 7,
					  .prot = 5,
					  .path = "/nonexistent/python3" } };
	s->ops->side(s, &side);
	side = (struct side){ .kind = SIDE_FORK, .pid = 12, .tid = 12, .u.fork = { 10, 10 } };
	s->ops->side(s, &side);
	for (uint32_t i = 0; i < 6; i++) {
		smp.event = i % 2;
		smp.pid = smp.tid = i < 4 ? 10 : 12;
		s->ops->sample(s, &smp, &(struct stack){ 5 - i % 3, frames + i % 3 });
	}
}

static size_t seed_file(uint8_t *buf, size_t cap, int compress)
{
	static struct session session = { .n_events = 2 };
	char dir[] = "/tmp/fuzz_perf_data.XXXXXX", path[64], symbols[96];
	struct err err;
	struct sink s;
	size_t n = 0;
	FILE *in;

	strcpy(session.events[0].name, "cpu-clock");
	strcpy(session.events[1].name, "page-faults");
	session.compress = compress;
	session.events[0].attr.exclude_kernel = session.events[1].attr.exclude_kernel = 1;
	if (!mkdtemp(dir))
		return 0;
	setenv("PYSAMPLED_BUILDID_DIR", "none", 1);
	snprintf(path, sizeof(path), "%s/a.data", dir);
	if (sink_open(&s, sink_pick(NULL, path), path, &session, &err) == 0) {
		put_samples(&s);
		sink_close(&s, &err);
	}
	in = fopen(path, "r");
	if (in) {
		n = fread(buf, 1, cap, in);
		fclose(in);
	}
	snprintf(symbols, sizeof(symbols), "%s.pyframes/pyframes.so", path);
	unlink(symbols);
	*strrchr(symbols, '/') = '\0';
	rmdir(symbols);
	unlink(path);
	rmdir(dir);
	return n;
}

static size_t seed_symbols(uint8_t *buf, size_t cap)
{
	unsigned char id[PYELF_BUILD_ID] = { 0 };
	struct pyelf *e = pyelf_create(0, id);
	FILE *file = tmpfile();
	size_t n = 0;

	buf[0] = 1;
	if (e && file) {
		pyelf_line(e, &spin, 6);
		pyelf_line(e, &odd, 2);
		pyelf_marker(e, "[late]");
		pyelf_write(e, fileno(file));
		n = 1 + fread(buf + 1, 1, cap - 1, file);
	}
	pyelf_destroy(e);
	if (file)
		fclose(file);
	return n;
}

/* Not as we write them: records have no trailer, and are put in order. */
static size_t seed_foreign(uint8_t *buf, size_t cap)
{
	enum { ATTRS = 104 + 2 * 8, ENTRY = 136, FLAGS = 40, ID_ALL = 1 << 2 };
	size_t n = seed_file(buf, cap, 0);

	for (size_t at = ATTRS; n > ATTRS + 2 * ENTRY && at < ATTRS + 2 * ENTRY; at += ENTRY)
		buf[at + FLAGS + 2] &= (uint8_t)~ID_ALL;
	return n;
}

/* What went down a pipe: the attrs and the release are records before those of the file. */
static size_t seed_stream(uint8_t *buf, size_t cap)
{
	enum { ATTRS = 104 + 2 * 8, ENTRY = 136, ATTR = ENTRY - 16, RECORD = 8 + ATTR + 8 };
	static const uint8_t release[] = { 80, 0, 0, 0, 0, 0, 24, 0, 4, 0, 0, 0, 0, 0, 0, 0,
					   4,  0, 0, 0, '6', '.', '1', 0 };
	static uint8_t file[1 << 16];
	size_t n = seed_file(file, MIN(sizeof(file), cap), 0), to = 16, records, rest;

	if (n < ATTRS + 2 * ENTRY)
		return 0;
	memcpy(buf, "PERFILE2\020\0\0\0\0\0\0", to);
	for (uint64_t i = 0; i < 2; i++) {
		const struct perf_event_header h = { .type = 64, .size = RECORD };
		uint64_t id = 101 + i;

		memcpy(buf + to, &h, sizeof(h));
		memcpy(buf + to + sizeof(h), file + ATTRS + i * ENTRY, ATTR);
		memcpy(buf + to + sizeof(h) + ATTR, &id, sizeof(id));
		to += RECORD;
	}
	memcpy(buf + to, release, sizeof(release));
	to += sizeof(release);
	records = load_u64(file + 40);
	rest = MIN(load_u64(file + 48), n - records);
	return to + fuzz_bytes(buf + to, cap - to, file + records, rest);
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	switch (i) {
	case 0:
		return seed_file(buf, cap, 0);
	case 1:
		return seed_symbols(buf, cap);
	case 2:
		return seed_file(buf, cap, 3);
	case 3:
		return seed_foreign(buf, cap);
	case 4:
		return seed_stream(buf, cap);
	default:
		return 0;
	}
}
