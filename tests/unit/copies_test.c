/* SPDX-License-Identifier: MIT
 *
 * copies_test - what stands in a file before its recording ends, and on a full disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "unit.h"
#include "base/base.h"
#include "base/stats.h"
#include "../../output/sink.h"

static const struct pyfunc spin = { "spin", "/srv/work.py", 5, 5, 90, 0 };

struct fixture {
	struct session session;
	struct stats stats;
	struct sink sink;
	char folder[64], path[128], text[1 << 16];
};

static void begin(struct fixture *f, const char *name, unsigned copy_ms)
{
	struct err err;

	*f = (struct fixture){ .session = { .copy_ms = copy_ms, .n_events = 1 } };
	f->session.stats = &f->stats;
	f->session.flags = SESSION_LINES;
	strcpy(f->session.events[0].name, "cycles");
	strcpy(f->folder, "/tmp/copies_test.XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	snprintf(f->path, sizeof(f->path), "%s/%s", f->folder, name);
	assert_int_equal(
		sink_open(&f->sink, sink_pick(NULL, f->path), f->path, &f->session, &err), 0);
}

static void put(struct fixture *f, int line)
{
	const struct frame fr = { .kind = FRAME_PYTHON, .func = &spin, .line = line };
	const struct sample smp = {
		.pid = 10, .tid = 10, .period = 1, .time = (uint64_t)line
	};

	assert_int_equal(f->sink.ops->sample(&f->sink, &smp, &(struct stack){ 1, &fr }), 0);
}

static void round_is_over(struct fixture *f)
{
	f->sink.copy_due = 0;
	assert_int_equal(f->sink.ops->round(&f->sink), 0);
}

static const char *text(struct fixture *f)
{
	FILE *in = fopen(f->path, "r");

	f->text[fread(f->text, 1, sizeof(f->text) - 1, in)] = '\0';
	fclose(in);
	return f->text;
}

/* The folder must be empty but for the file. */
static void end(struct fixture *f)
{
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(rmdir(f->folder), 0);
}

static void a_round_leaves_a_whole_file(void **state)
{
	struct fixture f;
	struct err err;
	struct stat st;

	begin(&f, "x.folded", 1000);
	assert_int_equal(chmod(f.path, 0640), 0);
	put(&f, 7);
	round_is_over(&f);
	assert_string_equal(text(&f), "?-10;spin (work.py:7) 1\n");
	assert_int_equal(stat(f.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	put(&f, 7);
	put(&f, 8);
	assert_int_equal(f.sink.ops->round(&f.sink), 0); /* it is not time */
	assert_string_equal(text(&f), "?-10;spin (work.py:7) 1\n");
	round_is_over(&f);
	assert_string_equal(text(&f), "?-10;spin (work.py:7) 2\n?-10;spin (work.py:8) 1\n");
	put(&f, 8);
	assert_int_equal(sink_close(&f.sink, &err), 0);
	assert_string_equal(text(&f), "?-10;spin (work.py:7) 2\n?-10;spin (work.py:8) 2\n");
	end(&f);
	(void)state;
}

static void each_format_is_whole_after_a_round(void **state)
{
	static const struct {
		const char *name, *end;
	} formats[] = {
		{ "x.speedscope.json", "]}\n" },
		{ "x.gecko.json", "]}\n" },
		{ "x.svg", "</svg>\n" },
		{ "x.html", "</html>\n" },
	};
	struct fixture f;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		size_t n;
		const char *sources; /* which a page has at its end only */

		begin(&f, formats[i].name, 1000);
		put(&f, 7);
		round_is_over(&f);
		n = strlen(text(&f));
		assert_non_null(strstr(f.text, "spin"));
		assert_true(n > strlen(formats[i].end));
		assert_string_equal(f.text + n - strlen(formats[i].end), formats[i].end);
		assert_int_equal(sink_close(&f.sink, &err), 0);
		sources = strstr(text(&f), ",\n\"sources\":");
		if (sources)
			n += (size_t)(strstr(sources, "}}}") + 2 - sources);
		assert_int_equal(n, strlen(f.text));
		end(&f);
	}
	(void)state;
}

/* Of two events, and no frame in the whole recording. */
static void stacks_without_a_frame_are_written(void **state)
{
	static const char *const names[] = { "x.folded", "x.speedscope.json", "x.gecko.json",
					     "x.pb.gz",	 "x.svg",	      "x.html" };
	struct fixture f;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		begin(&f, names[i], 0);
		f.session.n_events = 2;
		strcpy(f.session.events[1].name, "faults");
		for (uint32_t event = 0; event < 2; event++)
			assert_int_equal(f.sink.ops->sample(&f.sink,
							    &(struct sample){ .pid = 10,
									      .tid = 10,
									      .event = event,
									      .period = 1 },
							    &(struct stack){ 0 }),
					 0);
		assert_int_equal(sink_close(&f.sink, &err), 0);
		assert_true(*text(&f));
		end(&f);
	}
	(void)state;
}

static void without_a_time_it_is_written_at_the_end(void **state)
{
	struct fixture f;
	struct err err;

	begin(&f, "x.folded", 0);
	put(&f, 7);
	round_is_over(&f);
	assert_string_equal(text(&f), "");
	assert_int_equal(sink_close(&f.sink, &err), 0);
	assert_string_equal(text(&f), "?-10;spin (work.py:7) 1\n");
	end(&f);
	(void)state;
}

