/* SPDX-License-Identifier: MIT
 *
 * apportion - whole numbers in the proportion of weights. Pure.
 */
#ifndef APPORTION_H
#define APPORTION_H

#include <stddef.h>
#include <stdint.h>

/* Replace each of the @n weights by its share of @total, so that the shares add up to @total
 * exactly and none is off by one or more (largest remainders; of equal ones the first). All 0
 * where the weights are. 0 or -ENOMEM: nothing was changed. */
int apportion(uint64_t *weight, size_t n, uint64_t total);

#endif
