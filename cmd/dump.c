/* SPDX-License-Identifier: MIT
 *
 * dump - the stack of every thread now.
 *
 * Of a thread that waits in the kernel the stack counts when it waits there before and after
 * the reads. One that runs is sampled; where that is not permitted, its Python stack counts
 * when two reads agree and it still stands where they began. Else it is said to be torn.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "targets/announce.h"
#include "targets/census.h"
#include "targets/others.h"
#include "targets/target_cgroup.h"
#include "bpf/kernel_names.h"
#include "elf/file_helper.h"
#include "sys/family.h"
#include "sys/ask.h"
#include "sys/harden.h"
#include "sample/perf_decode.h"
#include "lines/srcline.h"
#include "cmd.h"
#include "dump_int.h"

/* What was asked for, and how many processes are printed by now. */
struct order {
	struct process_shows shows;
	size_t printed;
};

static bool new_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct dump *d = arg;

	return profile_code(assembler_profile(d->assembler), id, c, pycode_copy_size(c)) == 0;
}

/* --- a process's threads --- */

/* False: it has ended. */
static bool comm_of(struct dump *d, pid_t tid, char comm[16])
{
	int r = proc_comm(d->target.pid, tid, comm);

	dump_note_short(d, r);
	if (proc_is_short(r))
		snprintf(comm, 16, "?");
	return r == 0 || proc_is_short(r);
}

/* @sampled: what a sample of it told, or NULL. False: it has ended. */
static bool print_thread(struct dump *d, const struct dump_thread *t, struct running *sampled,
			 bool first)
{
	struct dump_found f = { .sampled = sampled };
	char comm[16];

	f.state = sampled ? 'R' : proc_state(d->target.pid, t->tid);
	if (!comm_of(d, t->tid, comm))
		return false;
	if (sampled)
		f.gil = dump_gil_sampled(d, t, sampled);
	else if (f.state != 'Z')
		dump_find(d, t, &f);
	dump_print_thread(d, t, comm, &f, first);
	return true;
}

/* Sample those that run now, or of which that can't be told. */
static size_t sample_running(struct dump *d, struct running *r)
{
	size_t k = 0;

	for (size_t i = 0; i < d->n_threads; i++) {
		char state = proc_state(d->target.pid, d->thread[i].tid);

		if (state == 'R' || !state)
			r[k++].tid = d->thread[i].tid;
	}
	k = dump_leave_running(d, r, k);
	dump_before_samples(d);
	STATS_ADD(&d->stats,
		  unread,
		  dump_running(d->target.pid, d->native, d->files, d->places, &d->page.form, r,
			       k));
	return k;
}

/* Returns if any of it stands on standard output by now. */
static bool print_threads(struct dump *d, struct running *r, size_t k)
{
	size_t next = 0;
	bool any = false, out = false;

	for (size_t i = 0; i < d->n_threads && !ferror(stdout); i++) {
		bool sampled = next < k && r[next].tid == d->thread[i].tid;

		any |= print_thread(d, &d->thread[i],
				    sampled && r[next].found ? &r[next] : NULL, !any);
		if (sampled)
			page_deinit(&r[next++].page);
		/* Its number may be another's from here on, and what was read that one's. */
		if (proc_has_ended(d->pidfd)) {
			page_drop(&d->page);
			break;
		}
		if (!d->places)
			page_print(&d->page, NULL);
		out = !d->places;
	}
	while (next < k)
		page_deinit(&r[next++].page);
	return out;
}

/* 0, or what proc_tasks() says. */
static int list_threads(struct dump *d)
{
	const bool same_numbers = proc_same_pid_namespace(d->target.pid);
	_cleanup_free_ pid_t *tids = NULL;
	int r = proc_tasks(d->target.pid, &tids, &d->n_threads);

	if (r < 0)
		return r;
	d->thread = calloc(d->n_threads, sizeof(*d->thread));
	if (!d->thread)
		return -ENOMEM;
	for (size_t i = 0; i < d->n_threads; i++) {
		d->thread[i].tid = d->thread[i].inner = tids[i];
		if (!same_numbers)
			d->thread[i].inner = proc_inner_tid(d->target.pid, tids[i]);
	}
	return 0;
}

