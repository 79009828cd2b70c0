/* SPDX-License-Identifier: MIT
 *
 * pynames - what the threads of a Python process are called: threading.Thread.name, of those
 * in threading._active.
 *
 * For a thread of ours that may wait, never while one of the target's is held: it takes tens
 * of reads. A name is the target's own word, of any length and with any character: here it is
 * UTF-8 without control characters, cut to PYNAME_MAX.
 */
#ifndef PYNAMES_H
#define PYNAMES_H

#include "python/pydict.h"

enum {
	PYNAME_MAX = 128,    /* bytes of a name with its NUL */
	PYNAMES_INTERPS = 8, /* interpreters that are looked at */
	PYNAMES_THREADS = 16384,
};

/* What is remembered of one interpreter from look to look. */
struct pynames_interp {
	raddr interp;
	struct pydict modules; /* sys.modules as it was without threading */
	raddr slot;	       /* where threading keeps _active; 0: not known */
	raddr active_at;       /* the dict that was there */
	struct pydict active;  /* as it was at the last look */
	/* Its entries since: a Thread (0: none, it has ended) and its number (0: not known).
	 * Owned; NULL: to be read. */
	struct pynames_thread {
		raddr at;
		uint32_t number;
	} * thread;
	uint32_t n_threads;
};

/* Of one process; zero at first. */
struct pynames {
	struct pynames_interp of[PYNAMES_INTERPS];
};

void pynames_deinit(struct pynames *p);

/* True: there is a way to read names in this build. */
bool pynames_known(const struct pylayout *l);

enum pynames_answer {
	PYNAMES_SAME,  /* no thread has come since the last look: nothing was read */
	PYNAMES_WHOLE, /* all names were found */
	PYNAMES_TORN,  /* something was in change: look again for the rest */
};

/* Who looks, and at what. */
struct pynames_look {
	/* Look if no thread has come, too: names may change. */
	bool all;
	/* May thread @native have another name than at the last look, which found it? NULL:
	 * each may. */
	bool (*may_differ)(void *arg, uint32_t native);
	/* Called for each thread that has a name. @native: Thread.native_id, the thread's
	 * number for the process itself, as it says. @name NULL: as it was. Who runs code in
	 * further interpreters may have another name there, which comes later. */
	void (*found)(void *arg, uint32_t native, const char *name);
	void *arg;
};

/* Look at the process's interpreters, with the runtime at @runtime; the main interpreter's
 * threads come first. */
enum pynames_answer pynames_look(struct rmem *m, const struct pylayout *l, raddr runtime,
				 struct pynames *p, const struct pynames_look *look);

#endif
