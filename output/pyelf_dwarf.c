/* SPDX-License-Identifier: MIT
 *
 * pyelf_dwarf - functions to DWARF 4 sections.
 *
 * A unit a source file, its functions in .debug_ranges and .debug_aranges, and a
 * sequence of line rows a function.
 */
#include "pyelf_dwarf.h"

#include <errno.h>

#include "base/base.h"
#include "base/printable.h"
#include "pyelf.h"

/* What we use of the standard's constants: no need for libdw to write. */
enum {
	DW_TAG_compile_unit = 0x11,
	DW_TAG_subprogram = 0x2e,
	DW_CHILDREN_no = 0,
	DW_CHILDREN_yes = 1,
	DW_AT_name = 0x03,
	DW_AT_stmt_list = 0x10,
	DW_AT_low_pc = 0x11,
	DW_AT_high_pc = 0x12,
	DW_AT_language = 0x13,
	DW_AT_comp_dir = 0x1b,
	DW_AT_producer = 0x25,
	DW_AT_decl_file = 0x3a,
	DW_AT_decl_line = 0x3b,
	DW_AT_external = 0x3f,
	DW_AT_ranges = 0x55,
	DW_FORM_addr = 0x01,
	DW_FORM_data2 = 0x05,
	DW_FORM_data4 = 0x06,
	DW_FORM_string = 0x08,
	DW_FORM_data1 = 0x0b,
	DW_FORM_strp = 0x0e,
	DW_FORM_sec_offset = 0x17,
	DW_FORM_flag_present = 0x19,
	DW_LANG_Python = 0x14,
	DW_LNS_copy = 1,
	DW_LNS_advance_pc = 2,
	DW_LNS_advance_line = 3,
	DW_LNE_end_sequence = 1,
	DW_LNE_set_address = 2,
};

enum {
	DWARF_VERSION = 4,
	ADDR_SIZE = 8,
	ABBREV_UNIT = 1,
	ABBREV_FUNC = 2,
	LINE_BASE = -5,
	LINE_RANGE = 14,
	OPCODE_BASE = 13,
	/* one line on, one slot on */
	LINE_STEP = 1 - LINE_BASE + LINE_RANGE * PYELF_SLOT + OPCODE_BASE,
};

const char *const pyelf_dwarf_names[DWARF_N] = {
	[DWARF_ABBREV] = ".debug_abbrev",   [DWARF_INFO] = ".debug_info",
	[DWARF_ARANGES] = ".debug_aranges", [DWARF_LINE] = ".debug_line",
	[DWARF_STR] = ".debug_str",	    [DWARF_RANGES] = ".debug_ranges",
};

struct dwarf {
	struct buf *sec;
	const struct pyelf_func *func;
	uint32_t *first, *last; /* per file: its functions, as a list */
	uint32_t *next;		/* per function */
	uint32_t producer;	/* in .debug_str */
};

static uint64_t func_bytes(const struct pyelf_func *f)
{
	return (uint64_t)(f->n_lines + 1) * PYELF_SLOT;
}

static void put_abbrev(struct buf *b)
{
	static const unsigned char unit[][2] = {
		{ DW_AT_name, DW_FORM_strp },
		{ DW_AT_comp_dir, DW_FORM_string },
		{ DW_AT_producer, DW_FORM_strp },
		{ DW_AT_language, DW_FORM_data2 },
		{ DW_AT_low_pc, DW_FORM_addr },
		{ DW_AT_ranges, DW_FORM_sec_offset },
		{ DW_AT_stmt_list, DW_FORM_sec_offset },
		{ 0, 0 },
	};
	static const unsigned char func[][2] = {
		{ DW_AT_name, DW_FORM_strp },
		{ DW_AT_decl_file, DW_FORM_data1 },
		{ DW_AT_decl_line, DW_FORM_data4 },
		{ DW_AT_low_pc, DW_FORM_addr },
		{ DW_AT_high_pc, DW_FORM_data4 },
		{ DW_AT_external, DW_FORM_flag_present },
		{ 0, 0 },
	};

	buf_u8(b, ABBREV_UNIT);
	buf_u8(b, DW_TAG_compile_unit);
	buf_u8(b, DW_CHILDREN_yes);
	buf_put(b, unit, sizeof(unit));
	buf_u8(b, ABBREV_FUNC);
	buf_u8(b, DW_TAG_subprogram);
	buf_u8(b, DW_CHILDREN_no);
	buf_put(b, func, sizeof(func));
	buf_u8(b, 0);
}

