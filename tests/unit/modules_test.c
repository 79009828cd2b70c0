/* SPDX-License-Identifier: MIT
 *
 * modules_test - mapped files that are gone, cut, no files at all, in another root, on a mount
 * that does not answer.
 */
#include "stripped.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>

#include "modules/codefile.h"
#include "base/clock.h"
#include "base/quota.h"
#include "base/stats.h"
#include "names/demangle.h"
#include "sys/rootfile.h"
#include "modules/space.h"
#include "../own_spaces.h"
#include "fuse.h"
#include "unwind/unwind.h"

/* A C++ function as greenlet has them. */
__attribute__((used)) void greenlet_switch(void) __asm__("_ZN8greenlet8g_switchEv");
void greenlet_switch(void)
{
}

/* The code of @path in @pid, at 4 GB and on. */
static struct side mapping(const struct place *p, pid_t pid, const char *path,
			   const struct stat *st)
{
	struct side side = { .kind = SIDE_MMAP, .pid = pid, .tid = pid };

	side.u.mmap.addr = 1ull << 32;
	side.u.mmap.len = p->whole.load[0].size;
	side.u.mmap.pgoff = p->whole.load[0].offset;
	side.u.mmap.prot = PROT_READ | PROT_EXEC;
	side.u.mmap.ino = st->st_ino;
	side.u.mmap.maj = major(st->st_dev), side.u.mmap.min = minor(st->st_dev);
	side.u.mmap.path = path;
	return side;
}

/* Feed it; the address of @symbol there. */
static uint64_t feed_for(struct symbolizer *s, const struct place *p, pid_t pid,
			 const char *path, const struct stat *st, const char *symbol)
{
	const struct module *t = &p->whole;
	struct side side = mapping(p, pid, path, st);

	spaces_side(symbolizer_spaces(s), &side);
	for (size_t i = 0; i < t->n_syms; i++)
		if (strcmp(t->names + t->sym[i].name, symbol) == 0)
			return side.u.mmap.addr + t->base + t->sym[i].start - t->load[0].vaddr;
	fail();
	return 0;
}

static uint64_t feed(struct symbolizer *s, const struct place *p, pid_t pid, const char *path,
		     const struct stat *st)
{
	return feed_for(s, p, pid, path, st, "test_modules");
}

/* Its file is there, has been cut since it was mapped, is something else now, is gone. */
static void test_modules(void **state)
{
	static const char *const makes[] = {
		"cp whole prog", "rm -f prog; mkfifo prog",   "rm -f prog; mknod prog c 1 5",
		"rm -f prog",	 "head -c 5000 whole > prog", ": > prog"
	};
	struct place *p = *state;
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%.60s/prog", p->root);
	for (size_t i = 0; i < ARRAY_SIZE(makes); i++) {
		struct symbolizer *s = own_symbolizer(SPACES_ROWS);
		const char *name;

		if (geteuid() != 0 && strstr(makes[i], "mknod"))
			continue;
		sh("cd %s && %s", p->root, makes[i]);
		if (stat(path, &st) < 0)
			st.st_ino = 77;
		name = symbolize_user(s, getpid(), feed(s, p, getpid(), path, &st));
		if (i == 0)
			assert_string_equal("test_modules", name);
		else
			assert_memory_equal("prog+0x", name, 7);
		own_symbolizer_destroy(s);
	}
	sh("cd %s && cp whole prog", p->root); /* mapped, and then cut */
	assert_int_equal(0, stat(path, &st));
	struct symbolizer *s = own_symbolizer(SPACES_ROWS);
	uint64_t at = feed(s, p, getpid(), path, &st);

	assert_int_equal(0, truncate(path, 5000));
	assert_memory_equal("prog+0x", symbolize_user(s, getpid(), at), 7);
	own_symbolizer_destroy(s);
}

