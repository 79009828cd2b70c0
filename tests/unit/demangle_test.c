/* SPDX-License-Identifier: MIT
 *
 * demangle_test - C++ and Rust names, also as hostile as they come.
 */
#include <errno.h>

#include "unit.h"
#include "names/demangle.h"
#include "base/strtab.h"
#include "names/symnames.h"

static void need_demangler(void)
{
	if (!demangle_built) {
		print_message("built without libiberty\n");
		skip();
	}
}

/* What the resolver does with a symbol. */
static const char *named(struct symnames *t, const char *symbol)
{
	char raw[SYMNAMES_RAW];

	snprintf(raw, sizeof(raw), "%s", symbol);
	symnames_cut(raw);
	return symnames_symbol(t, raw);
}

static void test_names(void **state)
{
	static const char *const cases[][2] = {
		{ "_ZN2ns3fooEiPKc", "ns::foo(int, char const*)" },
		{ "_ZN2ns3fooEiPKc.isra.0.cold", "ns::foo(int, char const*)" },
		{ "_ZNSt6vectorIiSaIiEE9push_backERKi@@GLIBCXX_3.4",
		  "std::vector<int, std::allocator<int> >::push_back(int const&)" },
		{ "_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write" },
		{ "_ZN52_$LT$T$u20$as$u20$a..B$LT$$u5b$u8$u3b$4$u5d$$GT$$GT$"
		  "1f17h0123456789abcdefE.llvm.9",
		  "<T as a::B<[u8:4]>>::f" },
		{ "_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar" },
		{ "_RINvC1a1fAhj4_E", "a::f::<[u8: 4]>" },
		{ "_GLOBAL__sub_I_x", "_GLOBAL__sub_I_x" },
		{ "_ZN8__main__5innerB2v2B38c8tJTIeFIjxB2IKSgI4CrvQClQZ6FczSBAA_"
		  "3dE5ArrayIdLi1E1CE",
		  "__main__::inner[abi:v2](Array<double, 1, C>)" },
		{ "_Zork", "_Zork" },
		{ "_Really", "_Really" },
		{ "_Z", "_Z" },
		{ "main", "main" },
		{ "_ZN2ns3fooEiPKc@plt", "ns::foo(int, char const*)@plt" },
		{ "_Zork@plt", "_Zork@plt" },
		{ "od;d", "od:d" },
	};
	struct symnames t;

	need_demangler();
	assert_int_equal(0, symnames_init(&t));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *name = named(&t, cases[i][0]);
		size_t bytes = t.bytes;

		assert_string_equal(cases[i][1], name);
		assert_ptr_equal(name, named(&t, cases[i][0]));
		assert_int_equal(bytes, t.bytes);
	}
	symnames_deinit(&t);
}

/* All digits: what stands before the name is not looked at. */
static void test_cut_number(void **state)
{
	char text[] = "x.12";

	symnames_cut(text + 2);
	assert_string_equal(text, "x.12");
}

/* Each name is decoded once: the answer is kept by the symbol. */
static void test_once(void **state)
{
	struct symnames t;
	const char *name;

	need_demangler();
	assert_int_equal(0, symnames_init(&t));
	name = named(&t, "_Z1fv");
	assert_int_equal(1, strtab_count(t.mangled));
	t.plain[0] = "from the table";
	assert_string_equal("from the table", named(&t, "_Z1fv"));
	t.plain[0] = name;
	for (unsigned i = 0; i < 2000; i++) {
		char symbol[32];

		snprintf(symbol, sizeof(symbol), "_Z5f%04uv", i);
		assert_int_equal('f', named(&t, symbol)[0]);
	}
	assert_string_equal("f0000()", named(&t, "_Z5f0000v"));
	assert_int_equal(2001, strtab_count(t.mangled));
	symnames_deinit(&t);
}

static void check_bomb(const char *name)
{
	char buf[SYMNAMES_MAX];

	assert_true(demangle(name, buf, sizeof(buf)));
	assert_int_equal(sizeof(buf) - 1, strlen(buf));
}

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* Each type is a pair of the one before: 2^30 of them, a page of text each would fill the
 * memory of any machine. */
