/* SPDX-License-Identifier: MIT
 *
 * memfile - files in memory, which nobody executes.
 */
#ifndef MEMFILE_H
#define MEMFILE_H

#include <stdbool.h>

/* A new one, close-on-exec, called @name in /proc; with @sealable others can be kept from
 * changing it. A descriptor, or -1 and errno. */
int memfile_new(const char *name, bool sealable);

#endif
