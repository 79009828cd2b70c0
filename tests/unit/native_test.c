/* SPDX-License-Identifier: MIT
 *
 * native_test - stacks on which the way is lost: found again, and given up where too much on
 * them looks like it.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "../own_spaces.h"
#include "arch/arch.h"
#include "base/clock.h"
#include "elf/module.h"
#include "stacks/native.h"
#include "sys/proc_maps.h"

static _Atomic pid_t hangs;   /* reads of this process do, of others than this thread */
static _Atomic unsigned slow; /* how many us each read by another thread takes longer */

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n_to,
			 const struct iovec *from, unsigned long n_from, unsigned long flags)
{
	if (slow && gettid() != getpid())
		usleep(slow);
	while (hangs == pid && gettid() != getpid())
		usleep(100);
	return syscall(SYS_process_vm_readv, pid, to, n_to, from, n_from, flags);
}

/* What passes for the evaluation loop here. */
int _PyEval_EvalFrameDefault(int n);
__attribute__((__noinline__)) int _PyEval_EvalFrameDefault(int n)
{
	return n * 3 + 1;
}

enum { SP = 1 << 30, WORDS = 18000 };

static uint64_t words[WORDS];
static struct symbolizer *symbols;
static struct native *native;

static void take_map(void *spaces, struct side *side)
{
	spaces_side(spaces, side);
}

static int setup(void **state)
{
	symbols = own_symbolizer(SPACES_ROWS);
	native = native_create(symbols, NULL);
	assert_int_equal(0, own_files(take_map, symbolizer_spaces(symbols)));
	return 0;
}

static int teardown(void **state)
{
	native_destroy(native);
	own_symbolizer_destroy(symbols);
	return 0;
}

/* Where a call returns to that was the loop's first instruction: its frame is that word. */
static uint64_t into_loop(void)
{
	return (uint64_t)(uintptr_t)&_PyEval_EvalFrameDefault + 1;
}

/* The stack of a thread whose program counter is nowhere, with an activation behind word
 * @owner. */
static struct native_stack stack(size_t owner)
{
	struct pystack_anchor anchor = { .at = SP + 8 * (uint64_t)(owner + 1), .n = 1 };
	struct unwind_regs regs;

	native_regs(&regs, 16, SP);
	return native_stack(
		native, &(struct native_input){
				.pid = getpid(),
				.time = now_ns(),
				.regs = &regs,
				.mem.piece[0] = { .at = SP,
						  .bytes = { (void *)words, sizeof(words) } },
				.anchor = &anchor,
				.n_anchors = 1,
				.n_python = 1,
			});
}

/* How many activations it has; each Python frame is there anyway, and a mark. */
static unsigned evals(const struct native_stack *s)
{
	unsigned n = 0, python = 0, marks = 0;

	for (size_t i = 0; i < s->n; i++) {
		n += s->item[i].kind == MERGE_EVAL;
		python += s->item[i].kind == MERGE_PYTHON;
		marks += s->item[i].kind == MERGE_END;
	}
	assert_int_equal(1, python);
	assert_true(marks > 0);
	return n;
}

/* Where a call returns to that was the loop's last instruction: behind it. */
static uint64_t behind_loop(void)
{
	uint64_t at = into_loop();

	while (symbolize_is_eval(symbols, getpid(), at))
		at++;
	return at;
}

static void found_again(void **state)
{
	struct native_stack s;

	for (size_t i = 0; i < WORDS; i++)
		words[i] = 16;
	words[WORDS / 2] = into_loop();
	s = stack(WORDS / 2);
	assert_int_equal(1, evals(&s));
	assert_false(s.search_ended);
	s = stack(WORDS / 2 + 1); /* another frame than that */
	assert_int_equal(0, evals(&s));
	assert_false(s.search_ended);
	words[WORDS / 2] = behind_loop();
	s = stack(WORDS / 2);
	assert_int_equal(1, evals(&s));
}

/* The time is told, not judged. */
static void all_given_up(const char *what)
{
	uint64_t start = now_ns();

	for (int i = 0; i < 20; i++) {
		struct native_stack s = stack(WORDS - 2);

		assert_int_equal(0, evals(&s));
		assert_true(s.search_ended);
		assert_int_equal(3, s.n); /* where it is, a mark, and the Python frame */
	}
	print_message("%s: %.2f ms a stack\n", what, (double)(now_ns() - start) / 20e6);
}

/* Each word is one that could lead on, or is code at least. */
static void given_up(void **state)
{
	struct native_stack s;

	for (size_t i = 0; i < WORDS; i++)
		words[i] = into_loop();
	s = stack(100);
	assert_int_equal(1, evals(&s));
	assert_false(s.search_ended);
	all_given_up("into the loop");
	for (size_t i = 0; i < WORDS; i++)
		words[i] = (uint64_t)(uintptr_t)&memcpy + i;
	all_given_up("anywhere in code");
	words[0] = into_loop();
	s = stack(0); /* the next one has its own search */
	assert_false(s.search_ended);
}