/* A copy in which the function is called otherwise, and @how it is put into its place. */
static void put_other(const struct place *p, const char *how)
{
	sh("cd %s && sed s/test_modules/next_modules/g whole >other && %s", p->root, how);
}

/* The function's name where @path is mapped, which was told at @time. */
static const char *name_at(struct symbolizer *s, const struct place *p, const char *path,
			   uint64_t time)
{
	uint64_t at = feed(s, p, getpid(), "/nothing", &(struct stat){ .st_ino = 1 });
	struct side side;
	struct stat st;

	assert_int_equal(0, stat(path, &st));
	side = mapping(p, getpid(), path, &st);
	side.time = time;
	spaces_side(symbolizer_spaces(s), &side);
	return symbolize_user(s, getpid(), at);
}

static unsigned n_fds(void)
{
	unsigned n = 0;
	DIR *d = opendir("/proc/self/fd");

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Something else is written into a file that was read: whatever maps it later has its names; and
 * so it is with another file of the same number. */
static void test_changed(void **state)
{
	struct place *p = *state;
	struct symbolizer *s = own_symbolizer(SPACES_ROWS);
	uint64_t second = 1000000000, now = now_ns() + 60 * second;
	const struct elfcache_facts *facts = elfcache_facts(symbolizer_spaces(s)->elfs);
	struct timespec step = { .tv_nsec = 1000000 };
	unsigned before;
	char path[128];

	snprintf(path, sizeof(path), "%.60s/prog", p->root);
	sh("cd %s && rm -f prog && cp whole prog", p->root);
	assert_string_equal("test_modules", name_at(s, p, path, now + second));
	assert_string_equal("test_modules", name_at(s, p, path, now + 2 * second));
	assert_int_equal(1, facts->read);
	put_other(p, "cat other >prog");
	assert_string_equal("next_modules", name_at(s, p, path, now + 3 * second));
	assert_int_equal(2, facts->read);
	assert_int_equal(1, facts->dropped);
	before = n_fds();
	for (uint64_t i = 4; i < 8; i++)
		assert_string_equal("next_modules", name_at(s, p, path, now + i * second));
	assert_int_equal(2, facts->read);
	for (int i = 0; i < 10000 && n_fds() > before; i++)
		nanosleep(&step, NULL);
	assert_true(n_fds() <= before);
	own_symbolizer_destroy(s);
}

/* What was written into a file after it was mapped, or another file that has its number by now,
 * names nothing of what was mapped. */
static void test_changed_since(void **state)
{
	struct place *p = *state;
	struct symbolizer *s = own_symbolizer(SPACES_ROWS);
	struct timespec step = { .tv_nsec = 20000000 };
	char path[128];
	uint64_t now;

	snprintf(path, sizeof(path), "%.60s/prog", p->root);
	sh("cd %s && rm -f prog && cp whole prog", p->root);
	now = now_ns();
	nanosleep(&step, NULL);
	put_other(p, "cat other >prog");
	assert_memory_equal("prog+0x", name_at(s, p, path, now), 7);
	assert_string_equal("next_modules", name_at(s, p, path, now_ns()));
	own_symbolizer_destroy(s);
	s = own_symbolizer(SPACES_ROWS);
	sh("touch -d '+1 day' %s", path); /* a clock that is wrong */
	assert_string_equal("next_modules", name_at(s, p, path, now));
	own_symbolizer_destroy(s);
}

/* So many files at most are looked at again, whatever is mapped. */
static void test_looks_are_bounded(void **state)
{
	struct place *p = *state;
	struct symbolizer *s = own_symbolizer(SPACES_ROWS);
	struct spaces *spaces = symbolizer_spaces(s);
	uint64_t second = 1000000000, now = now_ns() + 60 * second;
	char path[128];

	snprintf(path, sizeof(path), "%.60s/prog", p->root);
	sh("cd %s && rm -f prog && cp whole prog", p->root);
	assert_string_equal("test_modules", name_at(s, p, path, now + second));
	spaces->check_ns = now + 3 * second;
	put_other(p, "cat other >prog");
	assert_string_equal("test_modules", name_at(s, p, path, now + 2 * second));
	assert_string_equal("next_modules", name_at(s, p, path, now + 4 * second));
	/* Fifty may follow at once. */
	assert_in_range(spaces->check_ns, now + 3 * second, now + 3 * second + 20000000);
	own_symbolizer_destroy(s);
}

/* Whoever asked often while descriptors had run out has its file once there are some. */
static void test_no_descriptors(void **state)
{
	struct place *p = *state;
	struct symbolizer *s = own_symbolizer(SPACES_ROWS);
	struct timespec step = { .tv_nsec = 1000000 };
	struct rlimit old, none;
	char path[128];
	struct stat st;
	uint64_t at;

	snprintf(path, sizeof(path), "%.60s/whole", p->root);
	assert_int_equal(0, stat(path, &st));
	assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &old));
	none = (struct rlimit){ .rlim_max = old.rlim_max };
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &none));
	for (int i = 0; i < 100; i++) {
		at = feed(s, p, getpid(), path, &st);
		spaces_find(symbolizer_spaces(s), getpid())->of->retry_ns =
			0; /* time goes by */
	}
	assert_memory_equal("whole+0x", symbolize_user(s, getpid(), at), 8);
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &old));
	for (int i = 0; i < 10000 && strchr(symbolize_user(s, getpid(), at), '+'); i++)
		nanosleep(&step, NULL);
	assert_string_equal("test_modules", symbolize_user(s, getpid(), at));
	own_symbolizer_destroy(s);
}

