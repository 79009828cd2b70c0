/* SPDX-License-Identifier: MIT
 *
 * jit_test - what JITs write down: both formats, whole, in pieces and damaged; and this
 * process as one that writes them.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>

#include "unit.h"
#include "base/clock.h"
#include "base/quota.h"
#include "base/stats.h"
#include "elf/file_helper.h"
#include "modules/jit.h"
#include "modules/jit_objects.h"
#include "names/demangle.h"
#include "elsewhere.h"
#include "fuse.h"
#include "jitdump.h"
#include "jitobject.h"
#include "sys/family.h"
#include "sys/proc.h"
#include "sys/proc_maps.h"
#include "../own_spaces.h"

enum { CODE = 0x5000000, CODE_SIZE = 0x100000 };

static void feed_range(struct symbolizer *s, pid_t pid, uint64_t from, uint64_t to)
{
	struct side side = { .kind = SIDE_MMAP, .pid = pid, .tid = pid };

	side.u.mmap.addr = from;
	side.u.mmap.len = to - from;
	side.u.mmap.prot = PROT_EXEC;
	side.u.mmap.path = "//anon";
	spaces_side(symbolizer_spaces(s), &side);
}

static void feed(struct symbolizer *s, pid_t pid, uint64_t addr, const char *path,
		 const struct stat *st)
{
	struct side side = { .kind = SIDE_MMAP, .pid = pid, .tid = pid };

	side.u.mmap.addr = addr;
	side.u.mmap.len = CODE_SIZE;
	side.u.mmap.prot = PROT_READ | PROT_EXEC;
	side.u.mmap.path = path;
	if (st) {
		side.u.mmap.ino = st->st_ino;
		side.u.mmap.maj = major(st->st_dev), side.u.mmap.min = minor(st->st_dev);
	}
	spaces_side(symbolizer_spaces(s), &side);
}

static const char *map_path(void)
{
	static char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	return path;
}

static void write_map(const char *mode, const char *text)
{
	FILE *f = fopen(map_path(), mode);

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(0, fclose(f));
}

/* Until that is its name. */
static void until_named(struct symbolizer *s, pid_t pid, uint64_t at, const char *want)
{
	struct timespec step = { .tv_nsec = 1000000 };

	for (int i = 0; i < 10000 && strcmp(symbolize_user(s, pid, at), want) != 0; i++)
		nanosleep(&step, NULL);
	assert_string_equal(want, symbolize_user(s, pid, at));
}

/* As a JIT keeps it (GDB manual, "JIT Compilation Interface"): what is found by its name. */
struct registered {
	struct registered *next, *prev;
	const void *image;
	uint64_t size;
};
struct {
	uint32_t version, action;
	struct registered *relevant, *first;
} __jit_debug_descriptor = { .version = 1 };

static void enlist(struct registered *r, struct jitobject *o, uint64_t offset,
		   const char *name)
{
	jitobject_fill(o, CODE, CODE_SIZE, offset, 0x100, name);
	*r = (struct registered){ .next = __jit_debug_descriptor.first,
				  .image = o,
				  .size = sizeof(*o) };
	if (r->next)
		r->next->prev = r;
	__jit_debug_descriptor.first = r;
}

static int empty_list(void **state)
{
	__jit_debug_descriptor.first = NULL;
	__jit_debug_descriptor.version = 1;
	return 0;
}

/* Code is found by what was registered last for its place, and what comes later is found, too.
 */
static void test_registered(void **state)
{
	struct file_helper *h = *state ? file_helper_start(NULL) : NULL;
	struct symbolizer *s = own_symbolizer(0);
	struct jitobject o[4];
	struct registered r[4];
	pid_t me = getpid();

	elfcache_read_by(symbolizer_spaces(s)->elfs, h);
	feed(s, me, CODE, "//anon", NULL);
	enlist(&r[0], &o[0], 0x1000, "old");
	enlist(&r[1], &o[1], 0x2000, "_ZN2ns3fooEi");
	enlist(&r[2], &o[2], 0x1000, "young");
	until_named(s, me, CODE + 0x1000, "young");
	until_named(s, me, CODE + 0x20ff, demangle_built ? "ns::foo(int)" : "_ZN2ns3fooEi");
	assert_string_equal("[anon]", symbolize_user(s, me, CODE + 0x2100));
	enlist(&r[3], &o[3], 0x2100, "late");
	until_named(s, me, CODE + 0x2100, "late");
	own_symbolizer_destroy(s);
	file_helper_end(h);
}

/* An entry that was freed, and has the place of another by now, is read: and what was freed has no
 * name any more. */
