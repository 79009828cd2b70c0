/* SPDX-License-Identifier: MIT
 *
 * space_test - what is mapped where, by the records of maps, forks and ends, against a drawing
 * of each page; and the bounds of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/stats.h"
#include "elf/elfimage.h"
#include "elf/file_helper.h"
#include "elf/module.h"
#include "modules/jit.h"
#include "modules/space.h"
#include "modules/space_file.h"
#include "sys/proc.h"

#include "elsewhere.h"
#include "any.h"

enum { PAGE = 4096, PAGES = 40, FILES = 3, PROCESSES = 4, STEPS = 20000, BYTES = 1 << 20 };

/* What a page is: which byte of which file; file 0: nothing. */
struct drawn {
	uint32_t file;
	uint64_t offset;
};

struct process {
	bool there; /* something was heard of it */
	bool ended; /* its main thread has, and what it maps from now on is another thread's */
	struct drawn page[PAGES];
};

static const char *path_of(uint32_t file)
{
	static const char *const paths[FILES + 1] = { "", "//anon", "/no/code", "/dev/zero" };

	return paths[file];
}

static struct side side_of(enum side_kind kind, pid_t pid, pid_t tid)
{
	return (struct side){ .kind = kind, .pid = pid, .tid = tid };
}

static void map(struct spaces *s, pid_t pid, uint64_t addr, uint64_t len, uint64_t pgoff,
		uint32_t file)
{
	struct side side = side_of(SIDE_MMAP, pid, pid);

	side.u.mmap.addr = addr, side.u.mmap.len = len, side.u.mmap.pgoff = pgoff;
	side.u.mmap.prot = file ? PROT_EXEC : PROT_READ | PROT_WRITE;
	side.u.mmap.maj = 8 + file, side.u.mmap.min = 77 + file;
	side.u.mmap.path = path_of(file);
	spaces_side(s, &side);
}

static void draw_map(struct spaces *s, struct process *p, pid_t pid)
{
	uint32_t from = any(PAGES), n = any(PAGES - from + 1), file = any(FILES + 1);
	uint64_t pgoff = (uint64_t)any(100) * PAGE;

	map(s, pid, (uint64_t)from * PAGE, (uint64_t)n * PAGE, pgoff, file);
	p->there = true;
	p->ended = false;
	for (uint32_t i = 0; i < n; i++)
		p->page[from + i] =
			(struct drawn){ file, file ? pgoff + (uint64_t)i * PAGE : 0 };
}

static void draw_life(struct spaces *s, struct process *all, pid_t pid)
{
	struct side side = side_of((enum side_kind)any(SIDE_THROTTLE + 1), pid + 1,
				   any(2) ? pid + 1 : 99);
	struct process *p = &all[pid];
	pid_t parent = (pid_t)any(PROCESSES);

	if (side.kind == SIDE_MMAP)
		return;
	memset(&side.u, 0, sizeof(side.u));
	if (side.kind == SIDE_COMM) {
		side.u.comm.exec = any(2);
		side.u.comm.name = "x";
		if (side.u.comm.exec)
			*p = (struct process){ .there = true };
	} else if (side.kind == SIDE_FORK) {
		side.u.fork.ppid = parent + 1;
		if (parent != pid) {
			*p = all[parent];
			p->there = true;
			p->ended = false;
		}
	} else if (side.kind == SIDE_EXIT && side.tid == side.pid) {
		p->ended = p->there;
	}
	spaces_side(s, &side);
}

static void check_page(const struct space *sp, const struct drawn *d, uint64_t addr)
{
	const struct space_map *m = space_at(sp, addr);

	assert_int_equal(d->file != 0, m != NULL);
	if (!m)
		return;
	assert_true(m->lo <= addr && addr < m->hi);
	assert_int_equal(d->offset + addr % PAGE, addr - m->lo + m->pgoff);
	assert_string_equal(path_of(d->file), elfcache_path(m->elf));
	assert_int_equal(8 + d->file, m->maj);
	assert_int_equal(77 + d->file, m->min);
}

static void check_process(const struct spaces *s, const struct process *p, pid_t pid)
{
	const struct space *sp = spaces_find((struct spaces *)(uintptr_t)s, pid);
	size_t n_memory = 0;

	assert_int_equal(p->there, sp != NULL);
	if (!sp)
		return;
	assert_int_equal(pid, sp->pid);
	for (size_t i = 0; i < sp->n; i++) {
		assert_true(sp->map[i].lo < sp->map[i].hi);
		assert_true(i == 0 || sp->map[i - 1].hi <= sp->map[i].lo);
		n_memory += jit_is_memory(elfcache_path(sp->map[i].elf));
	}
	assert_int_equal(n_memory, sp->n_memory);
	for (uint64_t i = 0; i < PAGES; i++) {
		check_page(sp, &p->page[i], i * PAGE);
		check_page(sp, &p->page[i], i * PAGE + PAGE - 1);
	}
}

/* Any course of events; all the time each page is what was mapped there last. */
static void as_drawn(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	struct process all[PROCESSES] = { 0 };
	size_t n = 0;

	for (int i = 0; i < STEPS; i++) {
		pid_t pid = (pid_t)any(PROCESSES);

		if (any(8))
			draw_map(s, &all[pid], pid + 1);
		else
			draw_life(s, all, pid);
		check_process(s, &all[pid], pid + 1);
		check_process(s, &all[(pid + 1) % PROCESSES], (pid + 1) % PROCESSES + 1);
	}
	for (pid_t pid = 0; pid < PROCESSES; pid++)
		n += all[pid].there && !all[pid].ended;
	assert_int_equal(n, s->n);
	spaces_destroy(s);
}

/* Whatever changes gives a space another number, which no space had before. */
static void generations(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	struct side fork = side_of(SIDE_FORK, 2, 2);
	uint64_t first, second;

	map(s, 1, 0, PAGE, 0, 1);
	first = spaces_find(s, 1)->gen;
	assert_int_not_equal(0, first);
	fork.u.fork.ppid = 1;
	spaces_side(s, &fork);
	second = spaces_find(s, 2)->gen;
	assert_int_not_equal(first, second);
	assert_int_equal(first, spaces_find(s, 1)->gen);
	assert_int_equal(1, spaces_find(s, 2)->forked_from);
	assert_int_equal(0, spaces_find(s, 1)->forked_from);
	map(s, 1, 0, PAGE, 0, 0); /* data, where code was */
	assert_true(spaces_find(s, 1)->gen > second);
	spaces_destroy(s);
}

static void begin_at(struct spaces *s, enum side_kind kind, pid_t pid, bool announced,
		     uint64_t time)
{
	struct side side = side_of(kind, pid, pid);

	side.time = time;
	side.announced = announced;
	if (kind == SIDE_COMM)
		side.u.comm.exec = true, side.u.comm.name = "x";
	if (kind == SIDE_FORK)
		side.u.fork.ppid = 1;
	spaces_side(s, &side);
}

/* A space is one program's, from its exec on or from the fork of its process; else from the
 * first that is heard of it. */
