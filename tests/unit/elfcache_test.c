/* SPDX-License-Identifier: MIT
 *
 * elfcache_test - which files are one, which are left alone, and which modules are dropped,
 * with modules made up.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/stats.h"
#include "elf/elfcache.h"
#include "elf/elfimage.h"
#include "elf/file_helper.h"
#include "elf/module.h"
#include "another_user.h"
#include "any.h"

enum { MAX_ELFS = 65536, MAX_MISSES = 64, MAX_SLOW = 32, SLOW_OF_DEVICE = 3, LAZY_FDS = 8 };

static _Atomic uint64_t stands_ns; /* the clock does; 0: it does not */
static _Atomic bool lacks;	   /* a file can't be read, for want of memory */
static _Atomic uint64_t takes_ns;  /* until that is found out */
static _Atomic bool awaited;	   /* who waits for it has looked at the clock */
static _Atomic bool unanswered;	   /* whoever reads a file elsewhere ends */

int clock_gettime(clockid_t id, struct timespec *t)
{
	if (!stands_ns)
		return (int)syscall(SYS_clock_gettime, id, t);
	*t = (struct timespec){ (time_t)(stands_ns / 1000000000),
				(long)(stands_ns % 1000000000) };
	if (gettid() == getpid())
		awaited = true;
	return 0;
}

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	if (!lacks)
		return syscall(SYS_pread64, fd, buf, n, at);
	while (takes_ns && !awaited)
		usleep(100);
	stands_ns += atomic_exchange(&takes_ns, 0);
	errno = ENOMEM;
	return -1;
}

ssize_t recvmsg(int socket, struct msghdr *m, int flags)
{
	return unanswered ? 0 : syscall(SYS_recvmsg, socket, m, flags);
}

static struct elfcache_elf *get(struct elfcache *c, uint64_t dev, uint64_t ino,
				uint64_t generation, const char *path)
{
	return elfcache_get(c, &(struct elfcache_id){ .dev = dev,
						      .ino = ino,
						      .generation = generation,
						      .path = path });
}

static struct elfcache_elf *get_for(struct elfcache *c, uint64_t ino, const char *path,
				    struct elfcache_share *share)
{
	return elfcache_get_for(c, &(struct elfcache_id){ .ino = ino, .path = path }, share);
}

static void which_files_are_one(void **state)
{
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *e = get(c, 1, 2, 3, "/a");
	char path[] = "/changing";

	assert_ptr_equal(e, get(c, 1, 2, 3, "/a"));
	assert_ptr_equal(e, get(c, 1, 2, 0, "/a")); /* not known */
	assert_ptr_not_equal(e, get(c, 9, 2, 3, "/a"));
	assert_ptr_not_equal(e, get(c, 1, 9, 3, "/a"));
	assert_ptr_not_equal(e, get(c, 1, 2, 9, "/a"));
	assert_ptr_not_equal(e, get(c, 1, 2, 3, "/b"));
	assert_ptr_not_equal(e, elfcache_get(c, &(struct elfcache_id){ 1, 2, 3, 4, "/a" }));
	/* What was not known is, once somebody says so. */
	e = get(c, 5, 5, 0, "/a");
	assert_ptr_equal(e, get(c, 5, 5, 7, "/a"));
	assert_ptr_not_equal(e, get(c, 5, 5, 8, "/a"));
	assert_ptr_equal(e, get(c, 5, 5, 7, "/a"));
	/* The path is its own. */
	e = get(c, 6, 6, 0, path);
	path[1] = 'C';
	assert_string_equal("/changing", elfcache_path(e));
	elfcache_destroy(c);
}

static void as_many_as_may_be(void **state)
{
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf **e = calloc(MAX_ELFS, sizeof(*e));

	for (uint64_t i = 0; i < MAX_ELFS; i++)
		assert_non_null(e[i] = get(c, i & 3, i, 1, "/a"));
	assert_null(get(c, 0, MAX_ELFS, 1, "/a"));
	for (uint64_t i = 0; i < MAX_ELFS; i += 7)
		assert_ptr_equal(e[i], get(c, i & 3, i, 1, "/a"));
	free(e);
	elfcache_destroy(c);
}

/* Files that differ in one of these are several, also where more of them share a bucket. */
static void what_tells_files_apart(void **state)
{
	enum { FILES = 4096 }; /* several times as many as buckets */
	struct elfcache_id id = { 1, 1, 1, 1, "/a" };
	uint64_t *const fields[] = { &id.dev, &id.ino, &id.generation, &id.view };

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		struct elfcache *c = elfcache_create(1 << 20, false);

		for (*fields[i] = 1; *fields[i] <= FILES; ++*fields[i]) {
			elfcache_get(c, &id);
			assert_int_equal(*fields[i], elfcache_facts(c)->added);
		}
		*fields[i] = 1;
		elfcache_destroy(c);
	}
}

