/* SPDX-License-Identifier: MIT
 *
 * unit - cmocka, and what it wants before it.
 */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#endif
