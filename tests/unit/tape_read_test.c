/* SPDX-License-Identifier: MIT
 *
 * tape_read_test - what outputs were given comes out of a tape again, and nothing else.
 */
#include <errno.h>
#include <stdlib.h>

#include "unit.h"
#include "../../output/tape_read.h"
#include "../fuzz/tape_story.h"
#include "base/stats.h"

static char told[4096];
static size_t n_told, lost;
static uint32_t same_told[16];
static bool led; /* the second event */
static bool probe;
static uint64_t epoch;
static uint32_t shown;
static char told_of[64]; /* session.told */

static void tell(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	n_told += (size_t)vsnprintf(told + n_told, sizeof(told) - n_told, fmt, ap);
	va_end(ap);
	assert_true(n_told < sizeof(told));
}

static void hear_map(const struct side *e)
{
	tell(" cpu=%d %s%s%d+%d %d ino=%d.%d dev=%d:%d %d %d %s", (int)e->cpu,
	     e->announced ? "before " : "", e->u.mmap.kernel ? "kernel " : "",
	     (int)e->u.mmap.addr, (int)e->u.mmap.len, (int)e->u.mmap.pgoff,
	     (int)e->u.mmap.ino, (int)e->u.mmap.ino_generation, (int)e->u.mmap.maj,
	     (int)e->u.mmap.min, (int)e->u.mmap.prot, (int)e->u.mmap.flags, e->u.mmap.path);
	if (e->u.mmap.build_id)
		tell(" id=%.*s", (int)e->u.mmap.build_id_n, e->u.mmap.build_id);
	if (e->u.mmap.file_id.n)
		tell(" file=%.*s", (int)e->u.mmap.file_id.n, e->u.mmap.file_id.at);
}

static int hear_round(struct sink *s)
{
	tell("round\n");
	return 0;
}

static int hear_side(struct sink *s, const struct side *e)
{
	tell("%d %d/%d at=%d", e->kind, e->pid, e->tid, (int)e->time);
	if (e->kind == SIDE_COMM)
		tell(" %s exec=%d thread=%d until=%d", e->u.comm.name, e->u.comm.exec,
		     e->u.comm.thread, (int)e->u.comm.until);
	else if (e->kind == SIDE_LOST)
		tell(" n=%d", (int)(lost = e->u.lost.n));
	else if (e->kind == SIDE_MMAP)
		hear_map(e);
	else if (e->kind != SIDE_THROTTLE)
		tell(" of %d/%d", e->u.fork.ppid, e->u.fork.ptid);
	tell("\n");
	return 0;
}

static int hear_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	same_told[s->samples++] = stk->same;
	tell("%d/%d at=%d cpu=%d event=%d n=%d prov=%d", smp->pid, smp->tid, (int)smp->time,
	     (int)smp->cpu, (int)smp->event, (int)smp->period, smp->prov);
	if (smp->addr)
		tell(" addr=%d", (int)smp->addr);
	if (smp->ip)
		tell(" ip=%d misc=%d", (int)smp->ip, smp->misc);
	for (size_t i = 0; i < stk->n; i++) {
		const struct frame *f = &stk->frames[i];

		if (f->kind == FRAME_PYTHON)
			tell("|%s (%s:%d) %d %d-%d #%d", f->func->qualname, f->func->file,
			     f->line, f->func->firstline, f->func->min, f->func->max,
			     (int)f->func->index);
		else
			tell("|%d@%d %s%s%s", f->kind, (int)f->ip, f->name ? f->name : "none",
			     f->file ? " of " : "", f->file ? f->file : "");
	}
	tell("\n");
	return 0;
}

static struct bytes story(size_t memory)
{
	static struct session session = { .n_events = 2,
					  .flags = SESSION_LINES,
					  .events = { { .name = "cycles" },
						      { .name = "faults",
							.attr.config = 7 } },
					  .how[0].probe = true,
					  .how[1].led = true,
					  .shown = PERF_SHOWS,
					  .epoch_ns = 1234567 };
	char *at;
	size_t n;
	FILE *out = open_memstream(&at, &n);

	session.memory = memory;
	session.told = story_told();
	story_tell(&session, out);
	fclose(out);
	return (struct bytes){ (unsigned char *)at, n };
}

