/* SPDX-License-Identifier: MIT
 *
 * perf_file - header, attrs and features of perf.data.
 */
#include "perf_file.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/base.h"
#include "base/clock.h"
#include "perf_zstd.h"
#include "sys/proc.h"

#ifndef PYSAMPLED_VERSION
#define PYSAMPLED_VERSION "0.1.0"
#endif

enum {
	ATTR_SIZE = PERF_ATTR_SIZE_VER6, /* 120: what perf 6.1 knows */
	HEAD_SIZE = 104,
	STRING_ALIGN = 64,
	MISC_BUILD_ID_SIZE = 1 << 15, /* the entry tells the size of its build-id */
	FEATURE_HEAD = 16,
};

uint64_t perf_file_sample_type(const struct session *s)
{
	uint64_t type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD |
			PERF_SAMPLE_CALLCHAIN;

	/* perf refuses events of different sample types */
	for (size_t i = 0; i < s->n_events; i++)
		type |= s->events[i].attr.sample_type & PERF_SAMPLE_ADDR;
	return type;
}

/* What the event was, but for what our records don't hold. */
static struct perf_event_attr file_attr(const struct session *s, size_t event)
{
	const struct perf_event_attr *a = &s->events[event].attr;
	struct perf_event_attr ret = {
		.type = a->type,
		.size = ATTR_SIZE,
		.config = a->config,
		.sample_period = a->sample_period || s->how[event].led ? a->sample_period : 1,
		.sample_type = perf_file_sample_type(s),
		.read_format = PERF_FORMAT_ID,
		.exclude_user = a->exclude_user,
		.exclude_kernel = a->exclude_kernel,
		.exclude_hv = a->exclude_hv,
		.exclude_host = a->exclude_host,
		.exclude_guest = a->exclude_guest,
		.freq = a->freq && a->sample_period,
		.precise_ip = a->precise_ip,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.bp_type = a->bp_type,
		.config1 = a->config1,
		.config2 = a->config2,
	};

	/* perf opens no file with a tracepoint but without tracefs's formats, and a probe's
	 * place is known to the kernel only; their names are in the event description */
	if (a->type == PERF_TYPE_TRACEPOINT || s->how[event].probe) {
		ret.type = PERF_TYPE_SOFTWARE;
		ret.config = PERF_COUNT_SW_DUMMY;
		ret.config1 = ret.config2 = 0;
	}
	if (s->flags & SESSION_WALL)
		ret.config2 = PERF_FILE_WALL;
	return ret;
}

static void put_attr(struct buf *b, const struct session *s, size_t event)
{
	struct perf_event_attr a = file_attr(s, event);

	buf_put(b, &a, ATTR_SIZE);
}

void perf_file_head(struct buf *b, const struct session *s, uint64_t data_size,
		    const uint64_t bits[PERF_FILE_BITS / 64])
{
	uint64_t entry = ATTR_SIZE + 16, attrs = HEAD_SIZE + 8 * s->n_events;

	buf_put(b, "PERFILE2", 8);
	buf_u64(b, HEAD_SIZE);
	buf_u64(b, entry);
	buf_u64(b, attrs);
	buf_u64(b, entry * s->n_events);
	buf_u64(b, attrs + entry * s->n_events);
	buf_u64(b, data_size);
	buf_zero(b, 16); /* event types: obsolete */
	buf_put(b, bits, PERF_FILE_BITS / 8);
	for (size_t i = 0; i < s->n_events; i++)
		buf_u64(b, PERF_FILE_ID + i);
	for (size_t i = 0; i < s->n_events; i++) {
		put_attr(b, s, i);
		buf_u64(b, HEAD_SIZE + 8 * i);
		buf_u64(b, 8);
	}
}

void perf_file_build_id(struct buf *b, const char *path, pid_t pid, unsigned misc,
			struct buildid id)
{
	size_t start = b->n;

	buf_u32(b, 0);
	buf_u16(b, misc | MISC_BUILD_ID_SIZE);
	buf_u16(b, 0);
	buf_u32(b, (uint32_t)pid);
	buf_put(b, id.at, BUILDID_MAX);
	buf_u32(b, (uint32_t)id.n);
	buf_str(b, path);
	buf_align(b, 8);
	buf_set_u16(b, start + 6, (unsigned)(b->n - start));
}

