/* SPDX-License-Identifier: MIT
 *
 * dump - the stack of every thread now.
 *
 * Of a thread that waits in the kernel the stack counts when it waits there before and after
 * the reads. One that runs is sampled; where that is not permitted, its Python stack counts
 * when two reads agree and it still stands where they began. Else it is said to be torn.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>

#include "targets/announce.h"
#include "elf/file_helper.h"
#include "stacks/assemble.h"
#include "sys/harden.h"
#include "sample/perf_decode.h"
#include "lines/places.h"
#include "python/pynames.h"
#include "lines/srcline.h"
#include "sys/proc.h"
#include "base/clock.h"
#include "base/stats.h"
#include "cmd.h"
#include "dump_running.h"
#include "process.h"

enum {
	TRIES = 20,	   /* of each thread, and then ... */
	MORE_TRIES = 5000, /* ... of all of those that run on */
	MAX_FRAMES = 1024,
	STACK_BYTES = 256 << 10,
	PAGE = 4096,
	MAX_STATES = 1 << 16
};

/* A thread state, and the number of the thread that it says is its own. */
struct state {
	uint64_t number;
	raddr at;
};

/* What the program calls a thread. */
struct called {
	uint32_t number; /* of the thread, for the program itself */
	char name[PYNAME_MAX];
};

struct dump {
	struct pystack_target target;
	int pidfd; /* of its process */
	struct rmem_live live;
	struct pystack *stacks;
	struct assembler *assembler;
	enum process_native native;
	bool same_numbers;     /* the target's threads know themselves by the numbers we use */
	struct stats stats;    /* of which only what is unread is told */
	struct places *places; /* NULL: without lines */
	struct page page;
	struct state *state; /* by number */
	size_t n_states;
	struct called *called;
	size_t n_called, cap_called;
	uint64_t unique; /* of the lists that they were in */
	int more;	 /* of MORE_TRIES */
	struct pystack_frame before[MAX_FRAMES];
	unsigned char stack[STACK_BYTES];
};

/* One thread as it was found. */
struct found {
	struct pystack_result python;
	bool stable;
	bool waits; /* ... @wait says where */
	struct proc_wait wait;
	struct bytes stack; /* from wait.sp up */
};

static bool new_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct dump *d = arg;

	return profile_code(assembler_profile(d->assembler), id, c, pycode_copy_size(c)) == 0;
}

/* --- reading --- */

static struct bytes read_c_stack(struct dump *d, uint64_t sp)
{
	struct rmem_vec v[RMEM_MAX_VEC];
	size_t n = 0, got = RMEM_MAX_VEC;

	/* a call reads whole pieces, up to the first that can't be read */
	while (n < STACK_BYTES && got == RMEM_MAX_VEC) {
		uint64_t at = sp + n;
		size_t k = 0, to = n;

		for (; k < RMEM_MAX_VEC && to < STACK_BYTES; k++) {
			size_t piece = MIN(PAGE - at % PAGE, STACK_BYTES - to);

			v[k] = (struct rmem_vec){ at, d->stack + to, piece };
			at += piece;
			to += piece;
		}
		got = rmem_readv(&d->live.base, v, k);
		for (size_t i = 0; i < got; i++)
			n += v[i].n;
	}
	return (struct bytes){ .at = d->stack, .n = n };
}

