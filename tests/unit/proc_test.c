/* SPDX-License-Identifier: MIT
 *
 * proc: texts of /proc parsed, and what the live system says of this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "unit.h"
#include "sys/family.h"
#include "sys/proc.h"
#include "sys/proc_maps.h"

#include "elsewhere.h"

/* What /proc has elsewhere. */
static bool no_children; /* a kernel without CONFIG_PROC_CHILDREN */
static const char *loadavg = "/proc/loadavg";

static bool is_missing(const char *path)
{
	const char *name = strrchr(path, '/');

	return no_children && name && !strcmp(name, "/children");
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = va_arg(ap, int);
	va_end(ap);
	if (is_missing(path)) {
		errno = ENOENT;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD,
			    strcmp(path, "/proc/loadavg") ? path : loadavg, flags, mode);
}

int access(const char *path, int mode)
{
	if (is_missing(path)) {
		errno = ENOENT;
		return -1;
	}
	return faccessat(AT_FDCWD, path, mode, 0);
}

static const char text[] =
	"00400000-00a5b000 r-xp 00001000 fe:1f 1234       /usr/bin/a b\n"
	"7f00-7f01 rw-s 00000000 00:05 9   /memfd:x (deleted)\n"
	"this is no line\n"
	"\n"
	"10-20 r-\n"
	"20-10 rw-p 00000000 00:00 0 \n"
	"11111111111111111-2 rw-p 00000000 00:00 0 \n"
	"7fff0000-7fff1000 rw-p 00000000 00:00 0 \n"
	"7fff2000-7fff3000 rw-p 00000000 00:00 0                          [stack]\n"
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]";

static void maps_parse(void **state)
{
	struct proc_maps m;

	assert_int_equal(proc_maps_parse(&m, strdup(text), sizeof(text) - 1), 0);
	assert_int_equal(m.n, 5);
	assert_int_equal(m.map[0].start, 0x400000);
	assert_int_equal(m.map[0].end, 0xa5b000);
	assert_int_equal(m.map[0].pgoff, 0x1000);
	assert_int_equal(m.map[0].maj, 0xfe);
	assert_int_equal(m.map[0].min, 0x1f);
	assert_int_equal(m.map[0].ino, 1234);
	assert_string_equal(m.map[0].path, "/usr/bin/a b");
	assert_true(m.map[0].r && !m.map[0].w && m.map[0].x && !m.map[0].shared);
	assert_false(m.map[0].deleted);
	assert_string_equal(m.map[1].path, "/memfd:x");
	assert_true(m.map[1].deleted && m.map[1].shared && m.map[1].w && !m.map[1].x);
	assert_string_equal(m.map[2].path, "");
	assert_string_equal(m.map[3].path, "[stack]");
	assert_string_equal(m.map[4].path, "[vsyscall]");
	assert_int_equal(m.map[4].start, 0xffffffffff600000);
	proc_maps_deinit(&m);
}

/* Numbers may be as large as 64 bits are, in either base. */
static void large_numbers(void **state)
{
	static const char large[] =
		"0-ffffffffffffffff r-xp 00000000 00:05 18446744073709551615 /a\n"
		"0-10000000000000000 r-xp 00000000 00:05 1 /b\n"
		"0-1 r-xp 00000000 00:05 18446744073709551616 /c\n";
	struct proc_maps m;

	assert_int_equal(proc_maps_parse(&m, strdup(large), sizeof(large) - 1), 0);
	assert_int_equal(m.n, 1);
	assert_true(m.map[0].end == UINT64_MAX && m.map[0].ino == UINT64_MAX);
	assert_string_equal(m.map[0].path, "/a");
	proc_maps_deinit(&m);
}

/* Every prefix: no read behind the end (sanitizers watch), never more maps. */
static void maps_parse_prefixes(void **state)
{
	for (size_t n = 0; n < sizeof(text); n++) {
		char *cut = malloc(n + 1);
		struct proc_maps m;

		memcpy(cut, text, n);
		cut[n] = '\0';
		assert_int_equal(proc_maps_parse(&m, cut, n), 0);
		assert_in_range(m.n, 0, 5);
		proc_maps_deinit(&m);
	}
}

static const struct proc_map *map_at(const struct proc_maps *m, const void *at)
{
	for (size_t i = 0; i < m->n; i++)
		if ((uintptr_t)at >= m->map[i].start && (uintptr_t)at < m->map[i].end)
			return &m->map[i];
	return NULL;
}

