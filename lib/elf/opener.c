/* SPDX-License-Identifier: MIT
 *
 * opener - questions to the processes that open files, and how those answer them.
 */
#include "elf/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "sys/proc.h"
#include "sys/rootfile.h"

/* Descriptors that come with it: a root, a file; to send, first the socket. */
struct question {
	enum { OPEN_MAP, OPEN_PATH, OPEN_STAT, OPEN_SEND, OPEN_DEBUG } kind;
	pid_t pid;
	struct proc_map map; /* its path is below */
	bool wants_root;     /* OPEN_MAP */
	uint32_t n, set_at;  /* bytes of @message */
	char path[PATH_MAX];
	char message[OPENER_MESSAGE];
	struct debugfile_want want;
};

/* With it what was opened, and the root, if that is not ours. */
struct answer {
	int result;
	struct stat st;
};

/* ---- Where it is done ---- */

static int root_of(pid_t pid)
{
	struct stat ours, its;
	int root = rootfile_root(pid);

	if (root >= 0 && stat("/", &ours) == 0 && fstat(root, &its) == 0 &&
	    ours.st_dev == its.st_dev && ours.st_ino == its.st_ino) {
		close(root);
		root = -1;
	}
	return MAX(root, -1);
}

static int look(int fd, struct stat *st)
{
	if (fd < 0 || fstat(fd, st) == 0)
		return fd;
	close(fd);
	return -EIO; /* it takes nothing of ours */
}

/* True: nothing can be opened at all. What nobody else serves tells. */
static bool has_run_out(void)
{
	int fd = open("/", O_PATH | O_CLOEXEC);

	if (fd < 0)
		return proc_is_short(-errno);
	close(fd);
	return false;
}

/* @r, what an open said. Whoever serves the file, or holds a lease on it, chose that: it never
 * means what a socket or a clock of ours says, nor that we lack something, unless we do. */
static int its_own(int r)
{
	if (proc_is_short(r))
		return has_run_out() ? r : -EIO;
	return r == -EAGAIN || r == -EPIPE || r == -EPROTO || r == -ETIMEDOUT ||
			       r == -ETOOMANYREFS ?
		       -EIO :
		       r;
}

/* @fds: where to, and the files, of which the first is opened. */
static int send_opened(const void *message, size_t n, const int *fds, size_t n_fds)
{
	_cleanup_close_ int file = its_own(proc_look_open(fds[1]));
	int send[FDPASS_MAX] = { file };

	if (file < 0)
		return file;
	for (size_t i = 1; i < n_fds && i < FDPASS_MAX; i++)
		send[i] = fds[1 + i];
	return fdpass_send(fds[0], message, n, send, n_fds);
}

static int send_debug(int socket, char *message, size_t n, size_t set_at,
		      const struct debugfile_want *want, int root, const char *beside)
{
	int fd[DEBUGFILE_PLACES], have[DEBUGFILE_PLACES], r;
	int n_have = 0;
	unsigned set = 0;
	bool lack;

	_Static_assert((int)DEBUGFILE_PLACES <= (int)FDPASS_MAX, "they go into one message");
	errno = 0;
	debugfile_open_all(want, root, beside, fd);
	lack = proc_is_short(its_own(-errno));
	for (unsigned i = 0; i < DEBUGFILE_PLACES; i++)
		if (fd[i] >= 0)
			set |= 1u << i, have[n_have++] = fd[i];
	memcpy(message + set_at, &set, sizeof(set));
	r = fdpass_send(socket, message, n, have, (size_t)n_have);
	fdpass_close(have, n_have);
	return r < 0 ? r : lack;
}

/* What is opened goes to @opened: a file, and a root. */
static int serve_one(struct question *q, const int *fds, int n, struct stat *st,
		     int opened[2])
{
	q->map.path = q->path;
	switch (q->kind) {
	case OPEN_MAP:
		opened[0] = look(its_own(proc_map_look(q->pid, &q->map)), st);
		opened[1] = opened[0] >= 0 && q->wants_root ? root_of(q->pid) : -1;
		return opened[0];
	case OPEN_PATH:
		opened[0] = look(its_own(rootfile_look(n > 0 ? fds[0] : -1, q->path)), st);
		return opened[0];
	case OPEN_STAT:
		return n < 1 ? -EPROTO : fstat(fds[0], st) < 0 ? -EIO : 0;
	case OPEN_SEND:
		return n < 2 ? -EPROTO : send_opened(q->message, q->n, fds, (size_t)n - 1);
	case OPEN_DEBUG:
		return n < 1 ? -EPROTO :
			       send_debug(fds[0], q->message, q->n, q->set_at, &q->want,
					  n > 1 ? fds[1] : -1, q->path);
	}
	return -EPROTO;
}

void opener_serve(int socket)
{
	int fds[FDPASS_MAX], opened[2], have[2], n, r;
	struct question q;
	struct answer a;

	while ((n = fdpass_receive(socket, &q, sizeof(q), fds)) != -EPIPE) {
		int k = 0;

		memset(&a, 0, sizeof(a));
		opened[0] = opened[1] = -1;
		a.result = n < 0 ? n : serve_one(&q, fds, n, &a.st, opened);
		for (int i = 0; i < 2; i++)
			if (opened[i] >= 0)
				have[k++] = opened[i];
		r = fdpass_send(socket, &a, sizeof(a), have, (size_t)k);
		fdpass_close(have, k);
		fdpass_close(fds, n);
		if (r < 0)
			return;
	}
}

