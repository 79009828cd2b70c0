/* SPDX-License-Identifier: MIT
 *
 * elflayout - where the fields of CPython's structs lie, as a file's debug info says.
 *
 * By libdw, which reads what is the target's: a process without rights does this
 * (file_helper.h), with limits on its time and memory.
 */
#ifndef ELFLAYOUT_H
#define ELFLAYOUT_H

#include "elf/debugfile.h"
#include "offsets/pyfields.h"

struct elflayout_want {
	uint16_t version; /* 0x030c is 3.12 */
	bool free_threaded;
};

struct elflayout {
	uint8_t separate; /* not 0: it is in a debug file of its own */
	struct pyfield_values values;
};

/* In the file whose bytes are @all, of which libdw may write some. 0, or -ENOENT. */
int elflayout_of(struct bytes all, const struct elflayout_want *want,
		 struct pyfield_values *ret);

/* In @fd, or the debug file that it names. 0; -ENOENT there is no debug info of CPython, or
 * this program is built without libdw; -EIO, -ENOMEM. */
int elflayout_read(int fd, const struct elflayout_want *want,
		   const struct debugfile_origin *from, struct elflayout *ret);

#endif
