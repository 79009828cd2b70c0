/* SPDX-License-Identifier: MIT
 *
 * recorder_work - what a recording took: counts, and memory by what it grows with.
 */
#include "capture/reader.h"
#include "record/recorder_int.h"
#include "capture/slots.h"

static size_t bytes_of_cpu(const struct reader_config *c)
{
	const struct cpu_slot *s = &c->slots[0];

	return sizeof(*s) + reader_bytes(c) + s->ring.size + s->queue.size + s->ctl.size;
}

void recorder_attached(const struct recorder *r, size_t *processes, size_t *threads)
{
	*processes = r->n_processes;
	*threads = r->n_tids;
}

void recorder_work(const struct recorder *r, struct recorder_work *ret)
{
	const struct attach *a = &r->attach;

	*ret = (struct recorder_work){
		.first = r->config.first,
		.half = r->half,
		.end = r->end,
		.cpus = r->config.n_slots,
		.processes = r->tracker.targets.n_all,
		.threads = a->n_attached - a->on_cpus,
		.cpu_bytes = r->config.n_slots ? bytes_of_cpu(&r->config) : 0,
		.process_bytes = sizeof(struct target),
		.thread_bytes = sizeof(struct attached) +
				a->cap_slots * attach_per_cpu(a) * sizeof(int),
	};
	slots_work(&r->config, &ret->all);
}
