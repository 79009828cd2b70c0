/* SPDX-License-Identifier: MIT
 *
 * folded_read_test - lines in, samples out.
 */
#include <errno.h>
#include <string.h>

#include "unit.h"
#include "base/strtab.h"
#include "../../output/folded_read.h"

/* What the sink was told, a line each. */
struct told {
	char text[4096];
	size_t n;
	int fails; /* each sample does */
};

static void tell(struct told *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void tell(struct told *t, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	t->n += (size_t)vsnprintf(t->text + t->n, sizeof(t->text) - t->n, format, args);
	va_end(args);
	assert_true(t->n < sizeof(t->text));
}

static int take_side(struct sink *s, const struct side *side)
{
	assert_int_equal(side->kind, SIDE_COMM);
	tell(s->priv, "%d/%d %s %s\n", side->pid, side->tid,
	     side->u.comm.thread ? "titled" : "is", side->u.comm.name);
	return 0;
}

static int take_sample(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	struct told *t = s->priv;

	if (smp->event)
		tell(t, "event %u, ", smp->event);
	tell(t, "%d/%d %llu:", smp->pid, smp->tid, (unsigned long long)smp->period);
	for (size_t i = 0; i < stk->n; i++) {
		const struct frame *fr = &stk->frames[i];

		if (fr->kind == FRAME_PYTHON)
			tell(t, " P%u{%s|%s|%d}", fr->func->index, fr->func->qualname,
			     fr->func->file, fr->line);
		else
			tell(t, " %c{%s}", "KNPM"[fr->kind], fr -> name);
	}
	tell(t, "\n");
	return t->fails;
}

static const struct sink_ops ops = { .side = take_side, .sample = take_sample };

static struct session session; /* of what was read last */

static int read_bytes(struct told *t, const char *text, size_t n, size_t *line)
{
	struct sink s = { .ops = &ops, .priv = t };
	FILE *in = fmemopen((void *)(uintptr_t)text, n, "r");
	int ret;

	session = (struct session){ .n_events = 1, .events[0].name = "folded" };
	assert_int_equal(folded_look(in, &session), 0);
	rewind(in);
	ret = folded_read(in, &session, &s, line);
	fclose(in);
	return ret;
}

/* All of @text is read, and is this. */
static void reads(const char *text, const char *expect)
{
	struct told t = { .n = 0 };
	size_t line;

	assert_int_equal(read_bytes(&t, text, strlen(text), &line), 0);
	assert_string_equal(t.text, expect);
}

static void threads_are_kept_apart_where_they_are_told(void **state)
{
	static const char *const with[] = { "a-1;x 1\nc-1/t-2;x 1\n", "c-1/t-2 3\n",
					    "c-1/a/b-2;x 1\n",	      "c/d-1/t-2;x 1\n" },
				 *const without[] = { "c-999;x 1\n", "c-1;d-1/t-2;x 1\n",
						      "c/t-2;x 1\n", "c-1/t;x 1\n", "/t-2;x 1\n",
						      "a;x 1\nc-1/t-2;x 1\n" };
	struct told t = { .n = 0 };
	size_t line;

	for (size_t i = 0; i < ARRAY_SIZE(with); i++) {
		assert_int_equal(read_bytes(&t, with[i], strlen(with[i]), &line), 0);
		assert_true(session.flags & SESSION_THREADS);
	}
	for (size_t i = 0; i < ARRAY_SIZE(without); i++) {
		assert_int_equal(read_bytes(&t, without[i], strlen(without[i]), &line), 0);
		assert_false(session.flags & SESSION_THREADS);
	}
}

static void frames_have_their_kinds(void **state)
{
	reads("main (/a.py:7);f (<string>:2);g (<frozen x>);nap;[late];sys_[k] 12\n",
	      "0/0 12: K{sys_[k]} M{[late]} N{nap} P2{g|<frozen x>|0} P1{f|<string>|2}"
	      " P0{main|/a.py|7}\n");
	reads("[unknown];[anon];[heap];[stack];[vsyscall];[anon:x];[torn] 1\n",
	      "0/0 1: M{[torn]} N{[anon:x]} N{[vsyscall]} N{[stack]} N{[heap]} N{[anon]}"
	      " N{[unknown]}\n");
	(void)state;
}

/* As austin writes them; a stack may begin so, too. */
static void remarks_are_passed(void **state)
{
	static const char text[] = "# austin: 3.6.0\n# interval: 100\n\nr;f 1\n# x;g 2\n# done: 7\n";
	FILE *in = fmemopen((void *)(uintptr_t)text, sizeof(text) - 1, "r");

	assert_true(folded_begins(in));
	fclose(in);
	reads(text, "0/0 1: N{f} N{r}\n0/0 2: N{g} N{# x}\n");
	(void)state;
}

/* Only what ends like a Python file is Python's. */
static void others_look_similar(void **state)
{
	reads("r;f(int) (.cold) 1\n", "0/0 1: N{f(int) (.cold)} N{r}\n");
	reads("r;f (x.pyc:3) 1\n", "0/0 1: N{f (x.pyc:3)} N{r}\n");
	reads("r;f(a.py) 1\n", "0/0 1: N{f(a.py)} N{r}\n");
	reads("r;f (<a) 1\n", "0/0 1: N{f (<a)} N{r}\n");
	reads("r;f (py) 1\n", "0/0 1: N{f (py)} N{r}\n");
	reads("r;[];_[k];[x 1\n", "0/0 1: N{[x} N{_[k]} N{[]} N{r}\n");
	reads("r;f (g) (a.py:3) 1\n", "0/0 1: P0{f (g)|a.py|3} N{r}\n");
	reads("r;f (a (1).py:3) 1\n", "0/0 1: P0{f|a (1).py|3} N{r}\n");
	reads("r;f( (g (a (1).py:3) 1\n", "0/0 1: P0{f( (g|a (1).py|3} N{r}\n");
	reads("r;f (a).py:3) 1\n", "0/0 1: P0{f|a).py|3} N{r}\n");
	(void)state;
}

/* One function is one number, whatever its line; one of another file is another. */
static void functions_are_told_apart(void **state)
{
	reads("r;f (a.py:1);f (a.py:2) 1\nr;f (b.py:1);g (a.py:1);f (a.py:1) 2\n",
	      "0/0 1: P0{f|a.py|2} P0{f|a.py|1} N{r}\n"
	      "0/0 2: P0{f|a.py|1} P2{g|a.py|1} P1{f|b.py|1} N{r}\n");
	(void)state;
}

static int take_index(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	tell(s->priv, "%u ", stk->frames[0].func->index);
	(void)smp;
	return 0;
}

/* Each has the number of its first line again, however many there are. */
static void many_functions_are_told_apart(void **state)
{
	enum { MANY = 300 };
	static const struct sink_ops indices = { .sample = take_index };
	static char text[2 * MANY * 20];
	struct told t = { .n = 0 }, want = { .n = 0 };
	struct sink s = { .ops = &indices, .priv = &t };
	size_t n = 0, line;
	FILE *in;

	for (int i = 0; i < 2 * MANY; i++) {
		n += (size_t)sprintf(text + n, "f%d (%d.py) 1\n", i % MANY / 2, i % MANY);
		tell(&want, "%d ", i % MANY);
	}
	in = fmemopen(text, n, "r");
	session = (struct session){ .n_events = 1 };
	assert_int_equal(folded_read(in, &session, &s, &line), 0);
	assert_string_equal(t.text, want.text);
	fclose(in);
	(void)state;
}

/* They are there behind the reading, each once. */
static void texts_can_be_shared(void **state)
{
	static char text[] = "r;f (a.py:1);f 1\n";
	struct told t = { .n = 0 };
	struct sink s = { .ops = &ops, .priv = &t };
	size_t line;

	session = (struct session){ .n_events = 1, .texts = strtab_create() };
	assert_int_equal(strtab_add(session.texts, "f", 1), 0);
	for (int i = 0; i < 2; i++) {
		FILE *in = fmemopen(text, strlen(text), "r");

		assert_int_equal(folded_read(in, &session, &s, &line), 0);
		fclose(in);
	}
	assert_int_equal(strtab_count(session.texts), 3);
	assert_string_equal(strtab_get(session.texts, 2), "a.py");
	strtab_destroy(session.texts);
	(void)state;
}

static bool is_short(const char *text)
{
	FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	bool ret = folded_is_short(in);

	fclose(in);
	return ret;
}

static void short_names_of_files_are_known(void **state)
{
	static const char *const are[] = { "r;f (a.py:1) 1\n", "f (a.py) 1\n",
					   "r;n 1\nr;g (<string>:1);f (x/a.py:1);n 1\n" },
				 *const are_not[] = { "r;f 1\n", "r;f (<string>:1) 1\n",
						      "r;f (/a.py:1) 1\n", "f (/a.py) 1\n",
						      "r;f (a.py:1) 1\nr;n;f (/x/a.py:1) 1\n",
						      "r;f (/a.py);f (a.py) 1\n",
						      "r;f (/a.py);f (a.py:1) 1\n" };

	for (size_t i = 0; i < ARRAY_SIZE(are); i++)
		assert_true(is_short(are[i]));
	for (size_t i = 0; i < ARRAY_SIZE(are_not); i++)
		assert_false(is_short(are_not[i]));
	(void)state;
}

static void roots_name_threads(void **state)
{
	reads("py-300;f 1\n", "300/300 is py\n300/300 1: N{f}\n");
	reads("py-10/work-er-11;f 1\n", "10/10 is py\n10/11 is work-er\n10/11 1: N{f}\n");
	reads("py-10/py-10;f 1\n", "10/10 is py\n10/10 titled py\n10/10 1: N{f}\n");
	reads("py-10/Main-10;f 1\n", "10/10 is py\n10/10 titled Main\n10/10 1: N{f}\n");
	reads("a/b-300;f 1\n", "300/300 is a/b\n300/300 1: N{f}\n");
	reads("py-10/kworker/1:2-11 1\n", "10/10 is py\n10/11 is kworker/1:2\n10/11 1:\n");
	reads("py-1234567890;f 1\n", "0/0 1: N{f} N{py-1234567890}\n");
	reads("12;f 1\n", "0/0 1: N{f} N{12}\n");
	(void)state;
}

/* A number is a process where each line has one, and one line has what only ours have. */
static void roots_of_others_are_frames(void **state)
{
	reads("worker-3;f 1\n", "0/0 1: N{f} N{worker-3}\n");
	reads("main;f 1\nworker-3;f (a.py:3) 1\n", "0/0 1: N{f} N{main}\n0/0 1: P0{f|a.py|3} N{worker-3}\n");
	reads("py-3;f 1\npy-3;f (a.py:3);g 1\n",
	      "3/3 is py\n3/3 1: N{f}\n3/3 is py\n3/3 1: N{g} P0{f|a.py|3}\n");
	reads("py-3;f 1\n[unnamed];g 1\npy-300 1\n",
	      "3/3 is py\n3/3 1: N{f}\n0/0 1: N{g} M{[unnamed]}\n300/300 is py\n300/300 1:\n");
	reads("py-3;f 1\nf (a.py:3) 1\n", "0/0 1: N{f} N{py-3}\n0/0 1: P0{f|a.py|3}\n");
	(void)state;
}

/* As editors and programs of another system write it. */
static void text_of_windows_is_read(void **state)
{
	static const char text[] = "\xef\xbb\xbf" "r;f 1\r\n\r\nr;g 2\r\n";
	FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

	assert_true(folded_begins(in));
	fclose(in);
	reads(text, "0/0 1: N{f} N{r}\n0/0 2: N{g} N{r}\n");
	reads("r 1\r", "0/0 1: N{r}\n");
	(void)state;
}

/* More frames than there is room for at first. */
static void deep_stacks_are_whole(void **state)
{
	static char text[4096];
	struct told t = { .n = 0 };
	size_t n = 0, line, frames = 0;

	for (int i = 0; i < 600; i++)
		n += (size_t)sprintf(text + n, "%c%c;", i ? 'f' : 'r', 'a' + i % 26);
	sprintf(text + n - 1, " 3\n");
	assert_int_equal(read_bytes(&t, text, strlen(text), &line), 0);
	for (const char *p = t.text; (p = strchr(p, '{')); p++)
		frames++;
	assert_int_equal(frames, 600);
	assert_string_equal(t.text + t.n - 6, "N{ra}\n");
	(void)state;
}

enum { MOST = 65536 };

static int take_depth(struct sink *s, const struct sample *smp, const struct stack *stk)
{
	struct told *t = s->priv;

	tell(t, "%u %zu %s %s", smp->event, stk->n, stk->frames[0].name,
	     stk->frames[stk->n - 1].name);
	return 0;
}

/* The innermost stay, and who and which event it is. */
static void deepest_stacks_are_cut(void **state)
{
	static const struct sink_ops depths = { .side = take_side, .sample = take_depth };
	static const struct {
		size_t depth;
		const char *says;
	} rows[] = {
		{ MOST - 1, "10/10 is py\n1 65535 i o" },
		{ MOST, "10/10 is py\n1 65536 i o" },
		{ MOST + 1, "10/10 is py\n1 65537 i [truncated]" },
		{ MOST + 9, "10/10 is py\n1 65537 i [truncated]" },
	};

	for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
		static char text[2 * MOST + 64];
		struct told t = { .n = 0 };
		struct sink s = { .ops = &depths, .priv = &t };
		size_t n = (size_t)sprintf(text, "py-10;event:two"), line;
		FILE *in;

		for (size_t i = rows[k].depth; i--;)
			n += (size_t)sprintf(text + n, ";%c", i ? 'o' : 'i');
		sprintf(text + n, " 3\n");
		in = fmemopen(text, strlen(text), "r");
		session = (struct session){ .n_events = 2,
					    .events[1].name = "two",
					    .flags = SESSION_PROCESSES };
		assert_int_equal(folded_read(in, &session, &s, &line), 0);
		assert_string_equal(t.text, rows[k].says);
		fclose(in);
	}
	(void)state;
}

