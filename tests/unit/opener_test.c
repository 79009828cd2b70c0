/* SPDX-License-Identifier: MIT
 *
 * opener_test - files are opened elsewhere as they would be here, and one that hangs is left.
 * Who opens is this program.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "unit.h"
#include "base/base.h"
#include "elf/file_helper.h"
#include "elf/opener.h"
#include "sys/fdpass.h"
#include "another_user.h"
#include "fuse.h"
#include "targets/announce.h"

static const char self[] = "/proc/self/exe";

struct fixture {
	struct file_helper *h;
	struct pool *openers[2]; /* also none: here */
	char folder[32], path[64];
};

static int set_up(void **state)
{
	static struct fixture f;

	f = (struct fixture){ .h = file_helper_start(NULL),
			      .folder = "/tmp/pysampled-open-XXXXXX" };
	f.openers[0] = file_helper_openers(f.h);
	*state = &f;
	return f.h && mkdtemp(f.folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	file_helper_end(f->h);
	unlink(f->path);
	return rmdir(f->folder);
}

static const char *made(struct fixture *f, const char *name)
{
	snprintf(f->path, sizeof(f->path), "%s/%s", f->folder, name);
	return f->path;
}

static void a_path_is_opened(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		struct stat st, want, now;
		int fd = opener_path(f->openers[i], -1, self, -1, &st);

		assert_true(fd >= 0);
		assert_int_equal(0, stat(self, &want));
		assert_int_equal(want.st_ino, st.st_ino);
		assert_int_equal(want.st_size, st.st_size);
		assert_int_equal(f->openers[i] ? O_PATH : 0, fcntl(fd, F_GETFL) & O_PATH);
		assert_int_equal(0, opener_stat(f->openers[i], fd, -1, &now));
		assert_int_equal(want.st_ino, now.st_ino);
		close(fd);
	}
}

static void what_is_no_file_is_not_opened(void **state)
{
	struct fixture *f = *state;
	char long_path[PATH_MAX + 1];
	struct stat st;

	memset(long_path, '/', PATH_MAX);
	long_path[PATH_MAX] = '\0';
	assert_int_equal(0, mkfifo(made(f, "fifo"), 0600));
	for (int i = 0; i < 2; i++) {
		struct pool *p = f->openers[i];

		assert_int_equal(-EINVAL, opener_path(p, -1, f->path, -1, &st));
		assert_int_equal(-EINVAL, opener_path(p, -1, f->folder, -1, &st));
		assert_int_equal(-EINVAL, opener_path(p, -1, "/dev/null", -1, &st));
		assert_int_equal(-ENOENT, opener_path(p, -1, "/nonexistent", -1, &st));
		assert_int_equal(-ENAMETOOLONG, opener_path(p, -1, long_path, -1, &st));
	}
}

