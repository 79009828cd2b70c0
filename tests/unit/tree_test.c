/* SPDX-License-Identifier: MIT
 *
 * tree_test - stacks in, a tree of frames with counts out.
 */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"
#include "base/stats.h"
#include "../../output/sources.h"
#include "../../output/tree.h"

static const struct pyfunc spin = { "spin", "/srv/work.py", 5, 5, 14, 0 };
static const struct pyfunc twin = { "spin", "/srv/other.py", 6, 6, 14, 1 };

struct fixture {
	struct session session;
	struct stats stats;
	struct tree tree;
	struct sink sink;
	char text[2048];
};

static void begin(struct fixture *f, unsigned flags)
{
	struct err err;

	*f = (struct fixture){ .session = { .flags = flags, .n_events = 2 } };
	f->session.stats = &f->stats;
	f->sink.session = &f->session;
	f->sink.priv = &f->tree;
	f->sink.path = "-";
	assert_int_equal(tree_begin(&f->sink, &err), 0);
}

static void put(struct fixture *f, struct sample smp, const struct frame *fr, size_t n)
{
	assert_int_equal(tree_sample(&f->sink, &smp, &(struct stack){ n, fr }), 0);
}

static void side(struct fixture *f, struct side s)
{
	assert_int_equal(tree_side(&f->sink, &s), 0);
}

static struct side comm(pid_t pid, pid_t tid, const char *name)
{
	struct side s = { .kind = SIDE_COMM, .pid = pid, .tid = tid };

	s.u.comm.name = name;
	return s;
}

