/* SPDX-License-Identifier: MIT
 *
 * lookup - a process that the user named: what is it, and do it or its children run Python?
 */
#include "targets/lookup.h"

#include <errno.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "sys/family.h"
#include "sys/proc.h"

enum {
	AT_ONCE = 32,	       /* probes of children */
	THREADS = 2,	       /* that make these probes */
	CHILD_MS = 1000,       /* for all of those together */
	YOUNG_NS = 1000000000, /* a shell may be about to start Python, and Python to begin */
	AGAIN_NS = 20000000,
	LIST_MAX = 8,
	STEP_MS = 50, /* how often it is asked for ->stop while a probe is at work */
	STAY_LOOKS = 5,	    /* AGAIN_NS apart: threads that are as many as before stay */
	ENDING_LOOKS = 100, /* at the most */
};

/* --- what it is, without a look into its memory --- */

/* Does another thread than the main one stay? Those of a process that was killed end one after
 * the other. */
static bool others_stay(pid_t pid)
{
	const struct timespec pause = { .tv_nsec = AGAIN_NS };
	size_t before = 0, same = 0;

	for (int i = 0; i < ENDING_LOOKS && same < STAY_LOOKS; i++) {
		_cleanup_free_ pid_t *tids = NULL;
		size_t n = 0;

		if (proc_tasks(pid, &tids, &n) < 0 || n <= 1)
			return false;
		same = n == before ? same + 1 : 0;
		before = n;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* Its leader is a zombie, or becomes one: its memory is gone before. 0: others live on. */
static int has_ended(pid_t pid, char state, struct err *err)
{
	char comm[16] = "?";

	proc_comm(pid, pid, comm);
	if (state != 'Z')
		return err_set(err, -ESRCH, "process %d (%s) has ended", pid, comm);
	if (others_stay(pid))
		return 0;
	return err_set(
		err, -ESRCH,
		"process %d (%s) has ended: it is a zombie, its parent has not asked for "
		"its exit status yet",
		pid, comm);
}

static int check_process(pid_t pid, struct err *err)
{
	enum proc_memory memory;
	bool kernel;
	pid_t tgid = proc_tgid_memory(pid, &memory);
	char comm[16] = "?", state;

	if (proc_is_short(tgid))
		return proc_short(pid, tgid, err);
	if (tgid < 0)
		return err_set(err, -ESRCH, "there is no process %d", pid);
	if (tgid != pid)
		return err_set(err, -ESRCH, "%d is a thread of process %d; use -p %d -t %d",
			       pid, tgid, tgid, pid);
	if (memory == PROC_MEMORY)
		return 0;
	state = proc_kind(pid, &kernel);
	if (!kernel)
		return has_ended(pid, state, err);
	proc_comm(pid, pid, comm);
	return err_set(err, -ENOEXEC,
		       "process %d (%s) is a kernel thread: it has no memory of its own and "
		       "runs no Python; 'pysampled record --any' samples what the kernel does "
		       "in it",
		       pid, comm);
}

/* --- its memory --- */

/* True: it has ended. */
static bool await(const struct lookup *l, struct probe *probe, int ms)
{
	for (; !stop_asked(l->stop) && ms > 0; ms -= STEP_MS)
		if (probe_wait(probe, MIN(ms, (int)STEP_MS)))
			return true;
	return false;
}

static int no_probe(pid_t pid, struct err *err)
{
	return err_set(err, -ENOMEM,
		       "process %d can't be looked at: no thread can be made for that, or memory "
		       "is out: raise the limit of processes (ulimit -u)",
		       pid);
}

static int look(struct lookup *l, pid_t pid, struct err *err)
{
	struct probe *probe = probe_start(l->crew, pid, now_ns(), l->files, l->kick);
	int code;

	if (!probe)
		return no_probe(pid, err);
	if (!await(l, probe, l->wait_ms)) {
		l->hanging = probe;
		return err_set(err, -EINPROGRESS, "reading the memory of process %d hangs",
			       pid);
	}
	probe_done(probe, &code, &l->python, err);
	l->began = probe_began(probe);
	probe_release(probe);
	return code;
}

/* What the probe of a child says; why it can't be read goes to @why. */
static int take_child(struct lookup *l, pid_t pid, struct probe *probe, struct err *why)
{
	struct pyproc p;
	struct err err;
	int code;

	if (!probe_done(probe, &code, &p, &err))
		return 0;
	if (code == -EACCES || code == -EPERM || code == -ENOTSUP || proc_is_short(code))
		*why = err;
	if (code < 0 && code != -EAGAIN)
		return 0;
	if (!array_reserve(&l->child, &l->cap_child, l->n_child + 1, sizeof(*l->child)))
		return -ENOMEM;
	l->child[l->n_child++] = code == 0 ? p : (struct pyproc){ .pid = pid };
	return 0;
}

static int look_at_some(struct lookup *l, struct probers *crew, const pid_t *pids, size_t n,
			uint64_t end, struct err *why)
{
	struct probe *probes[AT_ONCE];
	int r = 0;

	for (size_t i = 0; i < n; i++)
		probes[i] = probe_start(crew, pids[i], now_ns(), l->files, -1);
	for (size_t i = 0; i < n; i++) {
		uint64_t now = now_ns();

		if (probes[i] && now < end)
			await(l, probes[i], (int)((end - now) / 1000000));
		if (r == 0)
			r = probes[i] ? take_child(l, pids[i], probes[i], why) : -ENOMEM;
		probe_release(probes[i]);
	}
	return r;
}

/* *@young: has one of them been born just now? */
static int look_at_children(struct lookup *l, pid_t pid, bool *young, struct err *why)
{
	uint64_t end = now_ns() + CHILD_MS * 1000000ull;
	_cleanup_free_ pid_t *pids = NULL;
	struct probers *crew;
	size_t n = 0;
	int r = 0;

	if (family_list(pid, &pids, &n) < 0)
		return 0;
	crew = probers_create(THREADS, false);
	if (!crew)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		*young = *young || proc_age_ns(pids[i]) < YOUNG_NS;
	for (size_t i = 0; r == 0 && i < n && !stop_asked(l->stop); i += AT_ONCE)
		r = look_at_some(l, crew, pids + i, MIN(n - i, (size_t)AT_ONCE), end, why);
	probers_release(crew);
	return r;
}

/* --- together --- */

/* Neither it nor a child; @why: one that can't be read. */
static int no_python(const struct lookup *l, pid_t pid, const struct err *why, struct err *err)
{
	struct err own = *err;
	char comm[16] = "?";

	/* It may have ended meanwhile. */
	if (check_process(pid, err) < 0)
		return err->code;
	proc_comm(pid, pid, comm);
	if (why->code)
		return err_set(err, why->code,
			       "process %d (%s) is no Python, and of its children: %.250s",
			       pid, comm, why->text);
	return err_set(err, -ENOEXEC, "%.250s%s; 'pysampled record --any' samples it natively",
		       own.text, l->children ? ", nor has it a Python child" : "");
}

int lookup(struct lookup *l, pid_t pid, struct err *err)
{
	const struct timespec pause = { .tv_nsec = AGAIN_NS };
	uint64_t end = now_ns() + YOUNG_NS;
	int code = check_process(pid, err);

	while (code == 0) {
		uint64_t looked = now_ns();
		struct err why = { 0 };
		bool young;

		code = look(l, pid, err);
		if ((code != -ENOEXEC && code != -EAGAIN) || l->any)
			break;
		l->starts = code == -EAGAIN;
		young = proc_age_ns(pid) < YOUNG_NS + (now_ns() - looked);
		code = l->children ? look_at_children(l, pid, &young, &why) : 0;
		if (code < 0)
			return no_probe(pid, err);
		if (l->n_child)
			return LOOKUP_WRAPPER;
		if (l->starts || stop_asked(l->stop))
			return -EAGAIN;
		if (!young || now_ns() >= end)
			return no_python(l, pid, &why, err);
		nanosleep(&pause, NULL);
		code = check_process(pid, err);
	}
	return code;
}

const char *lookup_list(const struct lookup *l, char *to, size_t size)
{
	size_t n = 0;

	to[0] = '\0';
	for (size_t i = 0; i < l->n_child && i < LIST_MAX; i++)
		n += (size_t)snprintf(to + n, size - n, "%s%d", i ? ", " : "",
				      l->child[i].pid);
	if (l->n_child > LIST_MAX)
		snprintf(to + n, size - n, " and %zu more", l->n_child - LIST_MAX);
	return to;
}
