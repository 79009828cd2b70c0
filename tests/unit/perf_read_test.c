/* SPDX-License-Identifier: MIT
 *
 * perf_read_test - what went into a perf.data comes out of it again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"
#include "base/base.h"
#include "elf/elfimage.h"
#include "../../output/buf.h"
#include "../../output/perf_kernel.h"
#include "../../output/perf_read.h"
#include "../../output/perf_zstd.h"
#include "../../output/sink.h"

enum { BITS_AT = 72, HELL_BYTES = 1000, EPOCH = 1234567 };

static char hell[HELL_BYTES + 1];
static const struct pyfunc funcs[] = {
	{ "a b;c(d)\\e", "/srv/a b.py", 5, 5, 14, 0 },
	{ "gr\303\266\303\237e<locals>.\360\237\220\215", "<string>", 1, 1, 1, 1 },
	{ hell, "", 7, 7, 7, 2 },
};

struct fixture {
	char dir[64], path[96];
	struct stats *stats;
	bool led;   /* the second event */
	bool dated; /* it told when it was */
};

static struct session got; /* of what was read last */

static void begin(struct fixture *f, struct sink *s, int compress)
{
	static struct session session;
	struct err err = {};

	session = (struct session){ .n_events = 2, .compress = compress, .epoch_ns = EPOCH };
	strcpy(session.events[0].name, "cpu-clock");
	strcpy(session.events[1].name, "page-faults");
	session.events[1].attr.sample_type = PERF_SAMPLE_ADDR;
	session.how[1].led = f->led;
	strcpy(f->dir, "/tmp/perf_read_test.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	setenv("PYSAMPLED_BUILDID_DIR", f->dir, 1);
	snprintf(f->path, sizeof(f->path), "%s/a.data", f->dir);
	assert_int_equal(sink_open(s, sink_pick(NULL, f->path), f->path, &session, &err), 0);
}

static void end(struct sink *s)
{
	struct err err = {};

	assert_int_equal(sink_close(s, &err), 0);
}

/* Two events; a sample with every kind of frame, one that is late, and one without Python. */
static void write_recording(struct fixture *f, int compress)
{
	const struct frame frames[] = {
		{ .kind = FRAME_NATIVE, .ip = 0x1234 },
		{ .kind = FRAME_PYTHON, .func = &funcs[0], .line = 6 },
		{ .kind = FRAME_PYTHON, .func = &funcs[1], .line = 0 },
		{ .kind = FRAME_PYTHON, .func = &funcs[2], .line = 7 },
		{ .kind = FRAME_MARKER, .name = "[late]" },
	};
	struct sample smp = { .pid = 10, .tid = 11, .time = 1000, .period = 7, .addr = 99 };
	static const struct side comm[] = {
		{ .kind = SIDE_COMM, .pid = 10, .tid = 11, .u.comm.name = "wor\nker" },
		{ .kind = SIDE_COMM, .pid = 10, .tid = 10, .u.comm.name = "seventy" },
		{ .kind = SIDE_COMM,
		  .pid = 10,
		  .tid = 10,
		  .u.comm = { .name = "Ma\nin", .thread = true } },
	};
	struct sink s;

	memset(hell, 'x', HELL_BYTES);
	begin(f, &s, compress);
	for (size_t i = 0; i < ARRAY_SIZE(comm); i++)
		s.ops->side(&s, &comm[i]);
	s.ops->sample(&s, &smp, &(struct stack){ 4, frames });
	smp.event = 1;
	s.ops->sample(&s, &smp, &(struct stack){ 5, frames });
	s.ops->sample(&s, &smp, &(struct stack){ 1, frames });
	end(&s);
}

/* What a reader tells, as text. */
static char told[16384];

static int tell_side(struct sink *s, const struct side *side)
{
	if (side->kind == SIDE_COMM)
		snprintf(told + strlen(told), sizeof(told) - strlen(told), "%d/%d%s=%s\n",
			 side->pid, side->tid, side->u.comm.thread ? " title" : "",
			 side->u.comm.name);
	return 0;
}

static int tell_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	char *at = told + strlen(told), *end = told + sizeof(told);

	at += snprintf(at, (size_t)(end - at), "%d/%d %u at=%d n=%d prov=%d addr=%d", smp->pid,
		       smp->tid, smp->event, (int)smp->time, (int)smp->period, smp->prov,
		       (int)smp->addr);
	for (size_t i = 0; i < stk->n; i++) {
		const struct frame *f = &stk->frames[i];

		if (f->func)
			at += snprintf(at, (size_t)(end - at), "|%s:%s:%d:%d",
				       f->func->qualname, f->func->file, f->func->firstline,
				       f->line);
		else
			at += snprintf(at, (size_t)(end - at), "|%s", f->name);
	}
	snprintf(at, (size_t)(end - at), "\n");
	return 0;
}

