/* SPDX-License-Identifier: MIT
 *
 * pyfind_elf - what one ELF file says about holding a Python interpreter.
 */
#include "python/pyfind_elf.h"

#include <errno.h>
#include <gelf.h>
#include <string.h>

#include "arch/arch.h"
#include "base/base.h"

/* Larger string and symbol tables than this are no interpreter's. */
enum { TABLE_MAX = 256 << 20 };

static int read_loads(Elf *elf, struct pyfind_elf *ret)
{
	size_t n;

	if (elf_getphdrnum(elf, &n) < 0)
		return -ENOEXEC;
	for (size_t i = 0; i < n && i < 256; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(elf, (int)i, &ph))
			return -ENOEXEC;
		ret->program |= ph.p_type == PT_INTERP;
		if (ph.p_type != PT_LOAD || ret->n_loads == PYFIND_ELF_LOADS)
			continue;
		ret->load[ret->n_loads].offset = ph.p_offset;
		ret->load[ret->n_loads].vaddr = ph.p_vaddr;
		ret->load[ret->n_loads].filesz = ph.p_filesz;
		ret->n_loads++;
	}
	return 0;
}

static void look_at_symbol(struct pyfind_elf *ret, const char *name, const GElf_Sym *sym)
{
	static const char *const api[] = { "Py_GetVersion", "PyEval_EvalFrameEx",
					   "_PyThreadState_Current" };

	if (!strcmp(name, "_PyRuntime"))
		ret->runtime = sym->st_value;
	else if (!strcmp(name, "Py_Version"))
		ret->py_version = sym->st_value;
	else if (!strcmp(name, "_Py_next_func_version"))
		ret->func_version = sym->st_value;
	else if (!strcmp(name, "rpython_startup_code") || !strcmp(name, "pypy_main_startup"))
		ret->pypy = true;
	for (size_t i = 0; i < ARRAY_SIZE(api); i++)
		ret->python |= !strcmp(name, api[i]);
}

static void read_symbols(Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh, struct pyfind_elf *ret)
{
	Elf_Data *data;

	if (sh->sh_size > TABLE_MAX || !sh->sh_entsize)
		return;
	data = elf_getdata(scn, NULL);
	for (size_t i = 0; data && i < sh->sh_size / sh->sh_entsize && i < INT32_MAX; i++) {
		const char *name;
		GElf_Sym sym;

		if (!gelf_getsym(data, (int)i, &sym))
			return;
		if (sym.st_shndx == SHN_UNDEF || !sym.st_value)
			continue;
		name = elf_strptr(elf, sh->sh_link, sym.st_name);
		if (name && strpbrk(name, "Pp"))
			look_at_symbol(ret, name, &sym);
	}
}

/* The exported symbols tell most; the full table is read of interpreters only. */
static void read_sections(Elf *elf, struct pyfind_elf *ret)
{
	Elf_Scn *scn = NULL, *symtab = NULL;
	uint64_t section = 0;
	GElf_Shdr sh, symtab_sh = { 0 };
	size_t names;

	if (elf_getshdrstrndx(elf, &names) < 0)
		return;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name;

		if (!gelf_getshdr(scn, &sh))
			return;
		name = elf_strptr(elf, names, sh.sh_name);
		if (sh.sh_type == SHT_DYNSYM)
			read_symbols(elf, scn, &sh, ret);
		if (sh.sh_type == SHT_SYMTAB) {
			symtab = scn;
			symtab_sh = sh;
		}
		if (name && !strcmp(name, ".note.gnu.build-id") && (sh.sh_flags & SHF_ALLOC)) {
			ret->build_id = sh.sh_addr;
			ret->build_id_n = (uint32_t)MIN(sh.sh_size, (uint64_t)UINT32_MAX);
		}
		/* Include/internal/pycore_runtime.h puts _PyRuntime here, alone. */
		if (name && !strcmp(name, ".PyRuntime"))
			section = sh.sh_addr;
	}
	ret->stripped = !symtab;
	if (symtab && (section || (ret->program && (!ret->runtime || !ret->py_version))))
		read_symbols(elf, symtab, &symtab_sh, ret);
	if (!ret->runtime)
		ret->runtime = section;
}

int pyfind_elf_read(int fd, struct pyfind_elf *ret)
{
	GElf_Ehdr eh;
	Elf *elf;
	int r = -ENOEXEC;

	*ret = (struct pyfind_elf){ 0 };
	if (elf_version(EV_CURRENT) == EV_NONE)
		return -ENOEXEC;
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf)
		return -ENOEXEC;
	if (elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &eh) &&
	    eh.e_ident[EI_CLASS] == ELFCLASS64 && eh.e_machine == arch_host->elf_machine &&
	    (eh.e_type == ET_EXEC || eh.e_type == ET_DYN)) {
		ret->program = eh.e_type == ET_EXEC;
		r = read_loads(elf, ret);
		if (r == 0)
			read_sections(elf, ret);
	}
	elf_end(elf);
	return r;
}
