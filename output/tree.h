/* SPDX-License-Identifier: MIT
 *
 * tree - stacks added up in memory as a tree of frames, for the formats that are written at
 * the end of a recording.
 *
 * Memory grows with distinct frames, branches and threads, not with samples. A format's
 * private data is a struct tree: its callbacks are tree_begin, tree_side, tree_sample,
 * tree_places and tree_end, and its copy calls tree_copy() with what writes the file.
 * Resolver's thread.
 */
#ifndef OUTPUT_TREE_H
#define OUTPUT_TREE_H

#include "base/idmap.h"
#include "base/strtab.h"
#include "buf.h"
#include "comms.h"
#include "sink.h"
#include "tree_nodes.h"

/* A function: Python's, or one with the name that a symbol or marker has. */
struct tree_func {
	uint32_t name, file; /* in @strings; @file may be the empty string */
	int first;	     /* the line that it begins at; 0: not known */
	enum frame_kind kind;
	uint32_t frame; /* the first at one of its lines, IDMAP_NONE: none yet; further are in @lines */
};

/* A function at one of its lines. */
struct tree_frame {
	uint32_t func;	/* in @funcs */
	int line;	/* 0: not known */
	uint32_t place; /* in session.places; of no node after tree_places() */
	bool inlined;	/* into its caller */
};

/* A thread under one name, the kernel's or one that the program gave it. */
struct tree_thread {
	pid_t pid, tid;
	uint32_t process, name; /* in @strings: the leader's name, and the thread's own */
	uint32_t before;	/* the same thread under the name that it had before, or NONE */
	bool ended;
};

/* Samples of equal stack, thread, event and provenance, in the order of first sight. */
struct tree_row {
	uint32_t node, thread, event;
	enum provenance prov;
	uint64_t samples;
	uint64_t count;	 /* the same, or with SESSION_PERIOD what they stand for */
	uint64_t period; /* occurrences of the event that they stand for */
	uint64_t time;	 /* of the first, ns */
};

/* What is known of equal stacks. */
struct tree_same {
	uint32_t node; /* 0: not yet */
	uint32_t row;  /* that one of them was added to */
};

/* The node of a frame below another one, as found last. */
struct tree_step {
	uint64_t what; /* the frame */
	uint32_t parent, node;
};

struct tree {
	struct strtab *strings;
	bool shared;	/* they are the session's */
	uint32_t empty; /* the empty string */
	struct buf funcs, frames, threads, rows;
	struct tree_nodes nodes;
	struct tree_step *steps; /* by what they are of */
	struct buf python;		   /* a function's number and 1 each, by pyfunc.index */
	struct idmap others;		   /* name and file to function; Python's if @compared */
	struct idmap lines, named, placed; /* function and line, name, place, to frame */
	struct buf first_row;		   /* a row's number and 1 each, by node; 0: none */
	struct idmap row_of, thread_of;	   /* further rows of a node */
	struct buf same; /* struct tree_same each, by stack.same */
	struct comms comms;
	size_t comm_bytes; /* that names of theirs took */
	uint64_t samples[SESSION_MAX_EVENTS]; /* kept ones, by event */
	uint64_t first_ns, last_ns;	      /* times of samples */
	uint32_t last_row;		      /* that the last sample was added to */
	uint32_t last_thread; /* of the last sample, NONE: to be looked up */
	uint32_t unnamed;     /* the node that stands for all without room; 0: not yet */
	bool full;
	bool compared; /* SESSION_COMPARED: Python functions of one name and file are one */
	bool by_file; /* native functions are told apart by the file of their code, too */
};

static inline const struct tree_func *tree_func(const struct tree *t, uint32_t i)
{
	return (const struct tree_func *)(const void *)t->funcs.at + i;
}

static inline const struct tree_frame *tree_frame(const struct tree *t, uint32_t i)
{
	return (const struct tree_frame *)(const void *)t->frames.at + i;
}

static inline const struct tree_node *tree_node(const struct tree *t, uint32_t i)
{
	return tree_nodes_at(&t->nodes, i);
}

static inline struct tree_row *tree_row(const struct tree *t, size_t i)
{
	return (struct tree_row *)(void *)t->rows.at + i;
}

static inline const struct tree_thread *tree_thread(const struct tree *t, uint32_t i)
{
	return (const struct tree_thread *)(const void *)t->threads.at + i;
}

static inline const char *tree_text(const struct tree *t, uint32_t id)
{
	return strtab_get(t->strings, id);
}

size_t tree_n_funcs(const struct tree *t);
size_t tree_n_frames(const struct tree *t);
size_t tree_n_nodes(const struct tree *t);
size_t tree_n_threads(const struct tree *t);
size_t tree_n_rows(const struct tree *t);

int tree_begin(struct sink *s, struct err *err);
int tree_side(struct sink *s, const struct side *side);
int tree_sample(struct sink *s, const struct sample *smp, const struct stack *stk);

/* Give places their lines: nothing is added later. 0 or -errno. */
int tree_places(struct sink *s);
/* Rows of events with adapted periods have weights, and get numbers of samples in the same
 * proportion. 0 or -errno. */
int tree_counts(struct sink *s);
/* Until then: a row's number of samples is its count times this, which is 1 for other events. */
double tree_scale(const struct tree *t, const struct session *session, uint32_t event);
/* Have @write put all into @s->out, rows with their counts. The tree stays as it was. 0 or
 * -errno. */
int tree_copy(struct sink *s, int (*write)(struct sink *s));
int tree_end(struct sink *s, struct err *err);
void tree_deinit(struct tree *t);
/* Nothing is added any more: free what only finds what is there already. To be emptied in any
 * case. */
void tree_complete(struct tree *t);

/* What comes is of another recording, whose functions, names and threads have their own
 * numbers. */
void tree_other(struct tree *t);

/* The frames of the node @i, leaf first, in *@ids, which grows as needed; how many. 0 also
 * when memory is out (@ids->oom). */
size_t tree_path(const struct tree *t, uint32_t i, struct buf *ids);

/* "event: thread" as people tell them apart: "python3-10/worker-11". At most @cap - 1 bytes.
 */
void tree_thread_text(const struct tree *t, uint32_t thread, char *buf, size_t cap);

/* True: what is counted of @event is time, in ns. */
bool tree_is_time(const struct session *session, uint32_t event);

/* One word for the frame's kind: "python", "native", "kernel", "gc", "marker". */
const char *tree_kind(const struct tree *t, uint32_t func);

#endif
