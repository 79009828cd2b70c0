/* SPDX-License-Identifier: MIT
 *
 * assemble_test - the frames that outputs get, of stacks drawn as letters, innermost first: E
 * a frame of the evaluation loop, C one on the way into it, p another; a digit behind a
 * letter: as many Python frames run there, of an activation that is known by its address.
 * Assembled: names of native frames, "f0:10" Python frames with their lines, marks in
 * brackets.
 */
#include <sys/mman.h>

#include "unit.h"
#include "../own_spaces.h"
#include "arch/arch.h"
#include "base/base.h"
#include "base/stats.h"
#include "lines/places.h"
#include "modules/space.h"
#include "stacks/assemble.h"
#include "sys/proc_maps.h"

/* This program exports them, as an interpreter does. */
int _PyEval_EvalFrameDefault(int n);
int PyObject_Call(int n);
int plain(int n);

__attribute__((__noinline__)) int _PyEval_EvalFrameDefault(int n)
{
	return n * 3 + 1;
}

__attribute__((__noinline__)) int PyObject_Call(int n)
{
	return n * 7 + 3;
}

__attribute__((__noinline__)) int plain(int n)
{
	return n * 5 + 2;
}

static uint64_t address_of(char letter)
{
	return (uint64_t)(uintptr_t)(letter == 'E' ? (void *)&_PyEval_EvalFrameDefault :
				     letter == 'C' ? (void *)&PyObject_Call :
						     (void *)&plain);
}

enum { SP = 1 << 30, MAX = 16, LASTI = 2 };

struct fix {
	struct assembler *a;
	struct stats stats;
	struct assembler_config c;
	uint64_t word[MAX];
	struct pystack_frame python[MAX];
	struct pystack_anchor anchor[MAX];
	struct unwind_regs regs;
	struct assemble_input in;
	char text[1024];
};

/* Code number @i: "fI", of which instruction 2 is at line 10 + I. */
static void note_code(struct profile *p, uint64_t i, uint32_t flags)
{
	static const unsigned char table[] = { 0x80 | 13 << 3, 0, 0x80 | 13 << 3, 2 };
	struct pycode_copy *c = calloc(1, PYCODE_COPY_MAX);

	*c = (struct pycode_copy){ .firstlineno = 9 + (int)i,
				   .name_n = 2,
				   .file_n = 4,
				   .table_n = sizeof(table),
				   .name_kind = 1,
				   .file_kind = 1,
				   .flags = flags,
				   .linetable = PY_LOCATIONS_311 };
	c->data[0] = 'f', c->data[1] = (unsigned char)('0' + i);
	memcpy(c->data + 2, "a.py", 4);
	memcpy(c->data + 6, table, sizeof(table));
	assert_int_equal(0, profile_code(p, i + 1, c, pycode_copy_size(c)));
	free(c);
}

static void take_map(void *assembler, struct side *side)
{
	assembler_side(assembler, side);
}

static void map_ourselves(struct assembler *a)
{
	assert_int_equal(0, own_files(take_map, a));
}

static void begin_with(struct fix *f, struct assembler_config c)
{
	*f = (struct fix){ .c = c };
	f->c.stats = &f->stats;
	f->a = assembler_create(&f->c);
	for (uint64_t i = 0; i < 8; i++)
		note_code(assembler_profile(f->a), i, 0);
	map_ourselves(f->a);
}

static void begin(struct fix *f)
{
	begin_with(f, (struct assembler_config){ .native = true, .names = true });
}

static void end(struct fix *f)
{
	assembler_destroy(f->a);
}

/* Each frame is one word, which is where it returns to. Without a thread's start (@cut) the
 * last one returns to where nothing is. */
static void draw(struct fix *f, const char *native, bool cut)
{
	struct assemble_input *in = &f->in;
	size_t n = 0;

	*in = (struct assemble_input){ .python = f->python };
	for (const char *c = native; *c; c++) {
		if (*c >= '0' && *c <= '9') {
			struct pystack_anchor *a = &f->anchor[in->native.n_anchors++];

			in->native.n_python += (uint32_t)(*c - '0');
			*a = (struct pystack_anchor){ .at = SP + 8 * (n - 1),
						      .n = in->native.n_python };
		} else {
			if (n)
				f->word[n - 1] = address_of(*c) + 1;
			else
				native_regs(&f->regs, address_of(*c), SP);
			n++;
		}
	}
	f->word[n - 1] = cut ? 16 : 0;
	for (uint32_t i = 0; i < MAX; i++)
		f->python[i] = (struct pystack_frame){ .code_id = i + 1, .lasti = LASTI };
	in->native.pid = getpid();
	in->native.regs = n ? &f->regs : NULL;
	in->native.mem.piece[0] = (struct unwind_piece){ SP, { (void *)f->word, 8 * n } };
	in->native.anchor = f->anchor;
}

