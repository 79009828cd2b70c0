/* SPDX-License-Identifier: MIT
 *
 * sight - a word, kept by a BPF program in the kernel and mapped into our memory, that tells
 * whether a thread may have come onto a CPU unseen.
 *
 * Kernels that hide some threads from tracepoints (proof_switches_hidden()) run no program when
 * one of those leaves, so nobody sees who comes after it. But that one's own leaving is seen,
 * and that a hidden thread comes. A task of whom a leaving was seen is in sight until it ends.
 * If each CPU is with one in sight, and nowhere has anybody left who had not been seen
 * coming, then nobody came unseen meanwhile.
 */
#ifndef SIGHT_H
#define SIGHT_H

#include <stdbool.h>
#include <stdint.h>

struct sight {
	int map, link;	   /* -1: there is none */
	uint32_t n_cpus;   /* numbers below */
	uint32_t n_online; /* at first */
	_Atomic uint64_t *at;
};

/* What a thread of ours saw of it last; zeros at first. */
struct sight_seen {
	uint64_t ns; /* since when nobody has left who came unseen */
	uint32_t n_unseen;
};

/* For CPUs with numbers below @n_cpus. 0 or -errno: there is none then. -ENOTSUP: before
 * Linux 6. */
int sight_init(struct sight *s, uint32_t n_cpus);
void sight_deinit(struct sight *s);

/* Has nobody come onto a CPU unseen from @since until now? CLOCK_MONOTONIC, in ns. Also false
 * where that is not known. */
bool sight_clear(const struct sight *s, struct sight_seen *seen, uint64_t since);

#endif
