/* SPDX-License-Identifier: MIT
 *
 * perf_data_test - recordings in, bytes of perf.data out.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "unit.h"
#include "base/base.h"
#include "base/stats.h"
#include "../../output/buildid.h"
#include "elf/elfimage.h"
#include "../../output/perf_kernel.h"
#include "../../output/pyelf.h"
#include "../../output/sink.h"

enum { HEAD = 104, ENTRY = 136, TRAILER = 32 };

static const uint64_t PYELF = (1ull << 51) + 0x10000;
static const struct pyfunc spin = { "spin", "/srv/work.py", 5, 5, 14, 0 };
static const struct frame python = { .kind = FRAME_PYTHON, .func = &spin, .line = 6 };
static const struct sample sample = { .pid = 10, .tid = 11, .time = 1000, .period = 7 };

struct fixture {
	struct session session;
	struct sink sink;
	char dir[64], path[128], symbols[160];
	unsigned char *file; /* the recording, after end() */
	size_t n;
};

static char *argv[] = { "pysampled", "-p", "10" };

static void set_session(struct fixture *f, size_t n_events)
{
	struct perf_event_attr *a;

	*f = (struct fixture){ .session = { .n_events = n_events, .argc = 3, .argv = argv } };
	for (size_t i = 0; i < n_events; i++) {
		snprintf(f->session.events[i].name, sizeof(f->session.events[i].name),
			 "event%zu", i);
		a = &f->session.events[i].attr;
		a->type = PERF_TYPE_SOFTWARE;
		a->config = i;
		a->exclude_kernel = 1;
		a->branch_sample_type = 1;
	}
	f->session.events[0].attr.freq = 1;
	f->session.events[0].attr.sample_period = 99;
}

