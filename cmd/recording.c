/* SPDX-License-Identifier: MIT
 *
 * recording - tells formats apart, and says what is wrong with a file.
 */
#include "recording.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../output/folded_read.h"
#include "../output/perf_read.h"
#include "cmd.h"
#include "sys/harden.h"
#include "sys/unprivileged.h"

#define CAP(n) (UINT64_C(1) << (n))

int recording_guard(bool writes)
{
	/* Other people's files, as who calls could read and replace them, and the kernel's
	 * symbols: without CAP_SYSLOG /proc/kallsyms hides their addresses. */
	uint64_t rights = CAP(CAP_DAC_READ_SEARCH) | CAP(CAP_SYSLOG) |
			  (writes ? CAP(CAP_DAC_OVERRIDE) | CAP(CAP_FOWNER) : 0);
	int r = unprivileged_keep(rights);
	struct err err;

	if (r < 0)
		return cmd_fail(EXIT_FAILED, "can't give up rights: %s", strerror(-r));
	if (harden_process(writes ? HARDEN_CONVERT : HARDEN_REPORT, 0, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	return EXIT_DONE;
}

void recording_begins(void)
{
	harden_thread(HARDEN_RESOLVER, 0);
}

static int open_file(struct recording *r, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	r->in = fd < 0 ? NULL : fdopen(fd, "r");
	if (r->in)
		return EXIT_DONE;
	if (fd >= 0)
		close(fd);
	return cmd_fail(EXIT_FAILED, "opening %s: %s", path, strerror(errno));
}

static int open_perf(struct recording *r)
{
	struct stat st;
	struct err err;

	if (perf_reader_open(&r->perf, r->in, r->path, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	if (fstat(fileno(r->in), &st) == 0)
		recording_session(r)->since = st.st_mtime;
	return EXIT_DONE;
}

/* A tape begins as all that zstd wrote does; its first byte was read. */
static bool is_zstd(FILE *in)
{
	unsigned char next[3];
	bool ret = fread(next, 1, sizeof(next), in) == sizeof(next) &&
		   !memcmp(next, "\xb5\x2f\xfd", sizeof(next));

	if (!ret)
		rewind(in);
	return ret;
}

int recording_open(struct recording *r, const char *path)
{
	int code, c;

	*r = (struct recording){ .path = path };
	code = open_file(r, path);
	if (code)
		return code;
	c = getc(r->in);
	if (c == 'P') {
		char rest[7] = "";
		size_t n = fread(rest, 1, sizeof(rest), r->in);

		if (n == sizeof(rest) && !memcmp(rest, "ERFILE2", sizeof(rest)))
			return open_perf(r);
		rewind(r->in);
	} else if (c == EOF) {
		return cmd_fail(EXIT_FAILED, "%s %s", path,
				ferror(r->in) ? "can't be read" :
						"is empty: it has no stacks");
	} else if (c < ' ' || (c == '(' && is_zstd(r->in))) {
		return cmd_fail(EXIT_FAILED,
				"%s is neither a perf.data nor text (a tape?): only these can "
				"be read",
				path);
	} else if (c != '(') {
		ungetc(c, r->in);
	}
	r->session =
		(struct session){ .n_events = 1,
				  .capture = "",
				  .capture_why = "",
				  .flags = SESSION_LINES | SESSION_PERIOD | SESSION_THREADS,
				  .stats = &r->stats };
	strcpy(r->session.events[0].name, "folded");
	return EXIT_DONE;
}

void recording_close(struct recording *r)
{
	perf_reader_close(r->perf);
	if (r->in)
		fclose(r->in);
	*r = (struct recording){ 0 };
}

struct session *recording_session(struct recording *r)
{
	return r->perf ? perf_reader_session(r->perf) : &r->session;
}

int recording_event(struct recording *r, const char *name)
{
	const struct session *s = recording_session(r);

	for (size_t i = 0; i < s->n_events; i++)
		if (!name || !strcmp(name, s->events[i].name))
			return (int)i;
	return name ? -1 : 0;
}

static int feed_perf(struct recording *r, struct sink *s)
{
	int ret = perf_reader_run(r->perf, s);
	const char *missing = perf_reader_missing(r->perf);

	if (missing)
		cmd_say("%s", missing);
	if (ret == -EBADMSG)
		return cmd_fail(EXIT_FAILED,
				"%s is damaged: only the samples before that were read",
				r->path);
	return ret ? cmd_fail(EXIT_FAILED, "reading %s: %s", r->path, strerror(-ret)) :
		     EXIT_DONE;
}

int recording_feed(struct recording *r, struct sink *s)
{
	size_t line;
	int ret;

	if (r->perf)
		return feed_perf(r, s);
	ret = folded_read(r->in, s, &line);
	if (ret == -EBADMSG)
		return cmd_fail(EXIT_FAILED,
				"%s:%zu: not a folded stack, 'frame;frame COUNT': only what "
				"stands before it was read",
				r->path, line);
	if (ret || ferror(r->in))
		return cmd_fail(EXIT_FAILED, "reading %s: %s", r->path,
				strerror(ret ? -ret : EIO));
	return EXIT_DONE;
}
