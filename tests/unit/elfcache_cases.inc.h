/* SPDX-License-Identifier: MIT
 *
 * elfcache_cases - the half of symbolize_test.c about the tables of one ELF.
 */

/* ---- Against libelf ---- */

/* Does a function symbol of @name cover @vaddr? And does any at all? */
static bool elf_scan(Elf *elf, uint64_t vaddr, const char *name, bool *any)
{
	Elf_Scn *scn = NULL;
	bool found = false;

	*any = false;
	while ((scn = elf_nextscn(elf, scn))) {
		const Elf64_Shdr *sh = elf64_getshdr(scn);
		const Elf64_Sym *sym;
		Elf_Data *d;

		if (sh->sh_type != SHT_SYMTAB && sh->sh_type != SHT_DYNSYM)
			continue;
		d = elf_getdata(scn, NULL);
		sym = d->d_buf;
		for (size_t i = 0; i < d->d_size / sizeof(*sym); i++) {
			unsigned type = ELF64_ST_TYPE(sym[i].st_info);

			if ((type != STT_FUNC && type != STT_GNU_IFUNC) || !sym[i].st_shndx ||
			    vaddr - sym[i].st_value >= sym[i].st_size)
				continue;
			*any = true;
			found |= name && strcmp(name, elf_strptr(elf, sh->sh_link,
								 sym[i].st_name)) == 0;
		}
	}
	return found;
}

static void compare_with_libelf(const char *path, unsigned rounds)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct module t;
	unsigned seed = 7, named = 0;
	Elf *elf;

	assert_true(fd >= 0);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	assert_non_null(elf);
	assert_int_equal(0, module_read(&t, fd, (struct bytes){ 0 }, NULL, false));
	assert_true(t.n_syms > 20 && t.n_funcs > 20);
	for (unsigned i = 0; i < rounds; i++) {
		const struct module_load *l = &t.load[0];
		uint64_t vaddr = l->vaddr + (uint64_t)rand_r(&seed) % l->size, start;
		const char *name = module_symbol(&t, vaddr);
		bool any, same = elf_scan(elf, vaddr, name, &any);

		if (any != same && any)
			print_message("%s: %#jx: %s\n", path, (uintmax_t)vaddr, name);
		assert_true(same || !any);
		named += same;
		if (module_function(&t, vaddr, &start))
			assert_true(start <= vaddr);
	}
	assert_true(named > rounds / 8);
	module_deinit(&t);
	elf_end(elf);
}

static void test_against_libelf(void **state)
{
	char self[4096], libc[4096];

	elf_version(EV_CURRENT);
	path_of((void *)&test_against_libelf, self);
	path_of(dlsym(RTLD_NEXT, "qsort"), libc);
	compare_with_libelf(self, 2000);
	compare_with_libelf(libc, 2000);
}

/* ---- Real interpreters, from the environment ---- */

/* The module of @exe (itself or its libpython) that holds the eval loop. */
static void eval_module(const char *exe, char path[static 4096])
{
	char cmd[4096 + 400];
	FILE *f;

	snprintf(cmd, sizeof(cmd),
		 "'%s' -c 'import ctypes as c; print([l.split()[-1] for l in "
		 "open(\"/proc/self/maps\") if int(l.split(\"-\")[0],16) <= "
		 "c.cast(c.pythonapi.Py_BytesMain, c.c_void_p).value < "
		 "int(l.split()[0].split(\"-\")[1],16)][0])' 2>/dev/null",
		 exe);
	f = popen(cmd, "r");
	path[0] = '\0';
	if (f && fgets(path, 4096, f))
		path[strcspn(path, "\n")] = '\0';
	if (f)
		pclose(f);
}

