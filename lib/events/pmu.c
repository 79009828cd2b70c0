/* SPDX-License-Identifier: MIT */
#include "events/pmu.h"

#include <dirent.h>
#include <errno.h>

#include "base/base.h"

/* --- the files --- */

/* The file's text without the newline. @name may be "FOLDER/FILE". 0 or -errno. */
static int read_text(const char *devices, const char *pmu, const char *name, char *ret,
		     size_t size)
{
	char path[512];
	_cleanup_fclose_ FILE *f = NULL;
	size_t n;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s/%s", devices, pmu, name) >=
	    sizeof(path))
		return -ENAMETOOLONG;
	f = fopen(path, "re");
	if (!f)
		return -errno;
	n = fread(ret, 1, size - 1, f);
	ret[n] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	return 0;
}

int pmu_type(const char *devices, const char *pmu, uint32_t *ret)
{
	char text[32];
	int r = strchr(pmu, '/') || *pmu == '.' ?
			-ENOENT :
			read_text(devices, pmu, "type", text, sizeof(text));

	if (r == 0)
		*ret = (uint32_t)strtoul(text, NULL, 10);
	return r;
}

/* The names in a folder, "" for @devices itself, ascending; NULL: none. */
static struct dirent **names_in(const char *devices, const char *pmu, const char *folder,
				int *n)
{
	struct dirent **list = NULL;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s/%s", devices, pmu, folder);
	*n = scandir(path, &list, NULL, alphasort);
	if (*n < 0)
		*n = 0;
	return list;
}

