/* SPDX-License-Identifier: MIT
 *
 * perf_records_test - each record that perf.data holds, byte for byte as perf_event_open(2)
 * has it, with another number in each field; and which frames a deep stack keeps.
 */
#include <limits.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "unit.h"
#include "no_memory.h"

#include "base/base.h"
#include "../../output/perf_file.h"
#include "../../output/perf_records.h"

#define SO "/srv/pyframes.so"

enum { PID = 10, TID = 11, CPU = 3, MISC_SIZE = 1 << 15, RECORD_MAX = 65528 };

static const unsigned char id20[] = "an id of twenty byte";
static struct session session = { .n_events = 2 };
static struct perf_records r;
static struct buf want;

static int setup(void **state)
{
	session = (struct session){ .n_events = 2 };
	return perf_records_init(&r, &session, SO, false);
}

static int teardown(void **state)
{
	perf_records_deinit(&r);
	buf_deinit(&want);
	want = (struct buf){ 0 };
	return 0;
}

/* What has been written since the last time is what has been put in @want. */
static void check(void)
{
	assert_int_equal(want.n, r.buf.n);
	assert_memory_equal(want.at, r.buf.at, want.n);
	want.n = r.buf.n = 0;
}

static void want_header(unsigned type, unsigned misc, unsigned size)
{
	buf_u32(&want, type);
	buf_u16(&want, misc);
	buf_u16(&want, size);
}

static void want_u32(uint32_t a, uint32_t b)
{
	buf_u32(&want, a);
	buf_u32(&want, b);
}

/* What sample_id_all adds: whose, when, where, which event. */
static void want_id(pid_t pid, pid_t tid, uint64_t time)
{
	want_u32((uint32_t)pid, (uint32_t)tid);
	buf_u64(&want, time);
	want_u32(CPU, 0);
	buf_u64(&want, PERF_FILE_ID);
}

/* The symbol file, mapped in @pid. */
static void want_symbols(pid_t pid, uint64_t time)
{
	want_header(PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_BUILD_ID,
		    72 + 24 + 32);
	want_u32((uint32_t)pid, (uint32_t)pid);
	buf_u64(&want, PYELF_BASE + PYELF_TEXT);
	buf_u64(&want, PYELF_SPAN);
	buf_u64(&want, PYELF_TEXT);
	buf_u32(&want, PYELF_BUILD_ID);
	buf_put(&want, r.id.at, PYELF_BUILD_ID);
	want_u32(PROT_READ | PROT_EXEC, MAP_PRIVATE);
	buf_put(&want, SO "\0\0\0\0\0\0\0\0", 24);
	want_id(pid, pid, time);
}

static struct side side_of(enum side_kind kind)
{
	return (struct side){ .kind = kind, .time = 5, .pid = PID, .tid = TID, .cpu = CPU };
}

static void put(const struct side *side)
{
	assert_int_equal(0, perf_records_side(&r, side));
}

/* The process has the symbol file already. */
static void known(void)
{
	struct side comm = side_of(SIDE_COMM);

	comm.u.comm.name = "x";
	put(&comm);
	r.buf.n = 0;
}

/* ---- Names ---- */

static void want_comm(unsigned misc, pid_t tid, const char *name)
{
	size_t n = (strlen(name) + 8) / 8 * 8;

	want_header(PERF_RECORD_COMM, misc, (unsigned)(16 + n + 32));
	want_u32(PID, (uint32_t)tid);
	buf_put(&want, name, strlen(name));
	buf_zero(&want, n - strlen(name));
	want_id(PID, tid, 5);
}

static void names(void **state)
{
	static const char longest[] =
		"a name of a thread that is as long as 128 bytes ........"
		"....................................................."
		"......................";
	struct side comm = side_of(SIDE_COMM);

	comm.u.comm.name = "thread";
	put(&comm);
	want_comm(0, TID, "thread");
	want_symbols(PID, 5);
	check();
	for (size_t n = 6; n < 9; n++) { /* up to the end of a word, and beyond it */
		char name[16] = "123456789";

		name[n] = '\0';
		comm.u.comm.name = name;
		put(&comm);
		want_comm(0, TID, name);
		check();
	}
	comm.u.comm.name = "a name longer than sixteen";
	put(&comm);
	want_comm(0, TID, "a name longer t");
	check();
	comm.u.comm.thread = true; /* the program's own name for it */
	put(&comm);
	want_comm(0, TID, "a name longer than sixteen");
	check();
	comm.u.comm.name = longest;
	put(&comm);
	assert_true(sizeof(longest) > 128);
	want_header(PERF_RECORD_COMM, 0, 16 + 128 + 32);
	want_u32(PID, TID);
	buf_put(&want, longest, 127);
	buf_u8(&want, 0);
	want_id(PID, TID, 5);
	check();
}

