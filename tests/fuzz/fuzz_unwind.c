/* SPDX-License-Identifier: MIT
 *
 * fuzz_unwind - files' unwind information, and steps by whatever rules come out of it. An
 * input is an ELF image, or one section behind a byte whose lowest bit says .debug_frame.
 */
#include <sys/auxv.h>
#include <zstd.h>

#include "fuzz_elf.h"
#include "unwind/step.h"
#include "../unwind_function.h"

enum { SEED_BYTES = 1024, SECTION_AT = 0x40000000, STACK = 0x7000, STEPS = 8 };

static void check_rule(const struct unwind_table *t, const struct unwind_rule *r)
{
	FUZZ_CHECK((const uint64_t *)(const void *)&r->slot[r->n] <= t->rules + t->n_words);
	FUZZ_CHECK(r->n_first <= r->n && r->n <= arch_host->n_dwarf);
	if (r->flags & (RULE_NONE | RULE_BOTTOM))
		return;
	if (r->flags & RULE_EXPR)
		FUZZ_CHECK((size_t)r->cfa_off + r->n_expr <= t->n_exprs);
	else
		FUZZ_CHECK(r->cfa_reg < arch_host->n_dwarf);
	for (unsigned i = 0; i < r->n; i++) {
		const struct unwind_slot *s = &r->slot[i];

		FUZZ_CHECK(s->reg < arch_host->n_dwarf);
		FUZZ_CHECK(s->how == HOW_AT || r->flags & RULE_SLOW);
		if (s->how == HOW_AT_EXPR || s->how == HOW_EXPR)
			FUZZ_CHECK((size_t)s->off + s->n <= t->n_exprs);
	}
}

static void check_step(const struct unwind_table *t, const struct unwind_rule *r)
{
	static const uint64_t stack[64] = { 1, STACK + 8, STACK + 64, 0, UINT64_MAX };
	struct unwind_memory mem = { .piece[0] = { STACK,
						   { (const void *)stack, sizeof(stack) } } };
	struct unwind_regs regs = { .pc = STACK, .have = 0xffff };
	enum unwind_end end;
	bool second = false;
	uint64_t cfa = 0;

	for (unsigned i = 0; i < 17; i++)
		regs.r[i] = STACK + 8 * i;
	regs.r[arch_host->dwarf_sp] = STACK;
	end = unwind_step(t, r, &regs, &mem, true, &cfa, &second);
	fuzz_note(end);
	if (end == UNWIND_GOES_ON) {
		fuzz_note(cfa);
		fuzz_note(regs.pc);
		fuzz_note(regs.have);
		for (unsigned i = 0; i < 17; i++)
			fuzz_note(regs.have >> i & 1 ? regs.r[i] : 0);
	}
	FUZZ_CHECK(end <= UNWIND_GOES_ON && !second);
	if (end == UNWIND_GOES_ON)
		FUZZ_CHECK(r->flags & RULE_SIGNAL || cfa >= STACK);
}

static void check_table(struct rows *rows, const struct unwind_table *t)
{
	for (size_t i = 0; i < t->n_rows; i++) {
		const struct unwind_rule *r = unwind_row_rule(t, &t->row[i]);
		uint64_t pc = t->base + t->row[i].pc;

		FUZZ_CHECK(t->row[i].rule < t->n_words);
		FUZZ_CHECK(i == 0 || t->row[i].pc > t->row[i - 1].pc);
		FUZZ_CHECK(unwind_table_row(t, pc) == &t->row[i]);
		FUZZ_CHECK(rows_at(rows, pc) == t);
		check_rule(t, r);
		fuzz_note(pc ^ (uint64_t)r->flags << 48 ^ (uint64_t)r->n << 56);
		if (i < STEPS)
			check_step(t, r);
	}
}

static void check_rows(struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		const struct rows_function *f = &rows->function[i];
		const struct unwind_table *t = rows_at(rows, rows->source.base + f->lo);

		fuzz_note((uint64_t)f->lo << 32 | f->hi);
		FUZZ_CHECK(f->lo < f->hi && rows->made[i] &&
			   t == (rows->made[i] == &rows->none ? NULL : rows->made[i]));
		FUZZ_CHECK(i == 0 || rows->function[i - 1].hi <= f->lo);
		if (t)
			check_table(rows, t);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct unwind_source s = { 0 };
	struct rows *rows;

	if (n >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0) {
		if (source_of_elf(&s, arch_host, -1, (struct bytes){ data, n }) < 0)
			return 0;
	} else {
		struct frames_section *to = n && data[0] & 1 ? &s.debug : &s.eh;
		unsigned char *copy = malloc(n);

		s.debug.debug = true;
		if (n > 0) {
			memcpy(copy, data + 1, n - 1);
			*to = (struct frames_section){ { copy, n - 1 },
						       SECTION_AT,
						       data[0] & 1 };
		} else {
			free(copy);
		}
	}
	FUZZ_CHECK(rows_make(&rows, arch_host, &s) == 0);
	check_rows(rows);
	rows_put(rows);
	return 0;
}

