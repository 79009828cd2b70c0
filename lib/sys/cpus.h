/* SPDX-License-Identifier: MIT
 *
 * cpus - sets of CPUs: which there are, and where threads may run.
 */
#ifndef CPUS_H
#define CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { CPUS_MAX = 8192, CPUS_WORD = 8 * sizeof(unsigned long) };

struct cpus {
	unsigned long bits[CPUS_MAX / CPUS_WORD];
};

static inline bool cpus_has(const struct cpus *c, int cpu)
{
	return c->bits[cpu / CPUS_WORD] >> cpu % CPUS_WORD & 1;
}

static inline void cpus_add(struct cpus *c, int cpu)
{
	c->bits[cpu / CPUS_WORD] |= 1ul << cpu % CPUS_WORD;
}

static inline void cpus_del(struct cpus *c, int cpu)
{
	c->bits[cpu / CPUS_WORD] &= ~(1ul << cpu % CPUS_WORD);
}

/* Of @c only what is in @too. */
static inline void cpus_keep(struct cpus *c, const struct cpus *too)
{
	for (size_t i = 0; i < CPUS_MAX / CPUS_WORD; i++)
		c->bits[i] &= too->bits[i];
}

/* Of @c only what is not in @others. */
static inline void cpus_drop(struct cpus *c, const struct cpus *others)
{
	for (size_t i = 0; i < CPUS_MAX / CPUS_WORD; i++)
		c->bits[i] &= ~others->bits[i];
}

/* The first CPU of the set that is not below @from, or -1. */
int cpus_next(const struct cpus *c, int from);
size_t cpus_count(const struct cpus *c);

/* Pure: "0-3,8,10-11\n". 0; -EINVAL: not a list, empty, or a CPU beyond CPUS_MAX. */
int cpus_parse(struct cpus *ret, const char *list);

/* The list of a set as text, cut where @buf ends. Returns @buf. */
const char *cpus_text(const struct cpus *c, char *buf, size_t size);

/* A list in /sys/devices/system/cpu: "online", "possible", "isolated", "nohz_full".
 * 0 or -errno; -EINVAL where it is empty. */
int cpus_system(struct cpus *ret, const char *name);

/* The CPUs that the machine's owner keeps free of others' work: "isolated" and "nohz_full". */
void cpus_isolated(struct cpus *ret);

/* Where thread @tid may run now: CPUs that are offline are not among them. 0 or -errno. */
int cpus_of_thread(struct cpus *ret, pid_t tid);

/* Let the calling thread run on @c alone, of which those that it may not use are dropped. 0,
 * or -errno: it may use none. */
int cpus_keep_thread(struct cpus *c);

/* Let the calling thread run on @cpu alone. 0 or -errno. */
int cpus_pin_thread(int cpu);

/* Where thread @tid may run now, added to @c. */
void cpus_add_thread(struct cpus *c, pid_t tid);

#endif
