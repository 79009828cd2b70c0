/* SPDX-License-Identifier: MIT
 *
 * fuzz_proc - the texts of /proc/TID/status and syscall: a thread chooses its own name.
 */
#include <errno.h>

#include "fuzz.h"
#include "sys/proc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text = malloc(n + 1);
	struct proc_status status;
	struct proc_wait wait = { .syscall = -1 };
	int r;

	memcpy(text, data, n);
	text[n] = '\0';
	proc_status_parse(text, &status);
	FUZZ_CHECK(!status.state || strchr(text, status.state));
	r = proc_syscall_parse(text, &wait);
	FUZZ_CHECK(r == -EAGAIN || (r == 0 && wait.pc));
	free(text);
	return 0;
}

static const char usual[] =
	"Name:\tpython3\nState:\tR (running)\nTracerPid:\t0\nUid:\t0\t1\t0\t0\n"
	"Seccomp:\t2\nSigPnd:\t0000000000000001\nSigBlk:\t0\nSigCgt:\tffffffffffffffff\n";
static const char *const seeds[] = {
	usual,
	"232 0x4 0x7ffe 0x8 0xffffffff 0x0 0x8 0x7ffe3c0 0x7f5a0\n",
	"-1 0x7ffe3c0 0x7f5a0\n",
	"running\n",
};

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	return i < ARRAY_SIZE(seeds) ? fuzz_bytes(buf, cap, seeds[i], strlen(seeds[i])) : 0;
}
