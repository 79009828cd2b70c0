/* SPDX-License-Identifier: MIT
 *
 * recorder_messages, recorder_join: who sleeps already as it is dealt with waits since then, and is
 * not forgotten (--mode wall).
 */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "unit.h"
#include "capture/waits.h"
#include "fake_ring.h"
#include "noted.h"
#include "record/recorder_int.h"
#include "targets/joins.h"
#include "targets/ours.h"

enum { FORKED_NS = 1000, PERIOD_NS = 1000000, MOST = 8 };

struct fix {
	struct fake *f;
	struct recorder r;
	pid_t pid; /* a child of ours that sleeps */
	int ask[2], told[2];
	pid_t waited[MOST]; /* whose waits ended with the recording */
	size_t n_waited;
};

static void *rest(void *told)
{
	pid_t tid = gettid();

	if (write(*(int *)told, &tid, sizeof(tid)) != sizeof(tid))
		_exit(1);
	for (;;)
		pause();
}

/* Starts a thread for each byte that is written to it. */
static _Noreturn void serve(struct fix *f)
{
	pthread_t t;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(f->ask[0], &c, 1) == 1)
		if (pthread_create(&t, NULL, rest, &f->told[1]))
			break;
	_exit(1);
}

static void wait_until_asleep(pid_t pid, pid_t tid)
{
	while (proc_state(pid, tid) != 'S')
		usleep(100);
}

static void start(struct fix *f)
{
	assert_int_equal(pipe(f->ask), 0);
	assert_int_equal(pipe(f->told), 0);
	f->pid = fork();
	if (f->pid == 0)
		serve(f);
	assert_true(f->pid > 0);
	wait_until_asleep(f->pid, f->pid);
}

/* A thread of it that sleeps. */
static pid_t start_thread(struct fix *f)
{
	pid_t tid;

	assert_int_equal(write(f->ask[1], "", 1), 1);
	assert_int_equal(read(f->told[0], &tid, sizeof(tid)), sizeof(tid));
	wait_until_asleep(f->pid, tid);
	wait_until_asleep(f->pid, f->pid);
	return tid;
}

static void add_target(struct fix *f, pid_t pid)
{
	struct target *t = target_create(pid);

	assert_non_null(t);
	assert_int_equal(targets_publish(&f->r.tracker.targets, &t, 1), 0);
}

/* Waits are read, and no process but ours was a target when that began. */
static void begin(struct fix *f)
{
	uint64_t start_ns = now_ns();

	f->r.waits = waits_create(&f->r.config);
	assert_non_null(f->r.waits);
	f->r.config.waits = waits_post(f->r.waits);
	assert_int_equal(waits_start(f->r.waits, PERIOD_NS, start_ns), 0);
	while (waits_told_ns(f->r.waits) <= start_ns)
		usleep(100);
}

static struct fix *create(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	fake_setup((void **)&f->f);
	fake_lay(f->f);
	start(f);
	f->r.session = &f->f->session;
	f->r.session->stats = &f->f->stats;
	f->r.o.follow = true;
	f->r.config = f->f->c;
	f->r.config.targets = &f->r.tracker.targets;
	f->r.config.kick = eventfd(0, EFD_NONBLOCK);
	assert_int_equal(tracker_init(&f->r.tracker, -1), 0);
	f->r.tracker.births = f->f->c.births;
	add_target(f, getpid());
	*state = f;
	return f;
}

/* Events see all of a CPU. */
static int setup_cpus(void **state)
{
	struct fix *f = create(state);

	f->r.config.ours = ours_create(NULL);
	assert_non_null(f->r.config.ours);
	ours_set(f->r.config.ours, f->pid, true);
	begin(f);
	return 0;
}

/* Each thread has events of its own, which are not inherited. */
static int setup_threads(void **state)
{
	struct fix *f = create(state);

	f->r.config.tell_threads = true;
	f->r.attach.session = f->r.session;
	begin(f);
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	waits_stop(f->r.waits);
	waits_destroy(f->r.waits);
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	attach_deinit(&f->r.attach);
	tracker_deinit(&f->r.tracker);
	ours_destroy(f->r.config.ours);
	close(f->r.config.kick);
	for (int i = 0; i < 2; i++) {
		close(f->ask[i]);
		close(f->told[i]);
	}
	fake_destroy(f->f);
	free(f);
	return 0;
}