static const struct sink_ops ops = { .side = tell_side, .sample = tell_sample };

/* Read it into @told. What is missing: true. */
static bool read_recording(struct fixture *f, int want)
{
	FILE *in = fopen(f->path, "r");
	struct sink s = { .ops = &ops };
	struct perf_reader *r;
	struct err err = {};
	bool ret;

	*told = '\0';
	assert_non_null(in);
	assert_int_equal(perf_reader_open(&r, in, f->path, &err), 0);
	s.session = perf_reader_session(r);
	got = *s.session;
	assert_false(got.how[0].led);
	assert_int_equal(got.how[1].led, f->led);
	assert_true(!got.epoch_ns || got.epoch_ns == EPOCH);
	f->dated = got.epoch_ns;
	assert_int_equal(perf_reader_run(r, &s), want);
	ret = perf_reader_missing(r);
	perf_reader_close(r);
	fclose(in);
	return ret;
}

static void put_bytes(const struct fixture *f, const char *path, long at, const void *p,
		      size_t n)
{
	FILE *out = fopen(path, "r+");

	assert_non_null(out);
	fseek(out, at, SEEK_SET);
	assert_int_equal(fwrite(p, 1, n, out), n);
	fclose(out);
}

static void drop(const struct fixture *f)
{
	char cmd[96];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", f->dir);
	assert_int_equal(system(cmd), 0);
}

static void expect_all(void)
{
	char want[3 * 4096], python[4096];

	snprintf(python, sizeof(python),
		 "|[unknown]|a b;c(d)\\e:/srv/a b.py:5:6"
		 "|gr\303\266\303\237e<locals>.\360\237\220\215:<string>:1:0|%s:?:7:7",
		 hell);
	snprintf(want, sizeof(want),
		 "10/11=wor?ker\n10/10=seventy\n10/10=seventy\n10/10 title=Ma?in\n"
		 "10/11 0 at=1000 n=7 prov=%d addr=99%s\n"
		 "10/11 1 at=1000 n=7 prov=%d addr=99%s|[late]\n"
		 "10/11 1 at=1000 n=7 prov=%d addr=99|[unknown]\n",
		 PROV_EXACT, python, PROV_LATE, python, PROV_NOPYTHON);
	assert_string_equal(told, want);
}

static void names_come_back_whole(void **state)
{
	struct fixture f = { 0 };

	for (int level = 0; level < 2; level++) {
		f.led = level;
		write_recording(&f, level);
		assert_false(read_recording(&f, 0));
		assert_int_equal(got.n_events, 2);
		assert_true(f.dated);
		expect_all();
		drop(&f);
	}
}

/* The map of the code at @ip. */
static struct side map_of(const void *ip)
{
	static char path[256];
	struct side s = { .kind = SIDE_MMAP, .pid = 10, .tid = 10 };
	unsigned long from = 0, to = 0, off = 0, ino = 0, at = (unsigned long)(uintptr_t)ip;
	char line[512];
	FILE *in = fopen("/proc/self/maps", "r");

