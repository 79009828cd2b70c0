/* SPDX-License-Identifier: MIT
 *
 * pprof_test - samples in, fields of profile.proto out.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "unit.h"
#include "base/stats.h"
#include "../../output/sink.h"

static const struct pyfunc spin = { "spin", "/srv/work.py", 5, 5, 14, 0 };
static const struct frame frames[] = { { .kind = FRAME_PYTHON, .func = &spin, .line = 7 },
				       { .kind = FRAME_PYTHON, .func = &spin, .line = 9 } };

struct fixture {
	struct session session;
	struct stats stats;
	struct sink sink;
	char path[64];
	unsigned char bytes[1 << 16]; /* of the profile, unpacked */
	size_t n;
};

static void begin(struct fixture *f)
{
	struct err err;
	int fd;

	*f = (struct fixture){ .session = { .flags = SESSION_LINES, .n_events = 1 } };
	f->session.stats = &f->stats;
	strcpy(f->session.events[0].name, "page-faults");
	strcpy(f->path, "/tmp/pprof_test.XXXXXX");
	fd = mkstemp(f->path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(sink_open(&f->sink, sink_pick("pprof", f->path), f->path, &f->session, &err),
			 0);
}

static void put(struct fixture *f, struct sample smp, size_t frame)
{
	smp.pid = smp.tid = 10;
	assert_int_equal(
		f->sink.ops->sample(&f->sink, &smp, &(struct stack){ 1, &frames[frame] }), 0);
}

/* Write the profile, and read it. */
static void end(struct fixture *f)
{
	struct err err;
	gzFile in;
	int n;

	assert_int_equal(sink_close(&f->sink, &err), 0);
	in = gzopen(f->path, "r");
	n = gzread(in, f->bytes, sizeof(f->bytes));
	assert_true(n > 0 && (size_t)n < sizeof(f->bytes));
	f->n = (size_t)n;
	gzclose(in);
	unlink(f->path);
}

static uint64_t varint(struct bytes *b)
{
	uint64_t ret = 0;

	for (unsigned shift = 0; b->n; shift += 7) {
		unsigned char c = *b->at++;

		b->n--;
		ret |= (uint64_t)(c & 127) << shift;
		if (c < 128)
			break;
	}
	return ret;
}

/* The next field of a message, its number in *@v or its bytes in *@part. 0: there is none. */
static unsigned next_field(struct bytes *b, uint64_t *v, struct bytes *part)
{
	uint64_t tag = b->n ? varint(b) : 0;

	*part = (struct bytes){ 0 };
	*v = tag ? varint(b) : 0;
	if (!(tag & 7))
		return (unsigned)(tag >> 3);
	assert_int_equal(tag & 7, 2);
	assert_true(*v <= b->n);
	*part = (struct bytes){ b->at, *v };
	b->at += *v;
	b->n -= *v;
	return (unsigned)(tag >> 3);
}

/* The numbers of each sample, in parentheses: of samples, and of the event. */
static const char *values(const struct fixture *f)
{
	static char ret[1024];
	struct bytes all = { f->bytes, f->n }, sample, part;
	uint64_t v;
	size_t n = 0;

	*ret = '\0';
	for (unsigned field; (field = next_field(&all, &v, &sample));) {
		if (field != 2)
			continue;
		while ((field = next_field(&sample, &v, &part)))
			for (bool first = true; part.n && field == 2; first = false) {
				v = varint(&part);
				n += (size_t)snprintf(ret + n, sizeof(ret) - n, "%s%" PRIu64 "%s",
						      first ? "(" : " ", v, part.n ? "" : ")");
			}
	}
	return ret;
}

/* The profile's own field @wanted, in *@part or as a number. */
static uint64_t own(const struct fixture *f, unsigned wanted, struct bytes *part)
{
	struct bytes all = { f->bytes, f->n };
	uint64_t v;

	for (unsigned field; (field = next_field(&all, &v, part));)
		if (field == wanted)
			return v;
	return 0;
}

/* Of string @i of its table: true, it is @want. */
static bool is_text(const struct fixture *f, uint64_t i, const char *want)
{
	struct bytes all = { f->bytes, f->n }, part;
	uint64_t v;

	for (unsigned field; (field = next_field(&all, &v, &part));)
		if (field == 6 && !i--)
			return part.n == strlen(want) && !memcmp(part.at, want, part.n);
	return false;
}

/* "page-faults", "count": one sample for so many. */
static void has_period(const struct fixture *f, const char *unit, uint64_t period)
{
	enum { PERIOD_TYPE = 11, PERIOD };
	struct bytes type, part;
	uint64_t v;

	own(f, PERIOD_TYPE, &type);
	assert_int_equal(next_field(&type, &v, &part), 1);
	assert_true(is_text(f, v, "page-faults"));
	assert_int_equal(next_field(&type, &v, &part), 2);
	assert_true(is_text(f, v, unit));
	assert_int_equal(own(f, PERIOD, &part), period);
}

static void it_tells_its_time(void **state)
{
	enum { TIME = 9, DURATION };
	struct fixture f;
	struct bytes none;

	for (int known = 0; known < 2; known++) {
		begin(&f);
		f.session.epoch_ns = known ? 1000000 : 0;
		put(&f, (struct sample){ .time = 5000, .period = 1 }, 0);
		put(&f, (struct sample){ .time = 7000, .period = 1 }, 0);
		end(&f);
		assert_int_equal(own(&f, TIME, &none), known ? 1005000 : 0);
		assert_int_equal(own(&f, DURATION, &none), 2000);
	}
	(void)state;
}

static void it_tells_a_period_that_is_fixed(void **state)
{
	static const struct {
		struct perf_event_attr attr;
		const char *unit; /* NULL: the period is not known */
		uint64_t period;
	} rows[] = {
		{ { .type = PERF_TYPE_HARDWARE, .sample_period = 500 }, "count", 500 },
		{ { .type = PERF_TYPE_SOFTWARE, .freq = 1, .sample_freq = 100 }, "nanoseconds", 10000000 },
		{ { .type = PERF_TYPE_SOFTWARE, .sample_period = 70 }, "nanoseconds", 70 },
		{ { .type = PERF_TYPE_HARDWARE, .freq = 1, .sample_freq = 100 }, NULL, 0 },
		{ { .type = PERF_TYPE_SOFTWARE, .freq = 1 }, NULL, 0 },
		{ { .type = PERF_TYPE_SOFTWARE }, NULL, 0 },
	};
	struct fixture f;
	struct bytes part;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		begin(&f);
		f.session.events[0].attr = rows[i].attr;
		put(&f, (struct sample){ .period = 1 }, 0);
		end(&f);
		if (rows[i].unit)
			has_period(&f, rows[i].unit, rows[i].period);
		else
			assert_true(!own(&f, 11, &part) && !own(&f, 12, &part));
	}
	(void)state;
}

