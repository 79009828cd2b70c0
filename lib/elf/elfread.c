/* SPDX-License-Identifier: MIT
 *
 * elfread - an ELF file into a module: symbols and functions, and what tableread makes of it.
 */
#include <errno.h>

#include "arch/arch.h"
#include "base/array.h"
#include "base/base.h"
#include "elf/debugfile.h"
#include "elf/elfpython.h"
#include "elf/module.h"
#include "elf/elfimage.h"
#include "elf/rows.h"
#include "names/symnames.h"
#include "sys/proc.h"

enum {
	MAX_SYMS = 4 << 20,
	MAX_NAME = 4096,
	STUB_BYTES = 16,
	MAX_UNSIZED = 4096, /* reach of a symbol without a size */
	MIN_SPLIT_JUMPS = 4,
	MIN_EVAL = 32 << 10, /* the eval loop is 38 to 84 KB in every build seen */
};

void module_read_loads(struct module *t, const struct elfimage *im)
{
	t->base = UINT64_MAX;
	for (size_t i = 0; i < im->n_ph; i++) {
		const Elf64_Phdr *p = &im->ph[i];

		if (p->p_type != PT_LOAD)
			continue;
		t->base = MIN(t->base, p->p_vaddr);
		if ((p->p_flags & PF_X) && t->n_loads < MODULE_MAX_LOADS)
			t->load[t->n_loads++] =
				(struct module_load){ p->p_offset, p->p_vaddr, p->p_filesz };
	}
}

/* The executable segment that holds @vaddr. */
static const struct module_load *find_load(const struct module *t, uint64_t vaddr)
{
	for (size_t i = 0; i < t->n_loads; i++)
		if (vaddr - t->load[i].vaddr < t->load[i].size)
			return &t->load[i];
	return NULL;
}

/* @eh: .eh_frame, if it was read already. */
static int read_hdr(struct module *t, const struct elfimage *im, const Elf64_Phdr *p,
		    const struct frames_section *eh)
{
	_cleanup_bytes_ struct bytes hdr = elfimage_part(im, p->p_offset, p->p_filesz);
	_cleanup_bytes_ struct bytes rest = { 0 };
	struct bytes frame = eh->b;
	struct ehframe_hdr h;

	if (!hdr.at || ehframe_hdr(&h, hdr, p->p_vaddr) < 0 || h.n_rows == 0)
		return 0;
	if (!frame.at || eh->at != h.frame_at)
		frame = rest = elfimage_rest(im, h.frame_at);
	t->func = malloc(h.n_rows * sizeof(*t->func));
	if (!t->func)
		return -ENOMEM;
	t->n_funcs = ehframe_functions(hdr, p->p_vaddr, frame, h.frame_at, t->base, t->func,
				       h.n_rows);
	t->bytes += h.n_rows * sizeof(*t->func);
	return 0;
}

static int read_funcs(struct module *t, const struct elfimage *im,
		      const struct frames_section *eh)
{
	for (size_t i = 0; i < im->n_ph; i++)
		if (im->ph[i].p_type == PT_GNU_EH_FRAME)
			return read_hdr(t, im, &im->ph[i], eh);
	return 0;
}

/* ---- Symbols ---- */

struct cand {
	uint64_t start, size;
	const char *name;
	uint32_t order; /* in the file, so that sorting is stable */
	uint8_t rank;	/* of several names for one address the lowest is taken */
	bool stub;	/* that calls it */
};

enum { MAX_SOURCES = 3 /* the file, its debug file, its .gnu_debugdata */ };

struct cands {
	struct cand *at;
	size_t n, cap;
	struct bytes strings[2 * MAX_SOURCES + 1]; /* that the names are in */
	size_t n_strings;
};

static int cand_push(struct cands *c, struct cand x)
{
	if (c->n == MAX_SYMS)
		return 0;
	if (!array_reserve(&c->at, &c->cap, c->n + 1, sizeof(*c->at)))
		return -ENOMEM;
	c->at[c->n++] = x;
	return 0;
}

/* The name a person would use: with a size, global, "read" rather than "__read". */
static uint8_t cand_rank(const char *name, const Elf64_Sym *s)
{
	unsigned underscores = 0;

	while (underscores < 15 && name[underscores] == '_')
		underscores++;
	return (uint8_t)((s->st_size == 0) << 6 |
			 (ELF64_ST_BIND(s->st_info) == STB_LOCAL) << 5 | underscores << 1 |
			 (ELF64_ST_BIND(s->st_info) == STB_WEAK));
}

