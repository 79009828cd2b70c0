/* SPDX-License-Identifier: MIT */
#include "lines/srcline.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/base.h"
#include "base/clock.h"
#include "lines/srcline_int.h"

enum { BUFFER = 64 << 10 };

/* The question as a file, to be read from its beginning. */
static int question_open(const struct srcline_file *f, const uint64_t *at, size_t n,
			 bool debuginfod)
{
	struct srcline_question q = { .n = n,
				      .has_root = f->root >= 0,
				      .debuginfod = debuginfod };
	int fd = memfd_create("srcline", MFD_CLOEXEC);

	snprintf(q.path, sizeof(q.path), "%s", f->path);
	if (fd < 0)
		return -errno;
	if (write(fd, &q, sizeof(q)) == sizeof(q) &&
	    write(fd, at, n * sizeof(*at)) == (ssize_t)(n * sizeof(*at)) &&
	    lseek(fd, 0, SEEK_SET) == 0)
		return fd;
	close(fd);
	return -EIO;
}

/* Its process. It takes the signals that a terminal sends, whatever we do with them. */
static int start(const int fds[SRCLINE_END], pid_t *ret)
{
	char name[] = "pysampled", command[] = SRCLINE_COMMAND,
	     *argv[] = { name, command, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int e;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	for (int i = 0; i < SRCLINE_END; i++)
		if (fds[i] >= 0)
			posix_spawn_file_actions_adddup2(&files, fds[i], i);
	e = posix_spawn(ret, "/proc/self/exe", &files, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return -e;
}

/* The same with descriptors that are not among those of the process. */
static int start_high(int question, int answer, const struct srcline_file *f, pid_t *ret)
{
	int fds[SRCLINE_END] = { [SRCLINE_QUESTION] = question,
				 [SRCLINE_ANSWER] = answer,
				 [2] = -1,
				 [SRCLINE_FILE] = f->fd,
				 [SRCLINE_ROOT] = f->root };
	int r = 0;

	for (int i = 0; i < SRCLINE_END; i++) {
		int fd = fds[i];

		if (fd >= 0)
			fds[i] = fcntl(fd, F_DUPFD_CLOEXEC, SRCLINE_END);
		if (fd >= 0 && fds[i] < 0)
			r = -errno;
	}
	if (r == 0)
		r = start(fds, ret);
	for (int i = 0; i < SRCLINE_END; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return r;
}

static size_t take_text(char *to, const char *from, size_t n)
{
	memcpy(to, from, n);
	to[n] = '\0';
	return n;
}

/* Give what is whole in the @n bytes at @p; how many bytes that were, or -EIO. */
static ssize_t take(const char *p, size_t n, srcline_answer *answer, void *arg)
{
	char function[SRCLINE_MAX_TEXT + 1], file[SRCLINE_MAX_TEXT + 1];
	struct srcline_record rec;
	size_t at = 0;

	while (n - at >= sizeof(rec)) {
		memcpy(&rec, p + at, sizeof(rec));
		if (rec.n_function > SRCLINE_MAX_TEXT || rec.n_file > SRCLINE_MAX_TEXT)
			return -EIO;
		if (n - at - sizeof(rec) < (size_t)rec.n_function + rec.n_file)
			break;
		at += sizeof(rec);
		at += take_text(function, p + at, rec.n_function);
		at += take_text(file, p + at, rec.n_file);
		answer(arg, rec.i, &(struct srcline){ function, file, rec.line });
	}
	return (ssize_t)at;
}

/* Take answers until there are no more. */
static int take_all(int fd, uint64_t until, srcline_answer *answer, void *arg)
{
	_cleanup_free_ char *buf = malloc(BUFFER);
	size_t n = 0;

	while (buf) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = now_ns();
		ssize_t got;

		if (now >= until || poll(&p, 1, (int)((until - now) / 1000000) + 1) == 0)
			return -ETIMEDOUT;
		got = read(fd, buf + n, BUFFER - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : n ? -EIO : 0;
		n += (size_t)got;
		got = take(buf, n, answer, arg);
		if (got < 0)
			return -EIO;
		n -= (size_t)got;
		memmove(buf, buf + got, n);
	}
	return -ENOMEM;
}

/* How it ended. */
static int end(pid_t pid)
{
	int status, sig;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP)
		return -EINTR;
	if (WIFEXITED(status) && WEXITSTATUS(status) == SRCLINE_NO_DEBUG)
		return -ENOENT;
	return status ? -EIO : 0;
}

int srcline_ask(const struct srcline_file *f, const uint64_t *at, size_t n, bool debuginfod,
		int ms, srcline_answer *answer, void *arg)
{
	_cleanup_close_ int question = question_open(f, at, n, debuginfod);
	uint64_t until = now_ns() + (uint64_t)ms * 1000000;
	int ends[2], r, how;
	pid_t pid;

	if (question < 0)
		return question;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	r = start_high(question, ends[1], f, &pid);
	close(ends[1]);
	if (r == 0) {
		r = take_all(ends[0], until, answer, arg);
		if (r < 0)
			kill(pid, SIGKILL);
		how = end(pid);
		r = r < 0 ? r : how;
	}
	close(ends[0]);
	return r;
}

#ifdef PYSAMPLED_LIBDW
const bool srcline_built = true;
#else
const bool srcline_built = false;

int srcline_main(void)
{
	return SRCLINE_FAILED;
}
#endif
