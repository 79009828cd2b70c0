/* SPDX-License-Identifier: MIT
 *
 * mkperfdata - writes a recording of made-up stacks through the sink interface.
 *
 * usage: mkperfdata OUT [--kill] [--deep N] [--events N] [--samples N] [--no-kernel]
 *        [--src FOLDER] [--distinct N] [--compress LEVEL]; OUT - is perf.data down a pipe
 *
 * The process is this one, its maps are the true ones. Every tenth sample is of the
 * second thread, every seventh is late; --kill ends without closing; --distinct: so many
 * different stacks, by lines.
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "modules/space.h"
#include "sys/proc_maps.h"
#include "../../output/sink.h"

enum { NS_PER_MS = 1000000, CHILD = 1 };

static char main_py[4096] = "/srv/app/main.py", work_py[4096] = "/srv/app/work.py";
static const struct pyfunc module = { "<module>", main_py, 1, 0, 40, 0 };
static const struct pyfunc handle = {
	"Server.handle.<locals>.<lambda>", main_py, 20, 20, 29, 1
};
static const struct pyfunc spin = { "spin", work_py, 5, 5, 14, 2 };
static const struct pyfunc odd = {
	"gr\303\266\303\237e;(x)", "<frozen importlib._bootstrap>", 100, 100, 120, 3
};

static size_t distinct;
static struct session session = { .capture = "preempt", .capture_why = "" };

static void fail(const char *what, const struct err *err)
{
	fprintf(stderr, "mkperfdata: %s: %s\n", what, err->text);
	exit(1);
}

static void set_events(size_t n, bool kernel)
{
	static const char *const names[] = { "cpu-clock", "page-faults", "context-switches" };
	static const uint64_t config[] = { PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_PAGE_FAULTS,
					   PERF_COUNT_SW_CONTEXT_SWITCHES };

	session.n_events = n;
	session.flags = kernel ? SESSION_KERNEL | SESSION_LINES : SESSION_LINES;
	for (size_t i = 0; i < n; i++) {
		struct perf_event_attr *a = &session.events[i].attr;

		snprintf(session.events[i].name, sizeof(session.events[i].name), "%s",
			 names[i % 3]);
		a->type = PERF_TYPE_SOFTWARE;
		a->size = sizeof(*a);
		a->config = config[i % 3];
		a->freq = i == 0;
		a->sample_period = i == 0 ? 99 : 1;
		a->exclude_kernel = !kernel;
		a->sample_type = PERF_SAMPLE_IP | (i == 1 ? PERF_SAMPLE_ADDR : 0);
		a->branch_sample_type = 1;
		a->sample_stack_user = 4096;
	}
}

/* The names, then the maps, as they are. Returns an address of libc or ourselves. */
static void put_process(struct sink *s, uint64_t t)
{
	struct side side = { .kind = SIDE_COMM, .time = t, .pid = getpid(), .tid = getpid() };
	struct spaces *spaces = spaces_create(1 << 20, SPACES_IDS);
	struct proc_maps maps;

	side.u.comm.name = "python3";
	s->ops->side(s, &side);
	side.tid = getpid() + CHILD;
	side.u.comm.name = "worker";
	s->ops->side(s, &side);
	if (!spaces || proc_maps_read(&maps, getpid()))
		exit(1);
	for (size_t i = 0; i < maps.n; i++) {
		const struct proc_map *m = &maps.map[i];
		struct side map = { .kind = SIDE_MMAP, .pid = getpid(), .tid = getpid() };

		if (!m->x || !*m->path || !strcmp(m->path, "[vsyscall]"))
			continue;
		map.u.mmap.addr = m->start;
		map.u.mmap.len = m->end - m->start;
		map.u.mmap.pgoff = m->pgoff;
		map.u.mmap.ino = m->ino;
		map.u.mmap.maj = m->maj;
		map.u.mmap.min = m->min;
		map.u.mmap.prot = 5;
		map.u.mmap.flags = 2;
		map.u.mmap.path = m->path;
		spaces_side(spaces, &map); /* without the time, which is made up */
		map.time = t;
		s->ops->side(s, &map);
	}
	spaces_destroy(spaces);
	proc_maps_deinit(&maps);
}

static uint64_t kernel_text(void)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	unsigned long long addr = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, " _stext\n"))
			addr = strtoull(line, NULL, 16);
	if (f)
		fclose(f);
	return addr;
}

/* Frames whose lines tell @number. */
static size_t put_number(struct frame *frames, size_t number)
{
	size_t n = 0;

	for (; number; number /= 8)
		frames[n++] = (struct frame){ .kind = FRAME_PYTHON,
					      .func = &handle,
					      .line = 20 + (int)(number % 8) };
	return n;
}