/* Of a row that gets none of the samples, for its share of the event is too small, all that the
 * event counted stays. */
static void no_count_of_an_event_is_lost(void **state)
{
	struct fixture f;

	begin(&f);
	f.session.events[0].attr =
		(struct perf_event_attr){ .freq = 1, .type = PERF_TYPE_HARDWARE };
	put(&f, (struct sample){ .period = 1 }, 0);
	for (int i = 0; i < 2; i++)
		put(&f, (struct sample){ .period = 1000 }, 1);
	end(&f);
	assert_string_equal(values(&f), "(0 1)(3 2000)");
	(void)state;
}

/* Each line of theirs is one sample here; one that counts nothing is left out. */
static void folded_stacks_are_as_many_samples_as_they_count(void **state)
{
	struct fixture f;

	begin(&f);
	f.session.how[0].summed = true;
	put(&f, (struct sample){ .period = 0 }, 0);
	put(&f, (struct sample){ .period = 5 }, 1);
	end(&f);
	assert_string_equal(values(&f), "(5 5)");
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_tells_its_time),
		cmocka_unit_test(it_tells_a_period_that_is_fixed),
		cmocka_unit_test(no_count_of_an_event_is_lost),
		cmocka_unit_test(folded_stacks_are_as_many_samples_as_they_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