/* What tape_reader_run() returned, or tape_reader_open(). */
static int hear(struct bytes file, unsigned needs, bool *cut, struct err *err)
{
	const struct sink_ops ops = {
		.needs = needs, .side = hear_side, .sample = hear_sample, .round = hear_round
	};
	struct sink s = { .ops = &ops };
	FILE *in = fmemopen((void *)(uintptr_t)file.at, file.n, "r");
	struct tape_reader *r;
	int ret;

	n_told = lost = 0;
	*told = '\0';
	ret = tape_reader_open(&r, in, "x.tape", err);
	if (!ret) {
		s.session = tape_reader_session(r);
		assert_int_equal(2, s.session->n_events);
		assert_string_equal("faults", s.session->events[1].name);
		assert_int_equal(7, s.session->events[1].attr.config);
		assert_int_equal(SESSION_LINES, s.session->flags);
		assert_false(s.session->how[0].led);
		led = s.session->how[1].led;
		probe = s.session->how[0].probe && !s.session->how[1].probe;
		epoch = s.session->epoch_ns;
		shown = s.session->shown;
		assert_in_range(s.session->told.n, 0, sizeof(told_of));
		memset(told_of, 0, sizeof(told_of));
		if (s.session->told.n)
			memcpy(told_of, s.session->told.at, s.session->told.n);
		ret = tape_reader_run(r, &s);
		*cut = tape_reader_is_cut(r);
		assert_int_equal(lost, s.session->stats->lost);
		tape_reader_close(r);
	}
	fclose(in);
	return ret;
}

#define NONE UINT32_MAX
#define FIRST                                                                      \
	"|a b;c(d)\\e (/srv/a b.py:7) 5 6-14 #0"                                   \
	"|gr\303\266\303\237e\n.\360\237\220\215 (<string>:0) 1 1-1 #1"
#define LONG                                                                       \
	"|0@1 sys_read_[k]|1@2 none|1@3 libc.so.6+0x12 of libc.so.6" FIRST                      \
	"|a b;c(d)\\e (/srv/a b.py:8) 5 6-14 #0|3@0 [late]"
#define NAMES                                                                      \
	"0 10/10 at=900 python3 exec=1 thread=0 until=0\n"                         \
	"0 10/11 at=900 wor?ker exec=0 thread=1 until=950\n"
#define MAPS                                                                       \
	"1 10/11 at=900 cpu=3 1+2 3 ino=4.5 dev=6:7 8 9 /usr/bin/python3 "         \
	"file=an id of twenty byte\n"                                              \
	"1 10/11 at=900 cpu=3 1+2 3 ino=4.5 dev=6:7 8 9 /usr/bin/python3 id=an i\n" \
	"1 -1/11 at=900 cpu=3 before kernel 1+2 3 ino=4.5 dev=6:7 8 9 "            \
	"[kernel.kallsyms]_text id=an i\n"
#define BEFORE NAMES "2 10/11 at=900 of 1/2\n"
#define AFTER                                                                      \
	"round\n5 10/11 at=900\n3 10/11 at=900 of 1/2\n4 10/11 at=900 n=5\n"

static const char whole[] =
	BEFORE "10/11 at=1001 cpu=1 event=0 n=7 prov=0" LONG "\n"
	       "10/11 at=1002 cpu=1 event=1 n=7 prov=1 addr=88" FIRST "\n"
	       "10/11 at=1003 cpu=1 event=0 n=7 prov=2 ip=77 misc=2\n"
	       "10/11 at=1004 cpu=1 event=1 n=7 prov=3 addr=88" LONG "\n"
	       "10/11 at=1005 cpu=1 event=0 n=7 prov=0" FIRST "\n"
	       "10/11 at=1006 cpu=1 event=1 n=7 prov=1 addr=88 ip=77 misc=2\n" AFTER;
static const char once[] =
	BEFORE "10/11 at=1001 cpu=1 event=0 n=7 prov=0" LONG "\n"
	       "10/11 at=1002 cpu=1 event=1 n=7 prov=1 addr=88" FIRST "\n"
	       "10/11 at=1003 cpu=1 event=0 n=7 prov=2 ip=77 misc=2\n"
	       "10/11 at=1004 cpu=1 event=1 n=7 prov=3 addr=88\n"
	       "10/11 at=1005 cpu=1 event=0 n=7 prov=0\n"
	       "10/11 at=1006 cpu=1 event=1 n=7 prov=1 addr=88 ip=77 misc=2\n" AFTER;

static void all_comes_back(void **state)
{
	struct bytes file = story(0);
	struct err err = { 0 };
	bool cut;

	assert_int_equal(0, hear(file, 0, &cut, &err));
	assert_false(cut);
	assert_true(led && probe);
	assert_int_equal(1234567, epoch);
	assert_int_equal(PERF_SHOWS, shown);
	assert_memory_equal(story_told().at, told_of, story_told().n);
	assert_string_equal(whole, told);
	assert_int_equal(same_told[0], same_told[3]);
	assert_int_not_equal(0, same_told[0]);
	assert_int_not_equal(same_told[0], same_told[1]);
	free((void *)(uintptr_t)file.at);
}

