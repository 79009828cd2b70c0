/* SPDX-License-Identifier: MIT
 *
 * source - whole recordings of a fake source: kernel.c stands in for the kernel, a thread a
 * CPU writes into its ring what 1,000 processes do that are forked, exec and end, and the real
 * recorder, its readers, tracker, resolver and sinks make of it what they do. Meant to be run
 * under ThreadSanitizer; also checks that each sample that was written is in the books, and
 * that each stack in folded output that bears no mark is the true one.
 *
 * Usage: source CAPTURE OUTPUT FORKS [CPUS]. Prints a line of counts, what was done among
 * them (base/work.h); exits 1 if they do not add up.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../output/sink.h"
#include "../unit/perf_records.h"
#include "../unit/pyworld.h"
#include "base/clock.h"
#include "base/sparse.h"
#include "base/stats.h"
#include "kernel.h"
#include "record/recorder.h"

enum {
	STACK = 256,  /* bytes of it with each sample */
	TASKS = 4096, /* at once, at most */
	ROOTS = 6,    /* threads of the first process */
	CROWD = 100,  /* so many tasks, and nobody forks */
	LOST_EVERY = 97,
};

/* A thread. It runs on one CPU at a time, whose producer has it. */
struct task {
	pid_t pid, tid;
	bool leads; /* its process's first thread */
	bool forever;
};

static struct {
	pthread_mutex_t lock;
	struct task queue[TASKS]; /* those that run nowhere, in order */
	size_t first, n, running;
	pid_t next_pid;
	size_t forks, forks_left;
	uint64_t samples, lost;
	uint64_t held; /* samples of the first process whose thread stood still until it was
			  read */
} source = { .lock = PTHREAD_MUTEX_INITIALIZER, .next_pid = KERNEL_FIRST_PID };

static struct world *world;
static raddr stack_at;
static pid_t root, root_tids[ROOTS];

/* --- which runs next --- */

static void put(struct task t)
{
	if (source.n == TASKS)
		abort();
	source.queue[(source.first + source.n++) % TASKS] = t;
}

/* False: all but the first process's have ended. */
static bool take_next(struct task *ret)
{
	bool more;

	pthread_mutex_lock(&source.lock);
	more = source.forks_left || source.n + source.running > ROOTS;
	ret->pid = 0;
	if (more && source.n) {
		*ret = source.queue[source.first];
		source.first = (source.first + 1) % TASKS;
		source.n--;
		source.running++;
	}
	pthread_mutex_unlock(&source.lock);
	return more;
}

static void give_back(struct task t, bool ended)
{
	pthread_mutex_lock(&source.lock);
	source.running--;
	if (!ended)
		put(t);
	pthread_mutex_unlock(&source.lock);
}

/* --- records --- */

static void trailer(struct record *r, const struct task *t, uint64_t time, int cpu)
{
	record_u32(r, (uint32_t)t->pid, (uint32_t)t->tid);
	record_u64(r, time);
	record_u32(r, (uint32_t)cpu, 0);
	record_u64(r, kernel_cpus[cpu].sample_id);
}

static uint64_t write_switch(int cpu, const struct task *t, uint16_t misc)
{
	struct record r;

	record_begin(&r, PERF_RECORD_SWITCH, misc);
	trailer(&r, t, now_ns(), cpu);
	return kernel_write(cpu, r.bytes, r.n);
}

/* @type: FORK or EXIT. */
static void write_task(int cpu, uint32_t type, const struct task *who, const struct task *by)
{
	uint64_t time = now_ns();
	struct record r;

	record_begin(&r, type, 0);
	record_u32(&r, (uint32_t)who->pid, (uint32_t)by->pid);
	record_u32(&r, (uint32_t)who->tid, (uint32_t)by->tid);
	record_u64(&r, time);
	trailer(&r, by, time, cpu);
	kernel_write(cpu, r.bytes, r.n);
}

static void write_comm(int cpu, const struct task *t, uint16_t misc)
{
	struct record r;

	record_begin(&r, PERF_RECORD_COMM, misc);
	record_u32(&r, (uint32_t)t->pid, (uint32_t)t->tid);
	record_str(&r, misc ? "execed" : "named");
	trailer(&r, t, now_ns(), cpu);
	kernel_write(cpu, r.bytes, r.n);
}