static const char *made(struct fix *f)
{
	char *to = f->text;
	struct stack s;

	assert_true(assemble(f->a, &f->in, &s));
	*to = '\0';
	for (size_t i = 0; i < s.n; i++) {
		const struct frame *fr = &s.frames[i];

		if (fr->kind == FRAME_PYTHON)
			to += sprintf(to, "%s:%d ", fr->func->qualname, fr->line);
		else
			to += sprintf(to, "%s ", fr->name ? fr->name : "?");
	}
	return f->text;
}

#define CHECK(f, want) assert_string_equal(made(f), want)

#define LOOP "_PyEval_EvalFrameDefault "
#define CALL "PyObject_Call "

/* Python frames stand for the loop, and for how it is called between them. */
static void what_is_hidden(void **state)
{
	static const struct {
		const char *native, *want, *full;
	} rows[] = {
		{ "pE1p", "plain f0:10 plain ", "plain " LOOP "f0:10 plain " },
		{ "p", "plain ", "plain " },
		{ "pE2E1p", "plain f0:10 f1:11 f2:12 plain ",
		  "plain " LOOP "f0:10 f1:11 " LOOP "f2:12 plain " },
		/* What calls the outermost one is somebody else's. */
		{ "pCE1CE1Cp", "plain f0:10 f1:11 " CALL "plain ",
		  "plain " CALL LOOP "f0:10 " CALL LOOP "f1:11 " CALL "plain " },
		{ "CE1p", CALL "f0:10 plain ",
		  CALL LOOP "f0:10 plain " }, /* the event is there */
		{ "CCE1", CALL "f0:10 ", CALL CALL LOOP "f0:10 " },
		{ "E1p", "f0:10 plain ", LOOP "f0:10 plain " },
		{ "pEE1p", "plain f0:10 plain ", "plain " LOOP LOOP "f0:10 plain " },
		/* An activation is one, whatever it is called. */
		{ "pp1Cp", "plain f0:10 " CALL "plain ", "plain plain f0:10 " CALL "plain " },
		{ "pCECp", "plain " CALL LOOP CALL "plain ",
		  "plain " CALL LOOP CALL "plain " }, /* no Python at all */
	};

	for (int full = 0; full < 2; full++) {
		struct fix f;

		begin_with(&f, (struct assembler_config){
				       .native = true, .names = true, .full = full });
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			draw(&f, rows[i].native, false);
			CHECK(&f, full ? rows[i].full : rows[i].want);
			assert_int_equal(PROV_EXACT, f.in.prov);
		}
		assert_int_equal(0, STATS_GET(&f.stats, torn_unseen));
		end(&f);
	}
}

/* Of a late sample the activations' addresses say nothing of names. */
static void late_names(void **state)
{
	struct fix f;

	begin(&f);
	draw(&f, "pp1p", false);
	f.in.prov = PROV_LATE;
	CHECK(&f, "plain plain f0:10 [late] plain ");
	end(&f);
}

static void marks(void **state)
{
	static const struct {
		const char *native;
		enum provenance prov;
		bool cut, truncated;
		const char *want;
	} rows[] = {
		{ "pE1p", PROV_LATE, false, false, "plain f0:10 [late] plain " },
		{ "pE1E1p", PROV_LATE, false, false, "plain f0:10 f1:11 [late] plain " },
		{ "pE1p", PROV_TORN, false, false, "plain [torn] f0:10 plain " },
		{ "pEEp", PROV_TORN, false, false, "plain " LOOP "[torn] " LOOP "plain " },
		{ "pp", PROV_TORN, false, false, "plain plain [torn] " },
		{ "pp", PROV_LATE, false, false, "plain plain [late] " },
		{ "pp", PROV_NOPYTHON, false, false, "plain plain " },
		{ "pE1p", PROV_EXACT, false, true, "plain f0:10 plain [truncated] " },
		{ "pp", PROV_LATE, false, true, "plain plain [late] [truncated] " },
		{ "pE1p", PROV_EXACT, true, false, "plain f0:10 plain ? [no map] " },
		{ "pE1p", PROV_LATE, true, true,
		  "plain f0:10 [late] plain ? [no map] [truncated] " },
	};
	struct fix f;

	begin(&f);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *unknown;

		draw(&f, rows[i].native, rows[i].cut);
		f.in.prov = rows[i].prov;
		f.in.truncated = rows[i].truncated;
		made(&f);
		unknown = strstr(f.text, "[unknown]");
		if (unknown)
			memmove(unknown + 1, unknown + 9, strlen(unknown + 9) + 1),
				*unknown = '?';
		assert_string_equal(f.text, rows[i].want);
		assert_int_equal(rows[i].prov, f.in.prov);
	}
	end(&f);
}