static void want_leader(const char *name, const char *title)
{
	want_header(PERF_RECORD_COMM, 0, 16 + 32 + 32);
	want_u32(PID, PID);
	buf_put(&want, name, strlen(name) + 1);
	buf_put(&want, title, strlen(title));
	buf_zero(&want, 31 - strlen(name) - strlen(title));
	want_id(PID, PID, 5);
}

/* The process keeps the kernel's name; the main thread's own stands behind it, whichever is told
 * first. */
static void main_threads(void **state)
{
	struct side comm = side_of(SIDE_COMM);

	known();
	comm.tid = PID;
	for (int i = 0; i < 2; i++) {
		comm.u.comm.name = "MainThread";
		comm.u.comm.thread = true;
		put(&comm);
		if (i)
			want_leader("a name longer t", "MainThread");
		check();
		comm.u.comm.name = "a name longer than sixteen";
		comm.u.comm.thread = false;
		put(&comm);
		want_leader("a name longer t", "MainThread");
		check();
	}
	comm.u.comm.exec = true;
	put(&comm);
	want_comm(PERF_RECORD_MISC_COMM_EXEC, PID, "a name longer t");
	want_symbols(PID, 5);
	check();
}

/* What there is no room for is told, but not known later: main threads keep their own names alone. */
static void more_names_than_are_kept(void **state)
{
	enum { BYTES = 1 << 20 };
	struct side comm = side_of(SIDE_COMM);
	char name[16];

	known();
	comm.tid = PID;
	comm.u.comm.name = name;
	for (int i = 0; strtab_bytes(r.names) < BYTES; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		put(&comm);
		r.buf.n = 0;
	}
	comm.u.comm.name = "one more";
	put(&comm);
	want_comm(0, PID, "one more");
	check();
	comm.u.comm.name = "MainThread";
	comm.u.comm.thread = true;
	put(&comm);
	check();
}

/* A program that begins has none of the maps from before. */
static void exec(void **state)
{
	struct side comm = side_of(SIDE_COMM);

	known();
	comm.u.comm.name = "a";
	comm.u.comm.exec = true;
	comm.tid = PID;
	put(&comm);
	want_comm(PERF_RECORD_MISC_COMM_EXEC, PID, "a");
	want_symbols(PID, 5);
	check();
}

/* ---- Maps ---- */

static struct side map_of(const char *path, unsigned prot)
{
	struct side side = side_of(SIDE_MMAP);

	side.u.mmap.addr = 0x400000, side.u.mmap.len = 0x1000, side.u.mmap.pgoff = 0x2000;
	side.u.mmap.maj = 8, side.u.mmap.min = 3, side.u.mmap.ino = 12;
	side.u.mmap.ino_generation = 99, side.u.mmap.prot = prot, side.u.mmap.flags = 2;
	side.u.mmap.path = path;
	return side;
}

static void want_map(unsigned misc, size_t path_n)
{
	want_header(PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER | misc,
		    (unsigned)(72 + path_n + 32));
	want_u32(PID, TID);
	buf_u64(&want, 0x400000);
	buf_u64(&want, 0x1000);
	buf_u64(&want, 0x2000);
}

static void want_build_id(size_t n)
{
	buf_u32(&want, (uint32_t)n);
	buf_put(&want, id20, n);
	buf_zero(&want, 20 - n);
}

static void want_inode(void)
{
	want_u32(8, 3);
	buf_u64(&want, 12);
	buf_u64(&want, 99);
}

static void maps(void **state)
{
	struct side map = map_of("/bin/a", PROT_READ | PROT_EXEC);

	put(&map);
	want_symbols(PID, 5);
	want_map(0, 8);
	want_inode();
	want_u32(PROT_READ | PROT_EXEC, 2);
	buf_put(&want, "/bin/a\0", 8);
	want_id(PID, TID, 5);
	check();
	map = map_of("/bin/dat", PROT_READ);
	put(&map);
	want_map(PERF_RECORD_MISC_MMAP_DATA, 16);
	want_inode();
	want_u32(PROT_READ, 2);
	buf_put(&want, "/bin/dat\0\0\0\0\0\0\0", 16);
	want_id(PID, TID, 5);
	check();
}

