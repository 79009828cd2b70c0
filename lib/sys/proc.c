/* SPDX-License-Identifier: MIT
 *
 * proc - what /proc says about processes and threads.
 */
#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "sys/ask.h"
#include "sys/proc_int.h"

enum {
	EXITING = 4,	   /* PF_EXITING of the kernel's task flags */
	KERNEL = 0x200000, /* PF_KTHREAD */
};

/* The text after "\nNAME:" in a status file, or NULL. The thread's name comes
 * first and is the thread's own choice, but the kernel escapes its newlines. */
static const char *status_field(const char *status, const char *name)
{
	size_t n = strlen(name);

	for (const char *line = status; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, n) && line[n] == ':')
			return line + n + 1;
	}
	return NULL;
}

/* Of the numbers at @at, which may be NULL, the last one on the line; @tid: there is none. */
static pid_t last_number(const char *at, pid_t tid)
{
	pid_t last = tid;

	while (at && (*at == ' ' || *at == '\t')) {
		char *end;
		long v = strtol(at, &end, 10);

		if (end == at)
			break;
		last = (pid_t)v;
		at = end;
	}
	return last;
}

pid_t proc_inner_tid(pid_t pid, pid_t tid)
{
	_cleanup_free_ char *status = NULL;
	int r = proc_task_file(pid, tid, "status", &status);

	return r < 0 ? r : last_number(status_field(status, "NSpid"), tid);
}

/* Reads @fd up to the end of the line of that field: the line of all groups, which may be long,
 * comes before. NULL: no such line. */
static const char *read_up_to(int fd, const char *name, char *text, size_t size)
{
	enum { LINE = 512 };
	size_t have = 0;
	ssize_t n;

	while ((n = read(fd, text + have, size - 1 - have)) > 0) {
		const char *at;

		have += (size_t)n;
		text[have] = '\0';
		at = status_field(text, name);
		if (at && strchr(at, '\n'))
			return at;
		/* The line may have begun. */
		n = (ssize_t)MIN(have, (size_t)LINE);
		memmove(text, text + have - n, (size_t)n);
		have = (size_t)n;
	}
	return NULL;
}

pid_t proc_inner_tid_alone(pid_t pid, pid_t tid)
{
	char path[64], text[4096];
	pid_t ret;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return proc_gone(errno);
	ret = last_number(read_up_to(fd, "NSpid", text, sizeof(text)), -ESRCH);
	close(fd);
	return ret;
}

int proc_comm(pid_t pid, pid_t tid, char buf[16])
{
	_cleanup_free_ char *text = NULL;
	int r = proc_task_file(pid, tid, "comm", &text);
	size_t n;

	if (r < 0)
		return r;
	n = strlen(text);
	if (n && text[n - 1] == '\n') /* a name may have others */
		text[n - 1] = '\0';
	snprintf(buf, 16, "%s", text);
	return 0;
}

/* Field 3 of a stat file and what follows. */
static const char *fields_of(const char *text)
{
	const char *p = strrchr(text, ')'); /* the name in parentheses may hold anything */

	return p && p[1] == ' ' ? p + 2 : NULL;
}

/* proc_pid_stat(5) from field 3, the state, on; NULL: gone. *@text is the caller's to free. What
 * can't be looked at is there still, sleeps, and was there from the beginning. */
static const char *stat_fields(pid_t pid, pid_t tid, char **text)
{
	static const char hangs[] = "D 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0";
	int r = proc_task_file(pid, tid, "stat", text);

	return r == -ETIMEDOUT ? hangs : r < 0 ? NULL : fields_of(*text);
}

char proc_state(pid_t pid, pid_t tid)
{
	_cleanup_free_ char *status = NULL;
	int r = proc_task_file(pid, tid, "status", &status); /* unlike "stat" it does not hang */
	const char *state = r < 0 ? NULL : status_field(status, "State");

	return state ? state[1] : 0;
}

