/* SPDX-License-Identifier: MIT
 *
 * file_serve - the processes that read foreign files (file_helper.h). The first waits for the
 * second and starts it again if it is ended; that starts a third for each socket that it gets;
 * those read. None has rights, and each has a list of system calls (harden.h) before it is
 * given anything.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "elf/file_helper.h"
#include "elf/module_wire.h"
#include "elf/opener.h"
#include "elf/sealed.h"
#include "names/demangle.h"
#include "names/symnames.h"
#include "sys/family.h"
#include "sys/fdpass.h"
#include "sys/proc.h"
#include "sys/harden.h"
#include "sys/unprivileged.h"

enum {
	CPU_SECONDS = 30,	   /* of one that reads */
	CPU_ENOUGH_NS = 500000000, /* after which it takes no further file */
	MAX_FILES = 64,		   /* descriptors */
	KEPT_BYTES = 32 << 20,	   /* of memory, from file to file */
	MAX_STEPS = 100,	   /* until all have ended that can */
	MAX_BYTES = 1 << 20,	   /* of a piece */
	FAILED = 1,
};

#define MAX_SPACE ((rlim_t)4 << 30) /* of addresses */
#define MAX_MEMORY ((rlim_t)1 << 30)

/* --- One that reads --- */

static void want(void *arg, const struct debugfile_want *w, int fd[DEBUGFILE_PLACES])
{
	const int *socket = arg;
	struct file_answer a = { .kind = FILE_WANTS, .want = *w };
	struct file_question q;
	int fds[FDPASS_MAX], n, k = 0;

	_Static_assert((int)DEBUGFILE_PLACES <= (int)FDPASS_MAX, "they go into one message");
	if (fdpass_send(*socket, &a, sizeof(a), NULL, 0) < 0)
		_exit(0);
	n = fdpass_receive(*socket, &q, sizeof(q), fds);
	if (n < 0)
		_exit(0);
	for (unsigned i = 0; i < DEBUGFILE_PLACES; i++)
		fd[i] = q.set >> i & 1 && k < n ? fds[k++] : -1;
}

/* Read @fd, and answer: @ret's file is open then if its result is 0. */
static int read_file(int socket, int fd, bool rows, struct file_answer *ret)
{
	struct debugfile_origin from = {
		.root = -1, .path = "", .open = want, .arg = &socket
	};
	struct module m;
	int made = -1;

	/* What is left out for want of memory is left out like what a file does not have:
	 * only errno tells. */
	errno = 0;
	ret->result = module_read(&m, fd, (struct bytes){ 0 }, &from, rows);
	if (proc_is_short(-errno))
		ret->result = ret->result == 0 ? (module_deinit(&m), -EAGAIN) : -EAGAIN;
	if (ret->result)
		return -1;
	made = module_wire_make(&m);
	module_deinit(&m);
	ret->result = made == -ENOMEM ? -EAGAIN : MIN(made, 0);
	return made;
}

/* The next piece of one that a JIT writes. */
static int read_code(int fd, const struct file_question *q, struct file_answer *ret)
{
	struct codemap m = { 0 };
	int made;

	ret->place = q->place;
	if (!codemap_same(fd, &q->place)) {
		ret->result = -ESTALE;
		return -1;
	}
	codemap_read(&m, fd, q->what, &ret->place);
	made = codemap_make(&m);
	codemap_deinit(&m);
	ret->result = made < 0 ? -EAGAIN : 0;
	return made;
}

/* What it says of an interpreter. */
static int read_python(int fd, struct file_answer *ret)
{
	errno = 0;
	ret->result = elfpython_read(fd, &ret->python);
	if (proc_is_short(-errno))
		ret->result = -EAGAIN;
	return -1;
}

/* What its debug info says of structs. */
static int read_layout(int socket, int fd, const struct file_question *q,
		       struct file_answer *ret)
{
	struct debugfile_origin from = {
		.root = -1, .path = "", .open = want, .arg = &socket
	};

	errno = 0;
	ret->result = elflayout_read(fd, &q->layout, &from, &ret->layout);
	if (ret->result == -ENOMEM || proc_is_short(-errno))
		ret->result = -EAGAIN;
	return -1;
}

