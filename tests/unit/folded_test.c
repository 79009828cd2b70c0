/* SPDX-License-Identifier: MIT
 *
 * folded_test - stacks in, lines out.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "unit.h"
#include "no_memory.h"

#include "base/base.h"
#include "base/stats.h"
#include "../../output/apportion.h"
#include "../../output/sink.h"
#include "lines/places.h"
#include "modules/space.h"

static const struct pyfunc spin = { "spin", "/srv/work.py", 5, 5, 14, 0 };
static const struct pyfunc odd = { "a;b", "x\n.py", 1, 1, 3, 1 };

static const struct frame frames[] = {
	{ .kind = FRAME_KERNEL, .ip = 1, .name = "do_nap_[k]" },
	{ .kind = FRAME_NATIVE, .ip = 2, .name = "nap;\t" },
	{ .kind = FRAME_MARKER, .name = "[late]" },
	{ .kind = FRAME_PYTHON, .func = &odd, .line = 3 },
	{ .kind = FRAME_PYTHON, .func = &spin, .line = 7 },
	{ .kind = FRAME_NATIVE, .ip = 3 },
};

static const struct frame plain[] = { { .kind = FRAME_PYTHON, .func = &spin, .line = 7 } };

struct fixture {
	struct session session;
	struct sink sink;
	char path[64], text[4096];
};

static void begin(struct fixture *f, unsigned flags, size_t n_events)
{
	struct err err;

	*f = (struct fixture){ .session = { .flags = flags, .n_events = n_events } };
	strcpy(f->session.events[0].name, "cycles");
	strcpy(f->session.events[1].name, "a;b");
	snprintf(f->path, sizeof(f->path), "/tmp/folded_test.%d.txt", getpid());
	assert_int_equal(
		sink_open(&f->sink, sink_pick(NULL, f->path), f->path, &f->session, &err), 0);
}

static void comm(struct fixture *f, pid_t pid, pid_t tid, const char *name)
{
	struct side side = { .kind = SIDE_COMM, .pid = pid, .tid = tid };

	side.u.comm.name = name;
	assert_int_equal(f->sink.ops->side(&f->sink, &side), 0);
}

static void put(struct fixture *f, struct sample smp, const struct frame *fr, size_t n)
{
	assert_int_equal(f->sink.ops->sample(&f->sink, &smp, &(struct stack){ n, fr }), 0);
}

static const char *end(struct fixture *f)
{
	struct err err = {};
	FILE *in;

	assert_int_equal(sink_close(&f->sink, &err), 0);
	in = fopen(f->path, "r");
	f->text[fread(f->text, 1, sizeof(f->text) - 1, in)] = '\0';
	fclose(in);
	unlink(f->path);
	return f->text;
}

static const struct sample sample = { .pid = 10, .tid = 11, .period = 1000 };

static void stacks_are_added_up(void **state)
{
	struct fixture f;

	begin(&f, SESSION_LINES, 1);
	comm(&f, 10, 10, "python3");
	comm(&f, 10, 11, "worker");
	put(&f, sample, frames, ARRAY_SIZE(frames));
	put(&f, sample, plain, 1);
	put(&f, sample, frames, ARRAY_SIZE(frames));
	put(&f, sample, NULL, 0);
	assert_int_equal(f.sink.samples, 4);
	assert_string_equal(end(&f),
			    "python3-10;[unknown];spin (work.py:7);a:b (x?.py:3);[late];"
			    "nap:?;do_nap_[k] 2\n"
			    "python3-10;spin (work.py:7) 1\n"
			    "python3-10 1\n");
}

static void lines_are_left_out(void **state)
{
	struct frame other = { .kind = FRAME_PYTHON, .func = &spin, .line = 8 };
	struct frame unknown = { .kind = FRAME_PYTHON, .func = &spin };
	struct fixture f;

	begin(&f, 0, 1);
	comm(&f, 10, 10, "py");
	put(&f, sample, plain, 1);
	put(&f, sample, &other, 1);
	assert_string_equal(end(&f), "py-10;spin (work.py) 2\n");

	begin(&f, SESSION_LINES, 1);
	put(&f, sample, &unknown, 1);
	put(&f, sample, &other, 1);
	assert_string_equal(end(&f), "?-10;spin (work.py) 1\n"
				     "?-10;spin (work.py:8) 1\n");
}

/* Files are short, however many of one name there are; whole if that is asked for. */
static void files_are_short(void **state)
{
	static const struct pyfunc other = { "spin", "/opt/work.py", 5, 5, 14, 7 }, lib = {
		"dump", "/usr/lib/python3.11/json/a.py", 1, 1, 2, 8
	};
	const struct frame stk[] = { { .kind = FRAME_PYTHON, .func = &lib, .line = 9 },
				     { .kind = FRAME_PYTHON, .func = &other, .line = 7 },
				     plain[0] };
	struct fixture f;

	begin(&f, SESSION_LINES, 1);
	put(&f, sample, stk, 2);
	assert_string_equal(end(&f), "?-10;spin (work.py:7);dump (json/a.py:9) 1\n");
	begin(&f, SESSION_LINES, 1);
	put(&f, sample, stk, 3);
	assert_string_equal(end(&f), "?-10;spin (/srv/work.py:7);spin (/opt/work.py:7);"
				     "dump (json/a.py:9) 1\n");
	begin(&f, SESSION_FULL_PATHS, 1);
	put(&f, sample, stk, 2);
	assert_string_equal(end(&f), "?-10;spin (/opt/work.py);"
				     "dump (/usr/lib/python3.11/json/a.py) 1\n");
}

