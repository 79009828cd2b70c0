/* SPDX-License-Identifier: MIT
 *
 * replay - play a tape through the same code that made it, and print what came out. Also the
 * torture: a cut or damaged tape must play to some end.
 *
 *   replay TAPE              print its stacks, folded, and then lines that begin with #: what
 *                            was judged, asked and counted
 *   replay --files ROOT TAPE also with native frames, of the mapped files that lie below
 * folder ROOT by the paths that they had (gather.py puts them there); also before --future
 *   replay --maps TAPE       print the paths of the mapped files and their inodes
 *   replay --future TAPE     the same with a chunk and a field that nobody knows yet beside
 *                            each chunk and in it
 *   replay --past TAPE       the same without each field that has its default: as a version
 *                            would have written it that did not know the field
 *   replay --torture N TAPE  prefixes and N times flipped bits; prints how many samples came
 *                            out. All prefixes that end inside one chunk play alike, so one is
 *                            tried for each chunk, and one at each chunk's end; of a tape of
 *                            more than the walk, N of them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/arch.h"
#include "player.h"
#include "base/stats.h"
#include "sample/perf_decode.h"
#include "walk.h"

enum { MAX_TAPE = 256 << 20, SKIPPED = 77 };

static bool is_walk(const struct tape *t)
{
	struct bytes chunk;
	uint32_t type;
	size_t pos = 0;

	while (tape_next(t, &pos, &type, &chunk))
		if (type == TAPE_WALK || type == TAPE_SETTINGS)
			return type == TAPE_WALK;
	return false;
}

/* --- print --- */