static void begins(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	const struct space *sp;
	uint64_t gen;

	map(s, 1, 0, PAGE, 0, 1);
	assert_int_equal(0, spaces_find(s, 1)->since_ns);
	gen = spaces_find(s, 1)->gen;
	begin_at(s, SIDE_COMM, 1, false, 5);
	sp = spaces_find(s, 1);
	assert_non_null(sp);
	assert_int_equal(0, sp->n);
	assert_int_equal(5, sp->since_ns);
	assert_true(sp->gen > gen);
	gen = sp->gen;
	begin_at(s, SIDE_FORK, 2, false, 6);
	assert_int_equal(6, spaces_find(s, 2)->since_ns);
	begin_at(s, SIDE_COMM, 2, false, 7);
	assert_int_equal(7, spaces_find(s, 2)->since_ns);
	assert_true(spaces_find(s, 2)->gen > gen + 1);
	map(s, 2, 0, PAGE, 0, 1);
	assert_int_equal(7, spaces_find(s, 2)->since_ns);
	begin_at(s, SIDE_COMM, 2, true, 8); /* its maps follow */
	assert_null(spaces_find(s, 2));
	begin_at(s, SIDE_COMM, 3, true, 8);
	assert_null(spaces_find(s, 3));
	spaces_destroy(s);
}

/* A child of a process of which nothing is known, or that has nothing. */
static void forks_of_nothing(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	struct side fork = side_of(SIDE_FORK, 2, 2);

	fork.u.fork.ppid = 1;
	spaces_side(s, &fork);
	assert_int_equal(0, spaces_find(s, 2)->n);
	assert_int_equal(0, spaces_find(s, 2)->forked_from);
	assert_null(spaces_find(s, 1));
	fork.pid = fork.tid = 3;
	fork.u.fork.ppid = 2;
	spaces_side(s, &fork);
	assert_int_equal(0, spaces_find(s, 3)->n);
	assert_null(space_at(spaces_find(s, 3), 0));
	spaces_destroy(s);
}

/* Where files are those of another machine, all processes see the same: also one whose forker is
 * not known. */
static void views_elsewhere(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	struct side fork = side_of(SIDE_FORK, 2, 2), file = side_of(SIDE_MMAP, 2, 2);

	spaces_elsewhere(s, "/");
	fork.u.fork.ppid = 1;
	spaces_side(s, &fork);
	file.u.mmap.len = PAGE;
	file.u.mmap.prot = PROT_EXEC;
	file.u.mmap.ino = 5;
	file.u.mmap.path = "/no/code";
	spaces_side(s, &file);
	file.pid = file.tid = 3;
	spaces_side(s, &file);
	assert_non_null(space_at(spaces_find(s, 2), 0)->elf);
	assert_ptr_equal(space_at(spaces_find(s, 2), 0)->elf, space_at(spaces_find(s, 3), 0)->elf);
	spaces_destroy(s);
}

/* Memory for code that no file has: who forks keeps that. */
static void memory_of_a_jit(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	struct side fork = side_of(SIDE_FORK, getpid() + 1, getpid() + 1);

	map(s, getpid(), 0, PAGE, 0, 2);
	assert_null(spaces_find(s, getpid())->jit); /* that of a file is not */
	fork.pid = fork.tid = getppid();
	fork.u.fork.ppid = getpid();
	spaces_side(s, &fork);
	assert_null(spaces_find(s, getppid())->jit);
	map(s, getpid(), PAGE, PAGE, 0, 1);
	assert_non_null(spaces_find(s, getpid())->jit);
	spaces_side(s, &fork);
	assert_non_null(spaces_find(s, getppid())->jit);
	spaces_destroy(s);
}

static struct elfcache_elf *elf_of(struct spaces *s, pid_t pid)
{
	struct side side = side_of(SIDE_MMAP, pid, pid);

	side.u.mmap.len = PAGE, side.u.mmap.prot = PROT_EXEC, side.u.mmap.ino = 7;
	side.u.mmap.path = "/no/code";
	spaces_side(s, &side);
	return space_at(spaces_find(s, pid), 0)->elf;
}

/* A file is another one to who has another root; a child that nobody can look at any more has
 * that of its parent. */
static void files_below_another_root(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	struct side fork_of = side_of(SIDE_FORK, 2, 2), exec = side_of(SIDE_COMM, 2, 2);
	struct elfcache_elf *theirs;
	pid_t pid = elsewhere_start_in("/proc");

	if (pid < 0)
		skip();
	theirs = elf_of(s, pid);
	assert_ptr_not_equal(theirs, elf_of(s, getpid()));
	assert_ptr_equal(elf_of(s, getpid()), elf_of(s, getppid()));
	elsewhere_end(pid);
	fork_of.pid = fork_of.tid = exec.pid = exec.tid = pid - 1;
	fork_of.u.fork.ppid = pid;
	spaces_side(s, &fork_of);
	assert_ptr_equal(theirs, elf_of(s, pid - 1));
	exec.u.comm.exec = true;
	exec.u.comm.name = "x";
	exec.pid = exec.tid = pid;
	spaces_side(s, &exec);
	assert_ptr_equal(theirs, elf_of(s, pid));
	spaces_destroy(s);
}

static void odd_maps(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	struct side kernel = side_of(SIDE_MMAP, 1, 1);
	const struct space *sp;

	kernel.u.mmap.kernel = true;
	kernel.u.mmap.len = PAGE, kernel.u.mmap.prot = PROT_EXEC;
	kernel.u.mmap.path = "[kernel.kallsyms]_text";
	spaces_side(s, &kernel);
	assert_null(spaces_find(s, 1));
	/* Up to the end of all memory, and beyond it. */
	map(s, 1, UINT64_MAX - PAGE, 2 * PAGE, 0, 1);
	sp = spaces_find(s, 1);
	assert_null(space_at(sp, UINT64_MAX - PAGE - 1));
	assert_non_null(space_at(sp, UINT64_MAX - PAGE));
	assert_non_null(space_at(sp, UINT64_MAX - 1));
	assert_null(space_at(sp, UINT64_MAX));
	/* A map without a name. */
	kernel.u.mmap.kernel = false;
	kernel.u.mmap.path = NULL;
	spaces_side(s, &kernel);
	assert_string_equal("", elfcache_path(space_at(sp, 0)->elf));
	assert_null(space_module(sp, space_at(sp, 0)));
	assert_int_equal(0, kernel.u.mmap.file_id.n);
	spaces_destroy(s);
}

static void same_files(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	const struct space *sp;
	const struct elfcache_elf *elf[5];
	struct side side = side_of(SIDE_MMAP, 1, 1);

	side.u.mmap.len = PAGE, side.u.mmap.prot = PROT_EXEC, side.u.mmap.path = "//x";
	for (uint64_t i = 0; i < 5; i++) { /* each is another one, but the last */
		side.u.mmap.addr = i * PAGE;
		side.u.mmap.maj = i == 1;
		side.u.mmap.min = i == 2;
		side.u.mmap.ino_generation = i == 3 ? 5 : 6;
		spaces_side(s, &side);
		sp = spaces_find(s, 1);
		elf[i] = space_at(sp, i * PAGE)->elf;
	}
	for (int i = 1; i < 4; i++)
		assert_ptr_not_equal(elf[0], elf[i]);
	assert_ptr_not_equal(elf[1], elf[2]);
	assert_ptr_equal(elf[0], elf[4]);
	spaces_destroy(s);
}

