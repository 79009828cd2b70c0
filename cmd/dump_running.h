/* SPDX-License-Identifier: MIT
 *
 * dump_running - what threads that run were doing, by one sample of each.
 */
#ifndef CMD_DUMP_RUNNING_H
#define CMD_DUMP_RUNNING_H

#include <stdio.h>
#include <sys/types.h>

#include "process.h"

struct sample;
struct stack;

struct running {
	pid_t tid;
	char *text; /* its stack as dump prints it, owned; NULL: no exact sample came in time
		     */
};

/* Sample the @n threads of @pid for a fraction of a second, until there is one exact sample of
 * each; without the rights for that nothing is filled in. */
void dump_running(pid_t pid, enum process_native native, struct running *r, size_t n);

/* Print one frame a line to @to, innermost first. */
void dump_print(FILE *to, const struct stack *s);

#endif
