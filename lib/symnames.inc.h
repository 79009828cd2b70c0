/* SPDX-License-Identifier: MIT
 *
 * symnames - the part of symbolize.c that makes names: interned, cleaned, the
 * kernel's. Included there.
 */
#include <ctype.h>
#include <errno.h>

#include "base.h"
#include "proc.h"
#include "strtab.h"

enum {
	MAX_NAME_BYTES = 128 << 20, /* all interned names */
	NAME_OVERHEAD = 32,
	MAX_NAME = 512,
};

static const char unknown[] = "[unknown]", nameless_kernel[] = "[kernel]_[k]";

struct names {
	struct strtab *tab;
	size_t bytes;
};

struct kernel_sym {
	uint64_t start;
	uint32_t name; /* offset in kernel.names */
} __attribute__((__packed__));

struct kernel {
	bool loaded;
	struct kernel_sym *sym;
	size_t n;
	char *names;
};

/* The one copy of @name; "[unknown]" when there is no room for more names. */
static const char *names_intern(struct names *t, const char *name)
{
	uint32_t count = strtab_count(t->tab), id;
	size_t n = strlen(name);

	if (t->bytes > MAX_NAME_BYTES)
		return unknown;
	id = strtab_add(t->tab, name, n);
	if (id == STRTAB_NONE)
		return unknown;
	if (id == count)
		t->bytes += n + NAME_OVERHEAD;
	return strtab_get(t->tab, id);
}

/* Bytes of the UTF-8 character at @s, 0 when it is none or a control character. */
static size_t printable(const unsigned char *s)
{
	size_t n = s[0] < 0x80   ? 1
		   : s[0] < 0xc2 ? 0
		   : s[0] < 0xe0 ? 2
		   : s[0] < 0xf0 ? 3
		   : s[0] < 0xf5 ? 4
				 : 0;

	if (n == 1)
		return s[0] >= 0x20 && s[0] != 0x7f;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xc2 && s[1] < 0xa0) || (s[0] == 0xe0 && s[1] < 0xa0) ||
	    (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] >= 0x90))
		return 0;
	return n;
}

/* Copy what may stand in an output: at most @cap - 1 bytes, whole characters. */
static void copy_clean(char *buf, size_t cap, const char *s)
{
	size_t k = 0;

	while (*s) {
		size_t n = printable((const unsigned char *)s);

		if (k + MAX(n, 1) >= cap)
			break;
		if (n == 0)
			buf[k] = '?';
		else
			memcpy(buf + k, *s == ';' ? ":" : s, n);
		k += MAX(n, 1);
		s += MAX(n, 1);
	}
	buf[k] = '\0';
}

static bool is_part_word(const char *s, size_t n)
{
	static const char *const words[] = {"cold", "constprop", "part",
					    "isra", "lto_priv",  "llvm"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i]) == n && memcmp(words[i], s, n) == 0)
			return true;
	return false;
}

/* Cut what compilers and linkers append: "@@VERSION", ".cold", ".isra.0.part.1". */
static void cut_suffixes(char *name)
{
	char *at = strchr(name, '@');
	size_t n;

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

/* ---- The kernel ---- */

/* One line "ffffffff81000000 T name\t[module]" of kallsyms at *@at, which moves to
 * the next. False for data and for hidden addresses. */
static bool kernel_line(char **at, uint64_t *start, char **name)
{
	char *line = *at, *end = strchrnul(line, '\n'), *p;

	*at = *end ? end + 1 : end;
	*end = '\0';
	*start = strtoull(line, &p, 16);
	if (p == line || p[0] != ' ' || !p[1] || !strchr("tTwW", p[1]) || p[2] != ' ')
		return false;
	*name = p + 3;
	(*name)[strcspn(*name, "\t ")] = '\0';
	return *start && **name;
}

static int kernel_cmp(const void *a, const void *b)
{
	const struct kernel_sym *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

/* By address; of several names for one the kernel's first. */
static void kernel_sort(struct kernel *k)
{
	size_t n = 0;

	if (k->n)
		qsort(k->sym, k->n, sizeof(*k->sym), kernel_cmp);
	for (size_t i = 0; i < k->n; i++)
		if (n == 0 || k->sym[n - 1].start != k->sym[i].start)
			k->sym[n++] = k->sym[i];
	k->n = n;
}

/* Take over @text: rows, and names moved together at its front. */
static void kernel_parse(struct kernel *k, char *text)
{
	size_t cap = 0, used = 0, len;
	char *at = text, *name;
	uint64_t start;

	k->names = text;
	while (*at) {
		if (!kernel_line(&at, &start, &name))
			continue;
		if (k->n == cap) {
			struct kernel_sym *more;

			cap = cap ? cap * 2 : 1 << 16;
			more = reallocarray(k->sym, cap, sizeof(*more));
			if (!more)
				break;
			k->sym = more;
		}
		len = strlen(name) + 1;
		memmove(text + used, name, len);
		k->sym[k->n++] = (struct kernel_sym){start, (uint32_t)used};
		used += len;
	}
	kernel_sort(k);
	text = realloc(k->names, used + 1);
	k->names = text ? text : k->names;
}

static void kernel_load(struct kernel *k)
{
	char *text;
	size_t n;

	k->loaded = true;
	if (proc_read_file("/proc/kallsyms", &text, &n) < 0)
		return;
	if (n < UINT32_MAX)
		kernel_parse(k, text);
	else
		free(text);
}

static void kernel_deinit(struct kernel *k)
{
	free(k->sym);
	free(k->names);
}

static const char *kernel_name(struct kernel *k, struct names *names, uint64_t ip)
{
	char symbol[MAX_NAME], buf[MAX_NAME + 8];
	size_t lo = 0, n;

	if (!k->loaded)
		kernel_load(k);
	for (n = k->n; n > 0;) {
		if (k->sym[lo + n / 2].start <= ip) {
			lo += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	if (lo == 0)
		return nameless_kernel;
	copy_clean(symbol, sizeof(symbol), k->names + k->sym[lo - 1].name);
	cut_suffixes(symbol);
	snprintf(buf, sizeof(buf), "%s_[k]", symbol);
	return names_intern(names, buf);
}
