/* SPDX-License-Identifier: MIT
 *
 * stripped - this program without its symbols, in a folder that is a root of its own.
 */
#ifndef STRIPPED_H
#define STRIPPED_H

#include <fcntl.h>

#include "unit.h"
#include "elf/debugfile.h"
#include "elf/module.h"

/* A folder that is a process's root, and in it a stripped copy of this program. */
struct place {
	char root[64], at[96], id[2 * ELFIMAGE_MAX_ID + 1];
	int fd;
	struct module whole;
};

static inline __attribute__((__format__(printf, 1, 2))) void sh(const char *fmt, ...)
{
	char cmd[8192];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	if (system(cmd) != 0)
		fail_msg("failed: %s", cmd);
}

static inline void need_tools(void)
{
	if (system("command -v objcopy strip xz nm >/dev/null 2>&1") != 0) {
		print_message("objcopy, strip, nm or xz is not installed\n");
		skip();
	}
}

static inline int setup(void **state)
{
	static struct place the;
	struct place *p = &the;
	_cleanup_close_ int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	unsigned char id[ELFIMAGE_MAX_ID];
	struct elfimage im;
	size_t n;

	*state = p;
	memset(p, 0, sizeof(*p));
	snprintf(p->root, sizeof(p->root), "/tmp/pysampled-debug-XXXXXX");
	assert_non_null(mkdtemp(p->root));
	snprintf(p->at, sizeof(p->at), "%.60s/opt/app", p->root);
	sh("mkdir -p %s/.debug && cp -L /proc/%d/exe %s/whole", p->at, getpid(), p->root);
	p->fd = open(p->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(p->fd >= 0);
	assert_int_equal(0, module_read(&p->whole, self, (struct bytes){ 0 }, NULL, false));
	assert_int_equal(0, elfimage_init(&im, self, (struct bytes){ 0 }));
	n = elfimage_build_id(&im, id);
	for (size_t i = 0; i < n; i++)
		snprintf(p->id + 2 * i, 3, "%02x", id[i]);
	elfimage_deinit(&im);
	return 0;
}

static inline int teardown(void **state)
{
	struct place *p = *state;

	sh("umount -l %s %s/usr/lib/debug 2>/dev/null; rm -rf --one-file-system %s", p->at,
	   p->root, p->root);
	close(p->fd);
	module_deinit(&p->whole);
	return 0;
}

static inline void strip(const struct place *p, const char *link)
{
	sh("cd %s && objcopy --only-keep-debug whole debug && strip -s -o opt/app/prog whole",
	   p->root);
	if (link)
		sh("cd %s && cp debug %s && objcopy --add-gnu-debuglink=%s opt/app/prog && rm "
		   "%s",
		   p->root, link, link, link);
}

#endif
