/* SPDX-License-Identifier: MIT
 *
 * recording - tells formats apart, and says what is wrong with a file.
 */
#include "recording.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../output/folded_read.h"
#include "../output/perf_read.h"
#include "../output/tape_read.h"
#include "cmd.h"
#include "file_kind.h"
#include "sys/harden.h"
#include "sys/memfile.h"
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

int recording_apart(const char *path, const char *out)
{
	bool piped = !strcmp(path, "-");
	struct stat in, into;
	bool same = (!piped && !strcmp(path, out)) ||
		    (!(piped ? fstat(STDIN_FILENO, &in) : stat(path, &in)) &&
		     S_ISREG(in.st_mode) && !stat(out, &into) && in.st_dev == into.st_dev &&
		     in.st_ino == into.st_ino);

	return same ? cmd_fail(EXIT_USAGE, "'%s' is both what is read and what is written", out) :
		      EXIT_DONE;
}

void recording_begins(void)
{
	harden_thread(HARDEN_RESOLVER, 0);
}

enum { MAX_PIPED = 1 << 30 /* bytes */ };

/* What comes down a pipe, in memory: recordings are read at many places, and twice. 0 or
 * -errno; -EFBIG: more than MAX_PIPED. */
static int copy_all(int from, int to)
{
	char buf[1 << 16];
	size_t all = 0;
	ssize_t n;

	while ((n = read(from, buf, sizeof(buf))) > 0) {
		for (ssize_t at = 0, k; at < n; at += k)
			if ((k = write(to, buf + at, (size_t)(n - at))) < 0)
				return -errno;
		all += (size_t)n;
		if (all > MAX_PIPED)
			return -EFBIG;
	}
	return n < 0 || lseek(to, 0, SEEK_SET) < 0 ? -errno : 0;
}

/* @fd, or in its place a copy that is read from any place; -1 and errno. */
static int make_seekable(int fd)
{
	int copy, ret;

	if (lseek(fd, 0, SEEK_CUR) >= 0 || errno != ESPIPE)
		return fd;
	copy = memfile_new("recording", false);
	ret = copy < 0 ? -errno : copy_all(fd, copy);
	close(fd);
	if (!ret)
		return copy;
	if (copy >= 0)
		close(copy);
	errno = -ret;
	return -1;
}

int recording_no_folder(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISDIR(st.st_mode))
		return EXIT_DONE;
	return cmd_fail(EXIT_FAILED,
			"%s is a folder: name the file (of perf record --kcore it is "
			"FOLDER/data)",
			path);
}

static int open_file(struct recording *r, const char *path)
{
	int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;

	fd = fd < 0 ? fd : make_seekable(fd);
	r->in = fd < 0 ? NULL : fdopen(fd, "r");
	if (r->in)
		return recording_no_folder(fd, path);
	if (fd >= 0)
		close(fd);
	return cmd_fail(EXIT_FAILED, "opening %s: %s", path, strerror(errno));
}

static void read_age(struct recording *r)
{
	struct stat st;

	if (fstat(fileno(r->in), &st) == 0)
		recording_session(r)->since = st.st_mtime;
}

