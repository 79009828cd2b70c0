/* SPDX-License-Identifier: MIT
 *
 * file_helper_test - files are read in processes without rights, whatever becomes of those.
 * They are this program.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "unit.h"
#include "arch/arch.h"
#include "base/base.h"
#include "elf/elfcache.h"
#include "elf/file_helper.h"
#include "elf/module_wire.h"
#include "elf/pool.h"
#include "elf/rows.h"
#include "another_user.h"
#include "fuse.h"
#include "names/demangle.h"
#include "names/symnames.h"
#include "sys/fdpass.h"

static const struct debugfile_origin nowhere = { .root = -1, .path = "" };

static int open_self(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static int ask(struct file_helper *h, struct module *m)
{
	_cleanup_close_ int fd = open_self();

	return file_helper_read(h, m, fd, &nowhere, true);
}

static void same_rows(struct rows *a, struct rows *b)
{
	const struct unwind_table *x, *y;
	uint64_t at;

	assert_non_null(a);
	assert_non_null(b);
	assert_true(rows_equal(a, b));
	for (size_t i = 0; i < a->n; i++) {
		at = a->source.base + a->function[i].lo;
		x = rows_at(a, at);
		y = rows_at(b, at);
		assert_int_equal(!x, !y);
		if (!x)
			continue;
		assert_int_equal(x->n_rows, y->n_rows);
		assert_memory_equal(x->row, y->row, x->n_rows * sizeof(*x->row));
	}
}

/* The file with what is tested: this program, or a library that it is linked with. */
static int open_tested(void)
{
	Dl_info info;

	assert_int_not_equal(0, dladdr((void *)(uintptr_t)file_helper_start, &info));
	return open(info.dli_fname, O_RDONLY | O_CLOEXEC);
}

/* What is read elsewhere is what would be read here. */
static void the_same_is_read(void **state)
{
	struct file_helper *h = file_helper_start(NULL);
	_cleanup_close_ int fd = open_tested();
	struct module here, there;

	assert_non_null(h);
	assert_int_equal(0, module_read(&here, fd, (struct bytes){ 0 }, &nowhere, true));
	assert_int_equal(0, file_helper_read(h, &there, fd, &nowhere, true));
	assert_int_equal(here.base, there.base);
	assert_int_equal(here.n_loads, there.n_loads);
	assert_memory_equal(here.load, there.load, sizeof(here.load));
	assert_int_equal(here.stripped, there.stripped);
	assert_int_equal(here.exports_python, there.exports_python);
	assert_int_equal(here.may_be_python, there.may_be_python);
	assert_int_equal(here.n_funcs, there.n_funcs);
	assert_memory_equal(here.func, there.func, here.n_funcs * sizeof(*here.func));
	assert_true(here.n_syms > 100);
	assert_int_equal(here.n_syms, there.n_syms);
	for (size_t i = 0; i < here.n_syms; i++) {
		assert_int_equal(here.sym[i].start, there.sym[i].start);
		assert_int_equal(here.sym[i].size, there.sym[i].size);
		assert_string_equal(here.names + here.sym[i].name,
				    there.names + there.sym[i].name);
	}
	same_rows(here.rows, there.rows);
	module_deinit(&here);
	module_deinit(&there);
	file_helper_end(h);
}

static void what_is_no_elf_is_told(void **state)
{
	struct file_helper *h = file_helper_start(NULL);
	_cleanup_close_ int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	struct module m;

	assert_int_equal(-ENOEXEC, file_helper_read(h, &m, fd, &nowhere, true));
	assert_int_equal(0, ask(h, &m)); /* by the same */
	module_deinit(&m);
	file_helper_end(h);
}