/* That no thread can be made to open a file is counted, and tried again, but not at each
 * sample. */
static void test_no_threads(void **state)
{
	struct place *p = *state;
	struct symbolizer *s = own_symbolizer(SPACES_ROWS);
	struct spaces *spaces = symbolizer_spaces(s);
	struct quota *quota = elfcache_quota(spaces->elfs);
	struct stats stats = { 0 };
	size_t taken = 0;
	char path[128];
	struct stat st;
	uint64_t at;

	spaces->stats = &stats;
	snprintf(path, sizeof(path), "%.60s/whole", p->root);
	assert_int_equal(0, stat(path, &st));
	while (quota_take(quota, QUOTA_THREADS, 1))
		taken++;
	at = feed(s, p, getpid(), path, &st);
	for (int i = 0; i < 100; i++)
		assert_memory_equal("whole+0x", symbolize_user(s, getpid(), at), 8);
	assert_in_range(STATS_GET(&stats, unread), 1, 50);
	quota_give(quota, QUOTA_THREADS, taken);
	spaces->retry_ns = 0; /* time goes by */
	assert_string_equal("test_modules", symbolize_user(s, getpid(), at));
	own_symbolizer_destroy(s);
}

/* Greenlet's functions are told by their file, whatever they are called. */
static void test_greenlet(void **state)
{
	struct place *p = *state;
	struct symbolizer *s = own_symbolizer(SPACES_ROWS);
	char path[128];
	struct stat st;
	uint64_t at;

	snprintf(path, sizeof(path), "%.60s/_greenlet.so", p->root);
	sh("cp %s/whole %s", p->root, path);
	assert_int_equal(0, stat(path, &st));
	at = feed_for(s, p, getpid(), path, &st, "_ZN8greenlet8g_switchEv");
	assert_string_equal(demangle_built ? "greenlet::g_switch()" :
					     "_ZN8greenlet8g_switchEv",
			    symbolize_user(s, getpid(), at));
	assert_int_equal(SYMBOL_COROUTINE, symbolize_kind(s, getpid(), at));
	own_symbolizer_destroy(s);
}

/* A process with another root: its stripped module, and the debug file that lies in that root.
 */
