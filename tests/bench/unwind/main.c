/* SPDX-License-Identifier: MIT
 *
 * unwind_bench PID [SAMPLES [STACK-BYTES [HZ]]]
 *
 * Samples a running program, then unwinds the same samples with our unwinder, libunwind
 * (remote, global cache) and libdwfl: time a stack, whether the
 * frames are the same (nothing guessed), and why our stacks ended.
 */
#include <inttypes.h>
#include <sys/mman.h>

#include "arch/arch.h"
#include "bench.h"
#include "base/clock.h"
#include "modules/space.h"

enum { TRIES = 4, SHOWN = 5, MAX_BYTES = 256 << 20 };

static struct bench_samples samples;
static struct spaces *spaces;
static struct unwinder *unwinder;
static struct unwind_frame frames[MAX_FRAMES];
static struct rmem_live live;

static int read_code(void *arg, uint64_t at, void *buf, size_t n)
{
	return rmem_read(arg, at, buf, n);
}

static struct unwind_stack ours(const struct bench_sample *s, bool guess)
{
	struct unwind_stack stack = { .frame = frames, .cap = MAX_FRAMES };

	unwinder_stack(unwinder, s->pid, &s->regs, &s->mem, guess ? read_code : NULL, &live,
		       &stack);
	return stack;
}

static void feed(pid_t pid, const struct proc_map *m)
{
	struct side side = { .kind = SIDE_MMAP, .pid = pid, .tid = pid };

	side.u.mmap.addr = m->start;
	side.u.mmap.len = m->end - m->start;
	side.u.mmap.pgoff = m->pgoff;
	side.u.mmap.ino = m->ino;
	side.u.mmap.maj = m->maj;
	side.u.mmap.min = m->min;
	side.u.mmap.prot = PROT_READ | PROT_EXEC;
	side.u.mmap.path = m->path[0] ? m->path : "//anon";
	spaces_side(spaces, &side);
}

/* Trampolines that stacks ended in. */
static void give_code(pid_t pid, const struct unwind_stack *s)
{
	size_t n = s->want_hi - s->want_lo;
	_cleanup_free_ unsigned char *code = malloc(n);

	if (code && rmem_read(&live.base, s->want_lo, code, n) == 0)
		unwinder_code(unwinder, pid, s->want_lo, (struct bytes){ code, n });
}

static void warm_up(pid_t pid)
{
	for (size_t i = 0; i < samples.n; i++) {
		struct unwind_stack s;

		while ((s = ours(&samples.s[i], true)).want_hi)
			give_code(pid, &s);
	}
}

/* How long @s takes with its stack bytes in the processor's cache, as they are when they
 * were just copied: the best of a few tries, in us. */
static double time_one(const struct bench_peer *peer, const struct bench_sample *s, size_t *n)
{
	static uint64_t pcs[MAX_FRAMES];
	uint64_t best = UINT64_MAX;
	bool end;

	for (int i = 0; i < TRIES; i++) {
		uint64_t start = now_ns(), t;

		*n = peer ? peer->frames(s, pcs, MAX_FRAMES, &end) : ours(s, true).n;
		t = now_ns() - start;
		best = MIN(best, t);
	}
	return (double)best / 1000;
}

/* The mean of all samples. */
static double time_all(const struct bench_peer *peer, size_t *n_frames)
{
	double sum = 0;
	size_t n;

	*n_frames = 0;
	for (size_t i = 0; i < samples.n; i++) {
		sum += time_one(peer, &samples.s[i], &n);
		*n_frames += n;
	}
	return sum / (double)samples.n;
}

static double time_ours(void)
{
	size_t ends[UNWIND_N_ENDS] = { 0 }, guessed = 0;
	const struct elfcache_facts *f = elfcache_facts(spaces->elfs);
	size_t n;
	double best = time_all(NULL, &n);

	for (size_t i = 0; i < samples.n; i++) {
		struct unwind_stack s = ours(&samples.s[i], true);

		ends[s.end]++;
		guessed += s.frame[s.n - 1].guessed;
	}
	printf("samples %zu, frames a stack %.1f\n", samples.n, (double)n / (double)samples.n);
	printf("files %" PRIu64 ", read in %.1f ms\n", f->read, (double)f->ns / 1e6);
	printf("ours %.3f us a stack, %.1f ns a frame\n", best,
	       best * 1000 * (double)samples.n / (double)n);
	printf("ends:");
	for (int i = 0; i < UNWIND_N_ENDS; i++)
		if (ends[i])
			printf(" %s %.2f %%", unwind_end_name((enum unwind_end)i),
			       100 * (double)ends[i] / (double)samples.n);
	printf("; guessed %zu\n", guessed);
	return best;
}