static void maps_with_build_ids(void **state)
{
	static const struct {
		size_t given, kept;
	} ids[] = { { 1, 1 }, { 19, 19 }, { 20, 20 }, { 21, 20 } };
	unsigned char many[21];

	memcpy(many, id20, sizeof(many));
	known();
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct side map = map_of("/a", PROT_EXEC);

		map.u.mmap.build_id = many;
		map.u.mmap.build_id_n = ids[i].given;
		put(&map);
		want_map(PERF_RECORD_MISC_MMAP_BUILD_ID, 8);
		want_build_id(ids[i].kept);
		want_u32(PROT_EXEC, 2);
		buf_put(&want, "/a\0\0\0\0\0", 8);
		want_id(PID, TID, 5);
		check();
	}
	/* An id without bytes, and bytes without an id, are none. */
	for (int i = 0; i < 2; i++) {
		struct side map = map_of("/a", PROT_EXEC);

		map.u.mmap.build_id = i ? NULL : many;
		map.u.mmap.build_id_n = i ? 20 : 0;
		put(&map);
		want_map(0, 8);
		want_inode();
		want_u32(PROT_EXEC, 2);
		buf_put(&want, "/a\0\0\0\0\0", 8);
		want_id(PID, TID, 5);
		check();
	}
}

static void long_paths(void **state)
{
	static char path[PATH_MAX + 9];
	struct side map = map_of(path, PROT_READ);

	known();
	memset(path, 'p', sizeof(path) - 1);
	path[PATH_MAX - 1] = '\0';
	for (int i = 0; i < 2; i++) { /* the longest; one that is longer */
		put(&map);
		assert_int_equal(72 + PATH_MAX + 32, r.buf.n);
		assert_int_equal('p', r.buf.at[72 + PATH_MAX - 2]);
		assert_int_equal(0, r.buf.at[72 + PATH_MAX - 1]);
		r.buf.n = 0;
		path[PATH_MAX - 1] = 'p';
	}
}

static void want_kernel_map(const char *path, uint64_t addr, pid_t pid, pid_t tid,
			    uint64_t time, uint32_t cpu)
{
	size_t n = (strlen(path) + 8) / 8 * 8;

	want_header(PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL, (unsigned)(40 + n + 32));
	want_u32(UINT32_MAX, 0);
	buf_u64(&want, addr);
	buf_u64(&want, 0x1000);
	buf_u64(&want, 0x2000);
	buf_put(&want, path, strlen(path));
	buf_zero(&want, n - strlen(path));
	want_u32((uint32_t)pid, (uint32_t)tid);
	buf_u64(&want, time);
	want_u32(cpu, 0);
	buf_u64(&want, PERF_FILE_ID);
}

static void kernel_maps(void **state)
{
	struct perf_kernel_map kernel = {
		0x500000,   0x1000, 0x2000, "[kernel.kallsyms]_text", "[kernel.kallsyms]",
		{ .n = 20 }
	};
	struct side map = map_of("[nfs]", PROT_EXEC);

	map.u.mmap.kernel = true;
	put(&map);
	want_kernel_map("[nfs]", 0x400000, PID, TID, 5, CPU);
	check();
	map.u.mmap.path = "[kernel.kallsyms]_text"; /* was written at the beginning */
	put(&map);
	check();
	r.build_ids.n = 0;
	assert_int_equal(0, perf_records_kernel(&r, &kernel));
	want_kernel_map("[kernel.kallsyms]_text", 0x500000, -1, 0, 0, 0);
	check();
	assert_int_equal(36 + 20, r.build_ids.n);
	assert_int_equal(PERF_RECORD_MISC_KERNEL | MISC_SIZE,
			 load_u32(r.build_ids.at + 4) & 0xffff);
	assert_string_equal("[kernel.kallsyms]", (char *)r.build_ids.at + 36);
	kernel.id.n = 0;
	assert_int_equal(0, perf_records_kernel(&r, &kernel));
	assert_int_equal(36 + 20, r.build_ids.n);
}

/* The kernel's own and a module's, as another recording had them at its begin. */
static void kernel_maps_that_were_there(void **state)
{
	static const char *const paths[] = { "[kernel.kallsyms]_text", "[nfs]" },
				*const dsos[] = { "[kernel.kallsyms]", "[nfs]" };
	struct side map = map_of(paths[0], PROT_EXEC);

	map.u.mmap.kernel = map.announced = true;
	map.u.mmap.file_id = (struct bytes){ id20, 20 };
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		map.u.mmap.path = paths[i];
		r.build_ids.n = 0;
		put(&map);
		want_kernel_map(paths[i], 0x400000, -1, 0, 0, 0);
		check();
		assert_memory_equal(id20, r.build_ids.at + 12, 20);
		assert_string_equal(dsos[i], (char *)r.build_ids.at + 36);
	}
}

