/* SPDX-License-Identifier: MIT
 *
 * file_kind - by how each kind begins.
 */
#include "file_kind.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#ifdef PYSAMPLED_ZLIB
#include "../output/gzip.h"
#endif

static bool begins(struct bytes head, const char *with)
{
	size_t n = strlen(with);

	return head.n >= n && !strncasecmp((const char *)head.at, with, n);
}

static bool has(struct bytes head, const char *word)
{
	return memmem(head.at, head.n, word, strlen(word));
}

static const char *text_kind(struct bytes head)
{
	if (begins(head, "<!doctype html") || begins(head, "<html"))
		return "a web page (.html)";
	if (begins(head, "<svg") || begins(head, "<?xml"))
		return has(head, "<svg") ? "an image (.svg)" : "XML";
	if (begins(head, "{") && has(head, "speedscope.app/"))
		return "a speedscope profile (.speedscope.json)";
	if (begins(head, "{\"meta\":{"))
		return "a profile for the Firefox Profiler (.gecko.json)";
	return begins(head, "{\"") ? "JSON" : NULL;
}

static const char *gzip_kind(struct bytes head)
{
#ifdef PYSAMPLED_ZLIB
	unsigned char at[FILE_KIND_HEAD];
	struct bytes inside = { at, gzip_head(head, at, sizeof(at)) };
	const char *kind = text_kind(inside);

	if (kind && strstr(kind, ".gecko.json"))
		return "a profile for the Firefox Profiler (.gecko.json.gz)";
	if (inside.n && *inside.at == '\n') /* field 1, of bytes: sample_type */
		return "a pprof profile (.pb.gz)";
#endif
	return "packed by gzip, as a pprof profile is";
}

const char *file_kind(struct bytes head)
{
	if (begins(head, "\x1f\x8b"))
		return gzip_kind(head);
	if (head.n >= 8 && !memcmp(head.at, "2ELIFREP", 8))
		return "a perf.data from a machine with another byte order";
	if (begins(head, "\x7f" "ELF"))
		return "an ELF file: a program, or a perf.data's symbols";
	if (head.n && *head.at < ' ' && !memchr("\t\n\r", *head.at, 3))
		return "neither a recording nor text";
	return text_kind(head);
}
