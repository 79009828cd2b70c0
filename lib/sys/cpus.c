/* SPDX-License-Identifier: MIT */
#include "sys/cpus.h"

#include <errno.h>
#include <sched.h>

#include "sys/proc.h"

int cpus_next(const struct cpus *c, int from)
{
	for (int cpu = from; cpu < CPUS_MAX; cpu++) {
		unsigned long rest = c->bits[cpu / CPUS_WORD] >> cpu % CPUS_WORD;

		if (rest)
			return cpu + __builtin_ctzl(rest);
		cpu |= CPUS_WORD - 1;
	}
	return -1;
}

size_t cpus_count(const struct cpus *c)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(c->bits); i++)
		n += (size_t)__builtin_popcountl(c->bits[i]);
	return n;
}

int cpus_parse(struct cpus *ret, const char *s)
{
	*ret = (struct cpus){ 0 };
	while (*s) {
		char *end;
		long lo = strtol(s, &end, 10), hi = lo;

		if (end == s)
			break;
		if (*end == '-')
			hi = strtol(end + 1, &end, 10);
		if (lo < 0 || hi < lo || hi >= CPUS_MAX)
			return -EINVAL;
		while (lo <= hi)
			cpus_add(ret, (int)lo++);
		s = *end == ',' ? end + 1 : end;
	}
	return cpus_next(ret, 0) < 0 ? -EINVAL : 0;
}

const char *cpus_text(const struct cpus *c, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (int lo = cpus_next(c, 0); lo >= 0 && n < size;) {
		int hi = lo;

		while (hi + 1 < CPUS_MAX && cpus_has(c, hi + 1))
			hi++;
		n += (size_t)snprintf(buf + n, size - n, "%s%d", n ? "," : "", lo);
		if (hi > lo && n < size)
			n += (size_t)snprintf(buf + n, size - n, "-%d", hi);
		lo = cpus_next(c, hi + 1);
	}
	return buf;
}

int cpus_system(struct cpus *ret, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	int r;

	*ret = (struct cpus){ 0 };
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/%s", name);
	r = proc_read_piece(path, &text);
	return r < 0 ? r : cpus_parse(ret, text);
}

void cpus_isolated(struct cpus *ret)
{
	static const char *const names[] = { "isolated", "nohz_full" };

	*ret = (struct cpus){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct cpus one;

		if (cpus_system(&one, names[i]) < 0) /* also where there are none */
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(one.bits); k++)
			ret->bits[k] |= one.bits[k];
	}
}

int cpus_of_thread(struct cpus *ret, pid_t tid)
{
	*ret = (struct cpus){ 0 };
	return sched_getaffinity(tid, sizeof(ret->bits), (cpu_set_t *)(void *)ret->bits) < 0 ?
		       -errno :
		       0;
}

static int run_on(const struct cpus *c)
{
	return sched_setaffinity(0, sizeof(c->bits),
				 (const cpu_set_t *)(const void *)c->bits) < 0 ?
		       -errno :
		       0;
}

int cpus_keep_thread(struct cpus *c)
{
	int r = run_on(c);

	return r < 0 ? r : cpus_of_thread(c, 0);
}

int cpus_pin_thread(int cpu)
{
	struct cpus one = { 0 };

	cpus_add(&one, cpu);
	return run_on(&one);
}

void cpus_add_thread(struct cpus *c, pid_t tid)
{
	struct cpus one;

	if (cpus_of_thread(&one, tid) == 0)
		for (size_t i = 0; i < ARRAY_SIZE(one.bits); i++)
			c->bits[i] |= one.bits[i];
}
