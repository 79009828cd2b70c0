/* SPDX-License-Identifier: MIT
 *
 * unwind_live - the part of unwind_test.c that unwinds this program's own stacks.
 */

static struct spaces *spaces;
static struct unwinder *unwinder;

static struct unwinder *own_unwinder(size_t max_bytes)
{
	spaces = spaces_create(max_bytes, SPACES_ROWS);
	return unwinder_create(spaces);
}

static void drop(struct unwinder *u)
{
	unwinder_destroy(u);
	spaces_destroy(spaces);
}

/* The function of this process around @pc, by its module's rows. */
static bool function_at(uint64_t pc, uint64_t *start, uint64_t *end)
{
	const struct space *sp = spaces_find(spaces, getpid());
	const struct space_map *m = sp ? space_at(sp, pc) : NULL;
	const struct module *module = m ? space_module(sp, m) : NULL;
	uint64_t at;

	if (!module || !module->rows || !module_vaddr(module, pc - m->lo + m->pgoff, &at) ||
	    !rows_function(module->rows, at, start, end))
		return false;
	*start += pc - at;
	*end += pc - at;
	return true;
}

static void feed(const struct proc_map *m)
{
	struct side side = { .kind = SIDE_MMAP, .pid = getpid(), .tid = getpid() };

	side.u.mmap.addr = m->start;
	side.u.mmap.len = m->end - m->start;
	side.u.mmap.pgoff = m->pgoff;
	side.u.mmap.ino = m->ino;
	side.u.mmap.maj = m->maj;
	side.u.mmap.min = m->min;
	side.u.mmap.prot = PROT_READ | (m->x ? PROT_EXEC : 0);
	side.u.mmap.path = m->path[0] ? m->path : "//anon";
	spaces_side(spaces, &side);
}

/* The memory around @p, copied: sanitizers mark bytes on stacks that are not ours. */
__attribute__((__no_sanitize__("address"))) static struct unwind_piece copy_from(uint64_t p)
{
	struct unwind_piece piece = { .at = p };
	struct proc_maps maps;
	unsigned char *to = NULL;

	assert_int_equal(0, proc_maps_read(&maps, getpid()));
	for (size_t i = 0; i < maps.n && !to; i++) {
		if (p - maps.map[i].start >= maps.map[i].end - maps.map[i].start)
			continue;
		piece.bytes.n = maps.map[i].end - p;
		to = malloc(piece.bytes.n);
		for (size_t k = 0; k < piece.bytes.n; k++)
			to[k] = ((const volatile unsigned char *)p)[k];
	}
	proc_maps_deinit(&maps);
	piece.bytes.at = to;
	return piece;
}

/* Have all tables made, on however busy a machine: a file that is not read within 200 ms is
 * one without unwind information until it was. */
static void make_tables(const struct proc_maps *maps)
{
	struct timespec step = { .tv_nsec = 1000000 };
	const struct elfcache_facts *facts = elfcache_facts(spaces->elfs);
	size_t n_files = 0;
	uint64_t start, end;

	for (size_t i = 0; i < maps->n; i++)
		n_files += maps->map[i].x && maps->map[i].path[0] == '/';
	for (int k = 0; k < 10000 && facts->read < n_files; k++) {
		for (size_t i = 0; i < maps->n; i++)
			if (maps->map[i].x)
				function_at(maps->map[i].start, &start, &end);
		if (k > 0)
			nanosleep(&step, NULL);
	}
	assert_true(facts->read >= n_files);
}

static struct unwinder *unwinder_of_us(size_t max_bytes)
{
	struct unwinder *u = own_unwinder(max_bytes);
	struct proc_maps maps;

	assert_non_null(u);
	assert_int_equal(0, proc_maps_read(&maps, getpid()));
	for (size_t i = 0; i < maps.n; i++)
		if (maps.map[i].x)
			feed(&maps.map[i]);
	make_tables(&maps);
	proc_maps_deinit(&maps);
	return u;
}

static int own_code(void *arg, uint64_t at, void *buf, size_t n)
{
	memcpy(buf, (const void *)at, n);
	return 0;
}

/* What a test saw of its own stack. */
static struct seen {
	struct unwind_frame frame[256];
	struct unwind_stack stack;
	void *truth[256];
	int n_truth;
	const void *other_stack; /* unwind on here, too */
	bool code;
	size_t cut; /* stack bytes to keep; 0: all */
} seen;

