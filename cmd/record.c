/* SPDX-License-Identifier: MIT
 *
 * record - sample processes into files.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "capture/capture.h"
#include "elf/file_helper.h"
#include "events/event_resolve.h"
#include "sys/harden.h"
#include "lines/places.h"
#include "lines/srcline.h"
#include "sys/proc.h"
#include "base/clock.h"
#include "base/stats.h"
#include "cmd.h"
#include "copies.h"
#include "hottest.h"
#include "options.h"
#include "program.h"
#include "summary.h"

/* A command that waits, started and held before its exec. */
struct child {
	pid_t pid;
	int go;	    /* write a byte: exec; close: give up */
	int failed; /* the errno of its exec comes out here */
	int end;    /* as wait(2) tells it; -1: to be waited for */
	bool begun; /* it was told to go */
};

static void print_note(void *arg, const char *text)
{
	(void)arg;
	cmd_say("%s", text);
}

static void child_main(char **command, int go, int failed)
{
	sigset_t none;
	char byte;
	int e;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	if (read(go, &byte, 1) == 1) {
		execvp(command[0], command);
		e = errno;
		if (write(failed, &e, sizeof(e)) < 0)
			_exit(EXIT_CANT_RUN);
	}
	_exit(EXIT_CANT_RUN);
}

static int start_child(struct child *c, char **command)
{
	int go[2], failed[2];

	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(failed, O_CLOEXEC) < 0)
		return -errno;
	c->pid = fork();
	if (c->pid < 0)
		return -errno;
	if (c->pid == 0) {
		close(go[1]);
		child_main(command, go[0], failed[1]);
	}
	close(go[0]);
	close(failed[1]);
	c->go = go[1];
	c->failed = failed[0];
	return 0;
}

struct begun {
	const struct record_options *o;
	const struct session *session;
	const struct recorder *rec;
	struct child *child;
	const struct sink *hottest;
	bool told; /* what a person wants to see is printed */
};

/* The recording runs: what only its start needs is given up, and the command may begin. */
static void started(void *arg)
{
	const struct begun *b = arg;
	struct child *c = b->child;

	summary_begin(b->o, b->session, b->rec);
	harden_thread(HARDEN_CONTROL, c->pid);
	c->begun = true;
	if (c->pid && write(c->go, "x", 1) < 0)
		kill(c->pid, SIGTERM);
}

/* On a terminal. */
static void second(void *arg)
{
	const struct begun *b = arg;
	char text[100];

	snprintf(text, sizeof(text), "%" PRIu64 " samples in %.0f s",
		 hottest_samples(b->hottest), (double)(now_ns() - b->session->start_ns) / 1e9);
	cmd_live(text);
}

/* SIGINT, SIGTERM and SIGHUP. One that is blocked comes even where it is ignored, which is what
 * nohup(1) wants of SIGHUP; of SIGINT a shell wants it of what it starts in the background, and
 * kill -INT is how scripts end that. */
static void stop_signals(sigset_t *ret)
{
	struct sigaction hup;

	sigemptyset(ret);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGTERM);
	if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler != SIG_IGN)
		sigaddset(ret, SIGHUP);
}

static pid_t stopping; /* who gets the signals that reach us now */

static void forward(int sig)
{
	kill(stopping, sig);
}

/* The recording is over, the command is not: what stops us now stops it. A signal that
 * ended the recording was meant for it too. */
