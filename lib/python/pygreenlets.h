/* SPDX-License-Identifier: MIT
 *
 * pygreenlets - the greenlets of a Python process that are parked: no thread runs them.
 *
 * No list has them, so the lists of the garbage collector are gone through, of which each
 * node must lead back to the one before. From 3.13 on the process tells where its collector is,
 * and how large, by which its lists are known. An object is a greenlet if its type is, or derives
 * from, greenlet.greenlet; it is parked if what it keeps has a frame object among its words.
 * For a thread of ours that may wait, of a process that runs meanwhile.
 */
#ifndef PYGREENLETS_H
#define PYGREENLETS_H

#include "pyframe_walk.h"

enum {
	PYGREENLETS_MAX = 1 << 16,     /* greenlets */
	PYGREENLETS_OBJECTS = 4 << 20, /* of all kinds, that are looked at */
	PYGREENLET_FRAMES = 1024,
};

struct pygreenlets {
	raddr *at; /* owned, ascending */
	size_t n, cap;
	bool cut; /* some were left out, or came and went */
};

void pygreenlets_deinit(struct pygreenlets *g);

/* True: they can be found in builds like this one. */
bool pygreenlets_known(const struct pylayout *l);

/* All of all interpreters. 0; -ENOTSUP: this greenlet is laid out in a way that is not known;
 * -ENODATA: so is the garbage collector; or a read error. @m keeps pages; what was there is
 * forgotten. */
int pygreenlets_find(struct rmem *m, const struct pylayout *l, raddr runtime,
		     uint64_t until_ns, struct pygreenlets *ret);

/* The frames of a parked one, outermost first; none if it has not begun, runs, or has ended.
 * How many, or -EBADMSG, or a read error. */
int pygreenlets_read(struct rmem *m, const struct pylayout *l,
		     const struct pywalk_layout *walk, raddr at,
		     struct pyframe ret[PYGREENLET_FRAMES]);

#endif
