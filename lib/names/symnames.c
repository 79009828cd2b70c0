/* SPDX-License-Identifier: MIT */
#include "names/symnames.h"

#include <ctype.h>
#include <errno.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/printable.h"
#include "names/demangle.h"
#include "base/stats.h"
#include "base/strtab.h"

enum {
	MAX_NAME_BYTES = 128 << 20, /* all interned names */
	NAME_OVERHEAD = 32,
	SHORT = 128, /* bytes of a name that is demangled in ms, whatever it is */
};

/* Three names may have no answer at once, and then one in that time: each costs a second, and
 * whoever is asked half a minute of CPU time. */
static const int64_t unanswered_ns = 300000000000;

const char symnames_unknown[] = "[unknown]";

int symnames_init(struct symnames *t)
{
	*t = (struct symnames){ .tab = strtab_create(),
				.mangled = strtab_create(),
				.max_bytes = MAX_NAME_BYTES,
				.ask_again_ns = INT64_MIN };
	if (t->tab && t->mangled)
		return 0;
	symnames_deinit(t);
	return -ENOMEM;
}

void symnames_deinit(struct symnames *t)
{
	strtab_destroy(t->tab);
	strtab_destroy(t->mangled);
	free(t->plain);
	*t = (struct symnames){ 0 };
}

void symnames_limit(struct symnames *t, size_t bytes, struct stats *stats)
{
	t->max_bytes = MIN(bytes, (size_t)MAX_NAME_BYTES);
	t->stats = stats;
}

static bool is_full(const struct symnames *t)
{
	return t->bytes > t->max_bytes;
}

const char *symnames_file(struct symnames *t, const char *name)
{
	uint32_t count = strtab_count(t->tab), id;
	size_t n = strlen(name);

	id = is_full(t) ? strtab_find(t->tab, name, n) : strtab_add(t->tab, name, n);
	if (id == STRTAB_NONE)
		return NULL;
	if (id == count)
		t->bytes += n + NAME_OVERHEAD;
	return strtab_get(t->tab, id);
}

const char *symnames_intern(struct symnames *t, const char *name)
{
	const char *ret = symnames_file(t, name);

	if (!ret && t->stats)
		STATS_ADD(t->stats, nameless, 1);
	return ret ? ret : symnames_unknown;
}

void symnames_clean(char *buf, size_t cap, const char *s)
{
	printable(buf, cap, s);
	while ((buf = strchr(buf, ';')))
		*buf = ':';
}

/* The slot for what @raw means, NULL there: not looked at yet. NULL: no room to keep it. */
static const char **plain_slot(struct symnames *t, const char *raw)
{
	uint32_t count = strtab_count(t->mangled), id;
	size_t n = strlen(raw);

	if (is_full(t) || !array_reserve(&t->plain, &t->cap_plain, count + 1, sizeof(*t->plain)))
		return NULL;
	id = strtab_add(t->mangled, raw, n);
	if (id == STRTAB_NONE)
		return NULL;
	if (id == count) {
		t->plain[id] = NULL;
		t->bytes += n + NAME_OVERHEAD;
	}
	return &t->plain[id];
}

void symnames_ask(struct symnames *t, symnames_ask_fn *ask, void *arg)
{
	t->ask = ask;
	t->ask_arg = arg;
}

static bool is_asked_for(const struct symnames *t, const char *raw)
{
	return t->ask && strcspn(raw, "@") > SHORT;
}

static void count_mangled(struct symnames *t)
{
	t->n_mangled++;
	if (t->stats)
		STATS_ADD(t->stats, mangled, 1);
}

static void note_unanswered(struct symnames *t)
{
	int64_t kept = (int64_t)now_ns() - 2 * unanswered_ns;

	t->ask_again_ns = MAX(t->ask_again_ns, kept) + unanswered_ns;
	count_mangled(t);
}

/* What libiberty takes doubles with each ten bytes of some names. */
static bool decode(struct symnames *t, const char *raw, char ret[static SYMNAMES_MAX])
{
	ssize_t n;

	if (!is_asked_for(t, raw))
		return demangle(raw, ret, SYMNAMES_MAX);
	n = t->ask(t->ask_arg, raw, ret, SYMNAMES_MAX);
	if (n < 0 && n != -EAGAIN)
		note_unanswered(t);
	return n > 0;
}

