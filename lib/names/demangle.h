/* SPDX-License-Identifier: MIT
 *
 * demangle - C++ and Rust names as their sources have them, by libiberty where it was there
 * when this was built.
 */
#ifndef PYSAMPLED_DEMANGLE_H
#define PYSAMPLED_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* True: it is built in. */
extern const bool demangle_built;

/* True: @name looks like one to demangle. */
bool demangle_wanted(const char *name);

/* The first @cap - 1 bytes of what @name means: "ns::f(int)", "core::fmt::write". False, and
 * @buf undefined: it means nothing more. No suffix may follow in @name (symnames_cut()). What
 * is printed is bounded by @cap, for a short name can stand for a text of 2^100 bytes; but the
 * time of some names doubles with each ten bytes (symnames_ask()). */
bool demangle(const char *name, char *buf, size_t cap);

#endif