/* Of Python frames that no frame of a whole stack runs it is said that their place is not known. */
static void without_a_place(void **state)
{
	struct fix f;

	begin(&f);
	draw(&f, "pE1p", false);
	f.anchor[0].at = SP / 2;
	CHECK(&f, "plain plain [unplaced] f0:10 ");
	end(&f);
}

/* Who stands in the loop runs Python, seen or not. */
static void unseen(void **state)
{
	static const struct {
		const char *native;
		enum provenance prov;
		char leaf; /* native frames are not wanted */
		bool torn;
	} rows[] = {
		{ "pEp", PROV_NOPYTHON, 0, true },
		{ "pp", PROV_NOPYTHON, 0, false },
		{ "pEp", PROV_LATE, 0, true },
		{ "pEp", PROV_EXACT, 0, false },
		{ "pE1p", PROV_NOPYTHON, 0, false },
		{ "", PROV_NOPYTHON, 'E', true },
		{ "", PROV_NOPYTHON, 'p', false },
		{ "", PROV_NOPYTHON, 0, false },
		{ "", PROV_EXACT, 'E', false },
		{ "pp", PROV_NOPYTHON, 'E', false }, /* the frames are known */
	};
	struct fix f;
	unsigned n = 0;

	begin(&f);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		draw(&f, rows[i].native[0] ? rows[i].native : "p", false);
		f.in.prov = rows[i].prov;
		if (!rows[i].native[0])
			f.in.native.regs = NULL;
		if (rows[i].leaf)
			f.in.leaf = address_of(rows[i].leaf);
		made(&f);
		n += rows[i].torn;
		assert_int_equal(rows[i].torn ? PROV_TORN : rows[i].prov, f.in.prov);
		assert_int_equal(rows[i].torn, strstr(f.text, "[torn]") != NULL);
		assert_int_equal(n, STATS_GET(&f.stats, torn_unseen));
	}
	/* What was torn before is not counted again. */
	draw(&f, "pEp", false);
	f.in.prov = PROV_TORN;
	made(&f);
	assert_int_equal(n, STATS_GET(&f.stats, torn_unseen));
	end(&f);
}

/* Of one that nobody could judge the native stack tells, if it is whole. */
static void undecided(void **state)
{
	static const struct {
		const char *native;
		bool cut;
		char leaf;
		enum provenance want;
	} rows[] = {
		{ "pCp", false, 0, PROV_NOPYTHON },   { "pEp", false, 0, PROV_TORN },
		{ "pp", true, 0, PROV_TORN },	      { "pp", false, 'E', PROV_TORN },
		{ "pp", false, 'p', PROV_NOPYTHON },
	};
	struct fix f;

	begin(&f);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (int knows = 0; knows < 2; knows++) {
			draw(&f, rows[i].native, rows[i].cut);
			f.in.prov = PROV_TORN;
			f.in.undecided = !knows;
			f.in.leaf = rows[i].leaf ? address_of(rows[i].leaf) : 0;
			made(&f);
			assert_int_equal(knows ? PROV_TORN : rows[i].want, f.in.prov);
		}
	}
	assert_int_equal(0, STATS_GET(&f.stats, torn_unseen));
	assert_int_equal(0, STATS_GET(&f.stats, search_ended));
	end(&f);
}

/* Each stack is counted of which not all words were tried that looked like the way on. */
static void searches_that_end(void **state)
{
	enum { WORDS = 8192, ENOUGH = 100 };
	static uint64_t word[WORDS];
	struct unwind_regs regs;
	struct fix f;

	begin(&f);
	native_regs(&regs, 16, SP);
	for (size_t i = 0; i < WORDS; i++)
		word[i] = (uint64_t)(uintptr_t)&memcpy + i;
	for (unsigned n = 0; n < 3; n++) {
		draw(&f, "p1", false);
		f.in.native.regs = &regs;
		f.in.native.mem.piece[0].bytes = (struct bytes){ (void *)word, sizeof(word) };
		f.anchor[0].at = SP + 8 * (n == 1 ? ENOUGH : WORDS - 2);
		made(&f);
		assert_int_equal(n == 0 ? 1 : n, STATS_GET(&f.stats, search_ended));
	}
	end(&f);
}

/* Without registers: the leaf alone, where native frames are wanted or there is nothing else.
 */
