/* SPDX-License-Identifier: MIT
 *
 * rights - words the advice by who asks: root is not told to become root.
 */
#include "sys/rights.h"

#include <stdio.h>
#include <unistd.h>

const char *rights_wanted(char *buf, size_t size, const char *caps)
{
	if (geteuid() == 0)
		snprintf(buf, size,
			 "this root lacks a right (in a container or a user namespace?): give "
			 "it %s",
			 caps);
	else
		snprintf(buf, size, "run as root, or with %s", caps);
	return buf;
}