/* Of a map the file that is opened, as the kernel names it. */
static void map_of_the_kernel(void **state)
{
	struct space_map m = { .lo = 1, .hi = 2, .pgoff = 3, .ino = 4, .maj = 5, .min = 6 };
	struct proc_map pm = space_proc_map(&m, "/x");

	assert_int_equal(1, pm.start);
	assert_int_equal(2, pm.end);
	assert_int_equal(3, pm.pgoff);
	assert_int_equal(4, pm.ino);
	assert_int_equal(5, pm.maj);
	assert_int_equal(6, pm.min);
	assert_true(pm.r && pm.x && !pm.w && !pm.deleted);
	assert_string_equal("/x", pm.path);
}

/* More processes than there is room for: the first ones stay, and one that ends makes room. */
static void many_processes(void **state)
{
	enum { MOST = 32768 };
	struct spaces *s = spaces_create(BYTES, 0);
	struct stats stats = { 0 };
	struct side end = side_of(SIDE_EXIT, 1, 1);

	spaces_limit(s, 0, &stats);
	for (pid_t pid = 1; pid <= MOST + 1; pid++)
		map(s, pid, 0, PAGE, 0, 0);
	assert_int_equal(MOST, s->n);
	assert_int_equal(1, STATS_GET(&stats, unread));
	for (pid_t pid = 1; pid <= MOST; pid += 1001)
		assert_int_equal(pid, spaces_find(s, pid)->pid);
	assert_null(spaces_find(s, MOST + 1));
	spaces_side(s, &end);
	map(s, MOST + 1, 0, PAGE, 0, 0);
	assert_non_null(spaces_find(s, MOST + 1));
	assert_int_equal(MOST, s->n);
	assert_int_equal(1, STATS_GET(&stats, unread));
	spaces_destroy(s);
}

/* However many processes end behind that thread. */
static void a_threads_end_ends_no_process(void **state)
{
	enum { LIVES = 1, THREAD = 9, OTHER = 100 };
	struct spaces *s = spaces_create(BYTES, 0);
	struct side thread = side_of(SIDE_EXIT, LIVES, THREAD);

	map(s, LIVES, 0, PAGE, 0, 0);
	spaces_side(s, &thread);
	for (pid_t pid = OTHER; pid <= OTHER + SPACE_ENDED; pid++) {
		struct side end = side_of(SIDE_EXIT, pid, pid);

		map(s, pid, 0, PAGE, 0, 0);
		spaces_side(s, &end);
	}
	assert_null(spaces_find(s, OTHER)); /* the first that ended is forgotten */
	assert_non_null(spaces_find(s, LIVES));
	spaces_destroy(s);
}

/* Of one with very many maps nothing is kept. */
static void maps_of_who_has_ended(void **state)
{
	struct side end = side_of(SIDE_EXIT, 1, 1);

	for (uint64_t more = 0; more < 2; more++) {
		struct spaces *s = spaces_create(BYTES, 0);

		for (uint64_t i = 0; i < SPACE_ENDED_MAPS + more; i++)
			map(s, 1, 2 * i * PAGE, PAGE, 0, 1);
		spaces_side(s, &end);
		assert_int_equal(!more, spaces_find(s, 1) != NULL);
		spaces_destroy(s);
	}
}

/* Who is there again, for its main thread alone had ended, has its maps again if there is room for
 * them; whether they are all is not known. */
static void room_for_who_is_there_again(void **state)
{
	struct side end = side_of(SIDE_EXIT, 1, 1);

	for (size_t lack = 0; lack < 2; lack++) {
		struct spaces *s = spaces_create(BYTES, 0);
		struct stats stats = { 0 };
		size_t bytes;

		spaces_limit(s, BYTES, &stats);
		map(s, 1, 0, PAGE, 0, 1);
		map(s, 2, 0, PAGE, 0, 1);
		spaces_find(s, 1)->whole = 1;
		bytes = s->map_bytes;
		spaces_side(s, &end);
		assert_true(s->map_bytes < bytes);
		s->max_map_bytes = bytes - lack;
		map(s, 1, 2 * PAGE, PAGE, 0, 0);
		assert_int_equal(!lack, space_at(spaces_find(s, 1), 0) != NULL);
		assert_int_equal(!lack, s->map_bytes == bytes);
		assert_int_equal(0, spaces_find(s, 1)->whole);
		spaces_destroy(s);
	}
}

/* As many maps as the kernel lets a process have, and no more; each that has no room is
 * counted. */
static void many_maps(void **state)
{
	enum { MOST = 65536 };
	struct spaces *s = spaces_create(BYTES, 0);
	struct stats stats = { 0 };
	struct space *sp;
	uint64_t i;

	spaces_limit(s, 0, &stats);
	for (i = 0; !STATS_GET(&stats, unmapped); i++)
		map(s, 1, 2 * i * PAGE, PAGE, 0, 1);
	sp = spaces_find(s, 1);
	assert_int_equal(i - 1, sp->n);
	assert_in_range(sp->n, MOST - 2, MOST * 2);
	assert_null(space_at(sp, 2 * (i - 1) * PAGE));
	assert_non_null(space_at(sp, 2 * (i - 2) * PAGE));
	/* What may split has no room either: what was there has no name then. */
	map(s, 1, 0, PAGE, 0, 0);
	assert_null(space_at(sp, 0));
	assert_non_null(space_at(sp, 2 * PAGE));
	assert_int_equal(2, STATS_GET(&stats, unmapped));
	spaces_destroy(s);
}

static void map_when(struct spaces *s, pid_t pid, uint64_t addr, uint64_t time)
{
	struct side side = side_of(SIDE_MMAP, pid, pid);

	side.time = time;
	side.u.mmap.addr = addr, side.u.mmap.len = PAGE, side.u.mmap.prot = PROT_EXEC;
	side.u.mmap.path = "//anon";
	spaces_side(s, &side);
}