static int print_process(struct dump *d, const struct pyproc *p, struct order *o)
{
	_cleanup_free_ struct running *r = NULL;
	bool out, ended;
	size_t k;
	int ret = list_threads(d);

	if (proc_is_short(ret))
		return cmd_fail(EXIT_FAILED, "the threads of process %d can't be listed: %s",
				p->pid, strerror(-ret));
	if (ret < 0)
		return cmd_fail(EXIT_NO_PROCESS, "process %d is gone", p->pid);
	r = calloc(d->n_threads, sizeof(*r));
	if (!r)
		return cmd_fail(EXIT_FAILED, "out of memory");
	dump_know(d);
	dump_print_process(d, p, o->printed > 0);
	k = sample_running(d, r);
	out = print_threads(d, r, k);
	ended = proc_has_ended(d->pidfd);
	if (ended && !out)
		return cmd_fail(EXIT_NO_PROCESS, "process %d has ended", p->pid);
	dump_print_end(d, p);
	if (d->places)
		places_resolve(d->places);
	page_print(&d->page, d->places);
	o->printed++;
	if (ended)
		return cmd_fail(EXIT_NO_PROCESS, "process %d has ended", p->pid);
	if (p->refused[0])
		cmd_say("one of the interpreters of process %d is not read: %s", p->pid,
			p->refused);
	if (STATS_GET(&d->stats, unread))
		cmd_say("memory, descriptors, threads, places for files that take too long or the size "
			"of files (ulimit -f) ran out: some stacks lack names");
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
	ret = announce_process(&q, d->target.pid, false, true, 0,
			       file_helper_openers(d->files));
	if (ret < 0 && ret != -ESRCH)
		STATS_ADD(&d->stats, unread, 1);
	while ((rec = queue_peek(&q))) {
		if (perf_decode_side((const void *)rec->data, &s) == 0)
			assembler_side(d->assembler, &s);
		queue_pop(&q);
	}
	queue_deinit(&q);
}

static void dump_free(struct dump *d)
{
	pystack_destroy(d->stacks);
	assembler_destroy(d->assembler);
	places_destroy(d->places);
	page_deinit(&d->page);
	if (d->page.form.maps)
		proc_maps_deinit(&d->maps);
	free(d->thread);
	free(d->state);
	free(d->called);
	free(d->others);
	free(d);
}

/* What is mapped where is told in JSON alone. */
static int begin_page(struct dump *d, bool json)
{
	struct page_form form = { .json = json };

	if (json && proc_maps_read(&d->maps, d->target.pid) == 0)
		form.maps = &d->maps;
	return page_init(&d->page, &form);
}

/* @pidfd: of the process that @p was found in. */
static int dump_one(const struct pyproc *p, int pidfd, struct order *o)
{
	const struct process_shows *shows = &o->shows;
	struct dump *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return cmd_fail(EXIT_FAILED, "out of memory");
	d->native = shows->native;
	d->async = shows->async;
	d->frozen = target_cgroup_is_frozen(p->pid);
	d->files = shows->file_helper;
	d->target.pid = p->pid;
	d->pidfd = pidfd;
	d->more = DUMP_MORE_TRIES;
	d->target.layout = p->layout;
	d->target.no_jit = p->no_jit;
	d->target.root = proc_stack_root(p->pid);
	pywalk_layout_init(&d->target.walk, &p->layout, p->runtime);
	d->others = others_of(p, true);
	rmem_live_init(&d->live, p->pid);
	if (shows->lines)
		d->places = places_create(shows->source, shows->debuginfod, &d->stats);
	d->assembler = assembler_create(
		&(struct assembler_config){ .native = d->native,
					    .full = d->native == PROCESS_NATIVE_FULL,
					    .names = true,
					    .stays = true,
					    .stats = &d->stats,
					    .places = d->places,
					    .file_helper = shows->file_helper,
					    .kernel_names = shows->kernel_names });
	d->stacks = pystack_create(DUMP_FRAMES, new_code, d);
	if (d->assembler && d->native)
		learn_maps(d);
	r = begin_page(d, shows->json) == 0 && d->assembler && d->stacks &&
			    (d->places || !shows->lines) ?
		    print_process(d, p, o) :
		    cmd_fail(EXIT_FAILED, "out of memory");
	dump_free(d);
	return r;
}

