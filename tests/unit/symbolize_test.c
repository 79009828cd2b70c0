/* SPDX-License-Identifier: MIT
 *
 * symbolize_test - names against dlsym() and libelf, address spaces as a map of
 * events, and tables read from damaged files.
 */

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <libelf.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>

#include "unit.h"
#include "base/stats.h"
#include "bpf/kernel_names.h"
#include "arch/arch.h"
#include "elf/module.h"
#include "names/demangle.h"
#include "names/kallsyms.h"
#include "sys/proc.h"
#include "sys/proc_maps.h"
#include "../own_spaces.h"
#include "real_syscall.h"
#include "names/symnames.h"

/* ---- Helpers ---- */

/* @generation: a file of the same number that is another one. */
static void feed_generation(struct symbolizer *s, pid_t pid, const struct proc_map *m,
			    uint64_t generation)
{
	struct side side = { .kind = SIDE_MMAP, .pid = pid, .tid = pid };

	side.u.mmap.addr = m->start;
	side.u.mmap.len = m->end - m->start;
	side.u.mmap.pgoff = m->pgoff;
	side.u.mmap.ino = m->ino;
	side.u.mmap.ino_generation = generation;
	side.u.mmap.maj = m->maj;
	side.u.mmap.min = m->min;
	side.u.mmap.prot = PROT_READ | (m->x ? PROT_EXEC : 0);
	side.u.mmap.path = m->path;
	spaces_side(symbolizer_spaces(s), &side);
}

static void feed_map(struct symbolizer *s, pid_t pid, const struct proc_map *m)
{
	feed_generation(s, pid, m, 0);
}

static void feed(struct symbolizer *s, enum side_kind kind, pid_t pid, pid_t tid, pid_t ppid)
{
	struct side side = { .kind = kind, .pid = pid, .tid = tid };

	if (kind == SIDE_COMM) {
		side.u.comm.name = "x";
		side.u.comm.exec = ppid;
	} else {
		side.u.fork.ppid = ppid;
	}
	spaces_side(symbolizer_spaces(s), &side);
}

static void feed_self(struct symbolizer *s)
{
	struct proc_maps maps;

	assert_int_equal(0, proc_maps_read(&maps, getpid()));
	for (size_t i = 0; i < maps.n; i++)
		if (maps.map[i].x)
			feed_map(s, getpid(), &maps.map[i]);
	proc_maps_deinit(&maps);
}

/* A symbolizer that knows this process. */
static struct symbolizer *of_self(void)
{
	struct symbolizer *s = own_symbolizer(0);

	assert_non_null(s);
	feed_self(s);
	return s;
}

/* The file mapped where @p points. */
static void path_of(const void *p, char path[static 4096])
{
	struct proc_maps maps;

	path[0] = '\0';
	assert_int_equal(0, proc_maps_read(&maps, getpid()));
	for (size_t i = 0; i < maps.n; i++)
		if ((uintptr_t)p - maps.map[i].start < maps.map[i].end - maps.map[i].start)
			snprintf(path, 4096, "%s", maps.map[i].path);
	proc_maps_deinit(&maps);
	assert_int_equal('/', path[0]);
}

static unsigned char *read_file(const char *path, size_t *n)
{
	char *data;

	assert_int_equal(0, proc_read_file(path, &data, n));
	return (unsigned char *)data;
}

static __attribute__((__noinline__)) int a_static_function(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3;
}

#define A10 "aaaaaaaaaa"
#define A130 A10 A10 A10 A10 A10 A10 A10 A10 A10 A10 A10 A10 A10

/* Named as a function of C++ with nine parameters of one type. */
static int of_long_name(int x) __asm__("_Z1f130" A130 "S_S_S_S_S_S_S_S_");

static __attribute__((__noinline__)) int of_long_name(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 5;
}

/* ---- Names ---- */

static void test_limited_symbolizer(void **state)
{
	struct symbolizer *s = of_self();
	struct stats stats = { 0 };

	symbolizer_limit(s, 1, 1, &stats);
	assert_string_equal("a_static_function",
			    symbolize_user(s, getpid(), (uintptr_t)a_static_function));
	assert_string_equal(symnames_unknown,
			    symbolize_user(s, getpid(), (uintptr_t)own_symbolizer_destroy));
	assert_int_equal(1, STATS_GET(&stats, nameless));
	own_symbolizer_destroy(s);
}

