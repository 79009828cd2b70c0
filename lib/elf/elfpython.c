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

/* What the symbols are that tell something. */
enum told { RUNTIME, PY_VERSION, FUNC_VERSION, INTERP_HEAD, HEAD_GETTER, PYPY, API, LOOP, OPTIMIZER };

#define TOLD(name, what)                      \
	{                                     \
		name, sizeof(name) - 1, what, \
	}

static const struct {
	const char *name;
	size_t n;
	enum told what;
} known[] = {
	TOLD("_PyRuntime", RUNTIME),
	TOLD("Py_Version", PY_VERSION),
	TOLD("_Py_next_func_version", FUNC_VERSION),
	TOLD("interp_head", INTERP_HEAD),
	TOLD("PyInterpreterState_Head", HEAD_GETTER),
	TOLD("rpython_startup_code", PYPY),
	TOLD("pypy_main_startup", PYPY),
	TOLD("Py_GetVersion", API),
	TOLD("PyEval_EvalFrameEx", API),
	TOLD("_PyThreadState_Current", API),
	TOLD("_PyEval_EvalFrameDefault", LOOP),
	TOLD("_PyOptimizer_Optimize", OPTIMIZER),
};

static void take(struct elfpython *ret, enum told what, uint64_t at, bool exported)
{
	switch (what) {
	case RUNTIME:
		ret->runtime = at;
		break;
	case PY_VERSION:
		ret->py_version = at;
		break;
	case FUNC_VERSION:
		ret->func_version = at;
		break;
	case INTERP_HEAD:
		ret->interp_head = at;
		break;
	case HEAD_GETTER:
		ret->head_getter = at;
		break;
	case PYPY:
		ret->pypy = true;
		break;
	case API:
		ret->python = true;
		break;
	case LOOP:
		ret->exports |= exported ? ELFPYTHON_LOOP : 0;
		break;
	case OPTIMIZER:
		ret->exports |= exported ? ELFPYTHON_OPTIMIZER : 0;
		break;
	}
}

/* By its length first: an interpreter has tens of thousands. */
static void look_at_symbol(struct elfpython *ret, const char *name, uint64_t at, bool exported)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].n == n && !memcmp(known[i].name, name, n))
			take(ret, known[i].what, at, exported);
}

static void read_symbols(const struct elfimage *im, const Elf64_Shdr *sh,
			 struct elfpython *ret)
{
	_cleanup_bytes_ struct bytes syms = elfimage_bytes(im, sh), names = { 0 };

	if (sh->sh_link < im->n_sh)
		names = elfimage_bytes(im, &im->sh[sh->sh_link]);
	for (size_t i = 0; i < syms.n / sizeof(Elf64_Sym); i++) {
		Elf64_Sym sym;

		memcpy(&sym, syms.at + i * sizeof(sym), sizeof(sym));
		if (sym.st_shndx == SHN_UNDEF || !sym.st_value || sym.st_name >= names.n)
			continue;
		look_at_symbol(ret, (const char *)names.at + sym.st_name, sym.st_value,
			       sh->sh_type == SHT_DYNSYM);
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