static void put_string(struct buf *b, const char *s)
{
	size_t n = (strlen(s) + STRING_ALIGN) / STRING_ALIGN * STRING_ALIGN;

	buf_u32(b, (uint32_t)n);
	buf_str(b, s);
	buf_zero(b, n - strlen(s) - 1);
}

static void put_cpu_name(struct buf *b)
{
	_cleanup_free_ char *text = NULL;
	char name[256] = "unknown";
	const char *at = NULL;
	size_t n;

	if (!proc_read_file("/proc/cpuinfo", &text, &n))
		at = strstr(text, "model name");
	if (at)
		at = strchr(at, ':');
	if (at)
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 2, "\n"), at + 2);
	put_string(b, name);
}

static void put_command(struct buf *b, const struct session *s)
{
	buf_u32(b, (uint32_t)s->argc);
	for (int i = 0; i < s->argc; i++)
		put_string(b, s->argv[i]);
}

static void put_events(struct buf *b, const struct session *s)
{
	buf_u32(b, (uint32_t)s->n_events);
	buf_u32(b, ATTR_SIZE);
	for (size_t i = 0; i < s->n_events; i++) {
		put_attr(b, s, i);
		buf_u32(b, 1);
		put_string(b, s->events[i].name);
		buf_u64(b, PERF_FILE_ID + i);
	}
}

/* perf shows it as "perf version": the place for what no perf knows. */
static void put_version(struct buf *b, const struct session *s)
{
	bool why = s->capture_why && s->capture_why[0];
	char text[700];

	snprintf(text, sizeof(text), "pysampled %s%s, capture %s%s%s", PYSAMPLED_VERSION,
		 s->flags & SESSION_WALL ? ", mode wall" : "",
		 s->capture ? s->capture : "unknown", why ? ": " : "",
		 why ? s->capture_why : "");
	put_string(b, text);
}

/* With the number of bytes that readers must have room for. */
static void put_compressed(struct buf *b, const struct session *s, uint32_t ratio)
{
	enum { VERSION = 1, ZSTD = 1 };

	buf_u32(b, VERSION);
	buf_u32(b, ZSTD);
	buf_u32(b, (uint32_t)s->compress);
	buf_u32(b, ratio);
	buf_u32(b, 2 * PERF_ZSTD_PIECE);
}

/* One moment by the day's clock and by that of samples. */
static void put_clocks(struct buf *b, const struct session *s)
{
	enum { VERSION = 1 };
	uint64_t now = now_ns();

	buf_u32(b, VERSION);
	buf_u32(b, CLOCK_MONOTONIC);
	buf_u64(b, s->epoch_ns + now);
	buf_u64(b, now);
}