/* Renaming one file, or changing its process' root, costs no more than other files do. */
static void names_of_one_file(void **state)
{
	enum { NAMES = 20000, BUCKETS = 1024 };
	struct elfcache *c = elfcache_create(1 << 20, false);
	const uint64_t most = 2 * (uint64_t)NAMES * (NAMES / 2 / BUCKETS);
	struct elfcache_id id = { 1, 2, 3, 0, "/a" };
	char path[32];

	for (int i = 0; i < NAMES; i++) {
		snprintf(path, sizeof(path), "/a.%d", i);
		assert_non_null(get(c, 1, 2, 3, path));
	}
	assert_in_range(elfcache_facts(c)->compared, 1, most);
	for (id.view = 1; id.view < NAMES; id.view++)
		assert_non_null(elfcache_get(c, &id));
	assert_in_range(elfcache_facts(c)->compared, 1, 4 * most);
	elfcache_destroy(c);
}

/* Long paths leave room for fewer. */
static void as_long_as_may_be(void **state)
{
	enum { LONG = 4095, MOST_BYTES = 16 << 20 };
	struct elfcache *c = elfcache_create(1 << 20, false);
	char path[LONG + 1];
	uint64_t n = 0;

	memset(path, 'x', LONG);
	path[LONG] = '\0';
	while (n < MAX_ELFS && get(c, 0, n, 1, path))
		n++;
	assert_int_equal(MOST_BYTES / (LONG + 1), n);
	assert_null(get(c, 0, n, 1, "/a"));
	assert_int_equal(n, elfcache_sweep(c));
	/* There is as much room as at first. */
	for (uint64_t i = 0; i < n; i++)
		assert_non_null(get(c, 0, i, 1, path));
	assert_null(get(c, 0, n, 1, "/a"));
	elfcache_destroy(c);
}

/* One that adds files without end leaves as much room as it takes, of files and of their paths'
 * bytes; and what it keeps counts once, for who names it first. */
static void shares(void **state)
{
	enum { LONG = 4095, MOST_BYTES = 16 << 20 };
	static char path[LONG + 1];
	struct elfcache_share share[5] = { { 0 } }, kept[2] = { { 0 } };
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *e;
	uint64_t n = 0;

	for (size_t i = 0; i < 3; i++) {
		while (get_for(c, n, "/a", &share[i]))
			n++;
		assert_int_equal(MAX_ELFS >> (i + 1), share[i].files);
	}
	assert_ptr_equal(get_for(c, 0, "/a", &share[3]), get_for(c, 0, "/a", NULL));
	assert_int_equal(0, share[3].files);
	elfcache_sweep(c);
	memset(path, 'x', LONG);
	for (size_t i = 3; i < 5; i++) {
		while (get_for(c, n, path, &share[i]))
			n++;
		assert_int_equal(MOST_BYTES >> (i - 2), share[i].path_bytes);
	}
	e = get_for(c, n, "/ab", &share[0]);
	assert_non_null(e);
	for (size_t i = 0; i < 4; i++)
		elfcache_keep(e, &kept[i % 2]);
	assert_int_equal(1, kept[0].files);
	assert_int_equal(sizeof("/ab"), kept[0].path_bytes);
	assert_int_equal(0, kept[1].files + kept[1].path_bytes);
	elfcache_destroy(c);
}

/* Who is kept stays, once; who goes takes its descriptors and module along, and whoever has its
 * place later is another one. */
static void swept(void **state)
{
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *kept = get(c, 1, 1, 1, "/kept"), *e;
	uint64_t version = elfcache_version(kept), before;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), root = dup(fd);

	assert_int_equal(1, elfcache_sweep(c));
	kept = get(c, 1, 1, 1, "/kept");
	assert_true(elfcache_version(kept) > version);
	version = elfcache_version(kept);
	e = get(c, 1, 2, 1, "/gone");
	elfcache_give_fd(c, e, fd, root);
	before = elfcache_facts(c)->dropped;
	elfcache_keep(kept, NULL);
	assert_int_equal(1, elfcache_waiting(c));
	assert_int_equal(1, elfcache_sweep(c));
	assert_int_equal(0, elfcache_waiting(c));
	assert_int_equal(before + 1, elfcache_facts(c)->dropped);
	assert_int_equal(-1, fcntl(fd, F_GETFD));
	assert_int_equal(-1, fcntl(root, F_GETFD));
	assert_ptr_equal(kept, get(c, 1, 1, 1, "/kept"));
	assert_int_equal(version, elfcache_version(kept));
	/* A file that hangs is waited for. */
	elfcache_slow(c, kept, true);
	assert_int_equal(0, elfcache_sweep(c));
	elfcache_slow(c, kept, false);
	assert_int_equal(1, elfcache_sweep(c));
	elfcache_destroy(c);
}

static struct module *module_of(size_t bytes)
{
	struct module *m = calloc(1, sizeof(*m));

	m->bytes = bytes;
	return m;
}

static void missed_files(void **state)
{
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a"), *other = get(c, 1, 2, 0, "/b");

	for (int i = 0; i < MAX_MISSES; i++) {
		assert_true(elfcache_wants_file(e));
		assert_false(elfcache_was_missed(e));
		elfcache_missed(e);
	}
	assert_false(elfcache_wants_file(e));
	assert_true(elfcache_was_missed(e));
	assert_true(elfcache_wants_file(other));
	elfcache_give_module(c, e, module_of(1)); /* it lacks nothing any more */
	assert_false(elfcache_was_missed(e));
	elfcache_destroy(c);
}

