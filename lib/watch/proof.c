/* SPDX-License-Identifier: MIT */
#include "watch/proof.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "sys/cpus.h"
#include "sample/perf_decode.h"
#include "bpf/run_table.h"
#include "targets/births.h"
#include "targets/ours.h"

bool proof_is_switch(const struct perf_event_header *h, const unsigned char *end,
		     struct proof_switch *ret)
{
	struct perf_trailer t;

	/* CPU_WIDE also names the other thread; the trailer is of the same one. */
	if ((h->type != PERF_RECORD_SWITCH && h->type != PERF_RECORD_SWITCH_CPU_WIDE) ||
	    h->size < sizeof(*h) + PERF_TRAILER)
		return false;
	perf_decode_trailer(end, &t);
	ret->pid = t.pid;
	ret->tid = t.tid;
	ret->time = t.time;
	ret->out = h->misc & PERF_RECORD_MISC_SWITCH_OUT;
	ret->preempt = h->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
	return true;
}

/* Threads that share a slot make each other look like having run: that errs on
 * the side of "late". */
static _Atomic uint64_t *noted(_Atomic uint64_t *table, pid_t tid)
{
	return &table[(uint32_t)tid * 2654435761u >> 19 & (LAST_IN - 1)];
}

/* The last bits of a time of leaving are the CPU's. */
static const uint64_t OUT_CPUS = (1 << 12) - 1;

/* A ring with less room than the longest record needs may have dropped any. */
static bool may_have_dropped(const struct reader_config *c, const struct perf_ring *r,
			     uint64_t tail, uint64_t head)
{
	return head - tail > r->size - (c->record_bytes ?: PERF_RECORD_BYTES);
}

/* A CPU that goes offline loses the events that see all it runs (perf_event_exit_cpu()), and
 * its hotplug thread does that. cpuwatch_look() finds out whether it did. */
void proof_note_in(struct reader_config *c, struct cpu_slot *slot, pid_t tid, uint64_t time)
{
	clock_raise(noted(c->last_in, tid), time);
	if (tid && tid == slot->hotplug)
		clock_raise(&slot->gone_ns, time);
}

void proof_note_out(struct reader_config *c, struct cpu_slot *slot, pid_t tid, uint64_t time)
{
	if (tid && tid == slot->hotplug)
		clock_raise(&slot->left_ns, time);
	if (c->last_out)
		clock_raise(noted(c->last_out, tid),
			 (time & ~OUT_CPUS) | ((uint64_t)slot->cpu & OUT_CPUS));
}

bool proof_clear(const struct reader_config *c, struct sight_seen *seen, uint64_t since)
{
	return c->sight && sight_clear(c->sight, seen, since);
}

bool proof_left_another(struct reader_config *c, const struct cpu_slot *slot, pid_t tid,
			uint64_t since)
{
	uint64_t out;

	if (c->table)
		return run_table_left_another(c->table, tid, slot->cpu, since);
	if (!c->last_out)
		return false;
	out = atomic_load_explicit(noted(c->last_out, tid), memory_order_acquire);
	return (out & OUT_CPUS) != ((uint64_t)slot->cpu & OUT_CPUS) &&
	       (out | OUT_CPUS) > since;
}

void proof_consume(struct reader_config *c, struct cpu_slot *slot, uint64_t to)
{
	uint64_t tail = perf_ring_tail(&slot->ring);

	atomic_store(&slot->dropping, true);
	perf_ring_consume(&slot->ring, to);
	/* Until there was room; so the head is looked at after that. */
	atomic_thread_fence(memory_order_seq_cst);
	if (may_have_dropped(c, &slot->ring, tail, perf_ring_head(&slot->ring)))
		clock_raise(&c->blind_ns, now_ns());
	atomic_store(&slot->dropping, false);
}

void proof_opening(struct reader_config *c, pid_t tid)
{
	atomic_store(&c->opening, tid);
}

