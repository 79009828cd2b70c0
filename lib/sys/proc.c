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
#include <sys/sysmacros.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "sys/ask.h"

enum {
	PROC_FILE_MAX = 256 << 20, /* no file of /proc that we read is longer */
	EXITING = 4,		   /* PF_EXITING of the kernel's task flags */
	KERNEL = 0x200000,	   /* PF_KTHREAD */
};

/* To the end of the file, or until @is_whole (or NULL) says that this is it. */
static int fd_read_all(int fd, bool (*is_whole)(const char *text, size_t n), char **ret,
		       size_t *n)
{
	_cleanup_free_ char *buf = NULL;
	size_t len = 0, cap = 16384; /* the kernel gives a page at most of maps, always */
	ssize_t got;

	buf = malloc(cap);
	if (!buf)
		return -ENOMEM;
	for (;;) {
		got = read(fd, buf + len, cap - len - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		len += (size_t)got;
		if (is_whole && is_whole(buf, len))
			break;
		if (cap - len > 1)
			continue;
		cap *= 2;
		if (cap > PROC_FILE_MAX)
			return -EFBIG;
		char *grown = realloc(buf, cap);
		if (!grown)
			return -ENOMEM;
		buf = grown;
	}
	buf[len] = '\0';
	*ret = buf;
	buf = NULL;
	if (n)
		*n = len;
	return 0;
}

/* @path in @a; false: it is too long for a file of a process. */
static bool ask_about(struct ask *a, const char *path)
{
	return (size_t)snprintf(a->path, sizeof(a->path), "%s", path) < sizeof(a->path);
}

static int read_path(const char *path, bool (*is_whole)(const char *text, size_t n),
		     char **ret, size_t *n)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	return fd < 0 ? -errno : fd_read_all(fd, is_whole, ret, n);
}

static ssize_t look_read(struct ask *a)
{
	return read_path(a->path, a->is_whole, &a->text, &a->n);
}

int proc_read_until(const char *path, bool (*is_whole)(const char *text, size_t n), char **ret,
		    size_t *n)
{
	struct ask a = { .look = look_read, .is_whole = is_whole };
	int r;

	if (!ask_about(&a, path))
		return read_path(path, is_whole, ret, n);
	r = (int)ask_look(&a);
	if (r < 0)
		return r;
	*ret = a.text;
	if (n)
		*n = a.n;
	return 0;
}

int proc_read_file(const char *path, char **ret, size_t *n)
{
	return proc_read_until(path, NULL, ret, n);
}

/* A file that the kernel writes in one piece: what is shorter than the room for it is whole,
 * and no second read has to tell so. */
static ssize_t look_piece(struct ask *a)
{
	_cleanup_close_ int fd = open(a->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char buf[4096];
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));

	if (n < 0)
		return -errno;
	if ((size_t)n == sizeof(buf))
		return look_read(a);
	a->text = strndup(buf, (size_t)n);
	return a->text ? 0 : -ENOMEM;
}

