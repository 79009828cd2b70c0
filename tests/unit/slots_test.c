/* SPDX-License-Identifier: MIT
 *
 * slots: a slot for each CPU, its queues and its ring, those of CPUs that come later, and
 * which thread takes a CPU's events away. Rings are real ones where they may be had.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "attach/attach_plan.h"
#include "base/clock.h"
#include "capture/capture.h"
#include "capture/slots.h"
#include "sys/proc.h"
#include "real_syscall.h"

enum { QUEUE = 1 << 16, ROOM = 4096, PAGES = 8 };

static int begin(struct cpu_slot *s)
{
	return 0;
}

static int refuse(struct cpu_slot *s)
{
	return s->index ? -ENOMEM : 0;
}

static const struct capture_ops any = { .slot_begin = begin },
				only_one = { .slot_begin = refuse };

/* CPUs 0, 2 and 5. */
static struct cpus some_cpus(void)
{
	struct cpus c = { 0 };

	cpus_add(&c, 0);
	cpus_add(&c, 2);
	cpus_add(&c, 5);
	return c;
}

static struct reader_config config(const struct capture_ops *capture)
{
	return (struct reader_config){
		.capture = capture, .queue_bytes = QUEUE, .room_bytes = ROOM, .cap_slots = 4
	};
}

static uintptr_t page_of(const void *at)
{
	return (uintptr_t)at / (size_t)sysconf(_SC_PAGESIZE);
}

/* What is in one queue is in no other, nor in the room of a reader; CPUs share no page. */
static void own_memory(struct reader_config *c)
{
	for (uint32_t i = 1; i < c->n_slots; i++)
		if (!c->slots[i].block)
			assert_true(page_of((char *)c->slots[i - 1].room + ROOM - 1) <
				    page_of(c->slots[i].queue.bytes));
	for (uint32_t i = 0; i < c->n_slots; i++) {
		struct cpu_slot *s = &c->slots[i];

		*(uint32_t *)queue_reserve(&s->queue, 1, 4) = i;
		queue_commit(&s->queue);
		*(uint32_t *)queue_reserve(&s->ctl, 2, 4) = i + 100;
		queue_commit(&s->ctl);
		memset(s->room, 0xff, ROOM);
	}
	for (uint32_t i = 0; i < c->n_slots; i++) {
		const struct queue_record *q = queue_peek(&c->slots[i].queue),
					  *ctl = queue_peek(&c->slots[i].ctl);

		assert_int_equal(q->type, 1);
		assert_int_equal(*(const uint32_t *)(const void *)q->data, i);
		assert_int_equal(ctl->type, 2);
		assert_int_equal(*(const uint32_t *)(const void *)ctl->data, i + 100);
	}
}

static void one_for_each_cpu(void **state)
{
	static const int numbers[] = { 0, 2, 5 };
	struct reader_config c = config(&any);
	struct cpus cpus = some_cpus();
	struct err err;

	assert_int_equal(slots_init(&c, &cpus, &err), 0);
	assert_int_equal(c.n_slots, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(c.slots[i].cpu, numbers[i]);
		assert_int_equal(c.slots[i].index, i);
		assert_int_equal(c.slots[i].ring.fd, -1);
		assert_int_equal(c.slots[i].handover.posted, -1);
		assert_int_equal(c.slots[i].sampler[0], -1);
		assert_int_equal(c.slots[i].sampler[SESSION_MAX_EVENTS - 1], -1);
		assert_ptr_equal(slots_find(&c, numbers[i]), &c.slots[i]);
	}
	assert_null(slots_find(&c, 1));
	c.slots[3].cpu = 7; /* is none yet */
	assert_null(slots_find(&c, 7));
	own_memory(&c);
	slots_deinit(&c);
	assert_int_equal(c.n_slots, 0);
	assert_null(c.slots);
}