static void own_maps(void **state)
{
	struct stat exe, got;
	struct proc_maps m;
	int fd;

	assert_int_equal(proc_maps_read(&m, getpid()), 0);
	assert_non_null(map_at(&m, (void *)own_maps));
	assert_true(map_at(&m, (void *)own_maps)->x);
	fd = proc_map_open(getpid(), map_at(&m, (void *)own_maps));
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &got), 0);
	assert_int_equal(stat("/proc/self/exe", &exe), 0);
	assert_int_equal(got.st_ino, exe.st_ino);
	close(fd);
	assert_int_equal(proc_map_open(getpid(), map_at(&m, &fd)), -EINVAL);
	proc_maps_deinit(&m);
}

/* Map a file, then let @change happen to its path. The file's own bytes or an
 * error come back, never another file's, and nothing blocks. */
static void file_changes(void (*change)(const char *path))
{
	char path[] = "/tmp/proc_test.XXXXXX", buf[8] = "";
	int fd = mkstemp(path);
	struct proc_maps m;
	struct proc_map map;
	const void *at;

	assert_int_equal(write(fd, "mapped!", 7), 7);
	at = mmap(NULL, 7, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	close(fd);
	change(path);
	assert_int_equal(proc_maps_read(&m, getpid()), 0);
	assert_non_null(map_at(&m, at));
	/* As in a mount namespace, where the kernel cannot know it is hidden. */
	map = *map_at(&m, at);
	map.deleted = false;
	alarm(10);
	fd = proc_map_open(getpid(), &map);
	alarm(0);
	if (fd >= 0) {
		assert_int_equal(read(fd, buf, 7), 7);
		assert_string_equal(buf, "mapped!");
		close(fd);
	} else {
		assert_int_not_equal(geteuid(), 0); /* map_files wants privileges */
	}
	proc_maps_deinit(&m);
	munmap((void *)at, 7);
	unlink(path);
}

static void change_nothing(const char *path)
{
	assert_int_equal(access(path, R_OK), 0);
}

static void change_unlink(const char *path)
{
	assert_int_equal(unlink(path), 0);
}

static void change_to_fifo(const char *path)
{
	change_unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
}

static void change_to_other(const char *path)
{
	char other[64];
	int fd;

	snprintf(other, sizeof(other), "%s.other", path);
	fd = open(other, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, "other!!", 7), 7);
	close(fd);
	assert_int_equal(rename(other, path), 0);
}

static void mapped_files(void **state)
{
	file_changes(change_nothing);
	file_changes(change_unlink);
	file_changes(change_to_fifo);
	file_changes(change_to_other);
}

enum { PAGE = 4096, LONGEST = 4095 };

/* A new file, in folders below @path, which then is its path, of @n bytes or some less. */
static int make_deep(char *path, size_t n)
{
	assert_non_null(mkdtemp(path));
	while (strlen(path) + 202 < n) {
		snprintf(path + strlen(path), 201, "/%0199d", 0);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	strcat(path, "/f");
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static void drop_deep(char *path)
{
	assert_int_equal(unlink(path), 0);
	for (*strrchr(path, '/') = '\0'; strcmp(path, "/tmp"); *strrchr(path, '/') = '\0')
		assert_int_equal(rmdir(path), 0);
}

/* As many maps as a process may have by default, with long names, are read; but not a list
 * without end. */
static void many_maps(void **state)
{
	static const struct {
		size_t n, n_path;
		int ret;
	} rows[] = { { 60000, 900, 0 }, { 18000, LONGEST, -EFBIG } };
	char path[LONGEST + 1];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t bytes = rows[i].n * PAGE;
		char *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct proc_maps m;
		int fd;

		strcpy(path, "/tmp/proc_test.XXXXXX");
		fd = make_deep(path, rows[i].n_path);
		for (size_t k = 0; k < rows[i].n; k++) /* none is the next page of its file */
			if (mmap(at + k * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) ==
			    MAP_FAILED)
				skip();
		assert_int_equal(proc_maps_read(&m, getpid()), rows[i].ret);
		if (rows[i].ret == 0) {
			assert_true(m.n > rows[i].n);
			assert_string_equal(map_at(&m, at + bytes - 1)->path, path);
		}
		proc_maps_deinit(&m);
		munmap(at, bytes);
		close(fd);
		drop_deep(path);
	}
}

/* A new file of 7 bytes, mapped. */
static void *map_new(char *path, const char *bytes, struct stat *st)
{
	int fd = mkstemp(path);
	void *at;

	assert_int_equal(write(fd, bytes, 7), 7);
	assert_int_equal(fstat(fd, st), 0);
	at = mmap(NULL, 7, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	close(fd);
	return at;
}

/* On btrfs and overlayfs maps show another device than stat() does. There, too, what a process
 * has mapped since at the place of a file is not taken for that file. */
static void another_file_there_now(void **state)
{
	char path[] = "/tmp/proc_test.XXXXXX", other[] = "/tmp/proc_test.XXXXXX", buf[8] = "";
	struct stat was, is;
	void *at = map_new(path, "before!", &was), *now = map_new(other, "another", &is);
	struct proc_maps m;
	struct proc_map map;
	int fd;

	assert_int_equal(proc_maps_read(&m, getpid()), 0);
	map = *map_at(&m, now);
	map.maj++;
	map.ino = was.st_ino;
	map.path = path;
	fd = proc_map_open(getpid(), &map);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, buf, 7), 7);
	assert_string_equal(buf, "before!");
	close(fd);
	/* Nor once the path names a third file. */
	map.ino = was.st_ino + is.st_ino;
	assert_true(proc_map_open(getpid(), &map) < 0);
	/* One that is another only by what maps show is the one. */
	map.path = other;
	fd = proc_map_open(getpid(), &map);
	assert_int_equal(fd >= 0, geteuid() == 0); /* map_files wants privileges */
	if (fd >= 0)
		close(fd);
	proc_maps_deinit(&m);
	munmap(at, 7);
	munmap(now, 7);
	unlink(path);
	unlink(other);
}

