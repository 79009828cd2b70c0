/* SPDX-License-Identifier: MIT
 *
 * saved - what a recording's resolver took out of its queues, in a file: a struct
 * saved_session, then of each record a struct saved_record and its bytes, padded to 8. Read
 * only by the build that wrote it.
 */
#ifndef SAVED_H
#define SAVED_H

#include "sample/sample.h"

struct saved_session {
	size_t n_events;
	unsigned flags; /* enum session_flags */
	struct event_info events[SESSION_MAX_EVENTS];
};

struct saved_record {
	uint32_t type, n; /* struct inbox_item */
};

#endif
