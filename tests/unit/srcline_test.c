/* SPDX-License-Identifier: MIT
 *
 * srcline_test - whatever the process that is asked for lines does, we go on. It is this
 * program, and does what the file's path says.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "unit.h"
#include "base/base.h"
#include "base/clock.h"
#include "elf/file_helper.h"
#include "lines/srcline_int.h"
#include "fuse.h"

enum {
	N = 3,
	SHORT_MS = 300,
	LATE_MS = 1200, /* of CPU time, beside which some processes' starts are little */
	LONG_MS = 20000,
	LARGE = 1 << 30
};

/* --- the process --- */

static void say(uint32_t i, const char *function, const char *file, uint32_t line)
{
	struct srcline_record r = { i, line, (uint16_t)strlen(function),
				    (uint16_t)strlen(file) };

	fwrite(&r, sizeof(r), 1, stdout);
	fwrite(function, r.n_function, 1, stdout);
	fwrite(file, r.n_file, 1, stdout);
	fflush(stdout);
}

/* What was asked, as an answer. */
static void echo(const struct srcline_question *q)
{
	char file[16];
	struct stat st;
	uint64_t at;

	if (q->has_root && (fstat(SRCLINE_ROOT, &st) < 0 || !S_ISDIR(st.st_mode)))
		abort();
	for (uint32_t i = 0; i < q->n; i++) {
		if (fread(&at, sizeof(at), 1, stdin) != 1 ||
		    pread(SRCLINE_FILE, file, sizeof(file) - 1, 0) != sizeof(file) - 1)
			abort();
		file[sizeof(file) - 1] = '\0';
		say(i, q->path, q->has_root ? "root" : file + 1, (uint32_t)at);
	}
}

static int make_file(off_t bytes)
{
	return ftruncate(memfd_create("a", MFD_CLOEXEC), bytes) < 0 ? SRCLINE_FAILED : 0;
}

/* Of CPU time. */
static void work(clock_t ms)
{
	while (clock() < ms * CLOCKS_PER_SEC / 1000)
		;
}

static int process(void)
{
	struct srcline_question q;

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
	if (fread(&q, sizeof(q), 1, stdin) != 1)
		return SRCLINE_FAILED;
	if (!strncmp(q.path, "late", 4))
		work(LATE_MS);
	if (!strcmp(q.path, "none") || !strcmp(q.path, "late none"))
		return SRCLINE_NO_DEBUG;
	if (!strcmp(q.path, "garbage")) {
		for (int i = 0; i < 100000; i++)
			putchar(0xff);
		return 0;
	}
	echo(&q);
	if (!strcmp(q.path, "crash"))
		abort();
	if (!strcmp(q.path, "half")) {
		fwrite(&q, sizeof(struct srcline_record) / 2, 1, stdout);
		return 0;
	}
	if (!strcmp(q.path, "interrupted")) {
		signal(SIGINT, SIG_DFL); /* a shell's background job ignores it */
		raise(SIGINT);
	}
	if (!strcmp(q.path, "large"))
		return make_file(LARGE);
	if (!strcmp(q.path, "too large"))
		return make_file(LARGE + 1);
	if (!strcmp(q.path, "fail"))
		return SRCLINE_FAILED;
	while (!strcmp(q.path, "hang"))
		pause();
	while (!strcmp(q.path, "talk"))
		say(0, "", "", 1);
	return 0;
}

/* As exit() would, which it is not ended by. */
static int process_flushed(void)
{
	int ret = process();

	fflush(stdout);
	return ret;
}

/* --- we --- */

struct answers {
	size_t n;
	uint32_t line[N];
	char function[64], file[64];
};

static void take(void *arg, size_t i, const struct srcline_text *s)
{
	struct answers *a = arg;

	if (i < N && a->n < N)
		a->line[i] = s->line;
	if (!a->n++) {
		snprintf(a->function, sizeof(a->function), "%.60s", s->function);
		snprintf(a->file, sizeof(a->file), "%.60s", s->file);
	}
}

static struct srcline *lines;

static int ask(const char *path, int root, int ms, struct answers *ret)
{
	static const uint64_t at[N] = { 10, 20, 30 };
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct srcline_file f = { .fd = fd, .root = root, .path = path };

	*ret = (struct answers){ 0 };
	return srcline_ask(lines, &f, at, N, false, ms, take, ret);
}

static void questions_are_answered(void **state)
{
	_cleanup_close_ int root = open("/", O_PATH | O_CLOEXEC);
	struct answers a;

	assert_int_equal(ask("fine", -1, LONG_MS, &a), 0);
	assert_int_equal(a.n, N);
	assert_int_equal(a.line[0], 10);
	assert_int_equal(a.line[2], 30);
	assert_string_equal(a.function, "fine");
	assert_string_equal(a.file, "ELF\x02\x01\x01"); /* what it was given to read */
	assert_int_equal(ask("fine", root, LONG_MS, &a), 0);
	assert_string_equal(a.file, "root");
}

static void whatever_it_ends_with(void **state)
{
	static const struct {
		const char *path;
		int ret;
		size_t n;
	} ends[] = { { "none", -ENOENT, 0 },
		     { "crash", -EIO, N },
		     { "half", -EIO, N },
		     { "fail", -EIO, N },
		     { "interrupted", -EINTR, N },
		     { "large", 0, N },
		     { "too large", -EIO, N } };
	struct answers a;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		assert_int_equal(ask(ends[i].path, -1, LONG_MS, &a), ends[i].ret);
		assert_int_equal(a.n, ends[i].n);
	}
	assert_int_equal(ask("garbage", -1, LONG_MS, &a), -EIO);
}