/* Whatever way an interpreter was built, 30 KB and more of it are eval loop. */
static void check_python(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct symbolizer *s = own_symbolizer(0);
	struct module t;
	struct proc_map m = { .x = true, .path = path };
	size_t eval = 0, total = 0;
	struct stat st;

	assert_int_equal(0, fstat(fd, &st));
	assert_int_equal(0, module_read(&t, fd, (struct bytes){ 0 }, NULL, false));
	m.start = 1ull << 40, m.end = m.start + t.load[0].size, m.pgoff = t.load[0].offset;
	m.ino = st.st_ino, m.maj = major(st.st_dev), m.min = minor(st.st_dev);
	feed_map(s, getpid(), &m);
	for (uint64_t ip = m.start; ip < m.end; ip += 8, total += 8) {
		bool is = symbolize_kind(s, getpid(), ip) == SYMBOL_EVAL;

		assert_int_equal(is, symbolize_is_eval(s, getpid(), ip));
		eval += is ? 8 : 0;
	}
	print_message("%s: eval %zu of %zu bytes\n", path, eval, total);
	assert_true(eval > 30000 && eval < 200000);
	module_deinit(&t);
	own_symbolizer_destroy(s);
}

static void test_pythons(void **state)
{
	const char *list = getenv("PYSAMPLED_TEST_PYTHONS");
	char copy[65536], *rest = NULL, path[4096];

	if (!list || !*list)
		skip();
	snprintf(copy, sizeof(copy), "%s", list);
	for (char *exe = strtok_r(copy, ":", &rest); exe; exe = strtok_r(NULL, ":", &rest)) {
		eval_module(exe, path);
		if (!path[0])
			continue; /* older than Py_BytesMain */
		compare_with_libelf(path, 2000);
		check_python(path);
	}
}

/* ---- An ELF made by hand ---- */

enum { TEXT = 0x1000, TEXT_SIZE = 0x3000, N_FDES = 3 };

/* A stripped interpreter: 'main' without a size, 'eval' of 0x100 bytes that jumps
 * into a nameless function of 0x1000. */
struct toy {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[2];
	Elf64_Shdr sh[3];
	Elf64_Sym sym[8];
	char str[128];
	struct {
		uint8_t version, ptr, count_enc, row_enc;
		int32_t frame;
		uint32_t count;
		int32_t row[N_FDES][2];
	} hdr;
	struct {
		uint32_t n, id;
		char rest[16];
	} cie;
	struct {
		uint32_t n, back;
		int32_t start;
		uint32_t size;
		char rest[8];
	} fde[N_FDES];
	unsigned char gap[TEXT - 3 * 64 - 64 - 2 * 56 - 8 * 24 - 128 - 36 - 24 - N_FDES * 24];
	unsigned char text[TEXT_SIZE];
};
_Static_assert(offsetof(struct toy, text) == TEXT, "text stands at its address");

static void toy_fde(struct toy *t, unsigned i, uint32_t start, uint32_t size)
{
	size_t hdr = offsetof(struct toy, hdr), fde = offsetof(struct toy, fde[i]);

	t->fde[i].n = sizeof(t->fde[i]) - 4;
	t->fde[i].back = (uint32_t)(fde + 4 - offsetof(struct toy, cie));
	t->fde[i].start = (int32_t)(start - (fde + 8));
	t->fde[i].size = size;
	t->hdr.row[i][0] = (int32_t)(start - hdr);
	t->hdr.row[i][1] = (int32_t)(fde - hdr);
}

static void toy_sym(struct toy *t, unsigned i, const char *name, uint64_t value, uint64_t size,
		    unsigned bind)
{
	static const char cie_rest[] = { 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b };
	size_t used = 1;

	memcpy(t->cie.rest, cie_rest, sizeof(cie_rest));
	while (t->str[used])
		used += strlen(t->str + used) + 1;
	assert_true(used + strlen(name) + 2 < sizeof(t->str));
	strcpy(t->str + used, name);
	t->sym[i] = (Elf64_Sym){ .st_name = (uint32_t)used,
				 .st_shndx = 1,
				 .st_value = value,
				 .st_info = (unsigned char)ELF64_ST_INFO(bind, STT_FUNC),
				 .st_size = size };
}

static struct toy *toy_make(void)
{
	struct toy *t = calloc(1, sizeof(*t));
	size_t hdr = offsetof(struct toy, hdr);