/* What one question asks of the file as such. */
static int read_image(int fd, const struct file_question *q, struct file_answer *ret)
{
	struct elfimage im;

	errno = 0;
	ret->result = elfimage_init(&im, fd, (struct bytes){ 0 });
	if (ret->result == 0 && q->kind == FILE_ID)
		ret->id.n = (uint32_t)elfimage_build_id(&im, ret->id.at);
	else if (ret->result == 0)
		elfprobe_find(&im, &q->probe, &ret->probe);
	if (proc_is_short(-errno))
		ret->result = -EAGAIN;
	elfimage_deinit(&im);
	return -1;
}

/* So many at most are asked for. */
static int read_bytes(int fd, const struct file_question *q, struct file_answer *ret)
{
	size_t n = MIN(q->n, (uint64_t)MAX_BYTES);
	_cleanup_free_ char *buf = malloc(n + 1);
	ssize_t got = buf ? pread(fd, buf, n, (off_t)q->at) : -1;
	int made = -1;

	ret->result = !buf ? -EAGAIN : got < 0 ? -EIO : (int)got;
	if (got > 0)
		made = sealed_make(&(struct iovec){ buf, (size_t)got }, 1);
	if (got > 0 && made < 0)
		ret->result = -EAGAIN;
	return made;
}

/* What a symbol's name means. */
static int read_name(int fd, struct file_answer *ret)
{
	char raw[SYMNAMES_RAW], name[SYMNAMES_MAX] = "";
	ssize_t n = pread(fd, raw, sizeof(raw) - 1, 0);
	int made = -1;

	raw[MAX(n, 0)] = '\0';
	if (n < 0 || !demangle(raw, name, sizeof(name)))
		name[0] = '\0';
	ret->result = (int)strlen(name);
	if (ret->result > 0)
		made = sealed_make(&(struct iovec){ name, strlen(name) }, 1);
	if (ret->result > 0 && made < 0)
		ret->result = -EAGAIN;
	return made;
}

/* Its tables are in the file that is returned, where there are any. */
static int answer(int socket, int fd, const struct file_question *q, struct file_answer *ret)
{
	switch (q->kind) {
	case FILE_CODE:
		return read_code(fd, q, ret);
	case FILE_PYTHON:
		return read_python(fd, ret);
	case FILE_LAYOUT:
		return read_layout(socket, fd, q, ret);
	case FILE_ID:
	case FILE_PROBE:
		return read_image(fd, q, ret);
	case FILE_BYTES:
		return read_bytes(fd, q, ret);
	case FILE_NAME:
		return read_name(fd, ret);
	case FILE_READ:
	case FILE_OPENED:
		break;
	}
	return read_file(socket, fd, q->rows, ret);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return clock_ns(&t);
}

static void fail(int socket)
{
	struct file_answer a = { .kind = FILE_DONE, .result = -EAGAIN, .last = true };

	fdpass_send(socket, &a, sizeof(a), NULL, 0);
	_exit(FAILED);
}

static void read_files(int socket)
{
	int fds[FDPASS_MAX], n, made;
	struct file_question q;
	struct file_answer a;

	do {
		n = fdpass_receive(socket, &q, sizeof(q), fds);
		if (n != 1 || q.kind == FILE_OPENED)
			_exit(0);
		memset(&a, 0, sizeof(a));
		made = answer(socket, fds[0], &q, &a);
		close(fds[0]);
		a.last = cpu_ns() > CPU_ENOUGH_NS;
		if (fdpass_send(socket, &a, sizeof(a), &made, made >= 0) < 0)
			_exit(0);
		if (made >= 0)
			close(made);
	} while (!a.last);
	_exit(0);
}

/* What one file took stays for the next: the kernel need not clear it again. */
static void keep_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	mallopt(M_TOP_PAD, 1 << 20);
}

static void reader(int socket, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	unprivileged_limit(RLIMIT_CPU, CPU_SECONDS);
	unprivileged_limit(RLIMIT_AS, MAX_SPACE);
	unprivileged_limit(RLIMIT_DATA, MAX_MEMORY);
	unprivileged_limit(RLIMIT_FSIZE, MODULE_WIRE_MAX);
	keep_memory();
	if (harden_thread(HARDEN_FILE, 0) < 0)
		fail(socket);
	read_files(socket);
}

/* --- The one that starts them --- */

/* Those that wait for a file end as we do. Who ends after us is a zombie where the first
 * process of a container buries nobody. */
