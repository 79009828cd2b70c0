/* SPDX-License-Identifier: MIT */
#include "watch/handover.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static const uint64_t HOLD_NS = 20000000; /* longest hold */
/* A wake-up costs more than most reads that are left. */
static const uint64_t SPIN_NS = 50000;

int handover_init(struct handover *h, int cpu)
{
	h->cpu = cpu;
	h->posted = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return h->posted < 0 ? -errno : 0;
}

void handover_deinit(struct handover *h)
{
	if (h->posted >= 0)
		close(h->posted);
}

/* Whoever comes first makes the turn even. */
static bool end_turn(struct handover *h, uint32_t turn)
{
	return atomic_compare_exchange_strong(&h->turn, &turn, turn + 1);
}

/* Tracer: take the reader's offer if it is of @tid. What is written before the exchange is
 * read by nobody unless that succeeds. */
static bool accept_offer(struct handover *h, pid_t tid)
{
	uint64_t offer = atomic_load(&h->offer);

	if ((pid_t)(uint32_t)offer != tid || offer & HANDOVER_ACCEPTED)
		return false;
	memcpy(h->accepted_regs, h->regs, sizeof(h->regs));
	h->accepted_ran_on_ns = h->ran_on_ns;
	h->accepted_ns = now_ns();
	return atomic_compare_exchange_strong(&h->offer, &offer, offer | HANDOVER_ACCEPTED);
}

/* The reader is reading, most likely. Not on its own CPU, which it needs for that. */
static bool ends_soon(struct handover *h, uint32_t turn, pid_t tid)
{
	uint64_t end = now_ns() + SPIN_NS;

	if (sched_getcpu() == h->cpu)
		return false;
	do {
		if (atomic_load_explicit(&h->turn, memory_order_acquire) != turn)
			return true;
		if (accept_offer(h, tid)) {
			end_turn(h, turn);
			return true;
		}
	} while (now_ns() < end);
	return false;
}

void handover_give(struct handover *h, pid_t tid)
{
	uint32_t turn = atomic_load_explicit(&h->turn, memory_order_relaxed) + 1;
	uint64_t end = now_ns() + HOLD_NS, now;

	if (accept_offer(h, tid))
		return;
	atomic_store_explicit(&h->tid, tid, memory_order_relaxed);
	atomic_store(&h->turn, turn);
	/* The reader sets the offer and looks at the turn, we the other way round. */
	if (ends_soon(h, turn, tid))
		return;
	eventfd_write(h->posted, 1);
	while (atomic_load_explicit(&h->turn, memory_order_acquire) == turn) {
		struct timespec left;

		if (accept_offer(h, tid)) {
			end_turn(h, turn);
			return;
		}
		now = now_ns();
		if (now >= end) {
			end_turn(h, turn);
			return;
		}
		left = (struct timespec){ .tv_nsec = (long)(end - now) };
		syscall(SYS_futex, &h->turn, FUTEX_WAIT_PRIVATE, turn, &left, NULL, 0);
	}
}

uint32_t handover_held(const struct handover *h, pid_t *tid)
{
	uint32_t turn = atomic_load(&h->turn);

	*tid = atomic_load_explicit(&h->tid, memory_order_relaxed);
	return turn & 1 ? turn : 0;
}

uint64_t handover_registers(const struct handover *h, uint64_t regs[static ARCH_MAX_REGS])
{
	for (size_t i = 0; i < ARCH_MAX_REGS; i++)
		regs[i] = __atomic_load_n(&h->regs[i], __ATOMIC_RELAXED);
	return __atomic_load_n(&h->ran_on_ns, __ATOMIC_RELAXED);
}

void handover_offer(struct handover *h, pid_t tid)
{
	uint64_t number = ++h->n_offers & 0x7fffffff;

	atomic_store(&h->offer, number << 32 | (uint32_t)tid);
}

bool handover_accepted(const struct handover *h)
{
	return atomic_load_explicit(&h->offer, memory_order_acquire) & HANDOVER_ACCEPTED;
}

bool handover_withdraw(struct handover *h)
{
	return atomic_exchange(&h->offer, 0) & HANDOVER_ACCEPTED;
}

bool handover_release(struct handover *h, uint32_t turn)
{
	if (!turn || !end_turn(h, turn))
		return false;
	syscall(SYS_futex, &h->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return true;
}
