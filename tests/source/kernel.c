/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../unit/pyworld.h"
#include "python/pyfind.h"
#include "sys/cpus.h"

struct kernel_cpu kernel_cpus[KERNEL_MAX_CPUS];
int kernel_n_cpus = 4;

static struct {
	pid_t root;
	struct world *world;
	raddr thread_at; /* where the first thread's state has the number of that thread */
	pthread_mutex_t lock;
	struct {
		bool is_event, is_ring;
		int cpu;
	} fd[KERNEL_FDS];
} kernel = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local int own_cpu;

void kernel_begin(pid_t root, struct world *world, uint64_t thread_at)
{
	kernel.root = root;
	kernel.world = world;
	kernel.thread_at = thread_at;
	memset(kernel_cpus, 0, sizeof(kernel_cpus));
}

/* --- events --- */

enum { FIRST_ID = 1000 };

/* Events that see all of a CPU are refused, so that they are opened on threads. */
static long event_open(const struct perf_event_attr *a, pid_t tid, int cpu)
{
	bool is_switches = a->config == PERF_COUNT_SW_CONTEXT_SWITCHES;
	int fd;

	if (tid == -1 || a->type != PERF_TYPE_SOFTWARE) {
		errno = a->type == PERF_TYPE_SOFTWARE ? EACCES : ENOENT;
		return -1;
	}
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd >= KERNEL_FDS)
		abort();
	pthread_mutex_lock(&kernel.lock);
	kernel.fd[fd].is_event = true;
	kernel.fd[fd].is_ring = a->config == PERF_COUNT_SW_DUMMY;
	kernel.fd[fd].cpu = cpu;
	if (tid == kernel.root && cpu >= 0 && is_switches)
		kernel_cpus[cpu].witness_id = FIRST_ID + (uint64_t)fd;
	else if (tid == kernel.root && cpu >= 0)
		kernel_cpus[cpu].sample_id = FIRST_ID + (uint64_t)fd;
	pthread_mutex_unlock(&kernel.lock);
	return fd;
}

static bool is_event(int fd)
{
	bool is;

	pthread_mutex_lock(&kernel.lock);
	is = fd >= 0 && fd < KERNEL_FDS && kernel.fd[fd].is_event;
	pthread_mutex_unlock(&kernel.lock);
	return is;
}

long __real_syscall(long nr, ...);
long __wrap_syscall(long nr, ...);
long __wrap_syscall(long nr, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, nr);
	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (nr == SYS_perf_event_open)
		return event_open((const void *)a[0], (pid_t)a[1], (int)a[2]);
	if (nr != SYS_bpf)
		return __real_syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	errno = EPERM;
	return -1;
}

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	if (!is_event(fd))
		return __real_ioctl(fd, request, arg);
	if (request == PERF_EVENT_IOC_ID)
		*(uint64_t *)arg = FIRST_ID + (uint64_t)fd;
	return 0;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	pthread_mutex_lock(&kernel.lock);
	if (fd >= 0 && fd < KERNEL_FDS)
		kernel.fd[fd].is_event = false;
	pthread_mutex_unlock(&kernel.lock);
	return __real_close(fd);
}

/* --- rings --- */

void *__real_mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t off);
void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t off);
void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t off)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct kernel_cpu *k;
	void *m;

	if (!is_event(fd))
		return __real_mmap64(at, n, prot, flags, fd, off);
	m = __real_mmap64(NULL, n, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED || !kernel.fd[fd].is_ring)
		return m;
	k = &kernel_cpus[kernel.fd[fd].cpu];
	k->page = m;
	k->data = (unsigned char *)m + page;
	k->size = n - page;
	k->fd = fd;
	return m;
}

/* As the kernel does it, which no sanitizer watches either: the readers of other CPUs look at
 * records that are written over meanwhile, and find that out afterwards (proof_ran_in_ring()).
 */
__attribute__((no_sanitize("thread"))) static void copy(struct kernel_cpu *k, uint64_t head,
							const unsigned char *from, size_t n)
{
	for (size_t i = 0; i < n; i += 8)
		*(volatile uint64_t *)(void *)(k->data + ((head + i) & (k->size - 1))) =
			*(const uint64_t *)(const void *)(from + i);
}

uint64_t kernel_write(int cpu, const void *record, size_t n)
{
	struct kernel_cpu *k = &kernel_cpus[cpu];
	uint64_t head = k->page->data_head;

	while (head + n - __atomic_load_n(&k->page->data_tail, __ATOMIC_ACQUIRE) >
	       k->size - PERF_RECORD_BYTES) {
		kernel_wake(cpu);
		usleep(100);
	}
	copy(k, head, record, n);
	__atomic_store_n(&k->page->data_head, head + n, __ATOMIC_RELEASE);
	return head + n;
}

