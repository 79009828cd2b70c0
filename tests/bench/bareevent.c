/* SPDX-License-Identifier: MIT
 *
 * bareevent PID HZ SAMPLE_TYPE
 *
 * The least that a sampler of this kind can cost its target: the same cpu-clock event for
 * every (thread, CPU) that pysampled opens, with the same sample type, into a ring that
 * nobody waits for. The ring is emptied once a second and its samples counted. Ends at
 * SIGINT or SIGTERM and prints what it saw. Threads born later are not followed.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	MAX_CPUS = 1024,
	RING_PAGES = 256,
	PAGE = 4096,
};

#define RING_BYTES ((size_t)RING_PAGES * PAGE)

/* Frame pointer, stack pointer, instruction pointer: asm/perf_regs.h. */
#ifdef __aarch64__
#define USER_REGS (1ULL << 29 | 1ULL << 31 | 1ULL << 32)
#else
#define USER_REGS (1ULL << 6 | 1ULL << 7 | 1ULL << 8)
#endif

struct ring {
	int fd;
	struct perf_event_mmap_page *head;
};

static struct ring rings[MAX_CPUS];
static uint64_t samples, lost;

static void fail(const char *what)
{
	fprintf(stderr, "bareevent: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void set_attr(struct perf_event_attr *attr, unsigned long hz, uint64_t sample_type)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = PERF_COUNT_SW_CPU_CLOCK;
	attr->freq = 1;
	attr->sample_freq = hz;
	attr->sample_type = sample_type;
	attr->disabled = 1;
	attr->use_clockid = 1;
	attr->clockid = CLOCK_MONOTONIC;
	attr->exclude_callchain_user = 1;
	attr->watermark = 1;
	attr->wakeup_watermark = (uint32_t)RING_BYTES;
	if (sample_type & PERF_SAMPLE_REGS_USER)
		attr->sample_regs_user = USER_REGS;
}

static int open_event(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	return (int)syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The first thread's event owns the CPU's ring, the others' go into it. */
static void open_on_cpu(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	int fd = open_event(attr, tid, cpu);

	if (fd < 0 && (errno == ENODEV || errno == ESRCH))
		return;
	if (fd < 0)
		fail("perf_event_open");
	if (!rings[cpu].head) {
		void *map = mmap(NULL, RING_BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
				 fd, 0);

		if (map == MAP_FAILED)
			fail("mmap of the ring");
		rings[cpu] = (struct ring){ .fd = fd, .head = map };
	} else if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, rings[cpu].fd)) {
		fail("PERF_EVENT_IOC_SET_OUTPUT");
	}
	if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		fail("PERF_EVENT_IOC_ENABLE");
}

static int open_all(struct perf_event_attr *attr, const char *pid, int cpus)
{
	char path[64];
	struct dirent *entry;
	DIR *dir;
	int threads = 0;

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	dir = opendir(path);
	if (!dir)
		fail(path);
	while ((entry = readdir(dir))) {
		pid_t tid = atoi(entry->d_name);

		if (tid <= 0)
			continue;
		for (int cpu = 0; cpu < cpus; cpu++)
			open_on_cpu(attr, tid, cpu);
		threads++;
	}
	closedir(dir);
	return threads;
}

static void copy_out(const struct ring *ring, uint64_t from, void *to, size_t len)
{
	const char *data = (const char *)ring->head + PAGE;

	for (size_t i = 0; i < len; i++)
		((char *)to)[i] = data[(from + i) % RING_BYTES];
}

static void drain(struct ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->head->data_head, __ATOMIC_ACQUIRE);
	uint64_t at = ring->head->data_tail;
	struct perf_event_header record;
	uint64_t id_and_lost[2];

	while (head - at >= sizeof(record)) {
		copy_out(ring, at, &record, sizeof(record));
		if (record.type == PERF_RECORD_SAMPLE)
			samples++;
		if (record.type == PERF_RECORD_LOST) {
			copy_out(ring, at + sizeof(record), id_and_lost, sizeof(id_and_lost));
			lost += id_and_lost[1];
		}
		if (record.size < sizeof(record))
			break;
		at += record.size;
	}
	__atomic_store_n(&ring->head->data_tail, head, __ATOMIC_RELEASE);
}

static void drain_until_told(int cpus)
{
	const struct timespec second = { .tv_sec = 1 };
	sigset_t stop;
	int got;

	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	do {
		got = sigtimedwait(&stop, NULL, &second);
		for (int cpu = 0; cpu < cpus; cpu++)
			if (rings[cpu].head)
				drain(&rings[cpu]);
	} while (got < 0);
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct perf_event_attr attr;
	uint64_t sample_type;
	sigset_t stop;
	int threads;

	if (argc != 4) {
		fprintf(stderr, "usage: bareevent PID HZ SAMPLE_TYPE\n");
		return 2;
	}
	sample_type = strtoull(argv[3], NULL, 0);
	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	if (cpus > MAX_CPUS)
		cpus = MAX_CPUS;
	set_attr(&attr, strtoul(argv[2], NULL, 10), sample_type);
	threads = open_all(&attr, argv[1], (int)cpus);
	drain_until_told((int)cpus);
	printf("samples=%llu lost=%llu threads=%d sample_type=0x%llx\n",
	       (unsigned long long)samples, (unsigned long long)lost, threads,
	       (unsigned long long)sample_type);
	return 0;
}