static void test_container(void **state)
{
	struct place *p = *state;
	struct symbolizer *s = own_symbolizer(SPACES_ROWS);
	struct stat st;
	char path[128];
	int ready[2];
	pid_t child;
	char c;

	need_tools();
	if (geteuid() != 0)
		skip();
	strip(p, NULL);
	sh("cd %s && d=usr/lib/debug/.build-id/%.2s && mkdir -p $d && cp debug $d/%s.debug",
	   p->root, p->id, p->id + 2);
	assert_int_equal(0, pipe(ready));
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (chroot(p->root) < 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(1, read(ready[0], &c, 1));
	snprintf(path, sizeof(path), "%s/prog", p->at);
	assert_int_equal(0, stat(path, &st));
	uint64_t at = feed(s, p, child, "/opt/app/prog", &st);

	kill(child, SIGKILL); /* what was opened stays */
	waitpid(child, NULL, 0);
	assert_string_equal("test_modules", symbolize_user(s, child, at));
	own_symbolizer_destroy(s);
	close(ready[0]);
	close(ready[1]);
}

/* Who asks for it is told a mapped file's build-id. */
static void test_build_id(void **state)
{
	struct place *p = *state;
	struct symbolizer *s = own_symbolizer(SPACES_IDS), *other = own_symbolizer(0);
	unsigned char id[ELFIMAGE_MAX_ID];
	struct elfimage im;
	struct side side;
	char path[128];
	struct stat st;
	size_t n;
	int fd;

	snprintf(path, sizeof(path), "%.60s/whole", p->root);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(0, fstat(fd, &st));
	assert_int_equal(0, elfimage_init(&im, fd, (struct bytes){ 0 }));
	n = elfimage_build_id(&im, id);
	assert_true(n >= 8);
	for (int i = 0; i < 2; i++) { /* opened, and known */
		side = mapping(p, getpid(), path, &st);
		spaces_side(symbolizer_spaces(s), &side);
		assert_int_equal(n, side.u.mmap.file_id.n);
		assert_memory_equal(id, side.u.mmap.file_id.at, n);
	}
	spaces_side(symbolizer_spaces(other), &side);
	assert_int_equal(0, side.u.mmap.file_id.n);
	elfimage_deinit(&im);
	close(fd);
	own_symbolizer_destroy(s);
	own_symbolizer_destroy(other);
}

/* Code is what the file has, also where the blocks that are read meet; and only that. */
static void test_code(void **state)
{
	struct place *p = *state;
	struct symbolizer *s = own_symbolizer(SPACES_ROWS);
	struct codefile code = { 0 };
	unsigned char want[64], got[64];
	const struct space *sp;
	struct side side;
	char path[128];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%.60s/whole", p->root);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(0, fstat(fd, &st));
	side = mapping(p, getpid(), path, &st);
	side.u.mmap.pgoff = 4096;
	side.u.mmap.len = 1 << 24;
	spaces_side(symbolizer_spaces(s), &side);
	sp = spaces_find(symbolizer_spaces(s), getpid());
	for (off_t at = 4096; at + 64 < st.st_size; at += 4001) {
		assert_int_equal(64, pread(fd, want, 64, at));
		assert_int_equal(0, codefile_read(&code, sp,
						  side.u.mmap.addr + (uint64_t)at - 4096, got,
						  64));
		assert_memory_equal(want, got, 64);
	}
	assert_int_equal(-EFAULT,
			 codefile_read(&code, sp,
				       side.u.mmap.addr + (uint64_t)st.st_size - 4096 - 60,
				       got, 64));
	close(fd);
	codefile_deinit(&code);
	own_symbolizer_destroy(s);
}

static void test_dead_mount(void **state)
{
	struct place *p = *state;
	struct symbolizer *s = own_symbolizer(SPACES_ROWS);
	struct timespec step = { .tv_nsec = 1000000 };
	char path[128], self[256] = "";
	struct stat st, dead;
	uint64_t at;
	int fuse;

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	assert_int_equal(0, stat(self, &st));
	sh("cp %s/whole %s/prog0", p->root, p->at);
	snprintf(path, sizeof(path), "%s/prog0", p->at);
	assert_int_equal(0, stat(path, &dead));
	dead.st_dev = makedev(0, 77); /* as if it had always been another's */
	fuse = mount_dead(p->at);
	if (fuse < 0)
		skip();
	for (int i = 29; i >= 0; i--) { /* more than threads that may hang */
		snprintf(path, sizeof(path), "%s/prog%d", p->at, i);
		at = feed(s, p, getpid(), path, &dead);
		assert_memory_equal("prog", symbolize_user(s, getpid(), at), 4);
	}
	/* Other files are as they were. */
	at = feed(s, p, getpid(), self, &st);
	assert_string_equal("test_modules", symbolize_user(s, getpid(), at));
	/* And those, once they are there. */
	close(fuse);
	assert_int_equal(0, umount2(p->at, MNT_DETACH));
	at = feed(s, p, getpid(), path, &dead);
	for (int i = 0; i < 10000 && strchr(symbolize_user(s, getpid(), at), '+'); i++)
		nanosleep(&step, NULL);
	assert_string_equal("test_modules", symbolize_user(s, getpid(), at));
	own_symbolizer_destroy(s);
}

static bool rows_at(struct symbolizer *s, uint64_t at)
{
	const struct space *sp = spaces_find(symbolizer_spaces(s), getpid());
	const struct module *m = space_module(sp, space_at(sp, at));

	return m && m->rows;
}

/* Neither unwinding nor looking at code waits for it. */
static void test_dead_mount_unwinding(void **state)
{
	struct place *p = *state;
	struct symbolizer *s = own_symbolizer(SPACES_ROWS);
	struct timespec step = { .tv_nsec = 1000000 };
	struct codefile code = { 0 };
	uint64_t at;
	unsigned char byte;
	char path[128];
	struct stat st;
	int fuse;

	snprintf(path, sizeof(path), "%s/prog", p->at);
	sh("cp %s/whole %s", p->root, path);
	assert_int_equal(0, stat(path, &st));
	fuse = mount_dead(p->at);
	if (fuse < 0)
		skip();
	at = feed(s, p, getpid(), path, &st);
	assert_false(rows_at(s, at));
	assert_int_equal(-EFAULT,
			 codefile_read(&code, spaces_find(symbolizer_spaces(s), getpid()), at,
				       &byte, 1));
	close(fuse);
	assert_int_equal(0, umount2(p->at, MNT_DETACH));
	for (int i = 0; i < 10000 && !rows_at(s, at); i++)
		nanosleep(&step, NULL);
	codefile_deinit(&code);
	own_symbolizer_destroy(s);
}

static void test_unread(void **state)
{
	struct place *p = *state;
	struct symbolizer *s = own_symbolizer(SPACES_IDS);
	struct codefile code = { 0 };
	pid_t server = mount_unread(p->at);
	unsigned char byte;
	struct side side;
	char path[128];
	struct stat st;

	if (server < 0)
		skip();
	snprintf(path, sizeof(path), "%s/prog", p->at);
	assert_int_equal(0, stat(path, &st));
	side = mapping(p, getpid(), path, &st);
	spaces_side(symbolizer_spaces(s), &side);
	assert_int_equal(-EFAULT,
			 codefile_read(&code, spaces_find(symbolizer_spaces(s), getpid()),
				       side.u.mmap.addr, &byte, 1));
	/* Not waited for again. */
	assert_memory_equal("prog+0x", symbolize_user(s, getpid(), side.u.mmap.addr), 7);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	assert_int_equal(0, umount2(p->at, MNT_DETACH));
	assert_int_equal(0, side.u.mmap.file_id.n);
	codefile_deinit(&code);
	own_symbolizer_destroy(s);
}

/* It is read elsewhere. */
static void await_module(struct elfcache *c, struct elfcache_elf *e)
{
	struct timespec step = { .tv_nsec = 1000000 };

	for (int i = 0; i < 10000 && !elfcache_module(c, e); i++)
		nanosleep(&step, NULL);
	assert_non_null(elfcache_module(c, e));
}

/* The debug files lie on it: no names now, but later if it comes to life (here: is gone). */
static void test_dead_debug_files(void **state)
{
	struct place *p = *state;
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_id id = { .dev = 1, .ino = 1, .path = "/opt/app/prog" };
	struct elfcache_id at = { .dev = 2, .ino = 2, .path = "/other" };
	struct elfcache_elf *e = elfcache_get(c, &id), *other = elfcache_get(c, &at);
	struct timespec step = { .tv_nsec = 1000000 };
	char path[128];
	int fuse;

	need_tools();
	strip(p, NULL);
	snprintf(path, sizeof(path), "%.60s/usr/lib/debug", p->root);
	sh("mkdir -p %s", path);
	fuse = mount_dead(path);
	if (fuse < 0)
		skip();
	elfcache_give_fd(c, e, rootfile_open(p->fd, id.path), dup(p->fd));
	assert_null(elfcache_module(c, e));
	assert_true(elfcache_pending(e));
	assert_true(elfcache_is_slow(c, e));
	close(fuse);
	/* Nobody asks for it, but for others. */
	for (int i = 0; i < 10000 && elfcache_is_slow(c, e); i++) {
		elfcache_module(c, other);
		nanosleep(&step, NULL);
	}
	assert_false(elfcache_is_slow(c, e) || elfcache_pending(e));
	assert_non_null(elfcache_module(c, e));
	assert_int_equal(0, umount2(path, MNT_DETACH));
	elfcache_destroy(c);
}

/* Whoever has no descriptor left to look for debug files reads the file again, once there is one.
 */
static void test_no_descriptors_to_read_by(void **state)
{
	struct place *p = *state;
	struct timespec step = { .tv_nsec = 1000000 };
	struct elfcache *c = elfcache_create(64 << 20, false);
	struct elfcache_id id = { .dev = 1, .ino = 1, .path = "/opt/app/prog" };
	struct elfcache_elf *e = elfcache_get(c, &id);
	struct stats stats = { 0 };
	struct rlimit old, none;

	need_tools();
	strip(p, NULL);
	elfcache_count(c, &stats);
	elfcache_give_fd(c, e, rootfile_open(p->fd, id.path), dup(p->fd));
	assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &old));
	none = (struct rlimit){ .rlim_max = old.rlim_max };
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &none));
	for (int i = 0; i < 10000 && !elfcache_module(c, e) && elfcache_pending(e); i++)
		nanosleep(&step, NULL);
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &old));
	/* Where it took long to fail it is wanted after a pause. */
	for (int i = 0; i < 10000 && !elfcache_wants_file(e); i++)
		nanosleep(&step, NULL);
	assert_true(elfcache_wants_file(e));
	assert_int_equal(1, STATS_GET(&stats, unread));
	elfcache_give_fd(c, e, rootfile_open(p->fd, id.path), dup(p->fd));
	await_module(c, e);
	elfcache_destroy(c);
}