static void wait_for_all(void)
{
	const struct timespec step = { .tv_nsec = 500000 };

	for (int i = 0; i < MAX_STEPS && waitpid(-1, NULL, WNOHANG) >= 0; i++)
		nanosleep(&step, NULL);
}

/* Who starts some, and hands on what is for who starts the others. */
struct server {
	int from, others; /* others: -1: there are none */
	enum pool_kind kind;
	void (*child)(int socket, pid_t parent);
};

static void start_child(const struct server *s, int socket, pid_t self)
{
	pid_t pid = fork();

	if (pid == 0) {
		close(s->from);
		close(s->others);
		s->child(socket, self);
	}
	if (pid < 0 && s->kind == POOL_READS) {
		struct file_answer a = { .kind = FILE_DONE, .result = -EAGAIN, .last = true };

		fdpass_send(socket, &a, sizeof(a), NULL, 0);
	}
}

static int serve(const struct server *s)
{
	int fds[FDPASS_MAX], n;
	pid_t self = getpid();
	char byte;

	family_bury();
	while ((n = fdpass_receive(s->from, &byte, 1, fds)) != -EPIPE) {
		if (n < 1)
			continue;
		if (byte == (char)s->kind)
			start_child(s, fds[0], self);
		else
			fdpass_send(s->others, &byte, 1, fds, 1);
		for (int i = 0; i < n; i++)
			close(fds[i]);
	}
	close(s->others);
	wait_for_all();
	return 0;
}

/* --- The first --- */

/* Nothing that is open, no folder and no signal of who started us holds us or is held by us.
 */
static int let_go(void)
{
	static const int unheard[] = { SIGINT,	SIGTERM, SIGHUP,  SIGPIPE,
				       SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t blocked;

	if (null < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || chdir("/") < 0)
		return -errno;
	syscall(SYS_close_range, 3u, ~0u, 0u); /* where there is none: close-on-exec does */
	sigemptyset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(unheard); i++)
		sigaddset(&blocked, unheard[i]);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	return 0;
}

static int give_up_rights(void)
{
	int r = unprivileged_become();

	if (r < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return r < 0 ? r : -errno;
	unprivileged_limit(RLIMIT_CORE, 0);
	unprivileged_limit(RLIMIT_NOFILE, MAX_FILES);
	return harden_process(HARDEN_SERVE | HARDEN_FILE, 0, NULL);
}

/* 0: it ended by itself, for its socket was closed. */
static int serve_once(const struct server *s)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(serve(s));
	if (pid < 0)
		return serve(s);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status;
}

static void serve_on(const struct server *s)
{
	const struct timespec pause = { .tv_nsec = 10000000 };

	while (serve_once(s) != 0)
		nanosleep(&pause, NULL);
}

/* --- Those that open files --- */

static void open_files(int socket, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent && harden_thread(HARDEN_OPEN, 0) == 0)
		opener_serve(socket);
	_exit(0);
}

/* They keep what opening the files of others takes. */
static void serve_opens(int from)
{
	const struct server s = {
		.from = from, .others = -1, .kind = POOL_OPENS, .child = open_files
	};
	const uint64_t caps = 1ull << CAP_SYS_PTRACE | 1ull << CAP_DAC_OVERRIDE |
			      1ull << CAP_DAC_READ_SEARCH | 1ull << CAP_SYS_ADMIN |
			      1ull << CAP_CHECKPOINT_RESTORE;

	prctl(PR_SET_NAME, "opener");
	close(0);
	unprivileged_limit(RLIMIT_CORE, 0);
	if (unprivileged_keep(caps) < 0 ||
	    harden_process(HARDEN_SERVE | HARDEN_OPEN, 0, NULL) < 0)
		return;
	serve_on(&s);
}

/* The socket to the first of them, or -errno. It ends as that is closed. */
static int start_opens(void)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		serve_opens(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	if (pid > 0)
		return ends[0];
	close(ends[0]);
	return -EAGAIN;
}

int file_serve_main(void)
{
	struct server s = { .others = -1, .kind = POOL_READS, .child = reader };

	if (let_go() < 0)
		return FAILED;
	s.others = start_opens();
	if (give_up_rights() < 0)
		return FAILED;
	serve_on(&s);
	close(s.others);
	wait_for_all();
	_exit(0);
}