/* Our frames and the C library's, from the caller's frame on. */
__attribute__((__noinline__)) static void look(void)
{
	struct unwind_memory mem = { 0 };
	struct unwind_regs r;
	ucontext_t uc;

	getcontext(&uc);
	own_regs(&r, &uc);
	seen.n_truth = backtrace(seen.truth, ARRAY_SIZE(seen.truth));
	mem.piece[0] = copy_from(r.r[arch_host->dwarf_sp]);
	if (seen.cut)
		mem.piece[0].bytes.n = seen.cut;
	if (seen.other_stack)
		mem.piece[1] = copy_from((uint64_t)seen.other_stack & ~7ull);
	seen.stack.frame = seen.frame;
	if (!seen.stack.cap)
		seen.stack.cap = ARRAY_SIZE(seen.frame);
	unwinder_stack(unwinder, getpid(), &r, &mem, seen.code ? own_code : NULL, NULL,
		       &seen.stack);
	elfimage_free(&mem.piece[0].bytes);
	elfimage_free(&mem.piece[1].bytes);
}

static void begin(void)
{
	seen = (struct seen){ 0 };
	unwinder = unwinder_of_us(64 << 20);
}

/* Both know the frames behind look()'s own; a sanitizer puts one before it. */
static void check_seen(void)
{
	size_t more = (size_t)seen.n_truth - seen.stack.n;

	assert_int_equal(UNWIND_BOTTOM, seen.stack.end);
	assert_true(more <= 1);
	for (size_t i = 1; i < seen.stack.n; i++) {
		assert_ptr_equal(seen.truth[i + more], seen.frame[i].pc);
		assert_int_equal(seen.frame[i - 1].cfa, seen.frame[i].sp);
		assert_false(seen.frame[i].guessed);
	}
	drop(unwinder);
}

__attribute__((__noinline__)) static int recurse(int n)
{
	volatile char room[40] = { 0 };

	if (n == 0)
		look();
	else
		room[3] = (char)recurse(n - 1);
	return room[3];
}

static int compare(const void *a, const void *b)
{
	if (!seen.stack.n)
		recurse(2);
	return *(const int *)a - *(const int *)b;
}

static void test_live(void **state)
{
	int v[4] = { 3, 1, 2, 0 };

	begin();
	recurse(20);
	check_seen();
	assert_true(seen.stack.n > 22);
	begin();
	qsort(v, 4, sizeof(v[0]), compare);
	check_seen();
}

static void *in_thread(void *arg)
{
	recurse(3);
	return arg;
}

static void test_live_thread(void **state)
{
	pthread_t t;

	begin();
	assert_int_equal(0, pthread_create(&t, NULL, in_thread, NULL));
	pthread_join(t, NULL);
	check_seen();
}

static void on_signal(int sig)
{
	recurse(1);
}

/* A handler with a stack of its own: the rest is in the second piece. */
static void test_live_signal(void **state)
{
	static char alternate[64 << 10];
	stack_t ss = { .ss_sp = alternate, .ss_size = sizeof(alternate) }, off;
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK }, old;
	size_t i = 1;

	assert_int_equal(0, sigaltstack(&ss, &off));
	assert_int_equal(0, sigaction(SIGUSR1, &sa, &old));
	begin();
	seen.other_stack = (const char *)__builtin_frame_address(0) - 4096;
	raise(SIGUSR1);
	sigaction(SIGUSR1, &old, NULL);
	sigaltstack(&off, NULL);
	check_seen();
	while (i < seen.stack.n && seen.frame[i].returned)
		i++;
	assert_true(i < seen.stack.n); /* where the signal came */
	assert_false(seen.frame[i - 1].from_second);
	assert_true(seen.frame[seen.stack.n - 1].from_second);
}

/* What compilers do for AVX: the cfa is where rbp points to. */
__attribute__((__noinline__)) static void aligned_frame(int n)
{
	volatile char wide[64] __attribute__((__aligned__(64))) = { 0 };
	volatile char *room = __builtin_alloca((size_t)n);

	room[0] = wide[1];
	recurse(1);
	wide[2] = room[0];
}

static void test_live_aligned(void **state)
{
	begin();
	aligned_frame(100);
	check_seen();
}

