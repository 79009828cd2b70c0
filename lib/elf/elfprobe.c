/* SPDX-License-Identifier: MIT
 *
 * elfprobe - searches symbols and USDT notes of one file, and says why what it found is no place.
 */
#include "elf/elfprobe.h"

#include <stdio.h>
#include <string.h>

#include "arch/insn.h"
#include "elf/elffunc.h"

enum { NT_STAPSDT = 3 };

/* Where a file's address lies in the file, with @code only in what is executable: elsewhere a
 * breakpoint would change data. False: nowhere. */
static bool offset_of(const struct elfimage *im, uint64_t vaddr, bool code, uint64_t *ret)
{
	for (size_t i = 0; i < im->n_ph; i++) {
		const Elf64_Phdr *p = &im->ph[i];

		if (p->p_type == PT_LOAD && vaddr - p->p_vaddr < p->p_filesz &&
		    (!code || p->p_flags & PF_X)) {
			*ret = vaddr - p->p_vaddr + p->p_offset;
			return true;
		}
	}
	return false;
}

static bool jumps_at(const struct elfimage *im, uint64_t place)
{
	enum { LONGEST = 15 };
	_cleanup_bytes_ struct bytes code = elfimage_part(im, place, LONGEST);

	return code.n && insn_jumps(code);
}

static void add_place(const struct elfimage *im, uint64_t offset, uint64_t counter,
		      struct elfprobe *ret)
{
	if (ret->n < ELFPROBE_PLACES)
		ret->place[ret->n++] =
			(struct elfprobe_place){ offset, counter, jumps_at(im, offset) };
}

/* --- functions --- */

struct wanted {
	const char *name;
	struct elffunc found; /* "": none */
	uint64_t other;	      /* another function of that name; 0: none */
};

/* The version that programs get comes before those of old programs. */
static void take_wanted(void *arg, const struct elffunc *symbol)
{
	struct wanted *w = arg;

	if (strcmp(symbol->name, w->name) != 0)
		return;
	if (!*w->found.name || (w->found.old && !symbol->old)) {
		w->found = *symbol;
		w->other = 0;
	} else if (w->found.old == symbol->old && w->found.vaddr != symbol->vaddr) {
		w->other = symbol->vaddr;
	}
}

static void offer(void *near, const struct elffunc *symbol)
{
	nearest_offer(near, symbol->name);
}

static enum elfprobe_end find_function(const struct elfimage *im, const char *name,
				       struct nearest *near, struct elfprobe *ret)
{
	struct wanted w = { .name = name };

	elffunc_each(im, take_wanted, &w);
	ret->vaddr = w.found.vaddr;
	ret->other = w.other;
	if (!*w.found.name)
		elffunc_each(im, offer, near);
	return !*w.found.name ? ELFPROBE_NO_NAME :
	       w.other	      ? ELFPROBE_SEVERAL :
	       w.found.chosen ? ELFPROBE_CHOSEN :
				ELFPROBE_FOUND;
}

struct cover {
	uint64_t vaddr, start; /* what is nearest below it; 0: nothing */
};

static void take_below(struct cover *c, uint64_t start)
{
	if (start <= c->vaddr && start > c->start)
		c->start = start;
}

static void take_function(void *cover, const struct elffunc *symbol)
{
	take_below(cover, symbol->vaddr);
}

/* Of the function that @vaddr is in; else of the section. */
static uint64_t start_below(const struct elfimage *im, uint64_t vaddr)
{
	struct cover c = { .vaddr = vaddr };

	for (size_t i = 0; i < im->n_sh; i++)
		if (im->sh[i].sh_flags & SHF_EXECINSTR)
			take_below(&c, im->sh[i].sh_addr);
	elffunc_each(im, take_function, &c);
	return c.start;
}

/* A breakpoint within an instruction would make another one of it. */
static bool is_instruction(const struct elfimage *im, uint64_t vaddr)
{
	uint64_t start = start_below(im, vaddr), offset;
	_cleanup_bytes_ struct bytes code = { 0 };

	if (!start || !offset_of(im, start, true, &offset))
		return false;
	code = elfimage_part(im, offset, vaddr - start + 1);
	return insn_begins(code, vaddr - start);
}