/* What @raw means, also of a stub. False: nothing else. */
static bool plain_name(struct symnames *t, const char *raw, char ret[static SYMNAMES_MAX])
{
	size_t n = strcspn(raw, "@");
	char name[SYMNAMES_MAX];

	if (!raw[n])
		return decode(t, raw, ret);
	snprintf(name, sizeof(name), "%.*s", (int)MIN(n, sizeof(name) - 1), raw);
	if (!decode(t, name, ret))
		return false;
	n = strlen(ret);
	snprintf(ret + n, SYMNAMES_MAX - n, "%s", raw + strlen(name));
	return true;
}

const char *symnames_symbol(struct symnames *t, const char *raw)
{
	bool mangled = demangle_built && demangle_wanted(raw);
	const char **slot = mangled ? plain_slot(t, raw) : NULL, *ret;
	char plain[SYMNAMES_MAX], clean[SYMNAMES_MAX];
	bool later;

	if (slot && *slot)
		return *slot;
	later = mangled && is_asked_for(t, raw) && (int64_t)now_ns() < t->ask_again_ns;
	if (later)
		count_mangled(t);
	if (!mangled || later || !plain_name(t, raw, plain))
		symnames_clean(clean, sizeof(clean), raw);
	else
		symnames_clean(clean, sizeof(clean), plain);
	ret = symnames_intern(t, clean);
	if (slot && !later)
		*slot = ret;
	return ret;
}

static bool is_part_word(const char *s, size_t n)
{
	static const char *const words[] = { "cold", "constprop", "part",
					     "isra", "lto_priv",  "llvm" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i]) == n && memcmp(words[i], s, n) == 0)
			return true;
	return false;
}

void symnames_cut(char *name)
{
	char *at = strchr(name, '@');
	size_t n;

	if (at && !strcmp(at, SYMNAMES_STUB))
		return;
	if (at && at > name)
		*at = '\0';
	for (n = strlen(name); n > 0;) {
		size_t end = n, dot;

		while (end > 0 && isdigit((unsigned char)name[end - 1]))
			end--;
		/* ".word.123": step over the number's dot; ".word": there is none. */
		end = end < n && end > 0 && name[end - 1] == '.' ? end - 1 : n;
		for (dot = end; dot > 0 && name[dot - 1] != '.'; dot--)
			;
		if (dot < 2 || !is_part_word(name + dot, end - dot))
			break;
		n = dot - 1;
		name[n] = '\0';
	}
}

bool symnames_is_eval(const char *name)
{
	static const char eval[] = "_PyEval_EvalFrameDefault", tail[] = "_TAIL_CALL_";
	size_t n = sizeof(eval) - 1;

	/* 2.7's; in 3.6 to 3.10 what jumps to the other. */
	if (strcmp(name, "PyEval_EvalFrameEx") == 0)
		return true;
	return strncmp(name, tail, sizeof(tail) - 1) == 0 ||
	       (strncmp(name, eval, n) == 0 && strchr(".@", name[n]) &&
		strcmp(name + n, SYMNAMES_STUB) != 0);
}

bool symnames_is_gc(const char *name)
{
	/* Up to 3.9; 3.10 on; without the GIL; 3.14's kinds of collection. */
	static const char *const names[] = { "collect",
					     "gc_collect_main",
					     "gc_collect_internal",
					     "gc_collect_young",
					     "gc_collect_increment",
					     "gc_collect_full" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

bool symnames_is_call(const char *name)
{
	static const char *const prefixes[] = {
		"PyEval_Eval",	     "_PyEval_",	   "PyObject_Call",
		"_PyObject_Call",    "_PyObject_MakeTp",   "PyObject_Vectorcall",
		"_PyObject_Vector",  "PyVectorcall_",	   "_PyVectorcall_",
		"_PyFunction_Vect",  "_PyObject_FastCall", "PyCFunction_Call",
		"method_vectorcall", "cfunction_call",	   "cfunction_vectorcall",
		"vectorcall_",	     "object_vacall",	   "gen_send_ex",
		"gen_iternext",	     "PyGen_am_send",	   "slot_",
		"py_trampoline_ev",
	};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}