void proof_opened(struct reader_config *c, pid_t tid)
{
	clock_raise(noted(c->last_in, tid), now_ns());
	atomic_store(&c->opening, 0);
}

/* @opening is looked at first: as it ends the time is noted. */
bool proof_seen_noted(struct reader_config *c, pid_t tid, uint64_t since)
{
	return atomic_load(&c->opening) == tid ||
	       atomic_load_explicit(noted(c->last_in, tid), memory_order_acquire) > since;
}

bool proof_ran_noted(struct reader_config *c, pid_t tid, uint64_t since)
{
	work_add(WORK_foreign, 3);
	return proof_seen_noted(c, tid, since) ||
	       atomic_load_explicit(&c->blind_ns, memory_order_acquire) > since;
}

uint64_t proof_came(struct reader_config *c, pid_t tid)
{
	if (!c->table)
		return 0;
	work_add(WORK_foreign, 2);
	/* What was read before counts. */
	atomic_thread_fence(memory_order_seq_cst);
	return run_table_came(c->table, tid);
}

bool proof_ran_in_ring(struct reader_config *c, struct cpu_slot *slot, uint64_t *cursor,
		       pid_t tid, uint64_t since)
{
	uint64_t tail = perf_ring_tail(&slot->ring), head = perf_ring_head(&slot->ring);
	uint64_t pos;
	unsigned char end[PERF_TRAILER];
	struct proof_switch sw;
	bool ran = false;

	work_add(WORK_rings, 1);
	work_foreign(&slot->work, 4); /* tail, head twice, dropping */
	for (pos = MAX(*cursor, tail); pos < head;) {
		struct perf_event_header h =
			perf_ring_peek(&slot->ring, pos, end, sizeof(end));
		uint64_t taken;

		work_add(WORK_records, 1);
		atomic_thread_fence(memory_order_acquire);
		/* What its owner has taken from the ring meanwhile may be overwritten, and is noted. */
		taken = perf_ring_tail(&slot->ring);
		if (taken > pos) {
			pos = taken;
			continue;
		}
		if (h.size < sizeof(h) || (h.size % 8 && h.type != PERF_RECORD_SAMPLE))
			return true;
		if (proof_is_switch(&h, end, &sw) && sw.out) {
			proof_note_out(c, slot, sw.tid, sw.time);
		} else if (proof_is_switch(&h, end, &sw)) {
			proof_note_in(c, slot, sw.tid, sw.time);
			ran = ran || (sw.tid == tid && sw.time > since);
		} else {
			births_note(c->births, &slot->ring, pos, &h, end);
			if (c->split || c->table)
				proof_note_birth(c, slot, pos, &h);
		}
		pos += h.size;
	}
	*cursor = head;
	/* A ring near full may have dropped the very record we look for; or its owner
	 * moved on meanwhile and the kernel wrote over what we read: then there was more
	 * from @tail on than a ring holds. */
	head = perf_ring_head(&slot->ring);
	return ran || may_have_dropped(c, &slot->ring, tail, head) || atomic_load(&slot->dropping);
}

bool proof_inherits(const struct reader_config *c, pid_t pid, pid_t ppid, uint64_t time)
{
	bool other = c->strangers && !c->descends && births_execed(c->births, pid) > time;

	return c->follow && !other && (c->split || ours_has(c->ours, ppid));
}

void proof_note_birth(struct reader_config *c, const struct cpu_slot *slot, uint64_t pos,
		      const struct perf_event_header *h)
{
	/* Behind the header of a PERF_RECORD_FORK. */
	struct {
		uint32_t pid, ppid, tid, ptid;
		uint64_t time;
		unsigned char trailer[PERF_TRAILER];
	} fork;

	if (h->type != PERF_RECORD_FORK || h->size != sizeof(*h) + sizeof(fork))
		return;
	perf_ring_peek(&slot->ring, pos, &fork, sizeof(fork));
	atomic_thread_fence(memory_order_acquire);
	/* Nobody has taken it from the ring meanwhile, so it was not overwritten. */
	if (fork.pid == fork.ppid || perf_ring_tail(&slot->ring) > pos)
		return;
	if (c->split || ours_has(c->ours, (pid_t)fork.ppid))
		ours_set(c->ours, (pid_t)fork.pid,
			 proof_inherits(c, (pid_t)fork.pid, (pid_t)fork.ppid, fork.time));
}