static void forward_stop(const struct child *c)
{
	struct sigaction act = { .sa_handler = forward };
	sigset_t set;

	stopping = c->pid;
	stop_signals(&set);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&set, sig) == 1)
			sigaction(sig, &act, NULL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int cant_run(const char *name, int e, const char *why)
{
	const char *by = program_python(name);

	return cmd_fail(e == ENOENT ? EXIT_NOT_FOUND : EXIT_CANT_RUN,
			"can't run '%s': %s%s%s%s", name, why,
			*by ? "; a script is pysampled -- " : "", by, *by ? name : "");
}

/* The command's own end, as a shell would tell it. */
static int child_status(const struct child *c, const char *name)
{
	int status = c->end, e;

	close(c->go);
	if (status < 0)
		forward_stop(c);
	while (status < 0 && waitpid(c->pid, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_OWN_FAILURE;
	if (read(c->failed, &e, sizeof(e)) == sizeof(e))
		return cant_run(name, e, strerror(e));
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The recording is over, and the command may go on for as long as it likes. */
static void tell_it_runs(struct child *c, char **command)
{
	if (c->pid && c->end < 0 && waitpid(c->pid, &c->end, WNOHANG) == 0)
		cmd_say("the recording is over; waiting for '%s', process %d, to end",
			command[0], c->pid);
}

static int close_sinks(struct sink *sinks, size_t n, struct stats *stats)
{
	struct err err;
	int ret = EXIT_DONE;

	for (size_t i = 0; i < n; i++) {
		if (sink_close(&sinks[i], &err) < 0)
			ret = cmd_fail(EXIT_FAILED, "%s", err.text);
		STATS_ADD(stats, truncated,
			  sinks[i].cut); /* more frames than its records hold */
	}
	return ret;
}

static int open_sinks(const struct record_options *o, const struct session *session,
		      struct sink *sinks, size_t *n)
{
	struct err err;

	*n = 0;
	/* Not one is opened, which moves an old file away, before all are known to be possible. */
	for (size_t i = 0; i < o->n_outputs; i++)
		if (sink_may_open(o->format[i], o->path[i], &err) < 0)
			return cmd_fail(EXIT_FAILED, "%s", err.text);
	for (; *n < o->n_outputs; (*n)++)
		if (sink_open(&sinks[*n], o->format[*n], o->path[*n], session, &err) < 0)
			return cmd_fail(EXIT_FAILED, "%s", err.text);
	return EXIT_DONE;
}

/* They end the recording, not the program. */
static int open_stop(void)
{
	sigset_t set;
	int fd;

	stop_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* Threads that we trace stop with us: a terminal's stops are not for us, but with a command, which
 * they stop as well. */
static void outlast_stops(const struct session *session, const struct child *c)
{
	static const int sigs[] = { SIGTSTP, SIGTTIN, SIGTTOU };

	if (c->pid || !capture_named(session->capture)->traces)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(sigs); i++)
		signal(sigs[i], SIG_IGN);
}

static int run(const struct record_options *o, struct recorder *rec, struct session *session,
	       struct child *child)
{
	struct sink sinks[RESOLVER_MAX_SINKS], *list[RESOLVER_MAX_SINKS];
	struct sink hottest = hottest_sink(session);
	struct begun begun = { o,     session,	rec,
			       child, &hottest, o->verbose >= 0 && hottest.priv };
	const struct recorder_hooks hooks = { started, begun.told && isatty(2) ? second : NULL,
					      &begun };
	struct recorder_summary summary;
	struct err err;
	size_t n;
	int r = open_sinks(o, session, sinks, &n), code;

	outlast_stops(session, child);
	if (r == EXIT_DONE) {
		for (size_t i = 0; i < n; i++)
			list[i] = &sinks[i];
		list[n] = &hottest;
		code = recorder_run(rec, list, n + begun.told, &hooks, &summary, &err);
		cmd_live(NULL);
		child->end = summary.child_end;
		if (code < 0)
			r = cmd_fail(cmd_exit_code(code), "%s", err.text);
	}
	code = close_sinks(sinks, n, session->stats);
	if (STATS_GET(session->stats, bad_debug) && o->verbose >= 0)
		fprintf(stderr,
			"pysampled: lines are missing: debug information could not be read "
			"to its end, or there was no memory, descriptor or process for it, "
			"in files: %" PRIu64 "\n",
			STATS_GET(session->stats, bad_debug));
	if (r == EXIT_DONE) {
		hottest_print(&hottest, stderr);
		if (o->verbose >= 0)
			tell_it_runs(child, o->command);
		summary_end(o, session, &summary);
		r = code;
	}
	hottest_deinit(&hottest);
	return r;
}

/* What the names of events mean here. */
static int resolve_events(struct record_options *o, struct file_helper *files)
{
	const struct event_help help = { files, o->rec.stop, o->rec.pids[0] };
	struct err err;
	int r = event_resolve(o->rec.events, &o->rec.n_events, SESSION_MAX_EVENTS, &help,
			      &err);

	return r < 0 ? cmd_fail(cmd_exit_code(r), "%s", err.text) : 0;
}

static int record(struct record_options *o, struct file_helper *files, int argc, char **argv,
		  struct child *child)
{
	struct stats stats = { 0 };
	struct session session = {
		.argc = argc,
		.argv = argv,
		.flags = o->session_flags,
		.since = time(NULL),
		.epoch_ns = clock_epoch_ns(),
		.shown = o->whole ? 0 : PERF_SHOWS,
		.compress = o->compress,
		.no_cache = o->no_cache,
		.stop = o->rec.stop,
		.copy_ms = COPIES_MS,
		.stats = &stats,
	};
	struct recorder *rec;
	struct err err;
	struct srcline *lines = o->native_lines ? srcline_start(o->debuginfod) : NULL;
	unsigned tracer = capture_may_trace(o->rec.capture) ? HARDEN_TRACER : 0;
	int r = harden_process(HARDEN_RECORD | tracer, child->pid, &err);

	if (r < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	o->rec.note = (struct note){ .take = o->verbose < 0 ? NULL : print_note,
				     .details = o->verbose > 0 };
	session.file_helper = files;
	file_helper_count(files, &stats);
	if (o->native_lines)
		session.places = places_create(lines, o->debuginfod, &stats);
	if (o->native_lines && !session.places)
		return cmd_fail(EXIT_FAILED, "out of memory");
	rec = recorder_create(&o->rec, &session, &err);
	r = rec ? run(o, rec, &session, child) :
		  cmd_fail(cmd_exit_code(err.code), "%s", err.text);
	recorder_destroy(rec);
	places_destroy(session.places);
	srcline_end(lines);
	return r;
}

/* Before the seccomp filter, which children inherit. */
static int begin_command(struct record_options *o, struct child *child)
{
	struct err err;
	int r = program_find(o->command[0], &err);

	if (r < 0)
		return cant_run(o->command[0], -r, err.text);
	r = start_child(child, o->command);
	if (r < 0)
		return cmd_fail(EXIT_OWN_FAILURE, "can't start a process: %s", strerror(-r));
	o->rec.pids[o->rec.n_pids++] = child->pid;
	o->rec.child = true;
	return 0;
}

int cmd_record(int argc, char **argv)
{
	struct record_options o;
	struct child child = { .go = -1, .failed = -1, .end = -1 };
	/* First of all: no signal ends us by its default. */
	struct stop stop = { .fd = open_stop() };
	int r = options_parse(&o, argc, argv), status = EXIT_OWN_FAILURE;
	struct file_helper *files;
	struct err err;

	if (r)
		return r - 1;
	if (stop.fd < 0)
		return cmd_fail(o.command ? EXIT_OWN_FAILURE : EXIT_FAILED,
				"can't wait for signals: %s; raise the limit of descriptors "
				"(ulimit -n)",
				strerror(-stop.fd));
	o.rec.stop = &stop;
	o.rec.scope = scope_is_set(&o.scope) ? &o.scope : NULL;
	files = file_helper_start(&err);
	if (!files)
		return cmd_fail(o.command ? EXIT_OWN_FAILURE : EXIT_FAILED, "%s", err.text);
	r = resolve_events(&o, files);
	if (r == 0 && o.command)
		r = begin_command(&o, &child);
	if (r) {
		file_helper_end(files);
		return r;
	}
	r = record(&o, files, argc, argv, &child);
	file_helper_end(files);
	if (!o.command)
		return r;
	if (!child.begun) {
		close(child.go);
		waitpid(child.pid, NULL, WNOHANG);
	} else {
		status = child_status(&child, o.command[0]);
	}
	return r == EXIT_FAILED ? EXIT_OWN_FAILURE : r != EXIT_DONE ? r : status;
}
