/* SPDX-License-Identifier: MIT
 *
 * kept - what formats that add stacks up keep of what they are given.
 */
#ifndef KEPT_H
#define KEPT_H

#include "sample/sink.h"

/* True: the sample is of the provenance that is wanted. */
bool kept_sample(const struct sink *s, const struct sample *smp);

/* True: samples of @event stand for different numbers of occurrences: the kernel adapts its period,
 * or gives each sample a weight, or it is counted at another's samples. */
bool kept_adapts(const struct session *session, uint32_t event);

/* How many samples @smp is, and what it counts for: those, or what they stand for. */
uint64_t kept_samples(const struct session *session, const struct sample *smp);
uint64_t kept_weight(const struct session *session, const struct sample *smp);

/* True: there is room for one more name of a process or thread where such names took @used bytes.
 * One that calls itself something else all the time leaves room for others' functions. Where there
 * is none the name is counted as unnamed. */
bool kept_name(const struct sink *s, size_t used);

#endif
