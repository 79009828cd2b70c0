/* SPDX-License-Identifier: MIT
 *
 * pylayout - the list of layout tables, and the check every layout must pass.
 */
#include "offsets/pylayout.h"

#include <errno.h>

/* One row a version, written by meson from its list. */
#define X(v) extern const struct pylayout pylayout_##v;
#include "pylayouts.inc"
#include "pylayouts_t.inc"
#undef X

static const struct pylayout *const layouts[] = {
#define X(v) &pylayout_##v,
#include "pylayouts.inc"
#undef X
};

static const struct pylayout *const free_threaded[] = {
#define X(v) &pylayout_##v,
#include "pylayouts_t.inc"
#undef X
};

const struct pylayout *const *pylayout_all(size_t *n)
{
	*n = ARRAY_SIZE(layouts);
	return layouts;
}

const struct pylayout *pylayout_find(uint16_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i]->version == version)
			return layouts[i];
	return NULL;
}

const struct pylayout *pylayout_find_free_threaded(uint16_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(free_threaded); i++)
		if (free_threaded[i]->version == version)
			return free_threaded[i];
	return NULL;
}

/* Upper bounds. Those of structs whose size a layout does not hold are far above
 * the largest seen: PyInterpreterState 383552 (3.12), _PyRuntimeState 459944. */
enum {
	RUNTIME_MAX = 2 << 20,
	INTERP_MAX = 2 << 20,
	TSTATE_MAX = 64 << 10,
	OBJECT_MAX = 1024,
	HEADER_MAX = PYLAYOUT_HEADER_MAX,
	GIL_MAX = 512,
};

enum group {
	RUNTIME,
	INTERP,
	TSTATE,
	GIL,
	CFRAME,
	FRAME,
	GEN,
	CODE,
	OBJECT,
	TYPE,
	STR,
	BYTES,
	DICT,
	DICTKEYS,
	MODULE,
	INTEGER
};

enum need { OPTIONAL, NEEDED };

struct field {
	const char *name;
	size_t at; /* of the pyoff in struct pylayout */
	enum group group;
	uint8_t width;
	enum need need;
};