static void leaves(void **state)
{
	static const struct {
		bool native, python;
		enum provenance prov;
		char leaf;
		const char *want;
	} rows[] = {
		{ true, true, PROV_EXACT, 'p', "plain f0:10 " },
		{ false, true, PROV_EXACT, 'p', "f0:10 " },
		{ false, false, PROV_NOPYTHON, 'p', "plain " },
		{ true, false, PROV_NOPYTHON, 'p', "plain " },
		{ false, false, PROV_TORN, 'p', "[torn] " },
		{ true, false, PROV_TORN, 'p', "plain [torn] " },
		{ true, false, PROV_TORN, 'E', LOOP "[torn] " },
		{ true, true, PROV_EXACT, 'C', CALL "f0:10 " },
		{ true, true, PROV_EXACT, 'E', "f0:10 " },
		{ true, true, PROV_EXACT, 0, "f0:10 " },
		{ true, false, PROV_NOPYTHON, 0, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fix f;

		begin_with(&f, (struct assembler_config){ .native = rows[i].native,
							  .names = true });
		draw(&f, rows[i].python ? "E1" : "E", false);
		f.in.native.regs = NULL;
		f.in.prov = rows[i].prov;
		f.in.leaf = rows[i].leaf ? address_of(rows[i].leaf) : 0;
		CHECK(&f, rows[i].want);
		end(&f);
	}
}

/* The event may have been elsewhere in the innermost frame's function than the registers. */
static void leaf_of_a_frame(void **state)
{
	struct stack s;
	struct fix f;

	begin(&f);
	draw(&f, "pE1p", false);
	f.in.leaf = address_of('C');
	CHECK(&f, CALL "f0:10 plain ");
	assert_true(assemble(f.a, &f.in, &s));
	assert_int_equal(address_of('C'), s.frames[0].ip);
	assert_int_equal(FRAME_NATIVE, s.frames[0].kind);
	assert_int_equal(address_of('p') + 1, s.frames[2].ip); /* where it returns to */
	end(&f);
}

static void kernel_and_names(void **state)
{
	static const uint64_t kernel[] = { 1, 2 };

	for (int names = 0; names < 2; names++) {
		struct stack s;
		struct fix f;

		begin_with(&f, (struct assembler_config){ .native = true, .names = names });
		draw(&f, "pE1p", false);
		f.in.kernel = kernel;
		f.in.n_kernel = 2;
		CHECK(&f, names ? "[kernel]_[k] [kernel]_[k] plain f0:10 plain " :
				  "? ? ? f0:10 ? ");
		assert_true(assemble(f.a, &f.in, &s));
		assert_int_equal(5, s.n);
		for (size_t i = 0; i < 2; i++) {
			assert_int_equal(FRAME_KERNEL, s.frames[i].kind);
			assert_int_equal(i + 1, s.frames[i].ip);
			assert_int_equal(0, s.frames[i].place);
		}
		assert_int_equal(address_of('p'), s.frames[2].ip);
		end(&f);
	}
}

/* Code that was never noted; a name that stands among frames. */
static void codes(void **state)
{
	struct stack s;
	struct fix f;

	begin(&f);
	note_code(assembler_profile(f.a), 1, PYCODE_LABEL);
	draw(&f, "pE3p", false);
	CHECK(&f, "plain f0:10 f1 f2:12 plain ");
	assert_true(assemble(f.a, &f.in, &s));
	assert_int_equal(FRAME_MARKER, s.frames[2].kind);
	f.python[2].code_id = 99;
	assert_false(assemble(f.a, &f.in, &s));
	end(&f);
}

/* Where the innermost frame may be run by a JIT, its line is not told. Code in no file is the
 * loop's caller here. */
static void jitted(void **state)
{
	struct side side = { .kind = SIDE_MMAP, .pid = getpid(), .tid = getpid() };
	struct fix f;

	begin(&f);
	side.u.mmap.addr = 1 << 20, side.u.mmap.len = 4096;
	side.u.mmap.prot = PROT_EXEC, side.u.mmap.path = "//anon";
	assembler_side(f.a, &side);
	for (int may = 0; may < 2; may++) {
		for (int calls = 0; calls < 2; calls++) {
			draw(&f, "pE2p", false);
			f.in.native.n_anchors = 0; /* no activation was found */
			f.python[0].flags = (may ? PYSTACK_MAY_BE_JITTED : 0u) |
					    (calls ? PYSTACK_CALLS : 0u);
			f.python[1].flags = PYSTACK_MAY_BE_JITTED | PYSTACK_CALLS;
			made(&f);
			assert_int_equal(may, strstr(f.text, "f0:0") != NULL);
			assert_non_null(strstr(f.text, "f1:11"));
			assert_int_equal(may && calls ? PROV_TORN : PROV_EXACT, f.in.prov);
		}
	}
	assert_int_equal(1, STATS_GET(&f.stats, torn_unseen));
	end(&f);
}

/* The places of native frames: before a return address stands the call. */
static void places_of_frames(void **state)
{
	struct fix f;
	struct places *places;
	struct stats stats = { 0 };
	struct stack s;

	places = places_create(NULL, false, &stats);
	begin_with(&f, (struct assembler_config){
			       .native = true, .names = true, .places = places });
	draw(&f, "pE1pp", false);
	assert_true(assemble(f.a, &f.in, &s));
	assert_int_equal(4, s.n);
	assert_int_not_equal(0, s.frames[0].place);
	assert_int_equal(0, s.frames[1].place); /* Python */
	assert_int_equal(s.frames[0].place, s.frames[2].place);
	assert_int_equal(s.frames[2].place, s.frames[3].place);
	assert_string_equal("plain", places_symbol(places, s.frames[0].place));
	end(&f);
	places_destroy(places);
}

#ifdef __x86_64__
/* Assembly that says nothing about its stack, and what calls it, with a frame of one word. */
void bare(void);
void calls_bare(void);
__asm__(".text\n.balign 64\n.skip 64, 0xcc\n"
	".globl bare\n.type bare, @function\nbare: nop\nnop\n.size bare, . - bare\n"
	".skip 64, 0xcc\n"
	".globl calls_bare\n.type calls_bare, @function\ncalls_bare: .cfi_startproc\n"
	"call bare\nret\n.cfi_endproc\n.size calls_bare, . - calls_bare\n");

/* However many frames are guessed, it is said once, below the last that is not. */
static void guessed(void **state)
{
	struct fix f;

	begin(&f);
	draw(&f, "ppp", false);
	native_regs(&f.regs, (uint64_t)(uintptr_t)&bare, SP);
	for (int i = 0; i < 3; i++)
		f.word[i] = (uint64_t)(uintptr_t)&calls_bare + 5;
	CHECK(&f, "bare [guessed] calls_bare calls_bare calls_bare [cut] ");
	end(&f);
}
#endif

/* A stack ends where there is no more room, however many frames there are. */
static void too_many_frames(void **state)
{
	enum { ROOM = PYWALK_MAX_FRAMES + 8192 };
	uint64_t *kernel = calloc(ROOM + 2, sizeof(*kernel));
	struct fix f;
	struct stack s;

	begin_with(&f, (struct assembler_config){ 0 });
	for (uint64_t i = 0; i < ROOM + 2; i++)
		kernel[i] = i + 1;
	for (uint32_t n = ROOM - 1; n <= ROOM + 2; n++) {
		f.in = (struct assemble_input){ .kernel = kernel, .n_kernel = n };
		f.in.prov = PROV_NOPYTHON;
		assert_true(assemble(f.a, &f.in, &s));
		assert_int_equal(MIN(n, (uint32_t)ROOM), s.n);
		assert_int_equal(s.n, s.frames[s.n - 1].ip);
	}
	end(&f);
	free(kernel);
}

/* Little memory: names fall, and are counted; frames do not. */
static void bounded(void **state)
{
	struct fix f;
	struct stack s;

	begin_with(&f, (struct assembler_config){
			       .native = true, .names = true, .memory = 4 << 10 });
	draw(&f, "pE3p", false);
	assert_true(assemble(f.a, &f.in, &s));
	assert_int_equal(PROV_EXACT, f.in.prov);
	assert_true(STATS_GET(&f.stats, unnamed) > 0);
	assert_true(STATS_GET(&f.stats, unmapped) > 0);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_hidden),
		cmocka_unit_test(late_names),
		cmocka_unit_test(marks),
		cmocka_unit_test(without_a_place),
		cmocka_unit_test(unseen),
		cmocka_unit_test(undecided),
		cmocka_unit_test(searches_that_end),
		cmocka_unit_test(leaves),
		cmocka_unit_test(leaf_of_a_frame),
		cmocka_unit_test(kernel_and_names),
		cmocka_unit_test(codes),
		cmocka_unit_test(jitted),
		cmocka_unit_test(places_of_frames),
		cmocka_unit_test(too_many_frames),
		cmocka_unit_test(bounded),
#ifdef __x86_64__
		cmocka_unit_test(guessed),
#endif
	};

	/* The stacks made up here are x86-64's. 77: skipped. */
	return arch_host == &arch_x86_64 ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