static void test_entry_used_again(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	struct jitobject o[2];
	struct registered r;
	pid_t me = getpid();

	feed(s, me, CODE, "//anon", NULL);
	enlist(&r, &o[0], 0x1000, "old");
	until_named(s, me, CODE + 0x1000, "old");
	__jit_debug_descriptor.first = NULL;
	enlist(&r, &o[1], 0x2000, "new");
	until_named(s, me, CODE + 0x2000, "new");
	until_named(s, me, CODE + 0x1000, "[anon]");
	own_symbolizer_destroy(s);
}

/* A list that changes while it is read, or is none: then there is no name, and no end. */
static void test_no_list(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	struct timespec step = { .tv_nsec = 1000000 };
	struct registered r[2];
	struct jitobject o[2];
	pid_t me = getpid();

	feed(s, me, CODE, "//anon", NULL);
	enlist(&r[0], &o[0], 0x1000, "a");
	enlist(&r[1], &o[1], 0x2000, "b");
	r[0].next = &r[1]; /* a circle */
	r[1].prev = NULL;
	for (int i = 0; i < 200; i++, nanosleep(&step, NULL))
		assert_string_equal("[anon]", symbolize_user(s, me, CODE + 0x2000));
	r[0].next = NULL;
	__jit_debug_descriptor.version = 2;
	for (int i = 0; i < 200; i++, nanosleep(&step, NULL))
		assert_string_equal("[anon]", symbolize_user(s, me, CODE + 0x2000));
	__jit_debug_descriptor.version = 1;
	r[1].size = UINT64_MAX; /* one image that can't be leaves the others */
	until_named(s, me, CODE + 0x1000, "a");
	assert_string_equal("[anon]", symbolize_user(s, me, CODE + 0x2000));
	own_symbolizer_destroy(s);
}

/* A list that is long and does not end well is not read at once again. */
static void test_no_end(void **state)
{
	enum { N = 60000, TRIES = 20 /* for who is held up just then */ };
	static struct registered r[N];
	static struct jitobject o;
	struct jit_objects j;
	bool waits = false;

	for (size_t i = 0; i < N; i++)
		enlist(&r[i], &o, 0x1000, "a");
	r[0].prev = NULL;
	jit_objects_init(&j, getpid(), now_ns(), NULL);
	for (int i = 0; i < TRIES && !waits; i++) {
		j.next_lists_ns = 0;
		assert_int_equal(0, jit_objects_read(&j, NULL));
		waits = j.next_lists_ns > now_ns();
	}
	assert_true(waits);
	r[0].prev = &r[1];
	j.next_lists_ns = now_ns() + 3600000000000;
	assert_int_equal(0, jit_objects_read(&j, NULL));
	j.next_lists_ns = now_ns();
	assert_int_equal(1, jit_objects_read(&j, NULL));
	jit_objects_deinit(&j);
}

/* A file that no descriptor was left for is searched again. */
static void test_no_descriptor(void **state)
{
	struct rlimit few, all;
	struct jit_objects j;
	struct registered r;
	struct jitobject o;
	int fd;

	enlist(&r, &o, 0x1000, "a");
	jit_objects_init(&j, getpid(), now_ns(), NULL);
	assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &all));
	few = all;
	fd = dup(0);
	few.rlim_cur = (rlim_t)fd + 1; /* one: for the maps, and a look at a file */
	close(fd);
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &few));
	assert_int_equal(-EAGAIN, jit_objects_read(&j, NULL));
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &all));
	j.next_search_ns = 0;
	assert_int_equal(1, jit_objects_read(&j, NULL));
	jit_objects_deinit(&j);
}

static int remove_map(void **state)
{
	unlink(map_path());
	return 0;
}

static void test_own_map(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	pid_t me = getpid();

	feed(s, me, CODE, "//anon", NULL);
	assert_string_equal("[anon]", symbolize_user(s, me, CODE)); /* no file yet */
	write_map("w", "5000000 10 a;b\n5001000 100 py::f:/x.py\n50020");
	until_named(s, me, CODE, "a:b");
	assert_int_equal(SYMBOL_OTHER, symbolize_kind(s, me, CODE));
	until_named(s, me, CODE + 0x1001, "py::f:/x.py");
	assert_int_equal(SYMBOL_TRAMPOLINE, symbolize_kind(s, me, CODE + 0x1001));
	assert_string_equal("[anon]", symbolize_user(s, me, CODE + 0x2000));
	write_map("a", "00 10 more\n");
	until_named(s, me, CODE + 0x2000, "more");
	until_named(s, me, CODE, "a:b");
	write_map("w",
		  "5003000 10 another file altogether\n5004000 1000 and it is larger still "
		  "than what was there before\n");
	until_named(s, me, CODE + 0x3000, "another file altogether");
	assert_string_equal("[unknown]", symbolize_user(s, me, CODE + CODE_SIZE));
	own_symbolizer_destroy(s);
}

