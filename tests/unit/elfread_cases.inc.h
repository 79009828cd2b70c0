/* SPDX-License-Identifier: MIT
 *
 * elfread_cases - the part of symbolize_test.c about files with other sections than most: the
 * toy of elfcache_cases.inc.h, changed.
 */
#include "base/quota.h"
#include "base/stats.h"
#include "lines/places.h"
#include "names/symnames.h"

/* Program headers come in any order. */
static void test_headers_in_any_order(void **state)
{
	struct toy *toy = toy_make();
	Elf64_Phdr first = toy->ph[0];
	struct module t;

	toy->ph[0] = toy->ph[1];
	toy->ph[1] = first;
	toy_read(&t, toy);
	assert_int_equal(N_FDES, t.n_funcs);
	module_deinit(&t);
	free(toy);
}

/* Where .eh_frame is: relative to the field, to the header, or absolute. */
static void test_eh_frame_is_found(void **state)
{
	static const struct {
		unsigned char ptr;
		uint64_t frame_at;
	} rows[] = { { 0x1b, 0x5000 + 4 + 0x20 }, { 0x3b, 0x5000 + 0x20 }, { 0x0b, 0x20 } };
	struct toy *toy = toy_make();
	const struct bytes hdr = { (const void *)&toy->hdr, sizeof(toy->hdr) };
	struct ehframe_hdr h;

	toy->hdr.frame = 0x20;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		toy->hdr.ptr = rows[i].ptr;
		assert_int_equal(0, ehframe_hdr(&h, hdr, 0x5000));
		assert_int_equal(rows[i].frame_at, h.frame_at);
		assert_int_equal(12, h.rows_at);
		assert_int_equal(N_FDES, h.n_rows);
	}
	/* A table of other rows is none that we know. */
	toy->hdr.row_enc = 0x3c;
	assert_int_equal(-ENOEXEC, ehframe_hdr(&h, hdr, 0x5000));
	toy->hdr.row_enc = 0x3b, toy->hdr.version = 2;
	assert_int_equal(-ENOEXEC, ehframe_hdr(&h, hdr, 0x5000));
	free(toy);
}

/* Of a function whose address is relative to what is not known nothing is believed: it is as long
 * as there is room before the next one. */
static void test_addresses_of_another_base(void **state)
{
	struct toy *toy = toy_make();
	struct module t;

	for (unsigned base = 0x20; base < 0x100; base += 0x10) {
		toy->cie.rest[8] = (char)(base | 0xb);
		toy_read(&t, toy);
		assert_int_equal(N_FDES, t.n_funcs);
		for (size_t i = 0; i + 1 < N_FDES; i++)
			assert_int_equal(t.func[i + 1].start - t.func[i].start, t.func[i].size);
		assert_int_equal(0, t.func[N_FDES - 1].size);
		module_deinit(&t);
	}
	free(toy);
}

/* Unwind rows are read where they are wanted, of our processor's files. */
static void test_rows_if_wanted(void **state)
{
	struct toy *toy = toy_make();
	struct module t;

	for (int i = 0; i < 4; i++) {
		bool wanted = i & 1, foreign = i & 2;

		toy->eh.e_machine = foreign ? EM_SPARC : arch_host->elf_machine;
		assert_int_equal(0, module_read(&t, -1,
						(struct bytes){ (const void *)toy, sizeof(*toy) },
						NULL, wanted));
		assert_int_equal(wanted && !foreign, t.rows != NULL);
		module_deinit(&t);
	}
	free(toy);
}

/* ---- Stubs ---- */

enum { STUBS = TEXT + 0x800, N_STUBS = 4, STUB = 16 };

/* Sections of stubs; they lie where the toy has nothing else. */
struct toy_stubs {
	Elf64_Shdr sh[6];
	Elf64_Rela rela[N_STUBS];
	char str[32];
};

static void toy_stubs(struct toy *toy)
{
	static const char str[] = "\0.plt\0.rela.plt";
	struct toy_stubs *s = (void *)(toy->text + 0x2000);
	size_t at = offsetof(struct toy, text) + 0x2000;

	memcpy(s->sh, toy->sh, sizeof(toy->sh));
	memcpy(s->str, str, sizeof(str));
	s->sh[3] = (Elf64_Shdr){ .sh_name = 1,
				 .sh_type = SHT_PROGBITS,
				 .sh_addr = STUBS,
				 .sh_size = N_STUBS * STUB };
	s->sh[4] = (Elf64_Shdr){ .sh_name = 6,
				 .sh_type = SHT_RELA,
				 .sh_link = 1,
				 .sh_offset = at + offsetof(struct toy_stubs, rela),
				 .sh_size = sizeof(s->rela) };
	s->sh[5] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
				 .sh_offset = at + offsetof(struct toy_stubs, str),
				 .sh_size = sizeof(s->str) };
	toy->eh.e_shoff = at, toy->eh.e_shnum = 6, toy->eh.e_shstrndx = 5;
	toy_sym(toy, 3, "read", 0, 0, STB_GLOBAL);
	toy->sym[3].st_shndx = SHN_UNDEF;
	toy->sym[4] = toy->sym[3];
	toy->sym[4].st_name += 4; /* where "read" ends */
	s->rela[0].r_info = ELF64_R_INFO(3, R_X86_64_JUMP_SLOT);
	s->rela[1].r_info = ELF64_R_INFO(4, R_X86_64_JUMP_SLOT);
	s->rela[2].r_info = ELF64_R_INFO(ARRAY_SIZE(toy->sym), R_X86_64_JUMP_SLOT);
	s->rela[3].r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE);
	for (uint64_t i = 0; i < N_STUBS; i++)
		s->rela[i].r_offset = 8 * i;
}

