/* SPDX-License-Identifier: MIT
 *
 * pystack_code - is this code object still the one whose name is known?
 *
 * Code addresses are reused, so each walk asks, while the thread is held. Cheapest first:
 * the interpreter made no code object since (3.12 on); the very same function still holds
 * it (3.11); the fingerprint is the same. Else it is copied anew.
 */
#include "python/pystack_int.h"
#include "base/hash.h"

/* Where the count of code objects ever made lies; 0: nowhere. */
static raddr versions_at(const struct pystack_target *t, const struct thread *th)
{
	if (th->distrust)
		return 0;
	if (t->code_versions)
		return t->code_versions;
	if (!th->interp || !pyoff_has(t->layout.interp.code_versions))
		return 0;
	return th->interp + pyoff_get(t->layout.interp.code_versions);
}

/* Where each interpreter counts its own code objects: which one @interp is. The next one may lie
 * at the same address and count as far. Its number is another, but that of one which the program
 * begins when it has ended the main one: this has its modules in another dict. 0: the count is of
 * all interpreters, or it can't be read. */
static uint64_t interp_id_of(struct pystack *p, const struct pystack_target *t,
			     struct thread *th, raddr interp)
{
	const struct pylayout *l = &t->layout;
	uint64_t id, modules = 0;
	struct rmem_vec v[] = { { interp + pyoff_get(l->interp.id), &id, sizeof(id) },
				{ interp + pyoff_get(l->interp.modules), &modules,
				  sizeof(modules) } };
	size_t n = pyoff_has(l->interp.modules) ? 2 : 1;

	if (!interp || !pyoff_has(l->code.version) || l->interp.code_versions_global ||
	    !pyoff_has(l->interp.id))
		return 0;
	if (rmem_readv(p->mem, v, n) < n)
		return 0;
	for (size_t i = 0; i < n; i++)
		pystack_plan(th, v[i].at, v[i].at + v[i].n);
	return hash_pair(id, modules) | 1;
}

/* The same, of one that may have been begun anew with its modules at the same address: its count
 * began anew, too, and was seen on its way if the thread was sampled then. @now: the count; 0: not
 * known. */
static uint64_t id_of_begun(struct pystack *p, int program, uint64_t id, uint32_t now)
{
	struct begun *b = &p->begun[hash_pair(id, (uint64_t)program) & (N_LISTS - 1)];

	if (!id || !now)
		return id;
	if (b->program != program || b->id != id)
		*b = (struct begun){ .program = program, .id = id, .again = p->again };
	if (now < b->count)
		b->again = ++p->again;
	b->count = now;
	return b->again ? hash_pair(id, b->again) | 1 : id;
}

static void no_codes(struct pystack *p)
{
	memset(p->code_index, 0, N_CODES * sizeof(*p->code_index));
	p->n_codes = 0;
}

/* While that count stands still, no address can have become another code's, and what
 * was verified stays true. */
void codes_begin(struct pystack *p, const struct pystack_target *t, struct thread *th)
{
	raddr interp = 0, at;
	uint32_t now = 0;

	if (rmem_read_u64(p->mem, th->tstate + pyoff_get(t->layout.tstate.interp), &interp) <
	    0)
		interp = 0;
	th->interp = interp;
	at = versions_at(t, th);
	if (!at || rmem_read(p->mem, at, &now, sizeof(now)) < 0)
		now = 0;
	th->versions = now;
	th->interp_id =
		id_of_begun(p, t->program, interp_id_of(p, t, th, interp), now);
	if (at)
		pystack_plan(th, at, at + sizeof(now));
	if (p->n_codes > N_CODES / 2)
		no_codes(p);
}

/* Where the number of the code stands, or would. */
static uint16_t *index_of(struct pystack *p, int program, raddr at)
{
	uint32_t i = (uint32_t)hash_pair(at, (uint64_t)program) & (N_CODES - 1);

	for (; p->code_index[i]; i = (i + 1) & (N_CODES - 1)) {
		const struct code *c = &p->codes[p->code_index[i] - 1];

		if (c->at == at && c->program == program)
			break;
	}
	return &p->code_index[i];
}

/* NULL: there is no room for one more until the next walk: so many are none of a real stack. */
static struct code *code_slot(struct pystack *p, int program, raddr at)
{
	uint16_t *index = index_of(p, program, at);
	struct code *c;

	if (*index)
		return &p->codes[*index - 1];
	if (p->n_codes == N_CODES - 1)
		return NULL;
	c = &p->codes[p->n_codes++];
	*index = (uint16_t)p->n_codes;
	*c = (struct code){ .at = at, .program = program };
	return c;
}