static int dump_child(const struct pyproc *p, uint64_t began, struct order *o)
{
	_cleanup_close_ int fd = proc_pidfd(p->pid);

	if (!p->version)
		return cmd_fail(EXIT_NO_PROCESS, "process %d is just starting Python", p->pid);
	if (fd < 0 || !proc_was_there(p->pid, began))
		return cmd_fail(EXIT_NO_PROCESS, "process %d has ended", p->pid);
	return dump_one(p, fd, o);
}

/* A wrapper's Python children; one of them is enough. */
static int dump_children(pid_t pid, const struct lookup *l, struct order *o)
{
	char comm[16] = "?", list[200];
	int ret = EXIT_NO_PROCESS;

	proc_comm(pid, pid, comm);
	cmd_say("process %d (%s) runs no Python itself; its Python child%s: %s", pid, comm,
		l->n_child > 1 ? "ren" : "", lookup_list(l, list, sizeof(list)));
	for (size_t i = 0; i < l->n_child; i++) {
		int r = dump_child(&l->child[i], l->began, o);

		ret = r == EXIT_DONE ? r : ret;
	}
	return ret;
}

static bool is_asked_for(pid_t pid, const struct process_shows *shows)
{
	for (size_t i = 0; i < shows->n_pids; i++)
		if (shows->pid[i] == pid)
			return true;
	return false;
}

/* A server's master waits, its workers work: those of its descendants that run the same program
 * are told. */
static void tell_workers(pid_t pid, const struct process_shows *shows)
{
	char exe[PATH_MAX], other[PATH_MAX], list[200] = "";
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0, told = 0;

	if (family_list(pid, &pids, &n) < 0 || !dump_exe(pid, exe))
		return;
	for (size_t i = 0; i < n; i++) {
		size_t at = strlen(list);

		if (is_asked_for(pids[i], shows) || !dump_exe(pids[i], other) ||
		    strcmp(exe, other) != 0)
			continue;
		told++;
		if (at + sizeof(",4194304,...") < sizeof(list))
			snprintf(list + at, sizeof(list) - at, ",%d", pids[i]);
		else if (list[at - 1] != '.')
			strcat(list, ",...");
	}
	if (told)
		cmd_say("process %d has %zu child%s that run%s the same program: dump -p %d%s", pid,
			told, told == 1 ? "" : "ren", told == 1 ? "s" : "", pid, list);
}

static int dump(pid_t pid, struct order *o)
{
	_cleanup_close_ int fd =
		proc_pidfd(pid); /* before the look, so that both are of one */
	struct lookup l;
	struct err err;
	int code = process_find(pid, o->shows.file_helper, &l, &err), r;

	if (code >= 0 && fd < 0)
		code = proc_is_short(fd) ? proc_short(pid, fd, &err) :
					   err_set(&err, -ESRCH, "process %d has ended", pid);
	if (code == LOOKUP_WRAPPER)
		r = dump_children(pid, &l, o);
	else if (code < 0)
		r = cmd_fail(cmd_exit_code(code), "%s", err.text);
	else {
		r = dump_one(&l.python, fd, o);
		tell_workers(pid, &o->shows);
	}
	free(l.child);
	return r;
}

/* Who has ended since, or is only starting, is left out. */
static int dump_row(const struct census_row *row, struct order *o)
{
	_cleanup_close_ int fd = proc_pidfd(row->python.pid);

	if (row->code < 0 || fd < 0 || !proc_was_there(row->python.pid, row->began))
		return EXIT_DONE;
	return dump_one(&row->python, fd, o);
}