/* So is what it says of an interpreter, and its build-id. */
static void what_is_plain_is_the_same(void **state)
{
	struct file_helper *h = file_helper_start(NULL);
	_cleanup_close_ int fd = open_self(), no = open("/proc/self/cmdline", O_RDONLY);
	unsigned char id[2][ELFIMAGE_MAX_ID];
	struct elfpython here, there;
	struct elfimage im;
	size_t n;

	memset(&there, 0xff, sizeof(there));
	assert_int_equal(0, elfpython_read(fd, &here));
	assert_int_equal(0, file_helper_python(h, &there, fd, -1));
	assert_true(here.n_loads > 1 && here.program);
	assert_memory_equal(&here, &there, sizeof(here));
	assert_int_equal(-ENOEXEC, file_helper_python(h, &there, no, -1));
	assert_int_equal(0, elfimage_init(&im, fd, (struct bytes){ 0 }));
	n = elfimage_build_id(&im, id[0]);
	elfimage_deinit(&im);
	assert_int_equal(n, file_helper_id(h, id[1], fd, -1));
	assert_memory_equal(id[0], id[1], n);
	assert_int_equal(-ENOEXEC, file_helper_id(h, id[1], no, -1));
	file_helper_ref(h);
	file_helper_end(h);
	assert_int_equal(-EPIPE, file_helper_python(h, &there, fd, -1));
	file_helper_unref(h);
	close(no);
}

/* Named as one of CPython's, with a struct without a name in it. */
typedef struct {
	long before[3];
	struct {
		long more;
		char ob_sval[8];
	};
} PyBytesObject;

/* What the debug info of this program says of it. */
static void debug_info_tells_where_members_lie(void **state)
{
	volatile PyBytesObject object = { 0 };
	const struct elflayout_want want = { .version = 0x030c };
	const struct debugfile_origin from = { .root = -1, .path = "" };
	struct file_helper *h = file_helper_start(NULL);
	_cleanup_close_ int fd = open_self(), no = open("/proc/self/cmdline", O_RDONLY);
	struct elflayout l = { 0 };
	size_t n, told = 0;
	const struct pyfield *row = pyfield_all(&n);
	int r;

	assert_int_equal(0, object.more);
	r = file_helper_layout(h, &l, fd, &want, &from);
#ifdef PYSAMPLED_LIBDW
	assert_int_equal(0, r);
	for (size_t i = 0; i < n; i++) {
		told += l.values.plus1[i] != 0;
		if (!strcmp(row[i].name, "bytes.data") && row[i].last >= 12)
			assert_int_equal(offsetof(PyBytesObject, ob_sval) + 1,
					 l.values.plus1[i]);
	}
	assert_int_equal(1, told);
	assert_false(l.separate);
#else
	assert_int_equal(-ENOENT, r);
	assert_true(row && !told);
#endif
	assert_int_equal(-ENOEXEC, file_helper_layout(h, &l, no, &want, &from));
	file_helper_end(h);
}

/* A method of a template whose argument is another such one, @depth of them: to parse one takes
 * twice as long as to parse the one in it. */
static void nest(char *buf, size_t cap, int depth)
{
	size_t n = 0;

	buf[0] = '\0';
	for (int i = 0; i <= depth && n < cap; i++)
		n += (size_t)snprintf(buf + n, cap - n, "%s_ZN1AcvT_I%s", i ? "L" : "",
				      i == depth ? "iEEv" : "");
	for (int i = 0; i < depth && n < cap; i++)
		n += (size_t)snprintf(buf + n, cap - n, "EEEv");
	assert_true(n < cap);
}

/* What a name means is the same; one that takes for ever is left alone, and does not keep the
 * next ones from being told. */
static void names_are_demangled(void **state)
{
	static const char *const names[] = { "_Z1fv", "main", "",
					     "_ZN4core3fmt5write17h0123456789abcdefE" };
	struct file_helper *h = file_helper_start(NULL);
	char here[SYMNAMES_MAX], there[SYMNAMES_MAX], name[SYMNAMES_RAW];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		ssize_t n = file_helper_demangle(NULL, names[i], here, sizeof(here), -1);

		assert_int_equal(n, file_helper_demangle(h, names[i], there, sizeof(there), -1));
		if (n > 0)
			assert_string_equal(here, there);
		assert_int_equal(demangle_built && names[i][0] == '_', n > 0);
	}
	nest(name, sizeof(name), 4);
	assert_int_equal(demangle_built,
			 file_helper_demangle(h, name, there, sizeof(there), -1) > 0);
	if (demangle_built)
		assert_memory_equal("A::operator A::oper", there, 19);
	nest(name, sizeof(name), 40);
	if (demangle_built)
		assert_int_equal(-ETIMEDOUT,
				 file_helper_demangle(h, name, there, sizeof(there), 200));
	assert_int_equal(demangle_built,
			 file_helper_demangle(h, "_Z1fv", there, sizeof(there), -1) > 0);
	file_helper_end(h);
}

