/* SPDX-License-Identifier: MIT
 *
 * rights - what to say to who lacks a right.
 */
#ifndef RIGHTS_H
#define RIGHTS_H

#include <stddef.h>

/* "run as root, or with @caps", and to who is root that it lacks them. Into @buf, which is
 * returned. */
const char *rights_wanted(char *buf, size_t size, const char *caps);

#endif
