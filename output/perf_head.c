/* SPDX-License-Identifier: MIT
 *
 * perf_head - takes the header, the attrs and the features apart; perf_file writes them.
 */
#include "perf_head.h"

#include <errno.h>
#include <stdlib.h>

#include "base/printable.h"
#include "events/perf_names.h"
#include "perf_file.h"
#include "perf_zstd.h"
#include "pyelf.h"

enum {
	HEAD_BYTES = 104,
	STREAM_HEAD = 16,
	BITS_AT = 72,
	FEAT_PYELF = 230,    /* where recordings of before had the copy of the symbol file */
	MAX_PART = 64 << 20, /* bytes of a feature that is read whole */
	BUILD_ID_PATH = 36,  /* where a build-id's path stands in its entry */
	BUILD_ID_SIZE = 20,
	MISC_BUILD_ID_SIZE = 1 << 15, /* the entry tells the size of its build-id */
	MAX_ATTR = 4096,
	PACKED_BYTES = 64 << 20, /* that a packed symbol file may become, and PACKED_TIMES its size more */
	PACKED_TIMES = 256,
	MAX_IDS = 1 << 20,	 /* of an event: one a thread and CPU */
	FEAT_DIR_FORMAT = 24,	 /* perf's feature that tells which files have the records */
	DIR_SINGLE_FILE = 0,	 /* its value where this file has all of them */
	/* Records of a stream, from tools/perf/util/event.h. */
	RECORD_ATTR = 64,
	RECORD_FEATURE = 80,
};

/* All that our own records have, and nothing else but ADDR. */
static const uint64_t OUR_TYPE = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
				 PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD |
				 PERF_SAMPLE_CALLCHAIN;

/* @n bytes at @at of @in. 0, -EBADMSG: it ends before; -EIO. */
static int read_bytes(FILE *in, uint64_t at, void *buf, size_t n)
{
	if (at > INT64_MAX || fseeko(in, (off_t)at, SEEK_SET))
		return -EBADMSG;
	if (fread(buf, 1, n, in) == n)
		return 0;
	return ferror(in) ? -EIO : -EBADMSG;
}

/* Those of the @n bytes at @at that the file has. */
static struct perf_stretch stretch(uint64_t size, uint64_t at, uint64_t n)
{
	return at > size ? (struct perf_stretch){ 0 } :
			   (struct perf_stretch){ at, MIN(n, size - at) };
}

static int read_part(FILE *in, struct perf_stretch where, struct bytes *ret)
{
	unsigned char *p;
	int r;

	if (!where.n || where.n > MAX_PART)
		return 0;
	p = malloc(where.n + 1);
	if (!p)
		return -ENOMEM;
	r = read_bytes(in, where.at, p, where.n);
	if (r) {
		free(p);
		return r;
	}
	p[where.n] = '\0';
	*ret = (struct bytes){ p, where.n };
	return 0;
}

/* The numbers of the samples of event @event. */
static int read_ids(struct perf_head *h, FILE *in, uint64_t at, uint64_t n, uint32_t event)
{
	uint64_t id;
	int ret = n / 8 > MAX_IDS ? -EBADMSG : 0;

	for (uint64_t i = 0; !ret && i < n / 8; i++) {
		ret = i ? 0 : at > INT64_MAX || fseeko(in, (off_t)at, SEEK_SET) ? -EBADMSG : 0;
		if (!ret && fread(&id, sizeof(id), 1, in) != 1)
			ret = ferror(in) ? -EIO : -EBADMSG;
		if (!ret)
			ret = idmap_set(&h->ids, id, event);
	}
	return ret;
}

/* One of ours has one number, the next after that of the event before. */
static bool is_ours(const struct perf_head *h, const struct perf_event_attr *a, uint64_t ids)
{
	return (a->sample_type & ~(uint64_t)PERF_SAMPLE_ADDR) == OUR_TYPE && ids == 8 &&
	       a->sample_id_all &&
	       idmap_get(&h->ids, PERF_FILE_ID + h->n_events) == h->n_events;
}

/* True: each sample says whose it is, and of which event. */
static bool is_told(const struct perf_head *h, const struct perf_event_attr *a)
{
	const uint64_t first = h->events[0].attr.sample_type, type = a->sample_type;

	return type & PERF_SAMPLE_IP && type & PERF_SAMPLE_TID &&
	       (!h->n_events ||
		(type & first & PERF_SAMPLE_IDENTIFIER &&
		 (type & PERF_SAMPLE_TIME) == (first & PERF_SAMPLE_TIME)) ||
		(type == first && type & PERF_SAMPLE_ID));
}

