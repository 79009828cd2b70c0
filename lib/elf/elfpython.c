/* SPDX-License-Identifier: MIT
 *
 * elfpython - what one ELF file says about holding a Python interpreter.
 */
#include "elf/elfpython.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "base/base.h"
#include "elf/elfimage.h"

static void read_loads(const struct elfimage *im, struct elfpython *ret)
{
	ret->program = im->type == ET_EXEC;
	for (size_t i = 0; i < im->n_ph; i++) {
		const Elf64_Phdr *p = &im->ph[i];

		ret->program |= p->p_type == PT_INTERP;
		if (p->p_type != PT_LOAD || ret->n_loads == ELFPYTHON_LOADS)
			continue;
		ret->load[ret->n_loads].offset = p->p_offset;
		ret->load[ret->n_loads].vaddr = p->p_vaddr;
		ret->n_loads++;
	}
}

static void look_at_symbol(struct elfpython *ret, const char *name, const Elf64_Sym *sym)
{
	static const char *const api[] = { "Py_GetVersion", "PyEval_EvalFrameEx",
					   "_PyThreadState_Current" };

	if (!strcmp(name, "_PyRuntime"))
		ret->runtime = sym->st_value;
	else if (!strcmp(name, "Py_Version"))
		ret->py_version = sym->st_value;
	else if (!strcmp(name, "_Py_next_func_version"))
		ret->func_version = sym->st_value;
	else if (!strcmp(name, "interp_head"))
		ret->interp_head = sym->st_value;
	else if (!strcmp(name, "PyInterpreterState_Head"))
		ret->head_getter = sym->st_value;
	else if (!strcmp(name, "rpython_startup_code") || !strcmp(name, "pypy_main_startup"))
		ret->pypy = true;
	for (size_t i = 0; i < ARRAY_SIZE(api); i++)
		ret->python |= !strcmp(name, api[i]);
}

static uint8_t export_of(const char *name)
{
	return !strcmp(name, "_PyEval_EvalFrameDefault") ? ELFPYTHON_LOOP :
	       !strcmp(name, "_PyOptimizer_Optimize")	 ? ELFPYTHON_OPTIMIZER :
							   0;
}

static void read_symbols(const struct elfimage *im, const Elf64_Shdr *sh,
			 struct elfpython *ret)
{
	_cleanup_bytes_ struct bytes syms = elfimage_bytes(im, sh), names = { 0 };

	if (sh->sh_link < im->n_sh)
		names = elfimage_bytes(im, &im->sh[sh->sh_link]);
	for (size_t i = 0; i < syms.n / sizeof(Elf64_Sym); i++) {
		const char *name;
		Elf64_Sym sym;

		memcpy(&sym, syms.at + i * sizeof(sym), sizeof(sym));
		if (sym.st_shndx == SHN_UNDEF || !sym.st_value || sym.st_name >= names.n)
			continue;
		name = (const char *)names.at + sym.st_name;
		if (strpbrk(name, "Pp"))
			look_at_symbol(ret, name, &sym);
		if (sh->sh_type == SHT_DYNSYM)
			ret->exports |= export_of(name);
	}
}

/* The first of a type; files have one of each. */
static const Elf64_Shdr *section_of_type(const struct elfimage *im, uint32_t type)
{
	for (size_t i = 0; i < im->n_sh; i++)
		if (im->sh[i].sh_type == type)
			return &im->sh[i];
	return NULL;
}

/* interp_head, which a stripped file does not name, but an exported function returns it. */
static uint64_t head_of_getter(const struct elfimage *im, uint64_t at)
{
	uint64_t ret = 0;

	for (size_t i = 0; i < im->n_ph; i++) {
		const Elf64_Phdr *p = &im->ph[i];
		_cleanup_bytes_ struct bytes code = { 0 };

		if (p->p_type != PT_LOAD || at < p->p_vaddr || at - p->p_vaddr >= p->p_filesz)
			continue;
		code = elfimage_part(im, at - p->p_vaddr + p->p_offset,
				     MIN(p->p_filesz - (at - p->p_vaddr), 32ul));
		if (arch_host->getter && arch_host->getter(code.at, code.n, at, &ret))
			return ret;
	}
	return 0;
}

/* The exported symbols tell most; the full table is read of interpreters only. */
static void read_sections(const struct elfimage *im, struct elfpython *ret)
{
	const Elf64_Shdr *dynsym = section_of_type(im, SHT_DYNSYM);
	const Elf64_Shdr *symtab = section_of_type(im, SHT_SYMTAB);
	const Elf64_Shdr *id = elfimage_section(im, ".note.gnu.build-id");
	/* Include/internal/pycore_runtime.h puts _PyRuntime here, alone. */
	const Elf64_Shdr *section = elfimage_section(im, ".PyRuntime");

	if (dynsym)
		read_symbols(im, dynsym, ret);
	if (id && (id->sh_flags & SHF_ALLOC)) {
		ret->build_id = id->sh_addr;
		ret->build_id_n = (uint32_t)MIN(id->sh_size, (uint64_t)UINT32_MAX);
	}
	ret->stripped = !symtab;
	if (symtab && (section || (ret->python && !ret->runtime) ||
		       (ret->program && (!ret->runtime || !ret->py_version))))
		read_symbols(im, symtab, ret);
	if (!ret->runtime && section)
		ret->runtime = section->sh_addr;
	if (!ret->runtime && ret->python) {
		if (!ret->interp_head && ret->head_getter)
			ret->interp_head = head_of_getter(im, ret->head_getter);
		ret->runtime = ret->interp_head;
	}
}

int elfpython_of(const struct elfimage *im, struct elfpython *ret)
{
	*ret = (struct elfpython){ 0 };
	if (im->machine != arch_host->elf_machine ||
	    (im->type != ET_EXEC && im->type != ET_DYN))
		return -ENOEXEC;
	read_loads(im, ret);
	read_sections(im, ret);
	return 0;
}

int elfpython_read(int fd, struct elfpython *ret)
{
	struct elfimage im;
	int r = elfimage_init(&im, fd, (struct bytes){ 0 });

	*ret = (struct elfpython){ 0 };
	if (r == 0)
		r = elfpython_of(&im, ret);
	elfimage_deinit(&im);
	return r;
}
