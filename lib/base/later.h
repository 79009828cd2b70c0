/* SPDX-License-Identifier: MIT
 *
 * later - work that may never end (a file on a dead mount), in a thread of its own.
 */
#ifndef LATER_H
#define LATER_H

#include <stdbool.h>

struct later;
struct quota;

/* Begin run(@arg), as one of @quota' QUOTA_THREADS. When it is done and later_release() was
 * called, drop(@arg) is: in whichever thread is last. NULL: no thread, or too many that do not
 * end. */
struct later *later_start(struct quota *quota, void (*run)(void *arg), void (*drop)(void *arg),
			  void *arg);

/* Wait at most @ms. True if it is done: then what it left in @arg can be used and taken out.
 */
bool later_wait(struct later *l, int ms);

/* Let it go, done or not; NULL is allowed. */
void later_release(struct later *l);

#endif