/* The number of the line that is no stack; those before were given on. */
static void bad_lines_are_told(void **state)
{
	static const char *const bad[] = { "r;f",    "r;f x",  "r;f ",	"r;f 1x",
					   "r;f -1", "r;f +1", "r;f \t-1", "r;f \t1" };
	struct told t = { .n = 0 };
	size_t line;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char text[128];

		t = (struct told){ .n = 0 };
		sprintf(text, "r 1\n\n%s\nr 2\n", bad[i]);
		assert_int_equal(read_bytes(&t, text, strlen(text), &line), -EBADMSG);
		assert_int_equal(line, 3);
		assert_string_equal(t.text, "0/0 1: N{r}\n");
	}
	assert_int_equal(read_bytes(&t, "r;a\0b 1\n", 8, &line), -EBADMSG);
	assert_int_equal(line, 1);
	(void)state;
}

/* What outputs add up, in 64 bits of which one is a sign. */
static void counts_are_bounded_together(void **state)
{
	static const char *const large[] = { "r 99999999999999999999\n",
					     "r 9223372036854775808\n",
					     "r 9223372036854775807\nr 1\n",
					     "r 4611686018427387904\nr 4611686018427387904\n" };
	struct told t = { .n = 0 };
	size_t line;

	for (size_t i = 0; i < ARRAY_SIZE(large); i++) {
		assert_int_equal(read_bytes(&t, large[i], strlen(large[i]), &line), -EOVERFLOW);
		assert_int_equal(line, i < 2 ? 1 : 2);
	}
	t = (struct told){ .n = 0 };
	reads("r 9223372036854775806\nr 1\nr 0\n",
	      "0/0 9223372036854775806: N{r}\n0/0 1: N{r}\n0/0 0: N{r}\n");
	(void)state;
}