static void no_memory_for_the_second(void **state)
{
	struct reader_config c = config(&only_one);
	struct cpus cpus = some_cpus();
	struct err err;

	assert_int_equal(slots_init(&c, &cpus, &err), -ENOMEM);
	assert_int_equal(c.n_slots, 1);
	slots_deinit(&c);
}

/* --- rings --- */

static bool may_have_rings(void)
{
	struct perf_ring r;
	struct err err;
	int code = perf_ring_open(&r, 0, 1, &err);

	if (code == 0)
		perf_ring_close(&r);
	return code == 0;
}

/* CPU 0 alone, which each machine has. */
static struct reader_config with_ring(size_t pages)
{
	struct reader_config c = config(&any);
	struct cpus cpus = { 0 };
	struct err err;

	cpus_add(&cpus, 0);
	assert_int_equal(slots_init(&c, &cpus, &err), 0);
	assert_int_equal(slots_open_rings(&c, pages, &err), 0);
	return c;
}

/* A CPU that comes later has a ring as large as the others', and where no table tells who
 * comes it is learnt which threads take events away. */
static void one_more(void **state)
{
	struct reader_config c;
	struct err err;

	if (!may_have_rings())
		skip();
	c = with_ring(PAGES);
	assert_int_equal(c.slots[0].ring.size, PAGES * (size_t)sysconf(_SC_PAGESIZE));
	c.slots[1].hotplug = 77;
	assert_int_equal(slots_add(&c, 0, &err), 0);
	assert_int_equal(c.n_slots, 2);
	assert_int_equal(c.slots[1].index, 1);
	assert_int_equal(c.slots[1].ring.size, c.slots[0].ring.size);
	assert_true(c.slots[1].ring.fd >= 0);
	assert_int_equal(c.slots[1].hotplug, 0);
	own_memory(&c);
	/* One that there is not. */
	assert_true(slots_add(&c, CPUS_MAX - 1, &err) < 0);
	assert_int_equal(c.n_slots, 2);
	c.cap_slots = 2;
	assert_int_equal(slots_add(&c, 0, &err), -ENOMEM);
	assert_int_equal(c.n_slots, 2);
	slots_deinit(&c);
}

/* A CPU that is not there: an error that smaller rings would not end. */
static void no_such_cpu(void **state)
{
	struct reader_config c = config(&any);
	struct cpus cpus = { 0 };
	struct err err;

	if (!may_have_rings())
		skip();
	cpus_add(&cpus, 0);
	cpus_add(&cpus, CPUS_MAX - 1);
	assert_int_equal(slots_init(&c, &cpus, &err), 0);
	assert_true(slots_open_rings(&c, PAGES, &err) < 0);
	assert_non_null(strstr(err.text, "ring of 8 pages"));
	slots_deinit(&c);
}

/* --- rings as a machine with less locked memory gives them --- */

static struct {
	bool fake; /* events and rings need no right and no kernel */
	int pages; /* that may be locked for all rings together */
	int locked, n_maps, n_unmaps;
	int refuses; /* this CPU, by ... */
	int code;
} machine;

enum { FAKE_FD = 1000 };

static long fake_syscall(long nr, const long a[SYSCALL_ARGS])
{
	if (!machine.fake || nr != SYS_perf_event_open)
		return real_syscall(nr, a);
	if (a[2] == machine.refuses) {
		errno = machine.code;
		return -1;
	}
	return dup2(STDIN_FILENO, FAKE_FD + (int)a[2]);
}