static int compare_states(const void *a, const void *b)
{
	const struct state *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

/* All thread states at once: each thread's own search would go through all of them. Where they
 * can't be had, each thread is searched for. */
static void find_states(struct dump *d)
{
	_cleanup_free_ raddr *at = calloc(MAX_STATES, sizeof(*at));
	struct state *state;
	uint32_t n = 0;

	if (!at || pyframe_all_states(&d->live.base, &d->target.walk, MAX_STATES, at,
				      MAX_STATES, &n, &d->unique) < 0)
		return;
	state = d->state = calloc(n + 1, sizeof(*state));
	for (uint32_t i = 0; state && i < n; i++) {
		state->at = at[i];
		if (pyframe_state_number(&d->live.base, &d->target.walk, at[i],
					 &state->number) < 0)
			return;
		state++;
	}
	d->n_states = (size_t)(state - d->state);
	qsort(d->state, d->n_states, sizeof(*state), compare_states);
}

static void keep_name(void *arg, uint32_t number, const char *name)
{
	struct dump *d = arg;
	struct called *c;

	if (d->n_called == d->cap_called) {
		size_t cap = d->cap_called ? 2 * d->cap_called : 64;

		c = reallocarray(d->called, cap, sizeof(*c));
		if (!c) {
			STATS_ADD(&d->stats, unread, 1);
			return;
		}
		d->called = c;
		d->cap_called = cap;
	}
	c = &d->called[d->n_called++];
	c->number = number;
	snprintf(c->name, sizeof(c->name), "%s", name);
}

static void find_names(struct dump *d, const struct pyproc *p)
{
	const struct pynames_look look = { .all = true, .found = keep_name, .arg = d };
	struct pynames names = { 0 };

	for (int i = 0; i < TRIES; i++) {
		d->n_called = 0;
		if (pynames_look(&d->live.base, &p->layout, p->runtime, &names, &look) !=
		    PYNAMES_TORN)
			break;
	}
	pynames_deinit(&names);
}

static void suggest_state(struct dump *d, pid_t tid, pid_t inner)
{
	const struct state key = { .number = (uint64_t)inner };
	const struct state *end = d->state + d->n_states,
			   *s = bsearch(&key, d->state, d->n_states, sizeof(key),
					compare_states);
	bool several = s && ((s > d->state && s[-1].number == key.number) ||
			     (s + 1 < end && s[1].number == key.number));

	if (d->state && !several)
		pystack_suggest(d->stacks, &d->target, tid, inner, s ? s->at : 0, d->unique);
}

/* Some stacks lack names where @r says that memory or descriptors ran out. */
static void note_short(struct dump *d, int r)
{
	if (proc_is_short(r))
		STATS_ADD(&d->stats, unread, 1);
}

static bool waits_still(struct dump *d, pid_t tid, const struct proc_wait *before)
{
	struct proc_wait now;
	int r = proc_syscall(d->target.pid, tid, &now);

	note_short(d, r);
	return r == 0 && now.sp == before->sp && now.pc == before->pc &&
	       now.syscall == before->syscall;
}

static bool same(const struct dump *d, const struct pystack_result *r, uint32_t n)
{
	return r->n == n && !memcmp(d->before, r->frames, n * sizeof(*d->before));
}

/* Read once; f->stable when nothing can have changed meanwhile. @n: frames read before. */
static void read_once(struct dump *d, pid_t tid, pid_t inner, uint32_t n, struct found *f)
{
	struct pystack_place place = { 0 };
	int r = proc_wait(d->target.pid, tid, &f->wait);

	note_short(d, r);
	f->waits = r == 0;
	if (f->waits)
		place.sp = f->wait.sp;
	f->waits = f->waits && d->native;
	pystack_stands(d->stacks, &place);
	f->python = pystack_read(d->stacks, &d->target, &d->live.base, tid, inner);
	if (f->python.end != PYSTACK_OK && f->python.end != PYSTACK_NOPYTHON)
		return;
	if (f->waits) {
		f->stack = read_c_stack(d, f->wait.sp);
		f->stable = waits_still(d, tid, &f->wait);
	} else {
		f->stable = f->python.end == PYSTACK_NOPYTHON ||
			    (same(d, &f->python, n) &&
			     pystack_unchanged(&f->python, &d->target, &d->live.base));
	}
}

static struct found find(struct dump *d, pid_t tid)
{
	pid_t inner = d->same_numbers ? tid : proc_inner_tid(d->target.pid, tid);
	struct found f = { 0 };
	uint32_t n = UINT32_MAX;

	suggest_state(d, tid, inner);
	for (int i = 0; !f.stable && (i < TRIES || d->more > 0); i++) {
		d->more -= i >= TRIES;
		read_once(d, tid, inner, n, &f);
		if (f.python.end != PYSTACK_OK)
			continue;
		n = f.python.n;
		memcpy(d->before, f.python.frames, n * sizeof(*d->before));
	}
	return f;
}

/* --- printing --- */

static const char *state_name(char c)
{
	switch (c) {
	case 'R':
		return "running";
	case 'D':
		return "disk sleep";
	case 'T':
	case 't':
		return "stopped";
	case 'Z':
		return "zombie";
	default:
		return "idle";
	}
}

/* Where the kernel keeps it: "futex, futex_wait_queue". */
static void print_wait(struct dump *d, const struct found *f)
{
	char *name = f->wait.syscall < 0 ? NULL :
					   seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE,
									    f->wait.syscall);

	if (name || f->wait.wchan[0])
		cmd_line(d->page.to, "    [waits in %s%s%s]", name ? name : "",
			 name && f->wait.wchan[0] ? ", " : "", f->wait.wchan);
	free(name);
}