/* A length that is known later; returns where. */
static size_t begin_length(struct buf *b)
{
	buf_u32(b, 0);
	return b->n;
}

static void end_length(struct buf *b, size_t start)
{
	buf_set_u32(b, start - 4, (uint32_t)(b->n - start));
}

static void put_info(struct dwarf *d, uint32_t file, uint32_t file_str)
{
	struct buf *b = &d->sec[DWARF_INFO];
	size_t start = begin_length(b);

	buf_u16(b, DWARF_VERSION);
	buf_u32(b, 0); /* of .debug_abbrev */
	buf_u8(b, ADDR_SIZE);
	buf_uleb(b, ABBREV_UNIT);
	buf_u32(b, file_str);
	buf_str(b, "/");
	buf_u32(b, d->producer);
	buf_u16(b, DW_LANG_Python);
	buf_u64(b, 0);
	buf_u32(b, (uint32_t)d->sec[DWARF_RANGES].n);
	buf_u32(b, (uint32_t)d->sec[DWARF_LINE].n);
	for (uint32_t i = d->first[file]; i != STRTAB_NONE; i = d->next[i]) {
		const struct pyelf_func *f = &d->func[i];

		buf_uleb(b, ABBREV_FUNC);
		buf_u32(b, f->name);
		buf_u8(b, 1);
		buf_u32(b, f->decl);
		buf_u64(b, f->addr);
		buf_u32(b, (uint32_t)func_bytes(f));
	}
	buf_u8(b, 0);
	end_length(b, start);
}

/* Which addresses the unit at @info has, twice: for the unit and for the index. */
static void put_ranges(struct dwarf *d, uint32_t file, size_t info)
{
	struct buf *b = &d->sec[DWARF_ARANGES], *r = &d->sec[DWARF_RANGES];
	size_t start = begin_length(b);

	buf_u16(b, 2); /* version */
	buf_u32(b, (uint32_t)info);
	buf_u8(b, ADDR_SIZE);
	buf_u8(b, 0);
	buf_zero(b, 4); /* the tuples are aligned */
	for (uint32_t i = d->first[file]; i != STRTAB_NONE; i = d->next[i]) {
		const struct pyelf_func *f = &d->func[i];

		buf_u64(b, f->addr);
		buf_u64(b, func_bytes(f));
		buf_u64(r, f->addr);
		buf_u64(r, f->addr + func_bytes(f));
	}
	buf_zero(b, 16);
	buf_zero(r, 16);
	end_length(b, start);
}

static void put_sequence(struct buf *b, const struct pyelf_func *f)
{
	int64_t last = f->first + f->n_lines - 1;

	buf_u8(b, 0);
	buf_uleb(b, 1 + ADDR_SIZE);
	buf_u8(b, DW_LNE_set_address);
	buf_u64(b, f->addr);
	buf_u8(b, DW_LNS_advance_line);
	buf_sleb(b, (f->n_lines ? (int64_t)f->first : 0) - 1);
	buf_u8(b, DW_LNS_copy);
	for (uint32_t i = 1; i < f->n_lines; i++)
		buf_u8(b, LINE_STEP);
	if (f->n_lines) { /* the slot of the unknown line, which may be the only one */
		buf_u8(b, DW_LNS_advance_pc);
		buf_uleb(b, PYELF_SLOT);
		buf_u8(b, DW_LNS_advance_line);
		buf_sleb(b, -last);
		buf_u8(b, DW_LNS_copy);
	}
	buf_u8(b, DW_LNS_advance_pc);
	buf_uleb(b, PYELF_SLOT);
	buf_u8(b, 0);
	buf_uleb(b, 1);
	buf_u8(b, DW_LNE_end_sequence);
}