/* Functions of one name, at one line of two files. */
static void names_in_several_files(void **state)
{
	const struct pyfunc twin = { spin.qualname, "/srv/other.py", 5, 5, 14, 7 };
	struct frame other = { .kind = FRAME_PYTHON, .func = &twin, .line = 7 };
	struct fixture f;

	begin(&f, SESSION_LINES, 1);
	put(&f, sample, plain, 1);
	put(&f, sample, &other, 1);
	assert_string_equal(end(&f), "?-10;spin (work.py:7) 1\n"
				     "?-10;spin (other.py:7) 1\n");
}

/* Our own code, from our own maps. */
static struct spaces *own_code(uint64_t *at)
{
	struct spaces *s = spaces_create(64 << 20, 0);
	struct side side = { .kind = SIDE_MMAP, .pid = getpid(), .tid = getpid() };
	struct stat st;
	char path[256];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	assert_true(n > 0);
	path[n] = '\0';
	assert_int_equal(stat(path, &st), 0);
	*at = side.u.mmap.addr = 1 << 20;
	side.u.mmap.len = 1 << 20;
	side.u.mmap.prot = PROT_READ | PROT_EXEC;
	side.u.mmap.ino = st.st_ino;
	side.u.mmap.maj = major(st.st_dev), side.u.mmap.min = minor(st.st_dev);
	side.u.mmap.path = path;
	spaces_side(s, &side);
	return s;
}

/* With --native-lines a frame is a place, which is named at the end: stacks whose places have
 * one name are one then, those of several events are not. */
static void places_are_named(void **state)
{
	struct frame stk[3] = { plain[0], { .kind = FRAME_NATIVE, .name = "f" }, plain[0] };
	struct sample second = sample;
	struct stats stats = { 0 };
	struct fixture f;
	uint32_t place[3];
	uint64_t at;
	struct spaces *spaces = own_code(&at);
	const struct space *sp = spaces_find(spaces, getpid());

	second.event = 1;
	begin(&f, SESSION_LINES, 2);
	f.session.places = places_create(NULL, false, &stats);
	for (unsigned i = 0; i < 3; i++) {
		place[i] = places_add(f.session.places, sp, space_at(sp, at), 64 * (i + 1),
				      i < 2 ? "f" : "g;h", true, false);
		assert_int_not_equal(place[i], 0);
	}
	for (unsigned i = 0; i < 3; i++) {
		stk[1].place = place[i];
		put(&f, sample, stk, 3);
	}
	stk[1].place = place[0];
	put(&f, sample, stk, 2);
	put(&f, second, stk, 3);
	assert_string_equal(end(&f),
			    "?-10;event:cycles;spin (work.py:7);f;spin (work.py:7) 2\n"
			    "?-10;event:cycles;spin (work.py:7);g:h;spin "
			    "(work.py:7) 1\n"
			    "?-10;event:cycles;f;spin (work.py:7) 1\n"
			    "?-10;event:a:b;spin (work.py:7);f;spin (work.py:7) 1\n");
	places_destroy(f.session.places);
	spaces_destroy(spaces);
}

static void threads_have_their_names(void **state)
{
	struct sample leader = sample, child = sample, forked = sample;
	struct side fork = { .kind = SIDE_FORK, .pid = 20, .tid = 20, .u.fork = { 10, 10 } };
	struct fixture f;

	leader.tid = 10;
	child.tid = 12;
	forked.pid = forked.tid = 20;
	begin(&f, SESSION_THREADS, 1);
	comm(&f, 10, 10, "py");
	comm(&f, 10, 11, "a;w");
	put(&f, leader, plain, 1);
	put(&f, sample, plain, 1);
	put(&f, child, plain, 1);
	f.sink.ops->side(&f.sink, &fork);
	put(&f, forked, plain, 1);
	comm(&f, 20, 20, "exec");
	put(&f, forked, plain, 1);
	assert_string_equal(end(&f), "py-10/py-10;spin (work.py) 1\n"
				     "py-10/a:w-11;spin (work.py) 1\n"
				     "py-10/?-12;spin (work.py) 1\n"
				     "py-20/py-20;spin (work.py) 1\n"
				     "exec-20/exec-20;spin (work.py) 1\n");
}

/* What the program calls a thread is told after its first samples. */
static void early_samples_are_of_the_thread_as_it_is_called(void **state)
{
	enum { N = 3000 };
	struct side title = { .kind = SIDE_COMM,
			      .pid = 10,
			      .tid = 10,
			      .u.comm = { .name = "Main", .thread = true } };
	struct sample leader = sample;
	struct fixture f;

	leader.tid = 10;
	begin(&f, SESSION_THREADS | SESSION_LINES, 1);
	comm(&f, 10, 10, "py");
	comm(&f, 10, 11, "py");
	put(&f, sample, plain, 1);
	put(&f, leader, plain, 1);
	put(&f, leader, NULL, 0);
	f.sink.ops->side(&f.sink, &title);
	put(&f, leader, plain, 1);
	put(&f, sample, plain, 1);
	title.u.comm.name = "later";
	f.sink.ops->side(&f.sink, &title);
	put(&f, leader, plain, 1);
	assert_string_equal(end(&f), "py-10/py-11;spin (work.py:7) 2\n"
				     "py-10/Main-10;spin (work.py:7) 2\n"
				     "py-10/Main-10 1\n"
				     "py-10/later-10;spin (work.py:7) 1\n");
	begin(&f, SESSION_THREADS | SESSION_LINES, 1);
	comm(&f, 10, 10, "py");
	for (int i = 0; i < N; i++) { /* each has two slots then */
		struct frame at = { .kind = FRAME_PYTHON, .func = &spin, .line = i + 1 };

		put(&f, leader, &at, 1);
	}
	f.sink.ops->side(&f.sink, &title);
	for (int i = 0; i < N; i++) {
		struct frame at = { .kind = FRAME_PYTHON, .func = &spin, .line = i + 1 };

		put(&f, leader, &at, 1);
	}
	assert_non_null(strstr(end(&f), "py-10/later-10;spin (work.py:1) 2\n"
					"py-10/later-10;spin (work.py:2) 2\n"));
	assert_null(strstr(f.text, "py-10/py-10"));
}