static void test_kernel_text(void **state)
{
	static const char text[] = "ffffffff81000100 T second\nffffffff81000100 T alias\n"
				   "ffffffff81000000 T first\n"
				   "ffffffff81000180 d data\nbroken\n\n"
				   "0000000000000000 T hidden\n"
				   "ffffffffc0000000 t in_mod.cold\t[mod]\nffffffff82000000 T";
	struct symnames names;
	struct kallsyms k = { .loaded = true };

	assert_int_equal(0, symnames_init(&names));
	kallsyms_parse(&k, strdup(text));
	assert_int_equal(3, k.n);
	assert_string_equal("[kernel]_[k]", kallsyms_name(&k, &names, 0x1000));
	assert_string_equal("first_[k]", kallsyms_name(&k, &names, 0xffffffff81000000));
	assert_string_equal("first_[k]", kallsyms_name(&k, &names, 0xffffffff810000ff));
	assert_string_equal("second_[k]", kallsyms_name(&k, &names, 0xffffffff81000190));
	assert_string_equal("in_mod_[k]", kallsyms_name(&k, &names, UINT64_MAX));
	kallsyms_deinit(&k);
	symnames_deinit(&names);
}

/* Every text symbol that stands alone at its address is found by that address. */
static void test_kernel_here(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	FILE *f = fopen("/proc/kallsyms", "r");
	unsigned long long at, last = 0;
	size_t same = 0, seen = 0;
	char line[1024], name[512], type;

	while (f && fgets(line, sizeof(line), f)) {
		char want[600];

		if (sscanf(line, "%llx %c %511s", &at, &type, name) != 3 || at == 0 ||
		    !strchr("tT", type) || at == last || strchr(name, '.'))
			continue;
		last = at;
		snprintf(want, sizeof(want), "%s_[k]", name);
		seen++;
		same += strcmp(want, symbolize_kernel(s, at)) == 0;
	}
	if (f)
		fclose(f);
	if (seen == 0) /* hidden from us */
		assert_string_equal("[kernel]_[k]", symbolize_kernel(s, 0xffffffff81000000));
	else
		assert_true(same * 100 >= seen * 90); /* the rest are aliases */
	own_symbolizer_destroy(s);
}

/* ---- A kernel that answers ---- */

static struct {
	int program;	/* which is run; 0: none is ours */
	char *name;	/* where it writes ... */
	const char *is; /* ... this; NULL: it can't be run */
	unsigned runs;
} kernel;

static long fake_syscall(long nr, const long a[SYSCALL_ARGS])
{
	if (nr != SYS_bpf || !kernel.program)
		return real_syscall(nr, a);
	assert_int_equal(BPF_PROG_TEST_RUN, a[0]);
	assert_int_equal(kernel.program, ((const union bpf_attr *)a[1])->test.prog_fd);
	kernel.runs++;
	if (!kernel.is) {
		errno = EPERM;
		return -1;
	}
	strcpy(kernel.name, kernel.is);
	return 0;
}

/* The kernel is asked what its addresses are called, each once; if it does not tell, its list
 * is read from then on. */
static void test_kernel_is_asked(void **state)
{
	struct symbolizer *s = own_symbolizer(SPACES_ROWS);
	struct {
		uint64_t ip;
		char name[KERNEL_NAME_MAX];
	} asked = { 0 };
	const struct kernel_names names = { .program = 77, .asked = (void *)&asked };
	const uint64_t at = 0xffffffff81000100;

	kernel.program = 77;
	kernel.name = asked.name;
	kernel.is = "made_up+0x10/0x20";
	kernel.runs = 0;
	symbolizer_asks(s, &names);
	for (int i = 0; i < 2; i++)
		assert_string_equal("made_up_[k]", symbolize_kernel(s, at));
	assert_int_equal(at, asked.ip);
	assert_int_equal(1, kernel.runs);
	kernel.is = NULL;
	for (uint64_t i = 1; i < 4; i++)
		assert_null(strstr(symbolize_kernel(s, at + i), "made_up"));
	assert_int_equal(2, kernel.runs);
	kernel.program = 0;
	own_symbolizer_destroy(s);
}

/* ---- This process ---- */