static unsigned others_made, others_ended;

static void *other_create(struct codefile *files)
{
	assert_non_null(files);
	others_made++;
	return &others_made;
}

static void other_destroy(void *u)
{
	assert_ptr_equal(u, &others_made);
	others_ended++;
}

/* Three frames above each other, whatever the stack says. */
static void other_stack(void *u, const struct space *sp, const struct unwind_regs *regs,
			const struct unwind_memory *mem, struct unwind_stack *ret)
{
	assert_ptr_equal(u, &others_made);
	assert_int_equal(getpid(), sp->pid);
	assert_ptr_equal(words, mem->piece[0].bytes.at);
	for (ret->n = 0; ret->n < 3; ret->n++)
		ret->frame[ret->n] = (struct unwind_frame){ .pc = regs->pc + ret->n,
							    .sp = SP + 16 * ret->n,
							    .cfa = SP + 16 * (ret->n + 1) };
	ret->end = UNWIND_BOTTOM;
}

/* Who chose another unwinder gets its frames; where nothing is known to be mapped, ours. */
static void by_another_unwinder(void **state)
{
	static const struct unwind_other other = { .name = "other",
						   .create = other_create,
						   .destroy = other_destroy,
						   .stack = other_stack };
	struct native *own = native, *n = native_create(symbols, &other);
	struct native_stack s;

	assert_int_equal(1, others_made);
	words[0] = 16;
	native = n;
	s = stack((size_t)-1);
	native = own;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(16 + i, s.frame[i].pc);
	assert_int_equal(3 + 1, s.n); /* and the Python frame */
	s = native_stack(n, &(struct native_input){
				    .pid = 1 << 22,
				    .time = now_ns(),
				    .regs = &(struct unwind_regs){ .pc = 77 } });
	assert_int_equal(77, s.frame[0].pc);
	assert_int_equal(1 + 1, s.n); /* and the mark that it is cut */
	assert_int_equal(0, others_ended);
	native_destroy(n);
	assert_int_equal(1, others_ended);
}

#ifdef __x86_64__
/* A call whose return address has a frame of one word. */
void call_loop(void);
__asm__(".text\n.globl call_loop\n.type call_loop, @function\ncall_loop: .cfi_startproc\n"
	"call call_loop\nret\n.cfi_endproc\n.size call_loop, . - call_loop\n");

/* From each word rules lead far, but to no thread's start. */
static void guesses_end(void **state)
{
	struct native_stack s;

	for (size_t i = 0; i < WORDS; i++)
		words[i] = i < 4000 ? (uint64_t)(uintptr_t)&call_loop + 5 : 16;
	s = stack((size_t)-1); /* no activation is above: only guesses */
	assert_int_equal(0, evals(&s));
	assert_true(s.search_ended);
}

/* A trampoline in memory that no file has (python -X perf): its code is read, and then it is
 * no end. */
static void code_without_a_file(void **state)
{
	static const unsigned char trampoline[] = { 0x48, 0x83, 0xec, 8, 0xff, 0xd1,
						    0x48, 0x83, 0xc4, 8, 0xc3 };
	unsigned char *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct side side = { .kind = SIDE_MMAP, .pid = getpid(), .tid = getpid() };
	struct native_input in = { .pid = getpid(),
				   .time = now_ns(),
				   .mem.piece[0] = { SP, { (void *)words, sizeof(words) } } };
	struct native_stack s = { 0 };
	struct unwind_regs regs;

	memcpy(page, trampoline, sizeof(trampoline));
	side.u.mmap.addr = (uint64_t)(uintptr_t)page, side.u.mmap.len = 4096;
	side.u.mmap.prot = PROT_EXEC, side.u.mmap.path = "[anon:cpython:perf_trampoline]";
	spaces_side(symbolizer_spaces(symbols), &side);
	words[1] = into_loop();
	native_regs(&regs, side.u.mmap.addr + 4, SP);
	in.regs = &regs;
	/* On a busy machine the first ones don't wait until it is read. */
	for (int i = 0; i < 100000 && (i == 0 || s.frame[0].cfa != SP + 16); i++) {
		s = native_stack(native, &in);
		usleep(100);
	}
	assert_int_equal(SP + 16, s.frame[0].cfa);
	assert_int_equal(into_loop(), s.frame[1].pc);
	munmap(page, 4096);
}

/* ---- Code in no file ---- */

enum { FOREIGN = 1 << 28 };

static unsigned char *jit_page;

__attribute__((__noinline__)) static int plain(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n * 5;
}

