/* SPDX-License-Identifier: MIT */
#include "capture/slots.h"

#include <errno.h>

#include "attach/attach_plan.h"
#include "capture/capture.h"
#include "sys/family.h"
#include "sys/proc.h"
#include "base/sparse.h"

enum {
	CTL_QUEUE_BYTES = 64 << 10,
	KTHREADD = 2, /* parent of the kernel's threads */
};

static void slot_deinit(struct cpu_slot *s)
{
	perf_ring_close(&s->ring);
	free(s->block);
	s->block = s->room = NULL;
	handover_deinit(&s->handover);
}

static size_t whole_pages(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (n + page - 1) & ~(page - 1);
}

/* Of a slot: its queues, and its first reader. CPUs share no page. */
static size_t slot_bytes(const struct reader_config *c)
{
	return whole_pages(c->queue_bytes + CTL_QUEUE_BYTES + c->room_bytes);
}

/* Number n_slots, not published yet, with slot_bytes() of memory at @at. */
static int slot_init(struct reader_config *c, int cpu, void *at, struct err *err)
{
	struct cpu_slot *s = &c->slots[c->n_slots];
	unsigned char *ctl = (unsigned char *)at + c->queue_bytes;

	*s = (struct cpu_slot){ .cpu = cpu, .index = c->n_slots };
	s->ring.fd = s->handover.posted = -1;
	for (size_t e = 0; e < SESSION_MAX_EVENTS; e++)
		atomic_init(&s->sampler[e], -1);
	queue_place(&s->queue, at, c->queue_bytes);
	queue_place(&s->ctl, ctl, CTL_QUEUE_BYTES);
	s->room = ctl + CTL_QUEUE_BYTES;
	if (c->capture->slot_begin(s) == 0)
		return 0;
	slot_deinit(s);
	return err_set(err, -ENOMEM, "out of memory");
}

/* In one block: each would take system calls of its own. */
int slots_init(struct reader_config *c, const struct cpus *cpus, struct err *err)
{
	unsigned char *at;
	int r = 0;

	c->slots = calloc(c->cap_slots, sizeof(*c->slots));
	c->block = sparse_alloc(cpus_count(cpus) * slot_bytes(c) + whole_pages(1));
	if (!c->slots || !c->block)
		return err_set(err, -ENOMEM, "out of memory");
	at = (unsigned char *)whole_pages((uintptr_t)c->block);
	for (int cpu = cpus_next(cpus, 0); r == 0 && cpu >= 0;
	     cpu = cpus_next(cpus, cpu + 1)) {
		r = slot_init(c, cpu, at, err);
		c->n_slots += r == 0;
		at += slot_bytes(c);
	}
	return r;
}

void slots_deinit(struct reader_config *c)
{
	for (uint32_t i = 0; i < c->n_slots; i++)
		slot_deinit(&c->slots[i]);
	free(c->slots);
	free(c->block);
	c->slots = c->block = NULL;
	c->n_slots = 0;
}

int slots_open_rings(struct reader_config *c, size_t pages, struct err *err)
{
	uint32_t i;
	int r;

	do {
		r = 0;
		for (i = 0; r == 0 && i < c->n_slots; i++)
			r = perf_ring_open(&c->slots[i].ring, c->slots[i].cpu, pages, err);
		while (r == -EPERM && i-- > 0)
			perf_ring_close(&c->slots[i].ring);
	} while (r == -EPERM && (pages = attach_plan_fewer_pages(pages)));
	return r;
}

int slots_add(struct reader_config *c, int cpu, struct err *err)
{
	struct cpu_slot *s = &c->slots[c->n_slots];
	size_t pages = c->slots[0].ring.size / (size_t)sysconf(_SC_PAGESIZE);
	void *block = c->n_slots < c->cap_slots ? sparse_alloc(slot_bytes(c)) : NULL;
	int r;

	if (!block)
		return err_set(err, -ENOMEM, "out of memory");
	r = slot_init(c, cpu, block, err);
	if (r < 0) {
		free(block);
		return r;
	}
	s->block = block;
	r = perf_ring_open(&s->ring, cpu, pages, err);
	if (r < 0) {
		slot_deinit(s);
		return r;
	}
	c->n_slots++;
	if (c->ours && !c->table)
		slots_learn_hotplug(c);
	return 0;
}

void slots_learn_hotplug(struct reader_config *c)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0, cap = 0, found = 0;

	if (family_children(KTHREADD, &pids, &n, &cap) < 0)
		return;
	for (size_t i = 0; found < c->n_slots && i < n; i++) {
		struct cpu_slot *slot;
		char comm[16];
		int cpu;

		if (proc_comm(pids[i], pids[i], comm) == 0 &&
		    sscanf(comm, "cpuhp/%d", &cpu) == 1 && (slot = slots_find(c, cpu))) {
			slot->hotplug = pids[i];
			found++;
		}
	}
}

void slots_work(const struct reader_config *c, struct work_moment *ret)
{
	work_look(&c->origin, ret);
	work_add_to(ret, &c->others);
	for (uint32_t i = 0; i < c->n_slots; i++)
		work_add_to(ret, &c->slots[i].work);
}

struct cpu_slot *slots_find(struct reader_config *c, int cpu)
{
	for (uint32_t i = 0; i < c->n_slots; i++)
		if (c->slots[i].cpu == cpu)
			return &c->slots[i];
	return NULL;
}