static void who_knows_stacks_gets_each_once(void **state)
{
	struct bytes file = story(0);
	struct err err = { 0 };
	bool cut;

	assert_int_equal(0, hear(file, SINK_KNOWS_STACKS, &cut, &err));
	assert_string_equal(once, told);
	free((void *)(uintptr_t)file.at);
}

static void who_needs_maps_gets_them(void **state)
{
	struct bytes file = story(0);
	struct err err = { 0 };
	bool cut;

	assert_int_equal(0, hear(file, SINK_NEEDS_IDS, &cut, &err));
	assert_memory_equal(NAMES MAPS, told, strlen(NAMES MAPS));
	assert_string_equal(whole + strlen(NAMES), told + strlen(NAMES MAPS));
	free((void *)(uintptr_t)file.at);
}

/* No stack can be known: each sample has its own. */
static void without_memory_samples_have_their_stacks(void **state)
{
	struct bytes file = story(1);
	struct err err = { 0 };
	bool cut;

	assert_int_equal(0, hear(file, SINK_KNOWS_STACKS, &cut, &err));
	assert_string_equal(whole, told);
	assert_int_equal(0, same_told[0]);
	free((void *)(uintptr_t)file.at);
}

/* A cut tape tells of the beginning, and that it is cut. */
static void what_is_whole_is_read(void **state)
{
	struct bytes file = story(0);
	struct err err = { 0 };
	bool some = false;

	for (size_t n = 1; n < file.n; n++) {
		bool cut = false;
		int ret = hear((struct bytes){ file.at, n }, 0, &cut, &err);

		assert_true(ret == 0 ? cut : ret == -EBADMSG || ret == -ENOENT);
		assert_memory_equal(whole, told, n_told);
		some |= ret == 0;
	}
	assert_true(some);
	free((void *)(uintptr_t)file.at);
}

/* ---- tapes that no sink writes ---- */

static struct tape_writer *begin(char **at, size_t *n, FILE **out, bool named)
{
	struct tape_head h = { .n = 0 };
	struct tape_writer *w;

	*out = open_memstream(at, n);
	w = tape_writer_create(*out, NULL);
	for (unsigned i = 0; i < 2; i++) {
		h.n = 0;
		tape_put(&h, TAPE_INDEX, i);
		tape_put_bytes(&h, TAPE_NAME, i ? "faults" : "cycles", 6);
		tape_put_bytes(&h, TAPE_ATTR, &(struct perf_event_attr){ .config = 7 },
			       sizeof(struct perf_event_attr));
		if (named)
			tape_put(&h, TAPE_NAMED, 1);
		tape_write(w, TAPE_EVENT, tape_head_bytes(&h), (struct bytes){ 0 });
	}
	return w;
}

static int end(struct tape_writer *w, char **at, size_t *n, FILE *out, struct err *err)
{
	bool cut;
	int ret;

	tape_writer_finish(w);
	tape_writer_destroy(w);
	fclose(out);
	ret = hear((struct bytes){ (unsigned char *)*at, *n }, 0, &cut, err);
	free(*at);
	return ret;
}

static void an_old_tape_says_what_to_do(void **state)
{
	struct err err = { 0 };
	char *at;
	size_t n;
	FILE *out;
	struct tape_writer *w = begin(&at, &n, &out, false);

	assert_int_equal(-ENOENT, end(w, &at, &n, out, &err));
	assert_non_null(strstr(err.text, "x.tape"));
	assert_non_null(strstr(err.text, "replay"));
}

/* A chunk of one number; then one of bytes; 0 ends them. */
struct chunk {
	enum tape_type type;
	enum tape_tag tag;
	uint64_t value;
	uint32_t bytes[4];
};

static int hear_chunks(const struct chunk *c)
{
	struct err err = { 0 };
	char *at;
	size_t n;
	FILE *out;
	struct tape_writer *w = begin(&at, &n, &out, true);
	struct tape_head h;

	for (; c->type; c++) {
		h.n = 0;
		tape_put(&h, c->tag, c->value);
		if (c->type == TAPE_SAMPLE)
			tape_put_bytes(&h, TAPE_PROV, "exact", 5);
		if (c->type == TAPE_STACK || c->type == TAPE_ADDRESSES)
			tape_put_bytes(&h, TAPE_BYTES, c->bytes, sizeof(c->bytes));
		if (c->type == TAPE_TEXT)
			tape_put_bytes(&h, TAPE_BYTES, "x", 1);
		tape_write(w, c->type, tape_head_bytes(&h), (struct bytes){ 0 });
	}
	return end(w, &at, &n, out, &err);
}