static void *rest(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* A process of ours with another thread. */
static pid_t without_its_main_thread(void)
{
	pid_t pid = fork();
	pthread_t thread;

	if (pid == 0) {
		alarm(60);
		if (pthread_create(&thread, NULL, rest, NULL) == 0)
			syscall(SYS_exit, 0);
		_exit(1);
	}
	assert_true(pid > 0);
	while (!proc_outliver(pid))
		usleep(100);
	return pid;
}

/* As many others end as there is room for. */
static void others_end(struct spaces *s)
{
	enum { NOBODY = 1 << 23 }; /* no number of the kernel's */

	for (pid_t pid = NOBODY; pid < NOBODY + SPACE_ENDED; pid++) {
		struct side end = side_of(SIDE_EXIT, pid, pid);

		map_when(s, pid, 0, now_ns());
		spaces_side(s, &end);
	}
	assert_non_null(spaces_find(s, NOBODY + SPACE_ENDED - 1));
}

/* Not before all of it has ended. */
static void who_runs_on_keeps_its_maps(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	pid_t pid = without_its_main_thread();
	struct side end = side_of(SIDE_EXIT, pid, pid);

	map_when(s, pid, 0, now_ns());
	spaces_side(s, &end);
	others_end(s);
	others_end(s);
	assert_non_null(spaces_find(s, pid));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	others_end(s);
	others_end(s);
	assert_null(spaces_find(s, pid));
	spaces_destroy(s);
}

/* Where all that are kept run on there is room for one more all the same. */
static void more_run_on_than_there_is_room_for(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	pid_t pid[SPACE_ENDED + 1];

	for (int i = 0; i <= SPACE_ENDED; i++) {
		struct side end;

		pid[i] = without_its_main_thread();
		end = side_of(SIDE_EXIT, pid[i], pid[i]);
		map_when(s, pid[i], 0, now_ns());
		spaces_side(s, &end);
		assert_non_null(spaces_find(s, pid[i]));
	}
	for (int i = 0; i <= SPACE_ENDED; i++) {
		assert_true(proc_outliver(pid[i]));
		kill(pid[i], SIGKILL);
		assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
	}
	spaces_destroy(s);
}

/* Maps below all others, each of which moves these: of a process that has many some a second
 * are kept, and what others map always is. In the place of another one costs nothing. */
static void many_maps_that_change(void **state)
{
	enum { MANY = 20000, STORM = 1000 };
	const uint64_t now = 50000000000, second = 1000000000;
	struct spaces *s = spaces_create(BYTES, 0);
	struct stats stats = { 0 };
	uint64_t kept;

	spaces_limit(s, 0, &stats);
	for (uint64_t i = 0; i < MANY; i++)
		map_when(s, 1, (MANY + 2 * i) * PAGE, now);
	for (uint64_t i = 0; i < STORM; i++)
		map_when(s, 1, (MANY + 2 * i) * PAGE, now);
	assert_int_equal(0, STATS_GET(&stats, remapped));
	for (uint64_t i = 1; i <= STORM; i++) {
		map_when(s, 1, (MANY - 2 * i) * PAGE, now);
		map_when(s, 2, (MANY - 2 * i) * PAGE, now);
	}
	kept = STORM - STATS_GET(&stats, remapped);
	assert_in_range(kept, 20, 100);
	assert_int_equal(MANY + kept, spaces_find(s, 1)->n);
	assert_int_equal(STORM, spaces_find(s, 2)->n);
	assert_null(space_at(spaces_find(s, 1), (MANY - 2 * STORM) * PAGE));
	/* What is there no more has no name. */
	map(s, 1, MANY * PAGE, 3 * PAGE, 0, 2);
	assert_null(space_at(spaces_find(s, 1), (uint64_t)MANY * PAGE)->elf);
	map_when(s, 1, 0, now + 2 * second);
	assert_non_null(space_at(spaces_find(s, 1), 0));
	assert_int_equal(STORM - kept + 1, STATS_GET(&stats, remapped));
	spaces_destroy(s);
}

/* Of some more than a few as well, though each of them moves little. */
static void some_maps_that_change(void **state)
{
	enum { SOME = 2000 };
	struct spaces *s = spaces_create(BYTES, 0);

	for (uint64_t i = 0; i < SOME; i++)
		map_when(s, 1, 2 * (SOME - i) * PAGE, 50000000000);
	assert_in_range(spaces_find(s, 1)->n, 700, 1500);
	spaces_destroy(s);
}

/* What maps take is all that is allotted for them. */
static void bytes_of_maps(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	struct stats stats = { 0 };
	struct side fork = side_of(SIDE_FORK, 2, 2), end = side_of(SIDE_EXIT, 1, 1);
	size_t first;

	spaces_limit(s, BYTES, &stats);
	for (uint64_t i = 0; i < 100; i++) {
		map(s, 1, 2 * i * PAGE, PAGE, 0, 1);
		first = spaces_find(s, 1)->cap * sizeof(struct space_map);
		assert_int_equal(first, s->map_bytes);
		assert_true(spaces_find(s, 1)->n <= spaces_find(s, 1)->cap);
	}
	fork.u.fork.ppid = 1;
	spaces_side(s, &fork);
	assert_int_equal(first + spaces_find(s, 2)->cap * sizeof(struct space_map),
			 s->map_bytes);
	spaces_side(s, &end);
	assert_int_equal(spaces_find(s, 2)->cap * sizeof(struct space_map), s->map_bytes);
	assert_int_equal(0, STATS_GET(&stats, unmapped));
	/* A child for which there is no room has none, rather than a part; and it is not known
	 * what it maps, though all is known of its parent. */
	spaces_find(s, 2)->whole = 1;
	s->max_map_bytes = s->map_bytes;
	fork.pid = fork.tid = 3;
	fork.u.fork.ppid = 2;
	spaces_side(s, &fork);
	assert_int_equal(0, spaces_find(s, 3)->n);
	assert_int_equal(0, spaces_find(s, 3)->forked_from);
	assert_int_equal(1, STATS_GET(&stats, unmapped));
	assert_false(spaces_without_python(s, 3));
	spaces_destroy(s);
}

/* One process takes half of it at most, the next one half of what is left: no process takes all. */
static void bytes_for_others(void **state)
{
	enum { MANY = 30000, FEW = 100 };
	struct spaces *s = spaces_create(BYTES, 0);
	struct stats stats = { 0 };

	spaces_limit(s, BYTES, &stats);
	for (uint64_t i = 0; i < MANY; i++)
		map(s, 1, 2 * i * PAGE, PAGE, 0, 1);
	assert_int_equal(MANY, spaces_find(s, 1)->n + STATS_GET(&stats, unmapped));
	assert_in_range(s->map_bytes, BYTES / 4, BYTES / 2);
	for (pid_t pid = 2; pid <= 4; pid++) {
		for (uint64_t i = 0; i < FEW; i++)
			map(s, pid, 2 * i * PAGE, PAGE, 0, 1);
		assert_int_equal(FEW, spaces_find(s, pid)->n);
	}
	spaces_destroy(s);
}

/* ---- Files ---- */

/* A folder that stands for another machine, with file @name of these bytes in it. */
static void make_root(char root[], const char *name, const void *bytes, size_t n)
{
	char path[128];
	FILE *out;

	assert_non_null(mkdtemp(root));
	snprintf(path, sizeof(path), "%s/%s", root, name);
	out = fopen(path, "w");
	assert_int_equal(n, fwrite(bytes, 1, n, out));
	fclose(out);
}

static void drop_root(const char *root, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	assert_int_equal(0, unlink(path));
	assert_int_equal(0, rmdir(root));
}

static const struct space_map *map_at(struct spaces *s, pid_t pid, uint64_t at, uint64_t ino,
				      const char *path)
{
	struct side side = side_of(SIDE_MMAP, pid, pid);

	side.u.mmap.addr = at, side.u.mmap.len = PAGE, side.u.mmap.ino = ino;
	side.u.mmap.prot = PROT_EXEC, side.u.mmap.path = path;
	spaces_side(s, &side);
	return space_at(spaces_find(s, pid), at);
}

static const struct space_map *map_file_of(struct spaces *s, pid_t pid, uint64_t ino,
					   const char *path)
{
	return map_at(s, pid, PAGE, ino, path);
}

static const struct space_map *map_file(struct spaces *s, uint64_t ino, const char *path)
{
	return map_file_of(s, 1, ino, path);
}

/* Files that no stack has asked for are closed a second after the last who maps them has ended, or
 * when it is another program; those of a process whose other threads run on are not. */
static void files_of_who_is_gone(void **state)
{
	enum { RUNS = 999999901, ENDS, EXECS, N = 4 };
	struct spaces *s = spaces_create(BYTES, 0);
	const uint64_t begin = now_ns(), second = 1000000000;
	const pid_t pids[N] = { RUNS, ENDS, EXECS, getpid() };
	struct side end = side_of(SIDE_EXIT, ENDS, ENDS), exec = side_of(SIDE_COMM, EXECS, EXECS);
	struct side own = side_of(SIDE_EXIT, getpid(), getpid());
	struct elfcache_elf *elf[N];

	for (size_t i = 0; i < N; i++) {
		elf[i] = map_file_of(s, pids[i], i + 1, "a")->elf;
		elfcache_give_fd(s->elfs, elf[i], open("/proc/self/exe", O_RDONLY | O_CLOEXEC), -1);
	}
	assert_int_equal(N, elfcache_waiting(s->elfs));
	spaces_tidy(s, begin);
	assert_int_equal(N, elfcache_waiting(s->elfs));
	spaces_find(s, getpid())->since_ns = begin;
	end.time = exec.time = own.time = begin;
	exec.u.comm.exec = true;
	spaces_side(s, &end);
	spaces_side(s, &exec);
	spaces_side(s, &own);
	spaces_tidy(s, begin + second / 2);
	assert_int_equal(N - 1, elfcache_waiting(s->elfs));
	assert_true(elfcache_wants_file(elf[2]));
	spaces_tidy(s, begin + second);
	assert_int_equal(N - 1, elfcache_waiting(s->elfs)); /* once a second */
	spaces_tidy(s, begin + 2 * second);
	assert_int_equal(N - 2, elfcache_waiting(s->elfs));
	assert_true(elfcache_wants_file(elf[1]));
	spaces_destroy(s);
}

/* Of files without end each has its place while it is mapped, and those stay that still are:
 * by another process, one that has ended, or a child. */
static void files_without_end(void **state)
{
	enum { N = 2 * 65536 + 100, LIVE = 4 };
	static char path[LIVE + 1][16] = { "mapped", "ended", "parent", "child", "gone" };
	struct spaces *s = spaces_create(BYTES, 0);
	struct stats stats = { 0 };
	struct side end = side_of(SIDE_EXIT, 12, 12), fork = side_of(SIDE_FORK, 14, 14);
	uint64_t version[LIVE], last = 0;

	spaces_limit(s, 0, &stats);
	for (pid_t i = 0; i < LIVE; i++)
		map_file_of(s, 11 + i, 1000000 + (uint64_t)i, path[i]);
	map_file_of(s, 13, 1000003, path[3]);
	fork.u.fork.ppid = 13;
	spaces_side(s, &fork);
	map_file_of(s, 13, 1000002, path[2]);
	for (pid_t i = 0; i < LIVE; i++)
		version[i] = elfcache_version(space_at(spaces_find(s, 11 + i), PAGE)->elf);
	for (uint64_t i = 1; i <= N; i++) {
		const struct space_map *m = map_file_of(s, 1, i, path[4]);

		if (i == N / 2)
			spaces_side(s, &end);
		assert_non_null(m->elf);
		assert_true(elfcache_version(m->elf) > last);
		last = elfcache_version(m->elf);
	}
	for (pid_t i = 0; i < LIVE; i++) {
		const struct space_map *m = space_at(spaces_find(s, 11 + i), PAGE);

		assert_string_equal(path[i], elfcache_path(m->elf));
		assert_int_equal(version[i], elfcache_version(m->elf));
	}
	assert_int_equal(0, STATS_GET(&stats, unread));
	spaces_destroy(s);
}

/* Where there are too many that are mapped, all maps are looked at seldom; and there is room
 * again once they are not. */
static void more_files_than_there_is_room_for(void **state)
{
	enum { MOST = 65536, MORE = 3000, MANY = 4096, LAST = 16, FIRST = 10 };
	struct spaces *s = spaces_create(BYTES, 0);
	struct stats stats = { 0 };
	struct side end = side_of(SIDE_EXIT, 0, 0);
	uint64_t forgotten;

	spaces_limit(s, 0, &stats);
	for (uint64_t i = 1; i <= MOST; i++) /* none has as many as are left for others */
		map_at(s, FIRST + (pid_t)(i < MOST - LAST ? i % MANY : i), i * PAGE, i, "a");
	assert_int_equal(0, STATS_GET(&stats, unread));
	forgotten = s->n_opened;
	for (uint64_t i = 1; i <= MORE; i++)
		map_at(s, 4, PAGE, MOST + i, "a");
	assert_int_equal(MORE, STATS_GET(&stats, unread));
	assert_in_range(s->n_opened - forgotten, 1, MORE / 1000);
	for (end.pid = FIRST; end.pid < FIRST + MANY; end.pid++) {
		end.tid = end.pid;
		spaces_side(s, &end);
	}
	for (uint64_t i = 1; i <= MORE; i++)
		map_at(s, 4, PAGE, MOST + i, "a");
	assert_in_range(STATS_GET(&stats, unread), MORE, MORE + 1024);
	assert_non_null(space_at(spaces_find(s, 4), PAGE)->elf);
	spaces_destroy(s);
}

/* One process has half of them at most, also of the bytes of their paths: others have theirs; and
 * it has others once it maps those no more. */
static void files_for_others(void **state)
{
	enum { LONG = 1023, MOST = (16 << 20) / (LONG + 1) };
	static char path[LONG + 1];
	struct spaces *s = spaces_create(BYTES, 0);
	struct stats stats = { 0 };
	uint64_t n = 0;

	memset(path, 'x', LONG);
	spaces_limit(s, 0, &stats);
	while (!STATS_GET(&stats, unread))
		map_at(s, 1, n * PAGE, n, path), n++;
	assert_int_equal(MOST / 2 + 1, n);
	for (pid_t pid = 2; pid <= 4; pid++)
		assert_non_null(map_file_of(s, pid, n++, path)->elf);
	begin_at(s, SIDE_COMM, 1, false, 5);
	assert_non_null(map_file_of(s, 1, n++, path)->elf);
	for (uint64_t i = 0; i < 2 * MOST; i++)
		assert_non_null(map_file_of(s, 1, n++, path)->elf);
	assert_int_equal(1, STATS_GET(&stats, unread));
	spaces_destroy(s);
}

/* libc, as @pid, a child of ours, has it mapped. */
static struct space_map *map_libc(struct spaces *s, pid_t pid)
{
	struct side side = side_of(SIDE_MMAP, pid, pid);
	uint64_t lo = 0, hi = 0, at = (uint64_t)(uintptr_t)&getppid;
	FILE *maps = fopen("/proc/self/maps", "re");
	char path[4096] = "", line[8192];
	unsigned maj = 0, min = 0;

	while (!(lo <= at && at < hi) && fgets(line, sizeof(line), maps))
		sscanf(line, "%lx-%lx %*s %lx %x:%x %lu %4095s", &lo, &hi, &side.u.mmap.pgoff, &maj,
		       &min, &side.u.mmap.ino, path);
	fclose(maps);
	side.u.mmap.addr = lo, side.u.mmap.len = hi - lo, side.u.mmap.prot = PROT_EXEC;
	side.u.mmap.maj = maj, side.u.mmap.min = min, side.u.mmap.path = path;
	spaces_side(s, &side);
	return (struct space_map *)(uintptr_t)space_at(spaces_find(s, pid), at);
}

static int lowest_free(void)
{
	int fd = dup(STDERR_FILENO);

	close(fd);
	return fd;
}

/* Of a number that is another process's by now, or of one with another root by now, only the file
 * that is known by its inode counts, and never the root. */
static void files_of_strangers(void **state)
{
	static const struct {
		bool elsewhere, there, moved, other; /* another inode than that was mapped */
		bool file, root;
	} rows[] = {
		{ .there = true, .file = true },
		{ .file = true },
		{ .there = true, .other = true, .file = true },
		{ .other = true },
		{ .elsewhere = true, .there = true, .file = true, .root = true },
		{ .elsewhere = true, .file = true },
		{ .elsewhere = true, .there = true, .moved = true, .file = true },
		{ .elsewhere = true, .there = true, .other = true, .file = true, .root = true },
		{ .elsewhere = true, .other = true },
		{ .elsewhere = true, .there = true, .moved = true, .other = true },
	};
	pid_t child = elsewhere_start_in("/usr");
	int fds = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		pid_t pid = rows[i].elsewhere ? child : getpid();
		struct spaces *s;
		struct space_map *m;
		struct elfcache_stamp stamp;
		struct space *sp;
		int fd, root;

		if (pid < 0)
			continue;
		s = spaces_create(BYTES, 0);
		m = map_libc(s, pid);
		assert_non_null(m);
		sp = (struct space *)(uintptr_t)spaces_find(s, pid);
		sp->since_ns = rows[i].there ? now_ns() : 1;
		assert_int_equal(0, proc_view(pid, &sp->view));
		assert_int_equal(rows[i].elsewhere, sp->view != 0);
		sp->view += rows[i].moved;
		m->ino += rows[i].other;
		fd = space_open(sp, m, &root, &stamp);
		assert_int_equal(rows[i].file, fd >= 0);
		if (!rows[i].file)
			assert_int_equal(-ESTALE, fd);
		assert_int_equal(rows[i].root, root >= 0);
		if (fd >= 0)
			close(fd);
		if (root >= 0)
			close(root);
		spaces_destroy(s);
		fds = fds ? fds : lowest_free();
		assert_int_equal(fds, lowest_free());
	}
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

/* Which maps have a file at all. */
static void maps_with_files(void **state)
{
	static char longest[4096 + 1];
	static const struct {
		uint64_t ino;
		const char *path;
		bool is;
	} rows[] = {
		{ 5, "/a", true },	     { 0, "/a", false },
		{ 5, "//anon", false },	     { 5, "", false },
		{ 5, "a", false },	     { 0, "[vdso]", true },
		{ 5, "/a (deleted)", true }, { 5, " (deleted)", false },
		{ 5, "/b", false },	     { 5, longest, false },
	};
	char root[] = "/tmp/space_test.XXXXXX", vdso[128];
	unsigned char got[8];

	memset(longest, 'x', 4096); /* one byte too long */
	longest[0] = '/';
	make_root(root, "a", "0123456789", 10);
	snprintf(vdso, sizeof(vdso), "%s/[vdso]", root);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct spaces *s = spaces_create(BYTES, 0);
		const struct space_map *m;
		ssize_t n;

		assert_int_equal(0, symlink("a", vdso));
		spaces_elsewhere(s, root);
		m = map_file(s, rows[i].ino, rows[i].path);
		n = space_read(spaces_find(s, 1), m, 3, got, 4);
		if (rows[i].is) {
			assert_int_equal(4, n);
			assert_memory_equal("3456", got, 4);
			assert_int_equal(1, s->n_opened);
		} else {
			assert_int_equal(-ENOENT, n);
			assert_int_equal(0, s->n_opened);
		}
		spaces_destroy(s);
		unlink(vdso);
	}
	drop_root(root, "a");
}

