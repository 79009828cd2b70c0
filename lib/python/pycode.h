/* SPDX-License-Identifier: MIT
 *
 * pycode - what a code object says: qualified name, file, first line, and the
 * line of an instruction.
 *
 * Two steps. pycode_copy() runs while the target thread is held: it copies the
 * raw bytes and decodes nothing. The rest is pure and runs later, elsewhere.
 * Code addresses are reused, so a copy carries a fingerprint that is compared
 * with the memory at each later use.
 */
#ifndef PYCODE_H
#define PYCODE_H

#include "offsets/pylayout.h"
#include "remote_mem.h"

enum {
	PYCODE_NAME_MAX = 16384,  /* bytes kept of a qualified name: 4096 of any characters */
	PYCODE_FILE_MAX = 4096,	  /* bytes kept of a file name */
	PYCODE_TABLE_MAX = 49152, /* bytes kept of a line table */
	PYCODE_COPY_MAX = 69 * 1024, /* sizeof(struct pycode_copy) + all of the above */
	PYCODE_HEAD_MAX = PYLAYOUT_CODE_MAX,
};

/* Identifies the code object that lives at an address now. Two words: the
 * object's own version counter where it has one (co_version, 3.12+) mixed with
 * its header's pointers and first line; without a counter also the contents of
 * name, file and line table. Equal fingerprints mean: the same code. */
struct pycode_print {
	uint64_t a, b;
};

/* In pycode_copy.flags, where no code has it: no code at all, but a name that is shown among
 * frames. */
#define PYCODE_LABEL (UINT32_C(1) << 31)

enum { PYCODE_NAME_CUT = 1, PYCODE_FILE_CUT = 2, PYCODE_TABLE_CUT = 4 };

/* A code object's raw copy; one flat block, so that it can be queued and kept on
 * a tape. Strings are raw characters of @kind bytes each (1: Latin-1, 2, 4). */
struct pycode_copy {
	struct pycode_print print;
	uint64_t at; /* its address, for the record */
	int32_t firstlineno;
	uint32_t flags;			  /* co_flags, or PYCODE_LABEL */
	uint32_t bytecode;		  /* offset of the bytecode in the object, bytes */
	uint32_t firsttraceable;	  /* in code units of 2 bytes */
	uint32_t name_n, file_n, table_n; /* bytes, in this order in data[] */
	uint8_t name_kind, file_kind, cut, linetable;
	unsigned char data[];
};

/* Size of the block in bytes. */
static inline size_t pycode_copy_size(const struct pycode_copy *c)
{
	return sizeof(*c) + c->name_n + c->file_n + c->table_n;
}

/* Bytes of a frame on the data stack, from the code object's @head; 0 where the layout does
 * not tell. */
uint32_t pycode_frame_size(const struct pylayout *l, const unsigned char *head);

/* The fingerprint from @head: the code object's first layout.code.size bytes
 * (at most PYCODE_HEAD_MAX). Reads through @m only where the version has no
 * counter, and only name, file and table. 0 or a read error. */
int pycode_fingerprint(struct rmem *m, const struct pylayout *l, const unsigned char *head,
		       struct pycode_print *ret);

/* What pycode_fingerprint() will read first, for a batch: at most PYCODE_PARTS ranges
 * into @v (buf is NULL). Returns how many: none where the version has a
 * counter. */
enum { PYCODE_PARTS = 3 };
size_t pycode_fingerprint_reads(const struct pylayout *l, const unsigned char *head,
				struct rmem_vec v[PYCODE_PARTS]);

/* From 3.14 on, without the GIL, a thread runs a copy of the bytecode. *@instr, which points
 * into copy @index of the @length bytes of the code at @code, becomes what it would be in the
 * bytecode itself; what is in neither stays. Returns where its list of copies lies, 0: it was
 * not looked at. */
raddr pycode_instr(struct rmem *m, const struct pylayout *l, raddr code, uint32_t length,
		   int32_t index, raddr *instr);

/* Copy the code object at @code into @ret, a buffer of PYCODE_COPY_MAX bytes.
 * @head as above (already read by the caller). No allocation, at most 4 batched
 * reads. 0; -EFAULT; -EBADMSG: what lies there is no code object. */
int pycode_copy(struct rmem *m, const struct pylayout *l, raddr code,
		const unsigned char *head, struct pycode_copy *ret);

/* True: the block is whole and consistent (for blocks that came from a tape). */
bool pycode_copy_valid(const struct pycode_copy *c, size_t n);

/* Instead of lasti, up to 3.10: nothing of the code ran yet. Its line is the first one. */
#define PYCODE_BEGINS UINT32_MAX

/* Pure. Line of the instruction at @lasti bytes into the bytecode; 0 where the
 * table says "no line" or ends early. */
int pycode_line(const struct pycode_copy *c, uint32_t lasti);

/* Pure. Smallest and largest line of the whole function; both firstlineno for an
 * empty table. */
void pycode_line_range(const struct pycode_copy *c, int *min, int *max);

/* Pure. Name or file as UTF-8 into @buf, always terminated: all characters as they are,
 * control characters too, but U+FFFD for each NUL, each surrogate and what is no character at
 * all. The byte strings of 2.7 are taken for UTF-8. Returns bytes written without the NUL. */
size_t pycode_name(const struct pycode_copy *c, char *buf, size_t cap);
size_t pycode_file(const struct pycode_copy *c, char *buf, size_t cap);

/* Pure. The same of @n bytes at @at, characters of @kind bytes each (1, 2 or 4), with '?' for
 * all of these and for what printable() takes out. */
size_t pycode_utf8(const unsigned char *at, size_t n, uint8_t kind, char *buf, size_t cap);

#endif
