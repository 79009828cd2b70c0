/* SPDX-License-Identifier: MIT
 *
 * summary - what a recording says to a person on stderr, at its begin and at its end.
 */
#ifndef SUMMARY_H
#define SUMMARY_H

#include "options.h"
#include "sample/sample.h"

/* Sampling begins. */
void summary_begin(const struct record_options *o, const struct session *session,
		   const struct recorder *rec);

/* After all files are closed: which there are, why there are no samples, counters, and the
 * last line. */
void summary_end(const struct record_options *o, const struct session *session,
		 const struct recorder_summary *s);

#endif
