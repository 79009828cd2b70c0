/* SPDX-License-Identifier: MIT
 *
 * rights - what to say to who lacks a right.
 */
#ifndef RIGHTS_H
#define RIGHTS_H

#include <stdbool.h>
#include <stddef.h>

/* True: the calling thread has this capability (linux/capability.h). */
bool rights_have(unsigned cap);

/* "run as root, or with @caps" (the names of some), and to who is root that it lacks them, or
 * has them and is refused by something else. What else one may do can follow behind a comma.
 * Into @buf, which is returned. */
const char *rights_wanted(char *buf, size_t size, const char *caps);

#endif
