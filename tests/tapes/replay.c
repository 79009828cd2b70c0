/* SPDX-License-Identifier: MIT
 *
 * replay - play a tape through the same code that made it, and print its stacks as
 * sorted lines "COUNT PROVENANCE frame;frame". Also the torture: every prefix and
 * random byte flips of the unpacked tape must end cleanly.
 *
 *   replay TAPE              print
 *   replay --torture N TAPE  every prefix and N flips; prints how many stacks came out.
 *                            All prefixes that end inside one record play alike, so one
 *                            is tried for each record, and one at each record's end.
 */
#include <errno.h>
#include <stdio.h>

#include "../provenance.h"
#include "profile.h"
#include "pystack.h"
#include "sample.h"
#include "tape.h"

enum { MAX_TARGETS = 64, MAX_CPUS = 64, MAX_READS = 16384, MAX_TAPE = 256 << 20 };

/* What one CPU's reader read for its current sample. */
struct cpu {
	struct pystack *stacks;
	struct player *player;
	struct rmem_chunk reads[MAX_READS];
	size_t n_reads;
	bool served; /* a verdict has used them: the next READ starts anew */
	uint32_t index;
};

struct player {
	struct pystack_target targets[MAX_TARGETS];
	size_t n_targets;
	struct cpu *cpus[MAX_CPUS];
	struct profile *profile;
	char **lines;
	size_t n_lines, cap_lines;
	bool quiet;
};

static void new_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct cpu *cpu = arg;

	profile_code(cpu->player->profile, id | (uint64_t)(cpu->index + 1) << 48, c,
		     pycode_copy_size(c));
}

static struct cpu *cpu_of(struct player *p, uint32_t index)
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

static void play_target(struct player *p, struct bytes b)
{
	struct pystack_target *t = &p->targets[p->n_targets];
	struct tape_target head;
	struct err err;

	if (b.n < sizeof(head) + sizeof(t->layout) || p->n_targets == MAX_TARGETS)
		return;
	memcpy(&head, b.at, sizeof(head));
	memcpy(&t->layout, b.at + sizeof(head), sizeof(t->layout));
	if (head.layout_size != sizeof(t->layout) || pylayout_check(&t->layout, &err) < 0)
		return;
	t->pid = head.pid;
	pywalk_layout_init(&t->walk, &t->layout, head.runtime);
	p->n_targets++;
}

static void play_read(struct player *p, struct bytes b)
{
	struct tape_read head;
	struct cpu *c;

	if (b.n < sizeof(head))
		return;
	memcpy(&head, b.at, sizeof(head));
	c = cpu_of(p, head.cpu);
	if (!c || (head.ret == 0 && head.n > b.n - sizeof(head)))
		return;
	if (c->served)
		c->n_reads = 0;
	c->served = false;
	if (c->n_reads < MAX_READS)
		c->reads[c->n_reads++] = (struct rmem_chunk){
			.at = head.at,
			.n = head.n,
			.bytes = head.ret == 0 ? b.at + sizeof(head) : NULL,
		};
}

static void add_line(struct player *p, char *line)
{
	if (p->quiet) {
		p->n_lines++;
		free(line);
		return;
	}
	if (p->n_lines == p->cap_lines) {
		p->cap_lines = p->cap_lines ? p->cap_lines * 2 : 256;
		p->lines = realloc(p->lines, p->cap_lines * sizeof(*p->lines));
	}
	p->lines[p->n_lines++] = line;
}

static void print_stack(struct player *p, const struct cpu *c, const struct pystack_result *r,
			const char *what)
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
static const char *agree(const struct tape_verdict *v, const struct pystack_result *r)
{
	if (v->prov == PROV_NOPYTHON && r->end != PYSTACK_NOPYTHON)
		return "DIFFERS:nopython";
	if ((v->prov == PROV_EXACT || v->prov == PROV_LATE) && r->end != PYSTACK_OK)
		return "DIFFERS:ok";
	return v->prov < PROV_N ? provenance_name((enum provenance)v->prov) : "?";
}