static void write_mmap(int cpu, const struct task *t, uint64_t at)
{
	struct record r;

	record_begin(&r, PERF_RECORD_MMAP2, 0);
	record_u32(&r, (uint32_t)t->pid, (uint32_t)t->tid);
	record_u64(&r, at);
	record_u64(&r, 0x2000);
	record_u64(&r, 0);
	record_u32(&r, 8, 1);
	record_u64(&r, 4242);
	record_u64(&r, 0);
	record_u32(&r, 5, 2); /* PROT_READ | PROT_EXEC, MAP_PRIVATE */
	record_str(&r, "/made/up.so");
	trailer(&r, t, now_ns(), cpu);
	kernel_write(cpu, r.bytes, r.n);
}

static void write_lost(int cpu, const struct task *t)
{
	struct record r;

	record_begin(&r, PERF_RECORD_LOST, 0);
	record_u64(&r, kernel_cpus[cpu].sample_id);
	record_u64(&r, 1);
	trailer(&r, t, now_ns(), cpu);
	kernel_write(cpu, r.bytes, r.n);
}

static void add_registers(struct record *r)
{
	record_u64(r, PERF_SAMPLE_REGS_ABI_64);
	for (int i = 0; i < arch_host->n_regs; i++)
		record_u64(r, i == arch_host->sp ? stack_at : (uint64_t)(1000 + i));
}

