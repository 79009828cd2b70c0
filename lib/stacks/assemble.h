/* SPDX-License-Identifier: MIT
 *
 * assemble - a stack of frames as outputs get it: kernel, native and Python frames, named,
 * without the interpreter's internals, marked where it is not the whole truth.
 *
 * Owns what names them: profile (Python), spaces, symbolizer and unwinder (native). One user
 * thread.
 */
#ifndef ASSEMBLE_H
#define ASSEMBLE_H

#include "stacks/native.h"
#include "stacks/profile.h"
#include "sample/sample.h"

struct assembler_config {
	bool native;			     /* native frames are wanted */
	bool full;			     /* the interpreter's internals are wanted too */
	bool names;			     /* native and kernel frames get their names */
	bool ids;			     /* mapped files get their build-ids */
	bool stays;			     /* SESSION_STAYS */
	const struct unwind_other *unwinder; /* of them, instead of ours; or NULL */
	struct stats *stats;		     /* borrowed */
	size_t memory;			     /* that all this may take, roughly; 0: no bound */
	size_t file_memory;		     /* session.file_memory */
	size_t files_held;		     /* session.files_held */
	const char *files;     /* spaces_elsewhere(); NULL: as the processes see them */
	struct places *places; /* where native frames are noted, borrowed; or NULL */
	struct file_helper *file_helper; /* reads mapped files, borrowed; NULL: we do */
	const struct kernel_names *kernel_names; /* symbolizer_asks() */
};

struct assembler;

/* NULL: no memory. */
struct assembler *assembler_create(const struct assembler_config *c);
void assembler_destroy(struct assembler *a);

/* Where code copies go. */
struct profile *assembler_profile(struct assembler *a);

/* Keep the address spaces up to date, in time order with the samples; as spaces_side(). */
void assembler_side(struct assembler *a, struct side *side);

/* At intervals, now_ns() is @now: see spaces_tidy(). */
void assembler_tidy(struct assembler *a, uint64_t now);

/* As spaces_without_python(). */
bool assembler_without_python(struct assembler *a, pid_t pid);

/* What a stack is made of. All borrowed. */
struct assemble_input {
	enum provenance prov;
	uint64_t leaf; /* the user address of the event; 0: none */
	const uint64_t *kernel;
	uint32_t n_kernel;
	const struct pystack_frame *python; /* native.n_python */
	bool undecided; /* torn, for nobody knows whether its program had an interpreter */
	bool truncated; /* older ones were not read: "[truncated]" stands in their place */
	struct native_input native; /* regs NULL: there are no native frames but the leaf */
};

/* @ret: valid until the next call. in->prov of one undecided becomes PROV_NOPYTHON where the
 * whole native stack shows that the thread runs no Python. It becomes PROV_TORN, counted,
 * where there is no Python frame and yet an activation of the evaluation loop among the native
 * ones: the leaf, if these are not wanted. False: a Python frame's code was never noted, which
 * must not happen. */
bool assemble(struct assembler *a, struct assemble_input *in, struct stack *ret);

#endif
