/* SPDX-License-Identifier: MIT
 *
 * pylayout - what must be known about one CPython build to read its stacks.
 *
 * Pure data. One const table per minor version, one file per version (py3_12.c),
 * designated initialisers only. A field left out is *absent*, not zero: offsets
 * are kept plus one, so that offset 0 (f_executable) and "no such field" differ.
 *
 * Two halves. Offsets: where a field lies; 3.13+ targets tell their own in
 * _Py_DebugOffsets (debug_offsets.h). Meanings: what a value says (owner enum,
 * pointer tags, line table kind, string state bits); no target tells these.
 */
#ifndef PYLAYOUT_H
#define PYLAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "base/err.h"

typedef struct {
	uint32_t plus1;
} pyoff;
#define AT(offset)           \
	{                    \
		(offset) + 1 \
	}

static inline bool pyoff_has(pyoff o)
{
	return o.plus1 != 0;
}

static inline uint32_t pyoff_get(pyoff o)
{
	return o.plus1 - 1;
}

enum py_linetable {
	PY_LNOTAB, /* 3.6 to 3.9: pairs of bytes, the line's one signed */
	PY_LINETABLE_310,
	PY_LOCATIONS_311,
	PY_LNOTAB_UNSIGNED, /* 2.7 */
};

/* Where an object whose type says so keeps its attributes, before the object or behind it. */
enum py_attrs {
	PY_ATTRS_NONE,	 /* not known */
	PY_ATTRS_BEFORE, /* 3.11: a pointer to their values, and one to a dict */
	PY_ATTRS_TAGGED, /* 3.12: either of them, values by a tag */
	PY_ATTRS_INLINE, /* 3.13 on: values behind the object, a pointer to a dict before it */
	PY_ATTRS_DICT,	 /* up to 3.10: a pointer to a dict, where its type says */
	PY_ATTRS_INLINE_BARE, /* as PY_ATTRS_INLINE without the GIL: no words of the garbage
				 collector's are between the pointer and the object */
};

/* Which attributes of a threading.Thread tell the thread's number and its name. */
enum py_thread_attrs {
	PY_THREAD_NATIVE, /* 3.8 on: _native_id is the number */
	PY_THREAD_IDENT,  /* 3.6, 3.7: _ident is the address of its struct pthread */
	PY_THREAD_27,	  /* 2.7: the same, of private names */
};

struct pylayout {
	uint16_t version;	      /* 0x030c is 3.12 */
	uint8_t micro_min, micro_max; /* verified against these micro versions */

