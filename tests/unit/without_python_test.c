/* SPDX-License-Identifier: MIT
 *
 * without_python_test - of which processes their maps tell that they have no interpreter.
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include "unit.h"
#include "base/base.h"
#include "base/stats.h"
#include "elf/module.h"
#include "modules/space.h"

enum { PAGE = 4096, BYTES = 64 << 20, TRIES = 500 };
enum { PYTHON = 11, PLAIN = 12 }; /* inodes */

/* It makes this program one that may hold an interpreter. */
const char *Py_GetVersion(void);
const char *Py_GetVersion(void)
{
	return "";
}

static char *plain_file(void)
{
	Dl_info info;

	assert_int_not_equal(0, dladdr((void *)(uintptr_t)fopen, &info));
	return realpath(info.dli_fname, NULL);
}

static void map(struct spaces *s, pid_t pid, uint64_t at, uint64_t ino, const char *path)
{
	struct side side = { .kind = SIDE_MMAP, .pid = pid, .tid = pid };

	side.u.mmap.addr = at, side.u.mmap.len = PAGE, side.u.mmap.prot = PROT_EXEC;
	side.u.mmap.ino = ino, side.u.mmap.path = path;
	spaces_side(s, &side);
}

static void exec(struct spaces *s, pid_t pid, bool announced)
{
	struct side side = {
		.kind = SIDE_COMM, .pid = pid, .tid = pid, .announced = announced
	};

	side.u.comm.exec = true, side.u.comm.name = "x";
	spaces_side(s, &side);
}

static void forks(struct spaces *s, pid_t child, pid_t parent)
{
	struct side side = { .kind = SIDE_FORK, .pid = child, .tid = child };

	side.u.fork.ppid = parent;
	spaces_side(s, &side);
}

static struct spaces *begin(struct stats *stats)
{
	struct spaces *s = spaces_create(BYTES, 0);

	assert_non_null(s);
	spaces_limit(s, 0, stats);
	spaces_elsewhere(s, "/");
	return s;
}

/* Whether that is known once the files have been read. */
static bool known(struct spaces *s, pid_t pid)
{
	bool ret = spaces_without_python(s, pid);

	for (int i = 0; i < TRIES && !ret; i++) {
		usleep(1000);
		ret = spaces_without_python(s, pid);
	}
	return ret;
}

/* The files are read by now. */
static struct spaces *begin_read(struct stats *stats, const char *plain)
{
	struct spaces *s = begin(stats);

	exec(s, 1, false);
	map(s, 1, PAGE, PLAIN, plain);
	assert_true(known(s, 1));
	return s;
}

static void files_tell(void **state)
{
	_cleanup_free_ char *plain = plain_file(), *own = realpath("/proc/self/exe", NULL);
	struct stats stats = { 0 };
	struct spaces *s = begin_read(&stats, plain);

	exec(s, 2, false);
	assert_true(spaces_without_python(s, 2)); /* nothing is mapped yet */
	map(s, 2, PAGE, 0, "[vdso]");
	map(s, 2, 3 * PAGE, PLAIN, plain);
	map(s, 2, 5 * PAGE, PYTHON, own);
	assert_false(known(s, 2));
	exec(s, 2, false);
	map(s, 2, PAGE, PLAIN, plain);
	assert_true(spaces_without_python(s, 2));
	map(s, 2, 3 * PAGE, 0, "//anon"); /* anybody's code */
	assert_false(spaces_without_python(s, 2));
	exec(s, 2, false);
	map(s, 2, PAGE, 13, "/no/such/file");
	assert_false(spaces_without_python(s, 2));
	spaces_destroy(s);
}

static void only_what_was_told_since_an_exec(void **state)
{
	_cleanup_free_ char *plain = plain_file();
	struct stats stats = { 0 };
	struct spaces *s = begin_read(&stats, plain);

	assert_false(spaces_without_python(s, 2));
	map(s, 2, PAGE, PLAIN, plain);
	assert_false(spaces_without_python(s, 2)); /* and whatever it had before */
	exec(s, 2, true);
	map(s, 2, PAGE, PLAIN, plain);
	assert_false(spaces_without_python(s, 2)); /* it is what we saw of it */
	forks(s, 3, 2);
	assert_false(spaces_without_python(s, 3));
	forks(s, 3, 1);
	assert_true(spaces_without_python(s, 3));
	exec(s, 4, false);
	forks(s, 5, 4);
	assert_true(spaces_without_python(s, 5));
	spaces_destroy(s);
}