static void print_stack(struct dump *d, const struct found *f)
{
	bool known = f->waits && f->stable;
	struct unwind_regs regs;
	struct assemble_input in = {
		.prov = !f->stable			  ? PROV_TORN :
			f->python.end == PYSTACK_NOPYTHON ? PROV_NOPYTHON :
							    PROV_EXACT,
		.truncated = f->stable && f->python.truncated,
		.python = f->python.frames,
		.native = { .pid = d->target.pid,
			    .time = now_ns(),
			    .regs = known ? &regs : NULL,
			    .mem.piece[0] = { .at = f->wait.sp, .bytes = f->stack },
			    .anchor = f->python.anchors,
			    .n_anchors = f->stable ? f->python.n_anchors : 0,
			    .n_python = f->stable ? f->python.n : 0 },
	};
	struct stack stack;

	native_regs(&regs, f->wait.pc, f->wait.sp);
	assemble(d->assembler, &in, &stack);
	page_stack(&d->page, &stack);
	if (in.prov == PROV_NOPYTHON)
		fputs("    [no Python]\n", d->page.to);
}

/* What the program calls it, or else the kernel. False: it has ended. */
static bool name_of(struct dump *d, pid_t tid, char name[PYNAME_MAX])
{
	pid_t inner = d->same_numbers ? tid : proc_inner_tid(d->target.pid, tid);
	int r = proc_comm(d->target.pid, tid, name);

	note_short(d, r);
	if (proc_is_short(r)) {
		snprintf(name, PYNAME_MAX, "?");
	} else if (r < 0) {
		return false;
	}
	/* The main interpreter's names come last. */
	for (size_t i = d->n_called; i--;)
		if (d->called[i].number == (uint32_t)inner) {
			memcpy(name, d->called[i].name, PYNAME_MAX);
			break;
		}
	return true;
}

/* @sampled: its stack, if a sample told it. */
static void print_thread(struct dump *d, pid_t tid, struct page *sampled)
{
	char name[PYNAME_MAX];
	struct found f;
	char state = sampled ? 'R' : proc_state(d->target.pid, tid);

	if (!name_of(d, tid, name))
		return;
	cmd_line(d->page.to, "Thread %d (%s): \"%s\"", tid, state_name(state), name);
	if (sampled) {
		page_add(&d->page, sampled);
		return;
	}
	f = find(d, tid);
	if (f.waits)
		print_wait(d, &f);
	if (d->native && !(f.waits && f.stable))
		cmd_line(d->page.to,
			 "    [native frames unknown: it ran, and was not sampled]");
	print_stack(d, &f);
}

