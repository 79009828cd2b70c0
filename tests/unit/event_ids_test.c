/* SPDX-License-Identifier: MIT
 *
 * event_ids: what was added is found, what was not is no event, and room is told truly.
 */
#include "unit.h"
#include "watch/event_ids.h"

static void found_again(void **state)
{
	struct event_ids *t = event_ids_create(1000, NULL);
	uint32_t n = 0;

	assert_non_null(t);
	while (event_ids_room(t, 1)) {
		event_ids_add(t, 7 + 64 * (uint64_t)n, (uint8_t)(n % 5)); /* they collide */
		n++;
	}
	assert_in_range(n, 1000, 4000);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(event_ids_find(t, 7 + 64 * (uint64_t)i), i % 5);
	assert_int_equal(event_ids_find(t, 7 + 64 * (uint64_t)n), EVENT_IDS_UNKNOWN);
	assert_int_equal(event_ids_find(t, 1ull << 40), EVENT_IDS_UNKNOWN);
	event_ids_destroy(t);
}

static struct event_ids *table(uint64_t id, uint8_t event, struct event_ids *older)
{
	struct event_ids *t = event_ids_create(1, older);

	assert_non_null(t);
	event_ids_add(t, id, event);
	return t;
}

/* Those of the last table are known still, older ones not; nor what is no number. */
static void the_last_table_is_asked(void **state)
{
	struct event_ids *t = table(9, 3, table(8, 2, table(7, 1, NULL)));

	for (int i = 0; i < 2; i++) {
		assert_int_equal(event_ids_find(t, 9), 3);
		assert_int_equal(event_ids_find(t, 8), i ? EVENT_IDS_UNKNOWN : 2);
		assert_int_equal(event_ids_find(t, 7), EVENT_IDS_UNKNOWN);
		assert_int_equal(event_ids_find(t, 0), EVENT_IDS_UNKNOWN);
		event_ids_destroy_older(t);
	}
	event_ids_destroy(t);
}

static void room(void **state)
{
	struct event_ids *t = event_ids_create(100, NULL);

	assert_true(event_ids_room(t, 100));
	assert_false(event_ids_room(t, 1000));
	event_ids_destroy(t);
	event_ids_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(found_again),
					    cmocka_unit_test(the_last_table_is_asked),
					    cmocka_unit_test(room) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
