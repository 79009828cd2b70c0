/* SPDX-License-Identifier: MIT
 *
 * fuzz_native - any stacks of a made-up module, unwound, named and merged with Python frames at
 * any anchors. An input is a head, and two bytes for each word of the stack.
 */
#include "../own_spaces.h"
#include "elf/elfcache.h"
#include "elf/module.h"
#include "elf/rows.h"
#include "fuzz.h"
#include "stacks/native.h"

enum {
	PID = 1 << 22, /* nobody's */
	LO = 0x10000000,
	GREEN = 0x20000000, /* the same code as greenlet's */
	TEXT = 0x1000,	    /* where it begins in each */
	EACH = 0x100,	    /* bytes of a function */
	SP = 0x7f0000,
	WORDS = 96,
	ANCHORS = 3,
	LOOP = 1, /* which function is the evaluation loop */
};

struct head {
	uint8_t pc[2], rbp, rbx, have, n_anchors, n_python, flags, n_first;
	uint8_t anchor[ANCHORS][2]; /* at which word, and how many Python frames */
};

/* By what rules each function is unwound, behind those of its CIE: cfa = rsp + 8, rip at cfa -
 * 8; and its name, if it has one. */
static const struct function {
	const char *name, *ops;
	size_t n;
} functions[] = {
#define OPS(text) text, sizeof(text) - 1
	{ "spin", OPS("") },
	{ "_PyEval_EvalFrameDefault", OPS("\x0e\x30\x86\2") },
	{ "_PyObject_Vectorcall", OPS("\x0e\x10") },
	{ "gc_collect_main", OPS("\x0c\6\x10\x86\2") },
	{ NULL, OPS("\x0c\3\x10") },
	{ "_dl_start", OPS("\7\x10") },
	{ "aligned", OPS("\x0f\3\x77\x10\6") },
	{ NULL, OPS("\x0e\x20\x86\3\x83\2") },
	{ "cold.cold", OPS("\x0e\x50\x41\x0e\x10\x42\x0e\x08") },
	{ "_PyFunction_Vectorcall", OPS("\x0e\x18\x86\2\x16\x0c\2\x77\x08") },
	{ NULL, OPS("\x0e\x10\x09\x10\3") },
	{ "main", OPS("\x0e\x90\1") },
#undef OPS
};

static struct symbolizer *symbols;
static struct native *native;

/* A record of .debug_frame. @lo: where an FDE's function begins; 0: it is the CIE. */
static size_t put_record(uint8_t *buf, uint64_t lo, const char *ops, size_t n)
{
	static const char cie[] = "\1\0\1\x78\x10\x0c\7\x08\x90\1";
	uint32_t size, id = lo ? 0 : UINT32_MAX;
	uint64_t range[2] = { lo, EACH };
	size_t head = lo ? sizeof(range) : sizeof(cie) - 1;

	size = (uint32_t)(4 + head + n);
	memcpy(buf, &size, 4);
	memcpy(buf + 4, &id, 4);
	memcpy(buf + 8, lo ? (const void *)range : cie, head);
	memcpy(buf + 8 + head, ops, n);
	return 8 + head + n;
}

static struct module *module(void)
{
	struct module *m = calloc(1, sizeof(*m));
	struct unwind_source s = { .base = TEXT };
	size_t n_names = 1;

	s.debug = (struct frames_section){ { calloc(1, 4096), 0 }, 0, true };
	s.debug.b.n = put_record((uint8_t *)(uintptr_t)s.debug.b.at, 0, "", 0);
	m->base = TEXT;
	m->load[m->n_loads++] = (struct module_load){ 0, TEXT, 2 * TEXT };
	m->sym = calloc(ARRAY_SIZE(functions), sizeof(*m->sym));
	m->func = calloc(ARRAY_SIZE(functions), sizeof(*m->func));
	m->names = calloc(ARRAY_SIZE(functions), 64);
	m->exports_python = true;
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		const struct function *f = &functions[i];
		uint32_t at = (uint32_t)(TEXT + EACH * i);

		s.debug.b.n += put_record((uint8_t *)(uintptr_t)s.debug.b.at + s.debug.b.n,
					  TEXT + at, f->ops, f->n);
		m->func[m->n_funcs++] = (struct module_func){ at, EACH };
		if (!f->name)
			continue;
		m->sym[m->n_syms++] = (struct module_sym){ at, EACH, (uint32_t)n_names };
		strcpy(m->names + n_names, f->name);
		n_names += strlen(f->name) + 1;
	}
	FUZZ_CHECK(rows_make(&m->rows, arch_host, &s) == 0);
	return m;
}

static void map(uint64_t lo, const char *path)
{
	struct side side = { .kind = SIDE_MMAP, .pid = PID, .tid = PID };
	struct spaces *spaces = symbolizer_spaces(symbols);

	side.u.mmap.addr = lo, side.u.mmap.len = 4 * TEXT, side.u.mmap.prot = PROT_EXEC;
	side.u.mmap.path = path;
	spaces_side(spaces, &side);
	elfcache_give_module(spaces->elfs, space_at(spaces_find(spaces, PID), lo)->elf,
			     module());
}

