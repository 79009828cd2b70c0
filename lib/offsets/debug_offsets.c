/* SPDX-License-Identifier: MIT
 *
 * debug_offsets - where each minor version keeps which offset in its
 * _Py_DebugOffsets, and what follows from those it does not keep.
 *
 * Byte positions: Include/internal/pycore_runtime.h (3.13: struct _Py_DebugOffsets)
 * and pycore_debug_offsets.h (3.14, 3.15). Every slot is a uint64_t.
 */
#include "offsets/debug_offsets.h"

#include <errno.h>

enum slot {
	RUNTIME_FINALIZING,
	RUNTIME_HEAD,
	INTERP_SIZE,
	INTERP_ID,
	INTERP_NEXT,
	INTERP_THREADS,
	INTERP_GC,
	INTERP_MODULES,
	INTERP_GIL,
	GIL,
	GIL_LOCKED,
	GIL_HOLDER,
	TSTATE_SIZE,
	TSTATE_PREV,
	TSTATE_NEXT,
	TSTATE_INTERP,
	TSTATE_FRAME,
	TSTATE_BASE_FRAME,
	TSTATE_THREAD_ID,
	TSTATE_NATIVE_TID,
	TSTATE_DATASTACK,
	TSTATE_STATUS,
	FRAME_SIZE,
	FRAME_PREVIOUS,
	FRAME_CODE,
	FRAME_INSTR,
	FRAME_LOCALSPLUS,
	FRAME_OWNER,
	FRAME_TLBC_INDEX,
	CODE_FILENAME,
	CODE_NAME,
	CODE_QUALNAME,
	CODE_LINETABLE,
	CODE_FIRSTLINENO,
	CODE_ARGCOUNT,
	CODE_LOCALSPLUSNAMES,
	CODE_BYTECODE,
	CODE_TLBC,
	OBJECT_TYPE,
	TYPE_NAME,
	TYPE_FLAGS,
	BYTES_SIZE,
	BYTES_DATA,
	STR_STATE,
	STR_LENGTH,
	STR_ASCII,
	STR_COMPACT,
	GC_SIZE,
	GC_COLLECTING,
	SLOT_N,
};

/* Position 0 is the cookie's, so 0 stands for "this version has no such slot". */
struct minor {
	uint16_t version;
	uint16_t at[SLOT_N];
};