	/* Offsets, in bytes. */
	struct {
		pyoff interp_head, main_thread, finalizing;
		/* 3.7 to 3.11: the GIL itself, and the thread state that has it. */
		pyoff gil, current;
	} runtime;
	struct {
		uint32_t size;
		pyoff next, id, threads_head; /* id: 3.7 on */
		pyoff threads_unique; /* threads.next_unique_id: grows with each new thread */
		/* func_state.next_version, u32 (3.12 on): grows with each new code object,
		 * until it would overflow, then it is 0 for good. Not told by a target, so
		 * absent unless its whole interpreter state is laid out as in the table. */
		pyoff code_versions;
		/* 3.12: no field but the variable _Py_next_func_version. */
		bool code_versions_global;
		pyoff modules; /* sys.modules; absent: names of threads are not read */
		pyoff gil;     /* 3.12 on: a pointer to its GIL */
	} interp;
	/* struct _gil_runtime_state. Absent: nothing is said of the GIL. size and switches
	 * (u64, grows when another thread takes it) may be unknown alone: then 0 and absent.
	 */
	struct {
		uint32_t size;
		pyoff holder, locked, switches;
	} gil;
	struct {
		uint32_t size;
		pyoff next, prev, interp, thread_id, native_tid, frame, cframe;
		pyoff datastack_chunk, status;
		pyoff exc_info; /* of the newest generator that runs, or inside the tstate */
		/* 3.15+: a pointer in the tstate to the sentinel frame below all
		 * others (embedded in _PyThreadStateImpl). A walk that arrives at
		 * that address has seen the whole stack; the sentinel's owner is
		 * owner_shim and its previous is NULL. */
		pyoff base_frame;
	} tstate;
	struct {
		pyoff current_frame, previous;
	} cframe; /* 3.11 and 3.12 only */
	struct {
		/* Up to 3.10 a PyFrameObject, of which the first bytes are read, up to
		 * f_lasti, which is instr, and a word behind it. */
		uint32_t size;
		pyoff code, previous, instr, localsplus, owner, is_entry;
		pyoff func;   /* 3.11: the PyFunctionObject */
		pyoff object; /* 3.11 on: the PyFrameObject, or NULL */
		/* 3.14 on, without the GIL: an int, which of the code's copies of its bytecode
		 * instr points into. */
		pyoff tlbc_index;
		pyoff stacktop; /* up to 3.13: an int, -1 in a frame that executes */
	} frame;
	/* A generator, up to 3.13. Its exc_state is what tstate.exc_info points to while it
	 * runs; exc_previous there is what it pointed to before. */
	struct {
		pyoff exc_state, exc_previous, frame;
	} gen;
	/* 3.11, whose code objects have no number of their own: a function's version,
	 * u32, where not 0, is given to no other function and taken away when its code
	 * is changed. */
	struct {
		pyoff code, version;
	} func;
	struct {
		uint32_t size; /* up to and without the bytecode */
		pyoff filename, name, qualname, linetable, firstlineno, flags;
		pyoff version, firsttraceable, bytecode;
		pyoff instructions; /* up to 3.10: the bytes object with the bytecode */
		/* 3.14 on, without the GIL: a pointer to a _PyCodeArray { size, entries[] },
		 * each entry NULL or a copy of the bytecode for one thread, the first the
		 * bytecode. */
		pyoff tlbc;
		pyoff stacksize, nlocalsplus; /* up to 3.13: the size of a frame */
	} code;
	struct {
		pyoff type, type_name, type_flags;
		/* tp_basicsize and ht_cached_keys: of types whose objects have attributes. */
		pyoff type_size, type_keys;
		pyoff type_dict; /* tp_dictoffset (up to 3.10) */
	} object;
	/* Dicts, their keys, modules, small integers: to read what threads are called. */
	struct {
		pyoff keys, values;
		/* 2.7: keys is the table itself; its size less one, and how many entries
		 * were ever used. */
		pyoff mask, fill;
	} dict;
	struct {
		pyoff index_log2, kind, n, entries;
		pyoff size; /* up to 3.10, whose entries are all general: of the index */
	} dictkeys;
	struct {
		pyoff dict, state; /* state, from 3.14 on: a pointer to what C keeps for it */
	} module;
	struct {
		pyoff digit;
	} integer;
	/* 2.7: no state; what names code is a byte string. */
	struct {
		pyoff length, state, hash;
		uint32_t ascii_data, compact_data; /* header sizes; characters follow */
	} str;
	struct {
		pyoff size, data;
	} bytes;

	/* Meanings. */
	uint8_t owner_shim; /* smallest owner value of a frame that runs no code, 0: none */
	uint8_t owner_generator;
	uint8_t code_tag_mask; /* low bits of frame.code to clear */
	uint8_t active_bit;    /* number of the bit set in the active tstate.status, 0: none */
	/* Shift and bit numbers in the u32 at str.state; kind is 3 bits. */
	uint8_t str_kind_shift, str_compact_bit, str_ascii_bit;
	uint8_t lasti_unit; /* up to 3.10: frame.instr counts so many bytes; 0: it is a pointer
			     */
	bool free_threaded;
	enum py_attrs attrs;
	uint8_t attrs_first; /* bytes before the first of such values */
	uint8_t int_one;     /* the word before integer.digit of a positive int of one digit;
				0: an int is a C long at integer.digit */
	enum py_thread_attrs thread_attrs;
	enum py_linetable linetable;
};

/* pylayout_check() refuses what is larger: what is read by a layout has room for so many bytes. */
enum {
	PYLAYOUT_FRAME_MAX = 128,
	PYLAYOUT_CODE_MAX = 256,   /* a code object before its bytecode */
	PYLAYOUT_HEADER_MAX = 128, /* a string or bytes object before its characters */
	PYLAYOUT_CFRAME_MAX = 24,  /* a _PyCFrame, 3.11 and 3.12 */
};

/* Bytes of an object before its own fields. */
static inline uint32_t pylayout_head(const struct pylayout *l)
{
	return pyoff_get(l->object.type) + 8;
}

/* The table for @version (0x030c for 3.12), or NULL: never the nearest guess. */
const struct pylayout *pylayout_find(uint16_t version);
/* The same of builds without the GIL. */
const struct pylayout *pylayout_find_free_threaded(uint16_t version);

/* Every table of a build with the GIL, oldest first; *@n is their number. For --version and
 * tests. */
const struct pylayout *const *pylayout_all(size_t *n);

/* Are the offsets plausible: inside their structs, fields not overlapping in
 * ways no C compiler would make, everything the walker needs present? For
 * tables and for what came out of a target. 0, or -EBADMSG with a sentence. */
int pylayout_check(const struct pylayout *l, struct err *err);

#endif
