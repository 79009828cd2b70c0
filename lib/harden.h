/* SPDX-License-Identifier: MIT
 *
 * harden - what this process can no longer do: change another one.
 */
#ifndef HARDEN_H
#define HARDEN_H

#include "err.h"

/* A seccomp filter for all threads from now on: no process_vm_writev, no ptrace. 0 or
 * -errno with a sentence. Children inherit it: start commands before. */
int harden_read_only(struct err *err);

#endif
