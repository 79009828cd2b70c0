/* SPDX-License-Identifier: MIT */
#include "elf/elffunc.h"

#include <stdio.h>
#include <string.h>

/* Whether programs get it is told by .gnu.version for .dynsym, in .symtab by "@" in the name
 * instead of "@@" (Solaris' and GNU's symbol versioning). */
static bool read_symbol(const Elf64_Sym *sym, struct bytes names, bool hidden,
			struct elffunc *ret)
{
	const char *name = (const char *)names.at + sym->st_name;
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	size_t n;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || sym->st_shndx == SHN_UNDEF ||
	    sym->st_name >= names.n)
		return false;
	n = strcspn(name, "@");
	ret->vaddr = sym->st_value;
	ret->old = hidden || (name[n] && name[n + 1] != '@');
	ret->chosen = type == STT_GNU_IFUNC;
	snprintf(ret->name, sizeof(ret->name), "%.*s", (int)MIN(n, sizeof(ret->name) - 1),
		 name);
	return true;
}

/* The versions of a table's symbols, 2 bytes each; empty where there are none. */
static struct bytes versions_of(const struct elfimage *im, const Elf64_Shdr *table)
{
	for (size_t i = 0; i < im->n_sh; i++)
		if (im->sh[i].sh_type == SHT_GNU_versym &&
		    im->sh[i].sh_link == (size_t)(table - im->sh))
			return elfimage_bytes(im, &im->sh[i]);
	return (struct bytes){ 0 };
}

static bool is_hidden(struct bytes versions, size_t i)
{
	enum { HIDDEN = 0x80 }; /* of the upper byte: VERSYM_HIDDEN */

	return i < versions.n / 2 && versions.at[2 * i + 1] & HIDDEN;
}

/* Call @each for the functions of one table. */
static void each_of(const struct elfimage *im, const Elf64_Shdr *table,
		    void (*each)(void *arg, const struct elffunc *symbol), void *arg)
{
	_cleanup_bytes_ struct bytes syms = elfimage_bytes(im, table), names = { 0 };
	_cleanup_bytes_ struct bytes versions = versions_of(im, table);

	if (table->sh_link < im->n_sh)
		names = elfimage_bytes(im, &im->sh[table->sh_link]);
	for (size_t i = 0; names.at && i < syms.n / sizeof(Elf64_Sym); i++) {
		struct elffunc symbol;
		Elf64_Sym sym;

		memcpy(&sym, syms.at + i * sizeof(sym), sizeof(sym));
		if (read_symbol(&sym, names, is_hidden(versions, i), &symbol))
			each(arg, &symbol);
	}
}

void elffunc_each(const struct elfimage *im,
		  void (*each)(void *arg, const struct elffunc *symbol), void *arg)
{
	for (size_t i = 0; i < im->n_sh; i++)
		if (im->sh[i].sh_type == SHT_SYMTAB || im->sh[i].sh_type == SHT_DYNSYM)
			each_of(im, &im->sh[i], each, arg);
}