/* Until the description of events tells what they were called, or where there is none: as perf
 * does, "cycles:u". */
static void name_by_attr(struct event_info *e, size_t number)
{
	const struct perf_event_attr *a = &e->attr;
	const char *name, *mode = a->exclude_kernel ? ":u" : ":k";
	uint64_t config;
	uint32_t type;
	size_t i = 0;

	do
		name = perf_names_at(i++, &type, &config);
	while (name && (type != a->type || config != a->config));
	if (!name || (type == PERF_TYPE_SOFTWARE && config == PERF_COUNT_SW_DUMMY))
		snprintf(e->name, sizeof(e->name), "event%zu", number);
	else
		snprintf(e->name, sizeof(e->name), "%s%s", name,
			 a->exclude_kernel == a->exclude_user ? "" : mode);
}

/* The event whose attr is the @n bytes at @attr, and whose samples' numbers are in @ids. */
static int take_attr(struct perf_head *h, FILE *in, const unsigned char *attr, size_t n,
		     struct perf_stretch ids)
{
	struct event_info *e = &h->events[h->n_events];
	int ret;

	memcpy(&e->attr, attr, MIN(n, sizeof(e->attr)));
	name_by_attr(e, h->n_events);
	h->wall |= e->attr.type == PERF_TYPE_SOFTWARE && e->attr.config2 == PERF_FILE_WALL;
	if (!is_told(h, &e->attr))
		return -ENOTSUP;
	ret = read_ids(h, in, ids.at, ids.n, (uint32_t)h->n_events);
	h->ours = (h->ours || !h->n_events) && is_ours(h, &e->attr, ids.n) &&
		  e->attr.sample_type == h->events[0].attr.sample_type;
	h->n_events++;
	return ret;
}

static int read_attr(struct perf_head *h, FILE *in, uint64_t at, size_t entry)
{
	unsigned char bytes[MAX_ATTR];
	int ret = read_bytes(in, at, bytes, entry);

	if (ret)
		return ret;
	return take_attr(h, in, bytes, entry - 16,
			 (struct perf_stretch){ load_u64(bytes + entry - 16),
						load_u64(bytes + entry - 8) });
}

static int read_attrs(struct perf_head *h, FILE *in, const unsigned char *head)
{
	uint64_t entry = load_u64(head + 16), at = load_u64(head + 24),
		 n = load_u64(head + 32);
	int ret = 0;

	if (entry < PERF_ATTR_SIZE_VER0 + 16 || entry > MAX_ATTR || n < entry)
		return -EBADMSG;
	if (n / entry > SESSION_MAX_EVENTS)
		return -E2BIG;
	for (uint64_t i = 0; !ret && i < n / entry; i++)
		ret = read_attr(h, in, at + i * entry, entry);
	return ret;
}

/* The events' names; what is damaged has none. */
static void take_names(struct perf_head *h, struct bytes b)
{
	uint64_t at = 8, n_events, attr;

	if (b.n < at)
		return;
	n_events = load_u32(b.at);
	attr = load_u32(b.at + 4);
	for (size_t i = 0; i < MIN(n_events, h->n_events); i++) {
		uint64_t ids, len;

		at += attr;
		if (b.n < 8 || at > b.n - 8)
			return;
		ids = load_u32(b.at + at);
		len = load_u32(b.at + at + 4);
		at += 8;
		if (!len || len > b.n - at || b.at[at + len - 1])
			return;
		printable(h->events[i].name, sizeof(h->events[i].name),
			  (const char *)b.at + at);
		at += len + 8 * ids;
	}
}

/* The text of a feature that is one, behind its length; "": there is none. */
static const char *text_of(struct bytes part)
{
	return part.n > 4 ? (const char *)part.at + 4 : "";
}

/* A version, a clock's number, and a moment by the day's clock and by that one. */
static uint64_t epoch_of(struct bytes part)
{
	uint64_t day = part.n >= 24 ? load_u64(part.at + 8) : 0,
		 clock = day ? load_u64(part.at + 16) : 0;

	return day > clock ? day - clock : 0;
}

