/* SPDX-License-Identifier: MIT
 *
 * file_helper - keeps sockets to the processes that read files, and asks one of them.
 */
#include "elf/file_helper.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "arch/arch.h"
#include "base/stats.h"
#include "elf/module_wire.h"
#include "elf/opener.h"
#include "elf/sealed.h"
#include "names/demangle.h"
#include "sys/family.h"
#include "sys/fdpass.h"
#include "sys/memfile.h"
#include "sys/proc.h"
#include "sys/unprivileged.h"

enum {
	MAX_BAD_ENDS = 3,
	LINGER_MS = 200, /* for processes to end, which do not wait for anything */
	MAX_LAYOUTS = 32, /* at a time, those that hang among them */
};

/* What is to be told of a file. */
struct file_note {
	bool is;
	char path[PATH_MAX];
};

struct file_helper {
	int socket; /* to who starts those that read; -1: it was ended */
	pid_t pid;
	struct pool readers, openers;
	pthread_mutex_t lock;
	struct stats *stats; /* or NULL; under the lock, and: */
	struct file_note gave_up, slow;
	uid_t layout[MAX_LAYOUTS]; /* whose processes' files are read for one */
	size_t n_layouts;
	_Atomic int refs;
};

static void *refuse(struct file_helper *h, int e, struct err *err)
{
	free(h);
	err_set(err, -e, "can't start the process that reads files: %s%s", strerror(e),
		e == EMFILE || e == ENFILE ? "; raise the limit (ulimit -n)" : "");
	return NULL;
}

void file_helper_wake(struct file_helper *h)
{
	int socket = pool_start(&h->readers);

	if (socket >= 0)
		pool_give(&h->readers, socket);
}

bool file_helper_sleeps(struct file_helper *h)
{
	return !pool_was_woken(&h->readers) && !pool_was_woken(&h->openers);
}

struct pool *file_helper_openers(struct file_helper *h)
{
	return h ? &h->openers : NULL;
}

struct file_helper *file_helper_start(struct err *err)
{
	char name[] = "pysampled", command[] = FILE_HELPER_COMMAND,
	     *argv[] = { name, command, NULL };
	struct file_helper *h = calloc(1, sizeof(*h));

	if (!h)
		return refuse(h, ENOMEM, err);
	h->socket = unprivileged_start(argv, &h->pid);
	if (h->socket < 0)
		return refuse(h, -h->socket, err);
	atomic_init(&h->refs, 1);
	pthread_mutex_init(&h->lock, NULL);
	pool_init(&h->readers, POOL_READS, h->socket);
	pool_init(&h->openers, POOL_OPENS, h->socket);
	return h;
}

struct file_helper *file_helper_ref(struct file_helper *h)
{
	if (h)
		atomic_fetch_add(&h->refs, 1);
	return h;
}

void file_helper_unref(struct file_helper *h)
{
	if (!h || atomic_fetch_sub(&h->refs, 1) != 1)
		return;
	pool_deinit(&h->readers);
	pool_deinit(&h->openers);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

void file_helper_count(struct file_helper *h, struct stats *stats)
{
	pthread_mutex_lock(&h->lock);
	h->stats = stats;
	pthread_mutex_unlock(&h->lock);
}

/* With the lock, as take_note(). */
static void note_file(struct file_note *f, const char *path)
{
	f->is = true;
	snprintf(f->path, sizeof(f->path), "%s", path);
}

bool file_helper_bad_end(struct file_helper *h, const char *path, unsigned times)
{
	bool too_often = times >= MAX_BAD_ENDS;

	pthread_mutex_lock(&h->lock);
	if (h->stats)
		STATS_ADD(h->stats, bad_file, 1);
	if (too_often)
		note_file(&h->gave_up, path);
	pthread_mutex_unlock(&h->lock);
	return too_often;
}

static bool take_note(struct file_helper *h, struct file_note *f, char path[PATH_MAX])
{
	bool ret;

	pthread_mutex_lock(&h->lock);
	ret = f->is;
	if (ret)
		memcpy(path, f->path, PATH_MAX);
	f->is = false;
	pthread_mutex_unlock(&h->lock);
	return ret;
}

bool file_helper_given_up(struct file_helper *h, char path[PATH_MAX])
{
	return take_note(h, &h->gave_up, path);
}

void file_helper_slow(struct file_helper *h, const char *path)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	note_file(&h->slow, path);
	pthread_mutex_unlock(&h->lock);
}