/* A map that claims to be of a FIFO: not even opened. */
static void no_regular_file(void **state)
{
	char dir[] = "/tmp/proc_test.XXXXXX", path[64];
	struct proc_map map = { .start = 1, .end = 2, .path = path };
	struct stat st;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/fifo", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(stat(path, &st), 0);
	map.ino = st.st_ino;
	map.maj = major(st.st_dev);
	map.min = minor(st.st_dev);
	alarm(10);
	assert_true(proc_map_open(getpid(), &map) < 0);
	alarm(0);
	unlink(path);
	rmdir(dir);
}

struct side_thread {
	pid_t tid;
	pthread_barrier_t barrier;
};

static void *thread_main(void *arg)
{
	struct side_thread *side = arg;

	side->tid = (pid_t)syscall(SYS_gettid);
	prctl(PR_SET_NAME, "a) R b\n(");
	pthread_barrier_wait(&side->barrier);
	pthread_barrier_wait(&side->barrier);
	return NULL;
}

/* Soon it sleeps in the second barrier. */
static char state_of(pid_t tid)
{
	char state = 0;

	for (int i = 0; i < 5000 && (state = proc_state(getpid(), tid)) == 'R'; i++)
		usleep(1000);
	return state;
}

static void threads_of_a_process(void **state)
{
	struct side_thread side = { 0 };
	pthread_t thread;
	pid_t *tids;
	char comm[16];
	size_t n;

	pthread_barrier_init(&side.barrier, NULL, 2);
	pthread_create(&thread, NULL, thread_main, &side);
	pthread_barrier_wait(&side.barrier);
	assert_int_equal(proc_tasks(getpid(), &tids, &n), 0);
	assert_true(n >= 2);
	for (size_t i = 1; i < n; i++)
		assert_true(tids[i - 1] < tids[i]);
	assert_int_equal(tids[0], getpid());
	free(tids);
	assert_int_equal(proc_tgid(side.tid), getpid());
	assert_int_equal(proc_tgid(getpid()), getpid());
	assert_int_equal(proc_comm(getpid(), side.tid, comm), 0);
	assert_string_equal(comm, "a) R b\n("); /* newlines of its own too */
	assert_int_equal(state_of(side.tid), 'S');
	assert_int_equal(proc_state(getpid(), getpid()), 'R');
	assert_true(proc_inner_tid(getpid(), side.tid) > 0);
	assert_int_equal(proc_inner_tid_alone(getpid(), side.tid),
			 proc_inner_tid(getpid(), side.tid));
	pthread_barrier_wait(&side.barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&side.barrier);
}