static const struct minor minors[] = { {
	.version = 0x030d,
	.at = {
		[RUNTIME_FINALIZING] = 32, [RUNTIME_HEAD] = 40,
		[INTERP_SIZE] = 48, [INTERP_ID] = 56, [INTERP_NEXT] = 64, [INTERP_THREADS] = 72,
		[INTERP_GC] = 80, [INTERP_MODULES] = 88,
		[INTERP_GIL] = 112, [GIL] = 120, [GIL_LOCKED] = 136, [GIL_HOLDER] = 144,
		[TSTATE_SIZE] = 152, [TSTATE_PREV] = 160, [TSTATE_NEXT] = 168,
		[TSTATE_INTERP] = 176, [TSTATE_FRAME] = 184,
		[TSTATE_THREAD_ID] = 192, [TSTATE_NATIVE_TID] = 200,
		[TSTATE_DATASTACK] = 208, [TSTATE_STATUS] = 216,
		[FRAME_SIZE] = 224, [FRAME_PREVIOUS] = 232, [FRAME_CODE] = 240,
		[FRAME_INSTR] = 248, [FRAME_LOCALSPLUS] = 256, [FRAME_OWNER] = 264,
		[CODE_FILENAME] = 280, [CODE_NAME] = 288, [CODE_QUALNAME] = 296,
		[CODE_LINETABLE] = 304, [CODE_FIRSTLINENO] = 312,
		[CODE_ARGCOUNT] = 320, [CODE_LOCALSPLUSNAMES] = 328,
		[CODE_BYTECODE] = 344,
		[OBJECT_TYPE] = 360, [TYPE_NAME] = 376, [TYPE_FLAGS] = 392,
		[BYTES_SIZE] = 520, [BYTES_DATA] = 528,
		[STR_STATE] = 544, [STR_LENGTH] = 552, [STR_ASCII] = 560,
		[GC_SIZE] = 568, [GC_COLLECTING] = 576,
	},
}, {
	.version = 0x030e,
	.at = {
		[RUNTIME_FINALIZING] = 32, [RUNTIME_HEAD] = 40,
		[INTERP_SIZE] = 48, [INTERP_ID] = 56, [INTERP_NEXT] = 64, [INTERP_THREADS] = 72,
		[INTERP_GC] = 88, [INTERP_MODULES] = 96,
		[INTERP_GIL] = 120, [GIL] = 128, [GIL_LOCKED] = 144, [GIL_HOLDER] = 152,
		[TSTATE_SIZE] = 176, [TSTATE_PREV] = 184, [TSTATE_NEXT] = 192,
		[TSTATE_INTERP] = 200, [TSTATE_FRAME] = 208,
		[TSTATE_THREAD_ID] = 216, [TSTATE_NATIVE_TID] = 224,
		[TSTATE_DATASTACK] = 232, [TSTATE_STATUS] = 240,
		[FRAME_SIZE] = 248, [FRAME_PREVIOUS] = 256, [FRAME_CODE] = 264,
		[FRAME_INSTR] = 272, [FRAME_LOCALSPLUS] = 280, [FRAME_OWNER] = 288,
		[FRAME_TLBC_INDEX] = 304,
		[CODE_FILENAME] = 320, [CODE_NAME] = 328, [CODE_QUALNAME] = 336,
		[CODE_LINETABLE] = 344, [CODE_FIRSTLINENO] = 352,
		[CODE_ARGCOUNT] = 360, [CODE_LOCALSPLUSNAMES] = 368,
		[CODE_BYTECODE] = 384, [CODE_TLBC] = 392,
		[OBJECT_TYPE] = 408, [TYPE_NAME] = 424, [TYPE_FLAGS] = 440,
		[BYTES_SIZE] = 600, [BYTES_DATA] = 608,
		[STR_STATE] = 624, [STR_LENGTH] = 632, [STR_ASCII] = 640,
		[GC_SIZE] = 648, [GC_COLLECTING] = 656,
	},
}, {
	.version = 0x030f,
	.at = {
		[RUNTIME_FINALIZING] = 32, [RUNTIME_HEAD] = 40,
		[INTERP_SIZE] = 48, [INTERP_ID] = 56, [INTERP_NEXT] = 64, [INTERP_THREADS] = 72,
		[INTERP_GC] = 88, [INTERP_MODULES] = 96,
		[INTERP_GIL] = 120, [GIL] = 128, [GIL_LOCKED] = 144, [GIL_HOLDER] = 152,
		[TSTATE_SIZE] = 176, [TSTATE_PREV] = 184, [TSTATE_NEXT] = 192,
		[TSTATE_INTERP] = 200, [TSTATE_FRAME] = 208, [TSTATE_BASE_FRAME] = 216,
		[TSTATE_THREAD_ID] = 240, [TSTATE_NATIVE_TID] = 248,
		[TSTATE_DATASTACK] = 256, [TSTATE_STATUS] = 264,
		[FRAME_SIZE] = 312, [FRAME_PREVIOUS] = 320, [FRAME_CODE] = 328,
		[FRAME_INSTR] = 336, [FRAME_LOCALSPLUS] = 344, [FRAME_OWNER] = 352,
		[FRAME_TLBC_INDEX] = 368,
		[CODE_FILENAME] = 384, [CODE_NAME] = 392, [CODE_QUALNAME] = 400,
		[CODE_LINETABLE] = 408, [CODE_FIRSTLINENO] = 416,
		[CODE_ARGCOUNT] = 424, [CODE_LOCALSPLUSNAMES] = 432,
		[CODE_BYTECODE] = 448, [CODE_TLBC] = 456,
		[OBJECT_TYPE] = 472, [TYPE_NAME] = 488, [TYPE_FLAGS] = 504,
		[BYTES_SIZE] = 696, [BYTES_DATA] = 704,
		[STR_STATE] = 720, [STR_LENGTH] = 728, [STR_ASCII] = 736,
		[STR_COMPACT] = 744,
		[GC_SIZE] = 752, [GC_COLLECTING] = 760,
	},
} };

enum {
	AT_VERSION = 8,
	AT_FREE_THREADED = 16,
	GIL_FIELDS = 64,      /* bytes of a GIL in which they lie */
	VALUE_MAX = 16 << 20, /* no offset is larger; pylayout_check() knows better */
};

int debug_offsets_version(struct bytes raw, uint32_t *version, bool *free_threaded)
{
	uint64_t v;

	if (raw.n < AT_FREE_THREADED + 8 || memcmp(raw.at, "xdebugpy", 8))
		return -ENOENT;
	v = load_u64(raw.at + AT_VERSION);
	if (v > UINT32_MAX)
		return -ENOENT;
	*version = (uint32_t)v;
	*free_threaded = load_u64(raw.at + AT_FREE_THREADED) != 0;
	return 0;
}

static const struct minor *minor_find(uint32_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(minors); i++)
		if (minors[i].version == version)
			return &minors[i];
	return NULL;
}