/* A JIT that writes code where other code was: the younger name is found, though none is missing. */
static void test_used_again(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	pid_t me = getpid();

	feed(s, me, CODE, "//anon", NULL);
	write_map("w", "5000000 10 old\n");
	until_named(s, me, CODE, "old");
	write_map("a", "5000000 10 young\n");
	until_named(s, me, CODE, "young");
	own_symbolizer_destroy(s);
}

/* Where there is a process that reads, we do not. */
static void test_read_elsewhere(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	struct file_helper *h = file_helper_start(NULL);
	struct timespec step = { .tv_nsec = 1000000 };
	pid_t me = getpid();

	elfcache_read_by(symbolizer_spaces(s)->elfs, h);
	feed(s, me, CODE, "//anon", NULL);
	write_map("w", "5000000 10 a\n");
	until_named(s, me, CODE, "a");
	file_helper_end(h);
	write_map("a", "5001000 10 b\n");
	for (int i = 0; i < 500; i++, nanosleep(&step, NULL))
		assert_string_equal("[anon]", symbolize_user(s, me, CODE + 0x1000));
	assert_string_equal("a", symbolize_user(s, me, CODE));
	own_symbolizer_destroy(s);
}

static pid_t start_child(void)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* A child has what its parent made, and then its own. */
static void test_forked(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	struct side side = { .kind = SIDE_FORK };
	pid_t me = getpid(), child;
	char path[64];
	FILE *file;

	write_map("w", "5000000 10 parents\n");
	feed(s, me, CODE, "//anon", NULL);
	child = start_child();
	side.pid = side.tid = child;
	side.u.fork.ppid = me;
	spaces_side(symbolizer_spaces(s), &side);
	until_named(s, me, CODE, "parents");
	until_named(s, child, CODE + 8, "parents");
	/* What it writes itself is its own. */
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", child);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("5000000 8 childs\n5001000 8 known\n", file);
	assert_int_equal(0, fclose(file));
	until_named(s, child, CODE + 0x1000, "known");
	until_named(s, child, CODE, "childs");
	until_named(s, me, CODE, "parents");
	unlink(path);
	end_child(child);
	own_symbolizer_destroy(s);
}

/* What who forked it makes as another program is none of the child's: nor would be what who took
 * the forker's number makes. */
static void test_forker_is_another(void **state)
{
	struct timespec step = { .tv_nsec = 1000000 };
	struct symbolizer *s = own_symbolizer(0);
	pid_t me = getpid(), child = 4190000;
	struct side fork = { .kind = SIDE_FORK,
			     .pid = child,
			     .tid = child,
			     .time = now_ns(),
			     .u.fork.ppid = me };
	struct side exec = {
		.kind = SIDE_COMM, .pid = me, .tid = me, .time = fork.time + 1, .u.comm.exec = true
	};

	write_map("w", "5000000 10 others\n");
	feed(s, me, CODE, "//anon", NULL);
	spaces_side(symbolizer_spaces(s), &fork);
	spaces_side(symbolizer_spaces(s), &exec);
	feed(s, me, CODE, "//anon", NULL);
	until_named(s, me, CODE, "others");
	for (int i = 0; i < 20; i++, nanosleep(&step, NULL))
		assert_string_equal("[anon]", symbolize_user(s, child, CODE));
	own_symbolizer_destroy(s);
}

/* Whoever took a process's number since its map was recorded has files of its own, which are
 * not read; nor is its list, with a descriptor of it or without. */
static void test_taken_over(void **state)
{
	struct timespec step = { .tv_nsec = 1000000 };
	struct symbolizer *s = own_symbolizer(0);
	struct side side = { .kind = SIDE_MMAP, .pid = getpid(), .tid = getpid() };
	struct jit_objects j;
	struct registered r;
	struct jitobject o;

	write_map("w", "5000000 10 strangers\n");
	side.time = now_ns() - proc_age_ns(getpid()) - 1000000000; /* before we were */
	side.u.mmap.addr = CODE;
	side.u.mmap.len = CODE_SIZE;
	side.u.mmap.prot = PROT_EXEC;
	side.u.mmap.path = "//anon";
	spaces_side(symbolizer_spaces(s), &side);
	for (int i = 0; i < 200; i++, nanosleep(&step, NULL))
		assert_string_equal("[anon]", symbolize_user(s, side.pid, CODE));
	own_symbolizer_destroy(s);

	enlist(&r, &o, 0x1000, "a");
	for (int i = 0; i < 2; i++) {
		jit_objects_init(&j, getpid(), i ? now_ns() : side.time, NULL);
		close(j.pidfd);
		j.pidfd = -EMFILE;
		assert_int_equal(i, jit_objects_read(&j, NULL));
		jit_objects_deinit(&j);
	}
}

