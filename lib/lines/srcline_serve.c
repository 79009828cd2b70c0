/* SPDX-License-Identifier: MIT
 *
 * srcline_serve - the process that serves questions about lines: it gives up all rights before
 * it takes the first. It holds no file: a child takes each question, and has it answered in
 * one of its own with limits. Where the file system does not answer both are left behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "base/base.h"
#include "elf/elfplain.h"
#include "lines/srcline_int.h"
#include "sys/family.h"
#include "sys/fdpass.h"
#include "sys/proc.h"
#include "sys/unprivileged.h"

enum {
	CPU_SECONDS = 60,
	NOBODY = UNPRIVILEGED_NOBODY,
	HIGH = 16, /* descriptors from here on are ours */
	NO_LIMIT = 0, /* of looks */
};

#define MAX_SPACE ((rlim_t)8 << 30) /* of addresses: files are mapped */
#define MAX_MEMORY ((rlim_t)1 << 30)

/* --- rights --- */

static void make_folders(char *path)
{
	for (char *p = path + 1; *p; p++)
		if (*p == '/') {
			*p = '\0';
			mkdir(path, 0700);
			*p = '/';
		}
	mkdir(path, 0700);
}

/* The cache of debuginfod. Root's downloads are kept in a folder of nobody's in it, which who
 * has no rights reaches by a descriptor only. */
static void open_cache(void)
{
	const char *set = getenv("DEBUGINFOD_CACHE_PATH"), *xdg = getenv("XDG_CACHE_HOME"),
		   *home = getenv("HOME"), *own = geteuid() ? "" : "/nobody";
	char path[PATH_MAX];
	int fd;

	if (set)
		snprintf(path, sizeof(path), "%s%s", set, own);
	else if (xdg)
		snprintf(path, sizeof(path), "%s/debuginfod_client%s", xdg, own);
	else
		snprintf(path, sizeof(path), "%s/.cache/debuginfod_client%s", home ? home : "",
			 own);
	make_folders(path);
	if (geteuid() == 0) {
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || fchown(fd, NOBODY, NOBODY) < 0)
			return;
		fd = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	setenv("DEBUGINFOD_CACHE_PATH", path, 1);
}

struct server {
	int from, said; /* closed when who has a question answered has said how that ended */
	int (*answer)(void), (*fetch)(void);
};

/* --- a child --- */

/* Its time is up by a signal, which it can't put off any more once it is hardened. */
static void set_limits(uint32_t ms)
{
	struct itimerval end = { .it_value = { ms / 1000, ms % 1000 * 1000 } };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setitimer(ITIMER_REAL, &end, NULL);
	unprivileged_limit(RLIMIT_CORE, 0);
	unprivileged_limit(RLIMIT_CPU, CPU_SECONDS);
	unprivileged_limit(RLIMIT_AS, MAX_SPACE);
	unprivileged_limit(RLIMIT_DATA, MAX_MEMORY);
}