	assert_non_null(in);
	while (!s.u.mmap.path && fgets(line, sizeof(line), in))
		if (sscanf(line, "%lx-%lx r-xp %lx %*s %lu %255s", &from, &to, &off, &ino,
			   path) == 5 &&
		    from <= at && at < to)
			s.u.mmap.path = path;
	s.u.mmap.addr = from;
	s.u.mmap.len = to - from;
	s.u.mmap.pgoff = off;
	s.u.mmap.ino = ino;
	s.u.mmap.prot = PROT_READ | PROT_EXEC;
	fclose(in);
	return s;
}

/* A thread may have been switched out at a function's first instruction. */
static void a_wait_begins_where_it_did(void **state)
{
	const struct side map = map_of(tell_sample);
	const struct frame frames[] = {
		{ .kind = FRAME_MARKER, .name = "[runnable]" },
		{ .kind = FRAME_NATIVE, .ip = (uintptr_t)tell_sample },
		{ .kind = FRAME_NATIVE, .ip = (uintptr_t)tell_sample + 1 },
	};
	const struct sample smp = { .pid = 10, .tid = 10, .time = 5, .period = 1 };
	struct fixture f = { 0 };
	struct sink s;

	assert_non_null(map.u.mmap.path);
	begin(&f, &s, 0);
	s.ops->side(&s, &map);
	s.ops->sample(&s, &smp, &(struct stack){ 3, frames });
	end(&s);
	read_recording(&f, 0);
	assert_non_null(strstr(told, "|[runnable]|tell_sample|tell_sample\n"));
	drop(&f);
}

/* A return address that leads nowhere may be any word: it is a frame without a name. */
static void a_wild_address_is_a_frame(void **state)
{
	const struct frame frames[] = {
		{ .kind = FRAME_PYTHON, .func = &funcs[0], .line = 6 },
		{ .kind = FRAME_NATIVE, .ip = UINT64_MAX, .name = "[unknown]" },
		{ .kind = FRAME_MARKER, .name = "[no map]" },
	};
	const struct sample smp = { .pid = 10, .tid = 10, .time = 5, .period = 1 };
	struct fixture f = { 0 };
	struct sink s;

	begin(&f, &s, 0);
	s.ops->sample(&s, &smp, &(struct stack){ 3, frames });
	end(&s);
	read_recording(&f, 0);
	assert_non_null(strstr(told, ":6|[unknown]|[no map]\n"));
	drop(&f);
}

/* As after a kill: no features, and nothing behind the records. */
static void cut_to_records(const struct fixture *f)
{
	static const unsigned char none[32];
	unsigned char head[56];
	FILE *in = fopen(f->path, "r");

	assert_non_null(in);
	assert_int_equal(fread(head, 1, sizeof(head), in), sizeof(head));
	fclose(in);
	put_bytes(f, f->path, BITS_AT, none, sizeof(none));
	assert_int_equal(truncate(f->path, (off_t)(load_u64(head + 40) + load_u64(head + 48))),
			 0);
}

static void names_come_from_the_file_beside(void **state)
{
	static const unsigned char none[32];
	char symbols[128];
	struct fixture f = { 0 };

	write_recording(&f, 0);
	cut_to_records(&f);
	assert_false(read_recording(&f, 0));
	assert_false(f.dated);
	expect_all();
	snprintf(symbols, sizeof(symbols), "%s.pyframes/pyframes.so", f.path);
	put_bytes(&f, symbols, 64 + 3 * 56 + 16, none,
		  20); /* of another recording, by its id */
	assert_true(read_recording(&f, 0));
	assert_null(strstr(told, "srv"));
	assert_non_null(strstr(told, "[unnamed]"));
	drop(&f);
}

