/* SPDX-License-Identifier: MIT
 *
 * fuzz_codemap - what JITs write down: perf-PID.map, jit-PID.dump and images for GDB, in
 * pieces as they grow. An input's first byte tells which it is, the second how large the first
 * piece is.
 */
#include "elf/codemap.h"
#include "fuzz.h"
#include "../unit/jitobject.h"

static void check_names(const struct codemap *m, const uint8_t *data, size_t n)
{
	for (size_t i = 0; i + 8 <= n && i < 256; i += 8) {
		const char *name = codemap_find(m, load_u64(data + i));

		FUZZ_CHECK(!name || (*name && strlen(name) < 4096));
	}
}

/* As jit.c reads a file: each time from where the last piece that was taken ended. */
static void read_piece(struct codemap *m, codemap_parse_fn *parse, const uint8_t *data,
		       size_t n, uint64_t *at)
{
	while (*at < n) {
		unsigned char *piece = malloc(n - *at); /* of its size, for sanitizers */
		size_t used;

		memcpy(piece, data + *at, n - *at);
		used = parse(m, (struct bytes){ piece, n - *at }, *at);
		free(piece);
		if (used == 0)
			break;
		*at += used;
	}
	codemap_sort(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct codemap m = { 0 };
	codemap_parse_fn *parse;
	uint64_t at = 0;
	size_t first;

	if (n < 2)
		return 0;
	parse = data[0] & 2 ? codemap_parse_objects :
		data[0] & 1 ? codemap_parse_dump :
			      codemap_parse_perf;
	first = (n - 2) * data[1] / 255;
	read_piece(&m, parse, data + 2, first, &at);
	read_piece(&m, parse, data + 2, n - 2, &at);
	check_names(&m, data + 2, n - 2);
	FUZZ_CHECK(parse == codemap_parse_objects || m.n_names <= n);
	codemap_deinit(&m);
	return 0;
}

static const char perf[] = "\0\x80"
			   "7f00 100 py::main:/x.py\n7f0100 20 LazyCompile:~f /a b.js:3\n"
			   "0x7f00 0x10 again\nffffffffffffffff 1 last\n10  x\n20 20\nrest";

static size_t seed_dump(uint8_t *buf)
{
	static const uint32_t header[10] = { 0x4a695444, 1, 40, 62 };
	static const char *const names[] = { "one", "void two<int>(char)", "" };
	size_t n = 2;

	buf[0] = 1;
	buf[1] = 0x90;
	memcpy(buf + n, header, sizeof(header));
	n += sizeof(header);
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		uint32_t len = (uint32_t)strlen(names[i]) + 1, code = 16 * i;
		uint32_t head[4] = { 0, 56 + len + code }, who[2] = { 1, 1 };
		uint64_t load[4] = { 0x7f00 + 16 * i, 0x7f00 + 16 * i, 64, i };

		memcpy(buf + n, head, sizeof(head));
		memcpy(buf + n + 16, who, sizeof(who));
		memcpy(buf + n + 24, load, sizeof(load));
		memcpy(buf + n + 56, names[i], len);
		memset(buf + n + 56 + len, 0x90, code);
		n += 56 + len + code;
	}
	return n;
}

static size_t seed_object(uint8_t *buf)
{
	struct jitobject o;
	uint64_t n = sizeof(o);

	jitobject_fill(&o, 0x7f00, 0x100, 0x10, 0x20, "_ZN2ns3fooEi");
	buf[0] = 2;
	buf[1] = 0xff;
	memcpy(buf + 2, &n, sizeof(n));
	memcpy(buf + 2 + sizeof(n), &o, sizeof(o));
	return 2 + sizeof(n) + sizeof(o);
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	switch (i) {
	case 0:
		return fuzz_bytes(buf, cap, perf, sizeof(perf) - 1);
	case 1:
		return seed_dump(buf);
	case 2:
		return seed_object(buf);
	default:
		return 0;
	}
}