/* A copy of a copy has that too, up to a few generations. */
static void test_generations(void **state)
{
	enum { NOBODY = 4190000, MOST = 3 };
	struct symbolizer *s = own_symbolizer(0);
	struct side side = { .kind = SIDE_FORK, .u.fork.ppid = getpid() };

	write_map("w", "5000000 10 parents\n");
	feed(s, getpid(), CODE, "//anon", NULL);
	until_named(s, getpid(), CODE, "parents");
	for (pid_t pid = NOBODY; pid <= NOBODY + MOST; pid++) {
		side.pid = side.tid = pid;
		spaces_side(symbolizer_spaces(s), &side);
		side.u.fork.ppid = pid;
	}
	until_named(s, NOBODY, CODE, "parents");
	until_named(s, NOBODY + MOST - 1, CODE, "parents");
	assert_string_equal("[anon]", symbolize_user(s, NOBODY + MOST, CODE));
	own_symbolizer_destroy(s);
}

/* Others may write to /tmp too. */
static void test_not_theirs(void **state)
{
	struct symbolizer *s = own_symbolizer(0);

	if (geteuid() != 0)
		skip();
	write_map("w", "5000000 10 forged\n");
	assert_int_equal(0, chown(map_path(), 12345, 12345));
	feed(s, getpid(), CODE, "//anon", NULL);
	assert_string_equal("[anon]", symbolize_user(s, getpid(), CODE));
	assert_int_equal(0, chown(map_path(), geteuid(), 0));
	until_named(s, getpid(), CODE, "forged");
	own_symbolizer_destroy(s);
}

static void test_no_file(void **state)
{
	struct symbolizer *s = own_symbolizer(0);

	assert_int_equal(0, mkfifo(map_path(), 0600));
	feed(s, getpid(), CODE, "//anon", NULL);
	assert_string_equal("[anon]", symbolize_user(s, getpid(), CODE));
	unlink(map_path());
	assert_int_equal(0, symlink("/dev/zero", map_path()));
	assert_string_equal("[anon]", symbolize_user(s, getpid(), CODE));
	own_symbolizer_destroy(s);
}

static void test_own_dump(void **state)
{
	char folder[] = "/tmp/pysampled-jit-XXXXXX", path[128];
	struct symbolizer *s = own_symbolizer(0);
	pid_t me = getpid();
	struct dump d;
	struct stat st;
	int fd;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/jit-%d.dump", folder, me);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	dump_begin(&d);
	dump_load(&d, CODE + 0x100, 0x100, "made", 0);
	assert_int_equal(d.n, write(fd, d.at, d.n));
	assert_int_equal(0, fstat(fd, &st));
	feed(s, me, CODE, "", NULL);
	assert_string_equal("[anon]", symbolize_user(s, me, CODE + 0x180));
	feed(s, me, CODE + CODE_SIZE, path, &st);
	until_named(s, me, CODE + 0x180, "made");
	d.n = 0; /* and it writes on */
	dump_load(&d, CODE + 0x900, 0x80, "py::later:/x.py", 0);
	assert_int_equal(d.n, write(fd, d.at, d.n));
	until_named(s, me, CODE + 0x900, "py::later:/x.py");
	close(fd);
	unlink(path);
	rmdir(folder);
	own_symbolizer_destroy(s);
}

