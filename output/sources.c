/* SPDX-License-Identifier: MIT
 *
 * sources - reads files as they are now, once a page is complete.
 */
#include "sources.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/later.h"
#include "base/quota.h"
#include "json.h"
#include "sys/mounts.h"
#include "sys/proc.h"
#include "sys/rights.h"
#include "sys/rootfile.h"

enum {
	AROUND = 3, /* lines before and after one that was sampled */
	MAX_FILE = 2 << 20,
	NO_LINE = MAX_FILE + 2 * AROUND, /* no file that is read has it, or one around it */
	MAX_ALL = 4 << 20, /* bytes of text in a page */
	PATIENCE_MS = 1000,
};

/* --- one file --- */

struct reading {
	char path[PATH_MAX];
	char *text; /* NULL: none, and why */
	const char *why;
	int64_t changed; /* seconds of the epoch */
};

/* We may read what those who get the page may not. */
static bool is_privileged(void)
{
	return geteuid() == 0 || rights_have(CAP_DAC_READ_SEARCH) || rights_have(CAP_DAC_OVERRIDE);
}

static void reading_run(void *arg)
{
	struct reading *r = arg;
	bool privileged = is_privileged();
	int fd = privileged ? rootfile_open_public(r->path) : rootfile_open(-1, r->path);
	struct stat st;

	if (privileged && fd == -EACCES) {
		r->why = "not everybody may read it";
	} else if (fd < 0 || fstat(fd, &st)) {
		r->why = fd == -ENOENT ? "no such file here" : "it can't be read";
	} else if (st.st_size > MAX_FILE) {
		r->why = "it is too large";
	} else {
		r->changed = st.st_mtime;
		r->text = rootfile_text(fd, (size_t)st.st_size);
		r->why = "out of memory";
	}
	if (fd >= 0)
		close(fd);
}

static void reading_drop(void *arg)
{
	struct reading *r = arg;

	free(r->text);
	free(r);
}

/* --- what is wanted --- */

/* Lines of a file, both included. */
struct span {
	uint32_t file; /* in the tree's strings */
	int from, to;
};

static int by_place(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return COMPARE(x->file, y->file) ?: COMPARE(x->from, y->from);
}

/* Around each line that was sampled, and where its function begins. */
static struct span *wanted(const struct tree *t, size_t *n)
{
	size_t frames = tree_n_frames(t);
	struct span *ret = calloc(2 * frames + 1, sizeof(*ret));

	*n = 0;
	for (uint32_t i = 0; ret && i < frames; i++) {
		const struct tree_frame *f = tree_frame(t, i);
		const struct tree_func *func = tree_func(t, f->func);
		int line = MIN(f->line, NO_LINE), first = MIN(func->first, NO_LINE);

		if (func->kind != FRAME_PYTHON || line <= 0 ||
		    tree_text(t, func->file)[0] != '/')
			continue;
		ret[(*n)++] = (struct span){ func->file, line - AROUND, line + AROUND };
		if (first > 0)
			ret[(*n)++] = (struct span){ func->file, first, first };
	}
	if (ret)
		qsort(ret, *n, sizeof(*ret), by_place);
	return ret;
}

/* --- together --- */

struct sources {
	FILE *out;
	struct quota *quota;
	int64_t since;
	size_t bytes;
	const char *none; /* why no more file is read */
	char *mountinfo;  /* NULL: unknown */
};

/* Why the file is not even opened: a thread that hangs for good keeps our process from ending.
 */
static const char *refuse(const struct sources *s, const char *path)
{
	if (s->none || strlen(path) >= PATH_MAX)
		return s->none ? s->none : "its path is too long";
	if (!s->mountinfo)
		return "it can't be read now";
	return mounts_served(s->mountinfo, path) ?
		       "a program serves its file system (FUSE), and may never answer" :
		       NULL;
}

static void put_why(struct sources *s, const char *why)
{
	fputs("\"why\":", s->out);
	json_string(s->out, why);
}

/* The end of line @line, where @at is the beginning of line *@now. */
static char *skip_to(char *at, int *now, int line)
{
	for (; *at && *now < line; ++*now) {
		at += strcspn(at, "\n");
		at += *at == '\n';
	}
	return at;
}

static void put_parts(struct sources *s, const struct span *span, size_t n, char *text)
{
	bool more = false;
	int now = 1;

	for (size_t i = 0; i < n;) {
		int from = MAX(span[i].from, 1), to = span[i].to;
		char *begin, *end, kept;

		while (++i < n && span[i].from <= to + 1)
			to = MAX(to, span[i].to);
		begin = text = skip_to(text, &now, from);
		if (!*begin)
			break;
		end = text = skip_to(text, &now, to + 1);
		kept = *end;
		*end = '\0';
		fprintf(s->out, "%s[%d,", more ? "," : "", from);
		json_string(s->out, begin);
		fputs("]", s->out);
		s->bytes += (size_t)(end - begin);
		*end = kept;
		more = true;
	}
}

static void put_text(struct sources *s, const struct span *span, size_t n, struct reading *r)
{
	if (!r->text) {
		put_why(s, r->why);
		return;
	}
	fputs(s->since && r->changed > s->since ? "\"changed\":true,\"parts\":[" :
						  "\"parts\":[",
	      s->out);
	put_parts(s, span, n, r->text);
	fputs("]", s->out);
}

/* Once one file hangs, others are likely to. */
static void put_file(struct sources *s, const struct span *span, size_t n, const char *path)
{
	const char *why = refuse(s, path);
	struct reading *r = why ? NULL : calloc(1, sizeof(*r));
	struct later *l = NULL;

	if (r) {
		strcpy(r->path, path);
		l = later_start(s->quota, reading_run, reading_drop, r);
	}
	if (l && later_wait(l, PATIENCE_MS)) {
		put_text(s, span, n, r);
	} else {
		if (!why)
			why = s->none = l ? "a file did not answer" : "it can't be read now";
		put_why(s, why);
	}
	if (r && !l)
		reading_drop(r);
	later_release(l);
	if (!s->none && s->bytes > MAX_ALL)
		s->none = "the page has no more room";
}

char *sources_read(const struct tree *t, int64_t since, bool elsewhere)
{
	struct sources s = { .quota = quota_create(),
			     .since = since,
			     .none = elsewhere ? "a process has mounts of its own" : NULL };
	size_t n, size, k = 0;
	_cleanup_free_ struct span *span = wanted(t, &n);
	char *text = NULL;

	proc_read_file("/proc/self/mountinfo", &s.mountinfo, NULL);
	s.out = open_memstream(&text, &size);
	for (size_t i = 0; s.out && span && s.quota && i < n; i += k) {
		const char *path = tree_text(t, span[i].file);

		for (k = 1; i + k < n && span[i + k].file == span[i].file;)
			k++;
		fputs(i ? ",\n" : "{\n", s.out);
		json_string(s.out, path);
		fputs(":{", s.out);
		put_file(&s, span + i, k, path);
		fputs("}", s.out);
	}
	if (s.out)
		fputs(n ? "}" : "{}", s.out);
	quota_unref(s.quota);
	free(s.mountinfo);
	if (s.out && !fclose(s.out) && span && s.quota)
		return text;
	free(text);
	return NULL;
}
