/* SPDX-License-Identifier: MIT
 *
 * unprivileged - how a process of ours that reads foreign files gives up what it could harm
 * with, and what it may take at most.
 */
#ifndef UNPRIVILEGED_H
#define UNPRIVILEGED_H

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { UNPRIVILEGED_NOBODY = 65534 };

/* Nothing is left that a child could use or a program that it runs could get back: no
 * capability in any set. Where we are root, and may be somebody else, we are nobody, for all
 * that the kernel asks. It clears PR_SET_PDEATHSIG. 0 or -errno. */
int unprivileged_become(void);

/* The same, but we stay who we are, with those of our rights that are in @caps (a bit a
 * capability). 0 or -errno. */
int unprivileged_keep(uint64_t caps);

/* setrlimit() of both limits. What counts addresses or memory is not limited in a build with
 * ASan, which takes terabytes of addresses. */
void unprivileged_limit(int what, rlim_t n);

/* Start our program once more for @argv, which is to give up its rights: its standard input is
 * the other end of a SOCK_SEQPACKET, and when that is closed it is to end. Returns our end,
 * close-on-exec, or -errno. */
int unprivileged_start(char *const argv[], pid_t *pid);

#endif