void proof_look_for_births(struct reader_config *c, const struct cpu_slot *own,
			   uint64_t *cursors)
{
	for (uint32_t i = 0; i < c->n_slots; i++)
		if (&c->slots[i] != own)
			proof_ran_in_ring(c, &c->slots[i], &cursors[i], 0, UINT64_MAX);
}

static bool is_watched(const struct cpu_slot *s, uint64_t since)
{
	uint64_t from = slot_watched(s);

	work_foreign(&s->work, 2);
	return from && from <= since;
}

bool proof_ran_unwatched(struct reader_config *c, pid_t tid, uint64_t since)
{
	uint32_t watched = 0, n = c->n_slots;
	struct cpus may;

	for (uint32_t i = 0; i < n; i++)
		watched += is_watched(&c->slots[i], since);
	if (watched == c->cap_slots)
		return false;
	/* What a thread may use now, it need not have been able to use before. */
	if (atomic_load(&c->wanders) || cpus_of_thread(&may, tid) < 0)
		return true;
	for (uint32_t i = 0; i < n; i++)
		if (is_watched(&c->slots[i], since))
			cpus_del(&may, c->slots[i].cpu);
	if (cpus_next(&may, 0) < 0)
		return false;
	/* Before the recording began no CPU was watched: that it may use one does not tell more. */
	if (since >= atomic_load_explicit(&c->start_ns, memory_order_relaxed))
		atomic_store(&c->wanders, true);
	return true;
}

bool proof_switches_hidden(void)
{
	int fd = open("/proc/1/syscall", O_RDONLY | O_CLOEXEC);
	bool hidden;
	char c;

	if (fd < 0)
		return true;
	hidden = read(fd, &c, 1) < 0;
	close(fd);
	return hidden;
}

/* -1: there is no such thread. */
static int open_stat(pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The thread's stat in @text, 0 bytes when it is gone. A file that was kept may be that of
 * another thread, which has ended, with the same number. */
static size_t read_stat(struct proof_stat_files *files, pid_t pid, pid_t tid, char *text,
			size_t size)
{
	typeof(files->of[0]) *kept = &files->of[(uint32_t)tid % PROOF_STAT_FILES];
	ssize_t n = kept->tid == tid ? pread(kept->fd, text, size, 0) : 0;

	if (n > 0)
		return (size_t)n;
	if (kept->tid)
		close(kept->fd);
	kept->fd = open_stat(pid, tid);
	kept->tid = kept->fd < 0 ? 0 : tid;
	n = kept->tid ? pread(kept->fd, text, size, 0) : 0;
	return n > 0 ? (size_t)n : 0;
}

void proof_stat_files_close(struct proof_stat_files *files)
{
	for (size_t i = 0; i < PROOF_STAT_FILES; i++)
		if (files->of[i].tid)
			close(files->of[i].fd);
	*files = (struct proof_stat_files){ 0 };
}

/* Field 39 of proc_pid_stat(5); the name in parentheses may hold anything. */
bool proof_moved(struct proof_stat_files *files, pid_t pid, pid_t tid, int cpu)
{
	char text[1024];
	const char *at;

	text[read_stat(files, pid, tid, text, sizeof(text) - 1)] = '\0';
	at = strrchr(text, ')');
	for (int field = 2; at && field < 39; field++) {
		at = strchr(at, ' ');
		at += at != NULL;
	}
	return !at || atoi(at) != cpu;
}
