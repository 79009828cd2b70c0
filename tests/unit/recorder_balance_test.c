/* SPDX-License-Identifier: MIT
 *
 * recorder_balance: from when on it is counted.
 */
#include <dlfcn.h>
#include <unistd.h>

#include "unit.h"
#include "record/recorder_int.h"

enum { EVENT_FD = 100000, COUNTED = 1000 };

static struct recorder recorder;
static bool noted; /* before the event was read */

ssize_t read(int fd, void *to, size_t n)
{
	ssize_t (*f)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
	const uint64_t reading[] = { COUNTED, 2000, 2000 };

	if (fd != EVENT_FD)
		return f(fd, to, n);
	noted = recorder.ticks.n == 1;
	memcpy(to, reading, sizeof(reading));
	return sizeof(reading);
}

/* What the targets have used is looked at first, which takes as long as there are many: events that
 * count meanwhile have no samples. */
static void events_are_read_last(void **state)
{
	struct attached thread = { .tid = getpid(), .fds = (int[]){ EVENT_FD } };
	struct session session = { .n_events = 1 };
	struct recorder *r = &recorder;
	struct target *t;

	session.events[0].attr = (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.exclude_kernel = 1, /* so ticks tell the part in the kernel */
	};
	r->session = &session;
	r->attach = (struct attach){
		.session = &session, .n_slots = 1, .attached = &thread, .n_attached = 1
	};
	assert_int_equal(targets_init(&r->tracker.targets), 0);
	t = target_create(getpid());
	assert_non_null(t);
	assert_int_equal(targets_publish(&r->tracker.targets, &t, 1), 0);
	recorder_begin_counting(r);
	assert_int_equal(r->counted_before[0], COUNTED);
	assert_true(noted);
	ticks_deinit(&r->ticks);
	targets_deinit(&r->tracker.targets);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_are_read_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