bool file_helper_was_slow(struct file_helper *h, char path[PATH_MAX])
{
	return take_note(h, &h->slow, path);
}

/* They end as our ends of their sockets do. */
static void close_all(struct file_helper *h)
{
	pthread_mutex_lock(&h->lock);
	h->stats = NULL;
	pthread_mutex_unlock(&h->lock);
	pool_end(&h->readers);
	pool_end(&h->openers);
	close(h->socket);
}

void file_helper_end(struct file_helper *h)
{
	struct pollfd p = { .events = POLLIN };

	if (!h)
		return;
	p.fd = (int)syscall(SYS_pidfd_open, h->pid, 0);
	close_all(h);
	if (p.fd >= 0) {
		poll(&p, 1, LINGER_MS);
		close(p.fd);
	}
	waitpid(h->pid, NULL, WNOHANG);
	file_helper_unref(h);
}

uint64_t file_helper_cpu_ns(const struct file_helper *h)
{
	return h ? family_cpu_ns(h->pid) : 0;
}

struct asking {
	struct file_helper *h;
	const struct file_question *q;
	int fd, ms;
};

static int send_question(const void *arg, int socket)
{
	const struct asking *a = arg;

	_Static_assert(sizeof(*a->q) <= OPENER_MESSAGE, "an opener hands it on");
	return opener_send(&a->h->openers, socket, a->q, sizeof(*a->q), &a->fd, 1, a->ms);
}

/* Its socket, or -errno. */
static int ask(struct file_helper *h, int fd, const struct file_question *q, int ms)
{
	return pool_ask(&h->readers, send_question, &(struct asking){ h, q, fd, ms });
}

static bool is_our_lack(int e)
{
	return proc_is_short(-e) || e == EAGAIN;
}

/* Have opened what is wanted, where it may be, and handed over. As opener_debug(). */
static int open_wanted(struct file_helper *h, int socket, const struct debugfile_want *want,
		       const struct debugfile_origin *from)
{
	struct file_question q = { .kind = FILE_OPENED };

	return opener_debug(&h->openers, socket, &q, sizeof(q),
			    offsetof(struct file_question, set), want, from->root, from->path);
}

/* The answer that came with @n descriptors. */
static int take_answer(struct module *ret, const struct file_answer *a, const int *fds, int n)
{
	int r = a->result;

	if (r == 0)
		r = n == 1 ? module_wire_take(ret, fds[0], arch_host) : -EPROTO;
	else if (r != -ENOEXEC && r != -EIO && r != -EFBIG && r != -EAGAIN)
		r = -EPROTO;
	return r == -ENOMEM ? -EAGAIN : r;
}

/* Wait until it is done, and open a debug file for it on the way. How many descriptors came
 * with the answer; -EAGAIN or -EPROTO. *@lack: our descriptors had run out. */
static int until_done(struct file_helper *h, int socket, const struct debugfile_origin *from,
		      struct file_answer *a, int fds[FDPASS_MAX], bool *lack)
{
	bool asked = false;
	int n, r;

	*lack = false;
	while ((n = fdpass_receive(socket, a, sizeof(*a), fds)) >= 0) {
		if (a->kind == FILE_DONE)
			return n;
		fdpass_close(fds, n);
		r = asked || a->kind != FILE_WANTS ? -EPROTO :
						     open_wanted(h, socket, &a->want, from);
		if (r < 0)
			return r == -EAGAIN ? -EAGAIN : -EPROTO;
		*lack = r > 0;
		asked = true;
	}
	return n == -EMFILE ? -EAGAIN : -EPROTO;
}

/* The tables that @socket answers with. @last: it will take no other file. */
static int follow(struct file_helper *h, struct module *ret, int socket,
		  const struct debugfile_origin *from, bool *last)
{
	int fds[FDPASS_MAX], r;
	struct file_answer a;
	bool lack;
	int n = until_done(h, socket, from, &a, fds, &lack);

	if (n < 0)
		return n;
	r = take_answer(ret, &a, fds, n);
	fdpass_close(fds, n);
	*last = a.last;
	if (r == 0 && lack)
		module_deinit(ret);
	return r == 0 && lack ? -EAGAIN : r;
}

/* What ask() says when it has no socket. */
static int unasked(int r)
{
	if (is_our_lack(-r) || r == -ETOOMANYREFS)
		return -EAGAIN;
	return r == -EPROTO ? -EPIPE : r;
}