static void build_ids(void **state)
{
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a");
	unsigned char id[ELFIMAGE_MAX_ID + 1];

	assert_int_equal(0, elfcache_build_id(e).n);
	for (size_t i = 0; i < sizeof(id); i++)
		id[i] = (unsigned char)(i + 1);
	for (size_t n = 1; n <= sizeof(id); n++) {
		struct bytes got;

		elfcache_note_id(e, (struct bytes){ id, n });
		got = elfcache_build_id(e);
		assert_int_equal(MIN(n, (size_t)ELFIMAGE_MAX_ID), got.n);
		assert_memory_equal(id, got.at, got.n);
		assert_ptr_not_equal(id, got.at);
	}
	elfcache_destroy(c);
}

/* ---- Files that take too long ---- */

/* Any of several devices' files become slow and quick again, some of them seen in two views: who
 * is left alone, and how long the others are waited for. */
static void slow_files(void **state)
{
	enum { DEVICES = 12, FILES = 4, N = DEVICES * FILES };
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *e[N];
	bool slow[N] = { false };
	unsigned total = 0;

	for (unsigned i = 0; i < N; i++)
		e[i] = elfcache_get(c, &(struct elfcache_id){ .dev = i / FILES / 2,
							      .ino = i,
							      .view = i / FILES % 2,
							      .path = "/a" });
	for (int step = 0; step < 4000; step++) {
		unsigned i = any(N), of_device = 0;
		bool is = any(1000) < (step / 500 % 2 ? 800u : 300u);

		if (slow[i] || total < MAX_SLOW) {
			total += is - slow[i];
			slow[i] = is;
		}
		elfcache_slow(c, e[i], is);
		i = any(N);
		for (unsigned k = 0; k < FILES; k++)
			of_device += slow[i / FILES * FILES + k];
		/* Nobody knows whose they are: as if they all were of one user. */
		assert_int_equal(slow[i] || of_device >= SLOW_OF_DEVICE || total >= MAX_SLOW / 2,
				 elfcache_is_slow(c, e[i]));
		assert_int_equal(of_device ? 50 : 1000, elfcache_patience(c, e[i], 1000));
	}
	elfcache_destroy(c);
}

/* One process's slow files are its own misfortune; several processes' are that of their user. */
static void slow_files_of_one_process(void **state)
{
	enum { FILES = 12, OTHERS = SLOW_OF_DEVICE, NOBODY = 4190000 /* and those behind it */ };
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *e[FILES];

	for (unsigned i = 0; i < FILES; i++)
		e[i] = get(c, i == 11, i, 0, "/a");
	for (unsigned i = 0; i < SLOW_OF_DEVICE; i++) {
		elfcache_asked_by(c, e[i], NOBODY + 1);
		elfcache_slow(c, e[i], true);
	}
	elfcache_asked_by(c, e[0], NOBODY + 2); /* it was 1 who had it be slow */
	elfcache_asked_by(c, e[10], NOBODY + 1);
	assert_true(elfcache_is_slow(c, e[10]));
	for (pid_t i = 0; i < OTHERS; i++) {
		elfcache_asked_by(c, e[10], NOBODY + 9);
		assert_int_equal(i + 1 >= SLOW_OF_DEVICE, elfcache_is_slow(c, e[10]));
		assert_int_equal(50, elfcache_patience(c, e[10], 1000));
		elfcache_asked_by(c, e[3 + i], NOBODY + 3 + i);
		elfcache_slow(c, e[3 + i], true);
	}
	elfcache_asked_by(c, e[11], NOBODY + 1);
	assert_false(elfcache_is_slow(c, e[11]));
	assert_int_equal(1000, elfcache_patience(c, e[11], 1000));
	elfcache_destroy(c);
}

/* How many files, each of a device of its own, may be slow at once for @pid, beside those that are
 * by then. */
static size_t slow_for(struct elfcache *c, pid_t pid)
{
	static unsigned device;
	size_t n = 0;

	for (;; n++) {
		struct elfcache_elf *e = get(c, ++device, 1, 0, "/a");

		elfcache_asked_by(c, e, pid);
		if (elfcache_is_slow(c, e))
			break;
		elfcache_slow(c, e, true);
		assert_true(elfcache_is_slow(c, e));
	}
	return n;
}

/* However many mounts hang for one user's processes: others' files are read, of each no more than
 * are left for all others. */
static void slow_files_of_one_user(void **state)
{
	static const size_t share[] = { 16, 8, 4, 2, 1, 1, 0 };
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct stats stats = { 0 };
	pid_t first, pid;

	if (geteuid() != 0)
		skip();
	elfcache_count(c, &stats);
	first = another_user_start(ANOTHER_USER);
	for (unsigned i = 0; i < ARRAY_SIZE(share); i++) {
		pid = another_user_start(ANOTHER_USER + i);
		assert_int_equal(share[i], slow_for(c, pid));
		assert_int_equal(0, slow_for(c, first)); /* of the same user as the first one */
		assert_int_equal(2 * i + 2, STATS_GET(&stats, unread));
		another_user_end(pid);
	}
	another_user_end(first);
	elfcache_destroy(c);
}

/* However many of one user's processes have slow files on a device: others' files of it are read,
 * until files of as many users are slow. What is left alone is counted. */
