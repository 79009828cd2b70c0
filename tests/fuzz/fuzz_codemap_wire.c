/* SPDX-License-Identifier: MIT
 *
 * fuzz_codemap_wire - the rows that the process which read what a JIT wrote hands over: it may
 * do as the file bids, so every field is foreign.
 */
#include "elf/codemap.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct bytes all = { malloc(n), n }; /* of its size, for sanitizers */
	struct codemap m = { 0 };
	const char *name;

	if (n)
		memcpy((void *)(uintptr_t)all.at, data, n);
	codemap_check(&m, all);
	free((void *)(uintptr_t)all.at);
	codemap_sort(&m);
	FUZZ_CHECK(m.n_names <= n);
	for (size_t i = 0; i + 8 <= n && i < 256; i += 8) {
		name = codemap_find(&m, load_u64(data + i));
		FUZZ_CHECK(!name || (*name && strlen(name) < 4096));
	}
	codemap_deinit(&m);
	return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const char lines[] = "7f00 100 py::main:/x.py\n7f0100 20 ~f /a b.js:3\n"
				    "7f00 10 again\n1000 1000 d\n";
	size_t line = i < 4 ? (i + 1) * (sizeof(lines) - 1) / 4 : 0;
	struct codemap m = { 0 };
	ssize_t n = 0;
	int fd;

	if (!line)
		return 0;
	codemap_parse_perf(&m, (struct bytes){ (const unsigned char *)lines, line }, 0);
	fd = codemap_make(&m);
	codemap_deinit(&m);
	if (fd >= 0) {
		n = pread(fd, buf, cap, 0);
		close(fd);
	}
	return n > 0 ? (size_t)n : 0;
}