static void damage_is_told(void **state)
{
	static const unsigned char small[2] = { 4, 0 };
	struct fixture f = { 0 };

	write_recording(&f, 0);
	/* the size of the first record: head, ids and attrs stand before it */
	put_bytes(&f, f.path, 104 + 2 * 8 + 2 * 136 + 6, small, sizeof(small));
	read_recording(&f, -EBADMSG);
	assert_string_equal(told, "");
	drop(&f);
}

/* ---- other tools' ---- */

static const struct perf_event_attr clock_attr = {
	.type = PERF_TYPE_SOFTWARE,
	.config = PERF_COUNT_SW_CPU_CLOCK,
	.sample_period = 1,
	.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD,
};

/* Of one event. @size: of the records, as its head tells. */
static void write_foreign(struct fixture *f, const struct perf_event_attr *a, uint64_t features,
			  const struct buf *records, uint64_t size)
{
	enum { HEAD = 104, ATTR = 128, ENTRY = ATTR + 16 };
	const uint64_t words[] = { HEAD, ENTRY, HEAD, ENTRY, HEAD + ENTRY, size, 0, 0, features };
	struct buf b = { 0 };
	FILE *out;

	strcpy(f->dir, "/tmp/perf_read_test.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/a.data", f->dir);
	buf_put(&b, "PERFILE2", 8);
	buf_put(&b, words, sizeof(words));
	buf_zero(&b, HEAD - b.n);
	buf_put(&b, a, ATTR);
	buf_zero(&b, ENTRY - ATTR);
	buf_put(&b, records->at, records->n);
	out = fopen(f->path, "w");
	assert_non_null(out);
	assert_int_equal(fwrite(b.at, 1, b.n, out), b.n);
	fclose(out);
	buf_deinit(&b);
}

static void put_head(struct buf *b, uint32_t type, size_t size)
{
	buf_u32(b, type);
	buf_u16(b, PERF_RECORD_MISC_USER);
	buf_u16(b, (unsigned)size);
}

static void put_sample(struct buf *b, uint64_t ip, int pid, uint64_t time, uint64_t period)
{
	put_head(b, PERF_RECORD_SAMPLE, 40);
	buf_u64(b, ip);
	buf_u32(b, (uint32_t)pid);
	buf_u32(b, (uint32_t)pid);
	buf_u64(b, time);
	buf_u64(b, period);
}

#define TWO_SAMPLES                                                                                \
	"0/0=swapper\n7/7 0 at=5 n=1 prov=3 addr=0|[unknown]\n"                                    \
	"0/0 0 at=6 n=9 prov=3 addr=0|[unknown]\n"

static struct buf two_samples(void)
{
	struct buf b = { 0 };

	put_sample(&b, 0x1234, 7, 5, 1);
	put_sample(&b, 0x1234, 0, 6, 9);
	return b;
}

/* perf's own event for what has no samples is none that anybody asked for. */
static void the_tracking_event_is_none(void **state)
{
	static const struct perf_event_attr dummy = { .type = PERF_TYPE_SOFTWARE,
						      .config = PERF_COUNT_SW_DUMMY };
	static const char name[] = "page-faults", tracking[] = "dummy:u";
	struct fixture f = { 0 };
	static char all[1 << 16];
	const char *at;
	size_t n;
	FILE *in;

	write_recording(&f, 0);
	in = fopen(f.path, "r");
	n = fread(all, 1, sizeof(all), in);
	fclose(in);
	at = memmem(all, n, name, sizeof(name));
	assert_non_null(at);
	put_bytes(&f, f.path, at - all, tracking, sizeof(tracking));
	put_bytes(&f, f.path, 104 + 2 * 8 + 136, &dummy, 16);
	read_recording(&f, 0);
	assert_int_equal(got.n_events, 1);
	assert_non_null(strstr(told, "10/11 0 at=1000"));
	assert_null(strstr(told, "10/11 1 at=1000"));
	put_bytes(&f, f.path, at - all, name, sizeof(name)); /* of ours any event may be one */
	read_recording(&f, 0);
	assert_int_equal(got.n_events, 2);
	assert_non_null(strstr(told, "10/11 1 at=1000"));
	drop(&f);
}

