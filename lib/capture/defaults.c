/* SPDX-License-Identifier: MIT
 *
 * defaults - what a capture does that has nothing of its own to do there.
 */
#include <errno.h>
#include <time.h>

#include "capture/capture.h"

const char *capture_says_nothing(char *buf, size_t size)
{
	if (size)
		buf[0] = '\0';
	return buf;
}

const char *capture_no_caveat(const struct preempt_plan *p, char *buf, size_t size)
{
	(void)p;
	return capture_says_nothing(buf, size);
}

void capture_limits_nothing(struct perf_options *o)
{
	(void)o;
}

int capture_slot_as_is(struct cpu_slot *slot)
{
	(void)slot;
	return 0;
}

int capture_attach_here(const struct capture_attach *a, struct err *err)
{
	return a->attach(a->arg, err);
}

int capture_waits_ordinary(const struct preempt_plan *p)
{
	(void)p;
	return -ENOTSUP;
}

bool capture_stays(const struct reader *r)
{
	(void)r;
	return false;
}

void capture_sleep(struct reader *r, uint64_t left_ns)
{
	struct timespec t = { .tv_nsec = (long)left_ns };

	(void)r;
	if (left_ns > CAPTURE_SHED_NS)
		t.tv_nsec = CAPTURE_SHED_NS;
	nanosleep(&t, NULL);
}

void capture_idle(struct reader *r)
{
	(void)r;
}

bool capture_comes_back_never(const struct hold *h)
{
	(void)h;
	return false;
}