static int none_fits(const struct scope *s, const struct census *c)
{
	char text[300], denied[400];

	scope_text(s, text, sizeof(text));
	if (c->denied && !c->n)
		return cmd_fail(EXIT_PERMISSION, "%s (%s)",
				census_denied(c, denied, sizeof(denied)), text);
	return cmd_fail(EXIT_NO_PROCESS, "of %zu processes that fit none runs Python%s (%s)",
			c->looked, census_left_out(c) ? " that can be read" : "", text);
}

static void say_note(void *arg, const char *text)
{
	cmd_say("%s", text);
}

static int dump_scope(struct order *o)
{
	const struct note note = { .take = say_note };
	struct census c;
	struct err err;
	int ret = EXIT_DONE, r;

	r = census_take(&c, &o->shows.scope, o->shows.file_helper, NULL);
	if (r < 0) {
		census_failed(r, &err);
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	}
	for (size_t i = 0; i < c.n && !ferror(stdout); i++) {
		r = dump_row(&c.row[i], o);
		/* Of a scope it is no failure that one has ended meanwhile. */
		ret = ret || r == EXIT_NO_PROCESS ? ret : r;
	}
	census_tell(&c, &note);
	if (ret == EXIT_DONE && !o->printed)
		ret = none_fits(&o->shows.scope, &c);
	census_deinit(&c);
	return ret;
}

/* All that can be; the first failure is the answer. */
static int dump_all(struct order *o)
{
	int ret = scope_is_set(&o->shows.scope) ? dump_scope(o) : EXIT_DONE;

	for (size_t i = 0; i < o->shows.n_pids; i++) {
		int r = dump(o->shows.pid[i], o);

		ret = ret ? ret : r;
	}
	if (o->shows.json && o->printed)
		puts("]");
	return ret;
}

static const char help[] =
	"Usage: pysampled dump PID… [options]\n"
	"       pysampled dump -p PID[,PID…] [options]\n"
	"       pysampled dump -a | --match REGEX | -u USER | -G PATH [options]\n\n"
	"Print the stack of every thread, Python and native frames, innermost "
	"first.\n\n"
	"  -p, --pid PID[,PID…]\n"
	"  -a, --all           every Python process\n"
	"      --match REGEX   ... those whose command line matches\n"
	"  -u, --user USER     ... those of a user\n"
	"  -G, --cgroup PATH   ... those in a cgroup, or below it\n"
	"      --json          as JSON\n"
	"      --native[=full], --no-native\n"
	"                      native frames; full shows the interpreter's internals\n"
	"                      too; default --native\n"
	"      --native-lines  native frames with source lines, and inlined "
	"functions\n"
	"      --debuginfod    ... also from the servers in DEBUGINFOD_URLS\n"
	"      --async         asyncio tasks too, each with its await chain, and "
	"greenlets\n"
	"  -h, --help\n"
	"  -V, --version";

int cmd_dump(int argc, char **argv)
{
	const struct note note = { .take = say_note };
	struct order o = { .shows.native = PROCESS_NATIVE };
	struct kernel_names kernel_names;
	struct err err;
	int r;
	pid_t pid = process_option(argc, argv, help, &o.shows);

	if (pid < 0)
		return process_done(pid);
	if (!pid && !scope_is_set(&o.shows.scope))
		return cmd_fail(EXIT_USAGE, "dump takes a process: dump -p PID, or -a");
	o.shows.file_helper = file_helper_start(&err);
	if (!o.shows.file_helper)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	file_helper_wake(o.shows.file_helper);
	if (o.shows.lines)
		o.shows.source = srcline_start(o.shows.debuginfod);
	if (harden_process(HARDEN_LOOK, 0, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	if (o.shows.native && kernel_names_init(&kernel_names) == 0)
		o.shows.kernel_names = &kernel_names;
	ask_begin(&note);
	r = dump_all(&o);
	ask_end();
	process_say_slow(o.shows.file_helper);
	srcline_end(o.shows.source);
	file_helper_end(o.shows.file_helper);
	if (o.shows.kernel_names)
		kernel_names_deinit(&kernel_names);
	return r;
}