static void test_live_cut_and_limit(void **state)
{
	uint64_t upto;

	begin();
	recurse(20);
	upto = seen.frame[9].cfa - seen.frame[0].sp;
	check_seen();
	begin();
	seen.cut = upto;
	recurse(20);
	assert_int_equal(UNWIND_CUT, seen.stack.end);
	assert_int_equal(11, seen.stack.n); /* whose return address is behind the end */
	assert_int_equal(seen.frame[0].sp + upto, seen.frame[10].sp);
	assert_true(seen.frame[10].cfa > seen.frame[10].sp);
	drop(unwinder);
	begin();
	seen.stack.cap = 5;
	recurse(20);
	assert_int_equal(UNWIND_LIMIT, seen.stack.end);
	assert_int_equal(5, seen.stack.n);
	assert_true(seen.frame[4].cfa > seen.frame[4].sp);
	drop(unwinder);
}

#ifdef __x86_64__
/* Assembly that says nothing about its stack: one that pushes, one that aligns its stack as
 * OpenBLAS's kernels do, far away from its return address. */
void no_cfi_push(void (*f)(void));
void no_cfi_align(void (*f)(void));
__asm__(".text\n"
	".balign 64\n .skip 64, 0xcc\n"
	".globl no_cfi_push\n no_cfi_push:\n"
	"push %rbx\n sub $48, %rsp\n call *%rdi\n add $48, %rsp\n pop %rbx\n ret\n"
	".skip 64, 0xcc\n"
	".globl no_cfi_align\n no_cfi_align:\n"
	"sub $24, %rsp\n mov %rbx, (%rsp)\n mov %rsp, %rbx\n"
	"sub $0x7080, %rsp\n and $-4096, %rsp\n call *%rdi\n"
	"mov %rbx, %rsp\n mov (%rsp), %rbx\n add $24, %rsp\n ret\n"
	".skip 64, 0xcc\n");

static void check_guess(void (*f)(void (*)(void)))
{
	size_t n_exact;

	begin();
	f(look);
	assert_int_equal(UNWIND_NO_CFI, seen.stack.end);
	assert_int_equal(2, seen.stack.n);
	assert_int_equal(0, seen.frame[1].cfa);
	drop(unwinder);
	begin();
	look();
	n_exact = seen.stack.n;
	assert_int_equal(UNWIND_BOTTOM, seen.stack.end);
	drop(unwinder);
	begin();
	seen.code = true;
	f(look);
	assert_int_equal(UNWIND_BOTTOM, seen.stack.end);
	assert_int_equal(n_exact + 1, seen.stack.n);
	assert_false(seen.frame[1].guessed);
	for (size_t i = 2; i < seen.stack.n; i++) {
		assert_true(seen.frame[i].guessed);
		assert_int_equal(seen.frame[i].sp, seen.frame[i - 1].cfa);
	}
	drop(unwinder);
}

static void test_live_guess(void **state)
{
	check_guess(no_cfi_push);
	check_guess(no_cfi_align);
}
#else
#define test_live_guess test_step_signal
#endif

/* Tables that do not fit are dropped, and made again when needed. */
static void test_live_memory_bound(void **state)
{
	const struct elfcache_facts *f;

	for (int i = 0; i < 3; i++) {
		begin();
		drop(unwinder);
		unwinder = unwinder_of_us(1);
		recurse(3);
		recurse(3);
		f = elfcache_facts(spaces->elfs);
		assert_true(f->dropped > 0);
		assert_int_equal(1, f->read - f->dropped);
		check_seen();
	}
}

/* ---- Files and memory ---- */

static struct proc_map map_of(const char *path, uint64_t at)
{
	struct proc_map m = { .start = at, .end = at + (64 << 20), .x = true, .path = path };
	struct stat st;

	assert_int_equal(0, stat(path, &st));
	m.ino = st.st_ino;
	m.maj = major(st.st_dev);
	m.min = minor(st.st_dev);
	return m;
}

static struct unwind_stack stack_at(struct unwinder *u, uint64_t pc)
{
	static struct unwind_frame frames[8];
	struct unwind_stack s = { .frame = frames, .cap = ARRAY_SIZE(frames) };
	static const uint64_t stack[8] = { 0 };
	struct unwind_memory mem = { .piece[0] = { 0x7000,
						   { (const void *)stack, sizeof(stack) } } };
	struct unwind_regs r = { .pc = pc, .have = (uint64_t)1 << arch_host->dwarf_sp };

