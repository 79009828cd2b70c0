/* SPDX-License-Identifier: MIT */
#include "capture/reader.h"
#include "sys/harden.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "sys/cpus.h"
#include "base/nudge.h"
#include "base/sparse.h"
#include "base/stats.h"
#include "capture/hold.h"
#include "watch/proof.h"
#include "capture/taping.h"
#include "capture/wait_post.h"

enum { JOIN_NS = 50000000, STACK_BYTES = 512 << 10 };

/* --- the hold budget --- */

enum { SHED_MS = 10, IDLE_MS = -1, THREADS_MS = 3 };

/* Nanoseconds left of a second whose budget is used up, else 0. What was beyond is paid by the
 * seconds that follow. */
static uint64_t over_budget(struct reader *r)
{
	uint64_t budget = r->c->hold_budget * SECOND / 100;
	uint64_t now = r->woke_ns = now_ns();
	uint64_t quiet =
		atomic_load_explicit(&r->slot->handover.quiet_until, memory_order_acquire);

	if (quiet) /* until the tracer has ended it */
		return quiet > now ? quiet - now : 1;
	if (now - r->window_ns >= SECOND) {
		r->held_ns -= MIN(r->held_ns, (now - r->window_ns) / SECOND * budget);
		r->window_ns = now;
	}
	if (r->held_ns < budget)
		return 0;
	return SECOND - (now - r->window_ns);
}

/* Let the targets run; what is sampled meanwhile is counted, not read. */
static void shed(struct reader *r, uint64_t left)
{
	atomic_store_explicit(&r->c->over_budget, true, memory_order_relaxed);
	r->c->capture->shed(r, left);
	hold_shed(r);
}

/* --- the thread --- */

/* To the kernel: what came before the oldest sample that waits. */
static void give_back(struct reader *r)
{
	proof_consume(r->c, r->slot, r->n_pend ? r->pend[0].pos : r->pos);
}

bool reader_drain(struct reader *r, uint64_t shed_left, bool last)
{
	const struct capture_ops *capture = r->c->capture;
	uint64_t head;
	bool any;

	epoch_enter(&r->c->targets->epoch, &r->slot->targets);
	r->crowded = atomic_load_explicit(&r->c->crowded, memory_order_relaxed);
	/* First: the samples of a thread that is held lie before the head then. */
	capture->scan(r);
	head = perf_ring_head(&r->slot->ring);
	any = r->pos != head;
	if (r->tap)
		r->tap->drain(r, head, shed_left, last);
	tap_held(r);
	while (r->pos < head) {
		r->pos = scan_record(r, r->pos);
		if (shed_left && r->n_pend)
			hold_shed(r);
	}
	if (last)
		capture->flush(r);
	else
		capture->read(r);
	give_back(r);
	capture->resume(r);
	if (!r->early.tid) { /* else it is judged in a later drain */
		epoch_leave(&r->slot->targets);
		emit_codes_gone(r);
	}
	return any || r->n_pend;
}

/* It has the nice of the control thread, which is urgent: so it begins soon on a busy machine, but
 * does not go before others for good. False: it is not where or what the capture needs. */
static bool begin(struct reader *r)
{
	bool fit = r->c->capture->thread_begin(r->c->plan, r->slot->cpu) == 0;

	if ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_FIFO)
		setpriority(PRIO_PROCESS, 0, r->c->nice);
	return fit;
}

static bool is_to_end(const struct reader *r)
{
	return atomic_load_explicit(&r->stop, memory_order_acquire);
}

/* Is it fit from now on? Whoever was not tries again at each wake-up: a cpuset that grows takes it
 * back to its CPU, but does not make it urgent. Before it drains its ring, for it was unfit for all
 * that is there. Who is to end stays where it may run. */
static bool begin_again(struct reader *r)
{
	r->unfit = r->unfit || r->c->capture->moved_away(r);
	return !r->unfit || (!is_to_end(r) && begin(r));
}

/* Switch records do not wake us, nor do samples that stop nobody: look now and then, so that
 * they do not fill the ring. When a look has found nothing the control thread looks instead
 * (reader_wake()), and the kernel wakes us when the ring is half full of whatever. */
static void wait_for_records(struct reader *r, bool busy, bool shedding)
{
	int ms = r->c->tell_threads ? THREADS_MS : busy ? r->c->capture->wait_ms : IDLE_MS;
	struct epoll_event ev;

	if (shedding)
		ms = SHED_MS;
	atomic_store_explicit(&r->asleep, ms < 0, memory_order_relaxed);
	epoll_wait(r->wake, &ev, 1, ms);
}