/* A body with its length before it, and padding behind. */
static struct buf packed_anew(const struct buf *packed)
{
	struct perf_event_header h;
	struct buf ret = { 0 };

	for (size_t at = 0; at < packed->n; at += h.size) {
		size_t n;

		memcpy(&h, packed->at + at, sizeof(h));
		n = h.size - sizeof(h);
		put_head(&ret, 83, (16 + n + 7) & ~(size_t)7);
		buf_u64(&ret, n);
		buf_put(&ret, packed->at + at + sizeof(h), n);
		buf_align(&ret, 8);
	}
	return ret;
}

static void newer_perf_packs_otherwise(void **state)
{
	struct perf_packer *p = perf_packer_create(1);
	struct buf records = two_samples(), packed = { 0 }, anew;
	struct fixture f = { 0 };

	assert_int_equal(perf_pack(p, &records, &packed), 0);
	anew = packed_anew(&packed);
	write_foreign(&f, &clock_attr, 0, &anew, anew.n);
	read_recording(&f, 0);
	assert_string_equal(told, TWO_SAMPLES);
	drop(&f);
	perf_packer_destroy(p);
	buf_deinit(&records);
	buf_deinit(&packed);
	buf_deinit(&anew);
}

/* Where the kernel gives each sample a weight that is its period, of an event that has none. */
static void samples_of_their_own_weight(void **state)
{
	struct perf_event_attr a = clock_attr;
	struct buf records = two_samples();
	struct fixture f = { 0 };

	for (int clock = 0; clock < 2; clock++) {
		a.config = clock ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_BPF_OUTPUT;
		write_foreign(&f, &a, 0, &records, records.n);
		read_recording(&f, 0);
		assert_string_equal(told, TWO_SAMPLES);
		drop(&f);
	}
	buf_deinit(&records);
}

/* perf tells at its end how long the records are; it may have told of features that come behind. */
static void a_killed_recording_has_its_samples(void **state)
{
	struct buf records = two_samples();
	struct fixture f = { 0 };

	for (uint64_t features = 0; features < 2; features++) {
		write_foreign(&f, &clock_attr, features << 12, &records, 0);
		read_recording(&f, 0);
		assert_string_equal(told, TWO_SAMPLES);
		assert_int_equal(truncate(f.path, 104 + 144 + 40 + 8), 0);
		read_recording(&f, -EBADMSG);
		assert_non_null(strstr(told, "7/7 0 at=5"));
		drop(&f);
	}
	buf_deinit(&records);
}

/* What waits for its order is told once, also where one of it is damaged. */
static void samples_before_a_damaged_one_are_told_once(void **state)
{
	enum { FINISHED_ROUND = 68, CUT = 32 };
	struct buf records = two_samples();
	struct fixture f = { 0 };

	(void)state;
	put_sample(&records, 0x1234, 7, 8, 2);
	put_head(&records, PERF_RECORD_SAMPLE, CUT);
	buf_u64(&records, 0x1234);
	buf_u64(&records, 0);
	buf_u64(&records, 7); /* its time; no period */
	for (int i = 0; i < 2; i++)
		put_head(&records, FINISHED_ROUND, 8);
	write_foreign(&f, &clock_attr, 0, &records, records.n);
	read_recording(&f, -EBADMSG);
	assert_string_equal(told, TWO_SAMPLES "7/7 0 at=8 n=2 prov=3 addr=0|[unknown]\n");
	drop(&f);
	buf_deinit(&records);
}

/* A record that has @before and then a path. */
static void put_path(struct buf *b, uint32_t type, const struct buf *before, const char *path)
{
	size_t n = strlen(path) + 1;

	put_head(b, type, (8 + before->n + n + 7) & ~(size_t)7);
	buf_put(b, before->at, before->n);
	buf_put(b, path, n);
	buf_align(b, 8);
}

