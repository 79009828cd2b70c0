/* SPDX-License-Identifier: MIT
 *
 * outputs - which format each -o has, and whether the outputs can do what the options ask.
 */
#ifndef OUTPUTS_H
#define OUTPUTS_H

struct record_options;

/* Fill in o->format, and perf.data where no output is named. 0, or an exit code after a
 * sentence. No file is touched. */
int outputs_pick(struct record_options *o);

#endif
