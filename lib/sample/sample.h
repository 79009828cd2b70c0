/* SPDX-License-Identifier: MIT
 *
 * sample - the values that flow through the program, left to right.
 *
 * A sample is decoded from the ring (perf_decode), gets its Python frames and
 * provenance while the thread is held (capture), becomes a stack of named frames
 * in the resolver, and is handed to the sinks. Everything a sink sees is
 * borrowed for the call.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"
#include "sys/cpus.h"
#include "remote_mem.h"

enum { SESSION_MAX_EVENTS = 16 };
/* Frames of a stack, from the leaf: kernel.perf_event_max_stack where nobody changed it. */
enum { PERF_SHOWS = 127 };

struct places;
struct stats;

/* docs/EXACTNESS.md, "Why a stack is exact"; README.md, "Reading the result". */
enum provenance { PROV_EXACT, PROV_LATE, PROV_TORN, PROV_NOPYTHON, PROV_N };

/* One sampled event, as it was really opened. */
struct event_info {
	char name[256];		     /* as the user wrote it; the fallback's own name */
	struct perf_event_attr attr; /* as chosen; perf_event_final() makes what is opened */
};

/* How one is opened, besides its attr. */
struct event_how {
	uint8_t leader; /* of its group: index + 1, also the leader's own; 0: no group */
	bool led;	/* takes no samples: counted at those of the leader */
	bool varies;	/* each sample has a weight, which is its period */
	bool read;	/* leads one that is counted so */
	bool summed;	/* one of its samples is as many as its period says: of folded stacks */
	bool probe;	/* an instruction of the target's that is a breakpoint meanwhile */
	bool jumps;	/* that instruction goes elsewhere */
	bool some_cpus; /* only on these */
	bool on_cpus;	/* its samples come from an event on each CPU; threads only count it */
	struct cpus cpus;
};

/* What is true for the whole recording. Lives as long as the sinks. */
struct session {
	struct event_info events[SESSION_MAX_EVENTS];
	struct event_how how[SESSION_MAX_EVENTS];
	size_t n_events;
	const char *capture;	 /* "preempt", "stop", "async" */
	const char *capture_why; /* why not a better one, or "" */
	const char *place;	 /* where events count, and why: a sentence for -v */
	int argc;
	char **argv;	   /* the command line, for the header */
	_Atomic uint64_t start_ns; /* CLOCK_MONOTONIC; outputs may see it move on at the start */
	uint64_t epoch_ns; /* UNIX time when samples' clock was 0; 0: not known */
	int64_t since;	   /* seconds of the epoch: younger files may not be what ran; 0: unknown */
	unsigned flags;	   /* enum session_flags */
	uint32_t shown;	   /* perf.data: frames of a stack that perf shows; 0: all are kept */
	int compress;	   /* perf.data: level of zstd; 0: none */
	bool no_cache;	   /* perf.data: no copy of its symbols in ~/.debug, but for streams */
	/* perf.data: where and how a recording that is read was made (perf_file_told()); empty:
	 * it is made here and now. Borrowed. */
	struct bytes told;
	/* Bytes that names and stacks may take in memory, roughly; 0: no bound. What is
	 * sampled first when it is reached is shown as "[unnamed]". Maps of code may take a
	 * quarter as many besides. */
	size_t memory;
	/* What symbols and unwind rows of the files on stacks may take, where their part of
	 * that is too little. */
	size_t file_memory;
	size_t files_held; /* so many of them may be open until a stack asks for them */
	/* What befalls samples is counted here. Borrowed, never NULL. */
	struct stats *stats;
	/* Files that are written whole are kept readable meanwhile: a copy at most so often.
	 * 0: they are written at the end. */
	unsigned copy_ms;
	/* Where native frames' code is noted, to get its lines; NULL: without. Borrowed. */
	struct places *places;
	/* Texts that readers and outputs share, which stay longer than both. NULL: each has its
	 * own. Borrowed. */
	struct strtab *texts;
	/* Reads the files of targets; NULL: we do. Borrowed. */
	struct file_helper *file_helper;
	/* The end has been asked for: nothing waits for who reads an output. May be NULL. */
	const struct stop *stop;
};
/* The number that event_ids has for samples of event @e which threads take although CPUs will;
 * the witness's is n_events. */
static inline uint32_t session_early_number(const struct session *s, size_t e)
{
	return (uint32_t)(s->n_events + 1 + e);
}

