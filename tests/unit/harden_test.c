/* SPDX-License-Identifier: MIT
 *
 * harden: filters allow what the rows say, whatever is left out of them to make them short.
 */
#include <stdlib.h>

#include "unit.h"
#include "../../lib/sys/harden.c"

enum { CHILD = 4711, FEW = 255 };

static const struct {
	unsigned process;
	unsigned thread;
} pairs[] = {
	{ HARDEN_RECORD | HARDEN_TRACER, HARDEN_READER },
	{ HARDEN_RECORD | HARDEN_TRACER, HARDEN_CONTROL },
	{ HARDEN_RECORD | HARDEN_TRACER, HARDEN_TRACER },
	{ HARDEN_RECORD, HARDEN_RESOLVER },
	{ HARDEN_RECORD, HARDEN_INBOX },
	{ HARDEN_RECORD, HARDEN_PROBE },
	{ HARDEN_LOOK, HARDEN_PROBE },
	{ HARDEN_CONVERT, HARDEN_RESOLVER },
	{ HARDEN_REPORT, HARDEN_RESOLVER },
	{ HARDEN_SERVE | HARDEN_FILE, HARDEN_FILE },
};

/* What the kernel does with the instructions that we put. */
static uint32_t verdict(const struct code *c, const struct seccomp_data *d)
{
	uint32_t a = 0;

	for (size_t at = 0; at < c->n; at++) {
		const struct sock_filter *i = &c->insn[at];

		if (i->code == (BPF_LD | BPF_W | BPF_ABS))
			memcpy(&a, (const char *)d + i->k, sizeof(a));
		else if (i->code == (BPF_ALU | BPF_AND | BPF_K))
			a &= i->k;
		else if (i->code == (BPF_JMP | BPF_JEQ | BPF_K))
			at += a == i->k ? i->jt : i->jf;
		else if (i->code == (BPF_JMP | BPF_JA))
			at += i->k;
		else if (i->code == (BPF_RET | BPF_K))
			return i->k;
		else
			break;
	}
	fail_msg("no end");
	return 0;
}

static bool holds(const struct row *r, const struct seccomp_data *d)
{
	bool all = true;

	for (size_t i = 0; i < CHECKS && r->check[i].kind != CHECK_NONE; i++) {
		const struct check *k = &r->check[i];
		uint64_t arg = d->args[k->arg % HIGH_HALF] >> (k->arg < HIGH_HALF ? 0 : 32);

		all = all && ((uint32_t)arg & k->mask) == value_of(k, CHILD);
	}
	return all;
}

/* What the rows say. */
static uint32_t wanted(unsigned roles, const struct seccomp_data *d)
{
	uint32_t ret = SECCOMP_RET_ERRNO | ENOSYS;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].nr == (uint32_t)d->nr && rows[i].roles & roles) {
			if (holds(&rows[i], d))
				return SECCOMP_RET_ALLOW;
			ret = SECCOMP_RET_ERRNO | EPERM;
		}
	return ret;
}

/* Arguments that some row's checks tell from others, now one and now another. */
static void draw(struct seccomp_data *d, const struct row *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(d->args); i++)
		d->args[i] = rand() % 2 ? 0 : (uint64_t)rand() << rand() % 32;
	for (size_t i = 0; i < CHECKS && r->check[i].kind != CHECK_NONE; i++)
		if (rand() % 4)
			d->args[r->check[i].arg % HIGH_HALF] = value_of(&r->check[i], CHILD);
}

static void a_thread_may_what_its_rows_and_the_processs_say(void **state)
{
	static struct code process, thread;
	int n[2] = { 0 };

	srand(1);
	for (size_t p = 0; p < ARRAY_SIZE(pairs); p++) {
		process = (struct code){ .roles = pairs[p].process, .process = true };
		thread = (struct code){ .roles = pairs[p].thread };
		make(&process, CHILD);
		make(&thread, CHILD);
		assert_true(process.n <= MAX_CODE && thread.n < process.n);
		for (size_t i = 0; i < ARRAY_SIZE(rows) * FEW; i++) {
			const struct row *r = &rows[i / FEW];
			struct seccomp_data d = { .nr = (int)r->nr,
						  .arch = seccomp_arch_native() };
			uint32_t whole;
			bool both;

			draw(&d, i % 2 ? r : &rows[(size_t)rand() % ARRAY_SIZE(rows)]);
			whole = wanted(pairs[p].process, &d);
			assert_int_equal(verdict(&process, &d), whole);
			both = whole == SECCOMP_RET_ALLOW &&
			       wanted(pairs[p].thread, &d) == SECCOMP_RET_ALLOW;
			assert_int_equal(verdict(&process, &d) == SECCOMP_RET_ALLOW &&
						 verdict(&thread, &d) == SECCOMP_RET_ALLOW,
					 both);
			n[both]++;
		}
	}
	assert_true(n[0] > 10000 && n[1] > 10000);
}

static void numbers_of_calls_have_places_of_their_own(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_true(rows[i].nr < CALLS);
}

/* It leads as far as a jump can. */
static void the_longest_run_can_be_jumped_over(void **state)
{
	for (unsigned bit = 0; bit < 16; bit++) {
		struct code c = { .roles = 1u << bit, .process = true };
		size_t n = 0;

		choose_rows(&c);
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
			n += c.checks[i] == 0;
		assert_true(n < UINT8_MAX);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_may_what_its_rows_and_the_processs_say),
		cmocka_unit_test(numbers_of_calls_have_places_of_their_own),
		cmocka_unit_test(the_longest_run_can_be_jumped_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