static int read_feature(struct perf_head *h, FILE *in, unsigned bit, struct perf_stretch where)
{
	struct bytes part = { 0 };
	int ret = 0;

	if (bit == FEAT_PYELF)
		h->pyelf = where;
	else if (bit == FEAT_BUILD_ID)
		ret = read_part(in, where, &h->build_ids);
	else if (bit == FEAT_EVENT_DESC || bit == FEAT_OSRELEASE || bit == FEAT_DIR_FORMAT ||
		 bit == FEAT_CLOCK_DATA || bit == FEAT_SAMPLE_TIME)
		ret = read_part(in, where, &part);
	if (bit == FEAT_EVENT_DESC)
		take_names(h, part);
	if (bit == FEAT_CLOCK_DATA)
		h->epoch_ns = epoch_of(part);
	if (bit == FEAT_SAMPLE_TIME && part.n >= 16)
		h->last_ns = load_u64(part.at + 8);
	if (bit == FEAT_OSRELEASE)
		snprintf(h->release, sizeof(h->release), "%s", text_of(part));
	if (bit == FEAT_DIR_FORMAT && part.n >= 8 && load_u64(part.at) != DIR_SINGLE_FILE)
		ret = -EISDIR;
	free((void *)(uintptr_t)part.at);
	return ret;
}

static int read_features(struct perf_head *h, FILE *in, const unsigned char *head,
			 uint64_t size)
{
	uint64_t at = h->records.at + h->records.n;
	unsigned char entry[16];
	int ret = 0;

	for (unsigned bit = 0; !ret && bit < PERF_FILE_BITS; bit++) {
		if (!(head[BITS_AT + bit / 8] >> bit % 8 & 1))
			continue;
		ret = read_bytes(in, at, entry, sizeof(entry));
		at += sizeof(entry);
		if (!ret)
			ret = read_feature(
				h, in, bit,
				stretch(size, load_u64(entry), load_u64(entry + 8)));
	}
	return ret;
}

/* The copy of the symbol file, if the file ends as one with a copy does. */
static int read_tail(struct perf_head *h, FILE *in, uint64_t size)
{
	unsigned char tail[PERF_FILE_TAIL];
	int ret = read_bytes(in, size - sizeof(tail), tail, sizeof(tail));

	if (!ret && !memcmp(tail + 16, PERF_FILE_TAIL_MAGIC, 8))
		h->pyelf = stretch(size, load_u64(tail), load_u64(tail + 8));
	return ret;
}

/* ---- a stream: its records tell what a file has around them ---- */

uint64_t perf_head_behind(const struct perf_event_header *h)
{
	if (h->type == PERF_HEAD_AUXTRACE && h->size >= sizeof(*h) + 8)
		return load_u64(h + 1);
	return h->type == PERF_HEAD_TRACING_DATA && h->size >= sizeof(*h) + 4 ?
		       load_u32(h + 1) :
		       0;
}

/* @body: MAX_ATTR of the @n bytes at @at. */
static int stream_attr(struct perf_head *h, FILE *in, const unsigned char *body, size_t n,
		       uint64_t at)
{
	size_t attr = n >= PERF_ATTR_SIZE_VER0 ? load_u32(body + 4) : 0;

	if (attr < PERF_ATTR_SIZE_VER0 || attr > MIN(n, (size_t)MAX_ATTR))
		return -EBADMSG;
	if (h->n_events == SESSION_MAX_EVENTS)
		return -E2BIG;
	return take_attr(h, in, body, attr, (struct perf_stretch){ at + attr, n - attr });
}

static int stream_record(struct perf_head *h, FILE *in, const struct perf_event_header *r,
			 uint64_t at)
{
	const unsigned char *body = (const unsigned char *)(r + 1);
	size_t n = r->size - sizeof(*r);

	at += sizeof(*r);
	if (r->type == RECORD_ATTR)
		return stream_attr(h, in, body, n, at);
	if (r->type == RECORD_FEATURE && n > 8 && load_u64(body) != FEAT_BUILD_ID &&
	    load_u64(body) < PERF_FILE_BITS)
		return read_feature(h, in, (unsigned)load_u64(body),
				    (struct perf_stretch){ at + 8, n - 8 });
	return 0;
}

/* True: it is the kernel's, or such are packed in it. */
static bool is_kernels(const struct perf_event_header *r)
{
	return r->type < RECORD_ATTR || perf_is_packed(r->type);
}

/* What is told before the first record of the kernel. Where the stream is cut its records end. */
static int read_stream(struct perf_head *h, FILE *in, uint64_t size)
{
	uint64_t record[1 + MAX_ATTR / 8], at = STREAM_HEAD;
	struct perf_event_header *r = (struct perf_event_header *)(void *)record;
	int ret = 0;

	h->records = stretch(size, at, size - at);
	while (!ret && at < size && size - at >= sizeof(*r)) {
		ret = read_bytes(in, at, r, sizeof(*r));
		if (ret || is_kernels(r) || r->size < sizeof(*r) || r->size > size - at)
			break;
		ret = read_bytes(in, at, r, MIN(r->size, sizeof(record)));
		if (!ret)
			ret = stream_record(h, in, r, at);
		at += r->size + MIN(perf_head_behind(r), size);
	}
	return ret || h->n_events ? ret : -EBADMSG;
}

