/* SPDX-License-Identifier: MIT
 *
 * ways - every way that the kernel has to change another process, tried from inside ours.
 *
 * To be preloaded into pysampled. WAYS_LOG: a file of WAYS_SIZE bytes that gets a line for
 * each try, "WHERE TID: WAY=ERRNO ...", and what rights the thread has, behind the number of
 * its bytes: it is mapped, for some close all that they have open; WAYS_PID: the process that
 * it is tried on, WAYS_AT: an address there. A thread tries when it gets signal WAYS_SIGNAL, when it creates a
 * thread, before it reads DWARF or loads debuginfod, and at the process's end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WAYS_SIGNAL = 50, NONE = 424242, WAYS_SIZE = 1 << 20 };

static struct {
	_Atomic uint64_t n;
	char text[WAYS_SIZE - sizeof(uint64_t)];
} *out;
static pid_t pid;
static unsigned long at;

static long try_open(int flags, const char *name)
{
	char path[64];
	long fd, ret;
	int e;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
	if (fd < 0)
		return -1;
	ret = pwrite((int)fd, "W", 1, (off_t)at);
	e = errno;
	close((int)fd);
	errno = e;
	return ret;
}

static long try_openat2(void)
{
	struct open_how how = { .flags = O_RDWR };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	return syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static long try_bpf(void)
{
	union bpf_attr a = { .prog_type = BPF_PROG_TYPE_PERF_EVENT };

	return syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a));
}

static long try_limit(void)
{
	struct rlimit r = { 0 };

	prlimit(pid, RLIMIT_CORE, NULL, &r);
	return syscall(SYS_prlimit64, pid, RLIMIT_CORE, &r, NULL);
}

static long try_exec(void)
{
	char *argv[] = { NULL };

	return syscall(SYS_execve, "/nonexistent", argv, argv);
}

static long try_fork(void)
{
	long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (child == 0)
		syscall(SYS_exit_group, 0);
	return child;
}

#define WAYS(X)                                                                           \
	X(process_vm_writev, syscall(SYS_process_vm_writev, pid, &from, 1, &to, 1, 0))    \
	X(mem_rdwr, try_open(O_RDWR, "mem"))                                              \
	X(mem_wronly, try_open(O_WRONLY, "mem"))                                          \
	X(mem_openat2, try_openat2())                                                     \
	X(clear_refs, try_open(O_WRONLY, "clear_refs"))                                   \
	X(oom_score_adj, try_open(O_WRONLY, "oom_score_adj"))                             \
	X(attach, syscall(SYS_ptrace, PTRACE_ATTACH, NONE, 0, 0))                         \
	X(seize_exitkill, syscall(SYS_ptrace, PTRACE_SEIZE, NONE, 0, PTRACE_O_EXITKILL))  \
	X(poke, syscall(SYS_ptrace, PTRACE_POKEDATA, NONE, at, 1))                        \
	X(setregset, syscall(SYS_ptrace, PTRACE_SETREGSET, NONE, 1, &from))               \
	X(setoptions, syscall(SYS_ptrace, PTRACE_SETOPTIONS, NONE, 0, PTRACE_O_EXITKILL)) \
	X(setsiginfo, syscall(SYS_ptrace, PTRACE_SETSIGINFO, NONE, 0, &from))             \
	X(interrupt, syscall(SYS_ptrace, PTRACE_INTERRUPT, NONE, 0, 0))                   \
	X(ptrace_kill, syscall(SYS_ptrace, PTRACE_KILL, NONE, 0, 0))                      \
	X(pidfd_getfd, syscall(SYS_pidfd_getfd, NONE, 0, 0))                              \
	X(process_madvise, syscall(SYS_process_madvise, NONE, &to, 1, MADV_COLD, 0))      \
	X(process_mrelease, syscall(SYS_process_mrelease, NONE, 0))                       \
	X(move_pages, syscall(SYS_move_pages, pid, 1, NULL, NULL, NULL, 0))               \
	X(kill, syscall(SYS_kill, pid, 0))                                                \
	X(tkill, syscall(SYS_tkill, pid, 0))                                              \
	X(tgkill, syscall(SYS_tgkill, pid, pid, 0))                                       \
	X(sigqueue, syscall(SYS_rt_sigqueueinfo, pid, SIGWINCH, NULL))                    \
	X(tgsigqueue, syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGWINCH, NULL))           \
	X(pidfd_signal, syscall(SYS_pidfd_send_signal, NONE, SIGWINCH, NULL, 0))          \
	X(setsig_kill, syscall(SYS_fcntl, NONE, F_SETSIG, SIGKILL))                       \
	X(setown, syscall(SYS_fcntl, NONE, F_SETOWN, pid))                                \
	X(fiosetown, syscall(SYS_ioctl, NONE, 0x8901, &pid))                              \
	X(tiocsti, syscall(SYS_ioctl, NONE, TIOCSTI, "W"))                                \
	X(prlimit, try_limit())                                                           \
	X(setpriority, syscall(SYS_setpriority, PRIO_PROCESS, NONE, 0))                   \
	X(prctl_sched_core, syscall(SYS_prctl, 62, 99, pid, 0, 0))                        \
	X(bpf_load, try_bpf())                                                            \
	X(userfaultfd, syscall(SYS_userfaultfd, O_CLOEXEC | 1))                           \
	X(io_uring, syscall(SYS_io_uring_setup, 0, NULL))                                 \
	X(execve, try_exec())                                                             \
	X(fork, try_fork())                                                               \
	X(setns, syscall(SYS_setns, NONE, 0))                                             \
	X(socket, syscall(SYS_socket, 2, 2, 0))

/* What /proc says of its rights. */
static size_t rights(char *buf, size_t size)
{
	static const char *const names[] = { "CapInh", "CapPrm",     "CapEff", "CapBnd",
					     "CapAmb", "NoNewPrivs", "Uid" };
	char text[4096] = "";
	int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
	size_t n = 0;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return 0;
	close(fd);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *p = strstr(text, names[i]);
		size_t skip = strlen(names[i]) + 2;

		if (p)
			n += (size_t)snprintf(buf + n, size - n, " %s=%.*s", names[i],
					      (int)strcspn(p + skip, "\t\n"), p + skip);
	}
	return n;
}

