/* SPDX-License-Identifier: MIT
 *
 * layout_room - all that is loaded by a layout out of bytes of ours: does it lie in what was read
 * into them? A field that is loaded so wants a row here.
 */
#ifndef LAYOUT_ROOM_H
#define LAYOUT_ROOM_H

#include "base/base.h"
#include "pyframe_walk.h"
#include "python/pycode.h"

/* Before a string's characters: bytes that pydict.c reads. */
static inline uint32_t layout_text(const struct pylayout *l)
{
	return pyoff_has(l->str.state) ? l->str.ascii_data : pyoff_get(l->bytes.data);
}

/* The first that does not lie in what was read; NULL: none. */
static inline const char *layout_outside(const struct pylayout *l)
{
	const bool frames_are_objects = l->lasti_unit, cframes = pyoff_has(l->tstate.cframe);
	const bool is_str = pyoff_has(l->str.state), sizes = pyoff_has(l->code.stacksize);
	const struct {
		const char *name;
		pyoff at;
		uint32_t width, of;
		bool loaded; /* whether it is there or not */
	} rows[] = {
		/* pydict.c, pycode.c */
		{ "str.length", l->str.length, 8, layout_text(l), true },
		{ "str.state", l->str.state, 4, l->str.ascii_data, is_str },
		{ "bytes.size", l->bytes.size, 8, pyoff_get(l->bytes.data), true },
		{ "bytes.size of a str", is_str ? l->str.length : l->bytes.size, 8,
		  l->str.ascii_data, true },
		/* pycode.c, pystack_code.c, pystack_entry.c, pyfind_check.c */
		{ "object.type, ob_size", l->object.type, 16, l->code.size, true },
		{ "code.filename", l->code.filename, 8, l->code.size, true },
		{ "code.qualname", l->code.qualname, 8, l->code.size, true },
		{ "code.linetable", l->code.linetable, 8, l->code.size, true },
		{ "code.firstlineno", l->code.firstlineno, 4, l->code.size, true },
		{ "code.flags", l->code.flags, 4, l->code.size, true },
		{ "code.version", l->code.version, 4, l->code.size, false },
		{ "code.stacksize", l->code.stacksize, 4, l->code.size, false },
		{ "code.nlocalsplus", l->code.nlocalsplus, 4, l->code.size, false },
		{ "code.firsttraceable", l->code.firsttraceable, 4, l->code.size,
		  sizes || !frames_are_objects },
		{ "code.instructions", l->code.instructions, 8, l->code.size,
		  frames_are_objects },
		/* pyframe_walk.inc.h, pyfind_check.c */
		{ "frame.code", l->frame.code, 8, l->frame.size, true },
		{ "frame.previous", l->frame.previous, 8, l->frame.size, true },
		{ "frame.instr", l->frame.instr, 8, l->frame.size, true },
		{ "frame.owner", l->frame.owner, 1, l->frame.size, !frames_are_objects },
		{ "frame.is_entry", l->frame.is_entry, 1, l->frame.size, false },
		{ "frame.tlbc_index", l->frame.tlbc_index, 4, l->frame.size, false },
		/* pystack_entry.c */
		{ "cframe.current_frame", l->cframe.current_frame, 8, PYLAYOUT_CFRAME_MAX, cframes },
		{ "cframe.previous", l->cframe.previous, 8, PYLAYOUT_CFRAME_MAX, cframes },
	};

	if (layout_text(l) > PYLAYOUT_HEADER_MAX || l->str.ascii_data > PYLAYOUT_HEADER_MAX)
		return "str.ascii_data";
	if (l->code.size > PYCODE_HEAD_MAX || l->frame.size > PYWALK_FRAME_BYTES)
		return "code.size or frame.size";
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if ((rows[i].loaded || pyoff_has(rows[i].at)) &&
		    (uint64_t)pyoff_get(rows[i].at) + rows[i].width > rows[i].of)
			return rows[i].name;
	return NULL;
}

#endif