static void test_own_functions(void **state)
{
	struct symbolizer *s = of_self();
	const char *name = symbolize_user(s, getpid(), (uintptr_t)&a_static_function + 1);

	assert_int_equal(6, a_static_function(2));
	assert_string_equal("a_static_function", name);
	assert_ptr_equal(name, symbolize_user(s, getpid(), (uintptr_t)&a_static_function));
	assert_string_equal("test_own_functions",
			    symbolize_user(s, getpid(), (uintptr_t)&test_own_functions));
	assert_string_equal("symbolize_user",
			    symbolize_user(s, getpid(), (uintptr_t)&symbolize_user));
	assert_false(symbolize_kind(s, getpid(), (uintptr_t)&a_static_function) ==
		     SYMBOL_EVAL);
	assert_string_equal("[unknown]", symbolize_user(s, getpid(), 16));
	assert_string_equal("[unknown]", symbolize_user(s, 0, (uintptr_t)&a_static_function));
	own_symbolizer_destroy(s);
}

/* The name given to a libc function is, by dlsym(), a name of that very address. */
static void test_libc_functions(void **state)
{
	static const char *const names[] = { "qsort",  "fopen", "getenv",  "socket", "mmap",
					     "printf", "read",	"setvbuf", "opendir" };
	struct symbolizer *s = of_self();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		void *at = dlsym(RTLD_NEXT, names[i]);
		const char *got = symbolize_user(s, getpid(), (uintptr_t)at + 2);
		void *back = dlsym(RTLD_NEXT, got);

		assert_non_null(at);
		if (back != at)
			print_message("%s: %s\n", names[i], got);
		assert_ptr_equal(at, back);
	}
	own_symbolizer_destroy(s);
}

/* A name that is longer than it may be shown is cut, also when it is demangled. */
static void test_long_name(void **state)
{
	struct symbolizer *s = of_self();
	const char *name = symbolize_user(s, getpid(), (uintptr_t)&of_long_name);
	char want[SYMNAMES_MAX] = "f(" A130;

	assert_int_equal(10, of_long_name(2));
	while (demangle_built && strlen(want) < SYMNAMES_MAX - 1)
		snprintf(want + strlen(want), sizeof(want) - strlen(want), ", " A130);
	assert_string_equal(demangle_built ? want : "_Z1f130" A130 "S_S_S_S_S_S_S_S_", name);
	own_symbolizer_destroy(s);
}

/* At how many addresses of our vdso the name of a function is told; -1: there is none. */
static int named_in_vdso(struct symbolizer *s)
{
	struct proc_maps maps;
	int named = -1;

	assert_int_equal(0, proc_maps_read(&maps, getpid()));
	for (size_t i = 0; i < maps.n; i++) {
		if (strcmp(maps.map[i].path, "[vdso]") != 0)
			continue;
		named = 0;
		for (uint64_t ip = maps.map[i].start; ip < maps.map[i].end; ip += 16) {
			const char *name = symbolize_user(s, getpid(), ip);

			named += strstr(name, "clock_gettime") != NULL;
			assert_string_not_equal("[anon]", name);
		}
	}
	proc_maps_deinit(&maps);
	return named;
}

static void test_vdso(void **state)
{
	struct symbolizer *s = of_self();

	assert_int_not_equal(0, named_in_vdso(s));
	own_symbolizer_destroy(s);
}

/* In a recording that was made elsewhere it is ours if the kernel was. */
static void test_vdso_of_a_recording(void **state)
{
	for (int same = 0; same < 2; same++) {
		struct symbolizer *s = own_symbolizer(0);
		int named;

		spaces_elsewhere(symbolizer_spaces(s), "/");
		if (same)
			spaces_same_kernel(symbolizer_spaces(s));
		feed_self(s);
		named = named_in_vdso(s);
		assert_true(named < 0 || (named > 0) == same);
		own_symbolizer_destroy(s);
	}
}

/* ---- Address spaces ---- */