/* A copy of this file, which is another one, made by @tool. */
static void map_this(const char *tool)
{
	struct side side = { .kind = SIDE_MMAP, .pid = getpid(), .tid = getpid() };
	struct spaces *spaces = symbolizer_spaces(symbols);
	const struct space_map *m =
		space_at(spaces_find(spaces, getpid()), (uint64_t)(uintptr_t)&plain);
	char path[] = "/tmp/native_test.XXXXXX", command[64];
	struct stat st;
	int fd = mkstemp(path);

	close(fd);
	snprintf(command, sizeof(command), "%s /proc/%d/exe %s", tool, getpid(), path);
	assert_int_equal(0, system(command));
	assert_int_equal(0, stat(path, &st));
	side.u.mmap.addr = m->lo + FOREIGN, side.u.mmap.len = m->hi - m->lo;
	side.u.mmap.pgoff = m->pgoff, side.u.mmap.ino = st.st_ino;
	side.u.mmap.maj = major(st.st_dev), side.u.mmap.min = minor(st.st_dev);
	side.u.mmap.prot = PROT_READ | PROT_EXEC, side.u.mmap.path = path;
	spaces_side(spaces, &side);
	unlink(path);
}

/* And a page of code as a JIT makes it, which can be unwound. */
static void map_more(void)
{
	static const unsigned char trampoline[] = { 0x48, 0x83, 0xec, 8, 0xff, 0xd1,
						    0x48, 0x83, 0xc4, 8, 0xc3 };
	struct side side = { .kind = SIDE_MMAP, .pid = getpid(), .tid = getpid() };

	map_this("cp");
	jit_page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(jit_page, trampoline, sizeof(trampoline));
	side.u.mmap.addr = (uint64_t)(uintptr_t)jit_page, side.u.mmap.len = 4096;
	side.u.mmap.prot = PROT_EXEC, side.u.mmap.path = "//anon";
	spaces_side(symbolizer_spaces(symbols), &side);
}

/* Where a frame stands: L in the loop, I elsewhere in its file, F in another one, G there
 * too, C in one of libc's, M in the JIT's page. */
static uint64_t stands(char letter)
{
	return letter == 'M' ? (uint64_t)(uintptr_t)jit_page + 6 :
	       letter == 'F' ? (uint64_t)(uintptr_t)&plain + FOREIGN + 1 :
	       letter == 'G' ? (uint64_t)(uintptr_t)&plain + FOREIGN + 2 :
	       letter == 'C' ? (uint64_t)(uintptr_t)&getppid + 1 :
	       letter == 'I' ? (uint64_t)(uintptr_t)&plain + 1 :
			       into_loop();
}

/* A stack of such frames of @pid, up to a thread's start, innermost first; the activation is in the
 * first L. */
static struct native_stack drawn_of(pid_t pid, const char *letters, struct native_input in)
{
	static struct pystack_anchor anchor;
	struct unwind_regs regs;
	size_t at = 0;

	in.pid = pid, in.time = now_ns(), in.regs = &regs, in.anchor = &anchor;
	in.mem.piece[0] = (struct unwind_piece){ SP, { (void *)words, 64 * 8 } };
	anchor = (struct pystack_anchor){ .n = 1 };
	memset(words, 0, 64 * 8);
	native_regs(&regs, stands(letters[0]) - (letters[0] != 'M'), SP);
	for (const char *c = letters; *c; c++) {
		if (*c == 'L' && !anchor.at)
			anchor.at = SP + 8 * at;
		at += *c == 'M'; /* it keeps a word */
		words[at++] = c[1] ? stands(c[1]) : 0;
	}
	return native_stack(native, &in);
}

static struct native_stack drawn(const char *letters, struct native_input in)
{
	return drawn_of(getpid(), letters, in);
}

static const struct native_input jitted = { .may_be_jitted = true,
					    .n_python = 1,
					    .n_anchors = 1 };

/* The line can't be told where a JIT's code runs the frame. */
static void lines_that_hide(void **state)
{
	static const struct {
		const char *letters;
		bool hides;
	} rows[] = {
		{ "L", false },	   { "IL", false },
		{ "ML", true },	   { "IML", true },
		{ "FML", false },  { "MFL", false },
		{ "MIL", true },   { "MCL", true },
		{ "CML", true },   { "FL", false },
		{ "IFIML", true }, { "IILM", false }, /* further out than the loop */
	};
	struct native_input not = jitted;

	assert_int_equal(5, plain(1));
	map_more();
	/* On a busy machine the first ones don't wait until the code is read. */
	for (int i = 0; i < 100000 && drawn("ML", jitted).frame[0].cfa != SP + 16; i++)
		usleep(100);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct native_stack s = drawn(rows[i].letters, jitted);

		assert_int_equal(strlen(rows[i].letters) + 1, s.n); /* and the Python frame */
		assert_int_equal(rows[i].hides, s.hides_line);
		assert_int_equal(strchr(rows[i].letters, 'L') != NULL, s.eval);
	}
	not .may_be_jitted = false;
	assert_false(drawn("ML", not ).hides_line);
	not = jitted, not .n_python = 0;
	assert_false(drawn("ML", not ).hides_line);
	not = jitted, not .n_anchors = 0; /* no activation is known */
	assert_true(drawn("IL", not ).hides_line);
	assert_true(drawn("II", jitted).hides_line); /* it is in no frame */
	assert_false(drawn("II", jitted).eval);
	munmap(jit_page, 4096);
}

