/* SPDX-License-Identifier: MIT */
#include "handover.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../clock.h"

static const uint64_t HOLD_NS = 20000000; /* longest hold */

int handover_init(struct handover *h)
{
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

void handover_give(struct handover *h, pid_t tid)
{
	uint32_t turn = atomic_load_explicit(&h->turn, memory_order_relaxed) + 1;
	uint64_t end = now_ns() + HOLD_NS, now;

	h->tid = tid;
	atomic_store_explicit(&h->turn, turn, memory_order_release);
	eventfd_write(h->posted, 1);
	while (atomic_load_explicit(&h->turn, memory_order_acquire) == turn) {
		struct timespec left;

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
	uint32_t turn = atomic_load_explicit(&h->turn, memory_order_acquire);

	*tid = h->tid;
	return turn & 1 ? turn : 0;
}

bool handover_release(struct handover *h, uint32_t turn)
{
	if (!turn || !end_turn(h, turn))
		return false;
	syscall(SYS_futex, &h->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return true;
}