/* The table of build-ids: each file with code, once. */
static void build_ids(void **state)
{
	static const struct {
		const char *path;
		unsigned prot;
		size_t own, file; /* ids of as many bytes: the record's, the file's */
		size_t kept;
	} rows[] = {
		{ "/a", PROT_EXEC, 20, 7, 20 },	  { "/a", PROT_EXEC, 20, 7, 0 },
		{ "/b", PROT_EXEC, 0, 7, 7 },	  { "/c", PROT_READ, 20, 7, 0 },
		{ "/c", PROT_EXEC, 20, 0, 20 },	  { "[vdso]", PROT_EXEC, 20, 7, 0 },
		{ "/d", PROT_EXEC, 0, 0, 0 },	  { "/d", PROT_EXEC, 20, 0, 20 },
		{ "//anon", PROT_EXEC, 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct side map = map_of(rows[i].path, rows[i].prot);

		map.u.mmap.build_id = rows[i].own ? id20 : NULL;
		map.u.mmap.build_id_n = rows[i].own ? rows[i].own : 20; /* of none */
		map.u.mmap.file_id = (struct bytes){ id20 + 1, rows[i].file };
		r.build_ids.n = 0;
		put(&map);
		assert_int_equal(rows[i].kept ? 40 : 0, r.build_ids.n);
		if (!rows[i].kept)
			continue;
		want_header(0, PERF_RECORD_MISC_USER | MISC_SIZE, 40);
		buf_u32(&want, UINT32_MAX);
		buf_put(&want, id20 + !rows[i].own, rows[i].kept);
		buf_zero(&want, 20 - rows[i].kept);
		buf_u32(&want, (uint32_t)rows[i].kept);
		buf_put(&want, rows[i].path, strlen(rows[i].path));
		buf_align(&want, 8);
		assert_memory_equal(want.at, r.build_ids.at, 40);
		want.n = 0;
	}
}

/* The next file of a path says itself which it is; the first one, mapped again, need not. */
static void build_ids_of_one_path(void **state)
{
	enum { MISC = 4, IDS = 40 };
	static const struct {
		size_t from, n; /* of the file's id */
		bool told;
	} rows[] = { { 0, 20, false }, { 1, 18, true }, { 0, 20, false }, { 0, 0, false },
		     { 0, 19, true } };
	struct side first = map_of("//anon", PROT_EXEC);

	put(&first); /* behind the map of the symbol file */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct side map = map_of("/e", PROT_EXEC);
		unsigned misc;

		map.u.mmap.file_id = (struct bytes){ id20 + rows[i].from, rows[i].n };
		r.buf.n = 0;
		put(&map);
		misc = load_u32(r.buf.at + MISC) & 0xffff;
		assert_int_equal(rows[i].told, !!(misc & PERF_RECORD_MISC_MMAP_BUILD_ID));
		if (!rows[i].told)
			continue;
		assert_int_equal(rows[i].n, load_u32(r.buf.at + IDS));
		assert_memory_equal(id20 + rows[i].from, r.buf.at + IDS + 4, rows[i].n);
	}
	r.buf.n = 0;
}

/* A stream has no table: they are records. The first one is the symbol file's. */
static void build_ids_of_a_stream(void **state)
{
	struct perf_records s;

	want_header(0, PERF_RECORD_MISC_USER | MISC_SIZE, 36 + 20);
	buf_u32(&want, UINT32_MAX);
	buf_put(&want, r.id.at, 20);
	buf_u32(&want, 20);
	buf_put(&want, SO "\0\0\0", 20);
	assert_int_equal(want.n, r.build_ids.n);
	assert_memory_equal(want.at, r.build_ids.at, want.n);
	assert_int_equal(0, r.buf.n);
	want.n = 0;
	assert_int_equal(0, perf_records_init(&s, &session, SO, true));
	assert_int_equal(0, s.build_ids.n);
	assert_int_equal(56, s.buf.n);
	assert_int_equal(67, load_u32(s.buf.at));
	assert_memory_equal(r.build_ids.at + 4, s.buf.at + 4, 8);
	assert_memory_equal(s.id.at, s.buf.at + 12, 20);
	assert_memory_not_equal(s.id.at, r.id.at, 20); /* each recording has its own */
	perf_records_deinit(&s);
}

/* ---- Lives ---- */

