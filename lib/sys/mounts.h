/* SPDX-License-Identifier: MIT
 *
 * mounts - which paths lie on a file system that a program serves (FUSE). Where that takes a
 * request and does not answer, not even SIGKILL ends who waits, nor its process.
 */
#ifndef MOUNTS_H
#define MOUNTS_H

#include <stdbool.h>

/* Does a step on the way to the absolute @path, links followed, lead onto one that is mounted
 * below the root? @mountinfo: the text of /proc/self/mountinfo. Asks none of them. True too
 * where that can't be told. */
bool mounts_served(const char *mountinfo, const char *path);

#endif
