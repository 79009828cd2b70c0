/* SPDX-License-Identifier: MIT
 *
 * debugfile_test - this program, stripped, has the names of this program, wherever they were
 * put; and what is in the way of them: other files, damage, FIFOs, devices.
 */
#include "stripped.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/later.h"
#include "base/quota.h"
#include "sys/rootfile.h"
#include "elf/xz.h"

enum { BLOCK = 1 << 16, LARGE = 400 << 20 };

static unsigned n_begun; /* large files, of which nothing can be read */

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	struct stat st;

	if (n != BLOCK || fstat(fd, &st) < 0 || st.st_size < LARGE)
		return syscall(SYS_pread64, fd, buf, n, at);
	n_begun++;
	errno = EIO;
	return -1;
}

static void read_stripped(const struct place *p, struct module *t)
{
	struct debugfile_origin from = { .root = p->fd, .path = "/opt/app/prog" };
	_cleanup_close_ int fd = rootfile_open(p->fd, from.path);

	assert_true(fd >= 0);
	assert_int_equal(0, module_read(t, fd, (struct bytes){ 0 }, &from, false));
}

static unsigned differ(const struct place *p, const struct module *t)
{
	unsigned seed = 17, n = 0;

	for (unsigned i = 0; i < 20000; i++) {
		uint64_t at = p->whole.load[0].vaddr +
			      (uint64_t)rand_r(&seed) % p->whole.load[0].size;
		const char *a = module_symbol(&p->whole, at), *b = module_symbol(t, at);

		n += (a == NULL) != (b == NULL) || (a && strcmp(a, b) != 0);
	}
	return n;
}

/* Has the stripped program all names, or those of .dynsym at most? */
static void check(const struct place *p, bool found)
{
	struct module t;

	read_stripped(p, &t);
	assert_int_equal(!found, t.stripped);
	if (found)
		assert_int_equal(0, differ(p, &t));
	else
		assert_true(differ(p, &t) > 5000);
	module_deinit(&t);
}

/* ---- Where they are found ---- */

static void test_build_id(void **state)
{
	struct place *p = *state;
	char folder[256];

	need_tools();
	assert_true(strlen(p->id) > 8);
	strip(p, NULL);
	check(p, false);
	snprintf(folder, sizeof(folder), "%s/usr/lib/debug/.build-id/%.2s", p->root, p->id);
	sh("mkdir -p %s && cp %s/debug %s/%s.debug", folder, p->root, folder, p->id + 2);
	check(p, true);
	/* as Debian has it, by a link; an absolute one stays in the root */
	sh("mv %s/%s.debug %s/usr/lib/debug/x && ln -s /usr/lib/debug/x %s/%s.debug", folder,
	   p->id + 2, p->root, folder, p->id + 2);
	check(p, true);
	/* another program's */
	sh("cd %s && objcopy --remove-section=.note.gnu.build-id debug usr/lib/debug/x",
	   p->root);
	check(p, false);
}

static void test_link(void **state)
{
	static const char *const places[] = { "opt/app", "opt/app/.debug",
					      "usr/lib/debug/opt/app" };
	struct place *p = *state;

	need_tools();
	strip(p, "prog.dbg");
	check(p, false);
	sh("mkdir -p %s/usr/lib/debug/opt/app", p->root);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		sh("cd %s && cp debug %s/prog.dbg", p->root, places[i]);
		check(p, true);
		/* The CRC is another one. */
		sh("cd %s && printf x >> %s/prog.dbg", p->root, places[i]);
		check(p, false);
		sh("rm %s/%s/prog.dbg", p->root, places[i]);
	}
}

/* A file without blocks can have any size: of all places so much is read as takes 2 s. */
static void test_large_links(void **state)
{
	static const struct {
		unsigned size, begun; /* size: in MB */
	} rows[] = { { 500, 2 }, { 600, 1 }, { 1024, 1 }, { 1025, 0 } };
	struct place *p = *state;

	need_tools();
	strip(p, "prog.dbg");
	sh("mkdir -p %s/usr/lib/debug/opt/app", p->root);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		sh("cd %s && for at in opt/app opt/app/.debug usr/lib/debug/opt/app; do "
		   "truncate -s %uM $at/prog.dbg; done",
		   p->root, rows[i].size);
		n_begun = 0;
		check(p, false);
		assert_int_equal(rows[i].begun, n_begun);
	}
}