/* What is taken for code that we know in memory (trampolines) may be anybody's all the same. */
static void code_in_memory(void **state)
{
	_cleanup_free_ char *plain = plain_file();
	struct stats stats = { 0 };
	struct spaces *s = begin_read(&stats, plain);

	for (int memory = 0; memory < 2; memory++) {
		struct module *m = calloc(1, sizeof(*m));
		struct space_map *at;

		exec(s, 2, false);
		map(s, 2, PAGE, (uint64_t)(20 + memory), "/no/such/file");
		at = space_at(spaces_find(s, 2), PAGE);
		m->memory = memory;
		elfcache_give_module(s->elfs, at->elf, m);
		assert_int_equal(!memory, spaces_without_python(s, 2));
	}
	spaces_destroy(s);
}

/* A record that is not there may have told of the interpreter. */
static void losses(void **state)
{
	_cleanup_free_ char *plain = plain_file();
	struct side lost = { .kind = SIDE_LOST };
	struct stats stats = { 0 };
	struct spaces *s = begin_read(&stats, plain);

	spaces_side(s, &lost);
	assert_false(spaces_without_python(s, 1));
	exec(s, 1, false);
	assert_true(spaces_without_python(s, 1));
	STATS_ADD(&stats, side_lost, 1);
	assert_false(spaces_without_python(s, 1));
	exec(s, 1, false);
	assert_true(spaces_without_python(s, 1));
	spaces_limit(s, 1, &stats); /* no room for one more map */
	exec(s, 2, false);
	map(s, 2, PAGE, PLAIN, plain);
	assert_false(spaces_without_python(s, 2));
	spaces_destroy(s);
}

/* The kernel works on for one that has ended. */
static void at_its_end(void **state)
{
	_cleanup_free_ char *plain = plain_file();
	struct side end = { .kind = SIDE_EXIT, .pid = 1, .tid = 1 };
	struct stats stats = { 0 };
	struct spaces *s = begin_read(&stats, plain);

	spaces_side(s, &end);
	assert_non_null(space_at(spaces_find(s, 1), PAGE));
	assert_true(spaces_without_python(s, 1));
	for (pid_t pid = 2; pid < 2 + SPACE_ENDED; pid++) {
		assert_true(spaces_without_python(s, 1));
		exec(s, pid, false);
		end.pid = end.tid = pid;
		spaces_side(s, &end);
		assert_true(spaces_without_python(s, pid));
	}
	assert_null(spaces_find(s, 1)); /* too long ago */
	assert_false(spaces_without_python(s, 1));
	map(s, 2, PAGE, PLAIN, plain);
	assert_false(spaces_without_python(s, 2)); /* another process has its number */
	spaces_destroy(s);
}

/* A map for which there was no time may be an interpreter's. */
static void not_where_a_map_was_left_out(void **state)
{
	enum { MANY = 20000 };
	_cleanup_free_ char *plain = plain_file();
	struct stats stats = { 0 };
	struct spaces *s = begin_read(&stats, plain);

	exec(s, 2, false);
	for (uint64_t i = 0; i < MANY; i++)
		map(s, 2, (MANY + 2 * i) * PAGE, PLAIN, plain);
	assert_true(spaces_without_python(s, 2));
	for (uint64_t i = 1; i < MANY / 2 && !STATS_GET(&stats, remapped); i++)
		map(s, 2, (MANY - 2 * i) * PAGE, PLAIN, plain);
	assert_int_equal(1, STATS_GET(&stats, remapped));
	assert_false(spaces_without_python(s, 2));
	spaces_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_tell),
		cmocka_unit_test(only_what_was_told_since_an_exec),
		cmocka_unit_test(not_where_a_map_was_left_out),
		cmocka_unit_test(losses),
		cmocka_unit_test(at_its_end),
		cmocka_unit_test(code_in_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
