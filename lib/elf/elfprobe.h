/* SPDX-License-Identifier: MIT
 *
 * elfprobe - where in an ELF file a probe goes: at a function, an address, or at what the
 * program was built with (USDT, sys/sdt.h).
 *
 * The file is the target's and hostile: a process without rights reads it (file_helper.h) and
 * hands this over, as it is here.
 */
#ifndef ELFPROBE_H
#define ELFPROBE_H

#include <stdbool.h>

#include "base/nearest.h"
#include "elf/elfimage.h"

enum { ELFPROBE_PLACES = 32 }; /* more than there can be events */

/* What is looked for. */
struct elfprobe_want {
	char name[256];	  /* of a function; "": none, @vaddr alone; of USDT PROVIDER:NAME */
	uint64_t vaddr;	  /* behind its beginning */
	uint32_t usdt;	  /* else a function or an address */
	uint32_t returns; /* its return is meant */
};

enum elfprobe_end {
	ELFPROBE_FOUND, /* USDT: maybe nowhere */
	ELFPROBE_NO_NAME,
	ELFPROBE_SEVERAL, /* functions of that name: at @vaddr and @other */
	ELFPROBE_CHOSEN,  /* it is chosen as programs start (IFUNC) */
	ELFPROBE_INSIDE,  /* a return is a function's, and this is no function's beginning */
	ELFPROBE_NO_INSTRUCTION,
	ELFPROBE_NO_CODE, /* at @vaddr */
};

struct elfprobe {
	uint32_t end, n; /* enum elfprobe_end, and places */
	uint64_t vaddr, other;
	struct elfprobe_place {
		uint64_t offset, counter; /* in the file; 0: no semaphore */
		uint64_t jumps;		  /* the instruction there goes elsewhere */
	} place[ELFPROBE_PLACES];
	uint32_t n_near; /* names that are like the one that is not there */
	char near[NEAREST_N][NEAREST_NAME];
};

/* Pure but for memory. */
void elfprobe_find(const struct elfimage *im, const struct elfprobe_want *want,
		   struct elfprobe *ret);

/* Whether elfprobe_find() can have made it. */
bool elfprobe_good(const struct elfprobe *p);

struct elfprobe_note {
	uint64_t pc, semaphore; /* addresses; 0: none */
	const char *provider, *name;
};

/* Take the next probe from @notes, which is shortened; @base: where .stapsdt.base really is,
 * 0 where it is not known. False: there is none left. Pure. */
bool elfprobe_next_note(struct bytes *notes, uint64_t base, struct elfprobe_note *ret);

#endif