/* A program that has its symbols waits for no debug file. */
static void test_dead_debug_files_of_others(void **state)
{
	struct place *p = *state;
	struct elfcache *c = elfcache_create(64 << 20, false);
	struct elfcache_id id = { .dev = 1, .ino = 1, .path = "/opt/app/prog" };
	struct elfcache_elf *e = elfcache_get(c, &id);
	char path[128];
	int fuse;

	snprintf(path, sizeof(path), "%.60s/usr/lib/debug", p->root);
	sh("mkdir -p %s && cp %s/whole %s/prog", path, p->root, p->at);
	fuse = mount_dead(path);
	if (fuse < 0)
		skip();
	elfcache_give_fd(c, e, rootfile_open(p->fd, id.path), dup(p->fd));
	await_module(c, e);
	assert_false(elfcache_module(c, e)->stripped);
	close(fuse);
	assert_int_equal(0, umount2(path, MNT_DETACH));
	elfcache_destroy(c);
}

/* A module that has no room is not read for each stack again. */
static void no_room_for_one(void **state)
{
	struct elfcache *c = elfcache_create(1000, true);
	struct elfcache_id id = { .dev = 1, .ino = 1, .path = "/proc/self/exe" };
	struct elfcache_elf *e = elfcache_get(c, &id);
	struct stats stats = { 0 };

	elfcache_count(c, &stats);
	elfcache_has_little(c);
	elfcache_give_fd(c, e, rootfile_open(-1, id.path), -1);
	assert_null(elfcache_module(c, e));
	assert_false(elfcache_pending(e) || elfcache_wants_file(e));
	assert_int_equal(1, STATS_GET(&stats, nameless));
	elfcache_destroy(c);
}

