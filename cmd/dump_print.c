/* SPDX-License-Identifier: MIT
 *
 * dump_print - a process and its threads as text, or as JSON.
 */
#include <limits.h>
#include <seccomp.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "json.h"
#include "cmd.h"
#include "dump_int.h"

enum state { RUNNING, GIL, WAITING, DISK, STOPPED, FROZEN, ZOMBIE };

static const struct {
	const char *text, *json;
} states[] = {
	[RUNNING] = { "running", "running" }, [GIL] = { "waits for the GIL", "gil" },
	[WAITING] = { "idle", "waiting" },    [DISK] = { "disk sleep", "waiting" },
	[STOPPED] = { "stopped", "stopped" }, [FROZEN] = { "frozen", "stopped" },
	[ZOMBIE] = { "zombie", NULL },
};

static enum state state_of(const struct dump *d, const struct dump_found *f)
{
	if (f->sampled)
		return RUNNING;
	if (f->state == 'T' || f->state == 't')
		return STOPPED;
	if (f->state == 'Z')
		return ZOMBIE;
	if (!f->asleep)
		return RUNNING;
	if (d->frozen)
		return FROZEN;
	if (dump_waits_for_gil(d, f))
		return GIL;
	return f->state == 'D' ? DISK : WAITING;
}

/* The name of the system call that it is in, to be freed; NULL: in none, or not known. */
static char *syscall_name(const struct dump_found *f)
{
	return f->wait.syscall < 0 ?
		       NULL :
		       seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, f->wait.syscall);
}

/* --- stacks, in either form --- */

static void add_stack(struct dump *d, const struct dump_found *f)
{
	bool known = f->waits && f->asleep;
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
		page_mark(&d->page, "[no Python]");
}

static void add_frames(struct dump *d, const struct dump_found *f)
{
	if (f->sampled) {
		page_add(&d->page, &f->sampled->page);
		return;
	}
	if (f->state == 'Z') {
		page_mark(&d->page, "[this thread has ended]");
		return;
	}
	if (d->native && !(f->waits && f->asleep))
		page_mark(&d->page, "[native frames unknown: it ran, and was not sampled]");
	add_stack(d, f);
}

/* --- text --- */

/* Where the kernel keeps it: "futex, futex_wait_queue". */
static void print_wait(struct dump *d, const struct dump_found *f)
{
	char *name = syscall_name(f);

	if (name || f->wait.wchan[0])
		cmd_line(d->page.to, "    [waits in %s%s%s]", name ? name : "",
			 name && f->wait.wchan[0] ? ", " : "", f->wait.wchan);
	free(name);
}

static void print_text(struct dump *d, const struct dump_thread *t, const char *comm,
		       const struct dump_found *f)
{
	const char *name = dump_name(d, t->inner);

	cmd_line(d->page.to, "Thread %d (%s%s): \"%s\"", t->tid, states[state_of(d, f)].text,
		 f->gil == DUMP_GIL_YES ? ", holds the GIL" : "", name ? name : comm);
	if (f->waits && !f->sampled)
		print_wait(d, f);
	add_frames(d, f);
}

/* --- JSON --- */

static const char *const answers[] = {
	[DUMP_GIL_UNKNOWN] = "null",
	[DUMP_GIL_NO] = "false",
	[DUMP_GIL_YES] = "true",
};

static void print_json(struct dump *d, const struct dump_thread *t, const char *comm,
		       const struct dump_found *f)
{
	FILE *to = d->page.to;
	char *in = f->asleep ? syscall_name(f) : NULL;

	fprintf(to, "\n{\"tid\":%d", t->tid);
	json_key(to, "name", dump_name(d, t->inner));
	json_key(to, "os_name", comm);
	json_key(to, "state", states[state_of(d, f)].json);
	fprintf(to, ",\"gil\":%s", answers[f->gil]);
	json_key(to, "waits_in", in);
	fputs(",\"frames\":[", to);
	page_list(&d->page);
	add_frames(d, f);
	fputs("]}", to);
	free(in);
}

/* --- processes --- */

const char *dump_exe(pid_t pid, char buf[PATH_MAX])
{
	return proc_link(pid, "exe", buf, PATH_MAX) > 0 ? buf : NULL;
}

static void print_other(struct dump *d, const struct pyproc_other *o)
{
	char version[16];

	cmd_line(d->page.to, "    also CPython %s, %s%s", pyproc_version(o->version, version), o->file,
		 o->proven ? "" : o->begun ? ", not read" : ", not begun");
}

void dump_print_process(struct dump *d, const struct pyproc *p, bool several)
{
	char version[16], exe[PATH_MAX];

	if (!d->page.form.json) {
		cmd_line(d->page.to, "Process %d: CPython %s (%s), %s", p->pid,
			 pyproc_version(p->version, version), p->build, p->module);
		for (uint32_t i = 0; i < p->n_others; i++)
			print_other(d, &p->other[i]);
		return;
	}
	fprintf(d->page.to, "%s{\"pid\":%d", several ? ",\n" : "[", p->pid);
	json_key(d->page.to, "python", pyproc_version(p->version, version));
	json_key(d->page.to, "exe", dump_exe(p->pid, exe));
	fputs(",\"threads\":[", d->page.to);
}

void dump_print_thread(struct dump *d, const struct dump_thread *t, const char *comm,
		       const struct dump_found *f, bool first)
{
	if (!d->page.form.json) {
		print_text(d, t, comm, f);
		return;
	}
	if (!first)
		putc(',', d->page.to);
	print_json(d, t, comm, f);
}

void dump_print_end(struct dump *d, const struct pyproc *p)
{
	if (d->page.form.json)
		putc(']', d->page.to);
	if (d->async || d->page.form.json)
		dump_print_tasks(d, p);
	if (d->async || d->page.form.json)
		dump_print_greenlets(d, p);
	if (d->page.form.json)
		putc('}', d->page.to);
}