/* Code that takes long to read is waited for a moment only, and there for a later stack. */
static void code_that_comes_late(void **state)
{
	time_t begin;

	map_more();
	hangs = getpid();
	for (int i = 0; i < 2; i++)
		assert_true(drawn("ML", jitted).frame[0].cfa != SP + 16);
	hangs = 0;
	begin = time(NULL);
	while (drawn("ML", jitted).frame[0].cfa != SP + 16)
		assert_true(time(NULL) - begin < 20);
	munmap(jit_page, 4096);
}

/* A process like this one, with all its maps. */
static pid_t twin(void)
{
	struct side side = { .kind = SIDE_FORK, .u.fork.ppid = getpid(), .u.fork.ptid = getpid() };

	side.pid = side.tid = fork();
	if (side.pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (side.pid == 0)
		pause();
	side.time = now_ns();
	spaces_side(symbolizer_spaces(symbols), &side);
	return side.pid;
}

/* In the end it is known where @pid's code goes on. */
static void is_read_soon(pid_t pid)
{
	time_t begin = time(NULL);

	while (drawn_of(pid, "ML", jitted).frame[0].cfa != SP + 16)
		assert_true(time(NULL) - begin < 20);
}

/* Code of one process that hangs who reads it keeps no other's from being read; of that one it is
 * read once it does not. */
static void code_that_hangs(void **state)
{
	pid_t child;

	map_more();
	hangs = child = twin();
	assert_false(drawn_of(child, "ML", jitted).code_hangs);
	is_read_soon(getpid());
	assert_true(drawn_of(child, "ML", jitted).code_hangs);
	assert_true(drawn_of(child, "ML", jitted).frame[0].cfa != SP + 16);
	assert_false(drawn_of(child, "L", jitted).code_hangs);
	hangs = 0;
	is_read_soon(child);
	assert_false(drawn_of(child, "ML", jitted).code_hangs);
	kill(child, SIGKILL);
	assert_int_equal(child, waitpid(child, NULL, 0));
	munmap(jit_page, 4096);
}

/* What is read in a moment the same stack has; on a busy machine not each time. */
static void code_that_is_waited_for(void **state)
{
	bool had = false;

	slow = 2000;
	for (int i = 0; i < 40 && !had; i++) {
		map_more();
		had = drawn("ML", jitted).frame[0].cfa == SP + 16;
		for (int k = 0; k < 1000 && drawn("ML", jitted).frame[0].cfa != SP + 16; k++)
			;
	}
	slow = 0;
	assert_true(had);
}

/* libc is mapped, but there was no memory to note of which file that is. */
static void lose_a_file(bool lost)
{
	static struct elfcache_elf *elf;
	const struct space *sp = spaces_find(symbolizer_spaces(symbols), getpid());
	struct space *space = (struct space *)(uintptr_t)sp;
	struct space_map *m =
		(struct space_map *)(uintptr_t)space_at(sp, (uint64_t)(uintptr_t)&getppid);

	if (lost)
		elf = m->elf;
	m->elf = lost ? NULL : elf;
	space->n_memory += lost ? 1 : -1; /* as space.c counts it */
}

/* A process of which no map is known. */
static struct native_stack of_a_stranger(struct native_input in)
{
	struct unwind_regs regs;

	in.pid = 1 << 22, in.time = now_ns(), in.regs = &regs;
	in.mem.piece[0] = (struct unwind_piece){ SP, { (void *)words, 64 * 8 } };
	native_regs(&regs, stands('I') - 1, SP);
	return native_stack(native, &in);
}

/* A process without such code needs not be asked. */
static void lines_without_a_jit(void **state)
{
	struct native_input none = jitted;

	none.n_anchors = 0;
	assert_false(drawn("IL", none).hides_line);
	assert_false(drawn("IL", none).hides_line);
	assert_false(of_a_stranger(none).hides_line);
	lose_a_file(true); /* of what is not known it may be */
	assert_true(drawn("IL", none).hides_line);
	lose_a_file(false);
	assert_false(drawn("IL", none).hides_line);
	map_more(); /* now it has some */
	assert_true(drawn("IL", none).hides_line);
	assert_true(drawn("IL", none).hides_line);
	munmap(jit_page, 4096);
}

/* Frames that were not found may be the JIT's. */
static void lines_behind_a_gap(void **state)
{
	struct pystack_anchor anchor = { .at = SP + 8 * 5, .n = 1 };
	struct unwind_regs regs;
	struct native_input in = jitted;

	map_more();
	in.pid = getpid(), in.time = now_ns(), in.regs = &regs, in.anchor = &anchor;
	in.mem.piece[0] = (struct unwind_piece){ SP, { (void *)words, 64 * 8 } };
	memset(words, 0, 64 * 8);
	words[0] = 16; /* leads nowhere */
	words[4] = into_loop();
	native_regs(&regs, stands('I') - 1, SP);
	assert_true(native_stack(native, &in).hides_line);
	munmap(jit_page, 4096);
}

/* Behind a thread's start there is nothing to be found, whatever looks like it. */
static void no_way_behind_a_start(void **state)
{
	struct pystack_anchor anchor = { .at = SP + 8 * 5, .n = 1 };
	struct unwind_regs regs;
	struct native_input in = { .n_python = 1, .n_anchors = 1 };
	struct native_stack s;

	in.pid = getpid(), in.time = now_ns(), in.regs = &regs, in.anchor = &anchor;
	in.mem.piece[0] = (struct unwind_piece){ SP, { (void *)words, 64 * 8 } };
	memset(words, 0, 64 * 8);
	words[4] = into_loop();
	words[5] = stands('I');
	native_regs(&regs, stands('I') - 1, SP);
	s = native_stack(native, &in);
	assert_false(s.eval);
	assert_true(s.bare);
	words[0] = 16; /* what leads nowhere is no start */
	s = native_stack(native, &in);
	assert_true(s.eval);
	assert_false(s.bare);
}

/* Of a stripped interpreter what is not the loop runs no Python, though nobody knows what it
 * is; of any other stripped file it may. */
static void of_a_stripped_interpreter(void **state)
{
	const struct space *sp;
	struct module *m;

	map_this("objcopy -S");
	sp = spaces_find(symbolizer_spaces(symbols), getpid());
	m = (struct module *)(uintptr_t)space_module(sp, space_at(sp, stands('F')));
	assert_non_null(m);
	assert_true(m->stripped);
	assert_false(drawn("F", (struct native_input){ 0 }).bare);
	assert_true(drawn("C", (struct native_input){ 0 }).bare);
	m->exports_python = true;
	assert_true(drawn("G", (struct native_input){ 0 }).bare);
}

static void ends_have_names(void **state)
{
	static const char *const names[] = {
		"[bottom]", "[no CFI]", "[no map]",    "[no register]",
		"[cut]",    "[limit]",	"[bad stack]", "[coroutine root]",
	};

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(names[i], unwind_end_name((enum unwind_end)i));
}

/* The way is found again in whichever piece of the stack the activation lies, at words only,
 * from the last frame on. */
static void found_again_elsewhere(void **state)
{
	struct pystack_anchor anchor = { .n = 1 };
	uint64_t other[16];
	struct unwind_regs regs;
	struct native_stack s;
	struct native_input in = { .pid = getpid(),
				   .time = now_ns(),
				   .regs = &regs,
				   .anchor = &anchor,
				   .n_anchors = 1,
				   .n_python = 1 };

	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		other[i] = words[i] = 16;
	in.mem.piece[0] = (struct unwind_piece){ SP, { (void *)words, 64 } };
	in.mem.piece[2] =
		(struct unwind_piece){ 2 * (uint64_t)SP, { (void *)other, sizeof(other) } };
	native_regs(&regs, 16, SP);
	other[3] = into_loop();
	anchor.at = 2 * (uint64_t)SP + 8 * 4;
	other[4] = stands('I');
	other[5] = 0; /* a thread's start */
	s = native_stack(native, &in);
	assert_int_equal(MERGE_END, s.item[1].kind);
	assert_int_equal(UNWIND_NO_MAP, s.item[1].i);
	assert_int_equal(MERGE_EVAL, s.item[2].kind);
	assert_int_equal(into_loop(), s.frame[s.item[2].i].pc);
	assert_int_equal(anchor.at, s.frame[s.item[2].i].sp);
	assert_int_equal(MERGE_PYTHON, s.item[3].kind);
	assert_int_equal(MERGE_NATIVE, s.item[4].kind);
	assert_int_equal(5, s.n);
	anchor.at = SP - 8; /* below the stack: nothing to look for */
	s = native_stack(native, &in);
	assert_int_equal(3, s.n);
	assert_int_equal(MERGE_PYTHON, s.item[2].kind);
	anchor.at = 3 * (uint64_t)SP; /* in no piece */
	s = native_stack(native, &in);
	assert_int_equal(3, s.n);
}

/* Our own code under @path: where its text lies in memory, as records have it. */
static uint64_t map_copy(const char *path)
{
	enum { AT = 1 << 29 };
	struct side side = { .kind = SIDE_MMAP, .pid = getpid(), .tid = getpid() };
	uint64_t own = (uint64_t)(uintptr_t)&call_loop;
	struct proc_maps maps;
	char command[256];
	struct stat st;

	snprintf(command, sizeof(command), "cp /proc/%d/exe %s", getpid(), path);
	assert_int_equal(0, system(command));
	assert_int_equal(0, stat(path, &st));
	assert_int_equal(0, proc_maps_read(&maps, getpid()));
	for (size_t i = 0; i < maps.n; i++) {
		const struct proc_map *m = &maps.map[i];

		if (own < m->start || own >= m->end)
			continue;
		side.u.mmap.addr = AT, side.u.mmap.len = m->end - m->start;
		side.u.mmap.pgoff = m->pgoff, side.u.mmap.ino = st.st_ino;
		side.u.mmap.maj = major(st.st_dev), side.u.mmap.min = minor(st.st_dev);
		side.u.mmap.prot = PROT_READ | PROT_EXEC, side.u.mmap.path = path;
		own -= m->start;
	}
	spaces_side(symbolizer_spaces(symbols), &side);
	proc_maps_deinit(&maps);
	return AT + own;
}

/* The stack of a greenlet that runs no Python ends in the library that switches. Whether it runs
 * none is told by who read its frames. */
static void greenlets_without_python(void **state)
{
	char path[] = "/tmp/native_test.XXXXXX/_greenlet.so", *dir = strrchr(path, '/');
	struct unwind_regs regs;
	struct native_input in = { .pid = getpid(),
				   .time = now_ns(),
				   .regs = &regs,
				   .mem.piece[0] = { SP, { (void *)words, sizeof(words) } } };

	*dir = '\0';
	assert_non_null(mkdtemp(path));
	*dir = '/';
	native_regs(&regs, map_copy(path) + 5, SP);
	words[0] = 16; /* which is nowhere */
	for (int none = 0; none < 2; none++) {
		struct native_stack s;

		in.none = none;
		s = native_stack(native, &in);
		assert_int_equal(MERGE_NATIVE, s.item[0].kind);
		assert_int_equal(SYMBOL_COROUTINE, s.symbol[0].kind);
		assert_int_equal(none ? MERGE_END : MERGE_NATIVE, s.item[1].kind);
		if (none)
			assert_int_equal(UNWIND_COROUTINE, s.item[1].i);
	}
	assert_int_equal(0, unlink(path));
	*dir = '\0';
	assert_int_equal(0, rmdir(path));
}

/* A handler of a loop that calls those in tails. */
int _TAIL_CALL_NOP(int n);
__attribute__((__noinline__)) int _TAIL_CALL_NOP(int n)
{
	return n * 7 + 1;
}

/* Such a handler stands in the loop's place: greenlet, which it calls, switches nothing. */
static void greenlets_of_a_tail_calling_loop(void **state)
{
	char path[] = "/tmp/native_test.XXXXXX/_greenlet.so", *dir = strrchr(path, '/');
	struct pystack_anchor anchor = { .at = SP + 16, .n = 1 };
	struct unwind_regs regs;
	struct native_input in = { .pid = getpid(),
				   .time = now_ns(),
				   .regs = &regs,
				   .mem.piece[0] = { SP, { (void *)words, 64 * 8 } },
				   .anchor = &anchor,
				   .n_anchors = 1,
				   .n_python = 1 };
	struct native_stack s;

	*dir = '\0';
	assert_non_null(mkdtemp(path));
	*dir = '/';
	memset(words, 0, 64 * 8);
	native_regs(&regs, map_copy(path), SP);
	words[0] = (uint64_t)(uintptr_t)&_TAIL_CALL_NOP + 1;
	words[1] = into_loop();
	words[2] = stands('I');
	s = native_stack(native, &in);
	assert_int_equal(SYMBOL_COROUTINE, s.symbol[0].kind);
	assert_int_equal(SYMBOL_EVAL, s.symbol[1].kind);
	assert_int_equal(MERGE_EVAL, s.item[2].kind);
	assert_int_equal(into_loop(), s.frame[s.item[2].i].pc);
	assert_int_equal(MERGE_PYTHON, s.item[3].kind);
	assert_int_equal(5, s.n); /* and who called the loop */
	assert_int_equal(0, unlink(path));
	*dir = '\0';
	assert_int_equal(0, rmdir(path));
}

/* ---- A loop that has a frame pointer ---- */

/* How an evaluation loop calls, and what is found from there. */
struct live {
	void (*callee)(struct live *l);
	uint64_t fp, anchor; /* the frame pointer, and a word of the frame */
	uint64_t back;	     /* where the callee returns to */
	uint64_t outer[2];   /* where the loop returns to, and what called it */
	struct native_stack s;
};

void live_loop(struct live *l) __asm__("_PyEval_EvalFrameDefault.live");
void live_third(struct live *l);

/* The frame's address makes each compiler use a frame pointer, whatever its flags are; the
 * registers are saved right below. */
__attribute__((__noinline__)) void live_loop(struct live *l)
{
	l->fp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	l->anchor = l->fp - 8;
	l->outer[0] = (uint64_t)(uintptr_t)__builtin_return_address(0);
	/* As in the loop, what a callee saves are its own values, not its caller's. */
	__asm__ volatile("xor %%ebx, %%ebx\nxor %%r12d, %%r12d\nxor %%r13d, %%r13d\n"
			 "xor %%r14d, %%r14d\nxor %%r15d, %%r15d" ::
				 : "rbx", "r12", "r13", "r14", "r15", "memory");
	l->callee(l);
	__asm__ volatile("" ::: "memory");
}

/* Assembly without unwind information that saves the frame pointer in a record; as gcc does
 * where it has none; last of all; and not at all. */
void saves_a_record(struct live *l);
void saves_as_gcc(struct live *l);
void saves_it_last(struct live *l);
void saves_nothing(struct live *l);
#define ASM_FUNCTION(name, code)                                   \
	__asm__(".text\n.globl " name "\n.type " name ", @function\n" \
		name ":\n" code "ret\n.size " name ", . - " name "\n")
ASM_FUNCTION("saves_a_record", "push %rbp\nmov %rsp, %rbp\ncall live_third\npop %rbp\n");
ASM_FUNCTION("saves_as_gcc", "push %r15\npush %r14\npush %r13\npush %r12\npush %rbp\n"
			     "push %rbx\nsub $8, %rsp\ncall live_third\nadd $8, %rsp\n"
			     "pop %rbx\npop %rbp\npop %r12\npop %r13\npop %r14\n"
			     "pop %r15\n");
ASM_FUNCTION("saves_it_last", "push %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
			      "push %rbp\nsub $8, %rsp\ncall live_third\nadd $8, %rsp\n"
			      "pop %rbp\npop %r15\npop %r14\npop %r13\npop %r12\n"
			      "pop %rbx\n");
ASM_FUNCTION("saves_nothing", "sub $8, %rsp\ncall live_third\nadd $8, %rsp\n");

/* It calls, too. */
void bare_call(void);
ASM_FUNCTION("bare_call", "call bare_call\n");

static uint64_t outermost; /* on our stack */

/* The stack from here on, with a break three frames further out. */
static __attribute__((__noinline__)) void live_look(struct live *l)
{
	struct pystack_anchor anchor = { .at = l->anchor, .n = 1 };
	struct unwind_regs regs;
	uint64_t pc, sp;

	__asm__ volatile("lea 0(%%rip), %0\nmov %%rsp, %1" : "=r"(pc), "=r"(sp));
	native_regs(&regs, pc, sp);
	regs.r[arch_host->dwarf_fp] = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	regs.have |= 1 << arch_host->dwarf_fp;
	l->s = native_stack(
		native, &(struct native_input){
				.pid = getpid(),
				.time = now_ns(),
				.regs = &regs,
				.mem.piece[0] = { sp, { (void *)(uintptr_t)sp, outermost - sp } },
				.anchor = &anchor,
				.n_anchors = 1,
				.n_python = 1,
			});
}

static __attribute__((__noinline__)) void live_second(struct live *l)
{
	live_look(l);
	__asm__ volatile("" ::: "memory");
}

__attribute__((__noinline__)) void live_third(struct live *l)
{
	live_second(l);
	__asm__ volatile("" ::: "memory");
}

static void note_back(struct live *l)
{
	l->back = (uint64_t)(uintptr_t)__builtin_return_address(0);
}

/* Where calls of such a loop return to. */
static uint64_t into_live_loop(void)
{
	struct live l = { .callee = note_back };

	live_loop(&l);
	return l.back;
}

static void check_live(const struct live *l, uint64_t back)
{
	const struct native_stack *s = &l->s;
	const struct unwind_frame *f = &s->frame[s->item[5].i];

	assert_int_equal(1, evals(s));
	assert_int_equal(MERGE_END, s->item[4].kind);
	assert_int_equal(UNWIND_NO_CFI, s->item[4].i);
	assert_int_equal(MERGE_EVAL, s->item[5].kind);
	assert_int_equal(back, f->pc);
	assert_int_equal(l->fp + 16, f->cfa);
	assert_int_equal(MERGE_PYTHON, s->item[6].kind);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(MERGE_NATIVE, s->item[7 + i].kind);
		assert_int_equal(l->outer[i], f[1 + i].pc);
	}
	assert_false(f->guessed);
}