static void show_difference(const struct bench_sample *s, const struct unwind_stack *a,
			    const uint64_t *pcs, size_t n)
{
	size_t same = 0;

	while (same < MIN(a->n, n) && a->frame[same].pc == pcs[same])
		same++;
	printf("  differs behind frame %zu at %#" PRIx64 ": ours %zu frames, %s; theirs %zu\n",
	       same, a->frame[same ? same - 1 : 0].pc, a->n, unwind_end_name(a->end), n);
}

/* Is @pc in a function that says that it has no caller? libdwfl also calls it an end where a
 * register is missing; of rules unwind_dw_test shows that ours are libdw's. */
static bool is_start(const struct bench_sample *s, uint64_t pc)
{
	struct unwind_regs regs = { .pc = pc,
				    .have = 1 << arch_host->dwarf_sp,
				    .returned = true };
	struct unwind_stack stack = { .frame = frames, .cap = 1 };
	struct unwind_memory nothing = { 0 };

	unwinder_stack(unwinder, s->pid, &regs, &nothing, NULL, NULL, &stack);
	return stack.end == UNWIND_BOTTOM;
}

static void compare(const struct bench_peer *peer, double our_time)
{
	size_t equal = 0, ended = 0, ended_equal = 0, shown;
	static uint64_t pcs[MAX_FRAMES];
	double best = time_all(peer, &shown);
	bool end;

	shown = 0;
	for (size_t i = 0; i < samples.n; i++) {
		size_t n = peer->frames(&samples.s[i], pcs, MAX_FRAMES, &end), k = 0;
		struct unwind_stack s;

		end = end && n && is_start(&samples.s[i], pcs[n - 1]);
		s = ours(&samples.s[i], false);
		while (k < n && k < s.n && s.frame[k].pc == pcs[k])
			k++;
		equal += k == n && k == s.n;
		ended += end;
		ended_equal += end && k == n && k == s.n;
		if (!(k == n && k == s.n) && shown++ < SHOWN)
			show_difference(&samples.s[i], &s, pcs, n);
	}
	printf("%s %.2f us a stack, %.0f times ours; the same frames in %.2f %% of all; it "
	       "came "
	       "to an end in %.2f %%, of those the same %.2f %%\n",
	       peer->name, best, best / our_time, 100 * (double)equal / (double)samples.n,
	       100 * (double)ended / (double)samples.n,
	       ended ? 100 * (double)ended_equal / (double)ended : 0);
}

int main(int argc, char **argv)
{
	static const struct bench_peer *const peers[] = { &bench_libunwind, &bench_dwfl };
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0;
	struct proc_maps maps;
	double our_time;

	if (pid <= 0)
		return fprintf(stderr, "usage: %s PID [SAMPLES [STACK-BYTES [HZ]]]\n", *argv),
		       2;
	if (bench_capture(&samples, pid, argc > 2 ? strtoul(argv[2], NULL, 0) : 2000,
			  argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 0) : 16384,
			  argc > 4 ? strtoul(argv[4], NULL, 0) : 500) < 0 ||
	    proc_maps_read(&maps, pid) < 0 || !samples.n)
		return fprintf(stderr, "%s: %d can't be sampled\n", *argv, pid), 1;
	spaces = spaces_create(MAX_BYTES, SPACES_ROWS);
	unwinder = unwinder_create(spaces);
	rmem_live_init(&live, pid);
	for (size_t i = 0; i < maps.n; i++)
		if (maps.map[i].x)
			feed(pid, &maps.map[i]);
	warm_up(pid);
	our_time = time_ours();
	for (size_t i = 0; i < ARRAY_SIZE(peers); i++) {
		const char *why = peers[i]->begin(pid, &maps);

		if (why)
			printf("%s: %s\n", peers[i]->name, why);
		else
			compare(peers[i], our_time);
		peers[i]->done();
	}
	unwinder_destroy(unwinder);
	spaces_destroy(spaces);
	proc_maps_deinit(&maps);
	bench_samples_free(&samples);
	return 0;
}