/* What a JIT wrote is read by the same, piece after piece. */
static void code_is_read(void **state)
{
	static const char text[] = "1000 10 one\n2000 10 two\n", rest[] = "3000 10 three\n";
	_cleanup_close_ int fd = memfd_create("test", MFD_CLOEXEC);
	struct file_helper *h = file_helper_start(NULL);
	struct codemap_place here = { 0 }, there = { 0 };
	struct codemap m = { 0 }, n = { 0 };

	for (int i = 0; i < 2; i++) {
		const char *t = i ? rest : text;

		assert_int_equal(strlen(t), write(fd, t, strlen(t)));
		codemap_read(&m, fd, CODEMAP_LINES, &here);
		assert_int_equal(0, file_helper_code(h, &n, fd, CODEMAP_LINES, &there));
		assert_memory_equal(&here, &there, sizeof(here));
	}
	assert_int_equal(m.n_names, n.n_names);
	assert_memory_equal(m.names, n.names, n.n_names);
	codemap_sort(&n);
	assert_string_equal("three", codemap_find(&n, 0x3001));
	there = (struct codemap_place){ 0 };
	assert_int_equal(0, file_helper_code(h, &n, fd, CODEMAP_DUMP, &there)); /* it is no dump */
	assert_int_equal(0, there.at);
	codemap_deinit(&m);
	codemap_deinit(&n);
	file_helper_end(h);
}

/* Is it of those that open files? */
static bool opens(pid_t pid)
{
	char path[64], name[16] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (!fgets(name, sizeof(name), f))
		name[0] = '\0';
	fclose(f);
	return strcmp(name, "opener\n") == 0;
}

/* The children of @pid, as the kernel lists them; how many. */
static size_t children(pid_t pid, pid_t *ret, size_t cap)
{
	char path[64];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(path, "re");
	while (f && n < cap && fscanf(f, "%d", &ret[n]) == 1)
		n += !opens(ret[n]);
	if (f)
		fclose(f);
	return n;
}

/* Waits for so many, until those that open have their name, and those that ended are ours no
 * more: on a busy machine that comes after file_helper_end(). */
static void has_children(size_t n, pid_t pid, pid_t ret[4])
{
	struct timespec step = { .tv_nsec = 10000000 };

	for (int i = 0; i < 1000 && children(pid, ret, 4) != n; i++) {
		waitpid(-1, NULL, WNOHANG);
		nanosleep(&step, NULL);
	}
	assert_int_equal(n, children(pid, ret, 4));
}

static void end(pid_t pid)
{
	struct timespec step = { .tv_nsec = 1000000 };
	char path[32];

	kill(pid, SIGKILL);
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	for (int i = 0; i < 10000 && kill(pid, 0) == 0; i++) {
		waitpid(pid, NULL, WNOHANG);
		nanosleep(&step, NULL);
	}
}

/* What was at work may be lost, and says so; all that comes after it is read. */
static void whoever_is_ended_is_replaced(void **state)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* who loses its parent is ours */
	for (int depth = 0; depth < 3; depth++) {
		struct file_helper *h = file_helper_start(NULL);
		pid_t pid = getpid(), found[4];
		struct module m;
		int r = -EPROTO;

		assert_int_equal(0, ask(h, &m));
		module_deinit(&m);
		for (int i = 0; i <= depth; i++) {
			has_children(1, pid, found);
			pid = found[0];
		}
		end(pid);
		for (int i = 0; i < 3 && r == -EPROTO; i++)
			r = ask(h, &m);
		assert_int_equal(0, r);
		module_deinit(&m);
		file_helper_end(h);
		while (children(getpid(), found, 4))
			end(found[0]);
	}
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* No rights, no process left. */
static void none_is_left(void **state)
{
	struct file_helper *h = file_helper_start(NULL);
	pid_t found[4];
	struct module m;

	assert_int_equal(0, ask(h, &m));
	module_deinit(&m);
	has_children(1, getpid(), found);
	file_helper_end(h);
	has_children(0, getpid(), found);
}