/* Our own vdso is not that of a process of 32 bits, which lies below 4 GiB. */
static void vdso_of_32_bits(void **state)
{
	static const struct {
		uint64_t lo;
		bool ours;
	} rows[] = {
		{ 0xf7f00000, false },	 { 0x7fff00000000, true }, { 0xffffe000, false },
		{ 0xfffff000, true },	 { 0xf7f00000, false },
	};
	struct spaces *s = spaces_create(BYTES, 0);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct side side = side_of(SIDE_MMAP, (pid_t)i + 1, (pid_t)i + 1);
		const struct space_map *m;
		const struct space *sp;

		side.u.mmap.addr = rows[i].lo, side.u.mmap.len = 0x2000;
		side.u.mmap.prot = PROT_EXEC, side.u.mmap.path = "[vdso]";
		spaces_side(s, &side);
		sp = spaces_find(s, (pid_t)i + 1);
		m = space_at(sp, rows[i].lo);
		assert_int_equal(rows[i].ours, space_module(sp, m) != NULL);
		assert_string_equal(rows[i].ours ? "[vdso]" : "[vdso32]",
				    elfcache_path(m->elf));
		assert_false(space_is_memory(m));
	}
	spaces_destroy(s);
}

/* Where the folder can't be opened there are no files, though this machine has one of that path. */
static void no_other_root(void **state)
{
	struct spaces *s = spaces_create(BYTES, 0);
	const struct space_map *m;
	struct elfcache_stamp stamp;
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	int own;

	assert_true(n > 0);
	path[n] = '\0';
	spaces_elsewhere(s, "/nowhere");
	m = map_file(s, 5, path);
	assert_int_equal(0, s->n_opened);
	assert_null(space_module(spaces_find(s, 1), m));
	assert_int_equal(-ENOENT, space_open(spaces_find(s, 1), m, &own, &stamp));
	spaces_destroy(s);
}