static void want_life(unsigned type, pid_t pid, pid_t tid, pid_t ppid, pid_t ptid)
{
	want_header(type, 0, 32 + 32);
	want_u32((uint32_t)pid, (uint32_t)ppid);
	want_u32((uint32_t)tid, (uint32_t)ptid);
	buf_u64(&want, 5);
	want_id(pid, tid, 5);
}

static void put_life(enum side_kind kind, pid_t pid, pid_t tid, pid_t ppid, pid_t ptid)
{
	struct side side = side_of(kind);

	side.pid = pid, side.tid = tid;
	side.u.fork.ppid = ppid, side.u.fork.ptid = ptid;
	put(&side);
	want_life(kind == SIDE_FORK ? PERF_RECORD_FORK : PERF_RECORD_EXIT, pid, tid, ppid,
		  ptid);
}

/* Does a sample of @pid map the symbol file there? */
static bool maps_symbols(pid_t pid)
{
	struct sample smp = { .pid = pid, .tid = pid };
	bool cut;

	r.buf.n = 0;
	assert_int_equal(0, perf_records_sample(&r, &smp, &(struct stack){ 0 }, &cut));
	assert_int_equal(PERF_RECORD_SAMPLE, load_u32(r.buf.at + r.buf.n - 80));
	assert_true(r.buf.n == 80 || load_u32(r.buf.at) == PERF_RECORD_MMAP2);
	return r.buf.n > 80;
}

static void lives(void **state)
{
	known();
	put_life(SIDE_FORK, 20, 21, PID, TID);
	put_life(SIDE_EXIT, 20, 21, PID, TID);
	check();
	assert_false(maps_symbols(20));
	assert_true(maps_symbols(30));
	assert_false(maps_symbols(30));
	put_life(SIDE_EXIT, 30, 31, 1, 1); /* a thread */
	assert_false(maps_symbols(30));
	put_life(SIDE_EXIT, 30, 30, 1, 1);
	assert_true(maps_symbols(30));
	put_life(SIDE_FORK, 30, 30, 77, 77); /* the number again: of a stranger */
	assert_true(maps_symbols(30));
	put_life(SIDE_FORK, PID, 12, PID, PID); /* a thread has its process's */
	assert_false(maps_symbols(PID));
	assert_false(maps_symbols(0)); /* no process */
	assert_false(maps_symbols(-1));
	assert_true(maps_symbols(1));
}

static void what_is_lost(void **state)
{
	struct side lost = side_of(SIDE_LOST), throttle = side_of(SIDE_THROTTLE);

	lost.u.lost.n = 77;
	put(&lost);
	want_header(PERF_RECORD_LOST_SAMPLES, 0, 16 + 32);
	buf_u64(&want, 77);
	want_id(PID, TID, 5);
	check();
	put(&throttle);
	want_header(PERF_RECORD_THROTTLE, 0, 32 + 32);
	buf_u64(&want, 5);
	buf_u64(&want, PERF_FILE_ID);
	buf_u64(&want, 0);
	want_id(PID, TID, 5);
	check();
	assert_int_equal(0, perf_records_round(&r));
	want_header(68, 0, 8);
	check();
}

/* A record for which memory had run out is left out, whole; the next one is written. */
static void no_memory_for_one(void **state)
{
	const size_t before = r.buf.n;

	r.buf.oom = true;
	assert_int_equal(-ENOMEM, perf_records_round(&r));
	assert_int_equal(before, r.buf.n);
	assert_int_equal(0, perf_records_round(&r));
	want_header(68, 0, 8);
	check();
}

/* ---- Samples ---- */

static const struct sample sample = { .pid = PID,
				      .tid = TID,
				      .time = 1000,
				      .period = 7,
				      .ip = 0x77,
				      .addr = 99,
				      .cpu = CPU,
				      .event = 1 };

static void want_sample(unsigned misc, uint64_t ip, bool addr, size_t nr)
{
	want_header(PERF_RECORD_SAMPLE, misc, (unsigned)(64 + 8 * addr + 8 * nr));
	buf_u64(&want, PERF_FILE_ID + 1);
	buf_u64(&want, ip);
	want_u32(PID, TID);
	buf_u64(&want, 1000);
	if (addr)
		buf_u64(&want, 99);
	want_u32(CPU, 0);
	buf_u64(&want, 7);
	buf_u64(&want, nr);
}

static bool put_sample(const struct frame *fr, size_t n, unsigned misc)
{
	struct sample smp = sample;
	bool cut;

	smp.misc = (uint16_t)misc;
	assert_int_equal(0, perf_records_sample(&r, &smp, &(struct stack){ n, fr }, &cut));
	return cut;
}

