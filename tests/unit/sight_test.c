/* SPDX-License-Identifier: MIT
 *
 * sight_test - what the word says is believed only where nobody can have come unseen; and on
 * the kernel's own switches, where the rights are there, who has not left yet counts as hidden.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "../../lib/bpf/sight.c"

static uint64_t word_of(uint64_t unseen, uint64_t known, uint64_t sure)
{
	return unseen << 32 | known << 16 | sure;
}

static void what_the_word_says(void **state)
{
	_Atomic uint64_t word[2] = { word_of(3, 2, 2) };
	const struct sight s = { .n_online = 2, .at = word };
	struct sight_seen seen = { 0 };
	uint64_t before = now_ns(), now;

	/* Until we looked once nothing is known of what was before. */
	assert_false(sight_clear(&s, &seen, before));
	now = now_ns();
	assert_true(sight_clear(&s, &seen, now));
	assert_false(sight_clear(&s, &seen, before));
	/* One of them may be with a hidden thread, or another CPU may have come online. */
	word[0] = word_of(3, 2, 1);
	assert_false(sight_clear(&s, &seen, now));
	word[0] = word_of(3, 3, 2);
	assert_false(sight_clear(&s, &seen, now));
	word[0] = word_of(3, 3, 3);
	assert_true(sight_clear(&s, &seen, now));
	/* One has had no switch yet. */
	word[0] = word_of(3, 1, 1);
	assert_false(sight_clear(&s, &seen, now));
	/* Somebody came unseen, before we looked. */
	word[0] = word_of(4, 2, 2);
	assert_false(sight_clear(&s, &seen, now));
	assert_false(sight_clear(&s, &seen, now));
	now = now_ns();
	assert_true(sight_clear(&s, &seen, now));
	(void)state;
}

enum { A = 0x1040, B = 0x2080, HIDDEN = 0x30c0, LEFT = 1, DEAD = 0x80 };

/* The program is told that CPU 0 goes from @prev to @next. */
static void switched(int program, uint64_t prev, uint64_t next, uint64_t state)
{
	uint64_t args[] = { 0, prev, next, state };
	union bpf_attr a = { .test = { .prog_fd = (uint32_t)program,
				       .ctx_size_in = sizeof(args),
				       .ctx_in = (uintptr_t)args,
				       .flags = BPF_F_TEST_RUN_ON_CPU } };

	assert_int_equal(bpf_call(BPF_PROG_TEST_RUN, &a), 0);
}

static void what_the_program_counts(void **state)
{
	struct sight s = { .map = -1, .link = -1, .n_cpus = 1, .n_online = 1 };
	struct sight_seen seen = { 0 };
	uint64_t now;
	int program = make_map(&s) < 0 ? -1 : load_switch(&s);

	if (program < 0)
		skip();
	switched(program, A, B, LEFT);
	assert_false(sight_clear(&s, &seen, now_ns()));
	switched(program, B, A, LEFT);
	now = now_ns();
	assert_true(sight_clear(&s, &seen, now));
	/* Who comes after a hidden one is not seen coming, but leaving. */
	switched(program, A, HIDDEN, LEFT);
	assert_false(sight_clear(&s, &seen, now_ns()));
	switched(program, B, A, LEFT);
	assert_false(sight_clear(&s, &seen, now));
	assert_true(sight_clear(&s, &seen, now_ns()));
	/* One that ended may be followed by a hidden one at its address. */
	switched(program, A, B, DEAD);
	switched(program, B, A, LEFT);
	assert_false(sight_clear(&s, &seen, now_ns()));
	switched(program, A, B, LEFT);
	assert_true(sight_clear(&s, &seen, now_ns()));
	/* One in sight did not leave, though another does: never again, however often. */
	for (int i = 0; i < 9; i++, switched(program, B, A, LEFT), switched(program, A, B, LEFT)) {
		switched(program, A, B, LEFT);
		sight_clear(&s, &seen, now_ns());
		assert_false(sight_clear(&s, &seen, now_ns()));
	}
	close(program);
	sight_deinit(&s);
	(void)state;
}

static void pin(pid_t pid, int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	assert_int_equal(sched_setaffinity(pid, sizeof(one), &one), 0);
}

/* It comes onto its CPU and stays there until somebody has looked; leaves it once; and stays
 * there. */
static void come_and_stay(int told, const _Atomic bool *looked)
{
	struct sched_param fifo = { .sched_priority = 1 }, normal = { 0 };
	bool lives = true;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!*looked)
		;
	sched_setscheduler(0, SCHED_OTHER, &normal);
	usleep(1000);
	sched_setscheduler(0, SCHED_FIFO, &fifo);
	lives = write(told, "", 1) == 1;
	while (lives)
		;
	_exit(1);
}

/* How often @pid has left a CPU. */
static unsigned long times_left(pid_t pid)
{
	unsigned long n, sum = 0;
	char path[32], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %lu", &n) == 1)
			sum += n;
	fclose(f);
	return sum;
}

static void who_has_not_left_yet_may_be_hidden(void **state)
{
	uint64_t soon_ns = 10000000000; /* others of high priority may run beside */
	struct sched_param fifo = { .sched_priority = 1 }, normal = { 0 };
	struct sight_seen seen = { 0 };
	struct cpus online;
	struct sight s;
	bool clear = false;
	_Atomic bool *looked = mmap(NULL, sizeof(*looked), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int cpu, other, ends[2];
	char byte;
	pid_t pid;

	assert_int_equal(cpus_system(&online, "online"), 0);
	cpu = cpus_next(&online, 0), other = cpus_next(&online, cpu + 1);
	if (other < 0 || sight_init(&s, (uint32_t)other + 1) < 0)
		skip();
	pin(0, other);
	assert_int_equal(pipe(ends), 0);
	if (sched_setscheduler(0, SCHED_FIFO, &fifo) < 0)
		skip();
	pid = fork();
	if (!pid)
		come_and_stay(ends[1], looked);
	pin(0, cpu);
	for (uint64_t until = now_ns() + 20000000; now_ns() < until;)
		clear = sight_clear(&s, &seen, now_ns()) || clear;
	/* Another may have taken its CPU for a moment: then it was seen leaving. */
	if (clear)
		assert_true(times_left(pid) > 0);
	*looked = true;
	assert_int_equal(read(ends[0], &byte, 1), 1);
	for (uint64_t until = now_ns() + soon_ns; !clear && now_ns() < until; usleep(1000))
		clear = sight_clear(&s, &seen, now_ns());
	sched_setscheduler(0, SCHED_OTHER, &normal);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ends[0]), close(ends[1]);
	munmap((void *)looked, sizeof(*looked));
	sight_deinit(&s);
	/* More CPUs than two are others' affair. */
	if (cpus_count(&online) == 2)
		assert_true(clear);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_word_says),
		cmocka_unit_test(what_the_program_counts),
		cmocka_unit_test(who_has_not_left_yet_may_be_hidden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