/* The numbers are on tapes. */
enum session_flags {
	SESSION_LINES = 1 << 0,	     /* folded: file:line, else file */
	SESSION_THREADS = 1 << 1,    /* keep threads apart */
	SESSION_PERIOD = 1 << 2,     /* folded: weight is the period */
	SESSION_KERNEL = 1 << 3,     /* kernel frames were asked for and allowed */
	SESSION_ONLY_EXACT = 1 << 4, /* text outputs keep exact samples only */
	SESSION_ONLY_LATE = 1 << 5,  /* text outputs keep late samples only */
	SESSION_COUNTED = 1 << 6,    /* a counter proves that no user instruction ran */
	SESSION_REGISTERS =
		1 << 7,		   /* a thread's registers as it is stopped, or leaves, prove it */
	SESSION_COMPARED = 1 << 8, /* event 1 is what event 0 was in another recording */
	SESSION_ASYNC = 1 << 10, /* behind a running asyncio task come those that await it */
	SESSION_ONE_NAME = 1 << 12, /* with SESSION_ASYNC: tasks that asyncio named have one name */
	SESSION_WALL = 1 << 11,	 /* waits are samples, and periods times: ns */
	SESSION_FULL_PATHS = 1 << 9, /* folded: whole paths of Python files */
	SESSION_GIL = 1 << 13,	     /* samples tell of the GIL */
	SESSION_STAYS = 1 << 14,     /* what is sampled does not end before we do */
	SESSION_PROCESSES = 1 << 15, /* folded stacks that are read begin with their process */
};

/* One kernel sample, decoded, and what capture found. */
struct sample {
	uint64_t time;	 /* CLOCK_MONOTONIC, ns */
	uint64_t period; /* event counts this sample stands for */
	uint64_t ip, addr;
	pid_t pid, tid;
	uint32_t cpu, event; /* event: index into session.events */
	uint16_t misc;	     /* perf_event_header.misc: cpumode */
	enum provenance prov;
	uint8_t gil;	  /* enum pygil_has; with SESSION_GIL */
	bool truncated;	  /* Python part cut, mostly by --max-frames */
	uint64_t late_ns; /* from @time to the end of the walk */
};

/* A Python function, interned for the whole recording: equal (qualname, file,
 * firstline, min, max) is one pointer. Strings are valid UTF-8 of any
 * characters, newlines too, owned by the table that made it: outputs filter what theirs can't
 * hold. */
enum { PYFUNC_NAME_MAX = 16384, PYFUNC_FILE_MAX = 8192 }; /* bytes without the NUL */
struct pyfunc {
	const char *qualname, *file; /* file as co_filename has it, or absolute */
	int firstline;		     /* co_firstlineno */
	int min, max;		     /* lines of its code, min <= max, both >= 0 */
	uint32_t index;		     /* 0, 1, 2 ... in the order of first sight */
	bool label; /* no function, but a marker's name: outputs never get it */
};

/* The numbers are on tapes. */
enum frame_kind { FRAME_KERNEL, FRAME_NATIVE, FRAME_PYTHON, FRAME_MARKER };

struct frame {
	enum frame_kind kind;
	uint64_t ip;		   /* KERNEL, NATIVE: the address */
	const struct pyfunc *func; /* PYTHON */
	int line;		   /* PYTHON: 0 unknown */
	/* MARKER: "[late]"; KERNEL, NATIVE: symbol if a sink SINK_NEEDS_NAMES, else NULL. The
	 * same pointer is the same text for the whole recording. */
	const char *name;
	/* NATIVE: the mapped file's name, "libc.so.6", where there is a @name; NULL: unknown.
	 * The same pointer is the same text, as above. */
	const char *file;
	uint32_t place; /* NATIVE: in session.places, 0: not there */
};

/* Innermost first: kernel frames, then user frames. */
struct stack {
	size_t n;
	const struct frame *frames;
	/* Not 0: stacks of the same number are equal, and sinks with SINK_KNOWS_STACKS get the
	 * frames of the first one only. */
	uint32_t same;
};

/* What else happens in the target, in time order with the samples. The numbers are on tapes.
 */
enum side_kind { SIDE_COMM, SIDE_MMAP, SIDE_FORK, SIDE_EXIT, SIDE_LOST, SIDE_THROTTLE };

struct side {
	enum side_kind kind;
	uint64_t time;
	pid_t pid, tid;
	uint32_t cpu;
	bool announced; /* not by the kernel, but by us: what was before */
	union {
		struct {
			const char *name;
			bool exec;
			/* What the program calls the thread: the one that had the number at
			 * @until, and may have begun since the record's time. */
			bool thread;
			uint64_t until;
		} comm;
		struct {
			uint64_t addr, len, pgoff, ino, ino_generation;
			uint32_t maj, min, prot, flags;
			const char *path; /* as the target sees it; "[vdso]", "//anon" */
			bool kernel;	  /* the kernel's or a module's own map (pid -1) */
			const unsigned char *build_id; /* or NULL */
			size_t build_id_n;
			struct bytes file_id; /* the file's, where a sink needs it; or empty */
		} mmap;
		struct {
			pid_t ppid, ptid;
		} fork; /* FORK and EXIT */
		struct {
			uint64_t n; /* samples lost */
		} lost;
	} u;
};

#endif