/* Below a root links lead to what is below it. */
static void a_root_is_kept_to(void **state)
{
	struct fixture *f = *state;
	_cleanup_close_ int root = open(f->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	assert_int_equal(0, symlink(self, made(f, "link")));
	for (int i = 0; i < 2; i++)
		assert_int_equal(-ENOENT, opener_path(f->openers[i], root, "/link", -1, &st));
}

static void a_map_is_opened(void **state)
{
	struct fixture *f = *state;
	struct proc_maps maps;
	struct stat want;
	size_t at = 0;

	assert_int_equal(0, stat(self, &want));
	assert_int_equal(0, proc_maps_read(&maps, getpid()));
	while (maps.map[at].ino != want.st_ino)
		assert_true(++at < maps.n);
	for (int i = 0; i < 2; i++) {
		struct stat st;
		int root = 0, fd = opener_map(f->openers[i], getpid(), &maps.map[at], -1, &st,
					      &root);

		assert_true(fd >= 0);
		assert_int_equal(want.st_ino, st.st_ino);
		assert_int_equal(-1, root); /* ours */
		close(fd);
	}
	maps.map[at].ino++;
	maps.map[at].start++; /* neither by its path nor by its addresses */
	assert_true(opener_map(f->openers[0], getpid(), &maps.map[at], -1, &want, NULL) < 0);
	proc_maps_deinit(&maps);
}

/* Who gets the file can read it; who asked could not. */
static void a_file_is_handed_on(void **state)
{
	struct fixture *f = *state;
	int ends[2], got[FDPASS_MAX];
	char message, bytes[4];
	struct stat st;
	int fd = opener_path(f->openers[0], -1, self, -1, &st);

	assert_true(fd >= 0);
	assert_int_equal(-1, pread(fd, bytes, sizeof(bytes), 0));
	assert_int_equal(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	assert_int_equal(0, opener_send(f->openers[0], ends[0], "m", 1, &fd, 1, -1));
	assert_int_equal(1, fdpass_receive(ends[1], &message, 1, got));
	assert_int_equal('m', message);
	assert_int_equal(4, pread(got[0], bytes, sizeof(bytes), 0));
	assert_memory_equal("\177ELF", bytes, 4);
	close(got[0]);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

/* Somebody took one over: it answers the next question with @n descriptors and @result. Its end,
 * to be closed. */
static int answers_with(struct pool *p, int result, int n)
{
	struct {
		int result;
		struct stat st;
	} answer = { .result = result };
	int ends[2], fds[3];

	assert_int_equal(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	for (int i = 0; i < n; i++)
		fds[i] = open(self, O_RDONLY | O_CLOEXEC);
	assert_int_equal(0, fdpass_send(ends[1], &answer, sizeof(answer), fds, (size_t)n));
	for (int i = 0; i < n; i++)
		close(fds[i]);
	pool_init(p, POOL_OPENS, 0);
	p->idle[p->n_idle++] = ends[0]; /* pool_give() takes none that said something */
	return ends[1];
}

/* What it sends unasked is not kept, nor told as if it were. */
static void one_that_sends_too_much(void **state)
{
	const struct proc_map m = { .path = self };
	int before = open(self, O_RDONLY | O_CLOEXEC), after;

	close(before);
	for (int n = 1; n <= 3; n++)
		for (int result = -1; result <= 0; result++) {
			struct stat st;
			struct pool p;
			int root = -2, fd, its = answers_with(&p, result, n);

			fd = opener_map(&p, getpid(), &m, -1, &st, &root);
			assert_int_equal(result == 0 && n <= 2, fd >= 0);
			assert_int_equal(result == 0 && n == 2, root >= 0);
			assert_true(root >= -1);
			close(fd);
			close(root);
			close(its);
			pool_deinit(&p);
			its = answers_with(&p, result, n);
			fd = opener_path(&p, -1, self, -1, &st);
			assert_int_equal(result == 0 && n == 1, fd >= 0);
			close(fd);
			close(its);
			pool_deinit(&p);
			its = answers_with(&p, result, n);
			assert_true(opener_stat(&p, 0, -1, &st) < 0);
			close(its);
			pool_deinit(&p);
		}
	after = open(self, O_RDONLY | O_CLOEXEC);
	assert_int_equal(before, after);
	close(after);
}

/* An opener that hands on what it is asked to, and is ended before it says so. */
static void *hand_on_and_end(void *arg)
{
	const int *socket = arg;
	_Alignas(struct cmsghdr) char space[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
	static char question[1 << 16];
	struct iovec iov = { question, sizeof(question) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = space,
			    .msg_controllen = sizeof(space) };
	int fds[2] = { -1, -1 };

	if (recvmsg(*socket, &m, MSG_CMSG_CLOEXEC) > 0 && CMSG_FIRSTHDR(&m))
		memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fds));
	fdpass_send(fds[0], "m", 1, &fds[1], 1);
	fdpass_close(fds, 2);
	close(*socket);
	return NULL;
}

/* Who reads would answer both, and then the next one's question with an answer to this one. */
static void no_question_is_handed_on_twice(void **state)
{
	struct fixture *f = *state;
	int fake[2], ends[2], got[FDPASS_MAX];
	pthread_t thread;
	char message;
	struct stat st;
	int fd = opener_path(f->openers[0], -1, self, -1, &st);

	assert_true(fd >= 0);
	assert_int_equal(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fake));
	assert_int_equal(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	assert_int_equal(0, pthread_create(&thread, NULL, hand_on_and_end, &fake[1]));
	pool_give(f->openers[0], fake[0]); /* which is asked first */
	assert_int_equal(-EAGAIN, opener_send(f->openers[0], ends[0], "m", 1, &fd, 1, -1));
	pthread_join(thread, NULL);
	close(ends[0]);
	assert_int_equal(1, fdpass_receive(ends[1], &message, 1, got));
	close(got[0]);
	assert_int_equal(-EPIPE, fdpass_receive(ends[1], &message, 1, got));
	close(ends[1]);
	close(fd);
}

/* Its next answer would be to the question before. */
static void who_says_more_is_asked_no_more(void **state)
{
	char message = 'm';
	int ends[2];
	struct pool p;

	(void)state;
	assert_int_equal(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	pool_init(&p, POOL_OPENS, 0);
	pool_give(&p, ends[0]);
	assert_int_equal(1, p.n_idle);
	assert_int_equal(ends[0], p.idle[--p.n_idle]);
	assert_int_equal(0, fdpass_send(ends[1], &message, 1, NULL, 0));
	pool_give(&p, ends[0]);
	assert_int_equal(0, p.n_idle);
	assert_int_equal(-EPIPE, fdpass_send(ends[1], &message, 1, NULL, 0)); /* it is closed */
	close(ends[1]);
	pool_deinit(&p);
}

/* As many as may be left hang, others are opened meanwhile, and once they answer all is as
 * before. */
static void those_that_hang_are_left(void **state)
{
	const struct timespec step = { .tv_nsec = 10000000 };
	struct fixture *f = *state;
	int dead = mount_dead(f->folder), fd;
	char path[64];
	struct stat st;

	if (dead < 0)
		skip();
	snprintf(path, sizeof(path), "%s/prog", f->folder);
	for (int i = 0; i < POOL_LEFT; i++) {
		assert_int_equal(-ETIMEDOUT, opener_path(f->openers[0], -1, path, 1, &st));
		if (i % 16)
			continue;
		fd = opener_path(f->openers[0], -1, self, -1, &st);
		assert_true(fd >= 0);
		close(fd);
	}
	fd = opener_path(f->openers[0], -1, path, 1, &st);
	while (fd == -ETIMEDOUT) /* the one that waited */
		fd = opener_path(f->openers[0], -1, path, 1, &st);
	assert_int_equal(-EAGAIN, fd);
	close(dead);
	umount2(f->folder, MNT_DETACH);
	while ((fd = opener_path(f->openers[0], -1, self, -1, &st)) == -EAGAIN)
		nanosleep(&step, NULL);
	assert_true(fd >= 0);
	close(fd);
}

/* How many at @path are left for processes of @user, until it has as many as may be. */
static size_t hang_for(struct pool *p, uid_t user, const char *path)
{
	struct stat st;
	size_t n = 0;
	int r;

	pool_user = user;
	while ((r = opener_path(p, -1, path, 1, &st)) == -ETIMEDOUT)
		n++;
	assert_int_equal(-EAGAIN, r);
	assert_int_equal(-EAGAIN, opener_path(p, -1, self, -1, &st));
	pool_user = PROC_NOBODY;
	return n;
}

/* No user's have more than are left for all others, not even by those that wait for questions. */
static void those_of_one_user_leave_some(void **state)
{
	struct fixture *f = *state;
	int dead = geteuid() == 0 ? mount_dead(f->folder) : -1, fd;
	char path[64];
	struct stat st;

	if (dead < 0)
		skip();
	snprintf(path, sizeof(path), "%s/prog", f->folder);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(POOL_LEFT >> (i + 1),
				 hang_for(f->openers[0], ANOTHER_USER + i, path));
		fd = opener_path(f->openers[0], -1, self, -1, &st); /* it waits from then on */
		assert_true(fd >= 0);
		close(fd);
	}
	close(dead);
	umount2(f->folder, MNT_DETACH);
}

/* What is opened of a file whose server answers @opcode, or each second of those, with @error. */
static int opened_of(struct fixture *f, uint32_t opcode, int error, bool each_second)
{
	const struct fuse_gate gate = { .open = -1,
					.closed = -1,
					.fails = opcode,
					.error = error,
					.each_second = each_second };
	pid_t server = mount_gated(f->folder, &gate);
	struct stat st;
	char path[64];
	int fd;

	if (server < 0)
		skip();
	snprintf(path, sizeof(path), "%s/prog", f->folder);
	fd = opener_path(f->openers[0], -1, path, 5000, &st);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	umount2(f->folder, MNT_DETACH);
	return fd;
}

/* An errno that a file's server chose is no want of ours, for which all would pause. */
static void what_a_server_says_is_its_own(void **state)
{
	static const int errors[] = { EMFILE, ENFILE,	 ENOMEM, ENOBUFS,
				      EAGAIN, ETIMEDOUT, EPIPE,	 EPROTO };

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		assert_int_equal(-EIO, opened_of(*state, FUSE_LOOKUP, errors[i], false));
		assert_int_equal(-EIO, opened_of(*state, FUSE_GETATTR, errors[i], true));
	}
	assert_int_equal(-EACCES, opened_of(*state, FUSE_LOOKUP, EACCES, false));
}

/* Where descriptors have run out that is what is said. */
static void our_own_want_is_told(void **state)
{
	const struct rlimit none = { 0 };
	struct stat st;
	struct pool p;
	int ends[2];
	pid_t pid;

	(void)state;
	assert_int_equal(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		if (setrlimit(RLIMIT_NOFILE, &none) == 0)
			opener_serve(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	pool_init(&p, POOL_OPENS, 0);
	pool_give(&p, ends[0]);
	assert_int_equal(-EMFILE, opener_path(&p, -1, self, -1, &st));
	pool_deinit(&p);
	waitpid(pid, NULL, 0);
}

/* The file "lib" in @folder, a page. */
static int make_lib(const char *folder)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/lib", folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(0, ftruncate(fd, 4096));
	return fd;
}

/* Have code of it, and @folder as root. */
static bool enter(int lib, const char *folder)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, lib, 0) != MAP_FAILED &&
	       chroot(folder) == 0;
}

/* Another user's process that has code of the file "lib", with @folder as its root. */
static pid_t start_in_root(const char *folder)
{
	int fd = make_lib(folder);
	pid_t pid = fork();

	if (pid == 0) {
		if (enter(fd, folder))
			another_user_rest(ANOTHER_USER);
		_exit(1);
	}
	close(fd);
	another_user_await(pid, ANOTHER_USER);
	return pid;
}

static void *wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* A process with code of "lib" in @folder, its root, whose main thread ends beside another. */
static pid_t start_without_main(const char *folder)
{
	int fd = make_lib(folder);
	pid_t pid = fork();
	char path[64];

	if (pid == 0) {
		pthread_t other;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!enter(fd, folder) || pthread_create(&other, NULL, wait_for_ever, NULL))
			_exit(1);
		syscall(SYS_exit, 0);
	}
	close(fd);
	snprintf(path, sizeof(path), "%s/lib", folder);
	unlink(path);
	while (proc_state(pid, pid) != 'Z')
		usleep(1000);
	return pid;
}