static enum elfprobe_end find_place(const struct elfimage *im,
				    const struct elfprobe_want *want, struct nearest *near,
				    struct elfprobe *ret)
{
	enum elfprobe_end end = ELFPROBE_FOUND;
	uint64_t offset;

	if (*want->name)
		end = find_function(im, want->name, near, ret);
	if (end != ELFPROBE_FOUND)
		return end;
	ret->vaddr += want->vaddr;
	/* Elsewhere in a function the return address is not where the kernel takes it. */
	if (want->returns && start_below(im, ret->vaddr) != ret->vaddr)
		return ELFPROBE_INSIDE;
	if ((want->vaddr || !*want->name) && !is_instruction(im, ret->vaddr))
		return ELFPROBE_NO_INSTRUCTION;
	if (!offset_of(im, ret->vaddr, true, &offset))
		return ELFPROBE_NO_CODE;
	add_place(im, offset, 0, ret);
	return ELFPROBE_FOUND;
}

/* --- USDT --- */

/* A string that ends before @end; what is behind it. NULL: it does not. */
static const char *take_name(const char **s, const char *end)
{
	const char *name = *s, *nul = memchr(name, '\0', (size_t)(end - name));

	*s = nul ? nul + 1 : end;
	return nul ? name : NULL;
}

bool elfprobe_next_note(struct bytes *notes, uint64_t base, struct elfprobe_note *ret)
{
	struct elfimage_note note;

	while (elfimage_next_note(notes, &note)) {
		const char *s = (const char *)note.desc.at, *end = s + note.desc.n;

		if (!elfimage_note_is(&note, "stapsdt", NT_STAPSDT) || note.desc.n < 24)
			continue;
		ret->pc = load_u64(s);
		ret->semaphore = load_u64(s + 16);
		if (base) { /* prelink has moved the file's addresses */
			ret->pc += base - load_u64(s + 8);
			ret->semaphore += ret->semaphore ? base - load_u64(s + 8) : 0;
		}
		s += 24;
		ret->provider = take_name(&s, end);
		ret->name = take_name(&s, end);
		if (ret->provider && ret->name)
			return true;
	}
	return false;
}

static void find_notes(const struct elfimage *im, const char *want, struct nearest *near,
		       struct elfprobe *ret)
{
	const Elf64_Shdr *base = elfimage_section(im, ".stapsdt.base");
	_cleanup_bytes_ struct bytes all =
		elfimage_bytes(im, elfimage_section(im, ".note.stapsdt"));
	struct bytes left = all;
	struct elfprobe_note note;
	char name[256];

	while (elfprobe_next_note(&left, base ? base->sh_addr : 0, &note)) {
		uint64_t offset, counter = 0;

		snprintf(name, sizeof(name), "%.120s:%.120s", note.provider, note.name);
		if (strcmp(name, want) != 0)
			nearest_offer(near, name);
		else if (offset_of(im, note.pc, true, &offset) &&
			 (!note.semaphore || offset_of(im, note.semaphore, false, &counter)))
			add_place(im, offset, counter, ret); /* else damaged */
	}
}

/* --- either --- */

void elfprobe_find(const struct elfimage *im, const struct elfprobe_want *want,
		   struct elfprobe *ret)
{
	struct nearest near = { .want = want->name };

	*ret = (struct elfprobe){ .end = ELFPROBE_FOUND };
	if (want->usdt)
		find_notes(im, want->name, &near, ret);
	else
		ret->end = find_place(im, want, &near, ret);
	for (; ret->n_near < near.n; ret->n_near++)
		memcpy(ret->near[ret->n_near], near.best[ret->n_near].name, NEAREST_NAME);
}

bool elfprobe_good(const struct elfprobe *p)
{
	bool good = p->end <= ELFPROBE_NO_CODE && p->n <= ELFPROBE_PLACES &&
		    p->n_near <= NEAREST_N;

	for (uint32_t i = 0; good && i < p->n_near; i++)
		good = memchr(p->near[i], '\0', NEAREST_NAME);
	return good;
}