/* Nothing put: the feature is absent. */
static void put_feature(struct buf *b, enum perf_feature f, const struct session *s,
			const struct perf_file_facts *facts)
{
	struct utsname u;
	struct sysinfo si;

	uname(&u);
	sysinfo(&si);
	switch (f) {
	case FEAT_BUILD_ID:
		buf_put(b, facts->build_ids->at, facts->build_ids->n);
		break;
	case FEAT_HOSTNAME:
		put_string(b, u.nodename);
		break;
	case FEAT_OSRELEASE:
		put_string(b, u.release);
		break;
	case FEAT_VERSION:
		put_version(b, s);
		break;
	case FEAT_ARCH:
		put_string(b, u.machine);
		break;
	case FEAT_NRCPUS:
		buf_u32(b, (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
		buf_u32(b, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
		break;
	case FEAT_CPUDESC:
		put_cpu_name(b);
		break;
	case FEAT_TOTAL_MEM:
		buf_u64(b, (uint64_t)si.totalram * si.mem_unit / 1024);
		break;
	case FEAT_CMDLINE:
		put_command(b, s);
		break;
	case FEAT_EVENT_DESC:
		put_events(b, s);
		break;
	case FEAT_SAMPLE_TIME:
		if (!facts->last_ns)
			break;
		buf_u64(b, facts->first_ns);
		buf_u64(b, facts->last_ns);
		break;
	case FEAT_COMPRESSED:
		if (s->compress)
			put_compressed(b, s, facts->ratio);
		break;
	case FEAT_CLOCK_DATA:
		if (s->epoch_ns)
			put_clocks(b, s);
		break;
	case FEAT_END:
		break;
	}
}

static bool is_told(enum perf_feature f)
{
	return (f >= FEAT_HOSTNAME && f <= FEAT_CMDLINE) || f == FEAT_CLOCK_DATA;
}

/* As it was told, by whomever; or as it is. */
static void put_told(struct buf *b, enum perf_feature f, const struct session *s,
		     const struct perf_file_facts *facts)
{
	struct bytes told = s->told;
	struct perf_event_header h;

	if (!told.n || !is_told(f)) {
		put_feature(b, f, s, facts);
		return;
	}
	for (; told.n >= FEATURE_HEAD; told.at += h.size, told.n -= h.size) {
		memcpy(&h, told.at, sizeof(h));
		if (h.size < FEATURE_HEAD || h.size > told.n)
			return;
		if (load_u64(told.at + sizeof(h)) == f)
			buf_put(b, told.at + FEATURE_HEAD, h.size - FEATURE_HEAD);
	}
}

void perf_file_features(struct buf *b, uint64_t at, const struct session *s,
			const struct perf_file_facts *facts,
			uint64_t bits[PERF_FILE_BITS / 64])
{
	struct {
		unsigned bit;
		uint64_t off, n;
	} section[FEAT_END];
	struct buf body = {};
	size_t n = 0, table;

	memset(bits, 0, PERF_FILE_BITS / 8);
	for (unsigned f = FEAT_BUILD_ID; f < FEAT_END; f++) {
		size_t start = body.n;

		put_told(&body, (enum perf_feature)f, s, facts);
		if (body.n == start)
			continue;
		section[n].bit = f;
		section[n].off = start;
		section[n++].n = body.n - start;
	}
	table = 16 * n;
	for (size_t i = 0; i < n; i++) {
		bits[section[i].bit / 64] |= 1ull << section[i].bit % 64;
		buf_u64(b, at + table + section[i].off);
		buf_u64(b, section[i].n);
	}
	buf_put(b, body.at, body.n);
	b->oom |= body.oom;
	buf_deinit(&body);
}

void perf_file_tail(struct buf *b, uint64_t at, uint64_t n)
{
	buf_u64(b, at);
	buf_u64(b, n);
	buf_put(b, PERF_FILE_TAIL_MAGIC, 8);
}

/* --- a stream --- */

enum {
	RECORD_ATTR = 64,
	RECORD_EVENT_UPDATE = 78,
	RECORD_FEATURE = 80,
	UPDATE_NAME = 2,
	STREAM_HEAD = 16,
	RECORD_MAX = 65528,
};

static size_t begin_record(struct buf *b, uint32_t type)
{
	buf_u32(b, type);
	buf_u32(b, 0);
	return b->n - 8;
}

static void end_record(struct buf *b, size_t start)
{
	buf_align(b, 8);
	buf_set_u16(b, start + 6, (unsigned)(b->n - start));
}

static void put_event(struct buf *b, const struct session *s, size_t event)
{
	size_t start = begin_record(b, RECORD_ATTR);

	put_attr(b, s, event);
	buf_u64(b, PERF_FILE_ID + event);
	end_record(b, start);
	start = begin_record(b, RECORD_EVENT_UPDATE);
	buf_u64(b, UPDATE_NAME);
	buf_u64(b, PERF_FILE_ID + event);
	buf_str(b, s->events[event].name);
	end_record(b, start);
}

/* A feature that is longer than a record can be is left out. */
static void put_feature_record(struct buf *b, enum perf_feature f, const struct session *s)
{
	static const struct buf none = { 0 };
	const struct perf_file_facts facts = { .build_ids = &none };
	size_t start = begin_record(b, RECORD_FEATURE), at;

	buf_u64(b, f);
	at = b->n;
	put_told(b, f, s, &facts);
	if (b->n == at || b->n - start > RECORD_MAX - 8)
		b->n = start;
	else
		end_record(b, start);
}

void perf_file_stream(struct buf *b, const struct session *s)
{
	buf_put(b, "PERFILE2", 8);
	buf_u64(b, STREAM_HEAD);
	for (size_t i = 0; i < s->n_events; i++)
		put_event(b, s, i);
	for (unsigned f = FEAT_BUILD_ID; f < FEAT_END; f++)
		if (f != FEAT_COMPRESSED)
			put_feature_record(b, (enum perf_feature)f, s);
}

void perf_file_told(struct buf *b, const struct session *s)
{
	for (unsigned f = FEAT_HOSTNAME; f < FEAT_END; f++)
		if (is_told((enum perf_feature)f))
			put_feature_record(b, (enum perf_feature)f, s);
}

void perf_file_packed(struct buf *b, const struct session *s)
{
	put_feature_record(b, FEAT_COMPRESSED, s);
}