bool proc_thread_ended(pid_t pid, pid_t tid)
{
	_cleanup_free_ char *status = NULL;
	int r = proc_task_file(pid, tid, "status", &status);
	const char *state = r < 0 ? NULL : status_field(status, "State");

	return r == -ESRCH || (state && (state[1] == 'Z' || state[1] == 'X'));
}

/* Field 9; all flags are set where the process is gone. */
static unsigned flags_of(pid_t pid)
{
	_cleanup_free_ char *text = NULL;
	const char *fields = stat_fields(pid, pid, &text);
	unsigned flags;

	return fields && sscanf(fields, "%*c %*d %*d %*d %*d %*d %u", &flags) == 1 ? flags :
										     UINT_MAX;
}

/* Field 4. */
pid_t proc_parent(pid_t pid)
{
	_cleanup_free_ char *text = NULL;
	const char *fields = stat_fields(pid, pid, &text);
	pid_t parent;

	return fields && sscanf(fields, "%*c %d", &parent) == 1 ? parent : -ESRCH;
}

bool proc_lives(pid_t pid)
{
	return !(flags_of(pid) & EXITING);
}

char proc_kind(pid_t pid, bool *kernel)
{
	_cleanup_free_ char *text = NULL;
	const char *fields = stat_fields(pid, pid, &text);
	unsigned flags;
	char state;

	*kernel = false;
	if (!fields || sscanf(fields, "%c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
		return 0;
	*kernel = (flags & (KERNEL | EXITING)) == KERNEL;
	return state;
}

uint64_t proc_ran_ns(pid_t pid, pid_t tid)
{
	_cleanup_free_ char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
	return proc_read_file(path, &text, NULL) < 0 ? 0 : strtoull(text, NULL, 10);
}

/* Behind the time that it ran and the time that it waited for a CPU. */
uint64_t proc_turns(pid_t pid, pid_t tid)
{
	_cleanup_free_ char *text = NULL;
	unsigned long long turns;

	return proc_task_file(pid, tid, "schedstat", &text) == 0 &&
			       sscanf(text, "%*u %*u %llu", &turns) == 1 ?
		       turns :
		       0;
}

/* Field 28. */
static uint64_t root_of(const char *at)
{
	for (int field = 3; at && field < 28; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at ? strtoull(at, NULL, 10) : 0;
}

uint64_t proc_stack_root(pid_t pid)
{
	_cleanup_free_ char *text = NULL;

	return root_of(stat_fields(pid, pid, &text));
}

/* Field 22. */
static uint64_t age_of(const char *fields)
{
	unsigned long long began;
	struct timespec now;

	if (!fields ||
	    sscanf(fields, "%*c%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%llu",
		   &began) != 1)
		return UINT64_MAX;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return clock_ns(&now) - began * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

int proc_introduce(pid_t pid, char comm[16], uint64_t *root, uint64_t *age)
{
	_cleanup_free_ char *text = NULL;
	int r = proc_task_file(pid, pid, "stat", &text);
	char *begin, *end;

	if (r < 0)
		return r;
	begin = strchr(text, '(');
	end = strrchr(text, ')'); /* the name may hold anything */
	if (!begin || !end || end < begin || end[1] != ' ')
		return -ESRCH;
	*root = root_of(end + 2);
	*age = age_of(end + 2);
	*end = '\0';
	begin[1 + strcspn(begin + 1, "\n")] = '\0';
	snprintf(comm, 16, "%s", begin + 1);
	return 0;
}

int proc_cpu_ns(pid_t pid, uint64_t *ret)
{
	enum { CPUCLOCK_SCHED = 2 }; /* include/linux/posix-timers.h */
	struct timespec t;

	if (clock_gettime((clockid_t)(~(unsigned)pid << 3 | CPUCLOCK_SCHED), &t) < 0)
		return -errno;
	*ret = clock_ns(&t);
	return 0;
}

/* Of fields 3, 4, 14 to 17, 20, threads, 22 and 23, vsize. */
static int use_of(const char *fields, struct proc_use *ret)
{
	unsigned long long u, k, cu, ck, begun, memory;
	char state;
	int threads;

	if (!fields ||
	    sscanf(fields,
		   "%c%d%*s%*s%*s%*s%*s%*s%*s%*s%*s%llu%llu%llu%llu%*s%*s%d%*s%llu%llu",
		   &state, &ret->parent, &u, &k, &cu, &ck, &threads, &begun, &memory) != 9)
		return -ESRCH;
	ret->own = (struct cpu_ticks){ u, k };
	ret->children = (struct cpu_ticks){ cu, ck };
	ret->begun = begun;
	ret->memory = memory || (state == 'Z' && threads > 1);
	return 0;
}

void proc_use_each(const pid_t *pids, size_t n, struct proc_use *uses, ssize_t *rets)
{
	_cleanup_free_ struct ask *a = calloc(n + 1, sizeof(*a));

	for (size_t i = 0; i < n && a; i++) {
		a[i].look = proc_look_piece;
		snprintf(a[i].path, sizeof(a[i].path), "/proc/%d/stat", pids[i]);
	}
	if (a)
		ask_look_each(a, n, rets);
	for (size_t i = 0; i < n; i++) {
		if (!a)
			rets[i] = -ENOMEM;
		else if (rets[i] >= 0)
			rets[i] = use_of(fields_of(a[i].text), &uses[i]);
		else if (rets[i] != -ETIMEDOUT && !proc_is_short((int)rets[i]))
			rets[i] = -ESRCH;
		if (a)
			free(a[i].text);
	}
}

int proc_use(pid_t pid, struct proc_use *ret)
{
	ssize_t r;

	proc_use_each(&pid, 1, ret, &r);
	return (int)r;
}

uint64_t proc_age_ns(pid_t pid)
{
	_cleanup_free_ char *text = NULL;

	return age_of(stat_fields(pid, pid, &text));
}

int proc_pidfd(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

int proc_short(pid_t pid, int code, struct err *err)
{
	if (code == -ENOMEM)
		return err_set(err, code, "process %d can't be looked at: out of memory", pid);
	if (code == -ENOBUFS)
		return err_set(err, code,
			       "process %d can't be looked at: whoever reads its files has no "
			       "memory, or can't be had: raise the limit of processes (ulimit "
			       "-u)",
			       pid);
	return err_set(err, code,
		       "process %d can't be looked at, for there are no descriptors left: "
		       "raise the limit (ulimit -n)",
		       pid);
}

bool proc_has_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

bool proc_is_so_old(uint64_t age_ns, uint64_t ns)
{
	enum { TICK_NS = 20000000 };

	return age_ns != UINT64_MAX && age_ns + TICK_NS >= now_ns() - ns;
}

bool proc_was_there(pid_t pid, uint64_t ns)
{
	return proc_is_so_old(proc_age_ns(pid), ns);
}

/* The kernel gives /proc/PID of a process that may not be dumped to root. */
bool proc_dumpable(pid_t pid)
{
	struct proc_status status = { 0 };
	pid_t alive = pid;
	struct stat st;
	char path[64];

	proc_outlived(&alive);
	snprintf(path, sizeof(path), "/proc/%d/environ", alive);
	return proc_status(pid, &status) < 0 || proc_stat_by(proc_look_stat, path, &st) < 0 ||
	       st.st_uid == status.uid;
}

bool proc_exists(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return access(path, F_OK) == 0;
}

pid_t proc_tgid_memory(pid_t tid, enum proc_memory *memory)
{
	_cleanup_free_ char *status = NULL;
	const char *at, *state, *threads;
	int r = proc_task_file(tid, tid, "status", &status);

	/* /proc/TID/task/TID exists for any thread, TID need not be a leader. */
	if (r < 0)
		return r;
	state = status_field(status, "State");
	threads = status_field(status, "Threads");
	*memory = status_field(status, "VmSize") ? PROC_MEMORY : PROC_NO_MEMORY;
	if (state && state[1] == 'Z' && threads && strtol(threads, NULL, 10) > 1)
		*memory = PROC_OTHERS_MEMORY;
	at = status_field(status, "Tgid");
	return at ? (pid_t)strtol(at, NULL, 10) : -ESRCH;
}

pid_t proc_tgid(pid_t tid)
{
	enum proc_memory memory;

	return proc_tgid_memory(tid, &memory);
}

pid_t proc_outliver(pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	enum proc_memory memory;
	size_t n;

	if (proc_tgid_memory(pid, &memory) != pid || memory != PROC_OTHERS_MEMORY ||
	    proc_tasks(pid, &tids, &n) < 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (proc_tgid_memory(tids[i], &memory) == pid && memory == PROC_MEMORY)
			return tids[i];
	return 0;
}

bool proc_outlived(pid_t *pid)
{
	pid_t other = proc_outliver(*pid);

	*pid = other ? other : *pid;
	return other;
}

static ssize_t look_link(struct ask *a)
{
	ssize_t n;

	a->text = malloc(PATH_MAX);
	n = a->text ? readlink(a->path, a->text, PATH_MAX - 1) : -1;
	if (n < 0)
		return a->text ? -errno : -ENOMEM;
	a->text[n] = '\0';
	return n;
}

ssize_t proc_link(pid_t pid, const char *name, char *ret, size_t size)
{
	struct ask a = { .look = look_link };
	ssize_t n;

	snprintf(a.path, sizeof(a.path), "/proc/%d/%s", pid, name);
	n = ask_look(&a);
	snprintf(ret, size, "%s", n < 0 ? "" : a.text);
	free(a.text);
	if (n == -ENOENT && proc_outlived(&pid))
		return proc_link(pid, name, ret, size);
	return n < 0 ? -1 : (ssize_t)strlen(ret);
}

bool proc_is_process(pid_t pid, pid_t *parent)
{
	_cleanup_free_ char *status = NULL;
	const char *tgid, *ppid;

	if (proc_task_file(pid, pid, "status", &status) < 0)
		return false;
	tgid = status_field(status, "Tgid");
	ppid = status_field(status, "PPid");
	*parent = ppid ? (pid_t)strtol(ppid, NULL, 10) : 0;
	return tgid && strtol(tgid, NULL, 10) == pid;
}

static uint64_t status_number(const char *status, const char *name, int base)
{
	const char *at = status_field(status, name);

	return at ? strtoull(at, NULL, base) : 0;
}

void proc_status_parse(const char *status, struct proc_status *ret)
{
	const char *state = status_field(status, "State");
	const char *uid = status_field(status, "Uid"); /* real, effective */

	if (uid)
		uid = strpbrk(uid + strspn(uid, "\t"), "\t");
	*ret = (struct proc_status){
		.state = state && state[0] == '\t' ? state[1] : '\0',
		.euid = uid ? (uid_t)strtoul(uid, NULL, 10) : (uid_t)-1,
		.tracer = (pid_t)status_number(status, "TracerPid", 10),
		.uid = (uid_t)status_number(status, "Uid", 10),
		.seccomp = (unsigned)status_number(status, "Seccomp", 10),
		.pending = status_number(status, "SigPnd", 16),
		.blocked = status_number(status, "SigBlk", 16),
		.caught = status_number(status, "SigCgt", 16),
	};
}

int proc_status(pid_t tid, struct proc_status *ret)
{
	_cleanup_free_ char *status = NULL;
	int r = proc_task_file(tid, tid, "status", &status);

	if (r == 0)
		proc_status_parse(status, ret);
	return r;
}

uid_t proc_user(pid_t pid)
{
	struct proc_status s;

	return pid > 0 && proc_status(pid, &s) == 0 && s.euid != PROC_NOBODY ? s.uid :
									       PROC_NOBODY;
}

