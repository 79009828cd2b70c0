/* SPDX-License-Identifier: MIT
 *
 * pmu - the kernel's event sources as sysfs describes them: a folder each, below
 * PMU_DEVICES, with type, format/ (which bits a term sets), events/ (names for terms), and the
 * CPUs that it counts on. Format: Documentation/ABI/testing/sysfs-bus-event_source-devices-*.
 */
#ifndef PMU_H
#define PMU_H

#include "events/perf_names.h"

#define PMU_DEVICES "/sys/bus/event_source/devices"

enum { PMU_MAX_CORES = 8 };

/* A processor's own PMU; a hybrid machine has one for each kind of core. */
struct pmu_core {
	char name[64];
	uint32_t type;
	struct cpus cpus;
};

/* The cores' PMUs below @devices, if the machine has several kinds; how many, 0: it is not
 * hybrid. Ascending by name. */
size_t pmu_cores(const char *devices, struct pmu_core ret[PMU_MAX_CORES]);

/* Complete @s, whose name is "PMU/TERM[=VALUE],.../": type, config and where it may be opened.
 * 0; -ENOENT there is no such PMU, event or term, with those that there are; -EINVAL. */
int pmu_resolve(const char *devices, struct perf_spec *s, struct err *err);

/* The same for a name that any PMU of this machine may know; the first that does. */
int pmu_resolve_word(const char *devices, struct perf_spec *s, struct err *err);

/* A number of a PMU's folder, "type". 0 or -errno. */
int pmu_type(const char *devices, const char *pmu, uint32_t *ret);

/* Put @value into the bits that format file @term of @pmu names. 0; -ENOENT no such term;
 * -EINVAL the value has more bits. */
int pmu_set(const char *devices, const char *pmu, const char *term, uint64_t value,
	    struct perf_spec *s);

/* Call @each for all events that the PMUs here have a name for, "PMU/NAME/". */
void pmu_each(const char *devices, void (*each)(void *arg, const char *name), void *arg);

#endif