static int open_perf(struct recording *r)
{
	struct err err;

	if (perf_reader_open(&r->perf, r->in, r->path, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	read_age(r);
	return EXIT_DONE;
}

static int open_tape(struct recording *r)
{
	struct err err;

	if (tape_reader_open(&r->tape, r->in, r->path, &err) < 0)
		return cmd_fail(EXIT_FAILED, "%s", err.text);
	read_age(r);
	return EXIT_DONE;
}

static int open_folded(struct recording *r)
{
	int ret;

	if (!folded_begins(r->in))
		return cmd_fail(EXIT_FAILED,
				"%s is no perf.data, no tape, and its first line is no folded "
				"stack, 'frame;frame COUNT'",
				r->path);
	rewind(r->in);
	r->session =
		(struct session){ .n_events = 1,
				  .capture = "",
				  .capture_why = "",
				  .flags = SESSION_LINES,
				  .stats = &r->stats };
	strcpy(r->session.events[0].name, "folded");
	read_age(r);
	ret = folded_look(r->in, &r->session);
	for (size_t e = 0; e < r->session.n_events; e++)
		r->session.how[e].summed = true;
	rewind(r->in);
	return ret ? cmd_fail(EXIT_FAILED, "reading %s: %s", r->path, strerror(-ret)) : EXIT_DONE;
}

/* How the file begins, which is read again. An exit code, not EXIT_DONE after a sentence. */
static int peek(struct recording *r, unsigned char *to, size_t cap, size_t *n)
{
	*n = fread(to, 1, cap, r->in);
	if (ferror(r->in) || !*n)
		return cmd_fail(EXIT_FAILED, "%s %s", r->path,
				*n || ferror(r->in) ? "can't be read" :
						      "is empty: it has no stacks");
	if (fseek(r->in, 0, SEEK_SET) == 0)
		return EXIT_DONE;
	return cmd_fail(EXIT_FAILED, "%s can't be read twice: name a file", r->path);
}

int recording_open(struct recording *r, const char *path)
{
	unsigned char head[FILE_KIND_HEAD];
	const char *kind;
	size_t n;
	int code;

	*r = (struct recording){ .path = path };
	code = open_file(r, path);
	if (!code)
		code = peek(r, head, sizeof(head), &n);
	if (code)
		return code;
	if (n >= 8 && !memcmp(head, "PERFILE2", 8))
		return open_perf(r);
	if (n >= 4 && !memcmp(head, "\x28\xb5\x2f\xfd", 4)) /* zstd */
		return open_tape(r);
	kind = file_kind((struct bytes){ head, n });
	if (kind)
		return cmd_fail(EXIT_FAILED,
				"%s is %s, which can't be read: a perf.data, a tape and folded "
				"stacks can",
				path, kind);
	return open_folded(r);
}

void recording_close(struct recording *r)
{
	perf_reader_close(r->perf);
	tape_reader_close(r->tape);
	if (r->in)
		fclose(r->in);
	*r = (struct recording){ 0 };
}

bool recording_is_folded(const struct recording *r)
{
	return !r->perf && !r->tape;
}

bool recording_is_short(struct recording *r)
{
	bool ret = recording_is_folded(r) && folded_is_short(r->in);

	if (recording_is_folded(r))
		rewind(r->in);
	return ret;
}

struct session *recording_session(struct recording *r)
{
	if (r->tape)
		return tape_reader_session(r->tape);
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

static int fed(const struct recording *r, int ret)
{
	if (ret == -EBADMSG)
		return cmd_fail(EXIT_FAILED,
				"%s is damaged: only the samples before that were read",
				r->path);
	return ret ? cmd_fail(EXIT_FAILED, "reading %s: %s", r->path, strerror(-ret)) :
		     EXIT_DONE;
}

static int feed_perf(struct recording *r, struct sink *s)
{
	int ret = perf_reader_run(r->perf, s);
	const char *missing = perf_reader_missing(r->perf);

	if (missing)
		cmd_say("%s", missing);
	return fed(r, ret);
}

static int feed_tape(struct recording *r, struct sink *s)
{
	int ret = tape_reader_run(r->tape, s);

	if (!ret && tape_reader_is_cut(r->tape))
		cmd_say("%s ends before its recording did: what there is was read", r->path);
	return fed(r, ret);
}

static int feed_folded(struct recording *r, struct sink *s)
{
	size_t line;
	int ret;

	ret = folded_read(r->in, &r->session, s, &line);
	if (ret == -EBADMSG)
		return cmd_fail(EXIT_FAILED,
				"%s:%zu: not a folded stack, 'frame;frame COUNT': only what "
				"stands before it was read",
				r->path, line);
	if (ret == -EOVERFLOW)
		return cmd_fail(EXIT_FAILED,
				"%s:%zu: counts are more than 2^63 together: only what stands "
				"before it was read",
				r->path, line);
	if (ret || ferror(r->in))
		return cmd_fail(EXIT_FAILED, "reading %s: %s", r->path,
				strerror(ret ? -ret : EIO));
	return EXIT_DONE;
}

static int feed(struct recording *r, struct sink *s)
{
	if (r->tape)
		return feed_tape(r, s);
	return r->perf ? feed_perf(r, s) : feed_folded(r, s);
}

int recording_feed(struct recording *r, struct sink *s)
{
	int code = feed(r, s);
	uint64_t lost = STATS_GET(recording_session(r)->stats, lost);

	if (lost)
		cmd_say("%s: %" PRIu64 " sample%s lost as it was recorded", r->path, lost,
			lost == 1 ? " was" : "s were");
	return code;
}
