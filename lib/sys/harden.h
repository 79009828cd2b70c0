/* SPDX-License-Identifier: MIT
 *
 * harden - what this process can no longer do: change another one.
 */
#ifndef HARDEN_H
#define HARDEN_H

#include <stdbool.h>

#include "base/err.h"

/* A seccomp filter for all threads from now on: no process_vm_writev, and no ptrace but,
 * with @trace, what the tracer does: none of it writes. 0 or -errno with a sentence.
 * Children inherit it: start commands before. */
int harden_read_only(bool trace, struct err *err);

#endif