static int cand_cmp(const void *a, const void *b)
{
	const struct cand *x = a, *y = b;

	return COMPARE(x->start, y->start) ?: x->rank - y->rank ?: COMPARE(x->order, y->order);
}

/* A function's definition in code of this file, with a name of sane length. */
static bool sym_usable(const struct module *t, const Elf64_Sym *s, struct bytes names)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);
	size_t len;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s->st_shndx == SHN_UNDEF ||
	    s->st_name >= names.n || !find_load(t, s->st_value))
		return false;
	len = strnlen((const char *)names.at + s->st_name, MAX_NAME);
	return len > 0 && len < MAX_NAME;
}

static void note_python(struct module *t, const Elf64_Sym *s, const char *name)
{
	bool eval = strcmp(name, "_PyEval_EvalFrameDefault") == 0;

	if (eval)
		t->eval = (struct module_func){ (uint32_t)(s->st_value - t->base),
						(uint32_t)MIN(s->st_size, ELFIMAGE_MAX_PART) };
	if (eval || strcmp(name, "Py_BytesMain") == 0 ||
	    strcmp(name, "PyEval_EvalFrameEx") == 0)
		t->exports_python = true;
}

/* The functions of one symbol section. */
static int read_symbols(struct module *t, const struct elfimage *im, const Elf64_Shdr *sh,
			struct cands *c)
{
	_cleanup_bytes_ struct bytes syms = elfimage_bytes(im, sh);
	struct bytes *names = &c->strings[c->n_strings++];

	if (sh->sh_link < im->n_sh)
		*names = elfimage_bytes(im, &im->sh[sh->sh_link]);
	if (!names->at || sh->sh_entsize != sizeof(Elf64_Sym))
		return 0;
	for (size_t at = 0; syms.n - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
		const char *name;
		Elf64_Sym s;
		int r;

		memcpy(&s, syms.at + at, sizeof(s));
		if (!sym_usable(t, &s, *names))
			continue;
		name = (const char *)names->at + s.st_name;
		r = cand_push(c, (struct cand){ s.st_value, s.st_size, name, (uint32_t)c->n,
						cand_rank(name, &s), false });
		if (r < 0)
			return r;
		if (sh->sh_type == SHT_DYNSYM)
			note_python(t, &s, name);
	}
	return 0;
}

/* How far candidate @i reaches: its size; or to the next one, and not into a function that
 * begins behind it and has no name. */
static uint32_t cand_reach(const struct module *t, const struct cands *c, size_t i)
{
	const struct module_load *l = find_load(t, c->at[i].start);
	uint64_t room = l->vaddr + l->size - c->at[i].start;

	if (c->at[i].size == 0) {
		room = MIN(room, MAX_UNSIZED);
		if (i + 1 < c->n)
			room = MIN(room, c->at[i + 1].start - c->at[i].start);
		return (uint32_t)MIN(room, module_room(t, c->at[i].start - t->base));
	}
	return (uint32_t)MIN(MIN(room, c->at[i].size), UINT32_MAX);
}

static size_t cand_length(const struct cand *c)
{
	return strlen(c->name) + (c->stub ? strlen(SYMNAMES_STUB) : 0);
}

/* Sorted candidates to rows with their own copy of the names. */
static int pack_symbols(struct module *t, struct cands *c)
{
	size_t k = 0, n_names = 0, len;

	if (c->n == 0)
		return 0;
	qsort(c->at, c->n, sizeof(*c->at), cand_cmp);
	for (size_t i = 0; i < c->n; i++) {
		if (c->at[i].start - t->base > UINT32_MAX ||
		    (k > 0 && c->at[k - 1].start == c->at[i].start))
			continue;
		len = cand_length(&c->at[i]) + 1;
		if (n_names + len > ELFIMAGE_MAX_PART)
			break;
		n_names += len;
		c->at[k++] = c->at[i];
	}
	c->n = k;
	t->sym = malloc(MAX(k, 1) * sizeof(*t->sym));
	t->names = malloc(MAX(n_names, 1));
	if (!t->sym || !t->names)
		return -ENOMEM;
	n_names = 0;
	for (size_t i = 0; i < k; i++) {
		t->sym[i] = (struct module_sym){ (uint32_t)(c->at[i].start - t->base),
						 cand_reach(t, c, i), (uint32_t)n_names };
		len = strlen(c->at[i].name);
		memcpy(t->names + n_names, c->at[i].name, len);
		strcpy(t->names + n_names + len, c->at[i].stub ? SYMNAMES_STUB : "");
		n_names += cand_length(&c->at[i]) + 1;
	}
	t->n_syms = k;
	t->bytes += k * sizeof(*t->sym) + n_names;
	return 0;
}