static void put_sample(struct sink *s, uint64_t t, unsigned i, size_t deep, uint64_t kernel)
{
	struct sample smp = { .time = t,
			      .period = 1000,
			      .pid = getpid(),
			      .cpu = i % 2,
			      .event = (uint32_t)(i % session.n_events) };
	struct frame *frames = calloc(deep + 32, sizeof(*frames));
	size_t n = 0;

	smp.tid = getpid() + (i % 10 == 9 ? CHILD : 0);
	smp.prov = i % 7 == 6 ? PROV_LATE : PROV_EXACT;
	if (kernel && i % 4 == 3)
		frames[n++] = (struct frame){ .kind = FRAME_KERNEL,
					      .ip = kernel + 64,
					      .name = "fake_[k]" };
	frames[n++] = (struct frame){ .kind = FRAME_NATIVE,
				      .ip = (uint64_t)(uintptr_t)put_sample,
				      .name = "put_sample" };
	if (smp.prov == PROV_LATE)
		frames[n++] = (struct frame){ .kind = FRAME_MARKER, .name = "[late]" };
	n += distinct ? put_number(frames + n, i % distinct) : 0;
	for (size_t d = 0; d < deep; d++)
		frames[n++] =
			(struct frame){ .kind = FRAME_PYTHON, .func = &odd, .line = 111 };
	frames[n++] = (struct frame){ .kind = FRAME_PYTHON,
				      .func = &spin,
				      .line = 5 + (int)(i % 2) };
	frames[n++] = (struct frame){ .kind = FRAME_PYTHON, .func = &handle, .line = 29 };
	frames[n++] = (struct frame){ .kind = FRAME_PYTHON, .func = &module, .line = 40 };
	s->ops->sample(s, &smp, &(struct stack){ n, frames });
	free(frames);
}

static void put_ends(struct sink *s, uint64_t t)
{
	struct side side = { .kind = SIDE_FORK,
			     .time = t,
			     .pid = getpid() + 1000,
			     .tid = getpid() + 1000,
			     .u.fork = { getpid(), getpid() } };
	struct sample smp = {
		.time = t + 1, .period = 1000, .pid = side.pid, .tid = side.pid
	};
	struct frame frame = { .kind = FRAME_PYTHON, .func = &spin, .line = 14 };

	s->ops->side(s, &side);
	s->ops->sample(s, &smp, &(struct stack){ 1, &frame });
	side.kind = SIDE_EXIT;
	side.time += 2;
	s->ops->side(s, &side);
	side = (struct side){ .kind = SIDE_LOST, .time = t + 3, .u.lost.n = 5 };
	s->ops->side(s, &side);
	side.kind = SIDE_THROTTLE;
	s->ops->side(s, &side);
}

struct options {
	size_t deep, events, samples;
	bool killed, kernel;
	int compress;
};

static struct options parse(int argc, char **argv)
{
	struct options o = { .events = 1, .samples = 100, .kernel = true };

	for (int i = 2; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--kill"))
			o.killed = true;
		else if (!strcmp(argv[i], "--no-kernel"))
			o.kernel = false;
		else if (!strcmp(argv[i], "--compress"))
			o.compress = atoi(value);
		else if (!strcmp(argv[i], "--deep"))
			o.deep = strtoul(value, NULL, 10);
		else if (!strcmp(argv[i], "--events"))
			o.events = strtoul(value, NULL, 10);
		else if (!strcmp(argv[i], "--samples"))
			o.samples = strtoul(value, NULL, 10);
		else if (!strcmp(argv[i], "--distinct"))
			distinct = strtoul(value, NULL, 10);
		else if (!strcmp(argv[i], "--src")) {
			snprintf(main_py, sizeof(main_py), "%s/main.py", value);
			snprintf(work_py, sizeof(work_py), "%s/work.py", value);
		}
	}
	return o;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	uint64_t t = 1000 * (uint64_t)NS_PER_MS, text = o.kernel ? kernel_text() : 0;
	struct sink sink;
	struct err err = {};

	signal(SIGXFSZ, SIG_IGN);
	set_events(o.events, text != 0);
	session.compress = o.compress;
	session.argc = argc;
	session.argv = argv;
	if (argc < 2 ||
	    sink_open(&sink, sink_pick(strcmp(argv[1], "-") ? NULL : "perf", argv[1]), argv[1],
		      &session, &err))
		fail("open", &err);
	put_process(&sink, t);
	for (unsigned i = 0; i < o.samples; i++) {
		put_sample(&sink, t += NS_PER_MS, i, o.deep, text);
		if (i % 16 == 15 && sink.ops->round)
			sink.ops->round(&sink);
	}
	if (o.killed) {
		usleep(250 * 1000);
		sink.ops->round(&sink);
		raise(SIGKILL);
	}
	put_ends(&sink, t + NS_PER_MS);
	if (sink_close(&sink, &err))
		fail("close", &err);
	fprintf(stderr, "samples=%ju cut=%ju\n", (uintmax_t)sink.samples, (uintmax_t)sink.cut);
	return 0;
}