static int load_slots(struct bytes raw, const struct minor *minor, uint32_t v[SLOT_N],
		      struct err *err)
{
	for (size_t i = 0; i < SLOT_N; i++) {
		uint64_t value;

		v[i] = 0;
		if (!minor->at[i])
			continue;
		if (raw.n < minor->at[i] + sizeof(value))
			return err_set(err, -EBADMSG, "debug offsets: cut at byte %zu", raw.n);
		value = load_u64(raw.at + minor->at[i]);
		if (value > VALUE_MAX)
			return err_set(err, -EBADMSG,
				       "debug offsets: byte %u holds 0x%llx, not an offset",
				       minor->at[i], (unsigned long long)value);
		v[i] = (uint32_t)value;
	}
	return 0;
}

static void set(pyoff *o, uint32_t v)
{
	o->plus1 = v + 1;
}

/* Below 0 nothing lies: a wrapped value is out of bounds for pylayout_check(). */
static void set_before(pyoff *o, uint32_t v, uint32_t distance)
{
	o->plus1 = v - distance + 1;
}

/* True: the interpreter state is the very one that the table was made from. */
static bool same_interp(const struct pylayout *table, const uint32_t v[SLOT_N])
{
	return v[INTERP_SIZE] == table->interp.size &&
	       v[INTERP_ID] == pyoff_get(table->interp.id) &&
	       v[INTERP_NEXT] == pyoff_get(table->interp.next) &&
	       v[INTERP_THREADS] == pyoff_get(table->interp.threads_head);
}

static void fill_threads(struct pylayout *l, const uint32_t v[SLOT_N])
{
	set(&l->runtime.finalizing, v[RUNTIME_FINALIZING]);
	set(&l->runtime.interp_head, v[RUNTIME_HEAD]);
	/* struct pyinterpreters { mutex, head, main, next_id }, then main_thread. */
	set(&l->runtime.main_thread, v[RUNTIME_HEAD] + 24);
	set(&l->interp.id, v[INTERP_ID]);
	set(&l->interp.next, v[INTERP_NEXT]);
	set(&l->interp.threads_head, v[INTERP_THREADS]);
	/* struct pythreads { next_unique_id, head, ... } */
	set_before(&l->interp.threads_unique, v[INTERP_THREADS], 8);
	l->tstate.size = v[TSTATE_SIZE];
	set(&l->tstate.prev, v[TSTATE_PREV]);
	set(&l->tstate.next, v[TSTATE_NEXT]);
	set(&l->tstate.interp, v[TSTATE_INTERP]);
	set(&l->tstate.frame, v[TSTATE_FRAME]);
	set(&l->tstate.thread_id, v[TSTATE_THREAD_ID]);
	set(&l->tstate.native_tid, v[TSTATE_NATIVE_TID]);
	set(&l->tstate.datastack_chunk, v[TSTATE_DATASTACK]);
	set(&l->tstate.status, v[TSTATE_STATUS]);
}

/* Can these be two fields of the GIL? What is wrong here alone is no reason to refuse all. */
static bool fit_gil(uint32_t holder, uint32_t locked)
{
	return holder < GIL_FIELDS && locked < GIL_FIELDS && holder % 8 == 0 &&
	       locked % 4 == 0 && (locked + 4 <= holder || holder + 8 <= locked);
}

/* A process tells where the interpreter keeps a GIL of its own, and the two fields in there;
 * what else the table says is true if these lie as in the table. */
static void fill_gil(struct pylayout *l, const uint32_t v[SLOT_N])
{
	const uint32_t holder = v[GIL_HOLDER] - v[GIL], locked = v[GIL_LOCKED] - v[GIL];

	if (!pyoff_has(l->gil.holder) || l->free_threaded || !fit_gil(holder, locked)) {
		memset(&l->gil, 0, sizeof(l->gil));
		l->interp.gil = (pyoff){ 0 };
		return;
	}
	if (holder != pyoff_get(l->gil.holder) || locked != pyoff_get(l->gil.locked)) {
		l->gil.size = 0;
		l->gil.switches = (pyoff){ 0 };
	}
	set(&l->interp.gil, v[INTERP_GIL]);
	set(&l->gil.holder, holder);
	set(&l->gil.locked, locked);
}

static void fill_frame(struct pylayout *l, const uint32_t v[SLOT_N])
{
	l->frame.size = v[FRAME_SIZE];
	set(&l->frame.previous, v[FRAME_PREVIOUS]);
	set(&l->frame.code, v[FRAME_CODE]);
	set(&l->frame.instr, v[FRAME_INSTR]);
	set(&l->frame.localsplus, v[FRAME_LOCALSPLUS]);
	set(&l->frame.owner, v[FRAME_OWNER]);
	if (pyoff_has(l->frame.tlbc_index))
		set(&l->frame.tlbc_index, v[FRAME_TLBC_INDEX]);
}

