/* SPDX-License-Identifier: MIT
 *
 * pycompiled - tells such a frame by the type of its frame object, and that by its name.
 */
#include "python/pycompiled.h"

#include "python/pytype.h"

bool pycompiled_is(struct rmem *m, const struct pylayout *l, const struct pyframe *f,
		   bool linked, int program, struct pycompiled *known)
{
	const raddr frame = f->frame & ~(raddr)PYFRAME_BITS;
	/* A count of references, the type, f_back and f_frame. */
	uint64_t head[4];
	raddr object;

	if (!(f->frame & PYFRAME_GENERATOR) || !pyoff_has(l->frame.object) ||
	    l->free_threaded ||
	    rmem_read_u64(m, frame + pyoff_get(l->frame.object), &object) < 0 || !object ||
	    rmem_read(m, object + pyoff_get(l->object.type) - 8, head, sizeof(head)) < 0 ||
	    head[3] != frame || (linked && (uint32_t)head[0] < 2))
		return false;
	if (known->program == program && known->type == head[1])
		return true;
	if (!pytype_is_called(m, l, head[1], "compiled_frame"))
		return false;
	*known = (struct pycompiled){ .program = program, .type = head[1] };
	return true;
}