static void samples(void **state)
{
	const struct frame native = { .kind = FRAME_NATIVE, .ip = 0x1000 },
			   kernel[] = { { .kind = FRAME_KERNEL, .ip = 0x2000 }, native };

	assert_false(put_sample(&native, 1, PERF_RECORD_MISC_KERNEL));
	want_symbols(PID, 1000);
	want_sample(PERF_RECORD_MISC_USER, 0x1000, false, 2);
	buf_u64(&want, PERF_CONTEXT_USER);
	buf_u64(&want, 0x1000);
	check();
	assert_false(put_sample(kernel, 2, PERF_RECORD_MISC_USER));
	want_sample(PERF_RECORD_MISC_KERNEL, 0x2000, false, 4);
	buf_u64(&want, PERF_CONTEXT_KERNEL);
	buf_u64(&want, 0x2000);
	buf_u64(&want, PERF_CONTEXT_USER);
	buf_u64(&want, 0x1000);
	check();
	for (unsigned mode = 1; mode <= 2; mode++) { /* kernel, user; more bits are not kept */
		assert_false(put_sample(kernel, 0, mode | PERF_RECORD_MISC_EXACT_IP));
		want_sample(mode, 0x77, false, 2);
		buf_u64(&want, mode == 1 ? PERF_CONTEXT_KERNEL : PERF_CONTEXT_USER);
		buf_u64(&want, 0x77);
		check();
	}
}

/* What would be a context to who reads it is the address before the first one of those. */
static void wild_addresses(void **state)
{
	static const uint64_t wild[] = { PERF_CONTEXT_MAX, PERF_CONTEXT_KERNEL, UINT64_MAX };
	const uint64_t last = PERF_CONTEXT_MAX - 1;
	struct sample smp = sample;
	bool cut;

	known();
	for (size_t i = 0; i < ARRAY_SIZE(wild); i++) {
		const struct frame fr[] = { { .kind = FRAME_NATIVE, .ip = last },
					    { .kind = FRAME_NATIVE, .ip = wild[i] } };

		put_sample(fr, 2, 0);
		want_sample(PERF_RECORD_MISC_USER, last, false, 3);
		buf_u64(&want, PERF_CONTEXT_USER);
		buf_u64(&want, last);
		buf_u64(&want, last);
		check();
	}
	smp.ip = UINT64_MAX;
	assert_int_equal(0, perf_records_sample(&r, &smp, &(struct stack){ 0 }, &cut));
	assert_int_equal(UINT64_MAX, load_u64(r.buf.at + 16));
	assert_int_equal(last, load_u64(r.buf.at + 72));
}

static void samples_with_addresses(void **state)
{
	perf_records_deinit(&r);
	session.events[1].attr.sample_type = PERF_SAMPLE_ADDR | PERF_SAMPLE_RAW;
	assert_int_equal(0, perf_records_init(&r, &session, SO, false));
	known();
	put_sample(NULL, 0, PERF_RECORD_MISC_USER);
	want_sample(PERF_RECORD_MISC_USER, 0x77, true, 2);
	buf_u64(&want, PERF_CONTEXT_USER);
	buf_u64(&want, 0x77);
	check();
}

/* Python frames and markers have addresses of the symbol file, lines and names their own. */
static void symbols(void **state)
{
	static const struct pyfunc f = { "f", "/a.py", 5, 5, 9, 0 },
				   g = { "g", "/a.py", 5, 5, 9, 1 };
	const struct frame fr[] = {
		{ .kind = FRAME_PYTHON, .func = &f, .line = 5, .ip = 1 },
		{ .kind = FRAME_PYTHON, .func = &f, .line = 6, .ip = 1 },
		{ .kind = FRAME_PYTHON, .func = &g, .line = 5, .ip = 1 },
		{ .kind = FRAME_MARKER, .name = "[late]", .ip = 1 },
		{ .kind = FRAME_MARKER, .name = "[torn]", .ip = 1 },
		{ .kind = FRAME_MARKER, .name = "[late]", .ip = 1 },
	};
	uint64_t ip[6];

	known();
	put_sample(fr, 6, 0);
	assert_int_equal(64 + 8 * 7, r.buf.n);
	assert_int_equal(PERF_CONTEXT_USER, load_u64(r.buf.at + 64));
	for (size_t i = 0; i < 6; i++) {
		ip[i] = load_u64(r.buf.at + 72 + 8 * i);
		assert_in_range(ip[i], PYELF_BASE + PYELF_TEXT,
				PYELF_BASE + PYELF_TEXT + PYELF_SPAN);
		for (size_t k = 0; k < i; k++)
			assert_true((ip[i] == ip[k]) == (k == 3 && i == 5));
	}
	assert_int_equal(ip[0] + PYELF_SLOT, ip[1]);
	assert_int_equal(ip[0], load_u64(r.buf.at + 16));
	assert_int_equal(PYELF_BASE + pyelf_line(r.pyelf, &g, 5), ip[2]);
	assert_int_equal(PYELF_BASE + pyelf_marker(r.pyelf, "[torn]"), ip[4]);
}

