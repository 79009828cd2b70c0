/* SPDX-License-Identifier: MIT
 *
 * flamegraph_test - what the amounts in a page and an image are said to be.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"
#include "base/stats.h"
#include "../../output/sink.h"

static const struct pyfunc spin = { "spin", "/srv/work.py", 5, 5, 14, 0 };
static char text[1 << 16]; /* of the file that was written last */

/* @n samples of @event, each of which stands for 1.5 ms or 1,500,000 occurrences. */
static void draw_samples(int n, const char *extension, const char *event, unsigned flags,
			 bool clock)
{
	const struct frame fr = { .kind = FRAME_PYTHON, .func = &spin, .line = 7 };
	const struct sample smp = { .pid = 10, .tid = 10, .period = 1500000 };
	struct session session = { .flags = flags, .n_events = 1 };
	char path[64] = "/tmp/flamegraph_test.XXXXXX";
	int fd = mkstemp(path);
	struct stats stats = { 0 };
	struct sink s;
	struct err err;
	FILE *in;

	assert_true(fd >= 0);
	close(fd);
	unlink(path);
	strcat(path, extension);
	session.stats = &stats;
	session.events[0].attr.type = clock ? PERF_TYPE_SOFTWARE : PERF_TYPE_HARDWARE;
	session.events[0].attr.sample_period = 1500000;
	strcpy(session.events[0].name, event);
	assert_int_equal(sink_open(&s, sink_pick(NULL, path), path, &session, &err), 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(s.ops->sample(&s, &smp, &(struct stack){ 1, &fr }), 0);
	assert_int_equal(sink_close(&s, &err), 0);
	in = fopen(path, "r");
	text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
	fclose(in);
	unlink(path);
}

static void draw(const char *extension, const char *event, unsigned flags, bool clock)
{
	draw_samples(2, extension, event, flags, clock);
}

static void has(const char *what)
{
	if (!strstr(text, what))
		fail_msg("there is no '%s'", what);
}

static void an_image_says_of_what_its_amounts_are(void **state)
{
	draw(".svg", "cycles", 0, false);
	has(">2 samples of cycles</text>");
	has("<title>all: 2 samples, 100.0 %</title>");
	has("<title>spin (/srv/work.py): 2 samples, 100.0 %</title>");
	draw(".svg", "cpu-clock", SESSION_PERIOD, true);
	has(">3.0 ms of cpu-clock</text>");
	has("<title>all: 3.0 ms, 2 samples, 100.0 %</title>");
	draw(".svg", "a<b", SESSION_PERIOD, false);
	has(">3000000 a&#60;b</text>");
	has("<title>all: 3000000 a&#60;b, 2 samples, 100.0 %</title>");
	has("<title>spin (/srv/work.py): 3000000 a&#60;b, 100.0 %</title>");
	draw_samples(1, ".svg", "cycles", 0, false);
	has("<title>all: 1 samples, 100.0 %</title>");
	has("<title>spin (/srv/work.py): 1 sample, 100.0 %</title>");
	draw_samples(11, ".svg", "cycles", 0, false);
	has("<title>spin (/srv/work.py): 11 samples, 100.0 %</title>");
	(void)state;
}

static void a_page_says_of_what_its_amounts_are(void **state)
{
	draw(".html", "cycles", 0, false);
	has("{\"title\":\"pysampled: 2 samples of cycles\"");
	has("\"units\":[\"samples\"]");
	has("\"rows\":[[1,0,0,0,2]]");
	draw(".html", "cpu-clock", SESSION_PERIOD, true);
	has("{\"title\":\"pysampled: 3.0 ms of cpu-clock\"");
	has("\"times\":[1]");
	draw(".html", "a<b", SESSION_PERIOD, false);
	has("{\"title\":\"pysampled: 3000000 a\\u003cb\"");
	has("\"units\":[\"a\\u003cb\"]");
	has("\"rows\":[[1,0,0,0,3000000,2]]");
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_image_says_of_what_its_amounts_are),
		cmocka_unit_test(a_page_says_of_what_its_amounts_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