/* The one at @socket answered with @r. */
static int answered(struct file_helper *h, int socket, int r, bool last)
{
	if (r == -EPROTO || last)
		close(socket);
	else
		pool_give(&h->readers, socket);
	return r;
}

int file_helper_read(struct file_helper *h, struct module *ret, int fd,
		     const struct debugfile_origin *from, bool rows)
{
	const struct file_question q = { .kind = FILE_READ, .rows = rows };
	int socket = ask(h, fd, &q, -1), r;
	bool last = true;

	*ret = (struct module){ 0 };
	if (socket < 0)
		return unasked(socket);
	r = follow(h, ret, socket, from, &last);
	return answered(h, socket, r, last);
}

/* Ask @q of @fd, and wait @ms for the answer, with its descriptors. How many; -EAGAIN, -EPIPE
 * or -EPROTO as file_helper_read(); -ETIMEDOUT. *@socket: of who answered. */
static int ask_one(struct file_helper *h, int fd, const struct file_question *q, int ms,
		   int *socket, struct file_answer *a, int fds[FDPASS_MAX])
{
	int n;

	*socket = ask(h, fd, q, ms);
	if (*socket < 0)
		return unasked(*socket);
	if (!pool_answers(&h->readers, *socket, ms))
		return -ETIMEDOUT;
	n = fdpass_receive(*socket, a, sizeof(*a), fds);
	if (n >= 0 && a->kind == FILE_DONE)
		return n;
	fdpass_close(fds, n);
	close(*socket);
	return n == -EMFILE ? -EAGAIN : -EPROTO;
}

/* The same where nothing comes with the answer; what it is. */
static int ask_plain(struct file_helper *h, int fd, const struct file_question *q, int ms,
		     struct file_answer *a)
{
	int socket, fds[FDPASS_MAX], r = ask_one(h, fd, q, ms, &socket, a, fds);

	if (r < 0)
		return r;
	fdpass_close(fds, r);
	if (r != 0 || (a->result != 0 && a->result != -ENOEXEC && a->result != -EIO &&
		       a->result != -EAGAIN))
		a->result = -EPROTO;
	return answered(h, socket, a->result, a->last);
}

int file_helper_python(struct file_helper *h, struct elfpython *ret, int fd, int ms)
{
	const struct file_question q = { .kind = FILE_PYTHON };
	struct file_answer a;
	int r = ask_plain(h, fd, &q, ms, &a);

	if (r == 0 && a.python.n_loads > ELFPYTHON_LOADS)
		r = -EPROTO;
	if (r == 0)
		*ret = a.python;
	return r;
}

/* One that hangs is waited for until it answers: no user has more than are left for all others.
 */
static bool layout_begin(struct file_helper *h, uid_t user)
{
	bool ret;

	pthread_mutex_lock(&h->lock);
	ret = h->n_layouts + pool_count(h->layout, h->n_layouts, user) < MAX_LAYOUTS;
	if (ret)
		h->layout[h->n_layouts++] = user;
	pthread_mutex_unlock(&h->lock);
	return ret;
}

static void layout_end(struct file_helper *h, uid_t user)
{
	size_t i = 0;

	pthread_mutex_lock(&h->lock);
	while (h->layout[i] != user)
		i++;
	h->layout[i] = h->layout[--h->n_layouts];
	pthread_mutex_unlock(&h->lock);
}

static int read_layout(struct file_helper *h, struct elflayout *ret, int fd,
		       const struct elflayout_want *want, const struct debugfile_origin *from)
{
	const struct file_question q = { .kind = FILE_LAYOUT, .layout = *want };
	int socket = ask(h, fd, &q, -1), fds[FDPASS_MAX], n, r = -EPROTO;
	struct file_answer a;
	bool lack;

	if (socket < 0)
		return unasked(socket);
	n = until_done(h, socket, from, &a, fds, &lack);
	if (n < 0) {
		close(socket);
		return n;
	}
	fdpass_close(fds, n);
	if (n == 0 && (a.result == 0 || a.result == -ENOENT || a.result == -EIO ||
		       a.result == -ENOEXEC || a.result == -EAGAIN))
		r = a.result == -ENOENT && lack ? -EAGAIN : a.result;
	if (r == 0)
		*ret = a.layout;
	return answered(h, socket, r, a.last);
}