static void events_are_not_mixed(void **state)
{
	struct sample second = sample;
	struct fixture f;

	second.event = 1;
	begin(&f, SESSION_PERIOD, 2);
	put(&f, second, plain, 1); /* the first event comes first all the same */
	put(&f, sample, plain, 1);
	put(&f, second, plain, 1);
	assert_string_equal(end(&f), "?-10;event:cycles;spin (work.py) 1000\n"
				     "?-10;event:a:b;spin (work.py) 2000\n");
}

static void as_many_events_as_there_may_be(void **state)
{
	char want[SESSION_MAX_EVENTS * 48] = "", *p = want;
	struct sample smp = sample;
	struct fixture f;

	begin(&f, 0, SESSION_MAX_EVENTS);
	for (uint32_t e = 0; e < SESSION_MAX_EVENTS; e++) {
		snprintf(f.session.events[e].name, sizeof(f.session.events[e].name), "e%u", e);
		p += sprintf(p, "?-10;event:e%u;spin (work.py) 1\n", e);
		smp.event = e;
		put(&f, smp, plain, 1);
	}
	assert_string_equal(end(&f), want);
}

/* Other tools' folded stacks name no process; of several events, each line is ours. */
static void stacks_of_nobody_begin_with_a_frame(void **state)
{
	const struct sample nobody = { .period = 3 };
	struct fixture f;

	for (size_t n_events = 1; n_events <= 2; n_events++) {
		begin(&f, 0, n_events);
		f.session.how[0].summed = true;
		put(&f, nobody, plain, 1);
		put(&f, nobody, plain, 0);
		put(&f, sample, plain, 1);
		assert_string_equal(end(&f), n_events == 1 ?
						     "spin (work.py) 3\n?-0 3\n"
						     "?-10;spin (work.py) 1000\n" :
						     "?-0;event:cycles;spin (work.py) 3\n"
						     "?-0;event:cycles 3\n"
						     "?-10;event:cycles;spin (work.py) 1000\n");
	}
	begin(&f, 0, 1);
	put(&f, nobody, plain, 1);
	assert_string_equal(end(&f), "?-0;spin (work.py) 1\n");
	(void)state;
}

static void provenance_is_filtered(void **state)
{
	struct sample late = sample, torn = sample;
	struct fixture f;

	late.prov = PROV_LATE;
	torn.prov = PROV_TORN;
	for (int i = 0; i < 3; i++) {
		begin(&f, i == 0 ? 0 : i == 1 ? SESSION_ONLY_EXACT : SESSION_ONLY_LATE, 1);
		put(&f, sample, plain, 1);
		put(&f, late, NULL, 0);
		put(&f, torn, frames + 1, 1);
		assert_int_equal(f.sink.samples, i ? 1 : 3);
		assert_string_equal(end(&f), i == 0 ? "?-10;spin (work.py) 1\n"
						      "?-10 1\n?-10;nap:? 1\n" :
					     i == 1 ? "?-10;spin (work.py) 1\n" :
						      "?-10 1\n");
	}
}

static void many_stacks(void **state)
{
	enum { N = 5000 };
	struct fixture f;
	struct err err;
	unsigned seen = 0, line;
	FILE *in;

	begin(&f, SESSION_LINES, 1);
	for (int i = 0; i < 2 * N; i++) {
		struct frame fr[] = { plain[0], plain[0] };

		fr[0].line = 1 + i % N;
		put(&f, sample, fr, 2);
	}
	assert_int_equal(sink_close(&f.sink, &err), 0);
	in = fopen(f.path, "r");
	while (fscanf(in, "?-10;spin (work.py:7);spin (work.py:%u) 2\n", &line) == 1)
		assert_int_equal(line, ++seen);
	assert_int_equal(seen, N);
	fclose(in);
	unlink(f.path);
}

static void full_disk_has_a_sentence(void **state)
{
	struct session session = { .n_events = 1 };
	struct err err = {};
	struct sink s;

	assert_int_equal(
		sink_open(&s, sink_pick("folded", "/dev/full"), "/dev/full", &session, &err),
		0);
	assert_int_equal(s.ops->sample(&s, &sample, &(struct stack){ 1, plain }), 0);
	assert_int_equal(sink_close(&s, &err), -ENOSPC);
	assert_string_equal(err.text, "writing /dev/full: No space left on device");
	assert_int_equal(sink_open(&s, sink_pick("folded", "x"), "/nowhere/x", &session, &err),
			 -ENOENT);
	assert_string_equal(err.text, "opening /nowhere/x: No such file or directory");
}

/* Lines that end with a whole line, and how many. */
static uint64_t whole_lines(const char *path)
{
	FILE *in = fopen(path, "r");
	uint64_t ret = 0;
	int c, last = '\n';

	for (; (c = getc(in)) != EOF; last = c)
		ret += c == '\n';
	fclose(in);
	assert_int_equal(last, '\n');
	return ret;
}