/* Sample those that run now, or of which that can't be told. */
static size_t sample_running(const struct dump *d, const pid_t *tids, size_t n,
			     struct running *r)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		char state = proc_state(d->target.pid, tids[i]);

		if (state == 'R' || !state)
			r[k++].tid = tids[i];
	}
	dump_running(d->target.pid, d->native, d->places, r, k);
	return k;
}

static int print_process(struct dump *d, const struct pyproc *p)
{
	_cleanup_free_ struct running *r = NULL;
	_cleanup_free_ pid_t *tids = NULL;
	size_t n, k = 0, next = 0;
	char version[16];
	int ret;

	ret = proc_tasks(p->pid, &tids, &n);
	if (proc_is_short(ret))
		return cmd_fail(EXIT_FAILED, "the threads of process %d can't be listed: %s",
				p->pid, strerror(-ret));
	if (ret < 0)
		return cmd_fail(EXIT_NO_PROCESS, "process %d is gone", p->pid);
	cmd_line(d->page.to, "Process %d: CPython %s (%s), %s", p->pid,
		 pyproc_version(p, version), p->build, p->module);
	r = calloc(n, sizeof(*r));
	if (!r)
		return cmd_fail(EXIT_FAILED, "out of memory");
	k = sample_running(d, tids, n, r);
	find_states(d);
	find_names(d, p);
	for (size_t i = 0; i < n && !ferror(stdout); i++) {
		bool sampled = next < k && r[next].tid == tids[i];

		print_thread(d, tids[i], sampled && r[next].found ? &r[next].page : NULL);
		if (sampled)
			page_deinit(&r[next++].page);
		/* Its number may be another's from here on, and what was read that one's. */
		if (proc_has_ended(d->pidfd))
			break;
		if (!d->places)
			page_print(&d->page, NULL);
	}
	while (next < k)
		page_deinit(&r[next++].page);
	if (proc_has_ended(d->pidfd))
		return cmd_fail(EXIT_NO_PROCESS, "process %d has ended", p->pid);
	if (d->places)
		places_resolve(d->places);
	page_print(&d->page, d->places);
	if (STATS_GET(&d->stats, unread))
		cmd_say("memory, descriptors or threads ran out: some stacks lack names");
	return EXIT_DONE;
}

/* --- together --- */

/* The process's mapped files, for the assembler. */
static void learn_maps(struct dump *d)
{
	const struct queue_record *rec;
	struct queue q;
	struct side s;
	int ret;

	if (queue_init(&q, 4 << 20) < 0) {
		STATS_ADD(&d->stats, unread, 1);
		return;
	}
	ret = announce_process(&q, d->target.pid, false, true, 0);
	if (ret < 0 && ret != -ESRCH)
		STATS_ADD(&d->stats, unread, 1);
	while ((rec = queue_peek(&q))) {
		if (perf_decode_side((const void *)rec->data, &s) == 0)
			assembler_side(d->assembler, &s);
		queue_pop(&q);
	}
	queue_deinit(&q);
}

/* @pidfd: of the process that @p was found in. */
static int dump_one(const struct pyproc *p, int pidfd, const struct process_shows *shows)
{
	struct dump *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return cmd_fail(EXIT_FAILED, "out of memory");
	d->native = shows->native;
	d->target.pid = p->pid;
	d->pidfd = pidfd;
	d->more = MORE_TRIES;
	d->target.layout = p->layout;
	d->target.root = proc_stack_root(p->pid);
	pywalk_layout_init(&d->target.walk, &p->layout, p->runtime);
	d->same_numbers = proc_same_pid_namespace(p->pid);
	rmem_live_init(&d->live, p->pid);
	if (shows->lines)
		d->places = places_create(shows->source, shows->debuginfod, &d->stats);
	d->assembler = assembler_create(
		&(struct assembler_config){ .native = d->native,
					    .full = d->native == PROCESS_NATIVE_FULL,
					    .names = true,
					    .stats = &d->stats,
					    .places = d->places,
					    .file_helper = shows->file_helper });
	d->stacks = pystack_create(MAX_FRAMES, new_code, d);
	if (d->assembler && d->native)
		learn_maps(d);
	r = page_init(&d->page) == 0 && d->assembler && d->stacks &&
			    (d->places || !shows->lines) ?
		    print_process(d, p) :
		    cmd_fail(EXIT_FAILED, "out of memory");
	pystack_destroy(d->stacks);
	assembler_destroy(d->assembler);
	places_destroy(d->places);
	page_deinit(&d->page);
	free(d->state);
	free(d->called);
	free(d);
	return r;
}