struct asked {
	struct file_helper *h;
	int fd, r;
	uid_t user;
	pthread_t thread;
};

static void *ask_one(void *arg)
{
	struct asked *a = arg;
	struct module m;

	a->r = file_helper_read(a->h, &m, a->fd, &nowhere, true);
	module_deinit(&m);
	file_helper_unref(a->h);
	return NULL;
}

/* Does a thread of ours wait for what no signal ends? */
static bool waits_for_a_disk(void)
{
	char path[64], state = 0;
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *e;
	bool ret = false;
	FILE *f;

	while ((e = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", e->d_name);
		f = fopen(path, "re");
		ret |= f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && state == 'D';
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return ret;
}

/* The server of a file's mount stops answering: whoever reads that file hangs, not we, and
 * others are read. They end without it. */
static void one_that_hangs_is_left_behind(void **state)
{
	struct file_helper *h = file_helper_start(NULL);
	char place[] = "/tmp/pysampled-fuse-XXXXXX", path[64];
	struct asked a = { .h = file_helper_ref(h), .r = 1 };
	struct timespec step = { .tv_nsec = 10000000 };
	struct module m;
	pid_t server, found[4];

	assert_non_null(mkdtemp(place));
	server = mount_unread(place);
	if (server < 0)
		skip();
	snprintf(path, sizeof(path), "%s/prog", place);
	a.fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(a.fd >= 0);
	assert_int_equal(0, pthread_create(&a.thread, NULL, ask_one, &a));
	for (int i = 0; i < 20; i++) {
		assert_int_equal(0, ask(h, &m));
		module_deinit(&m);
		nanosleep(&step, NULL);
	}
	assert_int_equal(1, a.r);
	assert_false(waits_for_a_disk());
	file_helper_end(h);
	kill(server, SIGKILL); /* now the read returns */
	waitpid(server, NULL, 0);
	pthread_join(a.thread, NULL);
	assert_true(a.r < 0);
	umount2(place, MNT_DETACH);
	close(a.fd);
	rmdir(place);
	has_children(0, getpid(), found);
}

/* What is said of a file whose server answers an open with @error. */
static int said_of(struct file_helper *h, const char *place, int error)
{
	const struct fuse_gate gate = { .open = -1, .closed = -1, .fails = FUSE_OPEN, .error = error };
	pid_t server = mount_gated(place, &gate);
	struct elfpython python;
	char path[64];
	int fd, r;

	if (server < 0)
		skip();
	snprintf(path, sizeof(path), "%s/prog", place);
	fd = open(path, O_PATH | O_CLOEXEC);
	assert_true(fd >= 0);
	r = file_helper_python(h, &python, fd, 5000);
	close(fd);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	umount2(place, MNT_DETACH);
	return r;
}

/* An errno that a file's server chose means neither that who reads has ended, who would be waited
 * for then, nor that we lack something. */
static void what_a_server_says_is_the_files(void **state)
{
	static const int errors[] = { EPIPE, EPROTO, EAGAIN, EMFILE, ENOMEM, ENOBUFS, ETIMEDOUT };
	struct file_helper *h = file_helper_start(NULL);
	char place[] = "/tmp/pysampled-fuse-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(place));
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		assert_int_equal(-EIO, said_of(h, place, errors[i]));
	rmdir(place);
	file_helper_end(h);
}

/* Nor does a lease that another process has on its file. */
static void a_leased_file_is_no_want_of_ours(void **state)
{
	struct file_helper *h = file_helper_start(NULL);
	char path[] = "/tmp/pysampled-lease-XXXXXX";
	struct elfpython python;
	int leased = mkostemp(path, O_CLOEXEC), fd;
	void (*was)(int) = signal(SIGIO, SIG_IGN);

	(void)state;
	assert_true(leased >= 0);
	if (fcntl(leased, F_SETLEASE, F_WRLCK) < 0) {
		unlink(path);
		skip();
	}
	fd = open(path, O_PATH | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(-EIO, file_helper_python(h, &python, fd, 5000));
	unlink(path);
	close(fd);
	close(leased);
	signal(SIGIO, was);
	file_helper_end(h);
}

static _Atomic unsigned in_vain, answered; /* how many asked in vain, and how many did not */

static void *ask_for_a_layout(void *arg)
{
	const struct elflayout_want want = { .version = 0x030c };
	const struct debugfile_origin from = { .root = -1, .path = "/a" };
	struct asked *a = arg;
	struct elflayout l;

	pool_user = a->user;
	a->r = file_helper_layout(a->h, &l, a->fd, &want, &from);
	*(a->r == -EAGAIN ? &in_vain : &answered) += 1;
	file_helper_unref(a->h);
	return NULL;
}

/* Whoever asks for what debug info says waits for ever: some of one user's processes do at most,
 * and others' files are read. */
static void layouts_of_one_user_that_hang(void **state)
{
	enum { N = 17 };
	struct file_helper *h = file_helper_start(NULL);
	char place[] = "/tmp/pysampled-fuse-XXXXXX", path[PATH_MAX];
	struct asked a[N], other = { .h = file_helper_ref(h), .fd = open_self() };
	const struct timespec step = { .tv_nsec = 10000000 };
	pid_t server;
	int fd;

	assert_non_null(mkdtemp(place));
	server = geteuid() == 0 ? mount_unread(place) : -1;
	if (server < 0)
		skip();
	other.user = ANOTHER_USER + 1;
	snprintf(path, sizeof(path), "%s/prog", place);
	fd = open(path, O_RDONLY | O_CLOEXEC); /* one: to open it again waits for a read */
	assert_true(fd >= 0);
	for (size_t i = 0; i < N; i++) {
		a[i] = (struct asked){ .h = file_helper_ref(h), .fd = fd, .user = ANOTHER_USER };
		assert_int_equal(0, pthread_create(&a[i].thread, NULL, ask_for_a_layout, &a[i]));
	}
	while (in_vain == 0)
		nanosleep(&step, NULL);
	assert_true(file_helper_was_slow(h, path));
	assert_string_equal("/a", path);
	ask_for_a_layout(&other);
	pool_user = PROC_NOBODY;
	assert_int_equal(1, in_vain);
	assert_int_equal(1, answered);
	file_helper_end(h);
	kill(server, SIGKILL); /* now the reads return */
	waitpid(server, NULL, 0);
	for (size_t i = 0; i < N; i++)
		pthread_join(a[i].thread, NULL);
	assert_int_equal(1, in_vain);
	assert_int_equal(N, answered);
	close(fd);
	close(other.fd);
	umount2(place, MNT_DETACH);
	rmdir(place);
}

static void after_the_end_none_is_asked(void **state)
{
	struct file_helper *h = file_helper_ref(file_helper_start(NULL));
	struct module m;

	file_helper_end(h);
	assert_int_equal(-EPIPE, ask(h, &m));
	file_helper_unref(h);
}

/* Who reads a file may have ended by what is in others: it is given another time, but not for
 * ever. That is no file without names. */
static void a_file_whose_reader_ended_is_asked_for_again(void **state)
{
	struct file_helper *h = file_helper_ref(file_helper_start(NULL));
	struct elfcache *c = elfcache_create(64 << 20, false);
	struct elfcache_id id = { .dev = 1, .ino = 1, .path = "/a" };
	struct elfcache_elf *e = elfcache_get(c, &id);
	struct timespec step = { .tv_nsec = 1000000 };
	int times = 0;

	elfcache_read_by(c, h);
	file_helper_end(h);
	for (; elfcache_wants_file(e) && times < 100; times++) {
		elfcache_give_fd(c, e, open_self(), -1);
		for (int i = 0; i < 10000 && !elfcache_module(c, e) && elfcache_pending(e); i++)
			nanosleep(&step, NULL);
		assert_null(elfcache_module(c, e));
		assert_false(elfcache_pending(e));
	}
	assert_in_range(times, 2, 10);
	assert_int_equal(0, elfcache_facts(c)->read);
	elfcache_destroy(c);
	file_helper_unref(h);
}

/* --- What is handed over --- */

static int module_file(void)
{
	_cleanup_close_ int fd = open_self();
	struct module m;
	int ret;

	assert_int_equal(0, module_read(&m, fd, (struct bytes){ 0 }, &nowhere, true));
	ret = module_wire_make(&m);
	assert_true(ret >= 0);
	module_deinit(&m);
	return ret;
}

/* Its bytes once more, from @offset on @value; sealed by @seals. */
static int changed(off_t offset, uint64_t value, int seals)
{
	_cleanup_close_ int from = module_file();
	off_t n = lseek(from, 0, SEEK_END);
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *bytes = malloc((size_t)n);

	assert_true(fd >= 0 && bytes && pread(from, bytes, (size_t)n, 0) == n);
	if (offset >= 0)
		memcpy(bytes + offset, &value, sizeof(value));
	assert_true(write(fd, bytes, (size_t)n) == n);
	free(bytes);
	assert_int_equal(0, fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

enum { SEALED = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

static int take(int fd)
{
	struct module m;
	int r = module_wire_take(&m, fd, arch_host);

	module_deinit(&m);
	close(fd);
	return r;
}

static void what_could_change_is_refused(void **state)
{
	assert_int_equal(0, take(module_file()));
	assert_int_equal(0, take(changed(-1, 0, SEALED)));
	assert_int_equal(-EPROTO, take(changed(-1, 0, SEALED & ~F_SEAL_WRITE)));
	assert_int_equal(-EPROTO, take(changed(-1, 0, SEALED & ~F_SEAL_SHRINK)));
	assert_int_equal(-EPROTO, take(open_self()));
	assert_int_equal(-EPROTO, take(open("/dev/null", O_RDWR | O_CLOEXEC)));
}

/* Where files in memory can't be executed (vm.memfd_noexec) they have one more seal. */
static void what_nobody_executes_is_taken(void **state)
{
	enum { SEAL_EXEC = 0x20 };
	int fd = changed(-1, 0, 0);
	bool known = fcntl(fd, F_ADD_SEALS, SEAL_EXEC) == 0;

	close(fd);
	assert_int_equal(0, take(changed(-1, 0, SEALED | (known ? SEAL_EXEC : 0))));
}

/* One with a hole would take memory when it is read. */
static void a_hole_is_refused(void **state)
{
	enum { N_DEBUG = 272, MORE = 100 << 20 }; /* where the last table's length stands */
	int fd = changed(N_DEBUG, MORE, 0);
	off_t n = lseek(fd, 0, SEEK_END);

	assert_int_equal(0, ftruncate(fd, n + MORE));
	assert_int_equal(0, fcntl(fd, F_ADD_SEALS, SEALED));
	assert_int_equal(-EPROTO, take(fd));
}

/* Each word of the beginning, with numbers that are too large: refused, or harmless. */
static void no_number_is_trusted(void **state)
{
	static const uint64_t values[] = { 0,
					   1,
					   9,
					   1 << 28,
					   UINT32_MAX,
					   UINT64_MAX,
					   UINT64_MAX / 12 + 2,
					   (uint64_t)1 << 61 };
	unsigned refused = 0;

	for (off_t at = 0; at < 328; at += 8)
		for (size_t i = 0; i < ARRAY_SIZE(values); i++)
			refused += take(changed(at, values[i], SEALED)) == -EPROTO;
	assert_in_range(refused, 45, 80); /* of what counts or says what it is */
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_is_read),
		cmocka_unit_test(what_is_no_elf_is_told),
		cmocka_unit_test(what_is_plain_is_the_same),
		cmocka_unit_test(debug_info_tells_where_members_lie),
		cmocka_unit_test(names_are_demangled),
		cmocka_unit_test(code_is_read),
		cmocka_unit_test(whoever_is_ended_is_replaced),
		cmocka_unit_test(none_is_left),
		cmocka_unit_test(one_that_hangs_is_left_behind),
		cmocka_unit_test(what_a_server_says_is_the_files),
		cmocka_unit_test(a_leased_file_is_no_want_of_ours),
		cmocka_unit_test(layouts_of_one_user_that_hang),
		cmocka_unit_test(after_the_end_none_is_asked),
		cmocka_unit_test(a_file_whose_reader_ended_is_asked_for_again),
		cmocka_unit_test(what_could_change_is_refused),
		cmocka_unit_test(what_nobody_executes_is_taken),
		cmocka_unit_test(a_hole_is_refused),
		cmocka_unit_test(no_number_is_trusted),
	};

	if (argc > 1 && !strcmp(argv[1], FILE_HELPER_COMMAND))
		return file_serve_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
