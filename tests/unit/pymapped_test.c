/* SPDX-License-Identifier: MIT
 *
 * pymapped_test - this program, which exports what an interpreter does: its memory says what
 * its file says, and memory of which any byte is another's is worth no more than an answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"
#include "base/base.h"
#include "elf/elfimage.h"
#include "elf/elfpython.h"
#include "python/pymapped.h"
#include "sys/proc_maps.h"

uint64_t _PyRuntime[4] = { 1 }, Py_Version = 2;
int _PyEval_EvalFrameDefault = 3, _PyOptimizer_Optimize = 4;

static raddr where(const char *name)
{
	struct proc_maps maps;
	raddr at = 0;

	assert_int_equal(0, proc_maps_read(&maps, getpid()));
	for (size_t i = 0; !at && i < maps.n; i++)
		if (strstr(maps.map[i].path, name) && !maps.map[i].pgoff)
			at = maps.map[i].start;
	proc_maps_deinit(&maps);
	return at;
}

static void memory_says_what_the_file_says(void **state)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elfpython memory, file;
	struct rmem_live m;

	rmem_live_init(&m, getpid());
	assert_int_equal(0, elfpython_read(fd, &file));
	assert_int_equal(0, pymapped_read(&m.base, where("pymapped_test"), &memory));
	assert_true(file.runtime && file.py_version && file.build_id_n && file.program);
	memory.stripped = file.stripped;
	file.python = 1; /* it has no API of CPython */
	assert_memory_equal(&file, &memory, sizeof(file));
	assert_true(m.calls <= 8);
}

static void other_files_say_nothing(void **state)
{
	struct elfpython p;
	struct rmem_live m;

	rmem_live_init(&m, getpid());
	assert_true(where("libc.so"));
	assert_int_equal(-ENOENT, pymapped_read(&m.base, where("libc.so"), &p));
	assert_int_equal(-ENOENT, pymapped_read(&m.base, (raddr)(uintptr_t)&p, &p));
	assert_int_equal(-ENOENT, pymapped_read(&m.base, 0, &p));
}

/* Memory of ours with one byte of its first pages changed. */
struct other {
	struct rmem base;
	struct rmem_live live;
	raddr at;
	unsigned char by;
};

static int read_other(struct rmem *base, raddr at, void *buf, size_t n)
{
	struct other *m = container_of(base, struct other, base);
	int r = rmem_read(&m->live.base, at, buf, n);

	if (r == 0 && m->at - at < n)
		((unsigned char *)buf)[m->at - at] ^= m->by;
	return r;
}

static void any_byte_may_be_another(void **state)
{
	static const struct rmem_ops ops = { .name = "other", .read = read_other };
	struct other m = { .base.ops = &ops };
	raddr start = where("pymapped_test");
	uint32_t random = 1, answers = 0;
	struct elfpython p;

	rmem_live_init(&m.live, getpid());
	for (int i = 0; i < 20000; i++) {
		random = random * 1664525 + 1013904223;
		m.at = start + (random >> 8) % (i < 10000 ? 1200 : 48 << 10);
		m.by = (unsigned char)(1u << (random & 7));
		answers += pymapped_read(&m.base, start, &p) == 0;
		assert_true(p.n_loads <= ELFPYTHON_LOADS);
	}
	assert_in_range(answers, 1000, 19990);
}

/* What a build without a JIT does not export. */
static const char optimizer[] = "_PyOptimizer_Optimize", loop[] = "_PyEval_EvalFrameDefault";

/* In the file as it is, but for all names @but. */
static bool file_has_no_jit(const char *but)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elfimage file, im;
	struct elfpython p;
	struct bytes all;
	unsigned char *at;

	assert_int_equal(0, elfimage_init(&file, fd, (struct bytes){ 0 }));
	all = elfimage_part(&file, 0, file.size);
	elfimage_deinit(&file);
	while (but && (at = memmem(all.at, all.n, but, strlen(but) + 1)))
		*at = 'X';
	assert_int_equal(0, elfimage_init(&im, -1, all));
	assert_int_equal(0, elfpython_of(&im, &p));
	elfimage_deinit(&im);
	elfimage_free(&all);
	assert_true(p.runtime);
	return elfpython_has_no_jit(&p);
}

/* In memory, of whose hash table one word is another one wherever it is @name's. */
static bool memory_has_no_jit(const char *name)
{
	static const struct rmem_ops ops = { .name = "other", .read = read_other };
	struct other m = { .base.ops = &ops, .by = 0x10 };
	const raddr start = where("pymapped_test");
	uint32_t hash = 5381, word;
	struct elfpython p;
	bool ret = false;

	rmem_live_init(&m.live, getpid());
	for (const char *c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	for (m.at = start; m.at < start + (48 << 10); m.at += 4)
		if (rmem_read(&m.live.base, m.at, &word, 4) == 0 && (word | 1) == (hash | 1) &&
		    pymapped_read(&m.base, start, &p) == 0)
			ret |= elfpython_has_no_jit(&p);
	return ret;
}

static void only_an_interpreter_without_an_optimizer_has_no_jit(void **state)
{
	assert_false(file_has_no_jit(NULL));
	assert_true(file_has_no_jit(optimizer));
	assert_false(file_has_no_jit(loop));
	assert_true(memory_has_no_jit(optimizer));
	assert_false(memory_has_no_jit(loop));
	assert_false(memory_has_no_jit("Py_Version"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_says_what_the_file_says),
		cmocka_unit_test(other_files_say_nothing),
		cmocka_unit_test(any_byte_may_be_another),
		cmocka_unit_test(only_an_interpreter_without_an_optimizer_has_no_jit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
