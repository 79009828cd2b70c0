/* SPDX-License-Identifier: MIT
 *
 * pfm - names of events as the processor's vendor has them, by libpfm4 if it is installed
 * (libpfm.so.4, loaded when it is asked): "skl::INST_RETIRED:ANY", "INST_RETIRED".
 */
#ifndef PFM_H
#define PFM_H

#include "events/perf_names.h"

/* Type and config of @name, and its modifiers besides those that *@ret has. 0; -ENOENT there is no
 * such event, or no libpfm4. */
int pfm_resolve(const char *name, struct perf_spec *ret);

/* True: the library is here. */
bool pfm_here(void);

#endif