/* The dump is mapped while the other file, on a file system that does not answer, is read. */
static void test_dump_meanwhile(void **state)
{
	char folder[] = "/tmp/pysampled-jit-XXXXXX", path[128], options[64];
	struct symbolizer *s = own_symbolizer(0);
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC), fd;
	pid_t me = getpid();
	struct dump d;
	struct stat st;

	assert_non_null(mkdtemp(folder));
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	snprintf(path, sizeof(path), "%s/dead", folder);
	assert_int_equal(0, mkdir(path, 0700));
	if (fuse < 0 || mount("dead", path, "fuse", MS_NODEV | MS_NOSUID, options) < 0) {
		print_message("no FUSE can be mounted here\n");
		skip();
	}
	strcat(path, "/file");
	assert_int_equal(0, symlink(path, map_path()));
	feed(s, me, CODE, "", NULL);
	assert_string_equal("[anon]", symbolize_user(s, me, CODE + 0x180));

	snprintf(path, sizeof(path), "%s/jit-%d.dump", folder, me);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	dump_begin(&d);
	dump_load(&d, CODE + 0x100, 0x100, "made", 0);
	assert_int_equal(d.n, write(fd, d.at, d.n));
	assert_int_equal(0, fstat(fd, &st));
	feed(s, me, CODE + CODE_SIZE, path, &st);
	assert_string_equal("[anon]", symbolize_user(s, me, CODE + 0x180));

	close(fuse); /* ends the wait */
	until_named(s, me, CODE + 0x180, "made");
	close(fd);
	unlink(path);
	snprintf(path, sizeof(path), "%s/dead", folder);
	assert_int_equal(0, umount2(path, MNT_DETACH));
	rmdir(path);
	rmdir(folder);
	own_symbolizer_destroy(s);
}

/* The map of @pid is a file that does not answer, in @folder; one that another process of its
 * number left is gone. */
static void link_map(pid_t pid, const char *folder)
{
	char path[64], file[128];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", pid);
	snprintf(file, sizeof(file), "%s/file", folder);
	unlink(path);
	assert_int_equal(0, symlink(file, path));
}

/* Children whose file does not answer, which is in @folder: all of them were looked at. */
static int hang_children(struct symbolizer *s, char *folder, pid_t *child, int n)
{
	int fuse;

	assert_non_null(mkdtemp(folder));
	fuse = mount_dead(folder);
	if (fuse < 0)
		skip();
	for (int i = 0; i < n; i++) {
		child[i] = start_child();
		link_map(child[i], folder);
		feed(s, child[i], CODE, "//anon", NULL);
		assert_string_equal("[anon]", symbolize_user(s, child[i], CODE));
	}
	return fuse;
}

static void end_children(int fuse, const char *folder, const pid_t *child, int n)
{
	char path[64];

	close(fuse);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", child[i]);
		unlink(path);
		end_child(child[i]);
	}
	assert_int_equal(0, umount2(folder, MNT_DETACH));
	rmdir(folder);
}

/* Beside one whose file does: their readings hang, and that one has names. */
static void test_others_hang(void **state)
{
	enum { N = 4 };
	char folder[] = "/tmp/pysampled-jit-XXXXXX";
	struct symbolizer *s = own_symbolizer(0);
	pid_t child[N];
	int fuse = hang_children(s, folder, child, N);

	write_map("w", "5000000 10 a\n");
	feed(s, getpid(), CODE, "//anon", NULL);
	until_named(s, getpid(), CODE, "a");
	end_children(fuse, folder, child, N);
	own_symbolizer_destroy(s);
}

/* From now on its names are asked for again. */
static void until_stale(struct symbolizer *s, pid_t pid)
{
	struct timespec step = { .tv_nsec = 10000000 };

	while (now_ns() < jit_stale_ns(spaces_find(symbolizer_spaces(s), pid)->jit))
		nanosleep(&step, NULL);
}

/* A name that is known is told while it is looked up anew: where there is no time to wait for
 * that, and where the file does not answer any more. */
static void test_known_names_stay(void **state)
{
	char folder[] = "/tmp/pysampled-jit-XXXXXX";
	struct symbolizer *s = own_symbolizer(0);
	struct quota *quota = elfcache_quota(symbolizer_spaces(s)->elfs);
	pid_t me = getpid();
	int fuse;

	feed(s, me, CODE, "//anon", NULL);
	write_map("w", "5000000 10 a\n5001000 10 b\n");
	until_named(s, me, CODE, "a");
	until_stale(s, me);
	quota_waited(quota, now_ns(), 3600000000000);
	assert_string_equal("a", symbolize_user(s, me, CODE));
	assert_string_equal("b", symbolize_user(s, me, CODE + 0x1000));

	assert_non_null(mkdtemp(folder));
	fuse = mount_dead(folder);
	if (fuse < 0)
		skip();
	link_map(me, folder);
	for (int i = 0; i < 3; i++) {
		until_stale(s, me);
		assert_string_equal("a", symbolize_user(s, me, CODE));
		assert_string_equal("b", symbolize_user(s, me, CODE + 0x1000));
	}
	assert_string_equal("[anon]", symbolize_user(s, me, CODE + 0x2000));
	close(fuse);
	own_symbolizer_destroy(s);
	assert_int_equal(0, umount2(folder, MNT_DETACH));
	rmdir(folder);
}

