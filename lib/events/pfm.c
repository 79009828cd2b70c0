/* SPDX-License-Identifier: MIT */
#include "events/pfm.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>

#include "base/base.h"

/* perfmon/pfmlib.h and perfmon/pfmlib_perf_event.h, whose interface is fixed by the library's
 * major number. */
enum { PFM_SUCCESS = 0, PFM_PLM0 = 1, PFM_PLM3 = 8, PFM_OS_PERF_EVENT = 1 };

struct pfm_perf_encode_arg {
	struct perf_event_attr *attr;
	char **fstr;
	size_t size;
	int idx, cpu, flags, pad0;
};

struct pfm {
	int (*initialize)(void);
	int (*encode)(const char *name, int levels, int os, void *arg);
};

static void *symbol(void *library, const char *name)
{
	return library ? dlsym(library, name) : NULL;
}

static bool load(struct pfm *ret)
{
	void *library = dlopen("libpfm.so.4", RTLD_NOW | RTLD_LOCAL);
	void *initialize = symbol(library, "pfm_initialize");
	void *encode = symbol(library, "pfm_get_os_event_encoding");

	memcpy(&ret->initialize, &initialize, sizeof(initialize));
	memcpy(&ret->encode, &encode, sizeof(encode));
	return initialize && encode && ret->initialize() == PFM_SUCCESS;
}

bool pfm_here(void)
{
	struct pfm pfm;

	return load(&pfm);
}

int pfm_resolve(const char *name, struct perf_spec *ret)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	struct pfm_perf_encode_arg arg = { .attr = &attr, .size = sizeof(arg) };
	struct pfm pfm;

	if (!load(&pfm) ||
	    pfm.encode(name, PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT, &arg) != PFM_SUCCESS)
		return -ENOENT;
	ret->type = attr.type;
	ret->config = attr.config;
	ret->config1 = attr.config1;
	ret->config2 = attr.config2;
	ret->user |= attr.exclude_kernel && !attr.exclude_user;
	ret->kernel |= attr.exclude_user && !attr.exclude_kernel;
	ret->precise = MAX(ret->precise, (uint8_t)attr.precise_ip);
	ret->each = attr.type == PERF_TYPE_TRACEPOINT || attr.type == PERF_TYPE_BREAKPOINT;
	ret->kind = PERF_KIND_READY;
	return 0;
}