static void try_all(const char *where)
{
	char buf[4096];
	struct iovec from = { "W", 1 }, to = { (void *)at, 1 };
	int e = errno;
	size_t n, place;

	if (!out)
		return;
	n = (size_t)snprintf(buf, sizeof(buf), "%s %d:", where, gettid());
#define X(name, expr)                                                    \
	errno = 0;                                                       \
	n += (size_t)snprintf(buf + n, sizeof(buf) - n, " " #name "=%d", \
			      (expr) < 0 ? errno : 0);
	WAYS(X)
#undef X
	n += rights(buf + n, sizeof(buf) - n);
	buf[n++] = '\n';
	place = atomic_fetch_add(&out->n, n);
	if (place + n > sizeof(out->text))
		abort();
	memcpy(out->text + place, buf, n);
	errno = e;
}

static void on_signal(int sig)
{
	(void)sig;
	try_all("thread");
}

__attribute__((constructor)) static void begin(void)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	const char *log = getenv("WAYS_LOG"), *p = getenv("WAYS_PID"), *a = getenv("WAYS_AT");

	void *map;
	int fd;

	if (!log || !p || !a)
		return;
	pid = atoi(p);
	at = strtoul(a, NULL, 10);
	fd = open(log, O_RDWR | O_CLOEXEC);
	map = mmap(NULL, WAYS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	out = map == MAP_FAILED ? NULL : map;
	sigaction(WAYS_SIGNAL, &act, NULL);
}

__attribute__((destructor)) static void end(void)
{
	try_all("end");
}

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*f)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		(int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
			RTLD_NEXT, "pthread_create");

	try_all("create");
	return real(t, attr, f, arg);
}

/* libelf asks so for each file that libdw begins to read, also where it is linked statically.
 */
int fcntl(int fd, int cmd, ...)
{
	int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl");
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	if (cmd == F_GETFD)
		try_all("lines");
	return real(fd, cmd, arg);
}

void *dlopen(const char *name, int flags)
{
	void *(*real)(const char *, int) =
		(void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");

	if (name && strstr(name, "debuginfod"))
		try_all("fetch");
	return real(name, flags);
}