/* Beside one in a root of its own, where there is room for two readings: they leave one. */
static void test_others_elsewhere_hang(void **state)
{
	enum { N = 2 };
	char folder[] = "/tmp/pysampled-jit-XXXXXX", root[] = "/tmp/pysampled-jit-XXXXXX";
	struct symbolizer *s = own_symbolizer(0);
	struct stats stats = { 0 };
	char path[64];
	pid_t child[N], other;
	FILE *map;
	int fuse;

	symbolizer_limit(s, 1 << 20, 1 << 20, &stats);
	quota_limit(elfcache_quota(symbolizer_spaces(s)->elfs), QUOTA_JIT_READS, N);
	fuse = hang_children(s, folder, child, N);
	assert_int_equal(1, STATS_GET(&stats, unread));
	assert_non_null(mkdtemp(root));
	other = elsewhere_start_in(root);
	assert_true(other > 0);
	snprintf(path, sizeof(path), "%s/tmp", root);
	assert_int_equal(0, mkdir(path, 0700));
	snprintf(path, sizeof(path), "%s/tmp/perf-%d.map", root, other);
	map = fopen(path, "w");
	assert_true(fputs("5000000 10 a\n", map) >= 0 && fclose(map) == 0);
	feed(s, other, CODE, "//anon", NULL);
	until_named(s, other, CODE, "a");
	elsewhere_end(other);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	rmdir(root);
	end_children(fuse, folder, child, N);
	own_symbolizer_destroy(s);
}

static uint64_t in_root(uint64_t root, uid_t user)
{
	return root << 32 | user;
}

/* Each has as many as are left for all others. */
static void readings_are_shared(void **state)
{
	static const size_t share[] = { 8, 4, 2, 1, 1, 0 };
	struct quota *q = quota_create();

	for (uid_t who = 0; who < ARRAY_SIZE(share); who++) {
		size_t n = 0;

		while (quota_enter(q, in_root(1, who)))
			n++;
		assert_int_equal(share[who], n);
		assert_int_equal(who + 1, quota_refused(q, QUOTA_JIT_READS));
	}
	quota_leave(q, in_root(1, 1));
	quota_leave(q, in_root(1, 8)); /* it has none */
	assert_true(quota_enter(q, in_root(1, 5)));
	assert_false(quota_enter(q, in_root(1, 6)));
	quota_unref(q);
}

/* However many roots one has made, in some of which it is root: others may read. */
static void one_user_leaves_readings(void **state)
{
	struct quota *q = quota_create();
	size_t n = 0;

	for (uint64_t root = 1; root < 100; root++)
		while (quota_enter(q, in_root(root, 1000)))
			n++;
	assert_int_equal(14, n);
	assert_true(quota_enter(q, in_root(1, 0)));
	assert_true(quota_enter(q, in_root(1, 1001)));
	assert_false(quota_enter(q, in_root(1, 1002)));
	quota_leave(q, in_root(1, 0));
	assert_false(quota_enter(q, in_root(1, 1000)));
	assert_true(quota_enter(q, in_root(1, 1002)));
	quota_unref(q);
}

/* Code that nobody could look for a name of is counted. */
static void test_no_room_to_look(void **state)
{
	static const enum quota_of none[] = { QUOTA_JITS, QUOTA_JIT_READS, QUOTA_THREADS };

	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		struct symbolizer *s = own_symbolizer(0);
		struct stats stats = { 0 };

		symbolizer_limit(s, 1 << 20, 1 << 20, &stats);
		feed(s, 4190000, CODE, "//anon", NULL); /* nobody: it has none */
		symbolize_user(s, 4190000, CODE);
		assert_int_equal(0, STATS_GET(&stats, unread));
		quota_limit(elfcache_quota(symbolizer_spaces(s)->elfs), none[i], 0);
		feed(s, getpid(), CODE, "//anon", NULL);
		assert_string_equal("[anon]", symbolize_user(s, getpid(), CODE));
		assert_int_equal(1, STATS_GET(&stats, unread));
		own_symbolizer_destroy(s);
	}
}

/* A child whose map has more than there is room for. */
static pid_t start_large(void)
{
	pid_t child = start_child();
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", child);
	f = fopen(path, "w");
	assert_non_null(f);
	for (int i = 0; i < CODE_SIZE; i += 16)
		fprintf(f, "%x 10 a%d\n", CODE + i, i);
	assert_int_equal(0, fclose(f));
	return child;
}

static void end_large(pid_t child)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", child);
	unlink(path);
	end_child(child);
}