/* A folder that no descriptor was left for is asked again. */
static void no_descriptor_for_the_root(void **state)
{
	char root[] = "/tmp/space_test.XXXXXX";
	struct spaces *s = spaces_create(BYTES, SPACES_LATER);
	struct stats stats = { 0 };
	const struct space_map *m;
	struct elfcache_stamp stamp;
	struct rlimit few, all;
	int own, fd;

	make_root(root, "a", "0", 1);
	spaces_elsewhere(s, root);
	spaces_limit(s, 0, &stats);
	m = map_file(s, 5, "/a");
	assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &all));
	few = all;
	few.rlim_cur = (rlim_t)lowest_free();
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &few));
	fd = space_open(spaces_find(s, 1), m, &own, &stamp);
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &all));
	assert_int_equal(-EAGAIN, fd);
	assert_int_equal(1, STATS_GET(&stats, unread));
	s->retry_ns = 0;
	fd = space_open(spaces_find(s, 1), m, &own, &stamp);
	assert_true(fd >= 0 && own >= 0);
	close(fd);
	close(own);
	spaces_destroy(s);
	drop_root(root, "a");
}

/* Name @number of one file, which is not there. */
static void map_name_when(struct spaces *s, pid_t pid, int number, uint64_t time)
{
	struct side side = side_of(SIDE_MMAP, pid, pid);
	char path[32];

	snprintf(path, sizeof(path), "/name.%d", number);
	side.time = time;
	side.u.mmap.addr = PAGE, side.u.mmap.len = PAGE, side.u.mmap.ino = 5;
	side.u.mmap.prot = PROT_EXEC, side.u.mmap.path = path;
	spaces_side(s, &side);
}

