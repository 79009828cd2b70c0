/* SPDX-License-Identifier: MIT
 *
 * slots: a slot for each CPU, its queues and its ring, those of CPUs that come later, and
 * which thread takes a CPU's events away. Rings are real ones where they may be had.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "attach/attach_plan.h"
#include "capture/capture.h"
#include "capture/slots.h"
#include "sys/proc.h"

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

/* What is in one queue is in no other, nor in the room of a reader. */
static void own_memory(struct reader_config *c)
{
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

/* --- who takes a CPU's events away --- */

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
		cmocka_unit_test(one_for_each_cpu), cmocka_unit_test(no_memory_for_the_second),
		cmocka_unit_test(one_more),	    cmocka_unit_test(no_such_cpu),
		cmocka_unit_test(hotplug_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