/* A stub has the name of the function that it calls; one that calls nothing with a name has
 * none. */
static void test_stubs(void **state)
{
	struct toy *toy = toy_make();
	struct module t;

	toy_stubs(toy);
	toy->str[0] = 'x'; /* no symbol has this name */
	toy_read(&t, toy);
	assert_string_equal("read@plt", module_symbol(&t, STUBS));
	assert_string_equal("read@plt", module_symbol(&t, STUBS + STUB - 1));
	for (int i = 1; i < N_STUBS; i++)
		assert_null(module_symbol(&t, STUBS + (uint64_t)i * STUB));
	module_deinit(&t);
	free(toy);
}

/* Stubs are in the order of the slots, whatever that of the rows. */
static void test_stubs_in_another_order(void **state)
{
	struct toy *toy = toy_make();
	struct toy_stubs *s = (void *)(toy->text + 0x2000);
	struct module t;

	toy_stubs(toy);
	for (uint64_t i = 0; i < N_STUBS; i++)
		s->rela[i].r_offset = 8 * ((i + 2) % N_STUBS);
	toy_read(&t, toy);
	for (uint64_t i = 0; i < N_STUBS; i++)
		if (i == 2)
			assert_string_equal("read@plt", module_symbol(&t, STUBS + i * STUB));
		else
			assert_null(module_symbol(&t, STUBS + i * STUB));
	module_deinit(&t);
	free(toy);
}

/* A section of stubs that nothing is known of. */
static void test_stubs_without_rows(void **state)
{
	struct toy *toy = toy_make();
	struct toy_stubs *s = (void *)(toy->text + 0x2000);
	struct module t;

	toy_stubs(toy);
	s->sh[3].sh_size = STUB;
	s->sh[4].sh_name = 0;
	toy_read(&t, toy);
	assert_null(module_symbol(&t, STUBS));
	module_deinit(&t);
	free(toy);
}

/* ---- The evaluation loop ---- */

/* An interpreter that hides the loop's name: its largest function is it, if that is as large
 * as the loop always is. */
static void check_hidden_eval(uint32_t size, bool is)
{
	struct toy *toy = toy_make();
	struct module t;

	memset(toy->sym, 0, sizeof(toy->sym));
	memset(toy->str, 0, sizeof(toy->str));
	toy_sym(toy, 1, "Py_BytesMain", TEXT, 0x80, STB_GLOBAL);
	toy_fde(toy, 2, TEXT + 0x1000, size);
	toy_read(&t, toy);
	assert_int_equal(is, module_is_eval_rest(&t, TEXT + 0x1000));
	assert_int_equal(is, module_is_eval_rest(&t, TEXT + 0x1000 + size - 1));
	assert_false(module_is_eval_rest(&t, TEXT + 0x1000 + size));
	assert_false(module_is_eval_rest(&t, TEXT));
	module_deinit(&t);
	free(toy);
}

static void test_hidden_eval(void **state)
{
	check_hidden_eval(32 << 10, true);
	check_hidden_eval((32 << 10) - 1, false);
}

/* ---- Places ---- */

/* The toy as a file, mapped. */
static uint64_t map_toy(struct symbolizer *s, char path[])
{
	struct proc_map m = { .start = 1ull << 40, .x = true, .path = path };
	struct toy *toy = toy_make();
	int fd = mkstemp(path);
	struct stat st;

	assert_int_equal(sizeof(*toy), write(fd, toy, sizeof(*toy)));
	assert_int_equal(0, fstat(fd, &st));
	m.end = m.start + sizeof(*toy);
	m.ino = st.st_ino, m.maj = major(st.st_dev), m.min = minor(st.st_dev);
	feed_map(s, getpid(), &m);
	close(fd);
	free(toy);
	return m.start;
}

/* What is inlined at one place is told twice, once without the interpreter's internals; but a
 * file that is no interpreter has none. */
static void test_places(void **state)
{
	uint64_t own = (uintptr_t)&a_static_function, toy;
	char path[] = "/tmp/pysampled-elf-XXXXXX";
	struct symbolizer *s = of_self();
	struct stats stats = { 0 };
	struct places *p = places_create(NULL, false, &stats);

	toy = map_toy(s, path) + TEXT;
	assert_true(symbolize_place(s, p, getpid(), own, false) > 0);
	assert_int_equal(symbolize_place(s, p, getpid(), own, true),
			 symbolize_place(s, p, getpid(), own, false));
	assert_true(symbolize_place(s, p, getpid(), toy, false) > 0);
	assert_int_not_equal(symbolize_place(s, p, getpid(), toy, true),
			     symbolize_place(s, p, getpid(), toy, false));
	unlink(path);
	places_destroy(p);
	own_symbolizer_destroy(s);
}

/* ---- Reading ---- */

/* While as many files as may be are being read, another one waits its turn. */
static void test_no_thread_is_left(void **state)
{
	const struct elfcache_id id = { .dev = 1, .ino = 2, .path = "/toy" };
	struct elfcache *c = elfcache_create(1 << 20, false);
	struct elfcache_elf *e = elfcache_get(c, &id);
	struct toy *toy = toy_make();
	size_t taken = 0;

	elfcache_give_image(c, e, (struct bytes){ (const void *)toy, sizeof(*toy) });
	while (quota_take(elfcache_quota(c), QUOTA_THREADS, 1))
		taken++;
	assert_null(elfcache_module(c, e));
	quota_give(elfcache_quota(c), QUOTA_THREADS, taken);
	for (int i = 0; i < 10000 && !elfcache_module(c, e); i++)
		usleep(1000);
	assert_string_equal("main", module_symbol(elfcache_module(c, e), TEXT));
	elfcache_destroy(c);
	free(toy);
}