/* clang-format off */
#define FIELD(group, member, width, need) \
	{ #member, offsetof(struct pylayout, member), group, width, need }
/* clang-format on */

static const struct field fields[] = {
	FIELD(RUNTIME, runtime.interp_head, 8, NEEDED),
	FIELD(RUNTIME, runtime.main_thread, 8, OPTIONAL),
	FIELD(RUNTIME, runtime.finalizing, 8, OPTIONAL),
	FIELD(RUNTIME, runtime.gil, 8, OPTIONAL),
	FIELD(RUNTIME, runtime.current, 8, OPTIONAL),
	FIELD(INTERP, interp.next, 8, NEEDED),
	FIELD(INTERP, interp.id, 8, OPTIONAL),
	FIELD(INTERP, interp.threads_head, 8, NEEDED),
	FIELD(INTERP, interp.threads_unique, 8, OPTIONAL),
	FIELD(INTERP, interp.modules, 8, OPTIONAL),
	FIELD(INTERP, interp.gil, 8, OPTIONAL),
	FIELD(GIL, gil.holder, 8, OPTIONAL),
	FIELD(GIL, gil.locked, 4, OPTIONAL),
	FIELD(GIL, gil.switches, 8, OPTIONAL),
	FIELD(TSTATE, tstate.next, 8, NEEDED),
	FIELD(TSTATE, tstate.prev, 8, OPTIONAL),
	FIELD(TSTATE, tstate.interp, 8, NEEDED),
	FIELD(TSTATE, tstate.thread_id, 8, NEEDED),
	FIELD(TSTATE, tstate.native_tid, 8, OPTIONAL),
	FIELD(TSTATE, tstate.frame, 8, OPTIONAL),
	FIELD(TSTATE, tstate.cframe, 8, OPTIONAL),
	FIELD(TSTATE, tstate.datastack_chunk, 8, OPTIONAL),
	FIELD(TSTATE, tstate.status, 4, OPTIONAL),
	FIELD(TSTATE, tstate.exc_info, 8, OPTIONAL),
	FIELD(TSTATE, tstate.base_frame, 8, OPTIONAL),
	FIELD(CFRAME, cframe.current_frame, 8, OPTIONAL),
	FIELD(CFRAME, cframe.previous, 8, OPTIONAL),
	FIELD(FRAME, frame.code, 8, NEEDED),
	FIELD(FRAME, frame.previous, 8, NEEDED),
	FIELD(FRAME, frame.instr, 8, NEEDED),
	FIELD(FRAME, frame.owner, 1, OPTIONAL),
	FIELD(FRAME, frame.is_entry, 1, OPTIONAL),
	FIELD(FRAME, frame.object, 8, OPTIONAL),
	FIELD(FRAME, frame.stacktop, 4, OPTIONAL),
	FIELD(FRAME, frame.tlbc_index, 4, OPTIONAL),
	FIELD(GEN, gen.exc_state, 8, OPTIONAL),
	FIELD(GEN, gen.exc_previous, 8, OPTIONAL),
	FIELD(GEN, gen.frame, 8, OPTIONAL),
	FIELD(CODE, code.filename, 8, NEEDED),
	FIELD(CODE, code.name, 8, OPTIONAL),
	FIELD(CODE, code.qualname, 8, NEEDED),
	FIELD(CODE, code.linetable, 8, NEEDED),
	FIELD(CODE, code.firstlineno, 4, NEEDED),
	FIELD(CODE, code.flags, 4, NEEDED),
	FIELD(CODE, code.version, 4, OPTIONAL),
	FIELD(CODE, code.firsttraceable, 4, OPTIONAL),
	FIELD(CODE, code.instructions, 8, OPTIONAL),
	FIELD(CODE, code.tlbc, 8, OPTIONAL),
	FIELD(CODE, code.stacksize, 4, OPTIONAL),
	FIELD(CODE, code.nlocalsplus, 4, OPTIONAL),
	FIELD(OBJECT, object.type, 8, NEEDED),
	FIELD(TYPE, object.type_dict, 8, OPTIONAL),
	FIELD(TYPE, object.type_name, 8, NEEDED),
	FIELD(TYPE, object.type_flags, 8, OPTIONAL),
	FIELD(TYPE, object.type_size, 8, OPTIONAL),
	FIELD(TYPE, object.type_keys, 8, OPTIONAL),
	FIELD(DICT, dict.keys, 8, OPTIONAL),
	FIELD(DICT, dict.values, 8, OPTIONAL),
	FIELD(DICT, dict.mask, 8, OPTIONAL),
	FIELD(DICT, dict.fill, 8, OPTIONAL),
	FIELD(DICTKEYS, dictkeys.index_log2, 1, OPTIONAL),
	FIELD(DICTKEYS, dictkeys.kind, 1, OPTIONAL),
	FIELD(DICTKEYS, dictkeys.n, 8, OPTIONAL),
	FIELD(DICTKEYS, dictkeys.entries, 8, OPTIONAL),
	FIELD(DICTKEYS, dictkeys.size, 8, OPTIONAL),
	FIELD(MODULE, module.dict, 8, OPTIONAL),
	FIELD(MODULE, module.state, 8, OPTIONAL),
	FIELD(INTEGER, integer.digit, 4, OPTIONAL),
	FIELD(STR, str.length, 8, NEEDED),
	FIELD(STR, str.hash, 8, OPTIONAL),
	FIELD(STR, str.state, 4, OPTIONAL),
	FIELD(BYTES, bytes.size, 8, NEEDED),
	FIELD(BYTES, bytes.data, 1, NEEDED),
};

static pyoff field_get(const struct pylayout *l, const struct field *f)
{
	pyoff o;

	memcpy(&o, (const char *)l + f->at, sizeof(o));
	return o;
}

static uint32_t group_size(const struct pylayout *l, enum group group)
{
	switch (group) {
	case RUNTIME:
		return RUNTIME_MAX;
	case INTERP:
		return INTERP_MAX;
	case TSTATE:
		return l->tstate.size;
	case FRAME:
		return l->frame.size;
	case CODE:
		return l->code.size;
	case STR:
		return l->str.ascii_data;
	case OBJECT:
	case GEN:
	case TYPE:
		return OBJECT_MAX;
	case CFRAME:
		return PYLAYOUT_CFRAME_MAX;
	case GIL:
	case BYTES:
	case DICT:
	case DICTKEYS:
	case MODULE:
	case INTEGER:
		return HEADER_MAX;
	}
	return 0;
}

static int check_sizes(const struct pylayout *l, struct err *err)
{
	const struct {
		const char *name;
		uint32_t v, max, align;
	} sizes[] = {
		{ "tstate.size", l->tstate.size, TSTATE_MAX, 8 },
		{ "frame.size", l->frame.size, PYLAYOUT_FRAME_MAX, 8 },
		{ "code.size", l->code.size, PYLAYOUT_CODE_MAX, 8 },
		{ "str.ascii_data", l->str.ascii_data, HEADER_MAX, 8 },
		{ "str.compact_data", l->str.compact_data, HEADER_MAX, 8 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (!sizes[i].v || sizes[i].v > sizes[i].max || sizes[i].v % sizes[i].align)
			return err_set(err, -EBADMSG, "layout: %s is %u", sizes[i].name,
				       sizes[i].v);
	if (l->str.compact_data < l->str.ascii_data)
		return err_set(err, -EBADMSG, "layout: str.compact_data is below ascii_data");
	return 0;
}

static int check_field(const struct pylayout *l, const struct field *f, struct err *err)
{
	pyoff o = field_get(l, f);
	uint32_t size = group_size(l, f->group);

	if (!pyoff_has(o) && f->need == OPTIONAL)
		return 0;
	if (!pyoff_has(o))
		return err_set(err, -EBADMSG, "layout: %s is missing", f->name);
	if (f->width > size || pyoff_get(o) > size - f->width)
		return err_set(err, -EBADMSG, "layout: %s at %u is outside its struct of %u",
			       f->name, pyoff_get(o), size);
	if (pyoff_get(o) % f->width)
		return err_set(err, -EBADMSG, "layout: %s at %u is not aligned", f->name,
			       pyoff_get(o));
	return 0;
}

static int check_overlap(const struct pylayout *l, const struct field *a, struct err *err)
{
	pyoff oa = field_get(l, a);

	for (const struct field *b = a + 1; b < fields + ARRAY_SIZE(fields); b++) {
		pyoff ob = field_get(l, b);

		if (a->group != b->group || !pyoff_has(oa) || !pyoff_has(ob))
			continue;
		if (pyoff_get(oa) < pyoff_get(ob) + b->width &&
		    pyoff_get(ob) < pyoff_get(oa) + a->width)
			return err_set(err, -EBADMSG, "layout: %s and %s overlap", a->name,
				       b->name);
	}
	return 0;
}

/* Fields that came with 3.11, and those that went. */
static int check_age(const struct pylayout *l, struct err *err)
{
	const struct {
		const char *name;
		pyoff at;
	} since[] = {
		{ "interp.id", l->interp.id },
		{ "interp.threads_unique", l->interp.threads_unique },
		{ "tstate.native_tid", l->tstate.native_tid },
		{ "frame.owner", l->frame.owner },
		{ "code.firsttraceable", l->code.firsttraceable },
		{ "code.bytecode", l->code.bytecode },
		{ "str.state", l->str.state },
	};

	if (l->lasti_unit) {
		if (l->lasti_unit > 2 || !pyoff_has(l->code.instructions) ||
		    pyoff_has(l->code.bytecode))
			return err_set(err, -EBADMSG,
				       "layout: a PyFrameObject without its code");
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(since); i++)
		if (!pyoff_has(since[i].at))
			return err_set(err, -EBADMSG, "layout: %s is missing", since[i].name);
	if (pyoff_get(l->code.bytecode) != l->code.size)
		return err_set(err, -EBADMSG, "layout: code.bytecode is not code.size");
	if (!l->owner_shim && !pyoff_has(l->frame.is_entry))
		return err_set(err, -EBADMSG, "layout: neither shims nor entry frames");
	return 0;
}

/* What one field says about another. */
static int check_relations(const struct pylayout *l, struct err *err)
{
	if (pyoff_has(l->tstate.frame) == pyoff_has(l->tstate.cframe))
		return err_set(err, -EBADMSG, "layout: tstate.frame or .cframe, not both");
	if (pyoff_has(l->tstate.cframe) && !pyoff_has(l->cframe.current_frame))
		return err_set(err, -EBADMSG, "layout: cframe.current_frame is missing");
	if (pyoff_has(l->frame.localsplus) &&
	    (pyoff_get(l->frame.localsplus) > l->frame.size ||
	     pyoff_get(l->frame.localsplus) % 8))
		return err_set(err, -EBADMSG, "layout: frame.localsplus is %u",
			       pyoff_get(l->frame.localsplus));
	if (pyoff_has(l->code.tlbc) != pyoff_has(l->frame.tlbc_index))
		return err_set(err, -EBADMSG,
			       "layout: code.tlbc and frame.tlbc_index, or none");
	if (l->gil.size > GIL_MAX || l->gil.size % 8)
		return err_set(err, -EBADMSG, "layout: gil.size is %u", l->gil.size);
	if (l->active_bit && (l->active_bit > 31 || !pyoff_has(l->tstate.status)))
		return err_set(err, -EBADMSG, "layout: active bit without a status");
	if (pyoff_get(l->bytes.size) == pyoff_get(l->object.type) ||
	    pyoff_get(l->str.length) == pyoff_get(l->object.type))
		return err_set(err, -EBADMSG, "layout: a length where the type is");
	if (l->str_kind_shift > 28 || l->str_compact_bit > 31 || l->str_ascii_bit > 31 ||
	    (pyoff_has(l->str.state) && l->str_compact_bit == l->str_ascii_bit))
		return err_set(err, -EBADMSG, "layout: string state bits");
	return 0;
}

/* Does what is read at once hold all that is loaded out of it? */
static int check_reads(const struct pylayout *l, struct err *err)
{
	/* Behind a code object's type its size is looked for. */
	if (pyoff_get(l->object.type) + 16 > l->code.size)
		return err_set(err, -EBADMSG, "layout: object.type at %u, code.size is %u",
			       pyoff_get(l->object.type), l->code.size);
	if (pyoff_get(l->bytes.size) + 8 > pyoff_get(l->bytes.data))
		return err_set(err, -EBADMSG, "layout: bytes.size is behind bytes.data");
	if (!pyoff_has(l->str.state) &&
	    pyoff_get(l->str.length) != pyoff_get(l->bytes.size))
		return err_set(err, -EBADMSG, "layout: a str is bytes of another kind");
	if (pyoff_has(l->tstate.cframe) && !pyoff_has(l->cframe.previous))
		return err_set(err, -EBADMSG, "layout: cframe.previous is missing");
	if (pyoff_has(l->code.stacksize) && !pyoff_has(l->code.firsttraceable))
		return err_set(err, -EBADMSG, "layout: code.stacksize, no code.firsttraceable");
	return 0;
}

int pylayout_check(const struct pylayout *l, struct err *err)
{
	int r = check_sizes(l, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fields); i++)
		r = check_field(l, &fields[i], err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fields); i++)
		r = check_overlap(l, &fields[i], err);
	if (r == 0)
		r = check_relations(l, err);
	if (r == 0)
		r = check_reads(l, err);
	return r < 0 ? r : check_age(l, err);
}