static void free_names(struct dirent **list, int n)
{
	for (int i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

/* Not an event's scale or unit. */
static bool is_name(const char *s)
{
	return *s != '.' && !strchr(s, '.');
}

/* "a, b, c" of a folder, cut where @ret ends. */
static const char *list_names(const char *devices, const char *pmu, const char *folder,
			      char *ret, size_t size)
{
	int n;
	struct dirent **list = names_in(devices, pmu, folder, &n);
	size_t at = 0;

	*ret = '\0';
	for (int i = 0; i < n && at < size; i++)
		if (is_name(list[i]->d_name))
			at += (size_t)snprintf(ret + at, size - at, "%s%s", at ? ", " : "",
					       list[i]->d_name);
	free_names(list, n);
	return ret;
}

/* --- terms --- */

/* Bits @lo to @hi of *@word get the lowest of *@value, which loses them. */
static void put_bits(uint64_t *word, unsigned lo, unsigned hi, uint64_t *value)
{
	for (unsigned bit = lo; bit <= hi && bit < 64; bit++, *value >>= 1)
		*word = (*word & ~(UINT64_C(1) << bit)) | (*value & 1) << bit;
}

/* "config1:0-7,32-35" */
static int apply_format(const char *format, uint64_t value, struct perf_spec *s)
{
	size_t n = strcspn(format, ":");
	uint64_t *word = n == 6		  ? &s->config :
			 n != 7		  ? NULL :
			 format[6] == '1' ? &s->config1 :
			 format[6] == '2' ? &s->config2 :
					    NULL;
	const char *at = format + n;

	if (!word || strncmp(format, "config", 6) != 0)
		return -ENOTSUP;
	while (*at++) {
		char *end;
		unsigned lo = (unsigned)strtoul(at, &end, 10), hi = lo;

		if (*end == '-')
			hi = (unsigned)strtoul(end + 1, &end, 10);
		put_bits(word, lo, hi, &value);
		at = end;
		if (*at && *at != ',')
			return -EINVAL;
	}
	return value ? -EINVAL : 0;
}

int pmu_set(const char *devices, const char *pmu, const char *term, uint64_t value,
	    struct perf_spec *s)
{
	char path[128], format[128];

	snprintf(path, sizeof(path), "format/%.100s", term);
	if (!is_name(term) || strchr(term, '/') ||
	    read_text(devices, pmu, path, format, sizeof(format)) < 0)
		return -ENOENT;
	return apply_format(format, value, s);
}

/* perf's own terms, for the whole word. */
static uint64_t *whole_word(struct perf_spec *s, const char *term)
{
	return !strcmp(term, "config")	? &s->config :
	       !strcmp(term, "config1") ? &s->config1 :
	       !strcmp(term, "config2") ? &s->config2 :
	       !strcmp(term, "period")	? &s->period :
	       !strcmp(term, "freq")	? &s->freq :
					  NULL;
}

static int bad_term(const char *devices, const char *pmu, const struct perf_spec *s,
		    const char *term, struct err *err)
{
	char terms[160], events[160];

	list_names(devices, pmu, "format", terms, sizeof(terms));
	list_names(devices, pmu, "events", events, sizeof(events));
	return err_set(err, -ENOENT,
		       "event '%s': PMU %s has no term or event '%s'; terms: %s; events: %s",
		       s->name, pmu, term, *terms ? terms : "none", *events ? events : "none");
}

static int apply_terms(const char *devices, const char *pmu, char *terms, struct perf_spec *s,
		       bool alias, struct err *err);

static int set_label(struct perf_spec *s, const char *label, struct err *err)
{
	if (!*label || strlen(label) >= sizeof(s->label) || strpbrk(label, " ;"))
		return err_set(err, -EINVAL,
			       "event '%s': '%s' is no name; it has 1 to %zu characters, none "
			       "of them a blank or ';'",
			       s->name, label, sizeof(s->label) - 1);
	snprintf(s->label, sizeof(s->label), "%s", label);
	return 0;
}

/* TERM=VALUE, TERM for TERM=1, or the name of an event, which is a list of them. */
static int apply_term(const char *devices, const char *pmu, char *term, struct perf_spec *s,
		      bool alias, struct err *err)
{
	char *value = strchr(term, '='), *end = NULL, path[128], text[256];
	uint64_t v = 1, *word;
	int r;

	snprintf(path, sizeof(path), "events/%.100s", term);
	if (!value && !alias && is_name(term) && !strchr(term, '/') &&
	    read_text(devices, pmu, path, text, sizeof(text)) == 0)
		return apply_terms(devices, pmu, text, s, true, err);
	if (value) {
		*value++ = '\0';
		if (alias && *value == '?') /* the user must say, by a term of his own */
			return 0;
		if (!strcmp(term, "name"))
			return set_label(s, value, err);
		v = strtoull(value, &end, 0);
		if (end == value || *end)
			return err_set(err, -EINVAL, "event '%s': '%s' is no number", s->name,
				       value);
	}
	word = whole_word(s, term);
	r = word ? 0 : pmu_set(devices, pmu, term, v, s);
	if (word)
		*word = v;
	if (r == -EINVAL)
		return err_set(err, r, "event '%s': %llu is too large for '%s'", s->name,
			       (unsigned long long)v, term);
	if (r == -ENOTSUP)
		return err_set(err, -ENOENT,
			       "event '%s': '%s' lies in a part of the event that is not "
			       "known to this version",
			       s->name, term);
	return r < 0 ? bad_term(devices, pmu, s, term, err) : 0;
}

static int apply_terms(const char *devices, const char *pmu, char *terms, struct perf_spec *s,
		       bool alias, struct err *err)
{
	char *save = NULL;
	int r = 0;

	for (char *term = strtok_r(terms, ",", &save); r == 0 && term;
	     term = strtok_r(NULL, ",", &save))
		r = apply_term(devices, pmu, term, s, alias, err);
	return r;
}

/* --- PMUs --- */

/* A list of CPUs in a PMU's folder. */
static bool read_cpus(const char *devices, const char *pmu, const char *file, struct cpus *ret)
{
	char text[4096];

	return read_text(devices, pmu, file, text, sizeof(text)) == 0 &&
	       cpus_parse(ret, text) == 0;
}

size_t pmu_cores(const char *devices, struct pmu_core ret[PMU_MAX_CORES])
{
	int n_names;
	struct dirent **list = names_in(devices, "", "", &n_names);
	size_t n = 0;

	for (int i = 0; i < n_names && n < PMU_MAX_CORES; i++) {
		struct pmu_core *c = &ret[n];
		const char *name = list[i]->d_name;

		/* Most have none. */
		if (read_cpus(devices, name, "cpus", &c->cpus) &&
		    pmu_type(devices, name, &c->type) == 0) {
			snprintf(c->name, sizeof(c->name), "%.63s", name);
			n++;
		}
	}
	free_names(list, n_names);
	return n > 1 ? n : 0;
}

static int no_pmu(const char *devices, const struct perf_spec *s, const char *pmu,
		  struct err *err)
{
	char there[256];

	return err_set(err, -ENOENT, "event '%s': this machine has no PMU '%s'; there are: %s",
		       s->name, pmu, list_names(devices, "", "", there, sizeof(there)));
}

int pmu_resolve(const char *devices, struct perf_spec *s, struct err *err)
{
	size_t n = strcspn(s->name, "/");
	char pmu[64], terms[256];
	struct cpus socket;
	int r;

	snprintf(pmu, sizeof(pmu), "%.*s", (int)MIN(n, sizeof(pmu) - 1), s->name);
	if (pmu_type(devices, pmu, &s->type) < 0)
		return no_pmu(devices, s, pmu, err);
	if (read_cpus(devices, pmu, "cpumask", &socket))
		return err_set(err, -ENOENT,
			       "event '%s': PMU %s counts for whole sockets or the machine, "
			       "not for threads, so it can't tell who caused an event",
			       s->name, pmu);
	snprintf(terms, sizeof(terms), "%.*s", (int)(s->n_base - n - 2), s->name + n + 1);
	r = apply_terms(devices, pmu, terms, s, false, err);
	if (r == 0)
		s->some_cpus = read_cpus(devices, pmu, "cpus", &s->cpus);
	s->kind = PERF_KIND_READY;
	return r;
}

void pmu_each(const char *devices, void (*each)(void *arg, const char *name), void *arg)
{
	int n_pmus, n;
	struct dirent **pmus = names_in(devices, "", "", &n_pmus);

	for (int i = 0; i < n_pmus; i++) {
		struct dirent **list = names_in(devices, pmus[i]->d_name, "events", &n);

		for (int k = 0; k < n; k++) {
			char name[512];

			snprintf(name, sizeof(name), "%.200s/%.200s/", pmus[i]->d_name,
				 list[k]->d_name);
			if (is_name(list[k]->d_name) && *pmus[i]->d_name != '.')
				each(arg, name);
		}
		free_names(list, n);
	}
	free_names(pmus, n_pmus);
}

struct find {
	const char *word;
	size_t n, skip; /* so many that have it */
	char name[256];
};

static void find_word(void *arg, const char *name)
{
	struct find *f = arg;
	const char *event = strchr(name, '/') + 1;

	if (!*f->name && strlen(event) == f->n + 1 && !strncmp(event, f->word, f->n) &&
	    f->skip-- == 0)
		snprintf(f->name, sizeof(f->name), "%.255s", name);
}

int pmu_resolve_word(const char *devices, struct perf_spec *s, struct err *err)
{
	struct perf_spec as;
	int r = -ENOENT;

	/* Several have it: the first that knows threads. */
	for (size_t skip = 0; r < 0; skip++) {
		struct find f = { .word = s->name, .n = s->n_base, .skip = skip };

		pmu_each(devices, find_word, &f);
		if (!*f.name)
			return skip ? err->code : -ENOENT;
		as = *s;
		snprintf(as.name, sizeof(as.name), "%s", f.name);
		as.n_base = strlen(as.name);
		r = pmu_resolve(devices, &as, err);
	}
	memcpy(as.name, s->name, sizeof(as.name));
	as.n_base = s->n_base;
	*s = as;
	return 0;
}
