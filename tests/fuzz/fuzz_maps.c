/* SPDX-License-Identifier: MIT
 *
 * fuzz_maps - the text of /proc/PID/maps: paths are the target's own choice.
 */
#include "fuzz.h"
#include "sys/proc_maps.h"

static void check_map(const struct proc_maps *m, const struct proc_map *map, size_t n)
{
	size_t len = strlen(map->path);

	FUZZ_CHECK(map->start < map->end);
	FUZZ_CHECK(!strchr(map->path, '\n'));
	if (len)
		FUZZ_CHECK(map->path >= m->text && map->path + len <= m->text + n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text = malloc(n + 1);
	size_t lines = 1;
	struct proc_maps m;

	memcpy(text, data, n);
	text[n] = '\0';
	for (size_t i = 0; i < n; i++)
		lines += data[i] == '\n';
	FUZZ_CHECK(proc_maps_parse(&m, text, n) == 0);
	FUZZ_CHECK(m.n <= lines);
	for (size_t i = 0; i < m.n; i++)
		check_map(&m, &m.map[i], n);
	proc_maps_deinit(&m);
	return 0;
}

static const char usual[] =
	"00400000-00a5b000 r-xp 00001000 fe:1f 1234       /usr/bin/python3.12\n"
	"7f00-7f01 rw-s 00000000 00:05 9   /memfd:x (deleted)\n"
	"7fff0000-7fff1000 rw-p 00000000 00:00 0 \n"
	"7fff2000-7fff3000 rw-p 00000000 00:00 0                          [stack]\n";
static const char odd[] =
	"10-20 r--p 0 0:0 0\n30-40 r-xp 0 0:0 18446744073709551615 / (deleted)\n"
	"50-60 ---p 0 0:0 0 (deleted)\n70-80 r--p 0 0:0 0  a b  c \n";
static const char *const seeds[] = {
	usual,
	odd,
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]",
};

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	return i < ARRAY_SIZE(seeds) ? fuzz_bytes(buf, cap, seeds[i], strlen(seeds[i])) : 0;
}