	memcpy(t->eh.e_ident, ELFMAG, SELFMAG);
	t->eh.e_ident[EI_CLASS] = ELFCLASS64;
	t->eh.e_ident[EI_DATA] = ELFDATA2LSB;
	t->eh.e_machine = EM_X86_64;
	t->eh.e_phoff = offsetof(struct toy, ph), t->eh.e_shoff = offsetof(struct toy, sh);
	t->eh.e_phentsize = sizeof(Elf64_Phdr), t->eh.e_shentsize = sizeof(Elf64_Shdr);
	t->eh.e_phnum = 2, t->eh.e_shnum = 3;
	t->ph[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_X, .p_filesz = sizeof(*t) };
	t->ph[1] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME,
				 .p_offset = hdr,
				 .p_vaddr = hdr,
				 .p_filesz = sizeof(t->hdr) };
	t->sh[1] = (Elf64_Shdr){ .sh_type = SHT_DYNSYM,
				 .sh_link = 2,
				 .sh_size = sizeof(t->sym),
				 .sh_offset = offsetof(struct toy, sym),
				 .sh_entsize = sizeof(Elf64_Sym) };
	t->sh[2] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
				 .sh_offset = offsetof(struct toy, str),
				 .sh_size = sizeof(t->str) };
	t->cie.n = sizeof(t->cie) - 4;
	t->hdr.version = 1, t->hdr.ptr = 0x1b, t->hdr.count_enc = 3, t->hdr.row_enc = 0x3b;
	t->hdr.frame = (int32_t)(offsetof(struct toy, cie) - (hdr + 4));
	t->hdr.count = N_FDES;
	toy_fde(t, 0, TEXT, 0x80);
	toy_fde(t, 1, TEXT + 0x100, 0x100);
	toy_fde(t, 2, TEXT + 0x1000, 0x1000);
	toy_sym(t, 1, "_PyEval_EvalFrameDefault", TEXT + 0x100, 0x100, STB_GLOBAL);
	toy_sym(t, 2, "main", TEXT, 0, STB_GLOBAL);
	return t;
}

static void toy_jump(struct toy *t, uint32_t from, uint32_t to)
{
	uint32_t rel = to - (from + 5);

	if (t->eh.e_machine == EM_AARCH64) { /* b */
		rel = 5u << 26 | ((to - from) >> 2 & 0x3ffffff);
		memcpy(&t->text[from - TEXT], &rel, 4);
		return;
	}
	t->text[from - TEXT] = 0xe9;
	memcpy(&t->text[from - TEXT + 1], &rel, 4);
}

static void toy_read(struct module *t, const struct toy *toy)
{
	assert_int_equal(0,
			 module_read(t, -1, (struct bytes){ (const void *)toy, sizeof(*toy) },
				     NULL, false));
}

/* Most jumps of the loop lead into one other function. */
static void check_split(unsigned machine)
{
	struct toy *toy = toy_make();
	struct module t;

	toy->eh.e_machine = (Elf64_Half)machine;
	for (uint32_t i = 0; i < 3; i++)
		toy_jump(toy, TEXT + 0x110 + 8 * i, TEXT + 0x1010 + 4 * i);
	toy_jump(toy, TEXT + 0x140, TEXT); /* a tail call says nothing */
	toy_read(&t, toy);
	assert_int_equal(3, t.n_funcs);
	assert_int_equal(0x100, t.eval.size);
	assert_int_equal(0, t.eval_rest.size); /* three jumps could be chance */
	module_deinit(&t);

	toy_jump(toy, TEXT + 0x130, TEXT + 0x1500);
	toy_read(&t, toy);
	assert_true(module_is_eval_rest(&t, TEXT + 0x1000));
	assert_true(module_is_eval_rest(&t, TEXT + 0x1fff));
	assert_false(module_is_eval_rest(&t, TEXT + 0x2000));
	assert_false(module_is_eval_rest(&t, TEXT + 0x100));
	module_deinit(&t);

	toy->sh[0].sh_type = SHT_SYMTAB; /* not stripped: names tell */
	toy_read(&t, toy);
	assert_int_equal(0, t.eval_rest.size);
	module_deinit(&t);

	toy->sh[0].sh_type = 0;
	toy->eh.e_machine = EM_SPARC; /* no jumps read: only a large function will do */
	toy_read(&t, toy);
	assert_int_equal(0, t.eval_rest.size);
	module_deinit(&t);
	free(toy);
}