static void read_until_stopped(struct reader *r)
{
	uint64_t left = 0, since;
	bool busy = true;

	atomic_store_explicit(&r->tid, gettid(), memory_order_relaxed);
	work_own = &r->slot->work;
	harden_thread(HARDEN_READER, 0);
	r->unfit = !begin(r);
	pystack_warm(r->ps);
	/* A ring that is full already wakes nobody. */
	since = now_ns();
	reader_drain(r, 0, false);
	if (!atomic_load_explicit(&r->slot->drained_ns, memory_order_relaxed) &&
	    atomic_load_explicit(&r->c->start_ns, memory_order_relaxed) == UINT64_MAX)
		r->first_pos = r->pos;
	atomic_store_explicit(&r->slot->drained_ns, since, memory_order_release);
	if (atomic_fetch_add(&r->c->n_ready, 1) + 1 == r->c->n_slots)
		sem_post(&r->c->all_ready);
	while (!is_to_end(r)) {
		bool fit;

		wait_for_records(r, busy, left);
		work_add(WORK_wakeups, 1);
		fit = begin_again(r);
		left = over_budget(r);
		if (left)
			shed(r, left);
		busy = reader_drain(r, left, false);
		atomic_store_explicit(&r->slot->drained_ns, r->woke_ns, memory_order_release);
		r->unfit = !fit;
	}
	r->unfit = r->unfit || r->c->capture->moved_away(r);
	reader_drain(r, 0, true);
}

static void *reader_main(void *arg)
{
	struct reader *r = arg;
	jmp_buf end;

	r->mem.end = &end;
	if (setjmp(end) == 0) /* else abandoned: @r is gone, or will be */
		read_until_stopped(r);
	return NULL;
}

void reader_destroy(struct reader *r)
{
	if (!r)
		return;
	taping_destroy(r->taping);
	proof_stat_files_close(&r->stat_files);
	if (r->wake >= 0)
		close(r->wake);
	free(r->block);
}

/* Edge-triggered epoll asks a ring once for each wake-up, poll() twice. -1: none. */
static int wait_on(int ready, int posted)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd >= 0 && (epoll_ctl(fd, EPOLL_CTL_ADD, ready, &ev) < 0 ||
			(posted >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, posted, &ev) < 0))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* What wakes the reader of @slot besides its ring; -1: nothing. */
static int poked_by(const struct reader_config *c, const struct cpu_slot *slot)
{
	return c->waits && slot->index < c->cap_slots ? c->waits->poke[slot->index] :
							slot->handover.posted;
}

size_t reader_bytes(const struct reader_config *c)
{
	return sparse_room(sizeof(struct reader)) +
	       sparse_room(c->cap_slots * sizeof(uint64_t)) + pystack_bytes();
}

/* Not the 8 MiB of a shell's limit, of which a kernel may make 2 MiB resident at once. */
static int start_thread(struct reader *r)
{
	pthread_attr_t attr;
	int code;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	code = pthread_create(&r->thread, &attr, reader_main, r);
	pthread_attr_destroy(&attr);
	return code;
}

/* It writes down all that it meets. */
static bool begin_tape(struct reader *r)
{
	r->taping = taping_create();
	r->tap = &taping_ops;
	r->mem.saw = taping_saw;
	r->mem.saw_arg = r;
	return r->taping;
}

struct reader *reader_create(struct reader_config *c, struct cpu_slot *slot)
{
	/* One that was given up may still use the slot's. */
	void *own = slot->room ? NULL : sparse_alloc(reader_bytes(c));
	struct reader *r = slot->room ? slot->room : own;

	slot->room = NULL;
	if (!r)
		return NULL;
	r->block = own;
	r->cursor = (void *)((char *)r + sparse_room(sizeof(*r)));
	r->c = c;
	r->slot = slot;
	guarded_init(&r->mem, &slot->guard, c->kick);
	r->pos = perf_ring_tail(&slot->ring);
	r->random = now_ns() | 1;
	r->look_at = slot->index;
	r->ps = pystack_place((char *)r->cursor +
				      sparse_room(c->cap_slots * sizeof(*r->cursor)),
			      c->max_frames, emit_code, r);
	r->wake = wait_on(slot->ring.fd, poked_by(c, slot));
	emit_generation(slot);
	epoch_join(&c->targets->epoch, &slot->targets);
	if (r->wake >= 0 && (!c->tape || begin_tape(r)))
		return r;
	reader_destroy(r);
	return NULL;
}

int reader_start(struct reader_config *c, struct cpu_slot *slot)
{
	struct reader *r = reader_create(c, slot), *was = slot->stuck;
	int code;

	if (!r)
		return -ENOMEM;
	if (was && was->n_pend)
		scan_take_over(r, was);
	code = start_thread(r);
	if (code) {
		reader_destroy(r);
		return -code;
	}
	if (was)
		was->n_pend = 0;
	slot->reader = r;
	slot->bare = false;
	return 0;
}

