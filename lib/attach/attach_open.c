/* SPDX-License-Identifier: MIT
 *
 * attach_open - the events of one thread on one CPU: which there are, their attrs, and opening
 * them.
 */
#include "attach/attach_int.h"

#include <errno.h>
#include <unistd.h>

/* An event sends its signal for each of its records that fills half of the ring, be it no
 * sample: of a switch, while the thread is in a system call, which the signal ends by EINTR. So
 * those that send signals carry samples alone. Nor can an event carry what happens on a CPU where
 * it is not opened. */
static bool side_apart(const struct attach *a)
{
	return a->hooks.arm || a->side;
}

size_t attach_first_early(const struct attach *a)
{
	return a->session->n_events + a->witness + a->counter + side_apart(a);
}

size_t attach_per_cpu(const struct attach *a)
{
	return attach_first_early(a) + (a->early ? a->session->n_events : 0);
}

enum part attach_part(const struct attach *a, pid_t tid, size_t i, size_t *e)
{
	const struct session *s = a->session;
	bool cpus = tid == ATTACH_ALL, early = i >= attach_first_early(a);
	bool split;

	*e = early ? i - attach_first_early(a) : i;
	split = a->split && *e < s->n_events && s->how[*e].on_cpus;
	if (early)
		return cpus || !split || a->early_ended ? PART_NONE : PART_SAMPLES;
	if (cpus && a->split)
		return split ? PART_SAMPLES : PART_NONE;
	if (i < s->n_events)
		return split ? PART_COUNT : PART_SAMPLES;
	if (side_apart(a) && i + 1 == attach_first_early(a))
		return PART_SIDE;
	return i == s->n_events && a->witness ? PART_WITNESS : PART_INSTRUCTIONS;
}

size_t attach_per_thread(const struct attach *a)
{
	return a->n_slots * attach_per_cpu(a);
}

void attach_close_fds(int *fds, size_t n)
{
	for (; n--; fds[n] = -1)
		if (fds[n] >= 0)
			close(fds[n]);
}

static const char *name_of(const struct session *s, enum part part, size_t e)
{
	return part == PART_WITNESS	 ? "context-switches" :
	       part == PART_INSTRUCTIONS ? "instructions:u" :
	       part == PART_SIDE	 ? "dummy" :
					   s->events[e].name;
}

/* The BPF program of a CPU's event @fd. */
static int add_program(const struct attach *a, enum part part, size_t e, int fd)
{
	if (part == PART_SAMPLES && a->filter)
		return stranger_filter_attach(a->filter, fd, (uint32_t)e);
	return a->table && part == PART_WITNESS ? run_table_watch(a->table, fd) : 0;
}

static int open_one(const struct attach *a, int *ret, pid_t tid, const struct cpu_slot *slot,
		    enum part part, size_t e, const struct perf_event_attr *attr, int leader,
		    struct err *err)
{
	const char *name = name_of(a->session, part, e);
	bool cgroup = tid == ATTACH_ALL && a->cgroup >= 0 && part == PART_SAMPLES;
	bool alone = !cgroup && leader < 0;
	int fd = cgroup ? perf_event_open_cgroup(attr, a->cgroup, slot->cpu) :
		 alone	? perf_ring_open_into(&slot->ring, attr, tid) :
			  perf_event_open_in(attr, tid, slot->cpu, leader);
	int r = 0;

	if (fd < 0)
		return perf_event_explain(fd, name, attr, err);
	if (tid == ATTACH_ALL)
		r = add_program(a, part, e, fd);
	if (r == 0 && !alone)
		r = perf_ring_attach(&slot->ring, fd);
	if (r == 0) {
		*ret = fd;
		return 0;
	}
	close(fd);
	return err_set(err, r, "redirecting event '%s': %s", name, strerror(-r));
}

/* The records besides samples come with one event that a thread has on a CPU, @side: the first,
 * if they have none of their own. Those of switches of all that a CPU runs would be too many
 * where the table tells. */
static struct perf_event_attr attr_of(const struct attach *a, pid_t tid, enum part part,
				      size_t e, bool side, bool later)
{
	const struct perf_event_attr *first = &a->session->events[0].attr;
	const struct perf_event_attr chosen =
		part == PART_WITNESS	  ? perf_event_witness(first, a->counter) :
		part == PART_INSTRUCTIONS ? perf_event_instructions(first) :
		part == PART_SIDE	  ? perf_event_side(first) :
					    a->session->events[e].attr;

	return perf_event_final(&chosen, &(struct perf_use){ .counts = part == PART_COUNT,
							     .cpu = tid == ATTACH_ALL,
							     .inherit = a->inherit,
							     .begins = a->begun,
							     .later = later,
							     .side = side,
							     .switches = !a->table });
}

/* Which other number leads the group of number @i; -1: none does. */
static int leader_of(const struct attach *a, enum part part, size_t i, size_t e)
{
	int leader = a->counter		  ? 0 :
		     part == PART_SAMPLES ? a->session->how[e].leader - 1 :
					    -1;

	return leader == (int)i ? -1 : leader;
}

/* Number @i, and with @side the records besides samples. */
static int open_part(const struct attach *a, pid_t tid, const struct cpu_slot *slot, int *fds,
		     size_t i, bool side, bool later, struct err *err)
{
	size_t e;
	enum part part = attach_part(a, tid, i, &e);
	struct perf_event_attr attr = attr_of(a, tid, part, e, side, later);
	int leader = leader_of(a, part, i, e);

	return open_one(a, &fds[i], tid, slot, part, e, &attr, leader < 0 ? -1 : fds[leader],
			err);
}

void attach_publish_samplers(const struct attach *a, size_t slot, const int *fds)
{
	for (size_t e = 0; e < a->session->n_events; e++)
		atomic_store(&a->slots[slot].sampler[e], fds ? fds[e] : -1);
}

/* Who samples early comes before who counts the same event: of the counters of some PMUs only the
 * first is good for samples (QEMU's aarch64: the others tell overflows late; its riscv64: the
 * second of one event stands still). The side records come with who counts, for it stays. */
int attach_open_on(const struct attach *a, pid_t tid, size_t slot, int *fds, bool later,
		   struct err *err)
{
	const struct session *s = a->session;
	bool side = tid != ATTACH_ALL || !a->split;
	size_t n = attach_per_cpu(a), early = attach_first_early(a);
	int r = 0;

	fds += slot * n;
	for (size_t k = 0; r == 0 && k < n; k++) {
		size_t i = (early + k) % n, e;
		enum part part = attach_part(a, tid, i, &e);
		bool carries = side && (side_apart(a) ? part == PART_SIDE : i < early);

		if (part == PART_NONE || (e < s->n_events && s->how[e].some_cpus &&
					  !cpus_has(&s->how[e].cpus, a->slots[slot].cpu)))
			continue;
		r = open_part(a, tid, &a->slots[slot], fds, i, carries, later, err);
		side = side && !carries;
	}
	if (r < 0)
		attach_close_fds(fds, attach_per_cpu(a));
	else if (tid == ATTACH_ALL)
		attach_publish_samplers(a, slot, fds);
	return r;
}