/* The loop's frame ends where its frame pointer tells, which its callee has saved. */
static void a_frame_pointer(void **state)
{
	static void (*const callees[])(struct live *) = { saves_a_record, saves_as_gcc,
							  saves_it_last, saves_nothing };
	uint64_t back = into_live_loop();

	for (size_t i = 0; i < ARRAY_SIZE(callees); i++) {
		struct live l = { .callee = callees[i] };

		l.outer[1] = (uint64_t)(uintptr_t)__builtin_return_address(0);
		live_loop(&l);
		check_live(&l, back);
	}
}

enum { AT = 100, OWNED = 102 };

static uint64_t behind_a_call(void)
{
	return (uint64_t)(uintptr_t)&call_loop + 5;
}

/* Word AT returns into the loop, and word OWNED is in its frame. The word @below that one points
 * to word @record, behind which is where the loop returns to. */
static void draw_loop(size_t below, size_t record, uint64_t ret)
{
	for (size_t i = 0; i < WORDS; i++)
		words[i] = 16;
	words[AT] = into_live_loop();
	words[AT - below] = SP + 8 * record;
	words[record + 1] = ret;
}

static bool is_found(void)
{
	struct native_stack s = stack(OWNED - 1);

	assert_false(s.search_ended);
	return evals(&s) == 1;
}

