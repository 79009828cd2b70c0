/* SPDX-License-Identifier: MIT
 *
 * folded_write - the lines of folded stacks become text.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lines/places.h"
#include "apportion.h"
#include "folded_int.h"
#include "kept.h"

/* Process and thread. */
static void write_who(const struct folded *f, const struct folded_line *line, FILE *out)
{
	if (line->comm == STRTAB_NONE) {
		fputs(FOLDED_UNNAMED, out);
		return;
	}
	folded_names_write(&f->names, line->comm, out);
	fprintf(out, "-%d", line->pid);
	if (!line->tid)
		return;
	putc_unlocked('/', out);
	folded_names_write(&f->names, line->title, out);
	fprintf(out, "-%d", line->tid);
}

static void write_frame(const struct sink *s, uint32_t id)
{
	const struct folded *f = s->priv;

	if (id & FOLDED_IS_PLACE)
		fputs(places_symbol(s->session->places, id & ~FOLDED_IS_PLACE), s->out);
	else
		folded_names_write(&f->names, id, s->out);
}

/* True: it is of folded stacks that name no process. */
static bool is_nobodys(const struct sink *s, const struct folded_line *line)
{
	const struct folded *f = s->priv;

	return s->session->how[line->event].summed && !line->pid && line->comm == f->unknown;
}

static void write_line(const struct sink *s, const struct folded_line *line,
		       const uint32_t *event)
{
	const struct folded *f = s->priv;
	const char *ids = strtab_get(f->bodies, line->body);
	size_t n = strtab_len(f->bodies, line->body);
	bool several = s->session->n_events > 1, who = several || !n || !is_nobodys(s, line);

	if (who)
		write_who(f, line, s->out);
	if (several) {
		putc_unlocked(';', s->out);
		folded_names_write(&f->names, event[line->event], s->out);
	}
	for (size_t i = 0; i < n; i += 4) {
		if (i || who)
			putc_unlocked(';', s->out);
		write_frame(s, load_u32(ids + i));
	}
	fprintf(s->out, " %" PRIu64 "\n", line->count);
}

/* All lines, one after the other; zeroed, it is before the first. */
struct each_line {
	struct packed_at packed;
	size_t i;
	const struct folded_line *line;
};

static bool next_line(const struct folded *f, struct each_line *e)
{
	if (packed_next(&f->packed, &e->packed))
		e->line = &e->packed.line;
	else if (e->i < folded_n_lines(f))
		e->line = folded_line_at(f, e->i++);
	else
		return false;
	return true;
}

/* Weights of event @event become numbers of samples in the same proportion: a sample counts
 * for more where the kernel's period was longer. */
static int count_samples(struct folded *f, uint32_t event)
{
	uint64_t *weight = calloc(f->packed.n + folded_n_lines(f) + 1, sizeof(*weight));
	struct each_line e = { .line = NULL };
	size_t k = 0;

	if (!weight)
		return -ENOMEM;
	while (next_line(f, &e))
		if (e.line->event == event)
			weight[k++] = e.line->count;
	f->share[event] = weight;
	apportion(weight, k, f->samples[event]);
	return 0;
}

static int count_all_samples(struct sink *s)
{
	int ret = 0;

	if (s->session->flags & SESSION_PERIOD)
		return 0;
	for (uint32_t e = 0; !ret && e < s->session->n_events; e++)
		if (kept_adapts(s->session, e))
			ret = count_samples(s->priv, e);
	return ret;
}

/* @ns in microseconds. What is over is @rest of the next line, so that all add up to the time. */
static uint64_t whole_us(uint64_t ns, uint64_t *rest)
{
	ns += *rest;
	*rest = ns % 1000;
	return ns / 1000;
}

/* @name: of each event; @rest: whole_us()'s. */
static int write_event(struct sink *s, uint32_t event, const uint32_t *name, uint64_t *rest)
{
	struct folded *f = s->priv;
	struct each_line e = { .line = NULL };
	size_t k = 0;

	while (next_line(f, &e)) {
		struct folded_line line = *e.line;

		if (line.event != event)
			continue;
		if (f->share[event])
			line.count = f->share[event][k++];
		if (s->session->flags & SESSION_WALL)
			line.count = whole_us(line.count, rest);
		errno = 0;
		if (line.count)
			write_line(s, &line, name);
		if (ferror(s->out))
			return errno ? -errno : -EIO;
	}
	return 0;
}

/* Those of the first event come first, so that it is the first for who reads the file, too. */
static int write_lines(struct sink *s)
{
	struct folded *f = s->priv;
	uint32_t name[SESSION_MAX_EVENTS];
	uint64_t rest = 500; /* to the nearest one */
	int ret = 0;

	for (size_t i = 0; i < s->session->n_events; i++) {
		name[i] =
			folded_names_format(&f->names, "event:%s", s->session->events[i].name);
		if (name[i] == STRTAB_NONE)
			return -ENOMEM;
	}
	if (folded_names_shorten(&f->names))
		return -ENOMEM;
	for (uint32_t i = 0; !ret && i < s->session->n_events; i++)
		ret = write_event(s, i, name, &rest);
	return ret;
}

static void forget_shares(struct folded *f)
{
	for (size_t e = 0; e < SESSION_MAX_EVENTS; e++) {
		free(f->share[e]);
		f->share[e] = NULL;
	}
}

int folded_write(struct sink *s)
{
	struct folded *f = s->priv;
	bool full = f->names.full;
	int ret;

	f->names.full = false; /* of events' names */
	ret = count_all_samples(s);
	if (!ret)
		ret = write_lines(s);
	forget_shares(f);
	f->names.full = full;
	return ret;
}

/* What the lines that are in the file count. False: it can't be read. */
static bool count_there(const struct sink *s, uint64_t *ret)
{
	uint64_t count = 0;
	char buf[4096];
	struct stat st;
	off_t at = s->begin;
	ssize_t n;

	if (fstat(s->fd, &st) || !S_ISREG(st.st_mode))
		return false;
	for (*ret = 0; (n = pread(sink_readable(s), buf, sizeof(buf), at)) > 0; at += n)
		for (ssize_t i = 0; i < n; i++) {
			if (buf[i] == '\n')
				*ret += count;
			count = buf[i] == ' ' ? 0 : 10 * count + (unsigned char)(buf[i] - '0');
		}
	return !n;
}

/* What the lines that there are to write count. */
static uint64_t count_all(const struct sink *s)
{
	const struct folded *f = s->priv;
	struct each_line e = { .line = NULL };
	uint64_t ret = 0;

	if (!(s->session->flags & (SESSION_PERIOD | SESSION_WALL)))
		return s->samples;
	while (next_line(f, &e))
		ret += e.line->count;
	return s->session->flags & SESSION_WALL ? ret / 1000 : ret;
}

/* Samples that there was no room for. Where lines count something else, the file has as large a
 * part of the samples as of that. */
uint64_t folded_lacking(const struct sink *s)
{
	uint64_t all = count_all(s), there;

	if (!count_there(s, &there))
		return 0;
	there = MIN(there, all);
	return sink_taken(s) -
	       (all ? (uint64_t)((double)s->samples * (double)there / (double)all) : 0);
}