int file_helper_layout(struct file_helper *h, struct elflayout *ret, int fd,
		       const struct elflayout_want *want, const struct debugfile_origin *from)
{
	int r;

	if (!layout_begin(h, pool_user)) {
		file_helper_slow(h, from->path);
		return -EAGAIN;
	}
	r = read_layout(h, ret, fd, want, from);
	layout_end(h, pool_user);
	return r;
}

int file_helper_probe(struct file_helper *h, struct elfprobe *ret, int fd,
		      const struct elfprobe_want *want)
{
	const struct file_question q = { .kind = FILE_PROBE, .probe = *want };
	struct file_answer a;
	int r = ask_plain(h, fd, &q, -1, &a);

	if (r == 0 && !elfprobe_good(&a.probe))
		r = -EPROTO;
	if (r == 0)
		*ret = a.probe;
	return r;
}

int file_helper_id(struct file_helper *h, unsigned char ret[ELFIMAGE_MAX_ID], int fd, int ms)
{
	const struct file_question q = { .kind = FILE_ID };
	struct file_answer a;
	int r = ask_plain(h, fd, &q, ms, &a);

	if (r < 0)
		return r;
	if (a.id.n > ELFIMAGE_MAX_ID)
		return -EPROTO;
	memcpy(ret, a.id.at, a.id.n);
	return (int)a.id.n;
}

/* How many bytes of @fd, which one that reads made. */
static ssize_t take_bytes(void *buf, size_t n, int fd)
{
	struct bytes b;
	int r = sealed_map(&b, fd, n);

	if (r < 0)
		return r == -ENOMEM ? -EAGAIN : r;
	memcpy(buf, b.at, b.n);
	munmap((void *)(uintptr_t)b.at, b.n);
	return (ssize_t)b.n;
}

static ssize_t ask_bytes(struct file_helper *h, int fd, const struct file_question *q, int ms,
			 void *buf, size_t n)
{
	int socket, fds[FDPASS_MAX], k;
	struct file_answer a;
	ssize_t got = -EPROTO;

	k = ask_one(h, fd, q, ms, &socket, &a, fds);
	if (k < 0)
		return k;
	if (k == 0 && a.result <= 0)
		got = a.result == 0 || a.result == -EAGAIN ? a.result : -EIO;
	else if (k == 1 && a.result > 0)
		got = take_bytes(buf, n, fds[0]);
	fdpass_close(fds, k);
	answered(h, socket, got == -EPROTO ? -EPROTO : 0, a.last);
	return got;
}

ssize_t file_helper_bytes(struct file_helper *h, int fd, uint64_t at, void *buf, size_t n)
{
	const struct file_question q = { .kind = FILE_BYTES, .at = at, .n = n };

	return ask_bytes(h, fd, &q, -1, buf, n);
}

ssize_t file_helper_demangle(struct file_helper *h, const char *name, char *buf, size_t cap,
			     int ms)
{
	const struct file_question q = { .kind = FILE_NAME };
	_cleanup_close_ int fd = h ? memfile_new("pysampled", false) : -1;
	ssize_t n = (ssize_t)strlen(name);

	if (!h)
		return demangle(name, buf, cap) ? (ssize_t)strlen(buf) : 0;
	if (fd < 0 || write(fd, name, (size_t)n) != n)
		return -EAGAIN;
	n = ask_bytes(h, fd, &q, ms, buf, cap - 1);
	buf[MAX(n, 0)] = '\0';
	return n;
}

/* True: it is one that a file can be read on from, after @from. */
static bool place_good(const struct codemap_place *p, const struct codemap_place *from)
{
	return p->at >= from->at && p->at <= INT64_MAX && p->n_tail <= sizeof(p->tail) &&
	       p->tail_at <= p->at && p->more <= 1;
}

int file_helper_code(struct file_helper *h, struct codemap *m, int fd, enum codemap_kind what,
		     struct codemap_place *place)
{
	const struct file_question q = { .kind = FILE_CODE, .what = what, .place = *place };
	int socket, fds[FDPASS_MAX], r = -EPROTO, n;
	struct file_answer a;

	n = ask_one(h, fd, &q, -1, &socket, &a, fds);
	if (n < 0)
		return n;
	if (n == 1 && a.result == 0 && place_good(&a.place, place))
		r = codemap_take(m, fds[0]);
	else if (n == 0 && (a.result == -EAGAIN || a.result == -ESTALE))
		r = a.result;
	fdpass_close(fds, n);
	if (r == 0)
		*place = a.place;
	return answered(h, socket, r == -ENOMEM ? -EAGAIN : r, a.last);
}
