/* SPDX-License-Identifier: MIT
 *
 * main - a fuzz target for any compiler: plays files, or so many mutations of the
 * target's own seeds. The same number always makes the same input.
 *
 *   fuzz_X FILE...     play these
 *   fuzz_X -n COUNT    play the seeds and mutations 0 ... COUNT - 1
 *   fuzz_X -s          play those seeds that are the same everywhere, and mutations of them:
 *                      is what comes out what it was?
 *   fuzz_X -i NUMBER   play one mutation
 *   fuzz_X -w FOLDER   write the seeds there, a file each, for tools/fuzz
 *
 * PYSAMPLED_FUZZ=long in the environment makes COUNT 50 times as large.
 */
#include <inttypes.h>
#include <signal.h>

#include "fuzz.h"

enum { SUMMED = 10000, INPUT_MAX = 256 << 10, LONG = 50, MAX_MUTATIONS = 8, MAX_SEEDS = 64 };

static struct bytes seeds[MAX_SEEDS];
static unsigned n_seeds;

static long current = -1; /* for those who want to play it again; -1: a seed or file */

/* Sanitizers end the program without a signal. */
extern void __sanitizer_set_death_callback(void (*f)(void)) __attribute__((__weak__));

/* Freed inputs need not be kept long; most time would go into fresh pages for them. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=4";
}

static void tell(void)
{
	fprintf(stderr, "fuzz: play it again with -i %ld (-1: it was a seed or a file)\n",
		current);
}

static void on_abort(int sig)
{
	(void)sig;
	tell();
}

static uint64_t next(uint64_t *seed)
{
	uint64_t v = *seed += 0x9e3779b97f4a7c15u;

	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
	v = (v ^ v >> 27) * 0x94d049bb133111ebu;
	return v ^ v >> 31;
}

static size_t below(uint64_t *seed, size_t n)
{
	return n ? next(seed) % n : 0;
}

/* A number that breaks things, as @n bytes at @p. */
static void put_number(uint64_t *seed, uint8_t *p, size_t n)
{
	static const uint64_t numbers[] = {
		0,
		1,
		7,
		8,
		63,
		0x7f,
		0x80,
		0xff,
		0xfff,
		0x7fff,
		0xffff,
		0x10000,
		INT32_MAX,
		UINT32_MAX,
		1ull << 32,
		1ull << 61,
		INT64_MAX,
		1ull << 63,
		UINT64_MAX - 7,
		UINT64_MAX,
	};
	uint64_t v = numbers[below(seed, ARRAY_SIZE(numbers))];

	memcpy(p, &v, n);
}

static size_t change_length(uint64_t *seed, uint8_t *buf, size_t n)
{
	size_t more = 1 + below(seed, 64);

	if (next(seed) & 1)
		return below(seed, n);
	more = MIN(more, INPUT_MAX - n);
	for (size_t i = 0; i < more; i++)
		buf[n + i] = (uint8_t)next(seed);
	return n + more;
}

/* One change, mostly where a few bytes decide; the length afterwards. */
static size_t mutate(uint64_t *seed, uint8_t *buf, size_t n)
{
	size_t at = below(seed, n), width = (size_t)1 << below(seed, 4), from;

	switch (n < 16 ? 7 : below(seed, 8)) {
	case 0:
	case 1:
		buf[at] ^= (uint8_t)(1u << below(seed, 8));
		return n;
	case 2:
		buf[at] = (uint8_t)next(seed);
		return n;
	case 3:
	case 4:
		put_number(seed, buf + (at & ~(width - 1)) % (n - 7), width);
		return n;
	case 5:
		buf[at] = (uint8_t)(buf[at] + below(seed, 33) - 16);
		return n;
	case 6: /* something from elsewhere */
		from = below(seed, n - 7) & ~(size_t)7;
		memmove(buf + (at & ~(size_t)7) % (n - 7), buf + from, 8);
		return n;
	default:
		return change_length(seed, buf, n);
	}
}

/* In memory of exactly its size, so that sanitizers see the first byte too many. */
static void play(const uint8_t *buf, size_t n)
{
	uint8_t *exact = malloc(n ? n : 1);

	memcpy(exact, buf, n);
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
}

static void play_mutation(unsigned long number, uint8_t *buf)
{
	uint64_t seed = number * 0x2545f4914f6cdd1du + 1;
	const struct bytes *from = &seeds[number % n_seeds];
	size_t n = fuzz_bytes(buf, INPUT_MAX, from->at, from->n);

	current = (long)number;
	for (size_t i = 1 + below(&seed, MAX_MUTATIONS); i > 0; i--)
		n = mutate(&seed, buf, n);
	play(buf, n);
}