static void begin(void)
{
	symbols = own_symbolizer(SPACES_ROWS);
	native = native_create(symbols, NULL);
	map(LO, "/made/up.so");
	map(GREEN, "/made/_greenlet.so");
}

static uint64_t code(uint64_t lo, uint8_t v)
{
	size_t n = ARRAY_SIZE(functions) + 1;

	return lo + TEXT + EACH * (v % n) + 3 * (v / n) + 1;
}

static uint64_t word(const uint8_t what[2])
{
	switch (what[0] & 7) {
	case 0:
	case 1:
		return code(LO, what[1]);
	case 2:
		return code(GREEN, what[1]);
	case 3:
		return SP + 8 * (uint64_t)(what[1] % WORDS);
	case 4:
		return 0;
	case 5:
		return LO + TEXT + EACH * LOOP + what[1];
	default:
		return 0x12345 + 0x1001 * (uint64_t)what[1];
	}
}

static void note(const struct native_stack *s)
{
	fuzz_note(s->n << 8 | (uint64_t)s->search_ended << 3 | (uint64_t)s->hides_line << 2 |
		  (uint64_t)s->bare << 1 | s->eval);
	for (size_t i = 0; i < s->n; i++) {
		const struct merge_item *it = &s->item[i];
		const struct unwind_frame *f = &s->frame[it->i];

		fuzz_note((uint64_t)it->kind << 32 | it->i);
		if (it->kind > MERGE_EVAL)
			continue;
		fuzz_note(f->pc ^ f->sp << 16);
		fuzz_note(f->cfa << 3 ^ (uint64_t)f->returned << 2 ^ (uint64_t)f->guessed << 1 ^
			  f->from_second);
		fuzz_note_text(s->symbol[it->i].name);
		fuzz_note_text(s->symbol[it->i].file ? s->symbol[it->i].file : "");
		fuzz_note((uint64_t)s->symbol[it->i].kind);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct unwind_regs regs = { .have = (uint64_t)1 << arch_host->dwarf_sp };
	struct native_input in = { .pid = PID, .time = 1, .regs = &regs };
	struct pystack_anchor anchor[ANCHORS];
	uint64_t stack[WORDS];
	struct native_stack s;
	struct head h;
	size_t words, first;

	if (n < sizeof(h))
		return 0;
	if (!native)
		begin();
	memcpy(&h, data, sizeof(h));
	words = MIN((n - sizeof(h)) / 2, WORDS);
	for (size_t i = 0; i < words; i++)
		stack[i] = word(data + sizeof(h) + 2 * i);
	regs.pc = word(h.pc);
	regs.r[arch_host->dwarf_sp] = SP;
	regs.r[6] = SP + 8 * (uint64_t)(h.rbp % WORDS);
	regs.r[3] = SP + 8 * (uint64_t)(h.rbx % WORDS);
	regs.have |= (h.have & 1u) << 6 | (h.have >> 1 & 1u) << 3;
	first = MIN(h.n_first, words);
	in.mem.piece[0] = (struct unwind_piece){ SP, { (const void *)stack, 8 * first } };
	in.mem.piece[1] = (struct unwind_piece){ SP + 8 * first,
						 { (const void *)(stack + first),
						   8 * (words - first) } };
	for (size_t i = 0; i < ANCHORS; i++)
		anchor[i] = (struct pystack_anchor){ .at = SP + 8 * (uint64_t)h.anchor[i][0],
						     .n = h.anchor[i][1] % 8u };
	in.anchor = anchor;
	in.n_anchors = h.n_anchors % (ANCHORS + 1u);
	in.n_python = h.n_python % 9u;
	in.none = h.flags & 1;
	in.may_be_jitted = h.flags & 2;
	s = native_stack(native, &in);
	note(&s);
	return 0;
}

/* @i tells which words lie on the stack: from one that goes well to one of chance. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	struct head h = { .have = 3, .n_anchors = 2, .n_python = 4, .n_first = 48 };
	uint64_t x = i + 1;
	size_t n = sizeof(h);

	if (i >= 48)
		return 0;
	h.pc[1] = (uint8_t)(i * 7);
	h.rbp = (uint8_t)(i + 10), h.rbx = (uint8_t)(i + 3);
	h.anchor[0][0] = (uint8_t)(4 + i % 24), h.anchor[0][1] = 2;
	h.anchor[1][0] = (uint8_t)(24 + i % 48), h.anchor[1][1] = 4;
	h.flags = (uint8_t)(i >> 3);
	memcpy(buf, &h, sizeof(h));
	for (size_t k = 0; k < WORDS && n + 2 <= cap; k++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		buf[n++] = (uint8_t)(k % (1 + i % 6) ? x >> 61 : (x >> 60 & 1 ? 0 : 5));
		buf[n++] = (uint8_t)(x >> 33);
	}
	return n;
}