uint64_t pystack_age_codes(struct pystack *p,
			   bool (*keep)(void *arg, uint64_t id, uint64_t was), void *arg)
{
	uint64_t below = p->next_id;
	uint32_t n = 0, before = p->n_codes;

	if (below - p->aged_id < MAX(p->age_after, (uint64_t)CODES_AGE))
		return 0;
	no_codes(p);
	for (uint32_t i = 0; i < before; i++) {
		struct code c = p->codes[i];

		if (!c.id || c.bad || (int32_t)(c.met - p->aged_stamp) <= 0 ||
		    !keep(arg, p->next_id, c.id))
			continue;
		c.id = p->next_id++;
		p->codes[n++] = c;
		*index_of(p, c.program, c.at) = (uint16_t)n;
	}
	p->n_codes = n;
	memset(p->join->label, 0, sizeof(p->join->label));
	p->aged_id = below;
	p->aged_stamp = p->stamp;
	/* A large program is not looked through for each few that it has more. */
	p->age_after = 2 * (uint64_t)n;
	return below;
}

/* --- functions (3.11) --- */

/* From its code pointer to its version, one range. */
static size_t function_span(const struct pylayout *l)
{
	return pyoff_get(l->func.version) + 4 - pyoff_get(l->func.code);
}

/* The function in frame @i; 0 where there is none, or where it told nothing lately. */
static raddr function_at(struct pystack *p, const struct pystack_target *t, uint32_t i)
{
	raddr frame = p->walked[i].frame & ~(raddr)PYFRAME_BITS, func;
	struct code *c = p->seen[i].code;

	if (!pyoff_has(t->layout.frame.func))
		return 0;
	if (c->func_skip) {
		c->func_skip--;
		return 0;
	}
	if (rmem_read_u64(p->mem, frame + pyoff_get(t->layout.frame.func), &func) < 0)
		return 0;
	return func;
}

static void read_function(struct pystack *p, const struct pylayout *l, struct thread *th,
			  struct seen *s)
{
	struct function *f = &s->func;
	raddr from = f->at + pyoff_get(l->func.code);

	if (!f->at)
		return;
	if (rmem_read(p->mem, f->at + pyoff_get(l->func.version), &f->version, 4) < 0 ||
	    rmem_read_u64(p->mem, from, &f->code) < 0)
		f->version = 0;
	if (f->version)
		pystack_plan(th, from, from + function_span(l));
	else
		s->code->func_skip = FUNC_SKIP;
}

static void look_at_functions(struct pystack *p, const struct pystack_target *t,
			      struct thread *th, uint32_t n)
{
	const struct pylayout *l = &t->layout;

	if (!pyoff_has(l->frame.func))
		return;
	for (uint32_t i = 0; i < n; i++) {
		if (!p->seen[i].code)
			continue;
		p->seen[i].func.at = function_at(p, t, i);
		if (p->seen[i].func.at)
			rmem_batch_want(&p->batch,
					p->seen[i].func.at + pyoff_get(l->func.code),
					function_span(l));
	}
	rmem_batch_fetch(&p->batch);
	for (uint32_t i = 0; i < n; i++)
		if (p->seen[i].code)
			read_function(p, l, th, &p->seen[i]);
}

/* --- fingerprints --- */

/* Nothing that could have become another code since it was verified. */
static bool still_verified(const struct seen *s, const struct thread *th)
{
	const struct code *c = s->code;

	if (!c->id || c->bad)
		return false;
	if (c->versions && c->versions == th->versions && c->interp_id == th->interp_id)
		return true;
	return s->func.version && s->func.version == c->func_version && s->func.at == c->func;
}

/* In bytes. ob_size, in code units, follows ob_type; up to 3.10 the bytecode is an object. */
static uint32_t bytecode_length(struct pystack *p, const struct pylayout *l,
				const unsigned char *head)
{
	raddr bytes;
	uint32_t n;

	if (!pyoff_has(l->code.instructions))
		return 2 * load_u32(head + pyoff_get(l->object.type) + 8);
	bytes = load_u64(head + pyoff_get(l->code.instructions));
	return rmem_read(p->mem, bytes + pyoff_get(l->bytes.size), &n, sizeof(n)) < 0 ? 0 : n;
}