static void make_mini(const struct place *p)
{
	strip(p, NULL);
	sh("cd %s && "
	   "nm -f posix --defined-only whole | awk '{print $1}' > names && "
	   "objcopy -S --keep-symbols=names debug mini && rm -f mini.xz && xz -k mini && "
	   "objcopy --add-section .gnu_debugdata=mini.xz opt/app/prog",
	   p->root);
}

static void test_mini(void **state)
{
	struct place *p = *state;

	need_tools();
	make_mini(p);
	check(p, xz_built);
}

/* It takes nothing from what .dynsym tells. */
static void test_mini_that_is_no_elf(void **state)
{
	struct place *p = *state;
	struct module without, t;

	need_tools();
	strip(p, NULL);
	read_stripped(p, &without);
	sh("cd %s && echo no ELF > mini && xz mini && "
	   "objcopy --add-section .gnu_debugdata=mini.xz opt/app/prog",
	   p->root);
	read_stripped(p, &t);
	assert_true(t.stripped);
	assert_true(t.n_syms > 0);
	assert_int_equal(without.n_syms, t.n_syms);
	module_deinit(&t);
	module_deinit(&without);
}

/* Where there is a debug file .gnu_debugdata, whose names begin with "mini_" here, is not looked at. */
static void test_mini_beside_a_debug_file(void **state)
{
	struct place *p = *state;

	need_tools();
	make_mini(p);
	sh("cd %s && objcopy --prefix-symbols=mini_ mini && rm mini.xz && xz mini && "
	   "objcopy --update-section .gnu_debugdata=mini.xz opt/app/prog",
	   p->root);
	if (xz_built) {
		struct module t;

		read_stripped(p, &t);
		assert_true(differ(p, &t) > 5000);
		assert_false(t.stripped);
		module_deinit(&t);
	}
	sh("cd %s && mkdir -p usr/lib/debug/.build-id/%.2s && "
	   "cp debug usr/lib/debug/.build-id/%.2s/%s.debug",
	   p->root, p->id, p->id, p->id + 2);
	check(p, true);
}

/* ---- What is in the way ---- */

/* Nothing that is no regular file is opened: a FIFO would wait for a writer. */
static void test_no_files(void **state)
{
	struct place *p = *state;
	char path[256];
	int fd;

	need_tools();
	strip(p, "prog.dbg");
	snprintf(path, sizeof(path), "%s/prog.dbg", p->at);
	assert_int_equal(0, mkfifo(path, 0600));
	check(p, false);
	/* Whoever opens it for writing would see a reader that is there. */
	assert_int_equal(-1, open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC));
	assert_int_equal(-EINVAL, rootfile_open(p->fd, "/opt/app/prog.dbg"));
	unlink(path);
	assert_int_equal(0, mkdir(path, 0700));
	check(p, false);
	assert_int_equal(-EINVAL, rootfile_open(p->fd, "/opt/app/prog.dbg"));
	rmdir(path);
	assert_int_equal(-EINVAL, rootfile_open(-1, "/dev/null"));
	assert_int_equal(-EINVAL, rootfile_open(-1, "/proc/self/maps"));
	assert_int_equal(0, symlink("/dev/zero", path));
	assert_int_equal(-ENOENT, rootfile_open(p->fd, "/opt/app/prog.dbg"));
	unlink(path);
	assert_int_equal(0, symlink("../../../../../../etc/passwd", path));
	assert_int_equal(-ENOENT, rootfile_open(p->fd, "/opt/app/prog.dbg"));
	sh("mkdir %s/etc && echo mine > %s/etc/passwd", p->root, p->root);
	fd = rootfile_open(p->fd, "/opt/app/prog.dbg");
	assert_true(fd >= 0 && read(fd, path, 5) == 5 && memcmp(path, "mine\n", 5) == 0);
	close(fd);
	unlink(path);
}

static unsigned char *slurp(const struct place *p, const char *name, size_t *n)
{
	_cleanup_close_ int fd = rootfile_open(p->fd, name);
	unsigned char *ret;
	struct stat st;

	assert_int_equal(0, fstat(fd, &st));
	*n = (size_t)st.st_size;
	ret = malloc(*n + 1);
	assert_int_equal(*n, pread(fd, ret, *n, 0));
	return ret;
}

static void flip_round(const unsigned char *good, size_t n, size_t from, size_t span,
		       unsigned *seed)
{
	size_t cut = rand_r(seed) % 4 ? n : from + (size_t)rand_r(seed) % span;
	unsigned char *bad = malloc(cut + 1);
	struct module t;

	memcpy(bad, good, cut);
	for (int k = 0; k < 1 + rand_r(seed) % 4; k++) {
		size_t at = from + (size_t)rand_r(seed) % span;

		if (at < cut)
			bad[at] ^= (unsigned char)(1 << rand_r(seed) % 8);
	}
	if (module_read(&t, -1, (struct bytes){ bad, cut }, NULL, false) == 0) {
		for (unsigned i = 0; i < 50; i++)
			module_symbol(&t, t.base + (uint64_t)rand_r(seed) % 0x80000);
		module_deinit(&t);
	}
	free(bad);
}