static bool is_found_by(size_t below, size_t record, uint64_t ret)
{
	draw_loop(below, record, ret);
	return is_found();
}

/* It is one of the six words that a callee may save, at an even place above what the frame holds,
 * not too far. */
static void where_a_frame_pointer_is(void **state)
{
	enum { FAR = OWNED + (1 << 16) / 8 };
	struct native_stack s;

	for (size_t below = 1; below < 10; below++)
		assert_int_equal(below <= 6, is_found_by(below, 120, behind_a_call()));
	for (size_t record = OWNED - 2; record < OWNED + 20; record++)
		assert_int_equal(record > OWNED && record % 2 == 0,
				 is_found_by(1, record, behind_a_call()));
	assert_true(is_found_by(1, FAR, behind_a_call()));
	assert_false(is_found_by(1, FAR + 2, behind_a_call()));
	draw_loop(3, 120, behind_a_call());
	s = stack(OWNED - 1);
	assert_int_equal(SP + 8 * 122, s.frame[1].cfa);
	assert_int_equal(behind_a_call(), s.frame[2].pc);
}

/* What called the loop is a call, as far as that can be read, in code that has rules. */
static void who_calls_such_a_loop(void **state)
{
	assert_true(is_found_by(1, 120, behind_a_call()));
	assert_false(is_found_by(1, 120, behind_a_call() + 1));
	assert_false(is_found_by(1, 120, (uint64_t)(uintptr_t)&bare_call + 5));
	assert_false(is_found_by(1, 120, 16));
	assert_false(is_found_by(1, 120, 0));
	map_more();
	assert_false(is_found_by(1, 120, stands('M'))); /* code that nobody knows yet */
	for (int i = 0; i < 100000 && drawn("ML", jitted).frame[0].cfa != SP + 16; i++)
		usleep(100);
	assert_true(is_found_by(1, 120, stands('M'))); /* a trampoline */
	munmap(jit_page, 4096);
}

