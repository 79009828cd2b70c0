/* SPDX-License-Identifier: MIT */
#include "lines/srcline.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/base.h"
#include "base/clock.h"
#include "elf/opener.h"
#include "lines/srcline_int.h"
#include "sys/family.h"
#include "sys/memfile.h"
#include "sys/unprivileged.h"

enum {
	BUFFER = 64 << 10,
	LINGER_MS = 2000,
	LOOKS = 20, /* the second file that hangs gets half of what the first one got */
};

struct srcline {
	int socket; /* -1: it is lost */
	pid_t pid;
	uint32_t looks, number; /* of the question that is answered */
	bool ended; /* that one has, */
	int status; /* so */
};

/* Its process takes no signal that a terminal sends: it serves until its socket is closed. */
struct srcline *srcline_start(bool debuginfod)
{
	char name[] = "pysampled", command[] = SRCLINE_COMMAND, more[] = "debuginfod",
	     *argv[] = { name, command, debuginfod ? more : NULL, NULL };
	struct srcline *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->looks = LOOKS;
	s->socket = unprivileged_start(argv, &s->pid);
	if (s->socket >= 0)
		return s;
	free(s);
	return NULL;
}

void srcline_end(struct srcline *s)
{
	if (!s)
		return;
	if (s->socket >= 0)
		close(s->socket);
	waitpid(s->pid, NULL, WNOHANG); /* who hangs is left to whoever comes after us */
	free(s);
}

uint64_t srcline_cpu_ns(const struct srcline *s)
{
	return s ? family_cpu_ns(s->pid) : 0;
}

/* The question as a file, to be read from its beginning. */
static int question_open(const struct srcline_question *q, const uint64_t *at)
{
	int fd = memfile_new("srcline", false);
	size_t n = q->n * sizeof(*at);

	if (fd < 0)
		return -errno;
	if (write(fd, q, sizeof(*q)) == sizeof(*q) && write(fd, at, n) == (ssize_t)n &&
	    lseek(fd, 0, SEEK_SET) == 0)
		return fd;
	close(fd);
	return -EIO;
}

static size_t take_text(char *to, const char *from, size_t n)
{
	memcpy(to, from, n);
	to[n] = '\0';
	return n;
}

ssize_t srcline_take(const char *p, size_t n, srcline_answer *answer, void *arg)
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
		answer(arg, rec.i, &(struct srcline_text){ function, file, rec.line });
	}
	return (ssize_t)at;
}

/* An end is said: note it if it is that of this question. An earlier one's, which nobody waits for
 * any more, may come late. False: nothing more will be said. */
static bool take_end(struct srcline *s)
{
	struct srcline_end end;

	if (read(s->socket, &end, sizeof(end)) != sizeof(end))
		return false;
	s->ended = end.number == s->number;
	s->status = end.status;
	return true;
}

/* Take answers until there are no more, or it is said how it ended: who hangs has @fd open. */
static int take_all(struct srcline *s, int fd, uint64_t until, srcline_answer *answer, void *arg)
{
	_cleanup_free_ char *buf = malloc(BUFFER);
	size_t n = 0;

	while (buf) {
		struct pollfd p[2] = { { .fd = fd, .events = POLLIN },
				       { .fd = s->socket, .events = POLLIN } };
		uint64_t now = now_ns();
		ssize_t got;

		if (now >= until || poll(p, 2, (int)((until - now) / 1000000) + 1) == 0)
			return -ETIMEDOUT;
		if (!p[0].revents && p[1].revents && take_end(s) && !s->ended)
			continue;
		if (!p[0].revents)
			return n ? -EIO : 0;
		got = read(fd, buf + n, BUFFER - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : n ? -EIO : 0;
		n += (size_t)got;
		got = srcline_take(buf, n, answer, arg);
		if (got < 0)
			return -EIO;
		n -= (size_t)got;
		memmove(buf, buf + got, n);
	}
	return -ENOMEM;
}

/* How it ended. One that does not end is lost, with all that serves. */
static int end(struct srcline *s)
{
	struct pollfd p = { .fd = s->socket, .events = POLLIN };
	int status, sig;

	while (!s->ended)
		if (poll(&p, 1, LINGER_MS) <= 0 || !take_end(s)) {
			close(s->socket);
			s->socket = -1;
			return -EIO;
		}
	status = s->status;
	sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP)
		return -EINTR;
	if (sig == SIGALRM)
		return -ETIMEDOUT;
	if (WIFEXITED(status) && WEXITSTATUS(status) == SRCLINE_NO_DEBUG)
		return -ENOENT;
	if (WIFEXITED(status) && WEXITSTATUS(status) == SRCLINE_HANGS)
		return -EBUSY;
	return status ? -EIO : 0;
}

static int ask(struct srcline *s, const struct srcline_file *f, int question, uint64_t until,
	       srcline_answer *answer, void *arg)
{
	int ends[2], r, how;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	s->number++;
	s->ended = false;
	r = opener_send(f->openers, s->socket, &s->number, sizeof(s->number),
			(int[]){ f->fd, question, ends[1], f->root }, f->root < 0 ? 3 : 4,
			(int)s->looks * SRCLINE_LOOK_MS);
	close(ends[1]);
	if (r == 0) {
		r = take_all(s, ends[0], until, answer, arg);
		close(ends[0]); /* who still talks ends */
		how = end(s);
		return r < 0 && how != -EINTR ? r : how;
	}
	close(ends[0]);
	return r == -ETIMEDOUT ? -EBUSY : r;
}

int srcline_ask(struct srcline *s, const struct srcline_file *f, const uint64_t *at, size_t n,
		bool debuginfod, int ms, srcline_answer *answer, void *arg)
{
	uint64_t until = now_ns() + (uint64_t)ms * 1000000;
	struct srcline_question q = { .n = n,
				      .ms = ms > 0 ? (uint32_t)ms : 1,
				      .looks = s ? s->looks : 0,
				      .has_root = f->root >= 0,
				      .debuginfod = debuginfod };
	_cleanup_close_ int question = -1;
	int r;

	if (!s || s->socket < 0)
		return -EIO;
	snprintf(q.path, sizeof(q.path), "%s", f->path);
	question = question_open(&q, at);
	r = question < 0 ? question : ask(s, f, question, until, answer, arg);
	if (r == -EBUSY)
		s->looks = MAX(s->looks / 2, 1u);
	return r;
}

#ifdef PYSAMPLED_LIBDW
const bool srcline_built = true;
#else
const bool srcline_built = false;

int srcline_main(bool debuginfod)
{
	(void)debuginfod;
	return SRCLINE_FAILED;
}
#endif
