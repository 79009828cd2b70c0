/* SPDX-License-Identifier: MIT
 *
 * tableread - where an ELF file keeps its unwind information.
 */
#include "elf/elfimage.h"
#include "elf/module.h"
#include "elf/rows.h"

enum { BUILD_ID = 20 };

/* A section by name; empty where the file has none, or only says how large it was. */
static void read_section(struct frames_section *s, const struct elfimage *im, const char *name)
{
	const Elf64_Shdr *sh = elfimage_section(im, name);

	s->at = sh ? sh->sh_addr : 0;
	s->b = elfimage_bytes(im, sh);
}

/* .eh_frame of a file without section headers, if it is not known: .eh_frame_hdr points to it. */
static void read_by_header(struct frames_section *s, const struct elfimage *im)
{
	struct ehframe_hdr h;

	for (size_t i = 0; i < im->n_ph && !s->b.at; i++) {
		const Elf64_Phdr *p = &im->ph[i];
		_cleanup_bytes_ struct bytes hdr = { 0 };

		if (p->p_type != PT_GNU_EH_FRAME)
			continue;
		hdr = elfimage_part(im, p->p_offset, p->p_filesz);
		if (!hdr.at || ehframe_hdr(&h, hdr, p->p_vaddr) < 0)
			continue;
		s->at = h.frame_at;
		s->b = elfimage_rest(im, h.frame_at);
	}
}

/* Only the vdso has it, which comes as an image. */
static uint64_t find_sigreturn(const struct arch *arch, const struct module *t,
			       struct bytes image)
{
	size_t n = sizeof(arch->sigreturn);

	for (size_t i = 0; arch->sigreturn[0] && i < t->n_loads; i++) {
		const struct module_load *l = &t->load[i];
		uint64_t end = MIN(l->offset + l->size, image.n);

		for (uint64_t at = l->offset; at + n <= end; at += arch->code_align)
			if (memcmp(image.at + at, arch->sigreturn, n) == 0)
				return at - l->offset + l->vaddr;
	}
	return 0;
}

/* True: from @first on all of the section are stubs as @is tells them. */
static bool are_stubs(const struct arch *arch, const struct elfimage *im, const Elf64_Shdr *sh,
		      size_t first, bool (*is)(const unsigned char *code))
{
	_cleanup_bytes_ struct bytes b = elfimage_bytes(im, sh);

	if (b.n != sh->sh_size || b.n <= first || (b.n - first) % arch->plt_bytes)
		return false;
	for (size_t i = first; i < b.n; i += arch->plt_bytes)
		if (!is(b.at + i))
			return false;
	return true;
}

static void find_plt(struct unwind_source *s, const struct arch *arch,
		     const struct elfimage *im)
{
	const Elf64_Shdr *sh = elfimage_section(im, ".plt");
	size_t first = arch->plt_first;

	if (!first || !sh)
		return;
	if (arch->plt_stub && !are_stubs(arch, im, sh, first, arch->plt_stub)) {
		first = arch->plt_plain_first;
		if (!arch->plt_plain || !are_stubs(arch, im, sh, first, arch->plt_plain))
			return;
		s->plt_plain = true;
	}
	if (sh->sh_size <= first)
		return;
	s->plt_lo = sh->sh_addr + first;
	s->plt_hi = sh->sh_addr + sh->sh_size;
}

static uint64_t sum_bytes(uint64_t sum, const void *at, size_t n)
{
	const unsigned char *p = at;

	sum += n;
	for (; n >= 8; p += 8, n -= 8)
		sum = (sum ^ load_u64(p)) * 0x9e3779b97f4a7c15u, sum ^= sum >> 32;
	for (; n > 0; p++, n--)
		sum = (sum ^ *p) * 0x9e3779b97f4a7c15u;
	return sum;
}

static void sum_source(struct unwind_source *s, const struct elfimage *im,
		       const struct module *m)
{
	uint64_t sum = s->eh.at ^ s->debug.at << 32 ^ s->base;
	unsigned char id[ELFIMAGE_MAX_ID];

	memcpy(s->id, id, MIN(elfimage_build_id(im, id), BUILD_ID));
	sum = sum_bytes(sum, m->load, sizeof(m->load));
	sum = sum_bytes(sum, s->eh.b.at, s->eh.b.n);
	sum = sum_bytes(sum, s->debug.b.at, s->debug.b.n);
	memcpy(s->id + ROWS_ID - sizeof(sum), &sum, sizeof(sum));
}

void unwind_source_read(struct unwind_source *s, const struct arch *arch,
			const struct elfimage *im, const struct module *m)
{
	*s = (struct unwind_source){ .debug.debug = true, .base = m->base };
	read_section(&s->eh, im, ".eh_frame");
	read_by_header(&s->eh, im);
	read_section(&s->debug, im, ".debug_frame");
	find_plt(s, arch, im);
	s->sigreturn = im->fd < 0 ? find_sigreturn(arch, m, im->mem) : 0;
	sum_source(s, im, m);
}

void unwind_source_deinit(struct unwind_source *s)
{
	elfimage_free(&s->eh.b);
	elfimage_free(&s->debug.b);
	*s = (struct unwind_source){ 0 };
}
