/* SPDX-License-Identifier: MIT
 *
 * census - which of a scope's processes run Python now.
 */
#include "targets/census.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "sys/proc.h"
#include "sys/rights.h"
#include "targets/probe.h"

enum {
	AT_ONCE = 64, /* that are looked at, or wait for a thread; those who hang do together */
	THREADS = 2,
	WAIT_MS = 1000, /* for each, from the moment on when it is looked at */
	STEP_MS = 50,	/* how often it is asked for the end meanwhile */
};

static const uint64_t MS = 1000000;

static int add_row(struct census *c, const struct census_row *row)
{
	if (!array_reserve(&c->row, &c->cap, c->n + 1, sizeof(*c->row)))
		return -ENOMEM;
	c->row[c->n++] = *row;
	return 0;
}

static int take_answer(struct census *c, pid_t pid, struct probe *probe)
{
	struct census_row row = { 0 };
	struct err err;

	if (!probe_done(probe, &row.code, &row.python, &err)) {
		c->hang++;
		return 0;
	}
	row.began = probe_began(probe);
	row.python.pid = pid;
	if (row.code == 0 || row.code == -EAGAIN)
		return add_row(c, &row);
	c->denied += row.code == -EACCES || row.code == -EPERM;
	if (proc_is_short(row.code)) {
		c->lacking++;
		c->lack = err;
	}
	if (row.code == -ENOTSUP || row.code == -EFBIG) { /* EFBIG: it may be one */
		c->unknown++;
		c->why = err;
	}
	return 0;
}

/* All that were started before have ended or were given up: the next thread is this one's. */
static void await(struct probe *p, const struct stop *stop)
{
	uint64_t since = now_ns(), began;

	do {
		if (probe_wait(p, STEP_MS))
			return;
		began = probe_began(p);
	} while (!stop_asked(stop) && now_ns() < (began ? began : since) + WAIT_MS * MS);
}

static int look_at_some(struct census *c, struct probers *crew, const pid_t *pids, size_t n,
			struct file_helper *files, const struct stop *stop)
{
	struct probe *probes[AT_ONCE];
	uint64_t now = now_ns();
	int r = 0;

	for (size_t i = 0; i < n; i++)
		probes[i] = probe_start(crew, pids[i], now, files, -1);
	for (size_t i = 0; i < n; i++) {
		if (!probes[i]) {
			r = r ? r : -ENOMEM;
			continue;
		}
		await(probes[i], stop);
		if (r == 0)
			r = take_answer(c, pids[i], probes[i]);
		probe_release(probes[i]);
	}
	return r;
}

int census_take(struct census *c, const struct scope *s, struct file_helper *files,
		const struct stop *stop)
{
	struct probers *crew = probers_create(THREADS, false);
	_cleanup_free_ pid_t *pids = NULL;
	size_t n;
	int r;

	*c = (struct census){ 0 };
	if (!crew)
		return -ENOMEM;
	r = scope_list(s, &pids, &n);
	for (size_t i = 0; r == 0 && i < n && !stop_asked(stop); i += AT_ONCE)
		r = look_at_some(c, crew, pids + i, MIN(n - i, (size_t)AT_ONCE), files, stop);
	c->looked = n;
	probers_release(crew);
	return r;
}

int census_failed(int code, struct err *err)
{
	if (code == -ENOMEM)
		return err_set(err, code,
			       "the processes can't be looked at: no thread can be made for that, "
			       "or memory is out: raise the limit of processes (ulimit -u)");
	return err_set(err, code, "can't list the processes: %s", strerror(-code));
}

void census_deinit(struct census *c)
{
	free(c->row);
	*c = (struct census){ 0 };
}

const char *census_denied(const struct census *c, char *buf, size_t size)
{
	char wanted[200];

	rights_wanted(wanted, sizeof(wanted), "CAP_SYS_PTRACE");
	if (c->denied == c->looked)
		snprintf(buf, size, "none of the %zu processes that fit may be looked at: %s",
			 c->looked, wanted);
	else
		snprintf(buf, size,
			 "of %zu processes that fit %zu may not be looked at, and none of the "
			 "others runs Python%s: %s",
			 c->looked, c->denied, c->unknown + c->lacking + c->hang ? " that can be read" : "",
			 wanted);
	return buf;
}

void census_tell(const struct census *c, const struct note *note)
{
	char wanted[200];

	if (c->denied)
		note_say(note, "left out: %zu process%s whose memory may not be read: %s",
			 c->denied, c->denied == 1 ? "" : "es",
			 rights_wanted(wanted, sizeof(wanted), "CAP_SYS_PTRACE"));
	if (c->unknown)
		note_say(note, "left out: %zu Python process%s that can't be read: %s",
			 c->unknown, c->unknown == 1 ? "" : "es", c->why.text);
	if (c->lacking)
		note_say(note, "left out: %zu process%s that could not be looked at: %s",
			 c->lacking, c->lacking == 1 ? "" : "es", c->lack.text);
	if (c->hang)
		note_say(note, "left out: %zu process%s too long to look at", c->hang,
			 c->hang == 1 ? " that takes" : "es that take");
}