/* Of two words that may be it nobody knows which one it is. */
static void one_frame_pointer(void **state)
{
	draw_loop(1, 120, behind_a_call());
	words[AT - 2] = SP + 8 * 130;
	assert_true(is_found()); /* nothing returns behind that one */
	words[131] = behind_a_call();
	assert_false(is_found());
	words[AT - 2] = words[AT - 1];
	assert_true(is_found());
	words[AT - 1] = SP + 8 * 140;
	assert_true(is_found());
}

/* @loops words lead into @loop, and before each but the first is one that may be it. True: they
 * were too many. */
static bool are_too_many(size_t loops, uint64_t loop)
{
	size_t n = 2 * loops;
	struct native_stack s;

	draw_loop(1, n + 10, 16);
	for (size_t k = 0; k < n; k += 2) {
		words[k] = loop;
		words[k + 1] = SP + 8 * (n + 10);
	}
	s = stack(n + 1);
	assert_int_equal(0, evals(&s));
	return s.search_ended;
}

/* Each word that may be it is one that is looked at, where it is needed. */
static void frame_pointers_end(void **state)
{
	assert_false(are_too_many(500, into_live_loop()));
	assert_true(are_too_many(600, into_live_loop()));
	assert_false(are_too_many(600, into_loop()));
}

#endif

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(found_again),	     TEST(given_up),
		TEST(by_another_unwinder),
#ifdef __x86_64__
		TEST(guesses_end),	     TEST(code_without_a_file),
		TEST(lines_that_hide),	     TEST(lines_without_a_jit),
		TEST(code_that_comes_late),  TEST(code_that_hangs),
		TEST(code_that_is_waited_for),
		TEST(lines_behind_a_gap),    TEST(ends_have_names),
		TEST(no_way_behind_a_start), TEST(of_a_stripped_interpreter),
		TEST(found_again_elsewhere), TEST(greenlets_without_python),
		TEST(a_frame_pointer),	     TEST(where_a_frame_pointer_is),
		TEST(who_calls_such_a_loop), TEST(one_frame_pointer),
		TEST(frame_pointers_end),    TEST(greenlets_of_a_tail_calling_loop),
#endif
	};

#ifdef __x86_64__
	outermost = (uint64_t)(uintptr_t)__builtin_frame_address(0);
#endif
	/* The stacks made up here are x86-64's. 77: skipped. */
	return arch_host == &arch_x86_64 ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