/* Its other threads have its maps and its root. */
static void one_without_a_main_thread(void **state)
{
	struct fixture *f = *state;
	struct proc_maps maps;
	struct stat known;
	pid_t pid;
	size_t at = 0;

	if (geteuid() != 0)
		skip();
	pid = start_without_main(f->folder);
	assert_int_equal(0, proc_maps_read(&maps, pid));
	while (!maps.map[at].deleted || !strstr(maps.map[at].path, "/lib"))
		assert_true(++at < maps.n);
	assert_int_equal(0, proc_map_stat(pid, &maps.map[at], &known));
	assert_int_equal(maps.map[at].ino, known.st_ino);
	for (int i = 0; i < 2; i++) {
		struct stat st;
		int root = -1,
		    fd = opener_map(f->openers[i], pid, &maps.map[at], -1, &st, &root);

		assert_true(fd >= 0);
		assert_int_equal(maps.map[at].ino, st.st_ino);
		assert_true(root >= 0);
		close(fd);
		close(root);
	}
	proc_maps_deinit(&maps);
	another_user_end(pid);
}

/* Where the files of a process in a root of its own lie is asked for its user's sake. */
static void those_of_roots_leave_some(void **state)
{
	struct fixture *f = *state;
	struct pool *p = f->openers[0];
	int dead = -1;
	char path[64];
	struct queue q;
	struct stat st;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	pid = start_in_root(f->folder);
	dead = mount_dead(f->folder);
	if (dead < 0) {
		another_user_end(pid);
		skip();
	}
	assert_int_equal(0, queue_init(&q, 1 << 16));
	snprintf(path, sizeof(path), "%s/lib", f->folder);
	pool_user = ANOTHER_USER;
	for (int i = 0; i < POOL_LEFT / 2 - 1; i++)
		assert_int_equal(-ETIMEDOUT, opener_path(p, -1, path, 1, &st));
	pool_user = PROC_NOBODY;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(0, announce_maps(&q, pid, 0, 0, p));
		assert_int_equal(POOL_LEFT / 2, p->n_left);
	}
	queue_deinit(&q);
	another_user_end(pid);
	close(dead);
	umount2(f->folder, MNT_DETACH);
	made(f, "lib");
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_path_is_opened),	 TEST(what_is_no_file_is_not_opened),
		TEST(a_root_is_kept_to), TEST(a_map_is_opened),
		TEST(a_file_is_handed_on), TEST(those_that_hang_are_left),
		TEST(one_that_sends_too_much), TEST(those_of_one_user_leave_some),
		TEST(those_of_roots_leave_some), TEST(no_question_is_handed_on_twice),
		TEST(who_says_more_is_asked_no_more), TEST(what_a_server_says_is_its_own),
		TEST(our_own_want_is_told), TEST(one_without_a_main_thread),
	};

	if (argc > 1 && !strcmp(argv[1], FILE_HELPER_COMMAND))
		return file_serve_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
