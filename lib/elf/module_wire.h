/* SPDX-License-Identifier: MIT
 *
 * module_wire - a module as the process that read its file hands it over: a file in memory,
 * which is sealed, so that it stays as it was checked.
 *
 * Who made it may do as a hostile file bids: every field is checked before it is used.
 */
#ifndef MODULE_WIRE_H
#define MODULE_WIRE_H

#include "elf/module.h"

struct arch;

#define MODULE_WIRE_MAX ((uint64_t)512 << 20) /* bytes of one */

/* A sealed file of @m, close-on-exec. Its descriptor; -EFBIG; -ENOMEM. */
int module_wire_make(const struct module *m);

/* The module in a file that is not trusted: @fd is borrowed and may be no such file. 0;
 * -EPROTO: something in it is not as it must be; -ENOMEM. */
int module_wire_take(struct module *ret, int fd, const struct arch *arch);

/* The same of bytes, which the module then lies in: @page-aligned memory, and parts of it that
 * begin at multiples of @page. Its owner frees them rather than the module, and its rows by
 * hand: for tests. */
int module_wire_check(struct module *ret, struct bytes whole, size_t page,
		      const struct arch *arch);

#endif