static void test_bombs(void **state)
{
	char cpp[1024] = "_Z1fSt4pairIiiE", rust[1024] = "_RINvC1a1fThhE";
	size_t at = strlen("INvC1a1f"), n;

	need_demangler();
	for (int i = 0; i < 30; i++) {
		char c = i < 10 ? (char)('0' + i) : (char)('A' + i - 10);

		n = strlen(cpp);
		snprintf(cpp + n, sizeof(cpp) - n, "S_IS%c_S%c_E", c, c);
		n = strlen(rust);
		snprintf(rust + n, sizeof(rust) - n, "TB%c%c_B%c%c_E", digits[(at - 1) / 62],
			 digits[(at - 1) % 62], digits[(at - 1) / 62], digits[(at - 1) % 62]);
		at = n - 2;
	}
	strcat(rust, "E");
	check_bomb(cpp);
	check_bomb(rust);
}

struct asked {
	unsigned n;
	ssize_t ret;
};

static ssize_t answer(void *arg, const char *raw, char *buf, size_t cap)
{
	struct asked *a = arg;

	a->n++;
	return a->ret > 0 ? snprintf(buf, cap, "asked") : a->ret;
}

/* "_Z200ffff...v", another one for each @i. */
static const char *long_name(char buf[512], unsigned i, size_t n)
{
	int at = snprintf(buf, 512, "_Z%zuf%06u", n, i);

	memset(buf + at, 'f', n - 7);
	strcpy(buf + (size_t)at + n - 7, "v");
	return buf;
}

/* Only long names are asked for elsewhere, each once; and none for a while once three were not
 * answered, in which those do not count for which there was no room. */
static void test_asks(void **state)
{
	struct asked a = { 0, 1 };
	struct symnames t;
	char buf[512];

	need_demangler();
	assert_int_equal(0, symnames_init(&t));
	symnames_ask(&t, answer, &a);
	assert_string_equal("f()", named(&t, "_Z1fv"));
	assert_int_equal('f', named(&t, long_name(buf, 0, 120))[0]); /* 128 with "_Z120v" */
	assert_int_equal(0, a.n);
	for (unsigned i = 0; i < 3; i++)
		assert_string_equal("asked", named(&t, long_name(buf, 1, 130)));
	assert_int_equal(1, a.n);
	a.ret = -EAGAIN;
	for (unsigned i = 2; i < 12; i++)
		assert_string_equal(buf, named(&t, long_name(buf, i, 130)));
	a.ret = 0;
	for (unsigned i = 12; i < 22; i++)
		assert_string_equal(buf, named(&t, long_name(buf, i, 130)));
	assert_int_equal(21, a.n);
	a.ret = -ETIMEDOUT;
	for (unsigned i = 22; i < 32; i++)
		assert_string_equal(buf, named(&t, long_name(buf, i, 130)));
	assert_int_equal(24, a.n);
	assert_string_equal("g()", named(&t, "_Z1gv"));
	symnames_deinit(&t);
}

static void flip(char *c, unsigned *seed)
{
	if (rand_r(seed) % 2)
		*c = digits[rand_r(seed) % 62];
	else
		*c = (char)(1 + rand_r(seed) % 255);
}

/* Any bytes: nothing but a name or a no. */
static void test_flips(void **state)
{
	static const char *const from[] = {
		"_ZNSt6vectorIiSaIiEE9push_backERKi",
		"_ZN4core3fmt5write17h0123456789abcdefE",
		"_RNvXs_NtCs1234_7mycrate3fooNtB4_3BarNtB6_5Trait3baz",
		"_ZZN1A1fIJiDpT_EEvDpRKT_ENKUlvE_clEv",
		"_RINvNtC3std3mem8align_ofdFUKCEuE",
	};
	unsigned seed = 11, good = 0;

	need_demangler();
	for (unsigned round = 0; round < 100000; round++) {
		char name[128], buf[SYMNAMES_MAX];
		size_t n;

		snprintf(name, sizeof(name), "%s", from[round % ARRAY_SIZE(from)]);
		n = strlen(name);
		for (int k = 0; k < 1 + rand_r(&seed) % 4; k++)
			flip(name + 2 + (size_t)rand_r(&seed) % (n - 2), &seed);
		if (demangle(name, buf, sizeof(buf))) {
			good++;
			assert_in_range(strlen(buf), 1, sizeof(buf) - 1);
		}
	}
	assert_true(good > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names), cmocka_unit_test(test_cut_number),
		cmocka_unit_test(test_once),  cmocka_unit_test(test_bombs),
		cmocka_unit_test(test_flips), cmocka_unit_test(test_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
