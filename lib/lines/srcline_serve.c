/* SPDX-License-Identifier: MIT
 *
 * srcline_serve - the process that serves questions about lines: it gives up all rights before
 * it takes the first, and has each answered in a child with limits.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "base/base.h"
#include "lines/srcline_int.h"
#include "sys/fdpass.h"
#include "sys/unprivileged.h"

enum {
	CPU_SECONDS = 60,
	NOBODY = UNPRIVILEGED_NOBODY,
	HIGH = 16, /* descriptors from here on are ours */
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
static void child(const int fds[SRCLINE_END], const struct srcline_question *q,
		  int (*run)(void))
{
	static const int sigs[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGALRM };

	for (size_t i = 0; i < ARRAY_SIZE(sigs); i++)
		signal(sigs[i], SIG_DFL);
	for (int i = 0; i < SRCLINE_END; i++)
		if (fds[i] >= 0)
			dup2(fds[i], i);
	for (int i = 0; i < SRCLINE_END; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	lseek(SRCLINE_QUESTION, 0, SEEK_SET);
	set_limits(q->ms);
	_exit(run()); /* the kernel frees it all, and faster */
}

static int run_child(const int fds[SRCLINE_END], const struct srcline_question *q,
		     int (*run)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		child(fds, q, run);
	while (pid < 0 || waitpid(pid, &status, 0) < 0)
		if (pid < 0 || errno != EINTR)
			return W_EXITCODE(SRCLINE_FAILED, 0);
	return status;
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

static int serve_one(int fds[SRCLINE_END], int (*answer)(void), int (*fetch)(void))
{
	const int only[SRCLINE_END] = { fds[SRCLINE_QUESTION], -1, -1, -1, -1, -1 };
	struct srcline_question q;
	int low, status;

	if (!read_question(fds[SRCLINE_QUESTION], &q))
		return W_EXITCODE(SRCLINE_FAILED, 0);
	status = run_child(fds, &q, answer);
	if (status != W_EXITCODE(SRCLINE_WANTED, 0))
		return status;
	status = W_EXITCODE(SRCLINE_NO_DEBUG, 0);
	if (!q.debuginfod || run_child(only, &q, fetch) != 0)
		return status;
	low = open_debug(fds[SRCLINE_QUESTION]);
	fds[SRCLINE_DEBUG] = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, HIGH);
	if (low >= 0)
		close(low);
	return fds[SRCLINE_DEBUG] < 0 ? status : run_child(fds, &q, answer);
}

/* The descriptors of the next question, above those of a child. */
static bool take(int from, int fds[SRCLINE_END])
{
	static const int place[] = { SRCLINE_FILE, SRCLINE_QUESTION, SRCLINE_ANSWER,
				     SRCLINE_ROOT };
	int got[FDPASS_MAX], n;
	char byte;

	n = fdpass_receive(from, &byte, 1, got);
	if (n < 0 && n != -EMFILE) /* then the question lacks all, and fails */
		return false;
	for (int i = 0; i < SRCLINE_END; i++)
		fds[i] = -1;
	for (int i = 0; i < n; i++) {
		if (i < (int)ARRAY_SIZE(place))
			fds[place[i]] = fcntl(got[i], F_DUPFD_CLOEXEC, HIGH);
		close(got[i]);
	}
	return true;
}

int srcline_serve(bool debuginfod, int (*answer)(void), int (*fetch)(void))
{
	static const int sigs[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
	int from = fcntl(0, F_DUPFD_CLOEXEC, HIGH), fds[SRCLINE_END], status;
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(sigs); i++)
		signal(sigs[i], SIG_IGN);
	if (debuginfod)
		open_cache();
	if (from < 0 || unprivileged_become() < 0)
		return SRCLINE_FAILED;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (take(from, fds)) {
		status = serve_one(fds, answer, fetch);
		for (int i = 0; i < SRCLINE_END; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		if (write(from, &status, sizeof(status)) < 0)
			break;
	}
	return 0;
}