/* @fds become its descriptors; of them the last may be missing. */
static void child(const struct server *s, const int fds[SRCLINE_END],
		  const struct srcline_question *q, int (*run)(void))
{
	static const int sigs[] = { SIGINT,  SIGTERM, SIGHUP, SIGPIPE,
				    SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU };

	for (size_t i = 0; i < ARRAY_SIZE(sigs); i++)
		signal(sigs[i], SIG_DFL);
	close(s->from);
	close(s->said);
	for (int i = 0; i < SRCLINE_END; i++)
		if (fds[i] >= 0)
			dup2(fds[i], i);
	for (int i = 0; i < SRCLINE_END; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	lseek(SRCLINE_QUESTION, 0, SEEK_SET);
	set_limits(q->ms);
	if (run == s->answer) /* what is fetched may be large */
		unprivileged_limit(RLIMIT_FSIZE, ELFPLAIN_MAX);
	_exit(run()); /* the kernel frees it all, and faster */
}

/* How it ends. @looks: so many that find that it did nothing, and it is left to hang. */
static int await(pid_t pid, uint32_t looks)
{
	struct pollfd p = { .fd = proc_pidfd(pid), .events = POLLIN };
	uint64_t ran = 0, before = 0;
	int status = W_EXITCODE(SRCLINE_FAILED, 0);
	uint32_t still = 0;
	pid_t r;

	while ((r = waitpid(pid, &status, WNOHANG)) == 0 && (!looks || still < looks)) {
		poll(&p, 1, SRCLINE_LOOK_MS);
		ran = proc_ran_ns(pid, pid);
		still = ran && ran == before && proc_state(pid, pid) != 'R' ? still + 1 : 0;
		before = ran;
	}
	if (p.fd >= 0)
		close(p.fd);
	if (r != 0)
		return status;
	kill(pid, SIGKILL);
	return W_EXITCODE(SRCLINE_HANGS, 0);
}

static int run_child(const struct server *s, const int fds[SRCLINE_END],
		     const struct srcline_question *q, int (*run)(void), uint32_t looks)
{
	pid_t pid = fork();

	if (pid == 0)
		child(s, fds, q, run);
	return pid < 0 ? W_EXITCODE(SRCLINE_FAILED, 0) : await(pid, looks);
}

/* --- the process --- */

static bool read_question(int fd, struct srcline_question *q)
{
	return pread(fd, q, sizeof(*q), 0) == sizeof(*q) &&
	       memchr(q->debug, '\0', sizeof(q->debug));
}

/* The debug file that @fetch has got. */
static int open_debug(int question)
{
	struct srcline_question q;
	int fd;

	if (!read_question(question, &q))
		return -1;
	fd = open(q.debug, O_RDONLY | O_CLOEXEC);
	q.has_debug = fd >= 0;
	return pwrite(question, &q, sizeof(q), 0) == sizeof(q) ? fd : -1;
}

/* False: its file was open too late, and who asked has gone on. */
static bool is_awaited(int answer)
{
	return poll(&(struct pollfd){ .fd = answer }, 1, 0) == 0;
}

static int serve_one(const struct server *s, int fds[SRCLINE_END])
{
	const int only[SRCLINE_END] = { fds[SRCLINE_QUESTION], -1, -1, -1, -1, -1 };
	struct srcline_question q;
	int low, status;

	if (!read_question(fds[SRCLINE_QUESTION], &q) || !is_awaited(fds[SRCLINE_ANSWER]))
		return W_EXITCODE(SRCLINE_FAILED, 0);
	status = run_child(s, fds, &q, s->answer, q.looks);
	if (status != W_EXITCODE(SRCLINE_WANTED, 0))
		return status;
	status = W_EXITCODE(SRCLINE_NO_DEBUG, 0);
	if (!q.debuginfod || run_child(s, only, &q, s->fetch, NO_LIMIT) != 0)
		return status;
	low = open_debug(fds[SRCLINE_QUESTION]);
	fds[SRCLINE_DEBUG] = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, HIGH);
	if (low >= 0)
		close(low);
	return fds[SRCLINE_DEBUG] < 0 ? status : run_child(s, fds, &q, s->answer, q.looks);
}

/* The descriptors of the next question, above those of a child. To close one may hang. */
static bool take(int from, int fds[SRCLINE_END])
{
	static const int place[] = { SRCLINE_FILE, SRCLINE_QUESTION, SRCLINE_ANSWER,
				     SRCLINE_ROOT };
	int got[FDPASS_MAX], n;
	uint32_t number;

	n = fdpass_receive(from, &number, sizeof(number), got);
	if (n < 0 && n != -EMFILE) /* then the question lacks all, and fails */
		return false;
	for (int i = 0; i < SRCLINE_END; i++)
		fds[i] = -1;
	for (int i = 0; i < n && i < (int)ARRAY_SIZE(place); i++)
		fds[place[i]] = fcntl(got[i], F_DUPFD_CLOEXEC, HIGH);
	return true;
}

static bool say_end(int to, uint32_t number, int status)
{
	const struct srcline_end end = { number, status };

	return write(to, &end, sizeof(end)) == sizeof(end);
}

/* In a process of its own. */
static _Noreturn void take_one(const struct server *s, uint32_t number)
{
	int fds[SRCLINE_END];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_DFL);
	if (take(s->from, fds) && say_end(s->from, number, serve_one(s, fds)))
		_exit(write(s->said, "", 1) != 1);
	_exit(SRCLINE_FAILED);
}

/* The next question. False: there will be none. */
static bool serve_next(struct server *s)
{
	uint32_t number;
	int said[2];
	char byte;
	pid_t pid;

	if (recv(s->from, &number, sizeof(number), MSG_PEEK) != sizeof(number) ||
	    pipe2(said, O_CLOEXEC) < 0)
		return false;
	s->said = said[1];
	pid = fork();
	if (pid == 0)
		take_one(s, number);
	close(said[1]);
	if (pid > 0 && read(said[0], &byte, 1) != 1)
		say_end(s->from, number, W_EXITCODE(SRCLINE_FAILED, 0));
	close(said[0]);
	return pid > 0;
}

int srcline_serve(bool debuginfod, int (*answer)(void), int (*fetch)(void))
{
	static const int sigs[] = { SIGINT,  SIGTERM, SIGHUP, SIGPIPE,
				    SIGTSTP, SIGTTIN, SIGTTOU };
	struct server s = { fcntl(0, F_DUPFD_CLOEXEC, HIGH), -1, answer, fetch };
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(sigs); i++)
		signal(sigs[i], SIG_IGN);
	family_bury();
	if (debuginfod)
		open_cache();
	if (s.from < 0 || unprivileged_become() < 0)
		return SRCLINE_FAILED;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (serve_next(&s))
		;
	return 0;
}