/* Where processes stay a file is opened when its module is asked for, and so is an
 * interpreter's. */
static void files_of_those_that_stay(void **state)
{
	static const char *const paths[] = { "/a", "/python3" };
	char root[] = "/tmp/space_test.XXXXXX", python[128];

	make_root(root, "a", "0123456789", 10);
	snprintf(python, sizeof(python), "%s/python3", root);
	assert_int_equal(0, symlink("a", python));
	for (size_t i = 0; i < 2 * ARRAY_SIZE(paths); i++) {
		bool later = i % 2;
		struct spaces *s = spaces_create(BYTES, later ? SPACES_LATER : 0);
		const struct space_map *m;

		spaces_elsewhere(s, root);
		m = map_file(s, 5, paths[i / 2]);
		assert_int_equal(!later, s->n_opened);
		space_module(spaces_find(s, 1), m);
		assert_int_equal(1, s->n_opened);
		spaces_destroy(s);
	}
	unlink(python);
	drop_root(root, "a");
}

/* A file at a path of this machine. */
static struct elfcache_elf *map_real(struct spaces *s, const char *path, uint64_t time)
{
	struct side side = side_of(SIDE_MMAP, getpid(), getpid());
	struct stat st;

	assert_int_equal(0, stat(path, &st));
	side.time = time;
	side.u.mmap.len = PAGE, side.u.mmap.prot = PROT_EXEC, side.u.mmap.ino = st.st_ino;
	side.u.mmap.maj = major(st.st_dev), side.u.mmap.min = minor(st.st_dev);
	side.u.mmap.path = path;
	spaces_side(s, &side);
	return space_at(spaces_find(s, getpid()), 0)->elf;
}

/* What is written into a file that was read is noticed as it is mapped again, a tenth of a second
 * later at the earliest; but only so many are looked at, and none of another machine. */
static void files_that_change(void **state)
{
	enum { MS = 1000000, AGAIN = 100 * MS, EVERY = 20 * MS };
	const uint64_t second = 1000000000, now = now_ns() + 3600 * second; /* after each change */
	struct spaces *s = spaces_create(BYTES, 0);
	char path[] = "/tmp/space_test.XXXXXX";
	int fd = mkstemp(path);
	struct elfcache_elf *e;
	uint64_t version;

	assert_int_equal(1, write(fd, "0", 1));
	e = map_real(s, path, now);
	assert_true(elfcache_pending(e));
	elfcache_close_others(s->elfs);
	elfcache_give_module(s->elfs, e, calloc(1, sizeof(struct module)));
	version = elfcache_version(e);
	assert_int_equal(1, write(fd, "1", 1));
	assert_ptr_equal(e, map_real(s, path, now + AGAIN - 1));
	s->elsewhere = true;
	map_real(s, path, now + AGAIN);
	s->elsewhere = false;
	s->check_ns = now + AGAIN + 1;
	map_real(s, path, now + AGAIN);
	assert_int_equal(now + AGAIN + 1, s->check_ns);
	assert_int_equal(version, elfcache_version(e));
	s->check_ns = now + AGAIN;
	map_real(s, path, now + AGAIN); /* what was not looked at then is now */
	assert_int_equal(now + AGAIN + EVERY, s->check_ns);
	assert_true(elfcache_version(e) > version);
	assert_true(elfcache_pending(e)); /* it is opened again */
	close(fd);
	unlink(path);
	spaces_destroy(s);
}