static void put_lines(struct dwarf *d, uint32_t file, const char *path)
{
	/* how many operands the standard opcodes take */
	static const unsigned char operands[OPCODE_BASE - 1] = { 0, 1, 1, 1, 1, 0,
								 0, 0, 1, 0, 0, 1 };
	struct buf *b = &d->sec[DWARF_LINE];
	size_t start = begin_length(b), header;

	buf_u16(b, DWARF_VERSION);
	header = begin_length(b);
	buf_u8(b, 1); /* bytes of the shortest instruction */
	buf_u8(b, 1);
	buf_u8(b, 1); /* is_stmt */
	buf_u8(b, (unsigned)LINE_BASE & 0xff);
	buf_u8(b, LINE_RANGE);
	buf_u8(b, OPCODE_BASE);
	buf_put(b, operands, sizeof(operands));
	buf_u8(b, 0); /* no folders */
	buf_str(b, path);
	buf_zero(b, 3); /* folder, time, size */
	buf_u8(b, 0);
	end_length(b, header);
	for (uint32_t i = d->first[file]; i != STRTAB_NONE; i = d->next[i])
		put_sequence(b, &d->func[i]);
	end_length(b, start);
}

static void put_unit(struct dwarf *d, uint32_t file, const char *path)
{
	uint32_t str = (uint32_t)d->sec[DWARF_STR].n;
	size_t info = d->sec[DWARF_INFO].n;

	buf_str(&d->sec[DWARF_STR], path);
	put_info(d, file, str);
	put_ranges(d, file, info);
	put_lines(d, file, path);
}

/* Tools print a file's name as it stands. */
static void put_file(struct dwarf *d, uint32_t file, const char *path)
{
	char plain[PYFUNC_FILE_MAX + 1];

	printable(plain, sizeof(plain), path);
	put_unit(d, file, plain);
}

/* Which functions belong to which file. */
static int group_by_file(struct dwarf *d, size_t n, uint32_t n_files)
{
	d->first = malloc((2 * (size_t)n_files + n + 1) * sizeof(*d->first));
	if (!d->first)
		return -ENOMEM;
	d->last = d->first + n_files;
	d->next = d->last + n_files;
	for (uint32_t i = 0; i < n_files; i++)
		d->first[i] = STRTAB_NONE;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t file = d->func[i].file;

		if (file == STRTAB_NONE)
			continue;
		d->next[i] = STRTAB_NONE;
		if (d->first[file] == STRTAB_NONE)
			d->first[file] = i;
		else
			d->next[d->last[file]] = i;
		d->last[file] = i;
	}
	return 0;
}

int pyelf_dwarf_build(struct buf sec[DWARF_N], const struct pyelf_func *func, size_t n,
		      const struct strtab *files, const struct buf *names)
{
	struct dwarf d = { .sec = sec, .func = func };
	uint32_t n_files = strtab_count(files);

	if (group_by_file(&d, n, n_files))
		return -ENOMEM;
	put_abbrev(&sec[DWARF_ABBREV]);
	buf_put(&sec[DWARF_STR], names->at, names->n);
	d.producer = (uint32_t)sec[DWARF_STR].n;
	buf_str(&sec[DWARF_STR], "pysampled");
	for (uint32_t i = 0; i < n_files; i++)
		if (d.first[i] != STRTAB_NONE)
			put_file(&d, i, strtab_get(files, i));
	free(d.first);
	for (int i = 0; i < DWARF_N; i++)
		if (sec[i].oom)
			return -ENOMEM;
	return 0;
}