static void fill_code(struct pylayout *l, const uint32_t v[SLOT_N])
{
	bool tlbc = pyoff_has(l->code.tlbc);

	l->code.size = v[CODE_BYTECODE];
	set(&l->code.bytecode, v[CODE_BYTECODE]);
	if (tlbc)
		set(&l->code.tlbc, v[CODE_TLBC]);
	set(&l->code.filename, v[CODE_FILENAME]);
	set(&l->code.name, v[CODE_NAME]);
	set(&l->code.qualname, v[CODE_QUALNAME]);
	set(&l->code.linetable, v[CODE_LINETABLE]);
	set(&l->code.firstlineno, v[CODE_FIRSTLINENO]);
	/* _PyCode_DEF: co_flags, co_argcount; co_version, co_localsplusnames;
	 * _co_firsttraceable (int, padded), co_extra, [co_tlbc,] co_code_adaptive. */
	set_before(&l->code.flags, v[CODE_ARGCOUNT], 4);
	set_before(&l->code.version, v[CODE_LOCALSPLUSNAMES], 4);
	set_before(&l->code.firsttraceable, tlbc ? v[CODE_TLBC] : v[CODE_BYTECODE], 16);
}

static void fill_objects(struct pylayout *l, const uint32_t v[SLOT_N])
{
	set(&l->object.type, v[OBJECT_TYPE]);
	set(&l->object.type_name, v[TYPE_NAME]);
	set(&l->object.type_flags, v[TYPE_FLAGS]);
	set(&l->bytes.size, v[BYTES_SIZE]);
	set(&l->bytes.data, v[BYTES_DATA]);
	set(&l->str.state, v[STR_STATE]);
	set(&l->str.length, v[STR_LENGTH]);
	/* PyASCIIObject: length, hash, state; PyCompactUnicodeObject adds utf8_length
	 * and utf8. */
	set(&l->str.hash, v[STR_LENGTH] + 8);
	l->str.ascii_data = v[STR_ASCII];
	l->str.compact_data = v[STR_COMPACT] ? v[STR_COMPACT] : v[STR_ASCII] + 16;
}

int debug_offsets_parse(struct bytes raw, const struct pylayout *meanings,
			struct pylayout *ret, struct err *err)
{
	struct pylayout l = *meanings;
	const struct minor *minor;
	uint32_t version, v[SLOT_N];
	bool free_threaded;
	int r;

	if (debug_offsets_version(raw, &version, &free_threaded) < 0)
		return err_set(err, -ENOENT, "debug offsets: no \"xdebugpy\"");
	minor = minor_find(version >> 16);
	if (!minor || minor->version != meanings->version)
		return err_set(err, -EBADMSG, "debug offsets: version 0x%x, expected 0x%x",
			       version, meanings->version);
	if (free_threaded != meanings->free_threaded)
		return err_set(err, -EBADMSG, "debug offsets: of a build with%s the GIL",
			       free_threaded ? "out" : "");
	r = load_slots(raw, minor, v, err);
	if (r < 0)
		return r;
	if (!same_interp(meanings, v))
		l.interp.code_versions = (pyoff){ 0 };
	l.interp.size = v[INTERP_SIZE];
	fill_threads(&l, v);
	fill_gil(&l, v);
	set(&l.interp.modules, v[INTERP_MODULES]);
	l.tstate.base_frame = (pyoff){ 0 };
	if (minor->at[TSTATE_BASE_FRAME])
		set(&l.tstate.base_frame, v[TSTATE_BASE_FRAME]);
	fill_frame(&l, v);
	fill_code(&l, v);
	fill_objects(&l, v);
	r = pylayout_check(&l, err);
	if (r < 0)
		return r;
	*ret = l;
	return 0;
}

int debug_offsets_gc(struct bytes raw, struct gc_told *ret)
{
	const struct minor *minor;
	uint32_t version, v[SLOT_N];
	bool free_threaded;
	int r = debug_offsets_version(raw, &version, &free_threaded);

	if (r < 0)
		return r;
	minor = minor_find(version >> 16);
	if (!minor || load_slots(raw, minor, v, NULL) < 0)
		return -EBADMSG;
	if (v[INTERP_GC] % 8 || v[INTERP_GC] > v[INTERP_SIZE] ||
	    v[GC_SIZE] > v[INTERP_SIZE] - v[INTERP_GC])
		return -EBADMSG;
	*ret = (struct gc_told){ v[INTERP_GC], v[GC_SIZE], v[GC_COLLECTING] };
	return 0;
}

bool debug_offsets_agree(struct bytes raw, const struct pylayout *l)
{
	const struct pylayout *table = l->free_threaded ?
					       pylayout_find_free_threaded(l->version) :
					       pylayout_find(l->version);
	struct pylayout told;
	struct err err;

	if (l->version < 0x030d)
		return true;
	return table && debug_offsets_parse(raw, table, &told, &err) == 0 &&
	       !memcmp(&told, l, sizeof(told));
}