static void what_the_sink_says_ends_it(void **state)
{
	struct told t = { .fails = -ENOSPC };
	size_t line;

	assert_int_equal(read_bytes(&t, "r 1\nr 2\n", 8, &line), -ENOSPC);
	assert_string_equal(t.text, "0/0 1: N{r}\n");
	(void)state;
}

static void events_are_told_apart(void **state)
{
	reads("py-1;event:a b;f 1\npy-1;event:x:u;f;event:a b 2\n[unnamed];event:a b 3",
	      "1/1 is py\n1/1 1: N{f}\n"
	      "1/1 is py\nevent 1, 1/1 2: N{event:a b} N{f}\n"
	      "0/0 3: M{[unnamed]}\n");
	reads("r;event:a b;f 3", "0/0 3: N{f} N{r}\n");
	assert_string_equal(session.events[0].name, "a b");
	reads("py-1;event:a b;f 1\npy-1;event:x:u;f 2\n[unnamed];event:a b 3",
	      "1/1 is py\n1/1 1: N{f}\n1/1 is py\nevent 1, 1/1 2: N{f}\n0/0 3: M{[unnamed]}\n");
	assert_int_equal(session.n_events, 2);
	assert_string_equal(session.events[0].name, "a b");
	assert_string_equal(session.events[1].name, "x:u");
	(void)state;
}

