/* SPDX-License-Identifier: MIT
 *
 * places_test - which native code can have source lines.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"
#include "base/base.h"
#include "base/stats.h"
#include "lines/places.h"
#include "modules/space.h"

enum { PAGE = 4096, N = PLACES_MAX_FILES };

/* Map @number of process 1 is a file of that number. */
static const struct space_map *map_file(struct spaces *s, const char *root, int number)
{
	struct side side = { .kind = SIDE_MMAP, .pid = 1, .tid = 1 };
	char path[16], file[64];
	int fd;

	snprintf(path, sizeof(path), "/%d", number);
	snprintf(file, sizeof(file), "%s%s", root, path);
	fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(1, write(fd, "0", 1)); /* an empty one can't be had */
	close(fd);
	side.u.mmap.addr = (uint64_t)(number + 1) * PAGE, side.u.mmap.len = PAGE;
	side.u.mmap.ino = (uint64_t)number + 1, side.u.mmap.prot = PROT_EXEC;
	side.u.mmap.path = path;
	spaces_side(s, &side);
	return space_at(spaces_find(s, 1), side.u.mmap.addr);
}

static uint32_t place_at(struct places *p, struct spaces *s, const struct space_map *m,
			 uint64_t vaddr)
{
	return places_add(p, spaces_find(s, 1), m, vaddr, "name", false, false);
}

static void drop_files(const char *root)
{
	char file[64];

	for (int i = 0; i <= N; i++) {
		snprintf(file, sizeof(file), "%s/%d", root, i);
		assert_int_equal(0, unlink(file));
	}
	assert_int_equal(0, rmdir(root));
}

/* So many files are kept open; code in others has none, and is counted each time. */
static void as_many_files_as_may_be(void **state)
{
	char root[] = "/tmp/places_test.XXXXXX";
	struct spaces *s = spaces_create(1 << 20, SPACES_LATER);
	const struct space_map *m;
	struct stats stats = { 0 };
	struct places *p = places_create(NULL, false, &stats);

	assert_non_null(mkdtemp(root));
	spaces_elsewhere(s, root);
	for (int i = 0; i <= N; i++) {
		m = map_file(s, root, i);
		assert_int_equal(i < N ? i + 1 : 0, place_at(p, s, m, 8));
		assert_int_equal(i == N, STATS_GET(&stats, unplaced));
	}
	assert_int_equal(0, place_at(p, s, m, 16));
	assert_int_equal(2, STATS_GET(&stats, unplaced));
	m = space_at(spaces_find(s, 1), PAGE);
	assert_int_equal(N + 1, place_at(p, s, m, 16));
	assert_int_equal(2, STATS_GET(&stats, unplaced));
	places_destroy(p);
	spaces_destroy(s);
	drop_files(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_files_as_may_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
