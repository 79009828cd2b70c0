/* SPDX-License-Identifier: MIT
 *
 * doctor - what this kernel, these rights and this target allow, and what to change.
 */
#include <errno.h>
#include <stdio.h>

#include "capture/capture.h"
#include "capture/preempt.h"
#include "elf/file_helper.h"
#include "elf/opener.h"
#include "record/facts.h"
#include "sys/ask.h"
#include "sys/harden.h"
#include "sys/proc.h"
#include "cmd.h"
#include "process.h"

enum { ANSWER_MS = 500 }; /* of a file system, on a busy machine */

static void print_line(void *arg, const char *mark, const char *text)
{
	(void)arg;
	cmd_line(stdout, "%-3s %s", mark, text);
}

/* facts_judge_machine() has said why. */
static const char no_event[] = "no event can be opened (above)";

/* They are about samples, which are events. */
static void check_captures(const struct facts_machine *m, struct capture_want want)
{
	want.named = true;
	for (size_t i = 0; captures[i]; i++) {
		struct err err;
		int r = captures[i]->possible(&want, &err);

		cmd_line(stdout, "%-3s --capture %s: %s", r < 0 || m->event_error ? "no" : "ok",
			 captures[i]->name,
			 r < 0		? err.text :
			 m->event_error ? no_event :
					  captures[i]->promise);
	}
}

/* What record would pick, and why not better. */
static void print_choice(const struct facts_machine *m, const struct capture_want *want)
{
	const struct capture_ops *capture;
	struct err why, err;
	char caveat[sizeof(why.text)];

	if (m->event_error) {
		cmd_line(stdout, "no  record can't sample: %s", no_event);
		return;
	}
	if (capture_pick("auto", want, &capture, &why, &err) < 0)
		return;
	if (*capture->caveat(want->plan, caveat, sizeof(caveat)))
		snprintf(why.text, sizeof(why.text), "%s", caveat);
	cmd_line(stdout, "--  record would use --capture %s%s%s", capture->name,
		 why.text[0] ? ": " : "", why.text);
}

static void print_other(const struct pyproc *p, const struct pyproc_other *o)
{
	char version[16];

	cmd_line(stdout, "%s  process %d is also CPython %s, in %s%s", o->proven ? "ok" : "--",
		 p->pid, pyproc_version(o->version, version), o->file,
		 o->proven ? "" :
		 o->begun  ? ", which is not read" :
			     ", which has not begun");
}

static void print_python(const struct pyproc *p)
{
	char version[16];

	if (p->version)
		cmd_line(stdout, "ok  process %d is CPython %s (%s), in %s", p->pid,
			 pyproc_version(p->version, version), p->build, p->module);
	else
		cmd_line(stdout, "--  process %d is just starting Python", p->pid);
	for (uint32_t i = 0; i < p->n_others; i++)
		print_other(p, &p->other[i]);
	if (p->refused[0])
		cmd_line(stdout, "no  one of the interpreters of process %d is not read: %s",
			 p->pid, p->refused);
}

static void print_wrapper(pid_t pid, const struct lookup *l)
{
	char comm[16] = "?", list[200];

	proc_comm(pid, pid, comm);
	cmd_line(stdout,
		 "--  process %d (%s) runs no Python itself; record follows its Python "
		 "child%s: "
		 "%s",
		 pid, comm, l->n_child > 1 ? "ren" : "", lookup_list(l, list, sizeof(list)));
	for (size_t i = 0; i < l->n_child; i++)
		print_python(&l->child[i]);
}

/* True: a file whose code it has mapped answers. */
static bool file_answers(pid_t pid, const struct proc_map *m, struct file_helper *files)
{
	unsigned char id[ELFIMAGE_MAX_ID];
	struct stat st;
	_cleanup_close_ int fd =
		opener_map(file_helper_openers(files), pid, m, ANSWER_MS, &st, NULL);

	return fd != -ETIMEDOUT &&
	       (fd < 0 || file_helper_id(files, id, fd, ANSWER_MS) != -ETIMEDOUT);
}

