/* SPDX-License-Identifier: MIT
 *
 * apportion - whole numbers in the proportion of weights. Pure.
 */
#ifndef APPORTION_H
#define APPORTION_H

#include <stddef.h>
#include <stdint.h>

/* Replace each of the @n weights by its share of @total, so that the shares add up to @total
 * exactly. A share that is no whole number becomes the one below or above, drawn: the latter as
 * often as its part above the former says. So many small ones have what is theirs together. The
 * same weights get the same shares. All 0 where the weights are. */
void apportion(uint64_t *weight, size_t n, uint64_t total);

#endif