static void print_sums(const struct outlet_sums *sums)
{
#define X(field)           \
	if (sums->field) \
		printf("# sum of " #field " %" PRIu64 "\n", sums->field);
	OUTLET_SUMS(X)
#undef X
	printf("# %" PRIu64 " other records, sum of time %" PRIu64 ", tid %" PRIu64 "\n",
	       sums->n_sides, sums->side_time, sums->side_tid);
	if (sums->disorder)
		printf("# out of order %" PRIu64 "\n", sums->disorder);
}

static void print_played(const struct played *r, const struct stats *stats)
{
	uint64_t value;
	const char *name, *text;

	printf("# judged %" PRIu64 "\n", r->judged);
	if (r->missing)
		printf("# DIFFERS: %" PRIu64 " samples of the tape are missing\n", r->missing);
	if (r->others || r->misses)
		printf("# reads: %" PRIu64 " of another moment, %" PRIu64 " unknown\n",
		       r->others, r->misses);
	printf("# %" PRIu64 " calls that read %" PRIu64 " pieces\n", r->calls, r->pieces);
	printf("# proofs looked at %" PRIu64 " records in %" PRIu64 " rings, %" PRIu64
	       " words of other CPUs\n",
	       r->work[WORK_records], r->work[WORK_rings], r->work[WORK_foreign]);
	print_sums(&r->sums);
	for (size_t i = 0; i < ARRAY_SIZE(r->control); i++)
		if (r->control[i])
			printf("# message %zu: %" PRIu64 "\n", i, r->control[i]);
	for (size_t i = 0; (name = stats_at(stats, i, &value, &text)); i++)
		if (value)
			printf("# %s %" PRIu64 "\n", name, value);
}

static int print(const struct tape *t, const char *files)
{
	struct played played;
	struct script s;
	int code;

	if (is_walk(t)) {
		struct walk_player *p = walk_player_create(false);

		walk_play(p, t);
		walk_print(p);
		walk_player_destroy(p);
		return 0;
	}
	script_init(&s, t);
	if (*s.arch && strcmp(s.arch, arch_host->name) != 0) {
		printf("a tape of %s, this is %s\n", s.arch, arch_host->name);
		script_deinit(&s);
		return SKIPPED;
	}
	for (uint32_t i = 0; i < s.n_slots; i++)
		if (s.slots[i].gap)
			printf("# CPU %d: a part of its ring is missing, and what follows\n",
			       s.slots[i].cpu);
	code = play_script(&s, files, "-", stdout, &played);
	if (code == 0)
		print_played(&played, &s.stats);
	else
		fprintf(stderr, "nothing to play: %s\n", strerror(-code));
	script_deinit(&s);
	return code < 0;
}

/* --- torture --- */

struct torture {
	bool walk;
	struct walk_player *player;
	size_t rounds, samples;
	uint64_t sum; /* of all that came out */
	char out[64]; /* folded stacks */
};

static void add_sum(struct torture *x, uint64_t v)
{
	x->sum = (x->sum ^ v) * 0x9e3779b97f4a7c15u;
	x->sum ^= x->sum >> 32;
}

/* The folded stacks. */
static void add_text(struct torture *x)
{
	char buf[4096];
	FILE *f = fopen(x->out, "r");
	size_t n;

	while (f && (n = fread(buf, 1, sizeof(buf), f)) > 0)
		for (size_t i = 0; i < n; i++)
			add_sum(x, (unsigned char)buf[i]);
	if (f)
		fclose(f);
}

/* Begun anew now and then, for damaged names pile up. */
static void play_walk_again(struct torture *x, const struct tape *t)
{
	if (++x->rounds % 256 == 0) {
		add_sum(x, walk_sum(x->player));
		walk_player_destroy(x->player);
		x->player = walk_player_create(true);
	}
	walk_play(x->player, t);
}

static void play_again(struct torture *x, const struct tape *t)
{
	struct played played;
	struct script s;

	if (x->walk) {
		play_walk_again(x, t);
		return;
	}
	script_init(&s, t);
	if (play_script(&s, NULL, x->out, NULL, &played) == 0) {
		x->samples += played.judged;
		add_sum(x, played.judged);
		add_sum(x, played.differ);
		add_sum(x, played.missing);
		for (size_t i = 0; i < ARRAY_SIZE(played.control); i++)
			add_sum(x, played.control[i]);
#define X(field) add_sum(x, played.sums.field);
		OUTLET_SUMS(X)
#undef X
		add_sum(x, played.sums.n_sides);
		add_sum(x, played.sums.side_time);
		add_sum(x, played.sums.side_tid);
		add_sum(x, played.calls);
		add_sum(x, played.pieces);
		add_sum(x, played.others);
		add_sum(x, played.misses);
		for (size_t i = 0; i < ARRAY_SIZE(played.work); i++)
			add_sum(x, played.work[i]);
		add_text(x);
	}
	script_deinit(&s);
}

static size_t count_chunks(const struct tape *t)
{
	struct bytes chunk;
	uint32_t type;
	size_t pos = 0, n = 0;

	while (tape_next(t, &pos, &type, &chunk))
		n++;
	return n;
}

/* Each goes on where the one before ended, which is what its play from the start comes to. */
static void play_prefixes_of_walk(struct torture *x, const struct tape *t)
{
	size_t pos = 0, played = 0;
	struct tape cut = *t;
	struct bytes chunk;
	uint32_t type;

	walk_begin(x->player);
	while (tape_next(t, &pos, &type, &chunk)) {
		for (cut.n = pos - 1; cut.n <= pos; cut.n++, x->rounds++)
			walk_go_on(x->player, &cut, &played);
		if (played < pos - 1)
			abort(); /* a chunk that is whole was not played */
		played = pos;	 /* only padding can be left */
	}
}

static void play_prefixes(struct torture *x, const struct tape *t, size_t most)
{
	size_t every = count_chunks(t) / MAX(most, 1u) + 1, pos = 0, n = 0;
	struct tape cut = *t;
	struct bytes chunk;
	uint32_t type;

	do {
		if (n++ % every)
			continue;
		cut.n = pos;
		play_again(x, &cut);
		cut.n = pos ? pos - 1 : 0;
		play_again(x, &cut);
	} while (tape_next(t, &pos, &type, &chunk));
}

static void torture(const struct tape *t, size_t flips)
{
	struct torture x = { .walk = is_walk(t), .player = walk_player_create(true) };
	struct tape hurt = *t;
	uint64_t seed = 42;
	const char *folder = getenv("TMPDIR");

	snprintf(x.out, sizeof(x.out), "%s/torture-%d.folded", folder ? folder : "/tmp", getpid());
	if (x.walk)
		play_prefixes_of_walk(&x, t);
	else
		play_prefixes(&x, t, flips);
	hurt.data = malloc(t->n + 1);
	for (size_t i = 0; i < flips && t->n; i++) {
		memcpy(hurt.data, t->data, t->n);
		for (size_t k = 0; k < 1 + i % 4; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			hurt.data[(seed >> 20) % t->n] ^= (unsigned char)(1u << (seed >> 61));
		}
		play_again(&x, &hurt);
	}
	free(hurt.data);
	unlink(x.out);
	add_sum(&x, walk_sum(x.player));
	printf("%zu samples, sum %016" PRIx64 "\n", x.samples + x.rounds, x.sum);
	walk_player_destroy(x.player);
}

/* --- the future --- */

static void append(struct tape *t, const void *at, size_t n)
{
	if (n)
		memcpy(t->data + t->n, at, n);
	t->n += n;
}

static void add_chunk(struct tape *t, uint32_t type, struct bytes chunk)
{
	static const uint32_t field[4] = { 0xfffe, 5, 0x5a5a5a5a, 0x5a };
	uint32_t header[2] = { type, (uint32_t)(sizeof(field) + chunk.n) };
	static const unsigned char zeros[8];

	append(t, header, sizeof(header));
	append(t, field, sizeof(field));
	append(t, chunk.at, chunk.n);
	append(t, zeros, -chunk.n & 7);
}

static int print_future(const struct tape *t, const char *files)
{
	struct tape later = { .data = malloc(t->n + 64 * count_chunks(t) + 64) };
	struct bytes chunk;
	uint32_t type;
	size_t pos = 0;
	int code;

	while (tape_next(t, &pos, &type, &chunk)) {
		add_chunk(&later, 60000, (struct bytes){ 0 });
		add_chunk(&later, type, chunk);
	}
	code = print(&later, files);
	tape_deinit(&later);
	return code;
}

/* --- the past --- */

struct field {
	uint16_t tag, zero;
	uint32_t n;
};

/* What a number is where its field is missing, into @ret; as script.c and player.c have it.
 * False: the field is no number, or says of what its chunk is. */
static bool is_number(uint16_t tag, uint64_t *ret)
{
	*ret = 0;
	switch (tag) {
	case TAPE_SLOT_INDEX:
	case TAPE_INDEX:
	case TAPE_WOKE: /* when the drain began */
	case TAPE_HEADS:
	case TAPE_BYTES:
	case TAPE_NAME:
	case TAPE_ATTR:
	case TAPE_CAPTURE:
	case TAPE_ARCH:
	case TAPE_TIDS:
	case TAPE_STATE:
	case TAPE_LAYOUT:
	case TAPE_INNER_TIDS:
	case TAPE_BUILD_ID:
	case TAPE_FILE_ID:
	case TAPE_PROV:
	case TAPE_REGS:
		return false;
	case TAPE_END:
	case TAPE_OVER:
		*ret = UINT64_MAX;
		return true;
	case TAPE_MAX_FRAMES:
		*ret = 1024;
		return true;
	default:
		return true;
	}
}

static bool has_default(const struct field *f, const unsigned char *value)
{
	uint64_t missing;

	return f->n == 8 && is_number(f->tag, &missing) && load_u64(value) == missing;
}

/* The fields of @chunk that have another value than their default; how many have not. */
static size_t append_fields(struct tape *t, struct bytes chunk)
{
	static const unsigned char zeros[8];
	size_t dropped = 0;
	struct field f;

	for (size_t at = 0; chunk.n - at >= sizeof(f);) {
		memcpy(&f, chunk.at + at, sizeof(f));
		at += sizeof(f);
		f.n = (uint32_t)MIN(f.n, chunk.n - at);
		if (has_default(&f, chunk.at + at)) {
			dropped++;
		} else {
			append(t, &f, sizeof(f));
			append(t, chunk.at + at, f.n);
			append(t, zeros, -f.n & 7);
		}
		at += MIN((f.n + 7) & ~7u, chunk.n - at);
	}
	return dropped;
}

static int print_past(const struct tape *t, const char *files)
{
	struct tape earlier = { .data = malloc(2 * t->n + 64) };
	struct bytes chunk;
	uint32_t type;
	size_t pos = 0, dropped = 0;
	int code;

	while (tape_next(t, &pos, &type, &chunk)) {
		size_t begin = earlier.n;
		uint32_t header[2] = { type, 0 };

		append(&earlier, header, sizeof(header));
		dropped += append_fields(&earlier, chunk);
		header[1] = (uint32_t)(earlier.n - begin - sizeof(header));
		memcpy(earlier.data + begin, header, sizeof(header));
	}
	code = dropped ? print(&earlier, files) : 1;
	tape_deinit(&earlier);
	return code;
}

/* --- the files that were mapped --- */

static void print_map(const struct perf_event_header *h)
{
	struct side side;

	if (perf_decode_side(h, &side) == 0 && side.kind == SIDE_MMAP && !side.u.mmap.kernel &&
	    side.u.mmap.prot & PROT_EXEC && side.u.mmap.path && side.u.mmap.path[0] == '/')
		printf("%" PRIu64 "\t%s\n", side.u.mmap.ino, side.u.mmap.path);
}

static void print_ring(const struct script_slot *slot)
{
	const struct perf_event_header *h;

	for (uint64_t at = 0; slot->n_ring - at >= sizeof(*h); at += h->size) {
		h = (const void *)(slot->ring + at);
		if (h->size < sizeof(*h) || h->size > slot->n_ring - at)
			return;
		print_map(h);
	}
}

static int print_maps(const struct tape *t)
{
	struct script s;

	script_init(&s, t);
	for (size_t i = 0; i < s.n_sides; i++)
		if (s.sides[i].n >= sizeof(struct perf_event_header) &&
		    ((const struct perf_event_header *)(const void *)s.sides[i].at)->size ==
			    s.sides[i].n)
			print_map((const void *)s.sides[i].at);
	for (uint32_t i = 0; i < s.n_slots; i++)
		print_ring(&s.slots[i]);
	script_deinit(&s);
	return 0;
}

/* Take option @name from the front of the arguments; with @value its value, too. */
static bool take_option(int *argc, char ***argv, const char *name, const char **value)
{
	int n = value ? 2 : 1;

	if (*argc <= n || strcmp((*argv)[1], name) != 0)
		return false;
	if (value)
		*value = (*argv)[2];
	*argc -= n;
	*argv += n;
	return true;
}

int main(int argc, char **argv)
{
	const char *files = NULL, *flips = NULL;
	bool future, past, maps;
	struct tape t;
	struct err err;
	int code = 0;

	take_option(&argc, &argv, "--files", &files);
	take_option(&argc, &argv, "--torture", &flips);
	future = take_option(&argc, &argv, "--future", NULL);
	past = take_option(&argc, &argv, "--past", NULL);
	maps = take_option(&argc, &argv, "--maps", NULL);
	if (argc != 2)
		return fprintf(stderr, "replay [--files ROOT] [--torture N | --future | "
				       "--past | --maps] "
				       "TAPE\n"),
		       2;
	if (tape_load_file(&t, argv[1], MAX_TAPE, &err) < 0)
		return fprintf(stderr, "%s\n", err.text), 1;
	if (maps)
		code = print_maps(&t);
	else if (flips)
		torture(&t, strtoul(flips, NULL, 10));
	else if (future)
		code = print_future(&t, files);
	else if (past)
		code = print_past(&t, files);
	else
		code = print(&t, files);
	tape_deinit(&t);
	return code;
}