static void tell(struct fix *f, enum ctl_type type, struct ctl_msg m)
{
	struct ctl_msg *to = queue_reserve(&f->f->slots[0].ctl, type, sizeof(*to));

	assert_non_null(to);
	*to = m;
	queue_commit(&f->f->slots[0].ctl);
	recorder_take_messages(&f->r);
}

static void end(struct fix *f)
{
	struct queue *q = waits_queue(f->r.waits);
	const struct queue_record *rec;

	waits_stop(f->r.waits);
	for (; (rec = queue_peek(q)); queue_pop(q)) {
		if (rec->type != Q_WAIT)
			continue;
		assert_true(f->n_waited < MOST);
		f->waited[f->n_waited++] = ((const struct q_wait *)rec->data)->tid;
	}
}

static int waits_of(const struct fix *f, pid_t tid)
{
	int n = 0;

	for (size_t i = 0; i < f->n_waited; i++)
		n += f->waited[i] == tid;
	return n;
}

/* How many waits the child has at the end, of which its fork tells. */
static int waits_of_child(struct fix *f)
{
	tell(f, CTL_FORK, (struct ctl_msg){ f->pid, getpid(), getpid(), FORKED_NS });
	end(f);
	return waits_of(f, f->pid);
}

/* What a child did before the record of its fork was read was nobody's. */
static void a_child_on_cpus(void **state)
{
	assert_int_equal(waits_of_child(*state), 1);
}

/* It has inherited events, and those have told. */
static void a_child_whose_own_events_tell(void **state)
{
	struct fix *f = *state;

	f->r.config.split = true;
	assert_int_equal(waits_of_child(f), 0);
}

static void a_child_that_is_no_target(void **state)
{
	struct fix *f = *state;

	f->r.o.follow = false;
	assert_int_equal(waits_of_child(f), 0);
}

static void a_child_that_gets_events(void **state)
{
	assert_int_equal(waits_of_child(*state), 1);
}

/* Those that have none yet are asked, and no others: a process may have thousands. */
static void threads_that_get_events(void **state)
{
	struct fix *f = *state;
	struct err err;
	pid_t tid[2];

	add_target(f, f->pid);
	assert_int_equal(attach_process(&f->r.attach, f->pid, NULL, 0, &err), 0);
	for (int i = 0; i < 2; i++)
		tid[i] = start_thread(f);
	tell(f, CTL_THREAD, (struct ctl_msg){ .pid = f->pid, .ptid = tid[1] });
	end(f);
	assert_int_equal(waits_of(f, tid[0]), 1);
	assert_int_equal(waits_of(f, tid[1]), 1);
	assert_int_equal(waits_of(f, f->pid), 0);
}

static void note_parent(void *arg, pid_t parent)
{
	*(pid_t *)arg = parent;
}

/* Who has become a Python, and is seen while there is no room for one more look, has another turn,
 * though nothing tells of it any more. */
static void more_than_can_be_looked_at(void **state)
{
	static struct scope none;
	struct fix *f = *state;
	pid_t looked_at, other = FAKE_TID;
	struct err err;

	assert_int_equal(scope_match(&none, "^nobody has this command line$", &err), 0);
	f->r.config.strangers = ours_create(NULL);
	f->r.joins = joins_create(&f->r.tracker, &none,
				  (struct joins_listener){ note_parent, &looked_at });
	joins_begin(f->r.joins, true);
	recorder_join(&f->r);
	looked_at = 0;
	while (joins_look(f->r.joins, other))
		other++;
	note_exec(f->r.config.births, f->pid, FORKED_NS);
	note_python(f->r.config.births, f->pid, FORKED_NS + 1);
	tell(f, CTL_EXEC, (struct ctl_msg){ .pid = f->pid, .time = FORKED_NS });
	assert_int_equal(looked_at, 0);
	for (int i = 0; i < 2; i++)
		recorder_join(&f->r);
	assert_int_equal(looked_at, getpid()); /* the child, which does not fit */
	joins_destroy(f->r.joins);
	regfree(&none.regex);
	ours_destroy(f->r.config.strangers);
}

#define TEST(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_child_on_cpus, setup_cpus),
		TEST(a_child_whose_own_events_tell, setup_cpus),
		TEST(a_child_that_is_no_target, setup_cpus),
		TEST(a_child_that_gets_events, setup_threads),
		TEST(threads_that_get_events, setup_threads),
		TEST(more_than_can_be_looked_at, setup_cpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