static void play_verdict(struct player *p, struct bytes b)
{
	const struct pystack_target *t = NULL;
	struct pystack_result r;
	struct rmem_image image;
	struct tape_verdict v;
	struct cpu *c;

	if (b.n < sizeof(v))
		return;
	memcpy(&v, b.at, sizeof(v));
	c = cpu_of(p, v.cpu);
	for (size_t i = 0; i < p->n_targets; i++)
		if (p->targets[i].pid == v.pid)
			t = &p->targets[i];
	if (!c || !t)
		return;
	rmem_image_init(&image, c->reads, c->n_reads);
	r = pystack_read(c->stacks, t, &image.base, v.tid, v.tid_inner, NULL, NULL);
	c->served = true;
	if (v.prov == PROV_TORN)
		r.n = 0; /* what was thrown away then is not shown now */
	print_stack(p, c, &r, agree(&v, &r));
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print_lines(struct player *p)
{
	qsort(p->lines, p->n_lines, sizeof(*p->lines), compare);
	for (size_t i = 0, n; i < p->n_lines; i += n) {
		for (n = 1; i + n < p->n_lines && !strcmp(p->lines[i], p->lines[i + n]);)
			n++;
		printf("%zu %s\n", n, p->lines[i]);
	}
}

static struct player *player_create(bool quiet)
{
	struct player *p = calloc(1, sizeof(*p));

	p->profile = profile_create();
	p->quiet = quiet;
	return p;
}

static void player_destroy(struct player *p)
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

static void play(struct player *p, const struct tape *t)
{
	enum tape_type type;
	struct bytes body;
	size_t pos = 0;

	while (tape_next(t, &pos, &type, &body)) {
		if (type == TAPE_TARGET)
			play_target(p, body);
		else if (type == TAPE_READ)
			play_read(p, body);
		else if (type == TAPE_VERDICT)
			play_verdict(p, body);
	}
}

/* Play with what is left of the play before: that only makes it wilder. Begun anew now
 * and then, for damaged names pile up. */
static void play_again(struct player **p, size_t *round, const struct tape *t)
{
	size_t stacks = (*p)->n_lines;

	if (++*round % 256 == 0) {
		player_destroy(*p);
		*p = player_create(true);
		(*p)->n_lines = stacks;
	}
	(*p)->n_targets = 0;
	for (size_t i = 0; i < MAX_CPUS; i++)
		if ((*p)->cpus[i])
			(*p)->cpus[i]->n_reads = 0; /* they point into the last tape */
	play(*p, t);
}

static void play_prefixes(struct player **p, size_t *round, const struct tape *t)
{
	struct tape cut = *t;
	enum tape_type type;
	struct bytes body;
	size_t pos = 0;

	do {
		cut.n = pos;
		play_again(p, round, &cut);
		cut.n = pos ? pos - 1 : 0;
		play_again(p, round, &cut);
	} while (tape_next(t, &pos, &type, &body));
}

/* A cut or damaged tape plays to some end. */
static void torture(const struct tape *t, long flips)
{
	struct player *p = player_create(true);
	struct tape hurt = *t;
	uint64_t seed = 42;
	size_t round = 0;

	play_prefixes(&p, &round, t);
	hurt.data = malloc(t->n + 1);
	for (long i = 0; i < flips && t->n; i++) {
		memcpy(hurt.data, t->data, t->n);
		for (int k = 0; k < 1 + i % 4; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			hurt.data[(seed >> 20) % t->n] ^= (unsigned char)(1u << (seed >> 61));
		}
		play_again(&p, &round, &hurt);
	}
	free(hurt.data);
	printf("%zu stacks\n", p->n_lines);
	player_destroy(p);
}

int main(int argc, char **argv)
{
	bool hurt = argc == 4 && !strcmp(argv[1], "--torture");
	struct tape t;
	struct err err;

	if (argc != 2 && !hurt)
		return fprintf(stderr, "replay [--torture N] TAPE\n"), 2;
	if (tape_load_file(&t, argv[argc - 1], MAX_TAPE, &err) < 0)
		return fprintf(stderr, "%s\n", err.text), 1;
	if (hurt) {
		torture(&t, strtol(argv[2], NULL, 10));
	} else {
		struct player *p = player_create(false);

		play(p, &t);
		print_lines(p);
		player_destroy(p);
	}
	tape_deinit(&t);
	return 0;
}
