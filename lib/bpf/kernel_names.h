/* SPDX-License-Identifier: MIT
 *
 * kernel_names - asks the kernel what one address of its own is called. /proc/kallsyms tells
 * of all, which takes the kernel 50 ms of CPU; a recording meets some hundred.
 */
#ifndef KERNEL_NAMES_H
#define KERNEL_NAMES_H

#include <stdint.h>

/* Bytes of a symbol with what the kernel writes behind it (KSYM_SYMBOL_LEN, kallsyms.h). */
enum { KERNEL_NAME_MAX = 768 };

struct kernel_names {
	int program; /* -1: there is none */
	struct kernel_names_asked *asked;
};

/* Load the program: CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN. 0 or -errno: there is none
 * then (before Linux 5.14, too). */
int kernel_names_init(struct kernel_names *k);
void kernel_names_deinit(struct kernel_names *k);

/* The symbol that @ip lies in, the first one of several at one address, as kallsyms has it; ""
 * where there is none. Valid until the next call; NULL: the kernel does not tell. One thread,
 * without rights. */
const char *kernel_names_at(const struct kernel_names *k, uint64_t ip);

#endif