void kernel_wake(int cpu)
{
	eventfd_write(kernel_cpus[cpu].fd, 1);
}

void kernel_wait(int cpu, uint64_t to)
{
	while (__atomic_load_n(&kernel_cpus[cpu].page->data_tail, __ATOMIC_ACQUIRE) < to)
		usleep(20);
}

/* --- processes --- */

static bool is_made_up(pid_t pid)
{
	return pid == kernel.root || (pid >= KERNEL_FIRST_PID && pid <= KERNEL_LAST_PID);
}

/* The main thread of a child is the copy of the first one of its parent. */
static void put_thread(pid_t pid, raddr at, unsigned char *to, size_t n)
{
	uint64_t tid = (uint64_t)pid;

	if (at <= kernel.thread_at && at + n >= kernel.thread_at + 8)
		memcpy(to + (kernel.thread_at - at), &tid, 8);
}

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n_to,
				const struct iovec *from, unsigned long n,
				unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n_to,
				const struct iovec *from, unsigned long n,
				unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n_to,
				const struct iovec *from, unsigned long n, unsigned long flags)
{
	ssize_t got = 0;

	if (!is_made_up(pid))
		return __real_process_vm_readv(pid, to, n_to, from, n, flags);
	for (unsigned long i = 0; i < n; i++) {
		raddr at = (uintptr_t)from[i].iov_base;

		if (at < WORLD_AT || at - WORLD_AT > WORLD_BYTES - from[i].iov_len) {
			errno = EFAULT;
			return got ? got : -1;
		}
		memcpy(to[i].iov_base, world_mem(kernel.world, at), from[i].iov_len);
		put_thread(pid, at, to[i].iov_base, from[i].iov_len);
		got += (ssize_t)from[i].iov_len;
	}
	return got;
}

/* Those with odd numbers exec a program that is not Python. */
int __real_pyfind(pid_t pid, uint64_t since_ns, struct rmem *m, struct file_helper *files,
		  struct pyproc *ret, struct err *err);
int __wrap_pyfind(pid_t pid, uint64_t since_ns, struct rmem *m, struct file_helper *files,
		  struct pyproc *ret, struct err *err);
int __wrap_pyfind(pid_t pid, uint64_t since_ns, struct rmem *m, struct file_helper *files,
		  struct pyproc *ret, struct err *err)
{
	if (!is_made_up(pid))
		return __real_pyfind(pid, since_ns, m, files, ret, err);
	if (pid != kernel.root && pid % 2)
		return err_set(err, -ENOEXEC, "no Python");
	*ret = (struct pyproc){ .pid = pid,
				.version = 0x030c00f0,
				.runtime = kernel.world->runtime,
				.layout = kernel.world->l,
				.module = "made up",
				.build = "in memory" };
	return 0;
}

/* Where it does hide some, /proc is asked, which does not know those that are made up. */
bool __wrap_proof_switches_hidden(void);
bool __wrap_proof_switches_hidden(void)
{
	return false;
}

/* --- CPUs --- */

int __wrap_cpus_system(struct cpus *ret, const char *name);
int __wrap_cpus_system(struct cpus *ret, const char *name)
{
	*ret = (struct cpus){ 0 };
	for (int cpu = 0; cpu < kernel_n_cpus && name; cpu++)
		cpus_add(ret, cpu);
	return 0;
}

void __wrap_cpus_isolated(struct cpus *ret);
void __wrap_cpus_isolated(struct cpus *ret)
{
	*ret = (struct cpus){ 0 };
}

int __wrap_cpus_of_thread(struct cpus *ret, pid_t tid);
int __wrap_cpus_of_thread(struct cpus *ret, pid_t tid)
{
	__wrap_cpus_system(ret, "online");
	if (!tid) {
		*ret = (struct cpus){ 0 };
		cpus_add(ret, own_cpu);
	}
	return 0;
}

void __wrap_cpus_add_thread(struct cpus *c, pid_t tid);
void __wrap_cpus_add_thread(struct cpus *c, pid_t tid)
{
	for (int cpu = 0; cpu < kernel_n_cpus && tid; cpu++)
		cpus_add(c, cpu);
}

int __wrap_cpus_pin_thread(int cpu);
int __wrap_cpus_pin_thread(int cpu)
{
	own_cpu = cpu;
	return 0;
}

int __wrap_sched_getcpu(void);
int __wrap_sched_getcpu(void)
{
	return own_cpu;
}

int __wrap_sched_setscheduler(pid_t pid, int policy, const struct sched_param *p);
int __wrap_sched_setscheduler(pid_t pid, int policy, const struct sched_param *p)
{
	return 0;
}