static void put_map(struct buf *to, const struct side *map)
{
	struct buf b = { 0 };

	buf_u32(&b, 10);
	buf_u32(&b, 10);
	buf_u64(&b, map->u.mmap.addr);
	buf_u64(&b, map->u.mmap.len);
	buf_u64(&b, map->u.mmap.pgoff);
	buf_zero(&b, 24); /* device and inode */
	buf_u32(&b, map->u.mmap.prot);
	buf_u32(&b, MAP_PRIVATE);
	put_path(to, PERF_RECORD_MMAP2, &b, map->u.mmap.path);
	buf_deinit(&b);
}

/* A build-id as perf wrote them before Linux 5.11, the map of a file, and a sample in it. */
static struct buf in_a_file(const unsigned char id[20], const struct side *map)
{
	struct buf ret = { 0 }, b = { 0 };

	buf_u32(&b, 10);
	buf_put(&b, id, 20);
	buf_zero(&b, 4);
	put_path(&ret, 67, &b, map->u.mmap.path);
	buf_deinit(&b);
	put_map(&ret, map);
	put_sample(&ret, (uintptr_t)tell_sample + 1, 10, 5, 1);
	return ret;
}

static void old_perf_tells_no_size_of_a_build_id(void **state)
{
	const struct side map = map_of(tell_sample);
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	unsigned char id[ELFIMAGE_MAX_ID] = { 0 };
	struct fixture f = { 0 };
	struct elfimage im;
	size_t n;

	assert_int_equal(elfimage_init(&im, fd, (struct bytes){ 0 }), 0);
	n = elfimage_build_id(&im, id);
	elfimage_deinit(&im);
	if (!n || n > 20)
		skip();
	for (int other = 0; other < 2; other++) {
		struct buf records;

		id[0] = (unsigned char)(id[0] ^ other);
		records = in_a_file(id, &map);
		write_foreign(&f, &clock_attr, 0, &records, records.n);
		read_recording(&f, 0);
		assert_int_equal(!strstr(told, " (another)"), !other);
		assert_int_equal(!strstr(told, "|tell_sample\n"), other);
		drop(&f);
		buf_deinit(&records);
	}
}

/* Who has the number of a process may be another one by the time its map is begun. The file's own
 * time is when it was copied. */
static void a_later_process_lends_no_names(void **state)
{
	enum { FIRST = 5000001 /* the kernel has no such number */ };
	const struct frame frames[] = { { .kind = FRAME_NATIVE, .ip = 0x1234 } };
	const struct sample smp = { .pid = FIRST, .tid = FIRST, .time = 5, .period = 1 };
	struct fixture f = { 0 };
	char path[64];
	struct statx st;
	struct sink s;
	FILE *map;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", FIRST);
	assert_non_null(map = fopen(path, "wx"));
	fputs("1200 100 made\n", map);
	fclose(map);
	assert_int_equal(statx(AT_FDCWD, path, 0, STATX_BTIME, &st), 0);
	begin(&f, &s, 0);
	s.ops->sample(&s, &smp, &(struct stack){ 1, frames });
	end(&s);
	read_recording(&f, 0);
	assert_int_equal(!strstr(told, "|[unknown]\n"), !(st.stx_mask & STATX_BTIME));
	cut_to_records(&f); /* when it ended is not told */
	read_recording(&f, 0);
	assert_int_equal(unlink(path), 0);
	assert_non_null(strstr(told, "|made\n"));
	drop(&f);
}

/* ---- stacks ---- */

enum { CONTEXT_DEFERRED = -640, CALLCHAIN_DEFERRED = 22 };