void *mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t off)
{
	void *(*f)(void *, size_t, int, int, int, off64_t) = dlsym(RTLD_NEXT, "mmap64");
	int pages = (int)(n / (size_t)sysconf(_SC_PAGESIZE)) - 1;

	if (!machine.fake || fd < FAKE_FD)
		return f(at, n, prot, flags, fd, off);
	if (machine.locked + pages > machine.pages) {
		errno = EPERM;
		return MAP_FAILED;
	}
	machine.locked += pages;
	machine.n_maps++;
	return f(at, n, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int munmap(void *at, size_t n)
{
	int (*f)(void *, size_t) = dlsym(RTLD_NEXT, "munmap");

	if (machine.fake) {
		machine.locked -= (int)(n / (size_t)sysconf(_SC_PAGESIZE)) - 1;
		machine.n_unmaps++;
	}
	return f(at, n);
}

/* Slots of CPUs 0, 2 and 5, and how opening rings of @pages ends, of which at most @may can be
 * locked. */
static int open_rings(struct reader_config *c, int may, size_t pages, struct err *err)
{
	struct cpus cpus = some_cpus();

	*c = config(&any);
	machine.fake = true;
	machine.pages = may;
	machine.refuses = -1;
	machine.locked = machine.n_maps = machine.n_unmaps = 0;
	assert_int_equal(slots_init(c, &cpus, err), 0);
	return slots_open_rings(c, pages, err);
}

static void close_rings(struct reader_config *c)
{
	slots_deinit(c);
	assert_int_equal(machine.locked, 0);
	assert_int_equal(machine.n_maps, machine.n_unmaps);
	machine.fake = false;
}

/* Where not all rings can be locked, all are smaller, as large as each can be; each is its
 * CPU's, and none is left of the tries. */
static void less_can_be_locked(void **state)
{
	static const int rows[][2] = { { 1 << 20, 256 }, { 768, 256 }, { 767, 128 },
				       { 384, 128 },	 { 383, 64 },  { 192, 64 },
				       { 191, 32 },	 { 96, 32 } };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct reader_config c;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(open_rings(&c, rows[i][0], 256, &err), 0);
		assert_int_equal(machine.locked, 3 * rows[i][1]);
		for (uint32_t k = 0; k < 3; k++) {
			assert_int_equal(c.slots[k].ring.size, (size_t)rows[i][1] * page);
			assert_int_equal(c.slots[k].ring.cpu, c.slots[k].cpu);
			assert_int_equal(c.slots[k].ring.fd, FAKE_FD + c.slots[k].cpu);
		}
		close_rings(&c);
	}
	/* Too little for the smallest: it is said how small they would be. */
	assert_int_equal(open_rings(&c, 95, 256, &err), -EPERM);
	assert_non_null(strstr(err.text, "ring of 32 pages for CPU 5"));
	close_rings(&c);
	/* None at all are no error. */
	c = config(&any);
	assert_int_equal(slots_init(&c, &(struct cpus){ 0 }, &err), 0);
	assert_int_equal(slots_open_rings(&c, 64, &err), 0);
	slots_deinit(&c);
}

/* Another error is no lack of memory: nothing smaller is tried. */
static void another_error_ends_it(void **state)
{
	struct cpus cpus = some_cpus();
	struct reader_config c = config(&any);
	struct err err;

	machine.fake = true;
	machine.pages = 1 << 20;
	machine.refuses = 2;
	machine.code = ENODEV;
	machine.locked = machine.n_maps = machine.n_unmaps = 0;
	assert_int_equal(slots_init(&c, &cpus, &err), 0);
	assert_int_equal(slots_open_rings(&c, 64, &err), -ENODEV);
	assert_int_equal(machine.n_maps, 1);
	assert_int_equal(machine.n_unmaps, 0);
	assert_non_null(strstr(err.text, "ring of 64 pages for CPU 2"));
	close_rings(&c);
}

/* A CPU that is added has a ring of the others' size; if it can't be had there is no such
 * slot, and nothing is left of it. */
static void added_without_rights(void **state)
{
	struct reader_config c;
	struct err err;

	assert_int_equal(open_rings(&c, 96, 64, &err), 0);
	assert_int_equal(slots_add(&c, 7, &err), -EPERM);
	assert_int_equal(c.n_slots, 3);
	assert_null(slots_find(&c, 7));
	machine.pages = 128;
	assert_int_equal(slots_add(&c, 7, &err), 0);
	assert_int_equal(c.n_slots, 4);
	assert_ptr_equal(slots_find(&c, 7), &c.slots[3]);
	assert_int_equal(c.slots[3].ring.size, c.slots[0].ring.size);
	assert_int_equal(c.slots[3].ring.fd, FAKE_FD + 7);
	assert_int_equal(c.slots[3].index, 3);
	assert_non_null(c.slots[3].block);
	own_memory(&c);
	assert_int_equal(slots_add(&c, 8, &err), -ENOMEM);
	assert_int_equal(c.n_slots, 4);
	close_rings(&c);
}

/* --- what all of it did --- */

/* The sum of who counts: each slot's reader, and all others together. */
static void work_is_added_up(void **state)
{
	struct reader_config c = config(&any);
	struct cpus cpus = some_cpus();
	struct work_moment m = { 0 };
	struct err err;
	uint64_t now;

	assert_int_equal(slots_init(&c, &cpus, &err), 0);
	c.slots[3].work.n[WORK_reads] = 100000; /* is none yet */
	c.others.n[WORK_reads] = 1;
	for (uint32_t i = 0; i < 3; i++)
		for (unsigned k = 0; k < WORK_N; k++)
			c.slots[i].work.n[k] = (k + 1) * (i ? i * 100 : 10);
	c.origin.ns = now_ns() - 1000;
	slots_work(&c, &m);
	now = now_ns();
	for (unsigned k = 0; k < WORK_N; k++)
		assert_int_equal(m.n[k], (k + 1) * 310 + (k == WORK_reads));
	assert_true(m.ns >= 1000 && m.ns <= now - c.origin.ns);
	assert_int_equal(m.syscalls, UINT64_MAX);
	slots_deinit(&c);
}

/* --- who takes a CPU's events away --- */

static void named(const char *name)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		for (;;)
			pause();
	}
}