/* The first that does not is named in the end. */
static void check_files(pid_t pid, struct file_helper *files)
{
	const char *last = "";
	struct proc_maps maps;
	bool answers = true;

	if (proc_maps_read(&maps, pid) < 0)
		return;
	for (size_t i = 0; answers && i < maps.n; i++) {
		const struct proc_map *m = &maps.map[i];

		if (!m->x || *m->path != '/' || !strcmp(m->path, last))
			continue;
		last = m->path;
		answers = file_answers(pid, m, files);
	}
	if (!answers)
		file_helper_slow(files, last);
	proc_maps_deinit(&maps);
}

/* What process_find() said of the process. */
struct found {
	int code;
	struct lookup l;
	struct err err;
	pid_t *deciders; /* whose signals tell what may stop threads */
};

/* As in record they are a wrapper's Python children. */
static void look_at(pid_t pid, struct file_helper *files, struct found *f,
		    struct capture_want *want)
{
	size_t cap = 0;
	int r = 0;

	f->code = process_find(pid, files, &f->l, &f->err);
	if (f->code != LOOKUP_WRAPPER)
		r = proc_push(&f->deciders, &want->n_pids, &cap, pid);
	else
		for (size_t i = 0; r == 0 && i < f->l.n_child; i++)
			r = proc_push(&f->deciders, &want->n_pids, &cap, f->l.child[i].pid);
	want->pids = f->deciders;
}

static void forget(struct found *f)
{
	free(f->l.child);
	free(f->deciders);
}

/* @pidfd: of the process before anything was asked of it, or -errno. */
static int check_target(const struct facts_machine *m, const struct facts_target *t, int pidfd,
			const struct capture_want *want, struct file_helper *files,
			struct found *f)
{
	int code = f->code;

	if (code != -ESRCH)
		check_files(t->pid, files);
	if (code != -ESRCH && pidfd >= 0 && proc_has_ended(pidfd))
		code = err_set(&f->err, -ESRCH, "process %d has ended", t->pid);
	if (code == -ESRCH)
		return cmd_fail(EXIT_NO_PROCESS, "%s", f->err.text);
	if (code < 0)
		cmd_line(stdout, "no  %s", f->err.text);
	else if (code == LOOKUP_WRAPPER)
		print_wrapper(t->pid, &f->l);
	else
		print_python(&f->l.python);
	facts_judge_target(m, t, print_line, NULL);
	if (code < 0)
		return cmd_exit_code(code);
	print_choice(m, want);
	return EXIT_DONE;
}

static void say_note(void *arg, const char *text)
{
	(void)arg;
	cmd_say("%s", text);
}

static const char help[] =
	"Usage: pysampled doctor [[-p] PID]\n\n"
	"What this kernel, these rights and this target allow, and what "
	"to change.\n\n"
	"  -p, --pid PID\n"
	"  -h, --help\n"
	"  -V, --version";

int cmd_doctor(int argc, char **argv)
{
	const struct note note = { .take = say_note };
	struct facts_machine m;
	struct facts_target t;
	struct err err;
	pid_t pid = process_option(argc, argv, help, NULL);
	struct preempt_plan plan = { 0 };
	struct capture_want want = { .plan = &plan };
	struct found found = { 0 };
	struct file_helper *files = NULL;
	_cleanup_close_ int fd = -1;
	int r = EXIT_DONE;

	if (pid < 0)
		return process_done(pid);
	files = pid ? file_helper_start(&err) : NULL;
	if (pid && !files)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	if (files)
		file_helper_wake(files);
	if (harden_process(HARDEN_LOOK, 0, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	ask_begin(&note);
	fd = pid ? proc_pidfd(pid) : -ESRCH;
	if (pid && proc_exists(pid)) {
		facts_of_target(&t, pid);
		plan.targets.cpus = t.cpus;
		plan.targets.rt = t.rt;
		cpus_isolated(&plan.targets.spared);
	} else {
		t = (struct facts_target){ .pid = pid };
	}
	facts_of_machine(&m);
	facts_judge_machine(&m, print_line, NULL);
	if (pid)
		look_at(pid, files, &found, &want);
	want.user_only = !m.perfmon && m.paranoid > 1;
	check_captures(&m, want);
	if (pid)
		r = check_target(&m, &t, fd, &want, files, &found);
	forget(&found);
	ask_end();
	if (r != EXIT_NO_PROCESS)
		process_say_slow(files);
	file_helper_end(files);
	return r;
}