/* One process' names leave room for those of others, who lack nothing. */
static void test_a_large_map(void **state)
{
	enum { ROOM = 256 << 10 };
	struct symbolizer *s = own_symbolizer(0);
	struct stats stats = { 0 };
	pid_t me = getpid(), child = start_large();

	symbolizer_limit(s, 1 << 20, ROOM, &stats);
	feed(s, child, CODE, "//anon", NULL);
	until_named(s, child, CODE + 0x20, "a32");
	assert_int_equal(0, STATS_GET(&stats, nameless));
	assert_string_equal("[anon]", symbolize_user(s, child, CODE + CODE_SIZE - 1));
	assert_int_equal(1, STATS_GET(&stats, nameless));
	write_map("w", "5000000 10 small\n");
	feed(s, me, CODE, "//anon", NULL);
	until_named(s, me, CODE, "small");
	assert_int_equal(1, STATS_GET(&stats, nameless));
	assert_string_equal("[anon]", symbolize_user(s, me, CODE + 0x1000));
	assert_int_equal(1, STATS_GET(&stats, nameless));
	end_large(child);
	own_symbolizer_destroy(s);
}

/* What others left no room for has its names once they have: what was written before, too. */
static void room_comes_back(struct symbolizer *s, uint64_t at)
{
	struct quota *quota = elfcache_quota(symbolizer_spaces(s)->elfs);
	struct stats stats = { 0 };
	size_t taken = 0;

	symbolizer_limit(s, 1 << 20, 1 << 20, &stats);
	while (quota_take(quota, QUOTA_JIT_BYTES, 1024))
		taken += 1024;
	for (int i = 0; i < 3; i++)
		assert_string_equal("[anon]", symbolize_user(s, getpid(), at));
	for (int i = 0; i < 10000 && !STATS_GET(&stats, nameless); i++)
		assert_string_equal("[anon]", symbolize_user(s, getpid(), at));
	assert_true(STATS_GET(&stats, nameless) > 0);
	quota_give(quota, QUOTA_JIT_BYTES, taken);
	until_named(s, getpid(), at, "small");
	own_symbolizer_destroy(s);
}

static void test_room_for_a_map_again(void **state)
{
	struct symbolizer *s = own_symbolizer(0);

	write_map("w", "5000000 10 small\n");
	feed(s, getpid(), CODE, "//anon", NULL);
	room_comes_back(s, CODE);
}

static void test_room_for_a_list_again(void **state)
{
	struct symbolizer *s = own_symbolizer(0);
	struct registered r;
	struct jitobject o;

	feed(s, getpid(), CODE, "//anon", NULL);
	enlist(&r, &o, 0x1000, "small");
	room_comes_back(s, CODE + 0x1000);
}

/* ---- python -X perf ---- */

/* A Python that has -X perf, or "". */
static const char *find_python(void)
{
	static char path[512];
	FILE *f = popen(
		"for p in ${PYENV_ROOT:-~/.pyenv}/versions/3.1[2-9]*/bin/python "
		"/usr/bin/python3; do "
		"$p -X perf -c 'import sys; sys.exit(not sys.is_stack_trampoline_active())' "
		"2>/dev/null && echo $p && break; done",
		"r");

	path[0] = '\0';
	if (f && fgets(path, sizeof(path), f))
		path[strcspn(path, "\n")] = '\0';
	if (f)
		pclose(f);
	return path;
}

/* Run it behind @prefix; its number here, once it runs its functions. Its file begins empty:
 * it adds to what another process of its number has left, as those of find_python() do. */
static pid_t start_python(const char *prefix, FILE **ret)
{
	char cmd[2048], line[64] = "", comm[16];
	pid_t *pids, pid = 0;
	size_t n;

	snprintf(cmd, sizeof(cmd),
		 "exec %s sh -c 'rm -f /tmp/perf-$$.map; exec \"$@\"' sh "
		 "%s -X perf -c 'def f(): pass\nf(); import signal, sys\n"
		 "print(\"READY\", flush=True); sys.stdout.close(); signal.pause()' "
		 "2>/dev/null",
		 prefix, find_python());
	*ret = popen(cmd, "r");
	assert_non_null(*ret);
	assert_non_null(fgets(line, sizeof(line), *ret));
	assert_string_equal("READY\n", line);
	assert_int_equal(0, family_list(getpid(), &pids, &n));
	for (size_t i = 0; i < n; i++)
		if (proc_comm(pids[i], pids[i], comm) == 0 && !strncmp(comm, "python", 6))
			pid = pids[i];
	free(pids);
	assert_true(pid > 0);
	return pid;
}