/* A sample of who runs tell_sample(), with @n words of the kernel's chain and maybe @n_calls. */
static void put_stack(struct buf *b, const uint64_t *chain, size_t n, const uint64_t *calls,
		      size_t n_calls)
{
	size_t at = b->n;

	put_sample(b, (uintptr_t)tell_sample + 1, 10, 5, 1);
	buf_u64(b, n);
	buf_put(b, chain, 8 * n);
	if (calls)
		buf_u64(b, n_calls);
	for (size_t i = 0; i < n_calls; i++) {
		buf_u64(b, calls[i]);
		buf_zero(b, 16); /* where to, and flags */
	}
	buf_set_u16(b, at + 6, (unsigned)(b->n - at));
}

static bool read_stacks(uint64_t more, const struct buf *records)
{
	struct perf_event_attr a = clock_attr;
	struct fixture f = { 0 };
	bool ret;

	a.sample_type |= PERF_SAMPLE_CALLCHAIN | more;
	a.branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_CALL_STACK;
	write_foreign(&f, &a, 0, records, records->n);
	ret = read_recording(&f, 0);
	drop(&f);
	return ret;
}

/* What the kernel finds by frame pointers stands in the sample, too. A call is where it is, and not
 * where it returns to. */
static void callers_are_those_that_the_processor_kept(void **state)
{
	const uint64_t calls[] = { (uintptr_t)tell_side, (uintptr_t)drop };
	const uint64_t chain[] = { PERF_CONTEXT_KERNEL, UINT64_C(0xffffffff81000000),
				   PERF_CONTEXT_USER, (uintptr_t)tell_sample + 1, 0x1234 };
	const struct side map = map_of(tell_sample);
	struct buf records = { 0 };

	(void)state;
	put_map(&records, &map);
	put_stack(&records, chain + 2, 3, calls, 2);
	put_stack(&records, chain + 2, 3, calls + 1, 1);
	put_stack(&records, chain + 2, 3, calls, 0);
	put_stack(&records, chain, 5, calls, 2);
	assert_false(read_stacks(PERF_SAMPLE_BRANCH_STACK, &records));
	assert_string_equal(told,
			    "0/0=swapper\n"
			    "10/10 0 at=5 n=1 prov=3 addr=0|tell_sample|tell_side|drop\n"
			    "10/10 0 at=5 n=1 prov=3 addr=0|tell_sample|drop\n"
			    "10/10 0 at=5 n=1 prov=3 addr=0|tell_sample|[unknown]\n"
			    "10/10 0 at=5 n=1 prov=3 addr=0|[kernel]_[k]|tell_sample"
			    "|tell_side|drop\n");
	buf_deinit(&records);
}

/* Of who was in user mode there is where it ran; what stands for the rest is no address. */
static void stacks_behind_their_samples_are_told(void **state)
{
	const uint64_t chain[] = { PERF_CONTEXT_KERNEL, UINT64_C(0xffffffff81000000),
				   (uint64_t)CONTEXT_DEFERRED, 77 };
	const struct side map = map_of(tell_sample);
	struct buf records = { 0 };

	(void)state;
	put_map(&records, &map);
	put_stack(&records, chain, 4, NULL, 0);
	put_stack(&records, chain + 2, 2, NULL, 0);
	assert_false(read_stacks(0, &records));
	put_head(&records, CALLCHAIN_DEFERRED, 24);
	buf_u64(&records, 77);
	buf_u64(&records, 0);
	assert_true(read_stacks(0, &records));
	assert_string_equal(told, "0/0=swapper\n"
				  "10/10 0 at=5 n=1 prov=3 addr=0|[kernel]_[k]\n"
				  "10/10 0 at=5 n=1 prov=3 addr=0|tell_sample\n");
	buf_deinit(&records);
}

struct kernel_now {
	struct perf_kernel_map map;
	char path[64];
};

static int take_kernel(void *ctx, const struct perf_kernel_map *map)
{
	struct kernel_now *k = ctx;

	k->map = *map;
	snprintf(k->path, sizeof(k->path), "%s", map->path);
	return 1;
}