static void test_split_eval(void **state)
{
	check_split(EM_X86_64);
	check_split(EM_AARCH64);
}

struct jump_row {
	uint32_t insn;
	bool is;
	int64_t by;
};

static void check_jumps(const struct arch *arch, const struct jump_row *rows, size_t n)
{
	int64_t by;

	for (size_t i = 0; i < n; i++) {
		const unsigned char *code = (const unsigned char *)&rows[i].insn;

		assert_int_equal(rows[i].is, arch->jump(code, 4, &by));
		if (rows[i].is)
			assert_int_equal(rows[i].by, by);
		assert_false(arch->jump(code, 3, &by));
	}
}

static void test_aarch64_jumps(void **state)
{
	static const struct jump_row rows[] = {
		{ 0x14000003, true, 12 },      /* b .+12 */
		{ 0x17ffffff, true, -4 },      /* b .-4 */
		{ 0x15000000, true, 1 << 26 }, /* b .+0x4000000 */
		{ 0x54400000, true, 1 << 19 }, /* b.eq .+0x80000 */
		{ 0x36020000, true, 1 << 14 }, /* tbz w0, #0, .+0x4000 */
		{ 0x54000040, true, 8 },       /* b.eq .+8 */
		{ 0x54ffffe1, true, -4 },      /* b.ne .-4 */
		{ 0xb4000062, true, 12 },      /* cbz x2, .+12 */
		{ 0x35ffffc3, true, -8 },      /* cbnz w3, .-8 */
		{ 0x36180064, true, 12 },      /* tbz w4, #3, .+12 */
		{ 0xb7ffffe5, true, -4 },      /* tbnz x5, #63, .-4 */
		{ 0x94000003, false },	       /* bl */
		{ 0xd61f0000, false },	       /* br x0 */
		{ 0xd65f03c0, false },	       /* ret */
		{ 0x54000050, false },	       /* bc.eq */
	};

	check_jumps(&arch_aarch64, rows, ARRAY_SIZE(rows));
}

static void test_riscv64_jumps(void **state)
{
	static const struct jump_row rows[] = {
		{ 0x00c0006f, true, 12 },	  /* j .+12 */
		{ 0xffdff06f, true, -4 },	  /* j .-4 */
		{ 0x0008006f, true, 0x80000 },	  /* j .+0x80000 */
		{ 0x0010006f, true, 0x800 },	  /* j .+0x800 */
		{ 0x8000006f, true, -(1 << 20) }, /* j .-0x100000 */
		{ 0x008000ef, false },		  /* jal .+8 */
		{ 0x00b50463, false },		  /* beq a0,a1,.+8 */
	};

	check_jumps(&arch_riscv64, rows, ARRAY_SIZE(rows));
}

static void test_symbol_rules(void **state)
{
	struct toy *toy = toy_make();
	struct module t;
	uint64_t start = 0;

	toy_sym(toy, 3, "__weak_alias", TEXT + 0x1000, 0x20, STB_WEAK);
	toy_sym(toy, 4, "alias", TEXT + 0x1000, 0x20, STB_WEAK);
	toy_sym(toy, 5, "local", TEXT + 0x1000, 0x20, STB_LOCAL);
	toy_sym(toy, 6, "inner", TEXT + 0x110, 0x10, STB_GLOBAL);
	toy_read(&t, toy);
	assert_string_equal("main", module_symbol(&t, TEXT + 0xff)); /* up to the next */
	assert_string_equal("_PyEval_EvalFrameDefault", module_symbol(&t, TEXT + 0x10f));
	assert_string_equal("inner", module_symbol(&t, TEXT + 0x11f));
	assert_string_equal("_PyEval_EvalFrameDefault", module_symbol(&t, TEXT + 0x120));
	assert_null(module_symbol(&t, TEXT + 0x200));
	assert_string_equal("alias", module_symbol(&t, TEXT + 0x101f));
	assert_null(module_symbol(&t, TEXT + 0x1020));
	assert_null(module_symbol(&t, 0));
	assert_null(module_symbol(&t, UINT64_MAX));
	assert_true(module_function(&t, TEXT + 0x1fff, &start));
	assert_int_equal(TEXT + 0x1000, start);
	assert_false(module_function(&t, TEXT + 0x80, &start));
	assert_false(module_function(&t, TEXT - 1, &start));
	module_deinit(&t);
	free(toy);
}