static void copy_code(struct pystack *p, const struct pystack_target *t, struct code *c,
		      const unsigned char *head)
{
	c->bad = pycode_copy(p->mem, &t->layout, c->at, head, p->copy) < 0;
	if (c->bad) {
		c->id = 0; /* nor is it what it was before */
		return;
	}
	c->print = p->copy->print;
	c->bytecode = p->copy->bytecode;
	c->firsttraceable = p->copy->firsttraceable;
	c->table_n = p->copy->table_n;
	c->frame_size = pycode_frame_size(&t->layout, head);
	c->length = bytecode_length(p, &t->layout, head);
	c->id = p->next_id++;
	p->code_lost |= !p->new_code(p->arg, c->id, p->copy);
}

/* A code object's own number is below the count, or the count is none. */
static void note_versions(const struct pystack_target *t, struct thread *th, struct code *c,
			  const unsigned char *head, const struct function *f)
{
	if (th->versions && pyoff_has(t->layout.code.version) &&
	    load_u32(head + pyoff_get(t->layout.code.version)) >= th->versions) {
		th->distrust = true;
		th->versions = 0;
	}
	c->versions = th->versions;
	c->interp_id = th->interp_id;
	c->func = f->at;
	c->func_version = f->code == c->at ? f->version : 0;
}

/* What the fingerprint of a code reads besides its head: where the version has no
 * counter, name, file and line table; only the last one's length is not guessed well. */
static size_t contents_of(const struct pylayout *l, const struct code *c,
			  const unsigned char *head, struct rmem_vec v[PYCODE_PARTS])
{
	size_t n = pycode_fingerprint_reads(l, head, v);

	if (n)
		v[n - 1].n = MAX(v[n - 1].n, pyoff_get(l->bytes.data) + c->table_n);
	return n;
}

static void want_contents(struct pystack *p, const struct pylayout *l, const struct code *c)
{
	unsigned char head[PYCODE_HEAD_MAX];
	struct rmem_vec v[PYCODE_PARTS];
	size_t n;

	if (!rmem_batch_holds(&p->batch, c->at, l->code.size) ||
	    rmem_read(&p->batch.base, c->at, head, l->code.size) < 0)
		return;
	n = contents_of(l, c, head, v);
	for (size_t i = 0; i < n; i++)
		rmem_batch_want(&p->batch, v[i].at, v[i].n);
}

static void plan_code(struct thread *th, const struct pylayout *l, const struct code *c,
		      const unsigned char *head)
{
	struct rmem_vec v[PYCODE_PARTS];
	size_t n = contents_of(l, c, head, v);

	pystack_plan(th, c->at, c->at + l->code.size);
	for (size_t i = 0; i < n; i++)
		pystack_plan(th, v[i].at, v[i].at + v[i].n);
}

static bool same(const struct pycode_print *a, const struct pycode_print *b)
{
	return a->a == b->a && a->b == b->b;
}

static bool fingerprint_holds(struct pystack *p, const struct pylayout *l,
			      const struct thread *th, const struct code *c,
			      const unsigned char *head)
{
	struct pycode_print now;

	/* Another interpreter's code may have the same number. */
	return c->id && c->interp_id == th->interp_id &&
	       pycode_fingerprint(p->mem, l, head, &now) == 0 && same(&now, &c->print);
}

static void verify(struct pystack *p, const struct pystack_target *t, struct thread *th,
		   const struct seen *s)
{
	const struct pylayout *l = &t->layout;
	unsigned char head[PYCODE_HEAD_MAX];
	struct code *c = s->code;

	c->stamp = p->stamp;
	if (rmem_read(p->mem, c->at, head, l->code.size) < 0) {
		c->bad = true;
		return;
	}
	plan_code(th, l, c, head);
	if (fingerprint_holds(p, l, th, c, head))
		c->bad = false;
	else
		copy_code(p, t, c, head);
	note_versions(t, th, c, head, &s->func);
}

/* --- together --- */

static void look_up(struct pystack *p, const struct pystack_target *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		/* Most stacks resemble the last, whose codes may be forgotten by now. */
		struct code *before = p->seen[i].code;
		raddr at = p->walked[i].code;

		p->seen[i] = (struct seen){ 0 };
		if ((p->walked[i].frame & PYFRAME_SHIM) || !at || (at & 7))
			continue;
		if (!before || before >= p->codes + p->n_codes || before->at != at ||
		    before->program != t->program)
			before = code_slot(p, t->program, at);
		if (before)
			before->met = p->stamp;
		p->seen[i].code = before;
	}
}

static bool to_verify(const struct seen *s)
{
	return s->code && !s->verified;
}

/* The heads that are not held yet, in one call; then, where the version needs them, the
 * contents that they point to, in another. */
