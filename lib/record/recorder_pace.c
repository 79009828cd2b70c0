/* SPDX-License-Identifier: MIT
 *
 * recorder_pace - now and then each process that was sampled is asked what CPU time it has
 * used, and readers are told how long its periods must be (targets/pace.h).
 */
#include "record/recorder_int.h"
#include "base/clock.h"
#include "sys/proc.h"

/* A clock on CPUs that counts what others run there too, and takes samples of user code and of
 * the kernel: only of both together the scheduler knows the time well. */
static bool may_pace(const struct recorder *r, size_t e)
{
	const struct perf_event_attr *a = &r->session->events[e].attr;

	return r->session->how[e].on_cpus && perf_event_is_clock(a) && !a->exclude_user &&
	       !a->exclude_kernel;
}

/* The event whose periods are paced, one at most; the number of events: none. */
static size_t paced_event(const struct recorder *r)
{
	bool over = r->place == PLACE_CPUS ||
		    (r->place == PLACE_THREADS_FIRST && r->attach.on_cpus);
	size_t e = over && r->capture->prompt ? 0 : r->session->n_events;

	while (e < r->session->n_events && !may_pace(r, e))
		e++;
	return e;
}

static void pace(struct target *t, uint64_t period_ns)
{
	uint32_t taken = atomic_load_explicit(&t->taken, memory_order_relaxed);
	uint64_t cpu_ns;

	if (taken == t->paced.taken || proc_cpu_ns(t->pid, &cpu_ns) < 0)
		return;
	atomic_store_explicit(&t->pace, pace_next(&t->paced, cpu_ns, taken, period_ns),
			      memory_order_relaxed);
}

int recorder_pace(struct recorder *r)
{
	uint64_t now = now_ns();
	size_t e = now < r->pace_ns ? SIZE_MAX : paced_event(r);
	struct targets *t = &r->tracker.targets;
	uint64_t period;

	if (e == SIZE_MAX)
		return (int)((r->pace_ns - now) / 1000000) + 1;
	if (e == r->session->n_events)
		return INT_MAX;
	period = perf_event_period(&r->session->events[e].attr);
	atomic_store_explicit(&r->config.paced, 1u << e, memory_order_relaxed);
	for (size_t i = 0; i < t->n_all; i++)
		if (!t->all[i]->retired)
			pace(t->all[i], period);
	r->pace_ns = now + PACE_MS * 1000000ull;
	return PACE_MS;
}