	r.r[arch_host->dwarf_sp] = 0x7000;
	unwinder_stack(u, getpid(), &r, &mem, NULL, NULL, &s);
	return s;
}

/* Two copies of one file are two files with one table. */
static void test_shared(void **state)
{
	struct unwinder *u = own_unwinder(64 << 20);
	char copy[] = "/tmp/unwind_test.XXXXXX", cmd[128];
	struct proc_map a, b;
	const struct elfcache_facts *f;
	int fd = mkstemp(copy);

	assert_true(fd >= 0);
	close(fd);
	snprintf(cmd, sizeof(cmd), "cp /proc/%d/exe %s", getpid(), copy);
	assert_int_equal(0, system(cmd));
	a = map_of("/proc/self/exe", 1ull << 40);
	b = map_of(copy, 1ull << 41);
	feed(&a);
	feed(&b);
	unlink(copy); /* opened when it was mapped */
	stack_at(u, a.start + 0x8000);
	stack_at(u, b.start + 0x8000);
	f = elfcache_facts(spaces->elfs);
	assert_int_equal(2, f->read);
	assert_int_equal(1, f->shared);
	drop(u);
}

/* A module that was dropped since is read again: of its rules none is remembered. */
static void test_dropped_is_forgotten(void **state)
{
	struct unwinder *u = unwinder_of_us(1); /* there is room for one module */
	const struct elfcache_facts *f = elfcache_facts(spaces->elfs);
	uint64_t start, end, read;

	stack_at(u, (uintptr_t)&look);
	read = f->read;
	stack_at(u, (uintptr_t)&look);
	assert_int_equal(read, f->read);
	assert_true(function_at((uintptr_t)&mock_assert, &start, &end));
	assert_int_equal(read + 1, f->read);
	stack_at(u, (uintptr_t)&look);
	assert_int_equal(read + 2, f->read);
	drop(u);
}

/* The same offsets in many files: each has its own rules, also where several share a place in
 * the cache, as some of so many do. */
static void test_rules_apart(void **state)
{
	enum { FILES = 100, OFFSETS = 100, STEP = 2432, APART = 1 << 28 };
	static const char *const names[] = { "/libc.so", "/libcmocka" };
	struct unwinder *u = own_unwinder(256 << 20);
	struct proc_map file[2] = { 0 };
	struct proc_maps maps;
	unsigned differ = 0;

	assert_int_equal(0, proc_maps_read(&maps, getpid()));
	for (size_t i = 0; i < 2 * maps.n; i++)
		if (maps.map[i / 2].x && strstr(maps.map[i / 2].path, names[i & 1]))
			file[i & 1] = maps.map[i / 2];
	for (uint32_t k = 0; k < FILES; k++) {
		struct proc_map m = file[k & 1];

		assert_true(m.start > 0);
		m.start = (k + 1) * (uint64_t)APART, m.end = m.start + OFFSETS * STEP;
		m.pgoff = file[0].pgoff;
		m.min += k << 8; /* another one of the same content */
		feed(&m);
	}
	for (uint64_t at = 0; at < OFFSETS * STEP; at += STEP) {
		uint64_t cfa[2] = { 0 };

		for (uint32_t k = 0; k < FILES; k++) {
			struct unwind_stack s = stack_at(u, (k + 1) * (uint64_t)APART + at);

			if (k < 2)
				cfa[k] = s.frame[0].cfa;
			assert_int_equal(cfa[k & 1], s.frame[0].cfa);
		}
		differ += cfa[0] != cfa[1];
	}
	assert_true(differ > OFFSETS / 4);
	proc_maps_deinit(&maps);
	drop(u);
}

