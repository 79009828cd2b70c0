/* SPDX-License-Identifier: MIT
 *
 * mounts: on the way to which paths a program's file system lies.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"
#include "sys/mounts.h"

static const char mountinfo[] =
	"21 1 254:0 / / rw,relatime - fuse.root /dev/vda rw\n"
	"30 21 0:4 / /proc rw - proc proc rw\n"
	"31 21 0:50 / /mnt/dead rw,nosuid shared:7 - fuse dead rw\n"
	"32 21 0:51 / /mnt/a\\040b rw - fuse.sshfs x rw\n"
	"33 21 0:52 / /mnt/twice rw - fuse x rw\n"
	"34 21 0:53 / /mnt/twice rw - ext4 /dev/vdb rw\n"
	"35 21 0:54 / /mnt/nfs rw - nfs4 server:/fuse rw\n"
	"36 21 0:55 / /mnt/last rw - fuseblk x rw";

static void points(void **state)
{
	static const struct {
		const char *path;
		bool served;
	} rows[] = {
		{ "/mnt/dead", true },
		{ "/mnt/dead/x.py", true },
		{ "/mnt//./dead/a/../x.py", true },
		{ "/mnt/deadly/x.py", false },
		{ "/mnt/dea", false },
		{ "/mnt/x.py", false },
		{ "/x.py", false }, /* the root is trusted, whatever serves it */
		{ "/..", false },
		{ "/proc/x", false },
		{ "/mnt/a b/x.py", true },
		{ "/mnt/a/x.py", false },
		{ "/mnt/twice/x.py", false },
		{ "/mnt/nfs/x.py", false },
		{ "/mnt/last/x.py", true },
		{ "/mnt/other/../dead/x.py", true },
		{ "/mnt/dead/../x.py", true }, /* what is on the way is asked, too */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (mounts_served(mountinfo, rows[i].path) != rows[i].served)
			fail_msg("%s", rows[i].path);
	assert_false(mounts_served("", "/mnt/dead/x.py"));
	assert_false(mounts_served("31 21", "/mnt/dead/x.py"));
}

/* @target as the link "l" in @folder: is what lies behind it served? */
static bool behind(const char *folder, const char *target)
{
	char path[PATH_MAX];
	bool ret;

	snprintf(path, sizeof(path), "%s/l", folder);
	assert_int_equal(0, symlink(target, path));
	snprintf(path, sizeof(path), "%s/l/x.py", folder);
	ret = mounts_served(mountinfo, path);
	snprintf(path, sizeof(path), "%s/l", folder);
	unlink(path);
	return ret;
}

static void links(void **state)
{
	char folder[] = "/tmp/mounts_test.XXXXXX", far[2 * PATH_MAX], up[128] = "";

	assert_non_null(mkdtemp(folder));
	assert_true(behind(folder, "/mnt/dead"));
	assert_true(behind(folder, "/mnt/./dead/"));
	assert_false(behind(folder, "/mnt"));
	assert_false(behind(folder, "nowhere"));
	assert_true(behind(folder, "../../mnt/dead"));
	assert_true(behind(folder, "l")); /* without end */
	snprintf(up, sizeof(up), "%s/../../mnt/dead/x.py", folder);
	assert_true(mounts_served(mountinfo, up));
	memset(far, 'a', sizeof(far) - 1);
	far[0] = '/';
	far[sizeof(far) - 1] = '\0';
	assert_true(mounts_served(mountinfo, far)); /* too long to tell */
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(points),
		cmocka_unit_test(links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