/* ---- Seeds ---- */

/* The begin of a file's .eh_frame. */
static size_t seed_file(const char *path, uint8_t *buf, size_t cap)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct unwind_source s;
	size_t n = 0;

	if (fd < 0 || source_of_elf(&s, arch_host, fd, (struct bytes){ 0 }) < 0)
		return fuzz_bytes(buf, cap, "", 1);
	buf[0] = 0;
	n = 1 + fuzz_bytes(buf + 1, cap - 1, s.eh.b.at, MIN(s.eh.b.n, SEED_BYTES));
	unwind_source_deinit(&s);
	return n;
}

static size_t seed_vdso(uint8_t *buf, size_t cap)
{
	const void *at = (const void *)getauxval(AT_SYSINFO_EHDR);
	Elf64_Ehdr eh;

	if (!at)
		return fuzz_bytes(buf, cap, "", 1);
	memcpy(&eh, at, sizeof(eh));
	return fuzz_bytes(buf, cap, at, eh.e_shoff + (size_t)eh.e_shnum * eh.e_shentsize);
}

/* A signal's frame and a PLT, made of expressions; and instructions that compilers do not
 * use. */
static const char cie[] = "\1zS\0\1\x78\x10\0\x0c\7\x08\x90\1";
static const char plt[] = "\x0f\3\x77\x20\6\x10\x10\2\x77\x08\x10\3\4\x77\0\x23\x08\x44"
			  "\x0f\x0b\x77\x08\x80\0\x3f\x1a\x3b\x2a\x33\x24\x22";
static const char odd[] = "\x41\x0a\x12\6\x7e\x11\3\2\x14\6\2\x15\x0c\1\x16\x0d\2\x70\0"
			  "\x09\x0e\x0f\x2e\x08\x2f\3\2\x41\x0b\7\x10\x41\x2d\0";

/* A record of .debug_frame, whose addresses are absolute. */
static size_t put_record(uint8_t *buf, uint32_t id, uint64_t lo, const char *ops, size_t n)
{
	uint64_t range[2] = { lo, 0x100 };
	size_t head = lo ? sizeof(range) + 1 : 0;
	uint32_t size = (uint32_t)(4 + head + n);

	memcpy(buf, &size, 4);
	memcpy(buf + 4, &id, 4);
	memset(buf + 8, 0, head);
	if (lo)
		memcpy(buf + 8, range, sizeof(range));
	memcpy(buf + 8 + head, ops, n);
	return 8 + head + n;
}

static size_t seed_odd(uint8_t *buf)
{
	size_t n = 1;

	buf[0] = 1;
	n += put_record(buf + n, UINT32_MAX, 0, cie, sizeof(cie) - 1);
	n += put_record(buf + n, 0, 0x2000, plt, sizeof(plt) - 1);
	return n + put_record(buf + n, 0, 0x3000, odd, sizeof(odd) - 1);
}

/* A file with the begin of the C library's .eh_frame, and with .debug_frame packed. */
static size_t seed_packed(uint8_t *buf, size_t cap)
{
	_cleanup_close_ int fd = open("/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY | O_CLOEXEC);
	uint8_t odd_section[512], to[1024];
	size_t n = seed_odd(odd_section) - 1;
	Elf64_Chdr ch = { .ch_type = 2, .ch_size = n, .ch_addralign = 1 };
	Elf64_Phdr none = { 0 };
	struct elfimage im;
	struct fuzz_elf e;

	elf_begin(&e, buf, cap);
	if (elfimage_init(&im, fd, (struct bytes){ 0 }) == 0)
		elf_copy(&e, &im, ".eh_frame");
	elfimage_deinit(&im);
	memcpy(to, &ch, sizeof(ch));
	n = ZSTD_compress(to + sizeof(ch), sizeof(to) - sizeof(ch), odd_section + 1, n, 1);
	elf_add(&e, ".debug_frame", SHT_PROGBITS, (struct bytes){ to, sizeof(ch) + n })
		->sh_flags = SHF_COMPRESSED;
	return elf_end(&e, &none);
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	switch (i) {
	case 0:
		return seed_file("/proc/self/exe", buf, cap);
	case 1:
		return seed_file("/lib/x86_64-linux-gnu/libc.so.6", buf, cap);
	case 2:
		return seed_vdso(buf, cap);
	case 3:
		return seed_odd(buf);
	case 4:
		return seed_packed(buf, cap);
	default:
		return 0;
	}
}