/* A `perf record` that was killed tells neither how long its records are nor where features are:
 * what stands where these would begin is no place of one then. */
static bool is_unfinished(FILE *in, const unsigned char *head, uint64_t size)
{
	uint64_t at = load_u64(head + 40), place;

	return !load_u64(head + 48) &&
	       (read_bytes(in, at, &place, sizeof(place)) || place > size);
}

int perf_head_read(struct perf_head *h, FILE *in)
{
	unsigned char head[HEAD_BYTES];
	uint64_t size;
	int ret;

	*h = (struct perf_head){ 0 };
	if (fseeko(in, 0, SEEK_END) || ftello(in) < 0)
		return -errno;
	size = (uint64_t)ftello(in);
	if (!read_bytes(in, 0, head, STREAM_HEAD) && !memcmp(head, "PERFILE2", 8) &&
	    load_u64(head + 8) == STREAM_HEAD)
		return read_stream(h, in, size);
	ret = read_bytes(in, 0, head, sizeof(head));
	if (ret || memcmp(head, "PERFILE2", 8) || load_u64(head + 8) != HEAD_BYTES)
		return ret ? ret : -EBADMSG;
	ret = read_attrs(h, in, head);
	if (ret)
		return ret;
	h->records = stretch(size, load_u64(head + 40), load_u64(head + 48));
	if (is_unfinished(in, head, size)) {
		h->records = stretch(size, load_u64(head + 40), size);
		return 0;
	}
	ret = read_features(h, in, head, size);
	return ret ? ret : read_tail(h, in, size);
}

void perf_head_deinit(struct perf_head *h)
{
	free((void *)(uintptr_t)h->build_ids.at);
	h->build_ids = (struct bytes){ 0 };
	idmap_deinit(&h->ids);
}

int perf_head_add_build_id(struct perf_head *h, const struct perf_event_header *r)
{
	size_t n = h->build_ids.n + r->size;
	unsigned char *p;

	if (n > MAX_PART)
		return 0;
	p = realloc((void *)(uintptr_t)h->build_ids.at, n);
	if (!p)
		return -ENOMEM;
	memcpy(p + h->build_ids.n, r, r->size);
	h->build_ids = (struct bytes){ p, n };
	return 0;
}

/* Of the entry at @p. */
static size_t build_id_size(const unsigned char *p)
{
	unsigned misc = p[4] | (unsigned)p[5] << 8;
	size_t n = p[32];

	return misc & MISC_BUILD_ID_SIZE ? MIN(n, (size_t)BUILD_ID_SIZE) : BUILD_ID_SIZE;
}

struct bytes perf_head_build_id(const struct perf_head *h, const char *path)
{
	const unsigned char *p = h->build_ids.at;
	size_t left = h->build_ids.n, n;

	for (; left > BUILD_ID_PATH; p += n, left -= n) {
		n = (size_t)p[6] | (size_t)p[7] << 8;
		if (n <= BUILD_ID_PATH || n > left)
			break;
		if (strnlen((const char *)p + BUILD_ID_PATH, n - BUILD_ID_PATH) ==
			    strlen(path) &&
		    !memcmp(p + BUILD_ID_PATH, path, strlen(path)))
			return (struct bytes){ p + 12, build_id_size(p) };
	}
	return (struct bytes){ 0 };
}

int perf_head_pyelf(const struct perf_head *h, FILE *in, struct bytes *ret)
{
	unsigned char *image;
	int r;

	if (!h->pyelf.n || h->pyelf.n > PYELF_MAX_BYTES)
		return -ENOENT;
	image = malloc(h->pyelf.n);
	r = image ? read_bytes(in, h->pyelf.at, image, h->pyelf.n) : -ENOMEM;
	*ret = (struct bytes){ image, h->pyelf.n };
	if (!r && perf_unpack_bytes(*ret,
				    MIN(PACKED_BYTES + PACKED_TIMES * h->pyelf.n,
					(uint64_t)PYELF_MAX_BYTES),
				    ret)) {
		free(image);
		return 0;
	}
	if (r) {
		free(image);
		*ret = (struct bytes){ 0 };
	}
	return r;
}