static void fetch(struct pystack *p, const struct pystack_target *t, uint32_t n)
{
	const struct pylayout *l = &t->layout;

	for (uint32_t i = 0; i < n; i++)
		if (to_verify(&p->seen[i]))
			rmem_batch_want(&p->batch, p->seen[i].code->at, l->code.size);
	rmem_batch_fetch(&p->batch);
	if (pyoff_has(l->code.version))
		return;
	for (uint32_t i = 0; i < n; i++)
		if (to_verify(&p->seen[i]))
			want_contents(p, l, p->seen[i].code);
	rmem_batch_fetch(&p->batch);
}

/* True: frame @i does not stand in the bytecode itself. */
static bool is_outside(const struct pystack *p, uint32_t i)
{
	const struct code *c = p->seen[i].code;

	return c && !c->bad && p->walked[i].instr - (c->at + c->bytecode) >= c->length;
}

/* --- copies of the bytecode (without the GIL, 3.14 on) --- */

/* Does frame @i stand outside the bytecode itself? Then *@index says in which copy. */
static bool in_copy(struct pystack *p, const struct pylayout *l, uint32_t i, int32_t *index)
{
	return is_outside(p, i) &&
	       rmem_read(p->mem, pystack_frame_at(p, i) + pyoff_get(l->frame.tlbc_index),
			 index, sizeof(*index)) == 0 &&
	       *index >= 0;
}

/* Brings where the copies lie, in two calls; most are held already. */
static void fetch_copies(struct pystack *p, const struct pylayout *l, uint32_t n)
{
	int32_t index;
	raddr list;

	for (uint32_t i = 0; i < n; i++)
		if (in_copy(p, l, i, &index))
			rmem_batch_want(&p->batch,
					p->seen[i].code->at + pyoff_get(l->code.tlbc), 8);
	rmem_batch_fetch(&p->batch);
	for (uint32_t i = 0; i < n; i++)
		if (in_copy(p, l, i, &index) &&
		    rmem_read_u64(p->mem, p->seen[i].code->at + pyoff_get(l->code.tlbc),
				  &list) == 0) {
			rmem_batch_want(&p->batch, list, 8);
			rmem_batch_want(&p->batch, list + 8 + 8 * (raddr)index, 8);
		}
	rmem_batch_fetch(&p->batch);
}

/* From here on all frames stand in the bytecode itself, or in none of its copies. */
static void leave_copies(struct pystack *p, const struct pystack_target *t, struct thread *th,
			 uint32_t n)
{
	const struct pylayout *l = &t->layout;
	int32_t index;
	raddr list;

	if (!pyoff_has(l->code.tlbc))
		return;
	fetch_copies(p, l, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct code *c = p->seen[i].code;

		if (!in_copy(p, l, i, &index))
			continue;
		list = pycode_instr(p->mem, l, c->at, c->length, index, &p->walked[i].instr);
		if (!list)
			continue;
		pystack_plan(th, c->at + pyoff_get(l->code.tlbc),
			     c->at + pyoff_get(l->code.tlbc) + 8);
		pystack_plan(th, list, list + 8);
		pystack_plan(th, list + 8 + 8 * (raddr)index, list + 16 + 8 * (raddr)index);
	}
}

/* Up to 3.9 the line table does not tell the length of the bytecode: a code that replaced another
 * one may have an equal fingerprint, and frames that stand behind the end of that one. */
static void lengthen(struct pystack *p, const struct pylayout *l, uint32_t n)
{
	unsigned char head[PYCODE_HEAD_MAX];

	if (!pyoff_has(l->code.instructions))
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct code *c = p->seen[i].code;

		if (is_outside(p, i) && rmem_read(p->mem, c->at, head, l->code.size) == 0)
			c->length = bytecode_length(p, l, head);
	}
}

void codes_verify(struct pystack *p, const struct pystack_target *t, struct thread *th,
		  uint32_t n)
{
	look_up(p, t, n);
	look_at_functions(p, t, th, n);
	for (uint32_t i = 0; i < n; i++)
		if (p->seen[i].code)
			p->seen[i].verified = still_verified(&p->seen[i], th);
	fetch(p, t, n);
	for (uint32_t i = 0; i < n; i++)
		if (to_verify(&p->seen[i]) && p->seen[i].code->stamp != p->stamp)
			verify(p, t, th, &p->seen[i]);
	leave_copies(p, t, th, n);
	lengthen(p, &t->layout, n);
}

bool pystack_has_begun(const struct code *c, const struct pyframe *f)
{
	int64_t off = (int64_t)(f->instr - (c->at + c->bytecode));

	/* Up to 3.10 a frame is there from the moment that it is linked. */
	return !c->bytecode || (f->frame & PYFRAME_GENERATOR) ||
	       off >= 2 * (int64_t)c->firsttraceable;
}