/* A file with .gnu_debugdata, damaged in its headers and in the packed part. */
static void test_flips(void **state)
{
	struct place *p = *state;
	unsigned seed = 23;
	size_t n, n_packed;
	unsigned char *good, *packed, *at;

	need_tools();
	make_mini(p);
	good = slurp(p, "/opt/app/prog", &n);
	packed = slurp(p, "/mini.xz", &n_packed);
	at = memmem(good, n, packed, n_packed);
	assert_non_null(at);
	for (unsigned round = 0; round < 300; round++) {
		flip_round(good, n, 0, 1024, &seed);
		flip_round(good, n, (size_t)(at - good), n_packed, &seed);
		flip_round(good, n, load_u64(good + 40), n - load_u64(good + 40), &seed);
	}
	free(packed);
	free(good);
}

static void test_xz_bounds(void **state)
{
	struct place *p = *state;
	unsigned char *packed;
	struct bytes out;
	size_t n;

	need_tools();
	if (!xz_built)
		skip();
	sh("head -c 1000000 /dev/zero | xz > %s/zeros.xz", p->root);
	packed = slurp(p, "/zeros.xz", &n);
	out = xz_unpack((struct bytes){ packed, n }, 1000000);
	assert_int_equal(1000000, out.n);
	elfimage_free(&out);
	assert_null(xz_unpack((struct bytes){ packed, n }, 999999).at);
	assert_null(xz_unpack((struct bytes){ packed, n - 1 }, 1000000).at);
	assert_null(xz_unpack((struct bytes){ packed, 0 }, 1000000).at);
	free(packed);
}

/* ---- Work that does not end ---- */

struct hang {
	int wait_on, *dropped;
};

static void hang_run(void *arg)
{
	struct hang *h = arg;
	char c;

	assert_int_equal(1, read(h->wait_on, &c, 1));
}

static void hang_drop(void *arg)
{
	struct hang *h = arg;

	++*h->dropped;
	free(h);
}

static struct later *hang(struct quota *quota, int fd, int *dropped)
{
	struct hang *h = malloc(sizeof(*h));
	struct later *l;

	*h = (struct hang){ fd, dropped };
	l = later_start(quota, hang_run, hang_drop, h);
	if (!l)
		free(h);
	return l;
}

static void test_later(void **state)
{
	enum { ENOUGH = 100 };
	struct later *l[ENOUGH];
	struct quota *quota = quota_create(), *other = quota_create();
	static int dropped;
	int fds[2], n = 0;

	assert_int_equal(0, pipe(fds));
	l[0] = hang(quota, fds[0], &dropped);
	assert_false(later_wait(l[0], 0));
	assert_false(later_wait(l[0], 20));
	assert_int_equal(1, write(fds[1], "", 1));
	assert_true(later_wait(l[0], 10000));
	assert_true(later_wait(l[0], 0));
	later_release(l[0]);
	while (n < ENOUGH && (l[n] = hang(quota, fds[0], &dropped)))
		n++;
	assert_in_range(n, 2, ENOUGH - 2); /* some, not any number ... */
	l[n] = hang(other, fds[0], &dropped);
	assert_non_null(l[n++]); /* ... of each recording */
	for (int i = 0; i < n; i++)
		assert_int_equal(1, write(fds[1], "", 1));
	for (int i = 0; i < n; i++)
		assert_true(later_wait(l[i], 10000));
	l[n] = hang(quota, fds[0], &dropped); /* there is room again */
	assert_non_null(l[n]);
	assert_int_equal(1, write(fds[1], "", 1));
	assert_true(later_wait(l[n], 10000));
	for (int i = 0; i <= n; i++)
		later_release(l[i]);
	quota_unref(quota);
	quota_unref(other);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_build_id, setup, teardown),
		cmocka_unit_test_setup_teardown(test_link, setup, teardown),
		cmocka_unit_test_setup_teardown(test_large_links, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mini, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mini_that_is_no_elf, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mini_beside_a_debug_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flips, setup, teardown),
		cmocka_unit_test_setup_teardown(test_xz_bounds, setup, teardown),
		cmocka_unit_test(test_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
