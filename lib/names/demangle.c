/* SPDX-License-Identifier: MIT */
#include "names/demangle.h"

#include "base/base.h"

bool demangle_wanted(const char *name)
{
	return strncmp(name, "_Z", 2) == 0 || strncmp(name, "_R", 2) == 0 ||
	       strncmp(name, "___Z", 4) == 0; /* a block's function */
}

#ifdef PYSAMPLED_LIBIBERTY

#include <libiberty/demangle.h>
#include <setjmp.h>

const bool demangle_built = true;

struct out {
	char *buf;
	size_t n, cap;
	jmp_buf full;
};

static void put(const char *s, size_t n, void *arg)
{
	struct out *o = arg;
	size_t k = MIN(n, o->cap - 1 - o->n);

	if (k) /* else @s may be NULL */
		memcpy(o->buf + o->n, s, k);
	o->n += k;
	if (k < n)
		longjmp(o->full, 1);
}

/* False: the name means nothing more. */
static bool decode(const char *name, struct out *o)
{
	enum { OPTIONS = DMGL_AUTO | DMGL_PARAMS };

	if (setjmp(o->full))
		return true;
	if (rust_demangle_callback(name, OPTIONS, put, o))
		return true;
	o->n = 0;
	return cplus_demangle_v3_callback(name, OPTIONS, put, o);
}

/* An ABI tag is a word. numba puts the flags of a compilation into one, some 40 letters that
 * tell nobody anything. */
static void drop_long_tags(char *text)
{
	static const char begin[] = "[abi:";
	enum { MAX_TAG = 24 };
	char *tag = text, *end;

	while ((tag = strstr(tag, begin)) && (end = strchr(tag, ']'))) {
		if (end - tag > MAX_TAG)
			memmove(tag, end + 1, strlen(end + 1) + 1);
		else
			tag = end;
	}
}

bool demangle(const char *name, char *buf, size_t cap)
{
	struct out o = { .buf = buf, .cap = cap };

	if (!demangle_wanted(name) || !decode(name, &o))
		return false;
	buf[o.n] = '\0';
	drop_long_tags(buf);
	return o.n > 0;
}

#else

const bool demangle_built = false;

bool demangle(const char *name, char *buf, size_t cap)
{
	return false;
}

#endif