/* A symbol without a size reaches to the next one, but not for ever. */
static void test_without_size(void **state)
{
	struct toy *toy = toy_make();
	struct module t;

	toy->hdr.count = 2;
	toy_sym(toy, 3, "label", TEXT + 0x200, 0, STB_GLOBAL);
	toy_read(&t, toy);
	assert_string_equal("label", module_symbol(&t, TEXT + 0x200));
	assert_string_equal("label", module_symbol(&t, TEXT + 0x11ff));
	assert_null(module_symbol(&t, TEXT + 0x1200));
	module_deinit(&t);
	free(toy);
}

/* ... nor into a function that begins behind it and has no name. */
static void test_without_size_among_functions(void **state)
{
	struct toy *toy = toy_make();
	struct module t;

	toy_sym(toy, 3, "label", TEXT + 0x200, 0, STB_GLOBAL);
	toy_sym(toy, 4, "part", TEXT + 0x1800, 0, STB_LOCAL);
	toy_read(&t, toy);
	assert_string_equal("label", module_symbol(&t, TEXT + 0xfff));
	assert_null(module_symbol(&t, TEXT + 0x1000));
	assert_null(module_symbol(&t, TEXT + 0x17ff));
	assert_string_equal("part", module_symbol(&t, TEXT + 0x1fff));
	module_deinit(&t);
	free(toy);
}

/* ---- Damage ---- */

/* The unwind windows of this program, each in its own allocation for ASan. */
static size_t eh_rows(const struct toy *toy, size_t n_hdr, size_t n_frame,
		      struct module_func *rows, size_t cap)
{
	size_t hdr_at = offsetof(struct toy, hdr), frame_at = offsetof(struct toy, cie), n;
	struct bytes hdr = { malloc(n_hdr + 1), n_hdr };
	struct bytes frame = { malloc(n_frame + 1), n_frame };

	hdr.at = realloc((void *)(uintptr_t)hdr.at, n_hdr ? n_hdr : 1);
	frame.at = realloc((void *)(uintptr_t)frame.at, n_frame ? n_frame : 1);
	memcpy((void *)(uintptr_t)hdr.at, &toy->hdr, n_hdr);
	memcpy((void *)(uintptr_t)frame.at, &toy->cie, n_frame);
	n = ehframe_functions(hdr, hdr_at, frame, frame_at, 0, rows, cap);
	free((void *)(uintptr_t)hdr.at);
	free((void *)(uintptr_t)frame.at);
	return n;
}

enum { FRAME_SIZE = offsetof(struct toy, gap) - offsetof(struct toy, cie) };

static void test_eh_prefixes(void **state)
{
	struct toy *toy = toy_make();
	struct module_func rows[N_FDES];

	for (size_t n = 0; n <= sizeof(toy->hdr); n++)
		assert_int_equal(n < 12 ? 0 : (n - 12) / 8,
				 eh_rows(toy, n, FRAME_SIZE, rows, N_FDES));
	for (size_t n = 0; n <= FRAME_SIZE; n++) {
		assert_int_equal(N_FDES, eh_rows(toy, sizeof(toy->hdr), n, rows, N_FDES));
		/* Without its whole FDE a function reaches to the next one. */
		assert_int_equal(n < 24 + 24 ? 0x100 : 0x80, rows[0].size);
		assert_int_equal(n < 24 + 3 * 24 ? 0 : 0x1000, rows[2].size);
	}
	assert_int_equal(2, eh_rows(toy, sizeof(toy->hdr), FRAME_SIZE, rows, 2));
	free(toy);
}