/* Each function that its file tells has that name. */
static void check_python(const char *prefix)
{
	struct symbolizer *s = own_symbolizer(0);
	char path[128], line[4096], name[4000];
	unsigned long long start;
	struct proc_maps maps;
	unsigned seen = 0;
	FILE *python, *f;
	pid_t pid = start_python(prefix, &python);

	assert_int_equal(0, proc_maps_read(&maps, pid));
	for (size_t i = 0; i < maps.n; i++)
		if (maps.map[i].x && maps.map[i].path[0] == '\0')
			feed_range(s, pid, maps.map[i].start, maps.map[i].end);
	proc_maps_deinit(&maps);
	snprintf(path, sizeof(path), "/proc/%d/root/tmp/perf-%d.map", pid,
		 proc_inner_tid(pid, pid));
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %*x %3999[^\n]", &start, name) != 2)
			continue;
		until_named(s, pid, start + 1, name);
		assert_int_equal(SYMBOL_TRAMPOLINE, symbolize_kind(s, pid, start + 1));
		seen++;
	}
	fclose(f);
	unlink(path);
	kill(pid, SIGKILL);
	pclose(python);
	own_symbolizer_destroy(s);
	assert_true(seen > 20);
}

static void test_python(void **state)
{
	if (!find_python()[0]) {
		print_message("no Python 3.12 or later\n");
		skip();
	}
	check_python("");
}

/* Under another number and with another /tmp, as in a container. */
static void test_python_in_namespaces(void **state)
{
	static const char prefix[] =
		"unshare --pid --fork --mount --kill-child sh -c 'mount -t "
		"tmpfs none /tmp && exec \"$@\"' x";
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "%s true 2>/dev/null", prefix);
	if (!find_python()[0] || system(cmd) != 0) {
		print_message("no Python 3.12 or later, or no right to make namespaces\n");
		skip();
	}
	check_python(prefix);
}

/* All processes together. */
static void a_tenth_of_the_time_is_waited(void **state)
{
	const uint64_t ms = 1000000, now = 10000 * ms;
	struct quota *q = quota_create();

	(void)state;
	assert_true(quota_may_wait(q, now));
	quota_waited(q, now, 99 * ms);
	assert_true(quota_may_wait(q, now));
	quota_waited(q, now, 51 * ms);
	assert_false(quota_may_wait(q, now + 499 * ms));
	assert_true(quota_may_wait(q, now + 500 * ms));
	quota_waited(q, now + 9000 * ms, 99 * ms); /* what was not waited is not kept */
	quota_waited(q, now + 9000 * ms, 2 * ms);
	assert_false(quota_may_wait(q, now + 9000 * ms));
	quota_unref(q);
}

int main(int argc, char **argv)
{
	bool elsewhere = true;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tenth_of_the_time_is_waited),
		cmocka_unit_test_teardown(test_registered, empty_list),
		cmocka_unit_test_prestate_setup_teardown(test_registered, NULL, empty_list,
							 &elsewhere),
		cmocka_unit_test_teardown(test_entry_used_again, empty_list),
		cmocka_unit_test_teardown(test_no_list, empty_list),
		cmocka_unit_test_teardown(test_no_end, empty_list),
		cmocka_unit_test_teardown(test_no_descriptor, empty_list),
		cmocka_unit_test_teardown(test_own_map, remove_map),
		cmocka_unit_test_teardown(test_used_again, remove_map),
		cmocka_unit_test_teardown(test_read_elsewhere, remove_map),
		cmocka_unit_test_teardown(test_taken_over, empty_list),
		cmocka_unit_test_teardown(test_forked, remove_map),
		cmocka_unit_test_teardown(test_forker_is_another, remove_map),
		cmocka_unit_test_teardown(test_generations, remove_map),
		cmocka_unit_test_teardown(test_not_theirs, remove_map),
		cmocka_unit_test_teardown(test_no_file, remove_map),
		cmocka_unit_test(test_own_dump),
		cmocka_unit_test_teardown(test_dump_meanwhile, remove_map),
		cmocka_unit_test_teardown(test_others_hang, remove_map),
		cmocka_unit_test_teardown(test_known_names_stay, remove_map),
		cmocka_unit_test(test_others_elsewhere_hang),
		cmocka_unit_test(readings_are_shared),
		cmocka_unit_test(one_user_leaves_readings),
		cmocka_unit_test(test_no_room_to_look),
		cmocka_unit_test_teardown(test_a_large_map, remove_map),
		cmocka_unit_test_teardown(test_room_for_a_map_again, remove_map),
		cmocka_unit_test_teardown(test_room_for_a_list_again, empty_list),
		cmocka_unit_test(test_python),
		cmocka_unit_test(test_python_in_namespaces),
	};

	if (argc > 1 && !strcmp(argv[1], FILE_HELPER_COMMAND))
		return file_serve_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
