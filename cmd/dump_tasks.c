/* SPDX-License-Identifier: MIT
 *
 * dump_tasks - asyncio's tasks as text, or as JSON.
 */
#include "json.h"
#include "cmd.h"
#include "dump_async.h"
#include "dump_int.h"

/* Tasks being printed: on a page of their own, for the process may end meanwhile. */
struct printing {
	struct dump *d;
	struct page page;
	bool any;
};

static bool read_thread(void *arg, size_t i, struct pystack_result *ret)
{
	struct printing *p = arg;
	struct dump_found f = { 0 };

	if (i >= p->d->n_threads)
		return false;
	f.state = proc_state(p->d->target.pid, p->d->thread[i].tid);
	dump_find(p->d, &p->d->thread[i], &f);
	*ret = f.python;
	if (!f.stable)
		ret->end = PYSTACK_BROKEN;
	return true;
}

static void print_text(void *arg, const struct dump_task *t)
{
	struct printing *p = arg;

	cmd_line(p->page.to, "Task%s%s%s (%s): coroutine %s", t->name ? " \"" : "",
		 t->name ? t->name : "", t->name ? "\"" : "", dump_async_state(t->state),
		 t->coroutine ? t->coroutine : "[unknown]");
	page_stack(&p->page, &t->stack);
}

static void print_json(void *arg, const struct dump_task *t)
{
	struct printing *p = arg;
	FILE *to = p->page.to;

	fputs(p->any ? ",\n{\"name\":" : "\n{\"name\":", to);
	json_string(to, t->name);
	json_key(to, "coroutine", t->coroutine);
	json_key(to, "state", dump_async_state(t->state));
	fputs(",\"frames\":[", to);
	page_list(&p->page);
	page_stack(&p->page, &t->stack);
	fputs("]}", to);
	p->any = true;
}

static void say(struct printing *p, const struct dump_async_end *end,
		const struct pyproc *proc)
{
	char text[100] = "", version[16];

	if (!end->known && p->d->async)
		snprintf(text, sizeof(text), "asyncio tasks of this CPython %s can't be read",
			 pyproc_version(proc->version, version));
	else if (end->known && (!end->whole || end->strange))
		snprintf(text, sizeof(text), "%zu tasks could not be read%s", end->strange,
			 end->whole ? "" : "; some may be missing, for they came and went");
	if (text[0])
		page_say(&p->page, proc->pid, text);
	if (end->unseen) {
		snprintf(text, sizeof(text), "there was no time to look at %zu more tasks",
			 end->unseen);
		page_say(&p->page, proc->pid, text);
	}
	if (end->gone) {
		snprintf(text, sizeof(text),
			 "%zu tasks ended before they were read; others may have begun meanwhile",
			 end->gone);
		page_say(&p->page, proc->pid, text);
	}
}

static struct dump_async_end print(struct printing *p, const struct pyproc *proc)
{
	struct dump *d = p->d;
	const struct dump_async how = { .process = proc,
					.m = &d->live.base,
					.target = &d->target,
					.stacks = d->stacks,
					.assembler = d->assembler,
					.thread = read_thread,
					.found = p->page.form.json ? print_json : print_text,
					.arg = p };
	struct dump_async_end end = dump_async(&how);

	say(p, &end, proc);
	return end;
}

void dump_print_tasks(struct dump *d, const struct pyproc *proc)
{
	struct printing p = { .d = d };
	bool json = d->page.form.json;
	bool made = page_init(&p.page, &d->page.form) == 0,
	     known = made && print(&p, proc).known;

	/* Its number may be another's by now, and what was read that one's. */
	if (proc_has_ended(d->pidfd))
		made = known = false;
	if (json)
		fputs(known ? ",\"tasks\":[" : ",\"tasks\":null", d->page.to);
	page_list(&d->page);
	if (json ? known : made)
		page_add(&d->page, &p.page);
	if (json && known)
		putc(']', d->page.to);
	page_deinit(&p.page);
}