/* The first .symtab and .dynsym of one image. */
static int read_image(struct module *t, const struct elfimage *im, struct cands *c)
{
	bool seen[2] = { false };
	int r = 0;

	for (size_t i = 0; i < im->n_sh && r == 0; i++) {
		uint32_t type = im->sh[i].sh_type;
		bool dyn = type == SHT_DYNSYM;

		if ((type != SHT_SYMTAB && !dyn) || seen[dyn])
			continue;
		seen[dyn] = true;
		r = read_symbols(t, im, &im->sh[i], c);
	}
	if (seen[0])
		t->stripped = false;
	return r;
}

static int push_stub(const struct module *t, struct cands *c, uint64_t at,
		     const unsigned char *rela, struct bytes syms, struct bytes names)
{
	uint64_t sym = ELF64_R_SYM(load_u64(rela + offsetof(Elf64_Rela, r_info)));
	uint32_t name = 0;
	size_t len;

	if (sym && sym < syms.n / sizeof(Elf64_Sym))
		name = load_u32(syms.at + sym * sizeof(Elf64_Sym));
	if (!name || name >= names.n || !find_load(t, at))
		return 0;
	len = strnlen((const char *)names.at + name, MAX_NAME);
	if (len == 0 || len == MAX_NAME)
		return 0;
	return cand_push(c, (struct cand){ at, STUB_BYTES, (const char *)names.at + name,
					   (uint32_t)c->n, 0, true });
}

static int slot_cmp(const void *a, const void *b)
{
	uint64_t x = load_u64((const unsigned char *)a + offsetof(Elf64_Rela, r_offset));
	uint64_t y = load_u64((const unsigned char *)b + offsetof(Elf64_Rela, r_offset));

	return COMPARE(x, y);
}

/* The stubs through which a file calls functions: one for each row of .rela.plt, at the end of
 * .plt.sec if there is one, else of .plt (the psABIs of x86-64 and aarch64). They are in the
 * order of the slots that the rows fill: GNU ld for x86-64 puts rows of functions that are
 * chosen at run time behind all others, whose stubs stand among theirs (libc, libm). */
static int read_stubs(struct module *t, const struct elfimage *im, struct cands *c)
{
	enum { MAX_FIRST = 32, ROW = sizeof(Elf64_Rela) };
	const Elf64_Shdr *sec = elfimage_section(im, ".plt.sec");
	const Elf64_Shdr *plt = sec ? sec : elfimage_section(im, ".plt");
	const Elf64_Shdr *link = elfimage_section(im, ".rela.plt"), *sym;
	_cleanup_bytes_ struct bytes rela = elfimage_bytes(im, link), syms = { 0 };
	struct bytes *names = &c->strings[c->n_strings];
	size_t n = rela.n / ROW;
	uint64_t at;
	int r = 0;

	if (!n || !plt || plt->sh_size - n * STUB_BYTES > MAX_FIRST ||
	    link->sh_link >= im->n_sh || im->sh[link->sh_link].sh_link >= im->n_sh)
		return 0;
	sym = &im->sh[link->sh_link];
	syms = elfimage_bytes(im, sym);
	*names = elfimage_bytes(im, &im->sh[sym->sh_link]);
	c->n_strings++;
	qsort((void *)(uintptr_t)rela.at, n, ROW, slot_cmp);
	at = plt->sh_addr + plt->sh_size - n * STUB_BYTES;
	for (size_t i = 0; i < n && r == 0; i++, at += STUB_BYTES)
		r = push_stub(t, c, at, rela.at + i * ROW, syms, *names);
	return r;
}

static int read_other(struct module *t, int fd, struct bytes mem, struct cands *c)
{
	struct elfimage im;
	int r = elfimage_init(&im, fd, mem) < 0 ? 0 : read_image(t, &im, c);

	elfimage_deinit(&im);
	return r;
}

/* What is left out for want of memory looks like what the file does not have: only errno tells
 * our caller. What fails later must not hide what it said @before. */
static void keep_lack(int before)
{
	if (proc_is_short(-before))
		errno = before;
}

/* What was stripped from @im, from where it was put. */
static int read_stripped(struct module *t, const struct elfimage *im,
			 const struct debugfile_origin *from, struct cands *c)
{
	int r = 0, before = errno;
	_cleanup_bytes_ struct bytes mini = { 0 };
	_cleanup_close_ int fd = from ? debugfile_open(im, from) : -1;

	keep_lack(before);
	if (fd >= 0)
		r = read_other(t, fd, (struct bytes){ 0 }, c);
	if (r < 0 || !t->stripped)
		return r;
	mini = debugfile_mini(im);
	return mini.at ? read_other(t, -1, mini, c) : 0;
}

