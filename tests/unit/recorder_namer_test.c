/* SPDX-License-Identifier: MIT
 *
 * recorder_namer: where no thread can be made to read the names of threads one is made later.
 */
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unit.h"
#include "record/recorder_int.h"

static char told[300];
static int n_told;

static void tell(void *arg, const char *text)
{
	(void)arg;
	snprintf(told, sizeof(told), "%s", text);
	n_told++;
}

static void watch(struct recorder *r)
{
	r->namer_ns = 0;
	assert_int_equal(recorder_watch_namer(r), RECORDER_WATCH_MS);
	assert_in_range(recorder_watch_namer(r), 1, RECORDER_WATCH_MS + 1);
}

static void no_thread_can_be_made(void **state)
{
	struct rlimit was, none;
	struct recorder *r;

	(void)state;
	if (SANITIZED)
		skip(); /* its own memory is under that limit */
	r = calloc(1, sizeof(*r));
	assert_non_null(r);
	assert_int_equal(tracker_init(&r->tracker, -1), 0);
	assert_int_equal(queue_init(&r->names, 1 << 16), 0);
	epoch_join(&r->tracker.targets.epoch, &r->namer_user);
	r->config.namer_kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->o.note = (struct note){ .take = tell };
	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	none = was;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	watch(r);
	watch(r);
	assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
	assert_null(r->namer);
	assert_int_equal(n_told, 1);
	assert_non_null(strstr(told, "keep the kernel's names"));
	watch(r);
	assert_non_null(r->namer);
	assert_int_equal(n_told, 2);
	assert_non_null(strstr(told, "read again"));
	watch(r);
	assert_int_equal(n_told, 2);
	namer_stop(r->namer);
	close(r->config.namer_kick);
	queue_deinit(&r->names);
	tracker_deinit(&r->tracker);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(no_thread_can_be_made) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