/* ---- Deep stacks ---- */

enum { DEEP = 8200 };
static struct frame deep[DEEP];

/* What is left of @n frames: their numbers, -1 for a frame that is a marker of ours. */
static size_t kept_of(size_t n, bool *cut, int *ret)
{
	size_t nr;

	r.buf.n = 0;
	*cut = put_sample(deep, n, 0);
	assert_in_range(r.buf.n, 64, RECORD_MAX);
	nr = load_u64(r.buf.at + 56);
	assert_int_equal(r.buf.n, 64 + 8 * nr);
	assert_int_equal(PERF_CONTEXT_USER, load_u64(r.buf.at + 64));
	for (size_t i = 1; i < nr; i++) {
		uint64_t ip = load_u64(r.buf.at + 64 + 8 * i);

		ret[i - 1] = ip - 0x1000 < DEEP ? (int)(ip - 0x1000) : -1;
	}
	return nr - 1;
}

static void number_frames(void)
{
	for (size_t i = 0; i < DEEP; i++)
		deep[i] = (struct frame){ .kind = FRAME_NATIVE, .ip = 0x1000 + i };
}

/* A record has room for so many words: a stack that needs one more loses its root. */
static void longest(void **state)
{
	static int kept[DEEP];
	bool cut;
	size_t most, n;

	number_frames();
	known();
	for (most = 8150; kept_of(most + 1, &cut, kept) == most + 1 && !cut; most++)
		;
	assert_in_range(RECORD_MAX - (64 + 8 + 8 * most), 0, 32);
	n = kept_of(most + 1, &cut, kept);
	assert_true(cut);
	assert_in_range(n, most - 2, most + 1);
	assert_int_equal(-1, kept[n - 1]); /* [truncated] */
	assert_int_equal(n - 2, kept[n - 2]);
}

/* What perf shows of a deep stack has both its ends. */
static void elided(void **state)
{
	enum { SHOWN = 127 };
	static int kept[DEEP];
	bool cut;

	number_frames();
	known();
	r.shown = SHOWN;
	assert_int_equal(SHOWN, kept_of(SHOWN, &cut, kept));
	for (int i = 0; i < SHOWN; i++)
		assert_int_equal(i, kept[i]);
	assert_int_equal(0, r.n_elided);
	for (int n = SHOWN + 1; n < SHOWN + 4; n++) {
		assert_int_equal(SHOWN, kept_of((size_t)n, &cut, kept));
		assert_int_equal(n - SHOWN, r.n_elided);
		assert_false(cut);
		for (int i = 0; i < 63; i++) {
			assert_int_equal(i, kept[i]);
			assert_int_equal(n - 63 + i, kept[64 + i]);
		}
		assert_int_equal(-1, kept[63]);
	}
}

/* What says how much a stack is worth stays: the first four such marks. */
static void elided_marks(void **state)
{
	static const char *const names[] = { "[a]", "[b]", "[c]", "[d]", "[e]", "[f]" };
	enum { SHOWN = 11, N = 30 };

	known();
	r.shown = SHOWN;
	for (size_t marks = 0; marks <= 6; marks++) {
		size_t stay = MIN(marks, 4), k = 0;
		int kept[SHOWN];
		bool cut;

		number_frames();
		for (size_t i = 0; i < marks; i++) /* the middle is 5 to 24 */
			deep[i ? 4 + 4 * i : 5] =
				(struct frame){ .kind = FRAME_MARKER, .name = names[i] };
		assert_int_equal(SHOWN, kept_of(N, &cut, kept));
		for (int i = 0; i < 5; i++)
			assert_int_equal(i, kept[k++]);
		for (size_t i = 0; i <= stay; i++, k++) {
			assert_int_equal(-1, kept[k]);
			if (i)
				assert_int_equal(load_u64(r.buf.at + 72 + 8 * k),
						 PYELF_BASE +
							 pyelf_marker(r.pyelf, names[i - 1]));
		}
		for (int i = N - 5 + (int)stay; i < N; i++)
			assert_int_equal(i, kept[k++]);
		assert_int_equal(SHOWN, k);
	}
}

