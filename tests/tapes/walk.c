/* SPDX-License-Identifier: MIT
 *
 * walk - plays a tape of the walk alone (TAPE_WALK_READ, TAPE_WALK): each sample's reads
 * through the same walk, and its stacks as sorted lines "COUNT PROVENANCE frame;frame".
 */
#include "walk.h"
#include "../unit/rmem_image.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "stacks/profile.h"
#include "python/pystack.h"
#include "sample/sample.h"
#include "targets/tape_target.h"

enum { MAX_TARGETS = 64, MAX_CPUS = 64, MAX_READS = 65536 };

/* What one CPU's reader read. A version that reads more is told what was there before: the
 * latest read that holds it answers. */
struct cpu {
	struct pystack *stacks;
	struct walk_player *player;
	struct rmem_chunk reads[MAX_READS];
	size_t n_reads;
	uint32_t index;
};

/* An image, and how it is read. */
struct counted {
	struct rmem base;
	struct rmem_image image;
	uint64_t *calls, *pieces;
};

struct walk_player {
	uint64_t calls, pieces; /* of reads */
	struct target targets[MAX_TARGETS];
	size_t n_targets;
	struct cpu *cpus[MAX_CPUS];
	struct profile *profile;
	char **lines;
	size_t n_lines, cap_lines;
	bool quiet;
	uint64_t sum; /* of all lines then */
};

static bool new_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct cpu *cpu = arg;

	profile_code(cpu->player->profile, id | (uint64_t)(cpu->index + 1) << 48, c,
		     pycode_copy_size(c));
	return true;
}

static struct cpu *cpu_of(struct walk_player *p, uint32_t index)
{
	if (index >= MAX_CPUS)
		return NULL;
	if (!p->cpus[index]) {
		struct cpu *c = calloc(1, sizeof(*c));

		c->stacks = pystack_create(1024, new_code, c);
		c->player = p;
		c->index = index;
		p->cpus[index] = c;
	}
	return p->cpus[index];
}

static void play_target(struct walk_player *p, struct bytes chunk)
{
	if (p->n_targets == MAX_TARGETS)
		return;
	memset(&p->targets[p->n_targets], 0, sizeof(p->targets[0]));
	if (tape_get_target(chunk, &p->targets[p->n_targets]) == 0)
		p->n_targets++;
}

static void play_read(struct walk_player *p, struct bytes chunk)
{
	struct cpu *c = cpu_of(p, (uint32_t)tape_get(chunk, TAPE_SLOT_INDEX, MAX_CPUS));
	uint64_t n = tape_get(chunk, TAPE_N, 0);
	struct bytes b;

	tape_field(chunk, TAPE_BYTES, &b);
	if (!c || (!tape_get(chunk, TAPE_CODE, 0) && b.n != n))
		return;
	if (c->n_reads < MAX_READS)
		c->reads[c->n_reads++] = (struct rmem_chunk){
			.at = tape_get(chunk, TAPE_AT, 0),
			.n = n,
			.bytes = tape_get(chunk, TAPE_CODE, 0) ? NULL : b.at,
		};
}

static void add_line(struct walk_player *p, char *line)
{
	if (p->quiet) {
		p->n_lines++;
		for (const char *at = line; *at; at++)
			p->sum = (p->sum ^ (unsigned char)*at) * 0x100000001b3u;
		free(line);
		return;
	}
	if (p->n_lines == p->cap_lines) {
		p->cap_lines = p->cap_lines ? p->cap_lines * 2 : 256;
		p->lines = realloc(p->lines, p->cap_lines * sizeof(*p->lines));
	}
	p->lines[p->n_lines++] = line;
}

static void print_stack(struct walk_player *p, const struct cpu *c,
			const struct pystack_result *r, const char *what)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	fprintf(f, "%s ", what);
	for (uint32_t i = r->n; i-- > 0;) {
		const struct pyfunc *func;
		int line = 0;

		func = profile_lookup(p->profile,
				      r->frames[i].code_id | (uint64_t)(c->index + 1) << 48,
				      r->frames[i].lasti, &line);
		fprintf(f, "%s%s (%s:%d)", i + 1 < r->n ? ";" : "",
			func ? func->qualname : "?", func ? func->file : "?", line);
	}
	fclose(f);
	add_line(p, text);
}