static bool has_name(pid_t pid, const char *name)
{
	char comm[16];

	return proc_comm(pid, pid, comm) == 0 && !strcmp(comm, name);
}

/* The processes from number 3 on have given themselves their names. */
static bool have_names(const char *const *names, size_t n)
{
	size_t i = 0;

	while (i < n && has_name(3 + (pid_t)i, names[i]))
		i++;
	return i == n;
}

/* LeakSanitizer's, where it is there: what is allocated from now on may be left. */
void __lsan_disable(void) __attribute__((weak));

/* What is allocated next holds the number of a process that is no thread of the kernel's. */
static void leave_behind(pid_t pid)
{
	enum { PIDS = 16, BLOCKS = 7 };
	volatile pid_t *block[BLOCKS];

	for (size_t b = 0; b < BLOCKS; b++) {
		block[b] = malloc(PIDS * sizeof(pid_t));
		for (size_t i = 0; i < PIDS; i++)
			block[b][i] = pid;
	}
	for (size_t b = 0; b < BLOCKS; b++)
		free((void *)(uintptr_t)block[b]);
}

/* Process 2 of a PID namespace, as kthreadd is of the machine: 0 if each slot has found its
 * thread, a number that says which has not. */
static int among_made_up_threads(void)
{
	static const char *const names[] = { "cpuhp/5", "kworker/0:1", "cpuhp/1",
					     "cpuhp/x", "rcu_gp",      "cpuhp/0" };
	struct reader_config c = config(&any);
	struct cpus cpus = some_cpus();
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		named(names[i]);
	for (int i = 0; i < 20000 && !have_names(names, ARRAY_SIZE(names)); i++)
		usleep(1000);
	if (slots_init(&c, &cpus, &err) < 0)
		return 1;
	c.slots[1].hotplug = 77; /* of CPU 2 there is none: what is known stays */
	leave_behind(1);
	slots_learn_hotplug(&c);
	if (!has_name(c.slots[0].hotplug, "cpuhp/0"))
		return 2;
	if (!has_name(c.slots[2].hotplug, "cpuhp/5"))
		return 3;
	if (c.slots[1].hotplug != 77)
		return 4;
	/* A CPU that is added learns it too, unless a table tells or events are threads'. */
	machine.fake = true;
	machine.pages = 1 << 20;
	machine.refuses = -1;
	if (slots_open_rings(&c, 8, &err) < 0 || slots_add(&c, 1, &err) < 0 ||
	    c.slots[3].hotplug)
		return 5;
	c.n_slots = 3;
	c.ours = (void *)&c;
	c.table = (void *)&c;
	if (slots_add(&c, 1, &err) < 0 || c.slots[3].hotplug)
		return 6;
	c.n_slots = 3;
	c.table = NULL;
	if (slots_add(&c, 1, &err) < 0 || !has_name(c.slots[3].hotplug, "cpuhp/1"))
		return 7;
	/* Where each CPU has one it is the last that ends the look. */
	c.n_slots = 3;
	c.slots[1].cpu = 1;
	c.slots[0].hotplug = 0;
	slots_learn_hotplug(&c);
	if (!has_name(c.slots[0].hotplug, "cpuhp/0") || !has_name(c.slots[1].hotplug, "cpuhp/1"))
		return 8;
	return 0;
}