static void numbers_that_are_not_there_are_damage(void **state)
{
	const struct chunk text = { TAPE_TEXT, TAPE_INDEX, 0, { 0 } };
	const struct chunk func = { TAPE_FUNC, TAPE_INDEX, 0, { 0 } };
	const struct chunk stack = { TAPE_STACK, TAPE_INDEX, 0, { FRAME_PYTHON, 0, 3, NONE } };
	const struct chunk sample = { TAPE_SAMPLE, TAPE_PID, 10, { 0 } };
	const struct chunk bad[][5] = {
		{ { TAPE_TEXT, TAPE_INDEX, 1, { 0 } } },
		{ func },
		{ text, { TAPE_FUNC, TAPE_FUNC_NAME, 1, { 0 } } },
		{ text, { TAPE_FUNC, TAPE_FUNC_FILE, 1, { 0 } } },
		{ text, { TAPE_FUNC, TAPE_INDEX, 1, { 0 } } },
		{ { TAPE_STACK, TAPE_INDEX, 1, { 0 } } },
		{ sample },
		{ text, stack, sample },
		{ text, { TAPE_STACK, TAPE_INDEX, 0, { FRAME_NATIVE, 1, 0, NONE } }, sample },
		{ text, { TAPE_STACK, TAPE_INDEX, 0, { FRAME_MARKER, NONE, 0, NONE } }, sample },
		{ text, { TAPE_STACK, TAPE_INDEX, 0, { FRAME_MARKER + 1, 0, 0, NONE } }, sample },
		{ text, { TAPE_STACK, TAPE_INDEX, 0, { FRAME_NATIVE, 0, 0, 1 } }, sample },
		{ text, func, stack, { TAPE_SAMPLE, TAPE_STACK_INDEX, 1, { 0 } } },
		{ text, func, stack, { TAPE_SAMPLE, TAPE_EVENT_INDEX, 2, { 0 } } },
		{ text, func, stack, { TAPE_SAMPLE, TAPE_PID, UINT64_C(1) << 31, { 0 } } },
		{ { TAPE_HAPPENED, TAPE_TID, UINT64_C(1) << 32, { 0 } } },
	};
	const struct chunk good[] = { text, func, stack, sample, { 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (hear_chunks(bad[i]) != -EBADMSG)
			fail_msg("%zu is read", i);
		assert_null(strstr(told, "prov="));
	}
	hear_chunks(good);
	assert_non_null(strstr(told, "|x (x:3) 0 0-0 #0"));
}

/* Where code was is told of the next sample, and whatever is said more is of none. */
static void addresses_are_of_one_sample(void **state)
{
	const struct chunk text = { TAPE_TEXT, TAPE_INDEX, 0, { 0 } };
	const struct chunk stack = { TAPE_STACK, TAPE_INDEX, 0, { FRAME_NATIVE, 0, 0, NONE } };
	const struct chunk sample = { TAPE_SAMPLE, TAPE_PID, 10, { 0 } };
	const struct chunk at = { TAPE_ADDRESSES, TAPE_PID, 0, { 5, 0, 6, 0 } };
	const struct chunk all[] = { text, stack, at, sample, sample, { 0 } };
	const char *second;

	hear_chunks(all);
	second = strchr(told, '\n');
	assert_non_null(strstr(told, "|1@5 x\n"));
	assert_non_null(second);
	assert_non_null(strstr(second, "|1@0 x\n"));
	assert_int_equal(0, *told_of);
	assert_int_equal(0, shown);
}

/* Chunks and happenings of later versions are passed over. */
static void what_is_new_is_passed_over(void **state)
{
	const struct chunk later[] = { { (enum tape_type)60000, TAPE_PID, 1, { 0 } },
				       { TAPE_HAPPENED, TAPE_WHAT, 99, { 0 } },
				       { 0 } };

	hear_chunks(later);
	assert_string_equal("", told);
}

static void other_files_are_no_tapes(void **state)
{
	struct err err = { 0 };
	unsigned char bytes[64] = "\x28\xb5\x2f\xfdnothing";
	bool cut;

	assert_int_equal(-EBADMSG, hear((struct bytes){ bytes, sizeof(bytes) }, 0, &cut, &err));
	assert_int_equal(-EBADMSG, hear((struct bytes){ bytes, 3 }, 0, &cut, &err));
	assert_non_null(strstr(err.text, "x.tape"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_comes_back),
		cmocka_unit_test(who_knows_stacks_gets_each_once),
		cmocka_unit_test(who_needs_maps_gets_them),
		cmocka_unit_test(without_memory_samples_have_their_stacks),
		cmocka_unit_test(what_is_whole_is_read),
		cmocka_unit_test(an_old_tape_says_what_to_do),
		cmocka_unit_test(numbers_that_are_not_there_are_damage),
		cmocka_unit_test(addresses_are_of_one_sample),
		cmocka_unit_test(what_is_new_is_passed_over),
		cmocka_unit_test(other_files_are_no_tapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
