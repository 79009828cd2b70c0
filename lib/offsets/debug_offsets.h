/* SPDX-License-Identifier: MIT
 *
 * debug_offsets - _Py_DebugOffsets bytes (CPython 3.13+, the first field of
 * _PyRuntime; Include/internal/pycore_debug_offsets.h) into a struct pylayout.
 *
 * Pure. The struct's slots move between minor versions (fields are inserted in
 * the middle), so each minor has its own slot table here.
 */
#ifndef DEBUG_OFFSETS_H
#define DEBUG_OFFSETS_H

#include "offsets/pylayout.h"

enum { DEBUG_OFFSETS_MAX = 1024 }; /* enough bytes for every known version */

/* What can be said before a table is chosen. @raw is the start of _PyRuntime or
 * of the .PyRuntime section. *@version is PY_VERSION_HEX (0x030d00f0).
 * 0, or -ENOENT where the cookie "xdebugpy" is not there. */
int debug_offsets_version(struct bytes raw, uint32_t *version, bool *free_threaded);

/* @ret = a copy of @meanings, the table of this version with the GIL or of that without it,
 * whose offsets are those that @raw tells, checked (pylayout_check). 0; -ENOENT no cookie;
 * -EBADMSG implausible, with a sentence. */
int debug_offsets_parse(struct bytes raw, const struct pylayout *meanings,
			struct pylayout *ret, struct err *err);

/* The garbage collector's state in an interpreter: where it lies, its size, and where in it is
 * told whether it collects. */
struct gc_told {
	uint32_t at, size, collecting;
};

/* 0; -ENOENT no cookie; -EBADMSG another version, or implausible. */
int debug_offsets_gc(struct bytes raw, struct gc_told *ret);

/* Does @raw, the start of another _PyRuntime, tell the layout @l? True where versions like its
 * own tell nothing. */
bool debug_offsets_agree(struct bytes raw, const struct pylayout *l);

#endif