/* Its map, of length @len and with its build-id in the record, and a sample where its code begins. */
static struct buf in_the_kernel(const struct kernel_now *k, uint64_t len)
{
	const unsigned kernel = PERF_RECORD_MISC_KERNEL;
	struct buf ret = { 0 }, b = { 0 };
	size_t at;

	buf_u64(&b, UINT32_MAX); /* no process */
	buf_u64(&b, k->map.addr);
	buf_u64(&b, len);
	buf_u64(&b, k->map.pgoff);
	buf_u32(&b, (uint32_t)k->map.id.n);
	buf_put(&b, k->map.id.at, 20);
	buf_zero(&b, 8); /* rights */
	put_path(&ret, PERF_RECORD_MMAP2, &b, k->path);
	buf_deinit(&b);
	buf_set_u16(&ret, 4, kernel | PERF_RECORD_MISC_MMAP_BUILD_ID);
	at = ret.n;
	put_sample(&ret, k->map.addr, 10, 5, 1);
	buf_set_u16(&ret, at + 4, kernel);
	return ret;
}

/* Since Linux 6.6 perf's map of the kernel ends behind its data. */
static void the_kernels_map_may_end_behind_its_code(void **state)
{
	static const int64_t more[] = { -1, 0, 16 << 20 };
	struct kernel_now k = { 0 };

	(void)state;
	perf_kernel_maps(take_kernel, &k);
	if (!k.map.addr || k.map.id.n != 20)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
		struct buf records = in_the_kernel(&k, k.map.len + (uint64_t)more[i]);
		struct fixture f = { 0 };

		write_foreign(&f, &clock_attr, 0, &records, records.n);
		read_recording(&f, 0);
		assert_int_equal(!strstr(told, "|[kernel]_[k]\n"), more[i] >= 0);
		drop(&f);
		buf_deinit(&records);
	}
}

/* Processes that wrote nothing down, however many, leave the names of who did. */
static void many_without_a_map_take_no_names(void **state)
{
	enum { MANY = 256, FIRST = 5000001 /* the kernel has no such numbers */ };
	struct buf records = { 0 };
	struct fixture f = { 0 };
	char path[64], want[64];
	FILE *map;

	(void)state;
	for (int i = 0; i <= MANY; i++)
		put_sample(&records, 0x1234, FIRST + i, 5, 1);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", FIRST + MANY);
	assert_non_null(map = fopen(path, "wx"));
	fputs("1200 100 made\n", map);
	fclose(map);
	write_foreign(&f, &clock_attr, 0, &records, records.n);
	read_recording(&f, 0);
	assert_int_equal(unlink(path), 0);
	snprintf(want, sizeof(want), "%d 0 at=5 n=1 prov=3 addr=0|made\n", FIRST + MANY);
	assert_non_null(strstr(told, want));
	assert_non_null(strstr(told, "5000001 0 at=5 n=1 prov=3 addr=0|[unknown]\n"));
	drop(&f);
	buf_deinit(&records);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_come_back_whole),
		cmocka_unit_test(a_wait_begins_where_it_did),
		cmocka_unit_test(a_wild_address_is_a_frame),
		cmocka_unit_test(names_come_from_the_file_beside),
		cmocka_unit_test(damage_is_told),
		cmocka_unit_test(the_tracking_event_is_none),
		cmocka_unit_test(newer_perf_packs_otherwise),
		cmocka_unit_test(samples_of_their_own_weight),
		cmocka_unit_test(a_killed_recording_has_its_samples),
		cmocka_unit_test(samples_before_a_damaged_one_are_told_once),
		cmocka_unit_test(many_without_a_map_take_no_names),
		cmocka_unit_test(old_perf_tells_no_size_of_a_build_id),
		cmocka_unit_test(the_kernels_map_may_end_behind_its_code),
		cmocka_unit_test(a_later_process_lends_no_names),
		cmocka_unit_test(callers_are_those_that_the_processor_kept),
		cmocka_unit_test(stacks_behind_their_samples_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
