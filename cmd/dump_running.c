/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/eventfd.h>

#include "record/recorder.h"
#include "sample/sink.h"
#include "base/stats.h"
#include "cmd.h"
#include "dump_running.h"

enum { RATE = 997, LONGEST_MS = 300 };

/* The sink that keeps the first exact stack of each thread. */
struct keeper {
	struct running *r;
	const struct page_form *form;
	size_t n, missing;
	int done; /* eventfd */
};

static int keep(struct sink *s, const struct sample *smp, const struct stack *stack)
{
	struct keeper *k = s->priv;

	for (size_t i = 0; i < k->n; i++) {
		struct running *r = &k->r[i];

		if (r->tid != smp->tid || r->found || smp->prov == PROV_LATE ||
		    smp->prov == PROV_TORN)
			continue;
		if (page_init(&r->page, k->form) < 0)
			return -ENOMEM;
		r->found = true;
		r->python = smp->prov != PROV_NOPYTHON;
		r->gil = smp->gil;
		page_stack(&r->page, stack);
		if (smp->prov == PROV_NOPYTHON)
			page_mark(&r->page, "[no Python]");
		if (--k->missing == 0)
			eventfd_write(k->done, 1);
	}
	return 0;
}

static const struct sink_ops keeper_ops = {
	.name = "dump",
	.needs = SINK_NEEDS_NAMES,
	.sample = keep,
};

static struct recorder *open_recorder(struct recorder_options *o, struct session *session,
				      struct err *err)
{
	struct recorder *rec;

	o->capture = "preempt";
	rec = recorder_create(o, session, err);
	if (rec)
		return rec;
	o->capture = "async"; /* exact where it can prove it */
	*session = (struct session){ .flags = session->flags,
				     .stats = session->stats,
				     .places = session->places,
				     .file_helper = session->file_helper };
	return recorder_create(o, session, err);
}

uint64_t dump_running(pid_t pid, enum process_native native, struct file_helper *files,
		      struct places *places, const struct page_form *form, struct running *r,
		      size_t n)
{
	struct recorder_options o = {
		.pids = { pid },
		.n_pids = 1,
		.freq = true,
		.value = RATE,
		.duration_ns = LONGEST_MS * 1000000ull,
		.kernel = true,
		.native = native != PROCESS_NO_NATIVE,
		.full = native == PROCESS_NATIVE_FULL,
		.max_frames = 1024,
		.hold_budget = 5,
		.stack_bytes = 16 << 10,
	};
	struct stats stats = { 0 };
	struct session session = { .flags = SESSION_LINES | SESSION_GIL | SESSION_STAYS,
				   .stats = &stats,
				   .places = places,
				   .file_helper = files };
	struct keeper k = { .r = r, .form = form, .n = n, .missing = n };
	struct sink sink = { .ops = &keeper_ops, .session = &session, .priv = &k },
		    *list = &sink;
	struct recorder_summary summary;
	struct stop stop;
	struct recorder *rec;
	struct err err;

	for (size_t i = 0; i < n && o.n_tids < RECORDER_MAX_PIDS; i++)
		o.tids[o.n_tids++] = r[i].tid;
	if (!n ||
	    perf_names_parse("cpu-clock", o.events, SESSION_MAX_EVENTS, &o.n_events, &err))
		return 0;
	k.done = stop.fd = eventfd(0, EFD_CLOEXEC);
	o.stop = &stop;
	rec = open_recorder(&o, &session, &err);
	if (!rec || recorder_run(rec, &list, 1, NULL, &summary, &err) < 0)
		cmd_say("threads that run could not be sampled, they lack native frames: %s",
			err.text);
	recorder_destroy(rec);
	if (k.done >= 0)
		close(k.done);
	return STATS_GET(&stats, unread);
}