static void write_sample(int cpu, const struct task *t)
{
	struct record r;

	record_begin(&r, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	record_u64(&r, kernel_cpus[cpu].sample_id);
	record_u64(&r, 1000 + (uint64_t)arch_host->ip);
	record_u32(&r, (uint32_t)t->pid, (uint32_t)t->tid);
	record_u64(&r, now_ns());
	record_u64(&r, 0);
	record_u32(&r, (uint32_t)cpu, 0);
	add_registers(&r);
	record_u64(&r, STACK);
	record_add(&r, world_mem(world, stack_at), STACK);
	record_u64(&r, STACK);
	kernel_write(cpu, r.bytes, r.n);
}

/* What the event writes that sees threads leave. */
static void write_witness(int cpu, const struct task *t)
{
	struct record r;

	record_begin(&r, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	record_u64(&r, kernel_cpus[cpu].witness_id);
	record_u32(&r, (uint32_t)t->pid, (uint32_t)t->tid);
	record_u64(&r, now_ns());
	add_registers(&r);
	if (kernel_cpus[cpu].witness_id)
		kernel_write(cpu, r.bytes, r.n);
}

/* --- what a thread does --- */

static void fork_one(int cpu, const struct task *by, bool thread)
{
	struct task child = { 0 };

	pthread_mutex_lock(&source.lock);
	if (thread || (source.forks_left && source.n < CROWD)) {
		child.tid = source.next_pid++;
		child.pid = thread ? by->pid : child.tid;
		child.leads = !thread;
		source.forks_left -= !thread;
		source.forks += !thread;
	}
	pthread_mutex_unlock(&source.lock);
	if (!child.tid)
		return;
	/* As in the kernel, its record stands before it can run. */
	write_task(cpu, PERF_RECORD_FORK, &child, by);
	pthread_mutex_lock(&source.lock);
	put(child);
	pthread_mutex_unlock(&source.lock);
}

static void exec(int cpu, const struct task *t)
{
	write_comm(cpu, t, PERF_RECORD_MISC_COMM_EXEC);
	for (uint64_t i = 0; i < 3; i++)
		write_mmap(cpu, t, 0x7f0000000000 + (i << 20));
}

/* The sampled thread is held until the reader has read it, or, one time of four, not. */
static void sample(int cpu, const struct task *t, unsigned dice)
{
	bool lost = dice % LOST_EVERY == 0;
	uint64_t end;

	pthread_mutex_lock(&source.lock);
	source.samples += !lost;
	source.lost += lost;
	pthread_mutex_unlock(&source.lock);
	if (lost)
		write_lost(cpu, t);
	else
		write_sample(cpu, t);
	write_witness(cpu, t);
	end = write_switch(cpu, t,
			   PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT);
	kernel_wake(cpu);
	if (dice / LOST_EVERY % 4 == 0)
		return;
	kernel_wait(cpu, end);
	pthread_mutex_lock(&source.lock);
	source.held += !lost && t->pid == root;
	pthread_mutex_unlock(&source.lock);
}

static void run(int cpu, struct task t, unsigned dice)
{
	bool ends = !t.forever && dice % 5 == 0;

	write_switch(cpu, &t, 0);
	if (t.forever || dice % 7 == 0)
		fork_one(cpu, &t, false);
	if (!t.forever && dice % 11 == 0)
		fork_one(cpu, &t, true);
	if (t.leads && dice % 13 == 0)
		exec(cpu, &t);
	if (dice % 17 == 0)
		write_comm(cpu, &t, 0);
	sample(cpu, &t, dice);
	if (ends) {
		write_switch(cpu, &t, 0);
		write_task(cpu, PERF_RECORD_EXIT, &t, &t);
		write_witness(cpu, &t);
		write_switch(cpu, &t, PERF_RECORD_MISC_SWITCH_OUT);
	}
	give_back(t, ends);
}

/* A CPU. */
static void *produce(void *arg)
{
	int cpu = (int)(intptr_t)arg;
	uint64_t seed = 42 + (uint64_t)cpu;
	struct task t;

	while (take_next(&t)) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		if (t.pid)
			run(cpu, t, (unsigned)(seed >> 33));
		else
			usleep(100);
	}
	return NULL;
}

/* --- a recording --- */

/* Thread @i of the first process is in functions of its own, and in one more than the one
 * before. */
static void put_stack(raddr ts, int i)
{
	char letters[ROOTS + 3] = "";
	raddr code[ROOTS + 2], instr[ROOTS + 2];
	int n = i + 1;

	for (int k = 0; k < n; k++) {
		const struct world_code c = { (char[]){ (char)('a' + i), (char)('0' + k),
							'\0' },
					      "/x.py",
					      10,
					      8,
					      2,
					      (uint32_t)(10 * i + k + 1) };

		code[k] = world_code(world, &c);
		instr[k] = world_instr(world, code[k], 3);
		letters[k] = 'f';
	}
	letters[n] = 's';
	code[n] = code[0];
	instr[n] = instr[0];
	world_stack(world, ts, letters, code, instr);
}

static void make_world(void)
{
	raddr interp;

	world = world_create(pylayout_find(0x030c));
	interp = world_interp(world);
	stack_at = world_take(world, STACK);
	world->chunk = 8192;
	for (int i = 0; i < ROOTS; i++) {
		struct task t = { .pid = root, .tid = i ? source.next_pid++ : root };
		raddr ts = world_thread(world, interp, (uint64_t)t.tid, i == 0);

		if (i == 0)
			kernel_begin(root, world, ts + pyoff_get(world->l.tstate.native_tid));
		put_stack(ts, i);
		root_tids[i] = t.tid;
		t.forever = true;
		put(t);
	}
}

static void *run_sources(void *arg)
{
	pthread_t cpu[KERNEL_MAX_CPUS];

	for (intptr_t i = 0; i < kernel_n_cpus; i++)
		if (pthread_create(&cpu[i], NULL, produce, (void *)i))
			abort();
	for (int i = 0; i < kernel_n_cpus; i++)
		pthread_join(cpu[i], NULL);
	eventfd_write(*(int *)arg, 1);
	return NULL;
}

struct begun {
	pthread_t thread;
	int stop;
};

static void released(void *arg)
{
	struct begun *b = arg;

	if (pthread_create(&b->thread, NULL, run_sources, &b->stop))
		abort();
}

static void say(void *arg, const char *text)
{
	fprintf(stderr, "%s: %s\n", (const char *)arg, text);
}

/* --- what it wrote --- */

/* The Python frames of thread @i as folded stacks have them, outermost first. */
static void truth_of(int i, char *ret)
{
	*ret = '\0';
	for (int k = i; k >= 0; k--)
		ret += sprintf(ret, ";%c%d (x.py:13)", 'a' + i, k);
}

/* A folded stack without a mark: each thread of the first process has the frames of its own
 * stack, all of them, and the first one of a child that still is the same program has the copy
 * of its parent's first. Of a child's other threads the made-up memory does not tell. */
static bool is_true(const char *line, pid_t pid, pid_t tid)
{
	const char *frames = strchr(line, ';');
	char want[40 * ROOTS];
	int i = 0;

	while (i < ROOTS && root_tids[i] != tid)
		i++;
	if (i == ROOTS && (pid != tid || !strstr(frames, "x.py")))
		return true;
	truth_of(i == ROOTS ? 0 : i, want);
	frames = strstr(line, want);
	return frames && frames == strchr(line, ';') && !strstr(frames + strlen(want), "x.py");
}

/* True if each stack in folded @path that bears no mark is the true one, and none that was
 * held bears one; where many readers share few CPUs they come late, then one may. */
static bool stacks_are_true(const char *path)
{
	FILE *f = fopen(path, "re");
	uint64_t exact = 0;
	char line[4096];
	bool ok = f;
	int pid, tid;

	while (f && fgets(line, sizeof(line), f)) {
		if (strstr(line, ";[late]") || strstr(line, ";[torn]"))
			continue;
		if (sscanf(line, "%*[^-]-%d/%*[^-]-%d;", &pid, &tid) != 2 ||
		    !is_true(line, pid, tid)) {
			fprintf(stderr, "not true: %s", line);
			ok = false;
		}
		if (pid == root)
			exact += strtoull(strrchr(line, ' '), NULL, 10);
	}
	if (f)
		fclose(f);
	printf("%" PRIu64 " exact of the first process, %" PRIu64 " held\n", exact,
	       source.held);
	return ok && (kernel_n_cpus > 2 ? exact > 0 : exact >= source.held);
}

static bool report(const struct recorder_summary *s, const struct stats *stats)
{
	uint64_t found = 0, value;
	const char *name, *text;

	for (int p = 0; p < PROV_N; p++)
		found += s->counts.by_prov[p];
	found += STATS_GET(stats, lost) + STATS_GET(stats, shed) + STATS_GET(stats, outside);
	printf("forks=%zu samples=%" PRIu64 " lost=%" PRIu64 " found=%" PRIu64
	       " exact=%" PRIu64,
	       source.forks, source.samples, source.lost, found,
	       s->counts.by_prov[PROV_EXACT]);
	for (size_t i = 0; (name = stats_at(stats, i, &value, &text)); i++)
		if (value)
			printf(" %s=%" PRIu64, name, value);
	for (unsigned i = 0; i < WORK_N; i++)
		printf(" work_%s=%" PRIu64, work_name(i), s->work.all.n[i]);
	putchar('\n');
	return found == source.samples + source.lost && s->counts.by_prov[PROV_EXACT] > 0;
}

static int record(const char *capture, const char *path)
{
	static struct stats stats;
	static char *no_args[] = { NULL };
	static struct session session = { .flags = SESSION_LINES | SESSION_THREADS,
					  .stats = &stats,
					  .argv = no_args };
	struct recorder_options o = {
		.pids = { root },
		.n_pids = 1,
		.value = 1000000,
		.capture = capture,
		.native = true,
		.follow = true,
		.place = PLACE_ON_THREADS,
		.max_frames = 512,
		.hold_budget = 100,
		.stack_bytes = 16 << 10,
		.note = { .take = say, .arg = (void *)(uintptr_t)capture },
	};
	struct stop stop = { .fd = eventfd(0, EFD_CLOEXEC) };
	struct begun begun = { .stop = stop.fd };
	const struct recorder_hooks hooks = { .attached = released, .arg = &begun };
	struct sink sink = { 0 }, *list = &sink;
	struct recorder_summary summary;
	struct recorder *r;
	struct err err;
	int code;

	o.stop = &stop;
	if (perf_names_parse("cpu-clock", o.events, SESSION_MAX_EVENTS, &o.n_events, &err) < 0)
		return say(&o, err.text), 2;
	r = recorder_create(&o, &session, &err);
	if (!r || sink_open(&sink, sink_pick(NULL, path), path, &session, &err) < 0)
		return fprintf(stderr, "%s\n", err.text), 2;
	code = recorder_run(r, &list, 1, &hooks, &summary, &err);
	if (code < 0)
		return fprintf(stderr, "%s\n", err.text), 2;
	pthread_join(begun.thread, NULL);
	if (sink_close(&sink, &err) < 0)
		return fprintf(stderr, "%s\n", err.text), 2;
	recorder_destroy(r);
	close(begun.stop);
	if (!report(&summary, &stats))
		return 1;
	return strstr(path, ".folded") && !stacks_are_true(path);
}

int main(int argc, char **argv)
{
	int code;

	if (argc < 4 || argc > 5)
		return fprintf(stderr, "source CAPTURE OUTPUT FORKS [CPUS]\n"), 2;
	if (argc == 5)
		kernel_n_cpus = atoi(argv[4]);
	sparse_init();
	root = fork();
	if (root == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	source.forks_left = strtoul(argv[3], NULL, 10);
	make_world();
	code = record(argv[1], argv[2]);
	kill(root, SIGKILL);
	waitpid(root, NULL, 0);
	free(world);
	return code;
}