/* On its CPU a target of the same priority may run forever. */
static void let_run(struct reader *r)
{
	struct sched_param normal = { 0 };
	cpu_set_t any;

	memset(&any, 0xff, sizeof(any));
	pthread_setaffinity_np(r->thread, sizeof(any), &any);
	/* Without the flag that it has, this would take a right (sched(7)). */
	pthread_setschedparam(r->thread, SCHED_OTHER | SCHED_RESET_ON_FORK, &normal);
}

static void ask_to_end(struct reader *r)
{
	atomic_store_explicit(&r->stop, true, memory_order_release);
	let_run(r);
}

/* One inside a read that hangs is abandoned, now as ever. */
static bool is_over(struct cpu_slot *slot, const struct timespec *until)
{
	struct reader *r = slot->reader;

	nudge(r->thread);
	if (pthread_timedjoin_np(r->thread, NULL, until) != 0)
		return reader_stuck(slot) != 0;
	reader_destroy(r);
	slot->reader = NULL;
	atomic_store(&slot->drained_ns, UINT64_MAX);
	return true;
}

/* How many still run. All have the same time. */
static size_t await_some(struct cpu_slot *slots, size_t n)
{
	struct timespec until;
	size_t left = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += JOIN_NS;
	until.tv_sec += until.tv_nsec / (long)SECOND;
	until.tv_nsec %= (long)SECOND;
	for (size_t i = 0; i < n; i++)
		left += slots[i].reader && !is_over(&slots[i], &until);
	return left;
}

/* The samples that wait are torn: nobody will read them. */
static void leave_waiting(struct reader *r)
{
	for (uint32_t i = 0; i < r->n_pend; i++) {
		const struct pending *p = &r->pend[i];
		struct walk w = { .pid = p->s.pid,
				  .tid = p->s.tid,
				  .sample_ns = p->s.time,
				  .early = p->early,
				  .published = targets_find(r->c->targets, p->s.pid),
				  .able = PYSTACK_END_N,
				  .res.end = PYSTACK_END_N,
				  .ran = true,
				  .t_end = now_ns() };

		if (p->done || hold_ignored(r, w.tid, w.published))
			continue;
		STATS_ADD(r->c->stats, torn_quarantined, 1);
		hold_judge(r, &w);
	}
	r->n_pend = 0;
}

/* No other reader comes behind @r, which hangs: neither those that wait nor those behind them are
 * read. What lies before the ring's tail another reader has read since. */
static void leave_unread(struct reader *r)
{
	uint64_t head = perf_ring_head(&r->slot->ring);

	leave_waiting(r);
	r->pos = MAX(r->pos, perf_ring_tail(&r->slot->ring));
	while (r->pos < head) {
		r->pos = scan_record(r, r->pos);
		leave_waiting(r);
	}
	give_back(r);
}

void readers_stop(struct cpu_slot *slots, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (slots[i].reader)
			ask_to_end(slots[i].reader);
	while (await_some(slots, n))
		;
	for (size_t i = 0; i < n; i++)
		if (slots[i].stuck)
			leave_unread(slots[i].stuck);
}

void reader_nudge(struct cpu_slot *slot)
{
	nudge(slot->reader->thread);
}

void reader_wake(struct cpu_slot *slot)
{
	if (slot->reader &&
	    atomic_load_explicit(&slot->reader->asleep, memory_order_relaxed) &&
	    perf_ring_head(&slot->ring) != perf_ring_tail(&slot->ring))
		reader_nudge(slot);
}

/* When its read returns it ends and touches nothing else; the kernel may write there until
 * then. */
static void drop_memory(struct reader *r)
{
	size_t own = sparse_room(sizeof(*r));

	sparse_drop((char *)r + own, reader_bytes(r->c) - own);
}

pid_t reader_stuck(struct cpu_slot *slot)
{
	struct reader *r = slot->reader;
	pid_t pid = guard_stuck(&slot->guard, atomic_load(&r->tid));

	if (!pid)
		return 0;
	/* When its read returns it ends, without another look at a target. */
	epoch_leave(&slot->targets);
	hold_forget_processed(r);
	if (r->wait) /* which is told of when it is over */
		r->n_pend = 0;
	give_back(r);
	drop_memory(r);
	r->next = slot->stuck;
	slot->stuck = r;
	slot->reader = NULL;
	atomic_store(&slot->drained_ns, UINT64_MAX);
	return pid;
}

pid_t reader_returned(struct cpu_slot *slot)
{
	struct reader **p = &slot->stuck, *r;
	pid_t pid;

	/* What waits in the last one the next one needs. */
	while (*p && ((*p)->n_pend ||
		      !atomic_load_explicit(&(*p)->mem.returned, memory_order_acquire)))
		p = &(*p)->next;
	r = *p;
	if (!r)
		return 0;
	*p = r->next;
	pid = r->mem.below.pid;
	pthread_join(r->thread, NULL);
	reader_destroy(r);
	return pid;
}