static void test_overlaps(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	struct proc_map file = { .start = 0x10000,
				 .end = 0x18000,
				 .pgoff = 0x1000,
				 .ino = 5,
				 .x = true,
				 .path = "/no/such;file.so" };
	struct proc_map anon = {
		.start = 0x12000, .end = 0x13000, .x = true, .path = "//anon"
	};
	struct proc_map data = { .start = 0x14000, .end = 0x15000, .path = "/data", .ino = 6 };

	feed_map(s, 1, &file);
	assert_string_equal("such:file.so+0x1010", symbolize_user(s, 1, 0x10010));
	feed_map(s, 1, &anon);
	feed_map(s, 1, &data);
	/* 10000 file 12000 anon 13000 file 14000 - 15000 file 18000 */
	assert_string_equal("[unknown]", symbolize_user(s, 1, 0xffff));
	assert_string_equal("such:file.so+0x2fff", symbolize_user(s, 1, 0x11fff));
	assert_string_equal("[anon]", symbolize_user(s, 1, 0x12000));
	assert_string_equal("[anon]", symbolize_user(s, 1, 0x12fff));
	assert_string_equal("such:file.so+0x4000", symbolize_user(s, 1, 0x13000));
	assert_string_equal("[unknown]", symbolize_user(s, 1, 0x14000));
	assert_string_equal("such:file.so+0x6000", symbolize_user(s, 1, 0x15000));
	assert_string_equal("such:file.so+0x8fff", symbolize_user(s, 1, 0x17fff));
	assert_string_equal("[unknown]", symbolize_user(s, 1, 0x18000));
	anon.start = 0, anon.end = UINT64_MAX;
	feed_map(s, 1, &anon);
	assert_string_equal("[anon]", symbolize_user(s, 1, 0x17fff)); /* asked before */
	assert_string_equal("[anon]", symbolize_user(s, 1, 0x20000));
	own_symbolizer_destroy(s);
}

/* Memory that has no file. */
static void test_memory(void **state)
{
	struct proc_map m = {
		.start = 0x10000, .end = 0x11000, .x = true, .path = "/dev/zero"
	};
	struct symbolizer *s = own_symbolizer(false);

	feed_map(s, 1, &m);
	assert_string_equal("[anon]", symbolize_user(s, 1, 0x10010));
	own_symbolizer_destroy(s);
}

/* More maps than the kernel lets a process have are somebody's attempt on our memory. */
static void test_many_maps(void **state)
{
	enum { MOST = 65536 };
	struct symbolizer *s = own_symbolizer(false);
	struct proc_map m = { .x = true, .path = "//anon" };
	struct space *sp;

	for (uint64_t i = 0; i < 2 * MOST; i++) {
		m.start = 0x10000 + i * 0x2000, m.end = m.start + 0x1000;
		feed_map(s, 1, &m);
	}
	sp = spaces_find(symbolizer_spaces(s), 1);
	assert_in_range(sp->n, MOST, 2 * MOST - 1);
	own_symbolizer_destroy(s);
}

static void test_life(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	struct proc_map a = {
		.start = 0x1000, .end = 0x2000, .ino = 5, .x = true, .path = "/no/a"
	};
	struct proc_map b = {
		.start = 0x1000, .end = 0x2000, .ino = 6, .x = true, .path = "/no/b"
	};

	feed_map(s, 1, &a);
	feed(s, SIDE_FORK, 2, 2, 1); /* a process */
	feed(s, SIDE_FORK, 1, 9, 1); /* a thread */
	feed_map(s, 2, &b);
	assert_string_equal("a+0x0", symbolize_user(s, 1, 0x1000));
	assert_string_equal("b+0x0", symbolize_user(s, 2, 0x1000));
	feed(s, SIDE_COMM, 2, 2, 0); /* a new name only */
	assert_string_equal("b+0x0", symbolize_user(s, 2, 0x1000));
	feed(s, SIDE_COMM, 2, 2, 1);
	assert_string_equal("[unknown]", symbolize_user(s, 2, 0x1000));
	feed(s, SIDE_FORK, 2, 2, 1); /* the number used again */
	assert_string_equal("a+0x0", symbolize_user(s, 2, 0x1000));
	feed(s, SIDE_EXIT, 1, 9, 1); /* a thread */
	assert_string_equal("a+0x0", symbolize_user(s, 1, 0x1000));
	feed(s, SIDE_EXIT, 1, 1, 1); /* the main thread: others may go on */
	assert_string_equal("a+0x0", symbolize_user(s, 1, 0x1000));
	feed(s, SIDE_FORK, 1, 1, 3); /* another process */
	assert_string_equal("[unknown]", symbolize_user(s, 1, 0x1000));
	assert_string_equal("a+0x0", symbolize_user(s, 2, 0x1000));
	own_symbolizer_destroy(s);
}

/* The same offsets in many files: each has its own names, also where several share a place in
 * the cache, as some of so many do. */