/* However many groups the process is in, whose numbers stand before its own. */
static void number_behind_groups(void **state)
{
	enum { MANY = 3000 };
	static gid_t groups[MANY];
	int told[2];
	pid_t pid;
	char c;

	if (geteuid())
		skip();
	for (gid_t i = 0; i < MANY; i++)
		groups[i] = 1000000 + i;
	assert_int_equal(pipe(told), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		c = setgroups(MANY, groups) == 0;
		if (write(told[1], &c, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(told[0], &c, 1), 1);
	assert_true(c);
	assert_int_equal(proc_inner_tid_alone(pid, pid), proc_inner_tid(pid, pid));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(told[0]);
	close(told[1]);
}

static bool has(const pid_t *pids, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* Of a child; clock ticks are 10 ms. */
static void check_age(pid_t pid)
{
	const struct timespec nap = { .tv_nsec = 40000000 };
	uint64_t age = proc_age_ns(pid), later;
	struct timespec up;

	nanosleep(&nap, NULL);
	later = proc_age_ns(pid);
	assert_true(later - age >= 40000000);
	assert_true(later <= proc_age_ns(getpid()));
	clock_gettime(CLOCK_BOOTTIME, &up);
	assert_true(later < (uint64_t)up.tv_sec * 1000000000);
}

static void family(void **state)
{
	pid_t child, grandchild, *pids = NULL;
	bool kernel;
	int to_us[2], status;
	size_t n;

	assert_int_equal(pipe(to_us), 0);
	child = fork();
	if (child == 0) {
		grandchild = fork();
		if (grandchild == 0)
			for (;;)
				pause();
		if (write(to_us[1], &grandchild, sizeof(grandchild)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(to_us[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	assert_int_equal(family_list(getpid(), &pids, &n), 0);
	assert_true(has(pids, n, child));
	assert_true(has(pids, n, grandchild));
	assert_false(has(pids, n, getpid()));
	free(pids);
	pids = NULL;
	/* We are nobody's: who profiles does not profile himself. */
	assert_int_equal(family_list(getppid(), &pids, &n), 0);
	assert_false(has(pids, n, getpid()) || has(pids, n, child));
	free(pids);
	pids = NULL;
	assert_true(proc_kind(child, &kernel));
	assert_false(kernel);
	check_age(child);
	assert_int_equal(family_list(grandchild, &pids, &n), 0);
	assert_int_equal(n, 0);
	free(pids);
	kill(grandchild, SIGKILL);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	close(to_us[0]);
	close(to_us[1]);
}

static void family_without_its_files(void **state)
{
	const pid_t child = fork();
	pid_t *pids = NULL;
	size_t n = 1, cap = 1;

	if (child == 0)
		for (;;)
			pause();
	no_children = true;
	family(state);
	pids = calloc(1, sizeof(*pids));
	assert_int_equal(family_children(getpid(), &pids, &n, &cap), 0);
	no_children = false;
	assert_int_equal(n, 2);
	assert_int_equal(pids[1], child);
	free(pids);
	elsewhere_end(child);
}

/* lxcfs has a /proc/loadavg of its own in a container: of numbers that the host gives. */
static void newest_is_not_of_the_host(void **state)
{
	enum { HOSTS = 7 };
	char host[] = "/tmp/pysampled-loadavg-XXXXXX";
	int fd;

	if (faccessat(AT_FDCWD, "/proc/sys/kernel/ns_last_pid", R_OK, 0))
		skip();
	fd = mkstemp(host);
	assert_true(dprintf(fd, "0.00 0.00 0.00 1/100 %d\n", HOSTS) > 0);
	close(fd);
	loadavg = host;
	assert_int_not_equal(family_newest(), HOSTS);
	loadavg = "/proc/loadavg";
	unlink(host);
}

static void *until_told(void *arg)
{
	char byte;

	return (void *)read(*(int *)arg, &byte, 1);
}

/* A child with @n_threads threads and one child, which it tells of. */
static void have_child(size_t n_threads, int wait_on, int tell)
{
	pthread_attr_t attr;
	pthread_t thread;
	pid_t grandchild;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	for (size_t i = 0; i < n_threads; i++)
		if (pthread_create(&thread, &attr, until_told, &wait_on))
			_exit(1);
	grandchild = fork();
	if (grandchild && write(tell, &grandchild, sizeof(grandchild)) < 0)
		_exit(1);
	for (;;)
		pause();
}

/* More threads than there are processes: then it is these that are asked. */
static void family_of_many_threads(void **state)
{
	pid_t child, grandchild, *pids = NULL;
	int to_us[2], to_child[2], status;
	size_t n;

	assert_int_equal(pipe(to_us) | pipe(to_child), 0);
	child = fork();
	if (child == 0)
		have_child(proc_count() + 20, to_child[0], to_us[1]);
	assert_int_equal(read(to_us[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	assert_int_equal(proc_parent(grandchild), child);
	assert_int_equal(family_list(child, &pids, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(pids[0], grandchild);
	free(pids);
	assert_int_equal(family_list(getpid(), &pids, &n), 0);
	assert_true(has(pids, n, child) && has(pids, n, grandchild));
	assert_false(has(pids, n, getpid()));
	free(pids);
	kill(grandchild, SIGKILL);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	for (int i = 0; i < 2; i++) {
		close(to_us[i]);
		close(to_child[i]);
	}
}

/* A process with mounts of its own has our root, another one has its own. */
static void views(void **state)
{
	uint64_t ours = 1, mounts = 0, root = 0, again = 0, kept = 5;
	pid_t with_mounts = elsewhere_start(), with_root;

	assert_int_equal(0, proc_view(getpid(), &ours));
	assert_int_equal(0, ours);
	assert_false(proc_is_elsewhere(getppid()));
	if (with_mounts < 0)
		skip();
	with_root = elsewhere_start_in("/proc");
	mounts = 1;
	assert_int_equal(0, proc_view(with_mounts, &mounts));
	assert_int_equal(0, mounts);
	assert_true(proc_is_elsewhere(with_mounts));
	assert_int_equal(0, proc_view(with_root, &root));
	assert_int_equal(0, proc_view(with_root, &again));
	assert_true(root && root == again);
	assert_true(proc_is_elsewhere(with_root));
	elsewhere_end(with_mounts);
	elsewhere_end(with_root);
	assert_true(proc_view(with_root, &kept) < 0);
	assert_int_equal(5, kept);
	assert_false(proc_is_elsewhere(with_root));
}

static void gone(void **state)
{
	pid_t pid = fork(), *pids;
	struct proc_maps m;
	struct proc_use use;
	struct rlimit all;
	char comm[16];
	bool kernel;
	size_t n;

	if (pid == 0)
		_exit(0);
	assert_true(proc_exists(getpid()));
	while (!proc_thread_ended(pid, pid))
		usleep(100);
	assert_int_equal(proc_state(pid, pid), 'Z');
	waitpid(pid, NULL, 0);
	assert_false(proc_exists(pid));
	assert_int_equal(proc_kind(pid, &kernel), 0);
	assert_false(kernel);
	assert_int_equal(proc_maps_read(&m, pid), -ESRCH);
	assert_int_equal(proc_tasks(pid, &pids, &n), -ESRCH);
	assert_int_equal(proc_use(pid, &use), -ESRCH);
	assert_int_equal(family_list(pid, &pids, &n), -ESRCH);
	assert_int_equal(proc_comm(pid, pid, comm), -ESRCH);
	assert_int_equal(proc_tgid(pid), -ESRCH);
	assert_int_equal(proc_inner_tid(pid, pid), -ESRCH);
	assert_int_equal(proc_inner_tid_alone(pid, pid), -ESRCH);
	assert_int_equal(proc_state(pid, pid), 0);
	assert_true(proc_thread_ended(pid, pid));
	assert_false(proc_thread_ended(getpid(), getpid()));
	assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &all));
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, all.rlim_max }));
	assert_false(proc_thread_ended(pid, pid)); /* nobody can tell */
	assert_int_equal(proc_use(getpid(), &use), -EMFILE);
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &all));
	assert_true(proc_age_ns(pid) == UINT64_MAX);
}

static void whole_files(void **state)
{
	char path[] = "/tmp/proc_test.XXXXXX", *got;
	int fd = mkstemp(path);
	char block[9000];
	size_t n;

	memset(block, 'x', sizeof(block));
	assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	close(fd);
	assert_int_equal(proc_read_file(path, &got, &n), 0);
	assert_int_equal(n, sizeof(block));
	assert_memory_equal(got, block, n);
	assert_int_equal(got[n], '\0');
	free(got);
	unlink(path);
	assert_int_equal(proc_read_file(path, &got, &n), -ENOENT);
}

static void where_a_thread_waits(void **state)
{
	struct proc_wait w = { .arg = 1 };

	assert_int_equal(proc_syscall_parse("202 0x7f01020 0x189 0x0 0x5 0x6 0xffffffff "
					    "0x7ffc10 0x7f55\n",
					    &w),
			 0);
	assert_int_equal(w.syscall, 202);
	assert_int_equal(w.arg, 0x7f01020);
	assert_int_equal(w.sp, 0x7ffc10);
	assert_int_equal(w.pc, 0x7f55);
	assert_int_equal(proc_syscall_parse("-1 0x7ffc20 0x7f66\n", &w), 0);
	assert_int_equal(w.syscall, -1);
	assert_int_equal(w.arg, 0);
	assert_int_equal(w.sp, 0x7ffc20);
	assert_int_equal(proc_syscall_parse("running\n", &w), -EAGAIN);
	assert_int_equal(proc_syscall_parse("0 0x1 0x2", &w), -EAGAIN);
}

static void use(uint64_t ns)
{
	uint64_t used = 0;

	while (used < ns)
		proc_cpu_ns(getpid(), &used);
}

static void *use_of_thread(void *arg)
{
	use(*(const uint64_t *)arg);
	return NULL;
}

/* That of its threads, of whom one has ended, is the process's. */
static void use_of_all_threads(void **state)
{
	uint64_t ns = 0, tick = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	struct proc_use before, after;
	pthread_t thread;

	assert_int_equal(proc_use(getpid(), &before), 0);
	proc_cpu_ns(getpid(), &ns);
	ns += 20 * tick;
	assert_int_equal(pthread_create(&thread, NULL, use_of_thread, &ns), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(proc_use(getpid(), &after), 0);
	assert_in_range(after.own.user + after.own.kernel - before.own.user -
				before.own.kernel,
			18, 200);
	assert_int_equal(after.begun, before.begun);
	assert_int_equal(after.parent, getppid());
}

/* Uses 60 ms, and has a child use 60 and end, and another one use 60 and stay. */
static _Noreturn void family_of_use(int ready)
{
	pid_t ended = fork(), stays;

	if (ended == 0) {
		use(60000000);
		_exit(0);
	}
	stays = fork();
	use(60000000);
	if (stays)
		waitpid(ended, NULL, 0);
	write(ready, "", 1);
	for (;;)
		pause();
}

static void cpu_time_of_a_family(void **state)
{
	pid_t pid, *pids;
	char byte[2];
	int fds[2];
	uint64_t ns;
	size_t n;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0)
		family_of_use(fds[1]);
	for (size_t got = 0; got < sizeof(byte);)
		got += (size_t)read(fds[0], byte, sizeof(byte) - got);
	ns = family_cpu_ns(pid);
	assert_int_equal(family_list(pid, &pids, &n), 0);
	for (size_t i = 0; i < n; i++)
		kill(pids[i], SIGKILL);
	free(pids);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(n, 1);
	assert_in_range(ns, 160000000, 2000000000); /* the ended one to two ticks */
	assert_int_equal(family_cpu_ns(pid), 0);
}

/* Also where the name looks like what follows it. */
static void introduces(void **state)
{
	char was[16], comm[16];
	uint64_t root = 0, age = 0, least = proc_age_ns(getpid());

	prctl(PR_GET_NAME, was);
	prctl(PR_SET_NAME, "a) R 1 (b\nc");
	assert_int_equal(proc_introduce(getpid(), comm, &root, &age), 0);
	prctl(PR_SET_NAME, was);
	assert_string_equal(comm, "a) R 1 (b");
	assert_int_equal(root, proc_stack_root(getpid()));
	assert_true(root);
	assert_true(age >= least && age <= proc_age_ns(getpid()));
	assert_int_equal(proc_introduce(1 << 22, comm, &root, &age), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(maps_parse),
		cmocka_unit_test(large_numbers),
		cmocka_unit_test(maps_parse_prefixes),
		cmocka_unit_test(own_maps),
		cmocka_unit_test(mapped_files),
		cmocka_unit_test(another_file_there_now),
		cmocka_unit_test(no_regular_file),
		cmocka_unit_test(threads_of_a_process),
		cmocka_unit_test(number_behind_groups),
		cmocka_unit_test(family),
		cmocka_unit_test(family_without_its_files),
		cmocka_unit_test(newest_is_not_of_the_host),
		cmocka_unit_test(gone),
		cmocka_unit_test(views),
		cmocka_unit_test(where_a_thread_waits),
		cmocka_unit_test(whole_files),
		cmocka_unit_test(family_of_many_threads),
		cmocka_unit_test(use_of_all_threads),
		cmocka_unit_test(cpu_time_of_a_family),
		cmocka_unit_test(introduces),
		cmocka_unit_test(many_maps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