static void test_eh_flips(void **state)
{
	struct toy *toy = toy_make(), *bad = malloc(sizeof(*bad));
	unsigned seed = 3;

	for (unsigned round = 0; round < 50000; round++) {
		size_t from = offsetof(struct toy, hdr);
		size_t span = offsetof(struct toy, gap) - from, n;
		struct module_func rows[N_FDES];

		memcpy(bad, toy, sizeof(*bad));
		for (int k = 0; k < 1 + rand_r(&seed) % 4; k++)
			((unsigned char *)bad)[from + (size_t)rand_r(&seed) % span] =
				(unsigned char)rand_r(&seed);
		n = eh_rows(bad, sizeof(bad->hdr), FRAME_SIZE, rows, N_FDES);
		assert_true(n <= N_FDES);
		for (size_t i = 1; i < n; i++)
			assert_true(rows[i].start - rows[i - 1].start >= rows[i - 1].size &&
				    rows[i].start > rows[i - 1].start);
	}
	free(bad);
	free(toy);
}

static void look_around(const struct module *t, unsigned *seed)
{
	for (unsigned i = 0; i < 50; i++) {
		uint64_t v = t->base + (uint64_t)rand_r(seed) % 0x8000, start;
		const char *name = module_symbol(t, v);

		if (name)
			assert_true(strlen(name) > 0);
		module_function(t, v, &start);
		module_vaddr(t, v, &start);
		module_is_eval_rest(t, v);
	}
}

/* Any bytes in the headers, symbols and unwind tables, and any length. */
static void test_damaged_files(void **state)
{
	struct toy *toy = toy_make();
	unsigned seed = 5, good = 0;
	struct module t;

	for (uint32_t i = 0; i < 8; i++)
		toy_jump(toy, TEXT + 0x110 + 8 * i, TEXT + 0x1010 + i);
	for (unsigned round = 0; round < 30000; round++) {
		size_t n = round % 3 ? sizeof(*toy) : (size_t)rand_r(&seed) % sizeof(*toy);
		unsigned char *bad = malloc(n ? n : 1);

		memcpy(bad, toy, n);
		for (int k = 0; n && k < 1 + rand_r(&seed) % 6; k++)
			bad[(size_t)rand_r(&seed) % MIN(n, offsetof(struct toy, gap))] ^=
				(unsigned char)(1 << rand_r(&seed) % 8);
		if (module_read(&t, -1, (struct bytes){ bad, n }, NULL, false) == 0) {
			good++;
			look_around(&t, &seed);
			module_deinit(&t);
		}
		free(bad);
	}
	assert_true(good > 1000);
	free(toy);
}

/* ---- Bounds ---- */

static void test_bounded(void **state)
{
	struct toy *toy = toy_make();
	struct elfcache *c = elfcache_create(100, false); /* one toy's tables, not two */
	struct elfcache_elf *e[3];
	struct elfcache_id id = { .dev = 1, .ino = 1, .generation = 4, .path = "/a" };
	struct bytes image = { (const void *)toy, sizeof(*toy) };

	for (size_t i = 0; i < ARRAY_SIZE(e); i++, id.ino++) {
		e[i] = elfcache_get(c, &id);
		assert_ptr_equal(e[i], elfcache_get(c, &id));
		assert_true(elfcache_wants_file(e[i]));
		elfcache_give_image(c, e[i], image);
		assert_false(elfcache_wants_file(e[i]));
	}
	id = (struct elfcache_id){ .dev = 1, .ino = 1, .path = "/a" };
	assert_ptr_equal(e[0], elfcache_get(c, &id)); /* generation not known */
	id.generation = 5;
	assert_ptr_not_equal(e[0], elfcache_get(c, &id));
	for (unsigned i = 0; i < 9; i++) {
		const struct module *t = elfcache_module(c, e[i % 3]);

		assert_non_null(t);
		assert_string_equal("main", module_symbol(t, TEXT));
	}
	assert_int_equal(8, elfcache_facts(c)->dropped);
	elfcache_destroy(c);

	c = elfcache_create(10, false); /* too small for any: the one in use stays */
	e[0] = elfcache_get(c, &id);
	elfcache_give_image(c, e[0], image);
	assert_non_null(elfcache_module(c, e[0]));
	elfcache_destroy(c);
	free(toy);
}
