/* SPDX-License-Identifier: MIT
 *
 * frames - the records of .eh_frame and .debug_frame. Pure; every byte may be hostile.
 *
 * Formats: LSB core 10.6 (.eh_frame), DWARF 5, 6.4 (.debug_frame).
 */
#ifndef UNWIND_FRAMES_H
#define UNWIND_FRAMES_H

#include "base/cursor.h"

struct frames_section {
	struct bytes b;
	uint64_t at; /* its address in the file's own numbering */
	bool debug;  /* .debug_frame */
};

struct frames_record {
	size_t body, end; /* offsets in the section: behind its id; behind it all */
	size_t cie;	  /* of an FDE: where its CIE is */
	bool is_cie;
};

struct frames_cie {
	size_t at;
	bool sized;  /* FDEs have augmentation data */
	bool signal; /* its functions are entered by a signal, not by a call */
	unsigned enc;
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra;
	struct bytes ops;
};

struct frames_fde {
	uint64_t lo, size;
	struct bytes ops;
	uint64_t ops_at; /* their address, for what is relative to it */
};

/* The record at offset @at. 0, -ENODATA at the section's end, -EBADMSG. */
int frames_record(struct frames_record *ret, const struct frames_section *s, size_t at);

/* 0 or -EBADMSG. */
int frames_cie(struct frames_cie *ret, const struct frames_section *s, size_t at);
int frames_fde(struct frames_fde *ret, const struct frames_section *s,
	       const struct frames_record *rec, const struct frames_cie *cie);

/* An encoded address whose base is absolute or where it stands. */
uint64_t frames_address(struct cursor *c, unsigned enc, uint64_t section_at);

#endif
