/* SPDX-License-Identifier: MIT
 *
 * jitobject - an ELF image with one function, as LLVM's JITs register it for GDB: relocatable,
 * its code section at the address where it was loaded, the symbol counted from there.
 */
#ifndef JITOBJECT_H
#define JITOBJECT_H

#include <elf.h>
#include <stdint.h>
#include <string.h>

struct jitobject {
	Elf64_Ehdr eh;
	Elf64_Shdr sh[4]; /* none, code, symbols, names */
	Elf64_Sym sym[2];
	char names[128];
};

static inline void jitobject_fill(struct jitobject *o, uint64_t loaded, uint64_t size,
				  uint64_t offset, uint64_t n, const char *name)
{
	*o = (struct jitobject){
		.eh = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
				     ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_REL,
			.e_shoff = offsetof(struct jitobject, sh),
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = 4 },
		.sh = { { 0 },
			{ .sh_type = SHT_PROGBITS,
			  .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			  .sh_addr = loaded,
			  .sh_size = size },
			{ .sh_type = SHT_SYMTAB,
			  .sh_offset = offsetof(struct jitobject, sym),
			  .sh_size = sizeof(o->sym),
			  .sh_link = 3 },
			{ .sh_type = SHT_STRTAB,
			  .sh_offset = offsetof(struct jitobject, names),
			  .sh_size = sizeof(o->names) } },
		.sym = { { 0 },
			 { .st_name = 1,
			   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			   .st_shndx = 1,
			   .st_value = offset,
			   .st_size = n } },
	};
	memcpy(o->names + 1, name, strlen(name) + 1);
}

#endif
