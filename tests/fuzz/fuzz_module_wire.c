/* SPDX-License-Identifier: MIT
 *
 * fuzz_module_wire - the tables of a file that the process which read it hands over: it may do
 * as the file bids, so every field is foreign.
 */
#include "arch/arch.h"
#include "elf/module_wire.h"
#include "elf/rows.h"
#include "fuzz.h"

enum { PAGE = 4096, CODE = 0x1000 };

static bool within(const struct bytes all, const void *at, size_t n)
{
	size_t off = (size_t)((const unsigned char *)at - all.at);

	return off <= all.n && n <= all.n - off;
}

static void look_at_rows(struct rows *rows, struct bytes all)
{
	FUZZ_CHECK(within(all, rows->function, rows->n * sizeof(*rows->function)));
	FUZZ_CHECK(within(all, rows->source.eh.b.at, rows->source.eh.b.n));
	FUZZ_CHECK(within(all, rows->source.debug.b.at, rows->source.debug.b.n));
	for (size_t i = 0; i < rows->n; i++) {
		const struct rows_function *f = &rows->function[i];

		FUZZ_CHECK(f->lo < f->hi && (i == 0 || f[-1].hi <= f->lo));
		FUZZ_CHECK(f->from != ROWS_EH || f->record < rows->source.eh.b.n);
		FUZZ_CHECK(f->from != ROWS_DEBUG || f->record < rows->source.debug.b.n);
		FUZZ_CHECK(f->from < ROWS_N_FROM);
		rows_at(rows, rows->source.base + f->lo);
	}
}

static void look(const struct module *m, struct bytes all)
{
	const char *name;

	FUZZ_CHECK(m->n_loads <= MODULE_MAX_LOADS);
	FUZZ_CHECK(within(all, m->sym, m->n_syms * sizeof(*m->sym)));
	FUZZ_CHECK(within(all, m->func, m->n_funcs * sizeof(*m->func)));
	for (size_t i = 0; i < m->n_syms; i++) {
		FUZZ_CHECK(i == 0 || m->sym[i - 1].start < m->sym[i].start);
		name = m->names + m->sym[i].name;
		FUZZ_CHECK(within(all, name, 1) && within(all, name, strlen(name) + 1));
		module_symbol(m, m->base + m->sym[i].start);
	}
	for (size_t i = 1; i < m->n_funcs; i++)
		FUZZ_CHECK(m->func[i - 1].start + (uint64_t)m->func[i - 1].size <=
			   m->func[i].start);
}

/* What the module holds besides the bytes, which the caller frees. */
static void release(struct module *m)
{
	struct rows *rows = m->rows;

	for (size_t i = 0; rows && i < rows->n; i++)
		if (rows->made[i] != &rows->none)
			unwind_table_free(rows->made[i]);
	if (rows)
		free(rows->made);
	free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct bytes all = { malloc(n), n };
	struct module m;

	if (n)
		memcpy((void *)(uintptr_t)all.at, data, n);
	if (module_wire_check(&m, all, PAGE, &arch_x86_64) == 0) {
		look(&m, all);
		if (m.rows)
			look_at_rows(m.rows, all);
		release(&m);
	}
	free((void *)(uintptr_t)all.at);
	return 0;
}

/* Functions of 16 bytes, with names and, if @rows, an FDE each that says nothing. */
static int make(size_t n, struct rows *rows)
{
	struct module_sym sym[8];
	struct module_func func[8];
	struct rows_function function[8];
	char names[] = "one\0two\0three\0four\0five\0six\0seven\0";
	struct module m = { .base = 0x400000,
			    .load = { { 0, 0x401000, 0x1000 } },
			    .n_loads = 1,
			    .sym = sym,
			    .n_syms = n,
			    .names = names,
			    .func = func,
			    .n_funcs = n,
			    .exports_python = true,
			    .may_be_python = true,
			    .rows = rows };
	uint32_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		sym[i] = (struct module_sym){ CODE + 16 * i, 16, at };
		func[i] = (struct module_func){ CODE + 16 * i, 16 };
		function[i] = (struct rows_function){ CODE + 16 * i, CODE + 16 * i + 16, 8 * i,
						      i & 1 ? ROWS_DEBUG : ROWS_EH };
		at += (uint32_t)strlen(names + at) + 1;
	}
	if (rows)
		rows->function = function, rows->n = n;
	return module_wire_make(&m);
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const unsigned char frame[64];
	struct rows rows = { .source = { .eh = { .b = { frame, sizeof(frame) } },
					 .debug = { .b = { frame, sizeof(frame) } } } };
	_cleanup_close_ int fd = i < 6 ? make(i + 1, i & 1 ? &rows : NULL) : -1;
	ssize_t n = fd < 0 ? 0 : pread(fd, buf, cap, 0);

	return n > 0 ? (size_t)n : 0;
}