/* Who has it under another name sees all. */
static void a_file_of_two_names_is_written_in_its_place(void **state)
{
	struct fixture f;
	struct err err;
	char other[160];

	begin(&f, "x.folded", 1000);
	snprintf(other, sizeof(other), "%s/other", f.folder);
	assert_int_equal(link(f.path, other), 0);
	put(&f, 7);
	round_is_over(&f);
	assert_string_equal(text(&f), "");
	assert_int_equal(sink_close(&f.sink, &err), 0);
	assert_int_equal(unlink(f.path), 0);
	assert_int_equal(rename(other, f.path), 0);
	assert_string_equal(text(&f), "?-10;spin (work.py:7) 1\n");
	end(&f);
	(void)state;
}

/* Another recording of that name, or who moved ours away and made one: what is theirs stays. */
static void a_file_that_took_the_place_is_not_replaced(void **state)
{
	struct fixture f;
	struct err err;
	char moved[160];
	FILE *other;

	begin(&f, "x.folded", 1000);
	snprintf(moved, sizeof(moved), "%s/moved", f.folder);
	assert_int_equal(rename(f.path, moved), 0);
	other = fopen(f.path, "w");
	assert_non_null(other);
	fputs("theirs\n", other);
	fclose(other);
	put(&f, 7);
	round_is_over(&f);
	assert_string_equal(text(&f), "theirs\n");
	assert_int_equal(sink_close(&f.sink, &err), -EEXIST);
	assert_non_null(strstr(err.text, "x.folded was replaced by another file"));
	assert_string_equal(text(&f), "theirs\n");
	assert_int_equal(rename(moved, f.path), 0);
	assert_string_equal(text(&f), "?-10;spin (work.py:7) 1\n");
	end(&f);
	(void)state;
}

/* Its own name is somewhere else, and its symbols have no place beside it. */
static void a_file_that_a_device_leads_to_keeps_its_place(void **state)
{
	struct fixture f;
	struct err err;
	struct stat before, after;
	char path[64];
	int fd;

	begin(&f, "x.folded", 1000);
	assert_int_equal(sink_close(&f.sink, &err), 0);
	fd = open(f.path, O_RDWR | O_CLOEXEC);
	assert_int_equal(fstat(fd, &before), 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	assert_int_equal(
		sink_open(&f.sink, sink_pick("folded", path), path, &f.session, &err), 0);
	assert_int_equal(f.sink.folder, -1);
	put(&f, 7);
	round_is_over(&f);
	assert_int_equal(sink_close(&f.sink, &err), 0);
	assert_string_equal(text(&f), "?-10;spin (work.py:7) 1\n");
	assert_int_equal(stat(f.path, &after), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	close(fd);
	end(&f);
	(void)state;
}

/* Files may have so many bytes from now on, or as many as may be had. */
static void limit(rlim_t bytes)
{
	struct rlimit r;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &r), 0);
	r.rlim_cur = MIN(bytes, r.rlim_max);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static void without_room_the_last_copy_stays(void **state)
{
	struct fixture f;
	struct err err;

	begin(&f, "x.folded", 1000);
	put(&f, 7);
	round_is_over(&f);
	for (int line = 1; line < 90; line++)
		put(&f, line);
	limit(400);
	round_is_over(&f);
	assert_string_equal(text(&f), "?-10;spin (work.py:7) 1\n");
	assert_int_equal(sink_close(&f.sink, &err), -EFBIG);
	limit(RLIM_INFINITY);
	assert_string_equal(text(&f), "?-10;spin (work.py:7) 1\n");
	assert_non_null(strstr(err.text, "it has the first 1 of 90 samples"));
	end(&f);
	(void)state;
}

static void without_room_for_any_copy_whole_lines_stay(void **state)
{
	struct fixture f;
	struct err err;
	size_t n;

	begin(&f, "x.folded", 1000);
	for (int line = 1; line < 90; line++)
		put(&f, line);
	limit(400);
	round_is_over(&f);
	assert_int_equal(sink_close(&f.sink, &err), -EFBIG);
	limit(RLIM_INFINITY);
	n = strlen(text(&f));
	assert_true(n > 350 && n <= 400 && f.text[n - 1] == '\n');
	end(&f);
	(void)state;
}

/* What a killed recording left of this file goes, and nothing else. */
static void left_copies_go(void **state)
{
	static const char *const names[] = { ".x.svg.999999999.0", ".x.svg.1.0",
					     ".x.svg.9999999990x", ".y.svg.999999999.0" };
	struct fixture f;
	struct err err;
	int folder;

	begin(&f, "x.svg", 0);
	folder = open(f.folder, O_RDONLY | O_DIRECTORY);
	assert_int_equal(sink_close(&f.sink, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		close(openat(folder, names[i], O_CREAT | O_WRONLY, 0600));
	assert_int_equal(sink_open(&f.sink, sink_pick(NULL, f.path), f.path, &f.session, &err),
			 0);
	assert_int_equal(sink_close(&f.sink, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(unlinkat(folder, names[i], 0), i ? 0 : -1);
	close(folder);
	end(&f);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_round_leaves_a_whole_file),
		cmocka_unit_test(each_format_is_whole_after_a_round),
		cmocka_unit_test(stacks_without_a_frame_are_written),
		cmocka_unit_test(without_a_time_it_is_written_at_the_end),
		cmocka_unit_test(a_file_of_two_names_is_written_in_its_place),
		cmocka_unit_test(a_file_that_took_the_place_is_not_replaced),
		cmocka_unit_test(a_file_that_a_device_leads_to_keeps_its_place),
		cmocka_unit_test(without_room_the_last_copy_stays),
		cmocka_unit_test(left_copies_go),
		cmocka_unit_test(without_room_for_any_copy_whole_lines_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