static int add(struct fixture *f, int n, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int add(struct fixture *f, int n, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	n += vsnprintf(f->text + n, sizeof(f->text) - (size_t)n, format, args);
	va_end(args);
	return n;
}

/* The rows, a line each: thread, frames from the leaf, count and period. */
static const char *rows(struct fixture *f)
{
	const struct tree *t = &f->tree;
	struct buf ids = { 0 };
	char who[64];
	int n = 0;

	assert_int_equal(tree_counts(&f->sink), 0);
	for (size_t i = 0; i < tree_n_rows(t); i++) {
		const struct tree_row *row = tree_row(t, i);
		size_t depth = tree_path(t, row->node, &ids);

		tree_thread_text(t, row->thread, who, sizeof(who));
		n = add(f, n, "%s", who);
		for (size_t k = 0; k < depth; k++) {
			uint32_t id = ((const uint32_t *)(const void *)ids.at)[k];
			const struct tree_frame *fr = tree_frame(t, id);
			const struct tree_func *func = tree_func(t, fr->func);

			n = add(f, n, " %s|%s:%d:%s", tree_text(t, func->name),
				tree_text(t, func->file), fr->line, tree_kind(t, fr->func));
		}
		n = add(f, n, " = e%u p%d %llu %llu\n", row->event, (int)row->prov,
			(unsigned long long)row->count, (unsigned long long)row->period);
	}
	buf_deinit(&ids);
	return f->text;
}

static void is(struct fixture *f, const char *expect)
{
	assert_string_equal(rows(f), expect);
	tree_deinit(&f->tree);
}

static const struct sample sample = { .pid = 10, .tid = 11, .period = 1000, .time = 5 };
static const struct frame python[] = { { .kind = FRAME_PYTHON, .func = &spin, .line = 7 },
				       { .kind = FRAME_PYTHON, .func = &twin, .line = 9 } };

static void equal_stacks_are_one_row(void **state)
{
	struct sample later = sample, other = sample;
	struct fixture f;

	later.time = 9;
	other.event = 1;
	begin(&f, SESSION_LINES);
	put(&f, later, python, 2);
	put(&f, sample, python, 2);
	put(&f, other, python, 2);
	put(&f, sample, python + 1, 1);
	put(&f, sample, NULL, 0);
	assert_int_equal(f.sink.samples, 5);
	assert_int_equal(f.tree.first_ns, 5);
	assert_int_equal(f.tree.last_ns, 9);
	assert_int_equal(f.tree.samples[0], 4);
	assert_int_equal(f.tree.last_row, 3);
	assert_int_equal(tree_n_nodes(&f.tree), 3);
	assert_int_equal(tree_n_frames(&f.tree), 2);
	assert_int_equal(tree_n_funcs(&f.tree), 2);
	assert_int_equal(tree_row(&f.tree, 0)->time, 9);
	is(&f,
	   "?-10/?-11 spin|/srv/work.py:7:python spin|/srv/other.py:9:python = e0 p0 2 2000\n"
	   "?-10/?-11 spin|/srv/work.py:7:python spin|/srv/other.py:9:python = e1 p0 1 1000\n"
	   "?-10/?-11 spin|/srv/other.py:9:python = e0 p0 1 1000\n"
	   "?-10/?-11 = e0 p0 1 1000\n");
	(void)state;
}

static void lines_and_periods_are_asked_for(void **state)
{
	struct frame other = { .kind = FRAME_PYTHON, .func = &spin, .line = 8 };
	struct fixture f;

	begin(&f, SESSION_PERIOD);
	put(&f, sample, python, 1);
	put(&f, sample, &other, 1);
	is(&f, "?-10/?-11 spin|/srv/work.py:0:python = e0 p0 2000 2000\n");
	(void)state;
}

/* One name of several kinds; none; the collector's. */
static void names_have_their_kinds(void **state)
{
	static const char name[] = "x", same[] = "x", gc[] = "gc_collect_main";
	const struct frame fr[] = { { .kind = FRAME_NATIVE, .name = name },
				    { .kind = FRAME_NATIVE, .name = same },
				    { .kind = FRAME_KERNEL, .name = same },
				    { .kind = FRAME_MARKER, .name = "[late]" },
				    { .kind = FRAME_NATIVE },
				    { .kind = FRAME_NATIVE, .name = gc } };
	struct fixture f;

	begin(&f, 0);
	put(&f, sample, fr, 2);
	put(&f, sample, fr + 3, 3);
	assert_int_equal(tree_n_funcs(&f.tree), 4);
	is(&f, "?-10/?-11 x|:0:native x|:0:native = e0 p0 1 1000\n"
	       "?-10/?-11 [late]|:0:marker [unknown]|:0:native gc_collect_main|:0:gc"
	       " = e0 p0 1 1000\n");
	begin(&f, 0);
	put(&f, sample, fr + 2, 1);
	is(&f, "?-10/?-11 x|:0:kernel = e0 p0 1 1000\n");
	(void)state;
}

static void provenance_is_told_apart(void **state)
{
	struct sample late = sample;
	struct fixture f;

	late.prov = PROV_LATE;
	begin(&f, 0);
	put(&f, sample, NULL, 0);
	put(&f, late, NULL, 0);
	is(&f, "?-10/?-11 = e0 p0 1 1000\n?-10/?-11 = e0 p1 1 1000\n");
	begin(&f, SESSION_ONLY_EXACT);
	put(&f, sample, NULL, 0);
	put(&f, late, NULL, 0);
	is(&f, "?-10/?-11 = e0 p0 1 1000\n");
	begin(&f, SESSION_ONLY_LATE);
	put(&f, sample, NULL, 0);
	put(&f, late, NULL, 0);
	is(&f, "?-10/?-11 = e0 p1 1 1000\n");
	(void)state;
}

/* What the program calls a thread is the name of its first samples, and of those that are
 * younger than the record of its end. Who begins with its number is another. */
static void threads_have_their_names(void **state)
{
	struct side title = comm(10, 11, "Thread-1"),
		    end = { .kind = SIDE_EXIT, .pid = 10, .tid = 11 };
	struct side fork = { .kind = SIDE_FORK, .pid = 20, .tid = 20, .u.fork = { 10, 10 } };
	struct side again = { .kind = SIDE_FORK, .pid = 10, .tid = 11, .u.fork = { 10, 10 } };
	struct sample child = sample;
	struct fixture f;

	title.u.comm.thread = true;
	child.pid = child.tid = 20;
	begin(&f, 0);
	side(&f, comm(10, 10, "py"));
	side(&f, comm(10, 11, "work"));
	put(&f, sample, NULL, 0);
	put(&f, sample, NULL, 0);
	side(&f, title);
	put(&f, sample, NULL, 0);
	side(&f, end);
	put(&f, sample, NULL, 0);
	side(&f, fork);
	put(&f, child, NULL, 0);
	side(&f, again);
	put(&f, sample, NULL, 0);
	side(&f, title);
	put(&f, sample, NULL, 0);
	assert_int_equal(tree_n_threads(&f.tree), 3);
	is(&f, "py-10/Thread-1-11 = e0 p0 4 4000\n"
	       "py-20/py-20 = e0 p0 1 1000\n"
	       "py-10/Thread-1-11 = e0 p0 2 2000\n");
	(void)state;
}

/* Programs write into their name what they do. */
static void a_thread_that_takes_old_names_again_is_the_same(void **state)
{
	struct fixture f;

	begin(&f, 0);
	side(&f, comm(10, 10, "py"));
	for (int i = 0; i < 6; i++) {
		side(&f, comm(10, 11, i % 3 == 2 ? "starts" : i % 3 ? "idle" : "busy"));
		put(&f, sample, NULL, 0);
	}
	assert_int_equal(tree_n_threads(&f.tree), 3);
	is(&f, "py-10/busy-11 = e0 p0 2 2000\n"
	       "py-10/idle-11 = e0 p0 2 2000\n"
	       "py-10/starts-11 = e0 p0 2 2000\n");
	(void)state;
}

/* Where the kernel adapts the period, a row's share of samples is that of what it stands for.
 */
static void samples_follow_an_adapted_period(void **state)
{
	struct sample large = sample;
	struct fixture f;

	large.period = 3000;
	begin(&f, 0);
	f.session.events[0].attr =
		(struct perf_event_attr){ .freq = 1, .type = PERF_TYPE_HARDWARE };
	for (int i = 0; i < 2; i++) {
		put(&f, sample, python, 1);
		put(&f, large, python + 1, 1);
	}
	is(&f, "?-10/?-11 spin|/srv/work.py:0:python = e0 p0 1 2000\n"
	       "?-10/?-11 spin|/srv/other.py:0:python = e0 p0 3 6000\n");
	(void)state;
}

/* @n samples, each with a stack of its own, below @caller. */
static void put_each(struct fixture *f, int n, const char *caller, uint64_t period)
{
	struct frame fr[] = { { .kind = FRAME_PYTHON, .func = &spin },
			      { .kind = FRAME_NATIVE, .name = caller } };
	struct sample smp = sample;

	smp.period = period;
	for (fr[0].line = 1; fr[0].line <= n; fr[0].line++)
		put(f, smp, fr, 2);
}

/* What all rows below @caller count. */
static uint64_t count_of(const struct fixture *f, const char *caller)
{
	const struct tree *t = &f->tree;
	struct buf ids = { 0 };
	uint64_t ret = 0;

	for (size_t i = 0; i < tree_n_rows(t); i++) {
		size_t n = tree_path(t, tree_row(t, i)->node, &ids);
		uint32_t frame = load_u32(ids.at + 4 * (n - 1));

		if (!strcmp(tree_text(t, tree_func(t, tree_frame(t, frame)->func)->name), caller))
			ret += tree_row(t, i)->count;
	}
	buf_deinit(&ids);
	return ret;
}

/* Also where each stack alone has less than one. */
static void functions_of_many_stacks_have_their_share(void **state)
{
	struct fixture f;

	begin(&f, SESSION_LINES);
	f.session.events[0].attr =
		(struct perf_event_attr){ .freq = 1, .type = PERF_TYPE_HARDWARE };
	put_each(&f, 1000, "few", 400);
	put_each(&f, 1000, "many", 1600);
	assert_int_equal((int)(1e6 * tree_scale(&f.tree, &f.session, 0) + 0.5), 1000);
	assert_int_equal((int)(1e6 * tree_scale(&f.tree, &f.session, 1) + 0.5), 1000000);
	assert_int_equal(tree_counts(&f.sink), 0);
	assert_in_range(count_of(&f, "few"), 399, 401);
	assert_in_range(count_of(&f, "many"), 1599, 1601);
	tree_deinit(&f.tree);
	(void)state;
}

/* So is that of an event which is only counted at another's samples, or whose samples have weights. */
static void samples_follow_what_a_groups_member_counted(void **state)
{
	struct sample large = sample;
	struct fixture f;

	large.period = 3000;
	for (int led = 0; led < 2; led++) {
		begin(&f, 0);
		f.session.how[0].led = led;
		f.session.how[0].varies = !led;
		put(&f, sample, python, 1);
		put(&f, sample, python, 1);
		put(&f, large, python + 1, 1);
		put(&f, large, python + 1, 1);
		is(&f, "?-10/?-11 spin|/srv/work.py:0:python = e0 p0 1 2000\n"
		       "?-10/?-11 spin|/srv/other.py:0:python = e0 p0 3 6000\n");
	}
	(void)state;
}

static void samples_of_a_fixed_period_are_counted(void **state)
{
	struct sample large = sample;
	struct fixture f;

	large.period = 9000;
	begin(&f, 0);
	put(&f, sample, python, 1);
	put(&f, large, python + 1, 1);
	is(&f, "?-10/?-11 spin|/srv/work.py:0:python = e0 p0 1 1000\n"
	       "?-10/?-11 spin|/srv/other.py:0:python = e0 p0 1 9000\n");
	(void)state;
}

/* Stacks that share no caller, 101 frames each: they are all told apart, twice, and a node takes
 * 32 bytes at most. */
static void many_nodes_take_little(void **state)
{
	enum { MANY = 400, DEEP = 101 };
	struct frame fr[DEEP];
	char names[MANY][8];
	struct fixture f;

	begin(&f, 0);
	f.session.memory = 4 << 20; /* of which half is the tree's */
	for (int i = 0; i < DEEP; i++)
		fr[i] = (struct frame){ .kind = FRAME_NATIVE, .name = "f" };
	for (int i = 0; i < 2 * MANY; i++) {
		snprintf(names[i % MANY], sizeof(names[0]), "r%d", i % MANY);
		fr[DEEP - 1].name = names[i % MANY];
		put(&f, (struct sample){ .pid = 10, .tid = 11 }, fr, DEEP);
	}
	assert_int_equal(atomic_load(&f.stats.unnamed), 0);
	assert_int_equal(tree_n_nodes(&f.tree), 1 + MANY * DEEP);
	assert_int_equal(tree_n_rows(&f.tree), MANY);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(tree_row(&f.tree, i)->count, 2);
	tree_deinit(&f.tree);
	(void)state;
}

/* They outlive the tree, and are there once. */
static void texts_can_be_shared(void **state)
{
	struct strtab *texts = strtab_create();
	struct fixture f = { .session = { .texts = texts, .n_events = 1, .stats = &f.stats },
			     .sink = { .session = &f.session, .priv = &f.tree, .path = "-" } };
	struct err err;

	assert_int_equal(strtab_add(texts, "spin", 4), 0);
	assert_int_equal(tree_begin(&f.sink, &err), 0);
	put(&f, sample, python, 2);
	is(&f, "?-10/?-11 spin|/srv/work.py:0:python spin|/srv/other.py:0:python = e0 p0 1 1000\n");
	assert_string_equal(strtab_get(texts, strtab_find(texts, "/srv/work.py", 12)), "/srv/work.py");
	assert_int_equal(strtab_find(texts, "spin", 4), 0);
	strtab_destroy(texts);
	(void)state;
}

/* Its functions have numbers that those of the recording before had. */
static void another_recording_has_its_own_functions(void **state)
{
	static const struct pyfunc g = { "g", "/srv/g.py", 1, 1, 9, 0 };
	const struct frame of_other = { .kind = FRAME_PYTHON, .func = &g, .line = 7 };
	struct fixture f;

	begin(&f, SESSION_LINES | SESSION_COMPARED);
	put(&f, sample, python, 1);
	tree_other(&f.tree);
	put(&f, sample, &of_other, 1);
	put(&f, sample, &of_other, 1);
	is(&f, "?-10/?-11 spin|/srv/work.py:7:python = e0 p0 1 1000\n"
	       "?-10/?-11 g|/srv/g.py:7:python = e0 p0 2 2000\n");
	(void)state;
}

/* Two lambdas of a file are one in each of two recordings that are compared, else they are two. */
static void functions_are_compared_by_name_and_file(void **state)
{
	static const struct pyfunc lambda[] = { { "<lambda>", "/srv/g.py", 1, 1, 1, 0 },
						{ "<lambda>", "/srv/g.py", 9, 9, 9, 1 } };
	struct fixture f;

	(void)state;
	for (unsigned compared = 0; compared < 2; compared++) {
		begin(&f, compared ? SESSION_COMPARED : 0);
		for (size_t i = 0; i < 4; i++) {
			struct frame fr = { .kind = FRAME_PYTHON, .func = &lambda[i % 2] };

			if (i == 2 && compared)
				tree_other(&f.tree);
			put(&f, sample, &fr, 1);
		}
		assert_int_equal(tree_n_funcs(&f.tree), compared ? 1 : 2);
		is(&f, compared ? "?-10/?-11 <lambda>|/srv/g.py:0:python = e0 p0 4 4000\n" :
				  "?-10/?-11 <lambda>|/srv/g.py:0:python = e0 p0 2 2000\n"
				  "?-10/?-11 <lambda>|/srv/g.py:0:python = e0 p0 2 2000\n");
	}
}

/* Nothing comes any more: all that there is can be read. */
static void a_complete_tree_is_the_same(void **state)
{
	struct sample other = sample;
	struct fixture f;

	other.tid = 12;
	begin(&f, SESSION_LINES);
	put(&f, sample, python, 2);
	put(&f, other, python, 2);
	put(&f, sample, python + 1, 1);
	tree_complete(&f.tree);
	assert_int_equal(tree_nodes_bytes(&f.tree.nodes), f.tree.nodes.all.cap);
	assert_int_equal(f.tree.first_row.cap + f.tree.python.cap + f.tree.row_of.cap, 0);
	is(&f, "?-10/?-11 spin|/srv/work.py:7:python spin|/srv/other.py:9:python = e0 p0 1 1000\n"
	       "?-10/?-12 spin|/srv/work.py:7:python spin|/srv/other.py:9:python = e0 p0 1 1000\n"
	       "?-10/?-11 spin|/srv/other.py:9:python = e0 p0 1 1000\n");
	(void)state;
}

/* Each sample without room is counted, and keeps its thread and number. */
static void no_room_is_told(void **state)
{
	struct fixture f;

	begin(&f, 0);
	put(&f, sample, python, 2);
	f.session.memory = 1;
	put(&f, sample, python, 1);
	put(&f, sample, python, 2);
	assert_int_equal(atomic_load(&f.stats.unnamed), 2);
	is(&f,
	   "?-10/?-11 spin|/srv/work.py:0:python spin|/srv/other.py:0:python = e0 p0 1 1000\n"
	   "?-10/?-11 [unnamed]|:0:marker = e0 p0 2 2000\n");
	(void)state;
}

static int write_fails(struct sink *s)
{
	assert_int_equal(tree_n_rows(s->priv), 1);
	return -ENOSPC;
}

static void a_copy_says_what_failed(void **state)
{
	struct fixture f;

	begin(&f, 0);
	put(&f, sample, NULL, 0);
	assert_int_equal(tree_copy(&f.sink, write_fails), -ENOSPC);
	assert_int_equal(tree_end(&f.sink, NULL), 0);
	assert_null(f.tree.strings);
	(void)state;
}

/* What a page gets of the file at @path when line 7 of a function that begins at 2 ran, and a line
 * that only a target can tell of. */
static char *source_of(const char *path, int64_t since, bool elsewhere)
{
	const struct pyfunc func = { "f", path, 2, 2, 9, 0 };
	const struct pyfunc crazy = { "g", path, INT32_MAX, INT32_MAX, INT32_MAX, 1 };
	const struct frame frames[] = {
		{ .kind = FRAME_PYTHON, .func = &func, .line = 7 },
		{ .kind = FRAME_PYTHON, .func = &crazy, .line = INT32_MAX },
	};
	struct fixture f;
	char *ret;

	begin(&f, SESSION_LINES);
	put(&f, sample, frames, 2);
	ret = sources_read(&f.tree, since, elsewhere);
	tree_deinit(&f.tree);
	assert_non_null(ret);
	return ret;
}

static void source_is(const char *path, const char *want)
{
	char *got = source_of(path, 0, false);

	assert_string_equal(got + strlen("{\n") + strlen(path) + strlen("\"\":"), want);
	free(got);
}

static void lines_near_those_that_ran_are_read(void **state)
{
	char path[] = "/tmp/tree_test.XXXXXX", *got;
	int fd = mkstemp(path);

	assert_true(dprintf(fd, "one\n<two>\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n") > 0);
	assert_int_equal(fchmod(fd, 0644), 0);
	source_is(path,
		  "{\"parts\":[[2,\"\\u003ctwo>\\u000a\"],"
		  "[4,\"4\\u000a5\\u000a6\\u000a7\\u000a8\\u000a9\\u000a10\\u000a\"]]}}");
	got = source_of(path, 1, false);
	assert_non_null(strstr(got, "\"changed\":true"));
	free(got);
	got = source_of(path, 0, true);
	assert_non_null(strstr(got, "\"why\":\"a process has mounts of its own\""));
	free(got);
	if (geteuid() == 0) {
		assert_int_equal(fchmod(fd, 0600), 0);
		source_is(path, "{\"why\":\"not everybody may read it\"}}");
	}
	assert_int_equal(ftruncate(fd, 3 << 20), 0);
	assert_int_equal(fchmod(fd, 0644), 0);
	source_is(path, "{\"why\":\"it is too large\"}}");
	close(fd);
	unlink(path);
	source_is(path, "{\"why\":\"no such file here\"}}");
	assert_int_equal(mkfifo(path, 0644), 0);
	source_is(path, "{\"why\":\"it can't be read\"}}");
	unlink(path);
}

/* Another user than root, with one of root's rights. False: it can't be had. */
static bool become_a_reader(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { 0 };

	assert_int_equal(seteuid(65534), 0);
	assert_int_equal(syscall(SYS_capget, &head, caps), 0);
	caps[0].effective = 1U << CAP_DAC_OVERRIDE;
	return syscall(SYS_capset, &head, caps) == 0;
}

static void source_is_closed(const char *path)
{
	source_is(path, "{\"why\":\"not everybody may read it\"}}");
	if (become_a_reader())
		source_is(path, "{\"why\":\"not everybody may read it\"}}");
	assert_int_equal(seteuid(0), 0);
}

/* Others may read the page: not even what is there is told of a folder that is closed to them. */
static void files_in_closed_folders_are_not_read(void **state)
{
	char dir[] = "/tmp/tree_test.XXXXXX", file[64], by_link[64], none[64], *got;
	FILE *out;

	(void)state;
	if (geteuid())
		skip();
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/a.py", dir);
	snprintf(none, sizeof(none), "%s/none.py", dir);
	snprintf(by_link, sizeof(by_link), "%s.link", dir);
	assert_non_null(out = fopen(file, "w"));
	for (int i = 1; i < 12; i++)
		fprintf(out, "%d\n", i);
	fclose(out);
	assert_int_equal(chmod(file, 0644) | symlink(file, by_link), 0);
	source_is_closed(file);
	source_is_closed(by_link);
	source_is_closed(none);
	assert_int_equal(chmod(dir, 0711), 0);
	got = source_of(by_link, 0, false);
	assert_non_null(strstr(got, "\"parts\":[[2,\"2"));
	free(got);
	source_is(none, "{\"why\":\"no such file here\"}}");
	assert_int_equal(unlink(file) | unlink(by_link) | rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_stacks_are_one_row),
		cmocka_unit_test(lines_and_periods_are_asked_for),
		cmocka_unit_test(names_have_their_kinds),
		cmocka_unit_test(provenance_is_told_apart),
		cmocka_unit_test(threads_have_their_names),
		cmocka_unit_test(a_thread_that_takes_old_names_again_is_the_same),
		cmocka_unit_test(samples_follow_an_adapted_period),
		cmocka_unit_test(functions_of_many_stacks_have_their_share),
		cmocka_unit_test(samples_follow_what_a_groups_member_counted),
		cmocka_unit_test(samples_of_a_fixed_period_are_counted),
		cmocka_unit_test(many_nodes_take_little),
		cmocka_unit_test(texts_can_be_shared),
		cmocka_unit_test(another_recording_has_its_own_functions),
		cmocka_unit_test(functions_are_compared_by_name_and_file),
		cmocka_unit_test(a_complete_tree_is_the_same),
		cmocka_unit_test(no_room_is_told),
		cmocka_unit_test(lines_near_those_that_ran_are_read),
		cmocka_unit_test(files_in_closed_folders_are_not_read),
		cmocka_unit_test(a_copy_says_what_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
