/* SPDX-License-Identifier: MIT
 *
 * uprobe - instructions of a file as events: the kernel's uprobe PMU, which puts a breakpoint
 * into a private page of each process that is watched, and takes it out when the event closes.
 *
 * A USDT probe is a place that a program was built with (sys/sdt.h): section .note.stapsdt
 * tells its address, and that of a counter, the semaphore, that the kernel counts up while it
 * is watched. https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
 */
#ifndef UPROBE_H
#define UPROBE_H

#include "elf/elfimage.h"
#include "events/perf_names.h"

/* Complete @s, "uprobe:FILE:SYMBOL[+OFFSET]" or "uretprobe:FILE:SYMBOL"; SYMBOL may be the
 * address of an instruction in the file. 0; -ENOENT with the nearest that there is; -EACCES.
 */
int uprobe_resolve(const char *devices, struct perf_spec *s, struct err *err);

/* "usdt:[FILE:]PROVIDER:NAME", which may stand in several places: a spec each, at most @cap.
 * Without a FILE it is looked for in what @pid (0: none) has mapped. Same errors. */
int uprobe_usdt(const char *devices, const struct perf_spec *s, pid_t pid,
		struct perf_spec *ret, size_t cap, size_t *n, struct err *err);

/* Where a file's address lies in the file, with @code only in what is executable: elsewhere a
 * breakpoint would change data. False: nowhere. */
bool uprobe_offset(const struct elfimage *im, uint64_t vaddr, bool code, uint64_t *ret);

struct uprobe_note {
	uint64_t pc, semaphore; /* addresses; 0: none */
	const char *provider, *name;
};

/* Take the next probe from @notes, which is shortened; @base: where .stapsdt.base really is,
 * 0 where it is not known. False: there is none left. Pure. */
bool uprobe_next_note(struct bytes *notes, uint64_t base, struct uprobe_note *ret);

#endif
