/* SPDX-License-Identifier: MIT */
#include "events/tracefs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>

#include "base/base.h"
#include "base/nearest.h"
#include "sys/proc.h"
#include "sys/rights.h"

/* Opened, for access() asks with the real user's rights, and without capabilities. 0 or -errno. */
static int may_list(const char *folder)
{
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

const char *tracefs_events(struct err *err)
{
	char wanted[200];
	static const char *const places[] = { "/sys/kernel/tracing/events",
					      "/sys/kernel/debug/tracing/events" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int r = may_list(places[i]);

		if (r == 0)
			return places[i];
		if (r == -EACCES) {
			err_set(err, -EACCES,
				"tracepoints have their numbers in %s, which only root may "
				"read; %s, or let root remount it with gid=GROUP",
				places[i],
				rights_wanted(wanted, sizeof(wanted), "CAP_DAC_READ_SEARCH"));
			return NULL;
		}
	}
	err_set(err, -ENOENT,
		"tracepoints have their numbers in tracefs, which is not mounted; do 'mount "
		"-t tracefs tracefs /sys/kernel/tracing'");
	return NULL;
}

static bool is_folder(const struct dirent *e)
{
	return e->d_type == DT_DIR && *e->d_name != '.';
}

static int by_folder(const struct dirent *e)
{
	return is_folder(e);
}

static void each_of(const char *events, const char *system, const char *word,
		    void (*each)(void *arg, const char *name), void *arg)
{
	struct dirent **list = NULL;
	char path[512], name[512];
	int n;

	snprintf(path, sizeof(path), "%s/%s", events, system);
	n = scandir(path, &list, by_folder, alphasort);
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%.200s:%.200s", system, list[i]->d_name);
		if (strstr(name, word))
			each(arg, name);
		free(list[i]);
	}
	free(list);
}

void tracefs_each(const char *events, const char *word,
		  void (*each)(void *arg, const char *name), void *arg)
{
	struct dirent **list = NULL;
	int n = scandir(events, &list, by_folder, alphasort);

	for (int i = 0; i < n; i++) {
		each_of(events, list[i]->d_name, word, each, arg);
		free(list[i]);
	}
	free(list);
}

/* Those of the right system first. */
static int none(const char *events, const struct perf_spec *s, const char *base,
		struct err *err)
{
	struct nearest near = { .want = base };
	char system[64], text[500];

	snprintf(system, sizeof(system), "%.*s", (int)strcspn(base, ":"), base);
	each_of(events, system, "", nearest_offer, &near);
	if (!near.n)
		tracefs_each(events, "", nearest_offer, &near);
	return err_set(err, -ENOENT,
		       "this kernel has no tracepoint '%s'%s ('pysampled events WORD' lists "
		       "them)",
		       s->name, nearest_text(&near, text, sizeof(text)));
}

int tracefs_resolve(const char *events, struct perf_spec *s, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	char path[512], base[256];
	size_t system = strcspn(s->name, ":"), n;
	int r;

	snprintf(base, sizeof(base), "%.*s", (int)MIN(s->n_base, sizeof(base) - 1), s->name);
	if (strchr(base, '/') || *base == '.' || base[system + 1] == '.')
		return none(events, s, base, err);
	snprintf(path, sizeof(path), "%s/%.*s/%s/id", events, (int)system, base,
		 base + system + 1);
	r = proc_read_file(path, &text, &n);
	if (r == -EACCES)
		return err_set(err, r, "event '%s': only root may read %s", s->name, path);
	if (r < 0)
		return none(events, s, base, err);
	s->type = PERF_TYPE_TRACEPOINT;
	s->config = strtoull(text, NULL, 10);
	s->kind = PERF_KIND_READY;
	return 0;
}