static int read_all_symbols(struct module *t, const struct elfimage *im,
			    const struct debugfile_origin *from)
{
	struct cands c = { 0 };
	int r;

	t->stripped = true;
	r = read_image(t, im, &c);
	if (r == 0)
		r = read_stubs(t, im, &c);
	if (r == 0 && t->stripped)
		r = read_stripped(t, im, from, &c);
	if (r == 0)
		r = pack_symbols(t, &c);
	free(c.at);
	for (size_t i = 0; i < ARRAY_SIZE(c.strings); i++)
		elfimage_free(&c.strings[i]);
	return r;
}

/* ---- The eval loop's other part in a stripped file ---- */

/* The row that most of @code's jumps out of @self go into, past its start: where
 * the compiler put the rest of a function it split. A tail call goes to a start. */
static struct module_func find_split(const struct module *t, const struct arch *arch,
				     struct bytes code, struct module_func self)
{
	struct module_func best = { 0 };
	int lead = 0, n = 0;

	for (size_t i = 0; i < code.n; i += arch->code_align) {
		const struct module_func *f;
		int64_t by;
		uint32_t to;

		if (!arch->jump(code.at + i, code.n - i, &by))
			continue;
		to = (uint32_t)(self.start + i) + (uint32_t)by;
		if (to - self.start < self.size)
			continue;
		f = module_row(t, to);
		if (!f || f->start == to)
			continue;
		/* Majority vote: one candidate, counted up and down. */
		n++;
		if (lead == 0)
			best = *f;
		lead += best.start == f->start ? 1 : -1;
	}
	return lead * 2 > n && lead >= MIN_SPLIT_JUMPS ? best : (struct module_func){ 0 };
}

/* GCC's PGO builds keep little of _PyEval_EvalFrameDefault under its symbol and
 * the loop in a nameless part elsewhere (or the reverse). Its jumps tell which; of a hidden
 * symbol the largest function is it. */
static void find_eval_rest(struct module *t, const struct elfimage *im)
{
	const struct arch *arch = arch_of(im->machine);
	struct module_func largest = { 0 };

	if (!t->exports_python || !t->stripped)
		return;
	if (arch && arch->jump && t->eval.size) {
		_cleanup_bytes_ struct bytes rest = elfimage_rest(im, t->base + t->eval.start);

		rest.n = MIN(rest.n, t->eval.size);
		t->eval_rest = find_split(t, arch, rest, t->eval);
		return;
	}
	for (size_t i = 0; i < t->n_funcs; i++)
		if (t->func[i].size > largest.size)
			largest = t->func[i];
	if (t->eval.size < MIN_EVAL / 2 && largest.size >= MIN_EVAL)
		t->eval_rest = largest;
}

static int read_parts(struct module *t, const struct elfimage *im,
		      const struct debugfile_origin *from, bool rows)
{
	struct unwind_source source = { 0 };
	int r;

	rows = rows && im->machine == arch_host->elf_machine;
	module_read_loads(t, im);
	if (rows)
		unwind_source_read(&source, arch_host, im, t);
	r = read_funcs(t, im, &source.eh);
	if (r == 0)
		r = read_all_symbols(t, im, from);
	if (r == 0)
		find_eval_rest(t, im);
	if (r == 0 && rows)
		rows_make(&t->rows, arch_host, &source);
	unwind_source_deinit(&source);
	return r;
}

/* Also where something was left out for want of memory. */
static bool may_be_python(const struct elfimage *im)
{
	int before = errno, r;
	struct elfpython p;
	bool ret;

	errno = 0;
	r = elfpython_of(im, &p);
	ret = r == 0 && (errno || p.runtime || p.python || p.pypy);
	keep_lack(before);
	return ret;
}

int module_read(struct module *t, int fd, struct bytes mem,
		const struct debugfile_origin *from, bool rows)
{
	struct elfimage im;
	int r;

	*t = (struct module){ 0 };
	r = elfimage_init(&im, fd, mem);
	if (r == 0 && im.n_ph == 0)
		r = -ENOEXEC;
	if (r == 0)
		r = read_parts(t, &im, from, rows);
	if (r == 0)
		t->may_be_python = may_be_python(&im);
	elfimage_deinit(&im);
	if (r < 0)
		module_deinit(t);
	return r;
}
