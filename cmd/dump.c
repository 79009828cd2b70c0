/* SPDX-License-Identifier: MIT
 *
 * dump - the stack of every thread now.
 *
 * Nobody is held: a stack counts when two reads of it agree and the thread still
 * stands where they began; one that never does is said to be torn.
 */
#include <stdio.h>

#include "../lib/harden.h"
#include "../lib/proc.h"
#include "../lib/profile.h"
#include "../lib/pystack.h"
#include "cmd.h"
#include "process.h"

enum { TRIES = 20, MAX_FRAMES = 1024 };

struct dump {
	struct pystack_target target;
	struct rmem_live live;
	struct pystack *stacks;
	struct profile *profile;
	struct pystack_frame before[MAX_FRAMES];
};

static void new_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct dump *d = arg;

	profile_code(d->profile, id, c, pycode_copy_size(c));
}

static bool same(const struct dump *d, const struct pystack_result *r, uint32_t n)
{
	return r->n == n && !memcmp(d->before, r->frames, n * sizeof(*d->before));
}

/* A stack that was read twice alike, or *@stable false and the last try. */
static struct pystack_result settle(struct dump *d, pid_t tid, bool *stable)
{
	pid_t inner = proc_inner_tid(d->target.pid, tid);
	struct pystack_result r = { 0 };
	uint32_t n = UINT32_MAX;

	*stable = false;
	for (int i = 0; i < TRIES && !*stable; i++) {
		r = pystack_read(d->stacks, &d->target, &d->live.base, tid, inner, NULL, NULL);
		if (r.end == PYSTACK_NOPYTHON)
			break;
		if (r.end != PYSTACK_OK)
			continue;
		*stable = same(d, &r, n) && pystack_unchanged(&r, &d->target, &d->live.base);
		n = r.n;
		memcpy(d->before, r.frames, n * sizeof(*d->before));
	}
	return r;
}

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

static void print_frames(struct dump *d, const struct pystack_result *r)
{
	for (uint32_t i = 0; i < r->n; i++) {
		const struct pyfunc *f;
		int line = 0;

		f = profile_lookup(d->profile, r->frames[i].code_id, r->frames[i].lasti,
				   &line);
		if (f)
			printf("    %s (%s:%d)\n", f->qualname, f->file, line);
	}
	if (r->truncated)
		printf("    ... (deeper than %d frames)\n", MAX_FRAMES);
}

static void print_thread(struct dump *d, pid_t tid)
{
	char comm[16];
	bool stable;
	struct pystack_result r;
	char state = proc_state(d->target.pid, tid);

	if (proc_comm(d->target.pid, tid, comm) < 0)
		return;
	r = settle(d, tid, &stable);
	printf("Thread %d (%s): \"%s\"\n", tid, state_name(state), comm);
	if (r.end == PYSTACK_NOPYTHON)
		printf("    [no Python]\n");
	else if (r.end != PYSTACK_OK || !stable)
		printf("    [torn]\n");
	else
		print_frames(d, &r);
}

static int print_process(struct dump *d, const struct pyproc *p)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n;

	if (proc_tasks(p->pid, &tids, &n) < 0)
		return cmd_fail(EXIT_NO_PROCESS, "process %d is gone", p->pid);
	printf("Process %d: CPython %u.%u.%u (%s), %s\n", p->pid, p->version >> 24 & 0xff,
	       p->version >> 16 & 0xff, p->version >> 8 & 0xff, p->build, p->module);
	for (size_t i = 0; i < n; i++)
		print_thread(d, tids[i]);
	return EXIT_DONE;
}

static int dump(pid_t pid)
{
	struct dump *d = calloc(1, sizeof(*d));
	struct pyproc p;
	struct err err;
	int r;

	if (!d)
		return cmd_fail(EXIT_FAILED, "out of memory");
	r = process_find(pid, &p, &err);
	if (r < 0) {
		free(d);
		return cmd_fail(cmd_exit_code(r), "%s", err.text);
	}
	d->target.pid = pid;
	d->target.layout = p.layout;
	pywalk_layout_init(&d->target.walk, &p.layout, p.runtime);
	rmem_live_init(&d->live, pid);
	d->profile = profile_create();
	d->stacks = pystack_create(MAX_FRAMES, new_code, d);
	r = d->profile && d->stacks ? print_process(d, &p) :
				      cmd_fail(EXIT_FAILED, "out of memory");
	pystack_destroy(d->stacks);
	profile_destroy(d->profile);
	free(d);
	return r;
}

int cmd_dump(int argc, char **argv)
{
	struct err err;
	pid_t pid = process_option(
		argc, argv,
		"Usage: pysampled dump -p PID\n\n"
		"Print the Python stack of every thread, innermost frame first.");

	if (pid < 0)
		return process_done(pid);
	if (!pid)
		return cmd_fail(EXIT_USAGE, "dump takes one process: dump -p PID");
	if (harden_read_only(false, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	return dump(pid);
}
