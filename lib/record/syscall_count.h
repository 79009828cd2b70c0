/* SPDX-License-Identifier: MIT
 *
 * syscall_count - the kernel's count of our own system calls.
 */
#ifndef SYSCALL_COUNT_H
#define SYSCALL_COUNT_H

#include "base/err.h"

/* Count the system calls of this process's threads from now on, not its children's: a
 * descriptor to read the uint64_t from. -ENOENT, -EACCES or another -errno with the reason. */
int syscall_count_open(struct err *err);

#endif