static int dump_child(const struct pyproc *p, uint64_t began,
		      const struct process_shows *shows)
{
	_cleanup_close_ int fd = proc_pidfd(p->pid);

	if (!p->version)
		return cmd_fail(EXIT_NO_PROCESS, "process %d is just starting Python", p->pid);
	if (fd < 0 || !proc_was_there(p->pid, began))
		return cmd_fail(EXIT_NO_PROCESS, "process %d has ended", p->pid);
	return dump_one(p, fd, shows);
}

/* A wrapper's Python children; one of them is enough. */
static int dump_children(pid_t pid, const struct lookup *l, const struct process_shows *shows)
{
	char comm[16] = "?", list[200];
	int ret = EXIT_NO_PROCESS;

	proc_comm(pid, pid, comm);
	cmd_say("process %d (%s) runs no Python itself; its Python child%s: %s", pid, comm,
		l->n_child > 1 ? "ren" : "", lookup_list(l, list, sizeof(list)));
	for (size_t i = 0; i < l->n_child; i++) {
		int r = dump_child(&l->child[i], l->began, shows);

		ret = r == EXIT_DONE ? r : ret;
	}
	return ret;
}

static int dump(pid_t pid, const struct process_shows *shows)
{
	_cleanup_close_ int fd =
		proc_pidfd(pid); /* before the look, so that both are of one */
	struct lookup l;
	struct err err;
	int code = process_find(pid, &l, &err), r;

	if (code >= 0 && fd < 0)
		code = proc_is_short(fd) ? proc_short(pid, fd, &err) :
					   err_set(&err, -ESRCH, "process %d has ended", pid);
	if (code == LOOKUP_WRAPPER)
		r = dump_children(pid, &l, shows);
	else if (code == 0)
		r = dump_one(&l.python, fd, shows);
	else
		r = cmd_fail(cmd_exit_code(code), "%s", err.text);
	free(l.child);
	return r;
}

int cmd_dump(int argc, char **argv)
{
	struct process_shows shows = { .native = PROCESS_NATIVE };
	struct err err;
	int r;
	pid_t pid = process_option(
		argc, argv,
		"Usage: pysampled dump -p PID [options]\n\n"
		"Print the stack of every thread, Python and native frames, innermost "
		"first.\n\n"
		"  -p, --pid PID\n"
		"      --native[=full], --no-native\n"
		"                      native frames; full shows the interpreter's internals\n"
		"                      too; default --native\n"
		"      --native-lines  native frames with source lines, and inlined "
		"functions\n"
		"      --debuginfod    ... also from the servers in DEBUGINFOD_URLS\n"
		"  -h, --help\n"
		"  -V, --version",
		&shows);

	if (pid < 0)
		return process_done(pid);
	if (!pid)
		return cmd_fail(EXIT_USAGE, "dump takes one process: dump -p PID");
	if (shows.native)
		shows.file_helper = file_helper_start(&err);
	if (shows.native && !shows.file_helper)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	if (shows.lines)
		shows.source = srcline_start(shows.debuginfod);
	if (harden_process(HARDEN_LOOK, 0, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	r = dump(pid, &shows);
	srcline_end(shows.source);
	file_helper_end(shows.file_helper);
	return r;
}