/* @which: a bit for each seed. */
static void play_seeds(uint8_t *buf, uint64_t which)
{
	size_t n;

	for (unsigned i = 0; i < MAX_SEEDS && (n = fuzz_seed(i, buf, INPUT_MAX)); i++) {
		if (!(which >> i & 1))
			continue;
		seeds[n_seeds++] = (struct bytes){ memcpy(malloc(n), buf, n), n };
		play(buf, n);
	}
}

/* What a target's sum is, and which of its seeds are made of nothing that this machine has.
 * Nobody can say of each input what is right, so a changed sum is no proof of an error: it asks
 * whether what comes out of some is another thing on purpose. */
static const struct sum {
	const char *target;
	uint64_t seeds, sum;
} sums[] = {
	{ "fuzz_decode", UINT64_MAX, 0x48691ae0662ee97c },
	{ "fuzz_linetable", UINT64_MAX, 0x2df25001578cb72e },
	{ "fuzz_native", UINT64_MAX, 0x8c85dabd751282b8 },
	{ "fuzz_symbols", 1 << 0, 0xb3c62686fd3caaf0 },
	{ "fuzz_unwind", 1 << 3, 0x11e2b1eb6ff3f75d },
	{ "fuzz_walk", UINT64_MAX, 0x351a7be8cddbcd46 },
};

static int play_summed(const char *program, uint8_t *buf)
{
	const char *slash = strrchr(program, '/');

	program = slash ? slash + 1 : program;
	for (size_t i = 0; i < ARRAY_SIZE(sums); i++) {
		if (strcmp(sums[i].target, program) != 0)
			continue;
		play_seeds(buf, sums[i].seeds);
		for (unsigned long k = 0; k < SUMMED; k++)
			play_mutation(k, buf);
		if (sums[i].sum == fuzz_sum)
			return 0;
		printf("%s: 0x%016" PRIx64 ", which was 0x%016" PRIx64 "\n", program, fuzz_sum,
		       sums[i].sum);
		return 1;
	}
	return fprintf(stderr, "%s: no sum is known\n", program), 2;
}

static int write_seeds(const char *folder, uint8_t *buf)
{
	char path[4096];
	size_t n;

	for (unsigned i = 0; i < MAX_SEEDS && (n = fuzz_seed(i, buf, INPUT_MAX)); i++) {
		_cleanup_fclose_ FILE *f = NULL;

		snprintf(path, sizeof(path), "%s/seed-%u", folder, i);
		f = fopen(path, "wb");
		if (!f || fwrite(buf, 1, n, f) != n)
			return perror(path), 1;
	}
	return 0;
}

static int play_file(const char *path, uint8_t *buf)
{
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f)
		return perror(path), 1;
	n = fread(buf, 1, INPUT_MAX, f);
	fclose(f);
	play(buf, n);
	return 0;
}

static unsigned long scaled(unsigned long count)
{
	const char *how = getenv("PYSAMPLED_FUZZ");

	return how && !strcmp(how, "long") ? count * LONG : count;
}

int main(int argc, char **argv)
{
	_cleanup_free_ uint8_t *buf = malloc(INPUT_MAX);
	bool counted = argc == 3 && !strcmp(argv[1], "-n");
	unsigned long count = counted ? scaled(strtoul(argv[2], NULL, 0)) : 0;
	int r = 0;

	signal(SIGABRT, on_abort);
	if (&__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(tell);
	if (argc < 2)
		return fprintf(stderr,
			       "usage: %s FILE... | -n COUNT | -s | -i NUMBER | -w FOLDER\n",
			       *argv),
		       2;
	if (argc == 2 && !strcmp(argv[1], "-s"))
		return play_summed(*argv, buf);
	if (argc == 3 && !strcmp(argv[1], "-w"))
		return write_seeds(argv[2], buf);
	if (!counted && strcmp(argv[1], "-i")) {
		for (int i = 1; i < argc; i++)
			r |= play_file(argv[i], buf);
		return r;
	}
	play_seeds(buf, UINT64_MAX);
	if (!counted && argc == 3)
		play_mutation(strtoul(argv[2], NULL, 0), buf);
	for (unsigned long i = 0; i < count; i++)
		play_mutation(i, buf);
	printf("%u seeds, %lu mutations\n", n_seeds, count);
	return 0;
}
