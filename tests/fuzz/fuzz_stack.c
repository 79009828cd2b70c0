/* SPDX-License-Identifier: MIT
 *
 * fuzz_stack - stack bytes and registers unwound by the rules of our own files, and merged
 * with Python frames at any anchors. Seeds are this program's own stacks: through an
 * evaluation loop of ours, through the C library, on a stack for signals. (Addresses change
 * from run to run: play a mutation again under setarch -R.)
 */
#include <signal.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "../own_regs.h"
#include "../own_spaces.h"
#include "fuzz.h"
#include "stacks/native.h"
#include "sys/proc_maps.h"

enum { ANCHORS = 4, SNAPSHOT = 8192, NEST = 3 };

/* An input: this, and the bytes of the stack; the last @far of them are elsewhere. */
struct head {
	struct unwind_regs regs;
	uint64_t at, far_at;
	struct pystack_anchor anchor[ANCHORS];
	uint32_t n_anchors, n_python, far, pad;
};

static struct symbolizer *symbols;
static struct native *native;

static void feed(const struct proc_map *m)
{
	struct side side = { .kind = SIDE_MMAP, .pid = getpid(), .tid = getpid() };

	side.u.mmap.addr = m->start;
	side.u.mmap.len = m->end - m->start;
	side.u.mmap.pgoff = m->pgoff;
	side.u.mmap.ino = m->ino;
	side.u.mmap.maj = m->maj;
	side.u.mmap.min = m->min;
	side.u.mmap.prot = 5;
	side.u.mmap.path = m->path[0] ? m->path : "//anon";
	spaces_side(symbolizer_spaces(symbols), &side);
}

static void begin(void)
{
	struct proc_maps maps;

	symbols = own_symbolizer(SPACES_ROWS);
	native = native_create(symbols, NULL);
	FUZZ_CHECK(native && proc_maps_read(&maps, getpid()) == 0);
	for (size_t i = 0; i < maps.n; i++)
		if (maps.map[i].x && maps.map[i].path[0])
			feed(&maps.map[i]);
	proc_maps_deinit(&maps);
}

static void check_items(const struct native_stack *s, uint32_t n_python)
{
	uint32_t python = 0, native_next = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct merge_item *it = &s->item[i];

		if (it->kind == MERGE_PYTHON)
			FUZZ_CHECK(it->i == python++);
		if (it->kind == MERGE_NATIVE || it->kind == MERGE_EVAL)
			FUZZ_CHECK(it->i == native_next++);
		if (it->kind == MERGE_END)
			FUZZ_CHECK(unwind_end_name((enum unwind_end)it->i));
	}
	FUZZ_CHECK(python == n_python);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct native_input in = { .pid = getpid(), .time = now_ns() };
	struct native_stack s;
	struct head h;
	size_t far;

	if (n < sizeof(h))
		return 0;
	if (!native)
		begin();
	memcpy(&h, data, sizeof(h));
	data += sizeof(h);
	n -= sizeof(h);
	far = MIN(h.far, n);
	h.regs.returned = h.pad & 1;
	h.regs.have |= 1 << 7; /* as promised */
	in.regs = &h.regs;
	in.mem.piece[0] = (struct unwind_piece){ h.at, { data, n - far } };
	in.mem.piece[1] = (struct unwind_piece){ h.far_at, { data + n - far, far } };
	in.anchor = h.anchor;
	in.n_anchors = MIN(h.n_anchors, ANCHORS);
	in.n_python = h.n_python % 64;
	s = native_stack(native, &in);
	check_items(&s, in.n_python);
	return 0;
}

/* ---- Seeds ---- */

static struct seed {
	struct head h;
	unsigned char stack[2 * SNAPSHOT];
	size_t n;
} seed;
static bool signals;

/* As much as there is; a sanitizer is not asked. */
static size_t copy(uint64_t at)
{
	struct iovec from = { (void *)at, SNAPSHOT }, to = { seed.stack + seed.n, SNAPSHOT };
	ssize_t n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

	FUZZ_CHECK(n > 0);
	seed.n += (size_t)n;
	return (size_t)n;
}

static void look(void)
{
	struct head *h = &seed.h;
	ucontext_t uc;

	getcontext(&uc);
	own_regs(&h->regs, &uc);
	h->at = h->regs.r[arch_host->dwarf_sp];
	copy(h->at);
	if (!signals)
		return;
	h->far_at = (h->anchor[0].at - SNAPSHOT / 3) & ~(uint64_t)7;
	h->far = (uint32_t)copy(h->far_at);
}

static int compare(const void *a, const void *b)
{
	if (!seed.n)
		look();
	return 0;
}

static void on_signal(int sig)
{
	look();
}

/* Looks like CPython's: its symbol tells, and rules that need the stack pointer only. */
int _PyEval_EvalFrameDefault(int n);
__attribute__((__noinline__, __no_sanitize__("address"))) int _PyEval_EvalFrameDefault(int n)
{
	volatile uint64_t anchor[8] = { (uint64_t)n };
	int v[2] = { 2, 1 };

	seed.h.anchor[n] =
		(struct pystack_anchor){ (uint64_t)&anchor[4], 2 * ((uint32_t)n + 1) };
	if (n > 0)
		return _PyEval_EvalFrameDefault(n - 1) + (int)anchor[0];
	if (signals)
		raise(SIGUSR1);
	else
		qsort(v, 2, sizeof(v[0]), compare);
	return v[0] + (int)anchor[0];
}

static void take_seed(bool with_signal)
{
	static char alternate[64 << 10];
	stack_t ss = { .ss_sp = alternate, .ss_size = sizeof(alternate) }, off;
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	memset(&seed, 0, sizeof(seed));
	signals = with_signal;
	sigaltstack(&ss, &off);
	sigaction(SIGUSR1, &sa, NULL);
	_PyEval_EvalFrameDefault(NEST - 1);
	sigaltstack(&off, NULL);
	seed.h.n_anchors = NEST;
	seed.h.n_python = 2 * NEST;
}

/* 0: a plain one; 1: behind a signal; 2: begun where nothing is known, to be found again. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	if (i > 2)
		return 0;
	take_seed(i == 1);
	if (i == 2)
		seed.h.regs.pc = 1;
	memcpy(buf, &seed.h, sizeof(seed.h));
	return sizeof(seed.h) +
	       fuzz_bytes(buf + sizeof(seed.h), cap - sizeof(seed.h), seed.stack, seed.n);
}

/* Seeds hold addresses of the program that made them: under libFuzzer this one writes its own,
 * into the folder FUZZ_SEEDS, before they are read. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static uint8_t buf[sizeof(struct head) + sizeof(seed.stack)];
	const char *folder = getenv("FUZZ_SEEDS");
	char path[4096];
	size_t n;

	(void)argc, (void)argv;
	for (unsigned i = 0; folder && (n = fuzz_seed(i, buf, sizeof(buf))); i++) {
		_cleanup_fclose_ FILE *f = NULL;

		snprintf(path, sizeof(path), "%s/seed-%u", folder, i);
		f = fopen(path, "wb");
		FUZZ_CHECK(f && fwrite(buf, 1, n, f) == n);
	}
	return 0;
}
