/* SPDX-License-Identifier: MIT
 *
 * kernel_names_test - the kernel's answers are those of its own list, /proc/kallsyms.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "unit.h"
#include "../../lib/bpf/kernel_names.c"

static int init(void **state)
{
	static struct kernel_names k;
	int r = kernel_names_init(&k);

	if (r < 0)
		print_message("SKIP: no program that names kernel addresses: %s\n",
			      strerror(-r));
	*state = r < 0 ? NULL : &k;
	return 0;
}

static int deinit(void **state)
{
	if (*state)
		kernel_names_deinit(*state);
	return 0;
}

/* The first function of an address, and its end: the next one's address. */
struct row {
	uint64_t start, end;
	char name[KERNEL_NAME_MAX];
};

/* The next row of functions that stay: no BPF program's. False at the end. */
static bool next_row(FILE *f, struct row *ret, struct row *ahead)
{
	char line[2 * KERNEL_NAME_MAX], type;

	*ret = *ahead;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 " %c %767s", &ahead->start, &type, ahead->name) != 3)
			continue;
		if (strstr(line, "[bpf]") || strstr(line, "[__builtin"))
			return false;
		if (strchr("tTwW", type) && ahead->start != ret->start) {
			ret->end = ahead->start;
			return true;
		}
	}
	return false;
}

static void names_are_those_of_the_list(void **state)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	struct row row, ahead = { 0 };
	size_t n = 0, asked = 0;

	if (!*state)
		skip();
	assert_non_null(f);
	while (next_row(f, &row, &ahead)) {
		/* The image of arm64 begins with a header, which the kernel has no name for. */
		if (!row.start || !strcmp(row.name, "_text") || n++ % 37)
			continue;
		for (uint64_t ip = row.start; ip < row.end; ip += (row.end - row.start + 1) / 2) {
			assert_string_equal(row.name, kernel_names_at(*state, ip));
			asked++;
		}
	}
	fclose(f);
	assert_true(asked > 1000);
}

static void addresses_without_a_name(void **state)
{
	const uint64_t none[] = { 0, 0x1000, (uintptr_t)&none, UINT64_MAX - 4095, UINT64_MAX };

	if (!*state)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		assert_string_equal("", kernel_names_at(*state, none[i]));
}

static void nobody_to_ask(void **state)
{
	struct kernel_names_asked asked;
	const struct kernel_names k = { .program = -1, .asked = &asked };

	assert_null(kernel_names_at(&k, (uintptr_t)&asked));
	(void)state;
}

/* What @k held before is nothing of ours. */
static void without_descriptors(void **state)
{
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kernel_names k = { .program = -1, .asked = page };
	unsigned char resident;
	struct rlimit before, none;

	assert_true(page != MAP_FAILED);
	assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &before));
	none = (struct rlimit){ 0, before.rlim_max };
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &none));
	assert_true(kernel_names_init(&k) < 0);
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &before));
	assert_null(k.asked);
	assert_int_equal(-1, k.program);
	assert_int_equal(0, mincore(page, 4096, &resident));
	munmap(page, 4096);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_those_of_the_list),
		cmocka_unit_test(addresses_without_a_name),
		cmocka_unit_test(nobody_to_ask),
		cmocka_unit_test(without_descriptors),
	};

	return cmocka_run_group_tests(tests, init, deinit);
}
