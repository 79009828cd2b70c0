/* SPDX-License-Identifier: MIT
 *
 * memfile - asks the kernel for a file that can't be executed, and an older one for any.
 */
#include "sys/memfile.h"

#include <errno.h>
#include <sys/mman.h>

enum { NOEXEC_SEAL = 8 /* MFD_NOEXEC_SEAL, from Linux 6.3 on */ };

int memfile_new(const char *name, bool sealable)
{
	unsigned flags = MFD_CLOEXEC | (sealable ? MFD_ALLOW_SEALING : 0);
	int fd = memfd_create(name, flags | NOEXEC_SEAL);

	/* With vm.memfd_noexec=2 there is no other kind. */
	return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}