#ifdef __x86_64__
/* python -X perf: two kinds of trampolines in anonymous memory. */
static void test_trampolines(void **state)
{
	static const unsigned char old[] = { 0x48, 0x83, 0xec, 8, 0xff, 0xd1,
					     0x48, 0x83, 0xc4, 8, 0xc3 };
	static const unsigned char new[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48,
					     0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3 };
	struct unwinder *u = own_unwinder(64 << 20);
	struct proc_map m = { .start = 1ull << 40,
			      .end = (1ull << 40) + 4096,
			      .pgoff = 1ull << 40, /* as the kernel tells of such memory */
			      .x = true,
			      .path = "" };
	struct proc_map file = map_of("/proc/self/exe", 1ull << 41);
	unsigned char code[64] = { 0 };
	const struct elfcache_elf *elf[2 + sizeof(code)];
	struct unwind_table *table;
	struct unwind_stack s;
	uint64_t gen;

	feed(&m);
	memcpy(code, old, sizeof(old));
	memcpy(code + 16, new, sizeof(new));
	for (size_t n = 0; n < sizeof(old); n++) /* not all of it was read */
		assert_int_equal(-ENOENT, unwind_trampolines(&table, arch_host,
							     (struct bytes){ code, n }));
	s = stack_at(u, m.start + 4);
	assert_int_equal(UNWIND_NO_CFI, s.end);
	assert_int_equal(m.start, s.want_lo);
	assert_int_equal(m.end, s.want_hi);
	assert_int_equal(-ESRCH,
			 unwinder_code(u, getpid(), m.start + 8, (struct bytes){ code, 64 }));
	assert_int_equal(-ESRCH,
			 unwinder_code(u, getpid() + 1, m.start, (struct bytes){ code, 64 }));
	feed(&file);
	assert_int_equal(-ESRCH,
			 unwinder_code(u, getpid(), file.start, (struct bytes){ code, 64 }));
	gen = spaces_find(spaces, getpid())->gen;
	assert_int_equal(0, unwinder_code(u, getpid(), m.start, (struct bytes){ code, 64 }));
	assert_true(spaces_find(spaces, getpid())->gen > gen); /* names are asked for anew */
	assert_int_equal(0, unwinder_code(u, getpid(), m.start,
					  (struct bytes){ code, 64 })); /* again */
	assert_int_equal(0x7008, stack_at(u, m.start).frame[0].cfa);
	assert_int_equal(0x7010, stack_at(u, m.start + 4).frame[0].cfa);
	assert_int_equal(0x7010, stack_at(u, m.start + 6).frame[0].cfa);
	assert_int_equal(0x7008, stack_at(u, m.start + 10).frame[0].cfa);
	assert_int_equal(0x7008, stack_at(u, m.start + 16).frame[0].cfa);
	assert_int_equal(0x7008, stack_at(u, m.start + 20).frame[0].cfa);
	assert_int_equal(0x7010, stack_at(u, m.start + 26).frame[0].cfa);
	assert_int_equal(0x7008, stack_at(u, m.start + 27).frame[0].cfa);
	assert_int_equal(UNWIND_NO_CFI, stack_at(u, m.start + 11).end);
	assert_int_equal(UNWIND_NO_CFI, stack_at(u, m.start + 15).end);
	assert_int_equal(UNWIND_NO_CFI, stack_at(u, m.start + 28).end);
	s = stack_at(u, m.start + 100);
	assert_int_equal(UNWIND_NO_CFI, s.end);
	assert_int_equal(0, s.want_hi);
	drop(u);

	/* Code is known again, and is other code wherever it differs. */
	u = own_unwinder(64 << 20);
	for (size_t i = 0; i < 2 + sizeof(code); i++) {
		struct proc_map to = m;

		to.start += 8192 * i, to.end += 8192 * i;
		feed(&to);
		if (i > 1)
			code[i - 2] ^= 0x80;
		unwinder_code(u, getpid(), to.start, (struct bytes){ code, sizeof(code) });
		elf[i] = space_at(spaces_find(spaces, getpid()), to.start)->elf;
		if (i > 1)
			code[i - 2] ^= 0x80;
	}
	assert_ptr_equal(elf[0], elf[1]);
	for (size_t i = 2; i < 2 + sizeof(code); i++)
		for (size_t k = 1; k < i; k++)
			assert_ptr_not_equal(elf[k], elf[i]);
	drop(u);

	u = own_unwinder(64 << 20); /* nothing in it that is known */
	feed(&m);
	memset(code, 0x90, sizeof(code));
	assert_int_equal(-ENOENT,
			 unwinder_code(u, getpid(), m.start, (struct bytes){ code, 64 }));
	s = stack_at(u, m.start + 4);
	assert_int_equal(UNWIND_NO_CFI, s.end);
	assert_int_equal(0, s.want_hi);
	drop(u);
}

