/* SPDX-License-Identifier: MIT
 *
 * arch - functions that return a variable, as compilers write them for each processor.
 */
#include <stdbool.h>

#include "unit.h"
#include "arch/arch.h"
#include "base/base.h"

static const struct getter {
	const char *code;
	size_t n;
	const struct arch *arch;
	uint64_t at, variable; /* 0: none */
} getters[] = {
	/* mov 0x10(%rip),%rax; ret */
	{ "\x48\x8b\x05\x10\0\0\0\xc3", 8, &arch_x86_64, 0x1000, 0x1017 },
	{ "\x48\x8b\x05\xf0\xff\xff\xff\xc3", 8, &arch_x86_64, 0x1000, 0xff7 },
	{ "\xf3\x0f\x1e\xfa\x48\x8b\x05\x10\0\0\0\xc3", 12, &arch_x86_64, 0x1000, 0x101b },
	{ "\x55\x48\x89\xe5\x48\x8b\x05\x10\0\0\0\x5d\xc3", 13, &arch_x86_64, 0x1000, 0x101b },
	{ "\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x48\x8b\x05\x10\0\0\0\x5d\xc3", 17, &arch_x86_64,
	  0x1000, 0x101f },
	/* It leaves its frame in place, does more, or ends too early. */
	{ "\x55\x48\x89\xe5\x48\x8b\x05\x10\0\0\0\xc3", 12, &arch_x86_64, 0x1000, 0 },
	{ "\x48\x8b\x05\x10\0\0\0\x48\x8b\x40\x08\xc3", 12, &arch_x86_64, 0x1000, 0 },
	{ "\x48\x8b\x05\x10\0\0\0\xc3", 7, &arch_x86_64, 0x1000, 0 },
	{ "\x48\x8b\x05\x10\0\0\0\xc3", 6, &arch_x86_64, 0x1000, 0 },
	{ "", 0, &arch_x86_64, 0x1000, 0 },
	/* adrp x0, 3 pages on; ldr x0, [x0, 0x18]; ret */
	{ "\x00\x00\x00\xf0\x00\x0c\x40\xf9\xc0\x03\x5f\xd6", 12, &arch_aarch64, 0x1234,
	  0x4018 },
	/* adrp x1, a page back; ldr x0, [x1, 0x10]; ret, behind bti c */
	{ "\x5f\x24\x03\xd5\xe1\xff\xff\xf0\x20\x08\x40\xf9\xc0\x03\x5f\xd6", 16,
	  &arch_aarch64, 0x5ffc, 0x5010 },
	/* It loads by another register, into another one, half a word, or does more. */
	{ "\x00\x00\x00\xf0\x20\x0c\x40\xf9\xc0\x03\x5f\xd6", 12, &arch_aarch64, 0x1234, 0 },
	{ "\x00\x00\x00\xf0\x01\x0c\x40\xf9\xc0\x03\x5f\xd6", 12, &arch_aarch64, 0x1234, 0 },
	{ "\x00\x00\x00\xf0\x00\x0c\x40\xb9\xc0\x03\x5f\xd6", 12, &arch_aarch64, 0x1234, 0 },
	{ "\x00\x00\x00\xf0\x00\x0c\x40\xf9\x00\x04\x40\xf9", 12, &arch_aarch64, 0x1234, 0 },
	{ "\x00\x00\x00\xf0\x00\x0c\x40\xf9\xc0\x03\x5f\xd6", 11, &arch_aarch64, 0x1234, 0 },
};

static void a_getter_tells_its_variable(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(getters); i++) {
		const struct getter *g = &getters[i];
		unsigned char *code = test_malloc(g->n + 1);
		uint64_t got = 0;
		bool is;

		memcpy(code, g->code, g->n);
		is = g->arch->getter(code, g->n, g->at, &got);
		if (is != (g->variable != 0) || (is && got != g->variable))
			fail_msg("getter %zu: %d, %#lx", i, is, got);
		test_free(code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_getter_tells_its_variable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