static void open_sink(struct fixture *f)
{
	struct err err = {};

	strcpy(f->dir, "/tmp/perf_data_test.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	setenv("PYSAMPLED_BUILDID_DIR", f->dir, 1);
	snprintf(f->path, sizeof(f->path), "%s/a.data", f->dir);
	snprintf(f->symbols, sizeof(f->symbols), "%s.pyframes/pyframes.so", f->path);
	assert_int_equal(
		sink_open(&f->sink, sink_pick(NULL, f->path), f->path, &f->session, &err), 0);
}

static void begin(struct fixture *f, size_t n_events)
{
	set_session(f, n_events);
	open_sink(f);
}

static unsigned char *slurp(const char *path, size_t *n)
{
	unsigned char *ret = malloc(64 << 20);
	FILE *in = fopen(path, "r");

	assert_non_null(in);
	*n = fread(ret, 1, 64 << 20, in);
	fclose(in);
	return ret;
}

static void end(struct fixture *f)
{
	struct err err = {};

	assert_int_equal(sink_close(&f->sink, &err), 0);
	f->file = slurp(f->path, &f->n);
}

static void drop(struct fixture *f)
{
	char cmd[96];

	free(f->file);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", f->dir);
	assert_int_equal(system(cmd), 0);
}

static void put(struct fixture *f, struct sample smp, const struct frame *fr, size_t n)
{
	assert_int_equal(f->sink.ops->sample(&f->sink, &smp, &(struct stack){ n, fr }), 0);
}

static void put_side(struct fixture *f, struct side side)
{
	assert_int_equal(f->sink.ops->side(&f->sink, &side), 0);
}

static uint64_t head(const struct fixture *f, size_t off)
{
	return load_u64(f->file + off);
}

/* The @nth record of a type, NULL if there are fewer; asserts that all are whole. */
static const unsigned char *record(const struct fixture *f, uint32_t type, int nth)
{
	const unsigned char *at = f->file + head(f, 40), *stop = at + head(f, 48), *ret = NULL;
	struct perf_event_header h;

	assert_true(stop <= f->file + f->n);
	for (; at < stop; at += h.size) {
		memcpy(&h, at, sizeof(h));
		assert_in_range(h.size, sizeof(h), (size_t)(stop - at));
		assert_int_equal(h.size % 8, 0);
		if (h.type == type && nth-- == 0)
			ret = at;
	}
	return ret;
}

static int count(const struct fixture *f, uint32_t type)
{
	int n = 0;

	while (record(f, type, n))
		n++;
	return n;
}

static uint16_t misc_of(const unsigned char *rec)
{
	return ((const struct perf_event_header *)(const void *)rec)->misc;
}

static void sample_has_its_fields(void **state)
{
	struct sample smp = sample;
	const unsigned char *rec;
	struct fixture f;

	smp.cpu = 3;
	smp.addr = 99;
	begin(&f, 1);
	put(&f, smp, &python, 1);
	end(&f);
	rec = record(&f, PERF_RECORD_SAMPLE, 0);
	assert_int_equal(load_u64(rec + 8), 101);
	assert_int_equal(load_u64(rec + 16), PYELF + 4 + 4 + 2);
	assert_int_equal(load_u32(rec + 24), 10);
	assert_int_equal(load_u32(rec + 28), 11);
	assert_int_equal(load_u64(rec + 32), 1000);
	assert_int_equal(load_u32(rec + 40), 3);
	assert_int_equal(load_u64(rec + 48), 7);
	assert_int_equal(load_u64(rec + 56), 2);
	assert_int_equal(load_u64(rec + 64), PERF_CONTEXT_USER);
	assert_int_equal(load_u64(rec + 72), load_u64(rec + 16));
	assert_int_equal(misc_of(rec), PERF_RECORD_MISC_USER);
	drop(&f);
}

static void addresses_are_in_all_samples(void **state)
{
	struct sample smp = sample;
	const unsigned char *rec;
	struct fixture f;

	smp.addr = 99;
	set_session(&f, 2);
	f.session.events[1].attr.sample_type = PERF_SAMPLE_ADDR;
	open_sink(&f);
	put(&f, smp, &python, 1);
	end(&f);
	rec = record(&f, PERF_RECORD_SAMPLE, 0);
	assert_int_equal(load_u64(rec + 32), 1000);
	assert_int_equal(load_u64(rec + 40), 99);
	assert_int_equal(load_u64(rec + 56), 7);
	drop(&f);
}

static void chain_has_contexts(void **state)
{
	const struct frame fr[] = {
		{ .kind = FRAME_KERNEL, .ip = 0xffff800000000001 },
		{ .kind = FRAME_KERNEL, .ip = 0xffff800000000002 },
		{ .kind = FRAME_NATIVE, .ip = 0x1000 },
		{ .kind = FRAME_MARKER, .name = "[late]" },
		python,
	};
	struct sample none = sample;
	const unsigned char *rec;
	struct fixture f;

	none.misc = PERF_RECORD_MISC_KERNEL;
	none.ip = 0x77;
	begin(&f, 1);
	put(&f, sample, fr, ARRAY_SIZE(fr));
	put(&f, none, NULL, 0);
	end(&f);
	rec = record(&f, PERF_RECORD_SAMPLE, 0);
	assert_int_equal(misc_of(rec), PERF_RECORD_MISC_KERNEL);
	assert_int_equal(load_u64(rec + 16), fr[0].ip);
	assert_int_equal(load_u64(rec + 56), 7);
	assert_int_equal(load_u64(rec + 64), PERF_CONTEXT_KERNEL);
	assert_int_equal(load_u64(rec + 72), fr[0].ip);
	assert_int_equal(load_u64(rec + 80), fr[1].ip);
	assert_int_equal(load_u64(rec + 88), PERF_CONTEXT_USER);
	assert_int_equal(load_u64(rec + 96), fr[2].ip);
	assert_in_range(load_u64(rec + 104), PYELF, PYELF + 100);
	assert_in_range(load_u64(rec + 112), PYELF, PYELF + 100);
	rec = record(&f, PERF_RECORD_SAMPLE, 1);
	assert_int_equal(misc_of(rec), PERF_RECORD_MISC_KERNEL);
	assert_int_equal(load_u64(rec + 16), 0x77);
	assert_int_equal(load_u64(rec + 56), 2);
	assert_int_equal(load_u64(rec + 64), PERF_CONTEXT_KERNEL);
	assert_int_equal(load_u64(rec + 72), 0x77);
	drop(&f);
}

static void attrs_are_uniform(void **state)
{
	struct perf_event_attr a[4];
	const unsigned char *attrs;
	struct fixture f;

	set_session(&f, 4);
	f.session.events[1].attr.sample_type = PERF_SAMPLE_ADDR | PERF_SAMPLE_RAW;
	f.session.events[2].attr.type = PERF_TYPE_TRACEPOINT;
	f.session.events[3].attr.type = 8; /* the uprobe PMU's number here, and our pointer */
	f.session.events[3].attr.config1 = 0x7ffe1234;
	f.session.how[3].probe = true;
	open_sink(&f);
	end(&f);
	assert_memory_equal(f.file, "PERFILE2", 8);
	assert_int_equal(head(&f, 8), HEAD);
	assert_int_equal(head(&f, 16), ENTRY);
	assert_int_equal(head(&f, 32), 4 * ENTRY);
	attrs = f.file + head(&f, 24);
	for (size_t i = 0; i < 4; i++) {
		memset(&a[i], 0, sizeof(a[i]));
		memcpy(&a[i], attrs + i * ENTRY, 120);
		assert_int_equal(a[i].size, 120);
		assert_int_equal(a[i].sample_type, a[0].sample_type);
		assert_true(a[i].sample_type & PERF_SAMPLE_ADDR);
		assert_true(a[i].sample_type & PERF_SAMPLE_IDENTIFIER);
		assert_false(a[i].sample_type & PERF_SAMPLE_RAW);
		assert_true(a[i].sample_id_all && a[i].use_clockid);
		assert_true(a[i].sample_period);
		assert_int_equal(a[i].branch_sample_type, 0);
		assert_int_equal(load_u64(f.file + load_u64(attrs + i * ENTRY + 120)),
				 101 + i);
	}
	assert_true(a[0].freq);
	assert_int_equal(a[0].sample_period, 99);
	assert_int_equal(a[1].config, 1);
	for (size_t i = 2; i < 4; i++) {
		assert_int_equal(a[i].type, PERF_TYPE_SOFTWARE);
		assert_int_equal(a[i].config, PERF_COUNT_SW_DUMMY);
		assert_int_equal(a[i].config1, 0);
	}
	drop(&f);
}

/* How often the symbol file is mapped in @pid. */
static int maps_of(const struct fixture *f, pid_t pid)
{
	const unsigned char *rec;
	int n = 0;

	for (int i = 0; (rec = record(f, PERF_RECORD_MMAP2, i)); i++) {
		if (load_u64(rec + 16) != PYELF || (pid_t)load_u32(rec + 8) != pid)
			continue;
		assert_true(misc_of(rec) & PERF_RECORD_MISC_MMAP_BUILD_ID);
		assert_int_equal(load_u64(rec + 24), 1 << 30);
		assert_int_equal(load_u64(rec + 32), 0x10000);
		assert_string_equal((const char *)rec + 72, f->symbols);
		n++;
	}
	return n;
}

static void symbols_are_mapped_once_a_process(void **state)
{
	struct sample child = sample, stranger = sample;
	struct side comm = { .kind = SIDE_COMM, .pid = 10, .tid = 10 };
	struct side fork = { .kind = SIDE_FORK, .pid = 20, .tid = 20, .u.fork = { 10, 10 } };
	struct side gone = { .kind = SIDE_EXIT, .pid = 30, .tid = 30, .u.fork = { 1, 1 } };
	struct fixture f;

	child.pid = child.tid = 20;
	stranger.pid = stranger.tid = 30;
	comm.u.comm.name = "a name that is longer than sixteen";
	begin(&f, 1);
	put_side(&f, comm);
	put(&f, sample, &python, 1);
	put_side(&f, fork);
	put(&f, child, &python, 1);
	put(&f, stranger, &python, 1);
	put_side(&f, gone);
	put(&f, stranger, &python, 1);
	comm.u.comm.exec = true;
	put_side(&f, comm);
	put(&f, sample, &python, 1);
	end(&f);
	assert_int_equal(maps_of(&f, 10), 2); /* before and after the exec */
	assert_int_equal(maps_of(&f, 20), 0); /* inherited */
	assert_int_equal(maps_of(&f, 30), 2); /* the number was used again */
	assert_string_equal((const char *)record(&f, PERF_RECORD_COMM, 0) + 16,
			    "a name that is ");
	assert_int_equal(misc_of(record(&f, PERF_RECORD_COMM, 1)), PERF_RECORD_MISC_COMM_EXEC);
	drop(&f);
}

static void side_events_are_kept(void **state)
{
	static const unsigned char id[] = "an id of twenty byte";
	struct side map = { .kind = SIDE_MMAP, .time = 5, .pid = 10, .tid = 10 };
	struct side lost = { .kind = SIDE_LOST, .time = 6, .u.lost.n = 77 };
	struct side throttle = { .kind = SIDE_THROTTLE, .time = 7 };
	const unsigned char *rec;
	struct fixture f;

	map.u.mmap.addr = 0x400000;
	map.u.mmap.len = 0x1000;
	map.u.mmap.prot = PROT_READ | PROT_EXEC;
	map.u.mmap.path = "/bin/none";
	map.u.mmap.ino = 12;
	map.u.mmap.maj = 8;
	map.u.mmap.min = 3;
	map.u.mmap.ino_generation = 99;
	map.u.mmap.flags = 2;
	begin(&f, 1);
	put_side(&f, map);
	map.u.mmap.build_id = id;
	map.u.mmap.build_id_n = 20;
	put_side(&f, map);
	map.u.mmap.path = "/bin/data";
	map.u.mmap.addr |= PROT_EXEC; /* which says nothing of what it is for */
	map.u.mmap.prot = PROT_READ;
	put_side(&f, map);
	map.u.mmap.kernel = true;
	map.u.mmap.path = "[nfs]";
	put_side(&f, map);
	put_side(&f, lost);
	put_side(&f, throttle);
	f.sink.ops->round(&f.sink);
	end(&f);
	assert_int_equal(maps_of(&f, 10), 1);
	rec = record(&f, PERF_RECORD_MMAP2, 1);
	assert_int_equal(load_u64(rec + 16), 0x400000);
	assert_int_equal(load_u32(rec + 40), 8);
	assert_int_equal(load_u32(rec + 44), 3);
	assert_int_equal(load_u64(rec + 48), 12);
	assert_int_equal(load_u64(rec + 56), 99);
	assert_int_equal(load_u32(rec + 64), PROT_READ | PROT_EXEC);
	assert_int_equal(load_u32(rec + 68), 2);
	assert_string_equal((const char *)rec + 72, "/bin/none");
	rec = record(&f, PERF_RECORD_MMAP2, 2);
	assert_int_equal(rec[40], 20);
	assert_memory_equal(rec + 44, id, 20);
	assert_int_equal(misc_of(rec), PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_BUILD_ID);
	rec = record(&f, PERF_RECORD_MMAP2, 3);
	assert_int_equal(misc_of(rec), PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_BUILD_ID |
					       PERF_RECORD_MISC_MMAP_DATA);
	rec = record(&f, PERF_RECORD_MMAP, 0);
	assert_int_equal(misc_of(rec), PERF_RECORD_MISC_KERNEL);
	assert_int_equal(load_u32(rec + 8), UINT32_MAX);
	assert_string_equal((const char *)rec + 40, "[nfs]");
	assert_int_equal(load_u64(record(&f, PERF_RECORD_LOST_SAMPLES, 0) + 8), 77);
	assert_int_equal(load_u64(record(&f, PERF_RECORD_THROTTLE, 0) + 8), 7);
	assert_int_equal(count(&f, 68), 2); /* the first stands there from the start */
	drop(&f);
}

static void long_chains_lose_their_roots(void **state)
{
	enum { DEEP = 9000 };
	struct frame *fr = calloc(DEEP, sizeof(*fr));
	const unsigned char *rec;
	struct fixture f;
	uint64_t nr;

	for (int i = 0; i < DEEP; i++)
		fr[i] = (struct frame){ .kind = FRAME_NATIVE, .ip = 0x1000 + (uint64_t)i };
	begin(&f, 1);
	put(&f, sample, fr, 8000);
	put(&f, sample, fr, DEEP);
	assert_int_equal(f.sink.cut, 1);
	end(&f);
	assert_int_equal(load_u64(record(&f, PERF_RECORD_SAMPLE, 0) + 56), 8001);
	rec = record(&f, PERF_RECORD_SAMPLE, 1);
	nr = load_u64(rec + 56);
	assert_in_range(nr, 8170, 8190);
	assert_int_equal(load_u64(rec + 64 + 8 * (nr - 2)), 0x1000 + nr - 3);
	assert_true(load_u64(rec + 64 + 8 * (nr - 1)) > 0x1000 + DEEP); /* [truncated] */
	free(fr);
	drop(&f);
}

/* perf would not show the root of a deep stack: its middle goes, but for the markers there. */
static void deep_stacks_lose_their_middle(void **state)
{
	enum { SHOWN = 11, DEEP = 40 };
	struct frame fr[DEEP];
	struct stats stats = { 0 };
	const unsigned char *chain;
	struct fixture f;

	for (size_t i = 0; i < DEEP; i++)
		fr[i] = (struct frame){ .kind = FRAME_NATIVE, .ip = 0x1000 + i };
	set_session(&f, 1);
	f.session.shown = SHOWN;
	f.session.stats = &stats;
	open_sink(&f);
	put(&f, sample, fr, SHOWN);
	put(&f, sample, fr, SHOWN + 1);
	fr[20] = (struct frame){ .kind = FRAME_MARKER, .name = "[late]" };
	put(&f, sample, fr, DEEP);
	end(&f);
	assert_int_equal(STATS_GET(&stats, elided), 2);
	assert_int_equal(f.sink.cut, 0);
	chain = record(&f, PERF_RECORD_SAMPLE, 0) + 56;
	assert_int_equal(load_u64(chain), SHOWN + 1);
	assert_int_equal(load_u64(chain + 8 * (SHOWN + 1)), 0x1000 + SHOWN - 1);
	/* user, five frames, the marker, five frames */
	chain = record(&f, PERF_RECORD_SAMPLE, 1) + 56;
	assert_int_equal(load_u64(chain), SHOWN + 1);
	assert_int_equal(load_u64(chain + 8 * 6), 0x1004);
	assert_true(load_u64(chain + 8 * 7) > PYELF_BASE);
	assert_int_equal(load_u64(chain + 8 * 8), 0x1007);
	assert_int_equal(load_u64(chain + 8 * 12), 0x100b);
	/* ... five frames, two markers, four frames */
	chain = record(&f, PERF_RECORD_SAMPLE, 2) + 56;
	assert_int_equal(load_u64(chain), SHOWN + 1);
	assert_int_equal(load_u64(chain + 8 * 6), 0x1004);
	assert_true(load_u64(chain + 8 * 8) > PYELF_BASE);
	assert_true(load_u64(chain + 8 * 8) != load_u64(chain + 8 * 7));
	assert_int_equal(load_u64(chain + 8 * 9), 0x1000 + DEEP - 4);
	assert_int_equal(load_u64(chain + 8 * 12), 0x1000 + DEEP - 1);
	drop(&f);
}

/* The content of feature @bit. */
static struct bytes feature(const struct fixture *f, unsigned bit)
{
	const unsigned char *table = f->file + head(f, 40) + head(f, 48);
	struct bytes ret = {};

	for (unsigned i = 0; i <= bit; i++) {
		if (!(f->file[72 + i / 8] >> i % 8 & 1))
			continue;
		ret = (struct bytes){ f->file + load_u64(table), load_u64(table + 8) };
		assert_true(load_u64(table) + ret.n <= f->n);
		table += 16;
	}
	assert_true(f->file[72 + bit / 8] >> bit % 8 & 1);
	return ret;
}

/* The copy of the symbol file. */
static struct bytes copied(const struct fixture *f)
{
	const unsigned char *tail = f->file + f->n - 24;

	assert_memory_equal(tail + 16, "PYFRAMES", 8);
	assert_true(load_u64(tail) + load_u64(tail + 8) + 24 == f->n);
	return (struct bytes){ f->file + load_u64(tail), load_u64(tail + 8) };
}

/* The table of build-ids has each mapped program, but no data. */
static void build_ids_of_programs(void **state)
{
	static const unsigned char id[] = "an id of twenty byte";
	struct side map = { .kind = SIDE_MMAP, .time = 5, .pid = 10, .tid = 10 };
	struct fixture f;
	struct bytes b;
	const unsigned char *at;

	map.u.mmap.addr = 0x400000;
	map.u.mmap.len = 0x1000;
	map.u.mmap.build_id = id;
	map.u.mmap.build_id_n = 20;
	begin(&f, 1);
	map.u.mmap.prot = PROT_READ | PROT_EXEC;
	map.u.mmap.path = "/bin/program";
	put_side(&f, map);
	map.u.mmap.prot = PROT_READ;
	map.u.mmap.path = "/bin/data";
	put_side(&f, map);
	end(&f);
	b = feature(&f, 2);
	at = memmem(b.at, b.n, "/bin/program", 13);
	assert_non_null(at);
	assert_memory_equal(at - 24, id, 20);
	assert_null(memmem(b.at, b.n, "/bin/data", 10));
	drop(&f);
}

static void features_and_symbol_file(void **state)
{
	struct fixture f;
	struct bytes b;
	unsigned char *so;
	struct stat st;
	unsigned char id[ELFIMAGE_MAX_ID];
	struct elfimage im;
	size_t n;
	int fd;

	begin(&f, 1);
	put(&f, sample, &python, 1);
	end(&f);
	so = slurp(f.symbols, &n);
	b = copied(&f);
	assert_int_equal(b.n, n);
	assert_memory_equal(b.at, so, n);
	assert_int_equal(f.n, (size_t)(b.at - f.file) + n + 24);
	free(so);

	b = feature(&f, 2);
	assert_string_equal((const char *)b.at + 36, f.symbols);
	fd = open(f.symbols, O_RDONLY | O_CLOEXEC);
	assert_int_equal(0, elfimage_init(&im, fd, (struct bytes){ 0 }));
	assert_int_equal(BUILDID_MAX, elfimage_build_id(&im, id));
	elfimage_deinit(&im);
	assert_memory_equal(b.at + 12, id, BUILDID_MAX);
	close(fd);
	b = feature(&f, 11);
	assert_int_equal(load_u32(b.at), 3);
	assert_string_equal((const char *)b.at + 8, "pysampled");
	b = feature(&f, 12);
	assert_string_equal((const char *)b.at + 8 + 120 + 8, "event0");
	b = feature(&f, 21);
	assert_int_equal(load_u64(b.at), 1000);
	assert_int_equal(load_u64(b.at + 8), 1000);
	assert_int_equal(stat(f.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	drop(&f);
}

/* What another recording told is told again, though it is of another machine; what it did not
 * tell, or not whole, is not made up. */
static void features_that_were_told(void **state)
{
	static const uint64_t told[] = { 80 | UINT64_C(24) << 48, 3,
					 0x74736f68, /* "host" */
					 80 | UINT64_C(24) << 48, 12,
					 0, /* of events, which it has itself */
					 80 | UINT64_C(32) << 48, 4,
					 0 };
	static const unsigned gone[] = { 4, 5, 6, 7, 8, 10, 11, 29 };
	struct fixture f;

	set_session(&f, 1);
	f.session.events[0].attr.exclude_kernel = 0;
	f.session.epoch_ns = 5;
	f.session.told = (struct bytes){ (const unsigned char *)told, sizeof(told) };
	open_sink(&f);
	put(&f, sample, &python, 1);
	end(&f);
	assert_int_equal(8, feature(&f, 3).n);
	assert_string_equal("host", (const char *)feature(&f, 3).at);
	assert_string_equal((const char *)feature(&f, 12).at + 8 + 120 + 8, "event0");
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		assert_false(f.file[72 + gone[i] / 8] >> gone[i] % 8 & 1);
	assert_int_equal(0, count(&f, PERF_RECORD_MMAP)); /* of this kernel */
	drop(&f);
}

static void cache_has_the_symbol_file(void **state)
{
	char path[512], hex[41];
	struct fixture f;
	struct stat cached, own;
	struct bytes b;

	begin(&f, 1);
	end(&f);
	b = feature(&f, 2);
	for (int i = 0; i < 20; i++)
		snprintf(hex + 2 * i, 3, "%02x", b.at[12 + i]);
	snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s/elf", f.dir, hex, hex + 2);
	assert_int_equal(stat(path, &cached), 0);
	assert_int_equal(stat(f.symbols, &own), 0);
	assert_int_equal(cached.st_size, own.st_size);
	drop(&f);
}

/* The newest of one path stay, each with its entry: 15, and the recording's own; also another path's. */
static void cache_is_bounded(void **state)
{
	struct buildid id = { .n = 20 };
	char path[640], entry[640];
	struct fixture f;

	begin(&f, 1);
	end(&f);
	for (id.at[0] = 1; id.at[0] <= 20; id.at[0]++) {
		struct timespec then[2] = { { .tv_sec = id.at[0] }, { .tv_sec = id.at[0] } };

		buildid_cache_add(f.symbols, id);
		/* A tick of the file system's clock is longer than this loop's turn. */
		snprintf(path, sizeof(path), "%s%s/%02x%038d", f.dir, f.symbols, id.at[0], 0);
		assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
		if (id.at[0] == 10)
			buildid_cache_add(f.path, (struct buildid){ .n = 1, .at = { 255 } });
	}
	for (unsigned i = 1; i <= 20; i++) {
		snprintf(path, sizeof(path), "%s%s/%02x%038d/elf", f.dir, f.symbols, i, 0);
		snprintf(entry, sizeof(entry), "%s/.build-id/%02x/%038d/elf", f.dir, i, 0);
		assert_int_equal(access(path, F_OK), i > 5 ? 0 : -1);
		assert_int_equal(access(entry, F_OK), i > 5 ? 0 : -1);
	}
	snprintf(path, sizeof(path), "%s%s/ff/elf", f.dir, f.path);
	assert_int_equal(access(path, F_OK), 0);
	drop(&f);
}

/* In HOME a folder is made, but HOME is not. */
static void no_home_is_made(void **state)
{
	char *was = getenv("HOME") ? strdup(getenv("HOME")) : NULL, home[600], cache[640];
	struct fixture f;

	begin(&f, 1);
	end(&f);
	snprintf(home, sizeof(home), "%s/home", f.dir);
	snprintf(cache, sizeof(cache), "%s/.debug", home);
	setenv("HOME", home, 1);
	unsetenv("PYSAMPLED_BUILDID_DIR");
	buildid_cache_add(f.symbols, (struct buildid){ .n = 20 });
	assert_int_equal(access(home, F_OK), -1);
	assert_int_equal(mkdir(home, 0700), 0);
	buildid_cache_add(f.symbols, (struct buildid){ .n = 20 });
	assert_int_equal(access(cache, F_OK), 0);
	if (was)
		setenv("HOME", was, 1);
	free(was);
	drop(&f);
}

static void old_recording_is_kept(void **state)
{
	struct err err = {};
	struct fixture f;
	char old[256];

	begin(&f, 1);
	put(&f, sample, &python, 1);
	end(&f);
	free(f.file);
	assert_int_equal(sink_open(&f.sink, f.sink.ops, f.path, &f.session, &err), 0);
	end(&f);
	assert_int_equal(count(&f, PERF_RECORD_SAMPLE), 0);
	snprintf(old, sizeof(old), "%s.old", f.path);
	free(f.file);
	f.file = slurp(old, &f.n);
	assert_int_equal(count(&f, PERF_RECORD_SAMPLE), 1);
	drop(&f);
}

static void another_recording_begins_there(void **state)
{
	struct err err = {};
	struct fixture f;
	struct sink other;

	begin(&f, 1);
	put(&f, sample, &python, 1);
	assert_int_equal(sink_open(&other, f.sink.ops, f.path, &f.session, &err), 0);
	assert_int_equal(sink_close(&f.sink, &err), -EEXIST);
	assert_non_null(strstr(err.text, ".old"));
	assert_int_equal(sink_close(&other, &err), 0);
	f.file = slurp(f.path, &f.n);
	assert_int_equal(count(&f, PERF_RECORD_SAMPLE), 0);
	drop(&f);
}

static void what_cannot_be_kept_as_the_old_one_stays(void **state)
{
	struct err err = {};
	struct fixture f;
	char old[256];
	unsigned char *now;
	size_t n;

	begin(&f, 1);
	put(&f, sample, &python, 1);
	end(&f);
	snprintf(old, sizeof(old), "%s.old", f.path);
	assert_int_equal(mkdir(old, 0700), 0);
	assert_int_equal(sink_may_open(f.sink.ops, f.path, &err), -EISDIR);
	assert_int_equal(sink_open(&f.sink, f.sink.ops, f.path, &f.session, &err), -EISDIR);
	assert_non_null(strstr(err.text, "can't be kept as"));
	now = slurp(f.path, &n);
	assert_int_equal(n, f.n);
	assert_memory_equal(now, f.file, n);
	free(now);
	drop(&f);
}

static void of_nothing_is_readable(void **state)
{
	struct fixture f;

	begin(&f, 1);
	end(&f);
	assert_true(head(&f, 48) > 0); /* the size of the data: perf refuses 0 */
	drop(&f);
}

static void readable_between_rounds(void **state)
{
	struct fixture f;

	begin(&f, 1);
	put(&f, sample, &python, 1);
	f.sink.ops->round(&f.sink);
	f.file = slurp(f.path, &f.n);
	assert_int_equal(count(&f, PERF_RECORD_SAMPLE), 1);
	assert_int_equal(access(f.symbols, R_OK), 0);
	free(f.file);
	end(&f);
	drop(&f);
}

/* Record until no file may be longer than @limit. Returns the samples that were
 * put. */
static int fill_disk(struct fixture *f, rlim_t limit)
{
	enum { FRAMES = 1000, SAMPLES = 1000 };
	struct rlimit old, small;
	struct frame fr[FRAMES];
	struct err err = {};
	int ret = 0, n;

	for (int i = 0; i < FRAMES; i++)
		fr[i] = python;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = limit;
	begin(f, 1);
	setrlimit(RLIMIT_FSIZE, &small);
	for (n = 0; n < SAMPLES && !ret; n++)
		ret = f->sink.ops->sample(&f->sink, &sample, &(struct stack){ FRAMES, fr });
	assert_int_equal(ret, -EFBIG);
	assert_int_equal(f->sink.ops->sample(&f->sink, &sample, &(struct stack){ 1, fr }),
			 -EFBIG);
	assert_int_equal(sink_close(&f->sink, &err), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_non_null(strstr(err.text, "a.data: File too large"));
	f->file = slurp(f->path, &f->n);
	return n;
}

static void readable_when_the_disk_is_full(void **state)
{
	struct fixture f;
	int n = fill_disk(&f, 1 << 20);

	/* some of the records made room for the symbols and the features */
	assert_in_range(n, 100, 200);
	assert_in_range(count(&f, PERF_RECORD_SAMPLE), 20, n);
	assert_string_equal((const char *)feature(&f, 12).at + 8 + 120 + 8, "event0");
	assert_true(copied(&f).n > 0x10000);
	assert_int_equal(access(f.symbols, R_OK), 0);
	drop(&f);

	/* too few for a copy of the symbols: some made room for the features */
	fill_disk(&f, 200000);
	assert_in_range(count(&f, PERF_RECORD_SAMPLE), 200000 / 8072 / 2, 200000 / 8072);
	assert_int_equal(access(f.symbols, R_OK), 0);
	drop(&f);
}

/* Names of a stream are looked for in the cache only. */
static void stream_needs_a_cache(void **state)
{
	struct session session = { .n_events = 1 };
	struct err err = {};
	struct sink s;

	setenv("PYSAMPLED_BUILDID_DIR", "nowhere", 1);
	assert_int_equal(sink_open(&s, sink_pick("perf", "-"), "-", &session, &err),
			 isatty(1) ? -EINVAL : -ENOENT);
	assert_non_null(strstr(err.text, isatty(1) ? "terminal" : "~/.debug"));
	unsetenv("PYSAMPLED_BUILDID_DIR");
}

static struct perf_kernel_map parse_kernel(const char *text, uint64_t size, bool ok)
{
	FILE *in = fmemopen((char *)(uintptr_t)text, strlen(text), "r");
	struct perf_kernel_map map = {};

	assert_int_equal(perf_kernel_parse(in, size, &map), ok);
	fclose(in);
	return map;
}

static void kernel_and_modules_are_found(void **state)
{
	static const char dep[] = "kernel/fs/nfs/nfs.ko: kernel/a.ko kernel/fs/xy.ko\n"
				  "kernel/fs/nfs-x.ko.xz:\n"
				  "kernel/net/xy.ko.gz: kernel/b.ko\n";
	struct perf_kernel_map map;
	const char *at;
	char name[64];
	size_t n;

	map = parse_kernel("ffffffff81000000 T _stext\nffffffff81000000 T _text\n"
			   "ffffffff81000100 t _text_poke_and_something\n"
			   "ffffffff82000000 T _etext\n",
			   0, true);
	assert_int_equal(map.addr, 0xffffffff81000000);
	assert_int_equal(map.pgoff, 0xffffffff81000000);
	assert_int_equal(map.len, 0x1000000);
	assert_string_equal(map.path, "[kernel.kallsyms]_text");
	map = parse_kernel("ffff800008010000 T _stext\nffff800009000000 T _etext\n", 0, true);
	assert_string_equal(map.path, "[kernel.kallsyms]_stext");
	/* With the size known the first lines do. */
	map = parse_kernel("ffffffff81000000 T _text\n", 0x1209988, true);
	assert_int_equal(map.addr, 0xffffffff81000000);
	assert_int_equal(map.len, 0x1209988);
	parse_kernel("ffffffff81000000 T _text\n", 0, false);
	parse_kernel("0000000000000000 T _text\n", 0x1209988, false);
	parse_kernel("0000000000000000 T _text\n0000000000000000 T _etext\n", 0, false);

	assert_true(perf_kernel_parse_module(
		"nfs_x 45056 1 lockd,grace, Live 0xffffffffc0000000 (E)\n", name, &map));
	assert_string_equal(name, "nfs_x");
	assert_int_equal(map.addr, 0xffffffffc0000000);
	assert_int_equal(map.len, 45056);
	assert_false(perf_kernel_parse_module("nfs 45056 0 - Live 0x0000000000000000\n", name,
					      &map));
	at = perf_kernel_find_module(dep, "nfs_x", &n);
	assert_int_equal(n, 21);
	assert_memory_equal(at, "kernel/fs/nfs-x.ko.xz", n);
	at = perf_kernel_find_module(dep, "xy", &n);
	assert_int_equal(n, 19);
	assert_memory_equal(at, "kernel/net/xy.ko.gz", n);
	assert_null(perf_kernel_find_module(dep, "nf", &n));
	assert_null(perf_kernel_find_module(dep, "nfs_xy", &n));
}

static void build_id_is_found_in_notes(void **state)
{
	unsigned char notes[64] = { 4,	 0,   0, 0, 1, 0, 0,   0,   9,	 0, 0,	  0,	'G',
				    'N', 'U', 0, 7, 0, 0, 0,   4,   0,	 0, 0,	  3,	0,
				    0,	 0,   3, 0, 0, 0, 'G', 'N', 'U', 0, 0xaa, 0xbb, 0xcc };
	unsigned char id[ELFIMAGE_MAX_ID];

	assert_int_equal(3, elfimage_id_in_notes((struct bytes){ notes, sizeof(notes) }, id));
	assert_memory_equal(id, "\xaa\xbb\xcc", 3);
	/* every prefix ends cleanly, and only whole ids count */
	for (size_t n = 0; n < 39; n++) {
		unsigned char *copy = malloc(n + 1);

		memcpy(copy, notes, n);
		assert_int_equal(elfimage_id_in_notes((struct bytes){ copy, n }, id), 0);
		free(copy);
	}
	memset(notes, 0xff, sizeof(notes));
	assert_int_equal(elfimage_id_in_notes((struct bytes){ notes, sizeof(notes) }, id), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sample_has_its_fields),
		cmocka_unit_test(addresses_are_in_all_samples),
		cmocka_unit_test(chain_has_contexts),
		cmocka_unit_test(attrs_are_uniform),
		cmocka_unit_test(symbols_are_mapped_once_a_process),
		cmocka_unit_test(side_events_are_kept),
		cmocka_unit_test(long_chains_lose_their_roots),
		cmocka_unit_test(deep_stacks_lose_their_middle),
		cmocka_unit_test(features_and_symbol_file),
		cmocka_unit_test(features_that_were_told),
		cmocka_unit_test(cache_has_the_symbol_file),
		cmocka_unit_test(cache_is_bounded),
		cmocka_unit_test(no_home_is_made),
		cmocka_unit_test(old_recording_is_kept),
		cmocka_unit_test(another_recording_begins_there),
		cmocka_unit_test(what_cannot_be_kept_as_the_old_one_stays),
		cmocka_unit_test(of_nothing_is_readable),
		cmocka_unit_test(readable_between_rounds),
		cmocka_unit_test(readable_when_the_disk_is_full),
		cmocka_unit_test(stream_needs_a_cache),
		cmocka_unit_test(kernel_and_modules_are_found),
		cmocka_unit_test(build_id_is_found_in_notes),
		cmocka_unit_test(build_ids_of_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