static void slow_files_of_a_device(void **state)
{
	enum { OWN = SLOW_OF_DEVICE + 1 };
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *e[10];
	struct stats stats = { 0 };
	pid_t pid[OWN + SLOW_OF_DEVICE];

	if (geteuid() != 0)
		skip();
	elfcache_count(c, &stats);
	for (unsigned i = 0; i < ARRAY_SIZE(e); i++)
		e[i] = get(c, 0, i, 0, "/a");
	for (int i = 0; i < OWN + SLOW_OF_DEVICE; i++)
		pid[i] = another_user_start(ANOTHER_USER + (i < OWN ? 0 : i));
	for (int i = 0; i < SLOW_OF_DEVICE; i++) {
		elfcache_asked_by(c, e[8], pid[SLOW_OF_DEVICE]);
		assert_false(elfcache_is_slow(c, e[8]));
		elfcache_asked_by(c, e[i], pid[i]);
		elfcache_slow(c, e[i], true);
	}
	assert_true(elfcache_is_slow(c, e[8])); /* another process of that user */
	assert_int_equal(1, STATS_GET(&stats, unread));
	for (int i = 0; i < SLOW_OF_DEVICE; i++) {
		elfcache_asked_by(c, e[9], getpid());
		assert_int_equal(i == SLOW_OF_DEVICE - 1, elfcache_is_slow(c, e[9]));
		assert_int_equal(50, elfcache_patience(c, e[9], 1000));
		elfcache_asked_by(c, e[3 + i], pid[OWN + i]);
		elfcache_slow(c, e[3 + i], true);
	}
	assert_true(elfcache_is_slow(c, e[8]) && elfcache_is_slow(c, e[9]));
	assert_int_equal(2, STATS_GET(&stats, unread)); /* each once */
	for (int i = 0; i < OWN + SLOW_OF_DEVICE; i++)
		another_user_end(pid[i]);
	elfcache_destroy(c);
}

/* What takes 0.3 s of CPU time is no file that does not answer where 20 others want the CPU. */
static void large_files_take_longer(void **state)
{
	static const struct {
		uint64_t bytes;
		int least, most;
	} rows[] = { { 0, 2000, 2000 }, { 16 << 20, 2000, 3000 }, { 448 << 20, 6000, 12000 },
		     { UINT64_MAX, 10000, 15000 } };
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a");

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		elfcache_note_stamp(e, &(struct elfcache_stamp){ rows[i].bytes, 1 }, 0);
		assert_in_range(elfcache_reading_ms(e), rows[i].least, rows[i].most);
	}
	elfcache_destroy(c);
}

/* ---- What is dropped ---- */

/* One of the modules is asked for, or made: beyond the bound those go that were not asked for
 * longest, but never the one in use. */
static void oldest_are_dropped(void **state)
{
	enum { N = 8, ROOM = 1000 };
	struct elfcache *c = elfcache_create(ROOM, false);
	struct elfcache_elf *e[N];
	size_t bytes[N] = { 0 }, total = 0; /* of which there are */
	uint64_t used[N] = { 0 }, dropped = 0, read = 0;

	for (unsigned i = 0; i < N; i++)
		e[i] = get(c, 1, i, 0, "/a");
	for (uint64_t now = 1; now < 5000; now++) {
		unsigned i = any(N);

		if (bytes[i]) {
			assert_non_null(elfcache_module(c, e[i]));
		} else {
			assert_true(elfcache_wants_file(e[i]));
			assert_null(elfcache_module(c, e[i]));
			bytes[i] = any(50) ? 1 + any(400) : ROOM + 1;
			total += bytes[i];
			elfcache_give_module(c, e[i], module_of(bytes[i]));
			read++;
		}
		used[i] = now;
		while (total > ROOM) {
			unsigned oldest = N;

			for (unsigned k = 0; k < N; k++)
				if (k != i && bytes[k] &&
				    (oldest == N || used[k] < used[oldest]))
					oldest = k;
			if (oldest == N)
				break;
			total -= bytes[oldest];
			bytes[oldest] = 0;
			dropped++;
		}
		for (unsigned k = 0; k < N; k++)
			assert_int_equal(!bytes[k], elfcache_wants_file(e[k]));
		assert_int_equal(dropped, elfcache_facts(c)->dropped);
		assert_int_equal(read, elfcache_facts(c)->read);
	}
	assert_true(dropped > 100);
	elfcache_destroy(c);
}

/* A module's rows grow while it is used. Where there is little room it is given up then, and
 * that is told, for others point into it. */