/* What the walk makes of the reads now must be what it made of them then. */
static const char *agree(const char *prov, const struct pystack_result *r)
{
	if (!strcmp(prov, "nopython") && r->end != PYSTACK_NOPYTHON)
		return "DIFFERS:nopython";
	if ((!strcmp(prov, "exact") || !strcmp(prov, "late")) && r->end != PYSTACK_OK)
		return "DIFFERS:ok";
	return prov;
}

static int counted_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct counted *c = container_of(m, struct counted, base);

	++*c->calls, ++*c->pieces;
	return rmem_read(&c->image.base, at, buf, n);
}

static size_t counted_readv(struct rmem *m, const struct rmem_vec *v, size_t n)
{
	struct counted *c = container_of(m, struct counted, base);

	++*c->calls, *c->pieces += n;
	return rmem_readv(&c->image.base, v, n);
}

static const struct rmem_ops counted_ops = { "counted", counted_read, counted_readv };

static void play_walk(struct walk_player *p, struct bytes chunk)
{
	struct cpu *c = cpu_of(p, (uint32_t)tape_get(chunk, TAPE_SLOT_INDEX, MAX_CPUS));
	const struct pystack_target *t = NULL;
	struct pystack_result r;
	struct counted m = { { &counted_ops }, .calls = &p->calls, .pieces = &p->pieces };
	char prov[16];

	tape_get_text(chunk, TAPE_PROV, prov, sizeof(prov));
	for (size_t i = 0; i < p->n_targets; i++)
		if (p->targets[i].pid == (pid_t)tape_get(chunk, TAPE_PID, 0))
			t = &p->targets[i].py;
	if (!c || !t)
		return;
	rmem_image_init(&m.image, c->reads, c->n_reads);
	r = pystack_read(c->stacks, t, &m.base, (pid_t)tape_get(chunk, TAPE_TID, 0),
			 (pid_t)tape_get(chunk, TAPE_KEY, 0));
	if (!strcmp(prov, "torn"))
		r.n = 0; /* what was thrown away then is not shown now */
	print_stack(p, c, &r, agree(prov, &r));
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void walk_print(struct walk_player *p)
{
	qsort(p->lines, p->n_lines, sizeof(*p->lines), compare);
	for (size_t i = 0, n; i < p->n_lines; i += n) {
		for (n = 1; i + n < p->n_lines && !strcmp(p->lines[i], p->lines[i + n]);)
			n++;
		printf("%zu %s\n", n, p->lines[i]);
	}
	printf("# %" PRIu64 " calls that read %" PRIu64 " pieces\n", p->calls, p->pieces);
}

struct walk_player *walk_player_create(bool quiet)
{
	struct walk_player *p = calloc(1, sizeof(*p));

	p->profile = profile_create();
	p->quiet = quiet;
	return p;
}

void walk_player_destroy(struct walk_player *p)
{
	for (size_t i = 0; !p->quiet && i < p->n_lines; i++)
		free(p->lines[i]);
	free(p->lines);
	for (size_t i = 0; i < MAX_CPUS; i++)
		if (p->cpus[i]) {
			pystack_destroy(p->cpus[i]->stacks);
			free(p->cpus[i]);
		}
	profile_destroy(p->profile);
	free(p);
}

void walk_begin(struct walk_player *p)
{
	for (size_t i = 0; i < MAX_CPUS; i++)
		if (p->cpus[i])
			p->cpus[i]->n_reads = 0; /* they point into the tape before */
	p->n_targets = 0;
}

void walk_go_on(struct walk_player *p, const struct tape *t, size_t *pos)
{
	struct bytes chunk;
	uint32_t type;

	while (tape_next(t, pos, &type, &chunk)) {
		if (type == TAPE_TARGET)
			play_target(p, chunk);
		else if (type == TAPE_WALK_READ)
			play_read(p, chunk);
		else if (type == TAPE_WALK)
			play_walk(p, chunk);
	}
}

uint64_t walk_sum(const struct walk_player *p)
{
	return p->sum ^ p->calls << 24 ^ p->pieces << 44;
}

size_t walk_play(struct walk_player *p, const struct tape *t)
{
	size_t pos = 0;

	walk_begin(p);
	walk_go_on(p, t, &pos);
	return p->n_lines;
}