static void map_at(struct spaces *s, pid_t pid, uint64_t page)
{
	struct side side = { .kind = SIDE_MMAP, .pid = pid, .tid = pid };

	side.u.mmap.addr = page << 12;
	side.u.mmap.len = 4096;
	side.u.mmap.prot = PROT_EXEC;
	side.u.mmap.path = "//anon";
	spaces_side(s, &side);
}

/* All processes' maps have one bound; what one gives back another may have. */
static void maps_of_all_are_bounded(void **state)
{
	enum { BYTES = 1 << 20, FIRST = 1000, PROCESSES = 100, MAPS = 1000 };
	struct spaces *s = spaces_create(1 << 20, 0);
	struct side end = { .kind = SIDE_EXIT };
	struct stats stats = { 0 };
	struct space *sp;
	uint64_t page;

	spaces_limit(s, BYTES, &stats);
	for (pid_t pid = FIRST; pid < FIRST + PROCESSES; pid++)
		for (page = 1; page <= MAPS; page++)
			map_at(s, pid, 2 * page);
	assert_true(s->map_bytes <= BYTES && s->map_bytes > BYTES / 2);
	assert_true(STATS_GET(&stats, unmapped) > 0);
	assert_non_null(space_at(spaces_find(s, FIRST), 4 << 12));
	assert_null(space_at(spaces_find(s, FIRST + PROCESSES - 1), 4 << 12));
	/* No room for what may split: no name, rather than the one of what was there. */
	sp = spaces_find(s, FIRST);
	for (page = MAPS + 1; sp->n + 2 <= sp->cap; page++)
		map_at(s, FIRST, 2 * page);
	map_at(s, FIRST, 2);
	assert_null(space_at(sp, 2 << 12));
	for (pid_t pid = FIRST; pid < FIRST + PROCESSES; pid++) {
		end.pid = end.tid = pid;
		spaces_side(s, &end);
	}
	assert_int_equal(s->map_bytes, 0);
	map_at(s, FIRST, 1);
	assert_non_null(space_at(spaces_find(s, FIRST), 1 << 12));
	spaces_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_room_for_one),
		cmocka_unit_test(maps_of_all_are_bounded),
		cmocka_unit_test_setup_teardown(test_modules, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed_since, setup, teardown),
		cmocka_unit_test_setup_teardown(test_looks_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_greenlet, setup, teardown),
		cmocka_unit_test_setup_teardown(test_container, setup, teardown),
		cmocka_unit_test_setup_teardown(test_build_id, setup, teardown),
		cmocka_unit_test_setup_teardown(test_code, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dead_mount, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dead_mount_unwinding, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unread, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dead_debug_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dead_debug_files_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_descriptors_to_read_by, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
