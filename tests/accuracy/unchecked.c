/* SPDX-License-Identifier: MIT
 *
 * unchecked - a pysampled that calls each asynchronous read exact: who judges stacks must find
 * it wrong, or is blind. The linker puts it before capture's own judgement (--wrap,
 * meson.build).
 */
#include "capture/capture.h"

enum judgement __wrap_capture_judge_unheld(const struct hold *h);
enum judgement __wrap_capture_judge_unheld(const struct hold *h)
{
	(void)h;
	return JUDGE_EXACT;
}
