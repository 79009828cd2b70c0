/* SPDX-License-Identifier: MIT
 *
 * pyversion - the way there: interpreter, sys.modules, sys, hexversion.
 */
#include "python/pyversion.h"

#include <errno.h>

#include "python/pydict.h"

int pyversion_told(const struct pyproc *p, struct rmem *m, uint32_t *ret)
{
	const struct pylayout *l = &p->layout;
	struct pydict sys;
	raddr interp, at;
	uint64_t hex;
	int r;

	if (!pyoff_has(l->interp.modules) || !pyoff_has(l->integer.digit))
		return -ENOENT;
	if (rmem_read_u64(m, p->runtime + pyoff_get(l->runtime.interp_head), &interp) < 0)
		return -EFAULT;
	r = interp ? pydict_of_module(m, l, interp, "sys", &sys) : -ENOENT;
	if (r == 0)
		r = pydict_value(m, l, &sys, "hexversion", &at);
	if (r == 0)
		r = pydict_int(m, l, at, &hex);
	if (r == 0 && hex > UINT32_MAX)
		r = -EBADMSG;
	if (r == 0)
		*ret = (uint32_t)hex;
	return r;
}

int pyversion_find(struct pyproc *p, struct rmem *m)
{
	size_t n;
	const struct pylayout *const *all = pylayout_all(&n);
	int ret = -ENOENT;

	/* From 3.13 on the runtime tells. */
	for (size_t i = 0; i < n && all[i]->version < 0x030d; i++) {
		struct err why;
		int r;

		p->layout = *all[i];
		r = pyfind_selfcheck(p, m, &why);
		if (r == 0 && pyversion_told(p, m, &p->version) == 0 &&
		    p->version >> 16 == all[i]->version)
			return 0;
		if (r == -EAGAIN)
			ret = r;
	}
	p->version = 0;
	return ret;
}
