/* SPDX-License-Identifier: MIT
 *
 * recorder_join: a process that fits a scope and can't have events is left out altogether.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"
#include "base/stats.h"
#include "capture/waits.h"
#include "capture/waits_int.h"
#include "record/recorder_int.h"
#include "sys/proc.h"
#include "targets/joins.h"

#include "sleeper.h"

/* In the place of joins.c: who joins next. */
struct joins {
	pid_t next;
};

struct joins *joins_create(struct tracker *t, const struct scope *s,
			   struct joins_listener listener)
{
	return NULL;
}

void joins_destroy(struct joins *j)
{
}

void joins_begin(struct joins *j, bool told)
{
}

pid_t joins_parent(const struct joins *j, pid_t pid)
{
	return -ESRCH;
}

bool joins_look(struct joins *j, pid_t pid)
{
	return true;
}

pid_t joins_run(struct joins *j)
{
	pid_t pid = j->next;

	j->next = 0;
	return pid;
}

int joins_due_ms(const struct joins *j, int most)
{
	return most;
}

struct fix {
	struct recorder r;
	struct session session;
	struct stats stats;
	struct joins joins;
	pid_t pid;	/* a child of ours that sleeps */
	int code;	/* what each thread of it is told that is to get events */
	char told[300]; /* to a person, at last */
};

static void tell(void *arg, const char *text)
{
	struct fix *f = arg;

	snprintf(f->told, sizeof(f->told), "%s", text);
}

static int seize(void *arg, pid_t tid, struct err *err)
{
	const struct fix *f = arg;

	return f->code ? err_set(err, f->code, "no descriptors left") : 0;
}

static pid_t start(void)
{
	pid_t pid = sleeper_start();

	while (proc_state(pid, pid) != 'S')
		usleep(100);
	return pid;
}

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));
	struct target *t;

	f->pid = start();
	f->session.stats = &f->stats;
	f->r.session = &f->session;
	f->r.o.note = (struct note){ .take = tell, .arg = f };
	f->r.attach.session = &f->session;
	f->r.attach.hooks = (struct attach_hooks){ .seize = seize, .arg = f };
	f->r.config.targets = &f->r.tracker.targets;
	f->r.joins = &f->joins;
	assert_int_equal(queue_init(&f->r.own, 1 << 20), 0);
	assert_int_equal(tracker_init(&f->r.tracker, -1), 0);
	f->r.waits = waits_create(&f->r.config);
	assert_non_null(f->r.waits);
	t = target_create(f->pid);
	assert_non_null(t);
	assert_int_equal(targets_publish(&f->r.tracker.targets, &t, 1), 0);
	f->joins.next = f->pid;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	waits_destroy(f->r.waits);
	attach_deinit(&f->r.attach);
	tracker_deinit(&f->r.tracker);
	queue_deinit(&f->r.own);
	sleeper_end(f->pid);
	free(f);
	return 0;
}

static void joins_asleep(void **state)
{
	struct fix *f = *state;
	const struct queue_record *rec;
	const struct wait_message *m;

	recorder_join(&f->r);
	assert_non_null(targets_find(&f->r.tracker.targets, f->pid));
	rec = queue_peek(&f->r.waits->joined);
	assert_non_null(rec);
	m = (const void *)rec->data;
	assert_int_equal(m->pid, f->pid);
	assert_int_equal(m->type, WAIT_MSG_ASLEEP);
	assert_int_equal(f->r.n_joined, 1);
	assert_string_equal(f->told, "");
}

/* A wait of its would have its stack read, which makes it a target. */
static void has_no_events(void **state)
{
	struct fix *f = *state;

	f->code = -EMFILE;
	recorder_join(&f->r);
	assert_null(targets_find(&f->r.tracker.targets, f->pid));
	assert_null(queue_peek(&f->r.waits->joined));
	assert_int_equal(f->r.n_joined, 0);
	assert_int_equal(f->r.unseen_ns, 0);
	assert_non_null(strstr(f->told, "can't join: no descriptors left"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(joins_asleep, setup, teardown),
		cmocka_unit_test_setup_teardown(has_no_events, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