/* An interpreter is read as it is mapped. */
static void interpreters_are_read_at_once(void **state)
{
	static const struct {
		const char *path;
		bool is;
	} rows[] = {
		{ "/python", true },	{ "/python3.12", true }, { "/libpython3.12.so.1.0", true },
		{ "/libpython", true }, { "/pytho", false },	 { "/libpytho", false },
		{ "/a", false },	{ "/apython3", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char root[] = "/tmp/space_test.XXXXXX";
		struct spaces *s = spaces_create(BYTES, 0);

		make_root(root, rows[i].path + 1, "0", 1);
		spaces_elsewhere(s, root);
		map_file(s, 5, rows[i].path);
		assert_int_equal(1, s->n_opened);
		assert_int_equal(!rows[i].is, elfcache_waiting(s->elfs));
		spaces_destroy(s);
		drop_root(root, rows[i].path + 1);
	}
}

enum { FEW_FDS = 1024 };

static int n_at_start; /* before any test, of which one may yet have something open */

static int n_open(void)
{
	int n = 0;

	for (int fd = 0; fd < FEW_FDS; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Its bytes, as many as there are. */
static void check_bytes(struct file_helper *by)
{
	char root[] = "/tmp/space_test.XXXXXX";
	struct spaces *s = spaces_create(BYTES, 0);
	const struct space_map *m;
	const struct space *sp;
	char got[16];

	make_root(root, "a", "0123456789", 10);
	elfcache_read_by(s->elfs, by);
	spaces_elsewhere(s, root);
	/* Whom we start does not get it. */
	assert_int_equal(FD_CLOEXEC, fcntl(s->root, F_GETFD));
	m = map_file(s, 5, "/a");
	sp = spaces_find(s, 1);
	assert_int_equal(10, space_read(sp, m, 0, got, 16));
	assert_memory_equal("0123456789", got, 10);
	assert_int_equal(1, space_read(sp, m, 9, got, 16));
	assert_int_equal('9', got[0]);
	assert_int_equal(0, space_read(sp, m, 10, got, 16));
	drop_root(root, "a");
	assert_int_equal(-ENOENT, space_read(sp, m, 0, got, 16));
	spaces_destroy(s);
}

/* Whoever reads them; nothing stays open. */
static void bytes_of_files(void **state)
{
	struct file_helper *helper = file_helper_start(NULL);

	check_bytes(NULL);
	check_bytes(helper);
	file_helper_end(helper);
	/* Whose thread has done its work may yet be about to close what it opened. */
	for (int i = 0; i < 10000 && n_open() != n_at_start; i++)
		usleep(1000);
	assert_int_equal(n_at_start, n_open());
}

/* What process 1 could not open many times, for it has put something else there maybe, another
 * may. */
static void others_may_open(struct spaces *s, uint64_t at)
{
	char root[] = "/tmp/space_test.XXXXXX";

	make_root(root, "a", "0", 1);
	close(s->root);
	s->root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	begin_at(s, SIDE_FORK, 2, false, 6);
	for (pid_t pid = 1; pid <= 2; pid++) {
		const struct space *sp = spaces_find(s, pid);

		space_module(sp, space_at(sp, at));
		assert_int_equal(pid - 1, s->n_opened);
	}
	drop_root(root, "a");
}

/* While descriptors have run out none is opened; what is not there is not looked for without
 * end. */
static void files_not_opened(void **state)
{
	char root[] = "/tmp/space_test.XXXXXX";
	struct spaces *s = spaces_create(BYTES, 0);
	struct stats stats = { 0 };
	const struct space *sp;
	const struct space_map *m;
	struct elfcache_stamp stamp;
	int fd, own;

	make_root(root, "a", "0", 1);
	spaces_elsewhere(s, root);
	spaces_limit(s, 0, &stats);
	s->retry_ns = UINT64_MAX;
	m = map_file(s, 5, "/a");
	sp = spaces_find(s, 1);
	assert_int_equal(0, s->n_opened);
	assert_int_equal(-EAGAIN, space_open(sp, m, &own, &stamp));
	s->retry_ns = 0;
	fd = space_open(sp, m, &own, &stamp);
	assert_true(fd >= 0);
	assert_true(own >= 0); /* where its debug file would be */
	close(fd);
	close(own);
	elfcache_slow(s->elfs, m->elf, true); /* it takes too long just now */
	assert_int_equal(-EAGAIN, space_open(sp, m, &own, &stamp));
	elfcache_slow(s->elfs, m->elf, false);
	drop_root(root, "a");
	assert_int_equal(-ENOENT, space_open(sp, m, &own, &stamp));
	for (int i = 0; i < 64; i++) {
		assert_true(elfcache_wants_file(m->elf));
		assert_null(space_module(sp, m));
	}
	assert_false(elfcache_wants_file(m->elf));
	assert_int_equal(0, STATS_GET(&stats, unread));
	others_may_open(s, m->lo);
	spaces_destroy(s);
}

/* Who maps a file under names without end has some of them looked for at once and some a second,
 * also as another program or in a child; others have theirs. */
static void names_without_end(void **state)
{
	enum { N = 20000, AT_ONCE = 4096, A_SECOND = 200, CHILD = 2, OTHER = 3 };
	const uint64_t second = 1000000000, now = 50 * second;
	char root[] = "/tmp/space_test.XXXXXX";
	struct spaces *s = spaces_create(BYTES, 0);
	struct space *sp;

	make_root(root, "a", "0", 1);
	spaces_elsewhere(s, root);
	map_name_when(s, 1, 0, now - second);
	for (int i = 1; i < N; i++)
		map_name_when(s, 1, i, now + (uint64_t)i * second / N);
	sp = spaces_find(s, 1);
	assert_in_range(sp->missed, AT_ONCE, AT_ONCE + A_SECOND + 1);
	map_name_when(s, OTHER, N, now + second);
	assert_int_equal(1, spaces_find(s, OTHER)->missed);
	begin_at(s, SIDE_FORK, CHILD, false, now + second);
	begin_at(s, SIDE_COMM, CHILD, false, now + second);
	for (int i = 0; i < AT_ONCE; i++)
		map_name_when(s, CHILD, N + 1 + i, now + second);
	assert_in_range(spaces_find(s, CHILD)->missed, 0, 1);
	/* What a sample needs is looked for. */
	sp = spaces_find(s, CHILD);
	sp->missed = 0;
	assert_null(space_module(sp, space_at(sp, PAGE)));
	assert_int_equal(1, sp->missed);
	drop_root(root, "a");
	spaces_destroy(s);
}

/* Of @file: its build-id is told where somebody wants it, also once the file is known. */
static void check_id(struct bytes file, struct bytes id, struct file_helper *by)
{
	char root[] = "/tmp/space_test.XXXXXX";

	make_root(root, "a", file.at, file.n);
	for (int wanted = 0; wanted < 2; wanted++) {
		struct spaces *s = spaces_create(BYTES, wanted ? SPACES_IDS : 0);
		struct side side = side_of(SIDE_MMAP, 1, 1);

		elfcache_read_by(s->elfs, by);
		spaces_elsewhere(s, root);
		side.u.mmap.addr = PAGE, side.u.mmap.len = PAGE, side.u.mmap.ino = 5;
		side.u.mmap.prot = PROT_EXEC, side.u.mmap.path = "/a";
		for (int i = 0; i < 2; i++) {
			side.u.mmap.file_id = (struct bytes){ NULL, 0 };
			spaces_side(s, &side);
			assert_int_equal(wanted ? id.n : 0, side.u.mmap.file_id.n);
			assert_memory_equal(id.at, side.u.mmap.file_id.at,
					    side.u.mmap.file_id.n);
		}
		spaces_destroy(s);
	}
	drop_root(root, "a");
}

/* Whoever reads the file; one that is no ELF file has none. */
static void ids_of_files(void **state)
{
	static unsigned char exe[32 << 20];
	unsigned char id[ELFIMAGE_MAX_ID];
	FILE *in = fopen("/proc/self/exe", "r");
	struct file_helper *helper = file_helper_start(NULL);
	struct bytes file = { exe, fread(exe, 1, sizeof(exe), in) };
	struct elfimage im;
	size_t n_id;

	fclose(in);
	assert_int_equal(0, elfimage_init(&im, -1, file));
	n_id = elfimage_build_id(&im, id);
	elfimage_deinit(&im);
	assert_int_not_equal(0, n_id);
	for (int there = 0; there < 2; there++) {
		check_id(file, (struct bytes){ id, n_id }, there ? helper : NULL);
		check_id((struct bytes){ exe + 1, 64 }, (struct bytes){ id, 0 },
			 there ? helper : NULL);
	}
	file_helper_end(helper);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begins),
		cmocka_unit_test(as_drawn),
		cmocka_unit_test(generations),
		cmocka_unit_test(forks_of_nothing),
		cmocka_unit_test(views_elsewhere),
		cmocka_unit_test(memory_of_a_jit),
		cmocka_unit_test(files_below_another_root),
		cmocka_unit_test(odd_maps),
		cmocka_unit_test(same_files),
		cmocka_unit_test(map_of_the_kernel),
		cmocka_unit_test(many_processes),
		cmocka_unit_test(a_threads_end_ends_no_process),
		cmocka_unit_test(maps_of_who_has_ended),
		cmocka_unit_test(who_runs_on_keeps_its_maps),
		cmocka_unit_test(more_run_on_than_there_is_room_for),
		cmocka_unit_test(room_for_who_is_there_again),
		cmocka_unit_test(files_of_who_is_gone),
		cmocka_unit_test(many_maps),
		cmocka_unit_test(many_maps_that_change),
		cmocka_unit_test(some_maps_that_change),
		cmocka_unit_test(bytes_of_maps),
		cmocka_unit_test(bytes_for_others),
		cmocka_unit_test(files_without_end),
		cmocka_unit_test(files_of_those_that_stay),
		cmocka_unit_test(interpreters_are_read_at_once),
		cmocka_unit_test(files_that_change),
		cmocka_unit_test(more_files_than_there_is_room_for),
		cmocka_unit_test(files_for_others),
		cmocka_unit_test(files_of_strangers),
		cmocka_unit_test(maps_with_files),
		cmocka_unit_test(vdso_of_32_bits),
		cmocka_unit_test(no_other_root),
		cmocka_unit_test(no_descriptor_for_the_root),
		cmocka_unit_test(bytes_of_files),
		cmocka_unit_test(files_not_opened),
		cmocka_unit_test(names_without_end),
		cmocka_unit_test(ids_of_files),
	};
	struct rlimit fds;

	if (argc > 1 && !strcmp(argv[1], FILE_HELPER_COMMAND))
		return file_serve_main();
	/* All that we open are among those that are counted. */
	if (getrlimit(RLIMIT_NOFILE, &fds) < 0)
		return 1;
	fds.rlim_cur = MIN(fds.rlim_max, (rlim_t)FEW_FDS);
	if (setrlimit(RLIMIT_NOFILE, &fds) < 0)
		return 1;
	n_at_start = n_open();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