static void test_files_apart(void **state)
{
	enum { FILES = 200, OFFSETS = 100, STEP = 2432, APART = 1 << 28 };
	struct symbolizer *s = own_symbolizer(0);
	struct proc_map file[2] = { 0 };
	struct proc_maps maps;

	assert_int_equal(0, proc_maps_read(&maps, getpid()));
	for (size_t i = 0; i < maps.n; i++) {
		if (maps.map[i].x && strstr(maps.map[i].path, "/libc.so"))
			file[0] = maps.map[i];
		if (maps.map[i].x && strstr(maps.map[i].path, "/libcmocka"))
			file[1] = maps.map[i];
	}
	assert_true(file[0].start && file[1].start);
	for (uint32_t k = 0; k < FILES; k++) {
		struct proc_map m = file[k & 1];

		m.start = (k + 1) * (uint64_t)APART, m.end = m.start + OFFSETS * STEP;
		m.pgoff = file[0].pgoff;
		feed_generation(s, getpid(), &m, k);
	}
	for (uint64_t at = 0; at < OFFSETS * STEP; at += STEP) {
		const char *want[2] = { NULL };

		for (uint32_t k = 0; k < FILES; k++) {
			const char *name =
				symbolize_user(s, getpid(), (k + 1) * (uint64_t)APART + at);

			want[k & 1] = want[k & 1] ? want[k & 1] : name;
			assert_string_equal(name, want[k & 1]);
		}
		assert_string_not_equal(want[0], want[1]);
	}
	proc_maps_deinit(&maps);
	own_symbolizer_destroy(s);
}

/* Names come from the file although the process and the path are gone by then. */
static void test_gone_file(void **state)
{
	char copy[] = "/tmp/pysampled-elf-XXXXXX", self[4096];
	struct symbolizer *s = own_symbolizer(0);
	int fd = mkstemp(copy);
	struct proc_map m = { .x = true, .path = copy };
	struct module t;
	struct stat st;
	unsigned char *data;
	size_t n;

	path_of((void *)&test_gone_file, self);
	data = read_file(self, &n);
	assert_int_equal(n, write(fd, data, n));
	assert_int_equal(0, fstat(fd, &st));
	assert_int_equal(0, module_read(&t, fd, (struct bytes){ 0 }, NULL, false));
	close(fd);
	m.start = 0x7000000, m.end = m.start + t.load[0].size;
	m.pgoff = t.load[0].offset;
	m.ino = st.st_ino, m.maj = major(st.st_dev), m.min = minor(st.st_dev);
	feed_map(s, getpid(), &m);
	unlink(copy);
	for (size_t i = 0; i < t.n_syms; i++)
		if (strcmp(t.names + t.sym[i].name, "a_static_function") == 0)
			m.start += t.base + t.sym[i].start - t.load[0].vaddr;
	assert_string_equal("a_static_function", symbolize_user(s, getpid(), m.start + 1));
	module_deinit(&t);
	free(data);
	own_symbolizer_destroy(s);
}

#include "elf/elfcache.h"
#include "elfcache_cases.inc.h"
#include "elfread_cases.inc.h"

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limited_symbolizer),
		cmocka_unit_test(test_kernel_text),
		cmocka_unit_test(test_kernel_here),
		cmocka_unit_test(test_kernel_is_asked),
		cmocka_unit_test(test_own_functions),
		cmocka_unit_test(test_libc_functions),
		cmocka_unit_test(test_long_name),
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_vdso_of_a_recording),
		cmocka_unit_test(test_overlaps),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_many_maps),
		cmocka_unit_test(test_life),
		cmocka_unit_test(test_gone_file),
		cmocka_unit_test(test_against_libelf),
		cmocka_unit_test(test_files_apart),
		cmocka_unit_test(test_without_size),
		cmocka_unit_test(test_without_size_among_functions),
		cmocka_unit_test(test_pythons),
		cmocka_unit_test(test_split_eval),
		cmocka_unit_test(test_symbol_rules),
		cmocka_unit_test(test_aarch64_jumps),
		cmocka_unit_test(test_riscv64_jumps),
		cmocka_unit_test(test_eh_prefixes),
		cmocka_unit_test(test_eh_flips),
		cmocka_unit_test(test_damaged_files),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_headers_in_any_order),
		cmocka_unit_test(test_stubs),
		cmocka_unit_test(test_stubs_in_another_order),
		cmocka_unit_test(test_stubs_without_rows),
		cmocka_unit_test(test_eh_frame_is_found),
		cmocka_unit_test(test_addresses_of_another_base),
		cmocka_unit_test(test_rows_if_wanted),
		cmocka_unit_test(test_hidden_eval),
		cmocka_unit_test(test_no_thread_is_left),
		cmocka_unit_test(test_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