/* Also one of the frames that make room for another one. */
static void elided_mark_at_the_edge(void **state)
{
	enum { SHOWN = 11, N = 30 };
	static const int left[SHOWN] = { 0, 1, 2, 3, 4, -1, -1, -1, 27, 28, 29 };
	int kept[SHOWN];
	bool cut;

	known();
	r.shown = SHOWN;
	number_frames();
	deep[10] = (struct frame){ .kind = FRAME_MARKER, .name = "[a]" };
	deep[25] = (struct frame){ .kind = FRAME_MARKER, .name = "[b]" };
	assert_int_equal(SHOWN, kept_of(N, &cut, kept));
	assert_memory_equal(left, kept, sizeof(kept));
	assert_int_equal(load_u64(r.buf.at + 72 + 8 * 7),
			 PYELF_BASE + pyelf_marker(r.pyelf, "[b]"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* ---- Without memory ---- */

/* Each call's records, and how many calls lacked memory. -ENOMEM: it could not even begin. */
static int write_some(struct perf_records *to, unsigned *lacked)
{
	static const struct pyfunc funcs[] = { { "f", "/a.py", 1, 1, 5, 0 },
					       { "g", "/b.py", 2, 1, 5, 1 } };
	struct side side = side_of(SIDE_COMM), map = side_of(SIDE_MMAP);
	struct sample smp = sample;
	int ret = perf_records_init(to, &session, SO, false);
	bool cut;

	*lacked = 0;
	if (ret)
		return ret;
	map.u.mmap.path = "/lib/a.so", map.u.mmap.addr = 0x1000, map.u.mmap.len = 0x1000;
	map.u.mmap.prot = PROT_EXEC, map.u.mmap.file_id.n = 3, map.u.mmap.file_id.at = id20;
	side.u.comm.name = "x";
	*lacked += perf_records_side(to, &side) != 0;
	for (int i = 0; i < 150; i++) {
		const struct frame fr[] = { { .kind = FRAME_PYTHON, .func = &funcs[i % 2] },
					    { .kind = FRAME_NATIVE, .ip = 0x1234 } };

		smp.pid = PID + i;
		ret = perf_records_sample(to, &smp, &(struct stack){ 2, fr }, &cut);
		assert_true(ret == 0 || ret == -ENOMEM);
		*lacked += ret != 0;
		map.pid = smp.pid;
		*lacked += i % 9 == 0 && perf_records_side(to, &map) != 0;
	}
	return 0;
}

static void expect_whole_records(const struct buf *b)
{
	struct perf_event_header h;
	size_t at = 0;

	for (; at + sizeof(h) <= b->n; at += h.size) {
		memcpy(&h, b->at + at, sizeof(h));
		assert_in_range(h.size, sizeof(h), b->n - at);
	}
	assert_int_equal(at, b->n);
}

/* Whichever allocation fails, what is written are whole records, and all of them unless an
 * error is told. */
static void memory_runs_out(void **state)
{
	static struct perf_records whole, x;
	unsigned lacked;

	assert_int_equal(write_some(&whole, &lacked), 0);
	assert_int_equal(lacked, 0);
	for (int alone = 0; alone < 2; alone++)
		for (long n = 1, more = NO_MEMORY_FAILS; more; n++) {
			int ret;

			no_memory_from(n, alone);
			ret = write_some(&x, &lacked);
			more = no_memory_end();
			assert_true(ret == 0 || ret == -ENOMEM);
			expect_whole_records(&x.buf);
			/* A Python function may be "too many". */
			if (!ret && !lacked)
				assert_int_equal(x.buf.n, whole.buf.n);
			perf_records_deinit(&x);
			assert_true(more || n > 10);
		}
	perf_records_deinit(&whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names),
		TEST(main_threads),
		TEST(more_names_than_are_kept),
		TEST(exec),
		TEST(maps),
		TEST(maps_with_build_ids),
		TEST(long_paths),
		TEST(kernel_maps),
		TEST(kernel_maps_that_were_there),
		TEST(build_ids),
		TEST(build_ids_of_one_path),
		TEST(build_ids_of_a_stream),
		TEST(lives),
		TEST(what_is_lost),
		TEST(no_memory_for_one),
		TEST(memory_runs_out),
		TEST(samples),
		TEST(wild_addresses),
		TEST(samples_with_addresses),
		TEST(symbols),
		TEST(longest),
		TEST(elided),
		TEST(elided_marks),
		TEST(elided_mark_at_the_edge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
