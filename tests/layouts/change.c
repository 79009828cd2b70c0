/* SPDX-License-Identifier: MIT
 *
 * change PID - changes each offset of a live process's layout, one at a time, and prints which
 * changed layouts the self-check takes: "FIELD HOW taken|refused SENTENCE". change -n PID
 * changes nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/clock.h"
#include "python/pyfind.h"
#include "python/pygil.h"

enum { LOOKS = 40 };

struct field {
	const char *name;
	size_t at; /* of the pyoff in struct pylayout */
};

#define F(member) { #member, offsetof(struct pylayout, member) },
/* clang-format off */
static const struct field fields[] = {
	F(runtime.interp_head) F(runtime.main_thread) F(runtime.finalizing)
	F(runtime.gil) F(runtime.current)
	F(interp.next) F(interp.id) F(interp.threads_head) F(interp.threads_unique)
	F(interp.code_versions) F(interp.modules)
	F(interp.gil) F(gil.holder) F(gil.locked) F(gil.switches)
	F(tstate.next) F(tstate.prev) F(tstate.interp) F(tstate.thread_id) F(tstate.native_tid)
	F(tstate.frame) F(tstate.cframe) F(tstate.datastack_chunk) F(tstate.status)
	F(tstate.exc_info) F(tstate.base_frame)
	F(cframe.current_frame) F(cframe.previous)
	F(frame.code) F(frame.previous) F(frame.instr) F(frame.localsplus) F(frame.owner)
	F(frame.is_entry) F(frame.func) F(frame.object) F(frame.stacktop)
	F(gen.exc_state) F(gen.exc_previous) F(gen.frame)
	F(func.code) F(func.version)
	F(code.filename) F(code.name) F(code.qualname) F(code.linetable) F(code.firstlineno)
	F(code.flags) F(code.version) F(code.firsttraceable) F(code.bytecode)
	F(code.instructions) F(code.stacksize) F(code.nlocalsplus)
	F(object.type) F(object.type_name) F(object.type_flags) F(object.type_size)
	F(object.type_keys) F(object.type_dict)
	F(dict.keys) F(dict.values) F(dict.mask) F(dict.fill)
	F(dictkeys.index_log2) F(dictkeys.kind) F(dictkeys.n) F(dictkeys.entries) F(dictkeys.size)
	F(module.dict) F(module.state) F(integer.digit)
	F(str.length) F(str.state) F(str.hash) F(bytes.size) F(bytes.data)
};
/* clang-format on */

static pyoff get(const struct pylayout *l, const struct field *f)
{
	pyoff o;

	memcpy(&o, (const char *)l + f->at, sizeof(o));
	return o;
}

static void put(struct pylayout *l, const struct field *f, pyoff o)
{
	memcpy((char *)l + f->at, &o, sizeof(o));
}

/* 0: what the layout says of the GIL proves itself, or it says nothing. */
static int look_at_gil(const struct pyproc *p, struct rmem *m)
{
	struct pywalk_layout walk;
	struct pygil_look look;
	struct pygil gils = { 0 };
	int r;

	pywalk_layout_init(&walk, &p->layout, p->runtime);
	r = pygil_add(m, &p->layout, &walk, p->runtime, &gils);
	if (r < 0)
		return r == -ENOTSUP ? 0 : -EBADMSG;
	for (uint32_t i = 0; r == 0 && i < gils.n; i++)
		r = pygil_read(m, &gils, i, &look);
	return r < 0 || !gils.n ? -EBADMSG : 0;
}

static void try(const struct pyproc *p, struct rmem *m, const char *name, const char *how)
{
	struct err err = { 0 };
	int r = pyfind_selfcheck_by(p, m, LOOKS, &err); /* it stands still */

	if (r == 0 && look_at_gil(p, m) < 0)
		r = err_set(&err, -EBADMSG, "its GIL can't be found");
	printf("%s %s %s %s\n", name, how, r == -EBADMSG || r == -EAGAIN ? "refused" : "taken",
	       err.text);
}

static void shift(const struct pyproc *p, struct rmem *m, const struct field *f, int by)
{
	pyoff o = get(&p->layout, f);
	struct pyproc changed = *p;
	char how[16];

	if ((int64_t)pyoff_get(o) + by < 0)
		return;
	snprintf(how, sizeof(how), "%+d", by);
	o.plus1 += (uint32_t)by;
	put(&changed.layout, f, o);
	try(&changed, m, f->name, how);
}

/* With the next field of the same struct. */
static void swap(const struct pyproc *p, struct rmem *m, const struct field *f)
{
	const struct field *g = f + 1;
	size_t group = (size_t)(strchr(f->name, '.') - f->name) + 1;
	struct pyproc changed = *p;
	char how[64];

	while (g < fields + ARRAY_SIZE(fields) && !pyoff_has(get(&p->layout, g)))
		g++;
	if (g == fields + ARRAY_SIZE(fields) || strncmp(f->name, g->name, group) != 0)
		return;
	snprintf(how, sizeof(how), "<>%s", g->name);
	put(&changed.layout, f, get(&p->layout, g));
	put(&changed.layout, g, get(&p->layout, f));
	try(&changed, m, f->name, how);
}

int main(int argc, char **argv)
{
	struct rmem_live live;
	struct rmem *m = &live.base;
	struct err err = { 0 };
	struct pyproc p;

	if (argc > 3 || argc < 2)
		return 2;
	rmem_live_init(&live, atoi(argv[argc - 1]));
	if (pyfind(atoi(argv[argc - 1]), now_ns(), m, NULL, &p, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	try(&p, m, "nothing", "+0");
	if (argc == 3)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (!pyoff_has(get(&p.layout, &fields[i])))
			continue;
		shift(&p, m, &fields[i], 8);
		shift(&p, m, &fields[i], -8);
		swap(&p, m, &fields[i]);
	}
	return 0;
}