/* Each sample has a line of its own. */
static void no_room_is_counted(void **state)
{
	enum { N = 1000 };
	const unsigned modes[] = { 0, SESSION_PERIOD, SESSION_WALL };
	struct rlimit was, little = { 0 };

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	little.rlim_max = was.rlim_max;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(modes); i++) {
		struct stats stats = {};
		struct err err = {};
		struct fixture f;

		begin(&f, modes[i / 2], 1);
		f.session.stats = &stats;
		for (int pid = 1; pid <= N; pid++)
			put(&f, (struct sample){ .pid = pid, .tid = pid, .period = 3000 }, plain, 1);
		little.rlim_cur = i % 2 ? 10000 : 0;
		setrlimit(RLIMIT_FSIZE, &little);
		assert_int_equal(sink_close(&f.sink, &err), -EFBIG);
		setrlimit(RLIMIT_FSIZE, &was);
		assert_int_equal(STATS_GET(&stats, unwritten), N - whole_lines(f.path));
		assert_int_equal(whole_lines(f.path) > 0, i % 2);
		unlink(f.path);
	}
}

/* Standard output as a shell opens it, behind what another program wrote there, with lines of 6 KB:
 * what is left ends with a whole line, and the rest is counted. */
static void no_room_on_standard_output(void **state)
{
	enum { N = 10, BEFORE = 12 };
	static char name[6000];
	struct frame frame = { .kind = FRAME_NATIVE, .name = name };
	struct rlimit was, little = { .rlim_cur = 20000 };
	struct stats stats = {};
	struct err err = {};
	struct fixture f = { .session = { .n_events = 1, .stats = &stats } };
	int was_stdout = dup(1), fd, ret;

	memset(name, 'x', sizeof(name) - 1);
	snprintf(f.path, sizeof(f.path), "/tmp/folded_test.%d.txt", getpid());
	fd = open(f.path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
	assert_int_equal(write(fd, "another 999\n", BEFORE), BEFORE);
	getrlimit(RLIMIT_FSIZE, &was);
	little.rlim_max = was.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	fflush(stdout);
	dup2(fd, 1);
	close(fd);
	ret = sink_open(&f.sink, sink_pick("folded", "-"), "-", &f.session, &err);
	for (int pid = 1; !ret && pid <= N; pid++)
		ret = f.sink.ops->sample(&f.sink, &(struct sample){ .pid = pid, .tid = pid },
					 &(struct stack){ 1, &frame });
	setrlimit(RLIMIT_FSIZE, &little);
	ret = ret ? ret : sink_close(&f.sink, &err);
	setrlimit(RLIMIT_FSIZE, &was);
	dup2(was_stdout, 1);
	close(was_stdout);
	assert_int_equal(ret, -EFBIG);
	assert_int_equal(whole_lines(f.path), 1 + 3);
	assert_int_equal(STATS_GET(&stats, unwritten), N - 3);
	unlink(f.path);
}

static void formats_are_picked(void **state)
{
	assert_string_equal(sink_pick(NULL, "-")->name, "folded");
	assert_string_equal(sink_pick(NULL, "a.folded")->name, "folded");
	assert_string_equal(sink_pick(NULL, "a.txt")->name, "folded");
	assert_string_equal(sink_pick(NULL, "a.data")->name, "perf");
	assert_null(sink_pick(NULL, "whatever"));
	assert_null(sink_pick(NULL, ".data"));
	assert_string_equal(sink_pick("folded", "a.data")->name, "folded");
	assert_null(sink_pick("nope", "a.data"));
}

static void text_is_for_everybody(void **state)
{
	struct fixture f;
	struct stat st;
	mode_t mask = umask(022);

	begin(&f, 0, 1);
	assert_int_equal(stat(f.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	end(&f);
	umask(mask);
}

/* Where the kernel adapts the period, a sample counts for what it stands for, and all of them
 * add up to their number. */
static void adapted_periods_weigh(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, 0, 1);
	f.session.events[0].attr.freq = 1;
	f.session.events[0].attr.type = PERF_TYPE_HARDWARE;
	comm(&f, 10, 10, "app");
	for (int i = 0; i < 3; i++) /* 3 of 4 samples, a tenth of the event */
		put(&f, (struct sample){ .pid = 10, .tid = 10, .period = 100 }, plain, 1);
	put(&f, (struct sample){ .pid = 10, .tid = 10, .period = 2700 }, frames + 5, 1);
	assert_string_equal(end(&f), "app-10;[unknown] 4\n");

	begin(&f, SESSION_PERIOD, 1);
	f.session.events[0].attr.freq = 1;
	f.session.events[0].attr.type = PERF_TYPE_HARDWARE;
	comm(&f, 10, 10, "app");
	put(&f, (struct sample){ .pid = 10, .tid = 10, .period = 100 }, frames + 5, 1);
	put(&f, (struct sample){ .pid = 10, .tid = 10, .period = 2700 }, frames + 5, 1);
	assert_string_equal(end(&f), "app-10;[unknown] 2800\n");
}

static void shares_are_whole(void **state)
{
	uint64_t even[] = { 1, 1, 1 }, uneven[] = { 50, 30, 20 }, none[] = { 0, 0 };
	uint64_t huge[] = { UINT64_MAX, UINT64_MAX };

	(void)state;
	apportion(even, 3, 10);
	assert_int_equal(even[0] + even[1] + even[2], 10);
	for (int i = 0; i < 3; i++)
		assert_in_range(even[i], 3, 4);
	apportion(uneven, 3, 7); /* 3.5, 2.1, 1.4 */
	assert_int_equal(uneven[0] + uneven[1] + uneven[2], 7);
	assert_in_range(uneven[0], 3, 4);
	assert_in_range(uneven[1], 2, 3);
	assert_in_range(uneven[2], 1, 2);
	apportion(none, 2, 7);
	assert_true(none[0] == 0 && none[1] == 0);
	apportion(huge, 2, 1000);
	assert_true(huge[0] == 500 && huge[1] == 500);
}

/* Of 2000 stacks, each of one sample, @a have 400 and the others 1600, @together of a kind one after
 * the other: what those of 400 get. */
static uint64_t of_small(size_t a, size_t together)
{
	uint64_t weight[2000], small = 0, all = 0;

	for (size_t i = 0; i < 2000; i++)
		weight[i] = i / together % (2000 / a) ? 1600 : 400;
	apportion(weight, 2000, 2000);
	for (size_t i = 0; i < 2000; i++) {
		small += i / together % (2000 / a) ? 0 : weight[i];
		all += weight[i];
	}
	assert_int_equal(all, 2000);
	return small;
}

/* 400 and 154 are right, whatever the order; 16 and 12 are one standard deviation at most. */
static void many_small_shares_add_up(void **state)
{
	(void)state;
	for (size_t together = 1; together <= 1000; together *= 10) {
		assert_in_range(of_small(1000, together), 400 - 4 * 16, 400 + 4 * 16);
		if (together < 1000)
			assert_in_range(of_small(500, together), 154 - 4 * 12, 154 + 4 * 12);
	}
}

/* Without room for more a stack that is known is counted on, a new one is "[unnamed]". */
static void bounded(void **state)
{
	enum { MANY = 200000, BYTES = 2 << 20 };
	static char text[4 << 20];
	struct frame one = plain[0];
	struct stats stats = { .lost = 0 };
	struct fixture f;
	struct err err;
	const char *at;
	FILE *in;
	size_t n;

	begin(&f, SESSION_LINES, 1);
	f.session.memory = BYTES;
	f.session.stats = &stats;
	comm(&f, 7, 7, "a");
	for (one.line = 1; one.line <= MANY; one.line++)
		put(&f, (struct sample){ .pid = 7, .tid = 7 }, &one, 1);
	one.line = 1;
	put(&f, (struct sample){ .pid = 7, .tid = 7 }, &one, 1);
	assert_int_equal(sink_close(&f.sink, &err), 0);
	in = fopen(f.path, "r");
	assert_non_null(in);
	n = fread(text, 1, sizeof(text) - 1, in);
	text[n] = '\0';
	fclose(in);
	unlink(f.path);
	assert_in_range(n, BYTES / 64, BYTES / 16);
	assert_memory_equal(text, "a-7;spin (work.py:1) 2\n", 23);
	at = strstr(text, "\n[unnamed] ");
	assert_non_null(at);
	assert_int_equal(strtoul(at + 11, NULL, 10), STATS_GET(&stats, unnamed));
	n = 0;
	for (at = text; (at = strstr(at, "a-7;")); at++)
		n++;
	assert_int_equal(n + STATS_GET(&stats, unnamed), MANY);
}

/* Lines of "a-PID;...;spin (work.py:1) 1" in the output: how many, of which number each. */
static size_t lines_of_processes(const char *path, bool *seen, size_t n_seen)
{
	FILE *in = fopen(path, "r");
	char *line = NULL;
	size_t cap = 0, n = 0;
	unsigned pid;

	while (getline(&line, &cap, in) > 0) {
		assert_int_equal(1, sscanf(line, "a-%u;", &pid));
		assert_in_range(pid, 0, n_seen - 1);
		assert_false(seen[pid]);
		assert_non_null(strstr(line, ";spin (work.py:1) 1\n"));
		seen[pid] = true;
		n++;
	}
	free(line);
	fclose(in);
	return n;
}

/* Processes without end whose stacks are equal: of each no more is kept than whose it is, and
 * that in a few bytes once it has ended. */
static void many_processes_have_one_stack(void **state)
{
	enum { MANY = 20000, DEEP = 100, BYTES = 3 << 20 };
	static bool seen[MANY];
	struct err err = { 0 };
	struct frame deep[DEEP];
	struct stats stats = { .lost = 0 };
	struct fixture f;

	(void)state;
	begin(&f, SESSION_LINES, 1);
	f.session.memory = BYTES;
	f.session.stats = &stats;
	for (int i = 0; i < DEEP; i++) {
		deep[i] = plain[0];
		deep[i].line = 1 + i;
	}
	comm(&f, 1, 1, "a");
	for (pid_t pid = 2; pid < MANY; pid++) {
		struct side side = {
			.kind = SIDE_FORK, .pid = pid, .tid = pid, .u.fork = { 1, 1 }
		};

		assert_int_equal(f.sink.ops->side(&f.sink, &side), 0);
		put(&f, (struct sample){ .pid = pid, .tid = pid }, deep, DEEP);
		side.kind = SIDE_EXIT;
		assert_int_equal(f.sink.ops->side(&f.sink, &side), 0);
	}
	assert_int_equal(STATS_GET(&stats, unnamed), 0);
	assert_int_equal(sink_close(&f.sink, &err), 0);
	assert_int_equal(lines_of_processes(f.path, seen, MANY), MANY - 2);
	unlink(f.path);
}

static void put_same(struct fixture *f, struct sample smp, const struct frame *fr, size_t n,
		     uint32_t same)
{
	struct stack stk = { n, fr, same };

	assert_int_equal(f->sink.ops->sample(&f->sink, &smp, &stk), 0);
}

/* Of stacks of one number only the first one's frames count. */
static void numbers_stand_for_stacks(void **state)
{
	struct fixture f;

	begin(&f, 0, 1);
	put_same(&f, sample, plain, 1, 1);
	put_same(&f, sample, NULL, 0, 1);
	put_same(&f, sample, frames + 2, 1, 3);
	put_same(&f, sample, frames + 5, 1, 5000);
	put_same(&f, sample, NULL, 0, 5000);
	put_same(&f, sample, plain, 1, 2); /* another one that is equal */
	put_same(&f, sample, NULL, 0, 0);  /* no number */
	put_same(&f, sample, plain, 1, 0);
	put_same(&f, sample, NULL, 0, 3);
	assert_string_equal(end(&f), "?-10;spin (work.py) 4\n?-10;[late] 2\n"
				     "?-10;[unknown] 2\n?-10 1\n");
}

/* Waits count in microseconds, to the nearest one. */
static void waits_are_times(void **state)
{
	static const struct {
		uint64_t ns;
		unsigned us;
	} rows[] = { { 499, 0 }, { 500, 1 }, { 1499, 1 }, { 1500, 2 }, { 7000000, 7000 } };
	char want[256], *to = want;
	struct fixture f;

	begin(&f, SESSION_WALL | SESSION_LINES, 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct frame fr = plain[0];
		struct sample smp = sample;

		fr.line = (int)i + 1;
		smp.period = rows[i].ns;
		put(&f, smp, &fr, 1);
		if (rows[i].us)
			to += sprintf(to, "?-10;spin (work.py:%zu) %u\n", i + 1, rows[i].us);
	}
	assert_string_equal(end(&f), want);
}

/* Samples at 299 Hz are each half a microsecond longer than a whole number, which adds up. */
static void rests_of_times_add_up(void **state)
{
	struct fixture f;

	begin(&f, SESSION_WALL | SESSION_LINES, 1);
	for (int i = 0; i < 400; i++) {
		struct frame fr = plain[0];
		struct sample smp = sample;

		fr.line = 1 + i % 2;
		smp.period = 3344481;
		put(&f, smp, &fr, 1);
	}
	assert_string_equal(end(&f), "?-10;spin (work.py:1) 668896\n?-10;spin (work.py:2) 668896\n");
}

static void put_event(struct fixture *f, uint32_t event, uint64_t period, int line)
{
	struct frame fr = plain[0];
	struct sample smp = sample;

	fr.line = line;
	smp.event = event;
	smp.period = period;
	put(f, smp, &fr, 1);
}

/* Each event's own: the first one's period adapts, the second one is a clock, the third one's
 * is fixed. */
static void events_weigh_apart(void **state)
{
	struct fixture f;

	begin(&f, SESSION_LINES, 3);
	f.session.events[0].attr.freq = 1;
	f.session.events[1].attr.freq = 1;
	f.session.events[1].attr.type = PERF_TYPE_SOFTWARE;
	f.session.events[1].attr.config = PERF_COUNT_SW_CPU_CLOCK;
	for (int i = 0; i < 3; i++) {
		put_event(&f, 0, 100, 1);
		put_event(&f, 1, 100, 1);
		put_event(&f, 2, 100, 1);
		put_event(&f, 1, 900, 2);
	}
	put_event(&f, 2, 900, 2);
	for (int i = 0; i < 3; i++)
		put_event(&f, 0, 500, 2); /* a sixth and five sixths of six */
	assert_string_equal(end(&f), "?-10;event:cycles;spin (work.py:1) 1\n"
				     "?-10;event:cycles;spin (work.py:2) 5\n"
				     "?-10;event:a:b;spin (work.py:1) 3\n"
				     "?-10;event:a:b;spin (work.py:2) 3\n"
				     "?-10;event:;spin (work.py:1) 3\n"
				     "?-10;event:;spin (work.py:2) 1\n");
}

/* A copy tells what there is so far; the end is as if there had been none. */
static void copies_change_nothing(void **state)
{
	struct fixture f;
	FILE *out;

	begin(&f, SESSION_LINES, 2);
	f.session.events[0].attr.freq = 1;
	for (int i = 0; i < 3; i++) {
		char *text = NULL;
		size_t n;

		put_event(&f, 0, 100, 1);
		put_event(&f, 1, 100, 1);
		out = f.sink.out;
		f.sink.out = open_memstream(&text, &n);
		assert_int_equal(0, f.sink.ops->copy(&f.sink));
		fclose(f.sink.out);
		f.sink.out = out;
		snprintf(f.text, sizeof(f.text),
			 "?-10;event:cycles;spin (work.py:1) %d\n"
			 "?-10;event:a:b;spin (work.py:1) %d\n",
			 i + 1, i + 1);
		assert_string_equal(f.text, text);
		free(text);
	}
	assert_string_equal(end(&f), "?-10;event:cycles;spin (work.py:1) 3\n"
				     "?-10;event:a:b;spin (work.py:1) 3\n");
}

/* What has failed once takes nothing more. */
static void failed_is_failed(void **state)
{
	struct fixture f;
	struct err err = {};
	struct stack stk = { 1, plain, 0 };

	begin(&f, 0, 1);
	f.sink.failed = -EIO;
	assert_int_equal(-EIO, f.sink.ops->sample(&f.sink, &sample, &stk));
	assert_int_equal(0, f.sink.samples);
	comm(&f, 10, 10, "py"); /* is followed all the same */
	assert_int_equal(-EIO, sink_close(&f.sink, &err));
	unlink(f.path);
}

/* A thread that gives itself name after name takes no room from functions of other processes. */
static void names_of_threads_leave_room_for_functions(void **state)
{
	struct frame one = { .kind = FRAME_PYTHON, .func = &spin, .line = 7 };
	struct stats stats = { 0 };
	struct fixture f;
	const char *text;
	char name[16];

	begin(&f, SESSION_LINES, 1);
	f.session.memory = 16 << 20;
	f.session.stats = &stats;
	comm(&f, 7, 7, "other");
	for (int i = 0; i < 300000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		comm(&f, 10, 10, name);
		if (i % 50000 == 0)
			put(&f, sample, NULL, 0);
	}
	put(&f, sample, NULL, 0);
	put(&f, (struct sample){ .pid = 7, .tid = 7 }, &one, 1);
	text = end(&f);
	assert_non_null(strstr(text, "other-7;spin (work.py:7) 1\n"));
	assert_non_null(strstr(text, "n0-10 1\n"));
	assert_non_null(strstr(text, "[unnamed]-10 "));
	assert_in_range(STATS_GET(&stats, unnamed), 100000, 299999); /* names of the thread */
}

/* Of each event what there was no room for is a line of its own. */
static void unnamed_of_each_event(void **state)
{
	struct stats stats = { 0 };
	struct fixture f;
	const char *text;
	char want[128];

	begin(&f, SESSION_LINES, 2);
	f.session.memory = 1;
	f.session.stats = &stats;
	put_event(&f, 0, 1, 1); /* there is no room from the second one on */
	for (int i = 0; i < 5; i++)
		put_event(&f, 1, 1, 1);
	put_event(&f, 0, 1, 2);
	put_event(&f, 0, 1, 1);
	text = end(&f);
	snprintf(want, sizeof(want),
		 "?-10;event:cycles;spin (work.py:1) 2\n"
		 "[unnamed];event:cycles 1\n[unnamed];event:a:b 5\n");
	assert_string_equal(text, want);
	assert_int_equal(6, STATS_GET(&stats, unnamed));
}

/* Lines of processes that have ended are packed; those of one that lives, and of one of which
 * nothing is known, stay one. */
static void what_lives_is_one_line(void **state)
{
	enum { MANY = 30000, LIVES = 100000, UNKNOWN = 100001, EACH = 1000 };
	struct err err = { 0 };
	struct fixture f;
	unsigned lives = 0, unknown = 0, ended = 0;
	char line[256];
	FILE *in;

	begin(&f, 0, 1);
	f.session.events[0].attr.freq = 1; /* which all are shared out by */
	comm(&f, 1, 1, "a");
	comm(&f, LIVES, LIVES, "lives");
	for (pid_t pid = 2; pid < MANY + 2; pid++) {
		struct side side = { .kind = SIDE_FORK, .pid = pid, .tid = pid };
		struct sample smp = { .pid = pid, .tid = pid, .period = 10 };

		side.u.fork.ppid = side.u.fork.ptid = 1;
		assert_int_equal(f.sink.ops->side(&f.sink, &side), 0);
		put(&f, smp, plain, 1);
		side.kind = SIDE_EXIT;
		assert_int_equal(f.sink.ops->side(&f.sink, &side), 0);
		if (pid % EACH)
			continue;
		smp.pid = smp.tid = LIVES;
		put(&f, smp, plain, 1);
		smp.pid = smp.tid = UNKNOWN;
		put(&f, smp, plain, 1);
	}
	assert_int_equal(sink_close(&f.sink, &err), 0);
	in = fopen(f.path, "r");
	while (fgets(line, sizeof(line), in)) {
		if (!strncmp(line, "lives", 5)) {
			assert_string_equal("lives-100000;spin (work.py) 30\n", line);
			lives++;
		} else if (*line == '?') {
			assert_string_equal("?-100001;spin (work.py) 30\n", line);
			unknown++;
		} else {
			assert_non_null(strstr(line, ";spin (work.py) 1\n"));
			ended++;
		}
	}
	fclose(in);
	unlink(f.path);
	assert_int_equal(1, lives);
	assert_int_equal(1, unknown);
	assert_int_equal(MANY, ended);
}

/* Its name is read after its first sample, and lines of others are packed between. */
static void a_thread_has_one_name_though_lines_are_packed(void **state)
{
	enum { MANY = 10000, LIVES = 100000, ENDED = 2 };
	struct sample live = { .pid = LIVES, .tid = LIVES + 1, .period = 1 };
	struct side side = { .kind = SIDE_FORK };
	struct err err = { 0 };
	struct fixture f;
	char line[256];
	int named = 0;
	FILE *in;

	begin(&f, SESSION_THREADS, 1);
	comm(&f, 1, 1, "a");
	comm(&f, LIVES, LIVES, "lives");
	comm(&f, LIVES, LIVES + 1, "lives");
	side.u.fork.ppid = side.u.fork.ptid = 1;
	for (pid_t pid = ENDED; pid < MANY; pid++) {
		struct sample smp = { .pid = pid, .tid = pid, .period = 1 };

		if (pid == MANY / 8)
			put(&f, live, plain, 1);
		side.kind = SIDE_FORK;
		side.pid = side.tid = pid;
		assert_int_equal(f.sink.ops->side(&f.sink, &side), 0);
		put(&f, smp, plain, 1);
		side.kind = SIDE_EXIT;
		assert_int_equal(f.sink.ops->side(&f.sink, &side), 0);
	}
	side = (struct side){ .kind = SIDE_COMM, .pid = LIVES, .tid = LIVES + 1 };
	side.u.comm = (typeof(side.u.comm)){ .name = "worker", .thread = true };
	assert_int_equal(f.sink.ops->side(&f.sink, &side), 0);
	put(&f, live, plain, 1);
	assert_int_equal(sink_close(&f.sink, &err), 0);
	in = fopen(f.path, "r");
	while (fgets(line, sizeof(line), in))
		if (!strncmp(line, "lives", 5)) {
			assert_string_equal("lives-100000/worker-100001;spin (work.py) 2\n",
					    line);
			named++;
		}
	fclose(in);
	unlink(f.path);
	assert_int_equal(1, named);
}

/* --- without memory --- */

/* Samples of two threads in many stacks, some equal, whose names come late. 0, or the first
 * error. */
static int write_some(struct fixture *f)
{
	static const struct pyfunc other = { .qualname = "rest", .file = "b/work.py", .index = 9 };
	struct side comm = { .kind = SIDE_COMM, .pid = 10, .tid = 10, .u.comm.name = "app" };
	struct side title = { .kind = SIDE_COMM, .pid = 10, .tid = 11 };
	struct err err = { 0 };
	int ret;

	*f = (struct fixture){ .session = { .flags = SESSION_THREADS | SESSION_LINES,
					    .n_events = 1 } };
	strcpy(f->session.events[0].name, "cycles");
	snprintf(f->path, sizeof(f->path), "/tmp/folded_test.%d.txt", getpid());
	title.u.comm = (typeof(title.u.comm)){ .name = "worker", .thread = true };
	ret = sink_open(&f->sink, sink_pick(NULL, f->path), f->path, &f->session, &err);
	if (ret)
		return ret;
	ret = f->sink.ops->side(&f->sink, &comm);
	for (uint32_t i = 0; !ret && i < 40; i++) {
		struct frame fr[] = {
			{ .kind = FRAME_PYTHON, .func = &other, .line = (int)i / 2 },
			{ .kind = FRAME_PYTHON, .func = &spin, .line = (int)i + 1 },
			{ .kind = FRAME_NATIVE, .name = i % 3 ? "f" : "g" },
		};

		ret = f->sink.ops->sample(&f->sink, &sample,
					  &(struct stack){ 3, fr, .same = i / 2 });
		if (!ret && i == 20)
			ret = f->sink.ops->side(&f->sink, &title);
	}
	return sink_close(&f->sink, &err) ? -1 : ret;
}

static void read_back(struct fixture *f)
{
	FILE *in = fopen(f->path, "r");

	memset(f->text, 0, sizeof(f->text));
	if (in) {
		f->text[fread(f->text, 1, sizeof(f->text) - 1, in)] = '\0';
		fclose(in);
	}
	unlink(f->path);
}

/* Whichever allocation fails, all is written or an error is told. */
static void memory_runs_out(void **state)
{
	static struct fixture whole, f;

	assert_int_equal(write_some(&whole), 0);
	read_back(&whole);
	for (int alone = 0; alone < 2; alone++)
		for (long n = 1, more = NO_MEMORY_FAILS; more; n++) {
			int ret;

			no_memory_from(n, alone);
			ret = write_some(&f);
			more = no_memory_end();
			read_back(&f);
			if (!ret)
				assert_string_equal(whole.text, f.text);
			assert_true(more || n > 20);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_threads_leave_room_for_functions),
		cmocka_unit_test(memory_runs_out),
		cmocka_unit_test(many_processes_have_one_stack),
		cmocka_unit_test(stacks_are_added_up),
		cmocka_unit_test(bounded),
		cmocka_unit_test(lines_are_left_out),
		cmocka_unit_test(files_are_short),
		cmocka_unit_test(names_in_several_files),
		cmocka_unit_test(places_are_named),
		cmocka_unit_test(threads_have_their_names),
		cmocka_unit_test(early_samples_are_of_the_thread_as_it_is_called),
		cmocka_unit_test(events_are_not_mixed),
		cmocka_unit_test(as_many_events_as_there_may_be),
		cmocka_unit_test(stacks_of_nobody_begin_with_a_frame),
		cmocka_unit_test(provenance_is_filtered),
		cmocka_unit_test(many_stacks),
		cmocka_unit_test(full_disk_has_a_sentence),
		cmocka_unit_test(no_room_is_counted),
		cmocka_unit_test(no_room_on_standard_output),
		cmocka_unit_test(formats_are_picked),
		cmocka_unit_test(text_is_for_everybody),
		cmocka_unit_test(adapted_periods_weigh),
		cmocka_unit_test(shares_are_whole),
		cmocka_unit_test(many_small_shares_add_up),
		cmocka_unit_test(numbers_stand_for_stacks),
		cmocka_unit_test(waits_are_times),
		cmocka_unit_test(rests_of_times_add_up),
		cmocka_unit_test(events_weigh_apart),
		cmocka_unit_test(copies_change_nothing),
		cmocka_unit_test(failed_is_failed),
		cmocka_unit_test(unnamed_of_each_event),
		cmocka_unit_test(what_lives_is_one_line),
		cmocka_unit_test(a_thread_has_one_name_though_lines_are_packed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