/* The first process of a PID namespace, which sees no others in /proc. */
static int in_a_namespace(void)
{
	pid_t second;
	int status;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0)
		return 77;
	prctl(PR_SET_NAME, "cpuhp/2"); /* but process 2 did not start it */
	second = fork();
	if (second == 0 && __lsan_disable)
		__lsan_disable();
	if (second == 0)
		exit(among_made_up_threads()); /* not _exit(): what it executed is counted */
	return waitpid(second, &status, 0) == second && WIFEXITED(status) ?
		       WEXITSTATUS(status) :
		       99;
}

static void hotplug_threads_by_their_names(void **state)
{
	pid_t outer;
	int status;

	fflush(NULL);
	outer = fork();
	if (outer == 0) {
		pid_t first;

		if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
			_exit(77);
		first = fork();
		if (first == 0)
			_exit(in_a_namespace());
		_exit(waitpid(first, &status, 0) == first && WIFEXITED(status) ?
			      WEXITSTATUS(status) :
			      98);
	}
	assert_int_equal(waitpid(outer, &status, 0), outer);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip(); /* needs root */
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void hotplug_threads(void **state)
{
	struct reader_config c = config(&any);
	struct cpus cpus = some_cpus();
	struct err err;
	char comm[16];

	if (proc_comm(2, 2, comm) < 0 || strcmp(comm, "kthreadd") != 0)
		skip(); /* a PID namespace without the kernel's threads */
	assert_int_equal(slots_init(&c, &cpus, &err), 0);
	slots_learn_hotplug(&c);
	for (uint32_t i = 0; i < c.n_slots; i++) {
		int cpu = -1;

		if (!c.slots[i].hotplug)
			continue;
		assert_int_equal(proc_comm(c.slots[i].hotplug, c.slots[i].hotplug, comm), 0);
		assert_int_equal(sscanf(comm, "cpuhp/%d", &cpu), 1);
		assert_int_equal(cpu, c.slots[i].cpu);
	}
	assert_int_not_equal(c.slots[0].hotplug, 0);
	slots_deinit(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_for_each_cpu),
		cmocka_unit_test(no_memory_for_the_second),
		cmocka_unit_test(one_more),
		cmocka_unit_test(no_such_cpu),
		cmocka_unit_test(hotplug_threads),
		cmocka_unit_test(less_can_be_locked),
		cmocka_unit_test(another_error_ends_it),
		cmocka_unit_test(added_without_rights),
		cmocka_unit_test(work_is_added_up),
		cmocka_unit_test(hotplug_threads_by_their_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