static void its_time_is_limited(void **state)
{
	uint64_t began = now_ns();
	struct answers a;

	/* A busy machine may give it no CPU for all of that time. */
	for (int i = 0; i == 0 || (i < 20 && a.n < N); i++)
		assert_int_equal(ask("hang", -1, SHORT_MS, &a), -ETIMEDOUT);
	assert_int_equal(a.n, N);
	assert_int_equal(ask("talk", -1, SHORT_MS, &a), -ETIMEDOUT);
	assert_true(now_ns() - began >= 2 * SHORT_MS * 1000000ull);
}

/* Who waits for what does not come is left behind, and the next one is asked. */
static void one_that_hangs_is_left_behind(void **state)
{
	struct answers a;

	/* A busy machine may give it no CPU before it is left behind. */
	for (int i = 0; i < 3 || (i < 20 && a.n < N); i++)
		assert_int_equal(ask("hang", -1, LONG_MS, &a), -EBUSY);
	assert_int_equal(a.n, N);
	assert_int_equal(ask("fine", -1, LONG_MS, &a), 0);
	assert_int_equal(a.n, N);
}

/* A file that nobody waits for any more is open at last, and its question ends, without being
 * answered: that is not the end of the question that is asked then. */
static void an_old_question_ends(void **state)
{
	struct file_helper *h = file_helper_start(NULL);
	char folder[] = "/tmp/pysampled-lines-XXXXXX", path[64], byte = 0;
	struct srcline_file f = { .root = -1,
				  .path = "late none",
				  .openers = file_helper_openers(h) };
	struct srcline *before = lines;
	const uint64_t at = 10;
	struct answers a = { 0 };
	int open_gate[2], closed_gate[2];
	uint64_t cpu;
	pid_t server;

	assert_non_null(mkdtemp(folder));
	assert_int_equal(0, pipe2(open_gate, O_CLOEXEC));
	assert_int_equal(0, pipe2(closed_gate, O_CLOEXEC));
	server = mount_gated(folder, &(struct fuse_gate){ .open = open_gate[0],
							       .closed = closed_gate[1] });
	if (server < 0)
		skip();
	snprintf(path, sizeof(path), "%s/prog", folder);
	f.fd = open(path, O_PATH | O_CLOEXEC);
	assert_true(f.fd >= 0);
	lines = srcline_start(false); /* one that nothing has hung yet */
	assert_int_equal(srcline_ask(lines, &f, &at, 1, false, LONG_MS, take, &a), -EBUSY);
	cpu = srcline_cpu_ns(lines);
	assert_int_equal(1, write(open_gate[1], &byte, 1));
	/* Who takes the question closes the file once it has said how that ended. */
	assert_int_equal(1, read(closed_gate[0], &byte, 1));
	assert_int_equal(ask("late", -1, 3 * LONG_MS, &a), 0);
	assert_int_equal(a.n, N);
	/* That of one answer, not of two. */
	assert_true(srcline_cpu_ns(lines) - cpu < LATE_MS * 7 / 4 * 1000000ull);
	srcline_end(lines);
	lines = before;
	close(f.fd);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(open_gate[i]);
		close(closed_gate[i]);
	}
	assert_int_equal(0, umount2(folder, MNT_DETACH));
	rmdir(folder);
	file_helper_end(h);
}

/* Ours may have the numbers that the process's have, for other files. */
static void descriptors_do_not_collide(void **state)
{
	static const uint64_t at = 10;
	_cleanup_close_ int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int root = open("/", O_PATH | O_CLOEXEC);
	int file_high = fcntl(file, F_DUPFD_CLOEXEC, 10), in = fcntl(0, F_DUPFD_CLOEXEC, 10);
	int root_high = fcntl(root, F_DUPFD_CLOEXEC, 10);
	struct srcline_file f = { .fd = SRCLINE_ROOT, .root = SRCLINE_FILE, .path = "fine" };
	struct answers a = { 0 };

	dup3(root_high, SRCLINE_FILE, O_CLOEXEC);
	dup3(file_high, SRCLINE_ROOT, O_CLOEXEC);
	close(0); /* a pipe of ours gets its number */
	assert_int_equal(srcline_ask(lines, &f, &at, 1, false, LONG_MS, take, &a), 0);
	assert_int_equal(a.n, 1);
	dup2(in, 0);
	close(in);
	close(file_high);
	close(root_high);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(questions_are_answered),
		cmocka_unit_test(whatever_it_ends_with),
		cmocka_unit_test(its_time_is_limited),
		cmocka_unit_test(one_that_hangs_is_left_behind),
		cmocka_unit_test(an_old_question_ends),
		cmocka_unit_test(descriptors_do_not_collide),
	};

	if (argc > 1 && !strcmp(argv[1], SRCLINE_COMMAND))
		return srcline_serve(false, process_flushed, NULL);
	if (argc > 1 && !strcmp(argv[1], FILE_HELPER_COMMAND))
		return file_serve_main();
	/* Not at a number that a test takes. */
	while (dup(0) < SRCLINE_END)
		;
	lines = srcline_start(false);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