/* Then they are frames like others. */
static void not_each_line_has_an_event(void **state)
{
	char many[SESSION_MAX_EVENTS * 20 + 20] = "", name[400];
	struct told t = { .n = 0 };
	size_t line;

	reads("r;event:a;f 1\nr;f 2\n", "0/0 1: N{f} N{event:a} N{r}\n0/0 2: N{f} N{r}\n");
	reads("r;event: 1\n", "0/0 1: N{event:} N{r}\n");
	for (int i = 0; i <= SESSION_MAX_EVENTS; i++)
		sprintf(many + strlen(many), "r;event:%d 1\n", i);
	assert_int_equal(read_bytes(&t, many, strlen(many), &line), 0);
	assert_int_equal(session.n_events, 1);
	sprintf(name, "r;event:%0300d 1\n", 1);
	assert_int_equal(read_bytes(&t, name, strlen(name), &line), 0);
	assert_string_equal(session.events[0].name, "folded");
	(void)state;
}

static void last_line_needs_no_end(void **state)
{
	reads("a b 1\nc 9223372036854775806",
	      "0/0 1: N{a b}\n0/0 9223372036854775806: N{c}\n");
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_are_kept_apart_where_they_are_told),
		cmocka_unit_test(frames_have_their_kinds),
		cmocka_unit_test(remarks_are_passed),
		cmocka_unit_test(others_look_similar),
		cmocka_unit_test(functions_are_told_apart),
		cmocka_unit_test(many_functions_are_told_apart),
		cmocka_unit_test(texts_can_be_shared),
		cmocka_unit_test(short_names_of_files_are_known),
		cmocka_unit_test(roots_name_threads),
		cmocka_unit_test(roots_of_others_are_frames),
		cmocka_unit_test(text_of_windows_is_read),
		cmocka_unit_test(deep_stacks_are_whole),
		cmocka_unit_test(deepest_stacks_are_cut),
		cmocka_unit_test(bad_lines_are_told),
		cmocka_unit_test(counts_are_bounded_together),
		cmocka_unit_test(what_the_sink_says_ends_it),
		cmocka_unit_test(events_are_told_apart),
		cmocka_unit_test(not_each_line_has_an_event),
		cmocka_unit_test(last_line_needs_no_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