static void one_that_grew(void **state)
{
	struct elfcache *c = elfcache_create(1000, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a");
	struct module *m = module_of(900);

	elfcache_has_little(c);
	elfcache_give_module(c, e, m);
	assert_ptr_equal(m, elfcache_module(c, e));
	assert_int_equal(0, elfcache_facts(c)->dropped);
	m->bytes = 1001;
	assert_null(elfcache_module(c, e));
	assert_int_equal(1, elfcache_facts(c)->dropped);
	assert_false(elfcache_wants_file(e));
	elfcache_destroy(c);
}

/* Where there is little room, what was asked for a moment ago makes none: what comes is given up.
 */
static void what_is_idle_makes_room(void **state)
{
	enum { IDLE = 10000 };

	for (unsigned idle = IDLE - 1; idle <= IDLE; idle++) {
		struct elfcache *c = elfcache_create(1000, false);
		struct elfcache_elf *e[] = { get(c, 1, 0, 0, "/a"), get(c, 1, 1, 0, "/a") };

		elfcache_has_little(c);
		elfcache_give_module(c, e[0], module_of(600));
		for (unsigned i = 1; i < idle; i++)
			assert_null(elfcache_module(c, e[1]));
		elfcache_give_module(c, e[1], module_of(600));
		assert_int_equal(idle == IDLE, elfcache_wants_file(e[0]));
		assert_int_equal(idle == IDLE, elfcache_module(c, e[1]) != NULL);
		assert_int_equal(1, elfcache_facts(c)->dropped);
		elfcache_destroy(c);
	}
}

/* One that is larger than all room stays, alone, while nothing else is read. */
static void one_that_is_too_large(void **state)
{
	struct elfcache *c = elfcache_create(1000, false);
	struct elfcache_elf *e[] = { get(c, 1, 0, 0, "/a"), get(c, 1, 1, 0, "/a") };

	elfcache_give_module(c, e[0], module_of(1001));
	assert_null(elfcache_module(c, e[1]));
	assert_non_null(elfcache_module(c, e[0]));
	elfcache_give_module(c, e[1], module_of(1));
	assert_null(elfcache_module(c, e[0]));
	elfcache_destroy(c);
}

/* Those of e[0] to e[n - 1] that are wanted are read again, in turn; how many were. */
static unsigned ask_in_turn(struct elfcache *c, struct elfcache_elf **e, const size_t *bytes,
			    unsigned n, unsigned rounds)
{
	uint64_t before = elfcache_facts(c)->read;

	for (unsigned i = 0; i < n * rounds; i++) {
		elfcache_module(c, e[i % n]);
		if (elfcache_wants_file(e[i % n]))
			elfcache_give_module(c, e[i % n], module_of(bytes[i % n]));
	}
	return (unsigned)(elfcache_facts(c)->read - before);
}

/* Large files that are on each stack are not read for each: there is more room for them, and
 * beyond that the largest is given up, which is told. */
static void those_in_use_get_room(void **state)
{
	enum { N = 4, LOOKUPS = 10000 };
	static const size_t bytes[N] = { 300, 800, 100, 300 };
	struct elfcache *c = elfcache_create(1000, false);
	struct stats stats = { 0 };
	struct elfcache_elf *e[N];

	for (unsigned i = 0; i < N; i++)
		e[i] = get(c, 1, i, 0, "/a");
	elfcache_count(c, &stats);
	elfcache_may_grow(c, 1200);
	assert_int_equal(1, ask_in_turn(c, e, bytes, 1, LOOKUPS)); /* it has run for some time */
	assert_in_range(ask_in_turn(c, e, bytes, 3, 100), 3, 6);
	assert_int_equal(0, ask_in_turn(c, e, bytes, 3, 100));
	assert_int_equal(0, STATS_GET(&stats, nameless));
	assert_in_range(ask_in_turn(c, e, bytes, N, 100), 1, 6);
	assert_int_equal(0, ask_in_turn(c, e, bytes, N, 100));
	assert_int_equal(1, STATS_GET(&stats, nameless));
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(i != 1, elfcache_module(c, e[i]) != NULL);
	elfcache_destroy(c);
}

/* What is asked for now and then gets no further room. */
static void those_in_use_later_take_turns(void **state)
{
	enum { LOOKUPS = 10000 };
	static const size_t bytes[] = { 800, 800 };
	struct elfcache *c = elfcache_create(1000, false);
	struct elfcache_elf *e[] = { get(c, 1, 0, 0, "/a"), get(c, 1, 1, 0, "/a") };

	elfcache_may_grow(c, 2000);
	for (unsigned i = 0; i < 10; i++) {
		ask_in_turn(c, &e[i % 2], bytes, 1, LOOKUPS - 1);
		assert_int_equal(i + 1, elfcache_facts(c)->read);
		assert_int_equal(i, elfcache_facts(c)->dropped);
	}
	elfcache_destroy(c);
}

/* A file of which nothing can be made is not wanted again. */
static void nothing_made(void **state)
{
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a");

	elfcache_give_module(c, e, NULL);
	assert_false(elfcache_wants_file(e));
	assert_null(elfcache_module(c, e));
	assert_int_equal(0, elfcache_facts(c)->read);
	elfcache_destroy(c);
}

/* ---- Descriptors ---- */

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* By whoever read it, when that has ended. */
static bool is_closed(int fd)
{
	for (int i = 0; i < 10000 && is_open(fd); i++)
		usleep(1000);
	return !is_open(fd);
}

static int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static const struct module *read_by_now(struct elfcache *c, struct elfcache_elf *e)
{
	const struct module *m = elfcache_module(c, e);

	for (int i = 0; i < 10000 && elfcache_pending(e); i++) {
		usleep(1000);
		m = elfcache_module(c, e);
	}
	return m;
}

/* Descriptors are kept until somebody asks, but only a few; each is closed once. */
static void descriptors(void **state)
{
	enum { N = LAZY_FDS + 1 };
	struct elfcache *c = elfcache_create(64 << 20, false);
	struct elfcache_elf *e[N];
	int fd[N], root[N], other;

	for (unsigned i = 0; i < N; i++) {
		e[i] = get(c, 1, i, 0, "/a");
		fd[i] = open_file("/proc/self/exe");
		root[i] = open_file("/");
		elfcache_give_fd(c, e[i], fd[i], root[i]);
		assert_false(elfcache_wants_file(e[i]));
		for (unsigned k = 0; k < i && i < N - 1; k++)
			assert_true(is_open(fd[k]) && is_open(root[k]) &&
				    elfcache_pending(e[k]));
	}
	assert_false(elfcache_pending(e[N - 1])); /* the last one was read at once */
	assert_non_null(read_by_now(c, e[N - 1]));
	assert_true(is_closed(fd[N - 1]) && is_closed(root[N - 1]));
	assert_int_equal(1, elfcache_facts(c)->read);
	assert_true(elfcache_facts(c)->ns > 0);
	assert_non_null(read_by_now(c, e[0]));
	assert_true(is_closed(fd[0]) && is_closed(root[0]));
	assert_int_equal(2, elfcache_facts(c)->read);
	/* It has one already. */
	other = open_file("/proc/self/exe");
	elfcache_give_fd(c, e[1], other, -1);
	assert_false(is_open(other));
	assert_true(is_open(fd[1]));
	other = open_file("/");
	elfcache_give_fd(c, e[0], -1, other);
	assert_false(is_open(other));
	elfcache_destroy(c);
	for (unsigned i = 0; i < N; i++)
		assert_true(is_closed(fd[i]) && is_closed(root[i]));
}

/* One that was read makes room for another one that may wait. */
static void lazy_again(void **state)
{
	struct elfcache *c = elfcache_create(64 << 20, false);
	struct elfcache_elf *e[2 * LAZY_FDS];

	for (unsigned i = 0; i < 2 * LAZY_FDS; i++) {
		e[i] = get(c, 1, i, 0, "/a");
		if (i >= LAZY_FDS)
			assert_non_null(read_by_now(c, e[i - LAZY_FDS]));
		elfcache_give_fd(c, e[i], open_file("/proc/self/exe"), -1);
		assert_true(elfcache_pending(e[i]));
	}
	assert_int_equal(LAZY_FDS, elfcache_facts(c)->read);
	elfcache_destroy(c);
}

/* Where more may wait none of them is read. */
static void more_may_wait(void **state)
{
	enum { N = 3 * LAZY_FDS };
	struct elfcache *c = elfcache_create(64 << 20, false);
	struct elfcache_elf *e;

	elfcache_may_hold(c, N);
	elfcache_may_hold(c, 0); /* as many as before */
	for (unsigned i = 0; i <= N; i++) {
		e = get(c, 1, i, 0, "/a");
		elfcache_give_fd(c, e, open_file("/proc/self/exe"), -1);
		assert_int_equal(elfcache_pending(e), i < N);
	}
	assert_non_null(read_by_now(c, e));
	assert_int_equal(1, elfcache_facts(c)->read);
	elfcache_destroy(c);
}

/* Again, and memory is there: also after a failure. */
static int clock_runs(void **state)
{
	lacks = false;
	takes_ns = stands_ns = 0;
	return 0;
}

/* What lacks memory is read again, a few times: at once if that was quick, else after ten times
 * as long, so that it never takes more than a part of the time. */
static void what_lacks_is_read_again_after(uint64_t took_ns, uint64_t pause_ns)
{
	struct elfcache *c = elfcache_create(64 << 20, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a");
	struct stats stats = { 0 };

	elfcache_count(c, &stats);
	lacks = true;
	for (unsigned i = 1; i <= MAX_MISSES; i++) {
		takes_ns = took_ns;
		elfcache_give_fd(c, e, open_file("/proc/self/exe"), -1);
		assert_null(read_by_now(c, e));
		assert_int_equal(i, STATS_GET(&stats, unread));
		if (pause_ns) {
			assert_false(elfcache_wants_file(e));
			stands_ns += pause_ns - 1;
			assert_false(elfcache_wants_file(e));
			stands_ns += 1;
		}
		assert_int_equal(i < MAX_MISSES, elfcache_wants_file(e));
	}
	lacks = false;
	elfcache_destroy(c);
}

static void what_lacks_is_read_again(void **state)
{
	enum { MS = 1000000 };

	stands_ns = now_ns();
	what_lacks_is_read_again_after(0, 0);
	what_lacks_is_read_again_after(MS - 1, 0);
	what_lacks_is_read_again_after(MS, 100 * MS);
	what_lacks_is_read_again_after(10 * MS, 100 * MS);
	what_lacks_is_read_again_after(70 * MS, 700 * MS);
}

/* So is what had no descriptor for what a helper has read. */
static void what_a_helper_could_not_give_is_read_again(void **state)
{
	struct file_helper *h = file_helper_start(NULL);
	struct elfcache *c = elfcache_create(64 << 20, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a");
	struct rlimit was, none;

	elfcache_read_by(c, h);
	elfcache_give_fd(c, e, open_file("/proc/self/exe"), -1);
	getrlimit(RLIMIT_NOFILE, &was);
	none = was;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	assert_null(read_by_now(c, e));
	setrlimit(RLIMIT_NOFILE, &was);
	stands_ns = now_ns() + 3600000000000; /* whatever pause it had */
	assert_true(elfcache_wants_file(e));
	stands_ns = 0;
	elfcache_destroy(c);
	file_helper_end(h);
}

/* A file that ends who reads it is tried again, a few times, and counted each time. */
static void what_ends_its_reader_is_given_up(void **state)
{
	enum { MAX_BAD_ENDS = 3 };
	struct file_helper *h = file_helper_start(NULL);
	struct elfcache *c = elfcache_create(64 << 20, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a");
	struct stats stats = { 0 };

	file_helper_count(h, &stats);
	elfcache_read_by(c, h);
	unanswered = true;
	for (unsigned i = 1; i <= MAX_BAD_ENDS; i++) {
		elfcache_give_fd(c, e, open_file("/proc/self/exe"), -1);
		assert_null(read_by_now(c, e));
		assert_int_equal(i, STATS_GET(&stats, bad_file));
		assert_int_equal(i < MAX_BAD_ENDS, elfcache_wants_file(e));
	}
	unanswered = false;
	assert_int_equal(0, elfcache_facts(c)->read);
	elfcache_destroy(c);
	file_helper_end(h);
}

/* Who is slow but not too slow holds others up for a tenth of the time, in the long run. */
static void patience_ends(void **state)
{
	const uint64_t second = 1000000000;
	struct elfcache *c = elfcache_create(64 << 20, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a"), *other = get(c, 2, 2, 0, "/b");

	stands_ns = now_ns() + 20 * second; /* later than who waits for it may end */
	lacks = true;
	for (unsigned i = 1; i <= 23; i++) {
		assert_int_equal(1000, elfcache_patience(c, other, 1000));
		takes_ns = second;
		awaited = false;
		elfcache_give_fd(c, e, open_file("/proc/self/exe"), -1);
		assert_null(read_by_now(c, e));
		assert_int_equal(0, takes_ns);
	}
	assert_int_equal(50, elfcache_patience(c, other, 1000));
	stands_ns += 10 * second;
	assert_int_equal(1000, elfcache_patience(c, other, 1000));
	elfcache_destroy(c);
}

/* Of many files that are mapped large ones are not read, nor looked at again for each process,
 * before they are needed. */
static void large_ones_are_put_off(void **state)
{
	static const struct elfcache_stamp small = { .bytes = 16 << 20, .changed_ns = 1 },
					   large = { .bytes = (16 << 20) + 1, .changed_ns = 1 };
	struct elfcache *c = elfcache_create(64 << 20, false);
	struct elfcache_elf *e;
	int fd, root;

	for (unsigned i = 0; i < LAZY_FDS; i++) {
		e = get(c, 1, i, 0, "/a");
		elfcache_note_stamp(e, &large, 0);
		elfcache_offer_fd(c, e, open_file("/proc/self/exe"), -1);
		assert_true(elfcache_pending(e) && !elfcache_is_put_off(e));
	}
	e = get(c, 1, 100, 0, "/large");
	fd = open_file("/proc/self/exe"), root = open_file("/");
	elfcache_note_stamp(e, &large, 0);
	elfcache_offer_fd(c, e, fd, root);
	assert_true(elfcache_is_put_off(e) && elfcache_wants_file(e));
	assert_false(is_open(fd) || is_open(root));
	assert_int_equal(0, elfcache_facts(c)->read);
	elfcache_give_fd(c, e, open_file("/proc/self/exe"), -1);
	assert_non_null(read_by_now(c, e));
	e = get(c, 1, 101, 0, "/small");
	elfcache_note_stamp(e, &small, 0);
	elfcache_offer_fd(c, e, open_file("/proc/self/exe"), -1);
	assert_non_null(read_by_now(c, e));
	assert_int_equal(2, elfcache_facts(c)->read);
	assert_false(elfcache_is_put_off(e));
	elfcache_destroy(c);
}

/* Only what was read can be told to have changed: the file that waits to be read is the one that
 * was opened, whatever another look at its path says. */
static void what_was_not_read_does_not_change(void **state)
{
	struct elfcache *c = elfcache_create(64 << 20, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a");
	const struct elfcache_stamp other = { .bytes = 1, .changed_ns = 1 };
	int fd = open_file("/proc/self/exe");

	assert_false(elfcache_check(c, e, &other));
	elfcache_give_fd(c, e, fd, -1);
	assert_false(elfcache_check(c, e, &other));
	assert_true(elfcache_pending(e) && is_open(fd));
	assert_int_equal(0, elfcache_facts(c)->dropped);
	assert_non_null(read_by_now(c, e));
	assert_true(elfcache_check(c, e, &other));
	assert_int_equal(1, elfcache_facts(c)->dropped);
	elfcache_destroy(c);
}

/* What was read is looked at again a tenth of a second later, where it is known when it was
 * changed. */
static void when_it_may_have_changed(void **state)
{
	enum { CHECK_NS = 100000000, AT = 5 };
	static const struct elfcache_stamp known = { .bytes = 1, .changed_ns = 1 }, no_time = { 1 };
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a");

	elfcache_note_stamp(e, &known, AT);
	assert_false(elfcache_may_be_old(e, AT + CHECK_NS)); /* it was not read */
	elfcache_give_module(c, e, module_of(1));
	for (uint64_t i = 1; i < 4; i++) {
		assert_false(elfcache_may_be_old(e, AT + i * CHECK_NS - 1));
		assert_true(elfcache_may_be_old(e, AT + i * CHECK_NS));
	}
	elfcache_note_stamp(e, &no_time, AT);
	assert_false(elfcache_may_be_old(e, AT + CHECK_NS));
	elfcache_destroy(c);
}

/* Another size or another time: it is read anew, as another version, and looked for as often as
 * one that nobody looked for. */
static void what_has_changed(void **state)
{
	static const struct elfcache_stamp stamps[] = { { 7, 8 }, { 7, 9 }, { 6, 8 } };

	for (size_t i = 0; i < ARRAY_SIZE(stamps); i++) {
		struct elfcache *c = elfcache_create(1 << 20, false);
		struct elfcache_elf *e = get(c, 1, 1, 0, "/a");
		uint64_t version = elfcache_version(e);

		elfcache_note_stamp(e, &stamps[0], 0);
		for (unsigned k = 0; k < MAX_MISSES; k++)
			elfcache_missed(e);
		elfcache_give_module(c, e, module_of(1));
		assert_int_equal(i > 0, elfcache_check(c, e, &stamps[i]));
		assert_int_equal(i > 0, elfcache_version(e) > version);
		assert_int_equal(i > 0, elfcache_wants_file(e));
		assert_int_equal(i > 0, elfcache_facts(c)->dropped);
		elfcache_destroy(c);
	}
}

static void no_elf(void **state)
{
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a");

	elfcache_give_fd(c, e, open_file("/etc/passwd"), -1);
	assert_null(read_by_now(c, e));
	assert_false(elfcache_wants_file(e));
	assert_false(elfcache_pending(e));
	assert_int_equal(0, elfcache_facts(c)->read);
	elfcache_destroy(c);
}

/* An image is read again when its module was dropped; a second one is not looked at. */
static void images_by(struct file_helper *h)
{
	struct elfcache *c = elfcache_create(1, false);
	struct elfcache_elf *e = get(c, 1, 1, 0, "/a"), *other = get(c, 1, 2, 0, "/b");
	static unsigned char bytes[64 << 20];
	int fd = open_file("/proc/self/exe");
	ssize_t n = read(fd, bytes, sizeof(bytes));

	close(fd);
	assert_true(n > 0);
	elfcache_read_by(c, h);
	elfcache_give_image(c, e, (struct bytes){ bytes, (size_t)n });
	elfcache_give_image(c, e, (struct bytes){ (const void *)"nothing", 7 });
	assert_non_null(read_by_now(c, e));
	elfcache_give_module(c, other, module_of(1)); /* the other one is dropped */
	assert_int_equal(1, elfcache_facts(c)->dropped);
	assert_false(elfcache_wants_file(e));
	assert_non_null(read_by_now(c, e));
	assert_true(elfcache_wants_file(other));
	assert_int_equal(3, elfcache_facts(c)->read);
	elfcache_destroy(c);
}

/* Also where others read files: they get no memory of ours. */
static void images(void **state)
{
	struct file_helper *h = file_helper_start(NULL);

	images_by(NULL);
	images_by(h);
	file_helper_end(h);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_files_are_one),
		cmocka_unit_test(what_tells_files_apart),
		cmocka_unit_test(as_many_as_may_be),
		cmocka_unit_test(names_of_one_file),
		cmocka_unit_test(as_long_as_may_be),
		cmocka_unit_test(shares),
		cmocka_unit_test(swept),
		cmocka_unit_test(missed_files),
		cmocka_unit_test(build_ids),
		cmocka_unit_test(slow_files),
		cmocka_unit_test(slow_files_of_one_process),
		cmocka_unit_test(slow_files_of_one_user),
		cmocka_unit_test(slow_files_of_a_device),
		cmocka_unit_test(oldest_are_dropped),
		cmocka_unit_test(one_that_grew),
		cmocka_unit_test(what_is_idle_makes_room),
		cmocka_unit_test(one_that_is_too_large),
		cmocka_unit_test(those_in_use_get_room),
		cmocka_unit_test(those_in_use_later_take_turns),
		cmocka_unit_test(nothing_made),
		cmocka_unit_test(descriptors),
		cmocka_unit_test(lazy_again),
		cmocka_unit_test(more_may_wait),
		cmocka_unit_test_teardown(what_lacks_is_read_again, clock_runs),
		cmocka_unit_test_teardown(what_a_helper_could_not_give_is_read_again, clock_runs),
		cmocka_unit_test(what_ends_its_reader_is_given_up),
		cmocka_unit_test(large_ones_are_put_off),
		cmocka_unit_test_teardown(patience_ends, clock_runs),
		cmocka_unit_test(large_files_take_longer),
		cmocka_unit_test(what_was_not_read_does_not_change),
		cmocka_unit_test(when_it_may_have_changed),
		cmocka_unit_test(what_has_changed),
		cmocka_unit_test(no_elf),
		cmocka_unit_test(images),
	};

	if (argc > 1 && !strcmp(argv[1], FILE_HELPER_COMMAND))
		return file_serve_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
