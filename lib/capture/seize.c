/* SPDX-License-Identifier: MIT */
#include "capture/seize.h"

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "sys/proc.h"
#include "sys/rights.h"

enum {
	SEIZE_MS = 20,	/* an exec takes less, most are not in one */
	TRIES = 5,	/* with twice the time each */
	LATER_MS = 100, /* until it is looked at again */
};

int seizer_init(struct seizer *s, long options)
{
	struct proc_status own;

	*s = (struct seizer){ .options = options };
	if (proc_status(gettid(), &own) == 0 && own.tracer)
		s->our_tracer = proc_tgid(own.tracer);
	return nudge_limit_init(&s->limit);
}

void seizer_deinit(struct seizer *s)
{
	nudge_limit_deinit(&s->limit);
	free(s->later);
}

static int explain(pid_t tid, int code, struct err *err)
{
	struct proc_status s;
	char comm[16] = "?", wanted[200];
	int r;

	if (code == -ESRCH)
		return -ESRCH;
	r = proc_status(tid, &s);
	if (proc_is_short(r))
		return proc_short(tid, r, err);
	if (r < 0 || s.state == 'Z' || s.state == 'X')
		return -ESRCH;
	if (s.tracer == gettid())
		return 0; /* it was born seized, or was so as the time was up */
	if (code == -EAGAIN)
		return err_set(err, code,
			       "process %d is in an execve(2) that does not return, so "
			       "--capture stop can't have it",
			       tid);
	if (!s.tracer)
		return err_set(err, -EPERM,
			       "not permitted to trace thread %d (%s): %s, or run as its user, "
			       "and see kernel.yama.ptrace_scope",
			       tid, strerror(-code),
			       rights_wanted(wanted, sizeof(wanted), "CAP_SYS_PTRACE"));
	proc_comm(s.tracer, s.tracer, comm);
	return err_set(err, -EPERM,
		       "thread %d is traced by process %d (%s) already, so --capture stop "
		       "can't have it",
		       tid, s.tracer, comm);
}

struct call {
	pid_t tid;
	long options;
	int ret;
};

static void seize(void *arg)
{
	struct call *c = arg;

	c->ret = ptrace(PTRACE_SEIZE, c->tid, NULL, c->options) < 0 ? -errno : 0;
}

static int remember(struct seizer *s, pid_t tid)
{
	pid_t pid = proc_tgid(tid);

	return pid < 0 ? pid : proc_push(&s->later, &s->n_later, &s->cap_later, pid);
}

/* Whom nobody can look at is so because of that. */
static bool is_in_exec(pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	struct proc_wait w;
	size_t n = 0;
	bool found = false;

	if (proc_tasks(pid, &tids, &n) < 0)
		return false;
	for (size_t i = 0; i < n && !found; i++) {
		int r = proc_wait(pid, tids[i], &w);

		found = r == -ETIMEDOUT || (r == 0 && (w.syscall == SYS_execve ||
						       w.syscall == SYS_execveat));
	}
	return found;
}

/* True: it was asked for. Where CPUs are busy the time may be up before the kernel was asked at
 * all: then it is tried again, for longer. */
static bool ask_for(struct seizer *s, struct call *c)
{
	for (unsigned i = 0; i < TRIES; i++)
		if (nudge_limited(&s->limit, SEIZE_MS << i, seize, c))
			return true;
		else if (is_in_exec(proc_tgid(c->tid)))
			return false;
	return false;
}

int seizer_seize(struct seizer *s, pid_t tid, struct err *err)
{
	struct call c = { .tid = tid, .options = s->options };
	int r;

	if (s->our_tracer > 0 && proc_tgid(tid) == s->our_tracer)
		return err_set(err, -EPERM,
			       "process %d traces pysampled, so --capture stop can't have it",
			       s->our_tracer);
	if (!ask_for(s, &c))
		c.ret = -EAGAIN;
	if (s->n_later) /* asking has ended it */
		nudge_limit_again(&s->limit, LATER_MS);
	if (c.ret == 0)
		return 0;
	r = explain(tid, c.ret, err);
	if (r == -EAGAIN && remember(s, tid) == 0)
		nudge_limit_again(&s->limit, LATER_MS);
	return r;
}

pid_t seizer_next(struct seizer *s)
{
	for (size_t i = 0; i < s->n_later; i++) {
		pid_t pid = s->later[i];

		if (is_in_exec(pid))
			continue;
		s->later[i] = s->later[--s->n_later];
		nudge_limit_again(&s->limit, s->n_later ? LATER_MS : 0);
		return pid;
	}
	return 0;
}