/* ---- Where it is asked for ---- */

struct asking {
	const struct question *q;
	const int *fds;
	size_t n;
};

static int send_question(const void *arg, int socket)
{
	const struct asking *a = arg;

	return fdpass_send(socket, a->q, sizeof(*a->q), a->fds, a->n);
}

/* Who is asked once more does nothing twice. A reader that got a question twice would answer
 * twice, and then the next question with the answer to this one. */
static bool is_harmless_twice(const struct question *q)
{
	return q->kind == OPEN_MAP || q->kind == OPEN_PATH || q->kind == OPEN_STAT;
}

/* The answer, with up to @most of two descriptors in @got, -1 where there is none. Who is ended
 * while it opens is asked for once more: what it opens does not end it. */
static int have_done(struct pool *p, const struct asking *asking, int ms, struct stat *st,
		     int got[2], int most)
{
	int times = is_harmless_twice(asking->q) ? 2 : 1;
	int taken[FDPASS_MAX], k = -EPIPE, socket;
	struct answer a;

	got[0] = got[1] = -1;
	for (int i = 0; i < times && k == -EPIPE; i++) {
		socket = pool_ask(p, send_question, asking);
		if (socket < 0)
			return proc_is_short(socket) ? socket : -EAGAIN;
		if (!pool_answers(p, socket, ms))
			return -ETIMEDOUT;
		k = fdpass_receive(socket, &a, sizeof(a), taken);
		if (k < 0)
			close(socket);
	}
	if (k < 0)
		return proc_is_short(k) ? k : -EAGAIN;
	pool_give(p, socket);
	if (st)
		*st = a.st;
	if (k > most || (k > 0 && a.result < 0)) {
		fdpass_close(taken, k);
		return -EAGAIN;
	}
	for (int i = 0; i < k; i++)
		got[i] = taken[i];
	return a.result;
}

static bool path_fits(struct question *q, const char *path)
{
	size_t n = strlen(path);

	if (n >= sizeof(q->path))
		return false;
	memcpy(q->path, path, n + 1);
	return true;
}

int opener_map(struct pool *openers, pid_t pid, const struct proc_map *m, int ms,
	       struct stat *st, int *root)
{
	struct question q = { .kind = OPEN_MAP, .pid = pid, .map = *m, .wants_root = root };
	int got[2], r;

	if (!path_fits(&q, m->path))
		return -ENAMETOOLONG;
	q.map.path = NULL;
	if (openers) {
		r = have_done(openers, &(struct asking){ &q, NULL, 0 }, ms, st, got,
			      root ? 2 : 1);
	} else {
		got[1] = -1;
		r = got[0] = look(proc_map_open(pid, m), st);
		if (r >= 0 && root)
			got[1] = root_of(pid);
	}
	if (root)
		*root = got[1];
	return r < 0 ? r : got[0] < 0 ? -EAGAIN : got[0];
}

int opener_path(struct pool *openers, int root, const char *path, int ms, struct stat *st)
{
	struct question q = { .kind = OPEN_PATH };
	int got[2], r;

	if (!path_fits(&q, path))
		return -ENAMETOOLONG;
	if (!openers)
		return look(rootfile_open(root, path), st);
	r = have_done(openers, &(struct asking){ &q, &root, root >= 0 }, ms, st, got, 1);
	return r < 0 ? r : got[0] < 0 ? -EAGAIN : got[0];
}

int opener_stat(struct pool *openers, int fd, int ms, struct stat *st)
{
	const struct question q = { .kind = OPEN_STAT };
	int got[2];

	if (!openers)
		return fstat(fd, st) < 0 ? -errno : 0;
	return have_done(openers, &(struct asking){ &q, &fd, 1 }, ms, st, got, 0);
}

static bool put_message(struct question *q, const void *message, size_t n)
{
	if (n > sizeof(q->message))
		return false;
	memcpy(q->message, message, n);
	q->n = (uint32_t)n;
	return true;
}

int opener_send(struct pool *openers, int socket, const void *message, size_t n,
		const int *fds, size_t n_fds, int ms)
{
	struct question q = { .kind = OPEN_SEND };
	int send[FDPASS_MAX] = { socket }, got[2], flags = fcntl(fds[0], F_GETFL);

	if (flags < 0 || n_fds >= FDPASS_MAX || !put_message(&q, message, n))
		return flags < 0 ? -errno : -EINVAL;
	if (!(flags & O_PATH) || !openers)
		return fdpass_send(socket, message, n, fds, n_fds);
	memcpy(send + 1, fds, n_fds * sizeof(*fds));
	return have_done(openers, &(struct asking){ &q, send, n_fds + 1 }, ms, NULL, got, 0);
}

int opener_debug(struct pool *openers, int socket, void *message, size_t n, size_t set_at,
		 const struct debugfile_want *want, int root, const char *beside)
{
	struct question q = { .kind = OPEN_DEBUG, .want = *want, .set_at = (uint32_t)set_at };
	const int fds[] = { socket, root };
	int got[2];

	if (!path_fits(&q, beside) || !put_message(&q, message, n))
		return -EINVAL;
	return have_done(openers, &(struct asking){ &q, fds, root >= 0 ? 2 : 1 }, -1, NULL, got,
			 0);
}