int proc_read_piece(const char *path, char **ret)
{
	struct ask a = { .look = look_piece };
	int r;

	if (!ask_about(&a, path))
		return proc_read_file(path, ret, NULL);
	r = (int)ask_look(&a);
	if (r == 0)
		*ret = a.text;
	return r;
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

static ssize_t look_stat(struct ask *a)
{
	return stat(a->path, &a->st) < 0 ? -errno : 0;
}

/* Of a file of a process. */
static int stat_by(ssize_t (*look)(struct ask *a), const char *path, struct stat *ret)
{
	struct ask a = { .look = look };
	int r = ask_about(&a, path) ? (int)ask_look(&a) : -ENAMETOOLONG;

	if (r == 0)
		*ret = a.st;
	return r;
}

static int task_file(pid_t pid, pid_t tid, const char *name, char **ret)
{
	char path[80];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	r = proc_read_piece(path, ret);
	return r < 0 ? proc_gone(-r) : 0;
}

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

pid_t proc_inner_tid(pid_t pid, pid_t tid)
{
	_cleanup_free_ char *status = NULL;
	const char *at;
	pid_t last = tid;
	int r = task_file(pid, tid, "status", &status);

	if (r < 0)
		return r;
	at = status_field(status, "NSpid");
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

int proc_comm(pid_t pid, pid_t tid, char buf[16])
{
	_cleanup_free_ char *text = NULL;
	int r = task_file(pid, tid, "comm", &text);
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
	int r = task_file(pid, tid, "stat", text);

	return r == -ETIMEDOUT ? hangs : r < 0 ? NULL : fields_of(*text);
}

char proc_state(pid_t pid, pid_t tid)
{
	_cleanup_free_ char *status = NULL;
	int r = task_file(pid, tid, "status", &status); /* unlike "stat" it does not hang */
	const char *state = r < 0 ? NULL : status_field(status, "State");

	return state ? state[1] : 0;
}

bool proc_thread_ended(pid_t pid, pid_t tid)
{
	_cleanup_free_ char *status = NULL;
	int r = task_file(pid, tid, "status", &status);
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

	return task_file(pid, tid, "schedstat", &text) == 0 &&
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
	int r = task_file(pid, pid, "stat", &text);
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
		a[i].look = look_piece;
		snprintf(a[i].path, sizeof(a[i].path), "/proc/%d/stat", pids[i]);
	}
	if (a)
		ask_look_each(a, n, rets);
	for (size_t i = 0; i < n; i++) {
		if (!a)
			rets[i] = -ENOMEM;
		else if (rets[i] != -ETIMEDOUT)
			rets[i] = use_of(rets[i] < 0 ? NULL : fields_of(a[i].text), &uses[i]);
		if (a)
			free(a[i].text);
	}
}

int proc_use(pid_t pid, struct proc_use *ret)
{
	ssize_t r;

	proc_use_each(&pid, 1, ret, &r);
	return r < 0 ? -ESRCH : 0;
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
	return proc_status(pid, &status) < 0 || stat_by(look_stat, path, &st) < 0 ||
	       st.st_uid == status.uid;
}

static ssize_t look_known(struct ask *a)
{
	struct statx st;

	if (statx(AT_FDCWD, a->path, AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) < 0)
		return -errno;
	a->st = (struct stat){ .st_dev = makedev(st.stx_dev_major, st.stx_dev_minor),
			      .st_ino = st.stx_ino,
			      .st_mode = st.stx_mode,
			      .st_size = (off_t)st.stx_size,
			      .st_mtim = { st.stx_mtime.tv_sec, st.stx_mtime.tv_nsec },
			      .st_ctim = { st.stx_ctime.tv_sec, st.stx_ctime.tv_nsec } };
	return 0;
}

int proc_stat_known(const char *path, struct stat *ret)
{
	return stat_by(look_known, path, ret);
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
	int r = task_file(tid, tid, "status", &status);

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

	if (task_file(pid, pid, "status", &status) < 0)
		return false;
	tgid = status_field(status, "Tgid");
	ppid = status_field(status, "PPid");
	*parent = ppid ? (pid_t)strtol(ppid, NULL, 10) : 0;
	return tgid && strtol(tgid, NULL, 10) == pid;
}

int proc_own_pid_namespace(dev_t *dev, ino_t *ino)
{
	static _Atomic ino_t own;
	static _Atomic dev_t own_dev;
	struct stat st;

	if (!own) {
		if (stat("/proc/self/ns/pid", &st) < 0)
			return -errno;
		own_dev = st.st_dev;
		own = st.st_ino;
	}
	*dev = own_dev;
	*ino = own;
	return 0;
}

void proc_same_pid_namespace_each(const pid_t *pids, size_t n, bool *same)
{
	_cleanup_free_ struct ask *a = calloc(n + 1, sizeof(*a));
	_cleanup_free_ ssize_t *rets = calloc(n + 1, sizeof(*rets));
	ino_t own;
	dev_t dev;

	memset(same, 0, n * sizeof(*same));
	if (!a || !rets || proc_own_pid_namespace(&dev, &own) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		a[i].look = look_stat;
		snprintf(a[i].path, sizeof(a[i].path), "/proc/%d/ns/pid", pids[i]);
	}
	ask_look_each(a, n, rets);
	for (size_t i = 0; i < n; i++) /* all namespaces are files of one file system */
		same[i] = rets[i] == 0 && a[i].st.st_ino == own;
}

bool proc_same_pid_namespace(pid_t pid)
{
	bool same;

	proc_same_pid_namespace_each(&pid, 1, &same);
	return same;
}

/* Of @who: a number for its root, and one for that with its mounts. Mount namespaces are files of
 * one file system. */
static int view_of(const char *who, uint64_t *root, uint64_t *all)
{
	struct ask a[2] = { { .look = look_known }, { .look = look_known } };
	ssize_t r[2];

	snprintf(a[0].path, sizeof(a[0].path), "/proc/%s/ns/mnt", who);
	snprintf(a[1].path, sizeof(a[1].path), "/proc/%s/root", who);
	ask_look_each(a, 2, r);
	if (r[0] < 0 || r[1] < 0)
		return (int)MIN(r[0], r[1]);
	*root = hash_pair(a[1].st.st_dev, a[1].st.st_ino);
	*all = hash_more(*root, a[0].st.st_ino);
	return 0;
}

int proc_view(pid_t pid, uint64_t *ret)
{
	static _Atomic uint64_t own;
	uint64_t ours = own, root = 0, all;
	char who[16];
	int r;

	if (!ours && view_of("self", &ours, &all) == 0)
		own = ours;
	snprintf(who, sizeof(who), "%d", pid);
	r = view_of(who, &root, &all);
	if (r == -ETIMEDOUT)
		all = hash_u64((uint64_t)pid);
	else if (r < 0)
		return proc_outlived(&pid) ? proc_view(pid, ret) : r;
	*ret = root == ours ? 0 : all;
	return 0;
}

bool proc_is_elsewhere(pid_t pid)
{
	struct stat ours, its;
	char path[64], root[3];

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", pid);
	if (stat("/proc/self/ns/mnt", &ours) < 0)
		return false;
	if (stat_by(look_stat, path, &its) < 0)
		return proc_outlived(&pid) && proc_is_elsewhere(pid);
	return ours.st_ino != its.st_ino || proc_link(pid, "root", root, sizeof(root)) > 1;
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
	int r = task_file(tid, tid, "status", &status);

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

int proc_syscall_parse(const char *text, struct proc_wait *ret)
{
	char *end;
	const char *sp;

	if (strncmp(text, "running", 7) == 0)
		return -EAGAIN;
	ret->syscall = (int)strtol(text, &end, 10);
	sp = end;
	ret->arg = 0;
	for (int i = 0; ret->syscall != -1 && i < 6; i++, sp = end) {
		uint64_t arg = strtoull(sp, &end, 16);

		ret->arg = i ? ret->arg : arg;
	}
	ret->sp = strtoull(sp, &end, 16);
	ret->pc = strtoull(end, NULL, 16);
	return ret->pc ? 0 : -EAGAIN;
}

int proc_syscall(pid_t pid, pid_t tid, struct proc_wait *ret)
{
	_cleanup_free_ char *text = NULL;
	int r = task_file(pid, tid, "syscall", &text);

	*ret = (struct proc_wait){ .syscall = -1 };
	return r == 0 ? proc_syscall_parse(text, ret) : r;
}

void proc_syscall_each(const pid_t *tids, size_t n, struct proc_wait *rets)
{
	_cleanup_free_ struct ask *a = calloc(n + 1, sizeof(*a));
	_cleanup_free_ ssize_t *r = calloc(n + 1, sizeof(*r));

	memset(rets, 0, n * sizeof(*rets));
	for (size_t i = 0; i < n && a && r; i++) {
		a[i].look = look_piece;
		snprintf(a[i].path, sizeof(a[i].path), "/proc/%d/task/%d/syscall", tids[i],
			 tids[i]);
	}
	if (a && r)
		ask_look_each(a, n, r);
	for (size_t i = 0; i < n && a && r; i++) {
		if (r[i] < 0 || proc_syscall_parse(a[i].text, &rets[i]) < 0)
			rets[i].pc = 0;
		free(a[i].text);
	}
}

int proc_wait(pid_t pid, pid_t tid, struct proc_wait *ret)
{
	_cleanup_free_ char *wchan = NULL;
	int r = proc_syscall(pid, tid, ret);

	if (r == 0 && task_file(pid, tid, "wchan", &wchan) == 0 && strcmp(wchan, "0") != 0)
		snprintf(ret->wchan, sizeof(ret->wchan), "%s", wchan);
	return r;
}