/* A call in the first byte of a map is not in the map before, which ends there. */
static void test_maps_side_by_side(void **state)
{
	enum { SP = 0x7000, SIZE = 4096 };
	static const unsigned char code[64] = { 0x48, 0x83, 0xec, 8, 0xff, 0xd1,
						0x48, 0x83, 0xc4, 8, 0xc3 };
	struct unwinder *u = own_unwinder(64 << 20);
	struct proc_map m[2] = { { .start = 1ull << 40, .x = true, .path = "" } };
	struct unwind_frame frames[8];
	struct unwind_stack s = { .frame = frames, .cap = ARRAY_SIZE(frames) };
	struct unwind_regs r = { .pc = m[0].start, .have = 1 << RSP, .r[RSP] = SP };
	uint64_t stack[2] = { m[0].start + SIZE + 1 };
	struct unwind_memory mem = { .piece[0] = { SP, { (const void *)stack, sizeof(stack) } } };

	m[0].end = m[0].start + SIZE;
	m[1] = m[0];
	m[1].start += SIZE, m[1].end += SIZE;
	for (int i = 0; i < 2; i++) {
		feed(&m[i]);
		assert_int_equal(0, unwinder_code(u, getpid(), m[i].start,
						  (struct bytes){ code, sizeof(code) }));
	}
	unwinder_stack(u, getpid(), &r, &mem, NULL, NULL, &s);
	assert_int_equal(2, s.n);
	assert_int_equal(SP + 8, s.frame[0].cfa);
	assert_int_equal(SP + 16, s.frame[1].cfa);
	drop(u);
}
#else
#define test_trampolines test_step_signal
#define test_maps_side_by_side test_step_signal
#endif

/* A JIT that makes code again and again leaves room for other files. */
static void test_code_without_end(void **state)
{
	struct unwinder *u = own_unwinder(64 << 20);
	struct proc_map m = {
		.start = 1ull << 40, .end = (1ull << 40) + 4096, .x = true, .path = ""
	};
	unsigned char code[64] = { 0 };
	struct proc_maps maps;
	uint64_t start, end;

	feed(&m);
	for (uint32_t i = 0; i < 70000; i++) {
		memcpy(code, &i, sizeof(i));
		assert_int_equal(-ENOENT, unwinder_code(u, getpid(), m.start,
							(struct bytes){ code, 64 }));
	}
	assert_int_equal(0, proc_maps_read(&maps, getpid()));
	for (size_t i = 0; i < maps.n; i++)
		if (maps.map[i].x)
			feed(&maps.map[i]);
	make_tables(&maps);
	proc_maps_deinit(&maps);
	assert_true(function_at((uintptr_t)&look, &start, &end));
	assert_int_equal((uintptr_t)&look, start);
	drop(u);
}

/* Mapped files that are gone, or are something else by now, and what is no ELF. */
static void test_odd_files(void **state)
{
	struct unwinder *u = own_unwinder(64 << 20);
	char dir[] = "/tmp/unwind_test.XXXXXX", fifo[64], text[64], empty[64];
	struct proc_map m, zero = map_of("/dev/zero", 1ull << 43);
	FILE *f;

	assert_non_null(mkdtemp(dir));
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	snprintf(text, sizeof(text), "%s/text", dir);
	snprintf(empty, sizeof(empty), "%s/empty", dir);
	assert_int_equal(0, mkfifo(fifo, 0600));
	m = map_of(fifo, 1ull << 40);
	feed(&m); /* would wait for a writer */
	f = fopen(text, "we");
	assert_non_null(f);
	for (int i = 0; i < 100; i++)
		fprintf(f, "\177ELF%d\n", i);
	fclose(f);
	m = map_of(text, 1ull << 41);
	feed(&m);
	f = fopen(empty, "we");
	fclose(f);
	m = map_of(empty, 1ull << 42);
	feed(&m);
	unlink(fifo), unlink(text), unlink(empty), rmdir(dir);
	feed(&zero);
	for (int i = 40; i < 44; i++)
		assert_int_equal(UNWIND_NO_CFI, stack_at(u, (1ull << i) + 64).end);
	assert_int_equal(UNWIND_NO_MAP, stack_at(u, 1ull << 44).end);
	assert_int_equal(UNWIND_NO_MAP, stack_at(u, 0).end);
	drop(u);
}
